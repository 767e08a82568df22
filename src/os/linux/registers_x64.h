/* SPDX-License-Identifier: Apache-2.0 */
/* The words of struct ct_registers on x86_64. Only for files of this machine. */
#ifndef CT_OS_LINUX_REGISTERS_X64_H
#define CT_OS_LINUX_REGISTERS_X64_H

#include "os/registers.h"

/* The kernel's struct user_regs_struct. */
struct ct_registers_x64 {
    uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax;
    uint64_t rip, cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs;
} __attribute__((may_alias));

_Static_assert(sizeof(struct ct_registers_x64) <= sizeof(struct ct_registers), "the words fit");

static inline struct ct_registers_x64 *ct_registers_as_x64(struct ct_registers *r) {
    return (struct ct_registers_x64 *)r;
}

static inline const struct ct_registers_x64 *ct_registers_to_x64(const struct ct_registers *r) {
    return (const struct ct_registers_x64 *)r;
}

#endif
