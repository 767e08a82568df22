/* SPDX-License-Identifier: Apache-2.0 */
/* Shadow stacks: calls and returns that pair, frames that are left, tail calls, unwinders. On memory that only looks
 * like stacks, with stubs that are only bytes; what is recorded shows what happened. */
#include "shadow_util.h"

/* ---- ordinary calls ---- */

static void test_nesting(void **state) {
    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        f.block->top->data = 99; /* from earlier use */
        struct ct_shadow *e = fake_call(&f, i, HOME(1000 - 10 * i));
        assert_int_equal(ct_shadow_depth(f.block, e), i);
        assert_int_equal(e->slot, HOME(1000 - 10 * i));
        assert_int_equal(e->ret, real_return(e->slot));
        assert_int_equal(e->stub, stub_of(&f, i));
        assert_int_equal(e->data, 0);
        assert_int_equal(ct_shadow_number(e), i);
        assert_int_equal(ct_shadow_resume(e), resume_of(&f, i));
        assert_int_equal(entries_in_use(f.block), i + 1);
    }
    for (unsigned i = 50; i-- > 0;) {
        struct ct_shadow found;
        uint32_t depth;
        assert_true(ct_shadow_leave(f.block, HOME(1000 - 10 * i), *(uint64_t *)HOME(1000 - 10 * i), &found, &depth));
        assert_int_equal(depth, i);
        assert_int_equal(found.ret, real_return(HOME(1000 - 10 * i)));
        check_free_entries(f.block);
    }
    expect_empty();
    assert_int_equal(f.block->counters->left_frames, 0);
}

static void test_story_of_a_tree(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_return_fully(&f, HOME(800));
    fake_call(&f, 3, HOME(810));
    fake_call(&f, 4, HOME(700));
    fake_return_fully(&f, HOME(700));
    fake_return_fully(&f, HOME(810));
    fake_return_fully(&f, HOME(900));
    expect_story("C1 C2 R2 C3 C4 R4 R3 R1");
    expect_empty();
}

static void test_unknown_return(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    assert_false(knows_return(&f, 1, HOME(901)));
    assert_false(knows_return(&f, 1, LOW(5)));
    assert_false(knows_return(&f, 2, HOME(900))); /* another function's stub */
    assert_int_equal(entries_in_use(f.block), 1); /* and nothing has happened */
    fake_return_fully(&f, HOME(900));
    expect_story("C1 R1");
}

static void test_max_depth(void **state) {
    (void)state;
    for (unsigned i = 0; i < DEPTH; i++)
        assert_non_null(ct_shadow_enter(f.block, HOME(20000 - i), stub_of(&f, 1)));
    for (unsigned i = 0; i < 3; i++)
        assert_null(ct_shadow_enter(f.block, HOME(20000 - DEPTH - i), stub_of(&f, 2)));
    assert_int_equal(entries_in_use(f.block), DEPTH);
    struct ct_shadow found;
    uint32_t depth;
    assert_true(ct_shadow_leave(f.block, HOME(20000 - DEPTH + 1), resume_of(&f, 1), &found, &depth));
    assert_int_equal(depth, DEPTH - 1);
    assert_non_null(ct_shadow_enter(f.block, HOME(20000 - DEPTH), stub_of(&f, 3)));
    assert_null(ct_shadow_enter(f.block, HOME(20000 - DEPTH - 1), stub_of(&f, 4)));
    /* the slow way, too: a frame on another stack finds no place */
    assert_null(ct_shadow_enter(f.block, HIGH(5), stub_of(&f, 4)));
    ct_shadow_prune(f.block, HOME(20001));
    expect_empty();
}

/* ---- frames that are left ---- */

