/* SPDX-License-Identifier: Apache-2.0 */
/* Detail files: every byte of the layout, files cut anywhere, full disks, parts, finding records by number, and what
 * verify says about links that lead nowhere. */
#include "tests/tools/place_of.h"
#include "trace_util.h"
#include "isa/machine.h"
#include "trace/crc32.h"
#include "trace/reader.h"
#include <contrail/status.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char root[200];

static int set_up(void **state) {
    (void)state;
    make_directory(root, sizeof root);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_directory(root);
    return 0;
}

/* Record n of a thread with tid 7000: calls, returns and signals in turn. */
static struct atf_detail_event *record_of(uint64_t n) {
    static uint8_t bytes[ATF_DETAIL_LENGTH_MAX];
    struct atf_index_event event = event_of(5000 + n, n % 3 == 2 ? 0 : SAMPLE_FUNCTION(n % 2), 7000,
                                            n % 3 == 0   ? ATF_CALL
                                            : n % 3 == 1 ? ATF_RETURN
                                                         : ATF_EXCEPTION,
                                            0);
    return sample_detail(bytes, &event, n);
}

static struct ct_detail_writer *opened(const char *directory) {
    struct ct_detail_writer *writer;
    assert_int_equal(ct_detail_writer_open(&writer, place_of(directory), 0, 7000), 0);
    return writer;
}

/* Record n as the reader gives it. */
static void assert_record(const struct ct_trace_detail *detail, uint64_t n) {
    struct atf_detail_event *event = record_of(n);
    assert_int_equal(detail->type, event->event_type);
    assert_int_equal(detail->index_seq, n);
    assert_int_equal(detail->timestamp_ns, 5000 + n);
    if (event->event_type == ATF_DETAIL_SIGNAL) {
        assert_int_equal(detail->signal, 11);
        assert_int_equal(detail->code, 1);
        assert_int_equal(detail->fault_address, 0x1000 + n);
        assert_int_equal(detail->cpu_count, 18);
        for (uint64_t i = 0; i < 18; i++)
            assert_int_equal(detail->cpu[i], n * 100 + i);
        return;
    }
    const struct atf_detail_call *call = (const struct atf_detail_call *)event;
    assert_int_equal(detail->function_id, SAMPLE_FUNCTION(n % 2));
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(detail->registers[i], n * 1000 + i);
    assert_int_equal(detail->return_address, 0x400000 + n);
    assert_int_equal(detail->frame_pointer, 0x7ffe00);
    assert_int_equal(detail->stack_pointer, 0x7ffd00);
    assert_int_equal(detail->stack_size, n * 8 % 520);
    assert_memory_equal(detail->stack, call + 1, detail->stack_size);
    assert_int_equal(detail->has_vectors, n & 1);
    if (detail->has_vectors)
        assert_memory_equal(detail->vectors, (const uint8_t *)(call + 1) + detail->stack_size, 128);
}

/* ---- writing ---- */

