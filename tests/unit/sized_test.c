/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that begin with their size: copied in and out between a program and a library of different versions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/sized.h"
#include <string.h>

struct older {
    size_t size;
    uint64_t a;
};

struct ours {
    size_t size;
    uint64_t a, b;
};

struct newer {
    size_t size;
    uint64_t a, b, c;
};

/* Not inlined, as in a library: a compiler that sees both sides knows that a wrong size is wrong. */
static __attribute__((noinline)) int copy_in(struct ours *to, const void *from) {
    return ct_sized_copy_in(to, sizeof *to, from);
}

static __attribute__((noinline)) int copy_out(void *to, const struct ours *from) {
    return ct_sized_copy_out(to, from, sizeof *from);
}

static void missing_fields_are_zero(void **state) {
    (void)state;
    struct older from = {.size = sizeof from, .a = 7};
    struct ours to;
    memset(&to, 0xff, sizeof to);
    assert_int_equal(copy_in(&to, &from), 0);
    assert_int_equal(to.size, sizeof to);
    assert_int_equal(to.a, 7);
    assert_int_equal(to.b, 0);
}

static void equal_sizes_copy_everything(void **state) {
    (void)state;
    struct ours from = {.size = sizeof from, .a = 7, .b = 8}, to;
    assert_int_equal(copy_in(&to, &from), 0);
    assert_memory_equal(&to, &from, sizeof to);
}

static void no_struct_is_all_zero(void **state) {
    (void)state;
    struct ours to, zero = {.size = sizeof zero};
    memset(&to, 0xff, sizeof to);
    assert_int_equal(copy_in(&to, NULL), 0);
    assert_memory_equal(&to, &zero, sizeof to);
}

static void unknown_fields_must_be_zero(void **state) {
    (void)state;
    struct newer from = {.size = sizeof from, .a = 7, .b = 8};
    struct ours to;
    assert_int_equal(copy_in(&to, &from), 0);
    assert_true(to.size == sizeof to && to.a == 7 && to.b == 8);
    from.c = UINT64_C(1) << 63; /* its last byte counts too */
    assert_int_equal(copy_in(&to, &from), CT_ERR_UNKNOWN_FIELD);
}

static void sizes_that_are_not_set_are_refused(void **state) {
    (void)state;
    static const size_t wrong[] = {0, 1, sizeof(size_t) - 1, CT_SIZED_MAX + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ours theirs = {.size = wrong[i], .a = 7}, own = {.size = sizeof own, .a = 1}, before = theirs;
        assert_int_equal(copy_in(&own, &theirs), CT_ERR_INVALID_ARGUMENT);
        assert_int_equal(copy_out(&theirs, &own), CT_ERR_INVALID_ARGUMENT);
        assert_memory_equal(&theirs, &before, sizeof before);
    }
    assert_int_equal(copy_out(NULL, &(struct ours){0}), CT_ERR_INVALID_ARGUMENT);
}

static void no_more_is_written_than_there_is_room(void **state) {
    (void)state;
    const struct ours from = {.size = sizeof from, .a = 7, .b = 8};
    struct {
        struct older to;
        uint64_t beyond;
    } s = {.to = {.size = sizeof s.to}, .beyond = 99};
    assert_int_equal(copy_out(&s.to, &from), 0);
    assert_int_equal(s.to.size, sizeof s.to);
    assert_int_equal(s.to.a, 7);
    assert_int_equal(s.beyond, 99);
}

static void fields_that_are_not_known_become_zero(void **state) {
    (void)state;
    const struct ours from = {.size = sizeof from, .a = 7, .b = 8};
    struct newer to;
    memset(&to, 0xff, sizeof to);
    to.size = sizeof to;
    assert_int_equal(copy_out(&to, &from), 0);
    assert_true(to.size == sizeof to && to.a == 7 && to.b == 8 && to.c == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_fields_are_zero),
        cmocka_unit_test(equal_sizes_copy_everything),
        cmocka_unit_test(no_struct_is_all_zero),
        cmocka_unit_test(unknown_fields_must_be_zero),
        cmocka_unit_test(sizes_that_are_not_set_are_refused),
        cmocka_unit_test(no_more_is_written_than_there_is_room),
        cmocka_unit_test(fields_that_are_not_known_become_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
