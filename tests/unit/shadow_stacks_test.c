/* SPDX-License-Identifier: Apache-2.0 */
/* Shadow stacks when there is more than one stack: coroutines, signal handlers, threads that pass frames on; and stubs
 * that a signal handler interrupts, and may never return to. See shadow_test.c. */
#include "hook/stacks.h"
#include "shadow_util.h"

/* ---- other stacks ---- */

static void test_other_stacks_stay(void **state) {
    (void)state;
    static const enum fake_stack others[] = {LOW_STACK, HIGH_STACK};
    for (unsigned i = 0; i < 2; i++) {
        enum fake_stack other = others[i];
        fake_call(&f, 1, HOME(900));
        fake_call(&f, 2, slot_at(&f, other, 500)); /* a coroutine */
        fake_call(&f, 3, slot_at(&f, other, 400)); /* in which it yields */
        fake_call(&f, 4, HOME(850));
        fake_call(&f, 5, HOME(800));
        fake_return_fully(&f, HOME(800));
        fake_return_fully(&f, HOME(850));
        fake_return_fully(&f, slot_at(&f, other, 400)); /* resumed */
        fake_return_fully(&f, slot_at(&f, other, 500));
        fake_return_fully(&f, HOME(900));
        expect_story("C1 C2 C3 C4 C5 R5 R4 R3 R2 R1");
        expect_empty();
    }
    assert_int_equal(f.block->counters->left_frames, 0);
}

/* Returns in another order than calls: the entries in the middle become holes. The fast way out does not look for them;
 * whatever takes the slow way next gives back those on top. */
static void test_holes(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, LOW(500));
    fake_call(&f, 3, HIGH(500));
    fake_return_fully(&f, LOW(500));
    assert_int_equal(entries_in_use(f.block), 2);
    fake_call(&f, 4, HOME(800));
    fake_return_fully(&f, HIGH(500));
    assert_int_equal(entries_in_use(f.block), 2);
    fake_return_fully(&f, HOME(800));
    assert_int_equal(entries_in_use(f.block), 1);
    fake_call(&f, 5, HOME(700));
    assert_int_equal(entries_in_use(f.block), 2);
    assert_true(entries_taken(f.block) < 16); /* with holes below what runs */
    fake_return_fully(&f, HOME(700));
    fake_return_fully(&f, HOME(900));
    expect_story("C1 C2 C3 R2 C4 R3 R4 C5 R5 R1");
    expect_empty();
}

/* Stacks that are free; none is so twice. */
static unsigned free_stacks(const struct ct_stacks *s) {
    unsigned count = 0;
    for (uint32_t n = s->free; n != CT_NO_STACK; n = s->pool[n].next)
        assert_true(++count <= s->used);
    return count;
}

/* A stack is forgotten when it is left without frames, and its holes may go later. */
static void test_stacks_are_forgotten_once(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        fake_call(&f, 1, HOME(900));
        fake_call(&f, 2, LOW(500));
        fake_call(&f, 3, HIGH(500));
        fake_return_fully(&f, LOW(500));
        fake_return_fully(&f, HIGH(500));
        fake_return_fully(&f, HOME(900));
        assert_int_equal(free_stacks(f.block->stacks), f.block->stacks->used - 1);
        expect_empty();
    }
    assert_int_equal(f.block->stacks->used, 3);
}

/* On this stack frames are left, on the others none. */
static void test_left_on_one_stack_only(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, LOW(500));
    fake_call(&f, 3, HOME(800));
    fake_call(&f, 4, HIGH(500));
    ct_shadow_prune(f.block, HOME(850));
    expect_story("C1 C2 C3 C4 X3");
    ct_shadow_prune(f.block, LOW(501));
    expect_story("X2");
    fake_return_fully(&f, HIGH(500));
    fake_return_fully(&f, HOME(900));
    expect_story("R4 R1");
    expect_empty();
}

