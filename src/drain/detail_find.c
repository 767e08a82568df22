/* SPDX-License-Identifier: Apache-2.0 */
/* Finds records in segments of shared memory, which threads of the target may be filling at the same time. See
 * detail.h.
 *
 * Only the check word of a record is trusted (abi/shm_abi.h). Two records that overlap damage each other: neither is
 * taken, whatever threads they belong to. In a segment that has wrapped around, old records follow new ones: those
 * right after the newest may be half overwritten, and are left out. Owner: the drain thread. */
#include "drain/drain.h"
#include "abi/event.h"
#include "isa/machine.h"
#include <stdlib.h>
#include <string.h>

#define BYTES  CT_SHM_DETAIL_CHUNK
#define NESTED 4u /* records that a thread can have begun at one time: handlers interrupt handlers */

struct head {
    uint64_t owner; /* CT_SHM_DETAIL_OWNER */
    uint32_t number, size;
    bool values;
};

struct search {
    const struct ct_lane *lane;
    const struct ct_detail_thread *thread;
    struct ct_detail *detail;
    uint64_t owner, last;
    uint32_t most; /* bytes of the largest record */
    bool wrapped;
    size_t count;
    uint64_t top;       /* number of the newest record in the segment */
    uint32_t top_chunk; /* its chunk */
    uint64_t left;      /* number of the newest record that is left out; 0: none */
    /* of the current chunk */
    const uint8_t *source;
    uint32_t chunk, frontier;
    uint64_t newest;
};

static uint32_t record_size(const struct ct_lane *lane, uint32_t tag, uint32_t hook) {
    uint32_t vectors = lane->vectors ? 128 : 0;
    uint32_t stack = ct_shm_detail_room(lane->stack_bytes, ct_machine_has_link(ct_machine_host()));
    switch (tag & CT_TAG_KIND) {
    case CT_EVENT_CALL:
    case CT_EVENT_ENTRY:
        return CT_DETAIL_STACK + stack + vectors;
    case CT_EVENT_RETURN:
        return CT_DETAIL_RETURN_SIZE + vectors / 4;
    case CT_EVENT_VALUES:
        return (lane->strings || lane->reals) && CT_VALUES_SIZE(hook) >= CT_DETAIL_RETURN_SIZE ? CT_VALUES_SIZE(hook)
                                                                                               : 0;
    default:
        return 0;
    }
}

size_t ct_detail_call_size(const struct ct_lane *lane) {
    return record_size(lane, CT_EVENT_CALL, 0);
}

size_t ct_detail_record_size(const struct ct_lane *lane, const struct ct_shm_detail *record) {
    return record_size(lane, record->tag, record->hook);
}

static uint32_t largest_record(const struct ct_lane *lane) {
    uint32_t call = record_size(lane, CT_EVENT_CALL, 0), piece = (uint32_t)sizeof(struct ct_shm_piece) + lane->strings;
    uint32_t values = CT_VALUES_HEAD + (lane->strings ? (uint32_t)CT_TRIGGER_ARGUMENTS * piece : 0);
    values += lane->reals ? (uint32_t)sizeof(struct ct_shm_piece) + CT_REALS_AT_CALL * 8 : 0;
    return values > call ? values : call;
}

/* Reads the head of a record, of any thread, at an offset of a chunk; returns false if there is none. */
static bool read_head(const struct ct_lane *lane, const uint8_t *chunk, uint32_t at, struct head *out) {
    uint64_t check, stamp, tag;
    memcpy(&check, chunk + at, 8);
    memcpy(&stamp, chunk + at + CT_DETAIL_STAMP, 8);
    memcpy(&tag, chunk + at + CT_DETAIL_TAG, 8);
    uint64_t owner = check ^ stamp * (uint64_t)(int64_t)CT_DETAIL_MIX ^ tag ^ lane->detail_key;
    if (owner >> CT_SHM_DETAIL_OWNER_BITS)
        return false;
    *out = (struct head){owner, (uint32_t)tag / CT_TAG_STEP, record_size(lane, (uint32_t)tag, (uint32_t)(tag >> 32)),
                         ((uint32_t)tag & CT_TAG_KIND) == CT_EVENT_VALUES};
    return out->size && at + out->size <= BYTES;
}

