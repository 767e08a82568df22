/* SPDX-License-Identifier: Apache-2.0 */
/* subject [WORD]...: makes calls, on threads that come and go, until it gets SIGTERM: then it prints how many rounds it
 * made.
 *   --once     one round, with a child that it forks and a program that it executes there
 *   --filter   with one more seccomp filter, which kills for memfd_create
 *   --locked   all its memory is locked, and it may lock no more
 *   --forks    a fork that fails ends it with exit code 1 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { THREADS = 3, CALLS = 200, DONE = 21, NOBODY = 65534 };

static volatile sig_atomic_t over;

static void end(int number) {
    (void)number;
    over = 1;
}

__attribute__((noinline)) static int work(int n) {
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

static void *run(void *arg) {
    int n = 0;
    while (n < CALLS)
        n = work(n);
    return arg;
}

static void one_round(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, NULL))
            exit(2);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
}

static void fork_one(bool execute) {
    pid_t child = fork();
    if (child < 0)
        exit(1);
    if (child == 0) {
        (void)run(NULL);
        if (execute)
            (void)execl("/bin/true", "true", (char *)NULL);
        _exit(execute ? 127 : 0);
    }
    (void)waitpid(child, NULL, 0);
}

static void filter_more(void) {
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_memfd_create},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    const struct sock_fprog all = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))
        exit(3);
}

static void lock_all(void) {
    const struct rlimit limit = {8 << 20, 8 << 20};
    if (mlockall(MCL_CURRENT | MCL_FUTURE) || setrlimit(RLIMIT_MEMLOCK, &limit) || setuid(NOBODY))
        exit(4);
}

int main(int argc, char **argv) {
    bool once = false, forks = false, locked = false;
    int rounds = 0;
    (void)signal(SIGTERM, end);
    for (int i = 1; i < argc; i++) {
        once |= !strcmp(argv[i], "--once");
        forks |= !strcmp(argv[i], "--forks");
        if (!strcmp(argv[i], "--filter"))
            filter_more();
        locked |= !strcmp(argv[i], "--locked");
    }
    if (locked)
        lock_all();
    printf("ready\n");
    (void)fflush(stdout);
    do {
        if (locked)
            (void)run(NULL); /* a thread's stack is more than it may lock */
        else
            one_round();
        if (once || forks)
            fork_one(once);
        if (!once)
            (void)usleep(2000);
        rounds++;
    } while (!over && !once);
    printf("%d rounds\n", rounds);
    return DONE;
}
