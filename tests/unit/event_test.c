/* SPDX-License-Identifier: Apache-2.0 */
/* Event buffers: where they lie, what happens when they are full, in which order events reach the sink, what becomes of
 * slots that nobody filled, and delivery by another thread while events are recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <cmocka.h>

#include "os/os.h"
#include "runtime_util.h"

#define CAPACITY 8u /* events per buffer, unless said otherwise */

static struct fixture f;

static int start(void **state) {
    (void)state;
    fixture_start(&f, 16, CAPACITY);
    return 0;
}

static int end(void **state) {
    (void)state;
    check_signals();
    assert_int_equal(f.empty_calls, 0);
    fixture_end(&f);
    return 0;
}

static uint32_t next_number;

/* Numbered events, so that order and loss show. */
static void write_events(size_t count) {
    while (count-- > 0)
        ct_event_write(f.block, next_number++, CT_EVENT_CALL);
}

/* Reserves a slot as a stub does, and leaves it empty. */
static struct ct_event *reserve_slot(void) {
    uint64_t at = __atomic_fetch_add(&f.block->cursor, CT_EVENT_SIZE, __ATOMIC_RELAXED);
    assert_true(at & f.block->event_bit);
    return (struct ct_event *)at;
}

static void fill_slot(struct ct_event *e, uint32_t number) {
    e->hook = number;
    e->kind = CT_EVENT_RETURN;
    __atomic_store_n(&e->timestamp, ct_os_timestamp(), __ATOMIC_RELEASE);
}

/* The sink has had exactly the events [from, to) since the last time. */
static void expect_numbers(uint32_t from, uint32_t to) {
    assert_int_equal(f.event_count, to - from);
    for (uint32_t i = 0; i < to - from; i++)
        assert_int_equal(f.events[i].hook, from + i);
    f.event_count = 0;
}

static size_t list_length(const struct ct_buffer *buffer) {
    size_t n = 0;
    for (; buffer; buffer = buffer->next)
        n++;
    return n;
}

/* ---- where buffers lie ---- */

static void test_address_bits(void **state) {
    (void)state;
    for (size_t events = 2; events <= 65536; events *= 2) {
        fixture_start(&f, 16, events);
        size_t bytes = events * CT_EVENT_SIZE;
        next_number = 0;
        for (unsigned i = 0; i < 3; i++) {
            write_events(1);
            uint64_t first = (uint64_t)f.block->active->events;
            assert_int_equal(first & bytes, bytes);
            assert_int_equal(first & (bytes - 1), 0);
            assert_int_equal((first + bytes - CT_EVENT_SIZE) & bytes, bytes);
            assert_int_equal((first + bytes) & bytes, 0);
            assert_int_equal(f.block->cursor, first + CT_EVENT_SIZE);
            f.block->cursor = first + bytes; /* as if it were full */
        }
        fixture_end(&f);
    }
}

/* ---- full buffers ---- */

static void test_nothing_before_it_is_full(void **state) {
    (void)state;
    next_number = 0;
    write_events(CAPACITY);
    assert_int_equal(f.sink_calls, 0);
    write_events(1);
    assert_int_equal(f.sink_calls, 1);
    assert_int_equal(f.last_tid, ct_os_gettid());
    expect_numbers(0, CAPACITY);
    ct_event_drain(f.block);
    expect_numbers(CAPACITY, CAPACITY + 1);
}

static void test_order_and_contents(void **state) {
    (void)state;
    next_number = 0;
    for (uint32_t i = 0; i < 1000; i++)
        ct_event_write(f.block, i, i % 4 + 1);
    ct_event_drain(f.block);
    assert_int_equal(f.event_count, 1000);
    uint64_t before = 1;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(f.events[i].hook, i);
        assert_int_equal(f.events[i].kind, i % 4 + 1);
        assert_true(f.events[i].timestamp >= before);
        before = f.events[i].timestamp;
    }
    assert_int_equal(f.block->counters->abandoned, 0);
}

/* Two buffers take turns for ever. What lies after them is not touched, nor taken for events. */
static void test_buffers_are_reused(void **state) {
    (void)state;
    struct ct_buffer *buffers[2] = {NULL, NULL};
    next_number = 0;
    for (unsigned i = 0; i < 100; i++) {
        write_events(CAPACITY);
        struct ct_buffer *now = f.block->active, **known = &buffers[i & 1];
        if (!*known) {
            *known = now;
            now->events[CAPACITY].timestamp = now->events[CAPACITY].hook = 0x7777;
        }
        assert_ptr_equal(now, *known);
        assert_int_equal(now->events[CAPACITY].timestamp, 0x7777);
    }
    assert_ptr_not_equal(buffers[0], buffers[1]);
    ct_event_drain(f.block);
    expect_numbers(0, 100 * CAPACITY);
}

