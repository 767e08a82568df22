/* SPDX-License-Identifier: Apache-2.0 */
/* The detail lane, both sides in one process: records as stubs write them, with contents that give their number, so
 * that order, losses, doubles and records that were never made show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/agent_detail.h"
#include "abi/event.h"
#include "hook/frame.h"
#include "hook/layout.h"
#include "lane_util.h"
#include "os/os.h"
#include "os/thread.h"
#include "random_util.h"

#define INDEX    (8u << 20)
#define SMALLEST (1u << 20) /* 34 segments of two chunks */
#define SEGMENTS 34u
#define HOOKS    64u

static struct lane_fixture f;
static struct ct_windows windows;

static void start(const struct ct_lane_options *options, int detail) {
    struct ct_lane_options o = *options;
    o.index_memory = o.index_memory ? o.index_memory : INDEX;
    o.detail_memory = o.detail_memory ? o.detail_memory : SMALLEST;
    o.hook_room = HOOKS;
    lane_start_with(&f, &o, 0);
    ct_windows_init(&windows, &(struct ct_windows_options){.detail = detail,
                                                           .rolls = {.pre_ns = 60000000000, .post_ns = 1000000000}});
    lane_prepare_drain(&f);
    f.drain.windows = &windows;
    ct_windows_start(&windows, f.clock.first.ns);
    f.lane.control->persisting = detail == CT_SESSION_DETAIL_ALWAYS;
}

static int clean(void **state) {
    (void)state;
    (void)ct_os_set_block(NULL);
    if (f.lane.control) {
        lane_end(&f);
        ct_windows_free(&windows);
    }
    return 0;
}

static bool ask(void) {
    const struct ct_windows_ask a = {.ns = ct_clock_now(), .rolls = windows.options.rolls};
    return ct_windows_ask(&windows, &a);
}

/* ---- as stubs do it ---- */

static uint64_t content(uint64_t stamp, uint32_t tag) {
    return (stamp ^ tag) * 0x9e3779b97f4a7c15ull;
}

static void publish(struct ct_block *b, struct ct_shm_detail *r, const struct ct_detail_note *note) {
    uint64_t tag = (uint64_t)note->hook << 32 | note->tag;
    r->stamp = note->stamp;
    r->tag = note->tag;
    r->hook = note->hook;
    r->check = note->stamp * (uint64_t)(int64_t)CT_DETAIL_MIX ^ tag ^ b->detail_key;
}

static void fill(struct ct_block *b, uint64_t at, const struct ct_detail_note *note) {
    struct ct_shm_detail *r = (struct ct_shm_detail *)at;
    bool returned = (note->tag & CT_TAG_KIND) == CT_EVENT_RETURN;
    uint64_t *words = returned ? r->ret.registers : r->call.registers;
    size_t count = ((returned ? b->return_size : b->call_size) - CT_DETAIL_REGISTERS) / 8;
    for (size_t i = 0; i < count; i++)
        words[i] = content(note->stamp, note->tag) + i;
    if (!returned)
        r->call.stack_size = b->stack_bytes;
    publish(b, r, note);
}

static void record(struct ct_block *b, uint32_t hook, uint32_t kind) {
    struct ct_detail_note note = {.entered = 1};
    ct_event_note(b, hook, kind, &note);
    if (b->rules[hook])
        ct_agent_detail_mark(&note, 0, 0, NULL);
    uint64_t at =
        note.tag >= CT_TAG_STEP ? ct_agent_detail_reserve(kind == CT_EVENT_RETURN ? b->return_size : b->call_size) : 0;
    if (at)
        fill(b, at, &note);
}

static struct ct_block *begin(void) {
    struct ct_block *b = lane_thread(&f);
    assert_int_equal(ct_block_install(b), 0);
    return b;
}

static void record_pairs(struct ct_block *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        record(b, i % HOOKS, CT_EVENT_CALL);
        record(b, i % HOOKS, CT_EVENT_RETURN);
    }
}

/* ---- what was written ---- */

static void check_record(const struct atf_detail_call *r, uint32_t *last) {
    bool returned = r->event.event_type == ATF_DETAIL_RETURN;
    size_t words = returned ? 2 : 8;
    for (size_t i = 1; i < words; i++)
        assert_true(r->registers[i] == r->registers[0] + i);
    assert_true(r->frame_pointer == r->registers[0] + (returned ? 3 : 8));
    /* a return address from a register is captured before the stack, and is no part of it */
    assert_true(r->stack_pointer == r->registers[0] + (returned ? 4 : 9) + 8 * CT_FRAME_HAS_LINK);
    for (size_t i = 0; i < r->stack_size / 8u; i++) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)(r + 1) + 8 * i, 8);
        assert_true(word == r->registers[0] + 11 + CT_FRAME_HAS_LINK + i);
    }
    assert_true(r->event.index_seq > *last || *last == UINT32_MAX);
    *last = r->event.index_seq;
}

