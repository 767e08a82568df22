/* SPDX-License-Identifier: Apache-2.0 */
/* See isa/linkage.h. */
#include "isa/linkage.h"
#include "isa/x64/decode.h"

/* [endbr64] jmp *word(%rip) */
uint64_t ct_linkage_word(const uint8_t *code, size_t size, uint64_t address) {
    struct ct_x64_insn insn;
    struct ct_x64_mem mem;
    for (size_t at = 0; at < size; at += insn.length) {
        if (ct_x64_decode(code + at, size - at, &insn))
            return 0;
        if (insn.kind == CT_INSN_JMP_INDIRECT && ct_x64_memory(&insn, &mem) && mem.base == CT_X64_RIP)
            return address + at + insn.length + (uint64_t)mem.disp;
        if (insn.kind != CT_INSN_NOP && insn.kind != CT_INSN_LANDING)
            return 0;
    }
    return 0;
}

/* [endbr64] push number */
bool ct_linkage_is_unbound(const uint8_t *code, size_t size) {
    struct ct_x64_insn insn;
    for (size_t at = 0; at < size && !ct_x64_decode(code + at, size - at, &insn); at += insn.length)
        if (insn.kind != CT_INSN_LANDING)
            return insn.map == 0 && insn.opcode == 0x68;
    return false;
}
