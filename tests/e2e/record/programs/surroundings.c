/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what a program inherits and can ask the kernel about itself: arguments, environment, limits, signals,
 * traits. */
#include "zoo.h"
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

ZOO_GATES

extern char **environ;

static FN void show_arguments(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        printf("argv[%d] = %s\n", i, argv[i]);
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "E2E_", 4) != 0)
            printf("%s\n", *e);
}

static FN void show_limits(void) {
    for (int i = 0; i < 16; i++) {
        struct rlimit limit;
        getrlimit(i, &limit);
        printf("limit %d: %lld %lld\n", i, (long long)limit.rlim_cur, (long long)limit.rlim_max);
    }
    char directory[4096];
    mode_t mask = umask(0);
    umask(mask);
    printf("%s, mask %o, nice %d, scheduler %d, %d %d\n", getcwd(directory, sizeof directory), (unsigned)mask,
           getpriority(PRIO_PROCESS, 0), sched_getscheduler(0), (int)getuid(), (int)getegid());
    printf("leads its group: %d, its session: %d\n", getpgid(0) == getpid(), getsid(0) == getpid());
}

static FN void show_signals(void) {
    sigset_t mask, pending;
    stack_t stack;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigpending(&pending);
    sigaltstack(NULL, &stack);
    for (int i = 1; i < 65; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) != 0)
            continue;
        int odd = sigismember(&mask, i) > 0 || sigismember(&pending, i) > 0 || action.sa_handler != SIG_DFL;
        if (odd)
            printf("signal %d: blocked %d, pending %d, ignored %d, flags %#x\n", i, sigismember(&mask, i),
                   sigismember(&pending, i), action.sa_handler == SIG_IGN, (unsigned)action.sa_flags);
    }
    printf("alternate stack: %#x\n", (unsigned)stack.ss_flags);
    struct itimerval timer;
    for (int i = 0; i < 3; i++) {
        getitimer(i, &timer);
        printf("timer %d: %ld\n", i, (long)timer.it_value.tv_sec);
    }
}

static FN void show_traits(void) {
    char line[256];
    int death = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "Sig", 3) == 0 || strncmp(line, "ShdPnd", 6) == 0 || strncmp(line, "TracerPid", 9) == 0 ||
            strncmp(line, "Seccomp", 7) == 0 || strncmp(line, "NoNewPrivs", 10) == 0 ||
            strncmp(line, "Threads", 7) == 0 || strncmp(line, "Cap", 3) == 0 || strncmp(line, "Name", 4) == 0)
            if (strncmp(line, "SigQ", 4) != 0)
                fputs(line, stdout);
    fclose(f);
    prctl(PR_GET_PDEATHSIG, &death);
    printf("personality %#x, dumpable %d, death signal %d, keeps capabilities %d, reaper %d\n",
           (unsigned)personality(0xffffffff), prctl(PR_GET_DUMPABLE), death, prctl(PR_GET_KEEPCAPS),
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

int main(int argc, char **argv) {
    wait_for_start();
    show_arguments(argc, argv);
    show_limits();
    show_signals();
    show_traits();
    wait_for_end();
    return 0;
}
