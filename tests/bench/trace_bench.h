/* SPDX-License-Identifier: Apache-2.0 */
/* What benchmarks that write a trace share: random numbers, the same ones each time, and the names of functions. */
#ifndef CT_BENCH_TRACE_BENCH_H
#define CT_BENCH_TRACE_BENCH_H

#include "tests/tools/place_of.h"
#include "trace/writer.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Seconds on a clock. */
static inline double bench_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void must(int status, const char *what) {
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", what, ct_status_text(status));
    exit(1);
}

static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline uint32_t pick(uint32_t limit) {
    static uint64_t state = 0x9e3779b97f4a7c15u;
    return (uint32_t)(next_random(&state) >> 33) % limit;
}

/* Functions "function_0" and so on, of module 1. */
static inline void write_symbols(const char *directory, uint64_t functions) {
    struct ct_symbols_writer *symbols;
    char name[64];
    must(ct_symbols_writer_open(&symbols, place_of(directory)), "symbols");
    ct_symbols_writer_module(symbols, 1, "/usr/bin/bench", "00", 0x1000);
    for (uint64_t i = 0; i < functions; i++) {
        snprintf(name, sizeof name, "function_%llu", (unsigned long long)i);
        ct_symbols_writer_function(symbols, UINT64_C(1) << 32 | i, 64 * i, 64, name, "", "");
    }
    must(ct_symbols_writer_close(symbols), "symbols");
}

#endif
