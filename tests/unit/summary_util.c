/* SPDX-License-Identifier: Apache-2.0 */
#include "summary_util.h"
#include "base/json_write.h"
#include "packed_util.h"
#include "tests/tools/place_of.h"
#include "trace/segments.h"
#include "trace_util.h"
#include <contrail/session.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

enum { STACKS = 6, DEEP = 50, GAPS = 64, FLUSH = 700 };

struct program {
    const struct random_trace *setup;
    uint64_t calls[STACKS][DEEP];
    uint32_t depth[STACKS];
    unsigned stack; /* that runs */
    uint64_t ns, position;
    uint64_t gaps[GAPS];
    size_t gap_count;
};

static uint32_t depth_of(const struct program *p, uint32_t place) {
    return p->stack ? ATF_DEPTH_OF_GROUP(p->stack - 1) + place : place;
}

/* Some events are missing: other calls are open than before. */
static void lose_events(struct program *p, bool reported) {
    uint32_t depth = pick(20);
    for (uint32_t i = p->depth[0]; i < depth; i++)
        p->calls[0][i] = UINT64_C(1) << 32 | (RANDOM_ENTRY_ONLY + pick(RANDOM_FUNCTIONS - RANDOM_ENTRY_ONLY));
    memset(p->depth, 0, sizeof p->depth);
    p->depth[0] = depth;
    p->stack = 0;
    if (reported && p->gap_count < GAPS)
        p->gaps[p->gap_count++] = p->position;
}

static void take_turns(struct program *p) {
    if (p->setup->stacks && pick(20) == 0)
        p->stack = pick(p->setup->stacks + 1);
    if (p->setup->gaps && pick(100000) < p->setup->gaps)
        lose_events(p, true);
    else if (p->setup->silent && pick(100000) < p->setup->silent)
        lose_events(p, false);
}

static struct atf_index_event end_of(struct program *p, struct atf_index_event event) {
    uint64_t *calls = p->calls[p->stack];
    uint32_t *depth = &p->depth[p->stack], at = --*depth;
    if (!p->stack && p->setup->odd && pick(1000) < p->setup->odd)
        at = pick(*depth + 1);
    event.event_kind = pick(30) ? ATF_RETURN : ATF_EXCEPTION;
    event.function_id = calls[at];
    event.call_depth = depth_of(p, at);
    memmove(&calls[at], &calls[at + 1], (*depth - at) * sizeof *calls);
    return event;
}

static struct atf_index_event next_event(struct program *p, uint32_t tid) {
    take_turns(p);
    uint32_t what = pick(1000), *depth = &p->depth[p->stack];
    p->ns += what % 9 ? pick(90) : pick(4000);
    struct atf_index_event event = {.timestamp_ns = p->ns, .thread_id = tid, .detail_seq = ATF_NO_DETAIL};
    if (p->setup->back && what == 500)
        event.timestamp_ns -= 50;
    p->position++;
    event.call_depth = depth_of(p, *depth);
    if (what < 3 && !p->setup->calm) { /* a signal */
        event.event_kind = ATF_EXCEPTION;
        return event;
    }
    event.event_kind = ATF_CALL;
    if (what < 30) {
        event.function_id = UINT64_C(1) << 32 | pick(RANDOM_ENTRY_ONLY);
        return event;
    }
    if (*depth == DEEP || (*depth && what > 515))
        return end_of(p, event);
    /* Each part of the program uses functions of its own for a while. */
    uint32_t family = (uint32_t)(p->position / 5000 * 7 % 40) * 7;
    uint32_t function = RANDOM_ENTRY_ONLY + (family + pick(12)) % (RANDOM_FUNCTIONS - RANDOM_ENTRY_ONLY);
    event.function_id = p->calls[p->stack][(*depth)++] = UINT64_C(1) << 32 | function;
    return event;
}

