/* SPDX-License-Identifier: Apache-2.0 */
/* The relocator, tested by executing: random snippets run at their original place and moved, near and far, from the
 * same random state, and must end the same: registers, flags, vector state, memory, red zone, the exit taken, the
 * return address a callee finds, and the fault if there is one.
 *
 * Some runs are single-stepped, with all memory more than 128 bytes below rsp overwritten at each step, as signal
 * handlers do; some start in the original and are moved to the copy in the middle, as stopped threads are.
 *
 * CONTRAIL_TEST_SEED and CONTRAIL_TEST_CASES override the defaults; a failure prints how to repeat the one case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <asm/prctl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "isa/x64/encode.h"
#include "isa/x64/relocate.h"
#include "relocate_forms.h"

#define RED_ZONE 128

static const struct place places[] = {
    {0x200000000000, 0x200030000000, 0x200060000000},
    {0x10000000, 0x40000000, 0x70000000}, /* addresses that fit into immediates */
};
uint64_t stack_base = 0x300000000000, far_base = 0x400000000000;
uint8_t initial_data[DATA_SIZE], initial_stack[STACK_SIZE];

static uint64_t seed = 0x5eed, cases = 30000, only = ~0ull;
static struct { uint64_t moved, far, stepped, transferred, faults; } count;

/* ---- memory ---- */

static void *at(uint64_t address) {
    return (void *)(uintptr_t)address;
}

static void map_at(uint64_t address, uint64_t size) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    void *p = mmap(at(address), size, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0);
    if (p != at(address))
        fail_msg("no memory at 0x%lx", address);
}

static void write_exit_stub(uint64_t address, unsigned n) {
    static const uint8_t jump[6] = {0xff, 0x25};
    uint64_t target = exec_exit_address(n);
    memcpy(at(address), jump, sizeof jump);
    memcpy(at(address + 6), &target, sizeof target);
}

static void map_regions(void) {
    map_at(stack_base, STACK_SIZE);
    map_at(far_base, REGION_SIZE);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        map_at(places[i].data, DATA_SIZE);
        uint64_t regions[] = {places[i].code, places[i].near};
        for (size_t r = 0; r < 2; r++) {
            map_at(regions[r], REGION_SIZE);
            for (unsigned n = 0; n < EXEC_EXITS; n++)
                write_exit_stub(exit_stub(regions[r], n), n);
            *(uint8_t *)at(regions[r] + RET_STUB) = 0xc3;
        }
    }
}

/* ---- one run ---- */

struct outcome {
    struct exec_state state;
    uint8_t data[DATA_SIZE];
    uint8_t stack[STACK_SIZE];
};

static void run(const struct snippet *s, uint64_t entry, struct outcome *o, exec_step *step, void *arg) {
    memcpy(at(s->place->data), initial_data, DATA_SIZE);
    memcpy(at(stack_base), initial_stack, STACK_SIZE);
    exec_run(&s->in, entry, &o->state, step, arg);
    memcpy(o->data, at(s->place->data), DATA_SIZE);
    memcpy(o->stack, at(stack_base), STACK_SIZE);
}

static void dump(const char *what, uint64_t address, size_t size) {
    const uint8_t *p = at(address);
    print_message("  %s 0x%lx:", what, address);
    for (size_t i = 0; i < size; i++)
        print_message(" %02x", p[i]);
    print_message("\n");
}

struct copy {
    const char *kind;
    uint64_t address;
    size_t length;
    size_t covered;
    struct ct_x64_moved moved;
    uint64_t highest_rsp; /* seen while stepping */
    uint64_t steps_left;  /* before the thread is moved */
    const struct snippet *snippet;
};

