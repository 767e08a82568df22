/* SPDX-License-Identifier: Apache-2.0 */
/* What the Stalker says was executed, against what was: calls with their depths, every instruction beside a
 * single-stepped run of the same code, blocks beside their instructions. */
#include "stalk_util.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

/* ---- what is followed ---- */

static volatile int volatile_one = 1;
static jmp_buf jump;

NOINLINE static int leaf(int x) {
    __asm__ volatile("");
    return x + volatile_one;
}

NOINLINE static int twice(int (*f)(int), int x) {
    return f(x) + f(x + 1);
}

NOINLINE static int recurse(int n) {
    return (n ? recurse(n - 1) : leaf(n)) + volatile_one;
}

NOINLINE static int jumper(int x) {
    if (leaf(x) > 0)
        longjmp(jump, 1);
    return x;
}

NOINLINE static int jumps(int x) {
    if (!setjmp(jump))
        return jumper(x) + 1;
    return leaf(x);
}

static char from[64] = "the quick brown fox", to[64];

NOINLINE static int subject(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        switch (i & 7) {
        case 0:
            sum += leaf(i);
            break;
        case 1:
            sum += twice(leaf, i);
            break;
        case 2:
            sum ^= recurse(i & 3);
            break;
        case 3: {
            void *a = to, *b = from;
            long count = 20;
            COPY_HERE(a, b, count);
            break;
        }
        case 4:
            sum -= i;
            break;
        case 5:
            sum += to[i & 15];
            break;
        default:
            sum = sum * 3 + i;
            break;
        }
    }
    return sum;
}

/* ---- recording ---- */

struct log {
    struct ct_stalker_event *events;
    size_t count, capacity;
    uint64_t summary_total;
    uint64_t summary_leaf;
    int starts, stops, status;
};

static void receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    struct log *log = user;
    assert_int_equal(tid, getpid());
    while (log->count + count > log->capacity) {
        log->capacity = log->capacity ? log->capacity * 2 : 1024;
        log->events = realloc(log->events, log->capacity * sizeof *log->events);
    }
    memcpy(log->events + log->count, events, count * sizeof *events);
    log->count += count;
}

static void summarize(void *user, int tid, const struct ct_stalker_call_count *counts, size_t count) {
    struct log *log = user;
    (void)tid;
    for (size_t i = 0; i < count; i++) {
        log->summary_total += counts[i].count;
        if (counts[i].target == (uint64_t)leaf)
            log->summary_leaf += counts[i].count;
    }
}

static void started(void *user, int tid) {
    (void)tid;
    ((struct log *)user)->starts++;
}

static void stopped(void *user, int tid, int status) {
    (void)tid;
    ((struct log *)user)->stops++;
    ((struct log *)user)->status = status;
}

struct settings {
    uint32_t mask;
    int trust;
    size_t capacity;
    bool summary;
};

static int follow(struct log *log, const struct settings *settings, int (*what)(int), int argument) {
    struct ct_stalker *stalker;
    struct ct_stalker_options options = {.size = sizeof options, .queue_capacity = settings->capacity};
    struct ct_stalker_sink sink = {
        .size = sizeof sink, .mask = settings->mask, .user = log, .start = started, .stop = stopped};
    if (settings->summary)
        sink.on_call_summary = summarize;
    else
        sink.on_receive = receive;
    memset(log, 0, sizeof *log);
    assert_int_equal(ct_stalker_create(&stalker, &options), 0);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, settings->trust), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, &sink), 0);
    int result = what(argument);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    assert_int_equal(log->starts, 1);
    assert_int_equal(log->stops, 1);
    assert_int_equal(log->status, 0);
    return result;
}

