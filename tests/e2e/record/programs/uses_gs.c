/* SPDX-License-Identifier: Apache-2.0 */
/* Has data of its own at GS, which it takes in every way there is: in the main thread, in threads one after the
 * other, in a child, and reads it in signal handlers too. E2E_GS chooses when: "early" before the gate, else after
 * it. */
#include "zoo.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

ZOO_GATES

enum { ROUNDS = 12, THREADS = 4, READS = 2000, FSGSBASE = 2, SET_GS = 0x1001 };

static unsigned long handled;

static FN unsigned long through_gs(void) {
    unsigned long value;
    __asm__ volatile("mov %%gs:8, %0" : "=r"(value));
    return value;
}

static FN void take_by_libc(unsigned long *area) {
    CHECK(syscall(SYS_arch_prctl, SET_GS, area) == 0);
}

static FN void take_by_kernel(unsigned long *area) {
    long result = SYS_arch_prctl;
    __asm__ volatile("mov $158, %%eax\n\tmov $0x1001, %%edi\n\tsyscall"
                     : "=a"(result)
                     : "S"(area)
                     : "rdi", "rcx", "r11", "memory");
    CHECK(result == 0);
}

static FN void take_by_instruction(unsigned long *area) {
    if (!(getauxval(AT_HWCAP2) & FSGSBASE))
        take_by_kernel(area);
    else
        __asm__ volatile("wrgsbase %0" ::"r"(area));
}

static FN void take(int way, unsigned long *area) {
    if (way % 3 == 0)
        take_by_instruction(area);
    else if (way % 3 == 1)
        take_by_libc(area);
    else
        take_by_kernel(area);
}

static FN void *work(void *number) {
    unsigned long area[2] = {0, (unsigned long)number}, sum = 0;
    take((int)(unsigned long)number, area);
    for (int i = 0; i < READS; i++)
        sum += through_gs();
    return (void *)sum; /* NOLINT(performance-no-int-to-ptr) */
}

static FN void crowd(unsigned long first) {
    pthread_t threads[THREADS];
    for (unsigned long i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, work, (void *)(first + i))); /* NOLINT(performance-no-int-to-ptr) */
    for (unsigned long i = 0; i < THREADS; i++) {
        void *sum = NULL;
        pthread_join(threads[i], &sum);
        CHECK((unsigned long)sum == READS * (first + i));
    }
}

static FN void handle(int signal) {
    (void)signal;
    unsigned long value = through_gs();
    __atomic_fetch_add(&handled, value != 0, __ATOMIC_RELAXED);
}

static FN void interrupt(void) {
    struct sigaction action;
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (__atomic_load_n(&handled, __ATOMIC_RELAXED) < 20)
        CHECK(through_gs() == 42);
    setitimer(ITIMER_REAL, &never, NULL);
}

static FN void have_child(void) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        unsigned long area[2] = {0, 7};
        CHECK(through_gs() == 42);
        take_by_libc(area);
        crowd(50);
        CHECK(through_gs() == 7);
        puts(zoo_failures ? "child: wrong" : "child: right");
        fflush(stdout);
        _exit(zoo_failures);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && !status);
}

int main(void) {
    static unsigned long area[2] = {0, 42};
    const char *when = getenv("E2E_GS"), *way = getenv("E2E_GS_WAY");
    if (when && !strcmp(when, "early"))
        take(way ? atoi(way) : 1, area);
    wait_for_start();
    if (!when || strcmp(when, "early") != 0)
        take(way ? atoi(way) : 1, area);
    for (int i = 0; i < READS; i++)
        CHECK(through_gs() == 42);
    for (unsigned long round = 0; round < ROUNDS; round++)
        crowd(round * THREADS + 1);
    interrupt();
    have_child();
    wait_for_end();
    CHECK(through_gs() == 42);
    puts(zoo_failures ? "wrong" : "right");
    return zoo_failures;
}
