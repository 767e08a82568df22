/* SPDX-License-Identifier: Apache-2.0 */
/* Packed against raw index files: bytes per event, and events per second that one core writes and reads.
 *
 * bench_packed [index.atf...]        recorded raw files (--format atf2); without any, events of a made-up program
 *
 * "other clock": the same events with a random part of up to 10 ns in their times, for machines whose counter has steps
 * of that size. Seconds are processor time, including the kernel's: what one core can do, even on a busy machine. Files
 * go to TMPDIR (default /tmp). */
#include "abi/atf.h"
#include "trace/file.h"
#include "trace_bench.h"
#include "base/json_write.h"
#include <contrail/session.h>
#include <contrail/trace.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MADE_UP 4000000u

static char directory[300];

static double now(void) {
    return bench_clock(CLOCK_THREAD_CPUTIME_ID);
}

static void clean(void) {
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'/*", directory);
    if (system(command) != 0)
        exit(1);
}

/* ---- events ---- */

/* 200 functions that each call some others, in varying order. */
static struct atf_index_event *make_up(size_t *count) {
    struct atf_index_event *events = malloc(MADE_UP * sizeof *events);
    uint32_t stack[40], depth = 0;
    uint64_t ns = 1000;
    for (size_t i = 0; i < MADE_UP; i++) {
        ns += 12 + pick(60);
        bool call = depth == 0 || (depth < 40 && pick(100) < 50);
        uint32_t function = call ? (depth ? stack[depth - 1] * 5 + pick(3) + 1 : pick(2)) % 200 : stack[--depth];
        events[i] = (struct atf_index_event){
            ns, UINT64_C(1) << 32 | function, 7, call ? ATF_CALL : ATF_RETURN, depth, ATF_NO_DETAIL};
        if (call)
            stack[depth++] = function;
    }
    *count = MADE_UP;
    return events;
}

static struct atf_index_event *load(const char *path, size_t *count) {
    char *bytes;
    size_t size;
    if (ct_file_load(path, SIZE_MAX, &bytes, &size) != 0 || size < 128 || memcmp(bytes, ATF_INDEX_MAGIC, 4) != 0) {
        printf("%s is not a raw index file\n", path);
        exit(1);
    }
    *count = (size - 128) / sizeof(struct atf_index_event);
    memmove(bytes, bytes + 64, *count * sizeof(struct atf_index_event));
    return (struct atf_index_event *)bytes;
}

/* ---- writing and reading ---- */

/* Writes `step` events at a time; returns seconds. */
static double write_all(const struct atf_index_event *events, size_t count, int encoding, size_t step,
                        uint64_t *bytes) {
    const struct ct_trace_format format = {.encoding = encoding};
    struct ct_thread_writer *writer;
    char name[340];
    struct stat status;
    double start = now();
    if (ct_thread_writer_open_as(&writer, place_of(directory), 1, events[0].thread_id, &format) != 0)
        exit(1);
    for (size_t at = 0; at < count;) {
        size_t end = at + step < count ? at + step : count;
        while (at < end) {
            size_t room;
            struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
            size_t n = room < end - at ? room : end - at;
            memcpy(to, events + at, n * sizeof *to);
            ct_thread_writer_commit(writer, n);
            at += n;
        }
        ct_thread_writer_flush(writer);
    }
    if (ct_thread_writer_close(writer) != 0)
        exit(1);
    double spent = now() - start;
    snprintf(name, sizeof name, "%s/thread_1/index.%s", directory,
             encoding == CT_SESSION_FORMAT_PACKED ? "ctp" : "atf");
    if (stat(name, &status) != 0)
        exit(1);
    *bytes = (uint64_t)status.st_size;
    return spent;
}

static double read_all(size_t count) {
    struct ct_trace *trace;
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    struct ct_json json = {0};
    ct_json_begin(&json, NULL, '{');
    ct_json_end(&json, '}');
    size_t seen = 0;
    if (ct_trace_write_manifest(place_of(directory), &json) != 0 || ct_trace_open(&trace, directory, NULL, 0) != 0)
        exit(1);
    double start = now();
    if (ct_trace_cursor_open_thread(&cursor, trace, 0, 0) != 0)
        exit(1);
    while (ct_trace_cursor_next(cursor, &event))
        seen++;
    double spent = now() - start;
    ct_trace_cursor_close(cursor);
    ct_trace_close(trace);
    ct_json_free(&json);
    if (seen != count)
        exit(1);
    return spent;
}

static void compare(const char *name, const struct atf_index_event *events, size_t count) {
    static const char *const words[] = {"packed", "raw"};
    double million = (double)count / 1e6;
    printf("%s: %.1f M events\n", name, million);
    for (int encoding = CT_SESSION_FORMAT_PACKED; encoding <= CT_SESSION_FORMAT_ATF2; encoding++) {
        uint64_t bytes;
        double written = write_all(events, count, encoding, 50000, &bytes), read = read_all(count);
        printf("  %-8s %7.3f bytes per event   written %6.1f M/s   read %6.1f M/s\n", words[encoding],
               (double)bytes / (double)count, million / written, million / read);
        clean();
    }
}

static void quiet(const struct atf_index_event *events, size_t count) {
    static const size_t steps[] = {1, 2, 10, 100, 1000};
    if (count > 100000)
        count = 100000;
    printf("  a thread that writes few events at a time (%zu in all):\n", count);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t bytes;
        double spent = write_all(events, count, CT_SESSION_FORMAT_PACKED, steps[i], &bytes);
        printf("  %6zu   %7.3f bytes per event   %6.2f us per write\n", steps[i], (double)bytes / (double)count,
               spent * 1e6 / ((double)count / (double)steps[i]));
        clean();
    }
}

static void run(const char *name, struct atf_index_event *events, size_t count) {
    compare(name, events, count);
    quiet(events, count);
    for (size_t i = 0, added = 0; i < count; i++)
        events[i].timestamp_ns += added += pick(11);
    compare("  the same, other clock", events, count);
    free(events);
}

int main(int argc, char **argv) {
    const char *root = getenv("TMPDIR");
    size_t count;
    snprintf(directory, sizeof directory, "%s/contrail-packed-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(directory))
        return 1;
    if (argc < 2) {
        struct atf_index_event *events = make_up(&count);
        run("made-up program", events, count);
    }
    for (int i = 1; i < argc; i++) {
        struct atf_index_event *events = load(argv[i], &count);
        run(argv[i], events, count);
    }
    return rmdir(directory) != 0;
}
