/* SPDX-License-Identifier: Apache-2.0 */
/* Writes traces for tests/tools/atf_check_test.py: atf_write DIRECTORY THREADS EVENTS [PART [unfinished]] */
#include "tests/tools/place_of.h"
#include "trace/writer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct atf_index_event event_of(uint32_t thread, uint64_t i) {
    return (struct atf_index_event){.timestamp_ns = 1000000 + i * 3 + thread,
                                    .function_id = UINT64_C(1) << 32 | i / 2 % 3,
                                    .thread_id = 500 + thread,
                                    .event_kind = i % 2 ? ATF_RETURN : ATF_CALL,
                                    .call_depth = 0,
                                    .detail_seq = i % 7 ? ATF_NO_DETAIL : (uint32_t)(i / 7)};
}

/* Every seventh event has a record: with more and more stack, some with vectors. */
static int add_detail(struct ct_detail_writer *details, const struct atf_index_event *event, uint64_t i) {
    struct __attribute__((packed)) {
        struct atf_detail_call call;
        uint8_t rest[640];
    } record = {.call = {.event = {.event_type = event->event_kind == ATF_CALL ? ATF_DETAIL_CALL : ATF_DETAIL_RETURN,
                                   .flags = i % 3 ? 0 : ATF_DETAIL_VECTORS,
                                   .index_seq = (uint32_t)i,
                                   .thread_id = event->thread_id,
                                   .timestamp = event->timestamp_ns},
                         .function_id = event->function_id,
                         .registers = {i, i + 1},
                         .stack_size = (uint16_t)(i * 8 % 520)}};
    record.call.event.total_length = (uint32_t)sizeof record.call + record.call.stack_size + (i % 3 ? 0 : 128);
    return ct_detail_writer_add(details, &record.call.event) == event->detail_seq ? 0 : 1;
}

static int write_thread(const char *directory, uint32_t id, uint64_t events, uint64_t part, int unfinished) {
    struct ct_thread_writer *writer;
    struct ct_detail_writer *details;
    if (ct_thread_writer_open(&writer, place_of(directory), id, 500 + id) != 0 ||
        ct_detail_writer_open(&details, place_of(directory), id, 500 + id) != 0)
        return 1;
    if (part)
        ct_thread_writer_set_part(writer, part);
    for (uint64_t i = 0; i < events;) {
        size_t room, n;
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        for (n = 0; n < room && i < events; n++, i++) {
            to[n] = event_of(id, i);
            if (i % 7 == 0 && add_detail(details, &to[n], i) != 0)
                return 1;
        }
        ct_thread_writer_commit(writer, n);
    }
    if ((unfinished ? ct_detail_writer_flush(details) : ct_detail_writer_close(details)) != 0)
        return 1;
    return unfinished ? ct_thread_writer_flush(writer) : ct_thread_writer_close(writer);
}

int main(int argc, char **argv) {
    struct ct_symbols_writer *symbols;
    if (argc < 4)
        return 64;
    const char *directory = argv[1];
    uint64_t part = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    for (uint32_t i = 0; i < strtoul(argv[2], NULL, 10); i++)
        if (write_thread(directory, i, strtoull(argv[3], NULL, 10), part, argc > 5) != 0)
            return 1;
    if (ct_symbols_writer_open(&symbols, place_of(directory)) != 0)
        return 1;
    ct_symbols_writer_module(symbols, 1, "/lib/with\ttab", "0123", 0x5000);
    ct_symbols_writer_function(symbols, UINT64_C(1) << 32, 0x10, 8, "_Z5outerv", "", "");
    ct_symbols_writer_function(symbols, UINT64_C(1) << 32 | 1, 0x20, 8, "back\\slash\nline\x7f", "", "setjmp");
    ct_symbols_writer_function(symbols, UINT64_C(1) << 32 | 2, 0x30, 8, "", "too short", "");
    if (ct_symbols_writer_close(symbols) != 0)
        return 1;
    fflush(NULL);
    _exit(0); /* unfinished writers are left as a killed recorder leaves them */
}
