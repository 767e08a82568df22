/* SPDX-License-Identifier: Apache-2.0 */
/* Plans on arm64: what a patch and a stub are made of. That they work is shown by running them (tests/e2e). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "hook/plan.h"
#include "hook/stub.h"
#include "isa/a64/encode.h"
#include "scan_util.h"

enum {
    RET = 0xd65f03c0u,
    NOP = 0xd503201fu,
    BTI_C = 0xd503245fu,
    PACIASP = 0xd503233fu,
    AUTIASP = 0xd50323bfu,
    MOV_X16_LR = 0xaa1e03f0u,
    PUSH = 0xa9be7bfdu, /* stp x29, x30, [sp, #-32]! */
};

#define NEAR_STUBS (BASE - (1u << 20))
#define FAR_STUBS  (BASE - (1u << 28))

struct planned {
    struct sample sample;
    struct ct_shared_code shared;
    struct ct_plan_request request;
    struct ct_plan plan;
    uint8_t bytes[CT_STUB_MAX] __attribute__((aligned(8)));
    size_t length;
    uint64_t at;
};

static enum ct_hook_skip_reason plan_words(struct planned *p, const uint32_t *words, size_t count, uint64_t stubs) {
    memset(p, 0, sizeof *p);
    make_sample(&p->sample, BASE, (const uint8_t *)words, count * 4, (const int[]){0, (int)(count * 4), -1});
    run(&p->sample);
    ct_shared_code_at(&p->shared, stubs);
    p->at = stubs + 0x10000;
    p->request = (struct ct_plan_request){.scan = &p->sample.scan,
                                          .shared = &p->shared,
                                          .function = BASE,
                                          .end = BASE + count * 4,
                                          .scan_flags = p->sample.funcs[0].flags,
                                          .number = 77,
                                          .action = CT_ACTION_RECORD};
    struct ct_code_buf out = {.bytes = p->bytes, .capacity = sizeof p->bytes, .address = p->at};
    enum ct_hook_skip_reason reason = ct_plan_hook(&p->request, &out, &p->plan);
    p->length = out.length;
    ct_scan_free(&p->sample.scan);
    return reason;
}
#define PLAN(p, stubs, ...) plan_words(p, (const uint32_t[]){__VA_ARGS__}, sizeof(uint32_t[]){__VA_ARGS__} / 4, stubs)

static uint32_t stub_word(const struct planned *p, uint64_t at) {
    return ct_a64_word(p->bytes + (at - p->at));
}

static uint64_t target_of(uint32_t word, uint64_t at) {
    struct ct_a64_insn insn;
    assert_int_equal(ct_a64_decode(word, &insn), 0);
    return ct_a64_target(&insn, at);
}

static bool read_stub(void *arg, uint64_t at, void *to, size_t size) {
    const struct planned *p = arg;
    if (at < p->at || at + size > p->at + p->length)
        return false;
    memcpy(to, p->bytes + (at - p->at), size);
    return true;
}

static void test_stub(void **state) {
    static struct planned p;
    (void)state;
    assert_int_equal(PLAN(&p, NEAR_STUBS, PUSH, NOP, RET), CT_HOOK_SKIP_NONE);
    uint64_t stub = p.plan.stub;
    assert_int_equal(p.plan.patch_count, 1);
    assert_int_equal(p.plan.patches[0].size, 4);
    assert_int_equal(p.plan.patches[0].at, BASE);
    assert_int_equal(target_of(ct_a64_word(p.plan.patches[0].bytes), BASE), stub - 4);
    assert_int_equal(stub & 7, 0);
    assert_int_equal(stub_word(&p, stub - 4), MOV_X16_LR);
    assert_int_equal(target_of(stub_word(&p, stub), stub), p.shared.enter_record);
    assert_int_equal(target_of(stub_word(&p, stub + 4), stub + 4), stub + CT_STUB_BODY);
    assert_int_equal(target_of(stub_word(&p, stub + 8), stub + 8), stub + CT_STUB_AFTER_ENTER);
    assert_int_equal(target_of(stub_word(&p, stub + 12), stub + 12), p.shared.leave_record);
    assert_int_equal(stub_word(&p, stub + CT_STUB_NUMBER), 77);
    assert_int_equal(stub_word(&p, p.plan.body), PUSH);
    assert_int_equal(target_of(stub_word(&p, p.plan.body + 4), p.plan.body + 4), BASE + 4);
    assert_true(ct_stub_is_at(read_stub, &p, stub));
    assert_int_equal(ct_stub_around(read_stub, &p, p.plan.body), stub);
    assert_int_equal(ct_stub_original(read_stub, &p, stub, p.plan.body), 0);
    assert_int_equal(ct_stub_copy(read_stub, &p, stub, 4), p.plan.body + 4);
}

