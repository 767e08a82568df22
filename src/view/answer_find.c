/* SPDX-License-Identifier: Apache-2.0 */
/* /api/hits and /api/latency: where calls of one function are, and how long they take.
 *
 * A function that is called seldom is found through the summaries. Of one that is called all the time, in a long range,
 * counts are those of the summaries, spread over the places that have it (`estimated`), or of places that were looked
 * at (`sampled`). */
#include "query/calls.h"
#include "trace/reader.h"
#include "view/cells.h"
#include "view/choice.h"
#include "view/spread.h"
#include <stdlib.h>
#include <string.h>

#define MOST_EVENTS (UINT64_C(8) << 20) /* that are read for an answer */
enum { MOST_HEIGHT = 64, MOST_CALLS = 200, LOOKS = 64, STEPS = 4000 };

/* Calls `each` for the calls that are asked for, until it returns false. */
static int read_calls(struct ct_view_answer *a, const struct ct_ask *ask,
                      bool (*each)(void *arg, const struct ct_call_reader *r), void *arg) {
    struct ct_call_reader *r = calloc(1, sizeof *r);
    int status = r ? ct_call_reader_open(r, a->reader->source, ask) : CT_ERR_NO_MEMORY;
    bool more = true;
    while (!status && more && (status = ct_call_reader_next(r)) > 0) {
        more = each(arg, r);
        status = 0;
    }
    if (r)
        ct_call_reader_close(r);
    free(r);
    return status;
}

/* Events of the threads that have to be read to find the function. */
static uint64_t events_with(struct ct_view_answer *a, const struct ct_view_choice *c, uint64_t function,
                            size_t process) {
    struct ct_source *s = a->reader->source;
    uint64_t events = 0;
    for (size_t i = 0; i < ct_trace_thread_count(s->trace); i++) {
        const struct ct_summary *summary = s->summaries[i];
        if ((c->thread != SIZE_MAX && c->thread != i) || ct_trace_thread_at(s->trace, i)->process != process)
            continue;
        for (size_t k = 0; summary && k < ct_summary_span_count(summary); k++) {
            const struct cts_span *span = ct_summary_span(summary, k);
            if (span->time_last_ns >= c->from_ns && span->time_first_ns < c->to_ns &&
                ct_summary_may_have(summary, k, function))
                events += span->count;
        }
        if (!summary)
            events += ct_summary_position(s->trace, i, c->to_ns) - ct_summary_position(s->trace, i, c->from_ns);
    }
    return events;
}

/* ---- hits over time ---- */

struct hits {
    const struct ct_view_choice *c;
    uint64_t *columns;
    size_t width;
};

static bool count_hit(void *arg, const struct ct_call_reader *r) {
    struct hits *h = arg;
    h->columns[ct_view_column(h->c, r->call.began_ns, h->width)]++;
    return true;
}

static void put_columns(struct ct_view_answer *a, struct ct_view_choice *c, const struct ct_view_name *name) {
    uint64_t width = ct_view_number(a, "width", 1000);
    width = width < 1 ? 1 : width > CT_CELLS_WIDTH ? CT_CELLS_WIDTH : width;
    struct hits h = {.c = c, .width = (size_t)width, .columns = calloc((size_t)width, sizeof *h.columns)};
    bool many = events_with(a, c, name->function, name->process) > MOST_EVENTS;
    struct ct_ask ask;
    ct_view_choice_ask(c, a, &ask);
    int status = !h.columns ? CT_ERR_NO_MEMORY : many ? 0 : read_calls(a, &ask, count_hit, &h);
    if (many && h.columns)
        ct_view_spread(a, c, name, h.columns, h.width);
    if (status)
        ct_view_fail(a, status);
    ct_json_begin(&a->json, "columns", '[');
    for (size_t i = 0; h.columns && i < h.width; i++)
        ct_json_number(&a->json, NULL, h.columns[i]);
    ct_json_end(&a->json, ']');
    ct_json_bool(&a->json, "estimated", many);
    ct_view_put_time(a, "from", c->from_ns);
    ct_view_put_time(a, "to", c->to_ns);
    free(h.columns);
}

/* ---- the next one ---- */

/* Calls are in the order of their beginnings, and of their numbers where these are equal. */
struct place {
    uint64_t began_ns;
    int64_t id;
};

static bool is_before(struct place a, struct place b) {
    return a.began_ns != b.began_ns ? a.began_ns < b.began_ns : a.id < b.id;
}

struct next {
    bool last;         /* the last one is wanted */
    struct place from; /* of those before, or after, this one */
    bool found;
    size_t thread;
    struct ct_call call;
};

