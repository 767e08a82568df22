/* SPDX-License-Identifier: Apache-2.0 */
/* What users of the Stalker can do: exclude code, probe calls, transform blocks, decide how far code is trusted; and
 * what it says to bad input. */
#include <contrail/stalker.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "stalk_code.h"

#if defined __clang__
#define NOINLINE __attribute__((noinline, aligned(64)))
#else
#define NOINLINE __attribute__((noinline, noclone, aligned(64)))
#endif

static volatile int one = 1;
static jmp_buf jump;

NOINLINE static int leaf(int x) {
    __asm__ volatile("");
    return x * 2 + one;
}

NOINLINE static int callback(int x) {
    __asm__ volatile("");
    return x + 5;
}

static sigjmp_buf signal_jump;
extern void __longjmp_chk(jmp_buf buffer, int value) __attribute__((noreturn));

/* The one that gets excluded. */
__attribute__((section("hidden_text"))) NOINLINE static int hidden(int (*f)(int), int x, int depth) {
    if (depth == -1)
        longjmp(jump, 1);
    if (depth == -2)
        siglongjmp(signal_jump, 1);
    if (depth == -3)
        __longjmp_chk(jump, 1);
    return depth ? hidden(f, x, depth - 1) + 1 : f(x);
}
extern const char __start_hidden_text[], __stop_hidden_text[];
#define HIDDEN_START ((uint64_t)__start_hidden_text)
#define HIDDEN_SIZE  ((uint64_t)(__stop_hidden_text - __start_hidden_text))

struct counts {
    uint64_t calls[8], blocks[8];
};

static struct counts *seen;
static void *const functions[] = {(void *)leaf, (void *)callback, (void *)hidden};
enum { LEAF, CALLBACK, HIDDEN };

static void receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)tid;
    for (size_t i = 0; i < count; i++)
        for (unsigned k = 0; k < sizeof functions / sizeof *functions; k++) {
            if (events[i].kind == CT_STALKER_CALL && events[i].target == (uint64_t)functions[k])
                seen->calls[k]++;
            if (events[i].kind == CT_STALKER_BLOCK && events[i].location == (uint64_t)functions[k])
                seen->blocks[k]++;
        }
}

static struct ct_stalker *make(void) {
    struct ct_stalker *stalker;
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    return stalker;
}

static void follow(struct ct_stalker *stalker, struct counts *counts, uint32_t mask) {
    static struct ct_stalker_sink sink;
    memset(counts, 0, sizeof *counts);
    seen = counts;
    sink = (struct ct_stalker_sink){.size = sizeof sink, .mask = mask, .on_receive = receive};
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, &sink), 0);
}

