/* SPDX-License-Identifier: Apache-2.0 */
/* The words of struct ct_registers on arm64. For files of this machine alone. */
#ifndef CT_OS_LINUX_REGISTERS_A64_H
#define CT_OS_LINUX_REGISTERS_A64_H

#include "os/registers.h"

struct ct_registers_a64 {
    uint64_t x[31], sp, pc, pstate; /* the kernel's struct user_pt_regs */
    uint64_t tpidr;
    uint64_t block; /* the word at tpidr + CT_BLOCK_WORD_A64; 0 when there is no thread pointer */
    uint64_t call;  /* number of the system call, while the thread is in one; UINT64_MAX: it is in none */
} __attribute__((may_alias));

enum { CT_BLOCK_WORD_A64 = 8 };

_Static_assert(sizeof(struct ct_registers_a64) <= sizeof(struct ct_registers), "the words fit");

static inline struct ct_registers_a64 *ct_registers_as_a64(struct ct_registers *r) {
    return (struct ct_registers_a64 *)r;
}

static inline const struct ct_registers_a64 *ct_registers_to_a64(const struct ct_registers *r) {
    return (const struct ct_registers_a64 *)r;
}

#endif
