/* SPDX-License-Identifier: Apache-2.0 */
/* Differences of traces that are written from scripts: every number is exact. */
#include "report/diff.h"
#include "trace_sample.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a diff as text: "name:calls total self>calls total self" for each row; then the path ---- */

static void put(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void put(char *text, size_t size, const char *format, ...) {
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, size - length, format, arguments);
    va_end(arguments);
}

static void put_rows(char *text, size_t size, const struct ct_diff *d) {
    for (size_t i = 0; i < d->row_count; i++) {
        const struct ct_diff_row *row = &d->rows[i];
        put(text, size, "%s%s:", i ? "\n" : "", row->name);
        for (int s = 0; s < CT_DIFF_SIDES; s++)
            put(text, size, "%s%llu %llu %llu", s ? ">" : "", (unsigned long long)row->side[s].calls,
                (unsigned long long)row->side[s].total_ns, (unsigned long long)row->side[s].self_ns);
    }
}

/* "common [stack] A calls | B calls"; a call is name@depth. */
static void put_path(char *text, size_t size, const struct ct_diff_path *path) {
    put(text, size, "%llu", (unsigned long long)path->common);
    if (!path->part)
        return;
    put(text, size, " [");
    for (size_t i = 0; i < path->stack_count; i++)
        put(text, size, "%s%s", i ? " " : "", path->stack[i].known->name);
    put(text, size, "]");
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        put(text, size, "%s", s ? " |" : "");
        for (size_t i = 0; i < path->next_count[s]; i++)
            put(text, size, " %s@%llu", path->next[s][i].known->name, (unsigned long long)path->next[s][i].depth);
    }
}

struct check {
    struct sample samples[CT_DIFF_SIDES];
    struct ct_diff_options options;
    const char *rows, *path; /* NULL: not looked at */
    uint64_t added, gone, changed, unchanged, matched;
};

static void check(struct check *c) {
    char *directories[CT_DIFF_SIDES], text[8192] = "";
    struct ct_trace *traces[CT_DIFF_SIDES];
    struct ct_diff *diff;
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        directories[s] = sample_directory();
        char *path = sample_write(directories[s], &c->samples[s]);
        assert_int_equal(ct_trace_open(&traces[s], path, NULL, 0), 0);
        free(path);
    }
    assert_int_equal(ct_diff_make(&diff, traces, &c->options), 0);
    put_rows(text, sizeof text, diff);
    if (c->rows)
        assert_string_equal(text, c->rows);
    text[0] = 0;
    put_path(text, sizeof text, &diff->path);
    if (c->path)
        assert_string_equal(text, c->path);
    c->added = diff->added;
    c->gone = diff->gone;
    c->changed = diff->changed;
    c->unchanged = diff->unchanged;
    c->matched = diff->matched;
    ct_diff_free(diff);
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        ct_trace_close(traces[s]);
        sample_remove(directories[s]);
    }
}

static struct check check_scripts(const char *a, const char *b, struct ct_diff_options options, const char *rows,
                                  const char *path) {
    struct sample_thread threads[] = {{.id = 1, .tid = 1000, .name = "sample", .script = a},
                                      {.id = 1, .tid = 1000, .name = "sample", .script = b}};
    struct check c = {
        .samples = {{.threads = &threads[0], .thread_count = 1}, {.threads = &threads[1], .thread_count = 1}},
        .options = options,
        .rows = rows,
        .path = path};
    if (!c.options.next)
        c.options.next = 3;
    c.options.all = true; /* every number of these is exact */
    check(&c);
    c.samples[0].threads = c.samples[1].threads = NULL;
    return c;
}

/* ---- functions ---- */

static const char before[] = "0+main 10+work 20+leaf 25-leaf 100-work 200+recurse 210-recurse 220+? 230-? 1000-main";
static const char after[] =
    "0+main 10+work 20+leaf 25-leaf 30+leaf 35-leaf 150-work 200+thrower 220-thrower 300+? 310-? "
    "1000-main";

static void new_gone_and_changed(void **state) {
    (void)state;
    struct check c = check_scripts(before, after, (struct ct_diff_options){0},
                                   "main:1 1000 890>1 1000 830\n"
                                   "work:1 90 85>1 140 130\n"
                                   "thrower:0 0 0>1 20 20\n"
                                   "recurse:1 10 10>0 0 0\n"
                                   "leaf:1 5 5>2 10 10",
                                   NULL);
    assert_int_equal(c.added, 1);
    assert_int_equal(c.gone, 1);
    assert_int_equal(c.changed, 3);
    assert_int_equal(c.unchanged, 1); /* the nameless one, at its offset */
}

