/* SPDX-License-Identifier: Apache-2.0 */
/* /api/functions and /api/select: functions by calls and times; /api/search: functions by name. */
#include "base/grow.h"
#include "query/calls.h"
#include "report/functions.h"
#include "trace/reader.h"
#include "view/choice.h"
#include "view/spread.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 1000, SLICES = 32, SPARK_EVENTS = 4 << 20, MOST_FOUND = 1000, MOST_SEARCHED = 1 << 20 };

/* ---- rows ---- */

static int make_report(struct ct_view_answer *a, const struct ct_view_choice *c, bool per_thread, bool times,
                       struct ct_report **report) {
    static const char *const keys[] = {
#define KEY(name, text) text,
        CT_REPORT_SORT_LIST(KEY)
#undef KEY
    };
    struct ct_report_options options = {
        .select = c->select, .sort = CT_REPORT_BY_SELF, .per_thread = per_thread, .times = times};
    const char *sort = ct_view_text(a, "sort", "self");
    sort = !strcmp(sort, "median") ? "p50" : !strcmp(sort, "longest") ? "max" : sort;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(keys[i], sort))
            options.sort = (enum ct_report_sort)i;
    return ct_report_make(report, a->reader->trace, &options);
}

/* Calls of each function in each of some slices of the time: counted, or when that is too much, estimated for the rows
 * that are shown. */
struct sparks {
    struct ct_view_choice *choice;
    bool estimated;
    uint64_t (*slices)[SLICES]; /* by function's number; NULL when estimated */
    size_t room;
};

static void count_sparks(struct ct_view_answer *a, struct sparks *s) {
    struct ct_call_reader *r = s->estimated ? NULL : calloc(1, sizeof *r);
    struct ct_ask ask;
    if (!r)
        return;
    ct_view_choice_ask(s->choice, a, &ask);
    int status = ct_call_reader_open(r, a->reader->source, &ask);
    while (!status && (status = ct_call_reader_next(r)) > 0) {
        uint32_t number = ct_view_function(a, r->process, r->call.function);
        status = number != UINT32_MAX && ct_grow_zeroed(&s->slices, &s->room, number, sizeof *s->slices, 256)
                     ? 0
                     : CT_ERR_NO_MEMORY;
        if (!status)
            s->slices[number][ct_view_column(s->choice, r->call.began_ns, SLICES)]++;
    }
    ct_call_reader_close(r);
    free(r);
}

static void put_spark(struct ct_view_answer *a, const struct sparks *s, uint32_t number) {
    const struct ct_view_name *name = ct_view_names_get(&a->trace->names, number);
    uint64_t estimated[SLICES] = {0};
    const uint64_t *slices = number < s->room ? s->slices[number] : estimated;
    if (s->estimated && name)
        ct_view_spread(a, s->choice, name, estimated, SLICES);
    ct_json_begin(&a->json, "spark", '[');
    for (size_t i = 0; i < SLICES; i++)
        ct_json_number(&a->json, NULL, slices[i]);
    ct_json_end(&a->json, ']');
}

static void put_histogram(struct ct_view_answer *a, const struct ct_report_row *row) {
    ct_json_begin(&a->json, "histogram", '[');
    for (unsigned power = 0; row->times && power < 64; power++) {
        uint64_t count = ct_histogram_count(row->times, power);
        if (!count)
            continue;
        ct_json_begin(&a->json, NULL, '[');
        ct_json_number(&a->json, NULL, power);
        ct_json_number(&a->json, NULL, count);
        ct_json_end(&a->json, ']');
    }
    ct_json_end(&a->json, ']');
}

static void put_row(struct ct_view_answer *a, const struct ct_report_row *row, const struct sparks *s) {
    uint32_t number = ct_view_function(a, row->process, row->function);
    const struct ct_view_name *name = ct_view_names_get(&a->trace->names, number);
    ct_json_begin(&a->json, NULL, '{');
    ct_json_number(&a->json, "function", number);
    ct_json_number(&a->json, "process", row->process + 1);
    ct_json_string(&a->json, "name", name ? name->name : "");
    ct_json_string(&a->json, "module", name ? name->module : "");
    ct_json_number(&a->json, "calls", row->calls);
    ct_json_number(&a->json, "total", row->total_ns);
    ct_json_number(&a->json, "self", row->self_ns);
    ct_json_number(&a->json, "median", row->p50_ns);
    ct_json_number(&a->json, "p99", row->p99_ns);
    ct_json_number(&a->json, "longest", row->max_ns);
    ct_json_bool(&a->json, "timed", row->timed);
    put_spark(a, s, number);
    put_histogram(a, row);
    ct_json_end(&a->json, '}');
}

