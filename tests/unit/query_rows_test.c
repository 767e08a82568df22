/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of a question leave out blocks of large threads, and no call that fits: on random programs, the rows with
 * conditions are those of a full scan that fit. */
#include "base/grow.h"
#include "query/calls.h"
#include "query/edges.h"
#include "query/query.h"
#include "summary_util.h"
#include "trace/reader.h"
#include "trace_util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char root[200], directory[300];

static const struct ct_summary_limits slow = {.least = UINT64_MAX},
                                      fast = {.least = 1, .span_events = 1000, .all_starts = true};

static int setup(void **unused) {
    (void)unused;
    make_directory(root, sizeof root);
    snprintf(directory, sizeof directory, "%s/pid_321", root);
    return 0;
}

static int teardown(void **unused) {
    (void)unused;
    remove_directory(root);
    return 0;
}

/* ---- rows ---- */

struct row {
    int64_t id, thread, start, duration, self, depth, parent;
    char function[16], ended[16];
};

struct list {
    struct row *rows;
    size_t count, room;
};

static int64_t number(struct ct_rows *rows, int column) {
    struct ct_cell cell;
    ct_rows_cell(rows, column, &cell);
    return cell.type == CT_CELL_INTEGER ? cell.integer : -1;
}

static void copy_text(struct ct_rows *rows, int column, char text[16]) {
    struct ct_cell cell;
    ct_rows_cell(rows, column, &cell);
    assert_int_equal(cell.type, CT_CELL_TEXT);
    snprintf(text, 16, "%s", cell.text);
}

static void open_source(struct ct_trace **trace, struct ct_source **source, const struct ct_summary_limits *limits) {
    assert_int_equal(ct_trace_open(trace, directory, NULL, 0), 0);
    (*trace)->summary = *limits;
    (*trace)->jobs = 1; /* nobody reads ahead: counts are exact */
    assert_int_equal(ct_source_open(source, &(struct ct_source_setup){.trace = *trace, .often = true}), 0);
}

static struct list read_rows(struct ct_source *source, const struct ct_ask *ask) {
    struct list list = {0};
    struct ct_rows *rows;
    int status;
    assert_int_equal(ct_rows_open(&rows, source, CT_TABLE_CALLS, ask), 0);
    while ((status = ct_rows_next(rows)) > 0) {
        assert_true(ct_grow(&list.rows, &list.room, list.count, sizeof *list.rows, 1024));
        struct row *row = &list.rows[list.count++];
        memset(row, 0, sizeof *row);
        row->id = number(rows, CT_CALLS_id);
        row->thread = number(rows, CT_CALLS_thread);
        row->start = number(rows, CT_CALLS_start);
        row->duration = number(rows, CT_CALLS_duration);
        row->self = number(rows, CT_CALLS_self);
        row->depth = number(rows, CT_CALLS_depth);
        row->parent = number(rows, CT_CALLS_parent);
        copy_text(rows, CT_CALLS_function, row->function);
        copy_text(rows, CT_CALLS_ended, row->ended);
        assert_int_equal(row->id, rows->id);
    }
    assert_int_equal(status, 0);
    ct_rows_close(rows);
    return list;
}

/* ---- conditions ---- */

static bool ends_with(void *arg, const char *name) {
    size_t length = strlen(name), own = strlen(arg);
    return length >= own && !strcmp(name + length - own, arg);
}

static bool fits(const struct ct_ask *ask, const struct row *row) {
    bool timed = row->duration >= 0;
    return ct_ask_fits(ask, CT_ASK_ID, row->id) && ct_ask_fits(ask, CT_ASK_THREAD, row->thread) &&
           ct_ask_fits(ask, CT_ASK_TIME, row->start) && ct_ask_fits(ask, CT_ASK_DEPTH, row->depth) &&
           (!ct_ask_is_given(ask, CT_ASK_DURATION) || (timed && ct_ask_fits(ask, CT_ASK_DURATION, row->duration))) &&
           (!ct_ask_is_given(ask, CT_ASK_PARENT) ||
            (row->parent >= 0 && row->parent == ask->ranges[CT_ASK_PARENT].low)) &&
           (!ask->functions.fit || ask->functions.fit(ask->functions.arg, row->function));
}

static uint64_t pick(uint64_t limit) {
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return limit ? (state >> 11) % limit : 0;
}

