/* SPDX-License-Identifier: Apache-2.0 */
/* How long each of some functions covers a stretch of time: which one covers most. Mostly few functions. One owner; all
 * zero is empty. */
#ifndef CT_VIEW_MIX_H
#define CT_VIEW_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_mix_part {
    uint64_t function, covered_ns, calls;
};

struct ct_mix {
    struct ct_mix_part *parts;
    size_t count, room;
    uint64_t calls; /* of all */
};

/* False: out of memory. */
bool ct_mix_add(struct ct_mix *mix, uint64_t function, uint64_t covered_ns, uint64_t calls);
bool ct_mix_merge(struct ct_mix *into, const struct ct_mix *from);
/* The part that covers most; where two are equal, that with more calls, then that with the smaller number. NULL:
 * empty. */
const struct ct_mix_part *ct_mix_most(const struct ct_mix *mix);
static inline void ct_mix_clear(struct ct_mix *mix) {
    mix->count = 0;
    mix->calls = 0;
}
void ct_mix_free(struct ct_mix *mix);

#endif
