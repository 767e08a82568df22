/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the relocator's files: one instruction that is being moved. */
#ifndef CT_ISA_X64_RELOCATE_INTERNAL_H
#define CT_ISA_X64_RELOCATE_INTERNAL_H

#include "isa/x64/encode.h"

struct ct_x64_move {
    struct ct_code_buf *out;
    const uint8_t *bytes; /* of the original */
    const struct ct_x64_insn *insn;
    uint64_t from; /* address of the original */
};

/* True when a prefix makes the operand 16 bits wide. */
static inline bool ct_x64_narrow(const struct ct_x64_insn *insn) {
    return (insn->prefixes & CT_X64_OPSIZE) && !(insn->rex & 8);
}

/* Copies fs and gs prefixes before an access that replaces the original's. */
void ct_x64_copy_segment(const struct ct_x64_move *m);

/* True when the RIP-relative operand can be reached from here and from every place up to `ahead` bytes and one
 * instruction further on. With a 67 prefix the address is 32 bits wide and wraps, so every place reaches it. */
bool ct_x64_in_reach(const struct ct_x64_move *m, size_t ahead);

/* Copies any instruction but direct branches, calls and syscall, and adapts its RIP-relative operand. */
int ct_x64_move_plain(const struct ct_x64_move *m);

#endif
