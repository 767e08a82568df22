/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be seen of a thread: one strip for each depth, and in it the calls one after the other.
 *
 * Where calls of one depth overlap (coroutines: each stack has a depth 0), the one that began last is seen, and the one
 * before it again when that has ended. So each moment of a strip belongs to one call at most. Time never goes back: an
 * event that says so counts as now. One owner. */
#ifndef CT_VIEW_STRIPS_H
#define CT_VIEW_STRIPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CT_STRIPS = 4096 }; /* deeper calls are not seen */

/* A part of a call in which it is seen. */
struct ct_piece {
    uint64_t from_ns, to_ns;
    uint64_t function, sequence; /* of the call */
    bool first;                  /* its call has no earlier part */
};

struct ct_strips {
    void (*piece)(void *arg, uint32_t depth, const struct ct_piece *piece);
    void *arg;
    uint64_t now_ns;
    struct ct_strip {
        struct ct_strip_call {
            uint64_t function, sequence;
            bool seen; /* some part of it */
        } * calls;     /* open ones; the last is seen */
        size_t count, room;
        uint64_t since_ns;
    } * strips;
    size_t count, room;
    bool failed; /* out of memory */
};

/* Zeroed, with the first two fields set. */
void ct_strips_call(struct ct_strips *strips, uint32_t depth, uint64_t function, uint64_t sequence, uint64_t now_ns);
void ct_strips_end(struct ct_strips *strips, uint32_t depth, uint64_t sequence, uint64_t now_ns);
/* A call without an end. */
void ct_strips_entry(struct ct_strips *strips, uint32_t depth, uint64_t function, uint64_t sequence, uint64_t now_ns);
/* Everything that is open has been seen up to now. */
void ct_strips_settle(struct ct_strips *strips, uint64_t now_ns);
/* Forgets what is open, and keeps the memory. */
void ct_strips_clear(struct ct_strips *strips);
void ct_strips_free(struct ct_strips *strips);

#endif
