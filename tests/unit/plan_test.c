/* Plans of hooks: for every shape of function the way that is taken, and that patches and stub are right. What "right"
 * means is in plan_check.c, which reads everything back with Zydis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan_check.h"

#define INT3  0xcc
#define NOP   0x90
#define RET   0xc3
#define ENDBR 0xf3, 0x0f, 0x1e, 0xfa
/* A filler that is no padding: push rax. */
#define CODE 0x50

static struct subject subject;

/* ---- how the entry was patched ---- */

enum form { LONG, SHORT, TWO_JUMPS, WHOLE };

static const struct ct_patch *entry_patch(const struct ct_plan *p) {
    for (unsigned i = 0; i < p->patch_count; i++)
        if (p->patches[i].at == p->place)
            return &p->patches[i];
    fail_msg("no patch at the entry");
    return NULL;
}

static enum form form_of(const struct subject *s, size_t index) {
    const struct ct_plan *p = &s->hooks[index].plan;
    const struct ct_patch *entry = entry_patch(p);
    if (p->whole)
        return WHOLE;
    return entry->size == 2 ? SHORT : entry->size == 5 ? LONG : TWO_JUMPS;
}

/* Plans the function and expects this form. */
static const struct ct_plan *expect_form(struct subject *s, size_t index, enum form form) {
    assert_int_equal(subject_plan(s, index), CT_SKIP_NONE);
    assert_int_equal(form_of(s, index), form);
    subject_check(s);
    return &s->hooks[index].plan;
}

static void expect_skip(struct subject *s, size_t index, enum ct_skip_reason reason) {
    assert_int_equal(subject_plan(s, index), reason);
    assert_false(subject_is_taken(s, TEXT_BASE, TEXT_BASE + TEXT_SIZE));
}

/* n - 1 one-byte instructions and a return. */
static size_t add_sized(struct subject *s, size_t offset, size_t n) {
    uint8_t code[64];
    memset(code, 0xf8, sizeof code); /* clc */
    code[n - 1] = RET;
    return subject_add(s, offset, code, n);
}

/* ---- the size of the function ---- */

static void test_sizes_with_padding(void **state) {
    (void)state;
    static const uint8_t fillers[] = {INT3, NOP};
    for (unsigned f = 0; f < 2; f++) {
        subject_start(&subject, fillers[f]);
        for (size_t n = 1; n <= 16; n++)
            add_sized(&subject, 32 * n, n);
        subject_scan(&subject);
        for (size_t n = 1; n <= 16; n++) {
            const struct ct_plan *p = expect_form(&subject, n - 1, LONG);
            assert_int_equal(p->patch_count, 1);
            assert_int_equal(p->place, p->function);
            assert_int_equal(p->move_count, n < 5 ? n : 5);
            uint64_t end = p->function + n;
            assert_true(n >= 5 || subject_is_taken(&subject, end, end + 1));
            assert_false(subject_is_taken(&subject, n < 5 ? p->function + 5 : end, p->function + 24));
        }
        subject_end(&subject);
    }
}

static void test_sizes_with_landing_pad(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    for (size_t n = 1; n <= 12; n++) {
        uint8_t code[16] = {ENDBR};
        memset(code + 4, 0xf8, sizeof code - 4);
        code[4 + n - 1] = RET;
        subject_add(&subject, 32 * n, code, 4 + n);
    }
    subject_scan(&subject);
    for (size_t n = 1; n <= 12; n++) {
        const struct ct_plan *p = expect_form(&subject, n - 1, LONG);
        assert_int_equal(p->place, p->function + 4); /* the landing pad stays the first instruction */
    }
    subject_end(&subject);
}

/* Functions side by side, one of them with room behind it. */
static void test_sizes_without_padding(void **state) {
    (void)state;
    for (size_t n = 1; n <= 16; n++) {
        subject_start(&subject, INT3);
        size_t index = add_sized(&subject, 64, n);
        add_sized(&subject, 64 + n, 20);
        subject_scan(&subject);
        if (n == 1)
            expect_skip(&subject, index, CT_SKIP_TOO_SHORT);
        else
            expect_form(&subject, index, n < 5 ? SHORT : LONG);
        subject_end(&subject);
    }
}