static struct place place_of(size_t thread, const struct ct_call *call) {
    return (struct place){call->began_ns, ct_source_call_id(thread, call->sequence)};
}

static bool take_next(void *arg, const struct ct_call_reader *r) {
    struct next *n = arg;
    struct place here = place_of(r->thread, &r->call), best = place_of(n->thread, &n->call);
    bool beyond = n->last ? is_before(here, n->from) : is_before(n->from, here);
    bool better = !n->found || (n->last ? is_before(best, here) : is_before(here, best));
    if (beyond && better) {
        n->found = true;
        n->thread = r->thread;
        n->call = r->call;
    }
    return true;
}

/* Looks in ranges that become longer: the first one that has calls has the nearest. */
static int find_next(struct ct_view_answer *a, struct ct_view_choice *c, struct next *n) {
    const struct ct_source *s = a->reader->source;
    uint64_t first = s->start_ns, end = ct_view_end(a), from_ns = n->from.began_ns + n->last;
    struct ct_ask ask;
    int status = 0;
    c->from_ns = first;
    c->to_ns = end;
    ct_view_choice_ask(c, a, &ask);
    for (uint64_t step = (end - first) / STEPS + 1, at = from_ns; !status && !n->found; step *= 4) {
        uint64_t low = n->last ? (at > first + step ? at - step : first) : at;
        uint64_t high = n->last ? at : (end > at && end - at > step ? at + step : end);
        if (low >= high)
            break;
        ask.ranges[CT_ASK_TIME] = (struct ct_ask_range){ct_source_time(s, low), ct_source_time(s, high) - 1};
        status = read_calls(a, &ask, take_next, n);
        at = n->last ? low : high;
    }
    return status;
}

static void put_next(struct ct_view_answer *a, struct ct_view_choice *c) {
    bool last = ct_view_text(a, "before", NULL) != NULL;
    struct next n = {.last = last};
    n.from.began_ns = ct_view_time(a, last ? "before" : "after", a->reader->source->start_ns);
    n.from.began_ns -= !last && *ct_view_text(a, "after", "") == '-'; /* -1: before the beginning */
    n.from.id = (int64_t)ct_view_number(a, "call", last ? 0 : INT64_MAX);
    int status = find_next(a, c, &n);
    if (status) {
        ct_view_fail(a, status);
        return;
    }
    bool timed = n.call.end != CT_CALL_LOST && n.call.end != CT_CALL_ENTRY;
    ct_json_signed(&a->json, "call", n.found ? ct_source_call_id(n.thread, n.call.sequence) : -1);
    if (!n.found)
        return;
    ct_json_number(&a->json, "thread", n.thread + 1);
    ct_view_put_time(a, "start", n.call.began_ns);
    ct_json_signed(&a->json, "duration", timed ? (int64_t)n.call.duration_ns : -1);
    ct_json_number(&a->json, "depth", n.call.depth);
}

static const struct ct_view_name *name_of(struct ct_view_answer *a) {
    uint64_t number = ct_view_number(a, "function", UINT32_MAX);
    const struct ct_view_name *name =
        number < UINT32_MAX ? ct_view_names_get(&a->trace->names, (uint32_t)number) : NULL;
    if (!name)
        ct_view_refuse(a, 404, "the trace has no such function");
    return name;
}

void ct_view_answer_hits(struct ct_view_answer *a) {
    struct ct_view_choice c;
    const struct ct_view_name *name = name_of(a);
    if (!name)
        return;
    if (!ct_view_choose(&c, a)) {
    } else if (ct_view_text(a, "after", NULL) || ct_view_text(a, "before", NULL)) {
        put_next(a, &c);
    } else {
        put_columns(a, &c, name);
    }
    ct_view_choice_free(&c);
}

/* ---- latency ---- */

struct heat {
    const struct ct_view_choice *c;
    size_t width, height;
    unsigned low; /* power of two of the first bucket */
    uint64_t *counts;
    /* of one square: */
    bool single;
    size_t column, bucket;
    struct next *calls;
    size_t call_count;
};

static size_t bucket_of(const struct heat *h, uint64_t duration_ns) {
    unsigned power = ct_histogram_power(duration_ns);
    size_t bucket = power > h->low ? power - h->low : 0;
    return bucket < h->height ? bucket : h->height - 1;
}

