/* SPDX-License-Identifier: Apache-2.0 */
/* How fast traces are exported, format by format, compared with a bare cursor over the same events. Files go to
 * /dev/null, directories to the given one (default: the temporary one). Measures processor time, so that other programs
 * do not disturb. Also reports the peak memory. */
#include "tests/tools/place_of.h"
#include "export/export.h"
#include "trace/writer.h"
#include "base/json_write.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define THREADS   4
#define EVENTS    1000000u /* per thread */
#define FUNCTIONS 3000u
#define DEEPEST   24u

static double spent(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the trace: its depth rises and falls like a program's ---- */

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void write_thread(const char *directory, uint32_t id) {
    struct ct_thread_writer *writer;
    uint32_t stack[DEEPEST], depth = 0;
    uint64_t state = id, time = 1000000;
    if (ct_thread_writer_open(&writer, place_of(directory), id, id) != 0)
        exit(1);
    for (uint32_t i = 0; i < EVENTS; i++) {
        size_t room;
        uint32_t roll = next_random(&state);
        bool call = depth == 0 || (depth < DEEPEST && (roll & 1));
        if (call) /* one of the few functions that its caller calls, as in programs */
            stack[depth] = ((depth ? stack[depth - 1] : 0) * 7 + (roll >> 8) % 3) % FUNCTIONS;
        else
            depth--;
        time += 20 + roll % 100;
        *ct_thread_writer_reserve(writer, &room) = (struct atf_index_event){
            time, UINT64_C(1) << 32 | stack[depth], id, call ? ATF_CALL : ATF_RETURN, depth, ATF_NO_DETAIL};
        ct_thread_writer_commit(writer, 1);
        depth += call;
    }
    if (ct_thread_writer_close(writer) != 0)
        exit(1);
}

static void write_symbols(const char *directory) {
    struct ct_symbols_writer *writer;
    char name[80];
    if (ct_symbols_writer_open(&writer, place_of(directory)) != 0)
        exit(1);
    ct_symbols_writer_module(writer, 1, "/usr/lib/libbench.so", "00", 0);
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        snprintf(name, sizeof name, "_ZN5bench12some_mangled4nameILi%uEEEvv", i);
        ct_symbols_writer_function(writer, UINT64_C(1) << 32 | i, i * 64, 64, name, "", "");
    }
    if (ct_symbols_writer_close(writer) != 0)
        exit(1);
}

static void write_manifest(const char *directory) {
    struct ct_json json = {0};
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "format", "atf2");
    ct_json_bool(&json, "complete", true);
    ct_json_begin(&json, "threads", '[');
    for (uint32_t i = 1; i <= THREADS; i++) {
        ct_json_begin(&json, NULL, '{');
        ct_json_number(&json, "id", i);
        ct_json_number(&json, "tid", i);
        ct_json_number(&json, "events", EVENTS);
        ct_json_end(&json, '}');
    }
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    if (ct_trace_write_manifest(place_of(directory), &json) != 0)
        exit(1);
    ct_json_free(&json);
}

/* ---- measuring ---- */

static double read_bare(struct ct_trace *trace) {
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    uint64_t count = 0;
    double start = spent();
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        if (ct_trace_cursor_open_thread(&cursor, trace, i, 0) != 0)
            exit(1);
        while (ct_trace_cursor_next(cursor, &event))
            count++;
        ct_trace_cursor_close(cursor);
    }
    return (double)count / (spent() - start);
}

static void run(struct ct_trace *trace, const struct ct_export_format *format, const char *root, double bare) {
    char directory[400], command[440];
    struct ct_export_result result;
    struct ct_export_options options = {.format = format, .directory = directory};
    snprintf(directory, sizeof directory, "%s/%s", root, format->name);
    options.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    double start = spent();
    int status = ct_export_run(trace, &options, &result);
    double rate = (double)result.events / (spent() - start);
    close(options.fd);
    if (status)
        exit(1);
    printf("%-12s %7.1f M events/s  %.2f of the cursor  %6.1f bytes for an event\n", format->name, rate / 1e6,
           rate / bare, (double)result.bytes / (double)result.events);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (system(command))
        exit(1);
}

int main(int argc, char **argv) {
    char root[300], directory[320], command[340];
    snprintf(root, sizeof root, "%s/contrail-bench-XXXXXX", argc > 1 ? argv[1] : "/tmp");
    if (!mkdtemp(root))
        return 1;
    snprintf(directory, sizeof directory, "%s/pid_1", root);
    if (mkdir(directory, 0700) != 0)
        return 1;
    for (uint32_t i = 1; i <= THREADS; i++)
        write_thread(directory, i);
    write_symbols(directory);
    write_manifest(directory);
    struct ct_trace *trace;
    if (ct_trace_open(&trace, directory, NULL, 0) != 0)
        return 1;
    read_bare(trace); /* once, so that the files are in memory */
    double bare = read_bare(trace);
    printf("%-12s %7.1f M events/s of processor time\n", "bare cursor", bare / 1e6);
    for (size_t i = 0; ct_export_format_at(i); i++)
        run(trace, ct_export_format_at(i), root, bare);
    ct_trace_close(trace);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("memory at most %.1f MiB, for %u M events\n", (double)usage.ru_maxrss / 1024, THREADS * (EVENTS / 1000000));
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command) ? 1 : 0;
}
