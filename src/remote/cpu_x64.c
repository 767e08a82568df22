/* All general registers of a stopped thread on x86_64, through ptrace: the calling thread is the one that stopped it.
 *
 * A thread whose system call was interrupted stands behind the instruction, with a code in rax that tells the kernel to
 * make the call again (os/linux/registers_x64.c). What is shown is the state in which it will be made. As long as neither
 * pc nor rax is changed, it stays the kernel's affair; else the thread goes on exactly as the changed registers say. */
#include "remote/remote.h"
#include <contrail/status.h>
#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>

enum { RAX = 0, FIRST_RESTART = 512, LAST_RESTART = 516, CALL_SIZE = 2 };

static const size_t places[16] = {
    offsetof(struct user_regs_struct, rax), offsetof(struct user_regs_struct, rcx),
    offsetof(struct user_regs_struct, rdx), offsetof(struct user_regs_struct, rbx),
    offsetof(struct user_regs_struct, rsp), offsetof(struct user_regs_struct, rbp),
    offsetof(struct user_regs_struct, rsi), offsetof(struct user_regs_struct, rdi),
    offsetof(struct user_regs_struct, r8),  offsetof(struct user_regs_struct, r9),
    offsetof(struct user_regs_struct, r10), offsetof(struct user_regs_struct, r11),
    offsetof(struct user_regs_struct, r12), offsetof(struct user_regs_struct, r13),
    offsetof(struct user_regs_struct, r14), offsetof(struct user_regs_struct, r15),
};

static unsigned long long *place_of(struct user_regs_struct *regs, unsigned i) {
    return (unsigned long long *)((char *)regs + places[i]);
}

static int status_of_errno(void) {
    switch (errno) {
    case ESRCH:
        return CT_ERR_NOT_FOUND;
    case EIO:
    case EINVAL:
        return CT_ERR_INVALID_ARGUMENT;
    default:
        return CT_ERR_SYSTEM;
    }
}

static int get(const struct ct_remote *remote, size_t i, struct user_regs_struct *regs) {
    if (!ct_remote_is_stopped(remote) || i >= ct_remote_thread_count(remote))
        return CT_ERR_BAD_STATE;
    return ptrace(PTRACE_GETREGS, ct_remote_thread_tid(remote, i), 0, regs) ? status_of_errno() : 0;
}

static bool will_repeat(const struct user_regs_struct *regs) {
    int64_t code = -(int64_t)regs->rax;
    return (int64_t)regs->orig_rax >= 0 && (code == EINTR || (code >= FIRST_RESTART && code <= LAST_RESTART));
}

struct ct_cpu_context *ct_remote_cpu_context(struct ct_remote_cpu *cpu) {
    return (struct ct_cpu_context *)&cpu->x64;
}

int ct_remote_get_cpu(struct ct_remote *remote, size_t i, struct ct_remote_cpu *cpu) {
    struct user_regs_struct regs;
    int status = get(remote, i, &regs);
    if (status)
        return status;
    *cpu = (struct ct_remote_cpu){0};
    for (unsigned r = 0; r < 16; r++)
        cpu->x64.gpr[r] = *place_of(&regs, r);
    cpu->x64.pc = regs.rip;
    cpu->x64.flags = regs.eflags;
    if (will_repeat(&regs)) {
        cpu->x64.pc -= CALL_SIZE;
        cpu->x64.gpr[RAX] = regs.orig_rax;
    }
    return 0;
}

int ct_remote_set_cpu(struct ct_remote *remote, size_t i, const struct ct_remote_cpu *before,
                      const struct ct_remote_cpu *after) {
    struct user_regs_struct regs;
    const struct ct_cpu_x64 *was = &before->x64, *now = &after->x64;
    bool changed = was->flags != now->flags, moved = was->pc != now->pc || was->gpr[RAX] != now->gpr[RAX];
    for (unsigned r = 0; r < 16; r++)
        changed |= was->gpr[r] != now->gpr[r];
    if (!changed && !moved)
        return 0;
    int status = get(remote, i, &regs);
    if (status)
        return status;
    for (unsigned r = 0; r < 16; r++)
        if (was->gpr[r] != now->gpr[r])
            *place_of(&regs, r) = now->gpr[r];
    if (was->flags != now->flags)
        regs.eflags = now->flags;
    if (moved) {
        regs.orig_rax = UINT64_MAX; /* no call is repeated behind our back */
        regs.rip = now->pc;
        regs.rax = now->gpr[RAX];
    }
    return ptrace(PTRACE_SETREGS, ct_remote_thread_tid(remote, i), 0, &regs) ? status_of_errno() : 0;
}
