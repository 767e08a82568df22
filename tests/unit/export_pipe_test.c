/* SPDX-License-Identifier: Apache-2.0 */
/* Exports have the same bytes whether one processor makes them or several do, and fail in the same way. */
#include "export/export.h"
#include "process_util.h"
#include "summary_util.h"
#include "tests/tools/place_of.h"
#include "trace/reader.h"
#include "trace/switches_file.h"
#include "trace_util.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const struct ct_export_format *format_called(const char *name) {
    const struct ct_export_format *format;
    for (size_t i = 0; (format = ct_export_format_at(i)); i++)
        if (!strcmp(format->name, name))
            return format;
    fail_msg("there is no format %s", name);
    return NULL;
}

static struct ct_trace *open_trace(bool many) {
    struct ct_trace *trace;
    assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
    trace->jobs = many ? 0 : 1;
    trace->ahead_least = many ? 1 : 0;
    return trace;
}

/* Exports to a file, and loads it. */
static uint8_t *export(const struct ct_export_format *format, bool many, size_t *size) {
    const char *path = in("%s/%s.%d", root, format->name, many);
    struct ct_export_options options = {.format = format};
    struct ct_export_result result;
    struct ct_trace *trace = open_trace(many);
    options.fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(options.fd >= 0);
    assert_int_equal(ct_export_run(trace, &options, &result), 0);
    close(options.fd);
    ct_trace_close(trace);
    return load(path, size);
}

static const char *const names[] = {"perfetto", "chrome", "speedscope", "folded", "callgrind"};

static void compare(void) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct ct_export_format *format = format_called(names[i]);
        size_t one_size, many_size;
        uint8_t *one = export(format, false, &one_size), *many = export(format, true, &many_size);
        assert_true(one_size > 0);
        assert_int_equal(one_size, many_size);
        assert_memory_equal(one, many, one_size);
        free(one);
        free(many);
    }
}

static const struct random_trace traces[] = {
    {.seed = 401, .threads = 1, .events = 20000},
    {.seed = 402, .threads = 3, .events = 6000, .stacks = 5, .odd = 10},
    {.seed = 403, .threads = 2, .events = 10000, .gaps = 60, .waits = 20},
    {.seed = 404, .threads = 2, .events = 10000, .silent = 60, .unfinished = true, .back = true},
};

static void write_switches(uint64_t end_ns) {
    struct ct_switches_writer *writer;
    assert_int_equal(ct_switches_writer_open(&writer, place_of(directory), 1, 321, 1000, CT_SWITCHES_LIMIT), 0);
    for (uint64_t at = 5000; at < end_ns; at += 7001)
        ct_switches_writer_put(writer, &(struct ct_switch_span){at, at + 900, CT_SWITCHES_BLOCKED});
    assert_int_equal(ct_switches_writer_close(writer), 0);
}

static void exports_have_the_same_bytes(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        write_random(directory, &traces[i]);
        if (i % 2)
            write_switches(traces[i].events * 250);
        compare();
        remove_directory(directory);
    }
}

/* Arguments are read beside the walk. */
static void details_have_the_same_bytes(void **unused) {
    (void)unused;
    make_sample(directory, &(struct sample){.threads = 2, .events = 3000, .detail = 2, .packed = true});
    compare();
}

static void a_full_disk_is_noticed(void **unused) {
    (void)unused;
    write_random(directory, &traces[0]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ct_export_options options = {.format = format_called(names[i])};
        struct ct_export_result result;
        struct ct_trace *trace = open_trace(true);
        options.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
        assert_int_equal(ct_export_run(trace, &options, &result), CT_ERR_NO_SPACE);
        assert_int_equal(result.error, ENOSPC);
        close(options.fd);
        ct_trace_close(trace);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exports_have_the_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(details_have_the_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_noticed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
