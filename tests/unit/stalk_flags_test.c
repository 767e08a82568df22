/* SPDX-License-Identifier: Apache-2.0 */
/* Flags that pass a return or an indirect branch: these are cheaper where the code that they lead to overwrites the
 * flags, and must not be where it reads them. Return addresses that are a multiple of 256 KiB apart share a slot of the
 * table of returns. */
#include "stalk_util.h"

enum { SLOT = 1 << 18, SIZE = 4 * SLOT };

/* Places in the code. */
enum {
    SETS_CARRY = 0x100,
    OTHER = 0x10000, /* on a page of its own */
    FORGETS = 0x200,
    READS = FORGETS + SLOT,
    PUSHES = 0x300,
    LANDS = FORGETS + 5 + 2 * SLOT,
    OVERWRITES = 0x400,
    THUNK = 0x500,
    CALLS_ON = 0x600,
    JUMPS = 0x700,
    MANY = 3 * SLOT, /* functions that forget the carry, and then as many that read it */
    COUNT = 4096,
    STEP = 32,
};

static uint8_t *code;

static void put(unsigned at, const void *bytes, unsigned size) {
    memcpy(code + at, bytes, size);
}
#define PUT(at, ...) put(at, (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]){__VA_ARGS__})

static void put_relative(unsigned at, const char *opcode, unsigned size, unsigned target) {
    uint32_t rel = target - (at + size + 4);
    put(at, opcode, size);
    put(at + size, &rel, 4);
}

static void protect(int protection) {
    assert_int_equal(mprotect(code, SIZE, protection), 0);
}

#define READ_CARRY 0x0f, 0x92, 0xc0, 0x0f, 0xb6, 0xc0, 0xc3 /* setc al; movzx eax, al; ret */

static int set_up(void **state) {
    (void)state;
    code = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return -1;
    PUT(SETS_CARRY, 0xf9, 0xc3); /* stc; ret */
    put_relative(FORGETS, "\xe8", 1, SETS_CARRY);
    PUT(FORGETS + 5, 0x31, 0xc0, 0xc3); /* xor eax, eax; ret */
    put_relative(READS, "\xe8", 1, SETS_CARRY);
    PUT(READS + 5, READ_CARRY);
    PUT(LANDS, READ_CARRY);
    put_relative(PUSHES, "\xf9\x48\x8d\x05", 4, LANDS); /* stc; lea rax, LANDS; push rax; ret */
    PUT(PUSHES + 8, 0x50, 0xc3);
    put_relative(OVERWRITES, "\xf9\x48\x8d\x05", 4, LANDS); /* stc; lea rax, LANDS; call THUNK */
    put_relative(OVERWRITES + 8, "\xe8", 1, THUNK);         /* that call never returns */
    PUT(THUNK, 0x48, 0x89, 0x04, 0x24, 0xc3);               /* mov [rsp], rax; ret */
    put_relative(CALLS_ON, "\xe8", 1, SETS_CARRY);          /* call SETS_CARRY; mov edi, eax; call OTHER; ret */
    PUT(CALLS_ON + 5, 0x89, 0xc7);
    put_relative(CALLS_ON + 7, "\xe8", 1, OTHER);
    PUT(CALLS_ON + 12, 0xc3);
    PUT(OTHER, 0x31, 0xc0, 0xc3);
    PUT(JUMPS, 0xf9, 0xff, 0xe7); /* stc; jmp rdi */
    for (unsigned i = 0; i < 2 * COUNT; i++)
        if (i < COUNT)
            PUT(MANY + i * STEP, 0x31, 0xc0, 0xc3);
        else
            PUT(MANY + i * STEP, READ_CARRY);
    protect(PROT_READ | PROT_EXEC);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return munmap(code, SIZE);
}

static int call(unsigned at) {
    return ((int (*)(void))(void *)(code + at))();
}

static struct ct_stalker *begin_with(int inline_entries) {
    struct ct_stalker_options options = {.size = sizeof options, .inline_cache_entries = inline_entries};
    struct ct_stalker *stalker;
    assert_int_equal(ct_stalker_create(&stalker, &options), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    return stalker;
}

static struct ct_stalker *begin(void) {
    return begin_with(0);
}

static void end(struct ct_stalker *stalker) {
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    ct_stalker_destroy(stalker);
}

/* Calls the code with a slot that another return address has taken, and later by turns. */
static int wrong_carries(unsigned at) {
    int wrong = 0;
    struct ct_stalker *stalker = begin();
    for (int i = 0; i < 10; i++)
        wrong += call(FORGETS) != 0;
    for (int i = 0; i < 10; i++) {
        wrong += call(at) != 1;
        wrong += call(FORGETS) != 0;
    }
    end(stalker);
    return wrong;
}

static void test_read_after_return(void **state) {
    (void)state;
    assert_int_equal(wrong_carries(READS), 0);
}

static void test_pushed_address(void **state) {
    (void)state;
    assert_int_equal(wrong_carries(PUSHES), 0);
}

static void test_overwritten_address(void **state) {
    (void)state;
    assert_int_equal(wrong_carries(OVERWRITES), 0);
}

/* The code after the call does not touch flags, but the function that it calls next does: that one changes. */
static void test_changed_later(void **state) {
    (void)state;
    int before = 0, after = 0;
    struct ct_stalker *stalker = begin();
    for (int i = 0; i < 5; i++)
        before += call(CALLS_ON);
    if (mprotect(code + OTHER, 4096, PROT_READ | PROT_WRITE) == 0) {
        PUT(OTHER, READ_CARRY);
        mprotect(code + OTHER, 4096, PROT_READ | PROT_EXEC);
    }
    for (int i = 0; i < 5; i++)
        after += call(CALLS_ON);
    end(stalker);
    assert_int_equal(before, 0);
    assert_int_equal(after, 5);
}

static int jump(unsigned i) {
    return ((int (*)(void *))(void *)(code + JUMPS))(code + MANY + i * STEP);
}

/* The inline cache knows functions that do not need the flags; then one comes that does. */
static void test_cached_branch(void **state) {
    (void)state;
    int wrong = 0;
    struct ct_stalker *stalker = begin();
    for (int i = 0; i < 10; i++)
        wrong += jump(0) != 0 || jump(1) != 0;
    for (int i = 0; i < 10; i++)
        wrong += jump(COUNT) != 1 || jump(1) != 0;
    end(stalker);
    assert_int_equal(wrong, 0);
}

/* The same for the table: many slots are taken, and some of the new functions share them. */
static void test_branch_by_table(void **state) {
    (void)state;
    int wrong = 0;
    struct ct_stalker *stalker = begin_with(-1);
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < COUNT; i++)
            wrong += jump(i) != 0;
    for (unsigned i = 0; i < COUNT; i++)
        wrong += jump(COUNT + i) != 1;
    end(stalker);
    assert_int_equal(wrong, 0);
}

/* What a return costs is not measured here; but nearly all of them must not need the engine. */
static void test_returns_are_found(void **state) {
    (void)state;
    struct ct_stalker_statistics first = {.size = sizeof first}, last = first;
    struct ct_stalker *stalker = begin();
    for (int i = 0; i < 10; i++)
        (void)call(FORGETS);
    ct_stalker_statistics(stalker, &first);
    for (int i = 0; i < 1000; i++)
        (void)call(FORGETS);
    ct_stalker_statistics(stalker, &last);
    end(stalker);
    assert_true(last.lookups - first.lookups < 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read_after_return, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pushed_address, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_overwritten_address, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cached_branch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_branch_by_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_returns_are_found, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
