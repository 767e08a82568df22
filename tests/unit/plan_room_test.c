/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of functions that have not enough room for a jump: springboards in padding, loops to the entry, branches into
 * the first bytes, functions that move as a whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan_check.h"

static struct subject subject;

/* ---- springboards ---- */

/* A short function with code on both sides, and 5 bytes of padding whose first byte is `distance` away from the byte
 * after the 2-byte jump. Far below or above there is nothing else. */
static enum ct_hook_skip_reason plan_with_board_at(int distance, uint64_t *board) {
    const size_t function = 0x400, next = function + 2, at = (size_t)((int)next + distance);
    subject_start(&subject, CODE);
    size_t before = 0x200, index;
    if (at < function) { /* a long function in front of the padding, another from it to ours */
        subject_add_sized(&subject, before, 16);
        subject.funcs[0].end = TEXT_BASE + at;
        memset(subject.original + before, CODE, at - before);
        subject.original[at - 1] = RET;
        memset(subject.original + at, INT3, 5);
        subject_add(&subject, at + 5, (const uint8_t[]){RET}, 1);
        subject.funcs[1].end = TEXT_BASE + function;
        subject.original[function - 1] = RET;
        index = ADD(&subject, function, 0x31, 0xc0, RET);
        subject_add_sized(&subject, function + 3, 20);
    } else {
        index = ADD(&subject, function, 0x31, 0xc0, RET);
        size_t behind = subject_add_sized(&subject, function + 3, 20);
        memset(subject.original + function + 3, CODE, at - function - 3);
        subject.original[at - 1] = RET;
        subject.funcs[behind].end = TEXT_BASE + at;
        memset(subject.original + at, INT3, 5);
        subject_add_sized(&subject, at + 5, 16);
    }
    subject_scan(&subject);
    enum ct_hook_skip_reason reason = subject_plan(&subject, index);
    if (!reason) {
        assert_int_equal(subject_form(&subject, index), SHORT);
        *board = subject.hooks[index].plan.patches[0].at;
    }
    subject_end(&subject);
    return reason;
}

static void test_springboard_reach(void **state) {
    (void)state;
    static const int reachable[] = {127, 126, 100, 24, -12, -100, -127, -128};
    static const int not_reachable[] = {128, 129, 200, -129, -130, -200};
    for (size_t i = 0; i < sizeof reachable / sizeof *reachable; i++) {
        uint64_t board = 0;
        assert_int_equal(plan_with_board_at(reachable[i], &board), CT_HOOK_SKIP_NONE);
        assert_int_equal(board, TEXT_BASE + 0x402 + (uint64_t)(int64_t)reachable[i]);
    }
    for (size_t i = 0; i < sizeof not_reachable / sizeof *not_reachable; i++) {
        uint64_t board = 0;
        assert_int_equal(plan_with_board_at(not_reachable[i], &board), CT_HOOK_SKIP_NO_SPRINGBOARD);
    }
}

/* Short functions share the room after them as long as there is some; what one gives back another may have. */
static void test_padding_is_shared(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    size_t shorts[5];
    for (unsigned i = 0; i < 5; i++)
        shorts[i] = ADD(&subject, 0x100 + 3 * i, 0x31, 0xc0, RET); /* xor eax, eax; ret */
    subject_add_sized(&subject, 0x10f, 0x11);
    memset(subject.original + 0x120, NOP, 16); /* three times 5 bytes and one */
    subject_add_sized(&subject, 0x130, 16);
    subject_scan(&subject);
    for (unsigned i = 0; i < 3; i++)
        expect_form(&subject, shorts[i], SHORT);
    assert_int_equal(subject_plan(&subject, shorts[3]), CT_HOOK_SKIP_NO_SPRINGBOARD);
    assert_true(subject_is_taken(&subject, TEXT_BASE + 0x121, TEXT_BASE + 0x122));
    assert_false(subject_is_taken(&subject, TEXT_BASE + 0x120, TEXT_BASE + 0x121));
    subject_revert(&subject, shorts[1]);
    expect_form(&subject, shorts[4], SHORT);
    assert_int_equal(subject_plan(&subject, shorts[3]), CT_HOOK_SKIP_NO_SPRINGBOARD);
    subject_revert(&subject, shorts[4]);
    expect_form(&subject, shorts[3], SHORT);
    subject_end(&subject);
}

