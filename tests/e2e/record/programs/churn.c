/* SPDX-License-Identifier: Apache-2.0 */
/* Everything comes and goes: threads that start threads, signals on small stacks, jumps, children, coroutines; until
 * standard input ends. Prints "right" or what went wrong. */
#include "zoo.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

static volatile int stop, failures;
static __thread jmp_buf *out;

static FN void fail(const char *what) {
    if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) < 10)
        fprintf(stderr, "%s went wrong\n", what);
}

static FN long leaf(long x) {
    for (int i = 0; i < 50; i++)
        BARRIER();
    return x + 1;
}

static FN void on_alarm(int number) {
    int saved = errno;
    if (leaf(number) != number + 1)
        fail("handler");
    errno = saved;
}

static FN void *short_life(void *arg) {
    long x = (intptr_t)arg;
    for (int i = 0; i < 20; i++)
        x = leaf(x);
    return (void *)x;
}

static FN void start_threads(void) {
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, short_life, (void *)i) != 0)
            fail("pthread_create");
    for (intptr_t i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if ((intptr_t)result != i + 20)
            fail("thread");
    }
}

static FN void down(int depth) {
    if (depth == 0)
        longjmp(*out, 1);
    if (leaf(depth))
        down(depth - 1);
    BARRIER();
}

static FN void jump(void) {
    jmp_buf buffer;
    out = &buffer;
    if (_setjmp(buffer) == 0)
        down(30);
    if (leaf(1) != 2)
        fail("jump");
}

static FN void fork_child(void) {
    pid_t child = fork();
    if (child == 0) {
        long x = 0;
        for (int i = 0; i < 100; i++)
            x = leaf(x);
        _exit(x == 100 ? 7 : 1);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail("waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
        fail("child");
}

static __thread ucontext_t here, there;
static __thread int steps;

static FN void coroutine(void) {
    for (;;) {
        leaf(steps++);
        swapcontext(&there, &here);
    }
}

static FN void switch_stacks(void) {
    static __thread char *stack;
    if (!stack)
        stack = malloc(65536);
    steps = 0;
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = 65536;
    there.uc_link = NULL;
    makecontext(&there, coroutine, 0);
    for (int i = 0; i < 10; i++)
        swapcontext(&here, &there);
    if (steps != 10)
        fail("coroutine");
}

static void (*const jobs[])(void) = {start_threads, jump, fork_child, switch_stacks};

static FN void *thread_main(void *arg) {
    while (!stop) {
        jobs[(intptr_t)arg]();
        usleep(200);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action;
    char byte;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, thread_main, (void *)i);
    setitimer(ITIMER_REAL, &often, NULL);
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) == 1)
        ;
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    puts(failures ? "WRONG" : "right");
    return failures ? 1 : 0;
}
