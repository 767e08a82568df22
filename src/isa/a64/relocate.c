/* SPDX-License-Identifier: Apache-2.0 */
/* The relocator. Two rules hold for every emitted sequence: no instruction of ours changes a flag, and what is saved is
 * above sp at any instruction boundary. */
#include "isa/a64/relocate.h"

#include "contrail/status.h"
#include "isa/a64/encode.h"

struct move {
    struct ct_code_buf *out;
    const struct ct_a64_insn *insn;
    uint64_t from;
    unsigned scratch;
};

/* Bits of the distance that a direct branch holds. */
static unsigned reach_of(uint32_t word) {
    if ((word & 0x7c000000) == 0x14000000)
        return CT_A64_REACH_B;
    return (word & 0x7e000000) == 0x36000000 ? CT_A64_REACH_TBZ : CT_A64_REACH_COND;
}

/* The branch on the opposite: b.cond and bc.cond have it in bit 0, cbz and tbz in bit 24. */
static uint32_t opposite(uint32_t word) {
    return word ^ ((word & 0xff000000) == 0x54000000 ? 1u : 1u << 24);
}

/* b.al and b.nv always branch. */
static bool always_branches(uint32_t word) {
    return (word & 0xff00000e) == 0x5400000e;
}

static int move_jump(const struct move *m, uint64_t target) {
    bool near = ct_a64_reaches(ct_code_here(m->out), target, CT_A64_REACH_B);
    if (!near && m->scratch == CT_A64_NO_SCRATCH)
        return CT_ERR_UNSUPPORTED;
    ct_a64_jump(m->out, m->scratch, target);
    return 0;
}

/* In reach as it is, or the opposite branch over a jump. */
static int move_conditional(const struct move *m, uint64_t target) {
    struct ct_code_buf *out = m->out;
    uint32_t word = m->insn->word;
    unsigned bits = reach_of(word);
    uint32_t near = ct_a64_redirect(word, ct_code_here(out), target, bits);
    if (near) {
        ct_a64_put(out, near);
        return 0;
    }
    if (always_branches(word))
        return move_jump(m, target);
    size_t over = out->length;
    ct_a64_put(out, 0);
    int rc = move_jump(m, target);
    ct_a64_patch(out, over, ct_a64_redirect(opposite(word), over, out->length, bits));
    return rc;
}

/* A call changes x17 where it needs a register: a linker's veneer may do so too. */
static void move_call(const struct move *m, uint64_t target) {
    ct_a64_address(m->out, CT_A64_LR, m->from + 4);
    ct_a64_jump(m->out, CT_A64_X17, target);
}

/* blr, blraa and the others become br, braa after x30 has been set. From text that is not guarded, as copies are, br is
 * accepted by the landing pads that accept blr. */
static int move_call_indirect(const struct move *m) {
    uint32_t word = m->insn->word & ~(UINT32_C(1) << 21);
    bool modified = word & UINT32_C(1) << 24; /* blraa, blrab: a second operand */
    unsigned target = ct_a64_rn(word), modifier = modified ? ct_a64_rt(word) : CT_A64_ZR;
    if (target == CT_A64_LR || modifier == CT_A64_LR) {
        if (target == CT_A64_X17 || modifier == CT_A64_X17 || target == modifier)
            return CT_ERR_UNSUPPORTED;
        ct_a64_mov(m->out, CT_A64_X17, CT_A64_LR);
        unsigned field = target == CT_A64_LR ? 5 : 0;
        word = (word & ~(UINT32_C(31) << field)) | UINT32_C(17) << field;
    }
    ct_a64_address(m->out, CT_A64_LR, m->from + 4);
    ct_a64_put(m->out, word);
    return 0;
}

static void move_address(const struct move *m) {
    unsigned reg = ct_a64_rt(m->insn->word);
    if (reg == CT_A64_ZR)
        ct_a64_nop(m->out);
    else
        ct_a64_address(m->out, reg, ct_a64_target(m->insn, m->from));
}

/* The load of [base] that does what a literal load of the same register does. */
static uint32_t load_from(uint32_t literal, unsigned base) {
    static const uint32_t general[4] = {0xb9400000, 0xf9400000, 0xb9800000, 0xf9800000}; /* ldr w, x, ldrsw, prfm */
    static const uint32_t vector[3] = {0xbd400000, 0xfd400000, 0x3dc00000};              /* ldr s, d, q */
    uint32_t word = literal & 1u << 26 ? vector[literal >> 30] : general[literal >> 30];
    return word | base << 5 | ct_a64_rt(literal);
}

