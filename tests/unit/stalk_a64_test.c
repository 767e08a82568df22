/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of arm64 that are not copied as they are: x18, which is ours while a thread is followed; addresses and
 * literals; branches of every kind; exclusive accesses; signed addresses; guarded pages. Each function does the same
 * natively and followed. */
#include "stalk_util.h"

/* Each is a function of one argument, which may change all registers that a call may change. */
#define FUNCTION(name, text)                                                                                           \
    uint64_t name(uint64_t x);                                                                                         \
    __asm__(".text\n.balign 64\n.arch armv8.3-a\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" text      \
            "\n.size " #name ", . - " #name "\n")

/* In arithmetic, addresses, pairs, with and without write-back; live over calls, branches and system calls. */
FUNCTION(
    uses_x18,
    "stp x29, x30, [sp, #-48]!\n mov x18, x0\n add x18, x18, #7\n add x0, x18, x18, lsl #2\n"
    "str x18, [sp, #16]\n ldr x18, [sp, #16]!\n sub x18, x18, #1\n str x18, [sp, #8]\n"
    "ldp x18, x17, [sp]\n eor x0, x0, x18\n add x0, x0, x17\n mov x18, sp\n ldr x16, [x18]\n"
    "add x0, x0, x16\n add x18, x18, #16\n str x0, [x18], #-8\n ldr x1, [x18, #8]\n mov x2, sp\n sub x18, x18, x2\n"
    "add x0, x0, x18\n mov x9, x0\n mov x8, #172\n svc #0\n mov x0, x9\n add x0, x0, x18\n"
    "mov x16, #100\n mov x17, #200\n bl 2f\n add x0, x0, x18\n add x0, x0, x16\n add x0, x0, x17\n"
    "sub sp, sp, #16\n ldp x29, x30, [sp], #48\n ret\n 2: add x18, x18, #5\n ret");
FUNCTION(branches_on_x18, "mov x18, x0\n mov x0, #0\n cbz x18, 1f\n add x0, x0, #1\n 1: cbnz x18, 2f\n"
                          "add x0, x0, #2\n 2: tbz x18, #3, 3f\n add x0, x0, #4\n 3: tbnz w18, #1, 4f\n"
                          "add x0, x0, #8\n 4: adr x18, 5f\n br x18\n udf #0\n 5: mov x9, x30\n adr x18, 6f\n blr x18\n"
                          "mov x30, x9\n add x0, x0, x18\n adr x18, uses_x18\n sub x0, x0, x18\n ret\n"
                          "6: add x0, x0, #16\n ret");
FUNCTION(literals,
         "ldr w1, 1f\n ldr x2, 1f\n ldrsw x3, 1f\n ldr x18, 1f\n ldr s0, 1f\n ldr d1, 1f\n ldr q2, 1f\n"
         "prfm pldl1keep, 1f\n add x0, x0, x1\n add x0, x0, x2\n add x0, x0, x3\n add x0, x0, x18\n"
         "fmov w4, s0\n add x0, x0, x4\n fmov x5, d1\n add x0, x0, x5\n mov x6, v2.d[1]\n add x0, x0, x6\n"
         "adr x7, literals\n adrp x9, literals\n add x9, x9, :lo12:literals\n sub x7, x7, x9\n add x0, x0, x7\n"
         "ret\n .balign 16\n 1: .quad 0x8123456789abcdef, 0x1122334455667788");
FUNCTION(conditions, "mov x9, x0\n mov x0, #0\n mov x1, #64\n 1: subs x2, x9, x1\n b.eq 2f\n b.hs 3f\n b.mi 4f\n"
                     "add x0, x0, #1\n b 5f\n 2: add x0, x0, #3\n b.al 5f\n udf #0\n 3: add x0, x0, #5\n b.vc 5f\n"
                     "udf #0\n 4: add x0, x0, #7\n 5: subs x1, x1, #1\n b.ne 1b\n adc x0, x0, x9\n ret");
/* Sums up with exclusive accesses; the condition in the middle never holds. */
FUNCTION(exclusive, "stp x0, xzr, [sp, #-16]!\n mov x2, #50\n add x1, sp, #8\n 1: ldaxr x3, [x1]\n cmp x3, x0\n"
                    "b.eq 3f\n add x3, x3, #3\n stlxr w4, x3, [x1]\n cbnz w4, 1b\n sub x2, x2, #1\n cbnz x2, 1b\n"
                    "3: ldr x0, [sp, #8]\n add sp, sp, #16\n ret");
/* The same with x18 as address, value, and what a branch looks at. The third word of the unit is known by its constant;
 * a load in it may fault. x6: where it loads from. */
FUNCTION(exclusive_x18, "stp x0, xzr, [sp, #-16]!\n mov x2, #50\n mov x6, sp\n mov x17, #77\n add x18, sp, #8\n"
                        "1: ldaxr x3, [x18]\n ldr x5, [x6]\n add x3, x3, #0x7a5\n cbz x18, 3f\n cmp x3, x0\n b.eq 3f\n"
                        "stlxr w4, x3, [x18]\n cbnz w4, 1b\n sub x2, x2, #1\n cbnz x2, 1b\n"
                        "3: add x0, sp, #8\n sub x0, x0, x18\n eor x0, x0, x17\n ldr x1, [sp, #8]\n add x0, x0, x1\n"
                        "add x0, x0, x5\n add sp, sp, #16\n ret");
/* The same with every register that could have x18 meanwhile. */
FUNCTION(exclusive_full, "stp x0, xzr, [sp, #-16]!\n mov x2, #20\n"
                         ".irp r, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17\n mov x\\r, #3 * \\r\n .endr\n"
                         "add x18, sp, #8\n 1: ldaxr x3, [x18]\n"
                         ".irp r, 0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17\n add x3, x3, x\\r\n .endr\n"
                         "stlxr w4, x3, [x18]\n cbnz w4, 1b\n sub x2, x2, #1\n cbnz x2, 1b\n"
                         "ldr x0, [sp, #8]\n sub x18, x18, #8\n sub x18, sp, x18\n add x0, x0, x18\n"
                         "add sp, sp, #16\n ret");
FUNCTION(signed_return, "paciasp\n stp x29, x30, [sp, #-16]!\n bl 1f\n ldp x29, x30, [sp], #16\n retaa\n"
                        "1: pacibsp\n add x0, x0, #9\n retab");
FUNCTION(signed_branches,
         "mov x9, x30\n mov x17, #33\n mov x18, #44\n adr x1, 1f\n pacia x1, x17\n braa x1, x17\n"
         "udf #0\n 1: adr x2, 3f\n pacib x2, x18\n blrab x2, x18\n adr x3, 3f\n paciza x3\n blraaz x3\n"
         "adr x4, 2f\n pacdza x5\n pacia x4, sp\n braa x4, sp\n udf #0\n 2: add x0, x0, x17\n"
         "add x0, x0, x18\n mov x30, x9\n ret\n 3: add x0, x0, #2\n ret");
/* Returns by other registers. */
FUNCTION(odd_returns, "mov x9, x30\n adr x30, 1f\n adr x10, 2f\n ret x10\n udf #0\n 2: add x0, x0, #1\n ret\n"
                      "1: add x0, x0, #2\n mov x17, x9\n ret x17");

typedef uint64_t function(uint64_t);
static function *const functions[] = {uses_x18,      branches_on_x18, literals,      conditions,      exclusive,
                                      exclusive_x18, exclusive_full,  signed_return, signed_branches, odd_returns};
enum { COUNT = sizeof functions / sizeof *functions };

static struct ct_stalker *make(int trust) {
    struct ct_stalker *stalker;
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, trust), 0);
    return stalker;
}

