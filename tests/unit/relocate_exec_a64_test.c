/* SPDX-License-Identifier: Apache-2.0 */
/* Moved A64 code, run beside the original: from random registers, both must end at the same place with the same
 * registers, flags, vectors and memory. Copies are near and far; some are stepped through, and at each step the bytes
 * below sp are overwritten, as a signal's frame would.
 *
 * A signal takes the test into the code, with all registers as wanted, and brk at its ends takes it back: tested code
 * may use every register. CONTRAIL_TEST_CASES, CONTRAIL_TEST_SEED and CONTRAIL_TEST_ONLY as in relocate_exec. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <asm/hwcap.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include "isa/a64/encode.h"
#include "isa/a64/relocate.h"

#define CODE       0x1000000000ull /* the originals, in the middle of their region */
#define CODE_SIZE  0x10000ull
#define DATA       (CODE + CODE_SIZE) /* literals; what follows it is not mapped */
#define DATA_SIZE  0x10000ull
#define STACK      0x2000000000ull
#define STACK_SIZE 0x10000ull
#define STACK_GAP  512 /* bytes below sp that a signal's frame would take */

static const uint64_t places[] = {CODE + 0x40000, CODE + 0x3000000, CODE + 0x60000000, 0x3300000000};
enum { PLACES = 4, FAR = 2 }; /* from FAR on, branches do not reach */

struct state {
    uint64_t x[31], sp, nzcv;
    __uint128_t q[32];
    uint64_t pc, fault; /* where it ended */
    int signal;
};

static uint64_t seed = 0x5eed, cases = 3000, only = UINT64_MAX, random_state;
static uint8_t initial_stack[STACK_SIZE];
static struct { uint64_t run, far, stepped, steps, faults, forms[16]; } count;

static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * 0x2545f4914f6cdd1d;
}

static uint64_t random_below(uint64_t n) {
    return (random_next() >> 11) % n;
}

/* ---- into the code and out of it ---- */

static struct {
    ucontext_t *at;
    mcontext_t context;
} host;
static struct state in, out;
static uint32_t *stepped; /* the copy whose words are breakpoints; NULL: none */
static uint32_t step_words[64];
static size_t step_count;

static struct fpsimd_context *vectors(ucontext_t *u) {
    struct _aarch64_ctx *head = (void *)u->uc_mcontext.__reserved;
    while (head->magic != FPSIMD_MAGIC)
        head = (void *)((uint8_t *)head + head->size);
    return (struct fpsimd_context *)head;
}

static void on_enter(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *u = context;
    host.context = u->uc_mcontext;
    memcpy(u->uc_mcontext.regs, in.x, sizeof in.x);
    u->uc_mcontext.sp = in.sp;
    u->uc_mcontext.pc = in.pc;
    u->uc_mcontext.pstate = (u->uc_mcontext.pstate & ~UINT64_C(0xf0000000)) | in.nzcv;
    memcpy(vectors(u)->vregs, in.q, sizeof in.q);
}

/* A breakpoint in a copy: overwrites what a signal may, and goes on. */
static bool step(ucontext_t *u) {
    uint64_t offset = u->uc_mcontext.pc - (uint64_t)(uintptr_t)stepped;
    if (!stepped || offset >= 4 * step_count)
        return false;
    memset((void *)(uintptr_t)(u->uc_mcontext.sp - STACK_GAP), 0xa5, STACK_GAP);
    stepped[offset / 4] = step_words[offset / 4];
    __builtin___clear_cache((char *)stepped + offset, (char *)stepped + offset + 4);
    count.steps++;
    return true;
}

static void on_end(int signal, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    if (signal == SIGTRAP && step(u))
        return;
    memcpy(out.x, u->uc_mcontext.regs, sizeof out.x);
    memcpy(out.q, vectors(u)->vregs, sizeof out.q);
    out.sp = u->uc_mcontext.sp;
    out.pc = u->uc_mcontext.pc;
    out.nzcv = u->uc_mcontext.pstate & 0xf0000000;
    out.signal = signal;
    out.fault = signal == SIGSEGV ? (uint64_t)(uintptr_t)info->si_addr : 0;
    u->uc_mcontext = host.context;
}

static void take_signals(void) {
    static const int ends[] = {SIGTRAP, SIGSEGV, SIGILL, SIGBUS};
    stack_t stack = {.ss_size = 256 << 10};
    stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = on_enter, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_sigaction = on_end;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaction(ends[i], &action, NULL);
}

static void run(uint64_t pc, struct state *result) {
    memcpy((void *)STACK, initial_stack, STACK_SIZE);
    in.pc = pc;
    syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
    *result = out;
}