/* A stack whose frames were abandoned is used again: slots that new frames take belong to nobody else. */
static void test_stack_is_reused(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HIGH(500)); /* a coroutine that is never finished */
    fake_call(&f, 3, HOME(850)); /* back home */
    fake_call(&f, 4, HIGH(500)); /* a new one on the same stack */
    expect_story("C1 C2 C3 X2 C4");
    fake_return_fully(&f, HIGH(500));
    assert_false(knows_return(&f, 2, HIGH(500)));
    fake_return_fully(&f, HOME(850));
    fake_return_fully(&f, HOME(900));
    expect_story("R4 R3 R1");
    expect_empty();
}

/* Away from the thread's own stack it is unknown where one ends: close slots are taken for one stack. */
static void test_foreign_reach(void **state) {
    (void)state;
    struct ct_block *b = f.block;
    fake_call(&f, 1, HOME(900));
    assert_true(ct_shadow_same_stack(b, HOME(0), HOME(STACK_WORDS - 1)));
    assert_false(ct_shadow_same_stack(b, HOME(0), LOW(STACK_WORDS - 1)));
    assert_false(ct_shadow_same_stack(b, HIGH(0), HOME(STACK_WORDS - 1)));
    assert_true(ct_shadow_same_stack(b, LOW(1000), LOW(1000 + 2047)));
    assert_true(ct_shadow_same_stack(b, LOW(1000 + 2047), LOW(1000)));
    assert_false(ct_shadow_same_stack(b, LOW(1000), LOW(1000 + 2048)));
    assert_int_equal(b->home_low, HOME(0));
    assert_int_equal(b->home_high, HOME(0) + STACK_BYTES);
    fake_return_fully(&f, HOME(900));
}

/* The main thread's stack is known by its name. It grows down: what lies below it, as far as nothing is mapped, belongs
 * to it. */
static void test_home_of_the_main_thread(void **state) {
    (void)state;
    struct ct_block *b = f.block;
    uint64_t here = (uint64_t)__builtin_frame_address(0);
    b->pid = b->tid;
    b->home_low = b->home_high = 0;
    fake_call(&f, 1, LOW(900)); /* of a coroutine that runs when we come */
    assert_true(ct_shadow_same_stack(b, here, here + 256));
    assert_true(ct_shadow_same_stack(b, here, here - (1 << 20)));
    assert_false(ct_shadow_same_stack(b, here, LOW(900)));
    assert_true(ct_shadow_at_home(b, here));
    assert_false(ct_shadow_at_home(b, LOW(900)));
    fake_return_fully(&f, LOW(900));
}

/* That of any other thread ends with what the thread pointer points to. */
static void test_home_of_another_thread(void **state) {
    (void)state;
    struct ct_block *b = f.block;
    b->home_low = b->home_high = 0;
    b->thread_pointer = HIGH(100);
    assert_true(ct_shadow_at_home(b, HIGH(0)));
    assert_true(ct_shadow_at_home(b, HIGH(99)));
    assert_false(ct_shadow_at_home(b, HIGH(100)));
    assert_false(ct_shadow_same_stack(b, HOME(0), HIGH(0)));
    b->thread_pointer = 16; /* nothing is mapped there: no stack is home */
    b->home_low = b->home_high = 0;
    assert_true(ct_shadow_same_stack(b, HIGH(0), HIGH(10)));
    assert_false(ct_shadow_same_stack(b, HIGH(0), HIGH(10000)));
    b->thread_pointer = ct_os_thread_pointer();
}

/* ---- frames that come back ---- */

/* What looked like a longjmp was a coroutine: its frames were parked. */
static void test_parked_frames_return(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 2, HOME(800));
    fake_call(&f, 3, HOME(700));
    fake_call(&f, 4, HOME(850));
    expect_story("C1 C2 C3 X3 X2 C4");
    assert_int_equal(fake_return(&f, HOME(700)), real_return(HOME(700)));
    assert_int_equal(fake_return(&f, HOME(800)), real_return(HOME(800)));
    expect_story("R3 R2");
    fake_return_fully(&f, HOME(850));
    fake_return_fully(&f, HOME(900));
    assert_false(knows_return(&f, 3, HOME(700))); /* once */
    expect_empty();
}

