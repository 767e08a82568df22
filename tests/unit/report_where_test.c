/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on calls: what they mean, what they refuse, and that they stop at no input; and which calls fit. */
#include "report/calls.h"
#include "report/fits.h"
#include "report/functions.h"
#include "report/graph.h"
#include "report/moments.h"
#include "report/replay.h"
#include "report/where.h"
#include "trace_sample.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the language ---- */

static const struct ct_trace_function parse = {
    .size = sizeof parse, .name = "ns::parse(int)", .linkage_name = "_ZN2ns5parseEi", .module = "libdemo.so.1"};
static const struct ct_cached_function known = {.name = "ns::parse(int)", .module = "libdemo.so.1", .function = &parse};

/* A call of 2.5 ms that has ended. */
static const struct ct_where_call ended = {.function = &known,
                                           .thread_name = "worker-1",
                                           .tid = 1001,
                                           .depth = 3,
                                           .ended = true,
                                           .duration_ns = 2500000,
                                           .self_ns = 40,
                                           .detail = CT_TRACE_NO_DETAIL,
                                           .end_detail = CT_TRACE_NO_DETAIL};

static enum ct_where_answer ask(const char *text, const struct ct_where_call *call) {
    struct ct_where *where;
    struct ct_where_error error;
    int status = ct_where_compile(&where, text, &error);
    if (status)
        fail_msg("%s: %s at %zu", text, error.text, error.at);
    enum ct_where_answer answer = ct_where_fits(where, call);
    ct_where_free(where);
    return answer;
}

static void conditions(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum ct_where_answer answer;
    } rows[] = {
        {"duration > 1ms", CT_WHERE_YES},
        {"duration>1ms", CT_WHERE_YES},
        {"duration >= 2.5ms", CT_WHERE_YES},
        {"duration = 2500us", CT_WHERE_YES},
        {"duration == 2500000ns", CT_WHERE_YES},
        {"duration < 0.0025s", CT_WHERE_NO},
        {"duration <= 1m and duration < 1h", CT_WHERE_YES},
        {"duration > 0", CT_WHERE_YES},
        {"duration > -1ms", CT_WHERE_YES},
        {"self != 40ns", CT_WHERE_NO},
        {"depth = 3", CT_WHERE_YES},
        {"depth > 2.5", CT_WHERE_YES},
        {"depth < 0x3", CT_WHERE_NO},
        {"depth > -1", CT_WHERE_YES},
        {"thread = 1001", CT_WHERE_YES},
        {"thread = worker-1", CT_WHERE_YES},
        {"thread != 'worker-1'", CT_WHERE_NO},
        {"thread like worker-*", CT_WHERE_YES},
        {"thread like \"w*2\"", CT_WHERE_NO},
        {"function = 'ns::parse(int)'", CT_WHERE_YES},
        {"function = ns::parse", CT_WHERE_YES},
        {"function = _ZN2ns5parseEi", CT_WHERE_YES},
        {"function = ns::*", CT_WHERE_NO},
        {"function like ns::*", CT_WHERE_YES},
        {"function like other", CT_WHERE_NO},
        {"function != ns::parse", CT_WHERE_NO},
        {"module = libdemo.so.1", CT_WHERE_YES},
        {"module like 'libdemo*'", CT_WHERE_YES},
        {"MODULE LIKE 'libdemo*' AND NOT Depth = 4", CT_WHERE_YES},
        {"not duration > 1ms", CT_WHERE_NO},
        {"! duration > 1ms or depth = 3", CT_WHERE_YES},
        {"depth = 3 and (duration > 1s or self < 1us)", CT_WHERE_YES},
        {"(((depth = 3)))", CT_WHERE_YES},
        {"depth = 3 || depth = 4 && depth = 5", CT_WHERE_YES}, /* and binds more */
        {"(depth = 3 || depth = 4) && depth = 5", CT_WHERE_NO},
        {"not not depth = 3", CT_WHERE_YES},
        {"result < 0", CT_WHERE_UNKNOWN},
        {"not result < 0", CT_WHERE_UNKNOWN},
        {"result < 0 or depth = 3", CT_WHERE_YES},
        {"result < 0 and depth = 4", CT_WHERE_NO},
        {"depth = 3 and result = 'text'", CT_WHERE_UNKNOWN},
        {"arg.1 = 5", CT_WHERE_UNKNOWN},
        {"arg.size = 5", CT_WHERE_UNKNOWN},
        {"size = 5", CT_WHERE_UNKNOWN},
        {"  depth = 3  ", CT_WHERE_YES},
        {"notable = 1 or depth = 3", CT_WHERE_YES}, /* "notable" is a name */
        {"order = 1 or depth = 3", CT_WHERE_YES},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum ct_where_answer answer = ask(rows[i].text, &ended);
        if (answer != rows[i].answer)
            fail_msg("%s: %d", rows[i].text, (int)answer);
    }
}

