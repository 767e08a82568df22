/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of short functions without padding in reach: their springboards are in the bytes of hooked neighbours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "plan_check.h"
#include "hook/springboard.h"

#define BEFORE    0x300u /* where the long neighbour is */
#define LONG_SIZE 24u

static struct subject subject;
static size_t neighbour, leaf;

/* A long function, a leaf of n bytes right after it, and code without a function around them. */
static void start_pair(const uint8_t *code, size_t size, size_t n) {
    subject_start(&subject, CODE);
    neighbour = subject_add(&subject, BEFORE, code, size);
    leaf = subject_add_sized(&subject, BEFORE + size, n);
}

/* mov ecx, imm32 until the return. */
static const uint8_t *long_code(void) {
    static uint8_t code[LONG_SIZE];
    for (size_t at = 0; at < LONG_SIZE; at++)
        code[at] = at % 5 ? 0 : 0xb9;
    memset(code + LONG_SIZE - 4, 0xf8, 3); /* clc */
    code[LONG_SIZE - 1] = RET;
    return code;
}

static const struct ct_plan *plan_of(size_t index) {
    return &subject.hooks[index].plan;
}

/* ---- what works ---- */

static void test_leaf_sizes(void **state) {
    (void)state;
    for (size_t n = 2; n <= 4; n++) {
        start_pair(long_code(), LONG_SIZE, n);
        subject_scan(&subject);
        assert_int_equal(subject_plan(&subject, leaf), CT_HOOK_SKIP_NO_SPRINGBOARD);
        expect_form(&subject, neighbour, LONG);
        assert_int_equal(plan_of(neighbour)->room, 10);
        const struct ct_plan *p = expect_form(&subject, leaf, SHORT);
        assert_int_equal(p->host, TEXT_BASE + BEFORE);
        assert_int_equal(p->patches[0].at, TEXT_BASE + BEFORE + 5);
        subject_end(&subject);
    }
}

/* The neighbour comes after the leaf, and begins with a landing pad, which stays. */
static void test_host_after_with_landing_pad(void **state) {
    (void)state;
    subject_start(&subject, CODE);
    leaf = subject_add_sized(&subject, BEFORE, 3);
    /* endbr64; sub rsp, 8; mov eax, 1; xor ecx, ecx; add rsp, 8; ret */
    neighbour =
        ADD(&subject, BEFORE + 3, ENDBR, 0x48, 0x83, 0xec, 8, 0xb8, 1, 0, 0, 0, 0x31, 0xc9, 0x48, 0x83, 0xc4, 8, RET);
    subject_scan(&subject);
    const struct ct_plan *host = expect_form(&subject, neighbour, LONG);
    assert_int_equal(host->place, TEXT_BASE + BEFORE + 7);
    assert_int_equal(host->room, 11); /* whole instructions */
    assert_int_equal(expect_form(&subject, leaf, SHORT)->host, TEXT_BASE + BEFORE + 3);
    subject_end(&subject);
}

/* A neighbour of functions that need nothing moves no more than its jump needs. */
static void test_no_room_without_need(void **state) {
    (void)state;
    start_pair(long_code(), LONG_SIZE, 5);
    subject_scan(&subject);
    expect_form(&subject, neighbour, LONG);
    assert_int_equal(plan_of(neighbour)->room, 0);
    expect_form(&subject, leaf, LONG);
    subject_end(&subject);
}

/* Four leaves and room for three; what one gives back another may have. */
static void test_room_is_shared(void **state) {
    (void)state;
    size_t leaves[4];
    start_pair(long_code(), LONG_SIZE, 4);
    leaves[0] = leaf;
    for (unsigned i = 1; i < 4; i++)
        leaves[i] = subject_add_sized(&subject, BEFORE + LONG_SIZE + 4 * i, 4);
    subject_scan(&subject);
    expect_form(&subject, neighbour, LONG);
    assert_int_equal(plan_of(neighbour)->room, 20);
    for (unsigned i = 0; i < 3; i++)
        expect_form(&subject, leaves[i], SHORT);
    assert_int_equal(subject_plan(&subject, leaves[3]), CT_HOOK_SKIP_NO_SPRINGBOARD);
    subject_revert(&subject, leaves[1]);
    expect_form(&subject, leaves[3], SHORT);
    subject_end(&subject);
}

