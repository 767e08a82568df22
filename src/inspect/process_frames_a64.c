/* SPDX-License-Identifier: Apache-2.0 */
/* The stack walk on arm64: registers, and the step out of our own code. Frames of signals have a table (the vdso's). */
#include "inspect/process.h"
#include "hook/runtime.h"
#include <string.h>

/* By their DWARF numbers; a context has sp and pc in the same places (remote/cpu_a64.c). */
enum { DWARF_LR = 30, DWARF_SP = 31, DWARF_PC = 32 };

void ct_walk_load(struct ct_walk *w, const struct ct_remote_cpu *cpu) {
    for (unsigned i = 0; i <= DWARF_PC; i++) {
        memcpy(&w->regs.value[i], cpu->bytes + 8 * i, 8);
        w->regs.known |= UINT64_C(1) << i;
    }
}

/* A step by tables leaves the caller's pc where the return address was, which may be signed. */
uint64_t ct_walk_pc(const struct ct_walk *w) {
    return w->is_return ? ct_frame_plain(w->regs.value[DWARF_LR]) : w->regs.value[DWARF_PC];
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

/* Is this code of ours: the agent's, or in a region of stubs? If not, it is a JIT's. */
static bool is_ours(struct ct_walk *w, const struct ct_walk_entry *e) {
    const struct ct_process_code *code = ct_process_code_at(w->process, w->regs.value[DWARF_PC]);
    uint64_t slow;
    return code && code->anonymous &&
           (e->stub - code->start < code->end - code->start ||
            (ct_walk_word(w, w->block + CT_BLOCK_FN_ENTER, &slow) && slow - code->start < code->end - code->start));
}

/* The thread is in a stub or in the agent: the walk goes on where its innermost frame returns to. Which function the
 * stub is about to call is not known. */
bool ct_walk_step_stub(struct ct_walk *w, struct ct_walk_frame *frame) {
    struct ct_walk_entry e;
    if (w->is_return || !ct_walk_shadow_innermost(w, 0, &e) || !is_ours(w, &e))
        return false;
    frame->is_stub = true;
    frame->function = ct_walk_shadow_function(w, e.stub);
    w->is_return = true;
    w->regs.value[DWARF_SP] = e.slot + 8;
    ct_walk_set_pc(w, ct_walk_shadow_return(w, e.slot, e.stub + CT_AFTER_TO_RESUME));
    return true;
}

bool ct_walk_step_guess(struct ct_walk *w) {
    (void)w;
    return false;
}