/* How far the thread has got by now in a chunk that it may be filling: the end of what it has published from `at`
 * on. */
static uint32_t follow_thread(const struct search *s, uint32_t at, uint64_t newest) {
    struct head h;
    while (at + CT_DETAIL_RETURN_SIZE <= BYTES && read_head(s->lane, s->source, at, &h) && h.owner == s->owner &&
           h.number && ct_detail_number(s->thread, h.number) >= newest) {
        newest = ct_detail_number(s->thread, h.number);
        at += h.size;
    }
    return at;
}

static void keep_record(struct search *s, uint32_t at, const struct head *h) {
    uint64_t number = ct_detail_number(s->thread, h->number);
    if (h->owner != s->owner || !h->number || !number)
        return;
    if (number >= s->newest) {
        s->newest = number;
        s->frontier = at + h->size;
    } else if (s->wrapped) {
        /* The end of a chunk, where nothing fits any more, keeps records of much earlier rounds. */
        s->frontier = follow_thread(s, s->frontier, s->newest);
        if (at + s->most > BYTES || at < s->frontier + NESTED * s->most) {
            s->left = number > s->left ? number : s->left;
            return;
        }
    }
    if (number > s->top) {
        s->top = number;
        s->top_chunk = s->chunk;
    }
    if (number > s->last)
        s->detail->places[s->count++] = (struct ct_detail_place){number, s->chunk * BYTES + at, h->values};
}

/* Keeps records that overlap no other. A record that overlaps another may overlap a third as well. */
static void scan_chunk(struct search *s, const uint8_t *copy) {
    struct head h, waiting = {0};
    uint32_t waiting_at = 0, covered = 0;
    s->newest = s->frontier = 0;
    for (uint32_t at = 0; at + CT_DETAIL_RETURN_SIZE <= BYTES; at += 8) {
        if (!read_head(s->lane, copy, at, &h))
            continue;
        bool overlaps = at < covered;
        s->detail->rejected += overlaps ? 1 + (waiting.size != 0) : 0;
        if (!overlaps && waiting.size)
            keep_record(s, waiting_at, &waiting);
        waiting = overlaps ? (struct head){0} : h;
        waiting_at = at;
        covered = at + h.size > covered ? at + h.size : covered;
    }
    if (waiting.size)
        keep_record(s, waiting_at, &waiting);
}

static uint64_t first_check(const uint8_t *chunk) {
    return __atomic_load_n((const uint64_t *)chunk, __ATOMIC_RELAXED);
}

/* The chunk that the thread has begun to fill, though none of its records may be there yet. UINT32_MAX: none. */
static uint32_t begun_chunk(const struct search *s, const struct ct_shm_segment *shared, uint32_t chunks) {
    uint32_t filling = __atomic_load_n(&shared->filling, __ATOMIC_RELAXED); /* after what was copied: see the fence */
    if (!filling)
        return (s->top_chunk + 1) % chunks;
    return filling - 1 != s->top_chunk ? filling - 1 : UINT32_MAX;
}

/* Leaves out what the thread may have overwritten: records in chunks that it has begun to fill. */
static void leave_out_overwritten(struct search *s, uint32_t chunk, uint32_t filled, const uint16_t *reached) {
    struct ct_detail *d = s->detail;
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        uint32_t c = d->places[i].offset / BYTES, at = d->places[i].offset % BYTES;
        bool begun = c == filled ||
                     first_check(ct_lane_detail_chunk(s->lane, chunk + c)) != first_check(d->copy + (size_t)c * BYTES);
        if (!begun || at >= reached[c] + NESTED * s->most)
            d->places[kept++] = d->places[i];
        else if (d->places[i].number > s->left)
            s->left = d->places[i].number;
    }
    s->count = kept;
}

