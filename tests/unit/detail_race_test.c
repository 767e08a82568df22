/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread does with its segments between two steps of a pass: no record that a mark wants is lost. The drain's
 * own thread plays the other side, where it calls back and where it reads the records. */
#include "detail_util.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define DEADLINE_NS (100 * NS)
#define STRANGER    9999u /* a slot of no thread */

/* What happens before each pass, and in it after full segments were listed and marks were taken. */
static struct {
    struct ct_block *b;
    void (*before)(unsigned pass);
    void (*inside)(unsigned pass);
    unsigned pass, last;
    volatile bool done;
} script;

static bool on_begin(void *arg) {
    (void)arg;
    if (script.before && script.pass)
        script.before(script.pass);
    return true;
}

static void on_pass(void *arg, uint64_t now_ns) {
    struct ct_drain *drain = arg;
    if (!script.pass && drain->windows->state != CT_SESSION_WINDOW_MARKED)
        return; /* passes count from the one that has taken the mark */
    if (script.pass++)
        drain->detail->looked_at = now_ns; /* no time to look again yet */
    script.inside(script.pass);
    script.done = script.pass >= script.last;
}

static void run_until_done(void) {
    assert_int_equal(ct_drain_start(&f.drain), 0);
    for (uint64_t end = ct_clock_now() + DEADLINE_NS; !script.done && ct_clock_now() < end;)
        usleep(1000);
    assert_true(script.done);
    assert_int_equal(lane_finish_drain(&f), 0);
}

/* Runs the drain until it has made `last` passes, and to its end. */
static void run(struct ct_block *b, void (*before)(unsigned), void (*inside)(unsigned), unsigned last) {
    script.b = b;
    script.before = before;
    script.inside = inside;
    script.pass = 0;
    script.last = last;
    script.done = false;
    f.drain.every_pass = on_begin;
    f.drain.on_pass = on_pass;
    f.drain.on_pass_arg = &f.drain;
    run_until_done();
}

/* As a thread hands over what it has kept. */
static bool hand_over(uint32_t segment) {
    uint32_t word = f.lane.segments[segment].word;
    if (CT_SEGMENT_STATE(word) != CT_SEGMENT_KEPT)
        return false;
    f.lane.segments[segment].word = CT_SEGMENT_WORD(CT_SEGMENT_FROZEN, CT_SEGMENT_SLOT(word));
    return true;
}

/* ---- a kept segment is handed over when it was listed as kept ---- */

static unsigned handed;

static void hand_over_all(unsigned pass) {
    for (uint32_t i = 0; pass == 1 && i < f.lane.segment_count; i++)
        handed += hand_over(i);
}

static void fill_history(void) {
    handed = 0;
    start(32 << 20, &(struct ct_windows_rolls){.pre_ns = 600 * NS}, true);
    ct_detail_publish_rolls(&f.drain);
}

static void test_kept_is_handed_over_after_the_listing(void **state) {
    (void)state;
    fill_history();
    struct ct_block *b = begin();
    make_calls(b, 20000);
    mark(0);
    run(b, NULL, hand_over_all, 2);
    assert_true(handed > 2);
    assert_int_equal(count_calls(1, UINT64_MAX), 20000);
}

/* ---- ... while it is read ---- */

static struct {
    uint8_t *start;
    size_t size;
    uint32_t segment;
} watched;

/* The drain has begun to read the segment. */
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    const uint8_t *at = info->si_addr;
    if (at < watched.start || at >= watched.start + watched.size ||
        mprotect(watched.start, watched.size, PROT_READ | PROT_WRITE))
        _exit(99);
    handed += hand_over(watched.segment);
}

static void watch_segment(uint32_t segment) {
    uint32_t chunk, chunks;
    ct_lane_segment(&f.lane, segment, &chunk, &chunks);
    watched.start = f.lane.detail_pool + (2 * (size_t)chunk + 1) * CT_SHM_DETAIL_CHUNK;
    watched.size = CT_SHM_DETAIL_CHUNK;
    watched.segment = segment;
    assert_int_equal(mprotect(watched.start, watched.size, PROT_NONE), 0);
}

static void watch_kept(unsigned pass) {
    sigset_t fault;
    sigemptyset(&fault);
    sigaddset(&fault, SIGSEGV);
    if (pass > 1 || pthread_sigmask(SIG_UNBLOCK, &fault, NULL))
        return;
    for (uint32_t i = 0; i < f.lane.segment_count; i++)
        if (CT_SEGMENT_STATE(f.lane.segments[i].word) == CT_SEGMENT_KEPT) {
            watch_segment(i);
            return;
        }
}

static void test_kept_is_handed_over_while_it_is_read(void **state) {
    (void)state;
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    fill_history();
    struct ct_block *b = begin();
    make_calls(b, 20000);
    mark(0);
    assert_int_equal(sigaction(SIGSEGV, &act, &old), 0);
    run(b, NULL, watch_kept, 2);
    assert_int_equal(sigaction(SIGSEGV, &old, NULL), 0);
    assert_int_equal(handed, 1);
    assert_int_equal(count_calls(1, UINT64_MAX), 20000);
}

/* ---- full segments are taken in a pass that does not look at those in use ---- */

static void use_up_memory(unsigned pass) {
    assert_int_equal(ct_block_install(script.b), 0);
    if (pass == 1) {
        make_calls(script.b, 20000);
        open_call(script.b, 9, 77); /* there is no memory for its record but the small one */
        assert_true(script.b->detail_dry);
    }
    if (pass == 2)
        make_calls(script.b, 20000); /* the pass has freed segments, and these are full again */
}

