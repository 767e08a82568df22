/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what our A64 decoder says about a word with objdump's line. Registers, flags and kind are worked out from
 * objdump's text, by rules that know nothing of our table. */
#ifndef CT_TESTS_DIFF_COMPARE_A64_H
#define CT_TESTS_DIFF_COMPARE_A64_H

#include "isa/a64/decode.h"

enum a64_verdict {
    A64_SAME,
    A64_KNOWN,   /* the oracle is known to be wrong here, or takes words that no processor does */
    A64_NO_TEXT, /* all else is the same, but ours has no text (.inst) */
    A64_VALIDITY,
    A64_TEXT,
    A64_KIND,
    A64_REGS_READ,
    A64_REGS_WRITTEN,
    A64_FLAGS,
    A64_MEMORY,
    A64_VERDICTS,
};
extern const char *const a64_verdict_names[A64_VERDICTS];

/* `text` is objdump's, without comments, tabs as spaces; ".inst" when it knows no instruction. */
enum a64_verdict a64_compare(uint32_t word, uint64_t address, const char *text);

#endif