/* The part from the first event at the function's entry to its return. Of `kinds` only. */
static size_t cut_out(struct log *log, uint64_t entry, uint32_t kinds) {
    size_t from_here = 0, kept = 0;
    while (from_here < log->count &&
           !(log->events[from_here].kind == CT_STALKER_EXEC && log->events[from_here].location == entry))
        from_here++;
    for (size_t i = from_here; i < log->count; i++)
        if (log->events[i].kind & kinds)
            log->events[kept++] = log->events[i];
    return kept;
}

/* ---- tests ---- */

struct expected {
    uint32_t kind;
    int depth;
    void *target; /* calls only */
};

static void check_calls(const struct log *log, const struct expected *expected, size_t count) {
    size_t at = 0;
    while (at < log->count &&
           !(log->events[at].kind == CT_STALKER_CALL && log->events[at].target == (uint64_t)expected[0].target))
        at++;
    for (size_t i = 0; i < count; i++, at++) {
        assert_true(at < log->count);
        const struct ct_stalker_event *e = &log->events[at];
        if (e->kind != expected[i].kind || e->depth != expected[i].depth ||
            (e->kind == CT_STALKER_CALL && expected[i].target && e->target != (uint64_t)expected[i].target))
            fail_msg("event %zu: kind %u depth %d target %#lx, expected kind %u depth %d target %p", i, e->kind,
                     e->depth, (unsigned long)e->target, expected[i].kind, expected[i].depth, expected[i].target);
    }
}

#define CALL(depth, function)                                                                                          \
    { CT_STALKER_CALL, depth, (void *)(function) }
#define RET(depth)                                                                                                     \
    { CT_STALKER_RET, depth, NULL }

NOINLINE static int calls(int x) {
    return twice(leaf, x) + recurse(2);
}

static void test_calls(void **state) {
    (void)state;
    struct log log;
    static const struct expected expected[] = {
        CALL(0, calls),   CALL(1, twice),   CALL(2, leaf), RET(3), CALL(2, leaf), RET(3), RET(2), CALL(1, recurse),
        CALL(2, recurse), CALL(3, recurse), CALL(4, leaf), RET(5), RET(4),        RET(3), RET(2), RET(1),
    };
    for (int trust = -1; trust < 3; trust++) {
        struct settings settings = {CT_STALKER_CALL | CT_STALKER_RET, trust, 0, false};
        assert_int_equal(follow(&log, &settings, calls, 3), calls(3));
        check_calls(&log, expected, sizeof expected / sizeof *expected);
        free(log.events);
    }
}

/* A frame that was left by longjmp is not counted any more. */
/* A jump to another function is no call: one return ends both, and what follows has the right depth. */
int stalk_tail(int x);
extern int (*stalk_tail_target)(int);
int (*stalk_tail_target)(int) = leaf;
TAIL_JUMP(stalk_tail, stalk_tail_target);

NOINLINE static int tails(int x) {
    return stalk_tail(x) + leaf(x);
}

static void test_tail_jump(void **state) {
    (void)state;
    struct log log;
    struct settings settings = {CT_STALKER_CALL | CT_STALKER_RET, 1, 0, false};
    assert_int_equal(follow(&log, &settings, tails, 3), 2 * leaf(3));
    const struct expected expected[] = {CALL(0, tails), CALL(1, stalk_tail), RET(2), CALL(1, leaf), RET(2), RET(1)};
    check_calls(&log, expected, sizeof expected / sizeof expected[0]);
    free(log.events);
}

/* ---- handlers ---- */

static sigjmp_buf out;
static volatile int how;

NOINLINE static int second(int x) {
    return leaf(x) + 1;
}

static void on_second(int signal) {
    (void)signal;
    second(2);
    __asm__ volatile(""); /* no jump there */
}

static void on_first(int signal) {
    (void)signal;
    leaf(1);
    if (how & 1)
        raise(SIGUSR2);
    if (how & 2)
        siglongjmp(out, 1);
    second(1);
    __asm__ volatile("");
}

NOINLINE static int interrupted(int x) {
    if (!sigsetjmp(out, 1))
        raise(SIGUSR1);
    return leaf(x);
}

