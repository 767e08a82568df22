/* SPDX-License-Identifier: Apache-2.0 */
/* Modules as the hooks see them: found by address and by name, with their functions; code of no file; stub memory near
 * by; modules that are unloaded. Arguments: the sample library, and the one with a map of return addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "contrail/status.h"
#include "hook/module.h"
#include "os/os.h"

#define REACH 0x7f000000ull

static const char *sample_path, *return_map_path;
static struct ct_hook_code_map map;

static int start(void **state) {
    (void)state;
    map = (struct ct_hook_code_map){.mode = CT_WX_AUTO};
    return 0;
}

static int end(void **state) {
    (void)state;
    ct_hook_code_map_free(&map, false);
    assert_null(map.modules);
    assert_null(map.regions);
    return 0;
}

static uint64_t address_of(void *library, const char *name) {
    uint64_t address = (uint64_t)dlsym(library, name);
    assert_true(address);
    return address;
}

static struct ct_hook_module *module_at(uint64_t address) {
    struct ct_hook_module *m = NULL;
    assert_int_equal(ct_hook_module_at(&map, address, &m), 0);
    assert_non_null(m);
    return m;
}

static struct ct_hook_module *module_named(const char *name) {
    struct ct_hook_module *m = NULL;
    assert_int_equal(ct_hook_module_named(&map, name, &m), 0);
    assert_non_null(m);
    return m;
}

static unsigned module_count(void) {
    unsigned n = 0;
    for (const struct ct_hook_module *m = map.modules; m; m = m->next)
        n++;
    return n;
}

/* What holds for every module that has a file. */
static void check_module(const struct ct_hook_module *m) {
    const struct ct_scan *s = &m->scan;
    assert_non_null(m->table);
    assert_false(m->gone);
    assert_true(m->start < m->end);
    assert_int_equal(s->start, m->start);
    assert_int_equal(s->end, m->end);
    assert_true(s->func_count > 0);
    for (size_t i = 0; i < s->func_count; i++) {
        const struct ct_scan_func *func = &s->funcs[i];
        assert_true(i == 0 || s->funcs[i - 1].start < func->start);
        assert_in_range(func->start, m->start, m->end - 1);
        assert_in_range(func->end, func->start, m->end);
        assert_true(ct_scan_bit(s, s->landing, func->start)); /* entries are landing places */
        assert_non_null(m->functions[i].name);
        assert_int_equal(ct_scan_find(s, func->start), i);
    }
    bool readable = false;
    for (unsigned i = 0; i < m->readable_count; i++)
        readable |= m->readable[i].start <= m->start && m->readable[i].end >= m->end;
    assert_true(readable);
}

/* Stubs of the module's region can jump to all of it, and be jumped to. */
static void check_region(struct ct_hook_module *m) {
    uint64_t run;
    uint8_t *write;
    assert_non_null(m->region);
    assert_true(m->region->start <= m->start && m->region->end >= m->end);
    assert_int_equal(ct_arena_thaw_fresh(m->region->arena), 0);
    assert_int_equal(ct_arena_alloc(m->region->arena, 64, 8, &run, &write), 0);
    assert_true(run > m->end ? run - m->start < REACH : m->end - run < REACH);
    assert_ptr_equal(ct_hook_region_of(&map, run), m->region);
    assert_ptr_equal(ct_hook_region_of(&map, m->region->shared_run), m->region);
    assert_null(ct_hook_region_of(&map, m->start));
    assert_int_equal(m->region->shared.enter_record - m->region->shared_run, ct_hook_enter_record - ct_hook_code);
}

static const struct ct_hook_function *function_at(const struct ct_hook_module *m, uint64_t address) {
    long i = ct_scan_find(&m->scan, address);
    assert_true(i >= 0);
    return &m->functions[i];
}

/* ---- the program ---- */

