/* SPDX-License-Identifier: Apache-2.0 */
/* Branches through a word that only a system call can change, as those of complete linkage tables: they are made
 * direct, and every change of the word is seen all the same. */
#include "stalk_util.h"

#include <pthread.h>
#include <sched.h>

enum { PAGE = 4096, JUMPS = 0, CALLS = 64, READS = 128, SPINS = 192, LEAVES = 256, STEP = 32, TARGETS = 4 };
enum { WORD = 64, BRANCH = 3, ROUNDS = 200 }; /* where the word is in its page, and the branch in CALLS */
typedef int code_function(void);
typedef int waiting_function(uint64_t what);

static uint8_t *code; /* a page of code, then the page with the word, then one that nobody uses */
static struct ct_stalker *stalker;
static sigjmp_buf away;

static uint64_t *word(void) {
    return (uint64_t *)(void *)(code + PAGE + WORD);
}

static int call(unsigned at) {
    code_function *f;
    uint8_t *address = code + at;
    memcpy(&f, &address, sizeof f);
    return f();
}

static uint64_t leaf(int n) {
    return (uint64_t)(code + LEAVES + n * STEP);
}

/* Both functions lead to the leaf. Not inlined: its own indirect calls are counted too, unless they are known. */
static __attribute__((noinline)) bool leads_to(int n) {
    return call(JUMPS) == n && call(CALLS) == n && call(JUMPS) == n;
}

static void put_branch(unsigned at, const uint8_t *opcode, unsigned size) {
    uint32_t rel = PAGE + WORD - (at + size + 4);
    memcpy(code + at, opcode, size);
    memcpy(code + at + size, &rel, 4);
}

/* The word's page comes from a file, with a word that leads to leaf 0. */
static void map_word(int flags, int file) {
    assert_ptr_equal(mmap(code + PAGE, PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0), code + PAGE);
    *word() = leaf(0);
}

static int make_file(void) {
    int file = memfd_create("word", 0);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, PAGE), 0);
    return file;
}

static void protect(int protection) {
    assert_int_equal(mprotect(code + PAGE, PAGE, protection), 0);
}

/* push rax; read(argument, rsp - 8, 1); call [word] */
static const uint8_t read_and_call[] = {0x50, 0x31, 0xc0, 0x48, 0x8d, 0x74, 0x24, 0xf8, 0xba,
                                        1,    0,    0,    0,    0x0f, 0x05, 0xff, 0x15};
/* 1: pause; cmp dword [argument], 0; je 1b; jmp [word] */
static const uint8_t spin_and_jump[] = {0xf3, 0x90, 0x83, 0x3f, 0, 0x74, 0xf9, 0xff, 0x25};

static int set_up(void **state) {
    (void)state;
    code = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return -1;
    put_branch(JUMPS, (const uint8_t[]){0xff, 0x25}, 2);                /* jmp [word] */
    put_branch(CALLS, (const uint8_t[]){0x50, 0xeb, 0, 0xff, 0x15}, 5); /* push rax; jmp; call [word] */
    memcpy(code + CALLS + 9, (const uint8_t[]){0x5a, 0xc3}, 2);         /* pop rdx; ret */
    put_branch(READS, read_and_call, sizeof read_and_call);
    memcpy(code + READS + sizeof read_and_call + 4, (const uint8_t[]){0x5a, 0xc3}, 2);
    put_branch(SPINS, spin_and_jump, sizeof spin_and_jump);
    for (int n = 0; n < TARGETS; n++)
        put_leaf(code + LEAVES + n * STEP, n);
    assert_int_equal(mprotect(code, PAGE, PROT_READ | PROT_EXEC), 0);
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    munmap(code, 3 * PAGE);
    return ct_stalker_destroy(stalker);
}

static void follow(void) {
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
}

static void unfollow(void) {
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
}

static uint64_t indirect_ends(void) {
    struct ct_stalker_statistics s = {.size = sizeof s};
    ct_stalker_statistics(stalker, &s);
    return s.ends[CT_STALKER_END_CALL_INDIRECT] + s.ends[CT_STALKER_END_JUMP_INDIRECT];
}

