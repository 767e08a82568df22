/* SPDX-License-Identifier: Apache-2.0 */
/* Where errno is on arm64, by the code of __errno_location of several C libraries; addresses that instructions name;
 * the frame of a signal handler. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "os/thread.h"
#include "plan/errno_place.h"
#include "plan/target_guess.h"

#define AT  0x401000u
#define RET 0xd65f03c0

static bool read_table(void *arg, uint64_t address, uint64_t *word) {
    (void)arg;
    *word = 128;
    return address == 0x402dc0;
}

static int64_t follow(const uint32_t *code, size_t size) {
    return ct_errno_follow((const uint8_t *)code, size, AT, read_table, NULL);
}
#define FOLLOW(...) follow((const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}))

static void test_errno(void **state) {
    (void)state;
    /* glibc: adrp x0, 0x402000; ldr x0, [x0, #0xdc0]; mrs x1, tpidr_el0; add x0, x1, x0 */
    assert_int_equal(FOLLOW(0xb0000000, 0xf946e000, 0xd53bd041, 0x8b000020, RET), 128);
    assert_int_equal(FOLLOW(0xd503245f, 0xb0000000, 0xf946e000, 0xd53bd041, 0x8b000020, RET), 128); /* bti c */
    /* glibc, static: mrs x0, tpidr_el0; add x0, x0, #0, lsl #12; add x0, x0, #0x20 */
    assert_int_equal(FOLLOW(0xd53bd040, 0x91400000, 0x91008000, RET), 32);
    /* musl: mrs x0, tpidr_el0; sub x0, x0, #0xa4 */
    assert_int_equal(FOLLOW(0xd53bd040, 0xd1029000, RET), -0xa4);
}

static void test_other_code(void **state) {
    (void)state;
    assert_int_equal(FOLLOW(0xd0000000, 0xf946e000, 0xd53bd041, 0x8b000020, RET), 0); /* a word that cannot be read */
    assert_int_equal(FOLLOW(0xb0000000, 0xf946e000, RET), 0);                         /* no thread pointer */
    assert_int_equal(FOLLOW(0xd53bd040, 0x8b000000, RET), 0);                         /* twice the thread pointer */
    assert_int_equal(FOLLOW(0xd53bd041, 0x8b020020, RET), 0);                         /* x2 is not known */
    assert_int_equal(FOLLOW(0xd53bd040, 0x91008000), 0);                              /* no end */
    assert_int_equal(FOLLOW(0x94000000, RET), 0);                                     /* a call */
}

static void test_guess(void **state) {
    (void)state;
    struct ct_guess_insn insn;
    static const uint32_t pair[] = {0xb0000000, 0x91004000}; /* adrp x0, 0x402000; add x0, x0, #0x10 */
    assert_true(ct_guess_decode((const uint8_t *)pair, sizeof pair, AT, &insn));
    assert_int_equal(insn.names, 0x402010);
    assert_true(ct_guess_decode((const uint8_t *)pair, 4, AT, &insn));
    assert_int_equal(insn.names, 0);
    static const uint32_t call = 0x94000004; /* bl . + 16 */
    assert_true(ct_guess_decode((const uint8_t *)&call, sizeof call, AT, &insn));
    assert_int_equal(insn.target, AT + 16);
    assert_int_equal(insn.names, 0);
    assert_false(ct_guess_decode((const uint8_t *)&call, 3, AT, &insn));
}

static uint64_t interrupted_pc, found_pc, found_sp, interrupted_sp;

static void look(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    const ucontext_t *u = context;
    interrupted_pc = u->uc_mcontext.pc;
    interrupted_sp = u->uc_mcontext.sp;
    uint64_t here = (uint64_t)__builtin_frame_address(0) & ~7ull;
    for (uint64_t at = here; at < interrupted_sp; at += 8) {
        struct ct_os_signal_frame frame;
        if (ct_os_signal_frame_at(at, interrupted_sp, &frame)) {
            found_pc = *frame.pc;
            found_sp = frame.sp;
            return;
        }
    }
}

static void test_signal_frame(void **state) {
    (void)state;
    struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    raise(SIGUSR1);
    assert_true(found_pc != 0);
    assert_true(found_pc == interrupted_pc && found_sp == interrupted_sp);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errno),
        cmocka_unit_test(test_other_code),
        cmocka_unit_test(test_guess),
        cmocka_unit_test(test_signal_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
