/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged traces: whatever the files hold, what reads them ends, and says no more than that it could not. */
#include "report/diff.h"
#include "report/flame.h"
#include "report/functions.h"
#include "report/graph.h"
#include "report/info.h"
#include "report/locks.h"
#include "report/replay.h"
#include "trace_sample.h"
#include "base/json_write.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct sample_thread threads[] = {
    {.id = 1,
     .tid = 1000,
     .name = "a",
     .script = "0+main 10+work 20+recurse 30+recurse 40-recurse 50-recurse 60-work 99-main"},
    {.id = 2,
     .tid = 1001,
     .name = "b",
     .script = "0+worker 9+setjmp 50~7/DRAIN_LAG 50-other@3 60!thrower 70+leaf 80-leaf"},
};

static int on_line(void *arg, const struct ct_replay_line *line) {
    *(size_t *)arg += strlen(line->name) + strlen(line->module) + line->indent;
    return 0;
}

static void compare(struct ct_trace *trace, const char *path, struct ct_json *json) {
    struct ct_trace *again;
    struct ct_graph *graph;
    struct ct_diff *diff;
    struct ct_flame *flame;
    struct ct_locks *locks;
    if (!ct_locks_find(&locks, trace, &(struct ct_select){0}, NULL)) {
        ct_locks_json(locks, trace, NULL, json);
        ct_locks_free(locks);
    }
    if (!ct_flame_make(&flame, trace, &(struct ct_flame_options){0}))
        ct_flame_free(flame);
    if (!ct_graph_make(&graph, trace, &(struct ct_graph_options){.depth = 3})) {
        ct_graph_json(graph, trace, json);
        ct_graph_free(graph);
    }
    if (ct_trace_open(&again, path, NULL, 0))
        return;
    struct ct_trace *const both[] = {trace, again};
    if (!ct_diff_make(&diff, both, &(struct ct_diff_options){.next = 3})) {
        assert_false(diff->path.part);
        ct_diff_json(diff, both, json);
        ct_diff_free(diff);
    }
    ct_trace_close(again);
}

static void read_everything(const char *path) {
    struct ct_trace *trace;
    if (ct_trace_open(&trace, path, NULL, 0))
        return;
    struct ct_report *report;
    struct ct_facts facts;
    struct ct_json json = {0};
    size_t sum = 0;
    if (!ct_report_make(&report, trace, &(struct ct_report_options){.per_thread = true})) {
        ct_report_json(report, trace, NULL, NULL, &json);
        ct_report_free(report);
    }
    if (!ct_report_make(&report, trace, &(struct ct_report_options){0}))
        ct_report_free(report);
    ct_replay(trace, &(struct ct_replay_options){0}, on_line, &sum);
    ct_replay(trace, &(struct ct_replay_options){.min_ns = 15, .max_depth = 3}, on_line, &sum);
    if (!ct_facts_load(&facts, trace)) {
        struct ct_info *info;
        if (facts.process_count && !ct_info_make(&info, trace, &facts, 0, true)) {
            ct_info_json(info, trace, &facts, &json);
            ct_info_free(info);
        }
        ct_facts_free(&facts);
    }
    compare(trace, path, &json);
    ct_json_free(&json);
    ct_trace_close(trace);
}

static void damage(const char *directory, const char *name, uint32_t *random) {
    char path[512];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && !fstat(fd, &status));
    for (int i = 0; i < 6; i++) {
        *random = *random * 1103515245 + 12345;
        uint8_t byte = (uint8_t)(*random >> 24);
        off_t at = (off_t)((*random >> 8) % (uint32_t)status.st_size);
        if (*random % 7 == 0 && i == 0)
            assert_int_equal(ftruncate(fd, at), 0);
        else
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
}

static void any_damage(void **state) {
    (void)state;
    static const char *const names[] = {"manifest.json", "symbols", "thread_1/index.atf", "thread_2/index.atf"};
    uint32_t random = 1;
    for (int round = 0; round < 200; round++) {
        char *directory = sample_directory();
        char *path = sample_write(directory, &(struct sample){.threads = threads, .thread_count = 2, .end_ns = 100});
        for (int i = 0; i < 4; i++)
            if (round % 5 == i || round % 5 == 4)
                damage(path, names[i], &random);
        read_everything(path);
        free(path);
        sample_remove(directory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
