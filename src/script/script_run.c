/* SPDX-License-Identifier: Apache-2.0 */
/* Work: calls that a waiting thread makes. See abi/script_abi.h. */
#include "remote/namespace.h"
#include "script/script_internal.h"
#include <contrail/status.h>
#include <string.h>

#define LOOK_MS 100u

static void write_work(struct ct_script_work *work, const struct ct_script_call *call) {
    *work = (struct ct_script_work){
        .function = call->function,
        .real_count = call->real_count,
        .stack_count = call->stack_count < CT_SCRIPT_STACK ? call->stack_count : CT_SCRIPT_STACK,
        .errno_function = call->errno_function,
        .place = call->place,
    };
    memcpy(work->integers, call->integers, sizeof call->integers);
    memcpy(work->integers + 6, call->more_integers, sizeof call->more_integers);
    memcpy(work->reals, call->reals, sizeof call->reals);
    memcpy(work->stack, call->stack, work->stack_count * sizeof *work->stack);
}

static void read_results(const struct ct_script_work *work, struct ct_script_call *call) {
    call->result = work->result;
    call->result_high = work->result_high;
    call->real = work->real;
    call->real_high = work->real_high;
    memcpy(call->more_reals, work->more_reals, sizeof call->more_reals);
    call->error = work->error;
    call->fault = 0;
}

static void count_running(struct ct_script *s, uint32_t slot, uint32_t change) {
    pthread_mutex_lock(&s->slots);
    s->running[slot] += change;
    pthread_mutex_unlock(&s->slots);
}

static void serve_one(struct ct_script *s, const struct ct_script_request *nested, ct_script_serve *serve, void *arg) {
    if (serve)
        serve(arg, nested);
    else
        (void)ct_script_answer(s, nested, false);
}

static bool has_thread(const struct ct_script *s, int tid) {
    return ct_remote_status_number(s->pid, tid, "Tgid:", false) > 0;
}

/* Until the work is done, or will never be. */
static int wait_for_end(struct ct_script *s, const struct ct_script_request *request, struct ct_script_slot *slot,
                        uint32_t word, uint32_t done, ct_script_serve *serve, void *arg) {
    uint64_t looked = ct_clock_now();
    for (;;) {
        struct ct_script_request nested;
        uint32_t heard = ct_script_heard(s);
        if (ct_script_take(s, request->slot + 1, &nested)) {
            serve_one(s, &nested, serve, arg);
            continue;
        }
        uint32_t now = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
        if (now == CT_ASK_WORD(word, CT_ASK_POSTED) && slot->done != done)
            return 0;
        if ((now ^ word) & ~0xffu || CT_ASK_STATE(now) == CT_ASK_FREE)
            return ct_script_fail(s, CT_ERR_NOT_FOUND, "the called function did not return: it jumped away");
        if (ct_script_is_gone(s) || __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE))
            return ct_script_fail(s, CT_ERR_NOT_FOUND, "the process has ended");
        if (ct_clock_now() - looked > LOOK_MS * 1000000ull) {
            looked = ct_clock_now();
            if (!has_thread(s, request->tid))
                return ct_script_fail(s, CT_ERR_NOT_FOUND, "the thread that made the call has ended");
        }
        ct_script_await(s, heard, LOOK_MS);
    }
}

static int run_in(struct ct_script *s, const struct ct_script_request *request, struct ct_script_call *call,
                  ct_script_serve *serve, void *arg) {
    uint32_t word = 0;
    struct ct_script_slot *slot = ct_script_slot_of(s, request, &word);
    if (!slot)
        return ct_script_fail(s, CT_ERR_INVALID_ARGUMENT, "no thread waits for this work");
    count_running(s, request->slot, 1);
    uint32_t done = slot->done;
    int status = CT_ERR_TIMEOUT;
    if (ct_script_begin_answer(slot, word)) {
        write_work(&slot->work, call);
        status = ct_script_end_answer(slot, word, CT_ASK_WORK);
    }
    if (status)
        ct_script_fail(s, status, "the thread has gone on by itself: a callback took longer than the time limit");
    else
        status = wait_for_end(s, request, slot, word, done, serve, arg);
    if (!status)
        read_results(&slot->work, call);
    count_running(s, request->slot, (uint32_t)-1);
    return status;
}

int ct_script_run(struct ct_script *s, const struct ct_script_request *request, struct ct_script_call *call,
                  ct_script_serve *serve, void *arg) {
    struct ct_script_request worker;
    if (request)
        return run_in(s, request, call, serve, arg);
    int status = ct_script_worker(s, &worker);
    if (status)
        return status;
    pthread_mutex_lock(&s->worker);
    status = run_in(s, &worker, call, serve, arg);
    pthread_mutex_unlock(&s->worker);
    return status;
}
