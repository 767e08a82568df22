/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions and shapes of code that are seldom: each does what it does natively, or ends following with a reason;
 * and what the Stalker says to threads that cannot be followed. */
#include "stalk_util.h"

#include <pthread.h>
#include <time.h>

struct seen {
    uint64_t low, high; /* of interest */
    uint64_t executed, blocks, bytes, longest;
};

static void receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    struct seen *seen = user;
    (void)tid;
    for (size_t i = 0; i < count; i++) {
        const struct ct_stalker_event *e = &events[i];
        if (e->location < seen->low || e->location >= seen->high)
            continue;
        seen->executed += e->kind == CT_STALKER_EXEC;
        if (e->kind != CT_STALKER_BLOCK)
            continue;
        seen->blocks++;
        seen->bytes += e->target - e->location;
        if (e->target - e->location > seen->longest)
            seen->longest = e->target - e->location;
    }
}

static struct ct_stalker *follow(struct seen *seen, int trust) {
    struct ct_stalker *stalker;
    static struct ct_stalker_sink sink;
    sink = (struct ct_stalker_sink){
        .size = sizeof sink, .mask = CT_STALKER_EXEC | CT_STALKER_BLOCK, .user = seen, .on_receive = receive};
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, trust), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, seen ? &sink : NULL), 0);
    return stalker;
}

static void end(struct ct_stalker *stalker) {
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* ---- shapes ---- */

/* 10,000 instructions without a branch. */
static void test_huge_block(void **state) {
    (void)state;
    enum { INSNS = 10000 };
    uint8_t *code = map_code(64 << 10), *p = code;
    put_zero(p);
    p += ZERO_SIZE;
    for (int i = 0; i < INSNS; i++, p += ADD_SIZE)
        put_add(p);
    put_return(p);
    p += RETURN_SIZE;
    uint64_t (*function)(void) = (uint64_t(*)(void))(void *)code;
    for (int trust = -1; trust <= 1; trust++) {
        struct seen seen = {.low = (uint64_t)code, .high = (uint64_t)p};
        struct ct_stalker *stalker = follow(&seen, trust);
        uint64_t sum = 0;
        for (int i = 0; i < 3; i++)
            sum += function();
        end(stalker);
        assert_int_equal(sum, 3 * 3 * INSNS);
        assert_int_equal(seen.executed, 3 * (INSNS + 2));
        assert_int_equal(seen.bytes, 3 * (uint64_t)(p - code));
        assert_true(seen.blocks >= 3 * INSNS / 128);
        assert_true(seen.longest <= 128 * ADD_SIZE);
    }
    munmap(code, 64 << 10);
}

static void test_vdso(void **state) {
    (void)state;
    uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
    if (!vdso)
        skip();
    struct seen seen = {.low = vdso, .high = vdso + 0x4000};
    struct ct_stalker *stalker = follow(&seen, 1);
    struct timespec a, b;
    int bad = 0;
    clock_gettime(CLOCK_MONOTONIC, &b);
    for (int i = 0; i < 1000; i++) {
        a = b;
        bad |= clock_gettime(CLOCK_MONOTONIC, &b);
        bad |= b.tv_sec < a.tv_sec || (b.tv_sec == a.tv_sec && b.tv_nsec < a.tv_nsec);
    }
    end(stalker);
    assert_int_equal(bad, 0);
    assert_true(seen.blocks >= 1000);
}

/* Landing pads where calls and jumps go, and branches that need none. */
static void test_branch_tracking(void **state) {
    (void)state;
    struct ct_stalker *stalker = follow(NULL, 1);
    uint64_t a = 0, b = 0;
    for (int i = 0; i < 10; i++) {
        JUMP_TO_PAD(a);
        CALL_PAD(b);
    }
    end(stalker);
    assert_int_equal(a, 10);
    assert_int_equal(b, 10);
}

/* ---- instructions that fault ---- */

static volatile uint64_t fault_pc, fault_address;
static volatile int faults;

static void on_fault(int signal, siginfo_t *info, void *context) {
    ucontext_t *c = context;
    (void)signal;
    fault_pc = *context_pc(c);
    fault_address = (uint64_t)info->si_addr;
    faults++;
    *context_pc(c) = AFTER_TRAP(c);
}

static void install(int signal, struct sigaction *old) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(signal, &action, old), 0);
}

