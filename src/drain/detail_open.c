/* SPDX-License-Identifier: Apache-2.0 */
/* What a mark keeps of each thread however old it is: calls that were open then, and the last events. See detail.h.
 *
 * The outermost open calls of a thread are noted with number, position and time, as their events are drained. A mark is
 * seen after its events, and calls may have returned meanwhile, the marked one among them. So the last few calls that
 * have returned are noted too, and those that were open for long. A pass also looks at the marks before it takes
 * events: the call whose return is a mark is noted when that return is drained. Owner: the drain thread. */
#include "drain/detail.h"
#include "drain/drain.h"
#include <stdlib.h>
#include <string.h>

#define OPEN       64u /* the outermost calls of a thread: what its agent has slots for */
#define CLOSED     64u /* calls that have returned, after LONG records or more: a ring */
#define LONG       256u
#define JUST       16u  /* the last calls that have returned: a ring */
#define MARKED     16u  /* returns that are marks */
#define LATE       320u /* records that are not in a row with the others */
#define MOST_CALLS (OPEN + CLOSED + JUST + MARKED)

struct call {
    uint64_t number; /* 0: it has no record */
    uint64_t seq, ns;
};

struct closed_call {
    struct call call;
    uint64_t until;
};

/* A copy of a record whose segment was given up while its call was open. */
struct saved {
    struct call call;
    bool wanted;
    struct ct_shm_detail *record;
};

struct ct_detail_calls {
    struct call open[OPEN];
    size_t open_count;
    struct closed_call closed[CLOSED], just[JUST];
    size_t closed_count, just_count;
    uint32_t watched[MARKED]; /* numbers of returns, as in shared memory */
    size_t watched_count;
    struct call marked[MARKED]; /* their calls */
    size_t marked_count;
    uint64_t first_mark, last_mark; /* numbers of records that are marks; 0: none */
    struct saved saved[OPEN];       /* records of open calls that nobody wanted yet, in order */
    size_t saved_count;
    struct ct_detail_late late[LATE]; /* in order */
    size_t late_count;
    /* of marks whose records are not taken yet */
    struct call kept[MOST_CALLS]; /* in order of numbers */
    size_t kept_count;
    uint64_t from, until; /* these numbers are kept as well */
    uint64_t to;          /* when the last of the marks was seen, this was the newest number; 0: none */
};

/* ---- as events are drained ---- */

static struct ct_detail_calls *calls_of(struct ct_detail_thread *t) {
    if (!t->calls)
        t->calls = calloc(1, sizeof *t->calls);
    return t->calls;
}

void ct_detail_opened(struct ct_drain_thread *thread, size_t at, uint32_t number, uint64_t seq, uint64_t ns) {
    struct ct_detail_thread *t = &thread->detail;
    struct ct_detail_calls *c = at < OPEN ? calls_of(t) : NULL;
    if (!c || at > c->open_count)
        return;
    c->open[at] = (struct call){number ? ct_detail_number(t, number) : 0, seq, ns};
    c->open_count = at + 1;
}

static bool is_watched(const struct ct_detail_calls *c, uint32_t number) {
    for (size_t i = 0; i < c->watched_count; i++)
        if (c->watched[i] == number)
            return true;
    return false;
}

static void note_closed(struct ct_detail_calls *c, const struct call *call, uint32_t number, uint64_t age,
                        uint64_t ns) {
    c->just[c->just_count++ % JUST] = (struct closed_call){*call, ns};
    if (age >= LONG)
        c->closed[c->closed_count++ % CLOSED] = (struct closed_call){*call, ns};
    if (number && is_watched(c, number) && c->marked_count < MARKED)
        c->marked[c->marked_count++] = *call;
}

void ct_detail_closed(struct ct_drain_thread *thread, size_t at, uint32_t number, uint64_t ns) {
    struct ct_detail_calls *c = thread->detail.calls;
    if (!c || at >= c->open_count)
        return;
    const struct call *call = &c->open[at];
    if (call->number)
        note_closed(c, call, number, thread->detail.newest - call->number, ns);
    memmove(&c->open[at], &c->open[at + 1], (--c->open_count - at) * sizeof *c->open);
}

