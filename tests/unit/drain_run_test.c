/* SPDX-License-Identifier: Apache-2.0 */
/* The drain's fast path packs what the long way packs, and leaves the thread in the same state: whatever events a
 * target may send, in whatever order, with whatever times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "abi/event.h"
#include "drain/drain.h"
#include "drain/shapes.h"
#include "drain/times.h"
#include "random_util.h"
#include "trace/packed_block.h"
#include "trace/packed_columns.h"

#define TID    7u
#define HOOKS  3000u
#define EVENTS (3 * CT_PACK_EVENTS)
#define ROUNDS 40

static uint64_t function_ids[HOOKS];
static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t pick(uint32_t limit) {
    return (uint32_t)(random_next(&state) >> 33) % limit;
}

/* ---- events ---- */

struct source {
    uint32_t stack[200], depth, hooks;
    uint32_t odd;    /* one of this many events is not what a program would do; 0: none is */
    uint32_t number; /* of the last detail record */
    bool numbered;
    uint64_t counter;
};

static uint64_t next_counter(struct source *s) {
    static const uint64_t wild[] = {1, UINT64_MAX, UINT64_MAX / 2, UINT64_MAX / 2 + 2, 1u << 31, UINT64_C(1) << 33};
    uint32_t kind = s->odd ? pick(8 * s->odd) : 8;
    if (kind < 3)
        return wild[pick(sizeof wild / sizeof *wild)];
    if (kind < 5)
        return s->counter - pick(3000);
    s->counter += pick(10) ? pick(100) : pick(3) ? pick(100000) : pick(UINT32_MAX);
    return s->counter;
}

static struct ct_event make_odd(struct source *s) {
    static const uint32_t kinds[] = {CT_EVENT_EXCEPTION, CT_EVENT_ENTRY,  CT_EVENT_VOID,  CT_EVENT_STACK,
                                     CT_EVENT_CALL,      CT_EVENT_RETURN, CT_EVENT_BLOCK, 7};
    uint32_t kind = kinds[pick(8)], hook = pick(3) ? pick(s->hooks) : pick(UINT32_MAX);
    if (kind == CT_EVENT_STACK)
        hook = pick(3) ? 0 : pick(3);
    return (struct ct_event){next_counter(s), hook, kind | (pick(3) ? 0 : pick(1u << 28) * CT_TAG_STEP)};
}

static struct ct_event make_event(struct source *s) {
    if (s->odd && !pick(s->odd))
        return make_odd(s);
    bool call = !s->depth || (s->depth < 200 && pick(2));
    uint32_t hook = call ? pick(s->hooks) : s->stack[--s->depth];
    if (call)
        s->stack[s->depth++] = hook;
    s->number = (s->number + 1) % (1u << 28);
    return (struct ct_event){next_counter(s), hook,
                             (call ? CT_EVENT_CALL : CT_EVENT_RETURN) + (s->numbered ? s->number * CT_TAG_STEP : 0)};
}

static struct ct_event *make_events(struct source *s) {
    struct ct_event *events = malloc(EVENTS * sizeof *events);
    for (size_t i = 0; i < EVENTS; i++) {
        events[i] = make_event(s);
        events[i].timestamp += !events[i].timestamp;
    }
    return events;
}

/* ---- both ways ---- */

struct side {
    struct ct_drain d;
    struct ct_drain_thread t;
    struct ct_pack *pack;
    struct atf_index_event *out;
    size_t count;
    bool one_by_one;
};

static struct ct_clock test_clock = {.count = 2, .newest = {UINT64_C(1) << 40, UINT64_C(1) << 41}, .rate = 0.4347};
static struct ct_detail detail;

static void start_side(struct side *s, bool one_by_one, bool with_detail) {
    *s = (struct side){.one_by_one = one_by_one, .pack = ct_pack_take(), .out = malloc(EVENTS * sizeof *s->out)};
    s->d.clock = &test_clock;
    s->d.function_ids = function_ids;
    s->d.hook_count = HOOKS;
    s->d.detail = with_detail ? &detail : NULL;
    s->t.tid = TID;
    ct_pack_begin(s->pack, TID);
}

