/* SPDX-License-Identifier: Apache-2.0 */
/* The text of instructions in a module's file. Of machines whose text is not ours, Zydis formats them: it is loaded
 * when it is needed first, and everything else works without it. Any thread. */
#ifndef CT_REPORT_DISASM_H
#define CT_REPORT_DISASM_H

#include "isa/text.h"
#include "symbols/reader.h"

/* What is missing for the text of this machine's instructions, with where to get it: the object of "needs". NULL:
 * nothing. */
const char *ct_disasm_missing(const struct ct_machine *machine);

/* As ct_insn_text, for any machine; 0 also while something is missing. */
size_t ct_disasm_text(const struct ct_machine *machine, const uint8_t *bytes, size_t size, uint64_t address,
                      char text[CT_INSN_TEXT_MAX]);

#endif
