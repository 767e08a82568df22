/* SPDX-License-Identifier: Apache-2.0 */
/* Values of arguments in a report: ranges, the most frequent ones, and how they are counted when there are too many. */
#include "report/values.h"
#include "trace_sample.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

enum { CALLS = 3000 };

/* First register: 5 in half of the calls, otherwise always another; second: one of four. Returns its first. */
static uint64_t first_of(int i) {
    return i % 2 ? 5 : 1000 + (uint64_t)i;
}

static char *write_trace(char *directory) {
    static char script[CALLS * 64];
    size_t used = 0;
    for (int i = 0; i < CALLS; i++)
        used += (size_t)sprintf(script + used, "%d+work%%%d,%d %d-work%%%d ", 20 * i, (int)first_of(i), i % 4,
                                20 * i + 10, i % 3);
    used += (size_t)sprintf(script + used, "%d+leaf", 20 * CALLS);
    struct sample_thread thread = {.id = 1, .tid = 1000, .name = "one", .script = script};
    return sample_write(directory, &(struct sample){.threads = &thread, .thread_count = 1, .end_ns = 20 * CALLS + 100});
}

static const struct ct_value_count *find(const struct ct_parameter_values *p, const char *text) {
    for (size_t i = 0; i < p->kept_count; i++)
        if (!strcmp(p->kept[i].text, text))
            return &p->kept[i];
    return NULL;
}

static void test_values(void **state) {
    (void)state;
    char *directory = sample_directory(), *path = write_trace(directory);
    struct ct_report_options options = {.sort = CT_REPORT_BY_CALLS};
    struct ct_trace *trace;
    struct ct_report *report;
    struct ct_values *values;
    assert_int_equal(ct_trace_open(&trace, path, NULL, 0), 0);
    assert_int_equal(ct_report_make(&report, trace, &options), 0);
    assert_int_equal(ct_values_make(&values, trace, report, &options.select, NULL), 0);
    assert_int_equal(values->row_count, 2);
    assert_int_equal(values->records, 2 * CALLS);
    const struct ct_function_values *work = &values->rows[0], *leaf = &values->rows[1];
    assert_string_equal(report->rows[0].name, "work");
    assert_int_equal(leaf->calls, 0);
    assert_int_equal(work->calls, CALLS);
    assert_int_equal(work->returns, CALLS);
    assert_int_equal(work->count, 6);

    const struct ct_parameter_values *p = &work->parameters[0];
    assert_string_equal(p->name, "rdi");
    assert_true(p->more);
    assert_int_equal(p->kept_count, CT_VALUES_KEPT);
    const struct ct_value_count *five = find(p, "0x5");
    assert_non_null(five);
    assert_ptr_equal(five, &p->kept[0]);
    assert_true(five->count >= CALLS / 2 && five->count - five->error <= CALLS / 2);
    assert_true(five->count - five->error > CALLS / 2 - CALLS / 10);
    for (size_t i = 1; i < p->kept_count; i++) /* each of the others was there once */
        assert_true(p->kept[i].count - p->kept[i].error <= 1);

    p = &work->parameters[1];
    assert_false(p->more);
    assert_int_equal(p->kept_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(p->kept[i].count, CALLS / 4);
        assert_int_equal(p->kept[i].error, 0);
    }
    assert_int_equal(work->result.kept_count, 3);
    assert_int_equal(work->result.values, CALLS);
    ct_values_free(values);
    ct_report_free(report);
    ct_trace_close(trace);
    free(path);
    sample_remove(directory);
}

/* Only threads that were selected. */
static void test_threads(void **state) {
    (void)state;
    static const struct sample_thread threads[] = {{.id = 1, .tid = 1000, .name = "a", .script = "1+work%7 2-work%1"},
                                                   {.id = 2, .tid = 1001, .name = "b", .script = "1+work%8 2-work%2"}};
    static const char *const chosen[] = {"b", NULL};
    char *directory = sample_directory(),
         *path = sample_write(directory, &(struct sample){.threads = threads, .thread_count = 2, .end_ns = 10});
    struct ct_report_options options = {.select.threads = (const char **)chosen};
    struct ct_trace *trace;
    struct ct_report *report;
    struct ct_values *values;
    assert_int_equal(ct_trace_open(&trace, path, NULL, 0), 0);
    assert_int_equal(ct_report_make(&report, trace, &options), 0);
    assert_int_equal(ct_values_make(&values, trace, report, &options.select, NULL), 0);
    assert_int_equal(values->rows[0].calls, 1);
    assert_string_equal(values->rows[0].parameters[0].kept[0].text, "0x8");
    ct_values_free(values);
    ct_report_free(report);
    ct_trace_close(trace);
    free(path);
    sample_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
