/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that are left where the engine does not see it: by __builtin_longjmp, by setcontext, by an exception that
 * nothing follows, with a thread that ends. A listener's on_leave comes at ct_hooks_destroy at the latest, once for
 * each of them, and never for a frame that returns.
 *
 * What went wrong here: such a frame was only found by a later hooked call of its thread, at its place on the stack or
 * above; without one, on_leave never came. */
#include "harness.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { MANY = 150 }; /* threads, more than blocks are made before those of ended threads are used again */

struct seen {
    const char *name;
    int calls, returns, leaves;
};
static struct ct_hooks *hooks;
static struct seen inner_seen = {.name = "inner"}, outer_seen = {.name = "outer"};
static struct seen *order[2 * MANY]; /* of leaves */
static int left;

static void on_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    struct seen *seen = call->user;
    (void)cpu;
    __atomic_fetch_add(&seen->calls, 1, __ATOMIC_RELAXED);
    call->data = 7;
}

static void on_return(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    struct seen *seen = call->user;
    (void)cpu;
    __atomic_fetch_add(&seen->returns, 1, __ATOMIC_RELAXED);
}

static E2E_FN void outer(void (*how)(void));

static void nothing(void) {
}

/* It may not use the hooks, and what it calls is not seen. */
static void on_leave(struct ct_hook_call *call) {
    struct seen *seen = call->user;
    E2E_EQUAL(call->data, 7);
    E2E_EQUAL(ct_hooks_begin(hooks), CT_ERR_BAD_STATE);
    outer(nothing);
    __atomic_fetch_add(&seen->leaves, 1, __ATOMIC_RELAXED);
    int at = __atomic_fetch_add(&left, 1, __ATOMIC_RELAXED);
    if (E2E_CHECK(at < 2 * MANY))
        order[at] = seen;
}

/* ---- frames ---- */

static E2E_FN void inner(void (*how)(void)) {
    how();
    E2E_BARRIER();
}

static E2E_FN void outer(void (*how)(void)) {
    inner(how);
    E2E_BARRIER();
}

static void begin(void) {
    struct ct_hook_listener listener = {
        .size = sizeof listener, .on_call = on_call, .on_return = on_return, .on_leave = on_leave};
    inner_seen = (struct seen){.name = "inner"};
    outer_seen = (struct seen){.name = "outer"};
    left = 0;
    E2E_EQUAL(ct_hooks_create(&hooks, NULL), 0);
    E2E_CHECK(ct_hooks_attach(hooks, (void *)inner, &listener, &inner_seen) >= 0);
    E2E_CHECK(ct_hooks_attach(hooks, (void *)outer, &listener, &outer_seen) >= 0);
}

static void expect_seen(int line, const struct seen *seen, int calls, int returns, int leaves) {
    if (seen->calls != calls || seen->returns != returns || seen->leaves != leaves)
        e2e_fail(__FILE__, line, "%s: %d calls, %d returns, %d leaves; expected %d, %d, %d", seen->name, seen->calls,
                 seen->returns, seen->leaves, calls, returns, leaves);
}

/* Both frames, as many times. */
#define EXPECT(calls, returns, leaves)                                                                                 \
    (expect_seen(__LINE__, &inner_seen, calls, returns, leaves),                                                       \
     expect_seen(__LINE__, &outer_seen, calls, returns, leaves))

static void expect_inner_first(void) {
    for (int i = 0; i + 1 < left; i += 2)
        E2E_CHECK(order[i] == &inner_seen && order[i + 1] == &outer_seen);
}

static E2E_FN void destroy_deeper(void) {
    ct_hooks_destroy(hooks);
    E2E_BARRIER();
}

/* ---- jumps that are not seen ---- */

static void *jump_buffer[5];

static void jump(void) {
    __builtin_longjmp(jump_buffer, 1);
}

static E2E_FN void leave_by_jump(void) {
    if (__builtin_setjmp(jump_buffer) == 0)
        outer(jump);
    E2E_BARRIER();
}

/* The place of the outer frame is that of the call of ct_hooks_destroy itself, or of a function that makes it. */
static E2E_FN void jump_and_destroy(int deeper) {
    if (__builtin_setjmp(jump_buffer) == 0)
        outer(jump);
    if (deeper)
        destroy_deeper();
    else
        ct_hooks_destroy(hooks);
}

static ucontext_t place;

static void set_context(void) {
    setcontext(&place);
}

static E2E_FN void leave_by_context(void) {
    volatile int again = 0;
    getcontext(&place);
    if (!again++)
        outer(set_context);
    E2E_BARRIER();
}

static void check_jumps(void) {
    for (int deeper = 0; deeper < 2; deeper++) {
        begin();
        jump_and_destroy(deeper);
        EXPECT(1, 0, 1);
        expect_inner_first();
    }
    begin();
    leave_by_jump();
    ct_hooks_destroy(hooks);
    EXPECT(1, 0, 1);
    begin();
    leave_by_context();
    ct_hooks_destroy(hooks);
    EXPECT(1, 0, 1);
    begin();
    leave_by_jump();
    outer(nothing); /* finds them */
    EXPECT(2, 1, 1);
    ct_hooks_destroy(hooks);
    EXPECT(2, 1, 1);
}

