/* SPDX-License-Identifier: Apache-2.0 */
/* arm64: the system call instruction and what the kernel fixes per architecture. */
#ifndef CT_OS_LINUX_SYSCALL_A64_H
#define CT_OS_LINUX_SYSCALL_A64_H

#include <asm/unistd.h>
#include <stdint.h>

#define CT_PAGE_SIZE     4096u              /* of most kernels: others are not supported */
#define CT_ADDRESS_LIMIT 0x1000000000000ull /* of programs that do not ask for 52-bit addresses */
#define CT_MAP_LOW       0                  /* no instruction has addresses of 31 bits */

static inline long syscall6(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

/* clone with a stack of its own: the child runs run(arg) there and never comes back here. Nothing of this function's
 * frame is used by the child: `run` and `arg` travel in registers, which the kernel copies. */
static inline long clone_onto(unsigned long flags, void *stack_top, int *tid, void (*run)(void *), void *arg) {
    register long x8 __asm__("x8") = __NR_clone;
    register long x0 __asm__("x0") = (long)flags;
    register long x1 __asm__("x1") = (long)stack_top & -16;
    register long x2 __asm__("x2") = (long)tid; /* parent tid; child tid is x4 */
    register long x3 __asm__("x3") = 0;
    register long x4 __asm__("x4") = (long)tid;
    register long x9 __asm__("x9") = (long)run;
    register long x10 __asm__("x10") = (long)arg;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x30, xzr\n\t"
                     "mov x0, x10\n\t"
                     "blr x9\n\t"
                     "brk #1\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x9), "r"(x10)
                     : "memory");
    return x0;
}

#endif
