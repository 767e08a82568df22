/* SPDX-License-Identifier: Apache-2.0 */
/* Positions and times of a thread's numbered events in the index, kept as runs. See detail.h. */
#include "base/grow.h"
#include "drain/detail.h"
#include "drain/drain.h"
#include <stdlib.h>
#include <string.h>

#define RUNS_MAX    8192u
#define NUMBER_BITS 28
#define NUMBER_MASK ((1u << NUMBER_BITS) - 1)
#define BACKWARD    (1u << 22) /* a thread's numbers come in order, except when handlers interrupt stubs */

uint64_t ct_detail_number(const struct ct_detail_thread *t, uint32_t number) {
    int64_t ahead =
        (int32_t)(((number - (uint32_t)t->newest) & NUMBER_MASK) << (32 - NUMBER_BITS)) >> (32 - NUMBER_BITS);
    return (int64_t)t->newest + ahead > 0 ? t->newest + (uint64_t)ahead : 0;
}

static struct ct_detail_run *add_run(struct ct_detail_thread *t) {
    if (t->run_room < RUNS_MAX)
        (void)ct_grow(&t->runs, &t->run_room, t->run_count, sizeof *t->runs, 16);
    if (!t->run_room)
        return NULL;
    if (t->run_count == t->run_room) {
        t->run_count -= t->run_room / 2;
        memmove(t->runs, t->runs + t->run_room / 2, t->run_count * sizeof *t->runs);
        t->run_hint = 0;
    }
    return &t->runs[t->run_count++];
}

static bool continues_run(const struct ct_detail_run *r, const struct ct_clock *clock, uint64_t number, uint64_t seq) {
    return r->number + r->count == number && r->seq + r->count == seq && r->point.counter == clock->newest.counter;
}

/* However many events were lost, the next number is higher, unless a handler's events came first. */
static uint64_t full_number(const struct ct_detail_thread *t, uint32_t number) {
    uint32_t ahead = (number - (uint32_t)t->newest) & NUMBER_MASK, back = NUMBER_MASK + 1 - ahead;
    return ahead && back < BACKWARD && back < t->newest ? t->newest - back : t->newest + ahead;
}

void ct_detail_note_event(struct ct_drain_thread *thread, const struct ct_clock *clock, uint32_t number, uint64_t seq,
                          uint64_t ns, bool held) {
    struct ct_detail_thread *t = &thread->detail;
    struct ct_detail_run *last = t->run_count ? &t->runs[t->run_count - 1] : NULL;
    uint64_t full = full_number(t, number);
    if (!t->newest)
        t->first_ns = ns;
    if (full > t->newest) {
        t->newest = full;
        t->newest_ns = ns;
    }
    if (last && !held && continues_run(last, clock, full, seq)) {
        last->count++;
        return;
    }
    struct ct_detail_run *r = add_run(t);
    if (r && held)
        *r = (struct ct_detail_run){full, 1, seq, {0, ns}, 0};
    else if (r)
        *r = (struct ct_detail_run){full, 1, seq, clock->newest, clock->rate};
}

/* The run with this number, searched from the last result on. NULL: the event was lost, or is not drained yet. */
const struct ct_detail_run *ct_detail_run_of(struct ct_detail_thread *t, uint64_t number) {
    for (size_t n = 0, i = t->run_hint; n < t->run_count; n++, i = i + 1) {
        i = i < t->run_count ? i : 0;
        if (number - t->runs[i].number < t->runs[i].count) {
            t->run_hint = i;
            return &t->runs[i];
        }
    }
    return NULL;
}

uint64_t ct_detail_run_time(const struct ct_detail_run *r, uint64_t stamp) {
    return r->point.ns + (uint64_t)(int64_t)((double)(int64_t)(stamp - r->point.counter) * r->rate);
}
