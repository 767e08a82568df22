/* thread_N/code.ctc: the blocks that a followed thread has executed, and what was translated on its way (docs/TRACE-FORMAT.md).
 *
 * A header, then records. A record begins with a number of seven bits a byte, the lowest first; its two lowest bits are the kind. */
#ifndef CT_ABI_CODE_H
#define CT_ABI_CODE_H

#include <stdint.h>

#define CT_CODE_FILE    "code.ctc"
#define CT_CODE_MAGIC   0x31435443u /* "CTC1" */
#define CT_CODE_VERSION 1u

struct ct_code_header {
    uint32_t magic, version;
    uint32_t thread_id;
    uint32_t events; /* what was asked for: enum ct_stalker_event_kind */
    uint64_t reserved[2];
};
_Static_assert(sizeof(struct ct_code_header) == 32, "header");

/* Upper bits of the first number, and what follows. Signed numbers are zigzag. */
enum ct_code_kind {
    CT_CODE_BLOCK, /* number of a block: it was executed */
    CT_CODE_PART,  /* the same, left in the middle; instructions that were executed */
    CT_CODE_DEFINE, /* size; module, offset less the one before (signed), instructions, length of each in a byte. It is the next block */
    CT_CODE_OTHER, /* three bits: enum ct_code_other; a value */
};
enum ct_code_other {
    CT_CODE_POSITION, /* so many more events are in the thread's index */
    CT_CODE_TIME,     /* so many nanoseconds later, the first time since 0 */
    CT_CODE_COMPILE,  /* size of a block that was translated; module, offset less the one before (signed) */
    CT_CODE_GAP,      /* blocks that are missing */
    CT_CODE_END, /* 0; blocks, translations, missing blocks: how many; CRC-32 of all before this record, four bytes */
};
#define CT_CODE_INSNS 4096u /* a block has fewer */

#endif
