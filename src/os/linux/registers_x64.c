/* Registers of stopped threads on x86_64, and interrupted system calls.
 *
 * A stop makes a blocking system call end early. The kernel leaves the call's number in orig_rax and a code in rax that
 * says how to go on when the thread resumes; it then either steps back over the two-byte instruction (no handler ran) or
 * returns -EINTR (one did). Calls that end with -EINTR itself (epoll_wait, sigtimedwait, semop, sockets with time
 * limits, ...) would show it to the program though no signal came. For those we write ERESTARTNOHAND, "repeat unless a
 * handler runs": the decision is then the kernel's, made when the thread resumes, so no signal can slip in between.
 *
 * orig_rax is -1 whenever the thread was not in a system call, so equal values in user code mean nothing. */
#include "seize.h"
#include "syscall.h"

#include <linux/ptrace.h>

enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };
enum { CALL_SIZE = 2 }; /* syscall, sysenter, int $0x80 */

/* The kernel's struct user_regs_struct. */
struct user_registers {
    uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax;
    uint64_t rip, cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs;
};

static long poke_register(int tid, size_t offset, uint64_t value) {
    return syscall4(__NR_ptrace, PTRACE_POKEUSR, tid, offset, value);
}

#define POKE(tid, name, value) poke_register(tid, offsetof(struct user_registers, name), value)

static bool will_repeat(uint64_t call, uint64_t result) {
    if ((int64_t)call < 0)
        return false;
    switch (-(int64_t)result) {
    case ERESTARTSYS:
    case ERESTARTNOINTR:
    case ERESTARTNOHAND:
    case ERESTART_RESTARTBLOCK:
        return true;
    default:
        return false;
    }
}

/* close is the one that must not be repeated: the descriptor is free, and may be somebody else's by now. Only its
 * waiting for the device was cut short. */
static int undo_interruption(struct seize_thread *thread) {
    if ((int64_t)thread->call < 0 || (int64_t)thread->result != -EINTR)
        return CT_OK;
    if (thread->call != __NR_close)
        thread->result = (uint64_t)-ERESTARTNOHAND;
    else if (thread->signal == 0)
        thread->result = 0;
    return status_of(POKE(thread->tid, rax, thread->result));
}

int ct_seize_read_registers(struct seize_thread *thread) {
    struct user_registers r;
    long result = syscall4(__NR_ptrace, PTRACE_GETREGS, thread->tid, 0, &r);
    if (failed(result))
        return status_of(result);
    thread->call = r.orig_rax;
    thread->result = r.rax;
    int status = undo_interruption(thread);
    bool repeats = will_repeat(thread->call, thread->result);
    thread->regs.pc = repeats ? r.rip - CALL_SIZE : r.rip;
    thread->regs.call_size = repeats ? CALL_SIZE : 0;
    thread->regs.sp = r.rsp;
    thread->regs.fs_base = r.fs_base;
    thread->regs.gs_base = r.gs_base;
    thread->original = thread->regs;
    return status;
}

static bool is_call_instruction(const struct seize_set *set, uint64_t at, bool *compat) {
    uint8_t bytes[CALL_SIZE];
    if (set->read(set->memory, at, bytes, sizeof bytes) != CT_OK)
        return false;
    *compat = bytes[0] == 0xcd && bytes[1] == 0x80;
    return *compat || (bytes[0] == 0x0f && bytes[1] == 0x05);
}

/* The kernel steps back from where the thread stands: when it is moved onto a copy of the instruction it is left behind
 * that copy, and everything stays the kernel's. Moved elsewhere, we step back in its place. */
static void move_interrupted(const struct seize_set *set, const struct seize_thread *thread, struct user_registers *r) {
    bool compat = false;
    if (is_call_instruction(set, thread->regs.pc, &compat)) {
        r->rip = thread->regs.pc + CALL_SIZE;
        return;
    }
    r->rip = thread->regs.pc;
    r->orig_rax = UINT64_MAX;
    r->rax = thread->call;
    if ((int64_t)thread->result == -ERESTART_RESTARTBLOCK) {
        (void)is_call_instruction(set, thread->original.pc, &compat);
        r->rax = compat ? 0 : __NR_restart_syscall; /* each table has its own number */
    }
}

/* One request for all of them: should the tracer die between two, the thread would go on with half of them. */
int ct_seize_write_registers(const struct seize_set *set, const struct seize_thread *thread) {
    const struct ct_os_regs *now = &thread->regs, *was = &thread->original;
    struct user_registers r;
    long result = syscall4(__NR_ptrace, PTRACE_GETREGS, thread->tid, 0, &r);
    if (failed(result))
        return status_of(result);
    if (now->pc != was->pc && was->call_size)
        move_interrupted(set, thread, &r);
    else if (now->pc != was->pc)
        r.rip = now->pc;
    r.rsp = now->sp;
    r.fs_base = now->fs_base;
    r.gs_base = now->gs_base;
    return status_of(syscall4(__NR_ptrace, PTRACE_SETREGS, thread->tid, 0, &r));
}
