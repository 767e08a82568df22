/* SPDX-License-Identifier: Apache-2.0 */
/* The pass over a module's code: landing places, references, loops, and the flags of each function.
 * Bytes only: nothing here runs. What one function shows is in scan_forms_x64.S. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "scan_util.h"

/* ---- flags ---- */

struct scan_form {
    const char *text;
    const uint8_t *start, *end;
    uint64_t flags;
};
extern const struct scan_form scan_forms[];

static uint32_t flags_of(const uint8_t *bytes, size_t size) {
    struct ct_scan_func func = {.start = BASE, .end = BASE + size};
    struct ct_scan scan = {.code = bytes, .start = BASE, .end = BASE + size, .funcs = &func, .func_count = 1};
    assert_int_equal(ct_scan_run(&scan), 0);
    ct_scan_free(&scan);
    return func.flags;
}

static void test_flags(void **state) {
    (void)state;
    size_t wrong = 0, count = 0;
    for (const struct scan_form *f = scan_forms; f->text; f++, count++) {
        uint32_t flags = flags_of(f->start, (size_t)(f->end - f->start));
        if (flags == f->flags)
            continue;
        print_error("%s: flags are %#x, not %#x\n", f->text, flags, (unsigned)f->flags);
        wrong++;
    }
    assert_int_equal(wrong, 0);
    assert_true(count > 80);
}

/* Every form again, with other code before and after: a function's flags are its own. */
static void test_flags_are_of_one_function(void **state) {
    (void)state;
    static const uint8_t noise[] = {0x55, 0x48, 0x89, 0xe5, 0xb8,
                                    56,   0,    0,    0}; /* push rbp; mov rbp, rsp; mov eax, 56 */
    for (const struct scan_form *f = scan_forms; f->text; f++) {
        uint8_t code[512];
        size_t size = (size_t)(f->end - f->start);
        memcpy(code, noise, sizeof noise);
        memcpy(code + sizeof noise, f->start, size);
        memcpy(code + sizeof noise + size, noise, sizeof noise);
        struct ct_scan_func funcs[3] = {
            {.start = BASE, .end = BASE + sizeof noise},
            {.start = BASE + sizeof noise, .end = BASE + sizeof noise + size},
            {.start = BASE + sizeof noise + size, .end = BASE + 2 * sizeof noise + size},
        };
        struct ct_scan scan = {
            .code = code, .start = BASE, .end = BASE + 2 * sizeof noise + size, .funcs = funcs, .func_count = 3};
        assert_int_equal(ct_scan_run(&scan), 0);
        assert_int_equal(funcs[0].flags, 0);
        assert_int_equal(funcs[1].flags, f->flags);
        assert_int_equal(funcs[2].flags, 0);
        ct_scan_free(&scan);
    }
}

/* ---- bits ---- */

static void test_own_branches(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0x85, 0xff,                   /*  0 test edi, edi */
        0x74, 0x07,                   /*  2 je 11 */
        0xff, 0xcf,                   /*  4 dec edi */
        0x75, 0xfa,                   /*  6 jne 2 */
        0xe9, 0x01, 0x00, 0x00, 0x00, /*  8 jmp 14 */
        0x90,                         /* 13 nop */
        0xc3,                         /* 14 ret */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 15);
    run(&s);
    CHECK_BITS(&s, landing, 0, 2, 11, 14);
    CHECK_BITS(&s, foreign, 0); /* the entry alone: the rest is the function's own business */
    CHECK_BITS(&s, referenced, -1);
    ct_scan_free(&s.scan);
}

static void test_calls(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0xe8, 0x05, 0x00, 0x00, 0x00, /*  0 call 10 */
        0xff, 0xd0,                   /*  5 call rax */
        0xc3,                         /*  7 ret */
        0xcc, 0xcc,                   /*  8 */
        0xe8, 0xf1, 0xff, 0xff, 0xff, /* 10 call 0 */
        0xe8, 0xf8, 0xff, 0xff, 0xff, /* 15 call 12, into its own middle */
        0xc3,                         /* 20 ret */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 8, 10, 21);
    run(&s);
    /* entries, where calls return to, and what is called */
    CHECK_BITS(&s, landing, 0, 5, 7, 10, 12, 15, 20);
    CHECK_BITS(&s, foreign, 0, 5, 7, 10, 12, 15, 20);
    CHECK_BITS(&s, referenced, 0, 10, 12);
    assert_int_equal(s.scan.loop_count, 0);
    ct_scan_free(&s.scan);
}

