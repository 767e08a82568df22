/* SPDX-License-Identifier: Apache-2.0 */
/* Packed traces as a whole: known bytes, verifying, and export as the raw files that --format atf2 would have
 * written. */
#include "tests/tools/place_of.h"
#include "abi/packed.h"
#include "export/export.h"
#include "trace_util.h"
#include <contrail/session.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char root[200], packed[300], raw[300], exported[300];

static int setup(void **unused) {
    (void)unused;
    make_directory(root, sizeof root);
    snprintf(packed, sizeof packed, "%s/packed", root);
    snprintf(raw, sizeof raw, "%s/raw", root);
    snprintf(exported, sizeof exported, "%s/exported", root);
    return 0;
}

static int teardown(void **unused) {
    (void)unused;
    remove_directory(root);
    return 0;
}

/* ---- known bytes ---- */

/* Six events and a link; columns so short are not compressed. Files that were written once must be readable for
 * ever. */
#if defined __x86_64__
#define MACHINE    "01" /* and the header's check sum */
#define HEADER_SUM "23a0553a"
#else
#define MACHINE    "02"
#define HEADER_SUM "f95abb38"
#endif

static const char golden[] =
    "435450310101" MACHINE "04010000004d0000000300000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000000000" HEADER_SUM
    "43545042a5ab3f9a680000000ad2fc6401000000060000000000000000000000e803000000000000224e000000000000"
    "0200000005000000"
    "04208a8080802004f4ffffff1f81808080400c03040000010112000ac062f94c1001010a020207010300000000000000"
    "435450426cba26fe400000002a63e9380200000001000000010000000000000000000000000000000000000000000000"
    "0000000000000000"
    "0402120000000000"
    "43545042663e1ddd9000000045f948170300000002000000000000000000000000000000000000000000000000000000"
    "0000000000000000"
    "0000000000000000"
    "40000000000000000000000000000000e80300000000000006000000010000000500000068000000"
    "a8000000000000000100000000000000000000000000000001000000020000000000000040000000"
    "31505443d50a83b0e8000000000000000600000000000000e803000000000000224e0000000000000200000000000000"
    "01000000000000000000000000000000";

static const struct atf_index_event golden_events[] = {
    {1000, UINT64_C(0x100000005), 77, ATF_CALL, 2, ATF_NO_DETAIL},
    {1010, UINT64_C(0x100000007), 77, ATF_CALL, 3, 9},
    {1300, UINT64_C(0x100000007), 77, ATF_RETURN, 3, ATF_NO_DETAIL},
    {20000, UINT64_C(0x100000005), 77, ATF_RETURN, 2, ATF_NO_DETAIL},
    {20001, UINT64_C(0x200000001), 77, ATF_RETURN, 1, ATF_NO_DETAIL},
    {20002, 0, 77, ATF_EXCEPTION, 1, ATF_NO_DETAIL},
};
enum { GOLDEN_COUNT = sizeof golden_events / sizeof *golden_events };

static size_t golden_bytes(uint8_t *bytes) {
    size_t size = 0;
    for (const char *p = golden; *p; p++) {
        unsigned value;
        if (*p == ' ')
            continue;
        assert_int_equal(sscanf(p++, "%2x", &value), 1);
        bytes[size++] = (uint8_t)value;
    }
    return size;
}

static void known_bytes_are_written(void **unused) {
    (void)unused;
    const struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_PACKED};
    struct ct_thread_writer *writer;
    uint8_t expected[1000], *got;
    size_t size = golden_bytes(expected), got_size;
    mkdir(packed, 0777);
    assert_int_equal(ct_thread_writer_open_as(&writer, place_of(packed), 3, 77, &format), 0);
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        struct atf_index_event event = golden_events[i];
        event.detail_seq = ATF_NO_DETAIL;
        write_events(writer, &event, 1);
    }
    ct_thread_writer_link(writer, 1, 9);
    assert_int_equal(ct_thread_writer_close(writer), 0);
    got = load(in("%s/thread_3/index.ctp", packed), &got_size);
    assert_int_equal(got_size, size);
    assert_memory_equal(got, expected, size);
    free(got);
}