static void end(struct ct_stalker *stalker) {
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(ct_stalker_is_following(stalker, 0), 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* ---- excluded code ---- */

static void test_excluded(void **state) {
    (void)state;
    struct counts counts;
    struct ct_stalker *stalker = make();
    int (*volatile indirect)(int (*)(int), int, int) = hidden;
    assert_int_equal(ct_stalker_exclude(stalker, HIDDEN_START, HIDDEN_SIZE), 0);
    follow(stalker, &counts, CT_STALKER_CALL | CT_STALKER_BLOCK);
    int sum = 0;
    for (int i = 0; i < 100; i++) {
        sum += hidden(callback, i, 3); /* the callback is not followed */
        sum += indirect(callback, i, 0);
        sum += leaf(i); /* we are back */
    }
    end(stalker);
    int expected = 0;
    for (int i = 0; i < 100; i++)
        expected += i + 5 + 3 + i + 5 + leaf(i);
    assert_int_equal(sum, expected);
    assert_int_equal(counts.calls[HIDDEN], 200);
    assert_int_equal(counts.blocks[HIDDEN], 0);
    assert_int_equal(counts.calls[CALLBACK] + counts.blocks[CALLBACK], 0);
    assert_int_equal(counts.calls[LEAF], 100);
    assert_int_equal(counts.blocks[LEAF], 100);
}

/* Calls of excluded code, directly, through a pointer and at the end of another call, need the engine once each. */
static void test_excluded_entries(void **state) {
    (void)state;
    struct counts counts;
    struct ct_stalker_statistics before = {.size = sizeof before}, after = before;
    struct ct_stalker *stalker = make();
    int (*volatile indirect)(int (*)(int), int, int) = hidden;
    assert_int_equal(ct_stalker_exclude(stalker, HIDDEN_START, HIDDEN_SIZE), 0);
    follow(stalker, &counts, 0);
    int sum = 0;
    for (int i = 0; i < 1004; i++) {
        if (i == 4)
            ct_stalker_statistics(stalker, &before);
        sum += hidden(callback, 0, 0) + indirect(callback, 0, 1) + indirect(callback, 0, 2);
    }
    ct_stalker_statistics(stalker, &after);
    end(stalker);
    assert_int_equal(sum, 1004 * 18);
    assert_true(after.entries - before.entries < 50);
}

/* The thread is followed again where it lands. */
static void test_longjmp_out_of_excluded(void **state) {
    (void)state;
    struct counts counts;
    struct ct_stalker *stalker = make();
    volatile int jumps = 0;
    assert_int_equal(ct_stalker_exclude(stalker, HIDDEN_START, HIDDEN_SIZE), 0);
    follow(stalker, &counts, CT_STALKER_CALL | CT_STALKER_BLOCK);
    for (volatile int i = 0; i < 30; i++) {
        if (i % 3 == 1 ? !sigsetjmp(signal_jump, 1) : !setjmp(jump)) {
            hidden(callback, 1, -1 - i % 3);
        } else {
            jumps++;
            leaf(i);
        }
    }
    end(stalker);
    assert_int_equal(jumps, 30);
    assert_int_equal(counts.calls[HIDDEN], 30);
    assert_int_equal(counts.calls[LEAF], 30);
    assert_int_equal(counts.blocks[LEAF], 30);
    assert_int_equal(counts.blocks[HIDDEN], 0);
}

/* A jump buffer outlives the Stalker. */
static void test_old_jump_buffer(void **state) {
    (void)state;
    struct counts counts;
    struct ct_stalker *stalker = make();
    volatile int times = 0;
    assert_int_equal(ct_stalker_exclude(stalker, HIDDEN_START, HIDDEN_SIZE), 0);
    follow(stalker, &counts, CT_STALKER_CALL);
    (void)setjmp(jump);
    times++;
    if (times == 1)
        hidden(callback, 1, -1);
    if (times == 2)
        end(stalker); /* followed up to here */
    if (times < 5)
        longjmp(jump, 1);
    assert_int_equal(times, 5);
    assert_int_equal(counts.calls[HIDDEN], 1);
}

static void test_excluded_module(void **state) {
    (void)state;
    struct counts counts;
    struct ct_stalker *stalker = make();
    char text[64], expected[64];
    assert_int_equal(ct_stalker_exclude_module(stalker, "libc.so.6"), 0);
    assert_int_equal(ct_stalker_exclude_module(stalker, "no such module"), CT_ERR_NOT_FOUND);
    snprintf(expected, sizeof expected, "%d %s", 42, "x");
    follow(stalker, &counts, CT_STALKER_CALL | CT_STALKER_BLOCK);
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof text, "%d %s", 42, "x");
        leaf(i);
    }
    struct ct_stalker_statistics statistics = {.size = sizeof statistics};
    ct_stalker_statistics(stalker, &statistics);
    end(stalker);
    assert_string_equal(text, expected);
    assert_int_equal(counts.calls[LEAF], 50);
    assert_true(statistics.excluded_calls >= 1); /* through the engine: not each of them */
    assert_true(statistics.excluded_calls < 20);
    assert_true(statistics.blocks < 200);
}

/* ---- probes ---- */

static int probed, destroyed;

static const void *vectors_of(const struct ct_cpu_context *cpu) {
#if defined __x86_64__
    return ((const struct ct_cpu_x64 *)cpu)->vector;
#else
    return ((const struct ct_cpu_a64 *)cpu)->vector;
#endif
}