static void test_layout(void **state) {
    (void)state;
    size_t size, length = record_of(0)->total_length + record_of(1)->total_length + record_of(2)->total_length;
    struct ct_detail_writer *writer = opened(root);
    const uint8_t header_open[64] = {'A', 'T', 'D', '2', 1, 1, ct_machine_host()->arch, 4, 0, 0, 0, 0, 0x58, 0x1b, 0,
                                     0,   0,   0,   0,   0, 64};
    const char *path = in("%s/thread_0/detail.atf", root);
    uint8_t *bytes = load(path, &size), expected[2000] = {0};
    assert_int_equal(size, 64);
    assert_memory_equal(bytes, header_open, 64);
    free(bytes);

    memcpy(expected, header_open, 64);
    for (uint64_t n = 0, at = 64; n < 3; at += record_of(n)->total_length, n++) {
        assert_int_equal(ct_detail_writer_add(writer, record_of(n)), n);
        memcpy(expected + at, record_of(n), record_of(n)->total_length);
    }
    assert_int_equal(ct_detail_writer_flush(writer), 0);
    assert_int_equal(ct_detail_writer_events(writer), 3);
    assert_int_equal(ct_detail_writer_dropped(writer), 0);
    assert_int_equal(ct_detail_writer_bytes(writer), 64 + length);
    bytes = load(path, &size);
    assert_int_equal(size, 64 + length);
    assert_memory_equal(bytes, expected, size);
    free(bytes);

    assert_int_equal(ct_detail_writer_close(writer), 0);
    memcpy(expected + 28, &(uint64_t){3}, 8);      /* event_count */
    memcpy(expected + 36, &(uint64_t){length}, 8); /* bytes_length */
    memcpy(expected + 44, &(uint64_t){0}, 8);      /* index_seq_start, index_seq_end */
    memcpy(expected + 52, &(uint64_t){2}, 8);
    uint8_t *footer = expected + 64 + length;
    memcpy(footer, "2DTA", 4);
    memcpy(footer + 4, &(uint32_t){ct_crc32(0, expected + 64, length)}, 4);
    memcpy(footer + 8, &(uint64_t){3}, 8);
    memcpy(footer + 16, &(uint64_t){length}, 8);
    memcpy(footer + 24, &(uint64_t){5000}, 8);
    memcpy(footer + 32, &(uint64_t){5002}, 8);
    bytes = load(path, &size);
    assert_int_equal(size, 128 + length);
    assert_memory_equal(bytes, expected, size);
    free(bytes);
}

/* Lengths that cannot be are refused, and a file is made once. */
static void test_refused(void **state) {
    (void)state;
    struct ct_detail_writer *writer = opened(root), *second;
    static uint8_t bytes[ATF_DETAIL_LENGTH_MAX + 8];
    struct atf_detail_event *event = (struct atf_detail_event *)bytes;
    event->event_type = ATF_DETAIL_CALL;
    for (int i = 0; i < 3; i++) {
        event->total_length = (uint32_t[]){0, 23, ATF_DETAIL_LENGTH_MAX + 1}[i];
        assert_int_equal(ct_detail_writer_add(writer, event), ATF_NO_DETAIL);
    }
    event->total_length = ATF_DETAIL_LENGTH_MAX;
    assert_int_equal(ct_detail_writer_add(writer, event), 0);
    assert_int_equal(ct_detail_writer_dropped(writer), 3);
    assert_int_equal(ct_detail_writer_events(writer), 4);
    assert_int_equal(ct_detail_writer_open(&second, place_of(root), 0, 7000), CT_ERR_SYSTEM);
    assert_null(second);
    assert_int_equal(mkdir(in("%s/gone", root), 0700), 0);
    struct ct_place *gone = place_of(in("%s/gone", root));
    assert_int_equal(rmdir(in("%s/gone", root)), 0);
    assert_int_equal(ct_detail_writer_open(&second, gone, 0, 7000), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_detail_writer_close(writer), 0);
}

#define FILE_LIMIT 100010

static uint64_t length_of(uint64_t records) {
    uint64_t length = 0;
    for (uint64_t n = 0; n < records; n++)
        length += record_of(n)->total_length;
    return length;
}

/* Fails until the file may not grow; exit code 0 when all was as it should be. */
static int fill_limited_file(void) {
    struct rlimit limit = {FILE_LIMIT, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_DFL); /* it would kill us */
    struct ct_detail_writer *writer = opened(root);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    uint64_t n = 0;
    while (ct_detail_writer_flush(writer) == 0 && n < 100000)
        for (int i = 0; i < 50; i++)
            ct_detail_writer_add(writer, record_of(n++));
    if (ct_detail_writer_flush(writer) != CT_ERR_FILE_LIMIT || ct_detail_writer_error(writer) != EFBIG)
        return 2;
    /* It stays so, also when there would be room again. */
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    uint64_t events = ct_detail_writer_events(writer), dropped = ct_detail_writer_dropped(writer);
    if (events != n || ct_detail_writer_add(writer, record_of(0)) != ATF_NO_DETAIL ||
        ct_detail_writer_dropped(writer) != dropped + 1)
        return 3;
    uint64_t length = length_of(events - dropped);
    struct stat status;
    if (stat(in("%s/thread_0/detail.atf", root), &status) != 0 || (uint64_t)status.st_size != 64 + length)
        return 4; /* a torn record */
    if (128 + length > FILE_LIMIT || 128 + length + record_of(events - dropped)->total_length <= FILE_LIMIT)
        return 5; /* as many as fit, with a footer */
    return ct_detail_writer_close(writer) == CT_ERR_FILE_LIMIT ? 0 : 6;
}

