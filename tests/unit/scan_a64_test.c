/* SPDX-License-Identifier: Apache-2.0 */
/* The pass over arm64 code: what it finds out about functions, on small pieces of code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "scan_util.h"

enum {
    RET = 0xd65f03c0u,
    NOP = 0xd503201fu,
    BTI_C = 0xd503245fu,
    PACIASP = 0xd503233fu,
    PACIBSP = 0xd503237fu,
    AUTIASP = 0xd50323bfu,
    PUSH = 0xa9be7bfdu,   /* stp x29, x30, [sp, #-32]! */
    POP = 0xa8c27bfdu,    /* ldp x29, x30, [sp], #32 */
    MOV_FP = 0x910003fdu, /* mov x29, sp */
    SVC = 0xd4000001u,
    BR_X30 = 0xd61f03c0u,
    MOV_SP_X2 = 0x9100005fu,
};

static uint32_t flags_of(const uint32_t *words, size_t count) {
    struct sample s;
    make_sample(&s, BASE, (const uint8_t *)words, count * 4, (const int[]){0, (int)(count * 4), -1});
    run(&s);
    uint32_t flags = s.funcs[0].flags;
    ct_scan_free(&s.scan);
    return flags;
}
#define FLAGS(...) flags_of((const uint32_t[]){__VA_ARGS__}, sizeof(uint32_t[]){__VA_ARGS__} / 4)

/* Saving, signing, restoring and returning are what every function does. */
static void test_usual_return_address(void **state) {
    (void)state;
    assert_int_equal(FLAGS(PUSH, MOV_FP, 0x94000100u, POP, RET), 0);
    assert_int_equal(FLAGS(PACIASP, PUSH, 0x94000100u, POP, AUTIASP, RET), CT_SCAN_SIGNS_A);
    assert_int_equal(FLAGS(NOP, PACIBSP, PUSH, 0x94000100u, POP, RET), CT_SCAN_SIGNS_B);
    /* once it is saved, x30 is a register like others: mov x30, x1; add x0, x30, #1 */
    assert_int_equal(FLAGS(PUSH, 0xaa0103feu, 0x910007c0u, POP, RET), 0);
}

static void test_reads_return_address(void **state) {
    (void)state;
    assert_int_equal(FLAGS(0xaa1e03e0u, RET), CT_SCAN_USES_RETURN);                    /* mov x0, x30 */
    assert_int_equal(FLAGS(0xa905781du, RET), CT_SCAN_USES_RETURN);                    /* stp x29, x30, [x0, #80] */
    assert_int_equal(FLAGS(PUSH, MOV_FP, 0xf94007a0u, POP, RET), CT_SCAN_USES_RETURN); /* ldr x0, [x29, #8] */
    assert_int_equal(FLAGS(PUSH, 0xaa1e03f3u, 0x94000100u, POP, RET), CT_SCAN_USES_RETURN); /* mov x19, x30 */
}

/* A function that ends with a jump into one that looks at its return address lends it its own, also past that one's
 * landing pad (glibc's _setjmp). */