/* Ends the block and appends its events to those of the side. */
static void end_block(struct side *s) {
    struct ct_unpack unpack = {0};
    size_t size, done;
    if (!ct_pack_columns(s->pack)->count)
        return;
    ct_pack_columns(s->pack)->plain_times = !s->one_by_one && s->count % 3 == 0; /* no reader sees a difference */
    const uint8_t *block = ct_pack_end(s->pack, 0, &size);
    assert_true(ct_block_intact(block));
    assert_int_equal(ct_unpack_begin(&unpack, block, TID), 0);
    assert_int_equal(ct_unpack_events(&unpack, s->out + s->count, CT_PACK_EVENTS, &done), 0);
    assert_true(unpack.shape == unpack.shape_end && unpack.time == unpack.time_end && unpack.odd == unpack.odd_end);
    assert_int_equal(s->out[s->count + done - 1].timestamp_ns, ct_pack_columns(s->pack)->last_ns);
    s->count += done;
    ct_unpack_free(&unpack);
    ct_pack_begin(s->pack, TID);
}

static void take_events(struct side *s, const struct ct_event *events, size_t count) {
    while (count) {
        size_t room = CT_PACK_EVENTS - ct_pack_columns(s->pack)->count, n = count < room ? count : room;
        s->t.events += ct_drain_pack(&s->d, &s->t, s->pack, events, n, s->one_by_one);
        events += n;
        count -= n;
        if (ct_pack_columns(s->pack)->count == CT_PACK_EVENTS)
            end_block(s);
    }
}

static void assert_same(const struct side *a, const struct side *b) {
    const struct ct_detail_thread *x = &a->t.detail, *y = &b->t.detail;
    assert_int_equal(a->t.events, b->t.events);
    assert_int_equal(a->t.last_ns, b->t.last_ns);
    assert_int_equal(a->t.depth, b->t.depth);
    assert_int_equal(a->t.unknown, b->t.unknown);
    assert_int_equal(a->t.abandoned, b->t.abandoned);
    assert_int_equal(a->d.own.time_start, b->d.own.time_start);
    assert_int_equal(a->t.stack_capacity, b->t.stack_capacity);
    size_t known = a->t.depth - a->t.unknown;
    known = known < a->t.stack_capacity ? known : a->t.stack_capacity;
    if (known)
        assert_memory_equal(a->t.stack + 1, b->t.stack + 1, known * sizeof *a->t.stack);
    assert_int_equal(x->newest, y->newest);
    assert_int_equal(x->newest_ns, y->newest_ns);
    assert_int_equal(x->first_ns, y->first_ns);
    assert_int_equal(x->run_count, y->run_count);
    assert_memory_equal(x->runs, y->runs, x->run_count * sizeof *x->runs);
}

static void end_side(struct side *s) {
    ct_drain_stacks_free(&s->d, &s->t);
    ct_detail_free_calls(&s->t.detail);
    free(s->t.detail.runs);
    free(s->t.stack);
    free(s->out);
    ct_pack_give(s->pack);
}

static size_t compare_ways(struct source *source, bool with_detail) {
    struct ct_event *events = make_events(source);
    struct side fast, slow;
    start_side(&fast, false, with_detail);
    start_side(&slow, true, with_detail);
    for (size_t at = 0, n; at < EVENTS; at += n) {
        n = 1 + pick(1000);
        n = n < EVENTS - at ? n : EVENTS - at;
        take_events(&fast, events + at, n);
        take_events(&slow, events + at, n);
        if (source->odd && !pick(20)) { /* events are missing here */
            uint32_t depth = pick(50);
            ct_drain_note_gap(&fast.d, &fast.t, 1, CT_LOSS_DRAIN_LAG, depth);
            ct_drain_note_gap(&slow.d, &slow.t, 1, CT_LOSS_DRAIN_LAG, depth);
        }
        assert_same(&fast, &slow);
    }
    end_block(&fast);
    end_block(&slow);
    assert_int_equal(fast.count, slow.count);
    assert_memory_equal(fast.out, slow.out, slow.count * sizeof *slow.out);
    size_t count = slow.count;
    free(fast.t.gaps);
    free(slow.t.gaps);
    end_side(&fast);
    end_side(&slow);
    free(events);
    return count;
}

