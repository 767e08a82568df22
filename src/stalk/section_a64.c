/* SPDX-License-Identifier: Apache-2.0 */
/* Critical sections of rseq(2), arm64: `adrp reg` and `add reg, reg, #`, or `adr reg`, load a description. */
#include "stalk/section.h"
#include "os/os.h"
#include "stalk/build.h"
#include "stalk/emit_a64.h"
#include "stalk/engine.h"

/* The last word of a load at `address`, and the word before it. Returns how many words the load has; 0: it is none. */
static unsigned find_load(uint64_t address, uint32_t word, uint32_t before, uint64_t *at) {
    struct ct_a64_insn x, page;
    if (ct_a64_decode(word, &x) || (word & 31) == X18)
        return 0;
    if (x.what == CT_A64_ADR) {
        *at = ct_a64_target(&x, address);
        return 1;
    }
    unsigned rn = ct_a64_rn(word);
    if ((word & 0xffc00000) != 0x91000000 || ct_a64_decode(before, &page) || page.what != CT_A64_ADRP ||
        rn != (before & 31))
        return 0;
    *at = ct_a64_target(&page, address - 4) + (word >> 10 & 0xfff);
    return 2;
}

bool ct_section_loads(const struct stalk_build *b, const struct stalk_insn *insn, uint64_t *at, uint64_t *begin) {
    uint32_t before = insn->address > b->block ? ct_a64_word(insn->bytes - 4) : 0;
    unsigned words = find_load(insn->address, insn->a64.word, before, at);
    *begin = insn->address + 4 - words * 4;
    return words;
}

void ct_section_put_load(struct stalk_build *b, const struct stalk_insn *insn, uint64_t description) {
    ct_a64_address(&b->out, insn->a64.word & 31, description);
}

uint64_t ct_section_loaded(uint64_t pc, uint64_t *at) {
    uint32_t words[3];
    if (ct_os_peek(pc - 8, words, sizeof words))
        return 0;
    unsigned count = find_load(pc - 4, words[1], words[0], at);
    if (count)
        return pc - count * 4;
    return find_load(pc, words[2], words[1], at) == 2 ? pc - 4 : 0;
}

/* Another register must not be borrowed: the kernel takes the thread to its abort handler at any instruction. */
bool ct_section_copies(const struct stalk_insn *insn) {
    struct ct_a64_effects effects;
    if (insn->unknown || (insn->a64.what == CT_A64_LITERAL && insn->a64.word & 1 << 26))
        return false;
    ct_a64_effects(&insn->a64, &effects);
    return !((effects.regs_read | effects.regs_written) & 1u << X18);
}

void ct_section_put_branch(struct stalk_build *b, uint32_t patch, uint32_t to) {
    ct_a64_patch(&b->out, patch, word_of_b(patch, to));
}

void ct_section_put_exit(struct ct_code_buf *code, struct stalk_exit *e, uint32_t reason) {
    e->patch = ct_code_here(code);
    ct_a64_b(code, e->patch + 4);
    e->stub = ct_code_here(code);
    save_reg(code, X17);
    put_reason(code, X17, reason);
    ct_a64_b(code, ct_stalk_helper(e->region, ct_stalk_exit));
}
