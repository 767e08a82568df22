/* SPDX-License-Identifier: Apache-2.0 */
/* More events than the drain can write: what is dropped and what is not, who waits for how long, what is written about
 * it. Each event carries a running number as its hook. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lane_util.h"
#include "os/thread.h"
#include "trace/switches_file.h"

#define SMALL      (256u << 10) /* 64 chunks of 256 events */
#define SECONDS    30
#define PASSES_MAX 4096

static struct lane_fixture f;

static int clean(void **state) {
    (void)state;
    if (f.lane.control)
        lane_end(&f);
    return 0;
}

static void write_numbered(struct ct_block *b, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        ct_event_write(b, i, CT_EVENT_ENTRY);
}

static uint64_t lost_of(const struct ct_block *b) {
    uint64_t sum = 0;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        sum += f.lane.threads[b->lane_slot].lost[i];
    return sum;
}

/* Waits, with a deadline, until the condition holds. */
#define AWAIT(condition)                                                                                               \
    do {                                                                                                               \
        for (int tries_ = 0; !(condition) && tries_ < SECONDS * 1000; tries_++)                                        \
            usleep(1000);                                                                                              \
        assert_true(condition);                                                                                        \
    } while (0)

/* ---- what is dropped ---- */

/* Nobody reads: exactly the oldest are missing, and the newest are there without a gap. */
static void test_newest_are_kept(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f);
    uint32_t capacity = lane_capacity(&f), happened = capacity * f.lane.chunk_count * 5 + 17;
    write_numbered(b, 0, happened);
    uint64_t lost = lost_of(b);
    assert_true(lost > 0 && lost % capacity == 0);
    lane_start_drain(&f);
    assert_int_equal(lane_finish_drain(&f), 0);
    size_t count;
    struct atf_index_event *e = lane_read(&f, 1, &count);
    assert_int_equal(count + lost, happened);
    assert_true(count > (size_t)capacity * (f.lane.chunk_count - 2));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(e[i].function_id, lost + i + 1);
    free(e);
}

/* Of several threads the oldest chunks go, whichever thread they belong to. */
static void test_oldest_of_all_threads(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *first = lane_thread(&f), *second = lane_thread(&f);
    uint32_t capacity = lane_capacity(&f), chunks = f.lane.chunk_count;
    write_numbered(first, 0, capacity * chunks / 2 + 1);
    write_numbered(second, 0, capacity * (chunks / 2 - 1));
    assert_int_equal(lost_of(first) + lost_of(second), 0);
    write_numbered(second, 0, capacity * chunks / 4 + 1);
    assert_true(lost_of(first) > 0);
    assert_int_equal(lost_of(second), 0);
}

/* The drain has claimed the oldest: those are passed over, and the ones after them go. */
static void test_claimed_are_not_dropped(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f);
    uint32_t capacity = lane_capacity(&f), chunks = f.lane.chunk_count, claimed = chunks / 4;
    write_numbered(b, 0, capacity * chunks);
    for (uint32_t i = 0; i < claimed; i++) {
        uint32_t chunk = (uint32_t)f.lane.submitted[i];
        uint64_t word = ct_lane_word(&f.lane, chunk);
        assert_int_equal(CT_CHUNK_STATE(word), CT_CHUNK_FULL);
        assert_true(ct_lane_change_word(&f.lane, chunk, word, (word & ~0xffull) | CT_CHUNK_DRAINING));
    }
    write_numbered(b, capacity * chunks, capacity * chunks * 4);
    assert_int_equal(lane_chunks_in(&f, CT_CHUNK_DRAINING), claimed);
    lane_start_drain(&f); /* it takes up what it has claimed */
    assert_int_equal(lane_finish_drain(&f), 0);
    size_t count;
    struct atf_index_event *e = lane_read(&f, 1, &count);
    assert_int_equal(count + lane_lost(&f), capacity * chunks * 4);
    for (uint32_t i = 0; i < claimed * capacity; i++)
        assert_int_equal(e[i].function_id, i + 1);
    assert_int_equal(e[count - 1].function_id, capacity * chunks * 4);
    assert_int_equal(lane_drained_thread(&f, 1)->gap_count, 1);
    free(e);
}

