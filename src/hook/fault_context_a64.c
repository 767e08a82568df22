/* SPDX-License-Identifier: Apache-2.0 */
/* Signal frames, arm64: see fault.h. No state. */
#include "hook/fault.h"

enum { SP = 31, STUB_STACK = 2048, INFO = 128 };

/* The kernel's struct ucontext, as far as it matters. */
struct ct_fault_context {
    uint64_t flags, link, stack[3], mask;
    uint64_t unused[16];
    uint64_t fault_address;
    uint64_t x[31], sp, pc, pstate;
};

void ct_fault_context_load(const struct ct_fault_context *c, struct ct_fault_state *state) {
    for (unsigned i = 0; i < SP; i++)
        state->gpr[i] = c->x[i];
    state->gpr[SP] = c->sp;
    state->pc = c->pc;
    state->flags = c->pstate;
    state->stub = 0;
}

void ct_fault_context_store(struct ct_fault_context *c, const struct ct_fault_state *state) {
    for (unsigned i = 0; i < SP; i++)
        c->x[i] = state->gpr[i];
    c->sp = state->gpr[SP];
    c->pc = state->pc;
    c->pstate = state->flags;
}

uint64_t *ct_fault_context_pc(struct ct_fault_context *c) {
    return &c->pc;
}

/* The handler's stack pointer is the start of the frame: siginfo, then this. */
struct ct_fault_context *ct_fault_context_at(uint64_t slot) {
    return (struct ct_fault_context *)(slot + 8 + INFO);
}

/* The kernel reports the address for faults of memory only; else it is 0, or an older one. */
bool ct_fault_is_stack_end(const struct ct_fault_context *c, const struct ct_fault_state *s) {
    return c->fault_address < s->gpr[SP] && s->gpr[SP] - c->fault_address < STUB_STACK;
}
