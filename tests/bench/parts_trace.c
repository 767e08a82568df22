/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a trace for benchmarks: see parts_trace.h. */
#include "parts_trace.h"
#include "abi/atf.h"
#include "base/json_write.h"
#include "trace_bench.h"
#include <contrail/session.h>

static void write_thread(const char *directory, uint32_t events) {
    const struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_PACKED};
    struct ct_thread_writer *writer;
    uint64_t stack[PARTS_DEPTH], ns = 1000000000;
    uint32_t depth = 0, left = events;
    must(ct_thread_writer_open_as(&writer, place_of(directory), 1, 1000, &format), "a thread's file");
    while (left) {
        size_t room;
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        room = room < left ? room : left;
        for (size_t i = 0; i < room; i++) {
            bool call = depth == 0 || (depth < PARTS_DEPTH && pick(2));
            uint32_t part = (events - left) / (events / 20) * 15;
            if (call)
                stack[depth] = UINT64_C(1) << 32 | (part + (depth * 5 + pick(4)) % 60) % PARTS_FUNCTIONS;
            else
                depth--;
            to[i] = (struct atf_index_event){ns += 12 + pick(60),          stack[depth], 1000,
                                             call ? ATF_CALL : ATF_RETURN, depth,        ATF_NO_DETAIL};
            depth += call;
        }
        ct_thread_writer_commit(writer, room);
        left -= (uint32_t)room;
    }
    must(ct_thread_writer_close(writer), "closing a thread's file");
}

void write_parts_trace(const char *directory, uint32_t events) {
    struct ct_json json = {0};
    write_symbols(directory, PARTS_FUNCTIONS);
    ct_json_begin(&json, NULL, '{');
    ct_json_bool(&json, "complete", true);
    ct_json_end(&json, '}');
    must(ct_trace_write_manifest(place_of(directory), &json), "manifest");
    ct_json_free(&json);
    write_thread(directory, events);
}