static void move_literal(const struct move *m) {
    struct ct_code_buf *out = m->out;
    uint32_t word = m->insn->word;
    uint64_t target = ct_a64_target(m->insn, m->from);
    uint32_t near = ct_a64_redirect(word, ct_code_here(out), target, CT_A64_REACH_COND);
    if (near) {
        ct_a64_put(out, near);
        return;
    }
    bool through_itself = (word & 0x3f000000) == 0x18000000 && word >> 30 != 3 && ct_a64_rt(word) != CT_A64_ZR;
    unsigned base = through_itself ? ct_a64_rt(word) : m->scratch;
    bool spill = base == CT_A64_NO_SCRATCH;
    if (spill) {
        base = CT_A64_X16;
        ct_a64_push(out, base);
    }
    ct_a64_address(out, base, target);
    ct_a64_put(out, load_from(word, base));
    if (spill)
        ct_a64_pop(out, base);
}

static int move_one(const struct move *m) {
    uint64_t target = ct_a64_target(m->insn, m->from);
    switch (m->insn->kind) {
    case CT_INSN_JMP:
        return move_jump(m, target);
    case CT_INSN_JCC:
    case CT_INSN_LOOP:
        return move_conditional(m, target);
    case CT_INSN_CALL:
        move_call(m, target);
        return 0;
    case CT_INSN_CALL_INDIRECT:
        return move_call_indirect(m);
    default:
        break;
    }
    if (m->insn->what == CT_A64_ADR || m->insn->what == CT_A64_ADRP)
        move_address(m);
    else if (m->insn->what == CT_A64_LITERAL)
        move_literal(m);
    else
        ct_a64_put(m->out, m->insn->word);
    return 0;
}

/* Ends every move: all or nothing. */
static int finish_move(struct ct_code_buf *out, size_t start, int rc) {
    if (!rc && out->overflow)
        rc = CT_ERR_NO_SPACE;
    if (rc)
        out->length = start;
    return rc;
}

int ct_a64_relocate(struct ct_code_buf *out, const struct ct_a64_insn *insn, uint64_t from, unsigned scratch) {
    size_t start = out->length;
    struct move m = {out, insn, from, scratch};
    return finish_move(out, start, move_one(&m));
}

/* ---- ranges ---- */

/* A branch into the range: its index + 1 there, 0 when it leads out. */
static unsigned index_inside(const struct ct_a64_insn *insn, uint64_t at, uint64_t from, size_t count) {
    uint64_t offset = ct_a64_target(insn, at) - from;
    if (!ct_a64_is_direct(insn) || offset >= 4 * count || (offset == 0 && insn->kind == CT_INSN_CALL))
        return 0;
    return (unsigned)(offset / 4) + 1;
}

/* Every copy is shorter than the reach of any branch, so one word each is enough. A call sets x30 first. */
static void emit_inside(const struct move *m) {
    bool call = m->insn->kind == CT_INSN_CALL;
    if (call)
        ct_a64_address(m->out, CT_A64_LR, m->from + 4);
    ct_a64_put(m->out, call ? 0x14000000 : m->insn->word);
}

static void fix_branch(struct ct_code_buf *out, size_t start, size_t at, size_t to) {
    uint32_t word = ct_a64_word(out->bytes + at);
    ct_a64_patch(out, at, ct_a64_redirect(word, at, start + to, reach_of(word)));
}

int ct_a64_relocate_range(struct ct_code_buf *out, const uint8_t *bytes, size_t count, uint64_t from, unsigned scratch,
                          struct ct_a64_moved *moved) {
    struct ct_a64_moved unused;
    struct ct_a64_insn insn = {0};
    unsigned inside[CT_A64_RANGE_MAX];
    size_t start = out->length, branch_at[CT_A64_RANGE_MAX];
    int rc = count > CT_A64_RANGE_MAX ? CT_ERR_NO_SPACE : 0;
    if (!moved)
        moved = &unused;
    moved->count = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        rc = ct_a64_decode(ct_a64_word(bytes + 4 * i), &insn);
        bool call = insn.kind == CT_INSN_CALL || insn.kind == CT_INSN_CALL_INDIRECT;
        if (rc || (call && i + 1 < count)) {
            rc = rc ? rc : CT_ERR_UNSUPPORTED;
            break;
        }
        struct move m = {out, &insn, from + 4 * i, scratch};
        moved->to[moved->count++] = (uint16_t)(out->length - start);
        inside[i] = index_inside(&insn, m.from, from, count);
        if (inside[i])
            emit_inside(&m);
        else
            rc = move_one(&m);
        branch_at[i] = out->length - 4;
    }
    if (!rc && (!count || ct_a64_copy_continues(&insn))) {
        struct move m = {out, &insn, from, scratch};
        rc = move_jump(&m, from + 4 * count);
    }
    rc = finish_move(out, start, rc);
    for (size_t i = 0; i < count && !rc; i++)
        if (inside[i])
            fix_branch(out, start, branch_at[i], moved->to[inside[i] - 1]);
    return rc;
}