static const char *difference(const struct snippet *s, const struct copy *c, const struct outcome *a,
                              const struct outcome *b) {
    bool far_fault = a->state.signal && c->address >= far_base;
    uint64_t bottom = c->highest_rsp - (s->calls ? 8 : RED_ZONE) - stack_base;
    if (a->state.signal != b->state.signal)
        return "signal";
    if (a->state.exit != b->state.exit)
        return "path";
    if (memcmp(a->state.gpr, b->state.gpr, sizeof a->state.gpr) && !far_fault)
        return "registers";
    if (a->state.flags != b->state.flags)
        return "flags";
    if (exec_compare_vectors(&a->state, &b->state))
        return "vector state";
    if (memcmp(a->data, b->data, DATA_SIZE))
        return "memory";
    if (memcmp(a->stack + bottom, b->stack + bottom, STACK_SIZE - bottom))
        return "stack";
    return NULL;
}

static void compare(const struct snippet *s, const struct copy *c, uint64_t number, const struct outcome *a,
                    const struct outcome *b) {
    const char *what = difference(s, c, a, b);
    if (!what)
        return;
    print_message("case %lu (CONTRAIL_TEST_SEED=0x%lx CONTRAIL_TEST_ONLY=%lu): %s, %s: %s differs\n", number, seed,
                  number, s->name, c->kind, what);
    dump("original", s->address, s->size);
    dump("copy", c->address, c->length);
    print_message("  exits %lu %lu, signals %lu %lu at %lx %lx, flags %lx %lx\n", a->state.exit, b->state.exit,
                  a->state.signal, b->state.signal, a->state.pc, b->state.pc, a->state.flags, b->state.flags);
    for (unsigned i = 0; i < 16; i++)
        print_message("  r%-2u %016lx: %016lx %016lx%s\n", i, s->in.gpr[i], a->state.gpr[i], b->state.gpr[i],
                      a->state.gpr[i] == b->state.gpr[i] ? "" : " !");
    fail();
}

/* ---- moving ---- */

static bool inside(uint64_t pc, uint64_t start, size_t size) {
    return pc - start < size;
}

/* A signal handler between any two instructions: everything below the red zone is lost. */
static int scribble(void *arg, uint64_t *pc, uint64_t rsp) {
    struct copy *c = arg;
    if (!inside(*pc, c->address, c->length) || rsp < stack_base || rsp > stack_base + STACK_SIZE)
        return 1;
    if (rsp > c->highest_rsp)
        c->highest_rsp = rsp;
    uint64_t top = rsp - RED_ZONE, bottom = top - 512;
    if (top > stack_base)
        memset(at(bottom < stack_base ? stack_base : bottom), 0xa5, top - (bottom < stack_base ? stack_base : bottom));
    return 1;
}

/* A thread in the original is moved to the same instruction in the copy. */
static int transfer(void *arg, uint64_t *pc, uint64_t rsp) {
    struct copy *c = arg;
    (void)rsp;
    if (!inside(*pc, c->snippet->address, c->covered) || c->steps_left--)
        return 1;
    int to = ct_x64_moved_to(&c->moved, *pc - c->snippet->address);
    assert_true(to >= 0);
    *pc = c->address + (uint64_t)to;
    return 0;
}

static void move(const struct snippet *s, struct copy *c) {
    struct ct_code_buf out = {.bytes = at(c->address), .capacity = 4096, .address = c->address};
    int rc = ct_x64_relocate_range(&out, s->code, s->size, s->minimum, s->address, &c->covered, &c->moved);
    if (rc) {
        print_message("%s: %d\n", s->name, rc);
        dump("original", s->address, s->size);
    }
    assert_int_equal(rc, 0);
    c->length = out.length;
    assert_true(c->covered >= s->minimum);
    assert_true(out.length <= c->moved.count * CT_X64_RELOCATED_MAX + 14u);
}

