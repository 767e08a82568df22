/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out what a seccomp filter says to a system call, by interpreting its program. Pure: bytes in, answer out.
 *
 * Only the number and the architecture of the call are known. A program that reads more (arguments, address of the
 * call) on the way to its answer may answer anything, so it counts as one that forbids. */
#include "remote/filter_program.h"
#include "isa/machine.h"

#include <stddef.h>
#include <linux/seccomp.h>

struct machine {
    uint32_t a, x, memory[BPF_MEMWORDS];
    bool a_known, x_known, known[BPF_MEMWORDS];
};

static void load_word(struct machine *m, uint32_t offset, uint32_t number) {
    m->a_known = true;
    if (offset == offsetof(struct seccomp_data, nr))
        m->a = number;
    else if (offset == offsetof(struct seccomp_data, arch))
        m->a = ct_machine_audit(ct_machine_host());
    else
        m->a_known = false;
}

/* False: an instruction that filters do not have. */
static bool step_data(struct machine *m, const struct sock_filter *f, uint32_t number) {
    switch (f->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        load_word(m, f->k, number);
        return true;
    case BPF_LD | BPF_IMM:
        m->a = f->k;
        m->a_known = true;
        return true;
    case BPF_ALU | BPF_AND | BPF_K:
        m->a &= f->k;
        return true;
    case BPF_MISC | BPF_TAX:
        m->x = m->a;
        m->x_known = m->a_known;
        return true;
    case BPF_MISC | BPF_TXA:
        m->a = m->x;
        m->a_known = m->x_known;
        return true;
    case BPF_ST:
    case BPF_LD | BPF_MEM:
        if (f->k >= BPF_MEMWORDS)
            return false;
        if (f->code == BPF_ST) {
            m->memory[f->k] = m->a;
            m->known[f->k] = m->a_known;
        } else {
            m->a = m->memory[f->k];
            m->a_known = m->known[f->k];
        }
        return true;
    default:
        return false;
    }
}

/* False: not a jump, or its target is unknown. */
static bool step_jump(const struct machine *m, const struct sock_filter *f, size_t *at) {
    uint32_t other = BPF_SRC(f->code) == BPF_X ? m->x : f->k;
    bool taken;
    if (BPF_CLASS(f->code) != BPF_JMP)
        return false;
    if (BPF_OP(f->code) == BPF_JA) {
        *at += f->k;
        return true;
    }
    if (!m->a_known || (BPF_SRC(f->code) == BPF_X && !m->x_known))
        return false;
    switch (BPF_OP(f->code)) {
    case BPF_JEQ:
        taken = m->a == other;
        break;
    case BPF_JGT:
        taken = m->a > other;
        break;
    case BPF_JGE:
        taken = m->a >= other;
        break;
    case BPF_JSET:
        taken = m->a & other;
        break;
    default:
        return false;
    }
    *at += taken ? f->jt : f->jf;
    return true;
}

/* Jumps go forward only, so this ends. */
bool ct_filter_allows(const struct sock_filter *program, size_t count, uint32_t number) {
    struct machine m = {0};
    for (size_t at = 0; at < count; at++) {
        const struct sock_filter *f = &program[at];
        if (f->code == (BPF_RET | BPF_K))
            return (f->k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ALLOW ||
                   (f->k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_LOG;
        if (!step_jump(&m, f, &at) && (BPF_CLASS(f->code) == BPF_JMP || !step_data(&m, f, number)))
            return false;
    }
    return false;
}
