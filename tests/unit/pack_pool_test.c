/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads compress the blocks of a drain: what they write is what one thread writes, in the same order; a full
 * disk ends as with one; more of them get more done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "abi/event.h"
#include "lane_util.h"
#include "trace/pack_pool.h"
#include "trace/packed_block.h"
#include "trace/packed_columns.h"
#include <contrail/status.h>

#define BLOCKS  24u
#define EVENTS  (BLOCKS * CT_PACK_EVENTS)
#define DELAY   2000u /* microseconds */
#define THREADS 3u

/* ---- the pool alone ---- */

static struct ct_pack *make_pack(uint32_t tag) {
    struct ct_pack *pack = ct_pack_take();
    assert_non_null(pack);
    ct_pack_begin(pack, 7);
    for (uint32_t i = 0; i < CT_PACK_EVENTS; i++)
        ct_pack_put(pack, &(struct atf_index_event){.timestamp_ns = 1000 * tag + i,
                                                    .function_id = tag + i % 100,
                                                    .thread_id = 7,
                                                    .event_kind = i % 2 ? ATF_RETURN : ATF_CALL,
                                                    .call_depth = 0,
                                                    .detail_seq = ATF_NO_DETAIL});
    return pack;
}

static void delay_by(unsigned us) {
    __atomic_store_n(&ct_pack_delay_us, us, __ATOMIC_RELAXED);
}

/* Blocks are what ct_pack_end makes of them, in whatever order they are waited for. */
static void blocks_are_the_same(void **unused) {
    (void)unused;
    struct ct_pack *packs[64], *alone;
    size_t given = 0, size;
    ct_pack_pool_open(3);
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t count = 0;
        delay_by(round ? 0 : 200000); /* at first the workers have no chance to be done in time */
        for (; count < 64 && ct_pack_pool_give(packs[count] = make_pack(count), count); count++) {
        }
        delay_by(0);
        assert_true(round || count < 10); /* the pool takes only what its workers can do soon */
        if (count < 64)
            ct_pack_give(packs[count]);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t k = round % 2 ? i : count - 1 - i;
            ct_pack_pool_wait(packs[k]);
            const struct ct_pack_job *job = &ct_pack_columns(packs[k])->job;
            alone = make_pack(k);
            const uint8_t *block = ct_pack_end(alone, k, &size);
            assert_int_equal(job->size, size);
            assert_memory_equal(job->block, block, size);
            ct_pack_give(alone);
        }
        for (uint32_t i = 0; i < count; i++)
            ct_pack_give(packs[i]);
        given += count;
    }
    ct_pack_pool_close();
    assert_true(given > 20);
    struct ct_pack *pack = make_pack(1);
    assert_false(ct_pack_pool_give(pack, 0)); /* nobody is there any more */
    ct_pack_give(pack);
}

/* ---- drains ---- */

static void produce(struct lane_fixture *f, unsigned threads) {
    struct ct_block *b[THREADS];
    for (unsigned t = 0; t < threads; t++)
        b[t] = lane_thread(f);
    for (uint32_t i = 0; i < EVENTS / threads; i++)
        for (unsigned t = 0; t < threads; t++)
            ct_event_write(b[t], i / 2 % (100 + t), i % 2 ? CT_EVENT_RETURN : CT_EVENT_CALL);
    for (unsigned t = 0; t < threads; t++)
        lane_thread_ends(b[t]);
}

static void fill_lane(struct lane_fixture *f, unsigned threads) {
    lane_start(f, 16u << 20, true, 0);
    lane_prepare_drain(f);
    f->drain.format.encoding = CT_SESSION_FORMAT_PACKED;
    produce(f, threads);
}

static unsigned char *load_file(const struct lane_fixture *f, unsigned id, size_t *size) {
    char path[128];
    snprintf(path, sizeof path, "%s/thread_%u/index.ctp", f->directory, id);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    unsigned char *bytes = malloc(8u << 20);
    *size = fread(bytes, 1, 8u << 20, file);
    fclose(file);
    return bytes;
}

/* The events of a file, one after the other. */
static size_t unpack_file(const struct lane_fixture *f, unsigned id, struct atf_index_event *out) {
    size_t size, at = sizeof(struct ctp_header), count = 0, done;
    unsigned char *bytes = load_file(f, id, &size);
    struct ct_unpack unpack = {0};
    struct ctp_header head;
    memcpy(&head, bytes, sizeof head);
    while (at + sizeof(struct ctp_block) <= size) {
        struct ctp_block header;
        memcpy(&header, bytes + at, sizeof header);
        if (!ct_block_plausible(&header, size - at))
            break;
        if (header.type == CTP_EVENTS) {
            assert_true(ct_block_intact(bytes + at));
            assert_int_equal(header.first_seq, count);
            assert_int_equal(ct_unpack_begin(&unpack, bytes + at, head.thread_id), 0);
            assert_int_equal(ct_unpack_events(&unpack, out + count, header.count, &done), 0);
            count += done;
        }
        at += header.size;
    }
    ct_unpack_free(&unpack);
    free(bytes);
    return count;
}

