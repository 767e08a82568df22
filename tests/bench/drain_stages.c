/* SPDX-License-Identifier: Apache-2.0 */
/* Where the drain's time goes, in ns per event. Owner: the main thread.
 *
 * "all, memory is full": the events are in shared memory before the drain begins, so nothing waits for a producer.
 * "all, sustained": a producer that needs no time stamps fills chunks as fast as the drain frees them, on another
 * core. Each figure is the best of several rounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../unit/lane_util.h"
#include "drain_stages.h"
#include "os/thread.h"
#include "trace/file.h"
#include "trace/packed_block.h"

#define MOST      (2u << 20)
#define FUNCTIONS 200u
#define ROUNDS    7
#define SUSTAINED 16u /* times all events */

struct program {
    const char *name;
    struct ct_event *events; /* times are ns, from 0 on */
    size_t count;
    uint64_t span_ns;
};

static double seconds(void) {
    return (double)ct_clock_now() * 1e-9;
}

/* ---- events ---- */

static uint32_t pick(uint32_t limit) {
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % limit;
}

/* Functions that call nothing, one after the other. */
static struct program make_flat(void) {
    struct program p = {"flat", malloc(MOST * sizeof(struct ct_event)), MOST, 0};
    for (size_t i = 0; i < MOST; i++) {
        p.span_ns += 11 + pick(3);
        p.events[i] = (struct ct_event){p.span_ns, (uint32_t)(i / 2 % 40), i % 2 ? CT_EVENT_RETURN : CT_EVENT_CALL};
    }
    return p;
}

/* Functions that each call some others: nobody can guess whether a call or a return is next. */
static struct program make_random(void) {
    struct program p = {"random tree", malloc(MOST * sizeof(struct ct_event)), MOST, 0};
    uint32_t stack[40], depth = 0;
    for (size_t i = 0; i < MOST; i++) {
        p.span_ns += 12 + pick(60);
        bool call = depth == 0 || (depth < 40 && pick(100) < 50);
        uint32_t hook = call ? (depth ? stack[depth - 1] * 5 + pick(3) + 1 : pick(2)) % FUNCTIONS : stack[--depth];
        p.events[i] = (struct ct_event){p.span_ns, hook, call ? CT_EVENT_CALL : CT_EVENT_RETURN};
        if (call)
            stack[depth++] = hook;
    }
    return p;
}

/* Hook numbers of a recorded file: functions in the order of their first call. */
static uint32_t number_of(uint64_t *known, uint32_t *numbers, uint32_t *next, uint64_t function) {
    uint32_t at = (uint32_t)(function * 0x9e3779b97f4a7c15u >> 44);
    while (known[at] && known[at] != function + 1)
        at = (at + 1) & 0xfffff;
    if (!known[at]) {
        known[at] = function + 1;
        numbers[at] = (*next)++;
    }
    return numbers[at];
}

static struct program load(const char *path) {
    char *bytes;
    size_t size;
    if (ct_file_load(path, SIZE_MAX, &bytes, &size) != 0 || size < 128 || memcmp(bytes, ATF_INDEX_MAGIC, 4) != 0) {
        printf("%s is not a raw index file\n", path);
        exit(1);
    }
    const struct atf_index_event *from = (const struct atf_index_event *)(bytes + 64);
    size_t count = (size - 128) / sizeof *from;
    struct program p = {path, malloc(MOST * sizeof(struct ct_event)), count < MOST ? count : MOST, 0};
    from += (count - p.count) / 2;
    uint64_t *known = calloc(1u << 20, sizeof *known);
    uint32_t *numbers = calloc(1u << 20, sizeof *numbers), next = 0;
    for (size_t i = 0; i < p.count; i++) {
        p.span_ns = from[i].timestamp_ns - from[0].timestamp_ns + 1;
        p.events[i] =
            (struct ct_event){p.span_ns, number_of(known, numbers, &next, from[i].function_id), from[i].event_kind};
    }
    free(known);
    free(numbers);
    free(bytes);
    return p;
}

/* ---- all in ---- */

/* Fills whole chunks without the cost of a stub. */
static void produce(struct lane_fixture *f, struct ct_block *b, const struct program *p, uint64_t start_ns) {
    double counts = ct_clock_hz(&f->clock) * 1e-9;
    for (size_t i = 0; i < p->count;) {
        struct ct_event *to = ct_event_reserve(b, CT_EVENT_CALL, NULL);
        size_t room = 1 + lane_room(f, b), n = room < p->count - i ? room : p->count - i;
        b->cursor += (n - 1) * sizeof *to;
        for (size_t k = 0; k < n; k++, i++) {
            to[k].hook = p->events[i].hook;
            to[k].kind = p->events[i].kind;
            uint64_t counter =
                f->clock.first.counter + (uint64_t)((double)(start_ns + p->events[i].timestamp) * counts);
            __atomic_store_n(&to[k].timestamp, counter, __ATOMIC_RELEASE);
        }
    }
}

static void prepare(struct lane_fixture *f, size_t memory) {
    lane_start(f, memory, true, 0);
    lane_prepare_drain(f);
    f->drain.format.encoding = CT_SESSION_FORMAT_PACKED;
    f->drain.interval_ms = 5;
}