static const struct ct_stalker_event *find_call(const struct log *log, void *target, int which) {
    for (size_t i = 0; i < log->count; i++)
        if (log->events[i].kind == CT_STALKER_CALL && log->events[i].target == (uint64_t)target && !which--)
            return &log->events[i];
    fail_msg("there is no such call");
    return NULL;
}

/* Every call's depth is that of the calls around it that have not returned, jumps aside. */
static void check_depths(const struct log *log) {
    int depth = 0;
    for (size_t i = 0; i < log->count; i++) {
        const struct ct_stalker_event *e = &log->events[i];
        if (e->kind == CT_STALKER_CALL) {
            assert_int_equal(e->depth, depth);
            depth++;
        } else {
            assert_int_equal(e->depth, depth);
            depth--;
        }
    }
}

static void set_handlers(void *stack, size_t size) {
    stack_t alternate = {.ss_sp = stack, .ss_size = size, .ss_flags = stack ? 0 : SS_DISABLE};
    struct sigaction first = {.sa_handler = on_first, .sa_flags = stack ? SA_ONSTACK : 0};
    struct sigaction other = {.sa_handler = on_second, .sa_flags = stack ? SA_ONSTACK : 0};
    assert_int_equal(sigaltstack(&alternate, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &first, NULL), 0);
    assert_int_equal(sigaction(SIGUSR2, &other, NULL), 0);
}

static void check_handlers(const struct log *log) {
    const struct ct_stalker_event *first = find_call(log, (void *)on_first, 0),
                                  *inside = find_call(log, (void *)leaf, 0);
    Dl_info where;
    assert_true(dladdr((void *)first->location, &where)); /* where raise() was */
    assert_true(first->depth > 1);
    assert_int_equal(inside->depth, first->depth + 1);
    int leaves = 1;
    if (how & 1) {
        const struct ct_stalker_event *nested = find_call(log, (void *)on_second, 0);
        assert_true(nested->depth > first->depth);
        assert_int_equal(find_call(log, (void *)second, 0)->depth, nested->depth + 1);
        leaves++;
    }
    if (!(how & 2)) {
        assert_int_equal(find_call(log, (void *)second, how & 1)->depth, first->depth + 1);
        leaves++;
    }
    assert_int_equal(find_call(log, (void *)leaf, leaves)->depth, 1); /* back in interrupted() */
    if (!(how & 2))
        check_depths(log);
}

/* A handler is a call where the program was interrupted, its return is that call's: on the same stack and on another
 * one above or below, nested, and when it is left by a jump. */
static void test_handlers(void **state) {
    (void)state;
    size_t size = 1 << 16;
    char above[1 << 16];
    char *far = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *const places[] = {NULL, above, (char *)__builtin_frame_address(0) - (4 << 20), far};
    struct settings settings = {CT_STALKER_CALL | CT_STALKER_RET, 1, 0, false};
    assert_true(far != MAP_FAILED);
    for (int place = 0; place < 4; place++)
        for (how = 0; how < 4; how++) {
            struct log log;
            set_handlers(places[place], size);
            assert_int_equal(follow(&log, &settings, interrupted, 3), leaf(3));
            check_handlers(&log);
            free(log.events);
        }
    set_handlers(NULL, size);
    munmap(far, size);
}

static void test_longjmp_depth(void **state) {
    (void)state;
    struct log log;
    struct settings settings = {CT_STALKER_CALL | CT_STALKER_RET, 1, 0, false};
    assert_int_equal(follow(&log, &settings, jumps, 3), leaf(3));
    const struct ct_stalker_event *last_leaf = NULL;
    int in_jumper = 0;
    for (size_t i = 0; i < log.count; i++) {
        if (log.events[i].kind != CT_STALKER_CALL)
            continue;
        if (log.events[i].target == (uint64_t)jumper)
            in_jumper = log.events[i].depth;
        if (log.events[i].target == (uint64_t)leaf)
            last_leaf = &log.events[i];
    }
    assert_int_equal(in_jumper, 1);
    assert_non_null(last_leaf);
    assert_int_equal(last_leaf->depth, 1);
    free(log.events);
}