static void receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)tid, (void)events;
    *(size_t *)user += count;
}

static int keep_all(void *user, struct ct_stalker_iterator *it, struct ct_stalker_writer *w) {
    (void)user, (void)w;
    while (ct_stalker_iterator_next(it))
        ct_stalker_iterator_keep(it);
    return 0;
}

/* With a transformer, units that name x18 keep it: our accesses are in them, and they give the same all the same. */
static void test_transformed(void **state) {
    (void)state;
    static const struct ct_stalker_transformer transformer = {.size = sizeof transformer, .transform = keep_all};
    struct ct_stalker *stalker = make(1);
    uint64_t expected[COUNT][16], got[COUNT][16];
    for (unsigned f = 0; f < COUNT; f++)
        for (unsigned x = 0; x < 16; x++)
            expected[f][x] = functions[f](x);
    assert_int_equal(ct_stalker_follow_me(stalker, &transformer, NULL), 0);
    for (unsigned f = 0; f < COUNT; f++)
        for (unsigned x = 0; x < 16; x++)
            got[f][x] = functions[f](x);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_memory_equal(got, expected, sizeof got);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static void test_functions(void **state) {
    (void)state;
    static const uint32_t masks[] = {0,
                                     CT_STALKER_CALL | CT_STALKER_RET,
                                     CT_STALKER_BLOCK,
                                     CT_STALKER_EXEC,
                                     CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_TIMESTAMPS,
                                     CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_FAST_CLOCK};
    for (unsigned m = 0; m < sizeof masks / sizeof *masks; m++)
        for (int trust = -1; trust <= 1; trust++) {
            uint64_t expected[COUNT][16], got[COUNT][16];
            size_t events = 0;
            struct ct_stalker_sink sink = {
                .size = sizeof sink, .mask = masks[m], .user = &events, .on_receive = receive};
            struct ct_stalker *stalker = make(trust);
            for (unsigned f = 0; f < COUNT; f++)
                for (unsigned x = 0; x < 16; x++)
                    expected[f][x] = functions[f](x);
            assert_int_equal(ct_stalker_follow_me(stalker, NULL, &sink), 0);
            for (unsigned f = 0; f < COUNT; f++)
                for (unsigned x = 0; x < 16; x++)
                    got[f][x] = functions[f](x);
            assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
            for (unsigned f = 0; f < COUNT; f++)
                for (unsigned x = 0; x < 16; x++)
                    if (got[f][x] != expected[f][x])
                        fail_msg("function %u of %u, mask %#x, trust %d: %#lx, natively %#lx", f, x, masks[m], trust,
                                 (unsigned long)got[f][x], (unsigned long)expected[f][x]);
            assert_true(!masks[m] || events > 100);
            assert_int_equal(ct_stalker_destroy(stalker), 0);
        }
}

/* ---- exclusive accesses are one unit ---- */

static unsigned units, cut;

/* Blocks that begin between ldaxr and stlxr: the fourth and the eighth word. */
static void look_for_cuts(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)tid;
    for (size_t i = 0; i < count; i++) {
        uint64_t word = (events[i].location - (uint64_t)exclusive) / 4;
        units += word <= 3;
        cut += word > 3 && word <= 7;
    }
}

