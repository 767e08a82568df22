/* SPDX-License-Identifier: Apache-2.0 */
/* The A64 decoder: kinds, distances, registers, words that are no instruction. objdump is asked by tests/diff. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "contrail/status.h"
#include "isa/a64/decode.h"

#define X(n) (UINT32_C(1) << (n))
#define SP   X(31)

static struct ct_a64_insn decode(uint32_t word) {
    struct ct_a64_insn insn;
    if (ct_a64_decode(word, &insn))
        fail_msg("%08x is no instruction", word);
    return insn;
}

static void test_kinds(void **state) {
    (void)state;
    static const struct {
        uint32_t word;
        uint8_t kind, what;
        int64_t imm;
    } cases[] = {
        {0x14000001, CT_INSN_JMP, 0, 4},                        /* b */
        {0x17ffffff, CT_INSN_JMP, 0, -4},                       /* b */
        {0x94000002, CT_INSN_CALL, 0, 8},                       /* bl */
        {0x54000040, CT_INSN_JCC, 0, 8},                        /* b.eq */
        {0x54ffffe1, CT_INSN_JCC, 0, -4},                       /* b.ne */
        {0x54000051, CT_INSN_JCC, 0, 8},                        /* bc.ne */
        {0xb4000045, CT_INSN_LOOP, 0, 8},                       /* cbz x5 */
        {0x35ffffe5, CT_INSN_LOOP, 0, -4},                      /* cbnz w5 */
        {0xb6f80043, CT_INSN_LOOP, 0, 8},                       /* tbz x3, #63 */
        {0x3707ffe3, CT_INSN_LOOP, 0, -4},                      /* tbnz w3, #0 */
        {0xd61f0220, CT_INSN_JMP_INDIRECT, 0, 0},               /* br x17 */
        {0xd63f0100, CT_INSN_CALL_INDIRECT, 0, 0},              /* blr x8 */
        {0xd65f03c0, CT_INSN_RET, 0, 0},                        /* ret */
        {0xd65f0220, CT_INSN_RET, 0, 0},                        /* ret x17 */
        {0xd65f0bff, CT_INSN_RET, 0, 0},                        /* retaa */
        {0xd65f0fff, CT_INSN_RET, 0, 0},                        /* retab */
        {0xd61f081f, CT_INSN_JMP_INDIRECT, 0, 0},               /* braaz x0 */
        {0xd71f0801, CT_INSN_JMP_INDIRECT, 0, 0},               /* braa x0, x1 */
        {0xd73f0c1f, CT_INSN_CALL_INDIRECT, 0, 0},              /* blrab x0, sp */
        {0xd69f03e0, CT_INSN_FAR, 0, 0},                        /* eret */
        {0xd4000001, CT_INSN_SYSCALL, 0, 0},                    /* svc #0 */
        {0xd4200000, CT_INSN_INT3, 0, 0},                       /* brk #0 */
        {0xd4400000, CT_INSN_HALT, 0, 0},                       /* hlt #0 */
        {0x00000000, CT_INSN_TRAP, 0, 0},                       /* udf #0 */
        {0xd503201f, CT_INSN_NOP, 0, 0},                        /* nop */
        {0xd503245f, CT_INSN_LANDING, 0, 0},                    /* bti c */
        {0xd503233f, CT_INSN_LANDING, CT_A64_SIGN, 0},          /* paciasp */
        {0xd503237f, CT_INSN_LANDING, CT_A64_SIGN, 0},          /* pacibsp */
        {0xd50323bf, CT_INSN_OTHER, CT_A64_AUTH, 0},            /* autiasp */
        {0x10000020, CT_INSN_OTHER, CT_A64_ADR, 4},             /* adr x0 */
        {0x70ffffe0, CT_INSN_OTHER, CT_A64_ADR, -1},            /* adr x0 */
        {0xb0000000, CT_INSN_OTHER, CT_A64_ADRP, 4096},         /* adrp x0 */
        {0x58000040, CT_INSN_OTHER, CT_A64_LITERAL, 8},         /* ldr x0 */
        {0x98000040, CT_INSN_OTHER, CT_A64_LITERAL, 8},         /* ldrsw x0 */
        {0xd8000040, CT_INSN_OTHER, CT_A64_LITERAL, 8},         /* prfm */
        {0x9cffffe0, CT_INSN_OTHER, CT_A64_LITERAL, -4},        /* ldr q0 */
        {0xc85ffc01, CT_INSN_OTHER, CT_A64_LOAD_EXCLUSIVE, 0},  /* ldaxr x1, [x0] */
        {0xc802fc01, CT_INSN_OTHER, CT_A64_STORE_EXCLUSIVE, 0}, /* stlxr w2, x1, [x0] */
        {0xc87f0c01, CT_INSN_OTHER, CT_A64_LOAD_EXCLUSIVE, 0},  /* ldxp x1, x3, [x0] */
        {0xd5033f5f, CT_INSN_OTHER, CT_A64_CLEAR, 0},           /* clrex */
        {0xd53bd040, CT_INSN_OTHER, CT_A64_READ_TP, 0},         /* mrs x0, tpidr_el0 */
        {0xd51bd040, CT_INSN_OTHER, CT_A64_WRITE_TP, 0},        /* msr tpidr_el0, x0 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_a64_insn insn = decode(cases[i].word);
        if (insn.kind != cases[i].kind || insn.what != cases[i].what || insn.imm != cases[i].imm)
            fail_msg("%08x: kind %u, what %u, imm %ld", cases[i].word, insn.kind, insn.what, (long)insn.imm);
    }
}

static void test_target(void **state) {
    (void)state;
    struct ct_a64_insn insn = decode(0xb0000000); /* adrp: pages count from the start of its own */
    assert_int_equal(ct_a64_target(&insn, 0x12345678), 0x12346000);
    insn = decode(0x97ffffff); /* bl */
    assert_int_equal(ct_a64_target(&insn, 0x1000), 0xffc);
    assert_true(ct_a64_is_direct(&insn));
    insn = decode(0xd63f0100);
    assert_false(ct_a64_is_direct(&insn));
    assert_false(ct_a64_authenticates(insn.word));
    assert_true(ct_a64_authenticates(0xd65f0bff));
}