static void test_program(void **state) {
    (void)state;
    char path[PATH_MAX];
    assert_non_null(realpath("/proc/self/exe", path));
    struct ct_hook_module *m = module_named(NULL);
    check_module(m);
    check_region(m);
    assert_string_equal(m->path, path);
    assert_ptr_equal(module_at((uint64_t)&module_at), m);
    assert_string_equal(function_at(m, (uint64_t)&module_at)->name, "module_at");
    assert_ptr_equal(module_named(path), m);
    assert_ptr_equal(module_named(strrchr(path, '/') + 1), m);
    assert_int_equal(module_count(), 1);
    assert_false(m->return_map);
}

/* Our own code is linked into this program: it is distinguished from the rest. */
static void test_own_code(void **state) {
    (void)state;
    struct ct_hook_module *m = module_named(NULL);
    assert_true(ct_hook_is_own(m, (uint64_t)&ct_hooks_create));
    assert_true(ct_hook_is_own(m, (uint64_t)&ct_hook_module_at));
    assert_true(ct_hook_is_own(m, (uint64_t)&ct_shadow_leave));
    assert_true(ct_hook_is_own(m, (uint64_t)ct_hook_enter_record));
    assert_true(ct_hook_is_own(m, (uint64_t)&ct_os_each_map));
    assert_false(ct_hook_is_own(m, (uint64_t)&test_own_code));
    struct ct_hook_module *libc = module_named("libc.so.6");
    assert_false(ct_hook_is_own(libc, libc->start));
    assert_int_equal(libc->own_end, 0);
}

/* ---- libraries ---- */

static void test_library(void **state) {
    (void)state;
    struct ct_hook_module *libc = module_named("libc.so.6");
    check_module(libc);
    check_region(libc);
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD); /* sanitizers have a qsort of their own */
    uint64_t qsort_ = address_of(library, "qsort");
    dlclose(library);
    assert_ptr_equal(module_at(qsort_), libc);
    assert_string_equal(function_at(libc, qsort_)->name, "qsort");
    assert_true(function_at(libc, qsort_)->flags & CT_FUNC_GLOBAL);
    assert_ptr_equal(module_named(libc->path), libc);
    assert_int_equal(module_count(), 1);
    struct ct_hook_module *program = module_named(NULL);
    assert_ptr_not_equal(program, libc);
    assert_int_equal(module_count(), 2);
}

static void test_sample(void **state) {
    (void)state;
    void *library = dlopen(sample_path, RTLD_NOW);
    assert_non_null(library);
    uint64_t add = address_of(library, "module_sample_add");
    struct ct_hook_module *m = module_at(add);
    check_module(m);
    check_region(m);
    assert_string_equal(function_at(m, add)->name, "module_sample_add");
    assert_false(m->return_map);
    /* it is called by its neighbour */
    assert_true(ct_scan_bit(&m->scan, m->scan.referenced, add) || m->scan.func_count < 2);
    /* data is read from segments only */
    uint64_t sum = address_of(library, "module_sample_sum");
    assert_ptr_equal(m->scan.read(m->scan.read_arg, sum, 4), (const uint8_t *)sum);
    assert_ptr_equal(m->scan.read(m->scan.read_arg, add, 8), (const uint8_t *)add);
    for (unsigned i = 0; i < m->readable_count; i++) {
        assert_non_null(m->scan.read(m->scan.read_arg, m->readable[i].start, 8));
        assert_non_null(m->scan.read(m->scan.read_arg, m->readable[i].end - 8, 8));
        assert_null(m->scan.read(m->scan.read_arg, m->readable[i].end - 4, 8));
    }
    assert_null(m->scan.read(m->scan.read_arg, 0, 4));
    assert_null(m->scan.read(m->scan.read_arg, (uint64_t)-4, 4)); /* the sum is 0 */
    dlclose(library);
}

static void test_return_map(void **state) {
    (void)state;
    void *library = dlopen(return_map_path, RTLD_NOW);
    assert_non_null(library);
    struct ct_hook_module *m = module_at(address_of(library, "module_sample_add"));
    check_module(m);
    assert_true(m->return_map);
    dlclose(library);
}

