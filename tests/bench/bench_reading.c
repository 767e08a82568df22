/* SPDX-License-Identifier: Apache-2.0 */
/* What more processors save in reading one busy thread: the bare cursor, report, verify and some exports of a packed
 * trace, with one worker and with all processors, side by side in one run. Wall-clock time, the best of several rounds.
 *
 *   bench_reading [MILLIONS OF EVENTS] [--keep DIRECTORY]
 *
 * The events are those of a program that repeats itself, as programs do: a few hundred small trees of calls, each
 * taken some times in a row, with times that vary. Files go to TMPDIR (default /tmp); --keep leaves a trace for the
 * tool in a new directory, and measures nothing. */
#include "tests/tools/place_of.h"
#include "abi/atf.h"
#include "base/json_write.h"
#include "export/export.h"
#include "report/functions.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include <contrail/session.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FUNCTIONS = 300, TREES = 200, TREE_CALLS = 40, DEEPEST = 24, ROUNDS = 3, BASE = 12 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(int status, const char *what) {
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", what, ct_status_text(status));
    exit(1);
}

/* ---- a trace ---- */

static uint32_t pick(uint32_t limit) {
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % limit;
}

/* A tree of calls: each step is a call of a function, or a return. */
struct tree {
    int16_t steps[2 * TREE_CALLS]; /* -1: a return */
};

static void make_tree(struct tree *tree) {
    int open = 0, calls = 0;
    for (int i = 0; i < 2 * TREE_CALLS; i++) {
        bool call = calls < TREE_CALLS && (!open || (open < DEEPEST && pick(100) < 55));
        tree->steps[i] = call ? (int16_t)(pick(4) ? pick(FUNCTIONS / 8) : pick(FUNCTIONS)) : -1;
        calls += call;
        open += call ? 1 : -1;
    }
}

struct generator {
    struct tree trees[TREES];
    uint64_t stack[BASE + DEEPEST + 1], time;
    uint32_t depth, tree, step, times;
};

static struct atf_index_event next_event(struct generator *g) {
    int function;
    if (g->depth < BASE && !g->times) { /* calls that stay open */
        function = (int)(FUNCTIONS + g->depth);
    } else {
        if (!g->times) {
            g->tree = pick(TREES);
            g->times = 1 + pick(12);
        }
        function = g->trees[g->tree].steps[g->step];
        if (++g->step == 2 * TREE_CALLS) {
            g->step = 0;
            g->times--;
        }
    }
    g->time += 11 + pick(24) + (pick(50) ? 0 : pick(4000));
    g->depth -= function < 0;
    if (function >= 0)
        g->stack[g->depth] = UINT64_C(1) << 32 | (uint32_t)function;
    struct atf_index_event event = {g->time,  g->stack[g->depth], 1000, function < 0 ? ATF_RETURN : ATF_CALL,
                                    g->depth, ATF_NO_DETAIL};
    g->depth += function >= 0;
    return event;
}

static void write_thread(const char *directory, uint64_t events) {
    const struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_PACKED};
    struct ct_thread_writer *writer;
    struct generator *g = calloc(1, sizeof *g);
    if (!g)
        must(CT_ERR_NO_MEMORY, "a generator");
    g->time = 1000000000;
    for (int i = 0; i < TREES; i++)
        make_tree(&g->trees[i]);
    must(ct_thread_writer_open_as(&writer, place_of(directory), 1, 1000, &format), "a thread's file");
    for (uint64_t left = events; left;) {
        size_t room;
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        room = room < left ? room : (size_t)left;
        for (size_t i = 0; i < room; i++)
            to[i] = next_event(g);
        ct_thread_writer_commit(writer, room);
        left -= room;
    }
    must(ct_thread_writer_close(writer), "closing a thread's file");
    free(g);
}

static void write_symbols(const char *directory) {
    struct ct_symbols_writer *symbols;
    char name[64];
    must(ct_symbols_writer_open(&symbols, place_of(directory)), "symbols");
    ct_symbols_writer_module(symbols, 1, "/usr/bin/bench", "00", 0x1000);
    for (uint64_t i = 0; i < FUNCTIONS + BASE; i++) {
        snprintf(name, sizeof name, "function_%llu", (unsigned long long)i);
        ct_symbols_writer_function(symbols, UINT64_C(1) << 32 | i, 64 * i, 64, name, "", "");
    }
    must(ct_symbols_writer_close(symbols), "symbols");
}

static void write_trace(const char *directory, uint64_t events) {
    struct ct_json json = {0};
    write_symbols(directory);
    write_thread(directory, events);
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "format", "packed");
    ct_json_bool(&json, "complete", true);
    ct_json_begin(&json, "threads", '[');
    ct_json_begin(&json, NULL, '{');
    ct_json_number(&json, "id", 1);
    ct_json_number(&json, "tid", 1000);
    ct_json_number(&json, "events", events);
    ct_json_end(&json, '}');
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    must(ct_trace_write_manifest(place_of(directory), &json), "manifest");
    ct_json_free(&json);
}

