/* SPDX-License-Identifier: Apache-2.0 */
/* Code that changes while it runs, as compilers at run time change theirs: every change is seen by the next thread.
 * By the thread itself, by another one, through another mapping, in a fault's handler; with alignment checks on, and
 * with signals at any place. */
#include "stalk_util.h"
#include <pthread.h>

enum { SIZE = 4096, SITE = 64, VARIANTS = 8 };
typedef int code_function(void);

static uint8_t *make_code(void) {
    return map_code(SIZE);
}

static code_function *function_at(uint8_t *code) {
    code_function *f;
    memcpy(&f, &code, sizeof f);
    return f;
}

/* VARIANTS leaves, of which the n-th returns n, and a function at SITE that calls one of them. */
static uint8_t *make_caller(void) {
    uint8_t *code = make_code();
    for (int i = 0; i < VARIANTS; i++)
        put_leaf(code + 1024 + 32 * i, i);
    put_caller(code + SITE);
    return code;
}

static void set_target(uint8_t *code, int variant) {
    set_call(code + SITE, code + 1024 + 32 * variant);
}

static struct ct_stalker *make(void) {
    struct ct_stalker *stalker;
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    return stalker;
}

static void end(struct ct_stalker *stalker) {
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* A call's target: each change after the old one ran often. */
static void test_target(void **state) {
    (void)state;
    uint8_t *code = make_caller();
    code_function *f = function_at(code + SITE);
    struct ct_stalker *stalker = make();
    set_target(code, 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int right = 0;
    for (int i = 0; i < 2000; i++) {
        set_target(code, i % VARIANTS);
        for (int k = 0; k < 5; k++)
            right += f() == i % VARIANTS + ALWAYS;
    }
    struct ct_stalker_statistics statistics = {.size = sizeof statistics};
    ct_stalker_statistics(stalker, &statistics);
    end(stalker);
    assert_int_equal(right, 10000);
    assert_true(statistics.changed >= 1990);
    munmap(code, SIZE);
}

/* A jump over a function's first bytes, and back. */
static void test_entry(void **state) {
    (void)state;
    uint8_t *code = make_code();
    code_function *f = function_at(code);
    uint64_t entrant, other = jump_ahead();
    put_leaf(code, 1);
    put_leaf(code + 256, 2);
    memcpy(&entrant, code, sizeof entrant);
    struct ct_stalker *stalker = make();
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int right = 0;
    for (int i = 0; i < 500; i++) {
        __atomic_store_n((uint64_t *)(void *)code, i % 2 ? other : entrant, __ATOMIC_RELEASE);
        for (int k = 0; k < 4; k++)
            right += f() == i % 2 + 1;
    }
    end(stalker);
    assert_int_equal(right, 2000);
    munmap(code, SIZE);
}

/* The code is never writable where it runs, but elsewhere. */
static void test_two_mappings(void **state) {
    (void)state;
    int file = memfd_create("code", 0);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, SIZE), 0);
    uint8_t *code = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    uint8_t *writable = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(code != MAP_FAILED && writable != MAP_FAILED);
    code_function *f = function_at(code);
    struct ct_stalker *stalker = make();
    put_leaf(writable, -1);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int right = 0;
    for (int i = 0; i < 500; i++) {
        put_leaf(writable, i);
        for (int k = 0; k < 4; k++)
            right += f() == i;
    }
    end(stalker);
    assert_int_equal(right, 2000);
    munmap(code, SIZE);
    munmap(writable, SIZE);
    close(file);
}

#if defined __x86_64__
/* Blocks of every length at every place, with alignment checks on: nothing of ours may be unaligned. */
static void test_alignment(void **state) {
    (void)state;
    uint8_t *code = make_code();
    static const uint8_t begin[] = {0x9c, 0x81, 0x0c, 0x24, 0,
                                    0,    4,    0,    0x9d}; /* pushf; or dword [rsp], 1 << 18; popf */
    static const uint8_t back[] = {0x9c, 0x81, 0x24, 0x24, 0xff, 0xff, 0xfb, 0xff, 0x9d}; /* and it is gone */
    struct ct_stalker *stalker = make();
    int right = 0;
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    for (unsigned at = 0; at < 8; at++)
        for (unsigned length = 1; length <= 40; length++) {
            uint8_t *p = code + at;
            memcpy(p, begin, sizeof begin);
            p += sizeof begin;
            *p++ = 0xeb, *p++ = 0; /* jmp: a block begins */
            memset(p, 0x90, length);
            p += length;
            *p++ = 0xeb, *p++ = 0;
            memcpy(p, back, sizeof back);
            put_leaf(p + sizeof back, (int)length);
            right += function_at(code + at)() == (int)length;
        }
    end(stalker);
    assert_int_equal(right, 320);
    munmap(code, SIZE);
}