/* A used buffer comes back empty: what it held cannot be taken for what is there now. */
static void test_reused_buffers_are_empty(void **state) {
    (void)state;
    next_number = 0;
    write_events(5 * CAPACITY + 1);
    for (unsigned i = 1; i < CAPACITY; i++)
        (void)reserve_slot();
    ct_event_drain(f.block);
    expect_numbers(0, 5 * CAPACITY + 1);
    assert_int_equal(f.block->counters->abandoned, 0); /* they may still be filled */
}

/* Without a sink the newest events stay. */
static void test_without_sink(void **state) {
    (void)state;
    f.runtime.sink = NULL;
    next_number = 0;
    write_events(10 * CAPACITY + 3);
    assert_int_equal(f.block->full_count, 1);
    assert_int_equal(list_length(f.block->full), 1);
    assert_int_equal(list_length(f.block->spare), 1);
    f.runtime.sink = fixture_sink;
    ct_event_drain(f.block);
    expect_numbers(9 * CAPACITY, 10 * CAPACITY + 3);
}

/* An empty slot does not keep old events either; to drain without a sink is to forget. */
static void test_holes_without_sink(void **state) {
    (void)state;
    f.runtime.sink = NULL;
    write_events(1);
    (void)reserve_slot();
    write_events(5 * CAPACITY);
    assert_int_equal(f.block->full_count, 1);
    ct_event_drain(f.block);
    f.runtime.sink = fixture_sink;
    ct_event_drain(f.block);
    assert_int_equal(f.sink_calls, 0);
}

/* No memory for a buffer: the events are counted, and recording goes on when there is some again. */
static void test_without_memory(void **state) {
    (void)state;
    struct rlimit old, none;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    none = old;
    none.rlim_cur = 0;
    next_number = 0;
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    write_events(3);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(f.block->counters->abandoned, 3);
    write_events(2);
    ct_event_drain(f.block);
    expect_numbers(3, 5);
}

/* ---- delivery ---- */

static void test_drain_bit_by_bit(void **state) {
    (void)state;
    next_number = 0;
    ct_event_drain(f.block); /* nothing yet, not even a buffer */
    assert_int_equal(f.sink_calls, 0);
    for (uint32_t i = 0; i < 100; i += 3) {
        write_events(3);
        ct_event_drain(f.block);
        expect_numbers(i, i + 3);
        ct_event_drain(f.block);
        expect_numbers(0, 0);
    }
}

/* What was drained already does not come again when the buffer is full. */
static void test_drained_part_is_not_repeated(void **state) {
    (void)state;
    next_number = 0;
    write_events(5);
    ct_event_drain(f.block);
    expect_numbers(0, 5);
    write_events(CAPACITY);
    expect_numbers(5, CAPACITY);
    ct_event_drain(f.block);
    expect_numbers(CAPACITY, CAPACITY + 5);
}

/* A sink is foreign code: it runs on our stack, unseen, with its vector registers saved. */
static struct {
    uint32_t attention;
    uint64_t frame;
    bool signals_blocked;
} in_sink;

static void curious_sink(void *arg, int tid, const struct ct_event *events, size_t count) {
    sigset_t mask;
    in_sink.attention = f.block->attention;
    in_sink.frame = (uint64_t)__builtin_frame_address(0);
    sigemptyset(&mask);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    in_sink.signals_blocked = sigismember(&mask, SIGUSR1) == 1;
    __asm__ volatile("pxor %%xmm5, %%xmm5" ::: "xmm5");
    fixture_sink(arg, tid, events, count);
}

static void test_sink_is_guarded(void **state) {
    (void)state;
    struct ct_block *b = f.block;
    f.runtime.sink = curious_sink;
    next_number = 0;
    write_events(CAPACITY);
    uint64_t put = 0x1122334455667788, got;
    __asm__ volatile("movq %2, %%xmm5\n\t"
                     "call *%3\n\t"
                     "movq %%xmm5, %0"
                     : "=r"(got), "+D"(b)
                     : "r"(put), "r"(&ct_event_write), "S"(99), "d"(CT_EVENT_CALL)
                     : "xmm5", "rax", "rcx", "r8", "r9", "r10", "r11", "memory", "cc");
    assert_int_equal(got, put);
    assert_int_equal(f.sink_calls, 1);
    b = f.block;
    assert_int_equal(in_sink.attention, CT_ATTENTION_GUARD);
    assert_in_range(in_sink.frame, (uint64_t)b, (uint64_t)b + b->size);
    assert_true(in_sink.signals_blocked);
    assert_int_equal(b->attention, 0);
    assert_int_equal(b->owner, b->thread_pointer);
}

/* ---- slots that are not filled ---- */

