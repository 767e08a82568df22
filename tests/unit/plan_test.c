/* SPDX-License-Identifier: Apache-2.0 */
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

static struct subject subject;

/* ---- the size of the function ---- */

static void test_sizes_with_padding(void **state) {
    (void)state;
    static const uint8_t fillers[] = {INT3, NOP};
    for (unsigned f = 0; f < 2; f++) {
        subject_start(&subject, fillers[f]);
        for (size_t n = 1; n <= 16; n++)
            subject_add_sized(&subject, 32 * n, n);
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

/* Functions side by side, one of them with room after it. */
static void test_sizes_without_padding(void **state) {
    (void)state;
    for (size_t n = 1; n <= 16; n++) {
        subject_start(&subject, INT3);
        size_t index = subject_add_sized(&subject, 64, n);
        subject_add_sized(&subject, 64 + n, 20);
        subject_scan(&subject);
        if (n == 1)
            expect_skip(&subject, index, CT_HOOK_SKIP_TOO_SHORT);
        else
            expect_form(&subject, index, n < 5 ? SHORT : LONG);
        subject_end(&subject);
    }
}

static void test_no_padding_at_all(void **state) {
    (void)state;
    for (size_t n = 1; n <= 4; n++) {
        subject_start(&subject, CODE);
        size_t index = subject_add_sized(&subject, 64, n);
        subject_add_sized(&subject, 64 + n, 20);
        subject_scan(&subject);
        expect_skip(&subject, index, n == 1 ? CT_HOOK_SKIP_TOO_SHORT : CT_HOOK_SKIP_NO_SPRINGBOARD);
        subject_end(&subject);
    }
}

/* Nothing but a landing pad. */
static void test_bare_landing_pad(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    size_t index = ADD(&subject, 64, ENDBR);
    subject_add_sized(&subject, 68, 20);
    subject_scan(&subject);
    expect_skip(&subject, index, CT_HOOK_SKIP_TOO_SHORT);
    subject_end(&subject);
}

/* ---- what is at the entry ---- */

static void test_first_instructions(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    /* mov rax, [rip+0x100]; ret */
    size_t load = ADD(&subject, 0x100, 0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00, RET);
    /* lea rdi, [rip-0x20]; jmp far past it */
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
    size_t target = subject_add_sized(&subject, 0x1e0, 8);
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
    /* branches that end just after the patch */
    expect_form(&subject, branch, LONG);
    expect_form(&subject, counted, LONG);
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
    expect_skip(&subject, bad, CT_HOOK_SKIP_UNDECODABLE);
    expect_skip(&subject, later, CT_HOOK_SKIP_UNDECODABLE);
    expect_skip(&subject, cut, CT_HOOK_SKIP_UNDECODABLE);
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
    expect_skip(&subject, far_call, CT_HOOK_SKIP_UNMOVABLE);
    expect_skip(&subject, narrow, CT_HOOK_SKIP_UNMOVABLE);
    expect_form(&subject, second, SHORT);
    subject_end(&subject);
}

/* A debugger's breakpoint at the entry must stay there; elsewhere an int3 is an instruction like any other. */
static void test_breakpoint(void **state) {
    (void)state;
    subject_start(&subject, NOP);
    size_t first = ADD(&subject, 0x100, INT3, 0x31, 0xc0, 0x31, 0xc9, RET);
    size_t behind_pad = ADD(&subject, 0x140, ENDBR, INT3, 0x31, 0xc0, 0x31, 0xc9, RET);
    size_t later = ADD(&subject, 0x180, 0x31, 0xc0, INT3, 0x31, 0xc9, RET);
    subject_scan(&subject);
    expect_skip(&subject, first, CT_HOOK_SKIP_UNMOVABLE);
    expect_skip(&subject, behind_pad, CT_HOOK_SKIP_UNMOVABLE);
    expect_form(&subject, later, LONG);
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
        enum ct_hook_skip_reason reason = ct_plan_hook(&r, &out, &plan);
        /* the head, 4 or 6 moved bytes and a jump back */
        assert_int_equal(reason, capacity >= CT_STUB_BODY + 2 + 5 ? CT_HOOK_SKIP_NONE : CT_HOOK_SKIP_UNMOVABLE);
        for (size_t i = capacity; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0xaa);
        if (!reason)
            ct_plan_release(&r, &plan);
        else
            assert_int_equal(out.length, 0);
        subject_end(&subject);
    }
}

/* A stub after others in one buffer. */
static void test_buffer_with_contents(void **state) {
    (void)state;
    uint8_t alone[256], behind[256];
    subject_start(&subject, INT3);
    size_t index = ADD(&subject, 0x100, 0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, RET);
    subject_scan(&subject);
    struct ct_plan_request r = subject_request(&subject, index);
    struct ct_plan plan;
    struct ct_code_buf out = {.bytes = alone, .capacity = sizeof alone, .address = STUBS_BASE + 64};
    assert_int_equal(ct_plan_hook(&r, &out, &plan), CT_HOOK_SKIP_NONE);
    ct_plan_release(&r, &plan);
    size_t size = out.length;
    memset(behind, 0xaa, sizeof behind);
    out = (struct ct_code_buf){.bytes = behind, .capacity = sizeof behind, .length = 64, .address = STUBS_BASE};
    assert_int_equal(ct_plan_hook(&r, &out, &plan), CT_HOOK_SKIP_NONE);
    assert_int_equal(plan.stub, STUBS_BASE + 64);
    assert_int_equal(out.length, 64 + size);
    assert_memory_equal(behind + 64, alone, size);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(behind[i], 0xaa);
    ct_plan_release(&r, &plan);
    subject_end(&subject);
}

/* ---- requests ---- */

static void test_actions(void **state) {
    (void)state;
    static const struct {
        enum ct_hook_action action;
        enum ct_special special;
        enum ct_hook_entry_only_reason entry_only;
        uint64_t detour;
    } cases[] = {
        {CT_ACTION_RECORD, CT_SPECIAL_NONE, CT_HOOK_ENTRY_ONLY_NONE, 0},
        {CT_ACTION_RECORD, CT_SPECIAL_NONE, CT_HOOK_ENTRY_ONLY_READS_RETURN, 0},
        {CT_ACTION_RECORD, CT_SPECIAL_JUMP, CT_HOOK_ENTRY_ONLY_JUMPS_AWAY, 0},
        {CT_ACTION_RECORD, CT_SPECIAL_CLONE, CT_HOOK_ENTRY_ONLY_NONE, 0},
        {CT_ACTION_LISTEN, CT_SPECIAL_NONE, CT_HOOK_ENTRY_ONLY_NONE, 0},
        {CT_ACTION_LISTEN, CT_SPECIAL_NONE, CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, 0},
        {CT_ACTION_LISTEN, CT_SPECIAL_JUMP, CT_HOOK_ENTRY_ONLY_JUMPS_AWAY, 0},
        {CT_ACTION_NONE, CT_SPECIAL_JUMP, CT_HOOK_ENTRY_ONLY_JUMPS_AWAY, 0},
        {CT_ACTION_NONE, CT_SPECIAL_NONE, CT_HOOK_ENTRY_ONLY_NONE, 0},
        {CT_ACTION_REPLACE, CT_SPECIAL_NONE, CT_HOOK_ENTRY_ONLY_NONE, TEXT_BASE + 0x123456},
        {CT_ACTION_RECORD, CT_SPECIAL_NONE, CT_HOOK_ENTRY_ONLY_UNWINDER, TEXT_BASE + 0x123456},
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
        assert_int_equal(subject_plan_as(&subject, index, &r), CT_HOOK_SKIP_NONE);
        subject_check(&subject);
        /* the same function for all other actions: only the first word differs */
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
    assert_int_equal(ct_plan_hook(&r, &out, &plan), CT_HOOK_SKIP_NONE);
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
    const uint64_t places[] = {
        c.enter_record,      c.enter_entry,       c.enter_special,           c.enter_listen,
        c.leave_record,      c.leave_listen,      c.enter_record_fast,       c.enter_entry_fast,
        c.leave_record_fast, c.enter_detail_fast, c.enter_entry_detail_fast, c.leave_detail_fast};
    const uint8_t *names[] = {ct_hook_enter_record,
                              ct_hook_enter_entry,
                              ct_hook_enter_special,
                              ct_hook_enter_listen,
                              ct_hook_leave_record,
                              ct_hook_leave_listen,
                              ct_hook_enter_record_fast,
                              ct_hook_enter_entry_fast,
                              ct_hook_leave_record_fast,
                              ct_hook_enter_detail_fast,
                              ct_hook_enter_entry_detail_fast,
                              ct_hook_leave_detail_fast};
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_in_range(places[i], 0x1000, 0x1000 + (uint64_t)(ct_hook_code_end - ct_hook_code) - 1);
        assert_int_equal(places[i] - 0x1000, names[i] - ct_hook_code);
    }
}

/* Where a stub's first call goes. */
static uint64_t enter_of(const struct ct_plan_request *r) {
    struct ct_plan plan;
    uint8_t bytes[256];
    int32_t distance;
    struct ct_code_buf out = {.bytes = bytes, .capacity = sizeof bytes, .address = STUBS_BASE};
    assert_int_equal(ct_plan_hook(r, &out, &plan), CT_HOOK_SKIP_NONE);
    memcpy(&distance, bytes + 1, sizeof distance);
    ct_plan_release(r, &plan);
    return plan.stub + CT_STUB_AFTER_ENTER + (uint64_t)(int64_t)distance;
}

/* With the fast clock, what makes system calls has exact times all the same. */
static void test_fast_clock(void **state) {
    (void)state;
    subject_start(&subject, INT3);
    size_t index = ADD(&subject, 0x100, 0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, RET);
    subject_scan(&subject);
    struct ct_plan_request r = subject_request(&subject, index);
    r.action = CT_ACTION_RECORD;
    assert_int_equal(enter_of(&r), r.shared->enter_record);
    r.fast_clock = true;
    assert_int_equal(enter_of(&r), r.shared->enter_record_fast);
    r.detail = true;
    assert_int_equal(enter_of(&r), r.shared->enter_detail_fast);
    r.scan_flags |= CT_SCAN_SYSCALLS;
    assert_int_equal(enter_of(&r), r.shared->enter_detail);
    subject_end(&subject);
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
    unsigned forms[4] = {0}, skips[CT_HOOK_SKIP_COUNT] = {0}, guests = 0;
    for (uint32_t seed = 1; seed <= 300; seed++) {
        random_state = seed * 2654435761u;
        random_subject();
        for (size_t i = 0; i < subject.scan.func_count; i++) {
            enum ct_hook_skip_reason reason = subject_plan(&subject, i);
            skips[reason]++;
            if (!reason)
                forms[subject_form(&subject, i)]++;
        }
        for (size_t i = 0; i < subject.scan.func_count; i++) /* all hosts are there now */
            if (!subject.hooks[i].planned)
                guests += !subject_plan(&subject, i) && subject.hooks[i].plan.host;
        subject_check(&subject);
        for (size_t i = 0; i < subject.scan.func_count; i++) /* some go, and others may come */
            if (subject.hooks[i].planned && roll(2) && !subject_has_guest(&subject, i))
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
    assert_true(guests > 0);
    assert_true(skips[CT_HOOK_SKIP_TOO_SHORT] && skips[CT_HOOK_SKIP_BRANCH_INTO] && skips[CT_HOOK_SKIP_LOOP_ENTRY]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_with_padding),
        cmocka_unit_test(test_sizes_with_landing_pad),
        cmocka_unit_test(test_sizes_without_padding),
        cmocka_unit_test(test_no_padding_at_all),
        cmocka_unit_test(test_bare_landing_pad),
        cmocka_unit_test(test_first_instructions),
        cmocka_unit_test(test_undecodable),
        cmocka_unit_test(test_unmovable),
        cmocka_unit_test(test_breakpoint),
        cmocka_unit_test(test_call_among_the_first),
        cmocka_unit_test(test_small_buffer),
        cmocka_unit_test(test_buffer_with_contents),
        cmocka_unit_test(test_actions),
        cmocka_unit_test(test_far_detour),
        cmocka_unit_test(test_shared_code),
        cmocka_unit_test(test_fast_clock),
        cmocka_unit_test(test_random_functions),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