static void order(void **state) {
    (void)state;
    check_scripts(before, after, (struct ct_diff_options){.sort = CT_DIFF_BY_TOTAL, .limit = 2},
                  "work:1 90 85>1 140 130\nthrower:0 0 0>1 20 20", NULL);
    check_scripts(before, after, (struct ct_diff_options){.sort = CT_DIFF_BY_CALLS, .limit = 3},
                  "leaf:1 5 5>2 10 10\nrecurse:1 10 10>0 0 0\nthrower:0 0 0>1 20 20", NULL);
    struct check c = check_scripts(before, after, (struct ct_diff_options){.sort = CT_DIFF_BY_NAME, .limit = 2},
                                   "leaf:1 5 5>2 10 10\nmain:1 1000 890>1 1000 830", NULL);
    assert_int_equal(c.matched, 5);
}

/* main's self time changed by 6.7 %, that of work by 53 %, that of leaf by 100 %. */
static void least_change(void **state) {
    (void)state;
    struct check c = check_scripts(before, after, (struct ct_diff_options){.min_change = 7},
                                   "work:1 90 85>1 140 130\nthrower:0 0 0>1 20 20\nrecurse:1 10 10>0 0 0\n"
                                   "leaf:1 5 5>2 10 10",
                                   NULL);
    assert_int_equal(c.unchanged, 2);
    check_scripts(before, after, (struct ct_diff_options){.min_change = 100},
                  "thrower:0 0 0>1 20 20\nrecurse:1 10 10>0 0 0\nleaf:1 5 5>2 10 10", NULL);
    check_scripts(before, after, (struct ct_diff_options){.min_change = 101},
                  "thrower:0 0 0>1 20 20\nrecurse:1 10 10>0 0 0", NULL);
}

static void selection(void **state) {
    (void)state;
    const char *functions[] = {"[wl]*", NULL}, *modules[] = {"libother*", NULL};
    check_scripts(before, after,
                  (struct ct_diff_options){.select = {{.functions = functions}, {.functions = functions}}},
                  "work:1 90 85>1 140 130\nleaf:1 5 5>2 10 10", "2 [work] | leaf@1");
    check_scripts(before, after, (struct ct_diff_options){.select = {{.modules = modules}, {.modules = modules}}}, "",
                  "0");
}

static void the_same_trace_has_no_difference(void **state) {
    (void)state;
    struct check c = check_scripts(before, before, (struct ct_diff_options){0}, "", "5");
    assert_int_equal(c.unchanged, 5);
}

/* ---- paths ---- */

static void paths_part_at_another_function(void **state) {
    (void)state;
    check_scripts("0+main 1+work 2+leaf 3-leaf 4+recurse 5-recurse 6-work 7+leaf 8-leaf 9+leaf 10-leaf 11-main",
                  "0+main 1+work 2+leaf 3-leaf 4+thrower 5-thrower 6-work 9-main", (struct ct_diff_options){0}, NULL,
                  "3 [main work] recurse@2 leaf@1 leaf@1 | thrower@2");
}

/* The same functions in the same order, but called by another one: the frames that both have are around it. */
static void paths_part_at_another_depth(void **state) {
    (void)state;
    check_scripts("0+main 1+work 2+leaf 3-leaf 4+leaf 5-leaf 6-work 9-main",
                  "0+main 1+work 2+leaf 3-leaf 4-work 5+leaf 6-leaf 9-main", (struct ct_diff_options){0}, NULL,
                  "3 [main] leaf@2 | leaf@1");
}

static void paths_part_at_an_end(void **state) {
    (void)state;
    check_scripts("0+main 1+work 2-work 3-main", "0+main 1+work 2-work 3+work 4+leaf 5-leaf 6-work 7-main",
                  (struct ct_diff_options){.next = 1}, NULL, "2 [main] | work@1");
    check_scripts("", "0+main 1-main", (struct ct_diff_options){0}, "main:0 0 0>1 1 1", "0 [] | main@0");
}