static void test_file_limit(void **state) {
    (void)state;
    pid_t pid = fork();
    int status;
    if (pid == 0)
        _exit(fill_limited_file());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    struct ct_details details;
    struct ct_file_cache cache = {.lock = PTHREAD_MUTEX_INITIALIZER};
    assert_int_equal(ct_details_open(&details, &cache, in("%s/thread_0", root)), 0);
    assert_int_equal(details.parts[0]->state, CT_INDEX_GOOD);
    ct_details_close(&details);
}

/* ---- reading ---- */

static uint64_t records_in(const char *directory) {
    struct ct_details details;
    struct ct_file_cache cache = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct atf_detail_event event;
    struct ct_trace_detail detail = {.size = sizeof detail};
    uint64_t n = 0;
    const uint8_t *record;
    assert_int_equal(ct_details_open(&details, &cache, directory), 0);
    for (; (record = ct_details_record(&details, n, &event)); n++) {
        assert_int_equal(ct_details_parse(record, &event, details.last_part->header.arch, &detail), 0);
        assert_record(&detail, n);
    }
    assert_int_equal(details.part_count ? details.parts[0]->count : 0, n);
    ct_details_close(&details);
    return n;
}

/* Whatever of a file is left: the whole records in it are read, and nothing else. */
static void test_cut_anywhere(void **state) {
    (void)state;
    const uint64_t records = 12;
    uint64_t ends[13] = {64};
    size_t size, flushed;
    struct ct_detail_writer *writer = opened(root);
    for (uint64_t n = 0; n < records; n++) {
        ends[n + 1] = ends[n] + record_of(n)->total_length;
        ct_detail_writer_add(writer, record_of(n));
    }
    assert_int_equal(ct_detail_writer_flush(writer), 0);
    char path[300];
    snprintf(path, sizeof path, "%s/thread_0/detail.atf", root);
    uint8_t *killed = load(path, &flushed);
    assert_int_equal(ct_detail_writer_close(writer), 0);
    uint8_t *whole = load(path, &size);
    for (int kind = 0; kind < 2; kind++) /* the recorder was killed, or the finished file was cut */
        for (size_t cut = 0; cut <= (kind ? size : flushed); cut++) {
            store(path, kind ? whole : killed, cut);
            uint64_t expected = 0;
            while (expected < records && ends[expected + 1] <= cut)
                expected++;
            assert_int_equal(records_in(in("%s/thread_0", root)), expected);
        }
    /* Killed between header and footer, with a part of the footer, without the header's counts. */
    memcpy(whole, killed, 64);
    for (size_t cut = size - 64; cut <= size; cut++) {
        store(path, whole, cut);
        assert_int_equal(records_in(in("%s/thread_0", root)), records);
    }
    free(killed);
    free(whole);
}

