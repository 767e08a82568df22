/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of detail files on damaged ones: every record read in order and at random, shown as arguments, verified;
 * nothing may crash, hang or read what was not written.
 *
 * The input takes the place of the detail file of a good little trace. As a libFuzzer target (-DCT_LIBFUZZER), or
 * alone: replays the files given as arguments, then tries `--cases N` deterministic ones, which are the good file with
 * some bytes changed, moved, cut off or doubled. */
#include "tests/tools/place_of.h"
#include "trace/arguments.h"
#include "trace/signal_text.h"
#include "trace/writer.h"
#include <contrail/trace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EVENTS = 40 };

static char directory[200];
static uint8_t good[65536];
static size_t good_size;

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

static const char *path_of(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void store(const char *name, const void *data, size_t size) {
    FILE *f = fopen(path_of(name), "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        fail("the disk is full");
}

/* ---- the good trace ---- */

static uint32_t add_record(struct ct_detail_writer *details, const struct atf_index_event *event, uint32_t sequence) {
    union {
        struct atf_detail_call call;
        struct atf_detail_signal signal;
        uint8_t bytes[1024];
    } record = {
        .call = {.event = {.index_seq = sequence, .thread_id = event->thread_id, .timestamp = event->timestamp_ns}}};
    if (event->event_kind == ATF_EXCEPTION) {
        record.signal.event.event_type = ATF_DETAIL_SIGNAL;
        record.signal.event.total_length = sizeof record.signal + 8 * ATF_DETAIL_SIGNAL_REGISTERS_X64;
        record.signal.signal = 11;
    } else {
        record.call.event.event_type = event->event_kind == ATF_CALL ? ATF_DETAIL_CALL : ATF_DETAIL_RETURN;
        record.call.function_id = event->function_id;
        record.call.stack_size = (uint16_t)(sequence * 8);
        record.call.event.flags = sequence & 1;
        record.call.event.total_length = (uint32_t)sizeof record.call + record.call.stack_size + (sequence & 1) * 128;
    }
    return ct_detail_writer_add(details, &record.call.event);
}

static void write_thread(void) {
    struct ct_thread_writer *writer;
    struct ct_detail_writer *details;
    size_t room;
    if (ct_thread_writer_open(&writer, place_of(directory), 0, 100) != 0 ||
        ct_detail_writer_open(&details, place_of(directory), 0, 100) != 0)
        fail("no writers");
    for (uint32_t i = 0; i < EVENTS; i++) {
        uint32_t kind = i % 5 == 4 ? ATF_EXCEPTION : i % 5 % 2 ? ATF_RETURN : ATF_CALL;
        struct atf_index_event event = {1000 + i, kind == ATF_EXCEPTION ? 0 : UINT64_C(1) << 32, 100, kind, 0, 0};
        event.detail_seq = add_record(details, &event, i);
        *ct_thread_writer_reserve(writer, &room) = event;
        ct_thread_writer_commit(writer, 1);
    }
    if (ct_thread_writer_close(writer) != 0 || ct_detail_writer_close(details) != 0)
        fail("not closed");
}

static void remove_all(void) {
    static const char *const all[] = {"thread_0/index.atf", "thread_0/detail.atf", "thread_0", "symbols",
                                      "manifest.json"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (remove(path_of(all[i])) != 0)
            perror(all[i]);
    if (rmdir(directory) != 0)
        perror(directory);
}

static void prepare(void) {
    static const char manifest[] = "{\"format\": \"atf2\", \"complete\": true, \"pid\": 9, \"time_start_ns\": 1, "
                                   "\"time_end_ns\": 9999, \"threads\": "
                                   "[{\"id\": 0, \"tid\": 100, \"events\": 40, \"has_detail\": true}]}";
    struct ct_symbols_writer *symbols;
    const char *root = getenv("TMPDIR");
    if (directory[0])
        return;
    snprintf(directory, sizeof directory, "%s/contrail-fuzz-XXXXXX",
             root                            ? root
             : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                             : "/tmp");
    if (!mkdtemp(directory))
        fail("no directory");
    write_thread();
    if (ct_symbols_writer_open(&symbols, place_of(directory)) != 0)
        fail("no symbols");
    ct_symbols_writer_module(symbols, 1, "/nowhere", "00", 4096);
    ct_symbols_writer_function(symbols, UINT64_C(1) << 32, 0, 16, "function", "", "");
    ct_symbols_writer_close(symbols);
    store("manifest.json", manifest, sizeof manifest - 1);
    FILE *f = fopen(path_of("thread_0/detail.atf"), "rb");
    good_size = fread(good, 1, sizeof good, f);
    fclose(f);
    atexit(remove_all);
}

/* ---- reading ---- */

static void tell(void *arg, const char *sentence) {
    *(size_t *)arg += strlen(sentence);
}

static void show(struct ct_trace *trace, struct ct_argument_reader *reader, const struct ct_trace_detail *detail) {
    static struct ct_arguments arguments;
    char text[200];
    if (detail->stack_size > sizeof detail->stack || detail->cpu_count > 40)
        fail("more than there is room for");
    if (detail->type == CT_TRACE_DETAIL_SIGNAL)
        ct_signal_text(trace, 0, detail, text, sizeof text);
    else if (ct_arguments_of(reader, 0, detail, &arguments) == 0)
        ct_arguments_text(&arguments, text, sizeof text);
}

/* Returns what verify says. */
static int read_trace(void) {
    static struct ct_trace_detail detail = {.size = sizeof detail};
    struct ct_trace *trace;
    struct ct_argument_reader *reader;
    uint64_t first, end;
    size_t said = 0;
    if (ct_trace_open(&trace, directory, NULL, 0) != 0 || ct_argument_reader_open(&reader, trace, NULL) != 0)
        fail("the trace cannot be opened");
    if (ct_trace_detail_range(trace, 0, &first, &end) != 0 || end - first > 1000)
        fail("more records than there can be");
    for (uint64_t i = first; i < end; i++)
        if (ct_trace_detail(trace, 0, (uint32_t)i, &detail) == 0)
            show(trace, reader, &detail);
    for (uint64_t i = end; i > first; i -= i - first < 7 ? 1 : 7) {
        int status = ct_trace_detail(trace, 0, (uint32_t)i - 1, &detail);
        if (status != 0 && status != CT_ERR_BAD_FILE)
            fail("a record that was there is not");
    }
    if (ct_trace_detail(trace, 0, (uint32_t)end, &detail) != CT_ERR_NOT_FOUND)
        fail("a record behind the last");
    int status = ct_trace_verify(trace, tell, &said);
    if ((status != 0) != (said != 0))
        fail("a verdict without a word");
    ct_argument_reader_close(reader);
    ct_trace_close(trace);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    prepare();
    store("thread_0/detail.atf", data, size);
    int status = read_trace();
    if (status == 0 && (size != good_size || memcmp(data, good, size) != 0))
        fail("damage that nobody noticed");
    return 0;
}

#ifndef CT_LIBFUZZER
#include "alone.h"

static void random_case(void) {
    static uint8_t bytes[2 * sizeof good];
    memcpy(bytes, good, good_size);
    LLVMFuzzerTestOneInput(bytes, spoil(bytes, good_size, sizeof bytes, "\0\1\xff\x7f\x18\x20\x80\x05"));
}

int main(int argc, char **argv) {
    prepare();
    if (read_trace() != 0)
        fail("the good trace is not good");
    return run_alone(argc, argv, 10000, random_case);
}
#endif
