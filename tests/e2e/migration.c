/* SPDX-License-Identifier: Apache-2.0 */
/* Coroutines whose hooked calls return on another thread than the one that made them.
 *
 * What went wrong here: a return was matched by its place on the stack alone. A call that was left by longjmp stayed
 * open on one thread, another function was called at the same place and returned on another thread, and it returned to
 * the caller of the one that had been left. And a thread whose very first event was a return searched, and changed, the
 * record of the thread that had made the call, while that thread went on using it. */
#include "harness.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

static ucontext_t coroutine;
static ucontext_t *back; /* the context that resumed it */
static jmp_buf left;
static void *left_frame, *next_frame;
static volatile bool done;
static int is_left_hook;
static char stack[128 * 1024] __attribute__((aligned(16)));

/* Not hooked: they only change stacks. */
static E2E_FN void yield_to_thread(void) {
    swapcontext(&coroutine, back);
    E2E_BARRIER();
}

static E2E_FN void resume_here(void) {
    ucontext_t here;
    back = &here;
    swapcontext(&here, &coroutine);
    E2E_BARRIER();
}

static void prepare(void (*body)(void)) {
    done = false;
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = sizeof stack;
    coroutine.uc_link = NULL;
    makecontext(&coroutine, body, 0);
}

/* Two functions whose return addresses are in the same place: the same frame, called by the same caller. */
static E2E_FN void is_left(bool yields) {
    left_frame = __builtin_dwarf_cfa();
    if (yields)
        yield_to_thread();
    longjmp(left, 1);
}

static E2E_FN void returns(void) {
    next_frame = __builtin_dwarf_cfa();
    yield_to_thread();
    E2E_BARRIER();
}

static E2E_FN void known(void) {
    E2E_BARRIER();
}

static void left_then_called(bool yields) {
    if (!setjmp(left)) {
        is_left(yields);
        e2e_fail(__FILE__, __LINE__, "a return went to the caller of the function that had been left");
        _exit(1);
    }
    returns();
    done = true;
    yield_to_thread();
}

static void leave_at_once(void) {
    left_then_called(false);
}

static void yield_and_leave(void) {
    left_then_called(true);
}

static void *resume_known(void *arg) {
    (void)arg;
    known(); /* a thread that has made hooked calls of its own */
    resume_here();
    return NULL;
}

static void *resume_unknown(void *arg) {
    (void)arg;
    resume_here();
    return NULL;
}

/* All calls but the one that was left have returned, on whichever thread. Nothing shows that it was left when it
 * happened on another thread than the call: then it is still open at the end. */
static void check_balance(size_t calls, bool left_elsewhere) {
    if (e2e_plain())
        return;
    struct e2e_summary s = e2e_summarize(-1);
    E2E_EQUAL(s.calls, calls);
    E2E_EQUAL(s.returns, calls - 1);
    if (left_elsewhere)
        E2E_EQUAL(e2e_count(-1, is_left_hook, CT_EVENT_RETURN), 0);
    else
        E2E_EQUAL(s.left, 1);
    e2e_forget();
}

/* Left here, and what was called next returns on another thread. */
static void check_left_here(void *(*other)(void *), size_t calls) {
    pthread_t thread;
    prepare(leave_at_once);
    resume_here();
    pthread_create(&thread, NULL, other, NULL);
    pthread_join(thread, NULL);
    E2E_CHECK(done);
    E2E_CHECK(left_frame == next_frame);
    check_balance(calls, false);
}

/* Called there, left here, the next one called here; and that returns there, where the first one is still open. */
static pthread_barrier_t barrier;

static void *begin_and_finish(void *arg) {
    (void)arg;
    resume_here();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    resume_here();
    return NULL;
}

static void check_left_elsewhere(void) {
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    prepare(yield_and_leave);
    pthread_create(&thread, NULL, begin_and_finish, NULL);
    pthread_barrier_wait(&barrier);
    resume_here();
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    E2E_CHECK(done);
    E2E_CHECK(left_frame == next_frame);
    check_balance(2, true);
}

/* Many frames return on a thread that never made a hooked call, while their first thread goes on calling. */
enum { DEPTH = 200, ROUNDS = 200 };

static E2E_FN int fibonacci(int n) {
    int first = n < 2 ? n : fibonacci(n - 1);
    E2E_BARRIER();
    int second = n < 2 ? 0 : fibonacci(n - 2);
    E2E_BARRIER();
    return first + second;
}

static E2E_FN void descend(int depth) {
    if (depth)
        descend(depth - 1);
    else
        yield_to_thread();
    E2E_BARRIER();
}

static void go_deep(void) {
    descend(DEPTH);
    done = true;
    yield_to_thread();
}

static void check_first_event_is_return(int fibonacci_hook, int descend_hook) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        prepare(go_deep);
        resume_here();
        pthread_create(&thread, NULL, resume_unknown, NULL);
        int calls = 0;
        do {
            if (fibonacci(8) != 21) {
                e2e_fail(__FILE__, __LINE__, "wrong result in round %d", i);
                exit(1);
            }
            if (++calls > (e2e_listening() ? 10 : 100))
                usleep(100); /* the log has an end, however late the other gets its turn */
        } while (!done);
        pthread_join(thread, NULL);
    }
    if (e2e_plain())
        return;
    E2E_EQUAL(e2e_count(-1, descend_hook, CT_EVENT_CALL), ROUNDS * (DEPTH + 1));
    E2E_EQUAL(e2e_count(-1, descend_hook, CT_EVENT_RETURN), ROUNDS * (DEPTH + 1));
    E2E_EQUAL(e2e_count(-1, descend_hook, CT_EVENT_EXCEPTION), 0);
    E2E_EQUAL(e2e_count(-1, fibonacci_hook, CT_EVENT_CALL), e2e_count(-1, fibonacci_hook, CT_EVENT_RETURN));
    E2E_EQUAL(e2e_count(-1, fibonacci_hook, CT_EVENT_EXCEPTION), 0);
    e2e_forget();
}

int main(int argc, char **argv) {
    alarm(240);
    e2e_begin(argc, argv);
    e2e_allow_unnested();
    is_left_hook = E2E_RECORD(is_left);
    E2E_RECORD(returns);
    E2E_RECORD(known);
    int fibonacci_hook = E2E_RECORD(fibonacci);
    int descend_hook = E2E_RECORD(descend);
    for (int i = 0; i < 20; i++) {
        check_left_here(resume_known, 3);
        check_left_here(resume_unknown, 2);
        check_left_elsewhere();
    }
    check_first_event_is_return(fibonacci_hook, descend_hook);
    return e2e_end();
}
