/* SPDX-License-Identifier: Apache-2.0 */
/* All general registers of a stopped thread on arm64: struct ct_registers_a64 and struct ct_cpu_a64 begin alike. */
#include "remote/remote_internal.h"
#include "os/linux/registers_a64.h"
#include <string.h>

enum { REGISTERS = 34, PC = 32, CALL_NUMBER = 8 }; /* x0 to x30, sp, pc, pstate */
enum { SVC = 0xd4000001u };

struct ct_cpu_context *ct_remote_cpu_context(struct ct_remote_cpu *cpu) {
    return (struct ct_cpu_context *)cpu;
}

size_t ct_remote_cpu_list(const struct ct_remote_cpu *cpu, uint64_t registers[CT_REMOTE_CPU_WORDS]) {
    memcpy(registers, cpu->bytes, REGISTERS * 8);
    return REGISTERS;
}

void ct_remote_cpu_show(const struct ct_registers *regs, struct ct_remote_cpu *cpu) {
    memset(cpu, 0, sizeof *cpu);
    memcpy(cpu->bytes, regs->words, REGISTERS * 8);
}

bool ct_remote_call_number(const struct ct_remote *remote, const struct ct_registers *regs, uint64_t *number) {
    uint32_t word = 0;
    *number = ct_registers_to_a64(regs)->x[CALL_NUMBER];
    return !ct_remote_read(remote, ct_registers_pc(regs), &word, sizeof word) && word == SVC;
}

bool ct_remote_cpu_differ(const struct ct_remote_cpu *a, const struct ct_remote_cpu *b) {
    return memcmp(a->bytes, b->bytes, REGISTERS * 8) != 0;
}

void ct_remote_cpu_put(const struct ct_remote_cpu *cpu, struct ct_registers *regs) {
    memcpy(regs->words, cpu->bytes, REGISTERS * 8);
}

void ct_remote_cpu_change(const struct ct_remote_cpu *before, const struct ct_remote_cpu *cpu,
                          struct ct_registers *regs) {
    uint64_t was[REGISTERS], now[REGISTERS];
    memcpy(was, before->bytes, sizeof was);
    memcpy(now, cpu->bytes, sizeof now);
    for (unsigned i = 0; i < REGISTERS; i++)
        if (was[i] != now[i])
            regs->words[i] = now[i];
    if (was[0] != now[0] || was[PC] != now[PC])
        ct_registers_cancel_call(regs); /* no call is repeated without being shown */
}
