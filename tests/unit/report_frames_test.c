/* SPDX-License-Identifier: Apache-2.0 */
/* Pairing of calls and ends against the truth: a model thread runs coroutines that call and return at random, a
 * model recorder loses runs of its events and numbers the rest as the real one does. */
#include "trace/frames.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

enum { COROUTINES = 4, DEPTH = 12, OPEN = COROUTINES * DEPTH };
#define UNKNOWN UINT64_MAX

struct call {
    uint64_t function, start;
    bool recorded;
    uint64_t gaps; /* before its call */
};

struct model {
    uint32_t random;
    unsigned coroutines;
    struct call stacks[COROUTINES][DEPTH];
    unsigned depths[COROUTINES];
    /* the recorder's list of open calls */
    uint64_t open[OPEN];
    unsigned open_count;
    uint64_t now, gaps;
    bool losing, after_gap;
    /* what came of it */
    struct ct_frames frames;
    uint64_t pairs, across_gaps, unpaired, lost, recorded_calls;
};

static unsigned pick(struct model *m, unsigned n) {
    m->random = m->random * 1103515245 + 12345;
    return (m->random >> 12) % n;
}

static unsigned truly_open(const struct model *m) {
    unsigned open = 0;
    for (unsigned c = 0; c < m->coroutines; c++)
        open += m->depths[c];
    return open;
}

/* The recorder knows how many frames are open when it comes back, and not which. */
static void note_gap(struct model *m, bool told, unsigned open) {
    m->open_count = open;
    for (unsigned i = 0; i < open; i++)
        m->open[i] = UNKNOWN;
    m->gaps++;
    if (told)
        ct_frames_gap(&m->frames, 0);
}

static uint32_t pop(struct model *m, uint64_t function) {
    for (unsigned i = m->open_count; i-- > 0;) {
        if (m->open[i] != function && m->open[i] != UNKNOWN)
            continue;
        memmove(&m->open[i], &m->open[i + 1], (m->open_count - i - 1) * sizeof m->open[0]);
        m->open_count--;
        return i;
    }
    return m->open_count;
}

static void do_call(struct model *m, unsigned c) {
    struct call *call = &m->stacks[c][m->depths[c]];
    *call = (struct call){.function = 1 + c * 8 + pick(m, 3), .start = m->now, .recorded = !m->losing, .gaps = m->gaps};
    if (!m->losing) {
        struct ct_trace_event e = {
            .timestamp_ns = m->now, .function_id = call->function, .kind = CT_TRACE_CALL, .depth = m->open_count};
        assert_non_null(ct_frames_call(&m->frames, &e));
        m->open[m->open_count++] = call->function;
        m->recorded_calls++;
    }
    m->depths[c]++;
}

static void do_end(struct model *m, unsigned c) {
    struct call *call = &m->stacks[c][--m->depths[c]];
    if (m->losing)
        return;
    struct ct_trace_event e = {.timestamp_ns = m->now, .function_id = call->function, .kind = CT_TRACE_RETURN};
    struct ct_frame closed;
    e.depth = pop(m, call->function);
    bool paired = ct_frames_end(&m->frames, &e, &closed);
    if (call->recorded && call->gaps == m->gaps) { /* nothing was lost since: nothing may go wrong */
        assert_true(paired);
        assert_int_equal(closed.start_ns, call->start);
        assert_int_equal(closed.function, call->function);
        m->pairs++;
        return;
    }
    m->across_gaps += paired;
    m->unpaired += !paired;
    if (paired)
        assert_int_equal(closed.function, call->function);
}

static void on_lost(void *arg, struct ct_frame *frame) {
    (void)frame;
    ((struct model *)arg)->lost++;
}

static void run(struct model *m, unsigned steps, unsigned loss, bool told) {
    unsigned current = 0;
    ct_frames_begin(&m->frames, loss == 0, on_lost, m);
    for (unsigned i = 0; i < steps; i++) {
        m->now += 1 + pick(m, 20);
        if (pick(m, 8) == 0)
            current = pick(m, m->coroutines);
        if (loss && pick(m, loss) == 0) {
            if (m->losing)
                note_gap(m, told, truly_open(m));
            m->losing = !m->losing;
        }
        bool call = m->depths[current] == 0 || (m->depths[current] < DEPTH && pick(m, 2));
        (call ? do_call : do_end)(m, current);
        assert_int_equal(m->frames.no_memory, false);
    }
}

/* All that was called has ended, was lost or is open. */
static void check_sum(struct model *m) {
    struct ct_frame frame;
    uint64_t left = 0;
    while (ct_frames_take(&m->frames, m->now, &frame))
        left++;
    assert_int_equal(m->recorded_calls, m->pairs + m->across_gaps + m->lost + left);
    ct_frames_free(&m->frames);
}

static void nothing_lost(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++)
        for (unsigned coroutines = 1; coroutines <= COROUTINES; coroutines++) {
            struct model m = {.random = seed, .coroutines = coroutines, .now = 1000};
            run(&m, 5000, 0, false);
            assert_int_equal(m.unpaired + m.lost + m.across_gaps, 0);
            check_sum(&m);
        }
}

