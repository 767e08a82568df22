/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions pass floating-point numbers on. Those that compute with them are among the forms of scan_test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "scan_util.h"

static bool is_real(const struct sample *s, size_t function) {
    return s->funcs[function].flags & CT_SCAN_REALS;
}

/* The first call has the arguments, the last one the result. */
static void test_first_and_last_calls(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0xf2, 0x0f, 0x58, 0xc1, 0xc3,                               /* 0: addsd %xmm1, %xmm0; ret */
        0xc3,                                                       /* 5: ret */
        0xe9, 0xf5, 0xff, 0xff, 0xff,                               /* 6: jmp 0 */
        0xe8, 0xf0, 0xff, 0xff, 0xff, 0xe8, 0xf0, 0xff, 0xff, 0xff, /* 11: call 0; call 5; */
        0xc3,                                                       /* ret */
        0xe8, 0xea, 0xff, 0xff, 0xff, 0xe8, 0xe0, 0xff, 0xff, 0xff, /* 22: call 5; call 0; */
        0xe8, 0xe0, 0xff, 0xff, 0xff, 0xc3,                         /* call 5; ret */
        0xff, 0xd0, 0xe8, 0xd3, 0xff, 0xff, 0xff, 0xff, 0xd0,       /* 38: call *%rax; call 0; call *%rax; */
        0xc3,                                                       /* ret */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 5, 5, 6, 6, 11, 11, 22, 22, 38, 38, 48);
    run(&s);
    static const bool expected[] = {true, false, true, true, false, false};
    for (size_t i = 0; i < sizeof expected; i++)
        assert_int_equal(is_real(&s, i), expected[i]);
    ct_scan_free(&s.scan);
}

/* Each pays for it, so a chain has an end. */
static void test_chain(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0xf2, 0x0f, 0x58, 0xc1, 0xc3,                         /* 0: addsd %xmm1, %xmm0; ret */
        0xe9, 0xf6, 0xff, 0xff, 0xff,                         /* 5: jmp 0 */
        0xe9, 0xf6, 0xff, 0xff, 0xff,                         /* 10: jmp 5, and so on */
        0xe9, 0xf6, 0xff, 0xff, 0xff, 0xe9, 0xf6, 0xff, 0xff, /* */
        0xff, 0xe9, 0xf6, 0xff, 0xff, 0xff,                   /* */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 5, 5, 10, 10, 15, 15, 20, 20, 25, 25, 30);
    run(&s);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(is_real(&s, i), i < 5);
    ct_scan_free(&s.scan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_and_last_calls),
        cmocka_unit_test(test_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
