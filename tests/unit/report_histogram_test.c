/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms: how far off percentiles are, merging, edges. */
#include "report/histogram.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>

static void empty(void **state) {
    (void)state;
    struct ct_histogram h = {0};
    assert_int_equal(ct_histogram_at(&h, 0.5), 0);
    ct_histogram_free(&h);
}

static void one_value_is_exact(void **state) {
    (void)state;
    static const uint64_t values[] = {0, 1, 31, 32, 33, 1000, 123456789, UINT64_MAX / 3, UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct ct_histogram h = {0};
        for (int n = 0; n < 3; n++)
            assert_true(ct_histogram_add(&h, values[i]));
        assert_true(ct_histogram_at(&h, 0.5) == values[i]);
        assert_true(ct_histogram_at(&h, 1.0) == values[i]);
        assert_true(h.min == values[i] && h.max == values[i]);
        ct_histogram_free(&h);
    }
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Against sorted values, over ten powers of ten. */
static void percentiles_within_two_percent(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    uint64_t *values = calloc(COUNT, sizeof *values), random = 88172645463325252ull;
    struct ct_histogram h = {0};
    for (size_t i = 0; i < COUNT; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        values[i] = random >> (24 + i % 38);
        assert_true(ct_histogram_add(&h, values[i]));
    }
    qsort(values, COUNT, sizeof *values, compare);
    for (int percent = 1; percent <= 100; percent++) {
        uint64_t exact = values[(size_t)percent * COUNT / 100 - 1], got = ct_histogram_at(&h, percent / 100.0);
        uint64_t difference = got > exact ? got - exact : exact - got;
        assert_true(difference <= exact / 50);
    }
    assert_true(ct_histogram_at(&h, 1.0) == values[COUNT - 1]);
    ct_histogram_free(&h);
    free(values);
}

static void merging_is_like_adding_all(void **state) {
    (void)state;
    struct ct_histogram all = {0}, even = {0}, odd = {0}, none = {0};
    for (uint64_t i = 1; i < 3000; i++) {
        uint64_t value = i * i * i;
        ct_histogram_add(&all, value);
        ct_histogram_add(i % 2 ? &odd : &even, value);
    }
    assert_true(ct_histogram_merge(&even, &odd));
    assert_true(ct_histogram_merge(&even, &none));
    assert_true(even.count == all.count && even.min == all.min && even.max == all.max);
    for (int percent = 0; percent <= 100; percent++)
        assert_true(ct_histogram_at(&even, percent / 100.0) == ct_histogram_at(&all, percent / 100.0));
    ct_histogram_free(&all);
    ct_histogram_free(&even);
    ct_histogram_free(&odd);
}

/* Each power of two has the values of its own, and all of them together have all. */
static void powers_of_two(void **state) {
    (void)state;
    static const struct {
        uint64_t value;
        unsigned power;
    } cases[] = {{0, 0},
                 {1, 0},
                 {2, 1},
                 {3, 1},
                 {4, 2},
                 {7, 2},
                 {15, 3},
                 {16, 4},
                 {31, 4},
                 {32, 5},
                 {63, 5},
                 {64, 6},
                 {(1ull << 40) - 1, 39},
                 {1ull << 40, 40},
                 {1ull << 63, 63},
                 {UINT64_MAX, 63}};
    struct ct_histogram all = {0};
    assert_true(ct_histogram_count(&all, 0) == 0 && ct_histogram_count(&all, 63) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ct_histogram one = {0};
        assert_true(ct_histogram_add(&one, cases[i].value) && ct_histogram_add(&all, cases[i].value));
        assert_int_equal(ct_histogram_power(cases[i].value), cases[i].power);
        for (unsigned power = 0; power < 64; power++)
            assert_int_equal(ct_histogram_count(&one, power), power == cases[i].power);
        ct_histogram_free(&one);
    }
    uint64_t sum = 0;
    for (unsigned power = 0; power < 64; power++)
        sum += ct_histogram_count(&all, power);
    assert_int_equal(sum, all.count);
    assert_int_equal(ct_histogram_count(&all, 4), 2);
    ct_histogram_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty),
        cmocka_unit_test(one_value_is_exact),
        cmocka_unit_test(percentiles_within_two_percent),
        cmocka_unit_test(merging_is_like_adding_all),
        cmocka_unit_test(powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
