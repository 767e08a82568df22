/* SPDX-License-Identifier: Apache-2.0 */
/* Packed index files: what comes out is what went in; files that end anywhere, were killed in the middle of a merge or
 * are damaged give what is left; links; segments. */
#include "tests/tools/place_of.h"
#include "abi/packed.h"
#include "trace/crc32.h"
#include "trace/packed_block.h"
#include "trace/reader.h"
#include "trace/segments.h"
#include "packed_util.h"
#include "trace_util.h"
#include <contrail/session.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char root[200], place[300], path[360]; /* a process directory in root, and its thread's file */

static int setup(void **unused) {
    (void)unused;
    seed(0x9e3779b97f4a7c15u);
    make_directory(root, sizeof root);
    snprintf(place, sizeof place, "%s/p", root);
    snprintf(path, sizeof path, "%s/thread_1/index.ctp", place);
    return 0;
}

static int teardown(void **unused) {
    (void)unused;
    remove_directory(root);
    return 0;
}

/* ---- files ---- */

static const struct ct_trace_format packed_format = {.encoding = CT_SESSION_FORMAT_PACKED};
static const struct ct_trace_format raw_format = {.encoding = CT_SESSION_FORMAT_ATF2};

static struct ct_thread_writer *open_thread(const char *directory, const struct ct_trace_format *format) {
    struct ct_thread_writer *writer;
    mkdir(directory, 0777);
    assert_int_equal(ct_thread_writer_open_as(&writer, place_of(directory), 1, TID, format), 0);
    return writer;
}

/* Flushes after as many events as `step` says: 0: never before the end. */
static void write_in_steps(struct ct_thread_writer *writer, const struct atf_index_event *events, size_t count,
                           size_t step) {
    for (size_t at = 0, n; at < count; at += n) {
        n = !step ? count - at : step < count - at ? step : count - at;
        write_events(writer, events + at, n);
        if (step)
            assert_int_equal(ct_thread_writer_flush(writer), 0);
    }
}

static void assert_index(const char *directory, const struct atf_index_event *events, uint64_t first, uint64_t end) {
    struct ct_file_cache cache = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct ct_index index;
    static struct atf_index_event got[1000];
    assert_int_equal(ct_index_open(&index, &cache, in("%s/thread_1", directory)), 0);
    assert_int_equal(index.first, first);
    assert_int_equal(index.end, end);
    assert_int_equal(index.count, end - first);
    for (uint64_t at = first; at < end;) {
        size_t n = ct_index_read(&index, at, got, 1 + pick(1000));
        assert_true(n);
        assert_memory_equal(got, events + at, n * sizeof *got);
        at += n;
    }
    for (int i = 0; i < 300 && end > first; i++) { /* anywhere */
        uint64_t at = first + ((uint64_t)pick(1u << 30) * 7) % (end - first);
        assert_int_equal(ct_index_read(&index, at, got, 1), 1);
        assert_memory_equal(got, events + at, sizeof *got);
        uint64_t found = ct_index_search(&index, events[at].timestamp_ns);
        assert_true(found <= at && events[found].timestamp_ns == events[at].timestamp_ns);
        assert_true(found == first || events[found - 1].timestamp_ns < events[at].timestamp_ns);
    }
    assert_int_equal(index.damaged, 0);
    ct_index_close(&index);
}

static off_t size_of(const char *name) {
    struct stat status;
    assert_int_equal(stat(name, &status), 0);
    return status.st_size;
}

