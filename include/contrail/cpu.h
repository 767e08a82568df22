/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a thread as listeners, probes and callouts see it. Changes take effect when the callback returns; hooks
 * ignore changes of pc and sp.
 *
 * Portable code uses the functions; code for one instruction set may use its struct. */
#ifndef CONTRAIL_CPU_H
#define CONTRAIL_CPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct ct_cpu_context; /* one of the structs below, by the instruction set of the build */

/* x86_64. Registers in hardware numbering: rax rcx rdx rbx rsp rbp rsi rdi r8..r15.
 * `vector` is an XSAVE image in standard form: x87 and xmm are in its first 512 bytes, ymm and zmm at the offsets that
 * CPUID leaf 0xd reports. NULL: the callback was entered without saving them. */
struct ct_cpu_x64 {
    uint64_t gpr[16];
    uint64_t pc;
    uint64_t flags;
    void *vector;
};

/* arm64. `vector` is what was saved of the vector registers; NULL: the callback was entered without saving them. */
struct ct_cpu_a64 {
    uint64_t x[29]; /* x0 to x28 */
    uint64_t fp, lr, sp, pc;
    uint64_t nzcv; /* bits 31 to 28 */
    struct ct_vectors_a64 *vector;
};
struct ct_vectors_a64 {
    uint8_t q[32][16]; /* q0 to q31 */
    uint64_t fpsr, fpcr;
};

/* The n-th integer argument (0-based), from registers and then the stack. Valid in on_call. */
uint64_t ct_cpu_argument(const struct ct_cpu_context *cpu, unsigned n);
void ct_cpu_set_argument(struct ct_cpu_context *cpu, unsigned n, uint64_t value);

/* The integer return value. Valid in on_return. */
uint64_t ct_cpu_return_value(const struct ct_cpu_context *cpu);
void ct_cpu_set_return_value(struct ct_cpu_context *cpu, uint64_t value);

/* In on_call: pc is the function's entry, sp points to the return address (arm64: it is in lr).
 * In on_return: pc is the return address, sp is what the caller will see. */
uint64_t ct_cpu_pc(const struct ct_cpu_context *cpu);
uint64_t ct_cpu_sp(const struct ct_cpu_context *cpu);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