static bool add_heat(void *arg, const struct ct_call_reader *r) {
    struct heat *h = arg;
    if (r->call.end == CT_CALL_LOST || r->call.end == CT_CALL_ENTRY)
        return true;
    size_t column = ct_view_column(h->c, r->call.began_ns, h->width), bucket = bucket_of(h, r->call.duration_ns);
    if (!h->single)
        h->counts[column * h->height + bucket]++;
    else if (column == h->column && bucket == h->bucket && h->call_count < MOST_CALLS)
        h->calls[h->call_count++] = (struct next){.thread = r->thread, .call = r->call};
    return !h->single || h->call_count < MOST_CALLS;
}

static void put_heat(struct ct_view_answer *a, const struct heat *h) {
    ct_view_put_time(a, "from", h->c->from_ns);
    ct_view_put_time(a, "to", h->c->to_ns);
    ct_json_number(&a->json, "low", h->low);
    ct_json_number(&a->json, "high", h->low + h->height);
    ct_json_begin(&a->json, "columns", '[');
    for (size_t i = 0; i < h->width; i++) {
        ct_json_begin(&a->json, NULL, '[');
        for (size_t k = 0; k < h->height; k++)
            ct_json_number(&a->json, NULL, h->counts[i * h->height + k]);
        ct_json_end(&a->json, ']');
    }
    ct_json_end(&a->json, ']');
}

static void put_square(struct ct_view_answer *a, const struct heat *h) {
    ct_json_begin(&a->json, "calls", '[');
    for (size_t i = 0; i < h->call_count; i++) {
        const struct next *n = &h->calls[i];
        ct_json_begin(&a->json, NULL, '{');
        ct_json_signed(&a->json, "id", ct_source_call_id(n->thread, n->call.sequence));
        ct_view_put_time(a, "start", n->call.began_ns);
        ct_json_number(&a->json, "duration", n->call.duration_ns);
        ct_json_number(&a->json, "thread", n->thread + 1);
        ct_json_end(&a->json, '}');
    }
    ct_json_end(&a->json, ']');
}

/* Reads the whole range, or some parts of it that are spread evenly. */
static int read_heat(struct ct_view_answer *a, struct ct_view_choice *c, struct heat *h, uint64_t events) {
    const struct ct_source *s = a->reader->source;
    struct ct_ask ask;
    int status = 0;
    ct_view_choice_ask(c, a, &ask);
    if (events <= MOST_EVENTS)
        return read_calls(a, &ask, add_heat, h);
    uint64_t step = (c->to_ns - c->from_ns) / LOOKS + 1;
    __extension__ unsigned __int128 seen = (unsigned __int128)step * MOST_EVENTS;
    uint64_t part = (uint64_t)(seen / events) + 1;
    for (uint64_t at = c->from_ns; at < c->to_ns && !status; at += step) {
        ask.ranges[CT_ASK_TIME] = (struct ct_ask_range){ct_source_time(s, at), ct_source_time(s, at + part) - 1};
        status = read_calls(a, &ask, add_heat, h);
    }
    return status;
}

void ct_view_answer_latency(struct ct_view_answer *a) {
    struct ct_view_choice c;
    const struct ct_view_name *name = name_of(a);
    struct heat h = {.c = &c, .low = 4};
    struct ct_view_used used = {0};
    if (!name)
        return;
    if (!ct_view_choose(&c, a)) {
        ct_view_choice_free(&c);
        return;
    }
    uint64_t width = ct_view_number(a, "width", 200), height = ct_view_number(a, "height", 32);
    h.width = (size_t)(width < 1 ? 1 : width > CT_CELLS_WIDTH ? CT_CELLS_WIDTH : width);
    h.height = (size_t)(height < 1 ? 1 : height > MOST_HEIGHT ? MOST_HEIGHT : height);
    h.single = ct_view_text(a, "column", NULL) != NULL;
    h.column = (size_t)ct_view_number(a, "column", 0);
    h.bucket = (size_t)ct_view_number(a, "bucket", 0);
    h.counts = calloc(h.width * h.height, sizeof *h.counts);
    h.calls = calloc(MOST_CALLS, sizeof *h.calls);
    uint64_t events = events_with(a, &c, name->function, name->process);
    int status = h.counts && h.calls ? read_heat(a, &c, &h, events) : CT_ERR_NO_MEMORY;
    if (status)
        ct_view_fail(a, status);
    else if (h.single)
        put_square(a, &h);
    else
        put_heat(a, &h);
    ct_json_bool(&a->json, "sampled", events > MOST_EVENTS);
    ct_view_use(&used, (uint32_t)ct_view_number(a, "function", 0));
    ct_view_put_functions(a, &used);
    free(h.counts);
    free(h.calls);
    ct_view_choice_free(&c);
}