static void probe(struct ct_cpu_context *cpu, void *data) {
    probed++;
    assert_ptr_equal(data, &probed);
    assert_int_equal(ct_cpu_pc(cpu), (uint64_t)leaf);
    assert_non_null(vectors_of(cpu));
    ct_cpu_set_argument(cpu, 0, ct_cpu_argument(cpu, 0) + 100);
}

static void destroy(void *data) {
    assert_ptr_equal(data, &probed);
    destroyed++;
}

static void test_probe(void **state) {
    (void)state;
    struct counts counts;
    struct ct_stalker *stalker = make();
    int (*volatile indirect)(int) = leaf;
    follow(stalker, &counts, 0);
    assert_int_equal(leaf(1), 3);
    assert_int_equal(leaf(1), 3);
    int number = ct_stalker_add_call_probe(stalker, (uint64_t)leaf, probe, &probed, destroy);
    assert_true(number >= 0);
    assert_int_equal(leaf(1), 203);
    assert_int_equal(indirect(2), 205);
    for (int i = 0; i < 10; i++)
        assert_int_equal(indirect(i), 201 + 2 * i);
    assert_int_equal(probed, 12);
    assert_int_equal(ct_stalker_remove_call_probe(stalker, number), 0);
    assert_int_equal(destroyed, 1);
    assert_int_equal(ct_stalker_remove_call_probe(stalker, number), CT_ERR_NOT_FOUND);
    assert_int_equal(leaf(1), 3);
    assert_int_equal(indirect(1), 3);
    assert_int_equal(probed, 12);
    end(stalker);
}

/* ---- transformers ---- */

static int called_out, transformed;
static uint64_t called_at;
static volatile double noise[8];

static void callout(struct ct_cpu_context *cpu, void *data) {
    assert_ptr_equal(data, &called_out);
    called_at = ct_cpu_pc(cpu);
    called_out++;
    ct_cpu_set_argument(cpu, 0, 1000);
    for (int i = 0; i < 8; i++) /* vector registers */
        noise[i] = (double)called_out * i;
}

static int call_out_at_leaf(void *user, struct ct_stalker_iterator *iterator, struct ct_stalker_writer *writer) {
    (void)user, (void)writer;
    const struct ct_stalker_insn *insn;
    transformed++;
    while ((insn = ct_stalker_iterator_next(iterator))) {
        if (insn->address == (uint64_t)leaf)
            ct_stalker_iterator_put_callout(iterator, callout, &called_out, NULL);
        ct_stalker_iterator_keep(iterator);
    }
    return 0;
}

static void test_callout(void **state) {
    (void)state;
    struct ct_stalker *stalker = make();
    struct ct_stalker_transformer transformer = {.size = sizeof transformer, .transform = call_out_at_leaf};
    assert_int_equal(ct_stalker_follow_me(stalker, &transformer, NULL), 0);
    volatile double kept = 1.5;
    int a = leaf(1), b = leaf(2);
    kept *= 2;
    end(stalker);
    assert_int_equal(a, 2001);
    assert_int_equal(b, 2001);
    assert_true(kept == 3.0);
    assert_int_equal(called_out, 2);
    assert_int_equal(called_at, (uint64_t)leaf);
    assert_true(transformed > 3);
}

static int put_out, destroyed_out;

static void destroy_callout(void *data) {
    assert_ptr_equal(data, &put_out);
    destroyed_out++;
}

static void nothing(struct ct_cpu_context *cpu, void *data) {
    (void)cpu, (void)data;
}

static int call_out_always(void *user, struct ct_stalker_iterator *iterator, struct ct_stalker_writer *writer) {
    (void)user, (void)writer;
    while (ct_stalker_iterator_next(iterator)) {
        ct_stalker_iterator_put_callout(iterator, nothing, &put_out, destroy_callout);
        ct_stalker_iterator_keep(iterator);
        put_out++;
    }
    return 0;
}

