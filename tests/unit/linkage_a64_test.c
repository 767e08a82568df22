/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of arm64 linkage tables, as linkers write them. The file is compiled for this machine: bytes in, numbers
 * out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "isa/a64/linkage.c"

#define WORD(insn) (insn) & 0xff, (insn) >> 8 & 0xff, (insn) >> 16 & 0xff, (insn) >> 24 & 0xff

/* adrp x16, 0xaf000 at 0x43b0; ldr x17, [x16, #3080]; add; br x17 */
static const uint8_t plain[] = {WORD(0xf0000550u), WORD(0xf9460611u), WORD(0x91302210u), WORD(0xd61f0220u)};
static const uint8_t marked[] = {WORD(BTI_C), WORD(0xf0000550u), WORD(0xf9460611u), WORD(0x91302210u)};
/* adrp x16, one page back */
static const uint8_t backward[] = {WORD(0xf0fffff0u), WORD(0xf9400211u)};
static const uint8_t other_register[] = {WORD(0xf0000551u), WORD(0xf9460611u)};
static const uint8_t first[] = {WORD(SAVE_X16), WORD(0xf0000550u)};

static void test_word(void **state) {
    (void)state;
    assert_int_equal(ct_linkage_word(plain, sizeof plain, 0x43b0), 0xafc08);
    assert_int_equal(ct_linkage_word(marked, sizeof marked, 0x43b0), 0xafc08);
    assert_int_equal(ct_linkage_word(backward, sizeof backward, 0x5004), 0x4000);
    assert_int_equal(ct_linkage_word(plain, 4, 0x43b0), 0);
    assert_int_equal(ct_linkage_word(marked, 8, 0x43b0), 0);
    assert_int_equal(ct_linkage_word(other_register, sizeof other_register, 0x43b0), 0);
    assert_int_equal(ct_linkage_word(first, sizeof first, 0x4390), 0);
}

static void test_unbound(void **state) {
    (void)state;
    assert_true(ct_linkage_is_unbound(first, sizeof first));
    assert_false(ct_linkage_is_unbound(first, 3));
    assert_false(ct_linkage_is_unbound(plain, sizeof plain));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_word), cmocka_unit_test(test_unbound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