/* Before its end, nothing is known that the end decides. */
static void open_calls(void **state) {
    (void)state;
    struct ct_where_call open = ended;
    open.ended = false;
    assert_int_equal(ask("duration > 1ms", &open), CT_WHERE_UNKNOWN);
    assert_int_equal(ask("self > 1ms or depth = 3", &open), CT_WHERE_YES);
    assert_int_equal(ask("duration > 1ms and depth = 4", &open), CT_WHERE_NO);
}

static void mistakes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t at;
        const char *says;
    } rows[] = {
        {"", 0, "a comparison is missing"},
        {"duration", 8, "<, <=, ="},
        {"duration >", 10, "a value is missing"},
        {"duration > x", 11, "a time such as 1.5ms"},
        {"duration > 1", 11, "needs a unit"},
        {"duration > 1.5", 11, "needs a unit"},
        {"duration > 1xs", 11, "units of time"},
        {"duration ~ 1ms", 9, "not \"~\""},
        {"duration like 5", 8, "like is for texts"},
        {"duration > 99999999999h", 11, "too long"},
        {"depth = 99999999999999999999", 8, "too large"},
        {"depth = three", 8, "a number"},
        {"depth = 3ms", 8, "does not belong to it"},
        {"function > main", 11, "=, != or like"},
        {"thread < 5", 9, "=, != or like"},
        {"result > abc", 9, "this is a text"},
        {"result > 5ms", 9, "only duration and self are times"},
        {"function = 'main", 11, "has no end"},
        {"depth = 3 and", 13, "a comparison is missing"},
        {"and depth = 3", 4, "<, <=, ="},
        {"depth = 3 depth = 4", 10, "\"and\" or \"or\" is missing"},
        {"(depth = 3", 0, "not closed"},
        {"(depth = 3 depth", 11, "is missing before this"},
        {"depth = 3)", 9, "was not opened"},
        {"()", 1, "begins with a field"},
        {"5 < depth", 0, "begins with a field"},
        {"arg. = 5", 4, "arg. needs"},
        {"arg.0 = 5", 4, "numbered from 1"},
        {"arg.1000 = 5", 4, "numbered from 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ct_where *where = NULL;
        struct ct_where_error error;
        assert_int_equal(ct_where_compile(&where, rows[i].text, &error), CT_ERR_INVALID_ARGUMENT);
        assert_null(where);
        if (!strstr(error.text, rows[i].says) || error.at != rows[i].at)
            fail_msg("%s: \"%s\" at %zu", rows[i].text, error.text, error.at);
    }
}

/* Words of the language in any order, and bytes of any value: an error has a sentence and a place inside the text; what
 * is accepted can be evaluated. */
static void garbage(void **state) {
    (void)state;
    static const char *const words[] = {"duration", "and", "or",   "not",     "(",     ")", "1ms", "<",        "=",
                                        "like",     "'a'", "arg.", "arg.1",   "\"",    "*", "-5",  "function", "!=",
                                        "0x",       ".",   "1e9",  "result ", "depth", "!", "&&",  "\\'",      "\377"};
    uint32_t random = 1;
    int accepted = 0;
    for (int round = 0; round < 60000; round++) {
        char text[256] = "";
        size_t used = 0;
        for (int i = 0; i < 1 + (int)(random >> 28); i++) {
            random = random * 1103515245 + 12345;
            if (round % 4) {
                const char *word = words[(random >> 16) % (sizeof words / sizeof words[0])];
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", word, random >> 31 ? " " : "");
            } else {
                text[used++] = (char)((random >> 16) % 255 + 1);
            }
        }
        text[used] = 0;
        struct ct_where *where = NULL;
        struct ct_where_error error;
        int status = ct_where_compile(&where, text, &error);
        if (status) {
            assert_int_equal(status, CT_ERR_INVALID_ARGUMENT);
            assert_true(*error.text && error.at <= used);
        } else {
            (void)ct_where_fits(where, &ended);
            accepted++;
        }
        ct_where_free(where);
    }
    assert_true(accepted > 0);
}

