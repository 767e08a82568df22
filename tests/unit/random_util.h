/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that look random, the same ones each time (xorshift64). */
#ifndef CT_TESTS_RANDOM_UTIL_H
#define CT_TESTS_RANDOM_UTIL_H

#include <stdint.h>

#define RANDOM_SEED 88172645463325252u

/* The next number; `state` is not 0. */
static inline uint64_t random_next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static inline uint64_t random_below(uint64_t *state, uint64_t limit) {
    return limit ? random_next(state) % limit : 0;
}

#endif
