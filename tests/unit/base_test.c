/* SPDX-License-Identifier: Apache-2.0 */
/* What src/base has for everybody: arrays that grow, digits, characters of UTF-8. */
#include "base/digits.h"
#include "base/grow.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_grow_keeps_items(void **state) {
    (void)state;
    uint32_t *items = NULL;
    size_t room = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(ct_grow(&items, &room, i, sizeof *items, 3));
        assert_true(room > i);
        items[i] = i;
    }
    assert_int_equal(room, 3 << 9);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(items[i], i);
    free(items);
}

static void test_grow_far(void **state) {
    (void)state;
    uint16_t *items = NULL;
    size_t room = 0;
    assert_true(ct_grow_zeroed(&items, &room, 0, sizeof *items, 4));
    assert_int_equal(room, 4);
    memset(items, 0xff, room * sizeof *items);
    assert_true(ct_grow_zeroed(&items, &room, 100, sizeof *items, 4));
    assert_int_equal(room, 128);
    for (size_t i = 0; i < room; i++)
        assert_int_equal(items[i], i < 4 ? 0xffff : 0);
    free(items);
}

/* More than there is, or than can be counted: the array stays as it was. */
static void test_grow_too_far(void **state) {
    (void)state;
    char *items = NULL;
    size_t room = 0;
    assert_true(ct_grow(&items, &room, 0, 1, 16));
    char *before = items;
    static const size_t sizes[] = {1, 2, SIZE_MAX / 32};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_false(ct_grow(&items, &room, SIZE_MAX - 1, sizes[i], 16));
        assert_ptr_equal(items, before);
        assert_int_equal(room, 16);
    }
    assert_false(ct_grow(&items, &room, 16, SIZE_MAX / 16, 16));
    assert_int_equal(room, 16);
    free(items);
}

static void test_digits(void **state) {
    (void)state;
    static const uint64_t numbers[] = {0, 1, 9, 10, 4294967296, UINT64_MAX - 5, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char digits[CT_DIGITS], expected[32];
        size_t at = ct_digits(digits, numbers[i]);
        int length = snprintf(expected, sizeof expected, "%" PRIu64, numbers[i]);
        assert_int_equal(CT_DIGITS - at, length);
        assert_memory_equal(digits + at, expected, (size_t)length);
    }
}

/* What is written is read as one character, for each that there is. */
static void test_utf8_there_and_back(void **state) {
    (void)state;
    for (uint32_t c = 1; c < 0x110000; c++) {
        char text[4];
        size_t length = ct_utf8_encode(text, c);
        bool surrogate = c >= 0xd800 && c < 0xe000;
        assert_int_equal(ct_utf8_character(text, length), surrogate ? 0 : length);
        if (length > 1)
            assert_int_equal(ct_utf8_character(text, length - 1), 0);
    }
    char text[4];
    assert_int_equal(ct_utf8_encode(text, 0x20ac), 3);
    assert_memory_equal(text, "\xe2\x82\xac", 3);
    assert_int_equal(ct_utf8_encode(text, 0x1f600), 4);
    assert_memory_equal(text, "\xf0\x9f\x98\x80", 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grow_keeps_items),    cmocka_unit_test(test_grow_far),
        cmocka_unit_test(test_grow_too_far),        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_utf8_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
