/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of packed files: what comes out is what went in, whatever it is; checksums of files that are changed in the
 * middle. */
#include "packed_util.h"
#include "trace/crc32.h"
#include "trace/packed_block.h"
#include "trace_util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void assert_block(const struct atf_index_event *events, size_t count) {
    struct ct_pack *pack = ct_pack_take();
    struct ct_unpack unpack = {0};
    struct ctp_block header;
    struct atf_index_event *back = malloc(count * sizeof *back);
    size_t size, done, at = 0;
    const uint8_t *block = ct_pack_events(pack, events, count, 77, TID, &size);
    memcpy(&header, block, sizeof header);
    assert_true(ct_block_plausible(&header, size) && ct_block_intact(block));
    assert_int_equal(header.size, size);
    assert_int_equal(header.count, count);
    assert_int_equal(header.first_seq, 77);
    assert_int_equal(header.time_first_ns, events[0].timestamp_ns);
    assert_int_equal(header.time_last_ns, events[count - 1].timestamp_ns);
    assert_int_equal(ct_unpack_begin(&unpack, block, TID), 0);
    while (at < count) { /* in pieces of any size */
        size_t n = 1 + pick(700);
        assert_int_equal(ct_unpack_events(&unpack, back + at, n, &done), 0);
        assert_true(done == (n < count - at ? n : count - at));
        at += done;
    }
    assert_int_equal(unpack.left, 0);
    assert_true(unpack.shape == unpack.shape_end && unpack.time == unpack.time_end && unpack.odd == unpack.odd_end);
    assert_memory_equal(back, events, count * sizeof *back);
    ct_unpack_free(&unpack);
    ct_pack_give(pack);
    free(back);
}

static void blocks_come_back(void **unused) {
    (void)unused;
    static const size_t sizes[] = {1, 2, 3, 17, 100, 1000, CT_PACK_EVENTS};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int wild = 0; wild < 2; wild++) {
            struct atf_index_event *events = make_events(sizes[i], wild);
            assert_block(events, sizes[i]);
            free(events);
        }
}

/* As many functions as events, the largest steps of time, the deepest depths: nothing overflows. */
static void extremes_come_back(void **unused) {
    (void)unused;
    struct atf_index_event *events = calloc(CT_PACK_EVENTS, sizeof *events);
    for (uint32_t i = 0; i < CT_PACK_EVENTS; i++)
        events[i] = (struct atf_index_event){.timestamp_ns = i % 2 ? UINT64_MAX - i : i,
                                             .function_id = (uint64_t)i * 0x9e3779b97f4a7c15u,
                                             .thread_id = UINT32_MAX - TID,
                                             .event_kind = UINT32_MAX - i,
                                             .call_depth = UINT32_MAX - i,
                                             .detail_seq = ATF_NO_DETAIL};
    assert_block(events, CT_PACK_EVENTS);
    for (uint32_t i = 0; i < CT_PACK_EVENTS; i++)
        events[i] = event_of(i, (uint64_t)i << 32, TID, ATF_CALL, UINT32_MAX - 10 + i);
    assert_block(events, CT_PACK_EVENTS);
    free(events);
}

/* Every length of a time step. */
static void times_come_back(void **unused) {
    (void)unused;
    struct atf_index_event events[600];
    uint64_t ns = 0;
    for (uint32_t i = 0; i < 600; i++) {
        ns += i < 300 ? (uint64_t)i * 50 : UINT64_C(1) << (i % 64);
        events[i] = event_of(ns, SAMPLE_FUNCTION(i % 3), TID, ATF_CALL, i);
    }
    assert_block(events, 600);
}

struct got {
    struct ct_link links[CT_PACK_LINKS];
    size_t count;
};

static void got_link(void *arg, const struct ct_link *link) {
    struct got *got = arg;
    got->links[got->count++] = *link;
}

static void links_come_back(void **unused) {
    (void)unused;
    static struct ct_link links[CT_PACK_LINKS];
    static struct got got;
    uint8_t *block = malloc(CT_PACK_LINKS_BYTES);
    for (uint32_t i = 0; i < CT_PACK_LINKS; i++)
        links[i] = (struct ct_link){(UINT64_C(5) << 40) + pick(UINT32_MAX), i % 9 ? i : UINT32_MAX - 1};
    size_t size = ct_pack_links(block, links, CT_PACK_LINKS);
    assert_true(size <= CT_PACK_LINKS_BYTES && ct_block_intact(block));
    got.count = 0;
    assert_int_equal(ct_unpack_links(block, got_link, &got), 0);
    assert_int_equal(got.count, CT_PACK_LINKS);
    for (size_t i = 0; i < CT_PACK_LINKS; i++)
        assert_true(got.links[i].index_seq == links[i].index_seq && got.links[i].detail_seq == links[i].detail_seq);
    free(block);
}

/* A change of bytes in the middle, and what it does to the checksum of all. */
static void checksums_follow_changes(void **unused) {
    (void)unused;
    uint8_t bytes[3000], change[4] = {1, 0xfe, 0x80, 7};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)pick(256);
    for (size_t at = 0; at + 4 <= sizeof bytes; at += 97) {
        uint32_t before = ct_crc32(0, bytes, sizeof bytes);
        for (size_t i = 0; i < 4; i++)
            bytes[at + i] ^= change[i];
        assert_int_equal(ct_crc32(0, bytes, sizeof bytes),
                         before ^ ct_crc32_shift(ct_crc32_difference(change, 4), sizeof bytes - at - 4));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_back),         cmocka_unit_test(extremes_come_back),
        cmocka_unit_test(times_come_back),          cmocka_unit_test(links_come_back),
        cmocka_unit_test(checksums_follow_changes),
    };
    seed(0x9e3779b97f4a7c15u);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
