/* SPDX-License-Identifier: Apache-2.0 */
/* Ignores and blocks signals, gets them all the same, and lives; keeps time by timers that interrupt it. */
#include "zoo.h"
#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

ZOO_GATES

static volatile sig_atomic_t alarms;

static FN void on_alarm(int number) {
    (void)number;
    alarms++;
}

static FN void ignore(int number) {
    signal(number, SIG_IGN);
    kill(getpid(), number);
    BARRIER();
}

static FN int blocked(int number) {
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), number);
    sigpending(&pending);
    int seen = sigismember(&pending, number);
    CHECK(sigwaitinfo(&set, NULL) == number);
    return seen;
}

static FN long spin(long x) {
    for (int i = 0; i < 50000; i++)
        BARRIER();
    return x + 1;
}

static FN void time_limit(int which, int number) {
    struct itimerval soon = {{0, 0}, {0, 20000}};
    signal(number, on_alarm);
    int before = alarms;
    setitimer(which, &soon, NULL);
    for (long x = 0; alarms == before;)
        x = spin(x);
    signal(number, SIG_DFL);
}

int main(void) {
    wait_for_start();
    ignore(SIGINT);
    ignore(SIGTERM);
    ignore(SIGHUP);
    ignore(SIGQUIT);
    CHECK(blocked(SIGUSR1) == 1);
    CHECK(blocked(SIGRTMIN + 3) == 1);
    time_limit(ITIMER_REAL, SIGALRM);
    time_limit(ITIMER_VIRTUAL, SIGVTALRM);
    time_limit(ITIMER_PROF, SIGPROF);
    CHECK(alarms == 3);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
