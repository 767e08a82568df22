/* SPDX-License-Identifier: Apache-2.0 */
/* The stack walk on arm64: no step yet that unwind tables do not describe. */
#include "inspect/process.h"
#include <string.h>

/* By their DWARF numbers; a context has sp and pc in the same places (remote/cpu_a64.c). */
enum { DWARF_LR = 30, DWARF_SP = 31, DWARF_PC = 32 };

void ct_walk_load(struct ct_walk *w, const struct ct_remote_cpu *cpu) {
    for (unsigned i = 0; i <= DWARF_PC; i++) {
        memcpy(&w->regs.value[i], cpu->bytes + 8 * i, 8);
        w->regs.known |= UINT64_C(1) << i;
    }
}

/* A step by tables leaves the caller's pc where the return address was. */
uint64_t ct_walk_pc(const struct ct_walk *w) {
    return w->regs.value[w->is_return ? DWARF_LR : DWARF_PC];
}

uint64_t ct_walk_sp(const struct ct_walk *w) {
    return w->regs.value[DWARF_SP];
}

void ct_walk_set_pc(struct ct_walk *w, uint64_t pc) {
    w->regs.value[w->is_return ? DWARF_LR : DWARF_PC] = pc;
}

bool ct_walk_step_signal(struct ct_walk *w) {
    (void)w;
    return false;
}

bool ct_walk_step_stub(struct ct_walk *w, struct ct_walk_frame *frame) {
    (void)w, (void)frame;
    return false;
}

bool ct_walk_step_guess(struct ct_walk *w) {
    (void)w;
    return false;
}
