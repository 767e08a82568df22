/* SPDX-License-Identifier: Apache-2.0 */
/* The drain's way through the chunks. Owner: the drain thread.
 *
 * A thread's chunks are taken in the order of their numbers. If a number cannot be found, the agent has dropped that
 * chunk: a gap. A slot that is reserved but not filled yet holds up what comes after it, because a stub that a signal
 * handler interrupted may still fill it. After a while, or when memory gets short (unless threads wait then), the slot
 * is given up (abandoned), and the chunk is not used again before the slot is filled or its thread has ended.
 *
 * When events come faster than they are written, threads drop the oldest chunks, which are those that are taken next.
 * So the drain claims a part of the lane at once, the same share of each thread's chunks, and works on that while
 * threads drop what comes after it. All that is written then is capacity of the drain, and none of it is lost to a
 * race. The part is small enough for the rest of the lane to hold the newest events. */
#include "drain/drain.h"
#include "os/thread.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOLE_PATIENCE_NS 2000000000ull
#define LOOKS            16u /* tries to read a header that changes meanwhile; the next pass tries again */
#define CLAIMS           4u  /* tries to claim a chunk whose word changes meanwhile */
#define LIST_PER_CHUNK   2u  /* a chunk may be listed twice, when it was dropped for another thread meanwhile */
#define LEAST_SHARE      2u  /* chunks of a thread that are worth a hand's wake-up */
#define CLAIM_PART       4u  /* of the lane, one part of this many is claimed at once */

struct ct_drain_chunk {
    uint32_t thread, generation, chunk, depth, stack;
    uint64_t number; /* 0: it was dropped after it was found */
    uint64_t word, exhausted, waited;
};

/* Chunks of one thread, of the list of a pass. */
struct ct_drain_turn {
    size_t next, end;               /* those that are not taken yet */
    size_t share;                   /* how many of them are claimed, and not taken yet */
    struct ct_drain_thread *thread; /* if it was looked for already */
    bool known;
};

/* ---- one chunk ---- */

/* UP_TO_DATE: the chunk is in use, and all filled slots are taken. */
enum outcome { DONE, UP_TO_DATE, MORE_LATER };

static bool is_filled(const struct ct_event *e) {
    return __atomic_load_n(&e->timestamp, __ATOMIC_ACQUIRE) != 0; /* stored last by the stub */
}

bool ct_drain_is_short(const struct ct_drain *d) {
    return __atomic_load_n(&d->lane->control->free_chunks, __ATOMIC_RELAXED) < (int32_t)(d->lane->chunk_count / 4);
}

static uint32_t drained_of(const struct ct_drain *d, uint64_t word) {
    uint32_t drained = CT_CHUNK_STATE(word) == CT_CHUNK_TAKEN ? 0 : CT_CHUNK_DRAINED(word);
    uint32_t capacity = ct_lane_capacity(d->lane);
    return drained < capacity ? drained : capacity;
}

/* According to the word, its thread is still writing to the chunk. */
static bool is_in_use(uint64_t word) {
    return CT_CHUNK_STATE(word) == CT_CHUNK_ACTIVE || CT_CHUNK_STATE(word) == CT_CHUNK_TAKEN;
}

/* Reads the header of a chunk; returns false if the chunk has no events, and will have none. The word is read again
 * afterwards: the agent may give the chunk to another thread at any time. */