/* Each callout's owner is called once, when its code goes. */
static void test_callouts_destroyed(void **state) {
    (void)state;
    struct ct_stalker *stalker = make();
    struct ct_stalker_transformer transformer = {.size = sizeof transformer, .transform = call_out_always};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ct_stalker_follow_me(stalker, &transformer, NULL), 0);
        leaf(1);
        assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
        assert_true(put_out > destroyed_out);
        if (i == 0) {
            assert_true(ct_stalker_garbage_collect(stalker) > 0);
            assert_int_equal(put_out, destroyed_out);
        }
    }
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    assert_int_equal(put_out, destroyed_out);
}

/* leaf returns 77 */
static int replace_leaf(void *user, struct ct_stalker_iterator *iterator, struct ct_stalker_writer *writer) {
    uint8_t code[LEAF_SIZE];
    (void)user;
    put_leaf(code, 77);
    const struct ct_stalker_insn *insn;
    while ((insn = ct_stalker_iterator_next(iterator))) {
        bool inside = insn->address - (uint64_t)leaf < 32;
        if (insn->address == (uint64_t)leaf)
            ct_stalker_writer_put_bytes(writer, code, LEAF_SIZE - RETURN_SIZE);
        if (!inside || insn->kind == CT_STALKER_INSN_RETURN)
            ct_stalker_iterator_keep(iterator);
    }
    return 0;
}

static void test_replace(void **state) {
    (void)state;
    struct ct_stalker *stalker = make();
    struct ct_stalker_transformer transformer = {.size = sizeof transformer, .transform = replace_leaf};
    assert_int_equal(ct_stalker_follow_me(stalker, &transformer, NULL), 0);
    int a = leaf(1), b = callback(1);
    end(stalker);
    assert_int_equal(a, 77);
    assert_int_equal(b, 6);
    assert_int_equal(leaf(1), 3);
}

static uint64_t counted;

/* An increment in front of each instruction: some of them read flags that the one before has set. */
static int count_instructions(void *user, struct ct_stalker_iterator *iterator, struct ct_stalker_writer *writer) {
    const struct ct_stalker_insn *insn;
    uint64_t start = (uint64_t)user;
    while ((insn = ct_stalker_iterator_next(iterator))) {
        if (insn->address - start < 64)
            ct_stalker_writer_put_count(writer, &counted);
        ct_stalker_iterator_keep(iterator);
    }
    return 0;
}

uint64_t carries(uint64_t rounds, uint64_t *high);
__asm__(".pushsection .text\n.balign 64\n"
        "carries:\n" CARRIES ".balign 64\n.popsection\n");

static void test_count(void **state) {
    (void)state;
    enum { ROUNDS = 100000 };
    uint64_t expected_high = 0, high = 0;
    uint64_t expected = carries(ROUNDS, &expected_high);
    struct ct_stalker *stalker = make();
    struct ct_stalker_transformer transformer = {
        .size = sizeof transformer, .transform = count_instructions, .user = (void *)carries};
    counted = 0;
    assert_int_equal(ct_stalker_follow_me(stalker, &transformer, NULL), 0);
    uint64_t sum = carries(ROUNDS, &high);
    end(stalker);
    assert_int_equal(sum, expected);
    assert_int_equal(high, expected_high);
    assert_int_equal(counted, CARRIES_REST + CARRIES_ROUND * ROUNDS);
}

static int stop_status;

static void stopped(void *user, int tid, int status) {
    (void)user, (void)tid;
    stop_status = status;
}

static int refuse_leaf(void *user, struct ct_stalker_iterator *iterator, struct ct_stalker_writer *writer) {
    (void)user, (void)writer;
    const struct ct_stalker_insn *insn;
    while ((insn = ct_stalker_iterator_next(iterator))) {
        if (insn->address == (uint64_t)leaf)
            return CT_ERR_TIMEOUT;
        ct_stalker_iterator_keep(iterator);
    }
    return 0;
}

