/* SPDX-License-Identifier: Apache-2.0 */
/* See agent_detail.h, and abi/shm_abi.h for segments and records.
 *
 * A thread's detail cursor alone says where the thread writes. It is one word, which stubs add to and only a
 * compare-and-swap replaces (except in a forked child, which has nothing to write):
 *     an address in the pool, bit CT_SHM_DETAIL_CHUNK set     the next record
 *     an address in the pool, bit clear                       the chunk, which is the one before, is full
 *     NO_SEGMENT                                              there is none; plus a little that stubs have added since
 *     0                                                       a forked child: nothing may be written
 * When a record would not fit into one chunk, stubs call this file. The cursor leads to the chunk, the chunk to its
 * segment. A signal handler may come at any instruction and move on to another chunk or segment: then our
 * compare-and-swap fails, and nothing else happens. A handler that jumps out of here leaves at worst a segment that
 * belongs to its thread and is not used. The segment's word names the thread from the beginning; the thread hands the
 * segment over when it needs one, and the controller frees it when the thread has ended. There is no lock and no system
 * call, except for one look at the thread's stack when it takes its first segment. */
#include "agent/agent_detail.h"
#include "agent/agent_dry.h"
#include "agent/agent_lane.h"
#include "agent/agent_open.h"
#include "agent/agent_values.h"
#include "hook/frame.h"
#include "os/os.h"
#include "os/own_words.h"
#include "os/thread.h"

#define BYTES      CT_SHM_DETAIL_CHUNK
#define VECTORS    128u /* bytes of eight vector registers */
#define NEWCOMERS  8u   /* one segment in this many is for threads that have none */
#define NO_SEGMENT (1ull << 63)

static struct {
    struct ct_shm_control *control;
    struct ct_shm_thread *threads;
    struct ct_shm_segment *segments;
    const uint16_t *segment_of_chunk;
    uint64_t pool, pool_end;
    bool on;
} detail;

void ct_agent_detail_open(uint64_t shm) {
    struct ct_shm_control *c = (struct ct_shm_control *)shm;
    detail.control = c;
    detail.threads = (struct ct_shm_thread *)(shm + c->threads_offset);
    detail.segments = (struct ct_shm_segment *)(shm + c->segments_offset);
    detail.segment_of_chunk = (const uint16_t *)(shm + c->segment_of_chunk_offset);
    ct_agent_marks_open(shm);
    ct_agent_dry_open(shm);
    detail.pool = shm + c->detail_pool_offset;
    detail.pool_end = detail.pool + 2ull * BYTES * c->detail_chunk_count;
    detail.on = c->segment_count != 0;
}

/* Where the thread's errno is, if that is certainly mapped as long as the thread runs: in the page that its thread
 * pointer points to, or where a read just now worked. (A thread without a C library may have a thread pointer all the
 * same.) */
static const uint32_t *find_errno(const struct ct_block *b) {
    const uint64_t offset = (uint64_t)detail.control->errno_offset, at = b->thread_pointer + offset;
    uint32_t value;
    bool near = (at ^ b->thread_pointer) < ct_os_page_size(), known = detail.on && offset && !(at & 3);
    return known && (near || !ct_os_peek(at, &value, sizeof value)) ? (const uint32_t *)at : &b->no_errno;
}

void ct_agent_detail_moved(struct ct_block *b) {
    b->errno_at = find_errno(b);
}

/* A slot is one thread's at a time, and so is its bank; the last bank is for all other slots. */
static void take_counts(struct ct_block *b) {
    const struct ct_shm_control *c = detail.control;
    uint32_t bank = b->lane_slot < CT_SHM_COUNT_BANKS - 1 ? b->lane_slot : CT_SHM_COUNT_BANKS - 1;
    struct ct_shm_count *counts = (struct ct_shm_count *)((uint64_t)c + c->counts_offset);
    b->sample = c->sample;
    b->counts_alone = bank < CT_SHM_COUNT_BANKS - 1;
    b->counts = c->sample ? counts + (uint64_t)bank * c->hook_room : NULL;
}