/* The short jump reaches 127 bytes forward and 128 back. */
static void test_reach(void **state) {
    (void)state;
    for (int distance = -140; distance <= 140; distance++) {
        const size_t function = 0x400, board = (size_t)((int)function + 2 + distance), host = board - 5;
        if (host < function + 2 && host + LONG_SIZE > function)
            continue;
        subject_start(&subject, CODE);
        if (host < function)
            neighbour = subject_add(&subject, host, long_code(), LONG_SIZE);
        leaf = subject_add_sized(&subject, function, 2);
        if (host > function)
            neighbour = subject_add(&subject, host, long_code(), LONG_SIZE);
        subject_scan(&subject);
        struct ct_plan_request request = subject_request(&subject, neighbour);
        request.boards = 1;
        assert_int_equal(subject_plan_as(&subject, neighbour, &request), CT_HOOK_SKIP_NONE);
        bool reached = distance >= -128 && distance <= 127;
        assert_int_equal(
            ct_springboards_may_host(&subject.scan, neighbour, TEXT_BASE + function, TEXT_BASE + function + 2),
            reached);
        assert_int_equal(subject_plan(&subject, leaf), reached ? CT_HOOK_SKIP_NONE : CT_HOOK_SKIP_NO_SPRINGBOARD);
        subject_check(&subject);
        subject_end(&subject);
    }
}

/* A host that is planned again over its own bytes has as much room as before; released, it has none. */
static void test_release(void **state) {
    (void)state;
    start_pair(long_code(), LONG_SIZE, 4);
    subject_scan(&subject);
    expect_form(&subject, neighbour, LONG);
    unsigned room = plan_of(neighbour)->room;
    subject_revert(&subject, neighbour);
    assert_int_equal(subject_plan(&subject, leaf), CT_HOOK_SKIP_NO_SPRINGBOARD);
    struct ct_plan_request request = subject_request(&subject, neighbour);
    request.action = CT_ACTION_PASS;
    request.boards = 1;
    assert_int_equal(subject_plan_as(&subject, neighbour, &request), CT_HOOK_SKIP_NONE);
    assert_int_equal(plan_of(neighbour)->room, room);
    expect_form(&subject, leaf, SHORT);
    subject_end(&subject);
}

/* ---- what must be refused ---- */

static void expect_no_room(const uint8_t *code, size_t size) {
    start_pair(code, size, 4);
    subject_scan(&subject);
    assert_int_equal(subject_plan(&subject, neighbour), CT_HOOK_SKIP_NONE);
    assert_int_equal(plan_of(neighbour)->room, 0);
    assert_int_equal(subject_plan(&subject, leaf), CT_HOOK_SKIP_NO_SPRINGBOARD);
    subject_check(&subject);
    subject_end(&subject);
}

