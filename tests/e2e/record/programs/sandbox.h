/* SPDX-License-Identifier: Apache-2.0 */
/* A filter that kills the process on any system call but a few. */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define SANDBOX_ALLOW(number)                                                                                          \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* read, write, exit, exit_group, rt_sigreturn */
INLINE int sandbox(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        SANDBOX_ALLOW(SYS_read),
        SANDBOX_ALLOW(SYS_write),
        SANDBOX_ALLOW(SYS_exit),
        SANDBOX_ALLOW(SYS_exit_group),
        SANDBOX_ALLOW(SYS_rt_sigreturn),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#endif