/* Is it the record of its event? (What is in it may have been overwritten.) */
static void check_link(const struct atf_detail_call *r, uint32_t id) {
    size_t count;
    struct atf_index_event *events = lane_read(&f, id, &count);
    assert_non_null(events);
    assert_true(r->event.index_seq < count);
    const struct atf_index_event *e = &events[r->event.index_seq];
    assert_true(e->function_id == r->function_id && e->event_kind + 2 == r->event.event_type);
    assert_true(e->timestamp_ns == r->event.timestamp && e->detail_seq != ATF_NO_DETAIL);
    free(events);
}

/* All records of a thread are ones that were made, in order; returns how many. */
static size_t check_file(uint32_t id, bool whole) {
    char path[128];
    static uint8_t bytes[64 << 20];
    snprintf(path, sizeof path, "%s/thread_%u/detail.atf", f.directory, id);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t size = fread(bytes, 1, sizeof bytes, file), count = 0, at = 64;
    fclose(file);
    uint32_t last = UINT32_MAX;
    for (; at + 64 < size; count++) {
        const struct atf_detail_call *r = (const struct atf_detail_call *)(bytes + at);
        if (whole)
            check_record(r, &last);
        else
            check_link(r, id);
        at += r->event.total_length;
    }
    return count;
}

static uint64_t lost_of(uint32_t id) {
    struct ct_drain_thread *t = lane_drained_thread(&f, id);
    return t ? t->detail.lost : 0;
}

/* ---- tests ---- */

/* With a drain that works meanwhile, and threads that wait for it. */
static void test_lossless(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.lossless = true, .stack_bytes = 128}, CT_SESSION_DETAIL_ALWAYS);
    assert_int_equal(f.lane.segment_count, SEGMENTS);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    record_pairs(begin(), 20000);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(check_file(1, true), 40000);
    assert_int_equal(lost_of(1), 0);
    assert_int_equal(f.drain.detail ? f.drain.detail->rejected : 0, 0);
}

/* Nobody frees a segment: the oldest goes, and each is counted. */
static void test_oldest_are_dropped(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.stack_bytes = 128}, CT_SESSION_DETAIL_ALWAYS);
    record_pairs(begin(), 20000);
    assert_int_equal(f.lane.control->free_segments, SEGMENTS / 8); /* for threads that have none yet */
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(lane_finish_drain(&f), 0);
    size_t written = check_file(1, true);
    assert_true(written > 100);
    assert_int_equal(written + lost_of(1), 40000);
}

/* Some have no place at all. */
static void test_more_threads_than_segments(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.stack_bytes = 8}, CT_SESSION_DETAIL_ALWAYS);
    for (int i = 0; i < 60; i++)
        record_pairs(begin(), 5);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(lane_finish_drain(&f), 0);
    size_t with = 0;
    for (uint32_t id = 1; id <= 60; id++) {
        size_t written = check_file(id, true);
        assert_int_equal(written + lost_of(id), 10);
        with += written == 10;
    }
    assert_int_equal(with, SEGMENTS);
}

static void *work(void *arg) {
    (void)arg;
    record_pairs(begin(), 2000);
    return NULL;
}

/* In lossless mode, with threads that run at the same time and need more segments than there are. */
static void test_threads_wait_for_each_other(void **state) {
    (void)state;
    enum { THREADS = 30 };
    pthread_t threads[THREADS];
    start(&(struct ct_lane_options){.lossless = true, .stack_bytes = 512, .vectors = true}, CT_SESSION_DETAIL_ALWAYS);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(lane_finish_drain(&f), 0);
    for (uint32_t id = 1; id <= THREADS; id++) {
        assert_int_equal(check_file(id, true), 4000);
        assert_int_equal(lost_of(id), 0);
    }
}

/* The number of an event has 28 bits. One in 2^28 is 0 by chance, and has no record. */
static void test_numbers_begin_anew(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.stack_bytes = 8, .lossless = true}, CT_SESSION_DETAIL_ALWAYS);
    struct ct_block *b = begin();
    assert_int_equal(ct_drain_start(&f.drain), 0);
    b->ordinal = (uint32_t)-100 * CT_TAG_STEP;
    f.drain.windows = &windows;
    record_pairs(b, 1000);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(check_file(1, true), 1999);
}

