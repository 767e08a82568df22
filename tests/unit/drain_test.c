/* SPDX-License-Identifier: Apache-2.0 */
/* The drain over shared memory that is made by hand: holes, gaps, depths, time, threads, full disks, latency,
 * garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lane_util.h"
#include "os/os.h"
#include "os/thread.h"
#include <contrail/status.h>

#define SMALL       (256u << 10) /* 64 chunks of 256 events */

#define MANY_CHUNKS ((16u << 20) - 1) /* bytes of memory: 4095 of the smallest chunks, and no larger ones */

static struct lane_fixture f;
static uint64_t stamp; /* of the next event */

static int start(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    stamp = ct_os_timestamp();
    return 0;
}

static int clean(void **state) {
    (void)state;
    lane_end(&f);
    return 0;
}

/* ---- shared memory by hand ---- */

static void add_thread(uint32_t slot, uint32_t generation) {
    struct ct_shm_thread *t = &f.lane.threads[slot];
    *t = (struct ct_shm_thread){.generation = generation, .tid = 4000000 + (int)slot, .name = "made"};
    __atomic_store_n(&t->state, CT_THREAD_ALIVE, __ATOMIC_RELEASE);
    if (f.lane.control->thread_high <= slot)
        f.lane.control->thread_high = slot + 1;
}

static void put_event(uint32_t chunk, uint32_t index, uint32_t hook, uint32_t kind) {
    struct ct_event *e = (struct ct_event *)(uintptr_t)&ct_lane_events(&f.lane, chunk)[index];
    e->hook = hook;
    e->kind = kind;
    __atomic_store_n(&e->timestamp, stamp++, __ATOMIC_RELEASE);
}

static void put_events(uint32_t chunk, uint32_t from, uint32_t to, uint32_t hook) {
    for (uint32_t i = from; i < to; i++)
        put_event(chunk, i, hook + (i - from), CT_EVENT_ENTRY);
}

static void set_state(uint32_t chunk, enum ct_chunk_state state, uint32_t drained) {
    uint32_t generation = f.lane.chunks[chunk].generation;
    __atomic_store_n(&f.lane.chunks[chunk].word, CT_CHUNK_WORD(state, drained, generation), __ATOMIC_RELEASE);
}

static struct ct_shm_chunk *add_chunk(uint32_t chunk, uint32_t slot, uint64_t number, enum ct_chunk_state state) {
    struct ct_shm_chunk *c = &f.lane.chunks[chunk];
    uint32_t generation = c->generation + 1;
    *c = (struct ct_shm_chunk){.thread = slot,
                               .thread_generation = f.lane.threads[slot].generation,
                               .number = number,
                               .generation = generation};
    set_state(chunk, state, 0);
    f.lane.control->free_chunks--;
    return c;
}

static void wait_for_word(uint32_t chunk, enum ct_chunk_state state, uint32_t drained) {
    for (;;) {
        uint64_t word = ct_lane_word(&f.lane, chunk);
        if (CT_CHUNK_STATE(word) == state && CT_CHUNK_DRAINED(word) == drained)
            return;
        usleep(200);
    }
}

static void finish(void) {
    assert_int_equal(lane_finish_drain(&f), 0);
}

/* The thread has recorded exactly these hooks, one after the other. */
static void expect_range(uint32_t id, uint32_t first, uint32_t count) {
    size_t n;
    struct atf_index_event *e = lane_read(&f, id, &n);
    assert_non_null(e);
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(e[i].function_id, first + i + 1);
    free(e);
}

/* ---- chunks ---- */

static void test_order_of_numbers(void **state) {
    (void)state;
    uint32_t capacity = lane_capacity(&f);
    add_thread(0, 1);
    static const uint32_t places[] = {7, 3, 9, 1, 40};
    for (uint32_t i = 0; i < 5; i++) {
        add_chunk(places[i], 0, i + 1, i == 4 ? CT_CHUNK_ACTIVE : CT_CHUNK_FULL);
        put_events(places[i], 0, i == 4 ? 10 : capacity, i * capacity);
    }
    lane_start_drain(&f);
    wait_for_word(40, CT_CHUNK_ACTIVE, 10);
    assert_int_equal(lane_chunks_in(&f, CT_CHUNK_FREE), f.lane.chunk_count - 1);
    assert_int_equal(f.lane.control->free_chunks, f.lane.chunk_count - 1);
    assert_int_equal(ct_lane_events(&f.lane, 7)->timestamp, 0); /* what is free is clear */
    put_events(40, 10, 20, 4 * capacity + 10);                  /* the live part grows */
    wait_for_word(40, CT_CHUNK_ACTIVE, 20);
    finish();
    expect_range(1, 0, 4 * capacity + 20);
    assert_int_equal(f.drain.statistics.abandoned, 0);
    assert_int_equal(lane_lost(&f), 0);
    assert_true(f.lane.control->drain_stamp != 0);
}

