/* SPDX-License-Identifier: Apache-2.0 */
/* What translated code writes of calls and returns, and how it is taken (events.c). */
#ifndef CT_STALK_RECORDS_H
#define CT_STALK_RECORDS_H

#include "stalk/cache.h"
#include "stalk/layout.h"
#include "stalk/thread.h"
#include <stdbool.h>
#include <stdint.h>

/* layout.h has these offsets for the code that writes records. */
struct stalk_record {
    uint8_t target[6], sp[6];
    uint32_t site;
    uint64_t time, spare; /* with timestamps only */
};
_Static_assert(offsetof(struct stalk_record, target) == CT_RECORD_TARGET &&
                   offsetof(struct stalk_record, sp) == CT_RECORD_SP,
               "layout.h");
_Static_assert(offsetof(struct stalk_record, site) == CT_RECORD_SITE, "layout.h");
_Static_assert(offsetof(struct stalk_record, time) == CT_RECORD_TIME && sizeof(struct stalk_record) == 32, "layout.h");

/* A reading of the fast clock is stored in place of target and stack pointer. */
static inline uint64_t stalk_reading_of(const struct stalk_record *r) {
    return *(const uint64_t *)r;
}

/* One load, which reads two bytes too many. */
static inline uint64_t stalk_address_in(const uint8_t *six) {
    return ct_stalk_address(((const struct stalk_word *)six)->value);
}

static inline const struct stalk_site *stalk_site_of(void *const *sites, uint32_t id) {
    return (const struct stalk_site *)sites[id / STALK_ID_CHUNK] + id % STALK_ID_CHUNK;
}

/* The target is in the site or in the record. No branch, because the next site is hard to predict. */
static inline uint64_t stalk_target_of(const struct stalk_site *site, const struct stalk_record *r) {
    uint64_t target = site->target;
    return target | (stalk_address_in(r->target) & (0 - (uint64_t)(target == 0)));
}

/* Records of calls and returns that are taken one after the other, and the thread's frames. */
struct stalk_branches {
    void *const *sites;
    uint64_t at, newest; /* the next record, and the last one: they go downward */
    uint64_t clock;
    uint64_t *frames;
    uint32_t frame_count;
    int32_t base_depth;
    uint32_t mask;
    /* Makes events of the next record, whatever it is, and returns how many there are. */
    size_t (*expand)(struct stalk_branches *b, const struct ct_stalker_event **events);
};

/* A call at most this far below the innermost frame is on the same stack. */
#define STALK_NEAR 4096u

/* A call whose slot is just below the last frame, or a return from that frame: no frame was left, and the stack is the
 * same. `call`: 1 or 0. It may be asked about before it is known that there is a frame. */
static inline bool stalk_is_next(const uint64_t *frames, uint32_t count, uint64_t slot, uint32_t call) {
    uint32_t usual = STALK_NEAR * call | 1; /* distance - call must be less */
    return count - 1 < STALK_MAX_FRAMES - 1 && frames[count - 1] - slot - call < usual;
}

#endif
