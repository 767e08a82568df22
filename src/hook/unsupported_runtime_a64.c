/* SPDX-License-Identifier: Apache-2.0 */
/* What hooked calls need on arm64 and do not have yet: faults in stubs. */
#include "abi/boot_abi.h"
#include "hook/fault.h"

enum { SP = 31, PC = 32, PSTATE = 33 }; /* in a context: see cpu_a64.c */

/* ---- fault.h ---- */

struct ct_boot_faults ct_fault_table;

enum ct_fault_place ct_fault_recover(const struct ct_fault_world *world, struct ct_fault_state *state) {
    (void)world, (void)state;
    return CT_FAULT_ELSEWHERE;
}

void ct_fault_load(const struct ct_cpu_context *cpu, struct ct_fault_state *state) {
    const uint64_t *words = (const uint64_t *)cpu;
    for (unsigned i = 0; i < CT_FRAME_REGISTERS; i++)
        state->gpr[i] = words[i];
    state->pc = words[PC];
    state->flags = words[PSTATE];
    state->stub = 0;
}

void ct_fault_store(const struct ct_fault_state *state, struct ct_cpu_context *cpu) {
    uint64_t *words = (uint64_t *)cpu;
    for (unsigned i = 0; i < CT_FRAME_REGISTERS; i++)
        words[i] = state->gpr[i];
    words[PC] = state->pc;
    words[PSTATE] = state->flags;
}

uint64_t ct_fault_sp(const struct ct_fault_state *state) {
    return state->gpr[SP];
}

uint64_t ct_fault_unrecorded(const struct ct_fault_state *state) {
    return state->stub + CT_STUB_BODY;
}

void ct_fault_take(struct ct_runtime *rt) {
    (void)rt;
}

void ct_fault_sigaction(bool own_table, uint64_t signal, uint64_t *new_action, uint64_t *old_action) {
    (void)own_table, (void)signal, (void)new_action, (void)old_action;
}