static void test_no_padding_at_all(void **state) {
    (void)state;
    for (size_t n = 1; n <= 4; n++) {
        subject_start(&subject, CODE);
        size_t index = add_sized(&subject, 64, n);
        add_sized(&subject, 64 + n, 20);
        subject_scan(&subject);
        expect_skip(&subject, index, CT_SKIP_TOO_SHORT);
        subject_end(&subject);
    }
}

/* Nothing but a landing pad. */
static void test_bare_landing_pad(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    size_t index = ADD(&subject, 64, ENDBR);
    add_sized(&subject, 68, 20);
    subject_scan(&subject);
    expect_skip(&subject, index, CT_SKIP_TOO_SHORT);
    subject_end(&subject);
}

/* ---- what stands at the entry ---- */

static void test_first_instructions(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    /* mov rax, [rip+0x100]; ret */
    size_t load = ADD(&subject, 0x100, 0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00, RET);
    /* lea rdi, [rip-0x20]; jmp far behind */
    size_t lea = ADD(&subject, 0x120, 0x48, 0x8d, 0x3d, 0xe0, 0xff, 0xff, 0xff, 0xe9, 0x00, 0x01, 0x00, 0x00);
    /* call; add rsp, 8; ret */
    size_t call = ADD(&subject, 0x140, 0xe8, 0x9b, 0x00, 0x00, 0x00, 0x48, 0x83, 0xc4, 0x08, RET);
    /* jmp rel32: a thunk */
    size_t thunk = ADD(&subject, 0x160, 0xe9, 0x7b, 0x00, 0x00, 0x00);
    /* jmp rel8: a thunk of two bytes */
    size_t short_thunk = ADD(&subject, 0x180, 0xeb, 0x5e);
    /* test edi, edi; je rel8 forward; ret; ret */
    size_t branch = ADD(&subject, 0x1a0, 0x85, 0xff, 0x74, 0x01, RET, RET);
    /* jrcxz forward; mov eax, edi; ret; ret */
    size_t counted = ADD(&subject, 0x1c0, 0xe3, 0x03, 0x89, 0xf8, RET, RET);
    size_t target = add_sized(&subject, 0x1e0, 8);
    /* call [rip+0x10]; ret */
    size_t indirect = ADD(&subject, 0x200, 0xff, 0x15, 0x10, 0x00, 0x00, 0x00, RET);
    /* jmp [rip+0x10] */
    size_t import = ADD(&subject, 0x220, 0xff, 0x25, 0x10, 0x00, 0x00, 0x00);
    /* movaps xmm0, [rip+0x20]; vmovups ymm1, [rip+0x20]; ret */
    size_t vector = ADD(&subject, 0x240, 0x0f, 0x28, 0x05, 0x20, 0x00, 0x00, 0x00, 0xc5, 0xfc, 0x10, 0x0d, 0x20, 0x00,
                        0x00, 0x00, RET);
    /* mov eax, 39; syscall; ret */
    size_t system = ADD(&subject, 0x260, 0xb8, 0x27, 0x00, 0x00, 0x00, 0x0f, 0x05, RET);
    subject_scan(&subject);
    expect_form(&subject, load, LONG);
    expect_form(&subject, lea, LONG);
    expect_form(&subject, call, LONG);
    expect_form(&subject, thunk, LONG);
    expect_form(&subject, short_thunk, LONG);
    expect_form(&subject, target, LONG);
    expect_form(&subject, indirect, LONG);
    expect_form(&subject, import, LONG);
    expect_form(&subject, vector, LONG);
    expect_form(&subject, system, LONG);
    /* their own branches lead into bytes 1 to 4 */
    assert_int_equal(subject_plan(&subject, branch), CT_SKIP_NONE);
    assert_int_equal(form_of(&subject, branch), LONG);
    assert_int_equal(subject_plan(&subject, counted), CT_SKIP_NONE);
    subject_check(&subject);
    subject_end(&subject);
}

/* ---- springboards ---- */

/* A short function with code on both sides, and 5 bytes of padding whose first byte is `distance` away from the byte
 * behind the 2-byte jump. Far below or above there is nothing else. */