/* Mostly a long call, which begins and ends in different blocks. */
static const struct row *pick_row(const struct list *all) {
    const struct row *best = &all->rows[pick(all->count)];
    for (uint64_t more = pick(200); more; more--) {
        const struct row *other = &all->rows[pick(all->count)];
        if (strcmp(other->ended, "open") != 0 && other->duration > best->duration)
            best = other;
    }
    return best;
}

/* Makes conditions that some rows fit: `row` is one of them. */
static void make_ask(struct ct_ask *ask, const struct row *row, unsigned kind) {
    static char suffix[16];
    ct_ask_all(ask);
    if (kind & 1)
        ask->ranges[CT_ASK_TIME] =
            (struct ct_ask_range){row->start - (int64_t)pick(2000), row->start + (int64_t)pick(9000)};
    if (kind & 2) {
        snprintf(suffix, sizeof suffix, "%s", row->function);
        ask->functions = (struct ct_ask_names){ends_with, suffix};
    }
    if (kind & 4 && row->duration > 0)
        ask->ranges[CT_ASK_DURATION] = (struct ct_ask_range){row->duration, INT64_MAX};
    if (kind & 8)
        ask->ranges[CT_ASK_DEPTH] = (struct ct_ask_range){row->depth, row->depth};
    if (kind & 16)
        ask->ranges[CT_ASK_ID] = (struct ct_ask_range){row->id, row->id + (int64_t)pick(3)};
    if (kind & 32 && row->parent >= 0)
        ask->ranges[CT_ASK_PARENT] = (struct ct_ask_range){row->parent, row->parent};
    if (kind & 64)
        ask->ranges[CT_ASK_THREAD] = (struct ct_ask_range){row->thread, row->thread};
}

static void compare(const struct list *all, const struct ct_ask *ask, const struct list *got) {
    size_t at = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (!fits(ask, &all->rows[i]))
            continue;
        assert_true(at < got->count);
        assert_memory_equal(&got->rows[at], &all->rows[i], sizeof *got->rows);
        at++;
    }
    assert_int_equal(at, got->count);
}

static const struct random_trace traces[] = {
    {.seed = 201, .threads = 2, .events = 20000, .calm = true},
    {.seed = 202, .threads = 2, .events = 20000, .stacks = 4, .calm = true},
    {.seed = 203, .threads = 2, .events = 20000, .stacks = 2, .gaps = 60},
    {.seed = 204, .threads = 1, .events = 20000, .silent = 60, .unfinished = true, .calm = true},
    {.seed = 205, .threads = 1, .events = 20000, .odd = 20, .gaps = 20, .calm = true},
    {.seed = 206, .threads = 2, .events = 20000, .stacks = 2, .keep = 30000},
    {.seed = 207, .threads = 1, .events = 20000, .raw = true},
    {.seed = 208, .threads = 1, .events = 10000, .back = true},
    {.seed = 209, .threads = 2, .events = 20000, .waits = 40, .calm = true},
};

static void test_conditions_leave_nothing_out(void **unused) {
    (void)unused;
    for (size_t t = 0; t < sizeof traces / sizeof *traces; t++) {
        struct ct_trace *trace, *whole;
        struct ct_source *source, *scan;
        struct ct_ask ask;
        write_random(directory, &traces[t]);
        open_source(&whole, &scan, &slow);
        open_source(&trace, &source, &fast);
        ct_ask_all(&ask);
        struct list all = read_rows(scan, &ask);
        assert_true(all.count > 1000);
        for (unsigned i = 0; i < 128; i++) {
            make_ask(&ask, pick_row(&all), i);
            struct list got = read_rows(source, &ask), plain = read_rows(scan, &ask);
            compare(&all, &ask, &got);
            compare(&all, &ask, &plain);
            free(got.rows);
            free(plain.rows);
        }
        free(all.rows);
        ct_source_close(source);
        ct_source_close(scan);
        ct_trace_close(trace);
        ct_trace_close(whole);
        remove_directory(directory);
    }
}

/* ---- counters ---- */

static uint64_t unpacked_for(const struct ct_ask *ask, size_t *rows) {
    struct ct_trace *trace;
    struct ct_source *source;
    open_source(&trace, &source, &fast);
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        assert_non_null(ct_source_summary(source, i)); /* making it reads everything */
    uint64_t before = ct_source_blocks(source).unpacked;
    struct list list = read_rows(source, ask);
    uint64_t unpacked = ct_source_blocks(source).unpacked - before;
    *rows = list.count;
    free(list.rows);
    ct_source_close(source);
    ct_trace_close(trace);
    return unpacked;
}