/* Each place, forwards and backwards and at random, in one file and in parts. */
static void test_access(void **state) {
    (void)state;
    const size_t records = 3000;
    make_sample(in("%s/one", root), &(struct sample){.threads = 2, .events = 9000, .detail = 3});
    make_sample(in("%s/parts", root),
                &(struct sample){.threads = 2, .events = 9000, .detail = 3, .detail_part = 100000});
    for (int i = 0; i < 2; i++) {
        struct ct_trace *trace;
        uint64_t first, end, seed = 1;
        static struct ct_trace_detail detail = {.size = sizeof detail};
        assert_int_equal(ct_trace_open(&trace, in(i ? "%s/parts" : "%s/one", root), NULL, 0), 0);
        assert_true(ct_trace_thread_at(trace, 1)->has_detail);
        assert_int_equal(ct_trace_detail_range(trace, 1, &first, &end), 0);
        assert_int_equal(first, 0);
        assert_true(end > records / 2 && end < records);
        for (uint64_t n = 0; n < 20000; n++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint64_t k = n < end ? n : n < 2 * end ? 2 * end - n - 1 : (seed >> 33) % end;
            assert_int_equal(ct_trace_detail(trace, 1, (uint32_t)k, &detail), 0);
            struct atf_index_event event = sample_event(1, detail.index_seq);
            assert_int_equal(detail.timestamp_ns, event.timestamp_ns);
            assert_int_equal(detail.registers[1], (uint64_t)detail.index_seq * 1000 + 1);
        }
        assert_int_equal(ct_trace_detail(trace, 1, (uint32_t)end, &detail), CT_ERR_NOT_FOUND);
        assert_int_equal(ct_trace_detail(trace, 1, CT_TRACE_NO_DETAIL, &detail), CT_ERR_NOT_FOUND);
        assert_int_equal(ct_trace_detail(trace, 2, 0, &detail), CT_ERR_INVALID_ARGUMENT);
        ct_trace_close(trace);
    }
    struct stat status;
    assert_int_equal(stat(in("%s/parts/thread_0/detail_2.atf", root), &status), 0);
}

/* From index events to their records. */
static void test_links(void **state) {
    (void)state;
    struct ct_trace *trace;
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    struct ct_trace_detail detail = {.size = sizeof detail};
    uint64_t linked = 0;
    char text[2000];
    make_sample(in("%s/p", root), &(struct sample){.threads = 3, .events = 500, .detail = 2});
    assert_int_equal(ct_trace_open(&trace, in("%s/p", root), NULL, 0), 0);
    assert_int_equal(ct_trace_cursor_open(&cursor, trace, 0), 0);
    while (ct_trace_cursor_next(cursor, &event)) {
        if (event.detail == CT_TRACE_NO_DETAIL)
            continue;
        linked++;
        assert_int_equal(ct_trace_detail(trace, event.thread, event.detail, &detail), 0);
        assert_int_equal(detail.index_seq, event.sequence);
        assert_int_equal(detail.function_id, event.function_id);
        assert_int_equal(detail.timestamp_ns, event.timestamp_ns);
    }
    assert_true(linked > 500);
    ct_trace_cursor_close(cursor);
    ct_trace_close(trace);
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), 0);
    assert_string_equal(text, "");
}

/* More records than the table of places has entries for. */
static void test_many(void **state) {
    (void)state;
    const uint32_t records = 3u << 20;
    struct ct_detail_writer *writer = opened(root);
    for (uint32_t n = 0; n < records; n++) {
        struct atf_detail_event event = {24 + n % 3, 99, 0, n, 7000, n};
        uint8_t bytes[32] = {0};
        memcpy(bytes, &event, sizeof event);
        if (ct_detail_writer_add(writer, (const struct atf_detail_event *)bytes) != n)
            fail();
    }
    assert_int_equal(ct_detail_writer_close(writer), 0);
    struct ct_details details;
    struct ct_file_cache cache = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct atf_detail_event event;
    assert_int_equal(ct_details_open(&details, &cache, in("%s/thread_0", root)), 0);
    assert_int_equal(details.parts[0]->count, records);
    assert_true(details.parts[0]->table_room * sizeof(uint64_t) <= 128 << 10);
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t n = i < 5      ? i
                     : i > 1990 ? records - 1 - (2000 - i) % 5
                                : (uint32_t)(i * UINT64_C(2654435761) % records);
        assert_non_null(ct_details_record(&details, n, &event));
        assert_int_equal(event.timestamp, n);
    }
    assert_null(ct_details_record(&details, records, &event));
    ct_details_close(&details);
}