static void test_trap(void **state) {
    (void)state;
    struct sigaction old;
    install(SIGILL, &old);
    struct ct_stalker *stalker = follow(NULL, 1);
    uint64_t at = 0;
    for (int i = 0; i < 5; i++)
        TRAP_HERE(at);
    int following = ct_stalker_is_following(stalker, 0);
    end(stalker);
    sigaction(SIGILL, &old, NULL);
    assert_int_equal(following, 1);
    assert_int_equal(faults, 5);
    assert_int_equal(fault_pc, at);
    assert_int_equal(fault_address, at);
}

#if defined __x86_64__
/* How many of 100 transactions were carried out or given up. */
static uint64_t transact(void) {
    uint64_t begun = 0, given_up = 0;
    for (int i = 0; i < 100; i++)
        __asm__ volatile("lea 3f(%%rip), %%r8\n xbegin 1f\n xend\n inc %0\n jmp 3f\n 1: inc %1\n 3:"
                         : "+r"(begun), "+r"(given_up)::"rax", "r8", "cc", "memory");
    return begun + given_up;
}

/* Where the processor knows no transactions, xbegin is no instruction. (What CPUID says may be something else.) */
static void test_transaction(void **state) {
    (void)state;
    struct sigaction old;
    faults = 0;
    install(SIGILL, &old);
    uint64_t native = transact();
    int native_faults = faults;
    faults = 0;
    struct ct_stalker *stalker = follow(NULL, 1);
    uint64_t followed = transact();
    int following = ct_stalker_is_following(stalker, 0);
    end(stalker);
    sigaction(SIGILL, &old, NULL);
    assert_int_equal(following, 1);
    assert_int_equal(native + (unsigned)native_faults, 100);
    assert_int_equal(followed, native);
    assert_int_equal(faults, native_faults);
}

/* What cannot be followed: the sink gets the reason before it happens. */
static void stopped(void *user, int tid, int status) {
    (void)tid;
    *(volatile int *)user = status;
}

static void leave_child(int signal) {
    (void)signal;
    _exit(0);
}

static void test_sysenter(void **state) {
    (void)state;
    volatile int *status = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(status != MAP_FAILED);
    *status = 1;
    pid_t child = fork();
    if (child == 0) { /* what it does is the processor's business: it may not come back */
        struct ct_stalker *stalker;
        struct ct_stalker_sink sink = {.size = sizeof sink, .user = (void *)(uintptr_t)status, .stop = stopped};
        signal(SIGILL, leave_child);
        signal(SIGSEGV, leave_child);
        signal(SIGBUS, leave_child);
        alarm(120);
        if (ct_stalker_create(&stalker, NULL) || ct_stalker_follow_me(stalker, NULL, &sink))
            _exit(1);
        __asm__ volatile("mov $20, %%eax\n mov %%rsp, %%rbp\n sysenter" ::: "rax", "memory");
        _exit(0);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(*status, CT_ERR_UNSUPPORTED);
    munmap((void *)(uintptr_t)status, 4096);
}

#endif

/* ---- memory ---- */

static long resident_pages(void) {
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
    fclose(f);
    return resident;
}

/* Code that changes before each call: `rounds` times. */
static int change(uint8_t *code, int rounds) {
    int (*function)(void) = (int (*)(void))(void *)code;
    int right = 0;
    for (int i = 0; i < rounds; i++) {
        put_leaf(code, i);
        right += function() == i;
    }
    return right;
}

static void test_memory_of_changes(void **state) {
    (void)state;
    NEEDS_PTRACE(); /* else these are the emulator's pages */
    uint8_t *code = map_code(4096);
    struct ct_stalker *stalker = follow(NULL, -1);
    int right = change(code, 30000);
    long before = resident_pages();
    right += change(code, 120000);
    long after = resident_pages();
    end(stalker);
    assert_int_equal(right, 150000);
    assert_true(after - before < 4096); /* 16 MiB; what was given up is 120,000 fragments, more than 48 */
    munmap(code, 4096);
}

/* Two followed threads whose code changes; a third one waits, where it was when all began. At -1 changes are found,
 * else they are reported. */
static struct ct_stalker *changing;
static int changing_trust;
static pthread_barrier_t changing_barrier;

static void *change_in_thread(void *right) {
    uint8_t *code = map_code(4096);
    int (*function)(void) = (int (*)(void))(void *)code;
    pthread_barrier_wait(&changing_barrier);
    for (int i = 0; i < 100000; i++) {
        put_leaf(code, i);
        if (changing_trust >= 0)
            ct_stalker_invalidate(changing, (uint64_t)code);
        *(volatile int *)right += function() == i;
        if (i == 20000 || i == 99999) {
            pthread_barrier_wait(&changing_barrier); /* memory is looked at */
            pthread_barrier_wait(&changing_barrier);
        }
    }
    munmap(code, 4096);
    return NULL;
}

static void *only_wait(void *ends) {
    char byte;
    return read(((int *)ends)[0], &byte, 1) == 1 ? NULL : ends;
}

static void test_memory_of_threads(void **state) {
    (void)state;
    NEEDS_PTRACE(); /* else these are the emulator's pages */
    for (changing_trust = -1; changing_trust <= 1; changing_trust++) {
        struct ct_stalker_options options = {.size = sizeof options, .follow_children = 1};
        struct ct_stalker_statistics statistics = {.size = sizeof statistics};
        pthread_t threads[3];
        int right[2] = {0}, ends[2];
        void *waited = ends;
        long pages[3];
        assert_int_equal(pipe(ends), 0);
        pthread_barrier_init(&changing_barrier, NULL, 3);
        assert_int_equal(ct_stalker_create(&changing, &options), 0);
        assert_int_equal(ct_stalker_set_trust_threshold(changing, changing_trust), 0);
        assert_int_equal(ct_stalker_follow_me(changing, NULL, NULL), 0);
        pthread_create(&threads[2], NULL, only_wait, ends);
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, change_in_thread, &right[i]);
        for (int i = 0; i < 3; i++) {
            pthread_barrier_wait(&changing_barrier);
            pages[i] = resident_pages();
            if (i)
                pthread_barrier_wait(&changing_barrier);
        }
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(write(ends[1], "x", 1), 1);
        pthread_join(threads[2], &waited);
        assert_int_equal(ct_stalker_unfollow_me(changing), 0);
        ct_stalker_statistics(changing, &statistics);
        destroy_soon(changing);
        assert_null(waited);
        assert_int_equal(right[0], 100000);
        assert_int_equal(right[1], 100000);
        assert_true(statistics.invalidated >= 199000);
        /* 24 MiB: a few caches that are being left; 160,000 fragments with what describes them are more than 64 */
        assert_true(pages[2] - pages[1] < 6 * 1024);
        close(ends[0]);
        close(ends[1]);
        pthread_barrier_destroy(&changing_barrier);
    }
}

