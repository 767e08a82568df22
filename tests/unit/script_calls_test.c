/* SPDX-License-Identifier: Apache-2.0 */
/* Scripting a process: replaced and served functions, calls outside of callbacks, lists, what is refused. */
#include "script_util.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- replacements, callbacks, calls outside of callbacks ---- */

static void multiply(struct server *v, struct ct_script_request *r) {
    if (r->kind == CT_SCRIPT_CALLBACK)
        r->cpu.gpr[RESULT] = r->cpu.gpr[FIRST] * 10 + r->cpu.gpr[SECOND];
    v->call = r->id; /* before the answer, with which the target goes on */
    v->failures += ct_script_answer(v->script, r, true) != 0;
}

static void replaces_functions(void **state) {
    struct target t;
    struct server v;
    char line[128];
    uint64_t address = 0;
    uint32_t id = 99, first = 99;
    (void)state;
    start_target(&t);
    ask_line(&t, line, sizeof line, "add 5 6");
    char *before = read_maps(t.pid);
    begin_server(&v, &t, NULL, multiply);
    struct ct_script_hook h = {.address = t.add, .replacement = t.twin};
    assert_int_equal(ct_script_hook(v.script, &h, 1), 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "30");
    assert_int_equal(ct_script_unhook(v.script, &h.id, 1), 0);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    assert_int_equal(ct_script_callback(v.script, CT_SCRIPT_NO_SLOT, &address, &first), 0);
    assert_int_equal(ct_script_callback(v.script, CT_SCRIPT_NO_SLOT, &address, &id), 0);
    h.replacement = address;
    assert_int_equal(ct_script_hook(v.script, &h, 1), 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "56");
    assert_int_equal(v.call, id);
    struct ct_script_call c = {.function = h.original, .integers = {20, 3}};
    assert_int_equal(ct_script_run(v.script, NULL, &c, NULL, NULL), 0);
    assert_int_equal(c.result, 23);
    assert_int_equal(ct_script_unhook(v.script, &h.id, 1), 0);
    end_server(&v);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    char *after = read_maps(t.pid);
    assert_null(strstr(after, "contrail"));
    free(before);
    free(after);
    assert_int_equal(v.failures, 0);
    end_target(&t);
}

static void calls_outside_of_callbacks(void **state) {
    struct target t;
    struct server v;
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, plain);
    for (int i = 0; i < 20; i++) {
        struct ct_script_call c = {.function = t.add, .integers = {1, (uint64_t)i}};
        assert_int_equal(ct_script_run(v.script, NULL, &c, NULL, NULL), 0);
        assert_int_equal(c.result, 1 + i);
    }
    hook(&v, t.inner, CT_SCRIPT_ON_ENTER);
    struct ct_script_call c = {.function = t.outer, .integers = {5}};
    assert_int_equal(ct_script_run(v.script, NULL, &c, answer_nested, &v), 0);
    assert_int_equal(c.result, 32);
    assert_int_equal(v.call, 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    ask_line(&t, line, sizeof line, "threads 4 50");
    assert_string_equal(line, "wrong 0");
    end_server(&v);
    ask_line(&t, line, sizeof line, "threads 4 50");
    assert_string_equal(line, "wrong 0");
    end_target(&t);
}