static void many_conditions(void **state) {
    (void)state;
    char *text = malloc(100000), *at = text;
    struct ct_where *where;
    struct ct_where_error error;
    for (int i = 0; i < 5000; i++)
        at += sprintf(at, "(");
    assert_int_equal(ct_where_compile(&where, text, &error), CT_ERR_INVALID_ARGUMENT);
    at = text + sprintf(text, "depth = 0");
    for (int i = 1; i < 5000; i++)
        at += sprintf(at, " or depth = %d", i);
    assert_int_equal(ct_where_compile(&where, text, &error), CT_ERR_INVALID_ARGUMENT);
    at = text + sprintf(text, "function like a0");
    for (int i = 1; i < 100; i++) /* more names than are remembered */
        at += sprintf(at, " or function like a%d", i);
    sprintf(at, " or function like ns::*");
    struct ct_where_memory memory = {0};
    struct ct_where_call call = ended;
    call.memory = &memory;
    assert_int_equal(ask(text, &call), CT_WHERE_YES);
    assert_int_equal(ask("function like ns::*", &(struct ct_where_call){.function = &known}), CT_WHERE_YES);
    free(text);
}

/* ---- which calls fit ---- */

#define SCRIPT                                                                                                         \
    "0+main%1 10+work%42,7 20+leaf 25-leaf 30-work%0xffffffffffffffff 40+work%43,8 45+setjmp%9 50+leaf 90-leaf "       \
    "95-work%5 96+recurse 97+recurse 98-recurse 99-recurse 100-main%0"

struct fixture {
    struct sample_thread thread;
    char *directory;
    struct ct_trace *trace;
    struct ct_where *where;
    struct ct_select select;
};

static void open_fixture(struct fixture *f, const char *where) {
    struct ct_where_error error;
    *f = (struct fixture){.thread = {.id = 1, .tid = 1000, .name = "sample", .script = SCRIPT}};
    f->directory = sample_directory();
    char *path = sample_write(f->directory, &(struct sample){.threads = &f->thread, .thread_count = 1});
    assert_int_equal(ct_trace_open(&f->trace, path, NULL, 0), 0);
    if (where && ct_where_compile(&f->where, where, &error) != 0)
        fail_msg("%s: %s", where, error.text);
    f->select.where = f->where;
    free(path);
}

static void close_fixture(struct fixture *f) {
    ct_trace_close(f->trace);
    ct_where_free(f->where);
    sample_remove(f->directory);
}

/* Names and calls of the report's rows, by name. */
static void check_report(const char *where, const char *expected) {
    struct fixture f;
    struct ct_report *report;
    char text[1024] = "";
    open_fixture(&f, where);
    struct ct_report_options options = {.select = f.select, .sort = CT_REPORT_BY_NAME};
    assert_int_equal(ct_report_make(&report, f.trace, &options), 0);
    for (size_t i = 0; i < report->row_count; i++) {
        size_t used = strlen(text);
        const struct ct_report_row *row = &report->rows[i];
        snprintf(text + used, sizeof text - used, "%s%s:%llu/%llu/%llu", used ? " " : "", row->name,
                 (unsigned long long)row->calls, (unsigned long long)row->total_ns, (unsigned long long)row->self_ns);
    }
    assert_string_equal(text, expected);
    ct_report_free(report);
    close_fixture(&f);
}