/* A handler that interrupted a stub fills the buffer: it waits until the stub has gone on. */
static void test_full_buffer_waits(void **state) {
    (void)state;
    next_number = 0;
    write_events(2);
    struct ct_event *slot = reserve_slot();
    next_number = 3;
    write_events(3 * CAPACITY);
    assert_int_equal(f.sink_calls, 0);
    assert_int_equal(f.block->full_count, 3);
    fill_slot(slot, 2);
    write_events(CAPACITY); /* the next time that somebody swaps, all goes, in order */
    ct_event_drain(f.block);
    expect_numbers(0, 4 * CAPACITY + 3);
    assert_int_equal(f.block->counters->abandoned, 0);
    assert_int_equal(f.block->full_count, 0);
}

/* The handler jumped away: the slot stays empty. Nobody waits for ever. */
static void test_many_full_buffers(void **state) {
    (void)state;
    next_number = 0;
    write_events(2);
    (void)reserve_slot();
    write_events(CAPACITY - 3);
    for (unsigned i = 0; i < 63; i++)
        write_events(CAPACITY);
    assert_int_equal(f.sink_calls, 0);
    assert_int_equal(f.block->full_count, 63);
    write_events(CAPACITY);
    expect_numbers(0, 64 * CAPACITY - 1); /* around the empty slot */
    assert_int_equal(f.block->counters->abandoned, 1);
    assert_int_equal(f.sink_calls, 65);
}

static void test_drain_counts_empty_slots(void **state) {
    (void)state;
    next_number = 0;
    write_events(1);
    ct_event_drain(f.block);
    (void)reserve_slot();
    struct ct_event *late = reserve_slot();
    write_events(3);
    ct_event_drain(f.block);
    expect_numbers(0, 4);
    assert_int_equal(f.block->counters->abandoned, 2);
    fill_slot(late, 1000); /* too late: it was counted */
    write_events(1);
    ct_event_drain(f.block);
    expect_numbers(4, 5);
    assert_int_equal(f.block->counters->abandoned, 2);
}

/* At the end of what is being written an empty slot is one that will be filled in a moment. */
static void test_drain_leaves_the_end(void **state) {
    (void)state;
    next_number = 0;
    write_events(2);
    struct ct_event *first = reserve_slot(), *second = reserve_slot();
    ct_event_drain(f.block);
    expect_numbers(0, 2);
    assert_int_equal(f.block->counters->abandoned, 0);
    fill_slot(first, 2);
    ct_event_drain(f.block);
    expect_numbers(2, 3);
    fill_slot(second, 3);
    next_number = 4;
    write_events(1);
    ct_event_drain(f.block);
    expect_numbers(3, 5);
    assert_int_equal(f.block->counters->abandoned, 0);
}

static void test_buffer_of_empty_slots(void **state) {
    (void)state;
    next_number = 0;
    write_events(1);
    for (unsigned i = 1; i < CAPACITY; i++)
        (void)reserve_slot();
    write_events(1);
    ct_event_drain(f.block);
    expect_numbers(0, 2);
    assert_int_equal(f.block->counters->abandoned, CAPACITY - 1);
}

/* ---- forgetting ---- */

static void test_reset(void **state) {
    (void)state;
    f.runtime.sink = NULL;
    next_number = 0;
    write_events(2 * CAPACITY + 3);
    f.block->event_lock = f.block->delivering = 1; /* a fork happened in the middle of it */
    ct_event_reset(f.block);
    assert_int_equal(f.block->full_count, 0);
    assert_null(f.block->full);
    assert_int_equal(list_length(f.block->spare), 2);
    f.runtime.sink = fixture_sink;
    (void)reserve_slot(); /* where an old event was */
    ct_event_drain(f.block);
    expect_numbers(0, 0);
    ct_event_reset(f.block);
    ct_event_drain(f.block);
    expect_numbers(0, 0);
    next_number = 500;
    write_events(3 * CAPACITY);
    ct_event_drain(f.block);
    expect_numbers(500, 500 + 3 * CAPACITY);
    assert_int_equal(f.block->counters->abandoned, 0);
}

/* The child of a fork finds its cursor wiped. */
static void test_reset_without_buffer(void **state) {
    (void)state;
    f.block->cursor = f.block->event_bit;
    ct_event_reset(f.block);
    assert_int_equal(f.block->cursor, 0);
    next_number = 0;
    write_events(1);
    f.block->cursor = 0;
    ct_event_reset(f.block);
    assert_int_equal(f.block->cursor, (uint64_t)f.block->active->events);
    write_events(1);
    ct_event_drain(f.block);
    expect_numbers(1, 2);
}

/* ---- at the same time ---- */

/* A handler that records interrupts recording wherever it likes. */
static volatile uint32_t handled;

static void on_alarm(int signal) {
    (void)signal;
    for (unsigned i = 0; i < 3; i++)
        ct_event_write(f.block, handled++, CT_EVENT_RETURN);
}

