/* Where events with numbers stand in the index, and when they were: runs of a thread. See detail.h. */
#include "ctl/detail.h"
#include "ctl/drain.h"
#include <stdlib.h>
#include <string.h>

#define RUNS_MAX    8192u
#define NUMBER_MASK 0x0fffffffu

uint32_t ct_detail_distance(uint32_t from, uint32_t to) {
    return (to - from) & NUMBER_MASK;
}

bool ct_detail_is_later(uint32_t number, uint32_t than) {
    uint32_t d = ct_detail_distance(than, number);
    return d && d <= NUMBER_MASK / 2;
}

static struct ct_detail_run *add_run(struct ct_detail_thread *t) {
    if (t->run_count == t->run_room && t->run_room < RUNS_MAX) {
        size_t room = t->run_room ? t->run_room * 2 : 16;
        struct ct_detail_run *runs = realloc(t->runs, room * sizeof *runs);
        if (runs) {
            t->runs = runs;
            t->run_room = room;
        }
    }
    if (!t->run_room)
        return NULL;
    if (t->run_count == t->run_room) {
        t->run_count -= t->run_room / 2;
        memmove(t->runs, t->runs + t->run_room / 2, t->run_count * sizeof *t->runs);
    }
    return &t->runs[t->run_count++];
}

static bool goes_on(const struct ct_detail_run *r, const struct ct_clock *clock, uint32_t number, uint64_t seq) {
    return ct_detail_distance(r->number, number) == r->count && r->seq + r->count == seq &&
           r->point.counter == clock->newest.counter;
}

void ct_detail_note(struct ct_drain_thread *thread, const struct ct_clock *clock, uint32_t number, uint64_t seq,
                    uint64_t ns, bool held) {
    struct ct_detail_thread *t = &thread->detail;
    struct ct_detail_run *last = t->run_count ? &t->runs[t->run_count - 1] : NULL;
    if (last && !held && goes_on(last, clock, number, seq)) {
        last->count++;
        return;
    }
    struct ct_detail_run *r = add_run(t);
    if (r && held)
        *r = (struct ct_detail_run){number, 1, seq, {0, ns}, 0};
    else if (r)
        *r = (struct ct_detail_run){number, 1, seq, clock->newest, clock->rate};
}

const struct ct_detail_run *ct_detail_run_of(const struct ct_detail_thread *t, uint32_t number, bool *later) {
    *later = !t->run_count;
    for (size_t i = t->run_count; i-- > 0;) {
        const struct ct_detail_run *r = &t->runs[i];
        uint32_t d = ct_detail_distance(r->number, number);
        if (d < r->count)
            return r;
        *later |= i + 1 == t->run_count && d <= NUMBER_MASK / 2;
    }
    return NULL;
}

uint64_t ct_detail_run_time(const struct ct_detail_run *r, uint64_t stamp) {
    return r->point.ns + (uint64_t)(int64_t)((double)(int64_t)(stamp - r->point.counter) * r->rate);
}