/* A mark comes when the pass has counted those that it takes: for threads it is pending until the next look. */
static void note_mark(unsigned pass) {
    f.lane.control->mark_serial += pass == 1;
}

static void test_full_ones_are_taken_between_two_looks(void **state) {
    (void)state;
    start(1 << 20, &(struct ct_windows_rolls){.pre_ns = 1, .post_ns = 600 * NS}, false);
    f.lane.rules[5] = 1;
    f.lane.control->triggers[0] = (struct ct_shm_trigger){.kind = CT_SHM_ON_CALL};
    struct ct_block *b = begin();
    open_call(b, 5, 1);
    open_call(b, 6, 2);
    run(b, use_up_memory, note_mark, 3);
    assert_int_equal(count_calls(9, 77), 1);
}

/* ---- a segment is handed over when a newer record waits ---- */

static void hand_over_own(unsigned pass) {
    if (pass > 1)
        return;
    for (uint32_t i = 0; i < f.lane.segment_count; i++)
        if (CT_SEGMENT_SLOT(f.lane.segments[i].word) == STRANGER)
            ct_lane_free_segment(&f.lane, i);
    assert_int_equal(ct_block_install(script.b), 0);
    make_calls(script.b, 1);
}

static void take_all_free(void) {
    for (uint32_t i = 0; i < f.lane.segment_count; i++)
        if (f.lane.segments[i].word == CT_SEGMENT_FREE)
            f.lane.segments[i].word = CT_SEGMENT_WORD(CT_SEGMENT_OWNED, STRANGER);
    f.lane.control->free_segments = 0;
}

static void test_older_segment_comes_after_the_listing(void **state) {
    (void)state;
    start(1 << 20, &(struct ct_windows_rolls){.pre_ns = 1, .post_ns = 600 * NS}, false);
    f.lane.rules[5] = 1;
    f.lane.control->triggers[0] = (struct ct_shm_trigger){.kind = CT_SHM_ON_CALL};
    struct ct_block *b = begin();
    open_call(b, 5, 1);
    open_call(b, 6, 2);
    take_all_free();
    make_calls(b, 20000);
    open_call(b, 9, 77);
    assert_true(b->detail_dry);
    run(b, NULL, hand_over_own, 3);
    assert_int_equal(count_calls(5, 1), 1);
    assert_int_equal(count_calls(6, 2), 1);
    assert_int_equal(count_calls(9, 77), 1);
}

/* ---- a thread gives up the segment that it began with, and the drain has not come by since ---- */

static size_t given_up(void) {
    size_t count = 0;
    for (uint32_t i = 0; i < f.lane.segment_count; i++)
        count += CT_SEGMENT_STATE(f.lane.segments[i].word) == CT_SEGMENT_FROZEN;
    return count;
}

/* The copy of a younger open call's record is no reason to pass over the older one's in that segment. */
static void test_open_calls_in_a_given_up_segment_and_copied(void **state) {
    (void)state;
    start(1 << 20, &(struct ct_windows_rolls){.pre_ns = 600 * NS}, true);
    ct_detail_publish_rolls(&f.drain);
    struct ct_block *b = begin();
    open_call(b, 5, 1);
    make_calls(b, 20000);
    open_call(b, 6, 2);
    make_calls(b, 20000);
    assert_int_equal(given_up(), 1);
    assert_int_not_equal(b->detail_carried, 0);
    mark(0);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(count_calls(5, 1), 1);
    assert_int_equal(count_calls(6, 2), 1);
}

/* ---- a thread begins and makes a mark after the pass has listed what there is ---- */

static bool hide_chunks(void *arg) {
    struct ct_drain *drain = arg;
    if (!script.pass++)
        memset(drain->quarantined, 1, drain->lane->chunk_count);
    return true;
}

static void show_chunks(void *arg, uint64_t now_ns) {
    (void)now_ns;
    struct ct_drain *drain = arg;
    memset(drain->quarantined, 0, drain->lane->chunk_count);
    script.done = true;
}

/* The drain does not know the thread when it finds the mark: what is before the mark is wanted all the same. */
static void test_mark_of_a_thread_that_is_not_known_yet(void **state) {
    (void)state;
    start(4 << 20, &(struct ct_windows_rolls){.pre_events = 50}, true);
    f.lane.rules[5] = 1;
    f.lane.control->triggers[0] = (struct ct_shm_trigger){.kind = CT_SHM_ON_RETURN}; /* any value */
    struct ct_block *b = begin();
    open_call(b, 5, 4711);
    make_calls(b, 100);
    close_call(b, 5, 9);
    script.pass = 0;
    script.done = false;
    f.drain.every_pass = hide_chunks;
    f.drain.on_pass = show_chunks;
    f.drain.on_pass_arg = &f.drain;
    run_until_done();
    assert_int_equal(windows.marks, 1);
    assert_int_equal(count_calls(5, 4711), 1);
    assert_in_range(count_calls(1, UINT64_MAX), 24, 26);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_mark_of_a_thread_that_is_not_known_yet, clean),
        cmocka_unit_test_teardown(test_kept_is_handed_over_after_the_listing, clean),
        cmocka_unit_test_teardown(test_kept_is_handed_over_while_it_is_read, clean),
        cmocka_unit_test_teardown(test_full_ones_are_taken_between_two_looks, clean),
        cmocka_unit_test_teardown(test_older_segment_comes_after_the_listing, clean),
        cmocka_unit_test_teardown(test_open_calls_in_a_given_up_segment_and_copied, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
