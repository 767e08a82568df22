/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of x86_64, for guesses: see target_guess.h. */
#include "isa/x64/decode.h"
#include "plan/target_guess.h"

static bool is_branch(unsigned kind) {
    return kind == CT_INSN_JMP || kind == CT_INSN_JCC || kind == CT_INSN_LOOP || kind == CT_INSN_CALL ||
           kind == CT_INSN_XBEGIN;
}

/* lea REG, [rip + x]; mov REG, x */
static uint64_t loaded_address(const struct ct_x64_insn *insn, uint64_t address) {
    if (insn->encoding != CT_X64_LEGACY || insn->map)
        return 0;
    if (insn->opcode == 0x8d && insn->rip_relative)
        return ct_x64_rip_address(insn, address);
    bool immediate = (insn->opcode & 0xf8) == 0xb8 || (insn->opcode == 0xc7 && insn->modrm >> 6 == 3);
    return immediate && insn->imm_size == 4 ? (uint32_t)insn->imm : 0;
}

bool ct_guess_decode(const uint8_t *bytes, size_t size, uint64_t address, struct ct_guess_insn *out) {
    struct ct_x64_insn insn;
    if (ct_x64_decode(bytes, size, &insn))
        return false;
    *out = (struct ct_guess_insn){.length = insn.length, .kind = insn.kind};
    if (is_branch(insn.kind))
        out->target = ct_x64_target(&insn, address);
    else
        out->names = loaded_address(&insn, address);
    return true;
}
