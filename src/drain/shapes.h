/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of events, as bytes of a packed block, many at once with the machine's vector instructions. */
#ifndef CT_DRAIN_SHAPES_H
#define CT_DRAIN_SHAPES_H

#include "trace/packed_columns.h"
#include <contrail/event.h>

#define CT_DRAIN_SHAPES 8u /* events of a group */

/* The innermost open call of the drain and of the block is at [used] of both arrays; there is none if `used` is 0. */
struct ct_drain_shapes {
    const struct ct_pack_code *codes;
    uint64_t *expected; /* see struct ct_pack_columns */
    uint32_t *hooks;    /* of the drain's open calls */
    uint8_t *shape;     /* where the next byte goes */
    size_t used;
    size_t low;    /* the least that `used` was: the functions of calls above it are still to be noted */
    uint32_t call; /* is the last event a call? */
};

/* Takes whole groups of events that are calls of functions with a code, or returns of the innermost open call: writes
 * their bytes, and returns how many events these are. Stops at the first other group. `number` and `step`: what is
 * added to the word of the first event, and how much more to that of each other one. */
size_t ct_drain_put_shapes(struct ct_drain_shapes *s, const struct ct_event *events, size_t count, uint64_t number,
                           uint64_t step);

/* For tests: as on a processor without the instructions. */
extern bool ct_drain_shapes_singly;

#endif
