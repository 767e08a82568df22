/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes through io_uring until SIGTERM, so that threads of the kernel's work in this process; prints its pid
 * first, and in the end whether every answer was right. Argument "poll": a thread of the kernel's takes what is asked.
 * Status 77: there is no io_uring here. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH = 32, SIZE = 4096 };

static struct {
    int fd;
    unsigned flags;
    unsigned *tail, *mask, *array, *state;             /* what is asked */
    unsigned *answer_head, *answer_tail, *answer_mask; /* what is answered */
    struct io_uring_sqe *entries;
    struct io_uring_cqe *answers;
} ring;
static volatile sig_atomic_t stop;
static char buffers[DEPTH][SIZE];

static uint8_t *map(size_t size, off_t offset) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, offset);
    if (at == MAP_FAILED)
        exit(77);
    return at;
}

static void open_ring(unsigned flags) {
    struct io_uring_params p = {.flags = flags, .sq_thread_idle = 50};
    ring.fd = (int)syscall(SYS_io_uring_setup, DEPTH, &p);
    if (ring.fd < 0)
        exit(77);
    uint8_t *asked = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    uint8_t *answered = map(p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    ring.entries = (struct io_uring_sqe *)map(p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    ring.flags = flags;
    ring.tail = (unsigned *)(asked + p.sq_off.tail);
    ring.mask = (unsigned *)(asked + p.sq_off.ring_mask);
    ring.array = (unsigned *)(asked + p.sq_off.array);
    ring.state = (unsigned *)(asked + p.sq_off.flags);
    ring.answer_head = (unsigned *)(answered + p.cq_off.head);
    ring.answer_tail = (unsigned *)(answered + p.cq_off.tail);
    ring.answer_mask = (unsigned *)(answered + p.cq_off.ring_mask);
    ring.answers = (struct io_uring_cqe *)(answered + p.cq_off.cqes);
}

/* Every other one is for a worker: it is not even tried in this thread. */
static void ask(int operation, int file, unsigned n) {
    unsigned tail = *ring.tail, i = tail & *ring.mask;
    ring.entries[i] = (struct io_uring_sqe){.opcode = (uint8_t)operation,
                                            .flags = n % 2 ? IOSQE_ASYNC : 0,
                                            .fd = file,
                                            .addr = (uint64_t)(uintptr_t)buffers[n],
                                            .len = SIZE,
                                            .off = n * SIZE};
    ring.array[i] = i;
    __atomic_store_n(ring.tail, tail + 1, __ATOMIC_RELEASE);
}

static void enter(unsigned asked, unsigned wanted) {
    unsigned flags = IORING_ENTER_GETEVENTS;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (ring.flags & IORING_SETUP_SQPOLL && __atomic_load_n(ring.state, __ATOMIC_RELAXED) & IORING_SQ_NEED_WAKEUP)
        flags |= IORING_ENTER_SQ_WAKEUP;
    (void)syscall(SYS_io_uring_enter, ring.fd, asked, wanted, flags, NULL, 0);
}

__attribute__((noinline)) int all_done(void) {
    int right = 0;
    enter(DEPTH, DEPTH);
    for (int n = 0; n < DEPTH; n++) {
        unsigned head = *ring.answer_head;
        while (head == __atomic_load_n(ring.answer_tail, __ATOMIC_ACQUIRE))
            enter(0, 1);
        right += ring.answers[head & *ring.answer_mask].res == SIZE;
        __atomic_store_n(ring.answer_head, head + 1, __ATOMIC_RELEASE);
    }
    return right == DEPTH;
}

static int turn(int operation, int file) {
    for (unsigned n = 0; n < DEPTH; n++)
        ask(operation, file, n);
    return all_done();
}

static void on_term(int signal) {
    (void)signal;
    stop = 1;
}

int main(int count, char **arguments) {
    char name[] = "uring-XXXXXX";
    open_ring(count > 1 && !strcmp(arguments[1], "poll") ? IORING_SETUP_SQPOLL : 0);
    int file = mkstemp(name), right = 1;
    if (file < 0 || unlink(name))
        return 1;
    signal(SIGTERM, on_term);
    right &= turn(IORING_OP_WRITE, file);
    printf("%d\n", getpid());
    fflush(stdout);
    while (!stop)
        right &= turn(IORING_OP_WRITE, file) & turn(IORING_OP_READ, file);
    printf("%d\n", right);
    return 5;
}