/* Calls and returns over the limit have no record, and are counted; a return goes with its call. */
static void test_limit(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.stack_bytes = 8, .detail_rate = 5}, CT_SESSION_DETAIL_ALWAYS);
    struct ct_block *b = begin();
    ct_lane_refill_budgets(&f.lane, HOOKS);
    for (int i = 0; i < 20; i++)
        record(b, i % 2, CT_EVENT_CALL);
    assert_int_equal(f.lane.threads[b->lane_slot].limited, 10);
    ct_lane_refill_budgets(&f.lane, HOOKS);
    for (int i = 0; i < 7; i++)
        record(b, 0, CT_EVENT_ENTRY);
    assert_int_equal(f.lane.threads[b->lane_slot].limited, 12);
    struct ct_detail_note note = {.entered = 2};
    ct_event_note(b, 0, CT_EVENT_RETURN, &note);
    assert_true(note.tag < CT_TAG_STEP);
    assert_int_equal(f.lane.threads[b->lane_slot].limited, 13);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(check_file(1, true), 15);
    assert_int_equal(lost_of(1), 0);
}

/* A stub that was interrupted writes late: it, and what it may have damaged, is not taken; what lies beside it is. */
static void test_overlaps(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.stack_bytes = 128}, CT_SESSION_DETAIL_ALWAYS);
    struct ct_block *b = begin();
    for (int i = 0; i < 20; i++)
        record(b, 0, CT_EVENT_CALL);
    uint64_t first = (b->detail_cursor - 1) / CT_SHM_DETAIL_CHUNK * CT_SHM_DETAIL_CHUNK, size = b->call_size;
    struct ct_detail_note note = {.stamp = 77, .tag = 5 * CT_TAG_STEP | CT_EVENT_CALL, .hook = 1};
    publish(b, (struct ct_shm_detail *)(first + 5 * size + 24), &note); /* over 5 and 6 */
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(check_file(1, true), 18);
    assert_int_equal(lost_of(1), 2);
}

/* Another thread's record in a segment, whatever its number: not taken. */
static void test_other_threads_record(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.stack_bytes = 128}, CT_SESSION_DETAIL_ALWAYS);
    struct ct_block *other = begin(), *b = begin();
    record_pairs(b, 3);
    struct ct_detail_note note = {.stamp = ct_os_timestamp(), .tag = 2 * CT_TAG_STEP | CT_EVENT_CALL, .hook = 1};
    fill(other, b->detail_cursor, &note);
    assert_int_equal(ct_block_install(other), 0);
    record_pairs(other, 1);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(check_file(1, true) + check_file(2, true), 8);
}

/* Every mark of a storm is counted under its trigger. */
static void test_storm(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.stack_bytes = 8}, CT_SESSION_DETAIL_MARKED);
    struct ct_block *b = begin();
    f.lane.rules[1] = 1;
    f.lane.rules[2] = 2;
    f.lane.control->triggers[0] = (struct ct_shm_trigger){.kind = CT_SHM_ON_CALL, .id = 0};
    f.lane.control->triggers[1] = (struct ct_shm_trigger){.kind = CT_SHM_ON_CALL, .id = 1};
    record(b, 2, CT_EVENT_CALL);
    for (int i = 0; i < 1000; i++)
        record(b, 1, CT_EVENT_CALL);
    record(b, 2, CT_EVENT_CALL);
    assert_int_equal(f.lane.control->persisting, 1);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(windows.marks, 1002);
    assert_int_equal(windows.opened, 1);
    assert_int_equal(f.drain.detail ? f.drain.detail->marks_omitted : 0, 0);
    assert_int_equal(check_file(1, true) + lost_of(1), 1002);
}

/* What is taken of a thread that wraps round in its segment, and may go on, has no hole: older records than those that
 * are left to it are too old. */
static void test_going_round(void **state) {
    for (size_t pairs = 200; pairs < 228; pairs += 4) { /* wherever in a chunk it is */
        start(&(struct ct_lane_options){.stack_bytes = 128}, CT_SESSION_DETAIL_MARKED);
        windows.options.rolls.pre_ns = 600000000000ull;
        record_pairs(begin(), pairs);
        assert_int_equal(ct_drain_start(&f.drain), 0);
        assert_true(ask());
        for (uint64_t taken = 0; !taken; usleep(1000)) {
            pthread_mutex_lock(&f.drain.mutex);
            taken = f.drain.statistics.detail_events;
            pthread_mutex_unlock(&f.drain.mutex);
        }
        assert_int_equal(lane_finish_drain(&f), 0);
        assert_true(check_file(1, true) > 20);
        assert_int_equal(lost_of(1), 0);
        (void)clean(state);
    }
}