/* longjmp from 4 to 1, which then calls 5. */
static void test_left_by_a_new_call(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_call(&f, 3, HOME(700));
    fake_call(&f, 4, HOME(600));
    fake_call(&f, 5, HOME(850));
    expect_story("C1 C2 C3 C4 X4 X3 X2 C5");
    assert_int_equal(f.block->counters->left_frames, 3);
    assert_int_equal(entries_in_use(f.block), 2);
    fake_return_fully(&f, HOME(850));
    fake_return_fully(&f, HOME(900));
    expect_story("R5 R1");
    expect_empty();
}

/* The new frame may take a slot that was used before: whose it was is gone as well. */
static void test_left_by_a_call_at_the_same_slot(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_call(&f, 3, HOME(700));
    fake_call(&f, 4, HOME(800));
    expect_story("C1 C2 C3 X3 X2 C4");
    fake_return_fully(&f, HOME(800));
    assert_false(knows_return(&f, 2, HOME(800))); /* it will not come back, its slot was taken */
    fake_return_fully(&f, HOME(900));
    expect_story("R4 R1");
}

/* A longjmp to 1, which returns without another call. */
static void test_left_by_a_return(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_call(&f, 3, HOME(700));
    fake_return_fully(&f, HOME(900));
    expect_story("C1 C2 C3 X3 X2 R1");
    assert_int_equal(f.block->counters->left_frames, 2);
    expect_empty();
    assert_true(knows_return(&f, 3, HOME(700))); /* should they come back after all */
    assert_true(knows_return(&f, 2, HOME(800)));
}

/* A loop that never returns: the shadow stack stays where it is. */
static void test_left_again_and_again(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    for (unsigned i = 0; i < 3 * DEPTH; i++) {
        fake_call(&f, 2, HOME(850));
        fake_call(&f, 3, HOME(800 - i % 7));
        assert_true(entries_in_use(f.block) <= 4);
    }
    assert_int_equal(f.block->counters->left_frames, 2 * (3 * DEPTH - 1));
    fake_return_fully(&f, HOME(900));
    assert_int_equal(f.block->counters->left_frames, 2 * 3 * DEPTH);
    expect_empty();
}

static void test_prune(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_call(&f, 3, HOME(700));
    ct_shadow_prune(f.block, HOME(700)); /* sp at the slot: the frame is still there */
    expect_story("C1 C2 C3");
    ct_shadow_prune(f.block, HOME(801));
    expect_story("X3 X2");
    assert_int_equal(entries_in_use(f.block), 1);
    assert_true(knows_return(&f, 3, HOME(700))); /* should they come back after all */
    assert_true(knows_return(&f, 2, HOME(800)));
    ct_shadow_prune(f.block, HOME(899));
    expect_story("");
    fake_return_fully(&f, HOME(900));
}

static void test_settle(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_call(&f, 3, HOME(700));
    ct_shadow_settle(f.block, HOME(650));
    expect_story("C1 C2 C3");
    *word_at(HOME(800)) = 1234; /* a frame that is not ours starts where 2 was */
    ct_shadow_settle(f.block, HOME(800));
#ifdef __aarch64__
    expect_story("X3"); /* 2 may have its address in a register, and be alive: see ct_frame_is_taken */
    *word_at(HOME(800)) = f.block->top[-1].ret;
    ct_shadow_settle(f.block, HOME(800));
    expect_story("X2");
#else
    expect_story("X3 X2");
#endif
    fake_return_fully(&f, HOME(900));
}

static void test_close_range(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, LOW(100)); /* a signal stack */
    fake_call(&f, 3, LOW(90));
    fake_call(&f, 4, HIGH(100)); /* a coroutine of the handler's */
    ct_shadow_close_range(f.block, LOW(90), LOW(100));
    expect_story("C1 C2 C3 C4 X3");
    ct_shadow_close_range(f.block, LOW(0), LOW(STACK_WORDS - 1));
    expect_story("X2");
    fake_return_fully(&f, HIGH(100));
    fake_return_fully(&f, HOME(900));
    expect_story("R4 R1");
    expect_empty();
}

/* ---- listeners ---- */