/* Leaves out records that are older than one that was left out: a gap is a loss only after a window's first record. */
static void leave_out_older(struct search *s) {
    struct ct_detail *d = s->detail;
    size_t count = s->count;
    s->count = 0;
    for (size_t i = 0; i < count; i++)
        if (d->places[i].number > s->left)
            d->places[s->count++] = d->places[i];
}

/* Of one number, values come before the event's own record, as they were written. */
static int by_number(const void *a, const void *b) {
    const struct ct_detail_place *x = a, *y = b;
    return x->number != y->number ? (x->number < y->number ? -1 : 1) : y->values - x->values;
}

static struct search begin_search(struct ct_drain *drain, const struct ct_drain_thread *t) {
    return (struct search){
        .lane = drain->lane,
        .thread = &t->detail,
        .detail = drain->detail,
        .owner = CT_SHM_DETAIL_OWNER(t->slot, t->generation),
        .most = largest_record(drain->lane),
    };
}

size_t ct_detail_find(struct ct_drain *drain, const struct ct_drain_thread *t, uint32_t segment, uint64_t last,
                      bool live) {
    struct search s = begin_search(drain, t);
    const struct ct_shm_segment *shared = &drain->lane->segments[segment];
    uint64_t taken = __atomic_load_n(&shared->begin, __ATOMIC_ACQUIRE); /* released by agent/agent_detail.c */
    uint16_t reached[CT_LANE_MOST_CHUNKS];
    uint32_t chunk, chunks;
    ct_lane_segment(s.lane, segment, &chunk, &chunks);
    if (!taken)
        return 0;
    s.last = last;
    s.wrapped = __atomic_load_n(&shared->turns, __ATOMIC_RELAXED) >= chunks || shared->again;
    for (uint32_t used = s.wrapped ? chunks : shared->turns + 1; s.chunk < used && s.chunk < chunks; s.chunk++) {
        uint8_t *copy = s.detail->copy + (size_t)s.chunk * BYTES;
        s.source = ct_lane_detail_chunk(s.lane, chunk + s.chunk);
        memcpy(copy, s.source, BYTES);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        s.wrapped |= __atomic_load_n(&shared->turns, __ATOMIC_RELAXED) >= chunks;
        bool begun = live && s.wrapped && first_check(s.source) != first_check(copy);
        reached[s.chunk] = (uint16_t)(begun ? follow_thread(&s, 0, 0) : 0);
        scan_chunk(&s, copy);
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&shared->begin, __ATOMIC_RELAXED) != taken)
        return 0; /* it was freed unused, and belongs to another thread */
    if (live && s.wrapped)
        leave_out_overwritten(&s, chunk, begun_chunk(&s, shared, chunks), reached);
    leave_out_older(&s);
    qsort(s.detail->places, s.count, sizeof *s.detail->places, by_number);
    return s.count;
}

uint64_t ct_detail_oldest(const struct ct_drain *drain, const struct ct_drain_thread *t, uint32_t segment, bool full,
                          bool *wrapped) {
    const struct ct_shm_segment *shared = &drain->lane->segments[segment];
    uint64_t owner = CT_SHM_DETAIL_OWNER(t->slot, t->generation), oldest = 0, stamp;
    uint32_t chunk, chunks;
    ct_lane_segment(drain->lane, segment, &chunk, &chunks);
    *wrapped = shared->turns >= chunks || shared->again;
    uint32_t looks = full ? 1 : chunks; /* a full one begins with its oldest */
    for (uint32_t i = 0; i < looks && i <= shared->turns; i++) {
        const uint8_t *source = ct_lane_detail_chunk(drain->lane, chunk + i);
        struct head h;
        if (!read_head(drain->lane, source, 0, &h) || h.owner != owner)
            continue;
        memcpy(&stamp, source + CT_DETAIL_STAMP, 8);
        oldest = !oldest || stamp < oldest ? stamp : oldest;
    }
    return oldest ? ct_clock_ns(drain->clock, oldest) : 0;
}
