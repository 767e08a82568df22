/* SPDX-License-Identifier: Apache-2.0 */
/* Signal handlers that call hooked functions: synchronous, on an alternate stack, nested, leaving by siglongjmp, for a
 * stack overflow, and hundreds of thousands from a timer that hits wherever it hits.
 *
 * An engine can go wrong here by state that a handler overwrites while a stub uses it, by taking the alternate stack
 * for a coroutine or for frames that were left, and by not finding its way back after siglongjmp. */
#include "harness.h"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

static sigjmp_buf out;
static volatile sig_atomic_t handled;

static E2E_FN int leaf(int x) {
    E2E_BARRIER();
    return x + 1;
}

static E2E_FN int work(int x) {
    int y = leaf(x);
    E2E_BARRIER();
    return leaf(y);
}

static E2E_FN void handler(int number) {
    (void)number;
    handled++;
    leaf(1);
    E2E_BARRIER();
}

static E2E_FN void nesting_handler(int number) {
    leaf(1);
    if (number == SIGUSR1)
        raise(SIGUSR2);
    leaf(2);
    E2E_BARRIER();
}

static E2E_FN void jumping_handler(int number) {
    leaf(number);
    siglongjmp(out, number);
}

static E2E_FN int raiser(int number) {
    leaf(0);
    raise(number);
    E2E_BARRIER();
    return leaf(0);
}

static E2E_FN int catcher(int number) {
    int value = sigsetjmp(out, 1);
    if (value == 0)
        raiser(number);
    return value;
}

static volatile bool enough;

static E2E_FN int overflow(volatile char *above) {
    volatile char frame[4096];
    frame[0] = above ? above[0] : 1;
    if (enough)
        return 0;
    int deeper = overflow(frame);
    E2E_BARRIER();
    return deeper + frame[0];
}

static E2E_FN int survive_overflow(void) {
    int value = sigsetjmp(out, 1);
    if (value == 0)
        value = overflow(NULL);
    return value;
}

static void set_handler(int number, void (*function)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = function;
    action.sa_flags = flags;
    sigaction(number, &action, NULL);
}

static void use_alternate_stack(void) {
    size_t size = 256 * 1024;
    stack_t stack = {.ss_size = size};
    stack.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&stack, NULL);
}

static void check_synchronous(int flags) {
    set_handler(SIGUSR1, handler, flags);
    raiser(SIGUSR1);
    E2E_EXPECT("raiser(leaf() handler(leaf()) leaf())");
    set_handler(SIGUSR1, nesting_handler, flags);
    set_handler(SIGUSR2, nesting_handler, flags);
    raiser(SIGUSR1);
    E2E_EXPECT("raiser(leaf() nesting_handler(leaf() nesting_handler(leaf()*2) leaf()) leaf())");
    set_handler(SIGUSR1, jumping_handler, flags);
    E2E_EQUAL(catcher(SIGUSR1), SIGUSR1);
    leaf(1);
    E2E_EXPECT("catcher(raiser(leaf() jumping_handler(leaf())!)!) leaf()");
    for (int i = 0; i < 1000; i++)
        E2E_EQUAL(catcher(SIGUSR1), SIGUSR1);
    E2E_EXPECT("catcher(raiser(leaf() jumping_handler(leaf())!)!)*1000");
}

static uint64_t guarded_calls(void) {
    struct ct_hooks_statistics s = {.size = sizeof s};
    if (e2e_hooks)
        ct_hooks_statistics(e2e_hooks, &s);
    return s.guarded_calls;
}

static void check_overflow(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = 1 << 20;
    uint64_t guarded = guarded_calls();
    setrlimit(RLIMIT_STACK, &limit); /* the main stack may grow up to this */
    set_handler(SIGSEGV, jumping_handler, SA_ONSTACK);
    for (int i = 0; i < 5; i++)
        E2E_EQUAL(survive_overflow(), SIGSEGV);
    leaf(1);
    set_handler(SIGSEGV, SIG_DFL, 0);
    if (e2e_plain())
        return;
    /* Where the stack ends is chance. In a listener, or right before it, the handler's calls are guarded, and the frame
     * is left without having been reported. */
    size_t unseen = (size_t)(guarded_calls() - guarded);
    struct e2e_summary s = e2e_summarize(0);
    E2E_EQUAL(s.open, 0);
    E2E_CHECK(e2e_listening() ? s.unpaired <= 5 : unseen + s.unpaired == 0);
    size_t returns = 5 + 5 + 1; /* survive_overflow, and leaf of the handler, leaf */
    E2E_CHECK(s.returns == returns || (unseen && s.returns < returns && s.returns >= returns - 5));
    E2E_CHECK(s.left > 5 * 200);
    E2E_EQUAL(s.calls + s.unpaired, s.returns + s.left);
    e2e_forget();
}