/* Deeper than the engine keeps frames one by one. */
static void test_deep(void **state) {
    (void)state;
    enum { DEEP = 70000 };
    struct log log;
    struct settings settings = {CT_STALKER_CALL | CT_STALKER_RET, 1, 0, false};
    int result = follow(&log, &settings, recurse, DEEP), deepest = 0;
    assert_int_equal(result, recurse(DEEP));
    size_t calls_seen = 0;
    for (size_t i = 0; i < log.count; i++) {
        const struct ct_stalker_event *e = &log.events[i];
        if (e->kind == CT_STALKER_CALL && e->target == (uint64_t)recurse)
            assert_int_equal(e->depth, (int)calls_seen++);
        if (e->depth > deepest)
            deepest = e->depth;
    }
    assert_int_equal(calls_seen, DEEP + 1);
    assert_int_equal(deepest, DEEP + 2); /* the return of leaf */
    const struct ct_stalker_event *last = NULL;
    for (size_t i = 0; i < log.count; i++)
        if (log.events[i].kind == CT_STALKER_RET && log.events[i].location - (uint64_t)recurse < 256)
            last = &log.events[i];
    assert_non_null(last);
    assert_int_equal(last->depth, 1);
    free(log.events);
}

/* Program counters of subject(n), single-stepped in a child; repetitions of one instruction count once. */
static size_t single_step(uint64_t *pcs, size_t most, int n) {
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        volatile int result = subject(n);
        (void)result;
        _exit(0);
    }
    int status;
    size_t count = 0;
    bool inside = false;
    uint64_t end = 0;
    waitpid(child, &status, 0);
    for (;;) {
        struct user_regs_struct regs;
        struct iovec all = {&regs, sizeof regs};
        if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) || waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status))
            break;
        ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &all);
        uint64_t pc = STEPPED_PC(regs);
        if (!inside && pc == (uint64_t)subject) {
            inside = true;
            end = STEPPED_RETURN(child, regs);
        }
        if (inside && pc == end)
            break;
        if (inside && count < most && (count == 0 || pcs[count - 1] != pc))
            pcs[count++] = pc;
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return count;
}

static void test_exec(void **state) {
    (void)state;
    NEEDS_PTRACE();
    enum { MOST = 100000, N = 40 };
    static uint64_t pcs[MOST];
    size_t expected = single_step(pcs, MOST, N);
    assert_true(expected > 500);
    for (int trust = -1; trust < 3; trust++) {
        struct log log;
        struct settings settings = {CT_STALKER_EXEC, trust, trust == 1 ? 7 : 0, false};
        follow(&log, &settings, subject, N);
        size_t count = cut_out(&log, (uint64_t)subject, CT_STALKER_EXEC);
        assert_true(count >= expected);
        for (size_t i = 0; i < expected; i++)
            if (log.events[i].location != pcs[i])
                fail_msg("trust %d, instruction %zu of %zu: %#lx, single-stepped %#lx", trust, i, expected,
                         (unsigned long)log.events[i].location, (unsigned long)pcs[i]);
        free(log.events);
    }
}

