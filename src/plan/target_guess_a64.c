/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of arm64, for guesses: see target_guess.h. */
#include "isa/a64/decode.h"
#include "plan/target_guess.h"

enum { LENGTH = 4 };

/* adr; adrp and the add that follows it. An adrp alone names a page. */
static uint64_t loaded_address(const struct ct_a64_insn *insn, const uint8_t *next, size_t size, uint64_t address) {
    uint64_t page = ct_a64_target(insn, address);
    if (insn->what == CT_A64_ADR)
        return page;
    if (insn->what != CT_A64_ADRP || size < LENGTH)
        return 0;
    uint32_t word = ct_a64_word(next);
    bool adds = (word & 0xffc00000) == 0x91000000 && ct_a64_rn(word) == ct_a64_rt(insn->word);
    return adds ? page + (word >> 10 & 0xfff) : 0;
}

bool ct_guess_decode(const uint8_t *bytes, size_t size, uint64_t address, struct ct_guess_insn *out) {
    struct ct_a64_insn insn;
    if (size < LENGTH || ct_a64_decode(ct_a64_word(bytes), &insn))
        return false;
    *out = (struct ct_guess_insn){.length = LENGTH, .kind = insn.kind};
    if (ct_a64_is_direct(&insn))
        out->target = ct_a64_target(&insn, address);
    else
        out->names = loaded_address(&insn, bytes + LENGTH, size - LENGTH, address);
    return true;
}