/* Case does not matter. */
static bool has_text(const struct ct_report_row *row, const char *text) {
    return !*text || strcasestr(row->name, text) || strcasestr(row->module, text);
}

void ct_view_answer_functions(struct ct_view_answer *a) {
    struct ct_view_choice c;
    struct sparks sparks = {.choice = &c};
    struct ct_report *report = NULL;
    const char *text = ct_view_text(a, "text", "");
    uint64_t offset = ct_view_number(a, "offset", 0), limit = ct_view_number(a, "limit", 100), total = 0;
    bool up = !strcmp(ct_view_text(a, "order", ""), "up");
    limit = limit < MOST_ROWS ? limit : MOST_ROWS;
    int status = ct_view_choose(&c, a) ? make_report(a, &c, false, true, &report) : 0;
    if (status)
        ct_view_fail(a, status);
    if (report) {
        sparks.estimated = c.events > SPARK_EVENTS;
        count_sparks(a, &sparks);
        ct_json_begin(&a->json, "rows", '[');
        for (size_t i = 0; i < report->row_count; i++) {
            const struct ct_report_row *row = &report->rows[up ? report->row_count - 1 - i : i];
            if (!has_text(row, text))
                continue;
            if (total >= offset && total - offset < limit)
                put_row(a, row, &sparks);
            total++;
        }
        ct_json_end(&a->json, ']');
        ct_json_number(&a->json, "total", total);
        ct_json_number(&a->json, "self", report->self_ns);
        ct_json_bool(&a->json, "estimated", sparks.estimated);
    }
    free(sparks.slices);
    ct_report_free(report);
    ct_view_choice_free(&c);
}

/* ---- what a range was made of ---- */

struct part {
    uint64_t self_ns, calls;
};

static void put_part(struct ct_view_answer *a, const char *key, uint64_t number, const struct part *part,
                     uint64_t all_ns) {
    ct_json_begin(&a->json, NULL, '{');
    ct_json_number(&a->json, key, number);
    ct_json_number(&a->json, "self", part->self_ns);
    ct_json_real(&a->json, "share", all_ns ? (double)part->self_ns / (double)all_ns : 0);
    ct_json_number(&a->json, "calls", part->calls);
}

void ct_view_answer_select(struct ct_view_answer *a) {
    enum { MOST = 200 };
    struct ct_view_choice c;
    struct ct_report *report = NULL, *threads = NULL;
    struct part *parts = calloc(ct_trace_thread_count(a->reader->trace) + 1, sizeof *parts);
    int status = !parts ? CT_ERR_NO_MEMORY : ct_view_choose(&c, a) ? make_report(a, &c, false, false, &report) : 0;
    if (!status && report)
        status = make_report(a, &c, true, false, &threads);
    if (status)
        ct_view_fail(a, status);
    ct_json_begin(&a->json, "functions", '[');
    for (size_t i = 0; threads && i < report->row_count && i < MOST; i++) {
        const struct ct_report_row *row = &report->rows[i];
        uint32_t number = ct_view_function(a, row->process, row->function);
        const struct ct_view_name *name = ct_view_names_get(&a->trace->names, number);
        put_part(a, "function", number, &(struct part){row->self_ns, row->calls}, report->self_ns);
        ct_json_string(&a->json, "name", name ? name->name : "");
        ct_json_string(&a->json, "module", name ? name->module : "");
        ct_json_end(&a->json, '}');
    }
    ct_json_end(&a->json, ']');
    for (size_t i = 0; threads && i < threads->row_count; i++) {
        parts[threads->rows[i].thread].self_ns += threads->rows[i].self_ns;
        parts[threads->rows[i].thread].calls += threads->rows[i].calls;
    }
    ct_json_begin(&a->json, "threads", '[');
    for (size_t i = 0; threads && i < ct_trace_thread_count(a->reader->trace); i++)
        if (parts[i].calls) {
            put_part(a, "thread", i + 1, &parts[i], report->self_ns);
            ct_json_end(&a->json, '}');
        }
    ct_json_end(&a->json, ']');
    ct_report_free(report);
    ct_report_free(threads);
    if (parts)
        ct_view_choice_free(&c);
    free(parts);
}

/* ---- search ---- */

