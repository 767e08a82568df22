/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of machines: each is complete, they differ, and this machine is the one that the kernel names. */
#include "abi/atf.h"
#include "isa/machine.h"
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/utsname.h>
#include <cmocka.h>

static void test_choice(void **state) {
    (void)state;
    struct utsname name;
    assert_int_equal(uname(&name), 0);
    assert_string_equal(ct_machine_host()->name, name.machine);
    assert_ptr_equal(ct_machine_by_elf(EM_X86_64), &ct_machine_x64);
    assert_ptr_equal(ct_machine_by_elf(EM_AARCH64), &ct_machine_a64);
    assert_null(ct_machine_by_elf(EM_386));
    assert_null(ct_machine_by_elf(EM_NONE));
    assert_ptr_equal(ct_machine_by_arch(ATF_ARCH_X86_64), &ct_machine_x64);
    assert_ptr_equal(ct_machine_by_arch(ATF_ARCH_ARM64), &ct_machine_a64);
    assert_null(ct_machine_by_arch(0));
    assert_null(ct_machine_by_arch(3));
}

/* The headers of libc know the same numbers. */
static void test_relocations(void **state) {
    (void)state;
    assert_int_equal(ct_machine_x64.reloc_relative, R_X86_64_RELATIVE);
    assert_int_equal(ct_machine_x64.reloc_symbol[0], R_X86_64_64);
    assert_int_equal(ct_machine_x64.reloc_symbol[1], R_X86_64_GLOB_DAT);
    assert_int_equal(ct_machine_a64.reloc_relative, R_AARCH64_RELATIVE);
    assert_int_equal(ct_machine_a64.reloc_symbol[0], R_AARCH64_ABS64);
    assert_int_equal(ct_machine_a64.reloc_symbol[1], R_AARCH64_GLOB_DAT);
}

static void assert_named(const struct ct_machine *m, unsigned place, const char *name) {
    assert_true(place < m->register_count);
    assert_string_equal(m->registers[place], name);
}

static void test_registers(void **state) {
    (void)state;
    const struct ct_machine *x = &ct_machine_x64, *a = &ct_machine_a64;
    for (int i = 0; i < 2; i++) {
        const struct ct_machine *m = i ? a : x;
        assert_in_range(m->register_count, 1, CT_MACHINE_REGISTERS);
        for (unsigned k = 0; k < CT_MACHINE_REGISTERS; k++) {
            assert_int_equal(m->registers[k][0] != 0, k < m->register_count);
            for (unsigned n = 0; n < k && k < m->register_count; n++)
                assert_string_not_equal(m->registers[k], m->registers[n]);
        }
        assert_in_range(m->argument_count, 1, CT_MACHINE_CALL);
        assert_in_range(m->breakpoint_size, 1, sizeof m->breakpoint);
    }
    assert_named(x, x->pc, "rip");
    assert_named(x, x->sp, "rsp");
    assert_named(x, x->fp, "rbp");
    assert_named(x, x->call[0], "rdi");
    assert_named(x, x->call[5], "r9");
    assert_named(x, x->call[7], "r10");
    assert_named(x, x->result[1], "rdx");
    assert_named(a, a->pc, "pc");
    assert_named(a, a->sp, "sp");
    assert_named(a, a->fp, "x29");
    assert_named(a, a->call[0], "x0");
    assert_named(a, a->call[7], "x7");
    assert_named(a, a->result[1], "x1");
    assert_named(a, 30, "x30");
}

/* Our code must be reached whatever its own length is: a branch goes 2 GiB or 128 MiB far. */
static void test_reach(void **state) {
    (void)state;
    assert_in_range(ct_machine_x64.branch_reach, 1u << 30, (UINT64_C(1) << 31) - (1 << 20));
    assert_in_range(ct_machine_a64.branch_reach, 1u << 26, (1u << 27) - (1 << 20));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_relocations),
        cmocka_unit_test(test_registers),
        cmocka_unit_test(test_reach),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