/* ---- what the drain takes while threads drop ---- */

static int writing;

static void *write_until_told(void *arg) {
    struct ct_block *b = lane_thread(&f);
    uint64_t *made = arg;
    while (__atomic_load_n(&writing, __ATOMIC_RELAXED)) {
        write_numbered(b, 0, 1000);
        *made += 1000;
    }
    lane_thread_ends(b);
    return NULL;
}

static uint64_t taken[PASSES_MAX + 1];
static bool was_full[PASSES_MAX + 1];
static unsigned passes, full_passes;

static bool note_pass(void *arg) {
    (void)arg;
    uint64_t events = 0;
    for (const struct ct_drain_thread *t = f.drain.threads; t; t = t->next)
        events += t->events;
    if (passes <= PASSES_MAX) {
        taken[passes] = events;
        bool full = was_full[passes++] = lane_chunks_in(&f, CT_CHUNK_FULL) > f.lane.chunk_count / 2;
        __atomic_fetch_add(&full_passes, full, __ATOMIC_RELAXED);
    }
    usleep(3000); /* a slow drain */
    return false;
}

/* A pass that begins with a full lane takes a good part of it, however fast threads drop what is in it. */
static void test_passes_take_what_is_there(void **state) {
    (void)state;
    pthread_t threads[2];
    uint64_t made[2] = {0}, full = 0, from_full = 0;
    passes = full_passes = 0;
    writing = 1;
    lane_start(&f, 4u << 20, false, 0);
    lane_prepare_drain(&f);
    f.drain.every_pass = note_pass;
    assert_int_equal(ct_drain_start(&f.drain), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_until_told, &made[i]), 0);
    AWAIT(__atomic_load_n(&full_passes, __ATOMIC_RELAXED) >= 20);
    __atomic_store_n(&writing, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(f.drain.statistics.events + lane_lost(&f), made[0] + made[1]);
    for (unsigned i = 0; i + 1 < passes; i++)
        if (was_full[i]) {
            full++;
            from_full += taken[i + 1] - taken[i];
        }
    print_message("%llu passes over a full lane, %llu events each; %llu lost\n", (unsigned long long)full,
                  (unsigned long long)(full ? from_full / full : 0), (unsigned long long)lane_lost(&f));
    assert_true(lane_lost(&f) > 0);
    assert_true(from_full >= full * f.lane.chunk_count / 16 * lane_capacity(&f));
}

/* ---- waiting ---- */

static void allow(uint64_t counts) {
    f.lane.control->wait_second = 1ull << 62; /* one second that does not end */
    f.lane.control->wait_counts = counts;
}

/* A thread waits for as long as it may, and then drops. */
static void test_patience_is_used_up(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f);
    const struct ct_shm_thread *t = &f.lane.threads[b->lane_slot];
    uint32_t capacity = lane_capacity(&f), chunks = f.lane.chunk_count;
    allow(1000000);
    write_numbered(b, 0, capacity * chunks);
    assert_int_equal(t->waited, 0);
    write_numbered(b, 0, capacity * 3);
    assert_true(t->waited >= 1000000);
    assert_int_equal(lost_of(b), 3 * capacity);
    uint64_t waited = t->waited;
    write_numbered(b, 0, capacity * chunks);
    assert_int_equal(t->waited, waited);
    f.lane.threads[b->lane_slot].wait_since -= 1ull << 62; /* the next second */
    write_numbered(b, 0, capacity);
    assert_true(t->waited >= waited + 1000000);
}