/* A springboard leaves so much room after a short function that it can still be patched itself. */
static void test_springboard_leaves_room(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    size_t needy = ADD(&subject, 0x100, 0x31, 0xc0, RET);
    size_t modest = ADD(&subject, 0x103, RET);
    memset(subject.original + 0x104, INT3, 13); /* not a byte more */
    subject_add_sized(&subject, 0x111, 16);
    subject_scan(&subject);
    const struct ct_plan *p = expect_form(&subject, needy, SHORT);
    assert_true(p->patches[0].at >= TEXT_BASE + 0x103 + 9);
    expect_form(&subject, modest, LONG);
    subject_end(&subject);
}

/* And the other way round: a function that has used the padding after it keeps it. */
static void test_taken_padding_is_not_used(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    size_t needy = ADD(&subject, 0x100, 0x31, 0xc0, RET);
    size_t modest = ADD(&subject, 0x103, ENDBR, RET);
    memset(subject.original + 0x108, INT3, 4); /* what the jump needs, not a byte more */
    subject_add_sized(&subject, 0x10c, 16);
    subject_scan(&subject);
    expect_form(&subject, modest, LONG);
    assert_int_equal(subject_plan(&subject, needy), CT_HOOK_SKIP_NO_SPRINGBOARD);
    subject_end(&subject);
}

/* Bytes that something refers to are no padding, nor are zeros, which may be constants. */
static void test_what_is_no_padding(void **state) {
    (void)state;
    for (unsigned variant = 0; variant < 4; variant++) {
        subject_start(&subject, CODE);
        size_t index = ADD(&subject, 0x100, 0x31, 0xc0, RET);
        memset(subject.original + 0x103, variant == 1 ? 0 : NOP, 13);
        subject_add_sized(&subject, 0x110, 16);
        if (variant == 2) /* lea rax, [0x104]; ret */
            ADD(&subject, 0x200, 0x48, 0x8d, 0x05, 0xfd, 0xfe, 0xff, 0xff, RET);
        if (variant == 3) /* jmp 0x104 */
            ADD(&subject, 0x200, 0xe9, 0xff, 0xfe, 0xff, 0xff);
        subject_scan(&subject);
        if (variant == 0)
            expect_form(&subject, index, LONG);
        else
            expect_skip(&subject, index, CT_HOOK_SKIP_NO_SPRINGBOARD);
        subject_end(&subject);
    }
}

/* Multi-byte nops are used up to their end, or not at all. */
static void test_long_nops(void **state) {
    (void)state;
    static const uint8_t nop9[] = {0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0};
    subject_start(&subject, CODE);
    size_t index = ADD(&subject, 0x100, RET);
    memcpy(subject.original + 0x101, nop9, 9);
    subject_add_sized(&subject, 0x10a, 16);
    size_t cut = ADD(&subject, 0x200, RET);
    memcpy(subject.original + 0x201, nop9, 9);
    subject_add_sized(&subject, 0x205, 16); /* begins inside it */
    subject_scan(&subject);
    expect_form(&subject, index, LONG);
    assert_int_equal(subject_plan(&subject, cut), CT_HOOK_SKIP_TOO_SHORT);
    subject_end(&subject);
}

/* ---- branches to the entry ---- */

/* dec edi; jne entry; mov eax, esi; xor ecx, ecx; ret */
#define SHORT_LOOP 0xff, 0xcf, 0x89, 0xf0, 0x31, 0xc9, 0x75, 0xf8, 0x31, 0xd2, RET

static void test_near_loop(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    /* dec edi; mov eax, esi; xor ecx, ecx; jne entry (rel32); jmp entry (rel32); ret */
    size_t index = ADD(&subject, 0x100, 0xff, 0xcf, 0x89, 0xf0, 0x31, 0xc9, 0x0f, 0x85, 0xf4, 0xff, 0xff, 0xff, 0xe9,
                       0xef, 0xff, 0xff, 0xff, RET);
    subject_add_sized(&subject, 0x112, 16);
    subject_scan(&subject);
    const struct ct_plan *p = expect_form(&subject, index, LONG);
    assert_int_equal(p->patch_count, 3);
    subject_end(&subject);
}

static void test_short_loop_over_springboard(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    size_t index = ADD(&subject, 0x100, SHORT_LOOP);
    subject_scan(&subject);
    const struct ct_plan *p = expect_form(&subject, index, LONG);
    assert_int_equal(p->patch_count, 3); /* entry, springboard, the branch itself */
    subject_end(&subject);
}