#endif

/* The callee returns elsewhere: natural for code that deoptimizes. */
static void test_return(void **state) {
    (void)state;
    uint8_t *code = make_caller();
    code_function *f = function_at(code + SITE);
    uint8_t *elsewhere = code + 2048;
    put_return_to(code + 1024, elsewhere);
    put_leaf(elsewhere + ELSEWHERE_SIZE, 77);
    set_target(code, 0);
    struct ct_stalker *stalker = make();
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int right = 0;
    for (int i = 0; i < 100; i++) {
        put_leaf(elsewhere + ELSEWHERE_SIZE, i);
        right += f() == i;
    }
    end(stalker);
    assert_int_equal(right, 100);
    munmap(code, SIZE);
}

/* The handler writes another instruction where it faulted, or moves on. */
static uint8_t *faulting;
static int faults;
static bool moves;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    uint64_t *pc = context_pc(context);
    faults += *pc == (uint64_t)faulting;
    if (moves)
        *pc += 64;
    else
        put_leaf(faulting, 5);
}

static void test_fault(void **state) {
    (void)state;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
    faulting = make_code(); /* nothing is mapped after it */
    code_function *f = function_at(faulting);
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    struct ct_stalker *stalker = make();
    put_leaf(faulting + 64, 6);
    faults = 0;
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int right = 0;
    for (int i = 0; i < 200; i++) {
        moves = i % 2;
        put_bad_load(faulting);
        right += f() == (moves ? 6 : 5);
    }
    end(stalker);
    sigaction(SIGSEGV, &before, NULL);
    assert_int_equal(right, 200);
    assert_int_equal(faults, 200);
    munmap(faulting, SIZE);
}

/* ---- threads ---- */

struct race {
    uint8_t *code;
    uint32_t version; /* of the code, published after it was changed */
    uint32_t done;
    pthread_t runner;
    struct ct_stalker *stalker; /* NULL: the writer runs natively */
    int stale, runs;
};

static int signals_seen;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    __atomic_add_fetch(&signals_seen, 1, __ATOMIC_RELAXED);
}

static uint32_t changes;

/* Each change is seen once it is published: the runner says how far it has come, so that there is one to see for
 * each. */
static void *change(void *arg) {
    struct race *race = arg;
    if (race->stalker)
        assert_int_equal(ct_stalker_follow_me(race->stalker, NULL, NULL), 0);
    for (uint32_t i = 1; i <= changes; i++) {
        set_target(race->code, (int)(i % VARIANTS));
        __atomic_store_n(&race->version, i, __ATOMIC_RELEASE);
        if (i % 8 == 0)
            pthread_kill(race->runner, SIGUSR1);
        while (__atomic_load_n(&race->done, __ATOMIC_ACQUIRE) + 2 < i)
            sched_yield();
    }
    if (race->stalker)
        assert_int_equal(ct_stalker_unfollow_me(race->stalker), 0);
    return NULL;
}

static void run(struct race *race) {
    code_function *f = function_at(race->code + SITE);
    uint32_t seen = 0;
    while (seen < changes) {
        seen = __atomic_load_n(&race->version, __ATOMIC_ACQUIRE);
        uint32_t got = (uint32_t)(f() - ALWAYS);
        uint32_t last = __atomic_load_n(&race->version, __ATOMIC_ACQUIRE) + 1; /* it may be changed already */
        race->stale += got >= VARIANTS || (got - seen) % VARIANTS > last - seen;
        race->runs++;
        __atomic_store_n(&race->done, seen, __ATOMIC_RELEASE);
    }
}

static void race_with(bool followed_writer, uint32_t mask) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART}, before;
    struct ct_stalker *stalker = make();
    struct race race = {.code = make_caller(), .runner = pthread_self(), .stalker = followed_writer ? stalker : NULL};
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = mask};
    pthread_t writer;
    signals_seen = 0;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    set_target(race.code, 0);
    assert_int_equal(pthread_create(&writer, NULL, change, &race), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, mask ? &sink : NULL), 0);
    run(&race);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    pthread_join(writer, NULL);
    destroy_soon(stalker);
    sigaction(SIGUSR1, &before, NULL);
    assert_int_equal(race.stale, 0);
    assert_true(signals_seen > 0);
    munmap(race.code, SIZE);
}

static void test_race(void **state) {
    (void)state;
    changes = is_emulated() ? 100 : 3000;
    race_with(false, 0);
    race_with(true, 0);
    race_with(true, CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_BLOCK);
}