/* Whatever the flushes, the events are the same, and small blocks do not add up. */
static void files_come_back(void **unused) {
    (void)unused;
    static const struct {
        size_t count, step;
    } cases[] = {{1, 0}, {5000, 1}, {50000, 0}, {50000, 7}, {50000, 900}, {50000, 1100}, {60000, 20000}, {9000, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(place, sizeof place, "%s/%zu", root, i);
        struct atf_index_event *events = make_events(cases[i].count, false);
        struct ct_thread_writer *writer = open_thread(place, &packed_format);
        write_in_steps(writer, events, cases[i].count, cases[i].step);
        assert_int_equal(ct_thread_writer_events(writer), cases[i].count);
        assert_int_equal(ct_thread_writer_flush(writer), 0);
        uint64_t bytes = ct_thread_writer_bytes(writer);
        assert_int_equal(bytes, size_of(in("%s/thread_1/index.ctp", place)));
        assert_index(place, events, 0, cases[i].count); /* while it is being written */
        assert_int_equal(ct_thread_writer_close(writer), 0);
        assert_index(place, events, 0, cases[i].count);
        if (cases[i].count >= 5000)
            assert_true(size_of(in("%s/thread_1/index.ctp", place)) < (off_t)(cases[i].count * 4));
        free(events);
    }
}

static void files_without_events(void **unused) {
    (void)unused;
    struct ct_thread_writer *writer = open_thread(place, &packed_format);
    assert_index(place, NULL, 0, 0);
    assert_int_equal(ct_thread_writer_close(writer), 0);
    assert_index(place, NULL, 0, 0);
}

/* Cut at any byte, the file holds whole blocks up to there. */
static void cut_files(void **unused) {
    (void)unused;
    enum { COUNT = 6000 };
    struct atf_index_event *events = make_events(COUNT, false);
    struct ct_thread_writer *writer = open_thread(place, &packed_format);
    write_in_steps(writer, events, COUNT, 1500);
    assert_int_equal(ct_thread_writer_close(writer), 0);
    size_t size;
    uint8_t *bytes = load(path, &size);
    uint64_t last = 0;
    for (size_t cut = 0; cut <= size; cut += cut + 200 < size && cut > 200 ? 61 : 1) {
        struct ct_file_cache cache = {.lock = PTHREAD_MUTEX_INITIALIZER};
        struct ct_index index;
        struct atf_index_event event;
        store(path, bytes, cut);
        assert_int_equal(ct_index_open(&index, &cache, in("%s/thread_1", place)), 0);
        assert_true(index.end >= last && index.count == index.end);
        last = index.end;
        assert_true(index.cut == (cut < size));
        if (last) {
            assert_int_equal(ct_index_read(&index, last - 1, &event, 1), 1);
            assert_memory_equal(&event, &events[last - 1], sizeof event);
        }
        ct_index_close(&index);
    }
    assert_int_equal(last, COUNT);
    free(bytes);
    free(events);
}

/* ---- a kill in the middle of a merge ---- */

static size_t block_at(const uint8_t *bytes, size_t offset, size_t size, struct ctp_block *header) {
    assert_true(offset + sizeof *header <= size);
    memcpy(header, bytes + offset, sizeof *header);
    assert_true(ct_block_plausible(header, size - offset));
    return header->size;
}

/* A file with small blocks, and the one that is to take their place. */
enum { MERGE_SMALL = 40, MERGE_STEP = 9, MERGE_COUNT = MERGE_SMALL * MERGE_STEP };
struct merging {
    struct atf_index_event *events;
    uint8_t *bytes, *merged;
    size_t size, loose, whole; /* of the file; where they begin; of the merged block */
};

static void begin_merging(struct merging *m) {
    struct ct_pack *pack = ct_pack_take();
    struct ctp_header header = {.magic = "CTP1",
                                .endian = ATF_LITTLE_ENDIAN,
                                .version = CTP_VERSION,
                                .arch = ATF_ARCH_X86_64,
                                .os = ATF_OS_LINUX,
                                .thread_id = TID,
                                .clock_type = ATF_CLOCK_BOOTTIME};
    size_t length, sealed = 2 * MERGE_STEP;
    mkdir(place, 0777);
    mkdir(in("%s/thread_1", place), 0777);
    header.crc = ct_crc32(0, &header, offsetof(struct ctp_header, crc));
    *m =
        (struct merging){.events = make_events(MERGE_COUNT, false), .bytes = calloc(1, 1 << 20), .size = sizeof header};
    memcpy(m->bytes, &header, sizeof header);
    const uint8_t *block = ct_pack_events(pack, m->events, sealed, 0, TID, &length);
    memcpy(m->bytes + m->size, block, length);
    m->loose = m->size += length;
    for (size_t at = sealed; at < MERGE_COUNT; at += MERGE_STEP, m->size += length) {
        block = ct_pack_events(pack, m->events + at, MERGE_STEP, at, TID, &length);
        memcpy(m->bytes + m->size, block, length);
    }
    block = ct_pack_events(pack, m->events + sealed, MERGE_COUNT - sealed, sealed, TID, &m->whole);
    m->merged = malloc(m->whole);
    memcpy(m->merged, block, m->whole);
    ct_pack_give(pack);
}

/* What the file may look like at each moment between the blocks as they were and the one that takes their place. */
static void at_each_moment(const struct merging *m,
                           void (*look)(const struct merging *m, const uint8_t *now, size_t size)) {
    uint8_t *now = malloc(1 << 20);
    memcpy(now, m->bytes, m->size);
    for (size_t done = 0; done <= m->whole; done++) { /* after the loose blocks */
        memcpy(now + m->size, m->merged, done);
        if (done % 13 == 0 || done == m->whole)
            look(m, now, m->size + done);
    }
    for (size_t done = 0; done <= m->whole; done++) { /* over them */
        memcpy(now + m->loose, m->merged, done);
        if (done % 13 == 0 || done == m->whole)
            look(m, now, m->size + m->whole);
    }
    look(m, now, m->loose + m->whole); /* and the rest away */
    free(now);
}

static void end_merging(struct merging *m) {
    free(m->events);
    free(m->bytes);
    free(m->merged);
}

static void look_afterwards(const struct merging *m, const uint8_t *now, size_t size) {
    store(path, now, size);
    assert_index(place, m->events, 0, MERGE_COUNT);
}

static void killed_while_merging(void **unused) {
    (void)unused;
    struct merging m;
    begin_merging(&m);
    at_each_moment(&m, look_afterwards);
    end_merging(&m);
}

/* Whoever has looked at the small blocks finds their events when others have taken their place. */
static void look_meanwhile(const struct merging *m, const uint8_t *now, size_t size) {
    struct ct_file_cache cache = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct ct_index index;
    struct atf_index_event got[50];
    store(path, m->bytes, m->size);
    assert_int_equal(ct_index_open(&index, &cache, in("%s/thread_1", place)), 0);
    assert_int_equal(index.end, MERGE_COUNT);
    for (uint64_t at = 0; at < MERGE_COUNT;) {
        size_t n = ct_index_read(&index, at, got, 1 + pick(50));
        assert_true(n);
        assert_memory_equal(got, m->events + at, n * sizeof *got);
        if (at < 100 && at + n >= 100) /* some of them were read */
            store(path, now, size);
        at += n;
    }
    assert_int_equal(index.damaged, 0);
    ct_index_close(&index);
}

static void merged_while_being_read(void **unused) {
    (void)unused;
    struct merging m;
    begin_merging(&m);
    at_each_moment(&m, look_meanwhile);
    end_merging(&m);
}

/* A reader that is slow: events that come later are for the next one. */
static void grown_while_being_read(void **unused) {
    (void)unused;
    enum { COUNT = 5000, FIRST = 1000 };
    struct atf_index_event *events = make_events(COUNT, false), *got = malloc(COUNT * sizeof *got);
    struct ct_thread_writer *writer = open_thread(place, &packed_format);
    struct ct_file_cache cache = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct ct_index index;
    write_in_steps(writer, events, FIRST, 40);
    assert_int_equal(ct_index_open(&index, &cache, in("%s/thread_1", place)), 0);
    assert_int_equal(index.end, FIRST);
    write_in_steps(writer, events + FIRST, COUNT - FIRST, 40);
    assert_int_equal(ct_thread_writer_close(writer), 0);
    uint64_t at = 0;
    for (size_t n; (n = ct_index_read(&index, at, got, COUNT)); at += n)
        assert_memory_equal(got, events + at, n * sizeof *got);
    assert_int_equal(at, FIRST);
    assert_int_equal(index.damaged, 0);
    ct_index_close(&index);
    assert_index(place, events, 0, COUNT);
    free(got);
    free(events);
}

/* ---- damage ---- */

static void damaged_blocks_are_skipped(void **unused) {
    (void)unused;
    enum { COUNT = 12000, STEP = 2000 };
    struct atf_index_event *events = make_events(COUNT, false), *got = malloc(COUNT * sizeof *got);
    struct ct_thread_writer *writer = open_thread(place, &packed_format);
    write_in_steps(writer, events, COUNT, STEP);
    assert_int_equal(ct_thread_writer_close(writer), 0);
    size_t size, offset = sizeof(struct ctp_header);
    uint8_t *bytes = load(path, &size);
    struct ctp_block header;
    for (int i = 0; i < 3; i++)
        offset += block_at(bytes, offset, size, &header);
    block_at(bytes, offset, size, &header);
    for (int footer = 0; footer < 2; footer++)
        for (size_t at = 3; at < sizeof header + 60; at += 20) { /* in the fourth block's header or payload */
            struct ct_file_cache cache = {.lock = PTHREAD_MUTEX_INITIALIZER};
            struct ct_index index;
            size_t read = 0;
            bytes[offset + at] ^= 0x10;
            store(path, bytes, footer ? size : size - sizeof(struct ctp_footer));
            bytes[offset + at] ^= 0x10;
            assert_int_equal(ct_index_open(&index, &cache, in("%s/thread_1", place)), 0);
            for (uint64_t seq = index.first; seq < index.end;) {
                size_t n = ct_index_read(&index, seq, got, COUNT);
                assert_memory_equal(got, events + seq, n * sizeof *got);
                read += n;
                seq = n ? seq + n : ct_index_skip(&index, seq);
            }
            assert_int_equal(read, COUNT - header.count);
            assert_int_equal(index.end, COUNT);
            assert_true(index.damaged || index.cut);
            ct_index_close(&index);
        }
    free(bytes);
    free(events);
    free(got);
}

/* ---- links ---- */

/* Detail numbers added later, in any order, are those of the events; raw and packed alike, checksum and all. */
static void links_are_read(void **unused) {
    (void)unused;
    enum { COUNT = 30000 };
    static const struct ct_trace_format *const formats[] = {&packed_format, &raw_format};
    struct atf_index_event *events = make_events(COUNT, false);
    for (int f = 0; f < 2; f++) {
        snprintf(place, sizeof place, "%s/%d", root, f);
        struct ct_thread_writer *writer = open_thread(place, formats[f]);
        ct_thread_writer_set_part(writer, f ? 7001 : 0);
        seed(5);
        for (size_t at = 0; at < COUNT; at += 500) {
            write_in_steps(writer, events + at, 500, pick(2) ? 500 : 3);
            for (uint32_t i = 0; i < 40; i++) {
                uint64_t seq = i < 35 ? at + (uint64_t)i * 11 : pick((uint32_t)at + 500);
                ct_thread_writer_link(writer, seq, (uint32_t)(seq * 3));
                events[seq].detail_seq = (uint32_t)(seq * 3);
            }
        }
        assert_int_equal(ct_thread_writer_close(writer), 0);
        assert_index(place, events, 0, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            events[i].detail_seq = ATF_NO_DETAIL;
    }
    free(events);
}

/* Detail numbers that come with the events. */
static void links_at_once(void **unused) {
    (void)unused;
    enum { COUNT = 20000 };
    struct atf_index_event *events = make_events(COUNT, false);
    for (uint32_t i = 0; i < COUNT; i += 3)
        events[i].detail_seq = i / 3;
    struct ct_thread_writer *writer = open_thread(place, &packed_format);
    write_in_steps(writer, events, COUNT, 333);
    assert_int_equal(ct_thread_writer_close(writer), 0);
    assert_index(place, events, 0, COUNT);
    free(events);
}

/* ---- segments ---- */

struct found {
    size_t files;
    uint64_t bytes;
};

static struct found look(uint32_t thread) {
    struct found found = {0};
    char directory[320];
    snprintf(directory, sizeof directory, "%s/thread_%u", place, thread);
    DIR *dir = opendir(directory);
    struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            found.files++;
            found.bytes += (uint64_t)size_of(in("%s/%s", directory, entry->d_name));
        }
    closedir(dir);
    return found;
}

/* The newest stays, at least what was asked for and at most a quarter more; positions go on. */
static void kept_by_size(void **unused) {
    (void)unused;
    enum { COUNT = 400000, KEEP = 256 << 10 };
    struct atf_index_event *events = make_events(COUNT, false);
    for (int f = 0; f < 2; f++) {
        snprintf(place, sizeof place, "%s/%d", root, f);
        struct ct_segments *segments = ct_segments_create(KEEP, 0);
        struct ct_trace_format format = {.encoding = f ? CT_SESSION_FORMAT_ATF2 : CT_SESSION_FORMAT_PACKED,
                                         .segments = segments};
        struct ct_thread_writer *writer = open_thread(place, &format);
        struct ct_series *series = ct_thread_writer_series(writer);
        bool over = false;
        for (size_t at = 0; at < COUNT; at += 400) {
            write_in_steps(writer, events + at, 400, 400);
            struct found found = look(1);
            over |= found.bytes > KEEP;
            assert_true(found.bytes <= KEEP + KEEP / 4);
            assert_true(!over || found.bytes >= KEEP);
            if (at % 80000 == 0)
                assert_index(place, events, ct_series_kept(series).dropped, at + 400);
        }
        assert_true(over);
        assert_int_equal(ct_thread_writer_close(writer), 0);
        struct ct_series_kept kept = ct_series_kept(series);
        assert_true(kept.dropped > COUNT / 4 && kept.dropped < COUNT);
        assert_int_equal(kept.begins_ns, events[kept.dropped].timestamp_ns);
        assert_int_equal(kept.dropped_until_ns, events[kept.dropped - 1].timestamp_ns);
        assert_index(place, events, kept.dropped, COUNT);
        ct_segments_free(segments);
    }
    free(events);
}

/* The limit is for all threads together; the oldest segment goes, whichever thread wrote it. */
static void kept_of_many_threads(void **unused) {
    (void)unused;
    enum { THREADS = 16, COUNT = 100000, KEEP = 1 << 20, STEP = 700 };
    struct ct_segments *segments = ct_segments_create(KEEP, 0);
    struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_PACKED, .segments = segments};
    struct ct_thread_writer *writers[THREADS];
    struct ct_series *series[THREADS];
    struct atf_index_event *events = make_events(COUNT, false);
    bool over = false;
    mkdir(place, 0777);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(ct_thread_writer_open_as(&writers[i], place_of(place), i, TID, &format), 0);
        series[i] = ct_thread_writer_series(writers[i]);
    }
    for (size_t at = 0; at + STEP <= COUNT; at += STEP) {
        struct found all = {0};
        for (uint32_t i = 0; i < THREADS; i++)
            if (i || at < COUNT / 10) /* the first falls silent */
                write_in_steps(writers[i], events + at, STEP, STEP);
        for (uint32_t i = 0; i < THREADS; i++) {
            all.bytes += look(i).bytes;
            over |= ct_series_kept(series[i]).dropped != 0;
        }
        assert_true(all.bytes <= KEEP + KEEP / 4);
        assert_true(!over || all.bytes >= KEEP);
    }
    assert_true(over);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(ct_thread_writer_close(writers[i]), 0);
        assert_true(i == 0 || ct_series_kept(series[i]).dropped > 0);
    }
    ct_segments_free(segments);
    free(events);
}

