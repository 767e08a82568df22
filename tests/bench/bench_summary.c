/* SPDX-License-Identifier: Apache-2.0 */
/* What summaries save: questions to a trace of 20 million events (one thread, packed), answered by reading everything
 * and with a summary, side by side; and what the summary costs. Seconds are processor time; the best of three counts.
 *
 * Files go to TMPDIR (default /tmp). */
#include "report/calls.h"
#include "report/functions.h"
#include "report/replay.h"
#include "report/where.h"
#include "trace/reader.h"
#include "trace/summary.h"
#include "parts_trace.h"
#include "trace_bench.h"
#include <string.h>
#include <sys/stat.h>

#define EVENTS 20000000u

enum { ROUNDS = 3 };

static char directory[300];

static double now(void) {
    return bench_clock(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t size_of(const char *name) {
    char path[400];
    struct stat status;
    snprintf(path, sizeof path, "%s/thread_1/%s", directory, name);
    return stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
}

/* ---- the summary itself ---- */

static double read_bare(struct ct_trace *trace) {
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    double start = now();
    must(ct_trace_cursor_open_thread(&cursor, trace, 0, 0), "cursor");
    while (ct_trace_cursor_next(cursor, &event))
        ;
    ct_trace_cursor_close(cursor);
    return now() - start;
}

static double open_summary(struct ct_trace *trace, const struct ct_facts *facts) {
    struct ct_summary *summary;
    double start = now();
    must(ct_summary_open(&summary, trace, 0, &(struct ct_summary_options){.facts = facts}), "summary");
    ct_summary_close(summary);
    return now() - start;
}

static void measure_summary(struct ct_trace *trace, const struct ct_facts *facts) {
    double bare = read_bare(trace), made = open_summary(trace, facts), loaded = open_summary(trace, facts);
    double again = read_bare(trace), size = (double)size_of("index.ctp");
    bare = again < bare ? again : bare;
    printf("%u events, %.1f MB\n", EVENTS, size / 1e6);
    printf("  reading all events             %8.1f ms\n", bare * 1e3);
    printf("  making the summary, once       %8.1f ms   %6.2f x reading\n", made * 1e3, made / bare);
    printf("  loading the summary            %8.2f ms   %.2f %% of the file\n", loaded * 1e3,
           (double)size_of(CTS_FILE) * 100 / size);
}

/* ---- questions ---- */

static int on_line(void *arg, const struct ct_replay_line *line) {
    *(uint64_t *)arg += line->time_ns != 0;
    return 0;
}

static double ask_replay(struct ct_trace *trace, const struct ct_select *select, uint64_t *answer) {
    const struct ct_replay_options options = {.select = *select};
    double start = now();
    *answer = 0;
    must(ct_replay(trace, &options, on_line, answer), "replay");
    return now() - start;
}

static double ask_report(struct ct_trace *trace, const struct ct_select *select, uint64_t *answer) {
    const struct ct_report_options options = {.select = *select, .workers = 1};
    struct ct_report *report;
    double start = now();
    must(ct_report_make(&report, trace, &options), "report");
    *answer = report->calls;
    ct_report_free(report);
    return now() - start;
}

static double ask_slowest(struct ct_trace *trace, const struct ct_select *select, uint64_t *answer) {
    struct ct_calls *calls;
    double start = now();
    must(ct_calls_find(&calls, trace, select, CT_CALLS_SLOWEST, 10, NULL), "slowest");
    *answer = calls->fitting + calls->at[9].sequence;
    ct_calls_free(calls);
    return now() - start;
}

static void compare(struct ct_trace *trace, const char *what,
                    double (*ask)(struct ct_trace *trace, const struct ct_select *select, uint64_t *answer),
                    const struct ct_select *select) {
    double whole = 1e9, with = 1e9;
    uint64_t a, b;
    for (int i = 0; i < ROUNDS; i++) {
        trace->summary.least = UINT64_MAX;
        double spent = ask(trace, select, &a);
        whole = spent < whole ? spent : whole;
        trace->summary.least = 0;
        spent = ask(trace, select, &b);
        with = spent < with ? spent : with;
        if (a != b)
            must(CT_ERR_BAD_FILE, what);
    }
    printf("  %-52s %8.1f ms   with a summary %7.2f ms   %7.1f x\n", what, whole * 1e3, with * 1e3, whole / with);
}

/* Two questions with a condition. */
static void ask_where(struct ct_trace *trace, const char *text) {
    struct ct_where_error error;
    struct ct_where *where;
    char what[100];
    must(ct_where_compile(&where, text, &error), error.text);
    const struct ct_select select = {.where = where};
    snprintf(what, sizeof what, "replay --where '%s'", text);
    compare(trace, what, ask_replay, &select);
    snprintf(what, sizeof what, "report --where '%s'", text);
    compare(trace, what, ask_report, &select);
    ct_where_free(where);
}

static void ask_everything(struct ct_trace *trace) {
    static const char *const one[] = {"function_7", NULL}, *const none[] = {"nothing", NULL};
    const uint64_t start = 1000000000, length = EVENTS * UINT64_C(41);
    compare(trace, "replay of 1 ms at 90 %", ask_replay,
            &(struct ct_select){.from_ns = start + length / 10 * 9, .to_ns = start + length / 10 * 9 + 1000000});
    compare(trace, "replay of 1 ms at 10 %", ask_replay,
            &(struct ct_select){.from_ns = start + length / 10, .to_ns = start + length / 10 + 1000000});
    compare(trace, "report of 10 ms at 50 %", ask_report,
            &(struct ct_select){.from_ns = start + length / 2, .to_ns = start + length / 2 + 10000000});
    compare(trace, "the 10 slowest calls", ask_slowest, &(struct ct_select){0});
    compare(trace, "replay of a function of one part", ask_replay, &(struct ct_select){.functions = one});
    compare(trace, "replay of a function that is not there", ask_replay, &(struct ct_select){.functions = none});
    ask_where(trace, "duration > 10ms");
    ask_where(trace, "function = function_7 and depth > 30");
}

int main(void) {
    const char *root = getenv("TMPDIR");
    char session[200], command[300];
    struct ct_trace *trace;
    struct ct_facts facts;
    snprintf(session, sizeof session, "%s/contrail-summary-XXXXXX", root ? root : "/tmp");
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!mkdtemp(session))
        return 1;
    snprintf(directory, sizeof directory, "%s/pid_1", session);
    mkdir(directory, 0700);
    write_parts_trace(directory, EVENTS);
    must(ct_trace_open(&trace, directory, NULL, 0), "trace");
    must(ct_facts_load(&facts, trace), "facts");
    measure_summary(trace, &facts);
    ask_everything(trace);
    ct_facts_free(&facts);
    ct_trace_close(trace);
    snprintf(command, sizeof command, "rm -rf '%s'", session);
    return system(command) != 0;
}
