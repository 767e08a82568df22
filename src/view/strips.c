/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be seen of a thread: see strips.h. */
#include "view/strips.h"
#include "base/grow.h"
#include <stdlib.h>

static inline uint64_t pass(struct ct_strips *s, uint64_t now_ns) {
    return s->now_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
}

/* The call that is seen has been seen up to now. */
static inline void settle(struct ct_strips *s, struct ct_strip *strip, uint32_t depth, uint64_t now_ns) {
    struct ct_strip_call *top = &strip->calls[strip->count - 1];
    if (now_ns == strip->since_ns && top->seen)
        return;
    const struct ct_piece piece = {strip->since_ns, now_ns, top->function, top->sequence, !top->seen};
    top->seen = true;
    strip->since_ns = now_ns;
    s->piece(s->arg, depth, &piece);
}

void ct_strips_call(struct ct_strips *s, uint32_t depth, uint64_t function, uint64_t sequence, uint64_t now_ns) {
    now_ns = pass(s, now_ns);
    if (depth >= CT_STRIPS)
        return;
    if (depth >= s->count) {
        if (!ct_grow_zeroed(&s->strips, &s->room, depth, sizeof *s->strips, 64)) {
            s->failed = true;
            return;
        }
        s->count = depth + 1;
    }
    struct ct_strip *strip = &s->strips[depth];
    if (strip->count)
        settle(s, strip, depth, now_ns);
    if (!ct_grow(&strip->calls, &strip->room, strip->count, sizeof *strip->calls, 2)) {
        s->failed = true;
        return;
    }
    strip->calls[strip->count++] = (struct ct_strip_call){function, sequence, false};
    strip->since_ns = now_ns;
}

void ct_strips_end(struct ct_strips *s, uint32_t depth, uint64_t sequence, uint64_t now_ns) {
    now_ns = pass(s, now_ns);
    if (depth >= s->count)
        return;
    struct ct_strip *strip = &s->strips[depth];
    size_t at = strip->count;
    while (at && strip->calls[at - 1].sequence != sequence)
        at--;
    if (!at)
        return;
    if (at == strip->count) {
        settle(s, strip, depth, now_ns);
        strip->count--;
        return;
    }
    for (strip->count--; at <= strip->count; at++)
        strip->calls[at - 1] = strip->calls[at];
}

void ct_strips_entry(struct ct_strips *s, uint32_t depth, uint64_t function, uint64_t sequence, uint64_t now_ns) {
    now_ns = pass(s, now_ns);
    if (depth >= CT_STRIPS)
        return;
    if (depth < s->count && s->strips[depth].count)
        settle(s, &s->strips[depth], depth, now_ns);
    s->piece(s->arg, depth, &(struct ct_piece){now_ns, now_ns, function, sequence, true});
}

void ct_strips_settle(struct ct_strips *s, uint64_t now_ns) {
    now_ns = pass(s, now_ns);
    for (size_t i = 0; i < s->count; i++)
        if (s->strips[i].count)
            settle(s, &s->strips[i], (uint32_t)i, now_ns);
}

void ct_strips_clear(struct ct_strips *s) {
    for (size_t i = 0; i < s->count; i++)
        s->strips[i].count = 0;
    s->now_ns = 0;
}

void ct_strips_free(struct ct_strips *s) {
    for (size_t i = 0; i < s->room; i++)
        free(s->strips[i].calls);
    free(s->strips);
    *s = (struct ct_strips){0};
}