static void kept_by_time(void **unused) {
    (void)unused;
    enum { COUNT = 100000 };
    const uint64_t keep = 1000000;
    struct ct_segments *segments = ct_segments_create(0, keep);
    struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_PACKED, .segments = segments};
    struct ct_thread_writer *writer = open_thread(place, &format);
    struct ct_series *series = ct_thread_writer_series(writer);
    struct atf_index_event *events = calloc(COUNT, sizeof *events);
    for (uint32_t i = 0; i < COUNT; i++)
        events[i] = event_of(1000 + i * 100, SAMPLE_FUNCTION(i / 2 % 5), TID, 1 + i % 2, 0);
    for (size_t at = 0; at < COUNT; at += 100) {
        write_in_steps(writer, events + at, 100, 100);
        uint64_t dropped = ct_series_kept(series).dropped, now = events[at + 99].timestamp_ns;
        assert_true(!dropped || events[dropped - 1].timestamp_ns + keep < now);
        assert_true(events[dropped].timestamp_ns + keep + keep / 4 + 10000 >= now);
    }
    assert_int_equal(ct_thread_writer_close(writer), 0);
    assert_true(ct_series_kept(series).dropped > COUNT / 2);
    assert_index(place, events, ct_series_kept(series).dropped, COUNT);
    ct_segments_free(segments);
    free(events);
}