/* ---- what is no module ---- */

static void expect_error(uint64_t address, int status) {
    struct ct_hook_module *m = NULL;
    assert_int_equal(ct_hook_module_at(&map, address, &m), status);
    assert_int_equal(module_count(), 0);
}

static void test_errors(void **state) {
    (void)state;
    static int data = 1;
    int local;
    void *heap = malloc(1);
    void *constants = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect_error(0, CT_ERR_NOT_MAPPED);
    expect_error(4096, CT_ERR_NOT_MAPPED);
    expect_error(~0ull, CT_ERR_NOT_MAPPED);
    expect_error(0x8000000000000000ull, CT_ERR_NOT_MAPPED);
    expect_error((uint64_t)&data, CT_ERR_NOT_CODE);
    expect_error((uint64_t)&local, CT_ERR_NOT_CODE);
    expect_error((uint64_t)heap, CT_ERR_NOT_CODE);
    expect_error((uint64_t)constants, CT_ERR_NOT_CODE);
    munmap(constants, 4096);
    free(heap);
    struct ct_hook_module *m;
    assert_int_equal(ct_hook_module_named(&map, "no-such-module.so", &m), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_hook_module_named(&map, "/lib", &m), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_hook_module_named(&map, "libc", &m), CT_ERR_NOT_FOUND);
    assert_null(map.regions);
}

/* ---- code that belongs to no file ---- */

/* Where the call in the code of map_code leads, and where control arrives besides: a patch of one instruction need not
 * know where calls return to. */
#ifdef __x86_64__
enum { ARRIVES = 7, CALLED = 10 };
#else
enum { ARRIVES = 16, CALLED = 16 };
#endif

static uint8_t *map_code(size_t size) {
#ifdef __x86_64__
    static const uint8_t code[] = {0x31, 0xc0, 0xe8, 0x03, 0x00, 0x00, 0x00, 0xc3, 0x90, 0x90, 0xc3};
#else
    static const uint32_t code[] = {0x52800000, 0x94000003, 0xd65f03c0, 0xd503201f, 0xd65f03c0};
#endif
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    memcpy(memory, code, sizeof code);
    assert_int_equal(mprotect(memory, size, PROT_READ | PROT_EXEC), 0);
    return memory;
}

static void test_orphan(void **state) {
    (void)state;
    uint8_t *code = map_code(8192);
    struct ct_hook_module *m = module_at((uint64_t)code + 4096);
    assert_string_equal(m->path, "");
    assert_null(m->table);
    assert_int_equal(m->scan.func_count, 0);
    assert_true(m->start <= (uint64_t)code && m->end >= (uint64_t)code + 8192);
    assert_true(ct_scan_bit(&m->scan, m->scan.landing, (uint64_t)code + ARRIVES));
    assert_true(ct_scan_bit(&m->scan, m->scan.referenced, (uint64_t)code + CALLED));
    check_region(m);
    assert_ptr_equal(module_at((uint64_t)code), m);
    assert_int_equal(module_count(), 1);
    munmap(code, 8192);
}

static void test_large_orphan(void **state) {
    (void)state;
    uint8_t *code = map_code(3u << 20);
    struct ct_hook_module *m = module_at((uint64_t)code);
    assert_int_equal(m->end - m->start, 1u << 20); /* a sensible limit */
    munmap(code, 3u << 20);
}

/* ---- regions ---- */

/* Modules that lie close together share the memory for stubs. */
static void test_neighbours_share_a_region(void **state) {
    (void)state;
    void *first = dlopen(sample_path, RTLD_NOW), *second = dlopen(return_map_path, RTLD_NOW);
    assert_true(first && second);
    struct ct_hook_module *a = module_at(address_of(first, "module_sample_add"));
    struct ct_hook_module *b = module_at(address_of(second, "module_sample_add"));
    assert_ptr_not_equal(a, b);
    uint64_t distance = a->start > b->start ? a->start - b->start : b->start - a->start;
    assert_true(distance < 256u << 20); /* the loader puts them side by side */
    assert_ptr_equal(a->region, b->region);
    check_region(a);
    check_region(b);
    dlclose(second);
    dlclose(first);
}

