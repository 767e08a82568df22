/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/place_of.h"
#include "trace_util.h"
#include "base/json_write.h"
#include <contrail/session.h>
#include <stdarg.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <stdio.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

void make_directory(char *path, size_t size) {
    /* Thousands of files: in memory where possible. */
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, size, "%s/contrail-trace-XXXXXX", root);
    assert_non_null(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

void remove_directory(const char *path) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *in(const char *format, ...) {
    static char buffers[8][600];
    static unsigned next;
    char *buffer = buffers[next++ % 8];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer, sizeof buffers[0], format, arguments);
    va_end(arguments);
    return buffer;
}

uint8_t *load(const char *path, size_t *size) {
    struct stat status;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &status), 0);
    *size = (size_t)status.st_size;
    uint8_t *bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

void store(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

struct atf_index_event event_of(uint64_t time, uint64_t function, uint32_t tid, uint32_t kind, uint32_t depth) {
    return (struct atf_index_event){.timestamp_ns = time,
                                    .function_id = function,
                                    .thread_id = tid,
                                    .event_kind = kind,
                                    .call_depth = depth,
                                    .detail_seq = ATF_NO_DETAIL};
}

void write_events(struct ct_thread_writer *writer, const struct atf_index_event *events, size_t count) {
    while (count) {
        size_t room;
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        assert_non_null(to);
        assert_true(room > 0);
        if (room > count)
            room = count;
        memcpy(to, events, room * sizeof *to);
        ct_thread_writer_commit(writer, room);
        events += room;
        count -= room;
    }
}

/* ---- samples ---- */

struct atf_index_event sample_event(size_t thread, uint64_t sequence) {
    static const struct {
        uint32_t function, kind, depth;
    } pattern[] = {{0, ATF_CALL, 0}, {1, ATF_CALL, 1},      {2, ATF_CALL, 2},      {1, ATF_RETURN, 1}, {1, ATF_CALL, 1},
                   {3, ATF_CALL, 2}, {3, ATF_EXCEPTION, 2}, {1, ATF_EXCEPTION, 1}, {0, ATF_RETURN, 0}};
    uint64_t period = sequence / 9, at = sequence % 9;
    return event_of(1000 + period * 9 * 5 + at * 5 + (sequence * 7 + thread) % 5, SAMPLE_FUNCTION(pattern[at].function),
                    (uint32_t)(7000 + thread), pattern[at].kind, pattern[at].depth);
}

struct atf_detail_event *sample_detail(uint8_t *record, const struct atf_index_event *event, uint64_t sequence) {
    struct atf_detail_event head = {.index_seq = (uint32_t)sequence,
                                    .thread_id = event->thread_id,
                                    .timestamp = event->timestamp_ns,
                                    .event_type = event->event_kind == ATF_CALL     ? ATF_DETAIL_CALL
                                                  : event->event_kind == ATF_RETURN ? ATF_DETAIL_RETURN
                                                                                    : ATF_DETAIL_SIGNAL};
    if (head.event_type == ATF_DETAIL_SIGNAL) {
        struct atf_detail_signal signal = {.signal = 11, .code = 1, .fault_address = 0x1000 + sequence};
        head.total_length = sizeof signal + 8 * ATF_DETAIL_SIGNAL_REGISTERS_X64;
        signal.event = head;
        memcpy(record, &signal, sizeof signal);
        for (uint64_t i = 0; i < ATF_DETAIL_SIGNAL_REGISTERS_X64; i++)
            memcpy(record + sizeof signal + 8 * i, &(uint64_t){sequence * 100 + i}, 8);
        return (struct atf_detail_event *)record;
    }
    struct atf_detail_call call = {.function_id = event->function_id,
                                   .return_address = 0x400000 + sequence,
                                   .frame_pointer = 0x7ffe00,
                                   .stack_pointer = 0x7ffd00,
                                   .stack_size = (uint16_t)(sequence * 8 % 520)};
    bool vectors = sequence & 1;
    head.flags = vectors ? ATF_DETAIL_VECTORS : 0;
    head.total_length = (uint32_t)sizeof call + call.stack_size + (vectors ? 128 : 0);
    call.event = head;
    for (uint64_t i = 0; i < 8; i++)
        call.registers[i] = sequence * 1000 + i;
    memcpy(record, &call, sizeof call);
    for (size_t i = sizeof call; i < head.total_length; i++)
        record[i] = (uint8_t)(sequence + i);
    return (struct atf_detail_event *)record;
}

static void make_symbols(const char *directory) {
    struct ct_symbols_writer *writer;
    assert_int_equal(ct_symbols_writer_open(&writer, place_of(directory)), 0);
    ct_symbols_writer_module(writer, 1, "/opt/some\tdir/libsample.so", "abcdef", 0x7f0000001000);
    ct_symbols_writer_function(writer, SAMPLE_FUNCTION(0), 0x100, 0x20, "outer", "", "");
    ct_symbols_writer_function(writer, SAMPLE_FUNCTION(1), 0x120, 0x20, "inner\\one\ntwo\x01", "", "");
    ct_symbols_writer_function(writer, SAMPLE_FUNCTION(2), 0x140, 0x20, "jump", "", "setjmp");
    ct_symbols_writer_function(writer, SAMPLE_FUNCTION(3), 0x160, 0x20, "", "", "");
    ct_symbols_writer_function(writer, SAMPLE_FUNCTION(4), 0x180, 1, "skipped", "too short", "");
    assert_int_equal(ct_symbols_writer_close(writer), 0);
}

void make_manifest(const char *path, const struct sample *sample) {
    char directory[600]; /* the path may be one of `in` */
    snprintf(directory, sizeof directory, "%s", path);
    struct ct_json json = {.lines = true};
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "format", sample->packed ? "packed" : "atf2");
    ct_json_number(&json, "version", 1);
    ct_json_bool(&json, "complete", !sample->unfinished);
    ct_json_number(&json, "pid", 321);
    ct_json_number(&json, "time_start_ns", 900);
    ct_json_number(&json, "time_end_ns", sample->unfinished ? 0 : 1u << 30);
    ct_json_begin(&json, "end", '{');
    ct_json_string(&json, "reason", sample->reason ? sample->reason : "exit");
    ct_json_end(&json, '}');
    ct_json_begin(&json, "events", '{');
    ct_json_number(&json, "written", sample->threads * sample->events);
    ct_json_end(&json, '}');
    ct_json_begin(&json, "threads", '[');
    for (size_t i = 0; i < sample->threads; i++) {
        ct_json_begin(&json, NULL, '{');
        ct_json_number(&json, "id", i);
        ct_json_number(&json, "tid", 7000 + i);
        ct_json_string(&json, "name", in("worker %zu", i));
        ct_json_bool(&json, "has_detail", sample->detail != 0);
        ct_json_number(&json, "events", sample->events + (uint64_t)(i == 0 ? sample->wrong_events : 0));
        ct_json_number(&json, "lost", 3 * i);
        ct_json_begin(&json, "gaps", '[');
        if (i == 0 && sample->gaps) { /* at, at, at … */
            char *end;
            for (const char *p = sample->gaps; *p; p = *end ? end + 1 : end) {
                ct_json_begin(&json, NULL, '{');
                ct_json_number(&json, "at", strtoull(p, &end, 10));
                ct_json_number(&json, "lost", 1);
                ct_json_string(&json, "reason", "DRAIN_LAG");
                ct_json_end(&json, '}');
            }
        }
        ct_json_end(&json, ']');
        ct_json_end(&json, '}');
    }
    ct_json_end(&json, ']');
    ct_json_begin(&json, "modules", '[');
    ct_json_begin(&json, NULL, '{');
    ct_json_number(&json, "id", 1);
    ct_json_string(&json, "path", "/opt/some\tdir/libsample.so");
    ct_json_string(&json, "build_id", "abcdef");
    ct_json_number(&json, "base", 0x7f0000001000);
    ct_json_number(&json, "functions", 5);
    ct_json_number(&json, "hooked", 4);
    ct_json_number(&json, "entry_only", 1);
    ct_json_end(&json, '}');
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    assert_int_equal(ct_trace_write_manifest(place_of(directory), &json), 0);
    ct_json_free(&json);
}