/* The branches are direct if the word cannot change, and only then. The functions themselves are called through
 * pointers, which may be one more block. */
static void test_direct(void **state) {
    (void)state;
    uint64_t ends[2];
    int file = make_file();
    for (int writable = 0; writable < 2; writable++) {
        map_word(MAP_PRIVATE, file);
        protect(writable ? PROT_READ | PROT_WRITE : PROT_READ);
        follow();
        bool warm = leads_to(0);
        unfollow();
        assert_true(warm);
        map_word(MAP_PRIVATE, file);
        protect(writable ? PROT_READ | PROT_WRITE : PROT_READ);
        uint64_t before = indirect_ends();
        assert_int_equal(ct_stalker_invalidate(stalker, (uint64_t)code + JUMPS), 0);
        assert_int_equal(ct_stalker_invalidate(stalker, (uint64_t)code + CALLS + BRANCH), 0);
        follow();
        bool right = leads_to(0);
        unfollow();
        assert_true(right);
        ends[writable] = indirect_ends() - before;
    }
    close(file);
    assert_int_equal(ends[0], 0);
    assert_int_equal(ends[1], 2);
}

/* It is changed as a linkage table is by tools that hook functions. */
static void test_protected_again(void **state) {
    (void)state;
    int file = make_file(), wrong = 0;
    map_word(MAP_PRIVATE, file);
    protect(PROT_READ);
    follow();
    for (int i = 0; i < ROUNDS; i++) {
        wrong += !leads_to(i % TARGETS);
        protect(PROT_READ | PROT_WRITE);
        *word() = leaf((i + 2) % TARGETS);
        if (i % 3) /* translated again before it is protected, or after that */
            wrong += !leads_to((i + 2) % TARGETS);
        *word() = leaf((i + 1) % TARGETS);
        protect(PROT_READ);
    }
    unfollow();
    close(file);
    assert_int_equal(wrong, 0);
}

/* Another page takes its place. */
static void test_replaced(void **state) {
    (void)state;
    int files[2] = {make_file(), make_file()}, wrong = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t target = leaf(i + 1);
        assert_int_equal(pwrite(files[i], &target, sizeof target, WORD), sizeof target);
    }
    map_word(MAP_PRIVATE, files[0]);
    protect(PROT_READ);
    follow();
    wrong += !leads_to(0);
    for (int i = 0; i < ROUNDS; i++) {
        (void)mmap(code + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, files[i % 2], 0);
        wrong += !leads_to(i % 2 + 1);
    }
    unfollow();
    close(files[0]);
    close(files[1]);
    assert_int_equal(wrong, 0);
}

/* Another thread lets the Stalker read the mappings again and again: it translates a branch whose word is not constant,
 * after each change of what is mapped. */
static volatile bool over;
static void *read_mappings(void *arg) {
    uint8_t *own = arg;
    code_function *f;
    memcpy(&f, &own, sizeof f);
    follow();
    while (!over) {
        (void)mprotect(own + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE);
        (void)ct_stalker_invalidate(stalker, (uint64_t)own);
        (void)f();
    }
    unfollow();
    return NULL;
}

/* The mappings are read between the call that changes them and the Stalker's look at what has changed. */
static void test_replaced_beside_others(void **state) {
    (void)state;
    enum { TIMES = 4000 };
    int files[2] = {make_file(), make_file()}, wrong = 0;
    uint64_t targets[2] = {leaf(1), leaf(2)}, own_target = leaf(0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pwrite(files[i], &targets[i], sizeof *targets, WORD), sizeof *targets);
    uint8_t *own = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(own, MAP_FAILED);
    memcpy(own, code, LEAVES);
    memcpy(own + PAGE + WORD, &own_target, sizeof own_target);
    assert_int_equal(mprotect(own, PAGE, PROT_READ | PROT_EXEC), 0);
    map_word(MAP_PRIVATE, files[0]);
    protect(PROT_READ);
    pthread_t thread;
    over = false;
    assert_int_equal(pthread_create(&thread, NULL, read_mappings, own), 0);
    follow();
    for (int i = 0; i < TIMES; i++) {
        (void)mmap(code + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, files[i % 2], 0);
        (void)ct_stalker_invalidate(stalker, (uint64_t)code + JUMPS);
        (void)ct_stalker_invalidate(stalker, (uint64_t)code + CALLS + BRANCH);
        wrong += !leads_to(i % 2 + 1); /* direct again */
        protect(PROT_READ | PROT_WRITE);
        *word() = leaf(3);
        wrong += !leads_to(3);
    }
    unfollow();
    over = true;
    pthread_join(thread, NULL);
    munmap(own, 3 * PAGE);
    close(files[0]);
    close(files[1]);
    assert_int_equal(wrong, 0);
}