/* Threads may run through the change: only one branch differs. */
static void test_switching(void **state) {
    static struct planned p;
    (void)state;
    assert_int_equal(PLAN(&p, NEAR_STUBS, PUSH, RET), CT_HOOK_SKIP_NONE);
    assert_int_equal(p.plan.word_on >> 32, p.plan.word_off >> 32);
    assert_int_equal((uint32_t)p.plan.word_on & 0xfc000000u, 0x94000000u);
    assert_int_equal((uint32_t)p.plan.word_off & 0xfc000000u, 0x14000000u);
    assert_int_equal(target_of((uint32_t)p.plan.word_off, p.plan.stub), p.plan.body);
}

static void test_pads_stay(void **state) {
    static struct planned p;
    (void)state;
    assert_int_equal(PLAN(&p, NEAR_STUBS, BTI_C, PUSH, RET), CT_HOOK_SKIP_NONE);
    assert_int_equal(p.plan.patches[0].at, BASE + 4);
    assert_int_equal(target_of(ct_a64_word(p.plan.patches[0].bytes), BASE + 4), p.plan.stub - 4);
    assert_int_equal(stub_word(&p, p.plan.body), PUSH);

    /* a signed address is made plain before the stub, and signed again by the body */
    assert_int_equal(PLAN(&p, NEAR_STUBS, PACIASP, PUSH, RET), CT_HOOK_SKIP_NONE);
    assert_int_equal(p.plan.patches[0].at, BASE + 4);
    assert_int_equal(target_of(ct_a64_word(p.plan.patches[0].bytes), BASE + 4), p.plan.stub - 8);
    assert_int_equal(stub_word(&p, p.plan.stub - 8), AUTIASP);
    assert_int_equal(stub_word(&p, p.plan.body), PACIASP);
    assert_int_equal(stub_word(&p, p.plan.body + 4), PUSH);
    assert_int_equal(p.plan.signs, CT_SIGNS_A);
}

static void test_far_stub(void **state) {
    static struct planned p;
    (void)state;
    assert_int_equal(PLAN(&p, FAR_STUBS, PUSH, NOP, NOP, RET), CT_HOOK_SKIP_NONE);
    assert_int_equal(p.plan.patches[0].size, 12);
    assert_int_equal(ct_plan_moved(&p.plan, BASE + 8, false), p.plan.body + p.plan.move_to[2]);
    assert_int_equal(ct_plan_moved(&p.plan, BASE, false), 0);
    assert_int_equal(PLAN(&p, FAR_STUBS, PUSH, RET), CT_HOOK_SKIP_TOO_SHORT);
    assert_int_equal(PLAN(&p, FAR_STUBS, PUSH, NOP, NOP, 0x54ffffe1u, RET), CT_HOOK_SKIP_BRANCH_INTO); /* b.ne -4 */
}

static void test_loops(void **state) {
    static struct planned p;
    (void)state;
    /* b to the entry goes to the body instead; b.ne does not reach it */
    assert_int_equal(PLAN(&p, NEAR_STUBS, NOP, 0xb4000040u, 0x17fffffeu, RET), CT_HOOK_SKIP_NONE);
    assert_int_equal(p.plan.patch_count, 2);
    assert_int_equal(target_of(ct_a64_word(p.plan.patches[1].bytes), BASE + 8), p.plan.body);
    assert_int_equal(PLAN(&p, NEAR_STUBS, NOP, 0x54ffffe1u, RET), CT_HOOK_SKIP_LOOP_ENTRY);
}

static void test_short_functions(void **state) {
    static struct planned p;
    (void)state;
    assert_int_equal(PLAN(&p, NEAR_STUBS, RET), CT_HOOK_SKIP_NONE);
    assert_int_equal(stub_word(&p, p.plan.body), RET);
    assert_int_equal(PLAN(&p, NEAR_STUBS, BTI_C), CT_HOOK_SKIP_TOO_SHORT);
    assert_int_equal(PLAN(&p, NEAR_STUBS, 0xd4200000u, RET), CT_HOOK_SKIP_UNMOVABLE); /* a debugger's brk */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stub),     cmocka_unit_test(test_switching), cmocka_unit_test(test_pads_stay),
        cmocka_unit_test(test_far_stub), cmocka_unit_test(test_loops),     cmocka_unit_test(test_short_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