static void test_transformer_error(void **state) {
    (void)state;
    struct ct_stalker *stalker = make();
    struct ct_stalker_transformer transformer = {.size = sizeof transformer, .transform = refuse_leaf};
    struct ct_stalker_sink sink = {.size = sizeof sink, .stop = stopped};
    assert_int_equal(ct_stalker_follow_me(stalker, &transformer, &sink), 0);
    int before = callback(1), following = ct_stalker_is_following(stalker, 0), a = leaf(1);
    assert_int_equal(ct_stalker_is_following(stalker, 0), 0);
    assert_int_equal(following, 1);
    assert_int_equal(before, 6);
    assert_int_equal(a, 3);
    assert_int_equal(stop_status, CT_ERR_TIMEOUT);
    assert_int_equal(ct_stalker_unfollow_me(stalker), CT_ERR_BAD_STATE);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static void unfollow_callout(struct ct_cpu_context *cpu, void *data) {
    (void)cpu;
    assert_int_equal(ct_stalker_exclude(data, 1, 1), CT_ERR_BAD_STATE);
    assert_int_equal(ct_stalker_unfollow_me(data), 0);
}

static void test_unfollow_in_callout(void **state) {
    (void)state;
    struct ct_stalker *stalker = make();
    assert_true(ct_stalker_add_call_probe(stalker, (uint64_t)leaf, unfollow_callout, stalker, NULL) >= 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int a = callback(1), b = leaf(1);
    assert_int_equal(ct_stalker_is_following(stalker, 0), 0);
    assert_int_equal(a, 6);
    assert_int_equal(b, 3);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* ---- trust ---- */

/* A function that is rewritten in place. */
struct changing {
    uint8_t *code;
    int (*function)(void);
};

static void set(struct changing *c, int value) {
    put_leaf(c->code, value);
}

static void make_changing(struct changing *c) {
    c->code = map_code(4096);
    c->function = (int (*)(void))(void *)c->code;
}

/* How many of `times` changes, each after `runs` executions of the old code, are seen at once. */
static int changes_seen(int trust, int times, int runs) {
    struct changing c;
    struct ct_stalker *stalker = make();
    make_changing(&c);
    set(&c, -1);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, trust), 0);
    assert_int_equal(ct_stalker_trust_threshold(stalker), trust);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int right = 0;
    for (int i = 0; i < times; i++) {
        for (int k = 0; k < runs; k++)
            c.function();
        set(&c, i);
        right += c.function() == i;
    }
    assert_int_equal(ct_stalker_invalidate(stalker, (uint64_t)c.code), 0);
    set(&c, 12345);
    right += c.function() == 12345 ? 0 : -1000000; /* after invalidate it is always seen */
    end(stalker);
    munmap(c.code, 4096);
    return right;
}

static void test_trust(void **state) {
    (void)state;
    assert_int_equal(changes_seen(-1, 200, 5), 200); /* never trusted */
    assert_int_equal(changes_seen(0, 200, 1), 0);    /* at once */
    assert_int_equal(changes_seen(1, 200, 0), 200);  /* what can be written is compared each time */
    assert_int_equal(changes_seen(1, 200, 3), 200);
    assert_int_equal(changes_seen(5, 200, 7), 200);
}

/* At -1 memory does not grow with the number of changes. */
static void test_recycling(void **state) {
    (void)state;
    struct changing c;
    struct ct_stalker *stalker = make();
    make_changing(&c);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, -1), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int right = 0;
    for (int i = 0; i < 100000; i++) {
        set(&c, i);
        right += c.function() == i;
    }
    struct ct_stalker_statistics statistics = {.size = sizeof statistics};
    ct_stalker_statistics(stalker, &statistics);
    end(stalker);
    assert_int_equal(right, 100000);
    assert_true(statistics.changed >= 99900); /* those that made everything start again are not counted */
    munmap(c.code, 4096);
}