static void fitting_calls_count(void **state) {
    (void)state;
    check_report(NULL, "leaf:2/45/45 main:1/100/22 recurse:2/3/3 setjmp:1/0/0 work:2/75/30");
    check_report("duration >= 40ns", "leaf:1/40/40 main:1/100/22 work:1/55/15");
    check_report("function = work and result < 0", "work:1/20/15");
    check_report("result = -1", "work:1/20/15");
    check_report("result = 5 or result = 0", "main:1/100/22 work:1/55/15");
    check_report("arg.1 = 42", "work:1/20/15");
    check_report("rdi = 43 and arg.2 = 8", "work:1/55/15");
    check_report("arg.1 = 9", "setjmp:1/0/0");
    check_report("function = recurse and depth = 2", "recurse:1/1/1");
    check_report("not result < 0", "main:1/100/22 work:1/55/15"); /* calls without a result fit neither */
    check_report("self < 4ns and function != setjmp", "recurse:2/3/3");
    check_report("thread = 1001", "");
    check_report("nothing = 1", "");
}

static int on_line(void *arg, const struct ct_replay_line *line) {
    char *text = arg;
    size_t used = strlen(text);
    snprintf(text + used, 1024 - used, "%s%llu %u %s%s%s%s", used ? "\n" : "",
             (unsigned long long)(line->time_ns - SAMPLE_START), line->indent, line->kind == CT_REPLAY_CLOSE ? "}" : "",
             line->name, line->callers ? " in " : "", line->callers ? line->callers : "");
    return 0;
}

static void check_replay(const char *where, const struct ct_replay_one *one, const char *expected) {
    struct fixture f;
    char text[1024] = "";
    open_fixture(&f, where);
    struct ct_replay_options options = {.select = f.select, .one = one};
    assert_int_equal(ct_replay(f.trace, &options, on_line, text), 0);
    assert_string_equal(text, expected);
    close_fixture(&f);
}

static void replay_shows_fitting_calls(void **state) {
    (void)state;
    check_replay("function like leaf", NULL, "20 0 leaf in main > work\n50 0 leaf in main > work");
    check_replay("function = main or duration = 40ns", NULL, "0 0 main\n50 1 leaf in work\n100 0 }main");
    check_replay("result < 0", NULL, "10 0 work in main");
    check_replay("arg.1 = 9", NULL, "45 0 setjmp in main > work");
    check_replay(NULL, &(struct ct_replay_one){0, 5}, "40 0 work in main\n45 1 setjmp\n50 1 leaf\n95 0 }work");
}

static void graph_keeps_callers(void **state) {
    (void)state;
    static const char *const names[] = {"work", NULL};
    struct fixture f;
    struct ct_graph *graph;
    open_fixture(&f, "result < 0");
    f.select.functions = names;
    struct ct_graph_options options = {.select = f.select, .depth = 1};
    assert_int_equal(ct_graph_make(&graph, f.trace, &options), 0);
    assert_int_equal(graph->function_count, 1);
    const struct ct_graph_function *work = graph->functions[0];
    assert_int_equal(work->callers.calls, 1);
    assert_int_equal(work->callers.total_ns, 20);
    assert_int_equal(work->callers.child_count, 1);
    assert_string_equal(work->callers.children[0]->known->name, "main");
    assert_int_equal(work->callees.child_count, 1);
    assert_int_equal(work->callees.children[0]->calls, 1); /* of leaf: only the one in that call */
    ct_graph_free(graph);
    close_fixture(&f);
}

static void kept_are_the_calls_around(void **state) {
    (void)state;
    static const char *const names[] = {"work", NULL};
    struct fixture f;
    struct ct_fits *fits;
    struct ct_facts facts;
    open_fixture(&f, NULL);
    assert_int_equal(ct_facts_load(&facts, f.trace), 0);
    assert_int_equal(ct_fits_make(&fits, f.trace, &facts, &f.select, CT_FITS_BELOW, NULL), 0);
    assert_null(fits); /* nothing to read */
    assert_true(ct_fits_call(NULL, 0, 1) && ct_fits_keeps(NULL, 0, 1));
    f.select.functions = names;
    assert_int_equal(ct_fits_make(&fits, f.trace, &facts, &f.select, CT_FITS_BELOW, NULL), 0);
    static const char expected[] = "cFFFFFFFFF....c"; /* 15 events: kept as context, or of calls that fit */
    for (uint64_t i = 0; i < sizeof expected - 1; i++) {
        assert_int_equal(ct_fits_keeps(fits, 0, i), expected[i] != '.');
        assert_int_equal(ct_fits_call(fits, 0, i), expected[i] == 'F');
    }
    assert_int_equal(ct_fits_kept(fits), 11);
    assert_false(ct_fits_call(fits, 0, 1000000));
    ct_fits_free(fits);
    assert_int_equal(ct_fits_make(&fits, f.trace, &facts, &f.select, CT_FITS_FUNCTIONS, NULL), 0);
    assert_true(ct_fits_call(fits, 0, 1) && !ct_fits_call(fits, 0, 2) && !ct_fits_keeps(fits, 0, 2));
    ct_fits_free(fits);
    ct_facts_free(&facts);
    close_fixture(&f);
}