/* ---- code ---- */

static void map_at(uint64_t address, uint64_t size) {
    void *got = mmap((void *)address, size, PROT_READ | PROT_WRITE | PROT_EXEC,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != (void *)address)
        fail_msg("no memory at %lx", address);
}

static uint32_t *word_at(uint64_t address) {
    return (uint32_t *)(uintptr_t)address;
}

static void flush(uint64_t address, size_t size) {
    __builtin___clear_cache((char *)(uintptr_t)address, (char *)(uintptr_t)address + size);
}

static uint32_t field(uint64_t bits, unsigned shift, int64_t value) {
    return (uint32_t)((uint64_t)value & ((UINT64_C(1) << bits) - 1)) << shift;
}

struct snippet {
    uint64_t from;
    size_t count;
    uint32_t words[3];
    unsigned scratch;
    bool uses_scratch;
    uint32_t may_change; /* registers */
};

/* Distances in words: to a place of the code region, or rarely just before or after. */
static int64_t some_distance(uint64_t from) {
    if (random_below(3) == 0)
        return (int64_t)random_below(7) - 3;
    return ((int64_t)(CODE + 4 * random_below(CODE_SIZE / 4)) - (int64_t)from) / 4;
}

static unsigned some_register(void) {
    return (unsigned)random_below(32);
}

static uint32_t literal(uint64_t from) {
    static const uint32_t forms[7] = {0x18000000, 0x58000000, 0x98000000, 0xd8000000,
                                      0x1c000000, 0x5c000000, 0x9c000000};
    uint64_t size = random_below(20) ? DATA_SIZE - 16 : 2 * DATA_SIZE;
    int64_t distance = ((int64_t)(DATA + 4 * random_below(size / 4)) - (int64_t)from) / 4;
    return forms[random_below(7)] | field(19, 5, distance) | some_register();
}

enum form { F_ADR, F_ADRP, F_LITERAL, F_B, F_B_COND, F_CBZ, F_TBZ, F_BL, F_BLR, F_PLAIN, FORMS };
static const char *const form_names[FORMS] = {"adr", "adrp", "literal", "b",   "b.cond",
                                              "cbz", "tbz",  "bl",      "blr", "plain"};

/* Instructions that do not depend on their place. */
static uint32_t plain(void) {
    static const uint32_t words[] = {
        0x8b020020, /* add x0, x1, x2 */
        0xab0400a3, /* adds x3, x5, x4 */
        0xd503233f, /* paciasp */
        0xd503245f, /* bti c */
        0xd503201f, /* nop */
        0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
        0xd10083ff, /* sub sp, sp, #32 */
        0x9a9f17e0, /* cset x0, eq */
        0x4ea11c20, /* mov v0.16b, v1.16b */
        0xf90003e1, /* str x1, [sp] */
    };
    return words[random_below(sizeof words / sizeof *words)];
}

static uint32_t make_word(enum form form, uint64_t from) {
    int64_t distance = some_distance(from);
    switch (form) {
    case F_ADR:
        return 0x10000000 | (uint32_t)(random_next() & 0x60ffffe0) | some_register();
    case F_ADRP:
        return 0x90000000 | (uint32_t)(random_next() & 0x60ffffe0) | some_register();
    case F_LITERAL:
        return literal(from);
    case F_B:
        return 0x14000000 | field(26, 0, distance);
    case F_BL:
        return 0x94000000 | field(26, 0, distance);
    case F_B_COND:
        return 0x54000000 | field(19, 5, distance) | (uint32_t)random_below(16);
    case F_CBZ:
        return 0x34000000 | (uint32_t)(random_next() & 0x81000000) | field(19, 5, distance) | some_register();
    case F_TBZ: /* its reach is ±32 KiB */
        distance = distance % 8192;
        return 0x36000000 | (uint32_t)(random_next() & 0x81f80000) | field(14, 5, distance) | some_register();
    default:
        return plain();
    }
}

/* A call through a register, to somewhere in the code; where the processor signs pointers also blraaz and blraa. */
static void make_call(struct snippet *s) {
    unsigned target = (unsigned)random_below(31), modifier = (unsigned)random_below(31);
    uint64_t address = CODE + 4 * random_below(0x400);
    bool keys = getauxval(AT_HWCAP) & HWCAP_PACA;
    s->count = 1;
    switch (keys ? random_below(3) : 0) {
    case 0:
        s->words[0] = 0xd63f0000 | target << 5;
        break;
    case 1:
        s->words[0] = 0xd63f081f | target << 5;
        __asm__(".arch armv8.3-a\n\tpaciza %0" : "+r"(address));
        break;
    default:
        target = target == modifier ? (target + 1) % 31 : target;
        s->words[0] = 0xd73f0800 | target << 5 | modifier;
        __asm__(".arch armv8.3-a\n\tpacia %0, %1" : "+r"(address) : "r"(in.x[modifier]));
        break;
    }
    in.x[target] = address;
}