/* A thread that is held up in the middle of a mark makes it all the same. */
static void test_slow_mark(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.stack_bytes = 8}, CT_SESSION_DETAIL_MARKED);
    struct ct_block *b = begin();
    record(b, 1, CT_EVENT_CALL);
    uint64_t place = f.lane.control->mark_next++;
    assert_int_equal(ct_drain_start(&f.drain), 0);
    const struct ct_detail *d = f.drain.detail;
    while (__atomic_load_n(&d->mark_waits, __ATOMIC_RELAXED) < 25 && !__atomic_load_n(&d->marks_seen, __ATOMIC_RELAXED))
        usleep(1000);
    struct ct_shm_mark *m = &f.lane.marks[place % CT_SHM_MARKS];
    *m = (struct ct_shm_mark){.stamp = ct_os_timestamp(), .thread = b->lane_slot, .hook = 1};
    __atomic_store_n(&m->serial, place + 1, __ATOMIC_RELEASE);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(windows.marks, 1);
    assert_int_equal(f.drain.detail ? f.drain.detail->marks_omitted : 0, 0);
}

/* What happened before a mark may have happened in a thread that has ended since. */
static void test_ended_thread(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.stack_bytes = 8}, CT_SESSION_DETAIL_MARKED);
    struct ct_block *b = begin();
    record_pairs(b, 10);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    lane_thread_ends(b);
    usleep(50000);
    assert_true(ask());
    usleep(50000);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(check_file(1, true), 20);
}

/* A thread that could not be recorded: its stubs find nothing to do. */
static void test_no_slot(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.stack_bytes = 8}, CT_SESSION_DETAIL_ALWAYS);
    f.lane.control->recording = 0;
    struct ct_block *b = begin();
    assert_null(b->rules);
    struct ct_detail_note note = {0};
    ct_event_note(b, 0, CT_EVENT_CALL, &note);
    assert_true(note.tag < CT_TAG_STEP);
}

static uint64_t seed = RANDOM_SEED;
static uint64_t random64(void) {
    return random_next(&seed);
}

/* The target writes all over what it shares with us. */
static void spoil(unsigned round) {
    uint8_t *pool = f.lane.detail_pool;
    size_t size = 2ull * CT_SHM_DETAIL_CHUNK * f.lane.detail_chunk_count;
    for (int i = 0; i < 2000; i++)
        *(uint64_t *)(pool + random64() % (size / 8) * 8) = round % 3 ? random64() : random64() % 5;
    for (uint32_t i = 0; i < f.lane.segment_count; i++) {
        uint32_t *words = (uint32_t *)&f.lane.segments[i];
        if (round & 1)
            words[random64() % 16] = (uint32_t)(random64() >> random64() % 64);
    }
    if (round & 2)
        f.lane.control->mark_next = random64() % 200;
    if (round & 4)
        memset(f.lane.more_marks, (int)random64() & 1, CT_TRIGGER_BITS * sizeof *f.lane.more_marks);
    for (uint32_t i = 0; i < CT_SHM_MARKS; i++)
        f.lane.marks[i].thread = (uint32_t)random64();
}

static void test_spoiled_memory(void **state) {
    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        start(&(struct ct_lane_options){.stack_bytes = 64, .vectors = round & 1},
              round & 8 ? CT_SESSION_DETAIL_MARKED : CT_SESSION_DETAIL_ALWAYS);
        struct ct_block *a = begin();
        record_pairs(a, 400);
        struct ct_block *b = begin();
        record_pairs(b, 30);
        (void)ask();
        spoil(round);
        assert_int_equal(ct_drain_start(&f.drain), 0);
        spoil(round + 1);
        assert_int_equal(lane_finish_drain(&f), 0);
        for (uint32_t id = 1; id <= 2; id++)
            (void)check_file(id, false);
        clean(NULL);
    }
}

/* ---- overload ---- */

enum { PRODUCERS = 4, PAIRS = 150000 };

static uint32_t half_way; /* producers that have written more than there is room for, and have as much to write again */

/* Has the drain slept for long enough at first, it need not do so often: the threads may be slow, too. */
static void slow_pass(void *arg, uint64_t now_ns) {
    (void)arg;
    (void)now_ns;
    while (__atomic_load_n(&half_way, __ATOMIC_ACQUIRE) < PRODUCERS)
        usleep(1000);
    usleep(30000);
}