/* A change of the threshold while following. */
static void test_trust_changes(void **state) {
    (void)state;
    struct changing c;
    struct ct_stalker *stalker = make();
    make_changing(&c);
    set(&c, 1);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, 0), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int a = c.function();
    set(&c, 2);
    int b = c.function();
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, -1), 0);
    int d = c.function();
    set(&c, 3);
    int e = c.function();
    end(stalker);
    assert_int_equal(a, 1);
    assert_int_equal(b, 1);
    assert_int_equal(d, 2);
    assert_int_equal(e, 3);
    munmap(c.code, 4096);
}

/* Code that is unmapped, and other code at the same place: seen without any threshold. */
static void test_remapped(void **state) {
    (void)state;
    struct changing c;
    struct ct_stalker *stalker = make();
    make_changing(&c);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int right = 0;
    for (int i = 0; i < 50; i++) {
        uint8_t *at = c.code;
        munmap(c.code, 4096);
        c.code = mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        set(&c, i);
        mprotect(c.code, 4096, PROT_READ | PROT_EXEC);
        for (int k = 0; k < 5; k++)
            right += c.function() == i;
    }
    end(stalker);
    assert_int_equal(right, 250);
    munmap(c.code, 4096);
}

/* A call that never returns, with nothing after it, or with bytes that are no code: harmless. */
static void jump_away(void) {
    longjmp(jump, 1);
}

static void test_no_return(void **state) {
    (void)state;
    uint8_t *pages = map_code(8192);
    munmap(pages + 4096, 4096);
    memset(pages, NO_CODE, 4096);
    for (int place = 0; place < 2; place++)
        put_no_return(place ? pages + 1000 : pages + 4096 - NO_RETURN_SIZE, (uint64_t)jump_away);
    assert_int_equal(mprotect(pages, 4096, PROT_READ | PROT_EXEC), 0);
    struct ct_stalker *stalker = make();
    volatile int jumps = 0;
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    for (volatile int i = 0; i < 10; i++) {
        uint8_t *at = i % 2 ? pages + 1000 : pages + 4096 - NO_RETURN_SIZE;
        if (!setjmp(jump))
            ((void (*)(void))(void *)(at + NO_RETURN_BEGIN))();
        else
            jumps++;
    }
    int following = ct_stalker_is_following(stalker, 0);
    end(stalker);
    assert_int_equal(following, 1);
    assert_int_equal(jumps, 10);
    munmap(pages, 4096);
}

/* ---- the rest ---- */

static void test_activate(void **state) {
    (void)state;
    struct counts counts;
    struct ct_stalker *stalker = make();
    follow(stalker, &counts, CT_STALKER_CALL | CT_STALKER_BLOCK);
    leaf(1);
    assert_int_equal(ct_stalker_activate(stalker, (uint64_t)callback), 0);
    leaf(1);
    leaf(1);
    callback(1);
    leaf(1);
    assert_int_equal(ct_stalker_deactivate(stalker), 0);
    leaf(1);
    end(stalker);
    assert_int_equal(counts.blocks[LEAF], 2);
}