static bool is_rare(void *arg, const char *name) {
    return !strcmp(name, arg);
}

static void test_only_needed_blocks_are_unpacked(void **unused) {
    (void)unused;
    struct ct_trace *trace;
    struct ct_source *source;
    struct ct_ask ask;
    size_t rows;
    write_random(directory, &(struct random_trace){.seed = 301, .threads = 2, .events = 200000, .calm = true});
    open_source(&trace, &source, &fast);
    struct ct_source_blocks blocks = ct_source_blocks(source);
    ct_ask_all(&ask);
    struct list all = read_rows(source, &ask);
    assert_true(blocks.all >= 40);
    assert_int_equal(ct_source_blocks(source).unpacked - blocks.unpacked, blocks.all);

    const struct row one = all.rows[all.count / 4];
    ask.ranges[CT_ASK_ID] = (struct ct_ask_range){one.id, one.id};
    uint64_t by_id = unpacked_for(&ask, &rows);
    assert_int_equal(rows, 1);
    assert_in_range(by_id, 1, 4);

    ct_ask_all(&ask);
    ask.ranges[CT_ASK_TIME] = (struct ct_ask_range){one.start, one.start + 100};
    uint64_t by_time = unpacked_for(&ask, &rows);
    assert_true(rows >= 1 && by_time <= blocks.all / 4);

    ct_ask_all(&ask);
    ask.ranges[CT_ASK_THREAD] = (struct ct_ask_range){1, 1};
    uint64_t by_thread = unpacked_for(&ask, &rows);
    assert_in_range(by_thread, 1, blocks.all / 2 + 1);

    ct_ask_all(&ask);
    ask.functions = (struct ct_ask_names){is_rare, "no such function"};
    assert_int_equal(unpacked_for(&ask, &rows), 0);
    assert_int_equal(rows, 0);

    free(all.rows);
    ct_source_close(source);
    ct_trace_close(trace);
}

/* ---- tables that follow from the calls ---- */

static const struct row *find_row(const struct list *all, int64_t id) {
    for (size_t i = 0; i < all->count; i++)
        if (all->rows[i].id == id)
            return &all->rows[i];
    return NULL;
}

struct edge {
    char caller[16], callee[16];
    int64_t calls, total, self, max;
};

static int by_names(const void *a, const void *b) {
    const struct edge *x = a, *y = b;
    int order = strcmp(x->caller, y->caller);
    return order ? order : strcmp(x->callee, y->callee);
}

/* One edge for each call; those of equal names are added up. */
static size_t unite(struct edge *edges, size_t count) {
    size_t kept = 0;
    qsort(edges, count, sizeof *edges, by_names);
    for (size_t i = 0; i < count; i++) {
        if (!kept || by_names(&edges[kept - 1], &edges[i]) != 0) {
            edges[kept++] = edges[i];
            continue;
        }
        struct edge *sum = &edges[kept - 1];
        sum->calls += edges[i].calls;
        sum->total += edges[i].total;
        sum->self += edges[i].self;
        sum->max = edges[i].max > sum->max ? edges[i].max : sum->max;
    }
    return kept;
}