static void test_region_far_away(void **state) {
    (void)state;
    struct ct_hook_module *near = module_named("libc.so.6");
    uint64_t far_away = 0x200000000000ull; /* nobody maps there by itself */
    uint8_t *code =
        mmap((void *)far_away, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(code, (void *)far_away);
    struct ct_hook_module *m = module_at(far_away);
    assert_ptr_not_equal(m->region, near->region);
    check_region(m);
    check_region(near);
    munmap(code, 4096);
}

static void test_every_mode(void **state) {
    (void)state;
    static const enum ct_wx_mode modes[] = {CT_WX_RWX, CT_WX_DUAL, CT_WX_PROTECT};
    for (unsigned i = 0; i < 3; i++) {
        map = (struct ct_hook_code_map){.mode = modes[i]};
        struct ct_hook_module *m = module_named("libc.so.6");
        assert_int_equal(ct_arena_mode(m->region->arena), modes[i]);
        check_region(m);
        ct_hook_code_map_free(&map, false);
    }
}

/* Stubs may still be in use: the code stays, everything else goes. */
static void test_keep_code(void **state) {
    (void)state;
    struct ct_hook_module *m = module_named("libc.so.6");
    struct ct_arena *arena = m->region->arena;
    uint64_t run = m->region->shared_run;
    uint8_t byte;
    ct_hook_code_map_free(&map, true);
    assert_null(map.modules);
    assert_null(map.regions);
    assert_int_equal(ct_os_peek(run, &byte, 1), 0);
    ct_arena_destroy(arena);
    assert_int_equal(ct_os_peek(run, &byte, 1), CT_ERR_NOT_MAPPED);
}

/* ---- modules that come and go ---- */

static void test_unloading(void **state) {
    (void)state;
    (void)ct_hook_code_map_refresh(&map);
    assert_false(ct_hook_code_map_refresh(&map)); /* nothing has happened since */
    struct ct_hook_module *libc = module_named("libc.so.6");
    void *library = dlopen(sample_path, RTLD_NOW);
    assert_non_null(library);
    uint64_t add = address_of(library, "module_sample_add");
    struct ct_hook_module *m = module_at(add);
    assert_false(ct_hook_code_map_refresh(&map));
    assert_false(m->gone);
    assert_int_equal(dlclose(library), 0);
    assert_true(ct_hook_code_map_refresh(&map));
    assert_true(m->gone);
    assert_false(libc->gone);
    assert_false(ct_hook_code_map_refresh(&map));
    struct ct_hook_module *none;
    assert_int_equal(ct_hook_module_at(&map, add, &none), CT_ERR_NOT_MAPPED);
    library = dlopen(sample_path, RTLD_NOW);
    assert_non_null(library);
    struct ct_hook_module *again = module_at(address_of(library, "module_sample_add"));
    assert_ptr_not_equal(again, m); /* a pointer to the old one stays valid */
    assert_true(m->gone && !again->gone);
    dlclose(library);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "module_test: two sample libraries are needed\n");
        return 2;
    }
    sample_path = argv[1];
    return_map_path = argv[2];
    const struct CMUnitTest tests[] = {
        TEST(test_program),         TEST(test_own_code),     TEST(test_library),
        TEST(test_sample),          TEST(test_return_map),   TEST(test_errors),
        TEST(test_orphan),          TEST(test_large_orphan), TEST(test_neighbours_share_a_region),
        TEST(test_region_far_away), TEST(test_every_mode),   TEST(test_keep_code),
        TEST(test_unloading),
    };
    return cmocka_run_group_tests_name("module", tests, NULL, NULL);
}
