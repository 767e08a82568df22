/* SPDX-License-Identifier: Apache-2.0 */
/* Random x86_64 functions for tests that run the same code natively and followed.
 *
 * A function gets data in rbx, may use everything else, ends by returning, and does the same thing each time it starts
 * from the same state at the same address. Its blocks end in every way that blocks can end. */
#ifndef CT_TESTS_STALK_GEN_H
#define CT_TESTS_STALK_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GEN_DATA 4096 /* bytes that rbx points into the middle of */

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

uint64_t stalk_gen_random(struct stalk_gen *g);
void stalk_gen_leaves(struct stalk_gen *g);
/* Offset of a new function of about `blocks` blocks. */
size_t stalk_gen_function(struct stalk_gen *g, unsigned blocks);

#endif