/* Each block is reported before its instructions, and they cover it. */
static void test_blocks(void **state) {
    (void)state;
    struct log log;
    struct settings settings = {CT_STALKER_EXEC | CT_STALKER_BLOCK, 1, 100, false};
    follow(&log, &settings, subject, 40);
    uint64_t at = 0, end = 0;
    size_t blocks = 0;
    for (size_t i = 0; i < log.count; i++) {
        const struct ct_stalker_event *e = &log.events[i];
        if (e->kind == CT_STALKER_BLOCK) {
            assert_true(at == end);
            at = e->location;
            end = e->target;
            blocks++;
            continue;
        }
        assert_int_equal(e->kind, CT_STALKER_EXEC);
        assert_true(e->location == at);
        uint64_t next =
            i + 1 < log.count && log.events[i + 1].kind == CT_STALKER_EXEC ? log.events[i + 1].location : end;
        assert_true(next > at && next <= end && next - at <= 15);
        at = next;
    }
    assert_true(blocks > 50);
    free(log.events);
}

static size_t count_kind(const struct log *log, uint32_t kind, uint64_t target) {
    size_t n = 0;
    for (size_t i = 0; i < log->count; i++)
        n += log->events[i].kind == kind && (!target || log->events[i].target == target);
    return n;
}

/* One function after the other, each a return alone. */
enum { MANY = 40000 };
extern const char many_functions[], many_functions_end[];
__asm__(".text\n"
        ".balign 4\n"
        "many_functions:\n"
        ".rept 40000\n"
        "ret\n"
        ".endr\n"
        "many_functions_end:\n");

static int call_many(int times) {
    size_t size = (size_t)(many_functions_end - many_functions) / MANY;
    for (int k = 0; k < times; k++)
        for (size_t i = 0; i < MANY; i++) {
            void (*volatile fn)(void) = (void (*)(void))(uintptr_t)(many_functions + i * size);
            fn();
        }
    return 0;
}

/* However many functions there are, no call is left out. */
static void test_summary_of_many(void **state) {
    (void)state;
    struct log summary;
    const struct settings settings = {CT_STALKER_CALL, 1, 0, true};
    follow(&summary, &settings, call_many, 2);
    assert_in_range(summary.summary_total, 2 * MANY, 2 * MANY + 100);
}

/* The summary has as many calls as there are events, counted in the code or not. */
static void test_summary(void **state) {
    (void)state;
    struct log log, summary;
    struct settings settings = {CT_STALKER_CALL, 1, 0, false};
    follow(&log, &settings, subject, 400);
    settings.summary = true;
    follow(&summary, &settings, subject, 400);
    assert_int_equal(summary.summary_total, count_kind(&log, CT_STALKER_CALL, 0));
    assert_int_equal(summary.summary_leaf, count_kind(&log, CT_STALKER_CALL, (uint64_t)leaf));
    assert_true(summary.summary_leaf > 100);
    free(log.events);
}

/* Every queue size delivers the same events in the same order. */
static void test_capacity(void **state) {
    (void)state;
    struct log reference, log;
    struct settings settings = {CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_BLOCK, 1, 0, false};
    follow(&reference, &settings, subject, 100);
    for (size_t capacity = 1; capacity < 5000; capacity = capacity * 3 + 1) {
        settings.capacity = capacity;
        follow(&log, &settings, subject, 100);
        size_t a = 0, b = 0;
        while (reference.events[a].target != (uint64_t)subject)
            a++;
        while (log.events[b].target != (uint64_t)subject)
            b++;
        size_t count = reference.count - a;
        assert_int_equal(log.count - b, count);
        assert_true(count > 300);
        assert_memory_equal(&reference.events[a], &log.events[b], count * sizeof *log.events);
        free(log.events);
    }
    free(reference.events);
}

static void test_timestamps(void **state) {
    (void)state;
    struct log log;
    struct settings settings = {CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_TIMESTAMPS, 1, 0, false};
    follow(&log, &settings, subject, 100);
    uint64_t last = 0;
    for (size_t i = 0; i < log.count; i++) {
        assert_true(log.events[i].timestamp > 0 && log.events[i].timestamp >= last);
        last = log.events[i].timestamp;
    }
    assert_true(log.count > 100);
    free(log.events);
}

/* The events of `log` from the call of subject on, which are those of `reference` but for the time. No reading serves
 * more than 16 records. */
