/* SPDX-License-Identifier: Apache-2.0 */
/* vforks N: makes N children by vfork, of which another thread kills some before they execute a program. Prints how
 * many ended as they may. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int child, stop;

static void *kill_some(void *unused) {
    (void)unused;
    for (unsigned seed = 1; !stop; seed = seed * 1103515245 + 12345) {
        if (child > 0)
            kill(child, SIGKILL);
        usleep(seed % 5000);
    }
    return NULL;
}

static __attribute__((noinline)) int work(int n) {
    volatile int sum = 0;
    for (int i = 0; i < n; i++)
        sum += i * n;
    return sum;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int count = argc > 1 ? atoi(argv[1]) : 10, good = 0;
    pthread_create(&thread, NULL, kill_some, NULL);
    for (int i = 0; i < count; i++) {
        int status, pid = vfork();
        if (!pid) {
            child = getpid();
            work(2000 + i);
            execl("/bin/true", "true", (char *)0);
            _exit(9);
        }
        child = 0;
        waitpid(pid, &status, 0);
        good += status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("%d\n", good);
    return 0;
}
