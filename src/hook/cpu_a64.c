/* SPDX-License-Identifier: Apache-2.0 */
/* Portable view of a saved arm64 context: x0 to x30, sp, pc, pstate. */
#include "hook/runtime.h"

enum { LR = 30, SP = 31, PC = 32, REGISTER_ARGUMENTS = 8 };

uint64_t *ct_cpu_argument_place(const struct ct_cpu_context *cpu, unsigned n) {
    uint64_t *words = (uint64_t *)cpu;
    return n < REGISTER_ARGUMENTS ? &words[n] : (uint64_t *)words[SP] + (n - REGISTER_ARGUMENTS);
}

uint64_t ct_cpu_return_value(const struct ct_cpu_context *cpu) {
    return *(const uint64_t *)cpu;
}

void ct_cpu_set_return_value(struct ct_cpu_context *cpu, uint64_t value) {
    *(uint64_t *)cpu = value;
}

uint64_t ct_cpu_pc(const struct ct_cpu_context *cpu) {
    return ((const uint64_t *)cpu)[PC];
}

uint64_t ct_cpu_sp(const struct ct_cpu_context *cpu) {
    return ((const uint64_t *)cpu)[SP];
}

void ct_cpu_set_called(struct ct_cpu_context *cpu, uint64_t function) {
    ((uint64_t *)cpu)[PC] = function;
}

/* The register has the stub's address. */
void ct_cpu_set_returned(struct ct_cpu_context *cpu, uint64_t address) {
    ((uint64_t *)cpu)[PC] = ((uint64_t *)cpu)[LR] = address;
}