/* ---- measuring ---- */

enum { OLD, ONE, ALL, WAYS };

static double make_report(struct ct_trace *trace, int way) {
    const struct ct_report_options options = {.workers = way == ALL ? 0 : 1,
                                              .range_events = way == OLD ? UINT64_MAX : 0};
    struct ct_report *report;
    double start = now();
    must(ct_report_make(&report, trace, &options), "report");
    double spent = now() - start;
    ct_report_free(report);
    return spent;
}

static double read_bare(struct ct_trace *trace, int way) {
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    trace->jobs = way == ALL ? 0 : 1;
    double start = now();
    must(ct_trace_cursor_open_thread(&cursor, trace, 0, 0), "cursor");
    while (ct_trace_cursor_next(cursor, &event)) {
    }
    ct_trace_cursor_close(cursor);
    return now() - start;
}

/* Opens the trace again: what was found to be right once is not looked at again. */
static double verify(struct ct_trace *trace, int way) {
    struct ct_trace *fresh;
    must(ct_trace_open(&fresh, trace->path, NULL, 0), "trace");
    fresh->jobs = way == ALL ? 0 : 1;
    double start = now();
    must(ct_trace_verify(fresh, NULL, NULL), "verify");
    double spent = now() - start;
    ct_trace_close(fresh);
    return spent;
}

static const struct ct_export_format *format; /* of export_to_nothing */

static double export_to_nothing(struct ct_trace *trace, int way) {
    const struct ct_export_options options = {.format = format,
                                              .fd = open("/dev/null", O_WRONLY | O_CLOEXEC),
                                              .workers = way == ALL ? 0 : 1,
                                              .one_by_one = way == OLD};
    struct ct_export_result result;
    trace->jobs = way == ALL ? 0 : 1;
    double start = now();
    must(ct_export_run(trace, &options, &result), format->name);
    close(options.fd);
    return now() - start;
}

/* Measures all ways in turn, so that what else runs disturbs all of them. */
static void compare(struct ct_trace *trace, double events, const char *what,
                    double (*measure)(struct ct_trace *trace, int way), int first) {
    double best[WAYS] = {1e9, 1e9, 1e9};
    for (int round = 0; round < ROUNDS; round++)
        for (int way = first; way < WAYS; way++) {
            double spent = measure(trace, way);
            best[way] = spent < best[way] ? spent : best[way];
        }
    printf("%-20s", what);
    if (first == OLD)
        printf(" event by event %6.1f ns", best[OLD] / events * 1e9);
    else
        printf("%25s", "");
    printf("   one worker %6.1f ns   all processors %6.1f ns an event   %5.2f x\n", best[ONE] / events * 1e9,
           best[ALL] / events * 1e9, best[first] / best[ALL]);
}

static void measure_all(const char *directory, double events) {
    struct ct_trace *trace;
    must(ct_trace_open(&trace, directory, NULL, 0), "trace");
    compare(trace, events, "bare cursor", read_bare, ONE);
    trace->jobs = 0;
    compare(trace, events, "report", make_report, OLD);
    compare(trace, events, "verify", verify, ONE);
    for (size_t i = 0; (format = ct_export_format_at(i)); i++) {
        char what[40];
        snprintf(what, sizeof what, "export %s", format->name);
        if (format->kind != CT_EXPORT_DIRECTORY && !(format->flags & (CT_EXPORT_EVENTS | CT_EXPORT_COPY)))
            compare(trace, events, what, export_to_nothing, OLD);
    }
    ct_trace_close(trace);
}

int main(int argc, char **argv) {
    uint64_t events = (argc > 1 ? strtoull(argv[1], NULL, 10) : 10) * 1000000;
    bool keep = argc > 3 && !strcmp(argv[2], "--keep");
    const char *root = getenv("TMPDIR");
    char session[200], directory[300], command[300];
    if (keep)
        snprintf(session, sizeof session, "%s", argv[3]);
    else
        snprintf(session, sizeof session, "%s/contrail-reading-XXXXXX", root ? root : "/tmp");
    if (keep ? mkdir(session, 0700) != 0 : !mkdtemp(session)) {
        perror(session);
        return 1;
    }
    snprintf(directory, sizeof directory, "%s/pid_1000", session);
    mkdir(directory, 0700);
    write_trace(directory, events);
    if (keep)
        return 0;
    measure_all(directory, (double)events);
    snprintf(command, sizeof command, "rm -rf '%s'", session);
    return system(command) != 0;
}
