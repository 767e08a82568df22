/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of seccomp filters: the shapes that libseccomp and programs by hand have. */
#include "remote/filter_program.h"
#include <setjmp.h>
#include <stdarg.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <cmocka.h>

#if defined __x86_64__
#define THIS_MACHINE AUDIT_ARCH_X86_64
#else
#define THIS_MACHINE AUDIT_ARCH_AARCH64
#endif
#define NUMBER                                                                                                         \
    { BPF_LD | BPF_W | BPF_ABS, 0, 0, 0 }
#define MACHINE                                                                                                        \
    { BPF_LD | BPF_W | BPF_ABS, 0, 0, 4 }
#define ARGUMENT                                                                                                       \
    { BPF_LD | BPF_W | BPF_ABS, 0, 0, 16 }
#define EQUAL(value, yes, no)                                                                                          \
    { BPF_JMP | BPF_JEQ | BPF_K, yes, no, value }
#define AT_LEAST(value, yes, no)                                                                                       \
    { BPF_JMP | BPF_JGE | BPF_K, yes, no, value }
#define ANSWER(value)                                                                                                  \
    { BPF_RET | BPF_K, 0, 0, value }
#define ALLOWS(program, number) ct_filter_allows(program, sizeof program / sizeof *program, number)

static void test_a_list_of_what_is_allowed(void **state) {
    (void)state;
    static const struct sock_filter program[] = {
        MACHINE,
        EQUAL(THIS_MACHINE, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        NUMBER,
        AT_LEAST(0x40000000, 3, 0),
        EQUAL(SYS_mmap, 3, 0),
        EQUAL(SYS_futex, 0, 1),
        ANSWER(SECCOMP_RET_LOG),
        ANSWER(SECCOMP_RET_ERRNO | 1),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    assert_true(ALLOWS(program, SYS_mmap));
    assert_true(ALLOWS(program, SYS_futex)); /* it is only logged */
    assert_false(ALLOWS(program, SYS_munmap));
    assert_false(ALLOWS(program, 0x40000000 + SYS_mmap));
}

/* Only for the call that it is about. */
static void test_arguments(void **state) {
    (void)state;
    static const struct sock_filter program[] = {
        NUMBER,         EQUAL(SYS_mprotect, 0, 3),       ARGUMENT,
        EQUAL(4, 0, 1), ANSWER(SECCOMP_RET_KILL_THREAD), ANSWER(SECCOMP_RET_ALLOW),
    };
    assert_false(ALLOWS(program, SYS_mprotect));
    assert_true(ALLOWS(program, SYS_mmap));
}

static void test_all_answers(void **state) {
    (void)state;
    static const uint32_t answers[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP,
                                       SECCOMP_RET_ERRNO,        SECCOMP_RET_USER_NOTIF,  SECCOMP_RET_TRACE};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const struct sock_filter program[] = {ANSWER(answers[i])};
        assert_false(ALLOWS(program, SYS_mmap));
    }
    static const struct sock_filter all[] = {ANSWER(SECCOMP_RET_ALLOW)};
    assert_true(ALLOWS(all, SYS_mmap));
}

static void test_memory_and_registers(void **state) {
    (void)state;
    static const struct sock_filter program[] = {
        NUMBER,
        {BPF_ST, 0, 0, 3},
        {BPF_LD | BPF_IMM, 0, 0, SYS_mmap},
        {BPF_MISC | BPF_TAX, 0, 0, 0},
        {BPF_LD | BPF_MEM, 0, 0, 3},
        {BPF_JMP | BPF_JEQ | BPF_X, 0, 1, 0},
        ANSWER(SECCOMP_RET_ALLOW),
        {BPF_JMP | BPF_JA, 0, 0, 1},
        ANSWER(SECCOMP_RET_ALLOW),
        ANSWER(SECCOMP_RET_TRAP),
    };
    assert_true(ALLOWS(program, SYS_mmap));
    assert_false(ALLOWS(program, SYS_munmap));
}

/* What cannot be, or is not known here, allows nothing. */
static void test_bad_programs(void **state) {
    (void)state;
    static const struct sock_filter endless[] = {NUMBER}, far[] = {EQUAL(0, 200, 200), ANSWER(SECCOMP_RET_ALLOW)};
    static const struct sock_filter slot[] = {{BPF_ST, 0, 0, 99}, ANSWER(SECCOMP_RET_ALLOW)};
    static const struct sock_filter other[] = {{0xffff, 0, 0, 0}, ANSWER(SECCOMP_RET_ALLOW)};
    static const struct sock_filter jump[] = {{BPF_JMP | BPF_JA, 0, 0, 0xffffffff}, ANSWER(SECCOMP_RET_ALLOW)};
    assert_false(ALLOWS(endless, SYS_mmap));
    assert_false(ALLOWS(far, SYS_mmap));
    assert_false(ALLOWS(slot, SYS_mmap));
    assert_false(ALLOWS(other, SYS_mmap));
    assert_false(ALLOWS(jump, SYS_mmap));
    assert_false(ct_filter_allows(NULL, 0, SYS_mmap));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_of_what_is_allowed),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_all_answers),
        cmocka_unit_test(test_memory_and_registers),
        cmocka_unit_test(test_bad_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