static int by_id(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* The rows must be sorted by id. */
static struct edge *edges_of_rows(const struct list *sorted, size_t *count) {
    struct edge *edges = calloc(sorted->count, sizeof *edges);
    for (size_t i = 0; i < sorted->count; i++) {
        const struct row *row = &sorted->rows[i], key = {.id = row->parent};
        const struct row *parent =
            row->parent < 0 ? NULL : bsearch(&key, sorted->rows, sorted->count, sizeof key, by_id);
        bool timed = row->duration >= 0;
        snprintf(edges[i].caller, sizeof edges[i].caller, "%s", parent ? parent->function : "");
        snprintf(edges[i].callee, sizeof edges[i].callee, "%s", row->function);
        edges[i].calls = 1;
        edges[i].total = edges[i].max = timed ? row->duration : 0;
        edges[i].self = timed ? row->self : 0;
    }
    *count = unite(edges, sorted->count);
    return edges;
}

static void name_of(struct ct_source *source, uint64_t function, char text[16]) {
    const struct ct_cached_function *known = function ? ct_function_cache_get(&source->names, 0, function) : NULL;
    snprintf(text, 16, "%s", known ? known->name : "");
}

static void check_edges(struct ct_source *source, const struct edge *expected, size_t count, unsigned workers,
                        bool parts) {
    struct ct_edges edges;
    assert_int_equal(ct_edges_make(&edges, source, workers, 2000), 0);
    assert_int_equal(edges.parts > ct_trace_thread_count(source->trace), parts);
    struct edge *got = calloc(edges.count + 1, sizeof *got);
    for (size_t i = 0; i < edges.count; i++) {
        const struct ct_edge *e = &edges.items[i];
        got[i] = (struct edge){.calls = (int64_t)e->calls,
                               .total = (int64_t)e->total_ns,
                               .self = (int64_t)e->self_ns,
                               .max = (int64_t)e->max_ns};
        name_of(source, e->caller, got[i].caller);
        name_of(source, e->callee, got[i].callee);
    }
    assert_int_equal(unite(got, edges.count), count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(got[i].caller, expected[i].caller);
        assert_string_equal(got[i].callee, expected[i].callee);
        assert_int_equal(got[i].calls, expected[i].calls);
        assert_int_equal(got[i].total, expected[i].total);
        assert_int_equal(got[i].self, expected[i].self);
        assert_int_equal(got[i].max, expected[i].max);
    }
    free(got);
    ct_edges_free(&edges);
}

static void test_edges_are_those_of_the_calls(void **unused) {
    (void)unused;
    for (size_t t = 0; t < sizeof traces / sizeof *traces; t++) {
        struct ct_trace *trace, *whole;
        struct ct_source *source, *scan;
        struct ct_ask ask;
        size_t count;
        write_random(directory, &traces[t]);
        open_source(&whole, &scan, &slow);
        open_source(&trace, &source, &fast);
        ct_ask_all(&ask);
        struct list all = read_rows(scan, &ask);
        qsort(all.rows, all.count, sizeof *all.rows, by_id);
        struct edge *expected = edges_of_rows(&all, &count);
        check_edges(scan, expected, count, 1, false);
        check_edges(source, expected, count, 3, !traces[t].back);
        free(expected);
        free(all.rows);
        ct_source_close(source);
        ct_source_close(scan);
        ct_trace_close(trace);
        ct_trace_close(whole);
        remove_directory(directory);
    }
}

/* ---- functions that return tables ---- */

static size_t read_ids(struct ct_source *source, enum ct_table_id table, int column, int64_t first, int64_t second,
                       int64_t *ids, size_t room) {
    struct ct_ask ask;
    struct ct_rows *rows;
    size_t count = 0;
    ct_ask_all(&ask);
    ask.ranges[CT_ASK_FIRST] = (struct ct_ask_range){first, first};
    ask.ranges[CT_ASK_SECOND] = (struct ct_ask_range){second, second};
    assert_int_equal(ct_rows_open(&rows, source, table, &ask), 0);
    while (ct_rows_next(rows) > 0) {
        assert_true(count < room);
        ids[count++] = number(rows, column);
    }
    ct_rows_close(rows);
    return count;
}

static bool is_below(const struct list *all, const struct row *row, int64_t id) {
    while (row && row->id != id)
        row = row->parent < 0 ? NULL : find_row(all, row->parent);
    return row;
}

static void check_callers(struct ct_source *source, const struct list *all, const struct row *row) {
    static int64_t ids[4096];
    size_t count = read_ids(source, CT_TABLE_CALLERS, CT_CALLERS_id, row->id, 0, ids, 4096), at = 0;
    for (; row; row = row->parent < 0 ? NULL : find_row(all, row->parent))
        assert_int_equal(ids[at++], row->id);
    assert_int_equal(at, count);
}

static void check_stack(struct ct_source *source, const struct list *all, int64_t thread, int64_t time) {
    static int64_t ids[4096];
    size_t count = read_ids(source, CT_TABLE_STACK_AT, CT_STACK_AT_id, thread, time, ids, 4096), open = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct row *row = &all->rows[i];
        bool is_open =
            row->thread == thread && row->duration >= 0 && row->start <= time && time < row->start + row->duration;
        bool listed = false;
        for (size_t k = 0; k < count; k++)
            listed |= ids[k] == row->id;
        if (row->thread == thread && row->duration > 0)
            assert_int_equal(listed, is_open);
        open += is_open;
    }
    assert_int_equal(open, count);
}

