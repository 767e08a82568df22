/* SPDX-License-Identifier: Apache-2.0 */
/* A program that forbids itself all system calls but a handful, then goes on with calls, faults, jumps and writes.
 * The agent has no system call to make in its steady state; what it must make for a full chunk is not allowed here. */
#include "zoo.h"
#include "machine.h"
#include "sandbox.h"
#include <setjmp.h>
#include <signal.h>
#include <string.h>

ZOO_GATES

/* An instruction that is none, and its size. */
#ifdef __x86_64__
#define ILLEGAL      "ud2"
#define ILLEGAL_SIZE 2
#else
#define ILLEGAL      "udf #0"
#define ILLEGAL_SIZE 4
#endif

static jmp_buf out;

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN long work(int times) {
    long x = 0;
    for (int i = 0; i < times; i++)
        x = leaf(x);
    return x;
}

static FN void jump(void) {
    longjmp(out, 1);
}

static FN void through(void) {
    jump();
    BARRIER();
}

static FN void on_fault(int number, siginfo_t *info, void *context) {
    leaf(number);
    (void)info;
    CONTEXT_PC(context) += ILLEGAL_SIZE;
}

static FN void fault(void) {
    __asm__ volatile(ILLEGAL);
}

static FN void confine(void) {
    if (!sandbox())
        _exit(77);
    BARRIER();
}

static FN void say(const char *text) {
    write(1, text, strlen(text));
    BARRIER();
}

int main(int argc, char **argv) {
    (void)argv;
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = on_fault;
    sigaction(SIGILL, &action, NULL);
    wait_for_start();
    confine();
    long x = work(argc > 1 ? 100000 : 1000);
    for (volatile int i = 0; i < 100; i++)
        if (!_setjmp(out))
            through();
    for (int i = 0; i < 10; i++)
        fault();
    say(x == (argc > 1 ? 100000 : 1000) ? "right\n" : "wrong\n");
    syscall(SYS_exit_group, 4);
}