static bool look_at_chunk(const struct ct_drain *d, uint32_t chunk, struct ct_drain_chunk *out) {
    const struct ct_shm_chunk *c = &d->lane->chunks[chunk];
    struct ct_shm_chunk header;
    uint64_t word;
    unsigned looks = 0;
    do {
        if (looks++ == LOOKS)
            return false;
        word = ct_lane_word(d->lane, chunk);
        if (CT_CHUNK_STATE(word) == CT_CHUNK_FREE || d->quarantined[chunk])
            return false;
        header.number = __atomic_load_n(&c->number, __ATOMIC_ACQUIRE);
        header.generation = __atomic_load_n(&c->generation, __ATOMIC_ACQUIRE);
        header.thread = c->thread;
        header.thread_generation = c->thread_generation;
        header.depth = c->depth;
        header.stack = c->stack;
        header.exhausted = c->exhausted;
        header.waited = c->waited;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (ct_lane_word(d->lane, chunk) != word);
    if (header.generation != CT_CHUNK_GENERATION(word) || header.thread >= d->lane->thread_capacity || !header.number)
        return false;
    if (CT_CHUNK_STATE(word) == CT_CHUNK_TAKEN && !is_filled(ct_lane_events(d->lane, chunk)))
        return false; /* the thread does not have it yet, or did not need it after all */
    *out = (struct ct_drain_chunk){.thread = header.thread,
                                   .generation = header.thread_generation,
                                   .chunk = chunk,
                                   .depth = header.depth,
                                   .stack = header.stack,
                                   .number = header.number,
                                   .word = word,
                                   .exhausted = header.exhausted,
                                   .waited = header.waited};
    return true;
}

/* The end of the filled slots that begin at `from`. */
static uint32_t filled_from(const struct ct_event *events, uint32_t from, uint32_t capacity) {
    while (from < capacity && is_filled(&events[from]))
        from++;
    return from;
}

/* Notes dropped chunks, whose numbers are missing. Called once it is certain that `f` comes next. */
static void note_losses(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_drain_chunk *f) {
    uint64_t missing = f->number - t->next_number, exhausted = 0;
    if (f->exhausted > t->exhausted) {
        exhausted = f->exhausted - t->exhausted;
        t->exhausted = f->exhausted;
    }
    uint64_t dropped = missing ? missing * ct_lane_capacity(d->lane) - t->taken : 0; /* 0: all of it was taken before */
    if (dropped || exhausted) {
        ct_drain_note_gap(d, t, dropped + exhausted, dropped ? CT_LOSS_DRAIN_LAG : CT_LOSS_POOL_EXHAUSTED, f->depth);
        ct_drain_stacks_run(t, f->stack);
    }
    if (missing)
        t->taken = 0;
    t->next_number = f->number;
    ct_drain_note_wait(t, f->waited);
}

static void emit_copy(struct ct_drain *d, struct ct_drain_thread *t, uint32_t count) {
    const struct ct_event *copy = ct_drain_hand(d, t)->copy;
    if (count && t->waits.pending)
        ct_drain_put_wait(d, t, copy->timestamp);
    ct_drain_emit(d, t, copy, count);
}

/* Takes what the thread has written so far into the chunk that it is still using. */
static void take_live(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_drain_chunk *f) {
    const struct ct_event *events = ct_lane_events(d->lane, f->chunk);
    uint32_t from = drained_of(d, f->word);
    uint32_t to = ct_lane_copy_filled(ct_drain_hand(d, t)->copy, events, from, ct_lane_capacity(d->lane));
    if (to == from)
        return;
    uint64_t taken = CT_CHUNK_WORD(CT_CHUNK_ACTIVE, to, CT_CHUNK_GENERATION(f->word));
    if (!ct_lane_change_word(d->lane, f->chunk, f->word, taken))
        return; /* it was submitted or dropped meanwhile */
    note_losses(d, t, f);
    emit_copy(d, t, to - from);
    t->taken = to;
}

static bool gives_up_slot(struct ct_drain *d, struct ct_drain_thread *t) {
    uint64_t now = ct_clock_now();
    if (t->ended || (ct_drain_is_short(d) && !d->lane->lossless))
        return true;
    if (!t->hole_since)
        t->hole_since = now;
    return now - t->hole_since > HOLE_PATIENCE_NS;
}

static void set_drained(struct ct_drain *d, uint32_t chunk, uint32_t count) {
    uint64_t word = ct_lane_word(d->lane, chunk);
    (void)ct_lane_change_word(d->lane, chunk, word, CT_CHUNK_WORD(CT_CHUNK_DRAINING, count, CT_CHUNK_GENERATION(word)));
}

/* Takes the rest of a chunk that is ours (DRAINING). */
static enum outcome take_rest(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_drain_chunk *f) {
    const struct ct_event *events = ct_lane_events(d->lane, f->chunk);
    uint32_t capacity = ct_lane_capacity(d->lane), end = capacity;
    uint32_t from = drained_of(d, ct_lane_word(d->lane, f->chunk));
    bool holes = false;
    if (ct_drain_delay_us)
        usleep(ct_drain_delay_us);
    while (t->ended && end > from && !is_filled(&events[end - 1]))
        end--; /* never reserved */
    while (from < end) {
        uint32_t to = ct_lane_copy_filled(ct_drain_hand(d, t)->copy, events, from, end);
        emit_copy(d, t, to - from);
        if (to > from)
            t->hole_since = 0;
        from = to;
        if (from == end)
            break;
        if (!gives_up_slot(d, t)) {
            set_drained(d, f->chunk, from);
            return MORE_LATER;
        }
        holes = true;
        t->abandoned++;
        from++;
    }
    t->hole_since = 0;
    if (holes && !t->ended) {
        set_drained(d, f->chunk, capacity);
        d->quarantined[f->chunk] = 1;
    } else {
        ct_lane_free_chunk(d->lane, f->chunk);
    }
    t->taken = 0;
    t->next_number++;
    return DONE;
}

/* A pass ends early if the drain is to end. */
static bool is_pass_over(struct ct_drain *d, struct ct_drain_hand *h) {
    if (d->hurry_at && !__atomic_load_n(&d->hurried, __ATOMIC_RELAXED))
        __atomic_store_n(&d->hurried, ct_clock_now() > d->hurry_at, __ATOMIC_RELAXED);
    h->cut |= !d->hurry_at && __atomic_load_n(&d->stopping, __ATOMIC_RELAXED);
    return h->cut;
}

/* ---- claims ---- */

static bool is_ours(const struct ct_drain_chunk *f) {
    return CT_CHUNK_STATE(f->word) == CT_CHUNK_DRAINING;
}

/* Makes a chunk ours, so that it is not dropped. If it was dropped already, it has no number from then on. */
static bool claim(struct ct_drain *d, struct ct_drain_chunk *f) {
    for (unsigned tries = 0; f->number && !is_ours(f) && tries < CLAIMS; tries++) {
        uint64_t ours = CT_CHUNK_WORD(CT_CHUNK_DRAINING, drained_of(d, f->word), CT_CHUNK_GENERATION(f->word));
        if (ct_lane_change_word(d->lane, f->chunk, f->word, ours)) {
            f->word = ours;
            break;
        }
        struct ct_drain_chunk now;
        bool there = look_at_chunk(d, f->chunk, &now) && now.thread == f->thread && now.generation == f->generation &&
                     now.number == f->number;
        f->word = there ? now.word : 0;
        f->number = there ? f->number : 0;
    }
    return f->number && is_ours(f);
}

/* Claims the turn's share. The last chunk that is listed may still be in use; those before it will be submitted soon,
 * unless a handler has jumped out of the swap. */
static void claim_share(struct ct_drain *d, struct ct_drain_chunk *list, const struct ct_drain_turn *turn) {
    for (size_t i = turn->next; i < turn->next + turn->share; i++)
        if (i + 1 < turn->end || CT_CHUNK_STATE(list[i].word) == CT_CHUNK_FULL)
            (void)claim(d, &list[i]);
}

/* Nobody takes them, because the thread is not known: the agent may drop them again. */
static void give_back(struct ct_drain *d, struct ct_drain_chunk *list, const struct ct_drain_turn *turn) {
    for (size_t i = turn->next; i < turn->next + turn->share; i++)
        if (is_ours(&list[i]))
            (void)ct_lane_change_word(
                d->lane, list[i].chunk, list[i].word,
                CT_CHUNK_WORD(CT_CHUNK_FULL, CT_CHUNK_DRAINED(list[i].word), CT_CHUNK_GENERATION(list[i].word)));
}

/* `left`: the thread has moved on to another chunk. */
static enum outcome take_chunk(struct ct_drain *d, struct ct_drain_thread *t, struct ct_drain_chunk *f, bool left) {
    if (is_pass_over(d, ct_drain_hand(d, t)))
        return MORE_LATER;
    if (f->number && f->number < t->next_number) { /* the target has numbered two chunks alike */
        if (is_ours(f))
            ct_lane_free_chunk(d->lane, f->chunk);
        return DONE;
    }
    if (f->number == 1 && !t->events && !t->depth) {
        ct_drain_inherit(d, t, f->depth);
        if (f->depth)
            ct_drain_stacks_run(t, f->stack);
    }
    if (is_in_use(f->word) && !t->ended && !left) {
        take_live(d, t, f);
        return UP_TO_DATE;
    }
    if (!claim(d, f))
        return f->number ? MORE_LATER : DONE;
    note_losses(d, t, f);
    return take_rest(d, t, f);
}

/* ---- one thread ---- */

static bool has_ended(const struct ct_drain *d, const struct ct_drain_thread *t) {
    const struct ct_shm_thread *s = &d->lane->threads[t->slot];
    return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == CT_THREAD_ENDED && s->generation == t->generation;
}

static void flush_thread(struct ct_drain *d, struct ct_drain_thread *t) {
    int status = ct_thread_writer_flush(t->writer);
    ct_drain_writing(d, true);
    if (t->code && !status)
        status = ct_code_writer_flush(t->code);
    if (!status)
        status = ct_drain_flush_waits(t);
    ct_drain_writing(d, false);
    struct ct_drain_hand *h = ct_drain_hand(d, t);
    h->error = h->error ? h->error : status;
}

static void find_thread(struct ct_drain *d, struct ct_drain_turn *turn) {
    const struct ct_drain_chunk *first = &d->list[turn->next];
    turn->thread = ct_drain_thread_of(d, first->thread, first->generation);
    turn->known = true;
}

/* Takes a thread's share, in the order of numbers. */
static void take_share(struct ct_drain *d, struct ct_drain_turn *turn, struct ct_drain_hand *hand) {
    struct ct_drain_chunk *list = d->list;
    struct ct_drain_thread *t = turn->thread;
    size_t end = turn->next + turn->share;
    if (t && t->writer) {
        t->hand = hand;
        bool over = has_ended(d, t);
        t->gone |= over && !__atomic_load_n(&d->leaving, __ATOMIC_ACQUIRE);
        t->ended |= over;
        enum outcome outcome = DONE;
        ct_thread_writer_hurry(t->writer, ct_drain_is_short(d));
        for (size_t i = turn->next; i < end && outcome == DONE; i++) {
            hand->ahead = i + 1 < end ? (const uint8_t *)ct_lane_events(d->lane, list[i + 1].chunk) : NULL;
            hand->ahead_end = hand->ahead ? hand->ahead + d->lane->chunk_bytes : NULL;
            outcome = take_chunk(d, t, &list[i], i + 1 < turn->end);
        }
        if (outcome == MORE_LATER) {
            t->cut_pass = d->pass + 1; /* ct_drain_put_signals ends this pass */
            end = turn->end;           /* nothing of it before the next pass */
            hand->held_up = true;
        }
        flush_thread(d, t);
        t->hand = NULL;
    } else {
        give_back(d, list, turn);
    }
    turn->next = end;
    turn->share = 0;
}

/* ---- one pass ---- */

static int by_thread_and_number(const void *a, const void *b) {
    const struct ct_drain_chunk *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->generation != y->generation)
        return x->generation < y->generation ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static size_t list_chunks(struct ct_drain *d, struct ct_drain_chunk *list) {
    size_t count = 0;
    for (uint32_t i = 0; i < d->lane->chunk_count; i++) {
        struct ct_drain_chunk f;
        if (!look_at_chunk(d, i, &f))
            continue;
        /* A chunk in use with nothing new is not worth sorting. */
        uint32_t drained = drained_of(d, f.word);
        const struct ct_drain_thread *t = d->by_slot[f.thread];
        if (is_in_use(f.word) && t && !t->ended &&
            (drained == ct_lane_capacity(d->lane) || !is_filled(&ct_lane_events(d->lane, i)[drained])))
            continue;
        list[count++] = f;
    }
    qsort(list, count, sizeof *list, by_thread_and_number);
    return count;
}

static bool is_same_thread(const struct ct_drain_chunk *a, const struct ct_drain_chunk *b) {
    return a->thread == b->thread && a->generation == b->generation;
}

/* Is a number missing that was not taken yet? */
static bool has_gaps(const struct ct_drain *d, const struct ct_drain_chunk *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct ct_drain_thread *t = d->by_slot[list[i].thread];
        uint64_t next = i && is_same_thread(&list[i], &list[i - 1]) ? list[i - 1].number + 1
                        : t && t->generation == list[i].generation  ? t->next_number
                                                                    : 1;
        if (list[i].number > next)
            return true;
    }
    return false;
}