static void packs_what_the_long_way_packs(void **unused) {
    (void)unused;
    for (uint32_t i = 0; i < HOOKS; i++)
        function_ids[i] = i % 37 ? UINT64_C(1) << 32 | i / 2 : 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct source s = {.hooks = round % 4 ? 30 + pick(200) : HOOKS,
                           .odd = round % 3 ? 3 + pick(300) : 0,
                           .numbered = round % 2,
                           .number = round % 8 == 7 ? (1u << 28) - 5000 : 0,
                           .counter = test_clock.newest.counter - 1000000};
        ct_drain_shapes_singly = round / 2 % 4 == 0;
        size_t count = compare_ways(&s, round % 2 || round % 5 == 0);
        assert_true(s.odd || count == EVENTS);
    }
    ct_drain_shapes_singly = false;
}

/* Slots that were given up are zero but for their time, and so is what the fast path expects after nothing. */
static void void_events_end_no_call(void **unused) {
    (void)unused;
    enum { COUNT = 600 };
    static const uint32_t kinds[] = {CT_EVENT_CALL, CT_EVENT_RETURN, CT_EVENT_VOID, CT_EVENT_CALL,
                                     CT_EVENT_CALL, CT_EVENT_VOID,   CT_EVENT_VOID, CT_EVENT_RETURN};
    struct ct_event events[COUNT];
    struct side fast, slow;
    for (uint32_t i = 0; i < HOOKS; i++)
        function_ids[i] = i + 1;
    for (uint32_t i = 0; i < COUNT; i++) /* all of hook 0, from an empty stack on */
        events[i] = (struct ct_event){(UINT64_C(1) << 40) + i, 0, kinds[i < COUNT / 2 ? i % 3 : i % 8]};
    start_side(&fast, false, false);
    start_side(&slow, true, false);
    take_events(&fast, events, COUNT);
    take_events(&slow, events, COUNT);
    assert_same(&fast, &slow);
    end_block(&fast);
    end_block(&slow);
    assert_int_equal(fast.count, slow.count);
    assert_memory_equal(fast.out, slow.out, slow.count * sizeof *slow.out);
    end_side(&fast);
    end_side(&slow);
}

/* Eight events after a run without numbers have one, and all the same: what a program never sends. */
static void numbers_do_not_begin_in_a_run(void **unused) {
    (void)unused;
    enum { WARM = 200, RUN = 16, COUNT = WARM + RUN + 8, NEW = 1 };
    struct ct_event events[COUNT];
    struct side fast, slow;
    for (uint32_t i = 0; i < HOOKS; i++)
        function_ids[i] = i + 1;
    for (uint32_t i = 0; i < COUNT; i++)
        events[i] = (struct ct_event){test_clock.newest.counter + i, 0, i % 2 ? CT_EVENT_RETURN : CT_EVENT_CALL};
    events[WARM + RUN - 2].hook = events[WARM + RUN - 1].hook = NEW; /* done one by one, with what is around it */
    for (uint32_t i = WARM + RUN; i < COUNT; i++)
        events[i].kind += RUN * CT_TAG_STEP;
    start_side(&fast, false, true);
    start_side(&slow, true, true);
    take_events(&fast, events, WARM);
    take_events(&fast, events + WARM, COUNT - WARM);
    take_events(&slow, events, COUNT);
    assert_same(&fast, &slow);
    end_block(&fast);
    end_block(&slow);
    assert_memory_equal(fast.out, slow.out, slow.count * sizeof *slow.out);
    end_side(&fast);
    end_side(&slow);
}

