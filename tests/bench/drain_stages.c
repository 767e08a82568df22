/* SPDX-License-Identifier: Apache-2.0 */
/* Where the drain's time goes, in ns per event. Owner: the main thread.
 *
 * "all, memory is full": the events are in shared memory before the drain begins, so nothing waits for a producer.
 * "all, sustained": a producer that needs no time stamps fills chunks as fast as the drain frees them, on another core.
 * "and a worker": with another thread that compresses (trace/pack_pool.h), which needs a third core to be worth it.
 * Each figure is the best of several rounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>
#include <cmocka.h>

#include "../unit/lane_util.h"
#include "abi/event.h"
#include "drain_stages.h"
#include "os/thread.h"
#include "trace/file.h"
#include "trace/pack_pool.h"
#include "trace/packed_block.h"

#define MOST      (2u << 20)
#define FUNCTIONS 200u
#define ROUNDS    5
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

/* The same with the fast clock, of functions that take longer: one of sixteen events has a time of its own. */
static struct program make_fast(void) {
    struct program p = make_flat();
    p.name = "fast clock";
    for (size_t i = 0; i < MOST; i++)
        p.events[i].timestamp = p.span_ns = i / 16 * 320 + i % 16;
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

static double drain_sustained(const struct program *p, unsigned workers, uint64_t *bytes) {
    struct lane_fixture f;
    prepare(&f, 32u << 20);
    ct_pack_pool_open(workers); /* the drain's own call changes nothing then */
    struct ct_block *b = lane_thread(&f);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    double start = seconds();
    for (unsigned i = 0; i < SUSTAINED; i++)
        produce(&f, b, p, i * p->span_ns);
    double spent = seconds() - start;
    lane_thread_ends(b);
    assert_int_equal(ct_drain_finish(&f.drain), 0);
    assert_int_equal(f.drain.statistics.events, SUSTAINED * p->count);
    *bytes = f.drain.statistics.bytes_written / SUSTAINED;
    ct_pack_pool_close();
    lane_end(&f);
    return spent / (double)(SUSTAINED * p->count) * 1e9;
}

/* ---- stages ---- */

enum { COPY, COLUMNS, ONE_BY_ONE, NUMBERED, COMPRESS, SUM, WRITE, CLEAR, STAGES };
static const char *const stage_names[STAGES] = {[COPY] = "look and copy",
                                                [COLUMNS] = "depths, times, columns",
                                                [ONE_BY_ONE] = "  the same, by event",
                                                [NUMBERED] = "  with detail",
                                                [COMPRESS] = "compress, checksum",
                                                [SUM] = "  of this, checksum",
                                                [WRITE] = "write",
                                                [CLEAR] = "clear"};

/* Events as in shared memory but private, with counters instead of times. */
static struct ct_event *make_slots(const struct lane_fixture *f, const struct program *p) {
    struct ct_event *slots = malloc(p->count * sizeof *slots);
    double counts = ct_clock_hz(&f->clock) * 1e-9;
    for (size_t i = 0; i < p->count; i++) {
        slots[i] = p->events[i];
        slots[i].timestamp = f->clock.newest.counter + (uint64_t)((double)p->events[i].timestamp * counts);
    }
    return slots;
}

/* Adds the time since *last to a stage. The clock costs 30 ns, and there are 512 events between two looks. */
static void lap(double *stage, double *last) {
    double now = seconds();
    *stage += now - *last;
    *last = now;
}

static void time_stages(struct lane_fixture *f, struct ct_event *slots, size_t count, double *spent) {
    static struct ct_detail detail;
    struct ct_drain_thread t[3] = {0};
    struct ct_pack *pack[3] = {ct_pack_take(), ct_pack_take(), ct_pack_take()};
    uint32_t chunk = ct_lane_capacity(&f->lane), end;
    struct ct_event *copy = malloc(f->lane.chunk_bytes);
    int file = open(f->directory, O_TMPFILE | O_WRONLY, 0600);
    size_t size;
    for (int way = 0; way < 3; way++) {
        t[way] = (struct ct_drain_thread){.tid = 7};
        ct_pack_begin(pack[way], 7);
    }
    for (size_t at = 0; at < count; at += chunk) {
        size_t n = count - at < chunk ? count - at : chunk;
        double last = seconds();
        end = ct_lane_copy_filled(copy, slots + at, 0, (uint32_t)n);
        lap(&spent[COPY], &last);
        assert_int_equal(end, n);
        ct_drain_pack(&f->drain, &t[0], pack[0], copy, n, false);
        lap(&spent[COLUMNS], &last);
        ct_drain_pack(&f->drain, &t[1], pack[1], copy, n, true);
        lap(&spent[ONE_BY_ONE], &last);
        for (size_t i = 0; i < n; i++)
            copy[i].kind |= (uint32_t)(at + i + 1) * CT_TAG_STEP;
        f->drain.detail = &detail;
        last = seconds();
        t[2].events += ct_drain_pack(&f->drain, &t[2], pack[2], copy, n, false);
        lap(&spent[NUMBERED], &last);
        f->drain.detail = NULL;
        memset(slots + at, 0, n * sizeof *slots);
        lap(&spent[CLEAR], &last);
        if ((at / chunk + 1) % (CT_PACK_EVENTS / chunk) && at + n < count)
            continue;
        const uint8_t *block = ct_pack_end(pack[0], at, &size);
        lap(&spent[COMPRESS], &last);
        assert_true(ct_block_intact(block));
        lap(&spent[SUM], &last);
        assert_int_equal(write(file, block, size), size);
        lap(&spent[WRITE], &last);
        for (int way = 0; way < 3; way++)
            ct_pack_begin(pack[way], 7);
    }
    for (int way = 0; way < 3; way++) {
        ct_pack_give(pack[way]);
        free(t[way].stack);
    }
    ct_detail_free_calls(&t[2].detail);
    free(t[2].detail.runs);
    close(file);
    free(copy);
}

static void measure_stages_of(const struct program *p) {
    struct lane_fixture f;
    double best[STAGES], ns = 1e9 / (double)p->count;
    prepare(&f, 32u << 20);
    for (int i = 0; i < STAGES; i++)
        best[i] = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double now[STAGES] = {0};
        struct ct_event *slots = make_slots(&f, p);
        time_stages(&f, slots, p->count, now);
        free(slots);
        for (int i = 0; i < STAGES; i++)
            best[i] = now[i] * ns < best[i] ? now[i] * ns : best[i];
    }
    for (int i = 0; i < STAGES; i++)
        printf("  %-24s %6.2f ns\n", stage_names[i], best[i]);
    printf("  by event / as a run      %6.2f\n", best[ONE_BY_ONE] / best[COLUMNS]);
    lane_end(&f);
}

static void print_all(const char *what, double ns, uint64_t bytes, size_t count) {
    printf("  %-24s %6.2f ns  %6.1f M events/s, %.2f bytes per event\n", what, ns, 1e3 / ns,
           (double)bytes / (double)count);
}

static void measure(const struct program *p) {
    double full = 1e9, sustained[2] = {1e9, 1e9}, now;
    uint64_t bytes[3] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        full = (now = drain_full(p, &bytes[2])) < full ? now : full;
        for (unsigned workers = 0; workers < 2; workers++)
            if ((now = drain_sustained(p, workers, &bytes[workers])) < sustained[workers])
                sustained[workers] = now;
    }
    printf("%s\n", p->name);
    measure_stages_of(p);
    print_all("all, memory is full", full, bytes[2], p->count);
    print_all("all, sustained", sustained[0], bytes[0], p->count);
    print_all("all, and a worker", sustained[1], bytes[1], p->count);
    free(p->events);
}

void measure_stages(char *const *paths, int count) {
    struct program flat = make_flat(), fast = make_fast(), random = make_random();
    measure(&flat);
    measure(&fast);
    measure(&random);
    for (int i = 0; i < count; i++) {
        struct program p = load(paths[i]);
        measure(&p);
    }
}