/* Every slot of a large table, with others in between that came and went. */
static void test_parking(void **state) {
    (void)state;
    struct ct_runtime *rt = &f.runtime;
    struct ct_shadow found;
    uint32_t depth;
    for (unsigned i = 0; i < 20000; i++)
        ct_shadow_park(rt, &(struct ct_shadow){.slot = LOW(i), .ret = i, .stub = stub_of(&f, 1), .data = 2 * i});
    assert_int_equal(rt->parked_count, 20000);
    for (unsigned i = 0; i < 20000; i += 2) {
        assert_true(ct_shadow_leave(f.block, LOW(i), resume_of(&f, 1), &found, &depth));
        assert_int_equal(found.ret, i);
        assert_int_equal(found.data, 2 * i);
        assert_false(ct_shadow_leave(f.block, LOW(i), resume_of(&f, 1), &found, &depth));
    }
    for (unsigned i = 0; i < 20000; i++) /* every second slot again, the others for the first time since */
        ct_shadow_park(rt, &(struct ct_shadow){.slot = LOW(i), .ret = i + 7, .stub = stub_of(&f, 1)});
    for (unsigned i = 0; i < 20000; i++) {
        assert_true(ct_shadow_leave(f.block, LOW(i), resume_of(&f, 1), &found, &depth));
        assert_int_equal(found.ret, i + 7); /* the newest of a slot counts */
    }
}

/* When the table is full, old ones go; one that has just been parked is found. */
static void test_parking_is_bounded(void **state) {
    (void)state;
    struct ct_runtime *rt = &f.runtime;
    struct ct_shadow found;
    uint32_t depth, missing = 0;
    for (uint64_t i = 1; i <= CT_PARKED_CAPACITY + 50000; i++) {
        ct_shadow_park(rt, &(struct ct_shadow){.slot = i << 4, .ret = i, .stub = stub_of(&f, 1)});
        if (i % 64)
            continue;
        missing += !ct_shadow_leave(f.block, i << 4, resume_of(&f, 1), &found, &depth);
        assert_int_equal(found.ret, i);
        ct_shadow_park(rt, &found);
    }
    assert_int_equal(missing, 0);
    assert_true(rt->parked_count <= CT_PARKED_CAPACITY);
}

/* A coroutine that was called on one thread and returns on another. */
static void test_taken_from_another_thread(void **state) {
    (void)state;
    struct ct_block *here = f.block, *there = ct_block_create(&f.runtime, 777, 16);
    assert_non_null(there);
    f.block = there;
    fake_call(&f, 1, HIGH(900));
    fake_call(&f, 2, LOW(500));
    fake_call(&f, 3, LOW(400));
    f.block = here;
    fake_call(&f, 4, HOME(900));
    assert_int_equal(fake_return(&f, LOW(400)), real_return(LOW(400)));
    assert_int_equal(there->top[-1].slot, CT_SLOT_HOLE); /* the other thread tidies up by itself */
    assert_int_equal(there->top[-2].slot, LOW(500));
    f.block = there;
    fake_return_fully(&f, LOW(500));
    fake_return_fully(&f, HIGH(900));
    expect_empty();
    expect_story("C1 C2 C3 R2 R1");
    f.block = here;
    expect_story("C4 R3"); /* recorded where it happened */
    fake_return_fully(&f, HOME(900));
}

static void test_ended_threads_are_not_asked(void **state) {
    (void)state;
    struct ct_block *here = f.block, *there = ct_block_create(&f.runtime, 777, 16);
    f.block = there;
    fake_call(&f, 1, LOW(500));
    f.block = here;
    there->in_use = 0;
    assert_false(knows_return(&f, 1, LOW(500)));
    there->in_use = 1;
    assert_true(knows_return(&f, 1, LOW(500)));
}