static void test_garbage(void **state) {
    (void)state;
    struct ct_stalker *stalker = make();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
        assert_int_equal(leaf(i), 2 * i + 1);
        assert_int_equal(ct_stalker_garbage_collect(stalker), 0); /* we are in it */
        assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
        assert_true(ct_stalker_garbage_collect(stalker) > 0);
    }
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static void test_bad_input(void **state) {
    (void)state;
    struct ct_stalker *stalker = make();
    struct ct_stalker_options wrong = {.size = sizeof wrong, .memory = 17};
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = 0x4000};
    struct ct_stalker *none;
    assert_int_equal(ct_stalker_create(NULL, NULL), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_stalker_create(&none, &wrong), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_stalker_follow_me(NULL, NULL, NULL), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, &sink), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_stalker_unfollow_me(stalker), CT_ERR_BAD_STATE);
    assert_int_equal(ct_stalker_follow(stalker, -1, NULL, NULL), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_stalker_follow(stalker, 0x3fffffff, NULL, NULL), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_stalker_follow(stalker, 1, NULL, NULL), CT_ERR_NOT_FOUND); /* of another process */
    assert_int_equal(ct_stalker_unfollow(stalker, getpid()), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_stalker_exclude(stalker, 0x1000, 0), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_stalker_exclude(stalker, ~0ull - 5, 100), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_stalker_exclude(stalker, 0x1000, 0x1000), 0);
    assert_int_equal(ct_stalker_exclude(stalker, 0x1800, 0x1000), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_stalker_exclude(stalker, 0x2000, 0x1000), 0);
    assert_int_equal(ct_stalker_add_call_probe(stalker, 16, probe, NULL, NULL), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_stalker_add_call_probe(stalker, (uint64_t)leaf, NULL, NULL, NULL), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_stalker_remove_call_probe(stalker, 5), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, -2), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_stalker_trust_threshold(stalker), 1);
    assert_int_equal(ct_stalker_activate(stalker, (uint64_t)leaf), CT_ERR_BAD_STATE);
    assert_int_equal(ct_stalker_event_of("call"), CT_STALKER_CALL);
    assert_int_equal(ct_stalker_event_of("compile"), CT_STALKER_COMPILE);
    assert_int_equal(ct_stalker_event_of("calls"), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_stalker_event_of(""), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int again = ct_stalker_follow_me(stalker, NULL, NULL), busy = ct_stalker_destroy(stalker);
    struct ct_stalker *other = make();
    int taken = ct_stalker_follow_me(other, NULL, NULL);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(again, CT_ERR_BAD_STATE);
    assert_int_equal(taken, CT_ERR_BAD_STATE);
    assert_int_equal(busy, CT_ERR_BUSY);
    assert_int_equal(ct_stalker_destroy(other), 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static void summarize(void *user, int tid, const struct ct_stalker_call_count *counts, size_t count) {
    (void)user, (void)tid, (void)counts, (void)count;
}

/* A life of a Stalker: the calling thread is followed three times, with events and with counts. */
static void *live(void *unused) {
    struct ct_stalker *stalker;
    struct ct_stalker_sink events = {.size = sizeof events, .mask = CT_STALKER_CALL, .on_receive = receive};
    struct ct_stalker_sink summary = {.size = sizeof summary, .mask = CT_STALKER_CALL, .on_call_summary = summarize};
    int bad = ct_stalker_create(&stalker, NULL);
    for (int i = 0; i < 3; i++) {
        bad |= ct_stalker_follow_me(stalker, NULL, i ? &summary : &events);
        leaf(i);
        bad |= ct_stalker_unfollow_me(stalker);
    }
    bad |= ct_stalker_destroy(stalker);
    return bad ? (void *)&one : unused;
}

static long mapped_pages(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &pages), 1);
    fclose(f);
    return pages;
}

/* What a Stalker has taken is free again when it is destroyed; blocks of ended threads serve others. */
static void test_memory(void **state) {
    (void)state;
    NEEDS_PTRACE(); /* else these are the emulator's pages */
    struct counts counts = {0};
    seen = &counts;
    long before = 0;
    for (int round = 0; round < 40; round++) {
        pthread_t thread;
        void *result = NULL;
        if (round == 8) /* what is made once is there */
            before = mapped_pages();
        assert_null(live(NULL));
        assert_int_equal(pthread_create(&thread, NULL, live, NULL), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_null(result);
    }
    assert_true(counts.calls[LEAF] == 80);
    assert_true(mapped_pages() - before < 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_excluded),
        cmocka_unit_test(test_excluded_entries),
        cmocka_unit_test(test_longjmp_out_of_excluded),
        cmocka_unit_test(test_old_jump_buffer),
        cmocka_unit_test(test_excluded_module),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_callout),
        cmocka_unit_test(test_callouts_destroyed),
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_transformer_error),
        cmocka_unit_test(test_unfollow_in_callout),
        cmocka_unit_test(test_trust),
        cmocka_unit_test(test_recycling),
        cmocka_unit_test(test_trust_changes),
        cmocka_unit_test(test_remapped),
        cmocka_unit_test(test_no_return),
        cmocka_unit_test(test_activate),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