static void test_unit(void **state) {
    (void)state;
    struct ct_stalker *stalker = make(-1);
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = CT_STALKER_BLOCK, .on_receive = look_for_cuts};
    units = cut = 0;
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, &sink), 0);
    uint64_t sum = exclusive(7);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(sum, exclusive(7));
    assert_true(units >= 50);
    assert_int_equal(cut, 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

enum { MARK = 0x911e9463 }; /* add x3, x3, #0x7a5 */

/* Translated code: is there nothing but the program's own instructions from ldaxr to stlxr, where no branch is taken?
 * `word` is the third of them. */
static bool is_whole(const uint32_t *word) {
    uint32_t reg = word[-2] >> 5 & 31;
    if (reg == 18 || word[-2] != (0xc85ffc03 | reg << 5) || word[-1] != 0xf94000c5)
        return false;
    if ((word[1] & 0xff00001f) != (0xb5000000 | reg)) /* cbnz: over the way out */
        return false;
    word += 1 + (word[1] >> 5 & 0x7ffff);
    if (word[0] != 0xeb00007f || (word[1] & 0xff00001f) != 0x54000001) /* cmp, b.ne */
        return false;
    word += 1 + (word[1] >> 5 & 0x7ffff);
    return word[0] == (0xc804fc03 | reg << 5);
}

/* Looks at the copies of the unit in executable memory that is of no file. */
static unsigned count_copies(unsigned *whole) {
    unsigned copies = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    *whole = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char mode[5], path[256] = "";
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %255s", &start, &end, mode, path) < 3 || mode[2] != 'x' ||
            mode[0] != 'r' || path[0] == '[' || (path[0] == '/' && !strstr(path, "memfd")))
            continue;
        for (const uint32_t *word = (const uint32_t *)start + 2; word < (const uint32_t *)end; word++)
            if (*word == MARK) {
                copies++;
                *whole += is_whole(word);
            }
    }
    if (maps)
        fclose(maps);
    return copies;
}

