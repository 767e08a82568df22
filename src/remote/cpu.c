/* SPDX-License-Identifier: Apache-2.0 */
/* All general registers of stopped threads. cpu_<isa>.c knows which there are. */
#include "remote/remote_internal.h"

/* A range of threads; `cpus` is read or written. */
struct request {
    size_t first, count;
    struct ct_remote_cpu *cpus;
    const struct ct_remote_cpu *before;
};

int ct_remote_read_registers_traced(int tid, struct ct_registers *regs) {
    if (ct_remote_step)
        ct_remote_step();
    return ct_trace_status(ct_registers_read(tid, regs));
}

int ct_remote_write_registers_traced(int tid, const struct ct_registers *regs) {
    if (ct_remote_step)
        ct_remote_step();
    return ct_trace_status(ct_registers_write(tid, regs));
}

void ct_remote_divert(struct ct_registers *regs, uint64_t pc) {
    ct_registers_cancel_call(regs);
    ct_registers_set_pc(regs, pc);
}

int ct_remote_read_thread_traced(int tid, struct ct_remote_thread *thread) {
    *thread = (struct ct_remote_thread){.tid = tid};
    int status = ct_remote_read_registers_traced(tid, &thread->regs);
    if (status == CT_OK)
        ct_remote_cpu_show(&thread->regs, &thread->cpu);
    return status;
}

int ct_remote_write_thread_traced(const struct ct_remote_thread *thread) {
    struct ct_registers regs;
    int status = ct_remote_read_registers_traced(thread->tid, &regs);
    if (status != CT_OK)
        return status;
    ct_remote_cpu_put(&thread->cpu, &regs);
    return ct_remote_write_registers_traced(thread->tid, &regs);
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

static int set_traced(struct ct_remote *remote, void *arg) {
    struct request *request = arg;
    struct seize_thread *thread = &remote->set.threads[request->first];
    struct ct_registers regs;
    int status = ct_remote_read_registers_traced(thread->tid, &regs);
    if (status != CT_OK)
        return status;
    ct_remote_cpu_change(request->before, request->cpus, &regs);
    status = ct_remote_write_registers_traced(thread->tid, &regs);
    return status == CT_OK ? ct_seize_read_registers(thread) : status;
}

int ct_remote_set_cpu(struct ct_remote *remote, size_t i, const struct ct_remote_cpu *before,
                      struct ct_remote_cpu *after) {
    struct request request = {.first = i, .cpus = after, .before = before};
    if (!remote->stopped || i >= ct_remote_thread_count(remote))
        return CT_ERR_INVALID_ARGUMENT;
    return ct_remote_cpu_differ(before, after) ? ct_tracer_run(remote, set_traced, &request) : CT_OK;
}