static double drain_full(const struct program *p, uint64_t *bytes) {
    struct lane_fixture f;
    prepare(&f, 3 * (size_t)MOST * sizeof(struct ct_event));
    struct ct_block *b = lane_thread(&f);
    produce(&f, b, p, 0);
    lane_thread_ends(b);
    double start = seconds();
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(ct_drain_finish(&f.drain), 0);
    double spent = seconds() - start;
    assert_int_equal(f.drain.statistics.events, p->count);
    *bytes = f.drain.statistics.bytes_written;
    lane_end(&f);
    return spent / (double)p->count * 1e9;
}

static double drain_sustained(const struct program *p) {
    struct lane_fixture f;
    prepare(&f, 32u << 20);
    struct ct_block *b = lane_thread(&f);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    double start = seconds();
    for (unsigned i = 0; i < SUSTAINED; i++)
        produce(&f, b, p, i * p->span_ns);
    double spent = seconds() - start;
    lane_thread_ends(b);
    assert_int_equal(ct_drain_finish(&f.drain), 0);
    assert_int_equal(f.drain.statistics.events, SUSTAINED * p->count);
    lane_end(&f);
    return spent / (double)(SUSTAINED * p->count) * 1e9;
}

/* ---- stages ---- */

enum { COPY, CLEAR, SHAPES, LONG_WAY, COMPRESS, SUM, STAGES };
static const char *const stage_names[STAGES] = {
    [COPY] = "look and copy",          [CLEAR] = "clear",       [SHAPES] = "depths, times, columns",
    [LONG_WAY] = "the same, by event", [COMPRESS] = "compress", [SUM] = "checksum, out of these"};

/* Events in chunks, as in shared memory but private, with counters instead of times. */
static struct ct_event *make_slots(const struct lane_fixture *f, const struct program *p) {
    struct ct_event *slots = malloc(p->count * sizeof *slots);
    double counts = ct_clock_hz(&f->clock) * 1e-9;
    for (size_t i = 0; i < p->count; i++) {
        slots[i] = p->events[i];
        slots[i].timestamp = f->clock.newest.counter + (uint64_t)((double)p->events[i].timestamp * counts);
    }
    return slots;
}

/* A thread of a drain that does not run. */
static void reset_thread(struct ct_drain_thread *t) {
    uint32_t *stack = t->stack ? t->stack : malloc(4096 * sizeof *stack);
    *t = (struct ct_drain_thread){.tid = 7, .stack = stack, .stack_capacity = 4096};
}

static double time_columns(struct lane_fixture *f, const struct ct_event *slots, size_t count, bool long_way,
                           double *compress, double *sum) {
    struct ct_drain_thread t = {0};
    struct ct_pack *pack = ct_pack_take();
    double spent = 0, start;
    size_t size;
    reset_thread(&t);
    for (size_t at = 0; at < count; at += CT_PACK_EVENTS) {
        size_t n = count - at < CT_PACK_EVENTS ? count - at : CT_PACK_EVENTS;
        start = seconds();
        ct_pack_begin(pack, 7);
        ct_drain_pack(&f->drain, &t, pack, slots + at, n, long_way);
        spent += seconds() - start;
        start = seconds();
        const uint8_t *block = ct_pack_end(pack, at, &size);
        *compress += seconds() - start;
        start = seconds();
        assert_true(ct_block_intact(block));
        *sum += seconds() - start;
    }
    ct_pack_give(pack);
    free(t.stack);
    return spent;
}

static void measure_parts(const struct program *p) {
    struct lane_fixture f;
    double best[STAGES], ns = 1e9 / (double)p->count;
    prepare(&f, 1u << 20);
    struct ct_event *slots = make_slots(&f, p), *copy = malloc(f.lane.chunk_bytes);
    for (int i = 0; i < STAGES; i++)
        best[i] = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double now[STAGES] = {0}, unused = 0;
        now[SHAPES] = time_columns(&f, slots, p->count, false, &now[COMPRESS], &now[SUM]);
        now[LONG_WAY] = time_columns(&f, slots, p->count, true, &unused, &unused);
        for (int i = 0; i < STAGES; i++)
            best[i] = now[i] * ns < best[i] ? now[i] * ns : best[i];
    }
    for (int i = 0; i < STAGES; i++)
        printf("  %-24s %6.2f ns\n", stage_names[i], best[i]);
    free(slots);
    free(copy);
    lane_end(&f);
}

static void measure(const struct program *p) {
    measure_parts(p);
    double full = 1e9, sustained = 1e9;
    uint64_t bytes = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double a = drain_full(p, &bytes), b = drain_sustained(p);
        full = a < full ? a : full;
        sustained = b < sustained ? b : sustained;
    }
    printf("%s: %.2f bytes per event\n", p->name, (double)bytes / (double)p->count);
    printf("  all, memory is full  %6.2f ns  %6.1f M events/s\n", full, 1e3 / full);
    printf("  all, sustained       %6.2f ns  %6.1f M events/s\n", sustained, 1e3 / sustained);
    free(p->events);
}

void measure_stages(char *const *paths, int count) {
    struct program flat = make_flat(), random = make_random();
    measure(&flat);
    measure(&random);
    for (int i = 0; i < count; i++) {
        struct program p = load(paths[i]);
        measure(&p);
    }
}
