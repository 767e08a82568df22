/* SPDX-License-Identifier: Apache-2.0 */
/* See clock.h. */
#include "drain/clock.h"
#include "os/thread.h"
#include <time.h>

#define TRIES 9 /* an interrupt may come between the two clocks: the closest pair is used */

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