static void write_thread(const char *directory, struct program *p, uint32_t id, struct ct_segments *segments) {
    const struct ct_trace_format format = {
        .encoding = p->setup->raw ? CT_SESSION_FORMAT_ATF2 : CT_SESSION_FORMAT_PACKED, .segments = segments};
    struct ct_thread_writer *writer;
    assert_int_equal(ct_thread_writer_open_as(&writer, place_of(directory), id, 7000 + id, &format), 0);
    for (size_t i = 0; i < p->setup->events; i++) {
        struct atf_index_event event = next_event(p, 7000 + id);
        write_events(writer, &event, 1);
        if (i % FLUSH == 0)
            ct_thread_writer_flush(writer);
    }
    assert_int_equal(ct_thread_writer_close(writer), 0);
}

static void write_symbols(const char *directory) {
    struct ct_symbols_writer *symbols;
    assert_int_equal(ct_symbols_writer_open(&symbols, place_of(directory)), 0);
    ct_symbols_writer_module(symbols, 1, "/usr/bin/random", "00", 0x1000);
    for (uint32_t i = 0; i < RANDOM_FUNCTIONS; i++)
        ct_symbols_writer_function(symbols, UINT64_C(1) << 32 | i, 64 * i, 64, in("f%u", i), "",
                                   i < RANDOM_ENTRY_ONLY ? "setjmp" : "");
    assert_int_equal(ct_symbols_writer_close(symbols), 0);
}

static void add_thread(struct ct_json *json, const struct program *p, uint32_t id) {
    ct_json_begin(json, NULL, '{');
    ct_json_number(json, "id", id);
    ct_json_number(json, "tid", 7000 + id);
    ct_json_string(json, "name", in("worker %u", id));
    ct_json_number(json, "events", p->setup->events);
    ct_json_number(json, "lost", p->gap_count);
    ct_json_begin(json, "gaps", '[');
    for (size_t i = 0; i < p->gap_count; i++) {
        ct_json_begin(json, NULL, '{');
        ct_json_number(json, "at", p->gaps[i]);
        ct_json_number(json, "lost", 1);
        ct_json_string(json, "reason", "DRAIN_LAG");
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
    ct_json_end(json, '}');
}

/* A fifth of the time of all events, roughly. */
static void add_waits(struct ct_json *json, const struct random_trace *setup) {
    ct_json_begin(json, "waits", '{');
    ct_json_begin(json, "list", '[');
    for (uint64_t i = 0; i < setup->waits; i++) {
        uint64_t turn = setup->events * 250 / setup->waits, from = 1000 + i * turn + pick((uint32_t)turn / 2);
        ct_json_begin(json, NULL, '[');
        ct_json_number(json, NULL, 0);
        ct_json_number(json, NULL, from);
        ct_json_number(json, NULL, from + turn / 5);
        ct_json_string(json, NULL, "stop");
        ct_json_end(json, ']');
    }
    ct_json_end(json, ']');
    ct_json_end(json, '}');
}

/* Cuts the end off the file, as if the recorder had been killed. */
static void cut_file(const char *directory, uint32_t id) {
    size_t size;
    const char *path = in("%s/thread_%u/index.ctp", directory, id);
    uint8_t *bytes = load(path, &size);
    store(path, bytes, size - 70);
    free(bytes);
}

void write_random(const char *directory, const struct random_trace *setup) {
    struct ct_segments *segments = setup->keep ? ct_segments_create(setup->keep, 0) : NULL;
    struct ct_json json = {.lines = true};
    seed(setup->seed);
    mkdir(directory, 0700);
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "format", setup->raw ? "atf2" : "packed");
    ct_json_bool(&json, "complete", !setup->unfinished);
    ct_json_number(&json, "pid", 321);
    ct_json_number(&json, "time_start_ns", 900);
    if (setup->keep) {
        ct_json_begin(&json, "keep", '{');
        ct_json_end(&json, '}');
    }
    if (setup->waits)
        add_waits(&json, setup);
    ct_json_begin(&json, "threads", '[');
    for (uint32_t id = 1; id <= setup->threads; id++) {
        struct program *p = calloc(1, sizeof *p);
        assert_non_null(p);
        p->setup = setup;
        p->ns = 1000;
        write_thread(directory, p, id, segments);
        add_thread(&json, p, id);
        free(p);
        if (setup->unfinished)
            cut_file(directory, id);
    }
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    assert_int_equal(ct_trace_write_manifest(place_of(directory), &json), 0);
    ct_json_free(&json);
    write_symbols(directory);
    if (segments)
        ct_segments_free(segments);
}
