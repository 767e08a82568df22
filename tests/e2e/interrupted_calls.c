/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait in system calls while hooks come and go: none of them sees EINTR, and none waits longer or shorter
 * than it would without hooks being made.
 *
 * An engine can go wrong here because it stops all threads to patch: some calls are not restarted by the kernel. */
#include "harness.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static E2E_FN int leaf(int x) {
    E2E_BARRIER();
    return x + 1;
}

static int pipes[2], sockets[2], epoll_fd, semaphores;
static pthread_barrier_t ready;

/* Each waits until the end is near; returns 0 or what went wrong. */
static int in_read(void) {
    char byte;
    return read(pipes[0], &byte, 1) == 1 ? 0 : errno;
}

static int in_nanosleep(void) {
    struct timespec half = {0, 500000000}, rest;
    return nanosleep(&half, &rest) == 0 ? 0 : errno;
}

static int in_clock_nanosleep(void) {
    struct timespec half = {0, 500000000};
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &half, NULL);
}

static int in_poll(void) {
    struct pollfd p = {.fd = sockets[0], .events = POLLIN};
    return poll(&p, 1, 500) == 0 ? 0 : errno;
}

static int in_epoll_wait(void) {
    struct epoll_event event;
    return epoll_wait(epoll_fd, &event, 1, 500) == 0 ? 0 : errno;
}

static int in_select(void) {
    struct timeval half = {0, 500000};
    return select(0, NULL, NULL, NULL, &half) == 0 ? 0 : errno;
}

static int in_sigtimedwait(void) {
    struct timespec half = {0, 500000000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, NULL, &half) < 0 && errno == EAGAIN ? 0 : errno;
}

static int in_semtimedop(void) {
    struct timespec half = {0, 500000000};
    struct sembuf down = {0, -1, 0};
    return semtimedop(semaphores, &down, 1, &half) < 0 && errno == EAGAIN ? 0 : errno;
}

static int in_recv(void) {
    char byte;
    return recv(sockets[1], &byte, 1, 0) == 1 ? 0 : errno;
}

static int in_sem_timedwait(void) {
    sem_t sem;
    struct timespec until;
    sem_init(&sem, 0, 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 400000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return sem_timedwait(&sem, &until) < 0 && errno == ETIMEDOUT ? 0 : errno;
}

static const struct {
    const char *name;
    int (*wait)(void);
} waits[] = {
    {"read", in_read},
    {"nanosleep", in_nanosleep},
    {"clock_nanosleep", in_clock_nanosleep},
    {"poll", in_poll},
    {"epoll_wait", in_epoll_wait},
    {"select", in_select},
    {"sigtimedwait", in_sigtimedwait},
    {"semtimedop", in_semtimedop},
    {"recv", in_recv},
    {"sem_timedwait", in_sem_timedwait},
};
#define COUNT (sizeof waits / sizeof *waits)

static void *wait_body(void *arg) {
    size_t i = (size_t)(uintptr_t)arg;
    pthread_barrier_wait(&ready);
    int error = waits[i].wait();
    if (error)
        e2e_fail(__FILE__, __LINE__, "%s ended with %s", waits[i].name, strerror(error));
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[COUNT];
    e2e_begin(argc, argv);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    epoll_fd = epoll_create1(0);
    if (pipe(pipes) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 || semaphores < 0 || epoll_fd < 0)
        return 1;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_barrier_init(&ready, NULL, COUNT + 1);
    for (size_t i = 0; i < COUNT; i++)
        pthread_create(&threads[i], NULL, wait_body, (void *)(uintptr_t)i);
    pthread_barrier_wait(&ready);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    int changes = 0;
    do {
        int hook = E2E_RECORD(leaf);
        E2E_EQUAL(leaf(1), 2);
        if (hook >= 0)
            E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
        changes++;
        usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9 < 0.6);
    if (write(pipes[1], "x", 1) != 1 || write(sockets[0], "x", 1) != 1)
        return 1;
    for (size_t i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    semctl(semaphores, 0, IPC_RMID);
    printf("%d changes\n", changes);
    return e2e_end();
}