/* A register that the snippet does not read before it writes it; it may change unless it is written. */
static void choose_scratch(struct snippet *s) {
    unsigned scratch = 16 + (unsigned)random_below(2);
    uint32_t written = 0, read = 0;
    bool leaves = false;
    for (size_t i = 0; i < s->count; i++) {
        struct ct_a64_insn insn;
        struct ct_a64_effects e;
        ct_a64_decode(s->words[i], &insn);
        ct_a64_effects(&insn, &e);
        read |= e.regs_read & ~written;
        s->uses_scratch |= (e.regs_read | e.regs_written) >> scratch & 1;
        leaves |= ct_a64_is_direct(&insn);
        written |= leaves ? 0 : e.regs_written; /* what follows a branch may not run */
    }
    s->scratch = random_below(2) || read >> scratch & 1 ? CT_A64_NO_SCRATCH : scratch;
    if (s->scratch != CT_A64_NO_SCRATCH && !(written >> scratch & 1))
        s->may_change |= UINT32_C(1) << scratch;
}

static enum form make_snippet(struct snippet *s) {
    enum form form = (enum form)random_below(FORMS);
    *s = (struct snippet){.count = 1 + random_below(3)};
    s->from = CODE + CODE_SIZE / 2 + 4 * random_below(0x1000);
    for (size_t i = 0; i + 1 < s->count; i++)
        s->words[i] = make_word(random_below(2) ? F_PLAIN : (enum form)random_below(F_BL), s->from + 4 * i);
    s->words[s->count - 1] = make_word(form, s->from + 4 * (s->count - 1));
    if (form == F_BL || form == F_BLR)
        s->may_change |= 1 << 17;
    if (form == F_BLR)
        make_call(s);
    choose_scratch(s);
    return form;
}

/* ---- cases ---- */

static void random_registers(void) {
    static const uint64_t some[] = {0, 1, UINT64_MAX, 1ull << 63, 1ull << 32};
    for (unsigned i = 0; i < 31; i++)
        in.x[i] = random_below(3) ? random_next() : some[random_below(5)];
    in.sp = STACK + STACK_SIZE / 2 + 16 * random_below(256);
    in.nzcv = random_next() & 0xf0000000;
    for (unsigned i = 0; i < 32; i++)
        in.q[i] = (__uint128_t)random_next() << 64 | random_next();
    for (size_t i = 0; i < STACK_SIZE; i += 8)
        memcpy(initial_stack + i, &(uint64_t){random_next()}, 8);
}

static void complain(const struct snippet *s, uint64_t number, uint64_t place, const char *what) {
    printf("case %lu (CONTRAIL_TEST_SEED=0x%lx CONTRAIL_TEST_ONLY=%lu): %s; copy at %lx, scratch %u\n", number, seed,
           number, what, place, s->scratch);
    for (size_t i = 0; i < s->count; i++)
        printf("  %lx: %08x\n", s->from + 4 * i, s->words[i]);
    fail();
}

/* Below the sp that a snippet began with only what the original has written counts: the rest is free to change. */
static bool same_stack(uint64_t sp, const uint8_t *expected) {
    for (uint64_t at = sp; at < STACK + STACK_SIZE; at++) {
        uint8_t was = initial_stack[at - STACK], is = *(uint8_t *)at;
        if (expected[at - sp] != is && (at >= in.sp || expected[at - sp] != was))
            return false;
    }
    return true;
}

static void compare(const struct snippet *s, uint64_t number, uint64_t place, const struct state *a,
                    const struct state *b, const uint8_t *stack) {
    if (a->signal != b->signal || a->fault != b->fault)
        complain(s, number, place, "another signal");
    if (a->signal != SIGTRAP)
        return; /* the handler of a fault sees registers of the sequence */
    if (a->pc != b->pc)
        complain(s, number, place, "ends elsewhere");
    for (unsigned i = 0; i < 31; i++)
        if (a->x[i] != b->x[i] && !(s->may_change >> i & 1))
            complain(s, number, place, "another register");
    if (a->sp != b->sp || a->nzcv != b->nzcv || memcmp(a->q, b->q, sizeof a->q))
        complain(s, number, place, "other flags, sp or vectors");
    if (!same_stack(a->sp, stack))
        complain(s, number, place, "another stack");
}

