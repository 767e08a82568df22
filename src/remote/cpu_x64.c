/* SPDX-License-Identifier: Apache-2.0 */
/* All general registers of a stopped thread on x86_64.
 *
 * A thread whose system call was interrupted is after the instruction, with a code in rax that makes the kernel issue
 * the call again (os/linux/registers_x64.c). The registers are shown as they will be when the call is made. As long as
 * neither pc nor rax is changed, the kernel repeats the call; otherwise the thread continues exactly as the changed
 * registers say. */
#include "remote/cpu_x64.h"
#include "remote/remote_internal.h"
#include "os/linux/registers_x64.h"
#include <stddef.h>

enum { RAX = 0, REGISTERS = 16 };

#define PLACE(name) (offsetof(struct ct_registers_x64, name) / sizeof(uint64_t))
static const uint8_t places[REGISTERS] = {PLACE(rax), PLACE(rcx), PLACE(rdx), PLACE(rbx), PLACE(rsp), PLACE(rbp),
                                          PLACE(rsi), PLACE(rdi), PLACE(r8),  PLACE(r9),  PLACE(r10), PLACE(r11),
                                          PLACE(r12), PLACE(r13), PLACE(r14), PLACE(r15)};

struct ct_cpu_context *ct_remote_cpu_context(struct ct_remote_cpu *cpu) {
    return (struct ct_cpu_context *)cpu;
}

size_t ct_remote_cpu_list(const struct ct_remote_cpu *cpu, uint64_t registers[CT_REMOTE_CPU_WORDS]) {
    const struct ct_cpu_x64 *x64 = ct_remote_cpu_to_x64(cpu);
    for (unsigned i = 0; i < REGISTERS; i++)
        registers[i] = x64->gpr[i];
    registers[REGISTERS] = x64->pc;
    registers[REGISTERS + 1] = x64->flags;
    return REGISTERS + 2;
}

void ct_remote_cpu_show(const struct ct_registers *regs, struct ct_remote_cpu *cpu) {
    struct ct_cpu_x64 *x64 = ct_remote_cpu_as_x64(cpu);
    *cpu = (struct ct_remote_cpu){0};
    for (unsigned i = 0; i < REGISTERS; i++)
        x64->gpr[i] = regs->words[places[i]];
    x64->pc = ct_registers_pc(regs);
    x64->flags = ct_registers_to_x64(regs)->eflags;
    if (ct_registers_call_size(regs))
        x64->gpr[RAX] = ct_registers_to_x64(regs)->orig_rax;
}

bool ct_remote_call_number(const struct ct_remote *remote, const struct ct_registers *regs, uint64_t *number) {
    (void)remote;
    *number = ct_registers_to_x64(regs)->orig_rax;
    return ct_registers_call_size(regs) != 0;
}

bool ct_remote_cpu_differ(const struct ct_remote_cpu *a, const struct ct_remote_cpu *b) {
    const struct ct_cpu_x64 *x = ct_remote_cpu_to_x64(a), *y = ct_remote_cpu_to_x64(b);
    bool differ = x->flags != y->flags || x->pc != y->pc;
    for (unsigned i = 0; i < REGISTERS; i++)
        differ |= x->gpr[i] != y->gpr[i];
    return differ;
}

void ct_remote_cpu_put(const struct ct_remote_cpu *cpu, struct ct_registers *regs) {
    const struct ct_cpu_x64 *x64 = ct_remote_cpu_to_x64(cpu);
    for (unsigned i = 0; i < REGISTERS; i++)
        regs->words[places[i]] = x64->gpr[i];
    ct_registers_as_x64(regs)->rip = x64->pc;
    ct_registers_as_x64(regs)->eflags = x64->flags;
}

void ct_remote_cpu_change(const struct ct_remote_cpu *before, const struct ct_remote_cpu *cpu,
                          struct ct_registers *regs) {
    const struct ct_cpu_x64 *was = ct_remote_cpu_to_x64(before), *now = ct_remote_cpu_to_x64(cpu);
    for (unsigned i = 0; i < REGISTERS; i++)
        if (was->gpr[i] != now->gpr[i])
            regs->words[places[i]] = now->gpr[i];
    if (was->flags != now->flags)
        ct_registers_as_x64(regs)->eflags = now->flags;
    if (was->pc != now->pc || was->gpr[RAX] != now->gpr[RAX]) {
        ct_registers_cancel_call(regs); /* no call is repeated that was not shown */
        ct_registers_set_pc(regs, now->pc);
        ct_registers_as_x64(regs)->rax = now->gpr[RAX];
    }
}