static struct ct_hook_call left_call;
static unsigned left_calls;
static uint32_t attention_in_leave;
static bool home_in_leave;

/* Runs on the stack of the slow paths. */
static void on_leave(struct ct_hook_call *call) {
    left_call = *call;
    left_calls++;
    attention_in_leave = f.block->attention;
    f.block->home_low = f.block->home_high = 0;
    f.block->thread_pointer = HOME(STACK_WORDS - 1);
    home_in_leave = ct_shadow_same_stack(f.block, HOME(0), HOME(STACK_WORDS - 2));
    f.block->thread_pointer = ct_os_thread_pointer();
}

static void test_listener_is_told(void **state) {
    (void)state;
    left_calls = 0;
    f.hooks[2].flavor = f.hooks[3].flavor = CT_ACTION_LISTEN;
    f.hooks[2].listener.on_leave = on_leave;
    f.hooks[2].user = &left_calls;
    fake_call(&f, 1, HOME(900));
    struct ct_shadow *e = ct_shadow_enter(f.block, HOME(800), stub_of(&f, 2));
    e->data = 77;
    ct_shadow_enter(f.block, HOME(700), stub_of(&f, 3)); /* has no on_leave */
    fake_return(&f, HOME(900));
    expect_story("C1 R1");
    assert_int_equal(left_calls, 1);
    assert_int_equal(left_call.hook, 2);
    assert_int_equal(left_call.depth, 1);
    assert_int_equal((uint64_t)left_call.function, f.hooks[2].function);
    assert_ptr_equal(left_call.user, &left_calls);
    assert_int_equal(left_call.data, 77);
    assert_int_equal(attention_in_leave, CT_ATTENTION_GUARD); /* what it calls is not seen */
    assert_int_equal(f.block->attention, 0);
    assert_int_equal(f.block->counters->left_frames, 2);
    assert_true(home_in_leave);
}

static void test_service_hooks_tell_nobody(void **state) {
    (void)state;
    f.hooks[2].flavor = CT_ACTION_NONE;
    fake_call(&f, 1, HOME(900));
    ct_shadow_enter(f.block, HOME(800), stub_of(&f, 2));
    fake_return(&f, HOME(900));
    expect_story("C1 R1");
}

/* ---- tail calls ---- */

static void test_tail_calls(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    struct ct_shadow *third = fake_tail_call(&f, 3, HOME(800));
    struct ct_shadow *fourth = fake_tail_call(&f, 4, HOME(800));
    assert_int_equal(third->ret, resume_of(&f, 2));
    assert_int_equal(fourth->ret, resume_of(&f, 3));
    assert_int_equal(fake_return(&f, HOME(800)), resume_of(&f, 3));
    assert_int_equal(fake_return(&f, HOME(800)), resume_of(&f, 2));
    assert_int_equal(fake_return(&f, HOME(800)), real_return(HOME(800)));
    fake_return_fully(&f, HOME(900));
    expect_story("C1 C2 C3 C4 R4 R3 R2 R1");
    assert_int_equal(f.block->counters->left_frames, 0);
    expect_empty();
}

/* Loops of tail calls: as deep as the chain is long, no deeper. */
static void test_endless_tail_calls(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    unsigned deep = 0;
    for (unsigned i = 0; i < DEPTH + 10; i++)
        deep += !fake_tail_call(&f, 2, HOME(900));
    assert_int_equal(deep, 11);
    assert_int_equal(entries_in_use(f.block), DEPTH);
    fake_return_fully(&f, HOME(900));
    expect_empty();
}

/* A call deeper than a chain leaves, all of the chain goes. */
static void test_chain_is_left(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_tail_call(&f, 3, HOME(800));
    fake_call(&f, 4, HOME(700));
    fake_call(&f, 5, HOME(850));
    expect_story("C1 C2 C3 C4 X4 X3 X2 C5");
    fake_return_fully(&f, HOME(850));
    fake_return_fully(&f, HOME(900));
    expect_empty();
}