static void test_tail_into_reader(void **state) {
    const uint32_t at_start[] = {0x14000002u, NOP, 0xaa1e03e0u, RET, RET};         /* b +8 */
    const uint32_t past_pad[] = {0x14000003u, NOP, 0xd503245fu, 0xaa1e03e0u, RET}; /* b +12; bti c */
    const uint32_t past_end[] = {0x14000004u, NOP, 0xaa1e03e0u, RET, RET};         /* b +16 */
    const struct {
        const uint32_t *words;
        int size;
        bool uses;
    } cases[] = {{at_start, 16, true}, {past_pad, 20, true}, {past_end, 16, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sample s;
        make_sample(&s, BASE, (const uint8_t *)cases[i].words, 20, (const int[]){0, 4, 8, cases[i].size, -1});
        run(&s);
        assert_int_equal(!!(s.funcs[0].flags & CT_SCAN_USES_RETURN), cases[i].uses);
        ct_scan_free(&s.scan);
    }
}

static void test_system_calls(void **state) {
    const uint32_t calls = CT_SCAN_SYSCALLS;
    (void)state;
    assert_int_equal(FLAGS(0xd2800008u | 64u << 5, SVC, RET), calls); /* mov x8, #64 */
    assert_int_equal(FLAGS(0xd2800008u | 220u << 5, SVC, RET), calls | CT_SCAN_CLONES);
    assert_int_equal(FLAGS(0x52800008u | 435u << 5, SVC, RET), calls | CT_SCAN_CLONES);
    assert_int_equal(FLAGS(0xd2800008u | 221u << 5, SVC, RET), calls | CT_SCAN_EXECS);
    assert_int_equal(FLAGS(0xd2800008u | 139u << 5, SVC), calls | CT_SCAN_SETS_STACK); /* rt_sigreturn */
    assert_int_equal(FLAGS(0xd2800008u | 220u << 5, 0xd2800008u, SVC, RET), calls);    /* another number since */
}

/* Unwind information of clone functions ends before their system call. */
static void test_clone_after_function(void **state) {
    const uint32_t words[] = {0xd2800008u | 220u << 5, SVC, RET};
    struct sample s;
    (void)state;
    make_sample(&s, BASE, (const uint8_t *)words, sizeof words, (const int[]){0, 4, -1});
    run(&s);
    assert_true(s.funcs[0].flags & CT_SCAN_CLONES);
    ct_scan_free(&s.scan);
}

static void test_longjmp(void **state) {
    (void)state;
    assert_true(FLAGS(0xf9403402u, MOV_SP_X2, 0xa945781du, BR_X30) & CT_SCAN_LONGJMP); /* ldr x2, [x0, #104] */
    assert_false(FLAGS(PUSH, 0x910003bfu, POP, RET) & CT_SCAN_LONGJMP);                /* mov sp, x29 */
    assert_true(FLAGS(MOV_SP_X2, RET) & CT_SCAN_SETS_STACK);
}

/* str x1, [sp, #-16]!: the convention of descriptors for thread-local storage */
static void test_tls_descriptor(void **state) {
    (void)state;
    assert_true(FLAGS(BTI_C, 0xf81f0fe1u, RET) & CT_SCAN_SETS_STACK);
    assert_true(FLAGS(0xa9bf0be1u, RET) & CT_SCAN_SETS_STACK); /* stp x1, x2, [sp, #-16]! */
    assert_false(FLAGS(PUSH, RET) & CT_SCAN_SETS_STACK);
}

static void test_loops_to_entry(void **state) {
    (void)state;
    assert_true(FLAGS(NOP, 0x54ffffe1u, RET) & CT_SCAN_LOOPED);        /* b.ne -4 */
    assert_true(FLAGS(BTI_C, NOP, 0x54ffffe1u, RET) & CT_SCAN_LOOPED); /* to what is after the pad */
    assert_false(FLAGS(NOP, NOP, 0x54ffffe1u, RET) & CT_SCAN_LOOPED);
}

static void test_landings_and_references(void **state) {
    /* f: bl g; cbz x0, +8; nop; ret. g: adrp x0, page; add x0, x0, #(f's offset); ret */
    const uint32_t words[] = {0x94000004u, 0xb4000040u, NOP, RET, 0x90000000u, 0x91000000u, RET};
    struct sample s;
    (void)state;
    make_sample(&s, BASE, (const uint8_t *)words, sizeof words, (const int[]){0, 16, 16, 28, -1});
    run(&s);
    CHECK_BITS(&s, landing, 0, 4, 12, 16);
    CHECK_BITS(&s, foreign, 0, 4, 16);
    CHECK_BITS(&s, referenced, 0, 16);
    ct_scan_free(&s.scan);
}

static void test_reals(void **state) {
    (void)state;
    assert_true(FLAGS(0x1e612800u, RET) & CT_SCAN_REALS);  /* fadd d0, d0, d1 */
    assert_false(FLAGS(0x4e040c00u, RET) & CT_SCAN_REALS); /* dup v0.4s, w0 */
    assert_true(FLAGS(0x2f00e400u, RET) & CT_SCAN_REALS);  /* movi d0, #0: the result */
    assert_false(FLAGS(0x2f00e400u, NOP, RET) & CT_SCAN_REALS);
}

static void test_passes_reals_on(void **state) {
    /* f: b h. g: bl i; ret. h: fadd d0, d0, d1; ret. i: ret */
    const uint32_t words[] = {0x14000003u, 0x94000004u, RET, 0x1e612800u, RET, RET};
    struct sample s;
    (void)state;
    make_sample(&s, BASE, (const uint8_t *)words, sizeof words, (const int[]){0, 4, 4, 12, 12, 20, 20, 24, -1});
    run(&s);
    assert_true(s.funcs[0].flags & CT_SCAN_REALS);
    assert_false((s.funcs[1].flags | s.funcs[3].flags) & CT_SCAN_REALS);
    ct_scan_free(&s.scan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_return_address),    cmocka_unit_test(test_reads_return_address),
        cmocka_unit_test(test_tail_into_reader),        cmocka_unit_test(test_system_calls),
        cmocka_unit_test(test_clone_after_function),    cmocka_unit_test(test_longjmp),
        cmocka_unit_test(test_tls_descriptor),          cmocka_unit_test(test_loops_to_entry),
        cmocka_unit_test(test_landings_and_references), cmocka_unit_test(test_reals),
        cmocka_unit_test(test_passes_reals_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
