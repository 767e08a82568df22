/* SPDX-License-Identifier: Apache-2.0 */
/* Eight threads at work until standard input ends: vector registers that hold values all the time, and every kind of
 * system call that ends with EINTR when something stops it carelessly. Prints "right" or what went wrong.
 *
 * busy [ROUNDS]: ends by itself after that many rounds of work of the first thread. */
#include "zoo.h"
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

static volatile int stop, failures;
static long rounds[8];
static int semaphores, epoll, pipes[2], sockets[2];

static FN void fail(const char *what) {
    if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) < 10)
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
}

static FN uint64_t mix(uint64_t x) {
    for (int i = 0; i < 200; i++) {
        x ^= x >> 31;
        x *= 0x9e3779b97f4a7c15u;
    }
    return x;
}

static FN uint64_t work(int times) {
    uint64_t x = 1;
    for (int i = 0; i < times; i++)
        x = mix(x) + (uint64_t)i;
    return x;
}

/* Known values are in vector registers for a while; a tracer that stops us must bring them back. */
#if defined __x86_64__
static bool has_vectors(void) {
    return __builtin_cpu_supports("avx");
}

static FN void hold_in_vectors(const uint64_t *in, uint64_t *out, long spins) {
    __asm__ volatile("vmovdqu (%1), %%ymm0\n vmovdqu 32(%1), %%ymm1\n vmovdqu 64(%1), %%ymm2\n vmovdqu 96(%1), %%ymm3\n"
                     "vmovdqu 128(%1), %%ymm6\n vmovdqu 160(%1), %%ymm7\n vmovdqu 192(%1), %%ymm8\n"
                     "vmovdqu 224(%1), %%ymm9\n vmovdqu 256(%1), %%ymm12\n vmovdqu 288(%1), %%ymm13\n"
                     "vmovdqu 320(%1), %%ymm14\n vmovdqu 352(%1), %%ymm15\n"
                     "1: dec %0\n jnz 1b\n"
                     "vmovdqu %%ymm0, (%2)\n vmovdqu %%ymm1, 32(%2)\n vmovdqu %%ymm2, 64(%2)\n vmovdqu %%ymm3, 96(%2)\n"
                     "vmovdqu %%ymm6, 128(%2)\n vmovdqu %%ymm7, 160(%2)\n vmovdqu %%ymm8, 192(%2)\n"
                     "vmovdqu %%ymm9, 224(%2)\n vmovdqu %%ymm12, 256(%2)\n vmovdqu %%ymm13, 288(%2)\n"
                     "vmovdqu %%ymm14, 320(%2)\n vmovdqu %%ymm15, 352(%2)\n"
                     : "+r"(spins)
                     : "r"(in), "r"(out)
                     : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm6", "xmm7", "xmm8", "xmm9", "xmm12", "xmm13",
                       "xmm14", "xmm15");
}
#else
static bool has_vectors(void) {
    return true;
}