/* One slot, two threads: a frame that was left without notice, and the one that is there now. */
static void test_the_stub_tells_whose_frame_it_is(void **state) {
    (void)state;
    struct ct_block *here = f.block, *there = ct_block_create(&f.runtime, 777, 16);
    fake_call(&f, 1, LOW(500)); /* abandoned */
    f.block = there;
    fake_call(&f, 2, LOW(500));
    f.block = here;
    fake_return_fully(&f, LOW(500)); /* 2 has moved to this thread */
    assert_int_equal(there->top[-1].slot, CT_SLOT_HOLE);
    expect_story("C1 R2");
    assert_int_equal(entries_in_use(here), 1);
    assert_true(knows_return(&f, 1, LOW(500)));
    ct_shadow_park(&f.runtime, &(struct ct_shadow){.slot = LOW(400), .ret = 5, .stub = stub_of(&f, 3)});
    assert_false(knows_return(&f, 4, LOW(400)));
}

/* ---- compaction ---- */

/* Coroutines that take turns: each leaves a hole below the other's newest entry. */
static void test_compaction(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(20000));
    fake_call(&f, 2, LOW(20000));
    for (unsigned i = 1; i <= 5000; i++) {
        /* one returns, the next one calls: never is the newest entry the one that goes */
        enum fake_stack old = i & 1 ? LOW_STACK : HIGH_STACK, new = i & 1 ? HIGH_STACK : LOW_STACK;
        fake_call(&f, 3, slot_at(&f, new, 20000));
        fake_return_fully(&f, slot_at(&f, old, 20000));
    }
    assert_true(entries_taken(f.block) < 300);
    check_free_entries(f.block);
    fake_return_fully(&f, LOW(20000));
    fake_return_fully(&f, HOME(20000));
    expect_empty();
    assert_int_equal(f.block->counters->left_frames, 0);
}

/* Entries of a high stack that went, below one of a low stack that stays. */
static void make_holes(unsigned count) {
    for (unsigned i = 0; i < count; i++)
        fake_call(&f, 2, HIGH(20000 - i));
    fake_call(&f, 3, LOW(500));
    for (unsigned i = 0; i < count; i++)
        fake_return_fully(&f, HIGH(20000 - count + 1 + i));
}

/* A stub that a signal handler has interrupted knows its entry's place: nothing moves then. */
static void test_compaction_waits(void **state) {
    (void)state;
    for (unsigned in_flight = 0; in_flight < 2; in_flight++) {
        fake_call(&f, 1, HOME(900));
        make_holes(200);
        assert_int_equal(entries_in_use(f.block), 2);
        size_t taken = entries_taken(f.block);
        f.block->stacks->compact_at = 64;
        struct ct_shadow *e = f.block->top++; /* as a stub does */
        if (in_flight)
            *e = (struct ct_shadow){.slot = HOME(800) + (uint64_t)CT_SLOT_ENTERING, .ret = 1, .stub = stub_of(&f, 4)};
        fake_call(&f, 5, HIGH(900)); /* from a handler on its own stack */
        assert_ptr_equal(f.block->top, e + 2);
        fake_return_fully(&f, HIGH(900));
        assert_true(entries_taken(f.block) >= taken);
        e->slot = CT_SLOT_CLAIMED;
        f.block->top = e;
        fake_call(&f, 6, HOME(800)); /* now it may */
        assert_int_equal(entries_in_use(f.block), 3);
        assert_true(entries_taken(f.block) < 10);
        fake_return_fully(&f, HOME(800));
        fake_return_fully(&f, LOW(500));
        fake_return_fully(&f, HOME(900));
        expect_empty();
    }
}

static void test_few_holes_stay(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    make_holes(60);
    fake_call(&f, 6, HOME(800));
    assert_int_equal(entries_in_use(f.block), 3);
    assert_true(entries_taken(f.block) > 60);
    fake_return_fully(&f, HOME(800));
    fake_return_fully(&f, LOW(500));
    fake_return_fully(&f, HOME(900));
    expect_empty();
}