/* ---- code that goes while following begins ---- */

static uint8_t *passing;
static pthread_barrier_t passing_barrier;
enum { PASSINGS = 300 };

static void *unmap(void *unused) {
    for (int i = 0; i < PASSINGS; i++) {
        pthread_barrier_wait(&passing_barrier);
        for (volatile int k = 0; k < i % 100 * 200; k++)
            ;
        munmap(passing, SIZE);
        pthread_barrier_wait(&passing_barrier);
    }
    return unused;
}

/* What was translated once is looked at when somebody is followed again. */
static void test_unmapped_meanwhile(void **state) {
    (void)state;
    pthread_t thread;
    struct ct_stalker *stalker = make();
    int right = 0;
    pthread_barrier_init(&passing_barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, unmap, NULL), 0);
    for (int i = 0; i < PASSINGS; i++) {
        passing = make_code();
        put_leaf(passing, i);
        assert_int_equal(mprotect(passing, SIZE, PROT_READ | PROT_EXEC), 0);
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
        right += function_at(passing)() == i;
        assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
        pthread_barrier_wait(&passing_barrier);
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
        assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
        pthread_barrier_wait(&passing_barrier);
    }
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&passing_barrier);
    assert_int_equal(right, PASSINGS);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* A compiler at run time that makes its code writable for a moment, and names less than the page, or moves another page
 * there. */
static void test_parts_of_pages(void **state) {
    (void)state;
    enum { VALUES = 40 };
    uint8_t *code = make_code();
    struct ct_stalker *stalker = make();
    int wrong = 0;
    put_leaf(code + SITE, 0);
    assert_int_equal(mprotect(code, SIZE, PROT_READ | PROT_EXEC), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    for (int i = 1; i <= VALUES; i++) {
        uint8_t *place = i % 2 ? code : make_code();
        for (int k = 0; k < 4; k++)
            wrong += function_at(code + SITE)() != i - 1;
        wrong += mprotect(place, 1, PROT_READ | PROT_WRITE) != 0;
        put_leaf(place + SITE, i);
        wrong += mprotect(place, 1, PROT_READ | PROT_EXEC) != 0;
        if (place != code)
            wrong += mremap(place, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, code) != code;
        __builtin___clear_cache((char *)code, (char *)code + SIZE);
        wrong += function_at(code + SITE)() != i;
    }
    end(stalker);
    assert_int_equal(wrong, 0);
    munmap(code, SIZE);
}

#if defined __x86_64__
/* Blocks that follow each other directly need not save what the comparison uses again, unless they have changed it. */
static void test_registers(void **state) {
    (void)state;
    static const uint8_t blocks[] = {
        0x49, 0x89, 0xfb, 0x48, 0x89, 0xf1, 0xeb, 0, /* mov r11, rdi; mov rcx, rsi; jmp to the next block */
        0x90, 0xeb, 0,                               /* nop; jmp */
        0x4d, 0x8d, 0x5b, 0x01, 0xeb, 0,             /* lea r11, [r11 + 1]; jmp */
        0x48, 0x8d, 0x49, 0x02, 0xeb, 0,             /* lea rcx, [rcx + 2]; jmp */
        0x49, 0x8d, 0x04, 0x0b, 0x74, 0,             /* lea rax, [r11 + rcx]; je */
        0x51, 0x41, 0x5b, 0xeb, 0,                   /* push rcx; pop r11; jmp */
        0x41, 0x53, 0x59, 0xeb, 0,                   /* push r11; pop rcx; jmp */
        0x4c, 0x8d, 0x1c, 0x08, 0xeb, 0,             /* lea r11, [rax + rcx]; jmp */
        0x90, 0x4c, 0x89, 0xd8, 0xc3,                /* nop; mov rax, r11; ret */
    };
    uint8_t *code = make_code();
    uint64_t (*f)(uint64_t, uint64_t);
    memcpy(code, blocks, sizeof blocks);
    memcpy(&f, &code, sizeof f);
    struct ct_stalker *stalker = make();
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < 500; i++)
        wrong += f(i * 3, i * 5) != i * 13 + 5;
    end(stalker);
    assert_int_equal(wrong, 0);
    munmap(code, SIZE);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target),
        cmocka_unit_test(test_entry),
        cmocka_unit_test(test_two_mappings),
        cmocka_unit_test(test_return),
        cmocka_unit_test(test_fault),
#if defined __x86_64__
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_registers),
#endif
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_unmapped_meanwhile),
        cmocka_unit_test(test_parts_of_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
