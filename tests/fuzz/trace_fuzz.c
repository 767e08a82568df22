/* SPDX-License-Identifier: Apache-2.0 */
/* The trace reader on damaged traces: opened, read through every cursor, looked up, verified; nothing may crash, hang
 * or read what was not written.
 *
 * The first byte says which file of a good little trace the rest takes the place of. As a libFuzzer target
 * (scripts/fuzz-trace.sh), or alone: replays the files given as arguments, then tries `--cases N` deterministic ones,
 * which are the good file with some bytes changed, moved, cut off or doubled. */
#include "tests/tools/place_of.h"
#include "abi/packed.h"
#include "trace/code_file.h"
#include "trace/crc32.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include <contrail/session.h>
#include <contrail/trace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVENTS 30
#define FILES  7

/* The last is the packed file again: its checksums are made right first, so that what they protect is reached. */
static const char *const names[FILES] = {"thread_0/index.atf", "thread_0/index_2.atf", "symbols",
                                         "manifest.json",      "thread_2/index.ctp",   "thread_1/code.ctc",
                                         "thread_2/index.ctp"};
static char directory[200];
static uint8_t *good[FILES];
static size_t good_size[FILES];

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

static const char *path_of(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void store(unsigned file, const uint8_t *data, size_t size) {
    FILE *f = fopen(path_of(names[file]), "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        fail("the disk is full");
}

/* ---- checksums ---- */

static void repair(uint8_t *bytes, size_t size) {
    struct ctp_block header;
    struct ctp_footer footer;
    for (size_t at = sizeof(struct ctp_header); at + sizeof header <= size; at += 8) {
        memcpy(&header, bytes + at, sizeof header);
        if (memcmp(header.magic, CTP_BLOCK_MAGIC, 4) != 0 || header.size < sizeof header || header.size > size - at)
            continue;
        header.payload_crc = ct_crc32(0, bytes + at + sizeof header, header.size - sizeof header);
        header.header_crc = ct_crc32(0, &header.size, sizeof header - 8);
        memcpy(bytes + at, &header, sizeof header);
    }
    if (size < sizeof footer)
        return;
    memcpy(&footer, bytes + size - sizeof footer, sizeof footer);
    footer.crc = ct_crc32(0, &footer.table_offset, sizeof footer - 8);
    memcpy(bytes + size - sizeof footer, &footer, sizeof footer);
}

static void store_repaired(unsigned file, const uint8_t *data, size_t size) {
    uint8_t *bytes = malloc(size + 1);
    memcpy(bytes, data, size);
    repair(bytes, size);
    store(file, bytes, size);
    free(bytes);
}

/* ---- the good trace ---- */

static void write_thread(uint32_t id) {
    const struct ct_trace_format format = {.encoding = id == 2 ? CT_SESSION_FORMAT_PACKED : CT_SESSION_FORMAT_ATF2};
    struct ct_thread_writer *writer;
    size_t room;
    if (ct_thread_writer_open_as(&writer, place_of(directory), id, 100 + id, &format) != 0)
        fail("no thread writer");
    ct_thread_writer_set_part(writer, EVENTS / 2);
    for (uint32_t i = 0; i < EVENTS; i++) {
        *ct_thread_writer_reserve(writer, &room) = (struct atf_index_event){
            1000 + i, UINT64_C(1) << 32 | (i / 2 & 1), 100 + id, 1 + (i & 1), 0, ATF_NO_DETAIL};
        ct_thread_writer_commit(writer, 1);
        if (i % 11 == 10 && id == 2)
            ct_thread_writer_flush(writer);
    }
    if (ct_thread_writer_close(writer) != 0)
        fail("the thread is not closed");
}

static void write_code(void) {
    struct ct_code_writer *writer;
    uint64_t bytes;
    if (ct_code_writer_open(&writer, place_of(directory), 1, 101, 0) != 0)
        fail("no code writer");
    for (uint32_t i = 0; i < 3 * EVENTS; i++) {
        const struct ct_code_block block = {
            .module = i % 3, .size = 6, .insns = 3, .offset = i, .lengths = (const uint8_t *)"\1\2\3"};
        ct_code_writer_at(writer, i / 3, 1000 + i / 3);
        if (!ct_code_writer_knows(writer, i % 7))
            ct_code_writer_define(writer, i % 7, &block);
        ct_code_writer_block(writer, i % 7, i % 5 == 4);
        if (i % 11 == 10)
            ct_code_writer_compiled(writer, &block);
    }
    if (ct_code_writer_close(writer, &bytes) != 0)
        fail("the code is not closed");
}

static void write_rest(void) {
    static const char manifest[] = "{\"format\": \"atf2\", \"version\": 1, \"complete\": true, \"pid\": 9, "
                                   "\"time_start_ns\": 1, \"time_end_ns\": 99999,"
                                   " \"events\": {\"written\": 90, \"lost\": {}, \"abandoned\": 0}, \"threads\": "
                                   "[{\"id\": 0, \"tid\": 100, \"name\": \"a\","
                                   " \"events\": 30, \"lost\": 0, \"gaps\": [{\"at\": 4, \"lost\": 2, \"reason\": "
                                   "\"DRAIN_LAG\"}]}, {\"id\": 1, \"tid\": 101,"
                                   " \"name\": \"b\", \"events\": 30, \"lost\": 0, \"gaps\": [], \"code\": "
                                   "{\"blocks\": 90, \"compiled\": 8}}, {\"id\": 2, \"tid\": 102,"
                                   " \"name\": \"c\", \"events\": 30, \"lost\": 0, \"gaps\": []}], \"modules\": "
                                   "[{\"id\": 1, \"path\": \"/x\", \"build_id\":"
                                   " \"00\", \"base\": 4096, \"functions\": 2, \"hooked\": 2, \"entry_only\": 0}]}";
    struct ct_symbols_writer *symbols;
    if (ct_symbols_writer_open(&symbols, place_of(directory)) != 0)
        fail("no symbols");
    ct_symbols_writer_module(symbols, 1, "/x", "00", 4096);
    ct_symbols_writer_function(symbols, UINT64_C(1) << 32, 0, 16, "a\\b", "", "");
    ct_symbols_writer_function(symbols, UINT64_C(1) << 32 | 1, 16, 16, "", "", "");
    ct_symbols_writer_close(symbols);
    store(3, (const uint8_t *)manifest, sizeof manifest - 1);
}

static void remove_all(void) {
    static const char *const all[] = {"thread_0/index.atf",
                                      "thread_0/index_2.atf",
                                      "thread_0",
                                      "thread_1/index.atf",
                                      "thread_1/index_2.atf",
                                      "thread_1/code.ctc",
                                      "thread_1",
                                      "thread_2/index.ctp",
                                      "thread_2",
                                      "symbols",
                                      "manifest.json",
                                      "."};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (remove(all[i][0] == '.' ? directory : path_of(all[i])) != 0)
            perror(all[i]);
}

static void prepare(void) {
    if (directory[0])
        return;
    const char *root = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/contrail-fuzz-XXXXXX",
             root                            ? root
             : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                             : "/tmp");
    if (!mkdtemp(directory))
        fail("no directory");
    write_thread(0);
    write_thread(1);
    write_thread(2);
    write_code();
    write_rest();
    for (unsigned i = 0; i < FILES; i++) {
        FILE *f = fopen(path_of(names[i]), "rb");
        good[i] = malloc(8192);
        good_size[i] = fread(good[i], 1, 8192, f);
        fclose(f);
    }
    atexit(remove_all);
}

/* ---- reading ---- */

static void tell(void *arg, const char *sentence) {
    *(size_t *)arg += strlen(sentence);
}

static size_t read_through(struct ct_trace *trace, struct ct_trace_cursor *cursor) {
    struct ct_trace_event event;
    size_t count = 0;
    for (; ct_trace_cursor_next(cursor, &event); count++) {
        const struct ct_trace_thread *thread = ct_trace_thread_at(trace, event.thread);
        const struct ct_trace_function *function = ct_trace_function(trace, thread->process, event.function_id);
        if (event.sequence - thread->first_sequence >= thread->event_count && !thread->cut)
            fail("an event behind the last");
        if (function && (!*function->name || !function->module || !function->skip || function->id != event.function_id))
            fail("a function without a name");
    }
    ct_trace_cursor_close(cursor);
    return count;
}

/* With what was executed between the events; the events are the same. */
static void read_code(struct ct_trace *trace, size_t events) {
    static const bool all[64] = {true, true, true};
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    struct ct_code_record record;
    enum ct_trace_step step;
    uint64_t last = 0, instructions = 0;
    if (ct_trace_thread_count(trace) > sizeof all || ct_trace_cursor_open_code(&cursor, trace, all) != 0)
        return; /* not a file of code */
    while ((step = ct_trace_next_step(cursor, &event, &record))) {
        events -= step == CT_TRACE_STEP_EVENT;
        for (uint32_t i = 0; step == CT_TRACE_STEP_CODE && record.what == CT_CODE_RAN && i < record.executed; i++)
            instructions += record.block.lengths[i];
        if (step == CT_TRACE_STEP_CODE && event.thread == 1 && event.timestamp_ns < last)
            fail("time goes back");
        last = event.thread == 1 ? event.timestamp_ns : last;
    }
    if (events || instructions == UINT64_MAX)
        fail("other events with code between them");
    ct_trace_cursor_close(cursor);
}

/* Returns what verify says. */
static int read_trace(void) {
    struct ct_trace *trace;
    struct ct_trace_cursor *cursor;
    char error[300];
    size_t said = 0, events = 0;
    int status = ct_trace_open(&trace, directory, error, sizeof error);
    if (status) {
        if (!*error)
            fail("a refusal without a word");
        return status;
    }
    if (ct_trace_cursor_open(&cursor, trace, 0) != 0)
        fail("no cursor");
    size_t merged = read_through(trace, cursor);
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        if (ct_trace_cursor_open_thread(&cursor, trace, i, 0) != 0)
            fail("no cursor of a thread");
        events += read_through(trace, cursor);
    }
    if (events != merged)
        fail("merged events are not those of the threads");
    read_code(trace, merged);
    if (ct_trace_cursor_open(&cursor, trace, 1010) == 0)
        read_through(trace, cursor);
    status = ct_trace_verify(trace, tell, &said);
    if ((status != 0) != (said != 0))
        fail("a verdict without a word");
    ct_trace_close(trace);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    prepare();
    if (!size)
        return 0;
    unsigned file = data[0] % FILES;
    if (file == FILES - 1)
        store_repaired(file, data + 1, size - 1);
    else
        store(file, data + 1, size - 1);
    read_trace();
    store(file, good[file], good_size[file]);
    return 0;
}

#ifndef CT_LIBFUZZER
#include "alone.h"

static void random_case(void) {
    static uint8_t bytes[20000];
    unsigned file = pick(FILES);
    bytes[0] = (uint8_t)file;
    memcpy(bytes + 1, good[file], good_size[file]);
    size_t size = spoil(bytes + 1, good_size[file], sizeof bytes - 1, "\0\1\xff\x7f\t\n\"{");
    LLVMFuzzerTestOneInput(bytes, size + 1);
}

int main(int argc, char **argv) {
    prepare();
    if (read_trace() != 0)
        fail("the good trace is not good");
    return run_alone(argc, argv, 10000, random_case);
}
#endif