/* The first chunk of the list that does not come before `f`. */
static const struct ct_drain_chunk *not_before(const struct ct_drain_chunk *list, size_t count,
                                               const struct ct_drain_chunk *f) {
    while (count) {
        size_t half = count / 2;
        if (by_thread_and_number(&list[half], f) < 0) {
            list += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return list;
}

/* The list may lack a chunk that was taken while the list was made, and have a later one of the same thread. Such a
 * chunk has its number by now: what a second look does not find was dropped. */
static size_t add_missed(struct ct_drain *d, struct ct_drain_chunk *list, size_t count) {
    size_t all = count;
    for (uint32_t i = 0; i < d->lane->chunk_count && all < LIST_PER_CHUNK * (size_t)d->lane->chunk_count; i++) {
        struct ct_drain_chunk f;
        if (!look_at_chunk(d, i, &f))
            continue;
        const struct ct_drain_chunk *after = not_before(list, count, &f);
        if (after < list + count && is_same_thread(after, &f) && after->number > f.number)
            list[all++] = f;
    }
    if (all > count)
        qsort(list, all, sizeof *list, by_thread_and_number);
    return all;
}

static size_t group_threads(const struct ct_drain_chunk *list, size_t count, struct ct_drain_turn *turns) {
    size_t turn_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!i || !is_same_thread(&list[i], &list[i - 1]))
            turns[turn_count++] = (struct ct_drain_turn){.next = i};
        turns[turn_count - 1].end = i + 1;
    }
    return turn_count;
}

