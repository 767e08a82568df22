/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads that take events (drain/drain_crew.c): each file has what one thread would have written, signals are
 * in their places, and more of them get more done. */
#include "lane_util.h"
#include "os/thread.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

enum { THREADS = 8, HANDS = 4, CHUNKS = 12, DELAY = 2000 };

static struct lane_fixture f;

static int clean(void **state) {
    (void)state;
    ct_drain_delay_us = 0;
    if (f.lane.control)
        lane_end(&f);
    return 0;
}

static void write_numbered(struct ct_block *b, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        ct_event_write(b, i, CT_EVENT_ENTRY);
}

/* Each thread's chunks are full, and in turn. */
static uint32_t fill_lane(void) {
    struct ct_block *blocks[THREADS];
    lane_start(&f, 32u << 20, false, 0);
    lane_prepare_drain(&f);
    uint32_t capacity = lane_capacity(&f);
    for (int t = 0; t < THREADS; t++)
        blocks[t] = lane_thread(&f);
    for (uint32_t i = 0; i < CHUNKS; i++)
        for (int t = 0; t < THREADS; t++)
            write_numbered(blocks[t], i * capacity, (i + 1) * capacity);
    return CHUNKS * capacity;
}

/* Events 0 to `count` of each thread are there, in order. Signals among them are counted. */
static size_t check_files(uint32_t count) {
    size_t signals = 0;
    for (uint32_t id = 1; id <= THREADS; id++) {
        size_t found;
        struct atf_index_event *e = lane_read(&f, id, &found);
        uint64_t next = 0, last_ns = 0;
        assert_non_null(e);
        for (size_t i = 0; i < found; i++) {
            assert_true(e[i].timestamp_ns >= last_ns);
            last_ns = e[i].timestamp_ns;
            if (e[i].event_kind == ATF_EXCEPTION)
                signals++;
            else
                assert_int_equal(e[i].function_id, ++next);
        }
        assert_int_equal(next, count);
        free(e);
    }
    return signals;
}

static void test_files_are_in_order(void **state) {
    (void)state;
    uint32_t count = fill_lane();
    f.drain.hands = HANDS;
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(ct_drain_finish(&f.drain), 0);
    assert_int_equal(f.drain.statistics.events, (uint64_t)count * THREADS);
    assert_int_equal(lane_lost(&f), 0);
    assert_int_equal(check_files(count), 0);
    assert_int_equal(lane_chunks_in(&f, CT_CHUNK_DRAINING), 0);
    assert_true(f.drain.latency_samples > 0);
}

/* ---- while threads write, and get signals ---- */

enum { EVENTS = 60000, SIGNALS = 40 };

struct writer {
    pthread_t thread;
    struct ct_block *b;
    int tid;
};

/* The thread that gets a signal is stopped meanwhile, so it hands it over itself here. */
static void *write_and_signal(void *arg) {
    struct writer *w = arg;
    uint32_t part = EVENTS / SIGNALS;
    for (uint32_t i = 0; i < SIGNALS; i++) {
        write_numbered(w->b, i ? i * part : 1, (i + 1) * part);
        (void)ct_drain_signal(&f.drain,
                              &(struct ct_signal_record){.tid = w->tid, .signal = 10, .counter = ct_os_timestamp()});
    }
    return NULL;
}

/* Each signal is after the events that were before it. */
static void check_places(void) {
    for (uint32_t id = 1; id <= THREADS; id++) {
        size_t found, signals = 0;
        struct atf_index_event *e = lane_read(&f, id, &found);
        assert_non_null(e);
        for (size_t i = 0; i < found; i++)
            if (e[i].event_kind == ATF_EXCEPTION) {
                signals++;
                assert_int_equal(i + 1 - signals, signals * (EVENTS / SIGNALS));
            }
        assert_int_equal(signals, SIGNALS);
        free(e);
    }
}

static void test_signals_are_in_place(void **state) {
    (void)state;
    struct writer writers[THREADS];
    lane_start(&f, 1u << 20, true, 0);
    lane_prepare_drain(&f);
    f.drain.hands = HANDS;
    for (int t = 0; t < THREADS; t++) {
        writers[t].b = lane_thread(&f);
        write_numbered(writers[t].b, 0, 1); /* it has a slot from now on */
        writers[t].tid = f.lane.threads[writers[t].b->lane_slot].tid = 1000 + t;
    }
    assert_int_equal(ct_drain_start(&f.drain), 0);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&writers[t].thread, NULL, write_and_signal, &writers[t]), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(writers[t].thread, NULL);
    assert_int_equal(ct_drain_finish(&f.drain), 0);
    assert_int_equal(lane_lost(&f), 0);
    assert_int_equal(check_files(EVENTS), THREADS * SIGNALS);
    check_places();
}

/* ---- throughput ---- */

/* Drains a full lane; each chunk takes DELAY longer. Returns ns. */
static uint64_t drain_slowly(unsigned hands) {
    uint32_t count = fill_lane();
    f.drain.hands = hands;
    ct_drain_delay_us = DELAY;
    uint64_t start = ct_clock_now();
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(ct_drain_finish(&f.drain), 0);
    uint64_t spent = ct_clock_now() - start;
    assert_int_equal(f.drain.statistics.events, (uint64_t)count * THREADS);
    (void)clean(NULL);
    return spent;
}

/* A chunk takes long but needs no processor, so what more hands gain shows on any machine; on a very busy one, not at
 * the first try. */
static void test_more_hands_take_more(void **state) {
    (void)state;
    bool grows = false;
    for (unsigned tries = 0; tries < 10 && !grows; tries++) {
        uint64_t one = drain_slowly(1), two = drain_slowly(2), four = drain_slowly(HANDS);
        print_message("%d chunks: one hand %.0f ms, two %.0f ms, four %.0f ms\n", CHUNKS * THREADS, (double)one * 1e-6,
                      (double)two * 1e-6, (double)four * 1e-6);
        assert_true(one >= (uint64_t)CHUNKS * THREADS * DELAY * 1000);
        grows = two < one / 4 * 3 && four < two / 4 * 3;
    }
    assert_true(grows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_files_are_in_order, clean),
        cmocka_unit_test_teardown(test_signals_are_in_place, clean),
        cmocka_unit_test_teardown(test_more_hands_take_more, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
