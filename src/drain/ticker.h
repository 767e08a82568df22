/* SPDX-License-Identifier: Apache-2.0 */
/* The ticker of the fast clock: a thread that stores the CPU's counter in shared memory several thousand times a
 * second.
 *
 * With the fast clock an event takes its thread's last reading of the counter, unless a tick has come since then, and
 * each 16th event reads it (hook/stubs_x64.S). Why: a reading costs 11 ns of the 12 that an event takes, and a tick is
 * the only thing that shows a thread, without a reading, that time has passed (a wait, a long loop).
 *
 * How late a time may be: a reading that is used after a tick with the value T is newer than T, and is used at the
 * latest when the next tick is stored. So no time is late by more than the longest time from a tick's value to the next
 * tick's arrival. The ticker measures that, and the manifest has it.
 *
 * While there are few events the ticker sleeps, and each event reads the counter: that costs less than ticks. */
#ifndef CT_DRAIN_TICKER_H
#define CT_DRAIN_TICKER_H

#include "abi/shm_abi.h"
#include <pthread.h>
#include <stdbool.h>

#define CT_TICKER_BUCKETS 256u /* four for each power of two */

struct ct_ticker {
    struct ct_shm_clock *clock;
    /* How many events there were so far; called on the ticker's thread. */
    uint64_t (*events)(void *arg);
    void *arg;
    pthread_t thread;
    pthread_mutex_t mutex; /* `stopping` */
    pthread_cond_t stop;
    bool running, stopping;
    /* Written by the thread, read by any. In counts of the counter. */
    uint64_t ticks, latest;
    uint64_t late[CT_TICKER_BUCKETS]; /* ticks by their distance from the one before */
};

/* CT_ERR_NO_THREADS: each event reads the counter, as with the exact clock. */
int ct_ticker_start(struct ct_ticker *ticker);
/* From now on each event reads the counter. */
void ct_ticker_stop(struct ct_ticker *ticker);
/* By how many counts a time may be late at most: for this share of the ticks, and 1 for all. Any thread. */
uint64_t ct_ticker_late(const struct ct_ticker *ticker, double share);

#endif