static uint64_t resolve_small(void *arg, uint32_t hook) {
    (void)arg;
    assert_true(hook < HOOKS); /* what numbers of blocks and stacks mean as functions is kept for ever */
    return hook + 1;
}

static void only_hooks_of_functions_are_looked_up(void **unused) {
    (void)unused;
    enum { COUNT = 700 };
    static const uint32_t kinds[] = {CT_EVENT_STACK, CT_EVENT_BLOCK, CT_EVENT_PART, CT_EVENT_COMPILED};
    struct ct_event events[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        bool other = i % 7 == 6;
        events[i] = (struct ct_event){test_clock.newest.counter + i, other ? 100000 + i : i % 7 / 2,
                                      other   ? kinds[i / 7 % 4]
                                      : i % 2 ? CT_EVENT_RETURN
                                              : CT_EVENT_CALL};
    }
    for (unsigned one_by_one = 0; one_by_one < 2; one_by_one++) {
        struct side side;
        start_side(&side, one_by_one, false);
        side.d.resolve = resolve_small;
        take_events(&side, events, COUNT);
        end_block(&side);
        end_side(&side);
    }
}

/* ---- many at once ---- */

#ifdef __x86_64__

enum { OPEN = 20 };
static const uint64_t number_step = (uint64_t)CT_TAG_STEP << 32;

struct group {
    struct ct_pack_code codes[CT_PACK_CODES];
    struct ct_event events[8];
    uint64_t expected[OPEN + 10];
    uint32_t hooks[OPEN + 10], stack[OPEN + 10], depth, low;
    uint8_t right[16], *end, bytes[32];
};

/* Calls and returns as the bits of `calls` say, with OPEN calls before them, and what is right for them. */
static void make_group(struct group *g, unsigned calls) {
    *g = (struct group){.depth = OPEN, .low = OPEN, .end = g->right};
    for (uint32_t i = 0; i < CT_PACK_CODES; i++)
        g->codes[i] = (struct ct_pack_code){i, i, i < 512 ? i & 255 : (i & 255) << 8 | 7 | 1u << 16};
    for (uint32_t i = 1; i <= OPEN; i++) {
        g->stack[i] = g->hooks[i] = i;
        g->expected[i] = (uint64_t)CT_EVENT_RETURN << 32 | i;
    }
    for (unsigned i = 0; i < 8; i++) {
        bool call = calls >> i & 1;
        uint32_t hook = call ? 30 + calls * 3 + i : g->stack[g->depth--], kind = call ? CT_EVENT_CALL : CT_EVENT_RETURN;
        uint32_t bytes = call ? g->codes[hook].bytes : 0;
        g->stack[g->depth + 1] = call ? hook : g->stack[g->depth + 1];
        g->depth += call;
        g->low = g->depth < g->low ? g->depth : g->low;
        g->events[i] = (struct ct_event){1, hook, kind + (100 + i) * CT_TAG_STEP};
        memcpy(g->end, &bytes, 2);
        g->end += 1 + (bytes >> 16);
    }
}

static size_t put_group(struct group *g, struct ct_drain_shapes *s) {
    *s = (struct ct_drain_shapes){g->codes, g->expected, g->hooks, g->bytes, OPEN, OPEN, 2};
    return ct_drain_put_shapes(s, g->events, 8, 100 * number_step, number_step);
}