static enum ct_skip_reason plan_with_board_at(int distance, uint64_t *board) {
    const size_t function = 0x400, next = function + 2, at = (size_t)((int)next + distance);
    subject_start(&subject, CODE);
    size_t before = 0x200, index;
    if (at < function) { /* a long function in front of the padding, another from it to ours */
        add_sized(&subject, before, 16);
        subject.funcs[0].end = TEXT_BASE + at;
        memset(subject.original + before, CODE, at - before);
        memset(subject.original + at, INT3, 5);
        subject_add(&subject, at + 5, (const uint8_t[]){RET}, 1);
        subject.funcs[1].end = TEXT_BASE + function;
        index = ADD(&subject, function, 0x31, 0xc0, RET);
        add_sized(&subject, function + 3, 20);
    } else {
        index = ADD(&subject, function, 0x31, 0xc0, RET);
        size_t behind = add_sized(&subject, function + 3, 20);
        memset(subject.original + function + 3, CODE, at - function - 3);
        subject.funcs[behind].end = TEXT_BASE + at;
        memset(subject.original + at, INT3, 5);
        add_sized(&subject, at + 5, 16);
    }
    subject_scan(&subject);
    enum ct_skip_reason reason = subject_plan(&subject, index);
    if (!reason) {
        assert_int_equal(form_of(&subject, index), SHORT);
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
        assert_int_equal(plan_with_board_at(reachable[i], &board), CT_SKIP_NONE);
        assert_int_equal(board, TEXT_BASE + 0x402 + (uint64_t)(int64_t)reachable[i]);
    }
    for (size_t i = 0; i < sizeof not_reachable / sizeof *not_reachable; i++) {
        uint64_t board = 0;
        assert_int_equal(plan_with_board_at(not_reachable[i], &board), CT_SKIP_TOO_SHORT);
    }
}

/* Short functions share the room behind them as long as there is some; what one gives back another may have. */
static void test_padding_is_shared(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    size_t shorts[5];
    for (unsigned i = 0; i < 5; i++)
        shorts[i] = ADD(&subject, 0x100 + 3 * i, 0x31, 0xc0, RET); /* xor eax, eax; ret */
    add_sized(&subject, 0x10f, 0x11);
    memset(subject.original + 0x120, NOP, 16); /* three times 5 bytes and one */
    add_sized(&subject, 0x130, 16);
    subject_scan(&subject);
    for (unsigned i = 0; i < 3; i++)
        expect_form(&subject, shorts[i], SHORT);
    assert_int_equal(subject_plan(&subject, shorts[3]), CT_SKIP_TOO_SHORT);
    assert_true(subject_is_taken(&subject, TEXT_BASE + 0x121, TEXT_BASE + 0x122));
    assert_false(subject_is_taken(&subject, TEXT_BASE + 0x120, TEXT_BASE + 0x121));
    subject_revert(&subject, shorts[1]);
    expect_form(&subject, shorts[4], SHORT);
    assert_int_equal(subject_plan(&subject, shorts[3]), CT_SKIP_TOO_SHORT);
    subject_revert(&subject, shorts[4]);
    expect_form(&subject, shorts[3], SHORT);
    subject_end(&subject);
}

/* A springboard leaves so much room behind a short function that it can still be patched itself. */
static void test_springboard_leaves_room(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    size_t needy = ADD(&subject, 0x100, 0x31, 0xc0, RET);
    size_t modest = ADD(&subject, 0x103, RET);
    memset(subject.original + 0x104, INT3, 13); /* not a byte more */
    add_sized(&subject, 0x111, 16);
    subject_scan(&subject);
    const struct ct_plan *p = expect_form(&subject, needy, SHORT);
    assert_true(p->patches[0].at >= TEXT_BASE + 0x103 + 9);
    expect_form(&subject, modest, LONG);
    subject_end(&subject);
}

/* And the other way round: who has used the padding behind him keeps it. */
static void test_taken_padding_is_not_used(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    size_t needy = ADD(&subject, 0x100, 0x31, 0xc0, RET);
    size_t modest = ADD(&subject, 0x103, ENDBR, RET);
    memset(subject.original + 0x108, INT3, 4); /* what the jump needs, not a byte more */
    add_sized(&subject, 0x10c, 16);
    subject_scan(&subject);
    expect_form(&subject, modest, LONG);
    assert_int_equal(subject_plan(&subject, needy), CT_SKIP_TOO_SHORT);
    subject_end(&subject);
}