static void test_signals_while_recording(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm}, old;
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    handled = 0;
    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &often, NULL);
    uint32_t written = 0, calls = 0, returns = 0;
    while (written < 300000 && (handled < 600 || written < 20000)) {
        for (unsigned i = 0; i < 100; i++)
            ct_event_write(f.block, written++, CT_EVENT_CALL);
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        for (size_t i = 0; i < f.event_count; i++) /* both kinds in their own order */
            assert_int_equal(f.events[i].hook, f.events[i].kind == CT_EVENT_CALL ? calls++ : returns++);
        f.event_count = 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    ct_event_drain(f.block);
    for (size_t i = 0; i < f.event_count; i++)
        assert_int_equal(f.events[i].hook, f.events[i].kind == CT_EVENT_CALL ? calls++ : returns++);
    assert_int_equal(calls, written);
    assert_int_equal(returns, handled);
    assert_int_equal(f.block->counters->abandoned, 0);
}

#define RECORDERS  3u
#define PER_THREAD 200000u

/* One per thread that records: the tid says whose events they are. */
struct recorder {
    pthread_t thread;
    struct ct_block *block;
    int tid;
    uint32_t seen;
    bool in_order;
} recorders[RECORDERS];

static uint32_t ready, finished, may_end;
static uint32_t unknown_events;

/* Several threads call it, for different recorders: for each of them one at a time. */
static void counting_sink(void *arg, int tid, const struct ct_event *events, size_t count) {
    (void)arg;
    for (unsigned r = 0; r < RECORDERS; r++)
        if (recorders[r].tid == tid) {
            for (size_t i = 0; i < count; i++)
                recorders[r].in_order &= events[i].hook == recorders[r].seen++ && events[i].kind == CT_EVENT_CALL;
            return;
        }
    __atomic_fetch_add(&unknown_events, 1, __ATOMIC_RELAXED);
}

static void wait_for(uint32_t *word, uint32_t value) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
        sched_yield();
}

static void *record(void *arg) {
    struct recorder *r = arg;
    struct ct_block *b = ct_block_current(); /* inherited GS is not its own: it registers */
    r->tid = ct_os_gettid();
    r->in_order = b && b->tid == r->tid;
    r->block = b;
    __atomic_fetch_add(&ready, 1, __ATOMIC_RELEASE);
    wait_for(&ready, RECORDERS);
    for (uint32_t i = 0; i < PER_THREAD; i++)
        ct_event_write(b, i, CT_EVENT_CALL);
    __atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
    wait_for(&may_end, 1);
    return NULL;
}

static void test_delivery_while_recording(void **state) {
    (void)state;
    fixture_start(&f, 16, 2); /* as much swapping as there can be */
    f.runtime.sink = counting_sink;
    f.runtime.next_sweep = 1000;
    memset(recorders, 0, sizeof recorders);
    ready = finished = may_end = unknown_events = 0;
    for (unsigned i = 0; i < RECORDERS; i++)
        assert_int_equal(pthread_create(&recorders[i].thread, NULL, record, &recorders[i]), 0);
    wait_for(&ready, RECORDERS);
    while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) < RECORDERS)
        for (unsigned i = 0; i < RECORDERS; i++) {
            uint64_t mask = ct_os_block_signals();
            ct_event_drain(recorders[i].block);
            ct_os_restore_signals(mask);
        }
    for (unsigned i = 0; i < RECORDERS; i++) {
        ct_event_drain(recorders[i].block);
        assert_int_equal(recorders[i].seen, PER_THREAD);
        assert_true(recorders[i].in_order);
        assert_int_equal(recorders[i].block->counters->abandoned, 0);
        assert_ptr_not_equal(recorders[i].block, f.block);
    }
    assert_int_equal(unknown_events, 0);
    assert_int_equal(f.runtime.threads_seen, RECORDERS + 1);
    __atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < RECORDERS; i++)
        pthread_join(recorders[i].thread, NULL);
    fixture_end(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address_bits),
        TEST(test_nothing_before_it_is_full),
        TEST(test_order_and_contents),
        TEST(test_buffers_are_reused),
        TEST(test_reused_buffers_are_empty),
        TEST(test_without_sink),
        TEST(test_holes_without_sink),
        TEST(test_without_memory),
        TEST(test_drain_bit_by_bit),
        TEST(test_drained_part_is_not_repeated),
        TEST(test_sink_is_guarded),
        TEST(test_full_buffer_waits),
        TEST(test_many_full_buffers),
        TEST(test_drain_counts_empty_slots),
        TEST(test_drain_leaves_the_end),
        TEST(test_buffer_of_empty_slots),
        TEST(test_reset),
        TEST(test_reset_without_buffer),
        TEST(test_signals_while_recording),
        cmocka_unit_test(test_delivery_while_recording),
    };
    return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