/* Nothing of ours is in a unit, also if it names x18. */
static void test_unit_of_x18(void **state) {
    (void)state;
    struct ct_stalker *stalker = make(1);
    unsigned whole;
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    (void)exclusive_x18(7);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    unsigned copies = count_copies(&whole);
    assert_true(copies >= 1);
    assert_int_equal(whole, copies);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* ---- signals ---- */

static volatile uint64_t seen_x18, seen_pc;

static void on_trap(int signal, siginfo_t *info, void *context) {
    ucontext_t *c = context;
    (void)signal, (void)info;
    seen_x18 = c->uc_mcontext.regs[18];
    seen_pc = c->uc_mcontext.pc;
    c->uc_mcontext.regs[18] = 4321;
    c->uc_mcontext.pc += 4;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    ucontext_t *c = context;
    (void)signal, (void)info;
    seen_x18 = c->uc_mcontext.regs[18];
    seen_pc = c->uc_mcontext.regs[17];
    c->uc_mcontext.pc += 4;
}

/* A handler sees the program's x18 and may change it; a fault of a copy that needs another register shows all as they
 * were. */
static void test_x18_in_handlers(void **state) {
    (void)state;
    struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO}, old_trap;
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old_fault;
    struct ct_stalker *stalker = make(1);
    uint64_t at, x18, fault_x18, fault_x17;
    sigaction(SIGILL, &trap, &old_trap);
    sigaction(SIGSEGV, &fault, &old_fault);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    __asm__ volatile("mov x18, #1234\n adr %0, 1f\n 1: udf #0\n mov %1, x18" : "=&r"(at), "=&r"(x18)::"x18");
    uint64_t trap_x18 = seen_x18, trap_pc = seen_pc;
    __asm__ volatile("mov x17, #77\n mov x18, #16\n ldr x0, [x18]" ::: "x0", "x17", "x18", "memory");
    fault_x18 = seen_x18, fault_x17 = seen_pc;
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    sigaction(SIGILL, &old_trap, NULL);
    sigaction(SIGSEGV, &old_fault, NULL);
    assert_int_equal(trap_x18, 1234);
    assert_int_equal(trap_pc, at);
    assert_int_equal(x18, 4321);
    assert_int_equal(fault_x18, 16);
    assert_int_equal(fault_x17, 77);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static uint64_t fault_x17, fault_x18, fault_sp, good_place;
static unsigned faults;

static void on_fault_in_unit(int signal, siginfo_t *info, void *context) {
    ucontext_t *c = context;
    (void)signal, (void)info;
    fault_x17 = c->uc_mcontext.regs[17];
    fault_x18 = c->uc_mcontext.regs[18];
    fault_sp = c->uc_mcontext.sp;
    c->uc_mcontext.regs[6] = (uint64_t)&good_place;
    c->uc_mcontext.regs[17] = 78;
    faults++;
}

FUNCTION(faulting_unit, "stp x0, xzr, [sp, #-16]!\n mov x6, #16\n mov x17, #77\n add x18, sp, #8\n"
                        "1: ldxr x3, [x18]\n ldr x5, [x6]\n add x3, x3, x5\n stxr w4, x3, [x18]\n cbnz w4, 1b\n"
                        "add x0, sp, #8\n sub x0, x0, x18\n add x0, x0, x17\n ldr x1, [sp, #8]\n add x0, x0, x1\n"
                        "add sp, sp, #16\n ret");

/* A handler in the middle of such a unit sees all registers as they are, and may change them. */
static void test_fault_in_unit(void **state) {
    (void)state;
    struct sigaction fault = {.sa_sigaction = on_fault_in_unit, .sa_flags = SA_SIGINFO}, old;
    struct ct_stalker *stalker = make(1);
    good_place = 1000;
    faults = 0;
    sigaction(SIGSEGV, &fault, &old);
    uint64_t natively = faulting_unit(1);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    uint64_t followed = faulting_unit(1);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    sigaction(SIGSEGV, &old, NULL);
    assert_int_equal(natively, 1000 + 78);
    assert_int_equal(followed, natively);
    assert_int_equal(faults, 2);
    assert_int_equal(fault_x17, 77);
    assert_int_equal(fault_x18, fault_sp + 8);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* ---- guarded pages ---- */

#ifndef PROT_BTI
#define PROT_BTI 0x10
#endif

/* bti c; bl 1f (no pad); ret: followed, and excluded, where it is entered in the middle of guarded code too. */
static void test_guarded(void **state) {
    (void)state;
    uint8_t *code = map_code(4096);
    /* bti c; str x30, [sp, #-16]!; bl . + 12; ldr x30, [sp], #16; ret; add x0, x0, #5; ret */
    put_words(code,
              (const uint32_t[]){0xd503245f, 0xf81f0ffe, 0x94000003, 0xf84107fe, 0xd65f03c0, 0x91001400, 0xd65f03c0},
              7);
    if (mprotect(code, 4096, PROT_READ | PROT_EXEC | PROT_BTI))
        skip();
    function *f = (function *)(void *)code, *inner = (function *)(void *)(code + 20);
    (void)inner;
    for (int excluded = 0; excluded < 2; excluded++) {
        struct ct_stalker *stalker = make(1);
        uint64_t sum = 0;
        if (excluded)
            assert_int_equal(ct_stalker_exclude(stalker, (uint64_t)code, 4096), 0);
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
        for (unsigned i = 0; i < 20; i++)
            sum += f(i);
        int following = ct_stalker_is_following(stalker, 0);
        assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
        assert_int_equal(following, 1);
        assert_int_equal(sum, 190 + 100);
        assert_int_equal(ct_stalker_destroy(stalker), 0);
    }
    munmap(code, 4096);
}

/* An excluded function after a call that never returns: a branch to it is a call, whatever it begins with. */
static void test_excluded_after_call(void **state) {
    (void)state;
    uint8_t *code = map_code(4096);
    put_words(code, (const uint32_t[]){0x94000000, 0x91001400, 0xd65f03c0}, 3); /* bl .; add x0, x0, #5; ret */
    function *f = (function *)(void *)(code + 4);
    struct ct_stalker_statistics statistics = {.size = sizeof statistics};
    struct ct_stalker *stalker = make(1);
    uint64_t sum = 0;
    assert_int_equal(ct_stalker_exclude(stalker, (uint64_t)code, 4096), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    for (unsigned i = 0; i < 20; i++)
        sum += f(i);
    ct_stalker_statistics(stalker, &statistics);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(sum, 190 + 100);
    assert_true(statistics.excluded_calls >= 2); /* this one, and ct_stalker_unfollow_me */
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    munmap(code, 4096);
}

/* The thread pointer, by which we find our place, is another one for a while. */
FUNCTION(moves_pointer, "mrs x9, tpidr_el0\n mov x10, x30\n msr tpidr_el0, x0\n bl 1f\n msr tpidr_el0, x9\n"
                        "mov x30, x10\n ret\n 1: mrs x0, tpidr_el0\n ret");

static void test_thread_pointer(void **state) {
    (void)state;
    uint64_t memory[8] = {0}, place = (uint64_t)&memory[4];
    struct ct_stalker *stalker = make(1);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    uint64_t seen = moves_pointer(place), again = moves_pointer(place);
    int following = ct_stalker_is_following(stalker, 0);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(following, 1);
    assert_int_equal(seen, place);
    assert_int_equal(again, place);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(memory[i], 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* A call that never returns, of an excluded function through a linkage table: the next function begins where it would
 * return to. */
static jmp_buf away;
static void go_away(void) {
    longjmp(away, 1);
}
static void (*volatile gone)(void) = go_away;
FUNCTION(calls_for_good, "stp x29, x30, [sp, #-16]!\n bl 1f\n paciasp\n ret\n 1: ldp x2, x1, [x0]\n br x2");

static void test_excluded_for_good(void **state) {
    (void)state;
    uint8_t *code = map_code(4096);
    put_words(code, (const uint32_t[]){0xd503245f, 0xd61f0020}, 2); /* bti c; br x1 */
    uint64_t ways[2] = {(uint64_t)code, (uint64_t)gone};
    struct ct_stalker_statistics before = {.size = sizeof before}, after = before;
    struct ct_stalker *stalker = make(1);
    assert_int_equal(ct_stalker_exclude(stalker, (uint64_t)code, 4096), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    if (!setjmp(away)) {
        ct_stalker_statistics(stalker, &before);
        calls_for_good((uint64_t)ways);
    }
    ct_stalker_statistics(stalker, &after);
    (void)ct_stalker_unfollow_me(stalker);
    assert_true(after.excluded_calls - before.excluded_calls >= 2); /* this one, and the one that counts */
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    munmap(code, 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),           cmocka_unit_test(test_unit),
        cmocka_unit_test(test_x18_in_handlers),     cmocka_unit_test(test_guarded),
        cmocka_unit_test(test_excluded_after_call), cmocka_unit_test(test_thread_pointer),
        cmocka_unit_test(test_excluded_for_good),   cmocka_unit_test(test_unit_of_x18),
        cmocka_unit_test(test_fault_in_unit),       cmocka_unit_test(test_transformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