static void times_do_not_part_paths(void **state) {
    (void)state;
    check_scripts("0+main 1+setjmp 2+work 3!work 9-main", "0+main 4+setjmp 5+work 7-work 8-main",
                  (struct ct_diff_options){0}, NULL, "3");
}

/* What is between the selected frames has no part in their depth. */
static void others_are_not_on_the_path(void **state) {
    (void)state;
    const char *modules[] = {"sample", NULL};
    check_scripts("0+main 1+other 2+leaf 3-leaf 4-other 5+leaf 6-leaf 9-main",
                  "0+main 1+other 2+worker 3+leaf 4-leaf 5-worker 6-other 7+recurse 8-recurse 9-main",
                  (struct ct_diff_options){.select = {{.modules = modules}, {.modules = modules}}}, NULL,
                  "2 [main] leaf@1 | recurse@1");
}

/* The thread with the process's number is the main one, whatever its place. */
static void main_threads_are_compared(void **state) {
    (void)state;
    const struct sample_thread a[] = {
        {.id = 1, .tid = 1001, .name = "first", .script = "0+worker 1-worker"},
        {.id = 2, .tid = 1000, .name = "main", .script = "0+main 1+work 2-work 3-main"},
    };
    const struct sample_thread b[] = {{.id = 1, .tid = 1000, .name = "main", .script = "0+main 1+leaf 2-leaf 3-main"}};
    struct check c = {.samples = {{.threads = a, .thread_count = 2}, {.threads = b, .thread_count = 1}},
                      .options = {.next = 3},
                      .path = "1 [main] work@1 | leaf@1"};
    check(&c);
}

/* ---- noise ---- */

/* Calls of `work`, one every microsecond, that last `ns` and up to a fifth more; of many, every tenth 30 times as
 * long. */
static char *script_of(unsigned calls, unsigned ns, unsigned seed) {
    enum { ROOM = 64 };
    char *script = malloc((calls + 2) * ROOM);
    size_t at = (size_t)snprintf(script, ROOM, "0+main");
    unsigned long long now = 0;
    for (unsigned i = 0; i < calls; i++) {
        seed = seed * 1103515245u + 12345u;
        unsigned long long lasts = ns + seed / 65536 % (ns / 5 + 1);
        lasts = calls < 10 || seed / 65536 % 10 ? lasts : lasts * 30;
        at += (size_t)snprintf(script + at, ROOM, " %llu+work %llu-work", now + 1000, now + 1000 + lasts);
        now += 1000 + lasts;
    }
    snprintf(script + at, ROOM, " %llu-main", now + 1000);
    return script;
}

struct runs {
    unsigned calls[CT_DIFF_SIDES], ns[CT_DIFF_SIDES], repeats;
};

/* A diff of traces with such calls; `repeats` more on each side. Returns rows of `work`. */
static struct ct_diff_row compare_runs(const struct runs *runs, uint64_t *noise) {
    enum { MOST = 4 };
    char *directories[CT_DIFF_SIDES][MOST];
    struct ct_trace *traces[CT_DIFF_SIDES][MOST];
    const char *functions[] = {"work", NULL};
    const struct ct_select select[MOST] = {
        {.functions = functions}, {.functions = functions}, {.functions = functions}, {.functions = functions}};
    struct ct_diff_options options = {.select = {select[0], select[0]}, .next = 1};
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        for (unsigned i = 0; i <= runs->repeats; i++) {
            char *script = script_of(runs->calls[s], runs->ns[s], 77 * i + 5 * (unsigned)s + 1);
            struct sample_thread thread = {.id = 1, .tid = 1000, .name = "sample", .script = script};
            directories[s][i] = sample_directory();
            char *path = sample_write(directories[s][i], &(struct sample){.threads = &thread, .thread_count = 1});
            assert_int_equal(ct_trace_open(&traces[s][i], path, NULL, 0), 0);
            free(path);
            free(script);
        }
        options.more[s] = &traces[s][1];
        options.more_select[s] = select;
        options.more_count[s] = runs->repeats;
    }
    struct ct_trace *first[CT_DIFF_SIDES] = {traces[0][0], traces[1][0]};
    struct ct_diff *diff;
    struct ct_diff_row row = {0};
    assert_int_equal(ct_diff_make(&diff, first, &options), 0);
    *noise = diff->noise;
    if (diff->row_count)
        row = diff->rows[0];
    ct_diff_free(diff);
    for (int s = 0; s < CT_DIFF_SIDES; s++)
        for (unsigned i = 0; i <= runs->repeats; i++) {
            ct_trace_close(traces[s][i]);
            sample_remove(directories[s][i]);
        }
    return row;
}