static void known_bytes_are_read(void **unused) {
    (void)unused;
    uint8_t bytes[1000];
    struct ct_trace *trace;
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    mkdir(packed, 0777);
    mkdir(in("%s/thread_3", packed), 0777);
    store(in("%s/manifest.json", packed), "{}", 2);
    store(in("%s/thread_3/index.ctp", packed), bytes, golden_bytes(bytes));
    assert_int_equal(ct_trace_open(&trace, packed, NULL, 0), 0);
    assert_int_equal(ct_trace_thread_at(trace, 0)->tid, 77);
    assert_false(ct_trace_thread_at(trace, 0)->cut);
    assert_int_equal(ct_trace_cursor_open(&cursor, trace, 0), 0);
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        assert_true(ct_trace_cursor_next(cursor, &event));
        assert_int_equal(event.sequence, i);
        assert_int_equal(event.timestamp_ns, golden_events[i].timestamp_ns);
        assert_int_equal(event.function_id, golden_events[i].function_id);
        assert_int_equal(event.kind, golden_events[i].event_kind);
        assert_int_equal(event.depth, golden_events[i].call_depth);
        assert_int_equal(event.detail, golden_events[i].detail_seq);
    }
    assert_false(ct_trace_cursor_next(cursor, &event));
    ct_trace_cursor_close(cursor);
    ct_trace_close(trace);
}

/* ---- export ---- */

static void export_to(const char *from, const char *to) {
    struct ct_trace *trace;
    struct ct_export_options options = {.directory = to, .fd = -1};
    struct ct_export_result result;
    for (size_t i = 0; (options.format = ct_export_format_at(i)); i++)
        if (!strcmp(options.format->name, "atf2"))
            break;
    assert_int_equal(ct_trace_open(&trace, from, NULL, 0), 0);
    assert_int_equal(ct_export_run(trace, &options, &result), 0);
    ct_trace_close(trace);
}

static const char *other;
static size_t base_length, compared;

static int compare_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)ftw;
    size_t size, other_size;
    if (type != FTW_F)
        return 0;
    uint8_t *a = load(path, &size), *b = load(in("%s%s", other, path + base_length), &other_size);
    assert_int_equal(size, other_size);
    assert_memory_equal(a, b, size);
    compared++;
    free(a);
    free(b);
    return 0;
}

/* Every file of `a` is equal in `b`, and there are this many. */
static void assert_same(const char *a, const char *b, size_t files) {
    other = b;
    base_length = strlen(a);
    compared = 0;
    assert_int_equal(nftw(a, compare_one, 16, FTW_PHYS), 0);
    assert_int_equal(compared, files);
}

static void exported_as_recorded(void **unused) {
    (void)unused;
    struct sample sample = {.threads = 3, .events = 20000, .detail = 17};
    make_sample(raw, &sample);
    sample.packed = true;
    make_sample(packed, &sample);
    export_to(packed, exported);
    assert_same(raw, exported, 2 + 3 * 2);
    assert_same(exported, raw, 2 + 3 * 2);
}

static void raw_is_copied(void **unused) {
    (void)unused;
    make_sample(raw, &(struct sample){.threads = 2, .events = 1000, .part = 300});
    export_to(raw, exported);
    assert_same(raw, exported, 2 + 2 * 4);
}

/* ---- verify ---- */

static void good_traces_are_good(void **unused) {
    (void)unused;
    char text[2000];
    make_sample(packed, &(struct sample){.threads = 3, .events = 30000, .detail = 5, .packed = true});
    int status = verify_text(packed, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(status, 0);
    make_sample(in("%s/cut", root), &(struct sample){.threads = 2, .events = 3000, .packed = true, .unfinished = true});
    status = verify_text(in("%s/cut", root), text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(status, 0);
}

/* Whichever byte is wrong, it is reported, for the right file. */
static void each_byte_counts(void **unused) {
    (void)unused;
    char text[4000];
    size_t size, missed = 0;
    make_sample(packed, &(struct sample){.threads = 1, .events = 400, .packed = true});
    uint8_t *bytes = load(in("%s/thread_0/index.ctp", packed), &size);
    for (size_t at = 0; at < size; at += at < 400 || at + 300 > size ? 1 : 7) {
        bytes[at] ^= 0x40;
        store(in("%s/thread_0/index.ctp", packed), bytes, size);
        bytes[at] ^= 0x40;
        if (verify_text(packed, text, sizeof text) == 0 || !strstr(text, "thread_0"))
            missed++;
    }
    assert_int_equal(missed, 0);
    free(bytes);
}

static void damage_is_told(void **unused) {
    (void)unused;
    char text[4000];
    size_t size;
    make_sample(packed, &(struct sample){.threads = 1, .events = 30000, .packed = true});
    uint8_t *bytes = load(in("%s/thread_0/index.ctp", packed), &size);
    bytes[sizeof(struct ctp_header) + sizeof(struct ctp_block) + 20] ^= 1;
    store(in("%s/thread_0/index.ctp", packed), bytes, size);
    assert_int_equal(verify_text(packed, text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "index.ctp: events 0 to "));
    assert_non_null(strstr(text, "cannot be read: their block is damaged or missing"));
    free(bytes);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(known_bytes_are_written), TEST(known_bytes_are_read), TEST(exported_as_recorded), TEST(raw_is_copied),
        TEST(good_traces_are_good),    TEST(each_byte_counts),     TEST(damage_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
