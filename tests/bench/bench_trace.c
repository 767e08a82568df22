/* SPDX-License-Identifier: Apache-2.0 */
/* How fast trace files are written and read, compared with memcpy of the same bytes in memory; on the disk of the given
 * directory (default: the temporary one). */
#include "tests/tools/place_of.h"
#include "trace/crc32.h"
#include "trace/writer.h"
#include "base/json_write.h"
#include <contrail/trace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREADS   16
#define EVENTS    500000u /* per thread */
#define FUNCTIONS 30000u

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double bare_copy(void) {
    size_t size = (size_t)EVENTS * 32;
    char *from = calloc(1, size), *to = malloc(size);
    memset(to, 1, size);
    double start = now();
    for (int i = 0; i < THREADS; i++) {
        memcpy(to, from, size);
        __asm__ volatile("" ::"r"(to) : "memory");
    }
    double spent = now() - start;
    free(from);
    free(to);
    return THREADS * (double)EVENTS / spent;
}

static double checksum(void) {
    static uint8_t bytes[256 << 10];
    uint32_t crc = 0;
    double start = now();
    for (int i = 0; i < 2000; i++)
        crc = ct_crc32(crc, bytes, sizeof bytes);
    __asm__ volatile("" ::"r"(crc));
    return 2000.0 * sizeof bytes / 1e9 / (now() - start);
}

static void write_thread(const char *directory, uint32_t id) {
    struct ct_thread_writer *writer;
    if (ct_thread_writer_open(&writer, place_of(directory), id, id) != 0)
        exit(1);
    for (uint32_t i = 0; i < EVENTS;) {
        size_t room, n;
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        for (n = 0; n < room && i < EVENTS; n++, i++)
            to[n] = (struct atf_index_event){
                (uint64_t)i * 100 + id, UINT64_C(1) << 32 | i / 2 % FUNCTIONS, id, 1 + i % 2, 0, ATF_NO_DETAIL};
        ct_thread_writer_commit(writer, n);
    }
    if (ct_thread_writer_close(writer) != 0)
        exit(1);
}

static double write_symbols(const char *directory) {
    struct ct_symbols_writer *writer;
    char name[80];
    double start = now();
    if (ct_symbols_writer_open(&writer, place_of(directory)) != 0)
        exit(1);
    ct_symbols_writer_module(writer, 1, "/usr/lib/libbench.so", "00", 0);
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        snprintf(name, sizeof name, "_ZN5bench12some_mangled4nameILi%uEEEvv", i);
        ct_symbols_writer_function(writer, UINT64_C(1) << 32 | i, i * 64, 64, name, "", "");
    }
    if (ct_symbols_writer_close(writer) != 0)
        exit(1);
    return (now() - start) * 1e3;
}

static void write_manifest(const char *directory) {
    struct ct_json json = {0};
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "format", "atf2");
    ct_json_bool(&json, "complete", true);
    ct_json_begin(&json, "threads", '[');
    for (uint32_t i = 0; i < THREADS; i++) {
        ct_json_begin(&json, NULL, '{');
        ct_json_number(&json, "id", i);
        ct_json_number(&json, "events", EVENTS);
        ct_json_end(&json, '}');
    }
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    if (ct_trace_write_manifest(place_of(directory), &json) != 0)
        exit(1);
    ct_json_free(&json);
}

static double read_all(struct ct_trace *trace, bool merged) {
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    uint64_t count = 0;
    double start = now();
    for (size_t i = 0; i < (merged ? 1 : ct_trace_thread_count(trace)); i++) {
        if ((merged ? ct_trace_cursor_open(&cursor, trace, 0) : ct_trace_cursor_open_thread(&cursor, trace, i, 0)) != 0)
            exit(1);
        while (ct_trace_cursor_next(cursor, &event))
            count++;
        ct_trace_cursor_close(cursor);
    }
    return (double)count / (now() - start);
}

int main(int argc, char **argv) {
    char directory[300], command[340];
    snprintf(directory, sizeof directory, "%s/contrail-bench-XXXXXX", argc > 1 ? argv[1] : "/tmp");
    if (!mkdtemp(directory))
        return 1;
    double copied = bare_copy() / 1e6;
    printf("checksum                   %7.2f GB/s\n", checksum());
    double start = now();
    for (uint32_t i = 0; i < THREADS; i++)
        write_thread(directory, i);
    double written = THREADS * (double)EVENTS / (now() - start) / 1e6;
    printf("symbols of %u functions %7.2f ms\n", FUNCTIONS, write_symbols(directory));
    write_manifest(directory);
    struct ct_trace *trace;
    start = now();
    if (ct_trace_open(&trace, directory, NULL, 0) != 0)
        return 1;
    if (!ct_trace_function(trace, 0, UINT64_C(1) << 32 | 7))
        return 1;
    printf("opening the trace          %7.2f ms\n", (now() - start) * 1e3);
    double one = read_all(trace, false) / 1e6, merged = read_all(trace, true) / 1e6;
    start = now();
    int status = ct_trace_verify(trace, NULL, NULL);
    double verified = THREADS * (double)EVENTS / (now() - start) / 1e6;
    printf("copied in memory           %7.1f M events/s\n", copied);
    printf("written                    %7.1f M events/s  %.2f of copying\n", written, written / copied);
    printf("read, thread by thread     %7.1f M events/s  %.2f\n", one, one / copied);
    printf("read, %2d threads merged    %7.1f M events/s  %.2f\n", THREADS, merged, merged / copied);
    printf("verified                   %7.1f M events/s  %.2f%s\n", verified, verified / copied,
           status ? " (with complaints)" : "");
    ct_trace_close(trace);
    snprintf(command, sizeof command, "rm -r '%s'", directory);
    return system(command) || status ? 1 : 0;
}
