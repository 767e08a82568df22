/* SPDX-License-Identifier: Apache-2.0 */
/* Targets of direct calls and jumps, of both machines on either; nothing after bytes that are no instruction, and
 * nothing of an instruction that is cut. */
#include "symbols/branches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

enum { AT = 0x1000, ROOM = 8 };

struct targets {
    uint64_t items[ROOM];
    size_t count;
};

static void note(void *arg, uint64_t target) {
    struct targets *t = arg;
    assert_true(t->count < ROOM);
    t->items[t->count++] = target;
}

static struct targets targets_of(const struct ct_machine *machine, const void *bytes, size_t size) {
    struct targets t = {0};
    ct_branches_each(machine, bytes, size, AT, note, &t);
    return t;
}

static void test_x64(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0xe8, 0x10, 0x00, 0x00, 0x00,    /* call +16 */
        0xb8, 0xe8, 0x00, 0x00, 0x00,    /* mov: no call in it */
        0xff, 0xd0,                      /* call through a register */
        0x74, 0xfe,                      /* jump to itself */
        0xe9, 0xed, 0xff, 0xff, 0xff,    /* jump to the beginning */
        0x06, 0xe8, 0,    0,    0,    0, /* no instruction, then a call */
    };
    struct targets t = targets_of(&ct_machine_x64, code, sizeof code);
    assert_int_equal(t.count, 3);
    assert_int_equal(t.items[0], AT + 5 + 16);
    assert_int_equal(t.items[1], AT + 12);
    assert_int_equal(t.items[2], AT);
    assert_int_equal(targets_of(&ct_machine_x64, code, 4).count, 0);
    assert_int_equal(targets_of(&ct_machine_x64, NULL, 0).count, 0);
}

static void test_a64(void **state) {
    (void)state;
    static const uint32_t code[] = {
        0x94000004, /* bl +16 */
        0xd63f0000, /* blr x0 */
        0x17fffffe, /* b -8 */
        0x54000040, /* b.eq */
        0xd65f03c0, /* ret */
    };
    struct targets t = targets_of(&ct_machine_a64, code, sizeof code);
    assert_int_equal(t.count, 2);
    assert_int_equal(t.items[0], AT + 16);
    assert_int_equal(t.items[1], AT);
    assert_int_equal(targets_of(&ct_machine_a64, code, 3).count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_x64), cmocka_unit_test(test_a64)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