/* A signal that nothing has followed goes after all that was filled before it, also when passes are cut short. */
static void test_signal_in_cut_passes(void **state) {
    (void)state;
    size_t n;
    add_thread(0, 1);
    add_chunk(5, 0, 1, CT_CHUNK_ACTIVE);
    put_events(5, 0, 10, 0);
    lane_start_drain(&f);
    wait_for_word(5, CT_CHUNK_ACTIVE, 10);
    __atomic_store_n(&f.drain.stopping, 1, __ATOMIC_RELAXED);
    usleep(1000); /* a pass that has begun before */
    put_events(5, 10, 20, 10);
    struct ct_signal_record record = {.tid = f.lane.threads[0].tid, .signal = SIGSEGV, .counter = stamp};
    assert_int_equal(ct_drain_signal(&f.drain, &record), 0);
    uint64_t first = __atomic_load_n(&f.drain.pass, __ATOMIC_RELAXED);
    for (int i = 0; i < 30000 && __atomic_load_n(&f.drain.pass, __ATOMIC_RELAXED) < first + 6; i++)
        usleep(1000);
    assert_true(__atomic_load_n(&f.drain.pass, __ATOMIC_RELAXED) >= first + 6);
    finish();
    struct atf_index_event *e = lane_read(&f, 1, &n);
    assert_int_equal(n, 21);
    assert_int_equal(e[20].event_kind, ATF_EXCEPTION);
    free(e);
}

enum { FIRST = 3000000, SECOND, BEFORE_SIGNAL = 20 };

/* Thread 1 is quick: while a pass takes an event of thread 0, it fills a chunk and begins the next one. */
static uint64_t fill_meanwhile(void *arg, uint32_t hook) {
    uint32_t *seen = arg, capacity = lane_capacity(&f);
    if (hook == FIRST && *seen == 0) {
        put_events(5, 5, capacity, 5);
        set_state(5, CT_CHUNK_FULL, 0);
        add_chunk(6, 1, 2, CT_CHUNK_ACTIVE);
        put_events(6, 0, BEFORE_SIGNAL, capacity);
        struct ct_signal_record record = {.tid = f.lane.threads[1].tid, .signal = SIGSEGV, .counter = stamp++};
        assert_int_equal(ct_drain_signal(&f.drain, &record), 0);
        put_event(1, 1, SECOND, CT_EVENT_ENTRY);
    } else if (hook == SECOND && *seen == 1) {
        put_events(6, BEFORE_SIGNAL, capacity, capacity + BEFORE_SIGNAL);
        set_state(6, CT_CHUNK_FULL, 0);
        add_chunk(7, 1, 3, CT_CHUNK_ACTIVE);
        put_events(7, 0, 5, 2 * capacity);
    }
    *seen += hook >= FIRST;
    return hook + 1;
}

/* A signal that comes during a pass: that pass may have missed a chunk, and the next one another. */
static void test_signal_during_a_pass(void **state) {
    (void)state;
    uint32_t seen = 0, capacity = lane_capacity(&f);
    size_t n;
    for (uint32_t slot = 0; slot < 3; slot++)
        add_thread(slot, 1);
    add_chunk(1, 0, 1, CT_CHUNK_ACTIVE);
    add_chunk(5, 1, 1, CT_CHUNK_ACTIVE);
    add_chunk(9, 2, 1, CT_CHUNK_ACTIVE);
    put_event(1, 0, FIRST, CT_EVENT_ENTRY);
    put_events(5, 0, 5, 0);
    put_events(9, 0, 1, 0); /* its pass finds the signal in the queue */
    lane_prepare_drain(&f);
    f.drain.resolve = fill_meanwhile;
    f.drain.resolve_arg = &seen;
    assert_int_equal(ct_drain_start(&f.drain), 0);
    wait_for_word(7, CT_CHUNK_ACTIVE, 5);
    finish();
    struct atf_index_event *e = lane_read(&f, 2, &n);
    assert_int_equal(n, 2 * capacity + 6);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(e[i].event_kind == ATF_EXCEPTION, i == capacity + BEFORE_SIGNAL);
    free(e);
}

/* A thread that has gone on to its next chunk without submitting this one: a handler jumped out of the swap. */
static void test_left_chunk(void **state) {
    (void)state;
    uint32_t capacity = lane_capacity(&f);
    add_thread(0, 1);
    add_chunk(5, 0, 1, CT_CHUNK_ACTIVE);
    put_events(5, 0, capacity, 0);
    lane_start_drain(&f);
    wait_for_word(5, CT_CHUNK_ACTIVE, capacity);
    add_chunk(6, 0, 2, CT_CHUNK_FREE);
    put_events(6, 0, 3, capacity);
    set_state(6, CT_CHUNK_TAKEN, 0); /* in use, although it does not say so */
    wait_for_word(5, CT_CHUNK_FREE, 0);
    wait_for_word(6, CT_CHUNK_ACTIVE, 3);
    finish();
    expect_range(1, 0, capacity + 3);
}