/* When the hooks are gone and only walks are seen, no call gives holes back. */
static void test_compaction_by_walks(void **state) {
    (void)state;
    f.runtime.reports_stacks = 1; /* frames of a stack that goes on move up */
    fake_call(&f, 1, LOW(500));
    fake_call(&f, 2, HIGH(500));
    for (unsigned i = 0; i < 2000; i++) {
        ct_shadow_settle(f.block, LOW(400));
        ct_shadow_settle(f.block, HIGH(400));
    }
    assert_int_equal(entries_in_use(f.block), 2);
    assert_true(entries_taken(f.block) < 300);
    fake_return_fully(&f, LOW(500));
    fake_return_fully(&f, HIGH(500));
    expect_empty();
}

/* ---- many stacks ---- */

#define SMALL_STACK (8u << 10)

static uint64_t in_small(const uint8_t *stacks, unsigned n, unsigned word) {
    return (uint64_t)stacks + (uint64_t)(n + 1) * SMALL_STACK - 512 + 8 * word;
}

/* Coroutines side by side, as from malloc: home resumes one after the other, in each of which three frames are open. */
static double steps_of_a_switch(unsigned count) {
    uint8_t *stacks = ct_os_alloc((size_t)count * SMALL_STACK, CT_OS_READ | CT_OS_WRITE);
    struct fixture *many = ct_os_alloc(sizeof *many, CT_OS_READ | CT_OS_WRITE);
    assert_true(stacks && many);
    fixture_start(many, 8 * count + 64, 1 << 16);
    uint64_t main = slot_at(many, HOME_STACK, 900), resume = main - 80;
    fake_call(many, 1, main);
    for (unsigned i = 0; i < count; i++) {
        fake_call(many, 2, resume);
        for (unsigned d = 0; d < 3; d++)
            fake_call(many, 3 + d, in_small(stacks, i, 40 - 10 * d));
        fake_return_fully(many, resume);
    }
    uint64_t before = many->block->stacks->steps;
    unsigned rounds = 20000 / count;
    for (unsigned r = 0; r < rounds; r++)
        for (unsigned i = 0; i < count; i++) {
            fake_call(many, 2, resume);
            fake_return_fully(many, in_small(stacks, i, 20));
            fake_return_fully(many, in_small(stacks, i, 30));
            fake_call(many, 4, in_small(stacks, i, 30));
            fake_call(many, 5, in_small(stacks, i, 20));
            fake_return_fully(many, resume);
        }
    uint64_t steps = many->block->stacks->steps - before;
    assert_int_equal(entries_in_use(many->block), 1 + 3 * count);
    for (unsigned i = count; i-- > 0;)
        for (unsigned d = 3; d-- > 0;)
            fake_return_fully(many, in_small(stacks, i, 40 - 10 * d));
    fake_return_fully(many, main);
    assert_int_equal(entries_in_use(many->block), 0);
    assert_int_equal(many->block->counters->left_frames, 0);
    fixture_end(many);
    ct_os_free(many, sizeof *many);
    ct_os_free(stacks, (size_t)count * SMALL_STACK);
    return (double)steps / (2.0 * rounds * count);
}

/* What a switch costs grows with the logarithm of their number, not with it. */
static void test_cost_of_a_switch(void **state) {
    (void)state;
    fixture_end(&f);
    double few = steps_of_a_switch(10), many = steps_of_a_switch(1000), most = steps_of_a_switch(10000);
    start(state);
    print_message("steps of a switch: %.1f with 10 stacks, %.1f with 1,000, %.1f with 10,000\n", few, many, most);
    assert_true(few < 64 && many < 128 && most < 128);
}

/* ---- stubs that were given up ---- */

/* An entry as it is when a signal interrupts its stub; the caller's frame is 1 at HOME(900). */
enum flight { CLAIMED, ENTERING, ENTERING_RECORDED, RETURNING, RETURNING_RECORDED, FLIGHTS };

static struct ct_event flight_event;

