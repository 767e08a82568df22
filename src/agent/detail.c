/* See detail.h, and abi/shm_abi.h for segments and records.
 *
 * A thread's detail cursor is the address of its next record. Stubs add to it; when a record would not lie in one chunk they
 * come here. The cursor tells the chunk, the chunk its segment: so a signal handler that comes at any instruction, and turns
 * to another chunk or segment itself, makes our compare-and-swap fail and nothing else. A handler that jumps out of here
 * leaves at worst a segment that belongs to its thread and is not used: the controller frees it when the thread has ended.
 * No lock, no system call, but for one look at the thread's stack when it takes its first segment. */
#include "agent/detail.h"
#include "agent/lane.h"
#include "os/os.h"
#include "os/thread.h"

#define BYTES   CT_SHM_DETAIL_CHUNK
#define VECTORS 128u /* bytes of eight vector registers */

static struct {
    struct ct_shm_control *control;
    struct ct_shm_thread *threads;
    struct ct_shm_segment *segments;
    const uint16_t *segment_of_chunk;
    struct ct_shm_mark *marks;
    uint64_t pool, pool_end;
    bool on;
} detail;

void ct_detail_open(uint64_t shm) {
    struct ct_shm_control *c = (struct ct_shm_control *)shm;
    detail.control = c;
    detail.threads = (struct ct_shm_thread *)(shm + c->threads_offset);
    detail.segments = (struct ct_shm_segment *)(shm + c->segments_offset);
    detail.segment_of_chunk = (const uint16_t *)(shm + c->segment_of_chunk_offset);
    detail.marks = (struct ct_shm_mark *)(shm + CT_SHM_MARKS_OFFSET);
    detail.pool = shm + c->detail_pool_offset;
    detail.pool_end = detail.pool + 2ull * BYTES * c->detail_chunk_count;
    detail.on = c->segment_count != 0;
}

void ct_detail_begin(struct ct_block *b) {
    const struct ct_shm_control *c = detail.control;
    b->detail_cursor = 0;
    b->detail_bit = 0; /* no segment yet */
    b->ordinal = CT_TAG_STEP;
    b->stack_low = b->stack_high = 0;
    if (!detail.on)
        return;
    b->fn_detail = (uint64_t)&ct_detail_reserve;
    b->fn_mark = (uint64_t)&ct_detail_mark;
    b->rules = (const uint16_t *)((uint64_t)c + c->rules_offset);
    b->budgets = c->detail_rate ? (int32_t *)((uint64_t)c + c->budgets_offset) : NULL;
    b->stack_bytes = c->stack_bytes < 8 ? 8 : c->stack_bytes; /* the return address is always wanted */
    b->vector_bytes = c->vectors ? VECTORS : 0;
    b->call_size = __builtin_offsetof(struct ct_shm_detail, call.stack) + b->stack_bytes + b->vector_bytes;
    b->return_size = CT_SHM_RETURN_SIZE + b->vector_bytes / 4;
    b->detail_key = c->detail_key;
}

/* ---- segments ---- */

static uint64_t start_of(uint32_t chunk) {
    return detail.pool + (2 * (uint64_t)chunk + 1) * BYTES;
}

static void release(uint32_t segment) {
    __atomic_store_n(&detail.segments[segment].state, CT_SEGMENT_FREE, __ATOMIC_RELEASE);
    __atomic_fetch_add(&detail.control->free_segments, 1, __ATOMIC_RELAXED);
}