/* Chunks that are being taken are nobody's: without a number, or with a header of an earlier use. */
static void test_taken_chunks(void **state) {
    (void)state;
    add_thread(0, 1);
    add_thread(1, 1);
    add_chunk(1, 0, 1, CT_CHUNK_ACTIVE);
    put_events(1, 0, 10, 0);
    add_chunk(2, 1, 0, CT_CHUNK_TAKEN); /* not cleared yet */
    put_events(2, 0, 10, 100);
    add_chunk(3, 1, 1, CT_CHUNK_TAKEN); /* not the thread's yet */
    add_chunk(4, 1, 1, CT_CHUNK_TAKEN);
    put_events(4, 0, 10, 100);
    f.lane.chunks[4].generation--; /* dropped: the header is the old one */
    lane_start_drain(&f);
    wait_for_word(1, CT_CHUNK_ACTIVE, 10);
    finish();
    assert_int_equal(f.drain.statistics.threads_seen, 1);
    expect_range(1, 0, 10);
}

/* ---- holes ---- */

static void test_hole_is_waited_for(void **state) {
    (void)state;
    uint32_t capacity = lane_capacity(&f);
    add_thread(0, 1);
    add_chunk(0, 0, 1, CT_CHUNK_FULL);
    add_chunk(1, 0, 2, CT_CHUNK_ACTIVE);
    put_events(0, 0, 5, 0);
    put_events(0, 6, capacity, 6);
    put_events(1, 0, 10, capacity);
    lane_start_drain(&f);
    wait_for_word(0, CT_CHUNK_DRAINING, 5);
    put_event(0, 5, 5, CT_EVENT_ENTRY);
    wait_for_word(0, CT_CHUNK_FREE, 0);
    wait_for_word(1, CT_CHUNK_ACTIVE, 10);
    finish();
    expect_range(1, 0, capacity + 10);
    assert_int_equal(f.drain.statistics.abandoned, 0);
}

/* Memory is short: no patience. The chunk stays out of use until its hole is filled after all. */
static void test_hole_is_given_up(void **state) {
    (void)state;
    uint32_t capacity = lane_capacity(&f);
    add_thread(0, 1);
    add_chunk(0, 0, 1, CT_CHUNK_FULL);
    add_chunk(1, 0, 2, CT_CHUNK_ACTIVE);
    put_events(0, 0, 5, 0);
    put_events(0, 7, capacity, 5);
    put_events(1, 0, 10, capacity - 2);
    f.lane.control->free_chunks = 0;
    lane_start_drain(&f);
    wait_for_word(1, CT_CHUNK_ACTIVE, 10);
    wait_for_word(0, CT_CHUNK_DRAINING, capacity);
    put_event(0, 5, 1, CT_EVENT_CALL);
    put_event(0, 6, 1, CT_EVENT_RETURN);
    wait_for_word(0, CT_CHUNK_FREE, 0);
    finish();
    expect_range(1, 0, capacity + 8);
    assert_int_equal(f.drain.statistics.abandoned, 2);
    assert_int_equal(f.drain.statistics.events, capacity + 8);
}

static void test_patience_ends(void **state) {
    (void)state;
    uint32_t capacity = lane_capacity(&f);
    add_thread(0, 1);
    add_chunk(0, 0, 1, CT_CHUNK_FULL);
    put_events(0, 0, 5, 0);
    put_events(0, 6, capacity, 5);
    lane_start_drain(&f);
    wait_for_word(0, CT_CHUNK_DRAINING, capacity);
    assert_true(f.lane.chunks[0].generation); /* not free while the thread lives */
    __atomic_store_n(&f.lane.threads[0].state, CT_THREAD_ENDED, __ATOMIC_RELEASE);
    wait_for_word(0, CT_CHUNK_FREE, 0);
    finish();
    expect_range(1, 0, capacity - 1);
    assert_int_equal(f.drain.statistics.abandoned, 1);
}

