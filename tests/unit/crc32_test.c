/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums: the published value, and both ways of computing them against each other. */
#include "trace/crc32.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

static void check_value(void **state) {
    (void)state;
    assert_int_equal(ct_crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(ct_crc32(0, "", 0), 0);
}

/* Every length and alignment around the sizes of steps, and in two pieces. */
static void both_ways_agree(void **state) {
    (void)state;
    uint8_t bytes[1024];
    srand(1);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)rand();
    for (size_t from = 0; from < 17; from++)
        for (size_t size = 0; size + from <= 700; size++) {
            uint32_t slow = ~ct_crc32_slow(~0u, bytes + from, size);
            assert_int_equal(ct_crc32(0, bytes + from, size), slow);
            assert_int_equal(ct_crc32(ct_crc32(0, bytes + from, size / 3), bytes + from + size / 3, size - size / 3),
                             slow);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_value), cmocka_unit_test(both_ways_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