void leave_by_exception(void (*thrower)(void (*how)(void))); /* leave_throw.cc */

static void check_exception(void) {
    begin();
    leave_by_exception(outer);
    ct_hooks_destroy(hooks);
    EXPECT(1, 0, 1);
    expect_inner_first();
}

/* ---- frames that are open ---- */

static void destroy_here(void) {
    ct_hooks_destroy(hooks);
}

static ucontext_t home, coroutine;
static char coroutine_stack[1 << 16];

static void suspend(void) {
    swapcontext(&coroutine, &home);
}

static void coroutine_body(void) {
    outer(suspend);
}

static void check_coroutine(void) {
    begin();
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = coroutine_stack;
    coroutine.uc_stack.ss_size = sizeof coroutine_stack;
    coroutine.uc_link = &home;
    makecontext(&coroutine, coroutine_body, 0);
    swapcontext(&home, &coroutine);
    leave_by_jump();
    ct_hooks_destroy(hooks);
    EXPECT(2, 0, 1);
    swapcontext(&home, &coroutine);
    EXPECT(2, 1, 1);
}

static void on_signal(int number) {
    (void)number;
    ct_hooks_destroy(hooks);
}

static void raise_here(void) {
    raise(SIGUSR1);
}

/* The handler's stack is part of the thread's own, above the frames that it interrupts. */
static void check_handler(void) {
    char memory[1 << 16];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory}, none = {.ss_flags = SS_DISABLE};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    begin();
    outer(raise_here);
    EXPECT(1, 1, 0);
    sigaltstack(&none, NULL);
}

#ifdef __x86_64__
/* A frame that is gone into ct_hooks_destroy itself. */
void leave_tail(struct ct_hooks *set);
__asm__(".text\n.type leave_tail, @function\nleave_tail:\n xorl %eax, %eax\n movq %rdi, %rdi\n movq %rsi, %rsi\n"
        " jmp ct_hooks_destroy@PLT\n.size leave_tail, . - leave_tail\n");

static void check_tail_call(void) {
    struct ct_hook_listener listener = {
        .size = sizeof listener, .on_call = on_call, .on_return = on_return, .on_leave = on_leave};
    struct seen tail = {.name = "tail"};
    begin();
    E2E_CHECK(ct_hooks_attach(hooks, (void *)leave_tail, &listener, &tail) >= 0);
    leave_tail(hooks);
    expect_seen(__LINE__, &tail, 1, 1, 0);
}
#endif

static void check_open(void) {
    begin();
    outer(destroy_here);
    EXPECT(1, 1, 0);
    check_coroutine();
    check_handler();
#ifdef __x86_64__
    check_tail_call();
#endif
}

/* ---- threads ---- */

static sem_t entered, go_on;

static void end_quietly(void) {
    syscall(SYS_exit, 0);
}

static void end_by_library(void) {
    pthread_exit(NULL);
}

static void wait_for_destroy(void) {
    sem_post(&entered);
    while (sem_wait(&go_on))
        ;
}

struct way {
    void (*how)(void);
};

static void *thread_body(void *arg) {
    outer(((struct way *)arg)->how);
    return NULL;
}

static void run_thread(void (*how)(void)) {
    pthread_t thread;
    struct way way = {how};
    pthread_create(&thread, NULL, thread_body, &way);
    pthread_join(thread, NULL);
}

static void check_ended(void (*how)(void)) {
    begin();
    run_thread(how);
    ct_hooks_destroy(hooks);
    EXPECT(1, 0, 1);
    expect_inner_first();
    begin();
    for (int i = 0; i < MANY; i++)
        run_thread(how);
    ct_hooks_destroy(hooks);
    EXPECT(MANY, 0, MANY);
    expect_inner_first();
}

/* Its frames are left, those of its coroutine are not: that one goes on elsewhere. */
static void *end_beside_coroutine(void *arg) {
    swapcontext(&home, &coroutine);
    outer(end_by_library);
    return arg;
}

static void check_migration(void) {
    pthread_t thread;
    begin();
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = coroutine_stack;
    coroutine.uc_stack.ss_size = sizeof coroutine_stack;
    coroutine.uc_link = &home;
    makecontext(&coroutine, coroutine_body, 0);
    pthread_create(&thread, NULL, end_beside_coroutine, NULL);
    pthread_join(thread, NULL);
    ct_hooks_destroy(hooks);
    EXPECT(2, 0, 1);
    swapcontext(&home, &coroutine);
    EXPECT(2, 1, 1);
}

static void check_running(void) {
    pthread_t thread;
    struct way way = {wait_for_destroy};
    begin();
    pthread_create(&thread, NULL, thread_body, &way);
    while (sem_wait(&entered))
        ;
    ct_hooks_destroy(hooks);
    EXPECT(1, 0, 0);
    sem_post(&go_on);
    pthread_join(thread, NULL);
    EXPECT(1, 1, 0);
}

int main(void) {
    sem_init(&entered, 0, 0);
    sem_init(&go_on, 0, 0);
    check_jumps();
    check_exception();
    check_open();
    check_ended(end_quietly);
    check_ended(end_by_library);
    check_migration();
    check_running();
    return e2e_end();
}