/* Slots that somebody has given up, in the middle of a chunk that is being read. */
static void test_void_events(void **state) {
    (void)state;
    uint32_t capacity = lane_capacity(&f);
    add_thread(0, 1);
    add_chunk(0, 0, 1, CT_CHUNK_FULL);
    for (uint32_t i = 0; i < capacity; i++)
        put_event(0, i, i % 3 ? i - i / 3 - 1 : 0, i % 3 ? CT_EVENT_ENTRY : CT_EVENT_VOID);
    lane_start_drain(&f);
    wait_for_word(0, CT_CHUNK_FREE, 0);
    finish();
    uint32_t voids = (capacity + 2) / 3;
    expect_range(1, 0, capacity - voids);
    assert_int_equal(f.drain.statistics.abandoned, voids);
}

/* ---- gaps ---- */

static void expect_gap(uint32_t id, size_t gap, uint64_t at, uint64_t lost, enum ct_loss_reason reason) {
    const struct ct_drain_thread *t = lane_drained_thread(&f, id);
    assert_non_null(t);
    assert_true(gap < t->gap_count);
    assert_int_equal(t->gaps[gap].at, at);
    assert_int_equal(t->gaps[gap].lost, lost);
    assert_int_equal(t->gaps[gap].reason, reason);
}

static void test_dropped_chunks(void **state) {
    (void)state;
    uint32_t capacity = lane_capacity(&f);
    add_thread(0, 1);
    add_chunk(0, 0, 3, CT_CHUNK_FULL)->depth = 7; /* 1 and 2 are gone */
    put_event(0, 0, 1, CT_EVENT_CALL);
    for (uint32_t i = 1; i < capacity; i++)
        put_event(0, i, i, CT_EVENT_ENTRY);
    add_chunk(1, 0, 4, CT_CHUNK_ACTIVE);
    put_events(1, 0, 10, 0);
    lane_start_drain(&f);
    wait_for_word(1, CT_CHUNK_ACTIVE, 10);
    /* Number 4 is submitted with more events than we had, and dropped; then there is 5. */
    put_events(1, 10, capacity, 10);
    add_chunk(2, 0, 5, CT_CHUNK_FREE)->depth = 2;
    set_state(1, CT_CHUNK_TAKEN, 0);
    f.lane.chunks[1].generation--;
    f.lane.threads[0].lost[CT_LOSS_DRAIN_LAG] = 3 * capacity - 10;
    put_event(2, 0, 5, CT_EVENT_RETURN);
    put_event(2, 1, 6, CT_EVENT_ENTRY);
    set_state(2, CT_CHUNK_ACTIVE, 0);
    wait_for_word(2, CT_CHUNK_ACTIVE, 2);
    finish();
    const struct ct_drain_thread *t = lane_drained_thread(&f, 1);
    assert_int_equal(t->gap_count, 2);
    expect_gap(1, 0, 0, 2 * capacity, CT_LOSS_DRAIN_LAG);
    expect_gap(1, 1, capacity + 10, capacity - 10, CT_LOSS_DRAIN_LAG);
    size_t n;
    struct atf_index_event *e = lane_read(&f, 1, &n);
    assert_int_equal(n, capacity + 12);
    assert_int_equal(e[0].call_depth, 7);
    assert_int_equal(e[1].call_depth, 8);
    assert_int_equal(e[capacity + 10].call_depth, 1); /* ends the innermost of the two unknown frames */
    assert_int_equal(e[capacity + 11].call_depth, 1);
    free(e);
}

static void test_exhausted(void **state) {
    (void)state;
    uint32_t capacity = lane_capacity(&f);
    add_thread(0, 1);
    f.lane.threads[0].lost[CT_LOSS_POOL_EXHAUSTED] = 30;
    add_chunk(0, 0, 1, CT_CHUNK_FULL)->exhausted = 10;
    put_events(0, 0, capacity, 0);
    add_chunk(1, 0, 2, CT_CHUNK_FULL)->exhausted = 10;
    put_events(1, 0, capacity, capacity);
    add_chunk(2, 0, 3, CT_CHUNK_ACTIVE)->exhausted = 25;
    put_events(2, 0, 4, 2 * capacity);
    lane_start_drain(&f);
    wait_for_word(2, CT_CHUNK_ACTIVE, 4);
    finish();
    expect_range(1, 0, 2 * capacity + 4);
    assert_int_equal(lane_drained_thread(&f, 1)->gap_count, 3);
    expect_gap(1, 0, 0, 10, CT_LOSS_POOL_EXHAUSTED);
    expect_gap(1, 1, 2 * capacity, 15, CT_LOSS_POOL_EXHAUSTED);
    expect_gap(1, 2, 2 * capacity + 4, 5, CT_LOSS_DRAIN_LAG); /* at the end: nothing came after it */
    assert_int_equal(f.drain.statistics.lost[CT_LOSS_POOL_EXHAUSTED], 30);
}

/* ---- depth and time ---- */

struct step {
    uint32_t hook, kind, depth;
};

