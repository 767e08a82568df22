/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions in SQL mean the same whether the reader gets them or not: a plus sign before a column keeps a condition
 * from the reader. And what a statement may not do. */
#include "query/query.h"
#include "query/examples.h"
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
static struct ct_trace *trace;
static struct ct_source *source;
static struct ct_query *query;

static int setup(void **unused) {
    (void)unused;
    make_directory(root, sizeof root);
    snprintf(directory, sizeof directory, "%s/pid_321", root);
    write_random(directory, &(struct random_trace){.seed = 601, .threads = 2, .events = 20000, .gaps = 20});
    assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
    trace->summary = (struct ct_summary_limits){.least = 1, .span_events = 1000, .all_starts = true};
    assert_int_equal(ct_source_open(&source, &(struct ct_source_setup){.trace = trace, .often = true}), 0);
    assert_int_equal(ct_query_open(&query, &(struct ct_query_setup){.sources = &source, .source_count = 1}), 0);
    return 0;
}

static int teardown(void **unused) {
    (void)unused;
    ct_query_close(query);
    ct_source_close(source);
    ct_trace_close(trace);
    remove_directory(root);
    return 0;
}

/* Runs a statement and returns the first value of its last row, as text. */
static const char *answer(const char *sql) {
    static char text[512];
    struct ct_query_error error;
    struct ct_cell cell = {0};
    const char *rest;
    int status = ct_query_prepare(query, sql, &rest, &error);
    snprintf(text, sizeof text, "none");
    while (status > 0 && (status = ct_query_step(query, &error)) > 0) {
        ct_query_value(query, 0, &cell);
        if (cell.type == CT_CELL_INTEGER)
            snprintf(text, sizeof text, "%lld", (long long)cell.integer);
        else
            snprintf(text, sizeof text, "%s", cell.type == CT_CELL_TEXT ? cell.text : "NULL");
    }
    if (status < 0)
        snprintf(text, sizeof text, "%s", error.text);
    return text;
}

/* Replaces each @ by `by`. */
static void fill(char *out, size_t size, const char *text, const char *by) {
    size_t used = 0;
    for (; *text && used + 8 < size; text++)
        used += (size_t)snprintf(out + used, size - used, "%s", *text == '@' ? by : (char[]){*text, 0});
}

static void test_conditions_mean_the_same(void **unused) {
    static const char *const conditions[] = {
        "@duration > 5000",
        "@duration >= 5000.5",
        "@duration < 5e2 AND @duration > 1e2",
        "@duration IS NULL",
        "@duration <> 10",
        "@start > 1000000 AND @start <= 1100000",
        "@start > -5",
        "@start < -5",
        "@start = NULL",
        "@start > 9223372036854775807",
        "@start < 1e300",
        "@function = 'f17'",
        "@function = 'F17'",
        "@function = 'f17' COLLATE NOCASE",
        "@function LIKE 'F1_'",
        "@function GLOB 'f[12]?'",
        "@function IN ('f10', 'f11', 'nothing', NULL)",
        "@function IN (SELECT function FROM functions ORDER BY calls LIMIT 5)",
        "@function NOT IN ('f10', 'f11')",
        "@function > 'f2' AND @function LIKE '%5'",
        "@function = 'f20' OR @function = 'f21'",
        "@module = 'nothing'",
        "@module LIKE '%'",
        "@depth = 3 AND @thread = 2",
        "@depth > 4.5",
        "@thread IN (1, 7)",
        "@process = 1",
        "@id = 1500",
        "@id IN (SELECT parent FROM calls WHERE depth = 2 LIMIT 20)",
        "@id > 1099511627776 AND @id < 1099511630000",
        "@parent = 0",
        "@parent > 100 AND @parent < 2000",
        "@parent IS NULL",
        "@rowid = 1500",
        "@start > 500000 AND @duration > 2000 AND @function GLOB 'f1*' AND @depth < 9",
    };
    (void)unused;
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
        char given[512], kept[512], sql[1024], expected[512];
        fill(given, sizeof given, conditions[i], "");
        fill(kept, sizeof kept, conditions[i], "+");
        snprintf(sql, sizeof sql, "SELECT count(*) || ' ' || total(id * depth) FROM calls WHERE %s", kept);
        snprintf(expected, sizeof expected, "%s", answer(sql));
        assert_null(strstr(expected, "error"));
        snprintf(sql, sizeof sql, "SELECT count(*) || ' ' || total(id * depth) FROM calls WHERE %s", given);
        if (strcmp(answer(sql), expected) != 0)
            fail_msg("%s: %s instead of %s", given, answer(sql), expected);
    }
}

/* As for columns of ordinary tables. */
static void test_texts_as_numbers(void **unused) {
    char number[64];
    (void)unused;
    snprintf(number, sizeof number, "%s", answer("SELECT count(*) FROM calls WHERE duration BETWEEN 100 AND 5000"));
    assert_string_equal(answer("SELECT count(*) FROM calls WHERE duration BETWEEN '100' AND '5000'"), number);
    assert_string_equal(answer("SELECT count(*) FROM calls WHERE duration = 'text'"), "0");
    assert_string_equal(answer("SELECT count(*) FROM calls WHERE function = 17"), "0");
    snprintf(number, sizeof number, "%s", answer("SELECT count(duration) FROM calls"));
    assert_string_equal(answer("SELECT count(*) FROM calls WHERE duration < 'text'"), number);
}