static void check_subtree(struct ct_source *source, const struct list *all, const struct row *top) {
    static int64_t ids[65536];
    size_t count = read_ids(source, CT_TABLE_SUBTREE, CT_SUBTREE_id, top->id, 0, ids, 65536), at = 0;
    for (size_t i = 0; i < all->count; i++)
        if (all->rows[i].thread == top->thread && is_below(all, &all->rows[i], top->id))
            assert_int_equal(ids[at++], all->rows[i].id);
    assert_int_equal(at, count);
}

static void test_stacks_and_trees(void **unused) {
    (void)unused;
    struct ct_trace *trace, *whole;
    struct ct_source *source, *scan;
    struct ct_ask ask;
    write_random(directory, &(struct random_trace){.seed = 401, .threads = 2, .events = 6000, .calm = true});
    open_source(&whole, &scan, &slow);
    open_source(&trace, &source, &fast);
    ct_ask_all(&ask);
    struct list all = read_rows(scan, &ask);
    for (unsigned i = 0; i < 20; i++) {
        const struct row *row = pick_row(&all);
        check_callers(source, &all, row);
        check_callers(scan, &all, row);
        check_stack(source, &all, row->thread, row->start + (int64_t)pick(100));
        check_stack(scan, &all, row->thread, row->start);
        if (i < 5) {
            check_subtree(source, &all, row);
            check_subtree(scan, &all, row);
        }
    }
    int64_t ids[4];
    assert_int_equal(read_ids(source, CT_TABLE_STACK_AT, CT_STACK_AT_id, 99, 0, ids, 4), 0);
    assert_int_equal(read_ids(source, CT_TABLE_CALLERS, CT_CALLERS_id, INT64_MAX, 0, ids, 4), 0);
    assert_int_equal(read_ids(source, CT_TABLE_STACK_AT, CT_STACK_AT_id, 1, INT64_C(1) << 60, ids, 4), 0);
    free(all.rows);
    ct_source_close(source);
    ct_source_close(scan);
    ct_trace_close(trace);
    ct_trace_close(whole);
}

/* ---- events ---- */

struct answer {
    uint64_t rows, hash;
};

static struct answer read_events(struct ct_source *source, enum ct_table_id table, const struct ct_ask *ask) {
    struct answer answer = {0};
    struct ct_rows *rows;
    assert_int_equal(ct_rows_open(&rows, source, table, ask), 0);
    while (ct_rows_next(rows) > 0) {
        answer.rows++;
        answer.hash = (answer.hash ^ (uint64_t)rows->id) * 0x100000001b3u;
        answer.hash = (answer.hash ^ (uint64_t)number(rows, CT_EVENTS_time)) * 0x100000001b3u;
    }
    ct_rows_close(rows);
    return answer;
}

static void check_events(struct ct_source *source, struct ct_source *scan, enum ct_table_id table,
                         const struct ct_ask *ask) {
    struct answer a = read_events(source, table, ask), b = read_events(scan, table, ask);
    assert_int_equal(a.rows, b.rows);
    assert_int_equal(a.hash, b.hash);
}

static void test_events(void **unused) {
    (void)unused;
    struct ct_trace *trace, *whole;
    struct ct_source *source, *scan;
    struct ct_ask ask;
    write_random(directory, &(struct random_trace){.seed = 501, .threads = 2, .events = 40000});
    open_source(&whole, &scan, &slow);
    open_source(&trace, &source, &fast);
    ct_ask_all(&ask);
    struct list all = read_rows(scan, &ask);
    assert_int_equal(read_events(scan, CT_TABLE_EVENTS, &ask).rows,
                     ct_trace_thread_at(trace, 0)->event_count + ct_trace_thread_at(trace, 1)->event_count);
    assert_true(read_events(scan, CT_TABLE_SIGNALS, &ask).rows > 0);
    check_events(source, scan, CT_TABLE_SIGNALS, &ask);
    for (unsigned i = 0; i < 40; i++) {
        make_ask(&ask, pick_row(&all), (i & 3) | (i & 4 ? 16 : 0) | (i & 8 ? 64 : 0));
        check_events(source, scan, CT_TABLE_EVENTS, &ask);
        check_events(source, scan, CT_TABLE_SIGNALS, &ask);
    }
    free(all.rows);
    ct_source_close(source);
    ct_source_close(scan);
    ct_trace_close(trace);
    ct_trace_close(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_conditions_leave_nothing_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_needed_blocks_are_unpacked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_edges_are_those_of_the_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stacks_and_trees, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
