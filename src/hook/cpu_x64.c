/* SPDX-License-Identifier: Apache-2.0 */
/* Portable view of a saved x86_64 context: System V calling convention. */
#include "hook/runtime.h"
#include "isa/x64/decode.h"

static const uint8_t argument_registers[6] = {CT_X64_RDI, CT_X64_RSI, CT_X64_RDX, CT_X64_RCX, CT_X64_R8, CT_X64_R9};

uint64_t *ct_cpu_argument_place(const struct ct_cpu_context *cpu, unsigned n) {
    struct ct_cpu_x64 *c = (struct ct_cpu_x64 *)cpu;
    if (n < sizeof argument_registers)
        return &c->gpr[argument_registers[n]];
    return (uint64_t *)c->gpr[CT_X64_RSP] + 1 + (n - sizeof argument_registers);
}

uint64_t ct_cpu_return_value(const struct ct_cpu_context *cpu) {
    return ((const struct ct_cpu_x64 *)cpu)->gpr[CT_X64_RAX];
}

void ct_cpu_set_return_value(struct ct_cpu_context *cpu, uint64_t value) {
    ((struct ct_cpu_x64 *)cpu)->gpr[CT_X64_RAX] = value;
}

uint64_t ct_cpu_pc(const struct ct_cpu_context *cpu) {
    return ((const struct ct_cpu_x64 *)cpu)->pc;
}

uint64_t ct_cpu_sp(const struct ct_cpu_context *cpu) {
    return ((const struct ct_cpu_x64 *)cpu)->gpr[CT_X64_RSP];
}

void ct_cpu_set_called(struct ct_cpu_context *cpu, uint64_t function) {
    ((struct ct_cpu_x64 *)cpu)->pc = function;
}

void ct_cpu_set_returned(struct ct_cpu_context *cpu, uint64_t address) {
    ((struct ct_cpu_x64 *)cpu)->pc = address;
}
