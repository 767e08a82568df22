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

/* Ranges of this many events: odd numbers, so that they end anywhere. */
enum { RANGE = 1531 };

static struct ct_trace *open_trace(void) {
    struct ct_trace *trace;
    assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
    return trace;
}

static uint64_t ranges; /* that were walked by themselves */

/* Exports to a file, and loads it. No workers: event by event. */
static uint8_t *export(struct ct_export_options options, unsigned workers, size_t *size) {
    const char *path = in("%s/%s.%u", root, options.format->name, workers);
    struct ct_export_result result;
    struct ct_trace *trace = open_trace();
    options.workers = workers ? workers : 1;
    options.range_events = RANGE;
    options.one_by_one = !workers;
    options.fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(options.fd >= 0);
    assert_int_equal(ct_export_run(trace, &options, &result), 0);
    close(options.fd);
    ct_trace_close(trace);
    ranges += result.ranges;
    return load(path, size);
}

static const char *const names[] = {"perfetto", "chrome", "speedscope", "html", "folded", "callgrind"};
static const unsigned workers[] = {1, 2, 3, 8};

static void compare_selected(const struct ct_export_options *selected) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ct_export_options options = *selected;
        size_t one_size, many_size;
        options.format = format_called(names[i]);
        uint8_t *one = export(options, 0, &one_size);
        assert_true(one_size > 0);
        for (size_t j = 0; j < sizeof workers / sizeof *workers; j++) {
            uint8_t *many = export(options, workers[j], &many_size);
            size_t same = 0;
            while (same < one_size && same < many_size && one[same] == many[same])
                same++;
            if (same < one_size || same < many_size)
                fail_msg("%s: %u workers differ from event by event at byte %zu", names[i], workers[j], same);
            free(many);
        }
        free(one);
    }
}

static void compare(void) {
    compare_selected(&(struct ct_export_options){.fd = -1});
}

static const struct random_trace traces[] = {
    {.seed = 401, .threads = 1, .events = 20000},
    {.seed = 405, .threads = 1, .events = 20000, .calm = true, .raw = true},
    {.seed = 406, .threads = 2, .events = 15000, .keep = 60000},
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
        ranges = 0;
        compare();
        assert_true(traces[i].stacks || ranges > 20);
        remove_directory(directory);
    }
}

/* Part of the time, calls that are chosen, one thread. */
static void selections_have_the_same_bytes(void **unused) {
    (void)unused;
    write_random(directory, &(struct random_trace){.seed = 407, .threads = 2, .events = 20000, .gaps = 10, .waits = 9});
    struct ct_trace *trace = open_trace();
    uint64_t first = ct_trace_process_at(trace, 0)->time_start_ns, last = ct_trace_process_at(trace, 0)->time_end_ns;
    ct_trace_close(trace);
    assert_true(last > first);
    compare_selected(&(struct ct_export_options){.select = {.from_ns = first + (last - first) / 3}});
    compare_selected(&(struct ct_export_options){.select = {.to_ns = first + (last - first) / 3 * 2}});
    compare_selected(&(struct ct_export_options){
        .select = {.from_ns = first + (last - first) / 5, .to_ns = first + (last - first) / 2}});
}

/* Bytes in the middle of the events are wrong, and the end is missing. */
static void damaged_traces_have_the_same_bytes(void **unused) {
    (void)unused;
    for (int cut = 0; cut < 2; cut++) {
        write_random(directory, &(struct random_trace){.seed = 408, .threads = 1, .events = 60000, .raw = cut});
        const char *path = in("%s/thread_1/index.%s", directory, cut ? "atf" : "ctp");
        size_t size;
        uint8_t *bytes = load(path, &size);
        for (size_t i = 0; i < 200; i++)
            bytes[size / 2 + i * 7] ^= 0x5a;
        int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        assert_int_equal(write(fd, bytes, cut ? size * 4 / 5 : size), cut ? size * 4 / 5 : size);
        close(fd);
        free(bytes);
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
        struct ct_export_options options = {.format = format_called(names[i]), .workers = 3, .range_events = RANGE};
        struct ct_export_result result;
        struct ct_trace *trace = open_trace();
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
        cmocka_unit_test_setup_teardown(selections_have_the_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_traces_have_the_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(details_have_the_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_noticed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
