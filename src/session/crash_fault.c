/* SPDX-License-Identifier: Apache-2.0 */
/* See crash_fault.h. The memory of the target may contain anything: at worst it has other registers when it dies. */
#include "session/crash_fault.h"
#include "hook/fault.h"

enum { STUB_STACK = 1024 };

static bool read_data(void *process, uint64_t at, void *to, size_t size) {
    return !ct_remote_read(((struct ct_process *)process)->remote, at, to, size);
}

static bool read_code(void *process, uint64_t at, void *to, size_t size) {
    const struct ct_process_code *code = ct_process_code_at(process, at);
    return code && code->anonymous && read_data(process, at, to, size);
}

static bool is_fault(const struct ct_remote_signal *s) {
    return s->code > 0 && s->signal < 32 && CT_FAULT_SIGNALS >> s->signal & 1;
}

static bool open_world(struct ct_process *process, const struct ct_registers *regs, struct ct_fault_world *world) {
    uint64_t runtime, block = ct_process_refresh(process) ? 0 : ct_process_block(process, regs);
    *world = (struct ct_fault_world){.code = read_code, .data = read_data, .arg = process, .block = block};
    return block && read_data(process, block + offsetof(struct ct_block, runtime), &runtime, sizeof runtime) &&
           read_data(process, runtime + offsetof(struct ct_runtime, hooks), &world->hooks, sizeof world->hooks);
}

static bool is_stack_end(const struct ct_remote_signal *s, const struct ct_fault_state *state) {
    uint64_t sp = ct_fault_sp(state);
    return s->fault_address < sp && sp - s->fault_address < STUB_STACK;
}

enum ct_remote_verdict ct_crash_fault_judge(struct ct_process *process, struct ct_remote_signal *s) {
    struct ct_cpu_context *cpu = ct_remote_cpu_context(&s->thread.cpu);
    struct ct_fault_world world;
    struct ct_fault_state state;
    ct_fault_load(cpu, &state);
    uint64_t pc = state.pc;
    if (!is_fault(s) || !open_world(process, &s->thread.regs, &world))
        return CT_REMOTE_SIGNAL_AS_IS;
    enum ct_fault_place place = ct_fault_recover(&world, &state);
    bool ours = (place == CT_FAULT_ENTERING || place == CT_FAULT_LEAVING) && is_stack_end(s, &state);
    if (!ours && place != CT_FAULT_MOVED)
        return CT_REMOTE_SIGNAL_AS_IS;
    if (ours && place == CT_FAULT_ENTERING)
        state.pc = ct_fault_unrecorded(&state); /* not recorded: the same as the agent does */
    if (s->fault_address == pc)
        s->fault_address = state.pc;
    ct_fault_store(&state, cpu);
    if (ours)
        return CT_REMOTE_SIGNAL_DROPPED;
    return s->handled ? CT_REMOTE_SIGNAL_SHOWN : CT_REMOTE_SIGNAL_CHANGED;
}