static void test_short_loop_over_second_jump(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    /* 12 bytes, then the loop: the two jumps take 10 */
    size_t index =
        ADD(&subject, 0x100, 0xff, 0xcf, 0x89, 0xf0, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xc9, 0x85, 0xff, 0x75, 0xf2, RET);
    subject_add_sized(&subject, 0x10f, 16);
    subject_scan(&subject);
    const struct ct_plan *p = expect_form(&subject, index, TWO_JUMPS);
    assert_int_equal(p->patch_count, 2);
    assert_int_equal(subject_follow(&subject, p->place + 5), p->body);
    subject_end(&subject);
}

/* A loop that is over before the patch ends is part of the body. */
static void test_loop_inside_the_body(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    size_t index = ADD(&subject, 0x100, 0xff, 0xcf, 0x75, 0xfc, 0x31, 0xc0, 0x31, 0xc9, RET); /* dec edi; jne entry */
    subject_add_sized(&subject, 0x109, 16);
    size_t counted = ADD(&subject, 0x200, 0xe2, 0xfe, 0x31, 0xc0, 0x31, 0xc9, RET); /* loop to itself */
    subject_add_sized(&subject, 0x207, 16);
    subject_scan(&subject);
    assert_int_equal(expect_form(&subject, index, LONG)->patch_count, 1);
    assert_int_equal(expect_form(&subject, counted, LONG)->patch_count, 1);
    subject_end(&subject);
}

static void test_loop_behind_landing_pad(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    /* endbr64; dec edi; mov eax, esi; xor ecx, ecx; jne to after the pad; ret */
    size_t index = ADD(&subject, 0x100, ENDBR, 0xff, 0xcf, 0x89, 0xf0, 0x31, 0xc9, 0x75, 0xf8, RET);
    /* the same to the pad itself */
    size_t pad = ADD(&subject, 0x140, ENDBR, 0xff, 0xcf, 0x89, 0xf0, 0x31, 0xc9, 0x75, 0xf4, RET);
    subject_scan(&subject);
    expect_form(&subject, index, LONG);
    expect_form(&subject, pad, LONG);
    subject_end(&subject);
}

/* A short function whose loop needs a springboard of its own. */
static void test_short_function_with_loop(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    /* xor eax, eax; ret; jmp entry: 5 bytes, but somebody returns to the third */
    size_t index = ADD(&subject, 0x100, 0x31, 0xc0, RET, 0xeb, 0xfb);
    subject_add_sized(&subject, 0x105, 16);
    ADD(&subject, 0x200, 0xe8, 0xfd, 0xfe, 0xff, 0xff, RET); /* call 0x102 */
    memset(subject.original + 0x115, INT3, 16);
    subject_scan(&subject);
    const struct ct_plan *p = expect_form(&subject, index, SHORT);
    assert_int_equal(p->patch_count, 4); /* two springboards, the entry, the branch */
    subject_end(&subject);
}

/* As many branches to the entry as there are places for patches, one that moves with a longer patch, and too many. */
static void test_many_loops(void **state) {
    (void)state;
    for (unsigned loops = 1; loops <= CT_PATCHES_MAX + 1; loops++) {
        uint8_t code[128] = {0x31, 0xd2, 0x31, 0xc0, 0x31, 0xc9};
        size_t size = 6;
        for (unsigned i = 0; i < loops; i++, size += 6) {
            int32_t back = -(int32_t)(size + 6);
            code[size] = 0x0f, code[size + 1] = 0x85;
            memcpy(code + size + 2, &back, 4);
        }
        code[size++] = 0xff, code[size++] = 0xd0; /* a call: not all of the function can move */
        code[size++] = RET;
        subject_start(&subject, INT3);
        size_t index = subject_add(&subject, 0x100, code, size);
        subject_scan(&subject);
        assert_int_equal(subject.scan.loop_count, loops);
        if (loops < CT_PATCHES_MAX)
            assert_int_equal(expect_form(&subject, index, LONG)->patch_count, loops + 1);
        else if (loops == CT_PATCHES_MAX)
            assert_int_equal(expect_form(&subject, index, TWO_JUMPS)->patch_count, CT_PATCHES_MAX);
        else
            expect_skip(&subject, index, CT_HOOK_SKIP_LOOP_ENTRY);
        subject_end(&subject);
    }
}

/* ---- branches into the first bytes ---- */

static void test_branch_into_the_patch(void **state) {
    (void)state;
    for (size_t landing = 1; landing < 8; landing++) {
        uint8_t code[24];
        memset(code, 0xf8, sizeof code); /* clc */
        code[20] = 0x75, code[21] = (uint8_t)((int)landing - 22);
        code[22] = RET;
        subject_start(&subject, CODE);
        size_t index = subject_add(&subject, 0x100, code, 23);
        subject_add_sized(&subject, 0x117, 16);
        subject_scan(&subject);
        expect_form(&subject, index, landing < 5 ? WHOLE : LONG); /* nowhere a springboard */
        subject_end(&subject);
        subject_start(&subject, INT3);
        index = subject_add(&subject, 0x100, code, 23);
        subject_scan(&subject);
        expect_form(&subject, index, landing == 1 ? WHOLE : landing < 5 ? SHORT : LONG);
        subject_end(&subject);
    }
}