static struct ct_shadow *interrupt_stub(enum flight flight, unsigned n, uint64_t slot) {
    struct ct_block *b = f.block;
    bool recorded_already = flight == ENTERING_RECORDED || flight == RETURNING_RECORDED;
    flight_event = (struct ct_event){.timestamp = recorded_already};
    struct ct_shadow *e = b->top++;
    assert_int_equal(e->slot, CT_SLOT_CLAIMED);
    if (flight == CLAIMED)
        return e;
    bool entering = flight == ENTERING || flight == ENTERING_RECORDED;
    e->ret = real_return(slot);
    e->stub = stub_of(&f, n);
    e->data = recorded_already ? (uint64_t)&flight_event : 0;
    e->slot = slot + (uint64_t)(entering ? CT_SLOT_ENTERING : CT_SLOT_RETURNING);
    return e;
}

/* What the jump out of it must still record. */
static const char *missing_end(enum flight flight) {
    return flight == ENTERING_RECORDED || flight == RETURNING ? " X2" : "";
}

static void expect_end(enum flight flight, const char *before, const char *after) {
    char story[64];
    strcpy(story, before);
    strcat(story, missing_end(flight));
    strcat(story, after);
    if (*story == ' ')
        memmove(story, story + 1, strlen(story));
    expect_story(story);
}

/* A handler's calls and returns do not touch the entry that is being worked on. */
static void test_handlers_in_stubs(void **state) {
    (void)state;
    for (enum flight flight = CLAIMED; flight < FLIGHTS; flight++) {
        fake_call(&f, 1, HOME(900));
        struct ct_shadow *e = interrupt_stub(flight, 2, HOME(800)), before = *e;
        fake_call(&f, 3, HOME(700));
        fake_call(&f, 4, HOME(600));
        fake_return_fully(&f, HOME(600));
        fake_call(&f, 5, HOME(650)); /* by a call, the handler's own frames may be left */
        fake_call(&f, 6, HOME(690));
        fake_return_fully(&f, HOME(690));
        fake_return_fully(&f, HOME(700));
        assert_ptr_equal(f.block->top, e + 1);
        assert_memory_equal(e, &before, sizeof before);
        fake_call(&f, 7, LOW(100)); /* a handler on a stack of its own */
        fake_return_fully(&f, LOW(100));
        fake_call(&f, 7, HIGH(100));
        fake_return_fully(&f, HIGH(100));
        assert_ptr_equal(f.block->top, e + 1);
        assert_memory_equal(e, &before, sizeof before);
        expect_story("C1 C3 C4 R4 C5 X5 C6 R6 R3 C7 R7 C7 R7");
        e->slot = CT_SLOT_CLAIMED; /* the stub gives it back */
        f.block->top = e;
        fake_return_fully(&f, HOME(900));
        expect_story("R1");
    }
}

/* The handler jumps out of the stub to 1, which makes another call: shallower, deeper, or in the same slot. */
static void test_jump_out_then_call(void **state) {
    (void)state;
    static const unsigned words[] = {850, 801, 800};
    for (unsigned i = 0; i < 3; i++)
        for (enum flight flight = ENTERING; flight < FLIGHTS; flight++) {
            fake_call(&f, 1, HOME(900));
            interrupt_stub(flight, 2, HOME(800));
            fake_call(&f, 3, HOME(700)); /* the handler's own */
            fake_call(&f, 4, HOME(words[i]));
            expect_end(flight, "C1 C3 X3", " C4");
            assert_int_equal(entries_in_use(f.block), 2);
            fake_return_fully(&f, HOME(words[i]));
            fake_return_fully(&f, HOME(900));
            expect_story("R4 R1");
        }
}

static void test_jump_out_then_return(void **state) {
    (void)state;
    for (enum flight flight = CLAIMED; flight < FLIGHTS; flight++) {
        fake_call(&f, 1, HOME(900));
        interrupt_stub(flight, 2, HOME(800));
        fake_return_fully(&f, HOME(900));
        expect_end(flight, "C1", " R1");
        expect_empty();
    }
}

