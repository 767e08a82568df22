/* SPDX-License-Identifier: Apache-2.0 */
/* Where stub memory is put, in address spaces of all kinds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "isa/machine.h"
#include "plan/target_internal.h"

#define MIB   (1ull << 20)
#define GIB   (1ull << 30)
#define REACH 0x7f000000ull

struct space {
    struct ct_os_map maps[16];
    size_t count;
    uint64_t program_end;
};

static void add(struct space *s, uint64_t start, uint64_t size, enum ct_os_map_role role) {
    s->maps[s->count++] = (struct ct_os_map){.start = start, .end = start + size, .role = (uint8_t)role, .path = ""};
}

/* Finds a place and checks what must always hold. */
static uint64_t find(const struct space *s, uint64_t start, uint64_t end, uint64_t size) {
    struct ct_target_maps maps = {.items = (struct ct_os_map *)s->maps, .count = s->count};
    uint64_t at = ct_target_gap_find(&maps, s->program_end, start, end, REACH, size);
    if (!at)
        return 0;
    assert_int_equal(at % 4096, 0);
    assert_true(at >= MIB && at + size <= ct_machine_host()->address_limit);
    assert_true(end - at <= REACH || at >= end);
    assert_true(at + size - start <= REACH || at < start);
    for (size_t i = 0; i < s->count; i++)
        assert_true(at + size + 64 * 1024 <= s->maps[i].start || at >= s->maps[i].end + 64 * 1024);
    return at;
}

#define PROGRAM 0x555555554000ull
#define LIBRARY 0x7ffff7a00000ull
#define STACK   0x7ffffffde000ull

static struct space usual(void) {
    struct space s = {.program_end = PROGRAM + MIB};
    add(&s, PROGRAM, MIB, CT_OS_MAP_OTHER);
    add(&s, PROGRAM + 16 * MIB, 4 * MIB, CT_OS_MAP_HEAP);
    add(&s, LIBRARY, 3 * MIB, CT_OS_MAP_OTHER);
    add(&s, STACK, 132 * 1024, CT_OS_MAP_STACK);
    return s;
}

static void test_libraries(void **state) {
    (void)state;
    struct space s = usual();
    uint64_t at = find(&s, LIBRARY, LIBRARY + 3 * MIB, MIB);
    /* below them, with room for what the kernel maps next */
    assert_true(at && at + MIB + GIB <= LIBRARY);
}

static void test_program_with_heap(void **state) {
    (void)state;
    struct space s = usual();
    uint64_t at = find(&s, PROGRAM, PROGRAM + MIB, MIB);
    assert_true(at);
    /* the heap has a long way to go */
    assert_true(at < PROGRAM || at >= PROGRAM + 20 * MIB + GIB);
}

static void test_program_at_fixed_address(void **state) {
    (void)state;
    struct space s = {.program_end = 0x500000};
    add(&s, 0x400000, MIB, CT_OS_MAP_OTHER);
    add(&s, LIBRARY, 3 * MIB, CT_OS_MAP_OTHER);
    add(&s, STACK, 132 * 1024, CT_OS_MAP_STACK);
    uint64_t at = find(&s, 0x400000, 0x500000, 2 * MIB);
    assert_true(at >= GIB); /* far above the heap that is not there yet */
    add(&s, 0, 0, CT_OS_MAP_OTHER);
    s.maps[3] = s.maps[2];
    s.maps[2] = s.maps[1];
    s.maps[1] = (struct ct_os_map){.start = 0x600000, .end = 0x700000, .role = CT_OS_MAP_HEAP, .path = ""};
    assert_int_equal(find(&s, 0x400000, 0x500000, 2 * MIB), at);
}

static void test_crowded(void **state) {
    (void)state;
    struct space s = {.program_end = PROGRAM};
    uint64_t base = LIBRARY;
    /* all of the reach is taken but for one gap */
    add(&s, base - 4 * GIB, 3 * GIB, CT_OS_MAP_OTHER);
    add(&s, base - GIB + 4 * MIB, 8 * GIB, CT_OS_MAP_OTHER);
    uint64_t at = find(&s, base, base + MIB, MIB);
    assert_true(at >= base - GIB && at < base - GIB + 4 * MIB);
    assert_int_equal(find(&s, base, base + MIB, 4 * MIB), 0);
    s.maps[0].end = s.maps[1].start;
    assert_int_equal(find(&s, base, base + MIB, 4096), 0);
}

static void test_nothing_mapped(void **state) {
    (void)state;
    struct space s = {0};
    assert_true(find(&s, LIBRARY, LIBRARY + MIB, MIB));
    assert_true(find(&s, 0x400000, 0x500000, MIB));
}

static void test_edges(void **state) {
    (void)state;
    struct space s = {0};
    add(&s, LIBRARY, MIB, CT_OS_MAP_OTHER);
    assert_int_equal(find(&s, LIBRARY, LIBRARY + MIB, REACH + MIB), 0);
    assert_int_equal(find(&s, LIBRARY, LIBRARY + MIB, UINT64_MAX), 0);
    s.count = 0;
    /* at the very top and bottom of the address space */
    add(&s, 4096, 4096, CT_OS_MAP_OTHER);
    add(&s, 0x7fffffffe000ull, 4096, CT_OS_MAP_OTHER);
    assert_true(find(&s, 0x7fffffffe000ull, 0x7ffffffff000ull, MIB));
    assert_true(find(&s, 4096, 8192, MIB));
    /* mappings that overlap: a module's range, and what is in it */
    s.count = 0;
    add(&s, LIBRARY, 64 * MIB, CT_OS_MAP_OTHER);
    add(&s, LIBRARY, MIB, CT_OS_MAP_OTHER);
    add(&s, LIBRARY + 60 * MIB, 8 * MIB, CT_OS_MAP_OTHER);
    uint64_t at = find(&s, LIBRARY, LIBRARY + 64 * MIB, MIB);
    assert_true(at && (at + MIB <= LIBRARY || at >= LIBRARY + 68 * MIB));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libraries),
        cmocka_unit_test(test_program_with_heap),
        cmocka_unit_test(test_program_at_fixed_address),
        cmocka_unit_test(test_crowded),
        cmocka_unit_test(test_nothing_mapped),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests_name("target_region", tests, NULL, NULL);
}
