/* SPDX-License-Identifier: Apache-2.0 */
/* How far back the records of threads reach: measured, shared out, and what would be enough. See detail.h. Owner: the
 * drain thread. */
#include "drain/detail.h"
#include "drain/drain.h"

#define BYTES           CT_SHM_DETAIL_CHUNK
#define NUMBERS         (1u << 28) /* of records, until they begin again */
#define SPARE_OF(large) ((large) / 64 + 1)
#define SPARE           3u /* half as much again: small segments, and the one that is being filled */

/* How far back the records of this thread reach is at least the oldest of one segment. */
static void measure_segment(struct ct_drain *drain, uint32_t segment) {
    bool wrapped;
    uint32_t chunk, chunks;
    struct ct_drain_thread *t = ct_detail_thread_of(drain, segment, CT_SEGMENT_OWNED);
    struct ct_drain_thread *kept = t ? NULL : ct_detail_thread_of(drain, segment, CT_SEGMENT_KEPT);
    if (!t && !kept)
        return;
    struct ct_detail_thread *d = t ? &t->detail : &kept->detail;
    uint64_t ns = ct_detail_oldest(drain, t ? t : kept, segment, kept != NULL, &wrapped);
    d->oldest_ns = ns && (!d->oldest_ns || ns < d->oldest_ns) ? ns : d->oldest_ns;
    d->wrapped |= wrapped;
    ct_lane_segment(drain->lane, segment, &chunk, &chunks);
    d->chunks += chunks;
    d->large += segment < drain->lane->segments_of_class[0];
}

/* Threads that have filled their segments share the large ones. A few stay free: threads that come find one at once. */
static uint32_t publish_share(struct ct_drain *drain, uint32_t busy) {
    uint32_t large = drain->lane->segments_of_class[0], spare = SPARE_OF(large);
    uint32_t share = large > spare ? (large - spare) / (busy ? busy : 1) : 1;
    __atomic_store_n(&drain->lane->control->share, share ? share : 1, __ATOMIC_RELAXED);
    return share ? share : 1;
}

static uint32_t count_free(const struct ct_lane *lane, uint32_t from, uint32_t to) {
    uint32_t count = 0;
    for (uint32_t i = from; i < to; i++)
        count += __atomic_load_n(&lane->segments[i].word, __ATOMIC_RELAXED) == CT_SEGMENT_FREE;
    return count;
}

/* Do threads find no memory, or will they soon? */
static bool is_scarce(const struct ct_lane *lane) {
    uint32_t large = lane->segments_of_class[0], small = lane->segment_count - large;
    return count_free(lane, 0, large) < SPARE_OF(large) || count_free(lane, large, lane->segment_count) < small / 2;
}

/* Takes segments from threads that keep more than their share: they may be idle, and never give them back. The next
 * pass frees them. */
static void take_back(struct ct_drain *drain, uint32_t share) {
    struct ct_detail *d = drain->detail;
    for (size_t i = 0; i < d->full_count; i++) {
        uint32_t segment = d->full[i].segment; /* the oldest of each thread first */
        struct ct_drain_thread *t = ct_detail_thread_of(drain, segment, CT_SEGMENT_KEPT);
        if (!t || t->detail.large <= share)
            continue;
        uint32_t kept = CT_SEGMENT_WORD(CT_SEGMENT_KEPT, t->slot);
        if (__atomic_compare_exchange_n(&drain->lane->segments[segment].word, &kept,
                                        CT_SEGMENT_WORD(CT_SEGMENT_FROZEN, t->slot), false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            t->detail.large--;
    }
}

void ct_detail_publish_rolls(struct ct_drain *drain) {
    struct ct_shm_control *c = drain->lane->control;
    const struct ct_windows_options *o = &drain->windows->options;
    (void)publish_share(drain, 1);
    if (!o->grows || o->detail != CT_SESSION_DETAIL_MARKED)
        return;
    c->pre_counts = (uint64_t)((double)o->rolls.pre_ns * 1e-9 * ct_clock_hz(drain->clock));
    c->pre_records = (uint32_t)(o->rolls.pre_events < NUMBERS ? o->rolls.pre_events : NUMBERS);
}

/* Measures how far back the records of all threads are complete. */
void ct_detail_measure(struct ct_drain *drain, uint64_t now_ns) {
    uint64_t oldest = drain->windows->start_ns;
    uint32_t busy = 0;
    for (struct ct_drain_thread *t = drain->threads; t; t = t->next) {
        t->detail.oldest_ns = t->detail.chunks = t->detail.large = 0;
        t->detail.wrapped = false;
    }
    for (uint32_t i = 0; i < drain->lane->segment_count; i++)
        measure_segment(drain, i);
    for (const struct ct_drain_thread *t = drain->threads; t; t = t->next) {
        const struct ct_detail_thread *d = &t->detail;
        /* one that has records and no memory wants some */
        busy += d->wrapped || (!d->chunks && t->writer && d->newest && !t->ended);
        oldest = d->wrapped && d->oldest_ns > oldest ? d->oldest_ns : oldest;
        if (d->chunks * (uint64_t)BYTES > drain->detail->most_bytes)
            drain->detail->most_bytes = d->chunks * (uint64_t)BYTES;
    }
    drain->detail->reach_ns = now_ns > oldest ? now_ns - oldest : 0;
    drain->windows->gone_ns = oldest;
    drain->detail->measured_at = now_ns;
    ct_lane_count_segments(drain->lane);
    drain->detail->busy = busy ? busy : 1;
    uint32_t share = publish_share(drain, busy);
    if (drain->lane->detail_grows && !drain->finishing && is_scarce(drain->lane))
        take_back(drain, share);
}

/* ---- what would be enough ---- */

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* How much longer the pre-roll of a window is than what there was, times what there was. */
static double needed_by(const struct ct_window *w, double had) {
    if (w->reach <= w->start || w->first_mark <= w->start)
        return 0;
    double wanted = (double)(w->first_mark - w->start), reached = (double)larger(w->first_mark - w->reach, 1);
    return had * wanted / reached;
}

uint64_t ct_detail_needed(const struct ct_drain *drain) {
    const struct ct_windows *w = drain->windows;
    const struct ct_detail *d = drain->detail;
    if (!d || w->options.detail != CT_SESSION_DETAIL_MARKED)
        return 0;
    double most = 0, had = (double)larger(d->most_bytes, BYTES) * d->busy;
    bool few = false;
    for (size_t i = 0; i < w->kept_count + w->count; i++) {
        const struct ct_window *one =
            i < w->kept_count ? w->kept[(w->kept_first + i) % CT_WINDOWS_KEPT] : w->recent[i - w->kept_count];
        double needed = needed_by(one, had);
        most = needed > most ? needed : most;
        few |= one->short_events;
    }
    double events = (double)w->options.rolls.pre_events * (CT_DETAIL_STACK + drain->lane->stack_bytes) * d->busy;
    most = few && events > most ? events : most;
    uint64_t bytes = most ? 1ull << 20 : 0;
    while (bytes && (double)bytes * 2 < most * SPARE && bytes < 1ull << 50)
        bytes *= 2;
    return bytes;
}
