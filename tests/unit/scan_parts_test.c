/* SPDX-License-Identifier: Apache-2.0 */
/* A scan in parts is the scan; and scans that take too long, or are given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hook/module.h"
#include <contrail/status.h>

static struct ct_hook_code_map map;
static struct ct_hook_module *module;

static int start(void **state) {
    (void)state;
    return ct_hook_module_named(&map, "libc.so.6", &module);
}

static int end(void **state) {
    (void)state;
    ct_hook_code_map_free(&map, false);
    return 0;
}

/* As it was before it was run. */
static struct ct_scan fresh(void) {
    const struct ct_scan *all = &module->scan;
    struct ct_scan s = {.code = all->code,
                        .start = all->start,
                        .end = all->end,
                        .func_count = all->func_count,
                        .read = all->read,
                        .read_arg = all->read_arg};
    s.funcs = calloc(s.func_count + 1, sizeof *s.funcs);
    assert_non_null(s.funcs);
    for (size_t i = 0; i < s.func_count; i++)
        s.funcs[i] = (struct ct_scan_func){.start = module->scan.funcs[i].start, .end = module->scan.funcs[i].end};
    return s;
}

static void check_same(const struct ct_scan *s) {
    const struct ct_scan *all = &module->scan;
    size_t bytes = ((size_t)(all->end - all->start) / 64 + 2) * 8;
    assert_memory_equal(s->landing, all->landing, bytes);
    assert_memory_equal(s->foreign, all->foreign, bytes);
    assert_memory_equal(s->referenced, all->referenced, bytes);
    assert_memory_equal(s->funcs, all->funcs, all->func_count * sizeof *all->funcs);
    assert_int_equal(s->loop_count, all->loop_count);
    for (size_t i = 0; i < all->loop_count; i++) {
        assert_int_equal(s->loops[i].branch, all->loops[i].branch);
        assert_int_equal(s->loops[i].function, all->loops[i].function);
        assert_int_equal(s->loops[i].length, all->loops[i].length);
        assert_int_equal(s->loops[i].disp_size, all->loops[i].disp_size);
    }
}

/* Ends of parts, of `count` functions. */
static void check_parts(const size_t *ends, size_t count) {
    struct ct_scan scan = fresh(), parts[8];
    size_t first = 0;
    /* in any order */
    for (size_t i = count; i-- > 0;)
        assert_int_equal(ct_scan_run_part(&scan, &parts[i], i ? ends[i - 1] : 0, ends[i]), 0);
    for (size_t i = 0; i < count; i++, first = ends[i - 1])
        assert_int_equal(ct_scan_join(&scan, &parts[i]), 0);
    assert_int_equal(ct_scan_finish(&scan), 0);
    assert_int_equal(first, scan.func_count);
    check_same(&scan);
    free(scan.funcs);
    ct_scan_free(&scan);
}

static void test_parts(void **state) {
    (void)state;
    size_t n = module->scan.func_count;
    assert_true(n > 1000 && module->scan.loop_count > 0);
    check_parts((size_t[]){n}, 1);
    check_parts((size_t[]){n / 2, n}, 2);
    check_parts((size_t[]){0, 1, n / 3, n / 3, n - 1, n}, 6);
    check_parts((size_t[]){n, n}, 2);
}

static void test_no_functions(void **state) {
    (void)state;
    struct ct_scan scan = fresh(), part, whole;
    scan.func_count = 0;
    whole = scan;
    assert_int_equal(ct_scan_run(&whole), 0);
    assert_int_equal(ct_scan_run_part(&scan, &part, 0, 0), 0);
    assert_int_equal(ct_scan_join(&scan, &part), 0);
    assert_int_equal(ct_scan_finish(&scan), 0);
    assert_memory_equal(scan.landing, whole.landing, ((size_t)(scan.end - scan.start) / 64 + 2) * 8);
    free(scan.funcs);
    ct_scan_free(&scan);
    ct_scan_free(&whole);
}

/* Each function reaches to the end of the code, as a file's symbols may say. A few of them are no harm. */
static void test_overlapping(void **state) {
    (void)state;
    enum { SIZE = 1 << 20, MANY = 100000 };
    static uint8_t code[SIZE];
    const bool yes = true;
    struct ct_scan_func *funcs = calloc(MANY, sizeof *funcs);
    struct ct_scan scan = {.code = code, .start = 1u << 24, .end = (1u << 24) + SIZE, .funcs = funcs, .func_count = 4};
    memset(code, 0x90, sizeof code);
    for (size_t i = 0; i < MANY; i++)
        funcs[i] = (struct ct_scan_func){.start = scan.start + 10 * i, .end = scan.end};
    assert_int_equal(ct_scan_run(&scan), CT_OK);
    ct_scan_free(&scan);
    scan.func_count = MANY;
    assert_int_equal(ct_scan_run(&scan), CT_ERR_UNSUPPORTED);
    scan.cancelled = &yes;
    assert_int_equal(ct_scan_run(&scan), CT_ERR_TIMEOUT);
    free(funcs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_no_functions),
        cmocka_unit_test(test_overlapping),
    };
    return cmocka_run_group_tests_name("scan_parts", tests, start, end);
}
