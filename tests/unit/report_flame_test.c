/* SPDX-License-Identifier: Apache-2.0 */
/* Merged stacks, on traces written from scripts: every number is exact. */
#include "report/flame.h"
#include "trace_sample.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "name:calls total self(children)" of each node below this one. */
static void put_nodes(char *text, size_t size, const struct ct_graph_node *node) {
    for (size_t i = 0; i < node->child_count; i++) {
        const struct ct_graph_node *c = node->children[i];
        size_t length = strlen(text);
        snprintf(text + length, size - length, "%s%s:%llu %llu %llu", i ? " " : "", c->known->name,
                 (unsigned long long)c->calls, (unsigned long long)c->total_ns, (unsigned long long)c->self_ns);
        if (!c->child_count)
            continue;
        strcat(text, "(");
        put_nodes(text, size - 1, c);
        strcat(text, ")");
    }
}

static struct ct_flame *make(const char *path, struct ct_trace **trace, const struct ct_flame_options *options) {
    struct ct_flame *flame;
    assert_int_equal(ct_trace_open(trace, path, NULL, 0), 0);
    assert_int_equal(ct_flame_make(&flame, *trace, options), 0);
    return flame;
}

static void check_path(const char *path, const struct ct_flame_options *options, const char *expected) {
    char text[4096] = "";
    struct ct_trace *trace;
    struct ct_flame *flame = make(path, &trace, options);
    uint64_t total = 0;
    put_nodes(text, sizeof text, &flame->root);
    assert_string_equal(text, expected);
    for (size_t i = 0; i < flame->root.child_count; i++)
        total += flame->root.children[i]->total_ns;
    assert_int_equal(flame->root.total_ns, total);
    ct_flame_free(flame);
    ct_trace_close(trace);
}

static void check(const struct sample_thread *threads, size_t count, const struct ct_flame_options *options,
                  const char *expected) {
    char *directory = sample_directory();
    char *path = sample_write(directory, &(struct sample){.threads = threads, .thread_count = count});
    check_path(path, options, expected);
    free(path);
    sample_remove(directory);
}

static const struct sample_thread plain[] = {
    {.id = 1,
     .tid = 1000,
     .name = "sample",
     .script = "0+main 100+work 110+leaf 130-leaf 140+leaf 150-leaf 200-work 300+leaf 305-leaf 400+other 410+work "
               "420+leaf 421-leaf 450-work 500-other 1000-main"},
    {.id = 2, .tid = 1001, .name = "worker-1", .script = "0+worker 10+leaf 30-leaf 100-worker"},
    {.id = 3, .tid = 1002, .name = "worker-2", .script = "0+worker 10+leaf 15-leaf 50-worker"},
};

static void equal_stacks_are_one(void **state) {
    (void)state;
    check(plain, 3, &(struct ct_flame_options){0},
          "main:1 1000 795(other:1 100 60(work:1 40 39(leaf:1 1 1)) work:1 100 70(leaf:2 30 30) leaf:1 5 5) "
          "worker:2 150 125(leaf:2 25 25)");
}

static void nodes_are_sorted(void **state) {
    (void)state;
    check(plain, 1, &(struct ct_flame_options){.sort = CT_GRAPH_BY_NAME},
          "main:1 1000 795(leaf:1 5 5 other:1 100 60(work:1 40 39(leaf:1 1 1)) work:1 100 70(leaf:2 30 30))");
}

/* Calls of other functions above them are left out; a recursion is below its outermost call. */
static void stacks_begin_at_functions(void **state) {
    (void)state;
    const char *functions[] = {"work", NULL}, *both[] = {"other", "work", NULL}, *recursion[] = {"recurse", NULL};
    check(plain, 3, &(struct ct_flame_options){.select = {.functions = functions}}, "work:2 140 109(leaf:3 31 31)");
    check(plain, 3, &(struct ct_flame_options){.select = {.functions = both}},
          "other:1 100 60(work:1 40 39(leaf:1 1 1)) work:1 100 70(leaf:2 30 30)");
    const struct sample_thread thread = {
        .id = 1, .tid = 1000, .name = "sample", .script = "0+main 10+recurse 20+recurse 30-recurse 50-recurse 60-main"};
    check(&thread, 1, &(struct ct_flame_options){.select = {.functions = recursion}},
          "recurse:1 40 30(recurse:1 10 10)");
}

static void threads_are_selected(void **state) {
    (void)state;
    const char *threads[] = {"worker-2", NULL};
    check(plain, 3, &(struct ct_flame_options){.select = {.threads = threads}}, "worker:1 50 45(leaf:1 5 5)");
}

static void processes_are_united(void **state) {
    (void)state;
    char *directory = sample_directory(), session[512];
    for (int pid = 1000; pid < 1002; pid++)
        free(sample_write(directory, &(struct sample){.threads = &plain[2], .thread_count = 1, .pid = pid}));
    snprintf(session, sizeof session, "%s/session_20250102_030405", directory);
    check_path(session, &(struct ct_flame_options){0}, "worker:2 100 90(leaf:2 10 10)");
    sample_remove(directory);
}

static void deep_stacks_are_cut(void **state) {
    (void)state;
    enum { DEEP = 2 * CT_FLAME_MAX_DEPTH };
    char script[2 * DEEP * 24] = "", *at = script;
    for (int i = 0; i < DEEP; i++)
        at += sprintf(at, "%d+recurse ", i);
    for (int i = 0; i < DEEP; i++)
        at += sprintf(at, "%d-recurse ", DEEP + i);
    const struct sample_thread thread = {.id = 1, .tid = 1000, .name = "sample", .script = script};
    char *directory = sample_directory();
    char *path = sample_write(directory, &(struct sample){.threads = &thread, .thread_count = 1});
    struct ct_trace *trace;
    struct ct_flame *flame = make(path, &trace, &(struct ct_flame_options){0});
    unsigned depth = 0;
    for (const struct ct_graph_node *node = &flame->root; node->child_count; node = node->children[0])
        depth++;
    assert_int_equal(depth, CT_FLAME_MAX_DEPTH);
    assert_int_equal(flame->root.total_ns, 2 * DEEP - 1); /* no time is lost */
    assert_true(flame->cut);
    ct_flame_free(flame);
    ct_trace_close(trace);
    free(path);
    sample_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_stacks_are_one),      cmocka_unit_test(nodes_are_sorted),
        cmocka_unit_test(stacks_begin_at_functions), cmocka_unit_test(threads_are_selected),
        cmocka_unit_test(processes_are_united),      cmocka_unit_test(deep_stacks_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
