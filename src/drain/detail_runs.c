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
#define BACK_RUNS   256u       /* this many runs of a handler may come before the run that it has interrupted */

uint64_t ct_detail_number(const struct ct_detail_thread *t, uint32_t number) {
    int64_t ahead =
        (int32_t)(((number - (uint32_t)t->newest) & NUMBER_MASK) << (32 - NUMBER_BITS)) >> (32 - NUMBER_BITS);
    return (int64_t)t->newest + ahead > 0 ? t->newest + (uint64_t)ahead : 0;
}

/* Runs are in the order of their numbers, so that a search is short whatever the target has numbered. NULL: there is no
 * memory, or the number comes too late. */
static struct ct_detail_run *add_run(struct ct_detail_thread *t, uint64_t number) {
    if (t->run_room < RUNS_MAX)
        (void)ct_grow(&t->runs, &t->run_room, t->run_count, sizeof *t->runs, 16);
    if (!t->run_room)
        return NULL;
    if (t->run_count == t->run_room) {
        t->run_count -= t->run_room / 2;
        memmove(t->runs, t->runs + t->run_room / 2, t->run_count * sizeof *t->runs);
        t->run_hint = 0;
    }
    size_t at = t->run_count, least = at > BACK_RUNS ? at - BACK_RUNS : 0;
    while (at > least && t->runs[at - 1].number > number)
        at--;
    if (at && t->runs[at - 1].number > number)
        return NULL;
    memmove(&t->runs[at + 1], &t->runs[at], (t->run_count++ - at) * sizeof *t->runs);
    return &t->runs[at];
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
    struct ct_detail_run *r = add_run(t, full);
    if (r && held)
        *r = (struct ct_detail_run){full, 1, seq, {0, ns}, 0};
    else if (r)
        *r = (struct ct_detail_run){full, 1, seq, clock->newest, clock->rate};
}

static bool is_in_run(const struct ct_detail_thread *t, size_t run, uint64_t number) {
    return run < t->run_count && number - t->runs[run].number < t->runs[run].count;
}

/* How many runs begin at or before this number. */
static size_t runs_up_to(const struct ct_detail_thread *t, uint64_t number) {
    size_t low = 0, high = t->run_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->runs[middle].number <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The run with this number; that of the last search comes first. NULL: the event was lost, or is not drained yet. */
const struct ct_detail_run *ct_detail_run_of(struct ct_detail_thread *t, uint64_t number) {
    if (!is_in_run(t, t->run_hint, number)) {
        size_t count = runs_up_to(t, number);
        if (!count || !is_in_run(t, count - 1, number))
            return NULL;
        t->run_hint = count - 1;
    }
    return &t->runs[t->run_hint];
}

uint64_t ct_detail_run_time(const struct ct_detail_run *r, uint64_t stamp) {
    return r->point.ns + (uint64_t)(int64_t)((double)(int64_t)(stamp - r->point.counter) * r->rate);
}
