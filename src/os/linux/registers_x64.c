/* SPDX-License-Identifier: Apache-2.0 */
/* Registers of stopped threads on x86_64, and interrupted system calls.
 *
 * A stop makes a blocking system call end early. The kernel leaves the call's number in orig_rax, and in rax a code
 * that says how the call continues when the thread resumes. Then the kernel either steps back over the two-byte
 * instruction (no handler ran) or returns -EINTR (one did). Some calls end with -EINTR right away (epoll_wait,
 * sigtimedwait, semop, sockets with time limits, ...), and the program would see it although no signal came. For those
 * we write ERESTARTNOHAND, "repeat unless a handler runs": the kernel decides when the thread resumes, so no signal can
 * slip in between.
 *
 * orig_rax is -1 whenever the thread was not in a system call, so equal values in user code mean nothing.
 *
 * We use PTRACE_GETREGS, not PTRACE_GETREGSET: for a thread that runs 32-bit code, the latter returns the registers of
 * that machine. */
#include "registers_x64.h"
#include "seize.h"
#include "syscall.h"

#include <linux/ptrace.h>

enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };
enum { CALL_SIZE = 2 }; /* syscall, sysenter, int $0x80 */

/* ---- accessors ---- */

static bool will_repeat(const struct ct_registers_x64 *r) {
    if ((int64_t)r->orig_rax < 0)
        return false;
    switch (-(int64_t)r->rax) {
    case ERESTARTSYS:
    case ERESTARTNOINTR:
    case ERESTARTNOHAND:
    case ERESTART_RESTARTBLOCK:
        return true;
    default:
        return false;
    }
}

uint64_t ct_registers_call_size(const struct ct_registers *r) {
    return will_repeat(ct_registers_to_x64(r)) ? CALL_SIZE : 0;
}

void ct_registers_cancel_call(struct ct_registers *r) {
    ct_registers_as_x64(r)->orig_rax = UINT64_MAX;
}

uint64_t ct_registers_pc(const struct ct_registers *r) {
    return ct_registers_to_x64(r)->rip - ct_registers_call_size(r);
}

void ct_registers_set_pc(struct ct_registers *r, uint64_t pc) {
    ct_registers_as_x64(r)->rip = pc + ct_registers_call_size(r);
}

uint64_t ct_registers_link(const struct ct_registers *r) {
    (void)r;
    return 0;
}

uint64_t ct_registers_sp(const struct ct_registers *r) {
    return ct_registers_to_x64(r)->rsp;
}

void ct_registers_set_sp(struct ct_registers *r, uint64_t sp) {
    ct_registers_as_x64(r)->rsp = sp;
}

uint64_t ct_registers_thread_base(const struct ct_registers *r) {
    return ct_registers_to_x64(r)->fs_base;
}

void ct_registers_set_thread_base(struct ct_registers *r, uint64_t base) {
    ct_registers_as_x64(r)->fs_base = base;
}

/* fs:0 */
uint64_t ct_registers_thread_pointer(const struct ct_registers *r, ct_registers_read_memory *read, const void *memory) {
    uint64_t pointer, base = ct_registers_thread_base(r);
    return read(memory, base, &pointer, sizeof pointer) ? base : pointer;
}

uint64_t ct_registers_block(const struct ct_registers *r) {
    return ct_registers_to_x64(r)->gs_base;
}

void ct_registers_set_block(struct ct_registers *r, uint64_t block) {
    ct_registers_as_x64(r)->gs_base = block;
}

bool ct_registers_are_possible(const struct ct_registers *r) {
    const struct ct_registers_x64 *x = ct_registers_to_x64(r);
    return x->fs_base < CT_ADDRESS_LIMIT && x->gs_base < CT_ADDRESS_LIMIT;
}

/* ---- registers of a traced thread ---- */

long ct_registers_read(int tid, struct ct_registers *r) {
    for (unsigned i = sizeof(struct ct_registers_x64) / sizeof *r->words; i < CT_REGISTERS_WORDS; i++)
        r->words[i] = 0;
    return syscall4(__NR_ptrace, PTRACE_GETREGS, tid, 0, r);
}

long ct_registers_write(int tid, const struct ct_registers *r) {
    return syscall4(__NR_ptrace, PTRACE_SETREGS, tid, 0, r);
}

