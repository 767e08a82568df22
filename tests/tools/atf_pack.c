/* SPDX-License-Identifier: Apache-2.0 */
/* Packs the raw index files of a process directory as a recorder would have: atf_pack FROM TO
 *
 * TO gets index.ctp files for FROM's threads, written a few or many events at a time, their detail numbers added later;
 * the other files are the caller's business. */
#include "tests/tools/place_of.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include <contrail/session.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 0x9e3779b97f4a7c15u;
static uint32_t pick(uint32_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % limit;
}

/* Up to `count` events from `at` on, then a flush. */
static uint64_t pack_some(struct ct_index *index, struct ct_thread_writer *writer, uint64_t at, uint64_t count) {
    while (count && at < index->end) {
        size_t room;
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        size_t n = ct_index_read(index, at, to, room < count ? room : (size_t)count);
        if (!n)
            return index->end;
        for (size_t i = 0; i < n; i++) {
            if (to[i].detail_seq != ATF_NO_DETAIL)
                ct_thread_writer_link(writer, at + i, to[i].detail_seq);
            to[i].detail_seq = ATF_NO_DETAIL;
        }
        ct_thread_writer_commit(writer, n);
        at += n;
        count -= n;
    }
    return ct_thread_writer_flush(writer) ? index->end : at;
}

static int pack_thread(struct ct_index *index, const char *directory, uint32_t id) {
    const struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_PACKED,
                                           .arch = index->part_count ? index->parts[0]->arch : 0};
    struct ct_thread_writer *writer;
    if (!index->part_count ||
        ct_thread_writer_open_as(&writer, place_of(directory), id, index->parts[0]->thread_id, &format) != 0)
        return 1;
    for (uint64_t at = 0; at < index->end;)
        at = pack_some(index, writer, at, pick(4) ? 1 + pick(3000) : 1 + pick(60000));
    return ct_thread_writer_close(writer) != 0;
}

int main(int argc, char **argv) {
    struct ct_trace *trace;
    char error[300];
    int failed = 0;
    if (argc != 3 || ct_trace_open(&trace, argv[1], error, sizeof error) != 0) {
        fprintf(stderr, "atf_pack FROM TO: %s\n", argc == 3 ? error : "two directories");
        return 1;
    }
    for (size_t i = 0; i < trace->thread_count; i++)
        failed |= pack_thread(&trace->threads[i].index, argv[2], trace->threads[i].info.id);
    ct_trace_close(trace);
    return failed;
}
