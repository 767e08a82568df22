/* SPDX-License-Identifier: Apache-2.0 */
/* Random code runs natively and followed from the same states, and must leave the same registers, flags, vector
 * registers, data and stack: stalk_gen.h. Every way to make code writable, every trust threshold, code that is writable
 * and code that is not, with and without events. */
#include <contrail/stalker.h>
#include "stalk_code.h"
#include "stalk_gen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { FUNCTIONS = 400, BLOCKS = 25, STACK = 4096, RUNS = 3, CODE = 4 << 20, TABLE = 1 << 16 };

struct world {
    struct stalk_state state;
    uint8_t data[GEN_DATA];
    _Alignas(16) uint8_t stack[STACK];
};

/* The stack and the data must be at the same place each time. */
static struct world live;
static struct world results[FUNCTIONS][RUNS];
static size_t functions[FUNCTIONS];

/* An emulator is slow. */
static unsigned function_count(void) {
    return is_emulated() && !getenv("STALK_BLOCKS") ? FUNCTIONS / 10 : FUNCTIONS;
}

static void fill_world(struct stalk_gen *g) {
    for (size_t i = 0; i < sizeof live.data; i += 8) {
        uint64_t value = stalk_gen_random(g);
        memcpy(live.data + i, &value, 8);
    }
    memset(live.stack, 0x5a, sizeof live.stack);
    stalk_gen_state(g, &live.state, (uint64_t)live.data + GEN_DATA / 2, (uint64_t)live.stack + STACK - 256);
}

static void report_difference(unsigned function, unsigned run, uint64_t seed, const struct world *expected) {
    const uint64_t *followed = (const uint64_t *)&live, *native = (const uint64_t *)expected;
    size_t i = 0;
    while (followed[i] == native[i])
        i++;
    fail_msg("function %u, run %u (seed %#lx) differs: word %zu followed %#lx, native %#lx", function, run,
             (unsigned long)seed, i, (unsigned long)followed[i], (unsigned long)native[i]);
}

static void run_all(struct stalk_gen *g, uint8_t *scratch_start, size_t scratch_size, const uint8_t *scratch,
                    bool check) {
    uint64_t seed = g->seed;
    for (unsigned run = 0; run < RUNS; run++)
        for (unsigned i = 0; i < function_count(); i++) {
            struct world *expected = &results[i][run];
            g->seed = (seed ^ (i * 2654435761u + run)) | 1;
            fill_world(g);
            memcpy(scratch_start, scratch, scratch_size);
            stalk_run(&live.state, g->code + functions[i]);
            if (!check)
                memcpy(expected, &live, sizeof live);
            else if (memcmp(expected, &live, sizeof live))
                report_difference(i, run, seed, expected);
        }
    g->seed = seed;
}

static uint64_t seen_events;

static void count_events(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)tid, (void)events;
    seen_events += count;
}

static int why_stopped;

static void note_stop(void *user, int tid, int status) {
    (void)user, (void)tid;
    why_stopped = status;
}

struct mode {
    enum ct_stalker_memory memory;
    int trust;
    bool writable;
    uint32_t mask;
};

/* The number of blocks that were translated. */
static uint64_t conform(const struct mode *mode, uint64_t seed) {
    uint8_t *memory = mmap(NULL, CODE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    struct stalk_gen g = {.code = memory + TABLE, .capacity = CODE - TABLE - 4096, .seed = seed | 1};
    g.table = (uint64_t *)memory;
    g.table_size = TABLE / 8 - 64;
    stalk_gen_leaves(&g);
    for (unsigned i = 0; i < function_count(); i++)
        functions[i] = stalk_gen_function(&g, BLOCKS);
    assert_true(g.used < g.capacity && g.table_used < g.table_size);
    uint8_t *scratch_start = (uint8_t *)&g.table[g.table_size], scratch[512];
    memcpy(scratch, scratch_start, sizeof scratch);
    if (!mode->writable)
        assert_int_equal(mprotect(g.code, CODE - TABLE, PROT_READ | PROT_EXEC), 0);
    run_all(&g, scratch_start, sizeof scratch, scratch, false);

    struct ct_stalker *stalker;
    struct ct_stalker_options options = {.size = sizeof options, .memory = mode->memory};
    struct ct_stalker_sink sink = {
        .size = sizeof sink, .mask = mode->mask, .on_receive = count_events, .stop = note_stop};
    assert_int_equal(ct_stalker_create(&stalker, &options), 0);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, mode->trust), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, &sink), 0);
    run_all(&g, scratch_start, sizeof scratch, scratch, true);
    int still = ct_stalker_unfollow_me(stalker);
    assert_int_equal(why_stopped, 0);
    assert_int_equal(still, 0);
    struct ct_stalker_statistics statistics = {.size = sizeof statistics};
    ct_stalker_statistics(stalker, &statistics);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    munmap(memory, CODE);
    return statistics.blocks;
}

/* As many fresh programs as make `goal` blocks. */
static void conform_often(const struct mode *mode, uint64_t goal) {
    uint64_t blocks = 0;
    for (uint64_t seed = 1; blocks < goal; seed++)
        blocks += conform(mode, seed * 0x9e3779b97f4a7c15ull + mode->mask + (uint64_t)mode->trust);
    print_message("%lu blocks translated and compared\n", (unsigned long)blocks);
}

static uint64_t goal(void) {
    const char *text = getenv("STALK_BLOCKS");
    return text ? strtoull(text, NULL, 0) : is_emulated() ? 20000 : 300000;
}

static void test_plain(void **state) {
    (void)state;
    conform_often(&(struct mode){CT_STALKER_MEMORY_RWX, 1, false, 0}, goal());
}

static void test_trust(void **state) {
    (void)state;
    for (int trust = -1; trust <= 3; trust++)
        for (int writable = 0; writable < 2; writable++)
            conform_often(&(struct mode){CT_STALKER_MEMORY_RWX, trust, writable, 0}, goal() / 100);
}

static void test_memory(void **state) {
    (void)state;
    for (int memory = CT_STALKER_MEMORY_AUTO; memory <= last_memory(); memory++)
        conform_often(&(struct mode){(enum ct_stalker_memory)memory, 1, false, 0}, goal() / 100);
}

static void test_events(void **state) {
    (void)state;
    static const uint32_t masks[] = {CT_STALKER_CALL,
                                     CT_STALKER_RET,
                                     CT_STALKER_EXEC,
                                     CT_STALKER_BLOCK,
                                     CT_STALKER_ALL_EVENTS,
                                     CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_TIMESTAMPS,
                                     CT_STALKER_ALL_EVENTS | CT_STALKER_FAST_CLOCK,
                                     CT_STALKER_ALL_EVENTS | CT_STALKER_TIMESTAMPS};
    for (unsigned i = 0; i < sizeof masks / sizeof *masks; i++)
        conform_often(&(struct mode){CT_STALKER_MEMORY_RWX, 1, i & 1, masks[i]}, goal() / 100);
    assert_true(seen_events > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_trust),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