/* Something comes to the bytes, or reads them. */
static void test_bytes_that_are_not_free(void **state) {
    (void)state;
    uint8_t code[64];
    memcpy(code, long_code(), LONG_SIZE);
    memset(code, 0xf8, LONG_SIZE - 1);
    for (size_t landing = 5; landing < 10; landing++) { /* a branch from further down */
        memcpy(code + 20, (const uint8_t[]){0x75, (uint8_t)((int)landing - 22), 0xf8, RET}, 4);
        expect_no_room(code, LONG_SIZE);
    }
    /* mov eax, 1; call rax: it returns to byte 7 */
    expect_no_room((const uint8_t[]){0xb8, 1, 0, 0, 0, 0xff, 0xd0, 0xb8, 1, 0, 0, 0, 0xb8, 1, 0, 0, 0, RET}, 18);
    /* mov eax, 1; mov ecx, [its own last 4 bytes] */
    expect_no_room((const uint8_t[]){0xb8, 1, 0, 0, 0, 0x8b, 0x0d, 0xfc, 0xff, 0xff, 0xff, 0xb8, 1, 0, 0, 0, RET}, 17);
    /* mov eax, 1; ret; what is there may be data */
    expect_no_room((const uint8_t[]){0xb8, 1, 0, 0, 0, RET, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, RET}, 13);
    /* mov eax, 1; syscall */
    expect_no_room((const uint8_t[]){0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xb8, 1, 0, 0, 0, 0xb8, 1, 0, 0, 0, RET}, 18);
    /* a breakpoint */
    expect_no_room((const uint8_t[]){0xb8, 1, 0, 0, 0, 0xf8, INT3, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, RET}, 13);
    /* a jump to a place that is not known */
    expect_no_room((const uint8_t[]){0xb8, 1, 0, 0, 0, 0xb9, 1, 0, 0, 0, 0xb9, 1, 0, 0, 0, 0xff, 0xe0}, 17);
}

/* Other functions know a place in the bytes. */
static void test_foreign_landing(void **state) {
    (void)state;
    start_pair(long_code(), LONG_SIZE, 4);
    int32_t to = (int32_t)(BEFORE + 7) - (int32_t)(0x500 + 5);
    uint8_t jump[5] = {0xe9};
    memcpy(jump + 1, &to, 4);
    subject_add(&subject, 0x500, jump, sizeof jump);
    subject_scan(&subject);
    expect_form(&subject, neighbour, LONG);
    assert_int_equal(plan_of(neighbour)->room, 0);
    assert_int_equal(subject_plan(&subject, leaf), CT_HOOK_SKIP_NO_SPRINGBOARD);
    subject_end(&subject);
}

/* The function itself has no room for a short jump. */
static void test_exact_reasons(void **state) {
    (void)state;
    start_pair(long_code(), LONG_SIZE, 1);
    /* nop; dec edi; jne to its second byte */
    size_t landed = ADD(&subject, BEFORE + LONG_SIZE + 1, NOP, 0xff, 0xcf, 0x75, 0xfc);
    size_t after = subject_add_sized(&subject, BEFORE + LONG_SIZE + 6, 8);
    subject_scan(&subject);
    struct ct_plan_request request = subject_request(&subject, neighbour);
    request.boards = 1;
    assert_int_equal(subject_plan_as(&subject, neighbour, &request), CT_HOOK_SKIP_NONE);
    assert_int_equal(subject_plan(&subject, leaf), CT_HOOK_SKIP_TOO_SHORT);
    assert_int_equal(subject_plan(&subject, landed), CT_HOOK_SKIP_BRANCH_INTO);
    assert_int_equal(subject_plan(&subject, after), CT_HOOK_SKIP_NONE);
    subject_check(&subject);
    subject_end(&subject);
}

/* The engine's own hooks are removed last, and must not need a host. */
static void test_services_have_no_host(void **state) {
    (void)state;
    start_pair(long_code(), LONG_SIZE, 4);
    subject_scan(&subject);
    expect_form(&subject, neighbour, LONG);
    struct ct_plan_request request = subject_request(&subject, leaf);
    request.special = CT_SPECIAL_LOADED;
    assert_int_equal(subject_plan_as(&subject, leaf, &request), CT_HOOK_SKIP_NO_SPRINGBOARD);
    subject_end(&subject);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaf_sizes),
        cmocka_unit_test(test_host_after_with_landing_pad),
        cmocka_unit_test(test_no_room_without_need),
        cmocka_unit_test(test_room_is_shared),
        cmocka_unit_test(test_reach),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_bytes_that_are_not_free),
        cmocka_unit_test(test_foreign_landing),
        cmocka_unit_test(test_exact_reasons),
        cmocka_unit_test(test_services_have_no_host),
    };
    return cmocka_run_group_tests_name("plan_host", tests, NULL, NULL);
}
