/* All general registers of stopped threads on x86_64.
 *
 * A thread whose system call was interrupted stands behind the instruction, with a code in rax that tells the kernel to
 * make the call again (os/linux/registers_x64.c). What is shown is the state in which it will be made. As long as neither
 * pc nor rax is changed, it stays the kernel's affair; else the thread goes on exactly as the changed registers say. */
#include "remote/remote_internal.h"
#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>

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

static bool will_repeat(const struct user_regs_struct *regs) {
    int64_t code = -(int64_t)regs->rax;
    return (int64_t)regs->orig_rax >= 0 && code >= FIRST_RESTART && code <= LAST_RESTART;
}

struct ct_cpu_context *ct_remote_cpu_context(struct ct_remote_cpu *cpu) {
    return (struct ct_cpu_context *)&cpu->x64;
}

/* A range of threads, from `cpus` or to it. */
struct request {
    size_t first, count;
    struct ct_remote_cpu *cpus;
    const struct ct_remote_cpu *before;
};

static void show(const struct user_regs_struct *regs, struct ct_cpu_x64 *cpu) {
    *cpu = (struct ct_cpu_x64){0};
    for (unsigned r = 0; r < 16; r++)
        cpu->gpr[r] = *(const unsigned long long *)((const char *)regs + places[r]);
    cpu->pc = regs->rip;
    cpu->flags = regs->eflags;
    if (will_repeat(regs)) {
        cpu->pc -= CALL_SIZE;
        cpu->gpr[RAX] = regs->orig_rax;
    }
}

int ct_remote_read_thread_traced(int tid, struct ct_remote_thread *thread) {
    struct user_regs_struct regs;
    int status = ct_trace_status(ct_trace(PTRACE_GETREGS, tid, 0, (uint64_t)&regs));
    *thread = (struct ct_remote_thread){.tid = tid};
    if (status != CT_OK)
        return status;
    show(&regs, &thread->cpu.x64);
    thread->regs = (struct ct_os_regs){.pc = thread->cpu.x64.pc,
                                       .sp = regs.rsp,
                                       .fs_base = regs.fs_base,
                                       .gs_base = regs.gs_base,
                                       .call_size = will_repeat(&regs) ? CALL_SIZE : 0};
    return CT_OK;
}

int ct_remote_write_thread_traced(const struct ct_remote_thread *thread) {
    struct user_regs_struct regs;
    int status = ct_trace_status(ct_trace(PTRACE_GETREGS, thread->tid, 0, (uint64_t)&regs));
    if (status != CT_OK)
        return status;
    for (unsigned r = 0; r < 16; r++)
        *place_of(&regs, r) = thread->cpu.x64.gpr[r];
    regs.rip = thread->cpu.x64.pc;
    regs.eflags = thread->cpu.x64.flags;
    return ct_trace_status(ct_trace(PTRACE_SETREGS, thread->tid, 0, (uint64_t)&regs));
}

/* A thread that has been killed meanwhile shows zeros. */
static int get_traced(struct ct_remote *remote, void *arg) {
    struct request *request = arg;
    for (size_t i = 0; i < request->count; i++) {
        struct ct_remote_thread thread;
        int status = ct_remote_read_thread_traced(ct_remote_thread_tid(remote, request->first + i), &thread);
        request->cpus[i] = thread.cpu;
        if (status != CT_OK && (status != CT_ERR_NOT_FOUND || request->count == 1))
            return status;
    }
    return CT_OK;
}

int ct_remote_get_cpus(struct ct_remote *remote, size_t first, size_t count, struct ct_remote_cpu *cpus) {
    struct request request = {.first = first, .count = count, .cpus = cpus};
    size_t all = ct_remote_thread_count(remote);
    if (!remote->stopped || first > all || count > all - first)
        return CT_ERR_INVALID_ARGUMENT;
    return ct_tracer_run(remote, get_traced, &request);
}

static bool is_changed(const struct ct_cpu_x64 *was, const struct ct_cpu_x64 *now) {
    bool changed = was->flags != now->flags || was->pc != now->pc;
    for (unsigned r = 0; r < 16; r++)
        changed |= was->gpr[r] != now->gpr[r];
    return changed;
}

static int set_traced(struct ct_remote *remote, void *arg) {
    struct request *request = arg;
    struct seize_thread *thread = &remote->set.threads[request->first];
    const struct ct_cpu_x64 *was = &request->before->x64, *now = &request->cpus->x64;
    struct user_regs_struct regs;
    int status = ct_trace_status(ct_trace(PTRACE_GETREGS, thread->tid, 0, (uint64_t)&regs));
    if (status != CT_OK)
        return status;
    for (unsigned r = 0; r < 16; r++)
        if (was->gpr[r] != now->gpr[r])
            *place_of(&regs, r) = now->gpr[r];
    if (was->flags != now->flags)
        regs.eflags = now->flags;
    if (was->pc != now->pc || was->gpr[RAX] != now->gpr[RAX]) {
        regs.orig_rax = UINT64_MAX; /* no call is repeated behind our back */
        regs.rip = now->pc;
        regs.rax = now->gpr[RAX];
    }
    if (ct_remote_step)
        ct_remote_step();
    status = ct_trace_status(ct_trace(PTRACE_SETREGS, thread->tid, 0, (uint64_t)&regs));
    return status == CT_OK ? ct_seize_read_registers(thread) : status;
}

int ct_remote_set_cpu(struct ct_remote *remote, size_t i, const struct ct_remote_cpu *before,
                      struct ct_remote_cpu *after) {
    struct request request = {.first = i, .cpus = after, .before = before};
    if (!remote->stopped || i >= ct_remote_thread_count(remote))
        return CT_ERR_INVALID_ARGUMENT;
    return is_changed(&before->x64, &after->x64) ? ct_tracer_run(remote, set_traced, &request) : CT_OK;
}