/* More mappings than the Stalker keeps have come, and the word's is not among those that it keeps. */
static void test_many_mappings(void **state) {
    (void)state;
    enum { MAPPINGS = 1100 };
    int file = make_file(), wrong = 0;
    static uint8_t *pages[MAPPINGS];
    uint8_t *more = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    code_function *f;
    put_leaf(more, 0);
    memcpy(&f, &more, sizeof f);
    map_word(MAP_PRIVATE, file);
    protect(PROT_READ);
    follow();
    wrong += !leads_to(0);
    for (int i = 0; i < MAPPINGS; i++) {
        pages[i] = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
        wrong += pages[i] == MAP_FAILED || pages[i] > code;
    }
    (void)mprotect(more, PAGE, PROT_READ | PROT_EXEC);
    wrong += f() != 0; /* code that is not known yet: the mappings are read */
    protect(PROT_READ | PROT_WRITE);
    *word() = leaf(1);
    wrong += !leads_to(1);
    unfollow();
    for (int i = 0; i < MAPPINGS; i++)
        munmap(pages[i], PAGE);
    munmap(more, PAGE);
    close(file);
    assert_int_equal(wrong, 0);
}

/* Excluded code changes it: its system calls are not seen. */
static void test_excluded(void **state) {
    (void)state;
    int file = make_file(), wrong = 0;
    map_word(MAP_PRIVATE, file);
    protect(PROT_READ);
    follow();
    wrong += !leads_to(0);
    wrong += ct_stalker_exclude(stalker, (uint64_t)dlsym(RTLD_DEFAULT, "mprotect"), 16) != 0;
    for (int i = 0; i < ROUNDS; i++) {
        protect(PROT_READ | PROT_WRITE);
        *word() = leaf(i % TARGETS);
        protect(PROT_READ);
        wrong += !leads_to(i % TARGETS);
    }
    unfollow();
    close(file);
    assert_int_equal(wrong, 0);
}

/* It can be written without a system call: in place, or where the same page is mapped once more. */
static void test_not_constant(void **state) {
    (void)state;
    int file = make_file(), wrong = 0;
    map_word(MAP_PRIVATE, file);
    follow();
    for (int i = 0; i < ROUNDS; i++) {
        *word() = leaf(i % TARGETS);
        wrong += !leads_to(i % TARGETS);
    }
    unfollow();
    map_word(MAP_SHARED, file);
    protect(PROT_READ);
    uint64_t *other = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    follow();
    for (int i = 0; i < ROUNDS; i++) {
        other[WORD / sizeof *other] = leaf(i % TARGETS);
        wrong += !leads_to(i % TARGETS);
    }
    unfollow();
    munmap(other, PAGE);
    close(file);
    assert_int_equal(wrong, 0);
}

static void *fault_at;
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    fault_at = info->si_addr;
    siglongjmp(away, 1);
}

/* Where it was, there is nothing any more: the branch faults, as it does natively. */
static void test_unmapped(void **state) {
    (void)state;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
    int file = make_file();
    volatile int right = 0;
    map_word(MAP_PRIVATE, file);
    protect(PROT_READ);
    sigaction(SIGSEGV, &action, &before);
    follow();
    right += leads_to(0);
    munmap(code + PAGE, PAGE);
    if (sigsetjmp(away, 1) == 0)
        (void)call(JUMPS);
    else
        right += fault_at == code + PAGE + WORD;
    unfollow();
    sigaction(SIGSEGV, &before, NULL);
    close(file);
    assert_int_equal(right, 2);
}

