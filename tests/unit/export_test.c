/* SPDX-License-Identifier: Apache-2.0 */
/* Exports from inside: every format on a trace with gaps, coroutines and open frames (the other tests read what comes
 * out; this one runs under sanitizers), failures of the output, the parts that formats are made of. */
#include "export/export.h"
#include "export/proto.h"
#include "export/spool.h"
#include "trace_sample.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct sample_thread threads[] = {
    {.id = 1,
     .tid = 1000,
     .name = "sample",
     .script =
         "1000+main 1500+setjmp 2000+other 3000+worker 4000+leaf 5000-other@1 6000+other 7000+recurse 8000-other@3 "
         "9000-leaf@2 9500+thrower 9600!thrower 9700-worker@1 9800-work@9"},
    {.id = 2,
     .tid = 1001,
     .name = "w\"1",
     .script = "5000+worker 7000+other 9000~250/DRAIN_LAG 9000-work@2 9100-other 9200!unknown"},
    {.id = 3, .tid = 1002, .name = "", .script = ""},
    {.id = 4, .tid = 1003, .name = "only gap", .script = "100~5/POOL_EXHAUSTED"},
};

struct fixture {
    char *directory, *path;
    struct ct_trace *trace;
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    f->directory = sample_directory();
    f->path = sample_write(f->directory, &(struct sample){.threads = threads, .thread_count = 4, .end_ns = 20000});
    assert_int_equal(ct_trace_open(&f->trace, f->path, NULL, 0), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    ct_trace_close(f->trace);
    sample_remove(f->directory);
    free(f->path);
    free(f);
    return 0;
}

static int run(struct fixture *f, const struct ct_export_format *format, int fd, struct ct_export_result *result) {
    char directory[500];
    snprintf(directory, sizeof directory, "%s/out-%s", f->directory, format->name);
    struct ct_export_options options = {.format = format, .fd = fd, .directory = directory};
    return ct_export_run(f->trace, &options, result);
}

static void test_all_formats(void **state) {
    struct fixture *f = *state;
    struct ct_export_result result;
    for (size_t i = 0; ct_export_format_at(i); i++) {
        const struct ct_export_format *format = ct_export_format_at(i);
        FILE *file = tmpfile();
        assert_int_equal(run(f, format, fileno(file), &result), 0);
        struct stat status;
        fstat(fileno(file), &status);
        assert_int_equal(result.events, 19);
        assert_int_equal(result.threads, 4);
        assert_int_equal(result.error, 0);
        assert_true(result.bytes > 50);
        assert_int_equal(status.st_size, format->kind == CT_EXPORT_DIRECTORY ? 0 : result.bytes);
        fclose(file);
    }
}

static void test_output_that_fails(void **state) {
    struct fixture *f = *state;
    struct ct_export_result result;
    int full = open("/dev/full", O_WRONLY);
    for (size_t i = 0; ct_export_format_at(i); i++) {
        const struct ct_export_format *format = ct_export_format_at(i);
        if (format->kind == CT_EXPORT_DIRECTORY) {
            assert_int_equal(run(f, format, -1, &result), 0);
            assert_int_equal(run(f, format, -1, &result), CT_ERR_BUSY);
        } else {
            assert_int_equal(run(f, format, full, &result), CT_ERR_NO_SPACE);
            assert_int_equal(result.error, ENOSPC);
        }
    }
    close(full);
}

static void test_directory_that_cannot_be_made(void **state) {
    struct fixture *f = *state;
    struct ct_export_result result;
    struct ct_export_options options = {.directory = "/nowhere/at/all"};
    for (size_t i = 0; ct_export_format_at(i); i++) {
        options.format = ct_export_format_at(i);
        if (options.format->kind != CT_EXPORT_DIRECTORY)
            continue;
        assert_true(ct_export_run(f->trace, &options, &result) < 0);
        assert_int_equal(result.error, ENOENT);
    }
}

static int stop(void *arg, uint64_t done, uint64_t total) {
    (void)arg;
    assert_true(done <= total);
    return 7;
}

static void test_stopped(void **state) {
    struct fixture *f = *state;
    char directory[500];
    for (size_t i = 0; ct_export_format_at(i); i++) {
        struct ct_export_result result;
        FILE *file = tmpfile();
        snprintf(directory, sizeof directory, "%s/out-%zu", f->directory, i);
        struct ct_export_options options = {
            .format = ct_export_format_at(i), .fd = fileno(file), .directory = directory, .progress = stop};
        assert_int_equal(ct_export_run(f->trace, &options, &result), 7);
        fclose(file);
    }
}

/* ---- parts ---- */

static void check_text(const char *text, const char *expected) {
    struct ct_proto p = {.used = 0};
    ct_proto_text(&p, 1, text);
    assert_int_equal(p.used, strlen(expected) + 2);
    assert_int_equal(p.bytes[0], 1 << 3 | 2);
    assert_int_equal(p.bytes[1], strlen(expected));
    assert_memory_equal(p.bytes + 2, expected, strlen(expected));
}

static void test_texts_are_utf8(void **state) {
    (void)state;
    check_text("", "");
    check_text("n\xc3\xa4me \xe2\x82\xac \xf0\x9f\x98\x80", "n\xc3\xa4me \xe2\x82\xac \xf0\x9f\x98\x80");
    check_text("\x80", "?");
    check_text("a\xc3", "a?");
    check_text("\xc0\xaf", "??");           /* longer than needed */
    check_text("\xed\xa0\x80", "???");      /* a surrogate */
    check_text("\xf4\x90\x80\x80", "????"); /* beyond the last */
    check_text("\xff!", "?!");
}

static void test_long_texts_are_cut(void **state) {
    (void)state;
    static char text[3 * CT_PROTO_TEXT];
    for (size_t i = 0; i + 1 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    text[sizeof text - 1] = 0;
    struct ct_proto p = {.used = 0};
    ct_proto_text(&p, 1, text);
    assert_int_equal(p.used, CT_PROTO_TEXT + 3); /* whole characters, and a length of two bytes */
}

/* As large as a record of atf-pb or a packet of Perfetto can become. */
static void test_four_long_texts_fit(void **state) {
    (void)state;
    static char text[2 * CT_PROTO_TEXT];
    struct ct_proto inner = {.used = 0}, middle = {.used = 0}, outer = {.used = 0};
    memset(text, 'x', sizeof text - 1);
    for (uint32_t field = 1; field <= 4; field++)
        ct_proto_text(&inner, field, text);
    for (uint32_t field = 5; field <= 15; field++)
        ct_proto_number(&inner, field, UINT64_MAX);
    ct_proto_message(&middle, 1, &inner);
    ct_proto_message(&outer, 1, &middle);
    assert_int_equal(inner.used, 4 * (CT_PROTO_TEXT + 3) + 11 * 11);
    assert_int_equal(outer.used, inner.used + 2 * 4);
}

static void test_numbers(void **state) {
    (void)state;
    static const uint64_t values[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX};
    static const size_t sizes[] = {1, 1, 1, 2, 2, 3, 5, 10};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        uint8_t bytes[10];
        uint64_t back = 0;
        size_t n = ct_proto_varint(bytes, values[i]);
        assert_int_equal(n, sizes[i]);
        for (size_t k = 0; k < n; k++)
            back |= (uint64_t)(bytes[k] & 0x7f) << (7 * k);
        assert_true(back == values[i]);
    }
}

/* Streams that grew in turns come out whole. */
static void test_spool(void **state) {
    (void)state;
    enum { STREAMS = 5, ROUNDS = 4000 };
    struct ct_spool spool = {0};
    char line[64];
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < ROUNDS; i++)
            for (size_t s = 1; s < STREAMS; s += 2)
                ct_spool_put(&spool, s, line, (size_t)snprintf(line, sizeof line, "%zu:%d\n", s, i));
        for (size_t s = 0; s < STREAMS; s++) {
            FILE *file = tmpfile();
            struct ct_out out;
            assert_true(ct_out_open(&out, fileno(file)));
            ct_spool_copy(&spool, s, &out);
            assert_int_equal(ct_out_close(&out), 0);
            rewind(file);
            char got[64];
            for (int i = 0; i < ROUNDS && s % 2; i++) {
                snprintf(line, sizeof line, "%zu:%d\n", s, i);
                assert_non_null(fgets(got, sizeof got, file));
                assert_string_equal(got, line);
            }
            assert_null(fgets(got, sizeof got, file));
            fclose(file);
        }
        ct_spool_clear(&spool);
    }
    assert_false(spool.no_memory);
    assert_int_equal(spool.error, 0);
    ct_spool_free(&spool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_formats, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_output_that_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_directory_that_cannot_be_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stopped, set_up, tear_down),
        cmocka_unit_test(test_texts_are_utf8),
        cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_four_long_texts_fit),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_spool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