static void assert_noise(const struct runs *runs) {
    uint64_t noise;
    struct ct_diff_row row = compare_runs(runs, &noise);
    assert_null(row.name);
    assert_int_equal(noise, 1);
}

static struct ct_diff_row assert_changed(const struct runs *runs) {
    uint64_t noise;
    struct ct_diff_row row = compare_runs(runs, &noise);
    assert_non_null(row.name);
    assert_int_equal(noise, 0);
    return row;
}

static void times_spread(void **state) {
    (void)state;
    assert_noise(&(struct runs){{200, 200}, {1000, 1000}, 0});
    assert_noise(&(struct runs){{200, 200}, {1000, 1200}, 0});
    assert_false(assert_changed(&(struct runs){{200, 200}, {1000, 2000}, 0}).same_times);
    assert_false(assert_changed(&(struct runs){{200, 200}, {2000, 1000}, 0}).same_times);
    assert_noise(&(struct runs){{200, 200}, {20, 40}, 0});   /* less than the recorder's own cost spreads */
    assert_noise(&(struct runs){{2, 2}, {1000, 100000}, 0}); /* too few calls for microseconds */
    assert_false(assert_changed(&(struct runs){{2, 2}, {1000, 30000000}, 0}).same_times);
}

/* Numbers of calls are exact. */
static void calls_do_not_spread(void **state) {
    (void)state;
    struct ct_diff_row row = assert_changed(&(struct runs){{200, 201}, {1000, 1000}, 0});
    assert_true(row.same_times);
    assert_int_equal(row.side[CT_DIFF_A].calls, 200);
    assert_int_equal(row.side[CT_DIFF_B].calls, 201);
}

/* With repeats a smaller difference counts, when it is larger than that of the repeats. Values are means. */
static void repeats_show_the_spread(void **state) {
    (void)state;
    assert_noise(&(struct runs){{200, 200}, {1000, 1000}, 3});
    assert_noise(&(struct runs){{200, 200}, {1000, 1300}, 0});
    struct ct_diff_row row = assert_changed(&(struct runs){{200, 200}, {1000, 1300}, 3});
    assert_int_equal(row.side[CT_DIFF_A].calls, 200);
    assert_true(row.side[CT_DIFF_B].self_ns > row.side[CT_DIFF_A].self_ns);
}

static struct ct_diff_spread spread_of(const uint64_t *calls, size_t count) {
    struct ct_diff_spread spread = {0};
    for (size_t i = 0; i < count; i++)
        ct_diff_spread_add(&spread, &(struct ct_diff_sample){.calls = calls[i], .timed = calls[i]});
    return spread;
}

static void calls_of_repeats(void **state) {
    (void)state;
    const struct ct_diff_spread a = spread_of((const uint64_t[]){10, 12}, 2);
    const struct ct_diff_spread b = spread_of((const uint64_t[]){12, 11}, 2);
    const struct ct_diff_spread c = spread_of((const uint64_t[]){14, 15}, 2);
    const struct ct_diff_spread e = spread_of((const uint64_t[]){20, 21}, 2);
    assert_false(ct_diff_calls_differ(&a, &b));
    assert_false(ct_diff_calls_differ(&a, &c)); /* 2 apart, and 3 on the sides */
    assert_true(ct_diff_calls_differ(&a, &e));
    assert_true(ct_diff_calls_differ(&e, &a));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_gone_and_changed),
        cmocka_unit_test(order),
        cmocka_unit_test(least_change),
        cmocka_unit_test(selection),
        cmocka_unit_test(the_same_trace_has_no_difference),
        cmocka_unit_test(paths_part_at_another_function),
        cmocka_unit_test(paths_part_at_another_depth),
        cmocka_unit_test(paths_part_at_an_end),
        cmocka_unit_test(times_do_not_part_paths),
        cmocka_unit_test(others_are_not_on_the_path),
        cmocka_unit_test(main_threads_are_compared),
        cmocka_unit_test(times_spread),
        cmocka_unit_test(calls_do_not_spread),
        cmocka_unit_test(repeats_show_the_spread),
        cmocka_unit_test(calls_of_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
