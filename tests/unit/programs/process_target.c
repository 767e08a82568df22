/* SPDX-License-Identifier: Apache-2.0 */
/* A process to be looked at from outside: named threads, each in functions of known names. Writes "ready" when
 * all are on their way there, then waits until its input ends. What `changed` prints was put into a register by a test.
 *
 * Also built with the library that hooks (HOOKED): 1: it hooks its own functions first, 2: and those of libc, 3: its
 * own, with a listener. */
#include <errno.h>
#include <sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <time.h>
#include <unistd.h>
#ifdef HOOKED
#include <contrail/hook.h>
#endif

#if defined __clang__
#define STAY __attribute__((noinline))
#else
#define STAY __attribute__((noinline, noclone))
#endif
#define KEEP() __asm__ volatile("" ::: "memory")

static atomic_int ready;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int pipe_ends[2];
static volatile int go_on = 1;

/* ---- sleeper: in nanosleep ---- */

STAY int inner_sleep(const struct timespec *t) {
    ready++;
    int result = nanosleep(t, NULL);
    KEEP();
    return result;
}
STAY int middle_sleep(int seconds) {
    char text[64];
    struct timespec t = {.tv_sec = seconds};
    memset(text, seconds, sizeof text);
    __asm__ volatile("" ::"r"(text) : "memory");
    int result = inner_sleep(&t);
    KEEP();
    return result;
}
STAY void *sleeper(void *arg) {
    (void)arg;
    int result = middle_sleep(100000);
    KEEP();
    return result ? &ready : NULL;
}

/* ---- waiter: in a futex ---- */

STAY int inner_wait(void) {
    ready++;
    int result = pthread_cond_wait(&condition, &mutex);
    KEEP();
    return result;
}
STAY void *waiter(void *arg) {
    (void)arg;
    pthread_mutex_lock(&mutex);
    int result = inner_wait();
    KEEP();
    return result ? &ready : NULL;
}

/* ---- reader: in read, through a frame with a variable size ---- */

STAY long inner_read(size_t size) {
    char *buffer = __builtin_alloca(size);
    ready++;
    long result = read(pipe_ends[0], buffer, size);
    KEEP();
    return result;
}
STAY void *reader(void *arg) {
    long result = inner_read(1000 + (size_t)arg);
    KEEP();
    return result ? &ready : NULL;
}

/* ---- handler: in a signal handler on a stack of its own, which interrupted a loop ---- */

STAY void inner_handler(void) {
    struct timespec t = {.tv_sec = 100000};
    ready++;
    nanosleep(&t, NULL);
    KEEP();
}
STAY void on_signal(int number) {
    (void)number;
    inner_handler();
    KEEP();
}
STAY void interrupted(void) {
    while (go_on)
        KEEP();
}
STAY void *handler(void *arg) {
    (void)arg;
    static char memory[65536];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    sigaltstack(&stack, NULL);
    ready++;
    interrupted();
    KEEP();
    return NULL;
}

/* ---- changed: turns in a loop until somebody changes a register ---- */

STAY uint64_t wait_for_register(void) {
    uint64_t value;
    __asm__ volatile("xor %%ebx, %%ebx\n"
                     ".fill 32, 1, 0x90\n"
                     "1: pause\n"
                     "test %%rbx, %%rbx\n"
                     "jz 1b\n"
                     "mov %%rbx, %0"
                     : "=r"(value)::"rbx", "cc");
    return value;
}
STAY void *changed(void *arg) {
    (void)arg;
    ready++;
    uint64_t value = wait_for_register();
    printf("changed %llu\n", (unsigned long long)value);
    fflush(stdout);
    return NULL;
}

/* ---- caller: calls all the time ---- */

STAY uint64_t leaf(uint64_t a) {
    KEEP();
    return a * 3;
}
STAY uint64_t branch(uint64_t a) {
    uint64_t b = leaf(a) + leaf(a + 1);
    KEEP();
    return b;
}
STAY void *caller(void *arg) {
    uint64_t sum = (uint64_t)arg;
    ready++;
    while (go_on)
        sum += branch(sum);
    KEEP();
    return sum ? NULL : &ready;
}

/* ---- all ---- */

static void start(const char *name, void *(*body)(void *)) {
    pthread_t thread;
    int before = ready;
    if (pthread_create(&thread, NULL, body, NULL))
        exit(3);
    while (ready == before)
        sched_yield();
    pthread_setname_np(thread, name);
    if (!strcmp(name, "handler")) {
        pthread_kill(thread, SIGUSR1);
        while (ready == before + 1)
            sched_yield();
    }
}

#ifdef HOOKED
static void listen(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    (void)call;
    KEEP();
}
#endif

STAY int main_wait(void) {
    char byte;
    long result;
    while ((result = read(0, &byte, 1)) > 0 || (result < 0 && errno == EINTR))
        KEEP();
    return (int)result;
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
#ifdef HOOKED
    struct ct_hooks *hooks;
    const struct ct_hook_listener listener = {.size = sizeof listener, .on_call = listen, .on_return = listen};
    struct ct_hooks_module what = {.size = sizeof what, .flavor = CT_HOOK_FLAVOR_RECORD};
    if (HOOKED == 3) { /* with a listener, which does nothing */
        what.flavor = CT_HOOK_FLAVOR_LISTEN;
        what.listener = &listener;
    }
    if (ct_hooks_create(&hooks, NULL) || ct_hooks_attach_module(hooks, &what))
        return 2;
    what.module = "libc.so.6";
    if (HOOKED == 2 && ct_hooks_attach_module(hooks, &what))
        return 2;
#endif
    if (pipe(pipe_ends))
        return 2;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "sleeper"))
            start("sleeper", sleeper);
        else if (!strcmp(argv[i], "waiter"))
            start("waiter", waiter);
        else if (!strcmp(argv[i], "reader"))
            start("reader", reader);
        else if (!strcmp(argv[i], "handler"))
            start("handler", handler);
        else if (!strcmp(argv[i], "changed"))
            start("changed", changed);
        else if (!strcmp(argv[i], "caller"))
            start("caller", caller);
        else
            return 64;
    }
    puts("ready");
    fflush(stdout);
    int result = main_wait();
    KEEP();
    return result;
}
