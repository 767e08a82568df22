/* SPDX-License-Identifier: Apache-2.0 */
/* thread_N/code.ctc: the blocks that a followed thread has executed, and what was translated for it
 * (docs/TRACE-FORMAT.md).
 *
 * A header, then records. A record begins with a number, seven bits a byte, the lowest bits first; the two lowest bits
 * of the number are the record's kind. */
#ifndef CT_ABI_CODE_H
#define CT_ABI_CODE_H

#include <stdint.h>

#define CT_CODE_FILE    "code.ctc"
#define CT_CODE_MAGIC   0x31435443u /* "CTC1" */
#define CT_CODE_VERSION 1u

struct ct_code_header {
    uint32_t magic, version;
    uint32_t thread_id;
    uint32_t events; /* the events that were asked for: enum ct_stalker_event_kind */
    uint64_t reserved[2];
};
_Static_assert(sizeof(struct ct_code_header) == 32, "header");

/* The upper bits of the first number, and what follows it. Signed numbers are zigzag. */
enum ct_code_kind {
    CT_CODE_BLOCK, /* number of a block that was executed */
    CT_CODE_PART,  /* as BLOCK, but the block was left in the middle; the number of instructions that were executed */
    /* Defines the next block. Size; module, offset minus the previous one (signed), number of instructions, length of
     * each in a byte. */
    CT_CODE_DEFINE,
    CT_CODE_OTHER, /* three bits: enum ct_code_other; a value */
};
enum ct_code_other {
    CT_CODE_POSITION, /* this many more events are in the thread's index */
    CT_CODE_TIME,     /* this many nanoseconds later; the first time: since 0 */
    CT_CODE_COMPILE,  /* size of a block that was translated; module, offset minus the previous one (signed) */
    CT_CODE_GAP,      /* number of blocks that are missing */
    /* 0; number of blocks, of translations, of missing blocks; CRC-32 of everything before this record, four bytes */
    CT_CODE_END,
};
#define CT_CODE_INSNS 4096u /* a block has fewer instructions */

#endif