static void test_the_longest_calls(void **unused) {
    char sorted[512];
    (void)unused;
    for (int limit = 1; limit < 200; limit = limit * 3 + 1) {
        char sql[512];
        snprintf(sql, sizeof sql,
                 "SELECT group_concat(duration) FROM (SELECT duration FROM calls ORDER BY +duration DESC LIMIT %d)",
                 limit);
        snprintf(sorted, sizeof sorted, "%s", answer(sql));
        snprintf(sql, sizeof sql,
                 "SELECT group_concat(duration) FROM (SELECT duration FROM calls ORDER BY duration DESC LIMIT %d)",
                 limit);
        assert_string_equal(answer(sql), sorted);
    }
    snprintf(sorted, sizeof sorted, "%s",
             answer("SELECT duration FROM calls ORDER BY +duration DESC, id LIMIT 1 OFFSET 9"));
    assert_string_equal(answer("SELECT duration FROM calls ORDER BY duration DESC LIMIT 1 OFFSET 9"), sorted);
}

static void test_joins(void **unused) {
    (void)unused;
    assert_string_equal(answer("SELECT count(*) FROM (SELECT c.id FROM calls c JOIN calls p ON p.id = c.parent "
                               "WHERE c.depth = 2 AND c.thread = 1 AND c.start < 300000) "),
                        answer("SELECT count(*) FROM calls c WHERE c.depth = 2 AND c.thread = 1 AND c.start < 300000 "
                               "AND c.parent IS NOT NULL"));
    char calls[64];
    snprintf(calls, sizeof calls, "%s", answer("SELECT sum(calls) FROM edges"));
    assert_string_equal(answer("SELECT count(*) FROM calls"), calls);
    assert_string_equal(answer("SELECT sum(calls) FROM functions"), calls);
    assert_string_equal(answer("SELECT count(*) FROM calls AS c, callers(c.id) AS s WHERE c.id = 40 AND s.level = 0"),
                        "1");
}

static void test_statements_only_read(void **unused) {
    static const char *const denied[] = {
        "ATTACH 'x.db' AS x",
        "DETACH a",
        "CREATE TABLE x(y)",
        "CREATE TEMP VIEW x AS SELECT 1",
        "INSERT INTO calls(id) VALUES (1)",
        "DROP TABLE calls",
        "PRAGMA temp_store_directory = '/'",
        "PRAGMA writable_schema = 1",
        "VACUUM INTO 'x.db'",
        "BEGIN",
        "SELECT load_extension('x')",
        "SELECT fts3_tokenizer('simple')",
        "ANALYZE",
        "CREATE VIRTUAL TABLE x USING contrail",
    };
    (void)unused;
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
        const char *text = answer(denied[i]);
        if (!strstr(text, "authoriz") && !strstr(text, "may not be") && !strstr(text, "no such function"))
            fail_msg("%s: %s", denied[i], text);
    }
    assert_string_equal(answer("SELECT count(*) > 3 FROM pragma_table_info('calls')"), "1");
    assert_string_equal(answer("SELECT count(*) > 0 FROM functions"), "1"); /* the tables are still there */
    assert_string_equal(answer("SELECT max(value) FROM json_each('[3, 5, 4]')"), "5");
    assert_string_equal(answer("SELECT json_extract('[7]', '$[0]')"), "7");
}

static void test_examples_compile(void **unused) {
    const struct ct_query_example *example;
    size_t count = 0;
    (void)unused;
    for (; (example = ct_query_example(count)); count++) {
        struct ct_query_error error;
        const char *rest;
        if (!example->two && ct_query_prepare(query, example->sql, &rest, &error) != 1)
            fail_msg("%s: %s", example->question, error.text);
    }
    assert_int_equal(count, 20);
}

static int stop_at_once(void *arg) {
    ++*(int *)arg;
    return 1;
}

static void test_stopping(void **unused) {
    struct ct_source *stopped;
    struct ct_query *other;
    struct ct_query_error error;
    const char *rest;
    int polls = 0;
    (void)unused;
    assert_int_equal(ct_source_open(&stopped, &(struct ct_source_setup){.trace = trace}), 0);
    const struct ct_query_setup setup = {
        .sources = &stopped, .source_count = 1, .poll = stop_at_once, .poll_arg = &polls};
    assert_int_equal(ct_query_open(&other, &setup), 0);
    assert_int_equal(ct_query_prepare(other, "SELECT count(*) FROM calls a, calls b", &rest, &error), 1);
    assert_int_equal(ct_query_step(other, &error), -1);
    assert_true(error.stopped && polls);
    ct_query_close(other);
    ct_source_close(stopped);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions_mean_the_same),
        cmocka_unit_test(test_texts_as_numbers),
        cmocka_unit_test(test_the_longest_calls),
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_statements_only_read),
        cmocka_unit_test(test_examples_compile),
        cmocka_unit_test(test_stopping),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