/* Numbers that no event can have are not given to records. */
static void test_last_numbers(void **state) {
    (void)state;
    struct ct_details details;
    struct ct_file_cache cache = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct atf_detail_event event;
    size_t size;
    struct ct_detail_writer *writer = opened(root);
    for (uint64_t n = 0; n < 5; n++)
        ct_detail_writer_add(writer, record_of(n));
    assert_int_equal(ct_detail_writer_close(writer), 0);
    const char *path = in("%s/thread_0/detail.atf", root);
    uint8_t *bytes = load(path, &size);
    memcpy(bytes + 16, &(uint32_t){ATF_NO_DETAIL - 2}, 4);
    store(path, bytes, size);
    free(bytes);
    assert_int_equal(ct_details_open(&details, &cache, in("%s/thread_0", root)), 0);
    assert_int_equal(details.parts[0]->count, 2);
    assert_non_null(ct_details_record(&details, ATF_NO_DETAIL - 1, &event));
    assert_null(ct_details_record(&details, ATF_NO_DETAIL, &event));
    ct_details_close(&details);
}

/* Old parts go; what stays keeps its numbers. */
static void test_drop(void **state) {
    (void)state;
    struct ct_detail_writer *writer = opened(root);
    ct_detail_writer_set_part(writer, 10000);
    for (uint64_t n = 0; n < 600; n++) {
        assert_int_equal(ct_detail_writer_add(writer, record_of(n)), n);
        assert_int_equal(ct_detail_writer_flush(writer), 0);
    }
    uint64_t gone = ct_detail_writer_drop_before(writer, 5300);
    assert_true(gone > 200 && gone <= 300);
    assert_int_equal(ct_detail_writer_drop_before(writer, 5300), 0);
    assert_int_equal(ct_detail_writer_close(writer), 0);
    struct ct_trace *trace;
    uint64_t first, end;
    static struct ct_trace_detail detail = {.size = sizeof detail};
    store(in("%s/manifest.json", root), "{\"format\":\"atf2\",\"complete\":false}", 34);
    assert_int_equal(ct_trace_open(&trace, root, NULL, 0), 0);
    assert_int_equal(ct_trace_detail_range(trace, 0, &first, &end), 0);
    assert_int_equal(first, gone);
    assert_int_equal(end, 600);
    for (uint32_t n = (uint32_t)first; n < end; n++) {
        assert_int_equal(ct_trace_detail(trace, 0, n, &detail), 0);
        assert_record(&detail, n);
    }
    assert_int_equal(ct_trace_detail(trace, 0, (uint32_t)first - 1, &detail), CT_ERR_NOT_FOUND);
    ct_trace_close(trace);
}

/* ---- verify ---- */

struct damage {
    size_t at;           /* byte of detail.atf */
    uint8_t change;      /* exclusive or */
    const char *expects; /* part of a sentence */
};

/* One byte anywhere is noticed, and said in words that fit. */
static void test_verify_bytes(void **state) {
    (void)state;
    static const struct damage cases[] = {
        {0, 1, "not an ATF v2 detail file"},
        {6, 8, "names architecture"},
        {7, 1, "not Linux"},
        {8, 2, "unknown flags"},
        {12, 1, "it is of thread"},
        {16, 1, "its first record has number 1, not 0"},
        {28, 1, "the header says"},
        {44, 1, "positions in the index"},
        {61, 1, "reserved bytes of the header"},
        {64, 1, "damaged or has no footer"},
        {68, 8, "which does not exist"},
        {70, 8, "unknown flags"},
        {72, 1, "names event 1"},
        {76, 1, "is of thread"},
        {80, 1, "its event of"},
        {88, 1, "is of function"},
        {100, 1, "the checksum is"},
    };
    char text[4000], path[300];
    size_t size;
    make_sample(in("%s/p", root), &(struct sample){.threads = 1, .events = 100, .detail = 1});
    snprintf(path, sizeof path, "%s/p/thread_0/detail.atf", root);
    uint8_t *bytes = load(path, &size);
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes[cases[i].at] ^= cases[i].change;
        store(path, bytes, size);
        bytes[cases[i].at] ^= cases[i].change;
        assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), CT_ERR_BAD_FILE);
        if (!strstr(text, cases[i].expects))
            fail_msg("byte %zu: %s", cases[i].at, text);
    }
    for (size_t at = 0; at < size; at += 7) {
        bytes[at] ^= 0x10;
        store(path, bytes, size);
        bytes[at] ^= 0x10;
        if (verify_text(in("%s/p", root), text, sizeof text) != CT_ERR_BAD_FILE)
            fail_msg("byte %zu of %zu is not noticed", at, size);
    }
    free(bytes);
}