void ct_detail_watch(struct ct_drain_thread *thread, uint32_t number) {
    struct ct_detail_calls *c = calls_of(&thread->detail);
    if (c && c->watched_count < MARKED && !is_watched(c, number))
        c->watched[c->watched_count++] = number;
}

void ct_detail_forget_open(struct ct_drain_thread *thread) {
    if (thread->detail.calls)
        thread->detail.calls->open_count = 0;
}

/* ---- marks ---- */

static int by_number(const void *a, const void *b) {
    const struct call *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void keep_call(struct ct_detail_calls *c, const struct call *call, uint64_t next_seq) {
    if (!call->number || call->seq < next_seq || c->kept_count == MOST_CALLS)
        return;
    for (size_t i = 0; i < c->saved_count; i++)
        c->saved[i].wanted |= c->saved[i].call.number == call->number;
    for (size_t i = 0; i < c->kept_count; i++)
        if (c->kept[i].number == call->number)
            return;
    c->kept[c->kept_count++] = *call;
}

/* Keeps those that were open at some time of the span. */
static void keep_closed(struct ct_detail_calls *c, const struct closed_call *ring, size_t count,
                        const struct ct_detail_span *span, uint64_t next_seq) {
    for (size_t i = 0; i < count; i++)
        if (ring[i].until >= span->first_ns && ring[i].call.ns <= span->last_ns)
            keep_call(c, &ring[i].call, next_seq);
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void keep_of(struct ct_detail_thread *t, const struct ct_detail_span *span, uint64_t events) {
    struct ct_detail_calls *c = t->calls;
    uint64_t end = c->first_mark ? c->first_mark : t->newest + 1, from = end > events ? end - events : 1;
    uint64_t until = c->last_mark ? c->last_mark : t->newest;
    bool taken = c->to <= t->last_number; /* those of earlier marks */
    if (taken)
        c->kept_count = 0;
    for (size_t i = 0; i < c->open_count; i++)
        keep_call(c, &c->open[i], t->next_seq);
    for (size_t i = 0; i < c->marked_count; i++)
        keep_call(c, &c->marked[i], t->next_seq);
    keep_closed(c, c->closed, smaller(c->closed_count, CLOSED), span, t->next_seq);
    keep_closed(c, c->just, smaller(c->just_count, JUST), span, t->next_seq);
    qsort(c->kept, c->kept_count, sizeof *c->kept, by_number);
    c->marked_count = c->watched_count = c->first_mark = c->last_mark = 0;
    c->from = !taken && c->from < from ? c->from : from;
    c->until = !taken && c->until > until ? c->until : until;
    c->to = t->newest;
}

void ct_detail_keep(struct ct_drain *drain, const struct ct_detail_span *span, uint64_t events) {
    for (struct ct_drain_thread *t = drain->threads; t; t = t->next)
        if (t->writer && t->detail.newest && calls_of(&t->detail))
            keep_of(&t->detail, span, events);
}

void ct_detail_keep_before(struct ct_drain_thread *thread, uint64_t number) {
    struct ct_detail_calls *c = calls_of(&thread->detail);
    if (!c || !number)
        return;
    c->first_mark = c->first_mark && c->first_mark < number ? c->first_mark : number;
    c->last_mark = c->last_mark > number ? c->last_mark : number;
}

static const struct call *kept_call(const struct ct_detail_thread *t, uint64_t number) {
    const struct call key = {.number = number};
    const struct ct_detail_calls *c = t->calls;
    return c && c->kept_count ? bsearch(&key, c->kept, c->kept_count, sizeof key, by_number) : NULL;
}

bool ct_detail_is_kept(const struct ct_detail_thread *t, uint64_t number) {
    const struct ct_detail_calls *c = t->calls;
    return c && number <= c->to && ((number >= c->from && number <= c->until) || kept_call(t, number));
}

bool ct_detail_kept_place(const struct ct_detail_thread *t, uint64_t number, uint64_t *seq, uint64_t *ns) {
    const struct call *call = kept_call(t, number);
    if (!call)
        return false;
    *seq = call->seq;
    *ns = call->ns;
    return true;
}

bool ct_detail_keeps_calls(const struct ct_detail_thread *t) {
    const struct ct_detail_calls *c = t->calls;
    for (size_t i = 0; c && i < c->kept_count; i++)
        if (c->kept[i].seq >= t->next_seq)
            return true;
    return false;
}

/* ---- records that are given up ---- */

static bool is_noted(const struct ct_detail_calls *c, uint64_t number) {
    for (size_t i = 0; i < c->open_count; i++)
        if (c->open[i].number == number)
            return true;
    return false;
}

static void drop_saved(struct ct_detail_calls *c, size_t at) {
    free(c->saved[at].record);
    memmove(&c->saved[at], &c->saved[at + 1], (--c->saved_count - at) * sizeof *c->saved);
}

void ct_detail_save(struct ct_detail_thread *t, uint64_t number, const struct ct_shm_detail *record, size_t size) {
    struct ct_detail_calls *c = t->calls;
    if (!c || !is_noted(c, number))
        return;
    for (size_t i = c->saved_count; i-- > 0 && c->saved_count == OPEN;)
        if (!c->saved[i].wanted && !is_noted(c, c->saved[i].call.number))
            drop_saved(c, i);
    struct ct_shm_detail *copy = c->saved_count < OPEN ? malloc(size) : NULL;
    for (size_t i = 0; copy && i < c->open_count; i++)
        if (c->open[i].number == number) {
            memcpy(copy, record, size);
            c->saved[c->saved_count++] = (struct saved){c->open[i], false, copy};
            return;
        }
    free(copy);
}

struct ct_shm_detail *ct_detail_saved(struct ct_detail_thread *t, uint64_t *seq, uint64_t *ns) {
    struct ct_detail_calls *c = t->calls;
    for (size_t i = 0; c && i < c->saved_count; i++)
        if (c->saved[i].wanted) {
            struct ct_shm_detail *record = c->saved[i].record;
            *seq = c->saved[i].call.seq;
            *ns = c->saved[i].call.ns;
            c->saved[i].record = NULL;
            drop_saved(c, i);
            return record;
        }
    return NULL;
}

/* ---- records for which there was no memory ---- */

/* How many of them are of this event or of older ones. The target decides how often this is asked. */
static size_t late_up_to(const struct ct_detail_calls *c, uint64_t seq) {
    size_t low = 0, high = c->late_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->late[middle].seq <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void ct_detail_add_late(struct ct_detail_thread *t, const struct ct_detail_late *late,
                        const struct ct_shm_detail *record, size_t size) {
    struct ct_detail_calls *c = calls_of(t);
    if (!c || c->late_count == LATE)
        return;
    size_t at = late_up_to(c, late->seq);
    if (at && c->late[at - 1].seq == late->seq)
        return;
    struct ct_shm_detail *copy = malloc(size);
    if (!copy)
        return;
    memcpy(copy, record, size);
    memmove(&c->late[at + 1], &c->late[at], (c->late_count++ - at) * sizeof *c->late);
    c->late[at] = (struct ct_detail_late){late->number, late->seq, late->ns, late->carried, copy};
}

bool ct_detail_has_late(const struct ct_detail_thread *t) {
    return t->calls && t->calls->late_count;
}

bool ct_detail_next_late(struct ct_detail_thread *t, uint64_t before, struct ct_detail_late *late) {
    struct ct_detail_calls *c = t->calls;
    if (!c || !c->late_count || c->late[0].seq >= before)
        return false;
    *late = c->late[0];
    memmove(&c->late[0], &c->late[1], --c->late_count * sizeof *c->late);
    return true;
}

void ct_detail_free_calls(struct ct_detail_thread *t) {
    struct ct_detail_late late;
    while (ct_detail_next_late(t, UINT64_MAX, &late))
        free(late.record);
    while (t->calls && t->calls->saved_count)
        drop_saved(t->calls, t->calls->saved_count - 1);
    free(t->calls);
    t->calls = NULL;
}