struct found {
    uint32_t number;
    uint64_t calls; /* UINT64_MAX: not known */
    unsigned rank;  /* 0: the name itself, 1: it begins with the text, 2: it has it */
};

struct search {
    const char *text;
    struct found *items;
    size_t count, room;
    uint64_t total;
};

static void match(struct ct_view_answer *a, struct search *s, const struct ct_cached_function *known, size_t process,
                  uint64_t function, uint64_t calls) {
    const char *at = known ? strcasestr(known->name, s->text) : NULL;
    if (!at)
        return;
    uint32_t number = ct_view_function(a, process, function);
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i].number == number) {
            s->items[i].calls += calls;
            return;
        }
    s->total++;
    if (s->count >= MOST_FOUND || !ct_grow(&s->items, &s->room, s->count, sizeof *s->items, 64))
        return;
    unsigned rank = !strcasecmp(known->name, s->text) ? 0 : at == known->name ? 1 : 2;
    s->items[s->count++] = (struct found){number, calls, rank};
}

/* Functions that a thread has called: its summary lists them. False: it has none. */
static bool search_summary(struct ct_view_answer *a, struct search *s, size_t thread) {
    struct ct_source *source = a->reader->source;
    const struct ct_summary *summary = source->summaries[thread];
    size_t process = ct_trace_thread_at(source->trace, thread)->process;
    size_t count = summary ? ct_summary_function_count(summary) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct cts_function *f = ct_summary_function(summary, i);
        match(a, s, ct_function_cache_get(&source->names, process, f->function), process, f->function, f->calls);
    }
    return count;
}

struct counted {
    struct ct_table_key key;
    uint64_t calls;
};

/* Calls by function: each name is compared once, since it may be long. */
static void count_calls(struct ct_index *index, size_t process, struct ct_table *functions) {
    enum { AT_ONCE = 512 };
    struct atf_index_event events[AT_ONCE];
    uint64_t end = index->first + MOST_SEARCHED < index->end ? index->first + MOST_SEARCHED : index->end;
    size_t count;
    for (uint64_t at = index->first; at < end; at += count) {
        count = ct_index_read(index, at, events, AT_ONCE);
        for (size_t i = 0; i < count; i++) {
            if (events[i].event_kind != CT_TRACE_CALL)
                continue;
            struct counted *f = ct_table_get(functions, process, events[i].function_id, sizeof *f);
            if (f)
                f->calls++;
        }
        if (!count) {
            uint64_t next = ct_index_skip(index, at);
            count = next > at ? (size_t)(next - at) : 1;
        }
    }
}

static void search_events(struct ct_view_answer *a, struct search *s, size_t thread) {
    struct ct_source *source = a->reader->source;
    size_t process = ct_trace_thread_at(source->trace, thread)->process;
    struct ct_table functions = {0};
    count_calls(&source->trace->threads[thread].index, process, &functions);
    for (size_t i = 0; i < functions.capacity; i++) {
        const struct counted *f = (const struct counted *)functions.slots[i];
        if (f)
            match(a, s, ct_function_cache_get(&source->names, process, f->key.function), process, f->key.function,
                  f->calls);
    }
    ct_table_free(&functions, NULL);
}

static int by_rank(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->calls != y->calls)
        return x->calls > y->calls ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

void ct_view_answer_search(struct ct_view_answer *a) {
    struct search s = {.text = ct_view_text(a, "text", "")};
    uint64_t limit = ct_view_number(a, "limit", 100);
    for (size_t i = 0; i < ct_trace_thread_count(a->reader->trace); i++)
        if (!search_summary(a, &s, i))
            search_events(a, &s, i);
    if (s.count)
        qsort(s.items, s.count, sizeof *s.items, by_rank);
    ct_json_begin(&a->json, "functions", '[');
    for (size_t i = 0; i < s.count && i < limit; i++) {
        const struct ct_view_name *name = ct_view_names_get(&a->trace->names, s.items[i].number);
        ct_json_begin(&a->json, NULL, '{');
        ct_json_number(&a->json, "function", s.items[i].number);
        ct_json_string(&a->json, "name", name ? name->name : "");
        ct_json_string(&a->json, "module", name ? name->module : "");
        ct_json_number(&a->json, "calls", s.items[i].calls);
        ct_json_end(&a->json, '}');
    }
    ct_json_end(&a->json, ']');
    ct_json_number(&a->json, "total", s.total);
    free(s.items);
}