static void run_copy(const struct snippet *s, uint64_t number, uint64_t address, const struct outcome *expected) {
    static struct outcome o;
    struct copy c = {.address = address, .snippet = s, .highest_rsp = s->in.gpr[4]};
    c.kind = address >= far_base ? "far" : "near";
    move(s, &c);
    run(s, address, &o, NULL, NULL);
    compare(s, &c, number, expected, &o);
    count.moved++;
    count.far += address >= far_base;
    if (s->no_step)
        return;
    if (random_below(12) == 0) {
        c.kind = address >= far_base ? "far, stepped" : "near, stepped";
        run(s, address, &o, scribble, &c);
        compare(s, &c, number, expected, &o);
        count.stepped++;
    }
    if (random_below(12) == 0) {
        c.highest_rsp = s->in.gpr[4];
        c.steps_left = random_below(12);
        c.kind = address >= far_base ? "far, thread moved" : "near, thread moved";
        run(s, s->address, &o, transfer, &c);
        compare(s, &c, number, expected, &o);
        count.transferred++;
    }
}

/* ---- cases ---- */

static void random_state(struct snippet *s) {
    for (size_t i = 0; i < DATA_SIZE; i += 8) {
        uint64_t v = random_next();
        memcpy(initial_data + i, &v, sizeof v);
    }
    for (size_t i = 0; i < STACK_SIZE; i += 8) {
        uint64_t v = random_next();
        memcpy(initial_stack + i, &v, sizeof v);
    }
    for (unsigned i = 0; i < 16; i++)
        s->in.gpr[i] = random_next();
    uint64_t rsp = stack_base + STACK_SIZE / 2 + random_below(STACK_SIZE / 4);
    s->in.gpr[CT_X64_RSP] = random_below(4) ? rsp & ~7ull : rsp;
    s->in.flags = 0x202 | (random_next() & (CT_X64_ARITH_FLAGS | CT_X64_DF));
    exec_random_vectors(&s->in, random_next);
}

/* Returns false when the case was uninteresting. */
static bool run_case(uint64_t number) {
    static struct snippet s;
    static struct outcome original;
    random_seed(seed * 0x9e3779b97f4a7c15 + number);
    s = (struct snippet){.place = &places[random_below(4) == 0]};
    random_state(&s);
    make_snippet(&s);
    memcpy(at(s.address), s.code, s.size);
    write_exit_stub(s.address - 32, 1);
    write_exit_stub(s.address + s.size, 0);
    write_exit_stub(s.address + s.size + 16, 2);
    run(&s, s.address, &original, NULL, NULL);
    note_run(&s, original.state.signal);
    if (s.discard && original.state.signal == SIGILL)
        return false;
    count.faults += original.state.signal != 0;
    run_copy(&s, number, s.place->near + random_below(0xe000), &original);
    run_copy(&s, number, far_base + random_below(0xe000), &original);
    return true;
}

static void test_moved_code(void **state) {
    (void)state;
    exec_init(); /* here, because cmocka takes the signals when a test starts */
    map_regions();
    syscall(SYS_arch_prctl, ARCH_SET_GS, GS_BASE);
    if (only != ~0ull) {
        run_case(only);
        return;
    }
    uint64_t done = 0;
    for (uint64_t number = 0; done < cases; number++)
        done += run_case(number);
    print_message("seed 0x%lx: %lu cases, %lu copies run (%lu far), %lu stepped, %lu threads moved, "
                  "%lu cases fault; %u different instructions with an operand\n",
                  seed, done, count.moved, count.far, count.stepped, count.transferred, count.faults,
                  count_opcodes_run());
    assert_true(count.faults < done / 4);
    const char *missing = never_ran();
    if (missing)
        fail_msg("%s never ran", missing);
    assert_true(count_opcodes_run() > 300); /* SSE2 alone has as many */
}

static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

int main(void) {
    seed = setting("CONTRAIL_TEST_SEED", seed);
    cases = setting("CONTRAIL_TEST_CASES", cases);
    only = setting("CONTRAIL_TEST_ONLY", only);
    alarm(250); /* copies that never end */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moved_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