static void test_branches_between_functions(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0x74, 0x0e,                   /*  0 je 16, another function's entry */
        0x75, 0x0e,                   /*  2 jne 18, its middle */
        0xe9, 0x0c, 0x00, 0x00, 0x00, /*  4 jmp 21 */
        0xcc, 0xcc, 0xcc, 0xcc,       /*  9 */
        0xeb, 0x09,                   /* 13 jmp 24, from between functions */
        0xcc,                         /* 15 */
        0x31, 0xc0,                   /* 16 xor eax, eax */
        0x31, 0xc9,                   /* 18 xor ecx, ecx */
        0xc3,                         /* 20 ret */
        0x31, 0xc0,                   /* 21 xor eax, eax */
        0xc3,                         /* 23 ret */
        0x31, 0xc0,                   /* 24 xor eax, eax */
        0x74, 0xf5,                   /* 26 je 17, into the middle of an instruction */
        0xe8, 0x00, 0x10, 0x00, 0x00, /* 28 call past the code */
        0xe9, 0x00, 0x00, 0x00, 0x80, /* 33 jmp before it */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 9, 16, 21, 21, 24, 24, 38);
    run(&s);
    CHECK_BITS(&s, landing, 0, 16, 17, 18, 21, 24, 33);
    CHECK_BITS(&s, foreign, 0, 16, 17, 18, 21, 24, 33);
    CHECK_BITS(&s, referenced, 21, 24); /* a conditional jump alone does not make a function of it */
    assert_int_equal(s.funcs[0].flags, 0);
    assert_int_equal(s.funcs[1].flags, CT_SCAN_CONDITIONAL);
    assert_int_equal(s.funcs[2].flags, 0);
    assert_int_equal(s.funcs[3].flags, 0);
    ct_scan_free(&s.scan);
}

/* What lies between functions belongs to none of them. */
static void test_code_between_functions(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0xc3,                         /*  0 ret */
        0x48, 0x8b, 0x04, 0x24,       /*  1 mov rax, [rsp] */
        0xb8, 0x38, 0x00, 0x00, 0x00, /*  5 mov eax, 56 */
        0x0f, 0x05,                   /* 10 syscall */
        0x74, 0xf2,                   /* 12 je 0 */
        0xc2, 0x08, 0x00,             /* 14 ret 8 */
        0xc3,                         /* 17 ret */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 1, 17, 18);
    run(&s);
    assert_int_equal(s.funcs[0].flags, CT_SCAN_CONDITIONAL); /* somebody jumps to it */
    assert_int_equal(s.funcs[1].flags, 0);
    assert_int_equal(s.scan.loop_count, 0);
    ct_scan_free(&s.scan);
}

static void test_data_references(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0x48, 0x8d, 0x05, 0x09, 0x00, 0x00, 0x00,    /*  0 lea rax, [16] */
        0x48, 0x8b, 0x0d, 0x0a, 0x00, 0x00, 0x00,    /*  7 mov rcx, [24] */
        0xc3, 0x90,                                  /* 14 */
        1,    2,    3,    4,    5,    6,    7,    8, /* 16 somebody's data */
        1,    2,    3,    4,    5,    6,    7,    8, /* 24 */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 15);
    run(&s);
    CHECK_BITS(&s, landing, 0, 16); /* code whose address is taken may be jumped to */
    CHECK_BITS(&s, referenced, 16, 24);
    ct_scan_free(&s.scan);
}

/* ---- loops ---- */

static void test_loops(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0xff, 0xcf,                         /*  0 dec edi */
        0x75, 0xfc,                         /*  2 jne 0 */
        0x0f, 0x84, 0xf6, 0xff, 0xff, 0xff, /*  4 je 0 */
        0xe9, 0xf1, 0xff, 0xff, 0xff,       /* 10 jmp 0 */
        0xcc,                               /* 15 */
        0xf3, 0x0f, 0x1e, 0xfa,             /* 16 endbr64 */
        0xe2, 0xfe,                         /* 20 loop 20 */
        0x2e, 0x75, 0xfb,                   /* 22 jne 20, with a hint */
        0xc3,                               /* 25 */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 15, 16, 26);
    run(&s);
    static const struct ct_scan_loop expected[] = {
        {BASE + 2, 0, 2, 1}, {BASE + 4, 0, 6, 4}, {BASE + 10, 0, 5, 4}, {BASE + 20, 1, 2, 1}, {BASE + 22, 1, 3, 1},
    };
    assert_int_equal(s.scan.loop_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(s.scan.loops[i].branch, expected[i].branch);
        assert_int_equal(s.scan.loops[i].function, expected[i].function);
        assert_int_equal(s.scan.loops[i].length, expected[i].length);
        assert_int_equal(s.scan.loops[i].disp_size, expected[i].disp_size);
    }
    ct_scan_free(&s.scan);
}

