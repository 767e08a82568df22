/* SPDX-License-Identifier: Apache-2.0 */
/* Starts threads and children all the time, under a timer's signals, until SIGTERM; checks what they bring. Prints its
 * pid first. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4

static volatile sig_atomic_t stop, ticks;

static void *work(void *which) {
    long sum = 0;
    for (long i = 0; i < 2000; i++)
        sum += i ^ (long)which;
    return (void *)sum;
}

/* Every other thread ends inside the C library. */
static void *run(void *which) {
    void *result = work(which);
    if ((long)which & 1)
        pthread_exit(result);
    return result;
}

static void on_term(int signal) {
    (void)signal;
    stop = 1;
}

static void on_tick(int signal) {
    (void)signal;
    ticks++;
}

static int one_round(void *const *expected) {
    pthread_t threads[THREADS];
    int wrong = 0;
    for (long k = 0; k < THREADS; k++)
        pthread_create(&threads[k], NULL, run, (void *)k);
    for (long k = 0; k < THREADS; k++) {
        void *result;
        pthread_join(threads[k], &result);
        wrong += result != expected[k];
    }
    return wrong;
}

static int one_child(void *const *expected) {
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(work(NULL) == expected[0] ? 3 : 4);
    while (waitpid(pid, &status, 0) < 0)
        ;
    return !WIFEXITED(status) || WEXITSTATUS(status) != 3;
}

int main(void) {
    void *expected[THREADS];
    long rounds = 0, wrong = 0;
    for (long k = 0; k < THREADS; k++)
        expected[k] = work((void *)k);
    signal(SIGTERM, on_term);
    signal(SIGALRM, on_tick);
    ualarm(1000, 1000);
    printf("%d\n", getpid());
    fflush(stdout);
    while (!stop) {
        wrong += one_round(expected);
        if (++rounds % 50 == 0)
            wrong += one_child(expected);
    }
    printf("%d\n", rounds > 0 && ticks > 0 && !wrong);
    return 5;
}