static void gaps_that_are_told_of(void **state) {
    (void)state;
    uint64_t unpaired = 0, across = 0;
    for (uint32_t seed = 1; seed <= 20; seed++)
        for (unsigned coroutines = 1; coroutines <= COROUTINES; coroutines++) {
            struct model m = {.random = seed, .coroutines = coroutines, .now = 1000};
            run(&m, 5000, 60, true);
            unpaired += m.unpaired;
            across += m.across_gaps;
            check_sum(&m);
        }
    assert_true(unpaired > 100 && across > 100); /* or the test would say nothing */
}

/* Without coroutines depths show the gap at the latest when a call is at another depth than ours; until then a pair
 * may be wrong, but every call is accounted for. */
static void gaps_that_nobody_told_of(void **state) {
    (void)state;
    struct ct_frames f = {0};
    struct model m = {0};
    struct ct_frame closed;
    ct_frames_begin(&f, false, on_lost, &m);
    for (uint64_t i = 0; i < 3; i++)
        ct_frames_call(&f, &(struct ct_trace_event){.timestamp_ns = i, .function_id = 10 + i, .depth = (uint32_t)i});
    /* 12 and 11 returned unseen */
    assert_non_null(ct_frames_call(&f, &(struct ct_trace_event){.timestamp_ns = 5, .function_id = 13, .depth = 1}));
    assert_int_equal(m.lost, 2);
    assert_true(ct_frames_end(&f, &(struct ct_trace_event){.timestamp_ns = 6, .function_id = 13, .depth = 1}, &closed));
    assert_int_equal(closed.start_ns, 5);
    /* four calls were made unseen; the innermost returns */
    assert_false(
        ct_frames_end(&f, &(struct ct_trace_event){.timestamp_ns = 7, .function_id = 14, .depth = 4}, &closed));
    assert_non_null(ct_frames_call(&f, &(struct ct_trace_event){.timestamp_ns = 8, .function_id = 15, .depth = 4}));
    assert_true(ct_frames_end(&f, &(struct ct_trace_event){.timestamp_ns = 9, .function_id = 15, .depth = 4}, &closed));
    assert_int_equal(closed.start_ns, 8);
    assert_true(
        ct_frames_end(&f, &(struct ct_trace_event){.timestamp_ns = 10, .function_id = 10, .depth = 0}, &closed));
    assert_int_equal(closed.start_ns, 0);
    ct_frames_free(&f);
}

/* Depths that no thread has must not take memory or time. */
static void nonsense(void **state) {
    (void)state;
    for (int complete = 0; complete < 2; complete++) {
        struct model m = {.random = 7};
        struct ct_frames f = {0};
        struct ct_frame closed;
        ct_frames_begin(&f, complete, on_lost, &m);
        for (unsigned i = 0; i < 200000; i++) {
            struct ct_trace_event e = {.timestamp_ns = pick(&m, 1000000),
                                       .function_id = pick(&m, 5),
                                       .depth = pick(&m, 3) ? pick(&m, 6) : 0xffffffff - pick(&m, 3)};
            if (pick(&m, 50) == 0)
                ct_frames_gap(&f, pick(&m, 1000));
            if (pick(&m, 2))
                assert_non_null(ct_frames_call(&f, &e));
            else
                ct_frames_end(&f, &e, &closed);
        }
        while (ct_frames_take(&f, 1000000, &closed))
            ;
        assert_int_equal(f.open, 0);
        ct_frames_free(&f);
    }
}

static void open_call(struct ct_frames *f, uint32_t depth) {
    struct ct_trace_event e = {.timestamp_ns = depth + 1, .function_id = depth, .kind = CT_TRACE_CALL, .depth = depth};
    assert_non_null(ct_frames_call(f, &e));
    assert_true(f->used <= f->capacity);
    assert_true(f->row_count <= f->row_capacity);
}

static void close_call(struct ct_frames *f, uint32_t depth) {
    struct ct_trace_event e = {.timestamp_ns = 1 << 20, .function_id = depth, .kind = CT_TRACE_RETURN, .depth = depth};
    struct ct_frame closed;
    assert_true(ct_frames_end(f, &e, &closed));
    assert_int_equal(closed.function, depth);
    assert_int_equal(closed.start_ns, depth + 1);
}

/* More open calls than the arrays have room for at first, in new places and in places that were free. */
static void many_open_calls(void **state) {
    (void)state;
    enum { CALLS = 5000, AGAIN = 100 };
    struct model m = {0};
    struct ct_frames f = {0};
    ct_frames_begin(&f, true, on_lost, &m);
    for (uint32_t depth = 0; depth < CALLS; depth++)
        open_call(&f, depth);
    for (uint32_t depth = CALLS; depth-- > AGAIN;)
        close_call(&f, depth);
    for (uint32_t depth = AGAIN; depth < 2 * CALLS; depth++)
        open_call(&f, depth);
    for (uint32_t depth = 2 * CALLS; depth-- > 0;)
        close_call(&f, depth);
    assert_int_equal(f.count, 0);
    assert_int_equal(m.lost, 0);
    ct_frames_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_lost),
        cmocka_unit_test(gaps_that_are_told_of),
        cmocka_unit_test(gaps_that_nobody_told_of),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(many_open_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
