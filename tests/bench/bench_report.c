/* SPDX-License-Identifier: Apache-2.0 */
/* How fast traces are read: events per second of a bare cursor, of report (one worker, and all) and of replay, on a
 * trace of 5 million events in 4 threads; and the memory that a trace ten times as large takes (--large). */
#include "report/functions.h"
#include "report/replay.h"
#include "base/json_write.h"
#include "trace_bench.h"
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { THREADS = 4, FUNCTIONS = 2000, DEPTH = 40 };

static double now(void) {
    return bench_clock(CLOCK_MONOTONIC);
}

/* ---- a trace: random calls, mostly of a few functions ---- */

static void write_thread(const char *directory, uint32_t id, uint64_t events) {
    struct ct_thread_writer *writer;
    uint64_t random = 88172645463325252ull + id, time = 1000000000, stack[DEPTH];
    uint32_t depth = 0;
    must(ct_thread_writer_open(&writer, place_of(directory), id, 1000 + id), "a thread's file");
    while (events) {
        size_t room;
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        room = room < events ? room : (size_t)events;
        for (size_t i = 0; i < room; i++) {
            uint64_t r = next_random(&random);
            bool call = depth == 0 || (depth < DEPTH && r % 2);
            time += 20 + (r >> 8) % 200;
            if (call)
                stack[depth] = UINT64_C(1) << 32 | ((r >> 20) % 8 ? (r >> 30) % 32 : (r >> 30) % FUNCTIONS);
            depth -= !call;
            to[i] = (struct atf_index_event){time,  stack[depth], 1000 + id, call ? ATF_CALL : ATF_RETURN,
                                             depth, ATF_NO_DETAIL};
            depth += call;
        }
        ct_thread_writer_commit(writer, room);
        events -= room;
    }
    must(ct_thread_writer_close(writer), "closing a thread's file");
}

static void write_trace(const char *directory, uint64_t events) {
    struct ct_json json = {0};
    write_symbols(directory, FUNCTIONS);
    ct_json_begin(&json, NULL, '{');
    ct_json_bool(&json, "complete", true);
    ct_json_number(&json, "time_start_ns", 1000000000);
    ct_json_number(&json, "time_end_ns", UINT64_C(1000000000) + events * 130 / THREADS);
    ct_json_end(&json, '}');
    must(ct_trace_write_manifest(place_of(directory), &json), "manifest");
    ct_json_free(&json);
    for (uint32_t id = 1; id <= THREADS; id++)
        write_thread(directory, id, events / THREADS);
}

/* ---- measuring ---- */

static void print_speed(const char *what, double events, double seconds, double bare) {
    printf("%-32s %6.1f M events/s  %5.2f x the bare cursor\n", what, events / seconds / 1e6, bare / seconds);
}

static double read_bare(struct ct_trace *trace) {
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    double start = now();
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        must(ct_trace_cursor_open_thread(&cursor, trace, i, 0), "cursor");
        while (ct_trace_cursor_next(cursor, &event))
            ;
        ct_trace_cursor_close(cursor);
    }
    return now() - start;
}

static double make_report(struct ct_trace *trace, unsigned workers, bool per_thread) {
    struct ct_report *report;
    struct ct_report_options options = {.workers = workers, .per_thread = per_thread};
    double start = now();
    must(ct_report_make(&report, trace, &options), "report");
    ct_report_free(report);
    return now() - start;
}

static int on_line(void *arg, const struct ct_replay_line *line) {
    *(uint64_t *)arg += line->time_ns != 0;
    return 0;
}

static double make_replay(struct ct_trace *trace, const struct ct_replay_options *options) {
    uint64_t lines = 0;
    double start = now();
    must(ct_replay(trace, options, on_line, &lines), "replay");
    return now() - start;
}

int main(int argc, char **argv) {
    double events = argc > 1 && !strcmp(argv[1], "--large") ? 50e6 : 5e6;
    char session[] = "/tmp/contrail-bench-XXXXXX", directory[64], command[128];
    struct ct_trace *trace;
    struct rusage usage;
    if (!mkdtemp(session))
        return 1;
    snprintf(directory, sizeof directory, "%s/pid_1000", session);
    mkdir(directory, 0700);
    write_trace(directory, (uint64_t)events);
    must(ct_trace_open(&trace, directory, NULL, 0), "trace");
    read_bare(trace); /* once, so that the files are in memory */
    double bare = read_bare(trace);
    print_speed("bare cursor", events, bare, bare);
    print_speed("report, one worker", events, make_report(trace, 1, false), bare);
    print_speed("report, all processors", events, make_report(trace, 0, false), bare);
    print_speed("report per thread", events, make_report(trace, 0, true), bare);
    print_speed("replay", events, make_replay(trace, &(struct ct_replay_options){0}), bare);
    print_speed("replay, calls of 1 us and more", events,
                make_replay(trace, &(struct ct_replay_options){.min_ns = 1000}), bare);
    ct_trace_close(trace);
    getrusage(RUSAGE_SELF, &usage);
    printf("most memory: %.1f MiB\n", (double)usage.ru_maxrss / 1024);
    snprintf(command, sizeof command, "rm -rf '%s'", session);
    return system(command) != 0;
}