static bool take(uint32_t segment) {
    uint32_t expected = CT_SEGMENT_FREE;
    if (!__atomic_compare_exchange_n(&detail.segments[segment].state, &expected, CT_SEGMENT_OWNED, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return false;
    __atomic_fetch_sub(&detail.control->free_segments, 1, __ATOMIC_RELAXED);
    return true;
}

/* Large ones come first. They are for threads that come first, not for one thread after the other: a thread goes on with the
 * size that it has. */
static long take_segment(struct ct_block *b, uint32_t chunks, uint32_t serial) {
    uint32_t count = detail.control->segment_count;
    if (__atomic_load_n(&detail.control->free_segments, __ATOMIC_RELAXED) <= 0)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        struct ct_shm_segment *s = &detail.segments[i];
        if ((chunks && s->chunks != chunks) || __atomic_load_n(&s->state, __ATOMIC_RELAXED) != CT_SEGMENT_FREE ||
            !take(i))
            continue;
        s->thread = b->lane_slot;
        s->thread_generation = detail.threads[b->lane_slot].generation;
        s->serial = serial;
        s->turns = 0;
        s->marks = __atomic_load_n(&detail.control->mark_serial, __ATOMIC_RELAXED);
        /* Older ones are the last owner's. Not the time now: the first record was stamped before. */
        __atomic_store_n(&s->begin, s->frozen ? s->frozen + 1 : 0, __ATOMIC_RELEASE);
        return i;
    }
    return -1;
}

static bool change_cursor(struct ct_block *b, uint64_t from, uint64_t to) {
    return __atomic_compare_exchange_n(&b->detail_cursor, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Only what surely stays mapped as long as the thread is there: the main thread's stack; of others up to the thread's own
 * control block, which libraries put at the stack's end. */
static void learn_stack(struct ct_block *b) {
    if (ct_os_is_silent())
        return;
    ct_shadow_learn_home(b);
    uint64_t high = b->tid == b->pid ? b->home_high : b->thread_pointer;
    if (high <= b->home_low || high > b->home_high)
        return;
    b->stack_low = b->home_low;
    b->stack_high = high;
}

static void take_first(struct ct_block *b, uint64_t cursor) {
    long fresh = take_segment(b, 0, 1);
    if (fresh < 0)
        return;
    if (b->detail_bit || !change_cursor(b, cursor, start_of(detail.segments[fresh].chunk))) {
        release((uint32_t)fresh); /* a handler was here */
        return;
    }
    b->detail_bit = BYTES;
    if (!b->stack_high)
        learn_stack(b);
}

/* ---- turning to the next chunk ---- */

static bool is_past_chunk(uint64_t cursor) {
    return cursor > detail.pool && cursor <= detail.pool_end + BYTES && !(cursor & BYTES);
}

static uint32_t chunk_before(uint64_t cursor) {
    return (uint32_t)((cursor - detail.pool) / (2 * BYTES)) - 1;
}

/* Would what is wanted be overwritten? */
static bool is_wanted(const struct ct_shm_segment *s) {
    return s->turns + 1 >= s->chunks && (__atomic_load_n(&detail.control->persisting, __ATOMIC_RELAXED) ||
                                         s->marks != __atomic_load_n(&detail.control->mark_serial, __ATOMIC_RELAXED));
}

static bool hand_over(struct ct_block *b, uint64_t cursor, struct ct_shm_segment *old) {
    long fresh = take_segment(b, old->chunks, old->serial + 1);
    if (fresh < 0)
        return false;
    if (!change_cursor(b, cursor, start_of(detail.segments[fresh].chunk))) {
        release((uint32_t)fresh);
        return true;
    }
    old->frozen = ct_os_timestamp();
    __atomic_store_n(&old->state, CT_SEGMENT_FROZEN, __ATOMIC_RELEASE);
    return true;
}

/* `cursor` is past the end of a chunk. In lossless mode a thread waits while the controller frees segments. */
static void turn(struct ct_block *b, uint64_t cursor) {
    uint32_t chunk = chunk_before(cursor);
    struct ct_shm_segment *s = &detail.segments[detail.segment_of_chunk[chunk]];
    if (is_wanted(s)) {
        if (hand_over(b, cursor, s))
            return;
        if (detail.control->lossless && __atomic_load_n(&detail.control->persisting, __ATOMIC_RELAXED) &&
            ct_lane_is_recording()) {
            ct_lane_wait();
            return;
        }
    }
    uint32_t next = chunk + 1 == s->chunk + s->chunks ? s->chunk : chunk + 1;
    if (change_cursor(b, cursor, start_of(next)))
        s->turns++;
}

uint64_t ct_detail_reserve(uint64_t size) {
    struct ct_block *b = ct_os_block();
    for (;;) {
        uint64_t cursor = __atomic_load_n(&b->detail_cursor, __ATOMIC_RELAXED);
        if (!b->detail_bit) {
            take_first(b, cursor);
            if (!b->detail_bit)
                return 0;
        } else if (is_past_chunk(cursor)) {
            turn(b, cursor);
        } else if (cursor < detail.pool || cursor >= detail.pool_end) {
            b->detail_cursor = 0; /* the child of a fork: it must not grow until it looks valid */
            return 0;
        } else {
            uint64_t at = __atomic_fetch_add(&b->detail_cursor, size, __ATOMIC_RELAXED);
            if (at & (at + size - 1) & BYTES)
                return at;
        }
    }
}

/* ---- marks ---- */

static void mark(const struct ct_block *b, const struct ct_shm_trigger *t, const struct ct_detail_note *note,
                 uint64_t value) {
    struct ct_shm_control *c = detail.control;
    uint64_t serial = __atomic_add_fetch(&c->mark_next, 1, __ATOMIC_RELAXED);
    struct ct_shm_mark *m = &detail.marks[(serial - 1) % CT_SHM_MARKS];
    __atomic_store_n(&m->serial, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    m->stamp = note->stamp;
    m->thread = b->lane_slot;
    m->hook = note->hook;
    m->trigger = t->id;
    m->number = note->tag / CT_TAG_STEP;
    m->value = (int64_t)value;
    __atomic_store_n(&m->serial, serial, __ATOMIC_RELEASE); /* acquired by the controller */
    __atomic_fetch_add(&c->mark_serial, 1, __ATOMIC_RELEASE);
}

static bool fires(const struct ct_shm_trigger *t, const struct ct_detail_note *note, uint64_t value) {
    bool returned = (note->tag & CT_TAG_KIND) == CT_EVENT_RETURN;
    switch (t->kind) {
    case CT_SHM_ON_CALL:
        return !returned;
    case CT_SHM_ON_RETURN:
        return returned && ct_trigger_compares(t->compare, t->value, value);
    case CT_SHM_ON_SLOW:
        return returned && note->entered && note->stamp - note->entered >= t->counts;
    default:
        return false;
    }
}

void ct_detail_mark(const struct ct_detail_note *note, uint64_t value) {
    const struct ct_block *b = ct_os_block();
    for (unsigned rules = b->rules[note->hook]; rules; rules &= rules - 1) {
        const struct ct_shm_trigger *t = &detail.control->triggers[__builtin_ctz(rules)];
        if (fires(t, note, value))
            mark(b, t, note, value);
    }
}