/* A frame that ends by an exception has none. */
static bool has_detail(const struct atf_index_event *event) {
    return event->event_kind != ATF_EXCEPTION || !event->function_id;
}

void make_sample(const char *path, const struct sample *sample) {
    char directory[600];
    snprintf(directory, sizeof directory, "%s", path);
    mkdir(directory, 0777);
    make_symbols(directory);
    for (size_t thread = 0; thread < sample->threads; thread++) {
        struct ct_thread_writer *writer;
        struct ct_detail_writer *details = NULL;
        struct ct_trace_format format = {.encoding =
                                             sample->packed ? CT_SESSION_FORMAT_PACKED : CT_SESSION_FORMAT_ATF2};
        assert_int_equal(ct_thread_writer_open_as(&writer, place_of(directory), (uint32_t)thread,
                                                  (uint32_t)(7000 + thread), &format),
                         0);
        if (sample->detail)
            assert_int_equal(
                ct_detail_writer_open(&details, place_of(directory), (uint32_t)thread, (uint32_t)(7000 + thread)), 0);
        if (sample->detail_part)
            ct_detail_writer_set_part(details, sample->detail_part);
        if (sample->part)
            ct_thread_writer_set_part(writer, sample->part);
        for (uint64_t i = 0; i < sample->events; i++) {
            uint8_t record[ATF_DETAIL_LENGTH_MAX];
            struct atf_index_event event = sample_event(thread, i);
            if (details && i % sample->detail == 0 && has_detail(&event))
                event.detail_seq = ct_detail_writer_add(details, sample_detail(record, &event, i));
            write_events(writer, &event, 1);
            if (sample->detail_part)
                assert_int_equal(ct_detail_writer_flush(details), 0);
        }
        if (details)
            assert_int_equal(ct_detail_writer_close(details), 0);
        assert_int_equal(ct_thread_writer_flush(writer), 0);
        const char *last = in("%s/thread_%zu/index.%s", directory, thread, sample->packed ? "ctp" : "atf");
        if (sample->unfinished) { /* as if the recorder had been killed: what is there now is what remains */
            size_t size;
            uint8_t *bytes = load(last, &size);
            assert_int_equal(ct_thread_writer_close(writer), 0);
            store(last, bytes, size);
            free(bytes);
        } else {
            assert_int_equal(ct_thread_writer_close(writer), 0);
        }
    }
    make_manifest(directory, sample);
}

struct text {
    char *at;
    size_t left;
};

static void join(void *arg, const char *sentence) {
    struct text *text = arg;
    int n = snprintf(text->at, text->left, "%s\n", sentence);
    if (n > 0 && (size_t)n < text->left) {
        text->at += n;
        text->left -= (size_t)n;
    }
}

int verify_text(const char *path, char *text, size_t size) {
    struct ct_trace *trace;
    struct text to = {text, size};
    char error[300];
    *text = 0;
    int status = ct_trace_open(&trace, path, error, sizeof error);
    if (status) {
        join(&to, error);
        return status;
    }
    status = ct_trace_verify(trace, join, &to);
    ct_trace_close(trace);
    return status;
}
