/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that stay without a stub's address after an exception has landed above them: each still returns through its
 * stub, and a throw takes as many steps as it has frames. */
#include "shadow_util.h"
#include "hook/stacks.h"

#define SLOT(i) HOME(30000 - 8 * (i)) /* of frame i, from the outermost on */

/* Our contexts are what an unwinder's would be asked for. */
static uint64_t land_at(void *context) {
    return (uint64_t)context;
}

static void call_frames(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; i++)
        assert_non_null(fake_call(&f, i % HOOK_COUNT, SLOT(i)));
}

static void return_frames(unsigned from, unsigned to) {
    for (unsigned i = to; i-- > from;)
        fake_return_fully(&f, SLOT(i));
}

static bool is_hooked(unsigned i) {
    return *word_at(SLOT(i)) == resume_of(&f, i % HOOK_COUNT);
}

/* An unwinder that frame `from` calls looks at the stack, and lands in frame `to`. */
static void land(unsigned from, unsigned to) {
    uint64_t walker = SLOT(from) - 32;
    f.runtime.get_cfa = land_at;
    ct_walk_begin(f.block, walker, CT_ATTENTION_UNWIND);
    for (unsigned i = 0; i <= to; i++)
        assert_int_equal(*word_at(SLOT(i)), real_return(SLOT(i)));
    ct_walk_land(f.block, walker - 32, (void *)(SLOT(to) - 16));
}

/* The landing pad calls something: frames below are gone. */
static void go_on(unsigned at) {
    ct_walk_end(f.block, SLOT(at) - 24);
}

/* ---- the tests ---- */

static uint64_t steps_of_a_throw(unsigned frames) {
    call_frames(0, frames);
    uint64_t before = f.block->stacks->steps;
    for (unsigned i = frames - 1; i > 0; i--) {
        land(i, i - 1);
        go_on(i - 1);
    }
    uint64_t steps = f.block->stacks->steps - before;
    return_frames(0, 1);
    expect_empty();
    return steps;
}

static void test_story(void **state) {
    (void)state;
    call_frames(0, 4);
    land(3, 1);
    go_on(1);
    return_frames(0, 2);
    expect_story("C0 C1 C2 C3 X3 X2 R1 R0");
    expect_empty();
}

static void test_linear(void **state) {
    (void)state;
    (void)steps_of_a_throw(10); /* what is only done once */
    uint64_t few = steps_of_a_throw(100), many = steps_of_a_throw(800);
    assert_true(many < 12 * few);
    assert_int_equal(f.block->counters->left_frames, 9 + 99 + 799);
}

static void test_all_return(void **state) {
    (void)state;
    for (unsigned landing = 1; landing < 200; landing += 7) {
        call_frames(0, 200);
        land(199, landing);
        assert_true(is_hooked(landing));
        go_on(landing);
        return_frames(0, landing + 1);
        expect_empty();
    }
}

/* The newest frames only, and more of them whenever the innermost one would be without. */
static void test_few_are_hooked(void **state) {
    (void)state;
    call_frames(0, 500);
    land(499, 400);
    go_on(400);
    assert_true(is_hooked(400) && is_hooked(399) && !is_hooked(0) && !is_hooked(300));
    for (unsigned i = 401; i-- > 0;) {
        assert_true(is_hooked(i));
        fake_return_fully(&f, SLOT(i));
    }
    assert_null(f.block->bare);
    expect_empty();
}

/* Frames that are pushed afterwards are exposed for the next unwinder, and so are those never hooked again. */
static void test_again(void **state) {
    (void)state;
    call_frames(0, 300);
    land(299, 200);
    go_on(200);
    call_frames(201, 260);
    land(259, 100);
    go_on(100);
    call_frames(101, 110);
    land(109, 105);
    go_on(105);
    return_frames(0, 106);
    expect_empty();
}

/* A jump over frames that are bare. */
static void test_jump(void **state) {
    (void)state;
    call_frames(0, 300);
    land(299, 250);
    go_on(250);
    ct_shadow_prune(f.block, SLOT(100) - 16);
    assert_true(is_hooked(100));
    call_frames(101, 150);
    return_frames(0, 150);
    expect_empty();
}

/* A jump that nobody has seen: a call shows it. */
static void test_unseen_jump(void **state) {
    (void)state;
    call_frames(0, 300);
    land(299, 250);
    go_on(250);
    call_frames(101, 150); /* frame 100 goes on */
    assert_true(is_hooked(100));
    land(149, 120);
    go_on(120);
    return_frames(0, 121);
    expect_empty();
}

/* Another stack: entries move, so no frame stays bare. */
static void test_another_stack(void **state) {
    (void)state;
    call_frames(0, 300);
    land(299, 250);
    go_on(250);
    assert_non_null(f.block->bare);
    fake_call(&f, 60, HIGH(900));
    assert_null(f.block->bare);
    for (unsigned i = 0; i <= 250; i++)
        assert_true(is_hooked(i));
    fake_call(&f, 61, HIGH(800));
    fake_return_fully(&f, HIGH(800));
    fake_return_fully(&f, HIGH(900));
    return_frames(0, 251);
    expect_empty();
}

/* A handler's stack, while a walk goes on: what the walk looks at stays as it is. */
static void test_another_stack_in_a_walk(void **state) {
    (void)state;
    call_frames(0, 300);
    land(299, 250);
    go_on(250);
    f.runtime.get_cfa = land_at;
    ct_walk_begin(f.block, SLOT(250) - 32, CT_ATTENTION_UNWIND);
    fake_call(&f, 60, HIGH(900));
    for (unsigned i = 0; i <= 250; i++)
        assert_int_equal(*word_at(SLOT(i)), real_return(SLOT(i)));
    fake_return_fully(&f, HIGH(900));
    ct_walk_land(f.block, SLOT(250) - 64, (void *)(SLOT(200) - 16));
    go_on(200);
    return_frames(0, 201);
    expect_empty();
}

/* A chain of tail calls where the bare frames begin. */
static void test_chain(void **state) {
    (void)state;
    for (unsigned place = 80; place < 100; place++) {
        call_frames(0, place);
        fake_call(&f, 1, SLOT(place));
        for (unsigned i = 2; i < 6; i++)
            fake_tail_call(&f, i, SLOT(place));
        call_frames(place + 1, 120);
        land(119, 99);
        go_on(99);
        return_frames(0, 100);
        expect_empty();
    }
}

/* The last one: from here on no system call is made. None is needed to hook a frame of the thread's own stack again. */
static void test_silent(void **state) {
    (void)state;
    call_frames(0, 300);
    land(299, 250);
    go_on(250);
    ct_os_go_silent();
    for (unsigned i = 251; i-- > 0;) {
        assert_true(is_hooked(i));
        fake_return_fully(&f, SLOT(i));
    }
    expect_empty();
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
    const struct CMUnitTest tests[] = {
        TEST(test_story),
        TEST(test_linear),
        TEST(test_all_return),
        TEST(test_few_are_hooked),
        TEST(test_again),
        TEST(test_jump),
        TEST(test_unseen_jump),
        TEST(test_another_stack),
        TEST(test_another_stack_in_a_walk),
        TEST(test_chain),
        cmocka_unit_test_setup(test_silent, start)}; /* its end would need system calls */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