/* A hand takes a thread's share. */
static void take_turn(struct ct_drain *d, size_t i, struct ct_drain_hand *hand) {
    if (d->turns[i].share && d->turns[i].known)
        take_share(d, &d->turns[i], hand);
}

/* Takes shares on several threads, if there is enough to do for two. Threads are made before that. One whose slot has
 * another thread's chunks too is left for later: the two must not be taken at once. */
static void take_together(struct ct_drain *d, struct ct_drain_turn *turns, size_t turn_count) {
    size_t busy = 0;
    for (size_t i = 0; i < turn_count; i++)
        busy += turns[i].share >= LEAST_SHARE;
    for (size_t i = 0; busy > 1 && i < turn_count; i++) {
        bool again = i && d->list[turns[i].end - 1].thread == d->list[turns[i - 1].end - 1].thread;
        turns[i].known = false;
        if (turns[i].share && !again)
            find_thread(d, &turns[i]);
    }
    if (busy > 1)
        ct_drain_crew_run(d, turn_count, take_turn);
}

/* Takes a part of the list: as much of each thread's chunks as of the others'. Returns how many are left. */
static size_t take_part(struct ct_drain *d, struct ct_drain_turn *turns, size_t turn_count, size_t count) {
    size_t part = d->lane->chunk_count / CLAIM_PART + 1, left = 0;
    for (size_t i = 0; i < turn_count; i++) {
        struct ct_drain_turn *turn = &turns[i];
        size_t n = turn->end - turn->next;
        turn->share = count <= part ? n : (n * part + count - 1) / count;
        claim_share(d, d->list, turn);
    }
    if (ct_drain_crew_may(d))
        take_together(d, turns, turn_count);
    for (size_t i = 0; i < turn_count; i++) {
        if (turns[i].share) {
            find_thread(d, &turns[i]);
            take_share(d, &turns[i], &d->own);
        }
        left += turns[i].end - turns[i].next;
    }
    ct_drain_gather(d, ct_clock_now());
    return left;
}