/* Several threads of the target, several workers: each file has its thread's events in order. */
static void files_are_in_order(void **unused) {
    (void)unused;
    struct lane_fixture f;
    struct atf_index_event *events = malloc(EVENTS * sizeof *events);
    fill_lane(&f, THREADS);
    f.drain.workers = 4;
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(ct_drain_finish(&f.drain), 0);
    for (unsigned t = 0; t < THREADS; t++) {
        size_t count = unpack_file(&f, t + 1, events);
        assert_int_equal(count, EVENTS / THREADS);
        uint64_t first = events[0].function_id, last_ns = 0, functions = 0;
        for (size_t i = 0; i < count; i++) {
            functions = events[i].function_id > functions ? events[i].function_id : functions;
            assert_int_equal(events[i].event_kind, i % 2 ? ATF_RETURN : ATF_CALL);
            assert_true(events[i].timestamp_ns >= last_ns);
            last_ns = events[i].timestamp_ns;
        }
        for (size_t i = 0; i < count; i++)
            assert_int_equal(events[i].function_id, first + i / 2 % (functions - first + 1));
    }
    lane_end(&f);
    free(events);
}

/* Drains a full lane; each block takes DELAY longer. Returns ns. */
static uint64_t drain_slowly(unsigned workers, unsigned threads) {
    struct lane_fixture f;
    fill_lane(&f, threads);
    f.drain.workers = workers;
    delay_by(DELAY);
    uint64_t start = ct_clock_now();
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(ct_drain_finish(&f.drain), 0);
    uint64_t spent = ct_clock_now() - start;
    delay_by(0);
    assert_int_equal(f.drain.statistics.events, EVENTS / threads * threads);
    assert_int_equal(lane_lost(&f), 0);
    lane_end(&f);
    return spent;
}

/* One thread does everything if the pool was opened without workers. */
static uint64_t drain_alone(unsigned threads) {
    ct_pack_pool_open(0);
    uint64_t spent = drain_slowly(1, threads);
    ct_pack_pool_close();
    return spent;
}

/* A block takes long but needs no processor, so what more workers gain shows on any machine; on a very busy one, not at
 * the first try. */
static void more_workers_get_more_done(void **unused) {
    (void)unused;
    bool grows = false, grows_with_threads = false;
    for (unsigned tries = 0; tries < 10 && !(grows && grows_with_threads); tries++) {
        uint64_t one = drain_alone(1), two = drain_slowly(1, 1), five = drain_slowly(4, 1);
        print_message("%u blocks: one thread %.0f ms, two %.0f ms, five %.0f ms\n", BLOCKS, (double)one * 1e-6,
                      (double)two * 1e-6, (double)five * 1e-6);
        assert_true(one >= BLOCKS * DELAY * 1000ull);
        grows |= five < two && two < one;
        grows_with_threads |= drain_slowly(4, THREADS) < drain_alone(THREADS);
    }
    assert_true(grows);
    assert_true(grows_with_threads);
}

/* A file-size limit is our full disk: what fits is there, what does not is counted, and the file can be read. */
static void full_disk_ends_cleanly(void **unused) {
    (void)unused;
    struct lane_fixture f;
    struct rlimit old, limit;
    struct atf_index_event *events = malloc(EVENTS * sizeof *events);
    fill_lane(&f, 1);
    f.drain.workers = 4;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 24u << 10; /* about a third of the file: a steady clock makes it small */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    int status = ct_drain_finish(&f.drain);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, CT_ERR_FILE_LIMIT);
    size_t count = unpack_file(&f, 1, events);
    const struct ct_session_statistics *s = &f.drain.statistics;
    assert_true(count > 0 && count < EVENTS);
    assert_int_equal(s->events, count);
    assert_true(s->events + s->lost[CT_LOSS_DISK_SLOW] <= EVENTS);
    assert_true(s->lost[CT_LOSS_DISK_SLOW] > 0);
    lane_end(&f);
    free(events);
}

/* ---- slow disk or slow drain ---- */

struct watch {
    bool writing;
    unsigned writes;
};

static void note(void *arg, bool begins) {
    struct watch *w = arg;
    assert_true(w->writing != begins); /* never one inside another */
    w->writing = begins;
    w->writes += begins;
}

/* Only while it writes does a writer wait for the disk; blocks that are compressed meanwhile are not part of it. */
static void writes_are_announced(void **unused) {
    (void)unused;
    struct lane_fixture f;
    struct watch w = {0};
    lane_start(&f, 1u << 20, true, 0);
    lane_prepare_drain(&f);
    struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_PACKED, .writing = note, .writing_arg = &w};
    struct ct_thread_writer *writer;
    size_t room;
    assert_int_equal(ct_thread_writer_open_as(&writer, f.drain.place, 1, 7, &format), 0);
    for (unsigned i = 0; i < 5; i++) {
        struct ct_pack *pack = ct_thread_writer_block(writer, &room);
        assert_false(w.writing);
        for (size_t k = 0; k < room; k++)
            ct_pack_put(pack, &(struct atf_index_event){.timestamp_ns = i, .thread_id = 7, .event_kind = ATF_CALL});
        ct_thread_writer_packed(writer, room);
    }
    assert_int_equal(ct_thread_writer_flush(writer), 0);
    assert_true(w.writes >= 5 && !w.writing);
    assert_int_equal(ct_thread_writer_close(writer), 0);
    lane_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_the_same),        cmocka_unit_test(files_are_in_order),
        cmocka_unit_test(more_workers_get_more_done), cmocka_unit_test(full_disk_ends_cleanly),
        cmocka_unit_test(writes_are_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