/* Bytes that something refers to are no padding, nor are zeros, which may be constants. */
static void test_what_is_no_padding(void **state) {
    (void)state;
    for (unsigned variant = 0; variant < 4; variant++) {
        subject_start(&subject, CODE);
        size_t index = ADD(&subject, 0x100, 0x31, 0xc0, RET);
        memset(subject.original + 0x103, variant == 1 ? 0 : NOP, 13);
        add_sized(&subject, 0x110, 16);
        if (variant == 2) /* lea rax, [0x104]; ret */
            ADD(&subject, 0x200, 0x48, 0x8d, 0x05, 0xfd, 0xfe, 0xff, 0xff, RET);
        if (variant == 3) /* jmp 0x104 */
            ADD(&subject, 0x200, 0xe9, 0xff, 0xfe, 0xff, 0xff);
        subject_scan(&subject);
        if (variant == 0)
            expect_form(&subject, index, LONG);
        else
            expect_skip(&subject, index, CT_SKIP_TOO_SHORT);
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
    add_sized(&subject, 0x10a, 16);
    size_t cut = ADD(&subject, 0x200, RET);
    memcpy(subject.original + 0x201, nop9, 9);
    add_sized(&subject, 0x205, 16); /* begins inside it */
    subject_scan(&subject);
    expect_form(&subject, index, LONG);
    assert_int_equal(subject_plan(&subject, cut), CT_SKIP_TOO_SHORT);
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
    add_sized(&subject, 0x112, 16);
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
    add_sized(&subject, 0x10f, 16);
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
    add_sized(&subject, 0x109, 16);
    size_t counted = ADD(&subject, 0x200, 0xe2, 0xfe, 0x31, 0xc0, 0x31, 0xc9, RET); /* loop to itself */
    add_sized(&subject, 0x207, 16);
    subject_scan(&subject);
    assert_int_equal(expect_form(&subject, index, LONG)->patch_count, 1);
    assert_int_equal(expect_form(&subject, counted, LONG)->patch_count, 1);
    subject_end(&subject);
}

static void test_loop_behind_landing_pad(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    /* endbr64; dec edi; mov eax, esi; xor ecx, ecx; jne behind the pad; ret */
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
    add_sized(&subject, 0x105, 16);
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
            expect_skip(&subject, index, CT_SKIP_LOOP_ENTRY);
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
        add_sized(&subject, 0x117, 16);
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
    size_t index = add_sized(&subject, 0x100, 23);
    ADD(&subject, 0x200, 0xe9, 0xfe, 0xfe, 0xff, 0xff); /* jmp 0x103 */
    subject_scan(&subject);
    expect_skip(&subject, index, CT_SKIP_BRANCH_INTO);
    subject_end(&subject);
}

static void test_whole_function_sizes(void **state) {
    (void)state;
    /* mov eax, imm32 as filling: few instructions in many bytes */
    for (size_t size = 16; size <= 300; size += 5) {
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
        add_sized(&subject, 0x100 + size + 1, 16);
        subject_scan(&subject);
        if (size + 1 <= 256)
            expect_form(&subject, index, WHOLE);
        else
            expect_skip(&subject, index, CT_SKIP_BRANCH_INTO);
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
        add_sized(&subject, 0x100 + size + 3, 16);
        subject_scan(&subject);
        if (count <= 64)
            expect_form(&subject, index, WHOLE);
        else
            expect_skip(&subject, index, CT_SKIP_BRANCH_INTO);
        subject_end(&subject);
    }
}

/* A loop to the entry that can be redirected by none of the other ways. */
static void test_whole_function_with_loop(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    /* dec edi; xor...; jne entry; ret, with a branch into bytes 5 to 9 that forbids the second jump */
    size_t index = ADD(&subject, 0x100, SHORT_LOOP, 0x75, 0xf9);
    add_sized(&subject, 0x10d, 16);
    subject_scan(&subject);
    const struct ct_plan *p = expect_form(&subject, index, WHOLE);
    assert_int_equal(p->patch_count, 1);
    subject_end(&subject);
}

/* ---- what cannot be moved ---- */

static void test_undecodable(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    size_t bad = ADD(&subject, 0x100, 0x06, 0x06, 0x06, 0x06, 0x06, RET);
    size_t later = ADD(&subject, 0x140, 0x31, 0xc0, 0x06, 0x06, 0x06, RET);
    size_t cut = ADD(&subject, 0x180, 0x31, 0xc0, 0x48, 0xb8, 0x00, 0x00);
    size_t behind = ADD(&subject, 0x1c0, 0x31, 0xc0, 0x31, 0xc9, RET, 0x06);
    subject_scan(&subject);
    expect_skip(&subject, bad, CT_SKIP_UNDECODABLE);
    expect_skip(&subject, later, CT_SKIP_UNDECODABLE);
    expect_skip(&subject, cut, CT_SKIP_UNDECODABLE);
    expect_form(&subject, behind, LONG); /* what does not move need not be understood */
    subject_end(&subject);
}

static void test_unmovable(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    size_t far_call = ADD(&subject, 0x100, 0xff, 0x18, 0x31, 0xc0, 0x31, 0xc9, RET); /* call far [rax] */
    size_t narrow = ADD(&subject, 0x140, 0x66, 0xe9, 0x00, 0x00, 0x00, 0x00, RET);   /* jmp, of whose CPU? */
    /* xor eax, eax; call far [rax]: what moves for a short jump is harmless */
    size_t second = ADD(&subject, 0x180, 0x31, 0xc0, 0xff, 0x18, 0x31, 0xc9, RET);
    subject_scan(&subject);
    expect_skip(&subject, far_call, CT_SKIP_UNMOVABLE);
    expect_skip(&subject, narrow, CT_SKIP_UNMOVABLE);
    expect_form(&subject, second, SHORT);
    subject_end(&subject);
}

/* A call that is not the last of the moved instructions would return into the patch. */
static void test_call_among_the_first(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    size_t first = ADD(&subject, 0x100, 0xff, 0xd0, 0x31, 0xc0, 0x31, 0xc9, RET); /* call rax; ... */
    size_t third =
        ADD(&subject, 0x140, 0x50, 0x50, 0xff, 0xd0, 0x59, 0x59, 0x59, RET); /* push; push; call rax; pop ... */
    size_t fits = ADD(&subject, 0x180, 0x50, 0x50, 0x50, 0xff, 0xd0, 0x59, 0x59, 0x59, RET);
    subject_scan(&subject);
    expect_form(&subject, first, SHORT);
    expect_form(&subject, third, SHORT);
    expect_form(&subject, fits, LONG);
    subject_end(&subject);
}

/* ---- the buffer ---- */

static void test_small_buffer(void **state) {
    (void)state;
    uint8_t bytes[64];
    for (size_t capacity = 0; capacity < sizeof bytes; capacity++) {
        subject_start(&subject, INT3);
        size_t index = ADD(&subject, 0x100, 0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, RET);
        subject_scan(&subject);
        struct ct_plan_request r = subject_request(&subject, index);
        struct ct_plan plan;
        memset(bytes, 0xaa, sizeof bytes);
        struct ct_code_buf out = {.bytes = bytes, .capacity = capacity, .address = STUBS_BASE};
        enum ct_skip_reason reason = ct_plan_hook(&r, &out, &plan);
        /* the head, 4 or 6 moved bytes and a jump back */
        assert_int_equal(reason, capacity >= CT_STUB_BODY + 2 + 5 ? CT_SKIP_NONE : CT_SKIP_UNMOVABLE);
        for (size_t i = capacity; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0xaa);
        if (!reason)
            ct_plan_release(&r, &plan);
        else
            assert_int_equal(out.length, 0);
        subject_end(&subject);
    }
}

/* ---- requests ---- */

static void test_actions(void **state) {
    (void)state;
    static const struct {
        enum ct_hook_action action;
        enum ct_special special;
        enum ct_entry_only_reason entry_only;
        uint64_t detour;
    } cases[] = {
        {CT_ACTION_RECORD, CT_SPECIAL_NONE, CT_ENTRY_ONLY_NONE, 0},
        {CT_ACTION_RECORD, CT_SPECIAL_NONE, CT_ENTRY_ONLY_READS_RETURN, 0},
        {CT_ACTION_RECORD, CT_SPECIAL_JUMP, CT_ENTRY_ONLY_JUMPS_AWAY, 0},
        {CT_ACTION_RECORD, CT_SPECIAL_CLONE, CT_ENTRY_ONLY_NONE, 0},
        {CT_ACTION_LISTEN, CT_SPECIAL_NONE, CT_ENTRY_ONLY_NONE, 0},
        {CT_ACTION_LISTEN, CT_SPECIAL_NONE, CT_ENTRY_ONLY_RETURNS_TWICE, 0},
        {CT_ACTION_LISTEN, CT_SPECIAL_JUMP, CT_ENTRY_ONLY_JUMPS_AWAY, 0},
        {CT_ACTION_NONE, CT_SPECIAL_JUMP, CT_ENTRY_ONLY_JUMPS_AWAY, 0},
        {CT_ACTION_NONE, CT_SPECIAL_NONE, CT_ENTRY_ONLY_NONE, 0},
        {CT_ACTION_REPLACE, CT_SPECIAL_NONE, CT_ENTRY_ONLY_NONE, TEXT_BASE + 0x123456},
        {CT_ACTION_RECORD, CT_SPECIAL_NONE, CT_ENTRY_ONLY_UNWINDER, TEXT_BASE + 0x123456},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        subject_start(&subject, INT3);
        size_t index = ADD(&subject, 0x100, 0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, RET);
        subject_scan(&subject);
        struct ct_plan_request r = subject_request(&subject, index);
        r.action = cases[i].action;
        r.special = cases[i].special;
        r.entry_only = cases[i].entry_only;
        r.detour = cases[i].detour;
        assert_int_equal(subject_plan_as(&subject, index, &r), CT_SKIP_NONE);
        subject_check(&subject);
        /* the same function for all other actions: only the first word tells them apart */
        struct ct_plan *p = &subject.hooks[index].plan;
        assert_int_equal(ct_plan_word(&r, p), p->word_on);
        r.action = r.action == CT_ACTION_LISTEN ? CT_ACTION_RECORD : CT_ACTION_LISTEN;
        assert_int_not_equal(ct_plan_word(&r, p), p->word_on);
        subject_end(&subject);
    }
}

/* A detour may be anywhere. */
static void test_far_detour(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    size_t index = ADD(&subject, 0x100, 0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, RET);
    subject_scan(&subject);
    struct ct_plan_request r = subject_request(&subject, index);
    r.action = CT_ACTION_REPLACE;
    r.detour = 0x1234;
    struct ct_plan plan;
    uint8_t bytes[256];
    struct ct_code_buf out = {.bytes = bytes, .capacity = sizeof bytes, .address = STUBS_BASE};
    assert_int_equal(ct_plan_hook(&r, &out, &plan), CT_SKIP_NONE);
    assert_int_equal(plan.body, plan.stub + CT_STUB_BODY + 14); /* jmp [rip+0] and 8 bytes */
    uint64_t target;
    memcpy(&target, bytes + CT_STUB_BODY + 6, 8);
    assert_int_equal(target, 0x1234);
    ct_plan_release(&r, &plan);
    subject_end(&subject);
}

static void test_shared_code(void **state) {
    (void)state;
    struct ct_shared_code c;
    ct_shared_code_at(&c, 0x1000);
    const uint64_t places[] = {c.enter_record, c.enter_entry,  c.enter_special,
                               c.enter_listen, c.leave_record, c.leave_listen};
    const uint8_t *names[] = {ct_hook_enter_record, ct_hook_enter_entry,  ct_hook_enter_special,
                              ct_hook_enter_listen, ct_hook_leave_record, ct_hook_leave_listen};
    for (unsigned i = 0; i < 6; i++) {
        assert_in_range(places[i], 0x1000, 0x1000 + (uint64_t)(ct_hook_code_end - ct_hook_code) - 1);
        assert_int_equal(places[i] - 0x1000, names[i] - ct_hook_code);
    }
}

/* ---- many functions at random ---- */

static uint32_t random_state;

static uint32_t roll(uint32_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % n;
}

/* Small instructions, branches to any of the function's instructions, calls; a return or a jump at the end. */
static size_t random_function(uint8_t *code, size_t offset, const size_t *entries, size_t entry_count) {
    static const uint8_t plain[][7] = {{1, 0xf8},
                                       {1, 0x50},
                                       {2, 0x31, 0xc0},
                                       {2, 0x89, 0xf8},
                                       {3, 0x48, 0x89, 0xf8},
                                       {4, 0x48, 0x83, 0xec, 0x08},
                                       {5, 0xb8, 1, 0, 0, 0},
                                       {6, 0x8b, 0x05, 1, 2, 0, 0}};
    size_t starts[32], count = 0, size = 0, wanted = roll(12);
    if (roll(4) == 0) {
        memcpy(code, (const uint8_t[]){ENDBR}, 4);
        size = 4;
    }
    while (count < wanted) {
        starts[count++] = size;
        uint32_t kind = roll(12);
        size_t target = starts[roll((uint32_t)count)];
        if (kind < 2) { /* jcc back, short or near */
            int32_t back = (int32_t)target - (int32_t)(size + (kind ? 6 : 2));
            code[size++] = kind ? 0x0f : 0x75;
            code[size++] = kind ? 0x85 : (uint8_t)back;
            memcpy(code + size, &back, 4);
            size += kind ? 4 : 0;
        } else if (kind == 2) {
            code[size++] = 0xff, code[size++] = 0xd0; /* call rax */
        } else if (kind == 3 && entry_count) {
            int32_t to = (int32_t)entries[roll((uint32_t)entry_count)] - (int32_t)(offset + size + 5);
            code[size++] = 0xe8;
            memcpy(code + size, &to, 4);
            size += 4;
        } else {
            const uint8_t *p = plain[kind % 8];
            memcpy(code + size, p + 1, p[0]);
            size += p[0];
        }
    }
    code[size++] = RET;
    return size;
}

static void random_subject(void) {
    size_t offset = 64, entries[MAX_FUNCS], count = 0;
    subject_start(&subject, roll(2) ? INT3 : NOP);
    while (count < 60) {
        uint8_t code[256];
        size_t size = random_function(code, offset, entries, count);
        subject_add(&subject, offset, code, size);
        entries[count++] = offset;
        offset += size + (roll(3) ? 0 : roll(24));
    }
    subject_scan(&subject);
}

static void test_random_functions(void **state) {
    (void)state;
    unsigned forms[4] = {0}, skips[CT_SKIP_COUNT] = {0};
    for (uint32_t seed = 1; seed <= 300; seed++) {
        random_state = seed * 2654435761u;
        random_subject();
        for (size_t i = 0; i < subject.scan.func_count; i++) {
            enum ct_skip_reason reason = subject_plan(&subject, i);
            skips[reason]++;
            if (!reason)
                forms[form_of(&subject, i)]++;
        }
        subject_check(&subject);
        for (size_t i = 0; i < subject.scan.func_count; i++) /* some go, and others may come */
            if (subject.hooks[i].planned && roll(2))
                subject_revert(&subject, i);
        subject_check(&subject);
        for (size_t i = subject.scan.func_count; i-- > 0;)
            if (!subject.hooks[i].planned)
                (void)subject_plan(&subject, i);
        subject_check(&subject);
        subject_end(&subject);
    }
    for (unsigned f = 0; f < 4; f++)
        assert_true(forms[f] > 0);
    assert_true(skips[CT_SKIP_TOO_SHORT] && skips[CT_SKIP_BRANCH_INTO] && skips[CT_SKIP_LOOP_ENTRY]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_with_padding),
        cmocka_unit_test(test_sizes_with_landing_pad),
        cmocka_unit_test(test_sizes_without_padding),
        cmocka_unit_test(test_no_padding_at_all),
        cmocka_unit_test(test_bare_landing_pad),
        cmocka_unit_test(test_first_instructions),
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
        cmocka_unit_test(test_undecodable),
        cmocka_unit_test(test_unmovable),
        cmocka_unit_test(test_call_among_the_first),
        cmocka_unit_test(test_small_buffer),
        cmocka_unit_test(test_actions),
        cmocka_unit_test(test_far_detour),
        cmocka_unit_test(test_shared_code),
        cmocka_unit_test(test_random_functions),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