/* ---- threads that cannot be followed ---- */

static pthread_barrier_t barrier;
static volatile int worker_tid;

static void *wait_twice(void *unused) {
    worker_tid = (int)syscall(SYS_gettid);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void test_refused_threads(void **state) {
    (void)state;
    NEEDS_PTRACE();
    struct ct_stalker *stalker, *other;
    pthread_t thread;
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_create(&other, NULL), 0);
    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, wait_twice, NULL), 0);
    pthread_barrier_wait(&barrier);
    assert_int_equal(ct_stalker_unfollow(stalker, worker_tid), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_stalker_follow(stalker, worker_tid, NULL, NULL), 0);
    assert_int_equal(ct_stalker_follow(stalker, worker_tid, NULL, NULL), CT_ERR_BAD_STATE); /* already */
    assert_int_equal(ct_stalker_follow(other, worker_tid, NULL, NULL), CT_ERR_BAD_STATE);   /* by another */
    assert_int_equal(ct_stalker_is_following(stalker, worker_tid), 1);
    assert_int_equal(ct_stalker_is_following(other, worker_tid), 0);
    assert_int_equal(ct_stalker_unfollow(stalker, worker_tid), 0);
    assert_int_equal(ct_stalker_unfollow(stalker, worker_tid), CT_ERR_NOT_FOUND);
    pthread_barrier_wait(&barrier);
    assert_int_equal(pthread_join(thread, NULL), 0);
    while (syscall(SYS_tgkill, getpid(), worker_tid, 0) == 0)
        usleep(1000); /* the kernel may still be at it */
    assert_int_equal(ct_stalker_follow(stalker, worker_tid, NULL, NULL), CT_ERR_NOT_FOUND); /* it has ended */
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_int_equal(ct_stalker_follow(stalker, child, NULL, NULL), CT_ERR_NOT_FOUND); /* another process */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(ct_stalker_is_following(stalker, worker_tid), 0);
    assert_int_equal(ct_stalker_destroy(other), 0); /* nobody is followed by either */
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    pthread_barrier_destroy(&barrier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_huge_block),
        cmocka_unit_test(test_vdso),
        cmocka_unit_test(test_branch_tracking),
        cmocka_unit_test(test_trap),
#if defined __x86_64__
        cmocka_unit_test(test_transaction),
        cmocka_unit_test(test_sysenter),
#endif
        cmocka_unit_test(test_memory_of_changes),
        cmocka_unit_test(test_memory_of_threads),
        cmocka_unit_test(test_refused_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