static void expect_depths(const struct step *steps, uint32_t count) {
    add_thread(0, 1);
    add_chunk(0, 0, 1, CT_CHUNK_ACTIVE);
    for (uint32_t i = 0; i < count; i++)
        put_event(0, i, steps[i].hook, steps[i].kind);
    lane_start_drain(&f);
    finish();
    size_t n;
    struct atf_index_event *e = lane_read(&f, 1, &n);
    assert_int_equal(n, count);
    for (uint32_t i = 0; i < count; i++)
        if (e[i].call_depth != steps[i].depth || e[i].function_id != steps[i].hook + 1)
            fail_msg("event %u: depth %u instead of %u", i, e[i].call_depth, steps[i].depth);
    free(e);
}

#define C(hook, depth)                                                                                                 \
    { hook, CT_EVENT_CALL, depth }
#define R(hook, depth)                                                                                                 \
    { hook, CT_EVENT_RETURN, depth }
#define X(hook, depth)                                                                                                 \
    { hook, CT_EVENT_EXCEPTION, depth }
#define E(hook, depth)                                                                                                 \
    { hook, CT_EVENT_ENTRY, depth }

static void test_depths(void **state) {
    (void)state;
    static const struct step steps[] = {C(1, 0), C(2, 1), E(9, 2), C(2, 2), C(3, 3), X(3, 3),
                                        R(2, 2), R(2, 1), E(9, 1), R(1, 0), E(9, 0), C(1, 0)};
    expect_depths(steps, sizeof steps / sizeof steps[0]);
}

/* Coroutines take turns: a return ends the innermost open call of its function, wherever that is. */
static void test_returns_out_of_order(void **state) {
    (void)state;
    static const struct step steps[] = {C(1, 0), C(2, 1), C(3, 2), R(2, 1), C(4, 2), R(1, 0), R(4, 1), R(3, 0),
                                        C(5, 0), C(5, 1), C(6, 2), R(5, 1), R(5, 0), R(6, 0), C(7, 0)};
    expect_depths(steps, sizeof steps / sizeof steps[0]);
}

/* Returns of frames that were open before the recording began. */
static void test_returns_without_calls(void **state) {
    (void)state;
    static const struct step steps[] = {R(1, 0), R(2, 0), C(3, 0), R(4, 1), R(3, 0)};
    expect_depths(steps, sizeof steps / sizeof steps[0]);
}

static void test_time_never_goes_back(void **state) {
    (void)state;
    add_thread(0, 1);
    add_chunk(0, 0, 1, CT_CHUNK_ACTIVE);
    for (uint32_t i = 0; i < 100; i++) {
        put_event(0, i, i, CT_EVENT_ENTRY);
        stamp += i % 7 == 3 ? -3000000 : 1000000; /* a handler's events are between an earlier stamp and its slot */
    }
    lane_start_drain(&f);
    finish();
    size_t n;
    struct atf_index_event *e = lane_read(&f, 1, &n);
    assert_int_equal(n, 100);
    for (size_t i = 1; i < n; i++)
        assert_true(e[i].timestamp_ns >= e[i - 1].timestamp_ns);
    assert_true(e[99].timestamp_ns > e[0].timestamp_ns);
    assert_int_equal(f.drain.time_start, e[0].timestamp_ns);
    assert_int_equal(f.drain.time_end, e[99].timestamp_ns);
    free(e);
}

/* ---- threads ---- */

static void test_ended_and_reused(void **state) {
    (void)state;
    lane_start_drain(&f);
    for (uint32_t generation = 1; generation <= 5; generation++) {
        while (__atomic_load_n(&f.lane.threads[3].state, __ATOMIC_ACQUIRE) != CT_THREAD_FREE)
            usleep(200);
        add_thread(3, generation);
        add_chunk(generation, 3, 1, CT_CHUNK_ACTIVE);
        put_events(generation, 0, generation, 0);
        f.lane.threads[3].deep_calls = generation;
        __atomic_store_n(&f.lane.threads[3].state, CT_THREAD_ENDED, __ATOMIC_RELEASE);
        wait_for_word(generation, CT_CHUNK_FREE, 0);
    }
    finish();
    assert_int_equal(f.drain.statistics.threads_seen, 5);
    assert_int_equal(f.drain.statistics.threads_alive, 0);
    assert_int_equal(f.drain.statistics.deep_calls, 15);
    assert_int_equal(f.drain.statistics.abandoned, 0);
    for (uint32_t id = 1; id <= 5; id++) {
        expect_range(id, 0, id);
        assert_string_equal(lane_drained_thread(&f, id)->name, "made");
    }
}