/* Every place where tested code may end is a breakpoint. */
static void put_original(const struct snippet *s, bool patched) {
    for (size_t i = 0; i < s->count; i++)
        *word_at(s->from + 4 * i) = patched ? 0xd4200000 : s->words[i];
    flush(s->from, 4 * s->count);
}

static void set_steps(uint64_t place, size_t length) {
    stepped = word_at(place);
    step_count = length / 4;
    for (size_t i = 0; i < step_count; i++) {
        step_words[i] = stepped[i];
        stepped[i] = 0xd4200000;
    }
    flush(place, length);
}

static void run_copy(const struct snippet *s, uint64_t number, unsigned which, const struct state *expected,
                     const uint8_t *stack) {
    uint8_t original[12];
    uint64_t place = places[which] + 4 * random_below(0x400);
    struct ct_code_buf buf = {.bytes = (uint8_t *)place, .capacity = 160, .address = place};
    memcpy(original, s->words, sizeof original);
    int rc = ct_a64_relocate_range(&buf, original, s->count, s->from, s->scratch, NULL);
    bool may_fail = (which >= FAR && (s->scratch == CT_A64_NO_SCRATCH || s->uses_scratch)) ||
                    (s->words[0] & 0xffe00000) == 0xd7200000;
    if (rc && !may_fail)
        complain(s, number, place, "is not moved");
    if (rc)
        return;
    flush(place, buf.length);
    struct state result;
    bool steps = random_below(8) == 0;
    if (steps)
        set_steps(place, buf.length);
    run(place, &result);
    stepped = NULL;
    compare(s, number, place, expected, &result, stack);
    count.run++;
    count.far += which >= FAR;
    count.stepped += steps;
}

/* A branch back inside of the snippet. */
static bool may_loop(const struct snippet *s) {
    for (size_t i = 0; i < s->count; i++) {
        struct ct_a64_insn insn;
        ct_a64_decode(s->words[i], &insn);
        if (ct_a64_is_direct(&insn) && ct_a64_target(&insn, s->from + 4 * i) - s->from <= 4 * i)
            return true;
    }
    return false;
}

static void run_case(uint64_t number) {
    static uint8_t stack[STACK_SIZE];
    struct snippet s;
    struct state expected;
    random_state = (seed + number) * 0x9e3779b97f4a7c15 | 1;
    for (unsigned i = 0; i < 4; i++)
        random_next();
    random_registers();
    enum form form = make_snippet(&s);
    if (may_loop(&s))
        return;
    put_original(&s, false);
    run(s.from, &expected);
    memcpy(stack, (void *)expected.sp, expected.signal == SIGTRAP ? STACK + STACK_SIZE - expected.sp : 0);
    count.faults += expected.signal != SIGTRAP;
    count.forms[form]++;
    put_original(&s, true);
    run_copy(&s, number, (unsigned)random_below(FAR), &expected, stack);
    run_copy(&s, number, FAR + (unsigned)random_below(PLACES - FAR), &expected, stack);
}

static void test_moved_code(void **state) {
    (void)state;
    take_signals(); /* here, because cmocka takes the signals when a test starts */
    map_at(CODE, CODE_SIZE + DATA_SIZE);
    map_at(STACK, STACK_SIZE);
    for (unsigned i = 0; i < PLACES; i++)
        map_at(places[i], 0x2000);
    random_state = 1;
    for (uint64_t at = CODE; at < DATA; at += 4)
        *word_at(at) = 0xd4200000;
    for (uint64_t at = DATA; at < DATA + DATA_SIZE; at += 4)
        *word_at(at) = (uint32_t)random_next();
    flush(CODE, CODE_SIZE);
    if (only != UINT64_MAX) {
        run_case(only);
        return;
    }
    for (uint64_t number = 0; number < cases; number++)
        run_case(number);
    print_message("seed 0x%lx: %lu cases, %lu copies run (%lu far), %lu stepped (%lu steps), %lu cases fault\n", seed,
                  cases, count.run, count.far, count.stepped, count.steps, count.faults);
    for (unsigned i = 0; i < FORMS; i++)
        if (!count.forms[i])
            fail_msg("%s never ran", form_names[i]);
    assert_true(count.far > cases / 4 && count.steps > cases / 20 && count.faults < cases / 4);
}

static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

int main(void) {
    seed = setting("CONTRAIL_TEST_SEED", seed);
    cases = setting("CONTRAIL_TEST_CASES", cases);
    only = setting("CONTRAIL_TEST_ONLY", only);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moved_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