/* What others know of cannot move. */
static void test_foreign_branch_into_the_patch(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    size_t index = subject_add_sized(&subject, 0x100, 23);
    ADD(&subject, 0x200, 0xe9, 0xfe, 0xfe, 0xff, 0xff); /* jmp 0x103 */
    subject_scan(&subject);
    expect_skip(&subject, index, CT_HOOK_SKIP_NO_SPRINGBOARD);
    subject_end(&subject);
}

static void test_whole_function_sizes(void **state) {
    (void)state;
    /* mov eax, imm32 as filling: few instructions in many bytes */
    for (size_t size = 15; size <= 300; size += 5) {
        uint8_t code[320];
        for (size_t i = 0; i < size; i += 5)
            memcpy(code + i, (const uint8_t[]){0xb8, 1, 0, 0, 0}, 5);
        memset(code, 0xf8, 5); /* clc */
        int32_t back = 3 - (int32_t)size;
        memcpy(code + size - 6, (const uint8_t[]){0x0f, 0x85}, 2);
        memcpy(code + size - 4, &back, 4); /* jne to offset 3 */
        memset(code + size - 10, 0xf8, 4);
        code[size] = RET;
        subject_start(&subject, CODE);
        size_t index = subject_add(&subject, 0x100, code, size + 1);
        subject_add_sized(&subject, 0x100 + size + 1, 16);
        subject_scan(&subject);
        if (size + 1 <= 256)
            expect_form(&subject, index, WHOLE);
        else
            expect_skip(&subject, index, CT_HOOK_SKIP_NO_SPRINGBOARD);
        subject_end(&subject);
    }
}

/* More instructions than the relocator takes at once. */
static void test_whole_function_too_many(void **state) {
    (void)state;
    uint8_t code[128];
    for (size_t count = 63; count <= 65; count++) {
        memset(code, 0xf8, sizeof code);
        size_t size = count - 2; /* one-byte instructions before the branch */
        code[size] = 0x75, code[size + 1] = (uint8_t)(3 - (int)(size + 2));
        code[size + 2] = RET;
        subject_start(&subject, CODE);
        size_t index = subject_add(&subject, 0x100, code, size + 3);
        subject_add_sized(&subject, 0x100 + size + 3, 16);
        subject_scan(&subject);
        if (count <= 64)
            expect_form(&subject, index, WHOLE);
        else
            expect_skip(&subject, index, CT_HOOK_SKIP_NO_SPRINGBOARD);
        subject_end(&subject);
    }
}

/* A loop to the entry that can be redirected by none of the other ways. */
static void test_whole_function_with_loop(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    /* dec edi; xor...; jne entry; ret, with a branch into bytes 5 to 9 that forbids the second jump */
    size_t index = ADD(&subject, 0x100, SHORT_LOOP, 0x75, 0xf9, RET);
    subject_add_sized(&subject, 0x10e, 16);
    subject_scan(&subject);
    const struct ct_plan *p = expect_form(&subject, index, WHOLE);
    assert_int_equal(p->patch_count, 1);
    subject_end(&subject);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_springboard_reach),
        cmocka_unit_test(test_padding_is_shared),
        cmocka_unit_test(test_springboard_leaves_room),
        cmocka_unit_test(test_taken_padding_is_not_used),
        cmocka_unit_test(test_what_is_no_padding),
        cmocka_unit_test(test_long_nops),
        cmocka_unit_test(test_near_loop),
        cmocka_unit_test(test_short_loop_over_springboard),
        cmocka_unit_test(test_short_loop_over_second_jump),
        cmocka_unit_test(test_loop_inside_the_body),
        cmocka_unit_test(test_loop_behind_landing_pad),
        cmocka_unit_test(test_short_function_with_loop),
        cmocka_unit_test(test_many_loops),
        cmocka_unit_test(test_branch_into_the_patch),
        cmocka_unit_test(test_foreign_branch_into_the_patch),
        cmocka_unit_test(test_whole_function_sizes),
        cmocka_unit_test(test_whole_function_too_many),
        cmocka_unit_test(test_whole_function_with_loop),
    };
    return cmocka_run_group_tests_name("plan_room", tests, NULL, NULL);
}