/* With memory short, the unused rest of an ended thread's chunk is no hole. */
static void test_ended_when_memory_is_short(void **state) {
    (void)state;
    add_thread(0, 1);
    add_chunk(0, 0, 1, CT_CHUNK_ACTIVE);
    put_events(0, 0, 20, 0);
    f.lane.control->free_chunks = 0;
    f.lane.threads[0].state = CT_THREAD_ENDED;
    lane_start_drain(&f);
    wait_for_word(0, CT_CHUNK_FREE, 0);
    finish();
    expect_range(1, 0, 20);
    assert_int_equal(f.drain.statistics.abandoned, 0);
}

static void test_thousands_of_threads(void **state) {
    (void)state;
    lane_end(&f);
    lane_start(&f, MANY_CHUNKS, false, 0);
    uint32_t count = 3000;
    for (uint32_t i = 0; i < count; i++) {
        add_thread(i, 1);
        add_chunk(i, i, 1, CT_CHUNK_ACTIVE);
        put_events(i, 0, 3, i);
    }
    lane_start_drain(&f);
    wait_for_word(count - 1, CT_CHUNK_ACTIVE, 3);
    for (uint32_t i = 0; i < count; i += 2)
        __atomic_store_n(&f.lane.threads[i].state, CT_THREAD_ENDED, __ATOMIC_RELEASE);
    for (uint32_t i = 1; i < count; i += 2)
        put_events(i, 3, 6, i + 3);
    wait_for_word(count - 1, CT_CHUNK_ACTIVE, 6);
    finish();
    assert_int_equal(f.drain.statistics.threads_seen, count);
    assert_int_equal(f.drain.statistics.events, count / 2 * 9);
    for (uint32_t id = 1; id <= count; id += 97) {
        uint32_t slot = lane_drained_thread(&f, id)->slot;
        expect_range(id, slot, slot & 1 ? 6 : 3);
    }
}

/* ---- what the target says of itself ---- */

/* However deep it says that a thread is, what was lost is one step, and no memory. */
static void test_depth_is_only_a_number(void **state) {
    (void)state;
    static const uint32_t depths[] = {7, 0xffffffffu, 0x00ffffffu};
    static const uint32_t expected[] = {7, 0, 0};
    uint32_t capacity = lane_capacity(&f);
    add_thread(0, 1);
    for (uint32_t i = 0; i < 3; i++) {
        add_chunk(i, 0, 10 * (i + 1), CT_CHUNK_FULL)->depth = depths[i];
        put_events(i, 0, capacity, 0);
    }
    lane_start_drain(&f);
    wait_for_word(2, CT_CHUNK_FREE, 0);
    finish();
    size_t n;
    struct atf_index_event *e = lane_read(&f, 1, &n);
    assert_int_equal(n, 3 * capacity);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(e[i * capacity].call_depth, expected[i]);
    free(e);
}

/* Returns whose calls are not there end unknown calls first, from the innermost outward. */
static void test_unknown_calls(void **state) {
    (void)state;
    add_thread(0, 1);
    add_chunk(0, 0, 3, CT_CHUNK_ACTIVE)->depth = 2;
    put_event(0, 0, 5, CT_EVENT_CALL);
    put_event(0, 1, 6, CT_EVENT_RETURN);
    put_event(0, 2, 5, CT_EVENT_RETURN);
    put_event(0, 3, 7, CT_EVENT_RETURN);
    put_event(0, 4, 8, CT_EVENT_RETURN);
    lane_start_drain(&f);
    wait_for_word(0, CT_CHUNK_ACTIVE, 5);
    finish();
    static const uint32_t depths[] = {2, 1, 1, 0, 0};
    size_t n;
    struct atf_index_event *e = lane_read(&f, 1, &n);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(e[i].call_depth, depths[i]);
    free(e);
}

static uint64_t threads_made(void) {
    unsigned long long made = 0;
    char line[4096];
    FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "processes %llu", &made);
    if (file)
        fclose(file);
    return made;
}

/* A new generation in every chunk is a new thread each time: there are no more than the kernel has made. */
static void test_threads_that_never_were(void **state) {
    (void)state;
    lane_end(&f);
    lane_start(&f, MANY_CHUNKS, false, 0);
    uint64_t before = threads_made();
    lane_prepare_drain(&f);
    f.drain.spare_threads = 20;
    for (uint32_t i = 0; i < 4000; i++) {
        add_thread(i % 100, i + 1);
        add_chunk(i, i % 100, 1, CT_CHUNK_FULL);
        put_events(i, 0, lane_capacity(&f), 0);
    }
    assert_int_equal(ct_drain_start(&f.drain), 0);
    for (uint64_t start = ct_clock_now(); ct_clock_now() - start < 200000000;)
        usleep(10000);
    finish();
    assert_true(f.drain.statistics.threads_seen >= 20);
    assert_true(f.drain.statistics.threads_seen <= 20 + 16 + (threads_made() - before));
    assert_true(lane_chunks_in(&f, CT_CHUNK_DRAINING) <= 100); /* what nobody takes can be dropped; 100 slots */
}

