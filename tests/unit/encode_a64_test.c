/* SPDX-License-Identifier: Apache-2.0 */
/* The emitters of A64: the words that an assembler makes of the same instructions, and distances that do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "isa/a64/encode.h"

static uint8_t bytes[64];

static struct ct_code_buf buffer(uint64_t address) {
    memset(bytes, 0xee, sizeof bytes);
    return (struct ct_code_buf){.bytes = bytes, .capacity = sizeof bytes, .address = address};
}

static void expect(struct ct_code_buf *b, size_t count, const uint32_t *words) {
    assert_false(b->overflow);
    assert_int_equal(b->length, 4 * count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ct_a64_word(bytes + 4 * i), words[i]);
    *b = buffer(b->address);
}
#define EXPECT(b, ...) expect(b, sizeof((uint32_t[]){__VA_ARGS__}) / 4, (uint32_t[]){__VA_ARGS__})

static void test_branches(void **state) {
    (void)state;
    struct ct_code_buf b = buffer(0x10000000);
    ct_a64_b(&b, 0x10000004);
    ct_a64_bl(&b, 0x10000000);
    EXPECT(&b, 0x14000001, 0x97ffffff);
    ct_a64_b_cond(&b, 1, 0x10000010);
    ct_a64_cbz(&b, 5, 0x10000000);
    ct_a64_cbnz(&b, 6, 0x10000010);
    EXPECT(&b, 0x54000081, 0xb4ffffe5, 0xb5000046);
    ct_a64_tbz(&b, 3, 63, 0x10000008);
    ct_a64_tbnz(&b, 4, 1, 0x10000000);
    EXPECT(&b, 0xb6f80043, 0x370fffe4);
    ct_a64_br(&b, 16);
    ct_a64_blr(&b, 8);
    ct_a64_ret(&b, 30);
    ct_a64_nop(&b);
    ct_a64_brk(&b, 1);
    EXPECT(&b, 0xd61f0200, 0xd63f0100, 0xd65f03c0, 0xd503201f, 0xd4200020);
}

static void test_reach(void **state) {
    (void)state;
    struct ct_code_buf b = buffer(0x100000000);
    ct_a64_b(&b, 0x100000000 + 0x7fffffc);
    EXPECT(&b, 0x15ffffff);
    ct_a64_b(&b, 0x100000000 - 0x8000000);
    EXPECT(&b, 0x16000000);
    ct_a64_b(&b, 0x100000000 + 0x8000000);
    assert_true(b.overflow);
    b = buffer(0x100000000);
    ct_a64_tbz(&b, 0, 0, 0x100000000 + 0x8000);
    assert_true(b.overflow);
    b = buffer(0x100000000);
    ct_a64_cbz(&b, 0, 0x100000000 - 0x100004);
    assert_true(b.overflow);
    b = buffer(0x100000000);
    ct_a64_jump(&b, 17, 0x100000000 + 0x8000000); /* adrp, ret */
    EXPECT(&b, 0x90040011, 0xd65f0220);
    ct_a64_jump(&b, 17, 0x123456789abc);
    EXPECT(&b, 0xd2935791, 0xf2aacf11, 0xf2c24691, 0xd65f0220);
}

static void test_values(void **state) {
    (void)state;
    struct ct_code_buf b = buffer(0x400000);
    ct_a64_mov64(&b, 3, 0);
    ct_a64_mov64(&b, 3, 0x1234);
    ct_a64_mov64(&b, 3, 0xffffffffffffffff);
    ct_a64_mov64(&b, 3, 0xffffffff1234ffff);
    EXPECT(&b, 0xd2800003, 0xd2824683, 0x92800003, 0x92bdb963);
    ct_a64_mov64(&b, 3, 0x0001000200030004);
    EXPECT(&b, 0xd2800083, 0xf2a00063, 0xf2c00043, 0xf2e00023);
    ct_a64_mov64(&b, 3, 0x00050000);
    EXPECT(&b, 0xd2a000a3);
    ct_a64_adr(&b, 0, 0x3fffff);
    ct_a64_adrp_add(&b, 1, 0x401010);
    ct_a64_adrp_add(&b, 2, 0x3ff000);
    EXPECT(&b, 0x70ffffe0, 0xb0000001, 0x91004021, 0xf0ffffe2);
    ct_a64_address(&b, 1, 0x500000 - 1);
    EXPECT(&b, 0x707fffe1);
    ct_a64_adr(&b, 1, 0x500000);
    assert_true(b.overflow);
    b = buffer(0x400000);
    ct_a64_adrp_add(&b, 1, 0x200000000);
    assert_true(b.overflow);
    b = buffer(0x400000);
    ct_a64_add(&b, 31, 31, -16);
    ct_a64_add(&b, 0, 1, 0);
    ct_a64_add(&b, 0, 1, 0x123456);
    ct_a64_add(&b, 0, 31, 0x5000);
    EXPECT(&b, 0xd10043ff, 0x91000020, 0x91448c20, 0x91115800, 0x914017e0);
    ct_a64_mov(&b, 1, 2);
    ct_a64_mov_sp(&b, 1, 31);
    ct_a64_add_reg(&b, 1, 2, 3);
    ct_a64_sub_reg(&b, 1, 2, 3);
    ct_a64_eor_reg(&b, 1, 2, 3);
    EXPECT(&b, 0xaa0203e1, 0x910003e1, 0x8b030041, 0xcb030041, 0xca030041);
}

static void test_memory(void **state) {
    (void)state;
    struct ct_code_buf b = buffer(0x400000);
    ct_a64_ldr(&b, 0, 1, 8);
    ct_a64_ldr(&b, 0, 1, -8);
    ct_a64_str(&b, 0, 31, 32760);
    ct_a64_str(&b, 0, 1, 3);
    EXPECT(&b, 0xf9400420, 0xf85f8020, 0xf93fffe0, 0xf8003020);
    ct_a64_ldp(&b, 0, 1, 31, 16);
    ct_a64_stp(&b, 0, 1, 31, -512);
    ct_a64_push(&b, 5);
    ct_a64_pop(&b, 5);
    ct_a64_push_pair(&b, 29, 30);
    ct_a64_pop_pair(&b, 29, 30);
    EXPECT(&b, 0xa94107e0, 0xa92007e0, 0xf81f0fe5, 0xf84107e5, 0xa9bf7bfd, 0xa8c17bfd);
    ct_a64_mrs_nzcv(&b, 1);
    ct_a64_msr_nzcv(&b, 1);
    ct_a64_mrs_tp(&b, 1);
    EXPECT(&b, 0xd53b4201, 0xd51b4201, 0xd53bd041);
    size_t at = ct_a64_ldr_literal(&b, 17);
    ct_a64_br(&b, 17);
    ct_a64_place_literal(&b, at, 0x1122334455667788);
    EXPECT(&b, 0x58000051, 0xd61f0220, 0x55667788, 0x11223344);
    ct_a64_ldr(&b, 0, 1, 257);
    assert_true(b.overflow);
}

static void test_overflow(void **state) {
    (void)state;
    struct ct_code_buf b = {.bytes = bytes, .capacity = 4};
    size_t at = ct_a64_ldr_literal(&b, 0);
    ct_a64_place_literal(&b, at, 1);
    assert_true(b.overflow);
    assert_int_equal(b.length, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_branches), cmocka_unit_test(test_reach),    cmocka_unit_test(test_values),
        cmocka_unit_test(test_memory),   cmocka_unit_test(test_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
