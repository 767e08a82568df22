/* SPDX-License-Identifier: Apache-2.0 */
/* The text of instructions of any machine whose text is ours. */
#ifndef CT_ISA_TEXT_H
#define CT_ISA_TEXT_H

#include "isa/machine.h"
#include <stddef.h>

#define CT_INSN_TEXT_MAX 96

/* True when ct_insn_text knows the machine's instructions. */
bool ct_insn_has_text(const struct ct_machine *machine);
/* Writes the text of the instruction at `address` whose bytes these are; returns its length in bytes, 0 when it is
 * none. */
size_t ct_insn_text(const struct ct_machine *machine, const uint8_t *bytes, size_t size, uint64_t address,
                    char text[CT_INSN_TEXT_MAX]);

#endif