/* A timer as fast as it gets, while the program does nothing but call hooked functions. */
static void check_timer(int flags) {
    struct itimerval fast = {{0, 50}, {0, 50}}, off = {{0, 0}, {0, 0}};
    long rounds = 0;
    int wanted = e2e_listening() ? 300 : 1500; /* listeners, and readers of traces, are slow */
    uint64_t guarded = guarded_calls();
    handled = 0;
    set_handler(SIGALRM, handler, flags);
    setitimer(ITIMER_REAL, &fast, NULL);
    while (handled < wanted && rounds < 20000000) {
        if (work((int)rounds & 0xff) != ((int)rounds & 0xff) + 2)
            e2e_fail(__FILE__, __LINE__, "wrong result under signals");
        rounds++;
    }
    setitimer(ITIMER_REAL, &off, NULL);
    set_handler(SIGALRM, SIG_IGN, 0);
    if (e2e_plain())
        return;
    /* A handler that interrupts a listener is guarded as the listener is: its calls are counted, not seen. */
    size_t unseen = (size_t)(guarded_calls() - guarded);
    E2E_CHECK(unseen == 0 || e2e_listening());
    struct e2e_summary s = e2e_summarize(0);
    size_t calls = (size_t)rounds * 3 + (size_t)handled * 2 - unseen;
    E2E_EQUAL(s.calls, calls);
    E2E_EQUAL(s.returns, calls);
    E2E_EQUAL(s.left + s.open + s.unpaired, 0);
    e2e_forget();
}

/* The same with handlers that leave by siglongjmp, wherever the timer hit: inside stubs too. Frames and slots that were
 * given up there may be missing from the tree, but no result is wrong and nothing is left open. */
static volatile bool armed;

static E2E_FN void alarm_handler(int number) {
    struct itimerval again = {{0, 0}, {0, 30}};
    leaf(number);
    if (armed)
        siglongjmp(out, number);
    setitimer(ITIMER_REAL, &again, NULL); /* too early: nowhere to jump to */
}

static E2E_FN int interrupted_work(void) {
    if (sigsetjmp(out, 1) != 0) {
        armed = false;
        return -1;
    }
    armed = true;
    for (volatile int i = 0; i < 1000; i++)
        if (work(i) != i + 2)
            e2e_fail(__FILE__, __LINE__, "wrong result under jumping signals");
    armed = false;
    return 0;
}

static void check_jumping_timer(void) {
    struct itimerval soon = {{0, 0}, {0, 100}}, off = {{0, 0}, {0, 0}};
    int jumped = 0;
    set_handler(SIGALRM, alarm_handler, SA_ONSTACK);
    for (int i = 0; i < 1000; i++) {
        soon.it_value.tv_usec = 20 + i % 97;
        setitimer(ITIMER_REAL, &soon, NULL);
        while (interrupted_work() == 0)
            ;
        jumped++;
    }
    setitimer(ITIMER_REAL, &off, NULL);
    E2E_EQUAL(jumped, 1000);
    e2e_forget();
    raiser(0);
    E2E_EXPECT("raiser(leaf()*2)");
}

int main(int argc, char **argv) {
    e2e_begin_with(argc, argv, NULL, 1024);
    use_alternate_stack();
    E2E_RECORD(leaf);
    E2E_RECORD(work);
    E2E_RECORD(handler);
    E2E_RECORD(nesting_handler);
    E2E_RECORD(jumping_handler);
    E2E_RECORD(raiser);
    E2E_RECORD(catcher);
    E2E_RECORD(overflow);
    E2E_RECORD(survive_overflow);
    E2E_RECORD(alarm_handler);
    E2E_RECORD(interrupted_work);
    check_synchronous(0);
    check_synchronous(SA_ONSTACK);
    check_synchronous(SA_ONSTACK | SA_NODEFER);
    check_overflow();
    check_timer(0);
    check_timer(SA_ONSTACK);
    check_jumping_timer();
    return e2e_end();
}
