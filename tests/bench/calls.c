/* SPDX-License-Identifier: Apache-2.0 */
/* The micro workload, see calls.h. The functions do next to nothing and cannot be merged, inlined, cloned or turned
 * into tail calls. */
#include "calls.h"
#include <string.h>

#if defined __clang__
#define CALLED __attribute__((noinline))
#else
#define CALLED __attribute__((noinline, noclone, noipa))
#endif
#define KEEP() __asm__ volatile("" ::: "memory")

/* ---- flat ---- */

CALLED uint64_t calls_leaf(uint64_t a, uint64_t b) {
    KEEP();
    return (a << 5) - a + b;
}

static uint64_t run_flat(uint64_t calls) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < calls; i++)
        sum = calls_leaf(sum, i);
    return sum;
}

/* ---- deep ---- */

CALLED uint64_t calls_descend(uint64_t left, uint64_t seed);

CALLED uint64_t calls_descend(uint64_t left, uint64_t seed) {
    uint64_t result = left > 1 ? calls_descend(left - 1, seed + left) : seed;
    KEEP();
    return result ^ left;
}

static uint64_t run_deep(uint64_t calls) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < calls / CALLS_DEPTH; i++)
        sum += calls_descend(CALLS_DEPTH, i);
    return sum;
}

/* ---- fanout ---- */

#define FAN_LIST(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

#define DEFINE_FAN(n)                                                                                                  \
    CALLED uint64_t calls_fan_##n(uint64_t a);                                                                         \
    CALLED uint64_t calls_fan_##n(uint64_t a) {                                                                        \
        KEEP();                                                                                                        \
        return a * (2 * n + 1) + n;                                                                                    \
    }
FAN_LIST(DEFINE_FAN)

#define FAN_POINTER(n) calls_fan_##n,
static uint64_t (*const fans[CALLS_FANOUT])(uint64_t) = {FAN_LIST(FAN_POINTER)};

static uint64_t run_fanout(uint64_t calls) {
    uint64_t sum = 0;
    uint32_t place = 0;
    for (uint64_t i = 0; i < calls; i++) {
        place += 0x9e3779b9; /* 2^32 divided by the golden ratio: all targets equally often, never one twice in a row */
        sum += fans[place >> 28](i);
    }
    return sum;
}

/* ---- all modes ---- */

#define FAN_ADDRESS(n) (void *)calls_fan_##n,
static void *const flat_functions[] = {(void *)calls_leaf};
static void *const deep_functions[] = {(void *)calls_descend};
static void *const fanout_functions[] = {FAN_LIST(FAN_ADDRESS)};

static const struct calls_mode flat = {"flat", run_flat, 1, flat_functions, 1};
static const struct calls_mode deep = {"deep", run_deep, CALLS_DEPTH, deep_functions, 1};
static const struct calls_mode fanout = {"fanout", run_fanout, 1, fanout_functions, CALLS_FANOUT};

const struct calls_mode *const calls_modes[] = {&flat, &deep, &fanout, NULL};

const struct calls_mode *calls_find_mode(const char *name) {
    for (const struct calls_mode *const *mode = calls_modes; *mode; mode++)
        if (strcmp((*mode)->name, name) == 0)
            return *mode;
    return NULL;
}