static void compare_fast(const struct log *reference, struct log *log) {
    size_t a = 0, b = 0, same = 0;
    uint64_t last = 0;
    while (reference->events[a].target != (uint64_t)subject)
        a++;
    while (log->events[b].target != (uint64_t)subject)
        b++;
    assert_int_equal(log->count - b, reference->count - a);
    for (size_t i = b; i < log->count; i++) {
        struct ct_stalker_event *e = &log->events[i];
        assert_true(e->kind == CT_STALKER_BLOCK ? !e->timestamp : e->timestamp && e->timestamp >= last);
        same = e->timestamp == last ? same + 1 : 1;
        assert_in_range(same, 1, SAME_TIME);
        last = e->timestamp ? e->timestamp : last;
        e->timestamp = 0;
    }
    assert_memory_equal(&reference->events[a], &log->events[b], (log->count - b) * sizeof *log->events);
}

static void test_fast_clock(void **state) {
    (void)state;
    for (uint32_t more = 0; more <= CT_STALKER_BLOCK; more += CT_STALKER_BLOCK) {
        struct log reference, log;
        struct settings settings = {CT_STALKER_CALL | CT_STALKER_RET | more, 1, 0, false};
        follow(&reference, &settings, subject, 1000);
        settings.mask |= CT_STALKER_FAST_CLOCK;
        for (settings.capacity = 1; settings.capacity < 10000; settings.capacity = settings.capacity * 3 + 1) {
            follow(&log, &settings, subject, 1000);
            compare_fast(&reference, &log);
            free(log.events);
        }
        free(reference.events);
    }
}

static uint64_t earliest[200];

__attribute__((noinline, section("unseen_text"))) static uint64_t unseen(void) {
    return counter();
}
extern const char __start_unseen_text[], __stop_unseen_text[];

/* Calls of twice, each after a system call or excluded code, and a different number of other calls. */
NOINLINE static int waits(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i % 17; k++)
            sum += recurse(k & 1);
        if (i & 1) {
            static const struct timespec pause = {0, 100000};
            earliest[i] = counter() + TICKS_OF_100_US;
            SLEEP_HERE(&pause);
        } else {
            earliest[i] = unseen();
        }
        sum += twice(leaf, i);
    }
    return sum;
}

/* What takes long is not reported as the time of what came after it. */
static void test_fast_clock_waits(void **state) {
    (void)state;
    struct ct_stalker *stalker;
    struct log log = {0};
    struct ct_stalker_sink sink = {.size = sizeof sink,
                                   .mask = CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_FAST_CLOCK,
                                   .user = &log,
                                   .on_receive = receive};
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_exclude(stalker, (uint64_t)__start_unseen_text,
                                        (uint64_t)(__stop_unseen_text - __start_unseen_text)),
                     0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, &sink), 0);
    waits(200);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    int calls = 0;
    for (size_t i = 0; i < log.count; i++)
        if (log.events[i].kind == CT_STALKER_CALL && log.events[i].target == (uint64_t)twice)
            assert_true(log.events[i].timestamp >= earliest[calls++]);
    assert_int_equal(calls, 200);
    free(log.events);
}

static void test_compile(void **state) {
    (void)state;
    struct log log;
    struct settings settings = {CT_STALKER_COMPILE | CT_STALKER_BLOCK, 1, 0, false};
    follow(&log, &settings, subject, 100);
    size_t compiled = count_kind(&log, CT_STALKER_COMPILE, 0);
    assert_true(compiled > 20 && compiled < count_kind(&log, CT_STALKER_BLOCK, 0));
    free(log.events);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handlers),
        cmocka_unit_test(test_tail_jump),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_longjmp_depth),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_exec),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_summary_of_many),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_timestamps),
        cmocka_unit_test(test_fast_clock),
        cmocka_unit_test(test_fast_clock_waits),
        cmocka_unit_test(test_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