/* A target that submits its chunk again and again does not keep the drain from ending. */
static volatile int go_on;

static void *submit_for_ever(void *arg) {
    uint32_t capacity = lane_capacity(&f), number = 1;
    for (; go_on; number += 2) {
        add_chunk(0, 0, number, CT_CHUNK_FULL);
        put_events(0, 0, capacity, 0);
        for (int i = 0; i < 1000 && go_on && CT_CHUNK_STATE(ct_lane_word(&f.lane, 0)) == CT_CHUNK_FULL; i++)
            usleep(10);
    }
    return arg;
}

static void test_goes_on_at_the_end(void **state) {
    (void)state;
    pthread_t thread;
    add_thread(0, 1);
    go_on = 1;
    lane_start_drain(&f);
    assert_int_equal(pthread_create(&thread, NULL, submit_for_ever, NULL), 0);
    usleep(20000);
    finish();
    go_on = 0;
    pthread_join(thread, NULL);
}

/* Most chunks are held by threads that write nothing: the drain does not run in circles. */
static void test_idle_while_memory_is_short(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        add_thread(i, 1);
        add_chunk(i, i, 1, CT_CHUNK_ACTIVE);
        put_events(i, 0, 3, 0);
    }
    lane_start_drain(&f);
    wait_for_word(59, CT_CHUNK_ACTIVE, 3);
    uint64_t begin = ct_clock_now(), passes = 0, last = 0;
    while (ct_clock_now() - begin < 100000000) {
        uint64_t now = __atomic_load_n(&f.lane.control->drain_stamp, __ATOMIC_RELAXED);
        passes += now != last;
        last = now;
    }
    uint64_t ms = (ct_clock_now() - begin) / 1000000;
    finish();
    assert_true(passes <= ms + 20); /* one each millisecond at most */
}

/* ---- trouble ---- */

static void test_disk_is_full(void **state) {
    (void)state;
    uint32_t capacity = lane_capacity(&f);
    struct rlimit old, small = {64 << 10, RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    add_thread(0, 1);
    for (uint32_t i = 0; i < 60; i++) {
        add_chunk(i, 0, i + 1, CT_CHUNK_FULL);
        put_events(i, 0, capacity, i * capacity);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    lane_start_drain(&f);
    while (__atomic_load_n(&f.lane.control->recording, __ATOMIC_RELAXED))
        usleep(1000);
    int status = lane_finish_drain(&f);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, CT_ERR_FILE_LIMIT);
    const struct ct_session_statistics *s = &f.drain.statistics;
    assert_true(s->events > 0 && s->events < 60 * capacity);
    assert_int_equal(s->events + s->lost[CT_LOSS_DISK_SLOW], 60 * capacity);
    expect_range(1, 0, (uint32_t)s->events);
}

static void test_directory_is_gone(void **state) {
    (void)state;
    add_thread(0, 1);
    add_chunk(0, 0, 1, CT_CHUNK_ACTIVE);
    put_events(0, 0, 3, 0);
    lane_prepare_drain(&f);
    assert_int_equal(rmdir(f.directory), 0);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    while (__atomic_load_n(&f.lane.control->recording, __ATOMIC_RELAXED))
        usleep(1000);
    assert_true(lane_finish_drain(&f) < 0);
}

/* The target's memory is the target's: whatever it writes over ours, we survive. */
static void test_garbage(void **state) {
    (void)state;
    uint64_t random = 88172645463325252ull;
    uint64_t *from = (uint64_t *)f.lane.control + 2, *threads = (uint64_t *)f.lane.threads,
             *chunks = (uint64_t *)f.lane.chunks;
    size_t thread_words = 512 * sizeof(struct ct_shm_thread) / 8;
    size_t chunk_words = f.lane.chunk_count * sizeof(struct ct_shm_chunk) / 8;
    lane_start_drain(&f);
    for (unsigned i = 0; i < 200000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t value = random & 8 ? random : random & 0x00000003000f0107;
        if (i % 3 == 0)
            chunks[random / 16 % chunk_words] = value;
        else if (i % 3 == 1)
            threads[random / 16 % thread_words] = value & 0xffffff03;
        else if (random / 16 % 30 != 14) /* the mutex is the C library's */
            from[random / 16 % 14] = value;
        if (i % 1000 == 0)
            usleep(100);
    }
    (void)lane_finish_drain(&f);
}

/* ---- what is on disk ---- */

static uint64_t events_on_disk(uint32_t id) {
    char path[160];
    struct stat status;
    snprintf(path, sizeof path, "%s/thread_%u/index.atf", f.directory, id);
    if (stat(path, &status))
        return 0;
    return ((uint64_t)status.st_size - sizeof(struct atf_index_header)) / sizeof(struct atf_index_event);
}

/* The time up to which everything is written is reported when that holds for all threads. */
static void test_written_until(void **state) {
    (void)state;
    enum { THREADS = 40, ROUNDS = 12 };
    for (uint32_t i = 0; i < THREADS; i++) {
        add_thread(i, 1);
        add_chunk(i, i, 1, CT_CHUNK_ACTIVE);
    }
    lane_start_drain(&f);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < THREADS; i++)
            put_events(i, 10 * round, 10 * round + 10, 10 * round);
        uint64_t now = ct_clock_now();
        while (__atomic_load_n(&f.drain.written_ns, __ATOMIC_ACQUIRE) <= now)
            (void)usleep(50);
        for (uint32_t id = 1; id <= THREADS; id++)
            assert_int_equal(events_on_disk(id), 10 * round + 10);
    }
    finish();
    assert_int_equal(f.drain.written_ns, 0);
    assert_int_equal(f.drain.statistics.written_until_ns, 0);
}