/* A program that has no memory for another thread now may have it later. */
static void calls_when_threads_cannot_be_made(void **state) {
    struct target t;
    struct server v;
    struct rlimit before, little;
    char path[64];
    unsigned long pages = 0;
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, plain);
    snprintf(path, sizeof path, "/proc/%d/statm", t.pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    assert_int_equal(prlimit(t.pid, RLIMIT_AS, NULL, &before), 0);
    little = before;
    little.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (320 << 10); /* for the call, not for the thread */
    assert_int_equal(prlimit(t.pid, RLIMIT_AS, &little, NULL), 0);
    struct ct_script_call c = {.function = t.add, .integers = {1, 2}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(ct_script_run(v.script, NULL, &c, NULL, NULL), CT_ERR_BUSY);
    assert_int_equal(prlimit(t.pid, RLIMIT_AS, &before, NULL), 0);
    assert_int_equal(ct_script_run(v.script, NULL, &c, NULL, NULL), 0);
    assert_int_equal(c.result, 3);
    end_server(&v);
    end_target(&t);
}

static void look_at_stack(struct server *v, struct ct_script_request *r) {
    uint64_t frames[16];
    struct ct_script_place place;
    if (r->kind == CT_SCRIPT_LEAVE) {
        plain(v, r);
        return;
    }
    int count = ct_script_backtrace(v->script, r->slot, 0, false, frames, 16);
    v->failures += count < 3 || frames[0] != v->target->inner;
    v->failures += count > 1 && (ct_script_describe(v->script, frames[1], &place) || strcmp(place.name, "outer"));
    v->failures += ct_script_backtrace(v->script, r->slot, 0, true, frames, 16) < 3;
    v->failures += ct_script_answer(v->script, r, false) != 0;
}

static void lists_what_is_there(void **state) {
    struct target t;
    struct server v;
    char line[128];
    struct ct_script_thread *threads;
    struct ct_script_module *modules;
    struct ct_script_symbol *symbols;
    struct ct_script_range *ranges;
    struct ct_script_place place;
    size_t count, module_count;
    bool found = false;
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, look_at_stack);
    assert_int_equal(ct_script_threads(v.script, &threads, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(threads[0].tid, t.pid);
    free(threads);
    assert_int_equal(ct_script_modules(v.script, &modules, &module_count), 0);
    assert_true(module_count >= 1);
    assert_non_null(strstr(modules[0].path, strrchr(program, '/')));
    assert_int_equal(ct_script_symbols(v.script, modules[0].base, CT_SCRIPT_SYMBOLS, &symbols, &count), 0);
    for (size_t i = 0; i < count; i++)
        found |= !strcmp(symbols[i].name, "add") && symbols[i].address == t.add;
    assert_true(found);
    free(symbols);
    found = false;
    assert_int_equal(ct_script_symbols(v.script, modules[0].base, CT_SCRIPT_IMPORTS, &symbols, &count), 0);
    for (size_t i = 0; i < count; i++)
        found |= !strcmp(symbols[i].name, "longjmp") || !strcmp(symbols[i].name, "printf");
    assert_true(found || module_count == 1); /* a static program has none */
    free(symbols);
    found = false;
    for (size_t m = 0; m < module_count; m++) {
        assert_int_equal(ct_script_symbols(v.script, modules[m].base, CT_SCRIPT_EXPORTS, &symbols, &count), 0);
        for (size_t i = 0; i < count; i++)
            found |= !strcmp(symbols[i].name, "pthread_create");
        free(symbols);
    }
    assert_true(found || module_count == 1);
    ct_script_free_modules(modules, module_count);
    assert_int_equal(ct_script_ranges(v.script, &ranges, &count), 0);
    for (size_t i = 0; i < count; i++)
        assert_null(strstr(ranges[i].path, "contrail:"));
    free(ranges);
    assert_int_equal(ct_script_describe(v.script, t.add + 1, &place), 0);
    assert_string_equal(place.name, "add");
    assert_true(place.function == t.add);
    assert_non_null(strstr(place.file, "script_target.c"));
    assert_int_equal(ct_script_describe(v.script, 4096, &place), CT_ERR_NOT_FOUND);
    hook(&v, t.inner, CT_SCRIPT_ON_ENTER);
    hook(&v, t.outer, CT_SCRIPT_ON_LEAVE);
    ask_line(&t, line, sizeof line, "outer 1");
    assert_int_equal(v.enters, 1);
    end_server(&v);
    assert_int_equal(v.failures, 0);
    end_target(&t);
}

static void refuses_what_cannot_be(void **state) {
    struct target t;
    struct server v;
    char error[512];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, plain);
    struct ct_script_hook h[3] = {
        {.address = t.add + 1, .flags = 1}, {.address = t.add, .flags = 1}, {.address = t.add, .flags = 1}};
    assert_int_equal(ct_script_hook(v.script, h, 3), 1);
    assert_int_equal(h[0].status, CT_ERR_NOT_FUNCTION);
    assert_int_equal(h[1].status, 0);
    assert_int_equal(h[2].status, CT_ERR_ALREADY_HOOKED);
    uint32_t id = 1u << 30;
    assert_int_equal(ct_script_unhook(v.script, &id, 1), CT_ERR_NOT_FOUND);
    struct ct_script *other;
    assert_int_equal(ct_script_attach(&other, t.pid, NULL, error, sizeof error), CT_ERR_BUSY);
    assert_non_null(strstr(error, "scripted"));
    end_server(&v);
    end_target(&t);
}
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_functions),
        cmocka_unit_test(calls_outside_of_callbacks),
        cmocka_unit_test(calls_when_threads_cannot_be_made),
        cmocka_unit_test(lists_what_is_there),
        cmocka_unit_test(refuses_what_cannot_be),
    };
    program = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