/* Changes the detail_seq of an event in a finished index file, and its checksum. */
static void change_link(const char *path, size_t event, uint32_t detail) {
    size_t size;
    uint8_t *bytes = load(path, &size);
    memcpy(bytes + 64 + 32 * event + 28, &detail, 4);
    memcpy(bytes + size - 60, &(uint32_t){ct_crc32(0, bytes + 64, size - 128)}, 4);
    store(path, bytes, size);
    free(bytes);
}

static void test_verify_links(void **state) {
    (void)state;
    char text[4000], path[300];
    struct sample sample = {.threads = 1, .events = 100, .detail = 2};
    snprintf(path, sizeof path, "%s/p/thread_0/index.atf", root);
    make_sample(in("%s/p", root), &sample);
    change_link(path, 0, 1); /* to another's record */
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "record 0 names event 0, which names record 1"));
    assert_non_null(strstr(text, "record 1 is named by event 0, but names event 2"));
    change_link(path, 0, 4000); /* to none */
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "record 4000 is named by event 0; there are"));
    change_link(path, 0, ATF_NO_DETAIL); /* left out: fine only when the recorder was killed */
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "record 0 names event 0, which names record -1"));
    sample.unfinished = true;
    make_manifest(in("%s/p", root), &sample);
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), 0);
    sample.unfinished = false;
    change_link(path, 0, 0);
    make_manifest(in("%s/p", root), &sample);
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), 0);

    sample.detail = 0; /* the manifest knows nothing of it */
    make_manifest(in("%s/p", root), &sample);
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "the manifest says that there is no detail file, but there is one"));
    assert_int_equal(unlink(in("%s/p/thread_0/detail.atf", root)), 0);
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "event 0 names detail record 0, but there is no detail file"));
}

/* A killed recorder: the detail file ends anywhere, and nothing is wrong with that. The index has what was counted. */
static void test_verify_unfinished(void **state) {
    (void)state;
    char text[4000], path[300];
    size_t size;
    make_sample(in("%s/p", root), &(struct sample){.threads = 1, .events = 60, .detail = 1, .unfinished = true});
    snprintf(path, sizeof path, "%s/p/thread_0/detail.atf", root);
    uint8_t *bytes = load(path, &size);
    memset(bytes + 28, 0, 32); /* the header as it was in the beginning */
    for (size_t cut = 0; cut <= size - 64; cut += 5) {
        store(path, bytes, cut);
        if (verify_text(in("%s/p", root), text, sizeof text) != 0)
            fail_msg("cut at %zu: %s", cut, text);
    }
    store(path, bytes, size - 64);
    assert_int_equal(truncate(in("%s/p/thread_0/index.atf", root), 64 + 32 * 20 + 5), 0);
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "the manifest says 60 events, the file has 20"));
    free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_layout), TEST(test_refused),      TEST(test_file_limit),   TEST(test_cut_anywhere),
        TEST(test_access), TEST(test_links),        TEST(test_many),         TEST(test_last_numbers),
        TEST(test_drop),   TEST(test_verify_bytes), TEST(test_verify_links), TEST(test_verify_unfinished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