void ct_agent_detail_begin(struct ct_block *b) {
    const struct ct_shm_control *c = detail.control;
    b->detail_cursor = NO_SEGMENT;
    b->detail_bit = BYTES;
    b->detail_home = b->detail_serial = 0;
    b->detail_open = b->detail_carried = b->detail_marking = 0;
    b->detail_first = b->detail_oldest = b->detail_kept = 0;
    b->detail_dry = b->detail_dry_used = 0;
    b->waits = 0;
    b->ordinal = CT_TAG_STEP;
    b->stack_low = b->stack_high = b->stack_plain = 0;
    ct_agent_detail_moved(b);
    take_counts(b);
    if (!detail.on)
        return;
    b->fn_detail = (uint64_t)&ct_agent_detail_reserve;
    b->fn_mark = (uint64_t)&ct_agent_detail_mark;
    b->rules = (const uint32_t *)((uint64_t)c + c->rules_offset);
    b->budgets = c->detail_rate ? (int32_t *)((uint64_t)c + c->budgets_offset) : NULL;
    b->stack_bytes = ct_shm_detail_room(c->stack_bytes, CT_FRAME_HAS_LINK);
    b->vector_bytes = c->vectors ? VECTORS : 0;
    b->call_size = __builtin_offsetof(struct ct_shm_detail, call.stack) + b->stack_bytes + b->vector_bytes;
    b->return_size = CT_DETAIL_RETURN_SIZE + b->vector_bytes / 4;
    b->detail_key = c->detail_key ^ CT_SHM_DETAIL_OWNER(b->lane_slot, detail.threads[b->lane_slot].generation);
}

/* ---- segments ---- */

static uint64_t start_of(uint32_t chunk) {
    return detail.pool + (2 * (uint64_t)chunk + 1) * BYTES;
}

static uint32_t word_of(uint32_t segment) {
    return __atomic_load_n(&detail.segments[segment].word, __ATOMIC_RELAXED);
}

/* Did this thread take the segment as its n-th, and does it still have it? */
static bool is_ours(const struct ct_block *b, uint32_t segment, uint32_t serial) {
    return word_of(segment) == CT_SEGMENT_WORD(CT_SEGMENT_OWNED, b->lane_slot) &&
           detail.segments[segment].serial == serial;
}

