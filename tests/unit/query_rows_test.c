/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of a question leave out blocks of large threads, and no call that fits: on random programs, the rows with
 * conditions are those of a full scan that fit. */
#include "query/calls.h"
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
    size_t count;
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
        list.rows = realloc(list.rows, (list.count + 1) * sizeof *list.rows);
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
           (!ct_ask_is_given(ask, CT_ASK_PARENT) || (row->parent >= 0 && row->parent == ask->ranges[CT_ASK_PARENT].low)) &&
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
        ask->ranges[CT_ASK_TIME] = (struct ct_ask_range){row->start - (int64_t)pick(2000), row->start + (int64_t)pick(9000)};
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_conditions_leave_nothing_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_needed_blocks_are_unpacked, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