/* longjmp says where it goes. */
static void test_jump_out_by_longjmp(void **state) {
    (void)state;
    for (enum flight flight = CLAIMED; flight < FLIGHTS; flight++) {
        fake_call(&f, 1, HOME(900));
        fake_call(&f, 8, HOME(820));
        interrupt_stub(flight, 2, HOME(800));
        fake_call(&f, 3, HOME(700));
        ct_shadow_prune(f.block, HOME(850));
        expect_end(flight, "C1 C8 C3 X3", " X8");
        assert_int_equal(entries_in_use(f.block), 1);
        fake_return_fully(&f, HOME(900));
        expect_story("R1");
    }
}

/* A claimed entry says nothing of itself: it is dead when the frame below it is, or when control is back there. */
static void test_claimed_and_given_up(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    fake_call(&f, 8, HOME(820));
    interrupt_stub(CLAIMED, 2, HOME(800));
    fake_call(&f, 3, HOME(700)); /* a handler: deeper than 8 */
    fake_return_fully(&f, HOME(700));
    assert_int_equal(entries_in_use(f.block), 3);
    fake_call(&f, 4, HOME(850)); /* 8 has been left */
    expect_story("C1 C8 C3 R3 X8 C4");
    assert_int_equal(entries_in_use(f.block), 2);
    fake_return_fully(&f, HOME(850));
    fake_return_fully(&f, HOME(900));
    expect_empty();
}

/* Frames that a given-up stub leaves are never parked: their slot does not hold a stub's address. */
static void test_in_flight_is_not_parked(void **state) {
    (void)state;
    for (enum flight flight = ENTERING; flight < FLIGHTS; flight++) {
        fake_call(&f, 1, HOME(900));
        interrupt_stub(flight, 2, HOME(800));
        ct_shadow_prune(f.block, HOME(850));
        assert_false(knows_return(&f, 2, HOME(800)));
        fake_return_fully(&f, HOME(900));
        (void)recorded(&f);
    }
}

/* What the slow path of a full buffer does at the end of a stub. */
static void test_stub_finishes(void **state) {
    (void)state;
    fake_call(&f, 1, HOME(900));
    *word_at(HOME(800)) = real_return(HOME(800));
    interrupt_stub(ENTERING, 2, HOME(800));
    ct_shadow_filled(f.block, HOME(800));
    assert_int_equal(f.block->top[-1].slot, HOME(800));
    *word_at(HOME(800)) = resume_of(&f, 2);
    fake_return_fully(&f, HOME(800));
    interrupt_stub(RETURNING, 2, HOME(800));
    ct_shadow_release(f.block);
    assert_int_equal(entries_in_use(f.block), 1);
    check_free_entries(f.block);
    fake_return_fully(&f, HOME(900));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_other_stacks_stay),
        TEST(test_holes),
        TEST(test_stacks_are_forgotten_once),
        TEST(test_left_on_one_stack_only),
        TEST(test_stack_is_reused),
        TEST(test_foreign_reach),
        TEST(test_home_of_the_main_thread),
        TEST(test_home_of_another_thread),
        TEST(test_parked_frames_return),
        TEST(test_parking),
        TEST(test_parking_is_bounded),
        TEST(test_taken_from_another_thread),
        TEST(test_ended_threads_are_not_asked),
        TEST(test_the_stub_tells_whose_frame_it_is),
        TEST(test_compaction),
        TEST(test_compaction_waits),
        TEST(test_few_holes_stay),
        TEST(test_compaction_by_walks),
        TEST(test_cost_of_a_switch),
        TEST(test_handlers_in_stubs),
        TEST(test_jump_out_then_call),
        TEST(test_jump_out_then_return),
        TEST(test_jump_out_by_longjmp),
        TEST(test_claimed_and_given_up),
        TEST(test_in_flight_is_not_parked),
        TEST(test_stub_finishes),
    };
    return cmocka_run_group_tests_name("shadow_stacks", tests, NULL, NULL);
}