/* ---- latency ---- */

/* Eight buckets for each doubling: what is reported is at most an eighth less than the truth. */
static void test_latency(void **state) {
    (void)state;
    lane_prepare_drain(&f);
    struct ct_drain *d = &f.drain;
    assert_int_equal(ct_drain_latency(d, 0.5), 0);
    static const struct {
        uint64_t ns;
        uint32_t weight;
    } cases[] = {{1000000, 60}, {2000000, 39}, {10000000, 1}};
    struct ct_clock clock = {.rate = 1, .count = 2, .newest = {.ns = 1ull << 40, .counter = 1ull << 62}};
    d->clock = &clock;
    for (unsigned i = 0; i < 3; i++) {
        d->own.sample[i].counter = clock.newest.counter - cases[i].ns;
        d->own.sample[i].weight = cases[i].weight;
    }
    d->own.sample_count = 3;
    ct_drain_measure(d, &d->own, clock.newest.ns);
    assert_int_equal(d->own.sample_count, 0);
    assert_int_equal(d->latency_samples, 100);
    uint64_t p50 = ct_drain_latency(d, 0.5), p90 = ct_drain_latency(d, 0.9), p99 = ct_drain_latency(d, 0.99);
    assert_true(p50 <= cases[0].ns && p50 >= cases[0].ns / 8 * 7);
    assert_true(p90 <= cases[1].ns && p90 >= cases[1].ns / 8 * 7);
    assert_true(p99 <= cases[2].ns && p99 >= cases[2].ns / 8 * 7);
    assert_int_equal(d->latency_max, cases[2].ns);
}

/* A thread that is missing has ended before the others if its process lives on. */
static void test_missing_thread(void **state) {
    (void)state;
    int dead = fork();
    if (!dead)
        _exit(0);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)dead, &ended, WEXITED | WNOWAIT), 0); /* a zombie */
    const int pids[] = {getpid(), dead};
    for (int i = 0; i < 2; i++) {
        struct ct_drain_thread thread = {.tid = 4000000, .writer = (struct ct_thread_writer *)&thread};
        struct ct_drain drain = {.pid = pids[i], .threads = &thread};
        ct_drain_refresh_names(&drain);
        assert_false(thread.gone);
        ct_drain_refresh_names(&drain);
        assert_int_equal(thread.gone, pids[i] != dead);
    }
    assert_int_equal(waitpid(dead, NULL, 0), dead);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, clean)
    const struct CMUnitTest tests[] = {
        TEST(test_order_of_numbers),
        TEST(test_signal_in_cut_passes),
        TEST(test_signal_during_a_pass),
        TEST(test_left_chunk),
        TEST(test_taken_chunks),
        TEST(test_hole_is_waited_for),
        TEST(test_hole_is_given_up),
        TEST(test_patience_ends),
        TEST(test_void_events),
        TEST(test_dropped_chunks),
        TEST(test_exhausted),
        TEST(test_depths),
        TEST(test_returns_out_of_order),
        TEST(test_returns_without_calls),
        TEST(test_time_never_goes_back),
        TEST(test_ended_and_reused),
        TEST(test_ended_when_memory_is_short),
        TEST(test_thousands_of_threads),
        TEST(test_depth_is_only_a_number),
        TEST(test_unknown_calls),
        TEST(test_threads_that_never_were),
        TEST(test_goes_on_at_the_end),
        TEST(test_idle_while_memory_is_short),
        TEST(test_disk_is_full),
        TEST(test_directory_is_gone),
        TEST(test_garbage),
        TEST(test_written_until),
        TEST(test_latency),
        cmocka_unit_test(test_missing_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