/* Changes the word from OWNED. False: a handler came, and has handed the segment over. */
static bool change_word(const struct ct_block *b, uint32_t segment, uint32_t to) {
    uint32_t owned = CT_SEGMENT_WORD(CT_SEGMENT_OWNED, b->lane_slot);
    return __atomic_compare_exchange_n(&detail.segments[segment].word, &owned, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

/* Gives back a segment that was not used. */
static void release_segment(const struct ct_block *b, uint32_t segment, uint32_t serial) {
    if (!is_ours(b, segment, serial))
        return;
    detail.segments[segment].begin = 0;
    if (change_word(b, segment, CT_SEGMENT_FREE))
        __atomic_fetch_add(&detail.control->free_segments, 1, __ATOMIC_RELAXED);
}

static void freeze_segment(const struct ct_block *b, uint32_t segment, uint32_t serial) {
    if (!is_ours(b, segment, serial))
        return;
    (void)change_word(b, segment, CT_SEGMENT_WORD(CT_SEGMENT_FROZEN, b->lane_slot));
}

static bool try_segment(const struct ct_block *b, uint32_t segment) {
    uint32_t expected = CT_SEGMENT_FREE;
    if (!__atomic_compare_exchange_n(&detail.segments[segment].word, &expected,
                                     CT_SEGMENT_WORD(CT_SEGMENT_OWNED, b->lane_slot), false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return false; /* released by the controller, and by release_segment */
    __atomic_fetch_sub(&detail.control->free_segments, 1, __ATOMIC_RELAXED);
    return true;
}

/* Parts of the table of segments: large ones come first, then medium ones, then small ones. */
struct range {
    uint32_t from, to;
};

static struct range all_segments(void) {
    return (struct range){0, detail.control->segment_count};
}

static struct range large_segments(void) {
    return (struct range){0, detail.control->large};
}

static struct range small_segments(void) {
    return (struct range){detail.control->large, detail.control->segment_count};
}

/* Takes the first free segment of this many chunks; 0: of any. *serial: its number among the thread's segments. */
static long take_segment(struct ct_block *b, struct range range, uint32_t chunks, uint32_t *serial) {
    if (__atomic_load_n(&detail.control->free_segments, __ATOMIC_RELAXED) <= 0)
        return -1;
    for (uint32_t i = range.from; i < range.to; i++) {
        struct ct_shm_segment *s = &detail.segments[i];
        if ((chunks && s->chunks != chunks) || word_of(i) != CT_SEGMENT_FREE || !try_segment(b, i))
            continue;
        s->thread = b->lane_slot;
        s->thread_generation = detail.threads[b->lane_slot].generation;
        s->serial = *serial = __atomic_add_fetch(&b->detail_serial, 1, __ATOMIC_RELAXED);
        s->turns = s->again = s->next = 0;
        s->marks = __atomic_load_n(&detail.control->mark_serial, __ATOMIC_RELAXED);
        __atomic_store_n(&s->begin, ct_os_timestamp(), __ATOMIC_RELEASE); /* acquired by the controller */
        return i;
    }
    return -1;
}

static bool change_cursor(struct ct_block *b, uint64_t from, uint64_t to) {
    return ct_os_own_change(&b->detail_cursor, from, to);
}

/* Learns only what certainly stays mapped while the thread exists: the main thread's stack; of other threads' the part
 * up to the thread's own control block, which libraries put at the stack's end. */
static void learn_stack(struct ct_block *b) {
    if (ct_os_is_silent())
        return;
    ct_shadow_learn_home(b);
    uint64_t high = b->tid == b->pid ? b->home_high : b->thread_pointer;
    if (high <= b->home_low || high > b->home_high)
        return;
    b->stack_low = b->home_low;
    b->stack_high = high;
    b->stack_plain = b->stack_bytes == CT_STACK_PLAIN && !b->vector_bytes ? high - CT_STACK_PLAIN : 0;
}

/* Moves to the start of the segment's at-th chunk. While it is not known whether that works, the segment does not say
 * which chunk is being filled: what a handler says that comes meanwhile is right. The controller must not see records
 * of the chunk before it sees that. */
static bool move_cursor(struct ct_block *b, uint64_t cursor, uint32_t segment, uint32_t at) {
    struct ct_shm_segment *s = &detail.segments[segment];
    __atomic_store_n(&s->filling, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    if (!change_cursor(b, cursor, start_of(s->chunk + at)))
        return false;
    (void)ct_os_own_change32(&s->filling, 0, at + 1);
    return true;
}

/* Moves from `cursor` to the start of a segment that was just taken. False: a handler came. */
static bool begin_segment(struct ct_block *b, uint64_t cursor, uint32_t segment, uint32_t serial) {
    if (!move_cursor(b, cursor, segment, 0)) {
        release_segment(b, segment, serial);
        return false;
    }
    if (is_ours(b, segment, serial))
        return true;
    (void)change_cursor(b, start_of(detail.segments[segment].chunk),
                        NO_SEGMENT); /* was taken for an abandoned segment, see hand_over_left */
    return false;
}

/* Large segments are for threads that come first: a thread stays with the size that it got, if it can. Where threads
 * may have many segments, all begin with a small one. False: no segment is free. */
static bool take_first(struct ct_block *b) {
    uint32_t serial;
    long fresh = -1;
    if (detail.control->grows)
        fresh = take_segment(b, small_segments(), 0, &serial);
    else if (b->detail_home)
        fresh = take_segment(b, all_segments(), b->detail_home, &serial);
    if (fresh < 0)
        fresh = take_segment(b, all_segments(), 0, &serial);
    if (fresh < 0)
        return false;
    if (!begin_segment(b, NO_SEGMENT, (uint32_t)fresh, serial))
        return true;
    if (!b->detail_home)
        b->detail_home = detail.segments[detail.control->grows ? 0 : fresh].chunks;
    if (!b->stack_high)
        learn_stack(b);
    return true;
}

/* ---- cursors and marks ---- */

static bool is_past_chunk(uint64_t cursor) {
    return cursor > detail.pool && cursor <= detail.pool_end + BYTES && !(cursor & BYTES);
}

static uint32_t chunk_before(uint64_t cursor) {
    return (uint32_t)((cursor - detail.pool) / (2 * BYTES)) - 1;
}

static bool is_persisting(void) {
    return __atomic_load_n(&detail.control->persisting, __ATOMIC_RELAXED);
}

/* Has the controller not taken yet what a mark wants? */
static bool is_mark_pending(void) {
    return __atomic_load_n(&detail.control->mark_serial, __ATOMIC_RELAXED) !=
           __atomic_load_n(&detail.control->looked, __ATOMIC_RELAXED);
}

static bool is_wanted(const struct ct_shm_segment *s) {
    return is_persisting() || s->marks != __atomic_load_n(&detail.control->mark_serial, __ATOMIC_RELAXED);
}

/* Was the event whose record is wanted now marked? (Not if a handler has made others since.) */
static bool is_marking(const struct ct_block *b) {
    return b->detail_marking && (b->ordinal ^ (b->detail_marking + CT_TAG_STEP)) <= CT_TAG_KIND;
}

/* How many segments are left for threads that have none at all, and for the records of marks. */
static int32_t left_free(void) {
    const struct ct_shm_control *c = detail.control;
    return (int32_t)(c->grows ? (c->segment_count - c->large) / 2 : c->segment_count / NEWCOMERS);
}

/* Moves on to a segment of the thread's own size; `any`: if there is none, to any. */
static bool hand_over(struct ct_block *b, uint64_t cursor, uint32_t old, uint32_t old_serial, bool any) {
    uint32_t serial;
    int32_t left = is_marking(b) && any ? 0 : left_free();
    if (__atomic_load_n(&detail.control->free_segments, __ATOMIC_RELAXED) <= left)
        return false;
    long fresh = take_segment(b, all_segments(), b->detail_home, &serial);
    if (fresh < 0 && any)
        fresh = take_segment(b, all_segments(), 0, &serial);
    if (fresh < 0)
        return false;
    if (begin_segment(b, cursor, (uint32_t)fresh, serial))
        freeze_segment(b, old, old_serial);
    return true;
}

/* Hands over segments that this thread took and does not write to, because handlers jumped out of here: otherwise they
 * would be missing for as long as the thread runs. (One of them may be a segment that an interrupted call of this
 * function's callers is about to begin; that call checks.) */
static void hand_over_left(const struct ct_block *b, uint32_t used) {
    for (uint32_t i = 0; i < detail.control->segment_count; i++) {
        const struct ct_shm_segment *s = &detail.segments[i];
        if (i != used && word_of(i) == CT_SEGMENT_WORD(CT_SEGMENT_OWNED, b->lane_slot) &&
            __atomic_load_n(&s->begin, __ATOMIC_RELAXED))
            freeze_segment(b, i, s->serial);
    }
}

/* May this thread wait? Only for something that the controller is about to free: other threads may never free their
 * segments. */
static bool may_wait(void) {
    if (!detail.control->lossless || !is_persisting() || !ct_agent_lane_is_recording())
        return false;
    for (uint32_t i = 0; i < detail.control->segment_count; i++)
        if (CT_SEGMENT_STATE(word_of(i)) == CT_SEGMENT_FREE || CT_SEGMENT_STATE(word_of(i)) == CT_SEGMENT_FROZEN)
            return true;
    return false;
}

/* ---- open calls ---- */

/* Takes a segment for the records of open calls. */
static void take_open_segment(struct ct_block *b) {
    uint32_t serial;
    if (__atomic_load_n(&detail.control->free_segments, __ATOMIC_RELAXED) <= left_free())
        return;
    long taken = take_segment(b, small_segments(), CT_SHM_SMALL_CHUNKS, &serial);
    if (taken < 0)
        return;
    detail.segments[taken].turns = detail.segments[taken].chunks - 1; /* all of it may be in use */
    if (change_word(b, (uint32_t)taken, CT_SEGMENT_WORD(CT_SEGMENT_OPEN, b->lane_slot)))
        b->detail_open = (uint32_t)taken + 1;
}

/* Time of the first record in a chunk. */
static uint64_t time_of(uint32_t chunk) {
    return ((const struct ct_shm_detail *)start_of(chunk))->stamp;
}

/* `chunk` is about to be overwritten: its records are not newer than `until`. `exact`: this is the time of the record
 * that follows them. */
static void carry_open_calls(struct ct_block *b, uint32_t chunk, uint64_t until, bool exact) {
    struct ct_agent_old_chunk old = {start_of(chunk), until, exact};
    const struct ct_shm_segment *s = b->detail_open ? &detail.segments[b->detail_open - 1] : NULL;
    if (s)
        ct_agent_open_trim(b, start_of(s->chunk));
    if (!ct_agent_open_has(b, &old) || is_mark_pending())
        return;
    if (!s)
        take_open_segment(b);
    s = b->detail_open ? &detail.segments[b->detail_open - 1] : NULL;
    if (s)
        ct_agent_open_carry(b, &old, start_of(s->chunk), s->chunks);
}

/* ---- history: full segments that a pre-roll needs ----
 *
 * They are large ones, and before them perhaps the small one that the thread began with. The thread fills them in turn:
 * it knows the oldest, and each leads to the next. Where that does not hold, because a handler has jumped away or the
 * controller has taken some for other threads, a look at all large segments puts it right. */

struct history {
    uint32_t count; /* of large segments */
    long oldest;    /* -1: none */
};

static bool is_kept(const struct ct_block *b, uint32_t segment) {
    return word_of(segment) == CT_SEGMENT_WORD(CT_SEGMENT_KEPT, b->lane_slot);
}

static void look_for_history(struct ct_block *b) {
    b->detail_oldest = b->detail_kept = 0;
    for (uint32_t i = 0; i < detail.control->large; i++) {
        if (!is_kept(b, i))
            continue;
        b->detail_kept++;
        if (!b->detail_oldest || detail.segments[i].serial < detail.segments[b->detail_oldest - 1].serial)
            b->detail_oldest = i + 1;
    }
}

static struct history find_history(struct ct_block *b) {
    uint32_t oldest = b->detail_oldest;
    if (b->detail_kept && (!oldest || oldest > detail.control->large || !is_kept(b, oldest - 1)))
        look_for_history(b);
    if (b->detail_first && is_kept(b, b->detail_first - 1))
        return (struct history){b->detail_kept, (long)b->detail_first - 1};
    b->detail_first = 0;
    return (struct history){b->detail_kept, (long)b->detail_oldest - 1};
}

/* Does the pre-roll need records older than those of this chunk? (The last of them is as old as the first here.) */
static bool is_before_needed(const struct ct_block *b, uint32_t chunk) {
    const struct ct_shm_detail *r = (const struct ct_shm_detail *)start_of(chunk);
    const struct ct_shm_control *c = detail.control;
    if (c->pre_counts && ct_os_timestamp() - r->stamp < c->pre_counts)
        return true;
    return c->pre_records && (b->ordinal - r->tag) / CT_TAG_STEP < c->pre_records;
}

/* Does the pre-roll need a record of the oldest segment? All of them are lost when it is filled again: the controller
 * takes the segments after it first. `newest`: the one that the thread has just filled. */
static bool is_oldest_needed(const struct ct_block *b, uint32_t oldest, uint32_t newest) {
    uint32_t next = detail.segments[oldest].next - 1; /* a hint */
    bool known = next == newest || (next < detail.control->segment_count && is_kept(b, next));
    return !known || is_before_needed(b, detail.segments[next].chunk);
}

/* Keeps a full segment; it is no longer written to. The thread goes on in segment `next`. */
static void keep_segment(struct ct_block *b, uint32_t segment, uint32_t serial, uint32_t next) {
    struct ct_shm_segment *s = &detail.segments[segment];
    if (!is_ours(b, segment, serial))
        return;
    s->filled = ct_os_timestamp();
    s->next = next + 1;
    if (!change_word(b, segment, CT_SEGMENT_WORD(CT_SEGMENT_KEPT, b->lane_slot)))
        return;
    if (segment >= detail.control->large) {
        b->detail_first = segment + 1;
        return;
    }
    b->detail_kept++;
    b->detail_oldest = b->detail_oldest ? b->detail_oldest : segment + 1;
}

static bool change_kept(const struct ct_block *b, uint32_t segment, enum ct_segment_state to) {
    uint32_t kept = CT_SEGMENT_WORD(CT_SEGMENT_KEPT, b->lane_slot);
    return __atomic_compare_exchange_n(&detail.segments[segment].word, &kept, CT_SEGMENT_WORD(to, b->lane_slot), false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Hands all of it over. */
static void hand_over_history(struct ct_block *b) {
    if (!b->detail_first && !b->detail_kept)
        return;
    for (uint32_t i = 0; i < detail.control->segment_count; i++)
        (void)change_kept(b, i, CT_SEGMENT_FROZEN);
    b->detail_first = b->detail_oldest = b->detail_kept = 0;
}

static bool grow_history(struct ct_block *b, uint64_t cursor, uint32_t old, uint32_t old_serial) {
    uint32_t serial;
    long fresh = take_segment(b, large_segments(), 0, &serial);
    if (fresh < 0)
        return false;
    if (begin_segment(b, cursor, (uint32_t)fresh, serial))
        keep_segment(b, old, old_serial, (uint32_t)fresh);
    return true;
}

/* The oldest segment is no longer kept. */
static void drop_oldest(struct ct_block *b, uint32_t segment) {
    if (segment >= detail.control->large) {
        b->detail_first = 0;
        return;
    }
    b->detail_kept -= b->detail_kept != 0;
    b->detail_oldest = b->detail_kept ? detail.segments[segment].next : 0;
}

/* Fills the oldest segment again. */
static bool fill_again(struct ct_block *b, uint64_t cursor, uint32_t old, uint32_t old_serial, uint32_t segment) {
    struct ct_shm_segment *s = &detail.segments[segment];
    if (!change_kept(b, segment, CT_SEGMENT_OWNED))
        return true; /* a handler came, or the controller has taken it */
    drop_oldest(b, segment);
    s->serial = __atomic_add_fetch(&b->detail_serial, 1, __ATOMIC_RELAXED);
    s->turns = 0;
    s->again = 1;
    s->marks = __atomic_load_n(&detail.control->mark_serial, __ATOMIC_RELAXED);
    __atomic_store_n(&s->begin, s->begin + 1, __ATOMIC_RELEASE); /* acquired by the controller */
    carry_open_calls(b, s->chunk, time_of(s->chunk + 1), true);
    if (move_cursor(b, cursor, segment, 0))
        keep_segment(b, old, old_serial, segment);
    else
        keep_segment(b, segment, s->serial, segment);
    return true;
}

/* The thread's segment is full and not wanted now. Keeps it, and moves on to another one. Returns false if the segment
 * is to be overwritten: its records are older than the pre-roll, or there is no other segment. `second`: where the
 * records are that follow those of its oldest chunk. */
static bool move_on(struct ct_block *b, uint64_t cursor, uint32_t segment, uint32_t serial, uint32_t second) {
    const struct ct_shm_control *c = detail.control;
    if (!c->pre_counts && !c->pre_records)
        return false;
    struct history h = find_history(b);
    if (h.oldest < 0 && !is_before_needed(b, second))
        return false;
    uint32_t share = __atomic_load_n(&c->share, __ATOMIC_RELAXED), has = h.count + (segment < c->large);
    if (has < share && (h.oldest < 0 || is_oldest_needed(b, (uint32_t)h.oldest, segment)) &&
        grow_history(b, cursor, segment, serial))
        return true;
    if (h.oldest >= 0 && (has > share || (uint32_t)h.oldest >= c->large)) { /* others need it */
        (void)change_kept(b, (uint32_t)h.oldest, CT_SEGMENT_FROZEN);
        drop_oldest(b, (uint32_t)h.oldest);
        h = find_history(b);
    }
    return h.oldest >= 0 && fill_again(b, cursor, segment, serial, (uint32_t)h.oldest);
}

/* ---- turning to the next chunk ---- */

/* Nothing is overwritten while a mark is pending: the record of the marked call may be here. */
static void stay_past_chunk(struct ct_block *b, uint64_t cursor, uint32_t chunk) {
    (void)change_cursor(b, cursor, start_of(chunk) + BYTES); /* it must not grow until it looks valid */
}

/* Overwrites the oldest chunk of the thread's own segment. */
static void overwrite_oldest(struct ct_block *b, uint64_t cursor, uint32_t segment, uint32_t chunk) {
    struct ct_shm_segment *s = &detail.segments[segment];
    uint32_t end = s->chunk + s->chunks, next = chunk + 1 == end ? s->chunk : chunk + 1;
    bool full = s->turns + 1 >= s->chunks;
    if (full || (s->again && next + 1 < end))
        carry_open_calls(b, next, time_of(next + 1 == end ? s->chunk : next + 1), true);
    else if (s->again)
        carry_open_calls(b, next, s->filled, false); /* what follows is in another segment */
    ct_os_own_count32(&s->turns);                    /* first: too many is better than too few */
    (void)move_cursor(b, cursor, segment, next - s->chunk);
}

/* `cursor` is past the end of a chunk. Would the next chunk overwrite something that is to be kept? Returns false if it
 * would, and there is no other place. */
static bool turn_to_next_chunk(struct ct_block *b, uint64_t cursor) {
    uint32_t chunk = chunk_before(cursor), segment = detail.segment_of_chunk[chunk];
    struct ct_shm_segment *s = &detail.segments[segment];
    uint32_t serial = s->serial;
    bool full = s->turns + 1 >= s->chunks, wanted = full && is_wanted(s);
    bool small = full && s->chunks < b->detail_home && !detail.control->grows;
    if ((wanted || small) && hand_over(b, cursor, segment, serial, wanted))
        return true;
    if (full && !wanted && move_on(b, cursor, segment, serial, s->chunk + (chunk - s->chunk + 2) % s->chunks))
        return true;
    if (wanted)
        hand_over_history(b);
    if (wanted && detail.control->lossless && is_persisting() && ct_agent_lane_is_recording()) {
        hand_over_left(b, segment);
        /* The thread's own segment goes first, so that there is one to wait for. */
        if (change_cursor(b, cursor, NO_SEGMENT))
            freeze_segment(b, segment, serial);
        return true;
    }
    if (wanted && is_mark_pending()) {
        stay_past_chunk(b, cursor, chunk);
        return false;
    }
    if (wanted)
        hand_over_left(b, segment);
    overwrite_oldest(b, cursor, segment, chunk);
    return true;
}

/* The thread has no segment. False: there is none for it. The cursor is reset first: it must not grow until it looks
 * valid. */
static bool find_segment(struct ct_block *b, uint64_t cursor) {
    if ((cursor != NO_SEGMENT && !change_cursor(b, cursor, NO_SEGMENT)) || take_first(b))
        return true;
    hand_over_left(b, UINT32_MAX);
    if (!may_wait())
        return false;
    ct_agent_lane_wait_longer(b);
    return true;
}

uint64_t ct_agent_detail_room(struct ct_block *b, uint64_t size) {
    uint64_t at = 0;
    for (;;) {
        uint64_t cursor = __atomic_load_n(&b->detail_cursor, __ATOMIC_RELAXED);
        if (cursor & NO_SEGMENT) {
            if (!find_segment(b, cursor))
                break;
        } else if (is_past_chunk(cursor)) {
            if (!turn_to_next_chunk(b, cursor))
                break;
        } else if (cursor < detail.pool || cursor >= detail.pool_end) {
            b->detail_cursor = 0; /* a forked child: it must not grow until it looks valid */
            break;
        } else {
            uint64_t place = ct_os_own_add(&b->detail_cursor, size);
            if (place & (place + size - 1) & BYTES) {
                at = place;
                break;
            }
        }
    }
    ct_agent_lane_wait_end(b);
    return at;
}

uint64_t ct_agent_detail_reserve(uint64_t size) {
    struct ct_block *b = ct_block_found();
    uint64_t at = ct_agent_detail_room(b, size);
    if (!at && b->detail_cursor) /* not in a forked child */
        at = ct_agent_dry_reserve(b, size, is_marking(b));
    return at;
}