/* Calls that name less than a page, or more than is there, change all of the page. */
static void test_other_sizes(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 2 * PAGE};
    int file = make_file(), wrong = 0;
    for (int i = 0; i < 2; i++) {
        map_word(MAP_PRIVATE, file);
        protect(PROT_READ);
        follow();
        wrong += !leads_to(0);
        wrong += i && munmap(code + 2 * PAGE, PAGE);
        wrong += mprotect(code + PAGE, sizes[i], PROT_READ | PROT_WRITE) != (i ? -1 : 0);
        *word() = leaf(1);
        wrong += !leads_to(1);
        unfollow();
    }
    close(file);
    assert_int_equal(wrong, 0);
}

/* Another page is moved to its place. */
static void test_moved_over(void **state) {
    (void)state;
    int file = make_file(), wrong = 0;
    map_word(MAP_PRIVATE, file);
    protect(PROT_READ);
    uint64_t *other = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    other[WORD / sizeof *other] = leaf(1);
    follow();
    wrong += !leads_to(0);
    wrong += mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, code + PAGE) != code + PAGE;
    wrong += !leads_to(1);
    unfollow();
    close(file);
    assert_int_equal(wrong, 0);
}

/* Code is replaced, too. */
static void test_code_moved_over(void **state) {
    (void)state;
    int wrong = 0;
    uint8_t *other = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    put_leaf(other + LEAVES, 7);
    assert_int_equal(mprotect(other, PAGE, PROT_READ | PROT_EXEC), 0);
    follow();
    for (int i = 0; i < 4; i++)
        wrong += call(LEAVES) != 0;
    wrong += mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, code) != code;
    wrong += call(LEAVES) != 7;
    unfollow();
    assert_int_equal(wrong, 0);
}

/* A thread is in the block that ends with the branch while another one changes the word. */
struct waiting {
    unsigned at;
    uint64_t what;
    int result;
};

static void *wait_and_branch(void *arg) {
    struct waiting *w = arg;
    uint8_t *address = code + w->at;
    waiting_function *f;
    memcpy(&f, &address, sizeof f);
    follow();
    w->result = f(w->what);
    unfollow();
    return NULL;
}

static void change_word(void) {
    protect(PROT_READ | PROT_WRITE);
    *word() = leaf(1);
    protect(PROT_READ);
}

static void test_changed_while_waiting(void **state) {
    (void)state;
    int file = make_file(), wrong = 0, ends[2];
    map_word(MAP_PRIVATE, file);
    protect(PROT_READ);
    assert_int_equal(pipe(ends), 0);
    struct waiting w = {READS, (uint64_t)ends[0], -1};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_and_branch, &w), 0);
    usleep(100000);
    follow();
    change_word();
    wrong += write(ends[1], "x", 1) != 1;
    unfollow();
    pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
    close(file);
    assert_int_equal(w.result, 1);
    assert_int_equal(wrong, 0);
}

/* On one processor it is mostly between `pause` and the look at what it waits for. */
static void test_changed_while_spinning(void **state) {
    (void)state;
    int file = make_file();
    volatile int flag = 0;
    cpu_set_t before, one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    (void)sched_setaffinity(0, sizeof one, &one);
    map_word(MAP_PRIVATE, file);
    protect(PROT_READ);
    struct waiting w = {SPINS, (uint64_t)&flag, -1};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_and_branch, &w), 0);
    usleep(20000);
    follow();
    change_word();
    flag = 1;
    unfollow();
    pthread_join(thread, NULL);
    (void)sched_setaffinity(0, sizeof before, &before);
    close(file);
    assert_int_equal(w.result, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_direct, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_protected_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replaced_beside_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_mappings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_excluded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_constant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unmapped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_moved_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_code_moved_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed_while_waiting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed_while_spinning, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
