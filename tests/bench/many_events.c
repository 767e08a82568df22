/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a very large trace from recorded ones: many_events OUTPUT EVENTS TRACE...
 *
 * Each TRACE (a pid_N directory) becomes a process of OUTPUT with two threads, which repeat the first events of its
 * largest thread, each time later. What a repetition leaves open is closed at its end, so the next one begins at depth
 * 0. Names are those of the recorded program. */
#include "abi/atf.h"
#include "base/json_write.h"
#include "trace/reader.h"
#include "trace_bench.h"
#include <contrail/session.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 2000000, THREADS = 2, DEEPEST = 4096 };

struct piece {
    struct atf_index_event *events;
    size_t count;
    uint64_t length_ns;
};

static size_t largest_thread(const struct ct_trace *trace) {
    size_t largest = 0;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        if (ct_trace_thread_at(trace, i)->event_count > ct_trace_thread_at(trace, largest)->event_count)
            largest = i;
    return largest;
}

/* At most so many events. Keeps what is paired: calls that open a frame, and returns of the innermost one. */
static struct piece read_piece(const char *path, uint64_t most) {
    struct piece p = {.events = malloc((MOST + DEEPEST) * sizeof *p.events)};
    uint64_t stack[DEEPEST], first_ns = 0, last_ns = 0;
    uint32_t depth = 0;
    struct ct_trace *trace;
    struct ct_trace_cursor *cursor;
    struct ct_trace_event e;
    must(p.events ? 0 : CT_ERR_NO_MEMORY, path);
    must(ct_trace_open(&trace, path, NULL, 0), path);
    must(ct_trace_cursor_open_thread(&cursor, trace, largest_thread(trace), 0), path);
    while (p.count < most && p.count < MOST && ct_trace_cursor_next(cursor, &e)) {
        const struct ct_trace_function *f = ct_trace_function(trace, 0, e.function_id);
        bool call = e.kind == CT_TRACE_CALL;
        if (!f || f->entry_only || (call ? depth == DEEPEST : !depth || stack[depth - 1] != e.function_id))
            continue;
        first_ns = p.count ? first_ns : e.timestamp_ns;
        last_ns = e.timestamp_ns;
        if (call)
            stack[depth] = e.function_id;
        else
            depth--;
        p.events[p.count++] = (struct atf_index_event){last_ns - first_ns,           e.function_id, 0,
                                                       call ? ATF_CALL : ATF_RETURN, depth,         ATF_NO_DETAIL};
        depth += call;
    }
    while (depth--)
        p.events[p.count++] =
            (struct atf_index_event){++last_ns - first_ns, stack[depth], 0, ATF_RETURN, depth, ATF_NO_DETAIL};
    p.length_ns = last_ns - first_ns + 1000;
    ct_trace_cursor_close(cursor);
    ct_trace_close(trace);
    return p;
}

static uint64_t write_thread(const char *directory, uint32_t id, uint32_t tid, const struct piece *p, uint64_t events) {
    const struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_PACKED};
    struct ct_thread_writer *writer;
    uint64_t base_ns = 1000000000 + id * 777777;
    size_t at = 0;
    must(ct_thread_writer_open_as(&writer, place_of(directory), id, tid, &format), directory);
    for (uint64_t left = events; left || at;) {
        size_t room;
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        room = room < p->count - at ? room : p->count - at;
        for (size_t i = 0; i < room; i++) {
            to[i] = p->events[at + i];
            to[i].timestamp_ns += base_ns;
            to[i].thread_id = tid;
        }
        ct_thread_writer_commit(writer, room);
        left = left > room ? left - room : 0;
        at += room;
        if (at == p->count) {
            at = 0;
            base_ns += p->length_ns;
        }
    }
    uint64_t written = ct_thread_writer_events(writer);
    must(ct_thread_writer_close(writer), directory);
    return written;
}

static void copy_file(const char *from, const char *to) {
    char buffer[65536];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t count;
    must(in && out ? 0 : CT_ERR_NOT_FOUND, from);
    while ((count = fread(buffer, 1, sizeof buffer, in)) > 0)
        fwrite(buffer, 1, count, out);
    fclose(in);
    must(fclose(out) ? CT_ERR_SYSTEM : 0, to);
}

static uint64_t write_process(const char *output, int number, const char *source, uint64_t events) {
    char directory[4096], from[4096], to[4200];
    struct ct_json json = {0};
    snprintf(directory, sizeof directory, "%s/pid_%d", output, 1000 + number);
    must(mkdir(directory, 0755) ? CT_ERR_SYSTEM : 0, directory);
    snprintf(from, sizeof from, "%s/symbols", source);
    snprintf(to, sizeof to, "%s/symbols", directory);
    copy_file(from, to);
    ct_json_begin(&json, NULL, '{');
    ct_json_bool(&json, "complete", true);
    ct_json_end(&json, '}');
    must(ct_trace_write_manifest(place_of(directory), &json), "manifest");
    ct_json_free(&json);
    struct piece piece = read_piece(source, events / THREADS);
    uint64_t written = 0;
    for (uint32_t i = 0; piece.count && i < THREADS; i++)
        written += write_thread(directory, i + 1, (uint32_t)(1000 + 10 * number) + i, &piece, events / THREADS);
    free(piece.events);
    return written;
}

int main(int argc, char **argv) {
    uint64_t written = 0;
    if (argc < 4) {
        fprintf(stderr, "usage: many_events OUTPUT EVENTS TRACE...\n");
        return 2;
    }
    must(mkdir(argv[1], 0755) ? CT_ERR_SYSTEM : 0, argv[1]);
    for (int i = 3; i < argc; i++)
        written += write_process(argv[1], i - 3, argv[i], strtoull(argv[2], NULL, 10) / (uint64_t)(argc - 3));
    printf("%llu events\n", (unsigned long long)written);
    return 0;
}
