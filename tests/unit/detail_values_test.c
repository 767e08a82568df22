/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of memory in detail records: what the drain makes of those in the lane, whatever they say, and the reader of
 * those in the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "drain/detail.h"
#include "trace/reader.h"

static struct ct_detail_values values;
static struct ct_detail_thread thread = {.values = &values};
static struct {
    struct atf_detail_call call;
    uint8_t more[CT_VALUES_MOST + 64];
} record;

static void begin(void) {
    memset(&values, 0xee, sizeof values);
    values.number = 7;
    values.size = CT_VALUES_HEAD;
    memset(&record, 0x55, sizeof record);
    record.call = (struct atf_detail_call){.event = {.event_type = ATF_DETAIL_CALL}};
}

static void add(uint64_t address, uint16_t size, uint16_t room, const char *text) {
    const struct ct_shm_piece piece = {address, size, room, 0};
    memcpy(values.bytes + values.size, &piece, sizeof piece);
    memcpy(values.bytes + values.size + sizeof piece, text, strlen(text) + 1);
    values.size += (uint32_t)sizeof piece + room;
}

/* The record as a reader sees it. */
static struct ct_trace_detail *read_back(uint64_t number) {
    static struct ct_trace_detail out;
    uint32_t size = ct_detail_put_values(&thread, number, &record.call.event, record.more);
    assert_in_range(size, 0, CT_VALUES_MOST);
    assert_int_equal(record.more[size], 0x55); /* not a byte more */
    record.call.event.total_length = (uint32_t)sizeof record.call + size;
    assert_int_equal(!!(record.call.event.flags & ATF_DETAIL_STRINGS), size != 0);
    assert_int_equal(ct_details_parse((const uint8_t *)&record, &record.call.event, 1, &out), 0);
    return &out;
}

static void test_pieces(void **state) {
    (void)state;
    begin();
    add(0x1000, 4, 16, "abc");
    add(0x2000, 0, 16, ""); /* not a text */
    add(0x3000, 8, 8, "01234567");
    const struct ct_trace_detail *d = read_back(7);
    assert_int_equal(d->piece_count, 2);
    assert_int_equal(d->pieces[0].address, 0x1000);
    assert_int_equal(d->pieces[0].size, 4);
    assert_string_equal((const char *)d->piece_bytes + d->pieces[0].offset, "abc");
    assert_int_equal(d->pieces[1].size, 8);
    assert_memory_equal(d->piece_bytes + d->pieces[1].offset, "01234567", 8);
    assert_int_equal(ct_detail_put_values(&thread, 7, &record.call.event, record.more), 0); /* once */
    assert_int_equal(values.number, 0);
}

static void test_of_another_event(void **state) {
    (void)state;
    begin();
    add(0x1000, 4, 16, "abc");
    assert_int_equal(read_back(8)->piece_count, 0);
    thread.values = NULL;
    assert_int_equal(read_back(7)->piece_count, 0);
    thread.values = &values;
}

static void test_lies(void **state) {
    (void)state;
    static const struct {
        uint16_t size, room;
    } lies[] = {{4, 0}, {4, 12}, {4, 65528}, {65535, 16}, {17, 16}, {4, CT_VALUES_MOST}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        begin();
        add(0x1000, 4, 16, "abc");
        add(0x2000, lies[i].size, lies[i].room, "x");
        values.size = CT_VALUES_HEAD + 2 * (uint32_t)(sizeof(struct ct_shm_piece) + 16);
        assert_int_equal(read_back(7)->piece_count, 1);
    }
    begin();
    for (values.size = 0; values.size < CT_VALUES_MOST; values.size++) { /* cut anywhere */
        values.number = 7;
        record.call.event.flags = 0;
        memset(record.more, 0x55, sizeof record.more);
        (void)read_back(7);
    }
}

/* Floating-point numbers are no memory, whatever else a record has. */
static void test_reals(void **state) {
    (void)state;
    begin();
    add(CT_PIECE_REALS, 16, 16, "01234567abcdefg");
    add(0x1000, 4, 16, "abc");
    const struct ct_trace_detail *d = read_back(7);
    assert_int_equal(d->piece_count, 1);
    assert_int_equal(d->pieces[0].address, 0x1000);
    assert_int_equal(d->real_count, 2);
    assert_memory_equal(d->reals, "01234567abcdefg", 16);
    static const struct {
        uint16_t size, room;
        unsigned count;
    } sizes[] = {{64, 64, 8}, {65, 72, 0}, {7, 8, 0}, {12, 16, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        begin();
        add(CT_PIECE_REALS, sizes[i].size, sizes[i].room, "");
        d = read_back(7);
        assert_int_equal(d->real_count, sizes[i].count);
        assert_int_equal(d->piece_count, 0);
    }
    begin();
    assert_int_equal(read_back(7)->real_count, 0);
}

static void test_damaged_file(void **state) {
    (void)state;
    static struct ct_trace_detail out;
    begin();
    add(0x1000, 4, 16, "abc");
    (void)read_back(7);
    for (uint32_t cut = 1; cut < 24; cut++) {
        struct atf_detail_event event = record.call.event;
        event.total_length -= cut;
        assert_int_equal(ct_details_parse((const uint8_t *)&record, &event, 1, &out), CT_ERR_BAD_FILE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces), cmocka_unit_test(test_of_another_event), cmocka_unit_test(test_lies),
        cmocka_unit_test(test_reals),  cmocka_unit_test(test_damaged_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