/* ---- single calls ---- */

static void check_calls(const char *where, enum ct_calls_order order, size_t most, const char *expected) {
    struct fixture f;
    struct ct_calls *calls;
    char text[1024] = "";
    open_fixture(&f, where);
    assert_int_equal(ct_calls_find(&calls, f.trace, &f.select, order, most, NULL), 0);
    for (size_t i = 0; i < calls->count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s@%llu=%llu", used ? " " : "", calls->at[i].known->name,
                 (unsigned long long)calls->at[i].sequence, (unsigned long long)calls->at[i].duration_ns);
    }
    assert_string_equal(text, expected);
    ct_calls_free(calls);
    close_fixture(&f);
}

static void single_calls(void **state) {
    (void)state;
    check_calls(NULL, CT_CALLS_SLOWEST, 3, "main@0=100 work@5=55 leaf@7=40");
    check_calls(NULL, CT_CALLS_SLOWEST, 100,
                "main@0=100 work@5=55 leaf@7=40 work@1=20 leaf@2=5 recurse@10=3 recurse@11=1");
    check_calls("function = work", CT_CALLS_SLOWEST, 1, "work@5=55");
    check_calls("function = work", CT_CALLS_FIRST, 1, "work@1=20");
    check_calls("function = work", CT_CALLS_LAST, 2, "work@5=55 work@1=20");
    check_calls("function = setjmp", CT_CALLS_LAST, 1, "setjmp@6=0");
    check_calls("function = nothing", CT_CALLS_FIRST, 1, "");
}

static void calls_have_names(void **state) {
    (void)state;
    struct fixture f;
    char text[CT_CALLS_NAME];
    size_t thread;
    uint64_t sequence;
    open_fixture(&f, NULL);
    ct_calls_name(f.trace, 0, 5, text);
    assert_string_equal(text, "call=1:5");
    assert_true(ct_calls_parse(f.trace, "1:5", &thread, &sequence) && thread == 0 && sequence == 5);
    assert_true(ct_calls_parse(f.trace, "pid_1000/1:7", &thread, &sequence) && sequence == 7);
    assert_int_equal(ct_calls_time(f.trace, 0, 5), SAMPLE_START + 40);
    assert_int_equal(ct_calls_time(f.trace, 0, 500), 0);
    static const char *const wrong[] = {"", "1", "1:", ":5", "2:5", "pid_1/1:5", "1:5x", "main"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(ct_calls_parse(f.trace, wrong[i], &thread, &sequence));
    assert_int_equal(ct_moment_before(f.trace, &f.select, SIZE_MAX, SAMPLE_START + 50, 2), SAMPLE_START + 40);
    assert_int_equal(ct_moment_before(f.trace, &f.select, 0, UINT64_MAX, 1), SAMPLE_START + 100);
    assert_int_equal(ct_moment_before(f.trace, &f.select, 0, UINT64_MAX, 100), 0);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions),
        cmocka_unit_test(open_calls),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(garbage),
        cmocka_unit_test(many_conditions),
        cmocka_unit_test(fitting_calls_count),
        cmocka_unit_test(replay_shows_fitting_calls),
        cmocka_unit_test(graph_keeps_callers),
        cmocka_unit_test(kept_are_the_calls_around),
        cmocka_unit_test(single_calls),
        cmocka_unit_test(calls_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