/* close must not be repeated: the descriptor is free, and its number may be in use again by now. The stop only cut
 * short the wait for the device. */
static int undo_interruption(const struct seize_thread *thread, struct ct_registers_x64 *r) {
    if ((int64_t)r->orig_rax < 0 || (int64_t)r->rax != -EINTR)
        return CT_OK;
    if (r->orig_rax != __NR_close)
        r->rax = (uint64_t)-ERESTARTNOHAND;
    else if (thread->signal == 0)
        r->rax = 0;
    size_t at = offsetof(struct ct_registers_x64, rax);
    return status_of(syscall4(__NR_ptrace, PTRACE_POKEUSR, thread->tid, at, r->rax));
}

int ct_seize_read_registers(struct seize_thread *thread) {
    long result = ct_registers_read(thread->tid, &thread->regs);
    if (failed(result))
        return status_of(result);
    int status = undo_interruption(thread, ct_registers_as_x64(&thread->regs));
    ct_registers_copy(&thread->original, &thread->regs);
    return status;
}

/* The kernel keeps the call, and looks itself. */
void ct_seize_look_before(int pid, struct seize_thread *thread) {
    (void)pid, (void)thread;
}

void ct_seize_look_again(const struct seize_thread *thread) {
    (void)thread;
}

static bool is_call_instruction(const struct seize_set *set, uint64_t at, bool *compat) {
    uint8_t bytes[CALL_SIZE];
    if (set->read(set->memory, at, bytes, sizeof bytes) != CT_OK)
        return false;
    *compat = bytes[0] == 0xcd && bytes[1] == 0x80;
    return *compat || (bytes[0] == 0x0f && bytes[1] == 0x05);
}

/* The kernel steps back from where the thread is. A thread that is moved onto a copy of the instruction is put after
 * that copy, and the kernel does the rest. If it is moved elsewhere, we step back ourselves. */
static void move_interrupted(const struct seize_set *set, const struct seize_thread *thread,
                             struct ct_registers_x64 *r) {
    const struct ct_registers_x64 *was = ct_registers_to_x64(&thread->original);
    uint64_t to = ct_registers_pc(&thread->regs);
    bool compat = false;
    if (is_call_instruction(set, to, &compat)) {
        r->rip = to + CALL_SIZE;
        return;
    }
    r->rip = to;
    r->orig_rax = UINT64_MAX;
    r->rax = was->orig_rax;
    if ((int64_t)was->rax == -ERESTART_RESTARTBLOCK) {
        (void)is_call_instruction(set, ct_registers_pc(&thread->original), &compat);
        r->rax = compat ? 0 : __NR_restart_syscall; /* each table has its own number */
    }
}

static bool only_block_differs(const struct seize_thread *thread) {
    const struct ct_registers_x64 *now = ct_registers_to_x64(&thread->regs),
                                  *was = ct_registers_to_x64(&thread->original);
    return ct_registers_pc(&thread->regs) == ct_registers_pc(&thread->original) && now->rsp == was->rsp &&
           now->fs_base == was->fs_base;
}

/* One request for all registers: if the tracer died between two requests, the thread would continue with half of
 * them. */
int ct_seize_write_registers(const struct seize_set *set, const struct seize_thread *thread) {
    const struct ct_registers_x64 *now = ct_registers_to_x64(&thread->regs);
    uint64_t pc = ct_registers_pc(&thread->regs);
    struct ct_registers fresh;
    struct ct_registers_x64 *r = ct_registers_as_x64(&fresh);
    size_t block_at = offsetof(struct ct_registers_x64, gs_base);
    if (only_block_differs(thread)) /* often, and for thousands of threads */
        return status_of(syscall4(__NR_ptrace, PTRACE_POKEUSR, thread->tid, block_at, now->gs_base));
    long result = ct_registers_read(thread->tid, &fresh);
    if (failed(result))
        return status_of(result);
    if (pc != ct_registers_pc(&thread->original) && ct_registers_call_size(&thread->original))
        move_interrupted(set, thread, r);
    else if (pc != ct_registers_pc(&thread->original))
        r->rip = pc;
    r->rsp = now->rsp;
    r->fs_base = now->fs_base;
    r->gs_base = now->gs_base;
    return status_of(ct_registers_write(thread->tid, &fresh));
}
