/* SPDX-License-Identifier: Apache-2.0 */
/* Where code of x86_64 calls and jumps to. */
#include "isa/x64/decode.h"
#include "symbols/branches.h"

void ct_branches_each_x64(const uint8_t *bytes, size_t size, uint64_t address, ct_branch_sink *each, void *arg) {
    struct ct_x64_insn insn;
    for (size_t at = 0; at < size && !ct_x64_decode(bytes + at, size - at, &insn); at += insn.length)
        if (insn.kind == CT_INSN_CALL || insn.kind == CT_INSN_JMP || insn.kind == CT_INSN_JCC)
            each(arg, ct_x64_target(&insn, address + at));
}