void ct_drain_take(struct ct_drain *d) {
    d->submits = ct_lane_submits(d->lane);
    d->held_up = false;
    size_t count = list_chunks(d, d->list);
    if (has_gaps(d, d->list, count))
        count = add_missed(d, d->list, count);
    size_t turn_count = group_threads(d->list, count, d->turns);
    while (count)
        count = take_part(d, d->turns, turn_count, count);
    if (!d->held_up)
        ct_lane_pass_submitted(d->lane, d->submits);
}

int ct_drain_take_start(struct ct_drain *d) {
    size_t most = LIST_PER_CHUNK * (size_t)d->lane->chunk_count;
    d->list = calloc(most, sizeof *d->list);
    d->turns = calloc(most, sizeof *d->turns);
    return d->list && d->turns ? 0 : CT_ERR_NO_MEMORY;
}

void ct_drain_take_end(struct ct_drain *d) {
    free(d->list);
    free(d->turns);
}

/* Frees chunks whose abandoned slots were filled after all. */
void ct_drain_free_quarantined(struct ct_drain *d) {
    uint32_t capacity = ct_lane_capacity(d->lane);
    for (uint32_t i = 0; i < d->lane->chunk_count; i++)
        if (d->quarantined[i] && filled_from(ct_lane_events(d->lane, i), 0, capacity) == capacity) {
            d->quarantined[i] = 0;
            ct_lane_free_chunk(d->lane, i);
        }
}

/* Frees what an ended thread has left; returns false while it has something that will go away by itself. */
bool ct_drain_free_left(struct ct_drain *d, uint32_t slot, uint32_t generation) {
    for (uint32_t i = 0; i < d->lane->chunk_count; i++) {
        const struct ct_shm_chunk *c = &d->lane->chunks[i];
        uint64_t word = ct_lane_word(d->lane, i);
        if (CT_CHUNK_STATE(word) == CT_CHUNK_FREE || c->thread != slot || c->thread_generation != generation)
            continue;
        /* The agent took it from the thread (the header is no longer valid, and the loss may be about to be counted),
         * or it is still to be drained. */
        bool taken = CT_CHUNK_STATE(word) == CT_CHUNK_TAKEN;
        if (c->generation != CT_CHUNK_GENERATION(word) || (!taken && !d->quarantined[i]))
            return false;
        if (taken && !ct_lane_change_word(d->lane, i, word, (word & ~0xffull) | CT_CHUNK_DRAINING))
            return false;
        d->quarantined[i] = 0;
        ct_lane_free_chunk(d->lane, i);
    }
    return true;
}
