/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread on Linux, for any machine: signals, time. */
#include "os/thread.h"
#include "os/os.h"
#include "syscall.h"

#define SIG_BLOCK_   0
#define SIG_SETMASK_ 2

static bool silent;

void ct_os_go_silent(void) {
    silent = true;
}

bool ct_os_is_silent(void) {
    return silent;
}

uint64_t ct_os_block_signals(void) {
    uint64_t all = ~0ull, old = 0;
    if (silent)
        return 0;
    (void)syscall4(__NR_rt_sigprocmask, SIG_BLOCK_, &all, &old, 8);
    return old;
}

void ct_os_restore_signals(uint64_t mask) {
    if (!silent)
        (void)syscall4(__NR_rt_sigprocmask, SIG_SETMASK_, &mask, 0, 8);
}

int ct_os_signal_action(int signal, const struct ct_os_action *action, struct ct_os_action *old) {
    return syscall4(__NR_rt_sigaction, signal, action, old, 8) ? CT_ERR_SYSTEM : CT_OK;
}

void ct_os_signal_again(int signal, const void *info) {
    (void)syscall4(__NR_rt_tgsigqueueinfo, ct_os_getpid(), ct_os_gettid(), signal, info);
}

bool ct_os_on_signal_stack(uint64_t *low, uint64_t *high) {
    struct {
        uint64_t sp;
        int32_t flags;
        uint64_t size;
    } stack = {0};
    if (silent || syscall2(__NR_sigaltstack, 0, &stack) || !(stack.flags & 1)) /* SS_ONSTACK */
        return false;
    *low = stack.sp;
    *high = stack.sp + stack.size;
    return true;
}

uint64_t ct_os_nanoseconds(void) {
    struct __kernel_timespec now = {0};
    (void)syscall2(__NR_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
