/* SPDX-License-Identifier: Apache-2.0 */
/* Exclusive accesses as one unit, arm64 (unit_a64.h). Owner: the holder of the Stalker's lock. */
#include "stalk/unit_a64.h"
#include "stalk/cache.h"
#include "stalk/emit_a64.h"
#include "stalk/translate.h"

enum { LONGEST_UNIT = 32, NO_REGISTER = STALK_NO_UNIT_REGISTER };

struct unit {
    uint64_t end; /* 0: there is no store */
    uint32_t registers;
    unsigned branches;
    bool renamable; /* each instruction that names x18 can name another register */
};

static void add_registers(struct unit *u, const struct stalk_insn *insn) {
    struct ct_a64_effects effects = {0, 0, false, false, false, false};
    uint32_t word;
    if (!insn->unknown)
        ct_a64_effects(&insn->a64, &effects);
    uint32_t registers = effects.regs_read | effects.regs_written;
    u->registers |= registers;
    if (insn->unknown || (registers & 1u << X18 && !ct_a64_rename(&insn->a64, X18, X17, &word)))
        u->renamable = false;
}

/* Looks at the unit that begins at b->pc. */
static struct unit look(const struct stalk_build *b) {
    struct unit u = {0, 0, 0, true};
    struct stalk_build at;
    struct stalk_insn insn;
    at.start = b->start;
    at.limit = b->limit;
    at.shadow_size = 0; /* only the flow matters: the original is good enough */
    at.pc = b->pc;
    for (unsigned i = 0; i <= LONGEST_UNIT && !ct_lower_decode(&at, &insn); i++, at.pc += 4) {
        enum stalk_flow flow = ct_lower_flow(&insn);
        add_registers(&u, &insn);
        u.branches += flow == FLOW_BRANCH;
        if (insn.a64.what == CT_A64_STORE_EXCLUSIVE) {
            u.end = at.pc + 4;
            break;
        }
        if ((flow != FLOW_NEXT && flow != FLOW_BRANCH) || (i && insn.a64.what == CT_A64_LOAD_EXCLUSIVE) ||
            insn.a64.kind == CT_INSN_SYSCALL)
            break;
    }
    return u;
}

uint64_t ct_unit_end_from(const struct stalk_build *b) {
    return look(b).end;
}

/* A register that the unit does not use, of those that no literal load treats differently. */
static unsigned free_register(const struct unit *u) {
    for (unsigned r = X18; r-- > 0;)
        if (!(u->registers & 1u << r))
            return r;
    return NO_REGISTER;
}

/* A fragment has one unit whose x18 is elsewhere. Units do not begin where they would be cut. A transformer decides
 * itself what comes after which instruction, so its blocks are left as they are. */
static bool fits(const struct stalk_build *b, const struct unit *u, bool renamed) {
    return b->insns == 0 ||
           (b->insns + LONGEST_UNIT < STALK_MAX_INSNS && b->exit_count + u->branches + 4 < STALK_MAX_EXITS &&
            !(renamed && b->unit_register != NO_REGISTER));
}

bool ct_unit_begin(struct stalk_build *b) {
    struct unit u = look(b);
    bool transformed = b->cache->transformer.transform != NULL;
    bool renamed = !transformed && u.end && u.registers & 1u << X18 && u.renamable && free_register(&u) != NO_REGISTER;
    if (!transformed && !fits(b, &u, renamed))
        return false;
    b->unit_end = u.end;
    if (!renamed)
        return true;
    b->unit_register = (uint8_t)free_register(&u);
    save_reg(&b->out, b->unit_register);
    ct_a64_ldr(&b->out, b->unit_register, X18, 8 * X18);
    ct_build_piece(b, 0);
    b->unit_from = b->out.length;
    b->unit_to = 0;
    return true;
}

/* Within a unit that has a register for x18? */
static bool has_register(const struct stalk_build *b) {
    return b->unit_register != NO_REGISTER && !b->unit_to;
}

const struct stalk_insn *ct_unit_insn(const struct stalk_build *b, const struct stalk_insn *insn,
                                      struct stalk_insn *renamed) {
    struct ct_a64_effects effects;
    uint32_t word;
    if (!has_register(b))
        return insn;
    ct_a64_effects(&insn->a64, &effects);
    if (!((effects.regs_read | effects.regs_written) & 1u << X18))
        return insn;
    *renamed = *insn;
    (void)ct_a64_rename(&insn->a64, X18, b->unit_register, &word);
    (void)ct_a64_decode(word, &renamed->a64);
    return renamed;
}

void ct_unit_leave(struct stalk_build *b) {
    if (!has_register(b))
        return;
    ct_a64_str(&b->out, b->unit_register, X18, 8 * X18);
    load_reg(&b->out, b->unit_register);
}

void ct_unit_end(struct stalk_build *b, const struct stalk_insn *insn) {
    if (insn->address + 4 != b->unit_end || !has_register(b))
        return;
    size_t to = b->out.length;
    ct_unit_leave(b);
    ct_build_piece(b, 0);
    b->unit_to = to;
}
