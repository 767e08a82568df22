/* SPDX-License-Identifier: Apache-2.0 */
/* Traces for tests of summaries: random programs, the same ones each time. */
#ifndef CT_TESTS_SUMMARY_UTIL_H
#define CT_TESTS_SUMMARY_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANDOM_FUNCTIONS  300u /* of module 1; "f0", "f1" …, the first ones are entry-only */
#define RANDOM_ENTRY_ONLY 4u

/* Traces of tests that look at each event again and again are shorter under sanitizers, which run them unoptimized. */
#ifdef __SANITIZE_ADDRESS__
#define MANY(events) ((events) / 5)
#else
#define MANY(events) (events)
#endif

struct random_trace {
    uint64_t seed;
    size_t threads, events; /* of each thread */
    unsigned stacks;        /* besides the first: coroutines */
    unsigned gaps;          /* of 100,000 events, this many are lost, and reported as gaps */
    unsigned silent;        /* ... and not reported */
    unsigned odd;           /* of 1,000 ends, this many are of another open call than the innermost */
    unsigned waits;         /* how often all threads waited for the recorder */
    uint64_t keep;          /* bytes of segments to keep; 0: one file */
    bool raw;               /* ATF v2 */
    bool unfinished;        /* as a killed recorder leaves it */
    bool calm;              /* no signals */
    bool back;              /* time goes back now and then */
};

/* Makes the directory of a process. */
void write_random(const char *directory, const struct random_trace *setup);

#endif
