/* SPDX-License-Identifier: Apache-2.0 */
/* See clock.h. */
#include "drain/clock.h"
#include "os/thread.h"
#include <stdbool.h>
#include <time.h>

#define STEP_NS 1000000ull /* reading two clocks does not make such a difference; setting one does */
#define TRIES   9          /* an interrupt may come between the two clocks: the closest pair is used */

uint64_t ct_clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct ct_clock_point take_point(void) {
    struct ct_clock_point best = {0, 0};
    uint64_t smallest = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t start = ct_os_timestamp(), ns = ct_clock_now(), end = ct_os_timestamp();
        if (end - start >= smallest)
            continue;
        smallest = end - start;
        best = (struct ct_clock_point){start + (end - start) / 2, ns};
    }
    return best;
}

void ct_clock_start(struct ct_clock *clock) {
    *clock = (struct ct_clock){.count = 1};
    clock->first = clock->before = clock->newest = take_point();
}

void ct_clock_start_with(struct ct_clock *clock, const struct ct_clock *other) {
    *clock = (struct ct_clock){.count = 1, .first = other->first, .before = other->first, .newest = other->first};
}

void ct_clock_calibrate(struct ct_clock *clock) {
    struct ct_clock_point now = take_point();
    if (now.counter <= clock->newest.counter)
        return;
    clock->before = clock->newest;
    clock->newest = now;
    clock->rate = (double)(now.ns - clock->before.ns) / (double)(now.counter - clock->before.counter);
    clock->count++;
}

double ct_clock_hz(const struct ct_clock *clock) {
    uint64_t ns = clock->newest.ns - clock->first.ns;
    return ns ? (double)(clock->newest.counter - clock->first.counter) * 1e9 / (double)ns : 0;
}

/* ---- the wall clock ---- */

static uint64_t real_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t ahead(const struct ct_clock_pair *pair) {
    return pair->real_ns - pair->boot_ns;
}

/* Was the clock set between the two? */
static bool differs(const struct ct_clock_pair *a, const struct ct_clock_pair *b) {
    uint64_t more = ahead(a) - ahead(b), less = ahead(b) - ahead(a);
    return (more < less ? more : less) > STEP_NS || a->offset_s != b->offset_s;
}

/* The last pair is replaced unless it shows that the clock was set. A full list keeps its beginning, and the newest. */
void ct_clock_add_pair(struct ct_clock_wall *w, const struct ct_clock_pair *pair) {
    size_t n = w->count;
    bool replace = n == CT_CLOCK_PAIRS ||
                   (n > 1 && !differs(&w->pairs[n - 2], &w->pairs[n - 1]) && !differs(&w->pairs[n - 1], pair));
    w->pairs[replace ? n - 1 : n] = *pair;
    w->count += !replace;
}

void ct_clock_note_wall(struct ct_clock_wall *w) {
    struct ct_clock_pair best = {0};
    uint64_t smallest = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t start = ct_clock_now(), real = real_now(), end = ct_clock_now();
        if (end - start >= smallest)
            continue;
        smallest = end - start;
        best = (struct ct_clock_pair){start + (end - start) / 2, real, 0};
    }
    time_t seconds = (time_t)(best.real_ns / 1000000000u);
    struct tm local;
    if (localtime_r(&seconds, &local))
        best.offset_s = (int32_t)local.tm_gmtoff;
    ct_clock_add_pair(w, &best);
}