/* Each segment begins with the functions of the calls that are open there. */
static void segments_know_open_calls(void **unused) {
    (void)unused;
    enum { COUNT = 400000, DEEP = 30 };
    struct ct_segments *segments = ct_segments_create(64 << 10, 0);
    struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_PACKED, .segments = segments};
    struct ct_thread_writer *writer = open_thread(place, &format);
    struct ct_series *series = ct_thread_writer_series(writer);
    struct atf_index_event *events = calloc(COUNT, sizeof *events);
    struct ct_trace *trace;
    for (uint32_t i = 0; i < COUNT; i++) /* the last of the first calls are left again, and others take their places */
        events[i] =
            i < DEEP        ? event_of(i, SAMPLE_FUNCTION(100 + i), TID, ATF_CALL, i)
            : i < DEEP + 5  ? event_of(i, SAMPLE_FUNCTION(100 + 2 * DEEP - 1 - i), TID, ATF_RETURN, 2 * DEEP - 1 - i)
            : i < DEEP + 10 ? event_of(i, SAMPLE_FUNCTION(200 + i - DEEP - 5), TID, ATF_CALL, i - 10)
                            : event_of(1000 + i * 50 + pick(50), SAMPLE_FUNCTION(i / 2 % 64), TID, 1 + i % 2, DEEP);
    write_in_steps(writer, events, COUNT, 500);
    assert_int_equal(ct_thread_writer_close(writer), 0);
    uint64_t first = ct_series_kept(series).dropped, *functions;
    size_t count;
    assert_true(first > 2 * DEEP);
    store(in("%s/manifest.json", place), "{}", 2);
    assert_int_equal(ct_trace_open(&trace, place, NULL, 0), 0);
    assert_int_equal(ct_trace_thread_at(trace, 0)->first_sequence, first);
    assert_int_equal(ct_trace_open_calls(trace, 0, &functions, &count), 0);
    assert_true(count == DEEP || count == DEEP + 1);
    for (size_t i = 0; i < DEEP; i++)
        assert_int_equal(functions[i], i < DEEP - 5 ? SAMPLE_FUNCTION(100 + i) : SAMPLE_FUNCTION(200 + i - DEEP + 5));
    free(functions);
    ct_trace_close(trace);
    ct_segments_free(segments);
    free(events);
}

int main(void) {
#define FILES(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        FILES(files_come_back),
        FILES(files_without_events),
        FILES(cut_files),
        FILES(killed_while_merging),
        FILES(merged_while_being_read),
        FILES(grown_while_being_read),
        FILES(damaged_blocks_are_skipped),
        FILES(links_are_read),
        FILES(links_at_once),
        FILES(kept_by_size),
        FILES(kept_by_time),
        FILES(kept_of_many_threads),
        FILES(segments_know_open_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