static FN void hold_in_vectors(const uint64_t *in, uint64_t *out, long spins) {
    __asm__ volatile("ld1 {v0.2d-v3.2d}, [%1]\n ldp q4, q5, [%1, #64]\n ldp q6, q7, [%1, #96]\n"
                     "ldp q16, q17, [%1, #128]\n ldp q18, q19, [%1, #160]\n ldp q20, q21, [%1, #192]\n"
                     "ldp q22, q23, [%1, #224]\n ldp q24, q25, [%1, #256]\n ldp q26, q27, [%1, #288]\n"
                     "ldp q28, q29, [%1, #320]\n ldp q30, q31, [%1, #352]\n"
                     "1: subs %0, %0, #1\n b.ne 1b\n"
                     "st1 {v0.2d-v3.2d}, [%2]\n stp q4, q5, [%2, #64]\n stp q6, q7, [%2, #96]\n"
                     "stp q16, q17, [%2, #128]\n stp q18, q19, [%2, #160]\n stp q20, q21, [%2, #192]\n"
                     "stp q22, q23, [%2, #224]\n stp q24, q25, [%2, #256]\n stp q26, q27, [%2, #288]\n"
                     "stp q28, q29, [%2, #320]\n stp q30, q31, [%2, #352]\n"
                     : "+r"(spins)
                     : "r"(in), "r"(out)
                     : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19",
                       "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
#endif

static FN int vectors_kept(uint64_t seed) {
    static __thread uint64_t in[64] __attribute__((aligned(64))), out[64] __attribute__((aligned(64)));
    for (int i = 0; i < 64; i++)
        in[i] = seed * 31 + (uint64_t)i;
    hold_in_vectors(in, out, 200000);
    return memcmp(in, out, 384) == 0;
}

/* ---- what the threads do, once ---- */

static FN void compute(void) {
    static uint64_t expected;
    uint64_t x = work(1000);
    if (!expected)
        expected = x;
    if (x != expected)
        fail("work");
}

static FN void hold_vectors(void) {
    if (has_vectors() && !vectors_kept((uint64_t)rounds[1]))
        fail("vector registers");
    work(100);
}

/* arm64: newer kernels do not show how to repeat a call that a stop has ended (docs/LIMITS.md). */
static int ended_by_stop(void) {
#ifdef __aarch64__
    return errno == EINTR;
#else
    return 0;
#endif
}

static FN void wait_epoll(void) {
    struct epoll_event event;
    if (epoll_wait(epoll, &event, 1, 5) != 0 && !ended_by_stop())
        fail("epoll_wait");
}

static FN void wait_signal(void) {
    struct timespec some = {0, 5000000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    if (sigtimedwait(&set, NULL, &some) != -1 || (errno != EAGAIN && !ended_by_stop()))
        fail("sigtimedwait");
}

static FN void wait_semaphore(void) {
    struct timespec some = {0, 5000000};
    struct sembuf down = {0, -1, 0};
    if (semtimedop(semaphores, &down, 1, &some) != -1 || (errno != EAGAIN && !ended_by_stop()))
        fail("semtimedop");
}

static FN void sleep_and_poll(void) {
    struct timespec some = {0, 3000000};
    struct pollfd nothing = {pipes[0], POLLIN, 0};
    if (nanosleep(&some, NULL) != 0)
        fail("nanosleep");
    if (clock_nanosleep(CLOCK_MONOTONIC, 0, &some, NULL) != 0)
        fail("clock_nanosleep");
    if (poll(&nothing, 1, 3) != 0)
        fail("poll");
    if (ppoll(&nothing, 1, &some, NULL) != 0)
        fail("ppoll");
}

static FN void wait_futex(void) {
    struct timespec some = {0, 5000000};
    uint32_t word = 1;
    if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &some, NULL, 0) != -1 || errno != ETIMEDOUT)
        fail("futex");
}

/* The writer on the other side is slow. */
static FN void read_slowly(void) {
    char byte;
    if (recv(sockets[0], &byte, 1, 0) < 0) /* 0: the writer has ended */
        fail("recv");
}

static void (*const jobs[8])(void) = {compute,        hold_vectors,   wait_epoll, wait_signal,
                                      wait_semaphore, sleep_and_poll, wait_futex, read_slowly};

static FN void *thread_main(void *arg) {
    intptr_t which = (intptr_t)arg;
    while (!stop) {
        jobs[which]();
        rounds[which]++;
    }
    return NULL;
}

static FN void *feed(void *arg) {
    while (!stop) {
        struct timespec some = {0, 5000000};
        if (nanosleep(&some, NULL) != 0)
            fail("nanosleep of the feeder");
        if (send(sockets[1], "x", 1, 0) != 1)
            fail("send");
    }
    shutdown(sockets[1], SHUT_WR);
    return arg;
}

static FN void *listen_to_input(void *arg) {
    char byte;
    ssize_t got;
    while ((got = read(0, &byte, 1)) == 1)
        ;
    if (got < 0)
        fail("read");
    stop = 1;
    return arg;
}

int main(int argc, char **argv) {
    pthread_t threads[8], feeder, listener;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    epoll = epoll_create1(0);
    if (semaphores < 0 || epoll < 0 || pipe(pipes) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
        abort();
    for (intptr_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, thread_main, (void *)i);
    pthread_create(&feeder, NULL, feed, NULL);
    if (argc > 1) {
        while (rounds[0] < atol(argv[1]))
            usleep(1000);
        stop = 1;
    } else {
        pthread_create(&listener, NULL, listen_to_input, NULL);
        puts("ready");
        fflush(stdout);
        pthread_join(listener, NULL);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    pthread_join(feeder, NULL);
    semctl(semaphores, 0, IPC_RMID);
    puts(failures ? "WRONG" : "right");
    return failures ? 1 : 0;
}