static void groups_are_taken(void **unused) {
    (void)unused;
    static struct group g;
    struct ct_drain_shapes s;
    if (!__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
        skip();
    for (unsigned calls = 0; calls < 256; calls++) {
        make_group(&g, calls);
        assert_int_equal(put_group(&g, &s), 8);
        assert_int_equal(s.used, g.depth);
        assert_int_equal(s.low, g.low);
        assert_int_equal(s.call, calls >> 7);
        assert_int_equal(s.shape - g.bytes, g.end - g.right);
        assert_memory_equal(g.bytes, g.right, (size_t)(g.end - g.right));
        assert_memory_equal(g.hooks + 1, g.stack + 1, g.depth * sizeof *g.hooks);
        for (uint32_t i = 1; i <= g.depth; i++)
            assert_int_equal(g.expected[i], (uint64_t)CT_EVENT_RETURN << 32 | g.stack[i]);
    }
}

/* One thing is wrong with a group: none of it is taken, and nothing is changed. */
static void other_groups_are_left(void **unused) {
    (void)unused;
    static struct group g, before;
    struct ct_drain_shapes s;
    for (unsigned wrong = 0; wrong < 6; wrong++) {
        make_group(&g, 0x05); /* the last of the four returns at its end is of OPEN - 3 */
        uint32_t *kind = &g.events[7].kind;
        *kind += wrong == 0 ? CT_TAG_STEP : wrong == 1 ? CT_EVENT_EXCEPTION - CT_EVENT_RETURN : 0;
        g.hooks[OPEN - 3] += wrong == 2;    /* the drain knows another call than the block */
        g.expected[OPEN - 3] += wrong == 3; /* and the other way round */
        g.events[3].hook += wrong == 4;
        g.codes[g.events[2].hook].key += wrong == 5;
        before = g;
        assert_int_equal(put_group(&g, &s), 0);
        assert_memory_equal(&g, &before, sizeof g);
        assert_int_equal(s.used, OPEN);
        assert_ptr_equal(s.shape, g.bytes);
    }
}

#endif

static void times_are_the_clocks(void **unused) {
    (void)unused;
    struct ct_event events[64];
    uint8_t bytes[2 * 64 + 16], right[sizeof bytes + 16];
    size_t taken = 0, wide = 0;
    for (unsigned round = 0; round < 20000; round++) {
        static const uint64_t starts[] = {0,
                                          1u << 30,
                                          UINT64_C(0xffffffff80000000),
                                          UINT64_C(1) << 31,
                                          2470000000,
                                          UINT64_C(1) << 62,
                                          UINT64_C(1) << 63};
        uint64_t counter = test_clock.newest.counter + starts[pick(7)] - pick(20000), last = 0, ns;
        uint32_t step = 1 + pick(600), leap = pick(2) ? pick(pick(8) ? 20000 : 200000) : 0, phase = pick(16);
        for (unsigned i = 0; i < 64; i++) {
            counter += pick(step) + (i % 16 == phase ? leap : 0);
            events[i].timestamp = pick(2000) ? counter : counter - pick(1000);
        }
        last = ns = ct_clock_ns(&test_clock, events[0].timestamp) - pick(300);
        uint8_t *end = bytes, *right_end = right;
        size_t n = ct_drain_put_times(&test_clock, events, 64, &end, &last);
        assert_true(n % CT_DRAIN_TIMES == 0 && n <= 64);
        for (size_t i = 0; i < n; i++) {
            uint64_t now = ct_clock_ns(&test_clock, events[i].timestamp);
            assert_true(now >= ns && now - ns < CT_PACK_LONG_TIME);
            right_end = ct_pack_time(right_end, now - ns);
            ns = now;
        }
        assert_int_equal(ns, last);
        assert_int_equal(end - bytes, right_end - right);
        assert_memory_equal(bytes, right, (size_t)(end - bytes));
        taken += n;
        wide += (size_t)(end - bytes) - n;
    }
#ifdef __x86_64__
    assert_true(taken > 100000 && wide > 10000); /* the others were out of its reach, by steps or distance */
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_what_the_long_way_packs),
        cmocka_unit_test(void_events_end_no_call),
        cmocka_unit_test(numbers_do_not_begin_in_a_run),
        cmocka_unit_test(only_hooks_of_functions_are_looked_up),
#ifdef __x86_64__
        cmocka_unit_test(groups_are_taken),
        cmocka_unit_test(other_groups_are_left),
#endif
        cmocka_unit_test(times_are_the_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