static void test_many_loops(void **state) {
    (void)state;
    struct sample s;
    uint8_t code[200];
    for (unsigned i = 0; i < 63; i++) { /* as far back as a short jump reaches */
        code[2 * i] = 0x75;
        code[2 * i + 1] = (uint8_t) - (2 * (int)i + 2);
    }
    memset(code + 126, 0xc3, sizeof code - 126);
    code[126] = 0x75;
    code[127] = 0x80;
    SAMPLE(&s, code, 0, 200);
    run(&s);
    assert_int_equal(s.scan.loop_count, 64);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(s.scan.loops[i].branch, BASE + 2 * i);
    ct_scan_free(&s.scan);
}

/* ---- shapes of modules ---- */

static void test_find(void **state) {
    (void)state;
    struct ct_scan_func funcs[] = {{.start = 10}, {.start = 20}, {.start = 21}, {.start = 90}};
    struct ct_scan scan = {.funcs = funcs, .func_count = 4};
    assert_int_equal(ct_scan_find(&scan, 10), 0);
    assert_int_equal(ct_scan_find(&scan, 20), 1);
    assert_int_equal(ct_scan_find(&scan, 21), 2);
    assert_int_equal(ct_scan_find(&scan, 90), 3);
    assert_int_equal(ct_scan_find(&scan, 9), -1);
    assert_int_equal(ct_scan_find(&scan, 11), -1);
    assert_int_equal(ct_scan_find(&scan, 91), -1);
    scan.func_count = 0;
    assert_int_equal(ct_scan_find(&scan, 10), -1);
}

static void test_no_functions(void **state) {
    (void)state;
    static const uint8_t code[] = {0xeb, 0x01, 0x90, 0xc3};
    struct sample s;
    make_sample(&s, BASE, code, sizeof code, (const int[]){-1});
    run(&s);
    CHECK_BITS(&s, landing, 3);
    ct_scan_free(&s.scan);
}

/* Functions that overlap, and one that claims more than there is. */
static void test_odd_ranges(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0x31, 0xc0, /* 0 xor eax, eax */
        0x31, 0xc9, /* 2 xor ecx, ecx */
        0x74, 0xfa, /* 4 je 0 */
        0x74, 0xfa, /* 6 je 2 */
        0xc3,       /* 8 */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 9, 2, 100);
    run(&s);
    CHECK_BITS(&s, landing, 0, 2);
    assert_int_equal(s.funcs[0].flags, CT_SCAN_LOOPED | CT_SCAN_CONDITIONAL); /* the second jumps to the first */
    assert_int_equal(s.funcs[1].flags, CT_SCAN_LOOPED);
    ct_scan_free(&s.scan);
}