/* ---- unwinders ---- */

static void test_bare_and_dress(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_call(&f, 3, HOME(700));
    *word_at(HOME(650)) = 12345;
    ct_shadow_expose_returns(f.block, HOME(650));
    assert_int_equal(*word_at(HOME(900)), real_return(HOME(900)));
    assert_int_equal(*word_at(HOME(800)), real_return(HOME(800)));
    assert_int_equal(*word_at(HOME(700)), real_return(HOME(700)));
    assert_int_equal(*word_at(HOME(650)), 12345);
    ct_shadow_expose_returns(f.block, HOME(650)); /* twice is once */
    assert_int_equal(*word_at(HOME(700)), real_return(HOME(700)));
    ct_shadow_rehook_returns(f.block, HOME(650));
    assert_int_equal(*word_at(HOME(900)), resume_of(&f, 1));
    assert_int_equal(*word_at(HOME(800)), resume_of(&f, 2));
    assert_int_equal(*word_at(HOME(700)), resume_of(&f, 3));
    fake_return_fully(&f, HOME(700));
    fake_return_fully(&f, HOME(800));
    fake_return_fully(&f, HOME(900));
    expect_story("C1 C2 C3 R3 R2 R1");
}

/* Only from the stack pointer upward: an exception lands, the frames below are gone. */
static void test_dress_where_it_lands(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_call(&f, 3, HOME(700));
    ct_shadow_expose_returns(f.block, HOME(750));
    assert_int_equal(*word_at(HOME(700)), resume_of(&f, 3));
    assert_int_equal(*word_at(HOME(800)), real_return(HOME(800)));
    ct_shadow_rehook_returns(f.block, HOME(850));
    assert_int_equal(*word_at(HOME(800)), real_return(HOME(800)));
    assert_int_equal(*word_at(HOME(900)), resume_of(&f, 1));
    ct_shadow_prune(f.block, HOME(850));
    fake_return_fully(&f, HOME(900));
    expect_story("C1 C2 C3 X3 X2 R1");
}

/* A handler's walk has ended: what the walk that it interrupted needs stays exposed, and so it does for a walk outside
 * the hooks. */
static void test_dress_spares_walks(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_call(&f, 3, HOME(700));
    ct_shadow_expose_returns(f.block, HOME(600));
    f.block->interrupted[0] = (struct ct_hook_walk){.exposed_slot = HOME(800)};
    f.block->interrupted_count = 1;
    ct_shadow_rehook_returns(f.block, HOME(600));
    assert_int_equal(*word_at(HOME(700)), resume_of(&f, 3));
    assert_int_equal(*word_at(HOME(800)), real_return(HOME(800)));
    assert_int_equal(*word_at(HOME(900)), real_return(HOME(900)));
    f.block->walk = f.block->interrupted[--f.block->interrupted_count];
    f.block->attention |= CT_ATTENTION_UNWIND;
    ct_shadow_expose_returns(f.block, HOME(600));
    ct_shadow_rehook_other_returns(f.block, HOME(600));
    assert_int_equal(*word_at(HOME(700)), resume_of(&f, 3));
    assert_int_equal(*word_at(HOME(800)), real_return(HOME(800)));
    f.block->walk.land_sp = HOME(700); /* looks at nothing any more */
    ct_shadow_rehook_other_returns(f.block, HOME(600));
    f.block->attention = 0;
    assert_int_equal(*word_at(HOME(800)), resume_of(&f, 2));
    assert_int_equal(*word_at(HOME(900)), resume_of(&f, 1));
    fake_return_fully(&f, HOME(700));
    fake_return_fully(&f, HOME(800));
    fake_return_fully(&f, HOME(900));
}