static void test_bad(void **state) {
    (void)state;
    static const uint32_t words[] = {
        0x00010000, 0xffffffff, 0x1240fc00, /* and w0, w0, with N set */
        0x9240fc00,                         /* and x0, x0, a mask of ones only */
        0x52c00000,                         /* movz w0, lsl #32 */
        0x0bc00000,                         /* add w0, w0, w0, ror */
        0x0b008000,                         /* add w0, w0, w0, lsl #32 */
        0x8b201400,                         /* add x0, x0, w0, uxtb #5 */
        0xf820f000,                         /* an atomic that does not exist */
        0xf83fd001,                         /* ld64b of an odd register */
    };
    struct ct_a64_insn insn;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (ct_a64_decode(words[i], &insn) != CT_ERR_BAD_INSTRUCTION)
            fail_msg("%08x is taken for an instruction", words[i]);
}

static void test_effects(void **state) {
    (void)state;
    enum { FR = 1, FW = 2, MR = 4, MW = 8 };
    static const struct {
        uint32_t word, read, written, more;
    } cases[] = {
        {0x8b030041, X(2) | X(3), X(1), 0},                                   /* add x1, x2, x3 */
        {0xab030041, X(2) | X(3), X(1), FW},                                  /* adds x1, x2, x3 */
        {0x910043ff, SP, SP, 0},                                              /* add sp, sp, #16 */
        {0xf100001f, X(0), 0, FW},                                            /* cmp x0, #0 */
        {0xeb1f03e0, 0, X(0), FW},                                            /* subs x0, xzr, xzr */
        {0xf2800020, X(0), X(0), 0},                                          /* movk x0, #1 */
        {0xd2800020, 0, X(0), 0},                                             /* movz x0, #1 */
        {0xb3401c20, X(0) | X(1), X(0), 0},                                   /* bfm x0, x1, #0, #7 */
        {0x9a820020, X(1) | X(2), X(0), FR},                                  /* csel x0, x1, x2, eq */
        {0x9b020c20, X(1) | X(2) | X(3), X(0), 0},                            /* madd x0, x1, x2, x3 */
        {0xa9bf7bfd, X(29) | X(30) | SP, SP, MW},                             /* stp x29, x30, [sp, #-16]! */
        {0xa8c17bfd, SP, X(29) | X(30) | SP, MR},                             /* ldp x29, x30, [sp], #16 */
        {0xf8627820, X(1) | X(2), X(0), MR},                                  /* ldr x0, [x1, x2, lsl #3] */
        {0xf9000020, X(0) | X(1), 0, MW},                                     /* str x0, [x1] */
        {0xfd400020, X(1), 0, MR},                                            /* ldr d0, [x1] */
        {0xc802fc01, X(0) | X(1), X(2), MW},                                  /* stlxr w2, x1, [x0] */
        {0xf8e20041, X(2) | X(2), X(1), MR | MW},                             /* ldaddal x2, x1, [x2] */
        {0xc8a27c41, X(1) | X(2), X(2), MR | MW},                             /* cas x2, x1, [x2] */
        {0x48207c82, X(0) | X(1) | X(2) | X(3) | X(4), X(0) | X(1), MR | MW}, /* casp x0, x1, x2, x3, [x4] */
        {0x94000000, 0, X(30), 0},                                            /* bl */
        {0xd63f0100, X(8), X(30), 0},                                         /* blr x8 */
        {0xd65f03c0, X(30), 0, 0},                                            /* ret */
        {0xd65f0bff, X(30) | SP, 0, 0},                                       /* retaa */
        {0xd503233f, X(30) | SP, X(30), 0},                                   /* paciasp */
        {0xdac10020, X(0) | X(1), X(0), 0},                                   /* pacia x0, x1 */
        {0xb4000045, X(5), 0, 0},                                             /* cbz x5 */
        {0x54000040, 0, 0, FR},                                               /* b.eq */
        {0xd53b4200, 0, X(0), FR},                                            /* mrs x0, nzcv */
        {0xd51b4200, X(0), 0, FW},                                            /* msr nzcv, x0 */
        {0xd53bd040, 0, X(0), 0},                                             /* mrs x0, tpidr_el0 */
        {0xd9200be1, X(1) | SP, 0, MW},                                       /* stg x1, [sp] */
        {0xf83fd042, X(2), 0x3fc, MR},                                        /* ld64b x2, [x2] */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_a64_insn insn = decode(cases[i].word);
        struct ct_a64_effects e;
        ct_a64_effects(&insn, &e);
        unsigned more =
            (e.flags_read ? FR : 0) | (e.flags_written ? FW : 0) | (e.mem_read ? MR : 0) | (e.mem_written ? MW : 0);
        if (e.regs_read != cases[i].read || e.regs_written != cases[i].written || more != cases[i].more)
            fail_msg("%08x: reads %08x, writes %08x, %u", cases[i].word, e.regs_read, e.regs_written, more);
    }
}

static void test_rename(void **state) {
    (void)state;
    struct ct_a64_insn insn = decode(0x8b120252); /* add x18, x18, x18 */
    uint32_t word = 0;
    assert_true(ct_a64_rename(&insn, 18, 3, &word));
    assert_int_equal(word, 0x8b030063);
    insn = decode(0xfd400252); /* ldr d18, [x18]: the vector register stays */
    assert_true(ct_a64_rename(&insn, 18, 3, &word));
    assert_int_equal(word, 0xfd400072);
    insn = decode(0x48327c82); /* casp x18, x19, ...: a pair */
    assert_false(ct_a64_rename(&insn, 18, 3, &word));
    insn = decode(0x8b030041); /* add x1, x2, x3: not named */
    assert_true(ct_a64_rename(&insn, 18, 3, &word));
    assert_int_equal(word, 0x8b030041);
    insn = decode(0xd503233f); /* paciasp: implicit */
    assert_false(ct_a64_rename(&insn, 30, 3, &word));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),   cmocka_unit_test(test_target), cmocka_unit_test(test_bad),
        cmocka_unit_test(test_effects), cmocka_unit_test(test_rename),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
