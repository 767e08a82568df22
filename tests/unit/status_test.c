/* SPDX-License-Identifier: Apache-2.0 */
/* Every status code has a name and a text, and the documented values are kept. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <contrail/status.h>
#include <string.h>

static void documented_values_are_kept(void **state) {
    (void)state;
    assert_int_equal(CT_ERR_INIT_FAILED, -1);
    assert_int_equal(CT_ERR_SPAWN_FAILED, -2);
    assert_int_equal(CT_ERR_ATTACH_FAILED, -3);
    assert_int_equal(CT_ERR_HOOK_FAILED, -4);
    assert_int_equal(CT_ERR_PERMISSION_DENIED, -5);
    assert_int_equal(CT_ERR_TIMEOUT, -6);
    assert_string_equal(ct_status_name(-6), "ERR_TIMEOUT");
}

static void each_code_has_its_own_text(void **state) {
    (void)state;
    int codes[] = {0,
#define VALUE(name, value, text) value,
                   CT_STATUS_LIST(VALUE)
#undef VALUE
    };
    size_t count = sizeof codes / sizeof codes[0];
    for (size_t i = 0; i < count; i++) {
        assert_string_not_equal(ct_status_text(codes[i]), "unknown error");
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(codes[i], codes[j]);
            assert_string_not_equal(ct_status_text(codes[i]), ct_status_text(codes[j]));
        }
    }
    assert_string_equal(ct_status_name(-9999), "ERR_UNKNOWN");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documented_values_are_kept),
        cmocka_unit_test(each_code_has_its_own_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
