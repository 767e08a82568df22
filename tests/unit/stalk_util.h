/* SPDX-License-Identifier: Apache-2.0 */
/* What the Stalker's tests have in common: work whose answer is known, and where a place in code belongs. */
#ifndef STALK_UTIL_H
#define STALK_UTIL_H

#include <contrail/stalker.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "stalk_code.h"

#if defined __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

static inline unsigned long mix(unsigned long x) {
    for (int i = 0; i < 50; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (x & 1)
            x += 3;
    }
    return x;
}

NOINLINE __attribute__((unused)) static unsigned long deep(unsigned long n, unsigned long x) {
    return n ? deep(n - 1, x * 3 + n) + 1 : x;
}

__attribute__((unused)) static unsigned long (*volatile indirect)(unsigned long) = mix;

/* Direct, indirect and deep calls, the C library. */
__attribute__((unused)) static unsigned long work(int rounds) {
    unsigned long h = 1;
    char text[64];
    for (int i = 0; i < rounds; i++) {
        h = indirect(h);
        h ^= deep(20, h);
        snprintf(text, sizeof text, "%lx", h);
        h += (unsigned long)text[3];
    }
    return h;
}

__attribute__((unused)) static void ignore_signal(int signal) {
    (void)signal;
}

/* struct sigaction of the kernel, which nobody changes on the way. */
__attribute__((unused)) static uint64_t handler_of(int signal) {
    uint64_t action[4] = {0};
    assert_int_equal(syscall(SYS_rt_sigaction, signal, NULL, action, 8), 0);
    return action[0];
}

/* A Stalker whose threads have ended, or are about to: pthread_join may be faster than their last steps. */
__attribute__((unused)) static void destroy_soon(struct ct_stalker *stalker) {
    int status = CT_ERR_BUSY;
    for (int i = 0; i < 60000 && (status = ct_stalker_destroy(stalker)) == CT_ERR_BUSY; i++)
        usleep(1000);
    assert_int_equal(status, 0);
}

/* Registers in the context of a signal handler. */
#if defined __x86_64__
static inline uint64_t *context_pc(void *context) {
    return (uint64_t *)&((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}
static inline uint64_t *context_sp(void *context) {
    return (uint64_t *)&((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
}
static inline uint64_t *context_result(void *context) { /* of a function */
    return (uint64_t *)&((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX];
}
static inline uint64_t *context_scratch(void *context) { /* our code uses it */
    return (uint64_t *)&((ucontext_t *)context)->uc_mcontext.gregs[REG_RCX];
}
#else
static inline uint64_t *context_result(void *context) {
    return (uint64_t *)&((ucontext_t *)context)->uc_mcontext.regs[0];
}
static inline uint64_t *context_scratch(void *context) {
    return (uint64_t *)&((ucontext_t *)context)->uc_mcontext.regs[16];
}
static inline uint64_t *context_pc(void *context) {
    return (uint64_t *)&((ucontext_t *)context)->uc_mcontext.pc;
}
static inline uint64_t *context_sp(void *context) {
    return (uint64_t *)&((ucontext_t *)context)->uc_mcontext.sp;
}
#endif

/* Does the handler's context hold a place of the program? All its code lies in files, or in the vdso; translated code
 * does not. */
static inline bool tells_program(void *context) {
    Dl_info where;
    uint64_t pc = *context_pc(context);
    return pc - getauxval(AT_SYSINFO_EHDR) < 0x4000 || dladdr((void *)pc, &where);
}

#endif