/* Unwind information of clone ends before its system call. */
/* As the sanitizers' UnwindFast begins, of gcc and of clang; then with one of its signs missing, or after a branch. */
static void test_traces(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0x48, 0x89, 0x75, 0x10,                         /*  0 mov [rbp + 16], rsi */
        0xc7, 0x45, 0x08, 0x01, 0x00, 0x00, 0x00,       /*  4 mov dword [rbp + 8], 1 */
        0x48, 0x81, 0xfb, 0xff, 0x0f, 0x00, 0x00,       /* 11 cmp rbx, 4095 */
        0xc3,                                           /* 18 ret */
        0x49, 0x81, 0xfc, 0x00, 0x10, 0x00, 0x00,       /* 19 cmp r12, 4096 */
        0x41, 0xc7, 0x46, 0x08, 0x01, 0x00, 0x00, 0x00, /* 26 mov dword [r14 + 8], 1 */
        0x4d, 0x89, 0x7e, 0x10,                         /* 34 mov [r14 + 16], r15 */
        0xc3,                                           /* 38 ret */
        0x4c, 0x89, 0x7d, 0x10,                         /* 39 mov [rbp + 16], r15 */
        0x41, 0xc7, 0x45, 0x08, 0x01, 0x00, 0x00, 0x00, /* 43 mov dword [r13 + 8], 1: another base */
        0x48, 0x81, 0xfb, 0xff, 0x0f, 0x00, 0x00,       /* 51 cmp rbx, 4095 */
        0xc3,                                           /* 58 ret */
        0x48, 0x89, 0x75, 0x10,                         /* 59 mov [rbp + 16], rsi */
        0xc7, 0x45, 0x08, 0x01, 0x00, 0x00, 0x00,       /* 63 mov dword [rbp + 8], 1 */
        0x74, 0x00,                                     /* 70 jz 72 */
        0x48, 0x81, 0xfb, 0xff, 0x0f, 0x00, 0x00,       /* 72 cmp rbx, 4095 */
        0xc3,                                           /* 79 ret */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 19, 19, 39, 39, 59, 59, 80);
    run(&s);
    assert_int_equal(s.funcs[0].flags, CT_SCAN_TRACES);
    assert_int_equal(s.funcs[1].flags, CT_SCAN_TRACES);
    assert_int_equal(s.funcs[2].flags, 0);
    assert_int_equal(s.funcs[3].flags, 0);
    ct_scan_free(&s.scan);
}

static void test_clone_behind_the_end(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0xb8, 0x38, 0x00, 0x00, 0x00, /*  0 mov eax, 56 */
        0x0f, 0x05,                   /*  5 syscall */
        0xc3,                         /*  7 ret */
        0xb8, 0x39, 0x00, 0x00, 0x00, /*  8 mov eax, 57 */
        0x0f, 0x05,                   /* 13 syscall */
        0xc3,                         /* 15 ret */
        0xb8, 0xb3, 0x01, 0x00, 0x00, /* 16 mov eax, 435 */
        0x0f, 0x05,                   /* 21 syscall: the last bytes there are */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 5, 8, 13, 16, 21);
    run(&s);
    assert_int_equal(s.funcs[0].flags, CT_SCAN_CLONES);
    assert_int_equal(s.funcs[1].flags, 0);
    assert_int_equal(s.funcs[2].flags, CT_SCAN_CLONES);
    ct_scan_free(&s.scan);
}

/* musl's clone begins with a byte; elsewhere that is a character, or the code of an unnamed function that follows. */
static void test_clone_by_a_byte(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0x31, 0xc0,                         /*  0 xor eax, eax */
        0xb0, 0x38,                         /*  2 mov al, 56 */
        0x0f, 0x05,                         /*  4 syscall */
        0xc3,                               /*  6 ret */
        0xb8, 0x01, 0x00, 0x00, 0x00,       /*  7 mov eax, 1 */
        0x48, 0x8d, 0x7f, 0x08, 0x31, 0xc0, /* 12 lea rdi, [rdi + 8]; xor eax, eax */
        0xb0, 0x38,                         /* 18 mov al, 56 */
        0x0f, 0x05,                         /* 20 syscall */
        0xc3,                               /* 22 ret */
    };
    struct sample s;
    SAMPLE(&s, code, 0, 7, 7, 23);
    run(&s);
    assert_int_equal(s.funcs[0].flags, CT_SCAN_CLONES | CT_SCAN_SYSCALLS);
    assert_int_equal(s.funcs[1].flags, CT_SCAN_SYSCALLS);
    ct_scan_free(&s.scan);
}

static void test_free_twice(void **state) {
    (void)state;
    static const uint8_t code[] = {0xc3};
    struct sample s;
    SAMPLE(&s, code, 0, 1);
    run(&s);
    ct_scan_free(&s.scan);
    assert_null(s.scan.landing);
    ct_scan_free(&s.scan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_flags_are_of_one_function),
        cmocka_unit_test(test_own_branches),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_branches_between_functions),
        cmocka_unit_test(test_code_between_functions),
        cmocka_unit_test(test_data_references),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_many_loops),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_no_functions),
        cmocka_unit_test(test_odd_ranges),
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_clone_behind_the_end),
        cmocka_unit_test(test_clone_by_a_byte),
        cmocka_unit_test(test_free_twice),
    };
    return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