/* The time of a wait in this process, which makes no system calls, and of it what was counted. Whether waiting is of
 * use is found out by a look at nearly all chunks, each time. */
static bool counts_all_of_its_wait(struct ct_block *b) {
    struct ct_shm_thread *t = &f.lane.threads[b->lane_slot];
    uint32_t last = f.lane.chunk_count - 1;
    for (uint32_t i = 0; i < last; i++)
        f.lane.chunks[i].word = CT_CHUNK_WORD(CT_CHUNK_ACTIVE, 0, CT_CHUNK_GENERATION(f.lane.chunks[i].word));
    t->waited = t->wait_used = 0;
    uint64_t from = ct_os_timestamp();
    ct_event_write(b, 0, CT_EVENT_ENTRY);
    return t->waited >= f.lane.control->wait_counts && t->waited >= (ct_os_timestamp() - from) / 2;
}

static void test_silent_wait_is_counted(void **state) {
    (void)state;
    pid_t child = fork();
    if (!child) {
        bool counted = false;
        lane_start(&f, 32u << 20, false, 0);
        struct ct_block *b = lane_thread(&f);
        write_numbered(b, 0, lane_capacity(&f) * f.lane.chunk_count);
        allow(10000000);
        ct_os_go_silent();
        for (int tries = 0; tries < 5 && !counted; tries++) /* the machine may stop it between two readings */
            counted = counts_all_of_its_wait(b);
        _exit(!counted);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

struct waiting {
    uint32_t events;
    pthread_t thread;
};

static void *write_and_wait(void *arg) {
    struct ct_block *b = lane_thread(&f);
    write_numbered(b, 0, ((struct waiting *)arg)->events);
    lane_thread_ends(b);
    return NULL;
}

/* All of each second: nothing is lost, and the file has the waits, between events of the thread. */
static void test_waits_are_written(void **state) {
    (void)state;
    struct waiting w[2] = {{.events = 300000}, {.events = 300000}};
    lane_start(&f, SMALL, false, 8);
    lane_prepare_drain(&f);
    f.drain.wait_ms = 1000;
    assert_int_equal(ct_drain_start(&f.drain), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, write_and_wait, &w[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(w[i].thread, NULL);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(lane_lost(&f), 0);
    assert_int_equal(f.drain.statistics.events, 600000);
    assert_true(f.drain.statistics.waited_ns > 0);
    uint64_t sum = 0;
    for (uint32_t id = 1; id <= 2; id++) {
        struct ct_switches_reader *r;
        struct ct_switch_span span;
        size_t count, i = 0;
        struct atf_index_event *e = lane_read(&f, id, &count);
        if (ct_switches_reader_open_as(&r, f.directory, id, CT_WAITS_FILE)) {
            free(e);
            continue;
        }
        while (ct_switches_reader_next(r, &span) > 0) {
            sum += span.to_ns - span.from_ns;
            while (i < count && e[i].timestamp_ns < span.to_ns)
                i++;
            assert_true(i > 0 && i < count);
            assert_true(e[i - 1].timestamp_ns <= span.from_ns);
        }
        assert_true(ct_switches_reader_finished(r));
        ct_switches_reader_close(r);
        free(e);
    }
    assert_int_equal(sum, f.drain.statistics.waited_ns);
}

/* The target says that it has waited since the beginning of time. */
static void test_wait_is_bounded(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f);
    uint32_t capacity = lane_capacity(&f);
    write_numbered(b, 0, capacity + 1);
    for (uint32_t i = 0; i < f.lane.chunk_count; i++)
        f.lane.chunks[i].waited = UINT64_MAX;
    lane_start_drain(&f);
    assert_int_equal(lane_finish_drain(&f), 0);
    size_t count;
    struct atf_index_event *e = lane_read(&f, 1, &count);
    assert_int_equal(count, capacity + 1);
    assert_true(f.drain.statistics.waited_ns <= e[count - 1].timestamp_ns - e[0].timestamp_ns);
    free(e);
}

/* ... and that the wait ends hours from now. */
static void test_wait_ends_in_the_past(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f);
    uint32_t capacity = lane_capacity(&f);
    write_numbered(b, 0, capacity + 1);
    for (uint32_t i = 0; i < f.lane.chunk_count; i++)
        if (f.lane.chunks[i].number == 2) {
            f.lane.chunks[i].waited = UINT64_MAX;
            ((struct ct_event *)(uintptr_t)ct_lane_events(&f.lane, i))->timestamp += 1ull << 46;
        }
    lane_start_drain(&f);
    assert_int_equal(lane_finish_drain(&f), 0);
    size_t count;
    struct atf_index_event *e = lane_read(&f, 1, &count);
    uint64_t now = ct_clock_now();
    assert_int_equal(count, capacity + 1);
    assert_true(e[count - 1].timestamp_ns > now);
    assert_true(f.drain.statistics.waited_ns > 0);
    assert_true(f.drain.statistics.waited_ns <= now - e[0].timestamp_ns);
    free(e);
}

/* ---- waking ---- */

/* The drain sleeps for longer than the test lasts, unless a thread wakes it. */
static void test_full_chunks_wake_the_drain(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    lane_prepare_drain(&f);
    f.drain.interval_ms = 3600 * 1000;
    assert_int_equal(ct_drain_start(&f.drain), 0);
    struct ct_block *b = lane_thread(&f);
    AWAIT(__atomic_load_n(&f.lane.queue->wake_at, __ATOMIC_ACQUIRE) != CT_SHM_NO_WAKE);
    uint32_t wakes = f.lane.queue->wakes;
    write_numbered(b, 0, lane_capacity(&f) * f.lane.chunk_count / 2);
    AWAIT(lane_chunks_in(&f, CT_CHUNK_FULL) < f.lane.chunk_count / 4);
    assert_true(__atomic_load_n(&f.lane.queue->wakes, __ATOMIC_RELAXED) > wakes);
    assert_true(f.lane.queue->wakes - wakes < f.lane.chunk_count / 2); /* not for each chunk */
    assert_int_equal(lane_finish_drain(&f), 0);                        /* and so does the end */
    assert_int_equal(lane_lost(&f), 0);
}

/* The target moves our sleep to another word, where no wake-up arrives: the end comes all the same. */
static void test_end_does_not_need_the_word(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    lane_prepare_drain(&f);
    f.drain.interval_ms = 3600 * 1000;
    assert_int_equal(ct_drain_start(&f.drain), 0);
    uint32_t *word = &f.lane.queue->wakes;
    long moved = 0;
    for (int tries = 0; !moved && tries < SECONDS * 1000; tries++) {
        usleep(1000);
        moved = syscall(SYS_futex, word, FUTEX_CMP_REQUEUE, 0, (void *)1, f.lane.queue->pad2, *word);
    }
    assert_int_equal(moved, 1);
    alarm(SECONDS);
    assert_int_equal(lane_finish_drain(&f), 0);
    alarm(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_newest_are_kept, clean),
        cmocka_unit_test_teardown(test_oldest_of_all_threads, clean),
        cmocka_unit_test_teardown(test_claimed_are_not_dropped, clean),
        cmocka_unit_test_teardown(test_passes_take_what_is_there, clean),
        cmocka_unit_test_teardown(test_patience_is_used_up, clean),
        cmocka_unit_test_teardown(test_silent_wait_is_counted, clean),
        cmocka_unit_test_teardown(test_waits_are_written, clean),
        cmocka_unit_test_teardown(test_wait_is_bounded, clean),
        cmocka_unit_test_teardown(test_wait_ends_in_the_past, clean),
        cmocka_unit_test_teardown(test_full_chunks_wake_the_drain, clean),
        cmocka_unit_test_teardown(test_end_does_not_need_the_word, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
