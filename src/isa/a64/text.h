/* SPDX-License-Identifier: Apache-2.0 */
/* The text of A64 instructions, as assemblers take it. */
#ifndef CT_ISA_A64_TEXT_H
#define CT_ISA_A64_TEXT_H

#include "isa/a64/decode.h"

#define CT_A64_TEXT_MAX 80

/* Writes the text of a decoded instruction that is at `address`, cut to `size` with its terminating zero. */
void ct_a64_text(const struct ct_a64_insn *insn, uint64_t address, char *text, size_t size);

#endif
