/* SPDX-License-Identifier: Apache-2.0 */
/* Text of A64 instructions: one of each shape. tests/diff asks objdump about all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "isa/a64/text.h"
#include "isa/text.h"

static void test_text(void **state) {
    (void)state;
    static const struct {
        uint32_t word;
        const char *text;
    } cases[] = {
        {0x8b020020, "add x0, x1, x2"},
        {0xd65f03c0, "ret"},
        {0xa9bf7bfd, "stp x29, x30, [sp, #-16]!"},
        {0xf100001f, "cmp x0, #0x0"},
        {0x92800000, "mov x0, #0xffffffffffffffff"},
        {0xd3607c20, "lsl x0, x1, #32"},
        {0x9a9f17e0, "cset x0, eq"},
        {0x54000040, "b.eq 0x1008"},
        {0x90000000, "adrp x0, 0x1000"},
        {0xf8627820, "ldr x0, [x1, x2, lsl #3]"},
        {0x38401c20, "ldrb w0, [x1, #1]!"},
        {0xf8e20041, "ldaddal x2, x1, [x2]"},
        {0x4ea11c20, "mov v0.16b, v1.16b"},
        {0x1e6e1000, "fmov d0, #1.000000000000000000e+00"},
        {0x4cdf7000, "ld1 {v0.16b}, [x0], #16"},
        {0x0d408420, "ld1 {v0.d}[0], [x1]"},
        {0xd53bd040, "mrs x0, tpidr_el0"},
        {0xd53bf0a0, "mrs x0, s3_3_c15_c0_5"}, /* no name */
        {0xd50b7a20, "dc cvac, x0"},
        {0xd503233f, "paciasp"},
        {0x2518e3e0, "ptrue p0.b"},
        {0xa401a421, "ld1b {z1.b}, p1/z, [x1, #1, mul vl]"},
        {0x80800000, "fmopa za0.s, p0/m, p0/m, z0.s, z0.s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_a64_insn insn;
        char text[CT_A64_TEXT_MAX];
        assert_int_equal(ct_a64_decode(cases[i].word, &insn), 0);
        ct_a64_text(&insn, 0x1000, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_cut(void **state) {
    (void)state;
    struct ct_a64_insn insn;
    char text[8] = "xxxxxxx";
    assert_int_equal(ct_a64_decode(0x8b020020, &insn), 0);
    ct_a64_text(&insn, 0, text, 0);
    assert_int_equal(text[0], 'x');
    ct_a64_text(&insn, 0, text, 6);
    assert_string_equal(text, "add x");
    assert_int_equal(text[6], 'x');
}

static void test_any_machine(void **state) {
    (void)state;
    static const uint8_t ret[4] = {0xc0, 0x03, 0x5f, 0xd6}, bad[4] = {0xff, 0xff, 0xff, 0xff};
    char text[CT_INSN_TEXT_MAX];
    assert_true(ct_insn_has_text(&ct_machine_a64));
    assert_false(ct_insn_has_text(&ct_machine_x64));
    assert_int_equal(ct_insn_text(&ct_machine_a64, ret, 4, 0, text), 4);
    assert_string_equal(text, "ret");
    assert_int_equal(ct_insn_text(&ct_machine_a64, ret, 3, 0, text), 0);
    assert_int_equal(ct_insn_text(&ct_machine_a64, bad, 4, 0, text), 0);
    assert_int_equal(ct_insn_text(&ct_machine_x64, ret, 4, 0, text), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_any_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
