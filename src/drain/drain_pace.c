/* SPDX-License-Identifier: Apache-2.0 */
/* When the drain thread sleeps, what wakes it, and whether it gets a processor. Owner: the drain thread.
 *
 * It sleeps for a few milliseconds, so that the live parts of chunks are written too, and for less when a sixteenth of
 * the lane would be full sooner, at the present rate. A thread of the target wakes it when a quarter was filled all the
 * same: that takes a burst, so threads hardly ever make this system call. The word that the drain sleeps on is in
 * shared memory. The target may wake it for nothing: if it does so again and again, nobody but us can wake it. The
 * target may also keep us from waking it, since it can wait there too and move those that wait to another word. So a
 * long sleep has slices, and each ends with a look whether the drain is to finish.
 *
 * When others keep it from the processors, the thread asks for a better priority. Only root, or a user with a limit on
 * nice, gets one. */
#include "drain/drain.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FILL_PART   16u /* the drain sleeps until this part of the lane may be full */
#define WAKE_PART   4u  /* it is woken when this part was submitted since its last pass began */
#define LEAST_NS    100000u
#define SLICE_NS    250000000u
#define MOST_IDLE   8u /* wake-ups after which nothing was found, until they are ignored */
#define HIGH_NICE   (-10)
#define QUEUED_PART 20u /* a twentieth of the time spent waiting for a processor is too much */

/* ---- sleeping ---- */

static bool is_stopping(const struct ct_drain *d) {
    return __atomic_load_n(&d->stopping, __ATOMIC_ACQUIRE);
}

/* False: the time is over. */
static bool sleep_on(uint32_t *word, uint32_t value, uint64_t ns) {
    const struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    return !syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0) || errno != ETIMEDOUT;
}

/* Returns true if somebody has woken us, or there was no need to sleep. */
static bool sleep_until_woken(struct ct_drain *d, uint64_t ns) {
    struct ct_shm_queue *q = d->lane->queue;
    uint32_t wakes = __atomic_load_n(&q->wakes, __ATOMIC_ACQUIRE);
    uint64_t wake_at = d->submits + d->lane->chunk_count / WAKE_PART + 1;
    __atomic_store_n(&q->wake_at, wake_at, __ATOMIC_SEQ_CST);
    /* What was submitted before the threads could see wake_at is not slept on. ct_drain_wake changes the word after
     * `stopping` was set. */
    bool woken = __atomic_load_n(&q->submits, __ATOMIC_SEQ_CST) >= wake_at;
    for (uint64_t slice; ns && !woken && !is_stopping(d); ns -= slice) {
        slice = ns < SLICE_NS ? ns : SLICE_NS;
        woken = sleep_on(&q->wakes, wakes, slice);
    }
    __atomic_store_n(&q->wake_at, CT_SHM_NO_WAKE, __ATOMIC_RELAXED);
    return woken;
}

/* How long to sleep, by what was submitted since the last time. */
static uint64_t time_to_fill(struct ct_drain *d, uint64_t most_ns) {
    struct ct_drain_pace *p = &d->pace;
    uint64_t now = ct_clock_now(), chunks = d->submits - p->submits, ns = now - p->slept_at;
    p->submits = d->submits;
    p->slept_at = now;
    if (!d->found || !chunks || chunks > d->lane->chunk_count * 64ull || ns > most_ns * 64)
        return most_ns; /* nothing to go by, or nothing to believe */
    uint64_t fill_ns = ns * (d->lane->chunk_count / FILL_PART + 1) / chunks;
    fill_ns = fill_ns > LEAST_NS ? fill_ns : LEAST_NS;
    return fill_ns < most_ns ? fill_ns : most_ns;
}

bool ct_drain_sleep(struct ct_drain *d, unsigned ms) {
    struct ct_drain_pace *p = &d->pace;
    struct pollfd f = {.fd = d->stop_fd, .events = POLLIN};
    if (d->found)
        p->idle_wakes = 0;
    if (ms && p->idle_wakes < MOST_IDLE) {
        p->idle_wakes += sleep_until_woken(d, time_to_fill(d, ms * 1000000ull));
        ms = 0;
    }
    return poll(&f, 1, (int)ms) <= 0;
}

void ct_drain_wake(struct ct_drain *d) {
    uint64_t one = 1;
    struct ct_shm_queue *q = d->lane->queue;
    (void)!write(d->stop_fd, &one, sizeof one);
    __atomic_fetch_add(&q->wakes, 1, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, &q->wakes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); /* the target may wait too */
}

/* ---- its share of the processors ---- */

/* Time on a processor, and time spent waiting for one, in nanoseconds. False: the kernel does not report it. */
static bool read_times(const struct ct_drain_pace *p, uint64_t *ran, uint64_t *queued) {
    char text[96];
    ssize_t size = p->schedstat >= 0 ? pread(p->schedstat, text, sizeof text - 1, 0) : -1;
    unsigned long long a, b;
    text[size > 0 ? size : 0] = 0;
    if (sscanf(text, "%llu %llu", &a, &b) != 2)
        return false;
    *ran = a;
    *queued = b;
    return true;
}

void ct_drain_pace_begin(struct ct_drain *d) {
    d->pace.schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    d->pace.measured_ns = ct_clock_now();
}

void ct_drain_pace_end(struct ct_drain *d) {
    ct_drain_pace_measure(d);
    if (d->pace.schedstat >= 0)
        close(d->pace.schedstat);
    d->pace.schedstat = -1;
}

void ct_drain_pace_measure(struct ct_drain *d) {
    struct ct_drain_pace *p = &d->pace;
    uint64_t now = ct_clock_now(), before = p->queued_ns;
    if (!read_times(p, &p->ran_ns, &p->queued_ns))
        return;
    bool kept_waiting = p->queued_ns - before > (now - p->measured_ns) / QUEUED_PART;
    p->measured_ns = now;
    if (!kept_waiting || p->asked)
        return;
    p->asked = true;
    errno = 0;
    int nice = getpriority(PRIO_PROCESS, 0);
    p->raised = !errno && nice > HIGH_NICE && !setpriority(PRIO_PROCESS, 0, HIGH_NICE);
}
