/* SPDX-License-Identifier: Apache-2.0 */
/* Random functions for tests that run the same code natively and followed.
 *
 * A function gets data in a register, may use everything else, ends by returning, and does the same thing each time it
 * starts from the same state at the same address. Its blocks end in every way that blocks can end. */
#ifndef CT_TESTS_STALK_GEN_H
#define CT_TESTS_STALK_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GEN_DATA 4096 /* bytes that the register points into the middle of */

struct stalk_gen {
    uint8_t *code;
    size_t used, capacity;
    uint64_t seed;
    size_t leaves[8]; /* small functions that others call */
    unsigned leaf_count;
    uint64_t *table; /* of code addresses, near the code: for jumps through memory */
    size_t table_used, table_size;
    unsigned blocks; /* made so far */
};

/* General registers, flags and vector registers, as stalk_run_<isa>.S has them. */
struct stalk_state {
    uint64_t words[32];
    _Alignas(16) uint8_t more[768];
};
_Static_assert(offsetof(struct stalk_state, more) == 256, "stalk_run_x64.S, stalk_run_a64.S");

static inline uint64_t stalk_gen_random(struct stalk_gen *g) {
    g->seed ^= g->seed << 13;
    g->seed ^= g->seed >> 7;
    g->seed ^= g->seed << 17;
    return g->seed * 0x2545f4914f6cdd1dull >> 16;
}

static inline unsigned stalk_gen_pick(struct stalk_gen *g, unsigned n) {
    return (unsigned)(stalk_gen_random(g) % n);
}

void stalk_gen_leaves(struct stalk_gen *g);
/* Offset of a new function of about `blocks` blocks. */
size_t stalk_gen_function(struct stalk_gen *g, unsigned blocks);
/* A random state. */
void stalk_gen_state(struct stalk_gen *g, struct stalk_state *state, uint64_t data, uint64_t stack);
/* Runs the function from that state and on its stack; what it leaves is stored back. One at a time. */
void stalk_run(struct stalk_state *state, void *function);

#endif
