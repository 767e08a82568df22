/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the few instructions of __errno_location on arm64. See errno_place.h. */
#include "isa/a64/decode.h"
#include "plan/errno_place.h"

enum { INSTRUCTIONS = 12, ZERO = 31 };

/* `number`, plus the thread pointer as often as `pointers` says. */
struct value {
    int64_t number;
    int pointers;
    bool known;
};

struct state {
    struct value x[32]; /* the last is zero, or sp: that one is not followed */
    ct_errno_reader *read;
    void *arg;
};

static bool is_form(uint32_t word, uint32_t mask, uint32_t form) {
    return (word & mask) == form;
}

/* ldr xt, [xn, #imm] */
static bool load(const struct state *s, uint32_t word, struct value *out) {
    const struct value *base = &s->x[ct_a64_rn(word)];
    uint64_t loaded;
    if (!base->known || base->pointers || ct_a64_rn(word) == ZERO ||
        !s->read(s->arg, (uint64_t)base->number + (word >> 10 & 0xfff) * 8, &loaded))
        return false;
    *out = (struct value){(int64_t)loaded, 0, true};
    return true;
}

/* add and sub of a number, add of a register, mov of either. */
static bool compute(const struct state *s, uint32_t word, struct value *out) {
    const struct value *n = &s->x[ct_a64_rn(word)], *m = &s->x[word >> 16 & 31];
    int64_t number = (int64_t)(word >> 10 & 0xfff) << (word & 1u << 22 ? 12 : 0);
    if (is_form(word, 0xff800000, 0x91000000) && ct_a64_rn(word) != ZERO)
        *out = (struct value){n->number + number, n->pointers, n->known};
    else if (is_form(word, 0xff800000, 0xd1000000) && ct_a64_rn(word) != ZERO)
        *out = (struct value){n->number - number, n->pointers, n->known};
    else if (is_form(word, 0xffe0fc00, 0x8b000000))
        *out = (struct value){n->number + m->number, n->pointers + m->pointers, n->known && m->known};
    else if (is_form(word, 0xffe0ffe0, 0xaa0003e0))
        *out = *m;
    else if (is_form(word, 0xffe00000, 0xd2800000)) /* movz, not shifted */
        *out = (struct value){(int64_t)(word >> 5 & 0xffff), 0, true};
    else
        return false;
    return out->known;
}

/* True: the instruction is understood. */
static bool apply(struct state *s, const struct ct_a64_insn *i, uint64_t address) {
    struct value value;
    if (is_form(i->word, 0xfffff01f, 0xd503201f)) /* hints: landing pads, signatures */
        return true;
    if (i->what == CT_A64_ADRP || i->what == CT_A64_ADR)
        value = (struct value){(int64_t)ct_a64_target(i, address), 0, true};
    else if (i->what == CT_A64_READ_TP)
        value = (struct value){0, 1, true};
    else if (is_form(i->word, 0xffc00000, 0xf9400000) ? !load(s, i->word, &value) : !compute(s, i->word, &value))
        return false;
    if (ct_a64_rt(i->word) == ZERO)
        return false;
    s->x[ct_a64_rt(i->word)] = value;
    return true;
}

int64_t ct_errno_follow(const uint8_t *code, size_t size, uint64_t address, ct_errno_reader *read, void *arg) {
    struct state s = {.x = {[ZERO] = {.known = true}}, .read = read, .arg = arg};
    struct ct_a64_insn i;
    for (size_t at = 0; at + 4 <= size && at < INSTRUCTIONS * 4; at += 4) {
        if (ct_a64_decode(ct_a64_word(code + at), &i))
            return 0;
        if (i.kind == CT_INSN_RET)
            return s.x[0].pointers == 1 && s.x[0].known ? s.x[0].number : 0;
        if (!apply(&s, &i, address + at))
            return 0;
    }
    return 0;
}
