/* SPDX-License-Identifier: Apache-2.0 */
/* x86_64: the system call instruction, and values that the kernel fixes per architecture. */
#ifndef CT_OS_LINUX_SYSCALL_X64_H
#define CT_OS_LINUX_SYSCALL_X64_H

#include <asm/unistd.h>
#include <stdint.h>

#define CT_PAGE_SIZE     4096u
#define CT_ADDRESS_LIMIT 0x7ffffffff000ull /* for programs that do not ask for 57-bit addresses */
#define CT_MAP_LOW       0x40              /* MAP_32BIT */

static inline long syscall6(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* clone with a stack of its own: the child runs run(arg) there and never returns here. The child uses nothing of this
 * function's frame: `run` and `arg` are in registers, which the kernel copies. */
static inline long clone_onto(unsigned long flags, void *stack_top, int *tid, void (*run)(void *), void *arg) {
    register long r10 __asm__("r10") = (long)tid; /* child tid; parent tid is rdx */
    register long r8 __asm__("r8") = 0;
    register long r12 __asm__("r12") = (long)run;
    register long r13 __asm__("r13") = (long)arg;
    long result;
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%ebp, %%ebp\n\t"
                     "movq %%r13, %%rdi\n\t"
                     "andq $-16, %%rsp\n\t"
                     "callq *%%r12\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(result)
                     : "a"((long)__NR_clone), "D"(flags), "S"(stack_top), "d"(tid), "r"(r10), "r"(r8), "r"(r12),
                       "r"(r13)
                     : "rcx", "r11", "memory", "cc");
    return result;
}

#endif
