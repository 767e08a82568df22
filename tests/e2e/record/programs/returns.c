/* SPDX-License-Identifier: Apache-2.0 */
/* Let go while functions are open everywhere: on a thread's stack, large and small ones, on the one of a signal handler
 * and of what it has interrupted, on the stack of a suspended coroutine, and in the middle of a system call. Afterwards
 * all of them return. */
#include "zoo.h"
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

ZOO_GATES

static ucontext_t home, coroutine;
static char coroutine_stack[256 << 10], handler_stack[256 << 10];
static int open_pipe[2], ready_pipe[2];

static FN long rest(long n) {
    swapcontext(&coroutine, &home);
    BARRIER();
    return n;
}

static FN long suspended(int depth) {
    long below = depth ? suspended(depth - 1) : rest(5);
    BARRIER();
    return below + 1;
}

static void begin(void) {
    CHECK(suspended(3) == 9);
}

static FN char wait_byte(int file) {
    char byte = 0;
    CHECK(read(file, &byte, 1) == 1);
    return byte;
}

static FN long other(int depth) {
    long below = depth ? other(depth - 1) : wait_byte(open_pipe[0]);
    BARRIER();
    return below + 1;
}

static void *thread(void *arg) {
    CHECK(write(ready_pipe[1], "r", 1) == 1);
    CHECK(other(4) == 'b' + 5);
    return arg;
}

static FN long in_handler(int depth) {
    long below = depth ? in_handler(depth - 1) : 0;
    if (!depth)
        wait_for_end();
    BARRIER();
    return below + 1;
}

static FN void handler(int signal) {
    CHECK(in_handler(3) == 4);
    CHECK(signal == SIGUSR1);
}

static FN long large(void) {
    volatile char room[3 << 20];
    room[0] = room[sizeof room - 1] = 1;
    raise(SIGUSR1);
    BARRIER();
    return room[0] + room[sizeof room - 1];
}

static FN long down(int depth) {
    long below = depth ? down(depth - 1) : large();
    BARRIER();
    return below + 1;
}

int main(void) {
    const stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    pthread_t id;
    wait_for_start();
    CHECK(!pipe(open_pipe) && !pipe(ready_pipe) && !sigaltstack(&stack, NULL) && !sigaction(SIGUSR1, &action, NULL));
    CHECK(!getcontext(&coroutine));
    coroutine.uc_stack.ss_sp = coroutine_stack;
    coroutine.uc_stack.ss_size = sizeof coroutine_stack;
    coroutine.uc_link = &home;
    makecontext(&coroutine, begin, 0);
    swapcontext(&home, &coroutine);
    CHECK(!pthread_create(&id, NULL, thread, NULL));
    CHECK(wait_byte(ready_pipe[0]) == 'r');
    CHECK(down(30) == 33);
    CHECK(write(open_pipe[1], "b", 1) == 1);
    CHECK(!pthread_join(id, NULL));
    swapcontext(&home, &coroutine);
    puts("done");
    return zoo_failures;
}
