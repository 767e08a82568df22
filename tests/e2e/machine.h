/* SPDX-License-Identifier: Apache-2.0 */
/* What machines call differently, for test programs. */
#ifndef E2E_MACHINE_H
#define E2E_MACHINE_H
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Registers in a signal frame; lvalues. */
#ifdef __x86_64__
#define CONTEXT_PC(context)       (((ucontext_t *)(context))->uc_mcontext.gregs[REG_RIP])
#define CONTEXT_SP(context)       (((ucontext_t *)(context))->uc_mcontext.gregs[REG_RSP])
#define CONTEXT_ARGUMENT(context) (((ucontext_t *)(context))->uc_mcontext.gregs[REG_RDI])
#define CONTEXT_RESULT(context)   (((ucontext_t *)(context))->uc_mcontext.gregs[REG_RAX])
#else
#define CONTEXT_PC(context)       (((ucontext_t *)(context))->uc_mcontext.pc)
#define CONTEXT_SP(context)       (((ucontext_t *)(context))->uc_mcontext.sp)
#define CONTEXT_ARGUMENT(context) (((ucontext_t *)(context))->uc_mcontext.regs[0])
#define CONTEXT_RESULT(context)   (((ucontext_t *)(context))->uc_mcontext.regs[0])
#endif

/* A fork that libc knows nothing of. */
static inline pid_t raw_fork(void) {
#ifdef SYS_fork
    return (pid_t)syscall(SYS_fork);
#else
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}
#endif