/* How often it had to wait for anything. */
static void *produce(void *arg) {
    struct rusage before, after;
    struct ct_block *b = begin();
    getrusage(RUSAGE_THREAD, &before);
    record_pairs(b, PAIRS / HOOKS / 2 * HOOKS);
    __atomic_fetch_add(&half_way, 1, __ATOMIC_RELEASE);
    record_pairs(b, PAIRS - PAIRS / HOOKS / 2 * HOOKS);
    getrusage(RUSAGE_THREAD, &after);
    *(long *)arg = after.ru_nvcsw - before.ru_nvcsw;
    return NULL;
}

static void run_producers(long waits[PRODUCERS]) {
    pthread_t threads[PRODUCERS];
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &waits[i]), 0);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
}

/* Producers at full speed and a drain that sleeps in each pass: nobody waits, the newest are there, and of each lane
 * and thread what was written and what was dropped is what happened. */
static void test_overload(void **state) {
    (void)state;
    long waits[PRODUCERS];
    start(&(struct ct_lane_options){.index_memory = 1 << 20, .stack_bytes = 128}, CT_SESSION_DETAIL_ALWAYS);
    f.drain.on_pass = slow_pass;
    half_way = 0;
    assert_int_equal(ct_drain_start(&f.drain), 0);
    run_producers(waits);
    assert_int_equal(lane_finish_drain(&f), 0);
    for (uint32_t id = 1; id <= PRODUCERS; id++) {
        struct ct_drain_thread *t = lane_drained_thread(&f, id);
        uint64_t lost = t->lost[CT_LOSS_POOL_EXHAUSTED] + t->lost[CT_LOSS_DRAIN_LAG] + t->lost[CT_LOSS_DISK_SLOW];
        size_t count, written = check_file(id, true);
        struct atf_index_event *events = lane_read(&f, id, &count);
        assert_int_equal(count + lost, 2 * PAIRS);
        assert_int_equal(written + lost_of(id) + t->lost[CT_LOSS_POOL_EXHAUSTED], 2 * PAIRS);
        assert_true(lost > 0 && lost_of(id) > 0);
        assert_int_equal(events[count - 1].function_id, (PAIRS - 1) % HOOKS + 1); /* the newest */
        assert_true(events[count - 1].detail_seq != ATF_NO_DETAIL);
        assert_in_range(waits[id - 1], 0, 100);
        free(events);
    }
}

/* Marks without a pause: the index loses nothing with them that it does not lose without them. */
static void test_storm_and_index(void **state) {
    (void)state;
    start(&(struct ct_lane_options){.index_memory = 64 << 20, .stack_bytes = 128}, CT_SESSION_DETAIL_MARKED);
    for (uint32_t i = 0; i < HOOKS; i += 2)
        f.lane.rules[i] = 1;
    f.lane.control->triggers[0] = (struct ct_shm_trigger){.kind = CT_SHM_ON_CALL};
    long waits[PRODUCERS];
    assert_int_equal(ct_drain_start(&f.drain), 0);
    run_producers(waits);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(lane_lost(&f), 0);
    assert_int_equal(windows.marks,
                     (uint64_t)PRODUCERS * ((PAIRS + HOOKS - 1) / HOOKS * (HOOKS / 2) - (HOOKS - PAIRS % HOOKS) / 2));
    assert_int_equal(windows.opened, 1);
    for (uint32_t id = 1; id <= PRODUCERS; id++)
        assert_int_equal(lane_drained_thread(&f, id)->events, 2 * PAIRS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_lossless, clean),
        cmocka_unit_test_teardown(test_oldest_are_dropped, clean),
        cmocka_unit_test_teardown(test_more_threads_than_segments, clean),
        cmocka_unit_test_teardown(test_threads_wait_for_each_other, clean),
        cmocka_unit_test_teardown(test_numbers_begin_anew, clean),
        cmocka_unit_test_teardown(test_limit, clean),
        cmocka_unit_test_teardown(test_overlaps, clean),
        cmocka_unit_test_teardown(test_other_threads_record, clean),
        cmocka_unit_test_teardown(test_storm, clean),
        cmocka_unit_test_teardown(test_going_round, clean),
        cmocka_unit_test_teardown(test_slow_mark, clean),
        cmocka_unit_test_teardown(test_ended_thread, clean),
        cmocka_unit_test_teardown(test_no_slot, clean),
        cmocka_unit_test_teardown(test_spoiled_memory, clean),
        cmocka_unit_test_teardown(test_overload, clean),
        cmocka_unit_test_teardown(test_storm_and_index, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