static void test_bare_chain(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_tail_call(&f, 3, HOME(800));
    fake_tail_call(&f, 4, HOME(800));
    fake_call(&f, 5, HOME(700));
    ct_shadow_expose_returns(f.block, HOME(600));
    assert_int_equal(*word_at(HOME(800)), real_return(HOME(800))); /* the oldest one's caller */
    ct_shadow_rehook_returns(f.block, HOME(600));
    assert_int_equal(*word_at(HOME(800)), resume_of(&f, 4)); /* the newest one's stub */
    fake_return_fully(&f, HOME(700));
    fake_return_fully(&f, HOME(800));
    fake_return_fully(&f, HOME(900));
    expect_story("C1 C2 C3 C4 C5 R5 R4 R3 R2 R1");
}

/* Words that are not what we left there are somebody else's. */
static void test_bare_leaves_foreign_words(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    struct ct_shadow *e = f.block->top++; /* a stub at work */
    *e = (struct ct_shadow){.slot = HOME(700) + (uint64_t)CT_SLOT_ENTERING, .ret = 77, .stub = stub_of(&f, 3)};
    *word_at(HOME(700)) = 77;
    *word_at(HOME(800)) = 12345;
    ct_shadow_expose_returns(f.block, HOME(600));
    assert_int_equal(*word_at(HOME(700)), 77);
    assert_int_equal(*word_at(HOME(800)), 12345);
    assert_int_equal(*word_at(HOME(900)), real_return(HOME(900)));
    ct_shadow_rehook_returns(f.block, HOME(600));
    assert_int_equal(*word_at(HOME(800)), 12345);
    assert_int_equal(*word_at(HOME(900)), resume_of(&f, 1));
    ct_shadow_release(f.block);
    fake_return_fully(&f, HOME(900));
}

/* Suspended coroutines have real addresses meanwhile, too; of stacks that are gone nothing is touched. */
#ifndef __aarch64__ /* there the search stays on one stack, and that of the code that a handler has interrupted */
static void test_bare_on_other_stacks(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HIGH(500));
    fake_call(&f, 3, HIGH(60000 / 8 + 20000)); /* on a page of its own */
    fake_call(&f, 4, HOME(800));
    uint64_t page = HIGH(60000 / 8 + 20000) & ~4095ull;
    ct_os_protect((void *)page, 4096, 0);
    ct_shadow_expose_returns(f.block, HOME(700));
    assert_int_equal(*word_at(HIGH(500)), real_return(HIGH(500)));
    ct_os_protect((void *)page, 4096, CT_OS_READ | CT_OS_WRITE);
    assert_int_equal(*word_at(HIGH(60000 / 8 + 20000)), resume_of(&f, 3));
    ct_shadow_rehook_returns(f.block, HOME(700));
    assert_int_equal(*word_at(HIGH(500)), resume_of(&f, 2));
    fake_return_fully(&f, HOME(800));
    fake_return_fully(&f, HIGH(60000 / 8 + 20000));
    fake_return_fully(&f, HIGH(500));
    fake_return_fully(&f, HOME(900));
    expect_empty();
}
#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_nesting),
        TEST(test_story_of_a_tree),
        TEST(test_unknown_return),
        TEST(test_max_depth),
        TEST(test_left_by_a_new_call),
        TEST(test_left_by_a_call_at_the_same_slot),
        TEST(test_left_by_a_return),
        TEST(test_left_again_and_again),
        TEST(test_prune),
        TEST(test_settle),
        TEST(test_close_range),
        TEST(test_listener_is_told),
        TEST(test_service_hooks_tell_nobody),
        TEST(test_tail_calls),
        TEST(test_endless_tail_calls),
        TEST(test_chain_is_left),
        TEST(test_bare_and_dress),
        TEST(test_dress_where_it_lands),
        TEST(test_dress_spares_walks),
        TEST(test_bare_chain),
        TEST(test_bare_leaves_foreign_words),
#ifndef __aarch64__
        TEST(test_bare_on_other_stacks),
#endif
    };
    return cmocka_run_group_tests_name("shadow", tests, NULL, NULL);
}
