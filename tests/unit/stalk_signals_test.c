/* SPDX-License-Identifier: Apache-2.0 */
/* Signals in followed code: handlers run translated, see the program's state, and return into translated code. A timer
 * interrupts work at random places thousands of times; faults are jumped out of and repaired. */
#include "stalk_util.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <time.h>

static volatile unsigned long ticks, strange;
static volatile unsigned long progress, ticks_at_progress, last_progress;
static volatile long interval;

static void set_timer(long microseconds) {
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    interval = microseconds;
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* Where handling a signal takes longer than the interval nothing else would be done any more. */
static void slow_down(void) {
    if (progress != last_progress) {
        last_progress = progress;
        ticks_at_progress = ticks;
    } else if (interval && ticks - ticks_at_progress > 2000 && interval < 100000) {
        ticks_at_progress = ticks;
        set_timer(interval * 2);
    }
}

/* The handler must never see an address of translated code. */
static void on_tick(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (ticks % 16 == 0 && !tells_program(context))
        strange++;
    ticks++;
    slow_down();
}

static void install(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    assert_int_equal(sigaction(signal, &action, NULL), 0);
}

static uint64_t seen;

static void receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)tid, (void)events;
    seen += count;
}

static void interrupted(uint32_t mask, int trust) {
    struct ct_stalker *stalker;
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = mask, .on_receive = receive};
    unsigned long expected = work(3000);
    install(SIGALRM, on_tick, SA_RESTART);
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, trust), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, mask ? &sink : NULL), 0);
    set_timer(60);
    unsigned long before = ticks, wrong = 0;
    for (int i = 0; ticks - before < 300; i++, progress++)
        wrong += work(3000) != expected;
    set_timer(0);
    int following = ct_stalker_is_following(stalker, 0);
    struct sigaction now;
    sigaction(SIGALRM, NULL, &now);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    struct ct_stalker_statistics statistics = {.size = sizeof statistics};
    ct_stalker_statistics(stalker, &statistics);
    assert_int_equal(wrong, 0);
    assert_int_equal(following, 1);
    assert_ptr_equal(now.sa_sigaction, on_tick); /* what the program sees while it is followed */
    sigaction(SIGALRM, NULL, &now);
    assert_ptr_equal(now.sa_sigaction, on_tick); /* and what is there afterwards */
    assert_true(statistics.signals > 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static void test_timer(void **state) {
    (void)state;
    interrupted(0, 1);
    interrupted(0, -1);
    interrupted(CT_STALKER_CALL | CT_STALKER_RET, 1);
    interrupted(CT_STALKER_ALL_EVENTS | CT_STALKER_TIMESTAMPS, 0);
    interrupted(CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_FAST_CLOCK, 1);
    assert_int_equal(strange, 0);
}

static sigjmp_buf jump;
static volatile int faults;
static void *volatile fault_address;

static void jump_out(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    faults++;
    if (info->si_addr == fault_address)
        siglongjmp(jump, 1);
    _exit(9);
}

/* Faults of data and of jumps to nowhere; the handler jumps back into code that goes on being followed. */
static void test_siglongjmp(void **state) {
    (void)state;
    struct ct_stalker *stalker;
    struct sigaction old;
    sigaction(SIGSEGV, NULL, &old);
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    install(SIGSEGV, jump_out, 0);
    fault_address = (void *)16;
    for (volatile int i = 0; i < 200; i++)
        if (!sigsetjmp(jump, 1))
            *(volatile int *)fault_address = 1;
    for (volatile int i = 0; i < 20; i++)
        if (!sigsetjmp(jump, 1))
            ((void (*)(void))fault_address)();
    int following = ct_stalker_is_following(stalker, 0);
    unsigned long result = work(10);
    sigaction(SIGSEGV, &old, NULL);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(faults, 220);
    assert_int_equal(following, 1);
    assert_int_equal(result, work(10));
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static uint64_t fault_pc, fault_register;

static void step_over(int signal, siginfo_t *info, void *context) {
    (void)signal;
    ucontext_t *c = context;
    fault_address = info->si_addr;
    fault_pc = *context_pc(c);
    *context_pc(c) += TRAP_SIZE;
    *context_result(c) = 77;
}

static void note_register(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *c = context;
    fault_pc = *context_pc(c);
    fault_register = *context_scratch(c);
    *context_result(c) = (uint64_t)&indirect;
}

/* The handler sees registers of the program, in the middle of our code too, and its changes take effect. */
static void test_context(void **state) {
    (void)state;
    struct ct_stalker *stalker;
    uint64_t value, at, call_at;
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    install(SIGILL, step_over, 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    TRAP_AND_ADD(value, at);
    assert_int_equal(value, 78);
    assert_int_equal(fault_pc, at);
    assert_int_equal((uint64_t)fault_address, at);
    struct sigaction old;
    sigaction(SIGSEGV, NULL, &old);
    install(SIGSEGV, note_register, 0);
    FAULTING_CALL(value, call_at);
    sigaction(SIGSEGV, &old, NULL);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(fault_pc, call_at);
    assert_int_equal(fault_register, 0x1234567);
    assert_int_equal(value, mix(5));
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static volatile int caught;

static void catch_one(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    caught++;
}

static bool same_action(const struct sigaction *a, const struct sigaction *b) {
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags &&
           sigismember(&a->sa_mask, SIGALRM) == sigismember(&b->sa_mask, SIGALRM);
}

/* The program sees its own actions, whatever they are, and gets them back. */
static void test_actions(void **state) {
    (void)state;
    enum { ALL = 65 };
    static struct sigaction before[ALL], during[ALL], after[ALL];
    struct sigaction saved[4], odd = {.sa_handler = SIG_DFL, .sa_flags = SA_RESTART};
    static const int changed[4] = {SIGUSR1, SIGPIPE, SIGTERM, SIGCHLD};
    for (int i = 0; i < 4; i++)
        sigaction(changed[i], NULL, &saved[i]);
    install(SIGUSR1, catch_one, SA_NODEFER);
    signal(SIGPIPE, SIG_IGN);
    sigaddset(&odd.sa_mask, SIGALRM);
    sigaction(SIGTERM, &odd, NULL);
    install(SIGCHLD, catch_one, 0);
    for (int i = 1; i < ALL; i++)
        sigaction(i, NULL, &before[i]);
    struct ct_stalker *stalker;
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    for (int i = 1; i < ALL; i++)
        sigaction(i, NULL, &during[i]);
    raise(SIGUSR1);
    raise(SIGPIPE);
    raise(SIGCHLD);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    for (int i = 1; i < ALL; i++)
        sigaction(i, NULL, &after[i]);
    for (int i = 0; i < 4; i++)
        sigaction(changed[i], &saved[i], NULL);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    assert_int_equal(caught, 2);
    for (int i = 1; i < ALL; i++) {
        assert_true(same_action(&before[i], &during[i]));
        assert_true(same_action(&before[i], &after[i]));
    }
}

static int stop_status;

static void stopped(void *user, int tid, int status) {
    (void)user, (void)tid;
    stop_status = status;
}

#if defined __x86_64__
static volatile int traps;

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    fault_pc = *context_pc(context);
    traps++;
}

/* int3 and the other kernel entry are executed; a far return ends following, and the program goes on. */
static void test_odd_instructions(void **state) {
    (void)state;
    struct ct_stalker *stalker;
    struct ct_stalker_sink sink = {.size = sizeof sink, .stop = stopped};
    uint64_t behind;
    long pid = 20; /* getpid of 32-bit programs */
    install(SIGTRAP, on_trap, 0);
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, &sink), 0);
    __asm__ volatile("lea 1f(%%rip), %0; int3; 1:" : "=r"(behind));
    __asm__ volatile("int $0x80" : "+a"(pid)::"r8", "r9", "r10", "r11", "memory");
    uint64_t flags; /* with alignment checks on, and strings going backward */
    __asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n orl $0x40400, (%%rsp)\n popfq\n jmp 1f\n .balign 64\n"
                     "1: jmp 2f\n .balign 64\n 2: pushfq\n pop %0\n pushfq\n andl $~0x40400, (%%rsp)\n popfq\n"
                     "lea 128(%%rsp), %%rsp"
                     : "=r"(flags)::"memory", "cc");
    assert_int_equal(flags & 0x40400, 0x40400);
    int following = ct_stalker_is_following(stalker, 0);
    __asm__ volatile(
        "lea -128(%%rsp), %%rsp\n mov %%cs, %%eax\n push %%rax\n lea 1f(%%rip), %%rax\n push %%rax\n lretq\n"
        "1: lea 128(%%rsp), %%rsp" ::
            : "rax", "memory");
    int afterwards = ct_stalker_is_following(stalker, 0);
    assert_int_equal(following, 1);
    assert_int_equal(traps, 1);
    assert_int_equal(fault_pc, behind);
    assert_true(pid == getpid() || pid == -ENOSYS); /* kernels may lack it */
    assert_int_equal(afterwards, 0);
    assert_int_equal(stop_status, CT_ERR_UNSUPPORTED);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

#else
/* brk is executed; a thread pointer that leads nowhere ends following, and the program goes on. */
static void test_odd_instructions(void **state) {
    (void)state;
    struct ct_stalker *stalker;
    struct ct_stalker_sink sink = {.size = sizeof sink, .stop = stopped};
    uint64_t at;
    install(SIGTRAP, step_over, 0);
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, &sink), 0);
    __asm__ volatile("adr %0, 1f\n 1: brk #0" : "=r"(at)::"x0");
    int following = ct_stalker_is_following(stalker, 0);
    __asm__ volatile("mrs x9, tpidr_el0\n mov x10, #16\n msr tpidr_el0, x10\n msr tpidr_el0, x9" ::
                         : "x9", "x10", "memory");
    int afterwards = ct_stalker_is_following(stalker, 0);
    assert_int_equal(following, 1);
    assert_int_equal(fault_pc, at);
    assert_int_equal(afterwards, 0);
    assert_int_equal(stop_status, CT_ERR_UNSUPPORTED);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}
#endif

/* ---- one signal while another is being delivered ---- */

enum { STORM = 4000, IN_THE_QUEUE = 500 }; /* the kernel has room for some thousands, of all processes of a user */
static volatile int storm_handled[3], storm_left;
static int storm_calls;
static pthread_t storm_target;

NOINLINE static void storm_witness(void) {
    __asm__ volatile("");
}

static void on_storm(int signal, siginfo_t *info, void *context) {
    (void)info;
    if (*context_sp(context) == 0)
        abort();
    storm_witness();
    storm_handled[signal - SIGRTMIN]++; /* each kind is blocked while it is handled */
}

static void *send_storm(void *number) {
    int signal = SIGRTMIN + (int)(intptr_t)number;
    for (int i = 0; i < STORM; i++) {
        while (storm_handled[(intptr_t)number] < i - IN_THE_QUEUE)
            sched_yield();
        while (pthread_kill(storm_target, signal))
            sched_yield(); /* the queue is full */
    }
    __atomic_fetch_sub(&storm_left, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

static void count_storm(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)tid;
    for (size_t i = 0; i < count; i++)
        storm_calls += events[i].kind == CT_STALKER_CALL && events[i].target == (uint64_t)storm_witness;
}

/* Three kinds of signals that do not block each other, as fast as they can be sent: every handler runs, and is
 * followed. */
static void test_storm(void **state) {
    (void)state;
    struct ct_stalker *stalker;
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = CT_STALKER_CALL, .on_receive = count_storm};
    pthread_t senders[3];
    unsigned long expected = work(100);
    int wrong = 0;
    storm_target = pthread_self();
    storm_left = 3;
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    for (int i = 0; i < 3; i++)
        install(SIGRTMIN + i, on_storm, SA_RESTART);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, &sink), 0);
    for (intptr_t i = 0; i < 3; i++)
        pthread_create(&senders[i], NULL, send_storm, (void *)i);
    while (__atomic_load_n(&storm_left, __ATOMIC_ACQUIRE))
        wrong += work(100) != expected;
    for (int i = 0; i < 3; i++)
        pthread_join(senders[i], NULL);
    int following = ct_stalker_is_following(stalker, 0);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(following, 1);
    assert_int_equal(wrong, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(storm_handled[i], STORM);
        assert_false(sigismember(&mask, SIGRTMIN + i));
    }
    assert_int_equal(storm_calls, 3 * STORM);
}

/* System calls: interrupted, restarted, in a child. */
static void test_system_calls(void **state) {
    (void)state;
    struct ct_stalker *stalker;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    install(SIGALRM, on_tick, 0);
    set_timer(2000);
    struct timespec long_time = {5, 0};
    int slept = nanosleep(&long_time, NULL), error = errno;
    install(SIGALRM, on_tick, SA_RESTART);
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        char result = work(5) == 0 ? 'x' : 'y';
        _exit(write(ends[1], &result, 1) == 1 ? 7 : 8);
    }
    char got = 0;
    ssize_t size = read(ends[0], &got, 1); /* restarted after each tick */
    int status = 0;
    volatile pid_t waited;
    while ((waited = waitpid(child, &status, 0)) < 0 && errno == EINTR)
        ;
    set_timer(0);
    pid_t spawned = vfork();
    if (spawned == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int spawn_status = -1;
    waitpid(spawned, &spawn_status, 0);
    int following = ct_stalker_is_following(stalker, 0);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(slept, -1);
    assert_int_equal(error, EINTR);
    assert_int_equal(size, 1);
    assert_int_equal(got, 'y');
    assert_int_equal(waited, child);
    assert_int_equal(status, 7 << 8);
    assert_int_equal(spawn_status, 0);
    assert_int_equal(following, 1);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* ---- death ---- */

struct shared {
    volatile uint64_t marks;
    volatile int stops;
    volatile uint64_t pc;
};
static struct shared *shared;

NOINLINE static void mark(void) {
    __asm__ volatile("");
}

static void count_marks(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)tid;
    for (size_t i = 0; i < count; i++)
        shared->marks += events[i].kind == CT_STALKER_CALL && events[i].target == (uint64_t)mark;
}

static void count_stop(void *user, int tid, int status) {
    (void)user, (void)tid, (void)status;
    shared->stops++;
}

enum way {
    WAY_WRITE,
    WAY_JUMP,
    WAY_CALL,
    WAY_UD2,
    WAY_DIVIDE,
    WAY_TRAP,
    WAY_ABORT,
    WAY_RAISE,
    WAY_ONCE,
    WAY_SUSPEND,
    WAY_COUNT
};
static const int death_of[] = {SIGSEGV, SIGSEGV, SIGSEGV, SIGILL,  DEATH_OF_DIVISION,
                               SIGTRAP, SIGABRT, SIGTERM, SIGSEGV, SIGTERM};

static void reset_only(int signal) {
    (void)signal; /* SA_RESETHAND: the next one kills */
}

__attribute__((noreturn)) static void die(enum way way) {
    struct sigaction once = {.sa_handler = reset_only, .sa_flags = (int)SA_RESETHAND};
    switch (way) {
    case WAY_ONCE:
        sigaction(SIGSEGV, &once, NULL);
        /* fall through */
    case WAY_WRITE:
        DIE_OF_WRITE(shared->pc);
        break;
    case WAY_JUMP:
        DIE_OF_JUMP(shared->pc);
        break;
    case WAY_CALL: /* in the middle of our code for it */
        DIE_OF_CALL(shared->pc);
        break;
    case WAY_UD2:
        DIE_OF_TRAP(shared->pc);
        break;
    case WAY_DIVIDE:
        DIE_OF_DIVISION(shared->pc);
        break;
    case WAY_TRAP:
        DIE_OF_BREAKPOINT(shared->pc);
        break;
    case WAY_ABORT:
        abort();
    case WAY_SUSPEND: /* blocked before and afterwards */
        sigemptyset(&once.sa_mask);
        sigaddset(&once.sa_mask, SIGTERM);
        sigprocmask(SIG_BLOCK, &once.sa_mask, NULL);
        raise(SIGTERM);
        sigemptyset(&once.sa_mask);
        sigsuspend(&once.sa_mask);
        break;
    default:
        raise(SIGTERM);
    }
    _exit(99);
}

/* In a child that our parent watches. */
__attribute__((noreturn)) static void live_and_die(enum way way, int followed) {
    struct ct_stalker *stalker;
    struct ct_stalker_options options = {.size = sizeof options, .drain_interval_ms = 100000};
    struct ct_stalker_sink sink = {
        .size = sizeof sink, .mask = CT_STALKER_CALL, .on_receive = count_marks, .stop = count_stop};
    struct rlimit none = {0, 0};
    struct sigaction seen_action;
    setrlimit(RLIMIT_CORE, &none);
    for (int i = 1; i < 32; i++)
        signal(i, SIG_DFL);
    if (followed && (ct_stalker_create(&stalker, &options) || ct_stalker_follow_me(stalker, NULL, &sink)))
        _exit(98);
    for (int i = 1; i < 32; i++)
        if (i != SIGKILL && i != SIGSTOP && (sigaction(i, NULL, &seen_action) || seen_action.sa_handler != SIG_DFL))
            _exit(97);
    for (int i = 0; i < 5; i++)
        mark();
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    die(way);
}

struct death {
    int status;
    siginfo_t info;
    uint64_t pc;
};

/* The last signal that it got is what it dies of. */
static void watch(pid_t child, struct death *d) {
    memset(d, 0, sizeof *d);
    while (waitpid(child, &d->status, 0) == child && WIFSTOPPED(d->status)) {
        struct user_regs_struct regs;
        struct iovec all = {&regs, sizeof regs};
        ptrace(PTRACE_GETSIGINFO, child, 0, &d->info);
        ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &all);
        d->pc = STEPPED_PC(regs);
        ptrace(PTRACE_CONT, child, 0, WSTOPSIG(d->status));
    }
}

/* Without a handler: every event is there, and the process dies as it does unfollowed. */
static void test_death(void **state) {
    (void)state;
    NEEDS_PTRACE();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (int way = 0; way < WAY_COUNT; way++) {
        struct death deaths[2];
        for (int followed = 0; followed < 2; followed++) {
            memset(shared, 0, sizeof *shared);
            pid_t child = fork();
            if (child == 0)
                live_and_die((enum way)way, followed);
            watch(child, &deaths[followed]);
            assert_true(WIFSIGNALED(deaths[followed].status));
            assert_int_equal(WTERMSIG(deaths[followed].status), death_of[way]);
            if (shared->pc)
                assert_int_equal(deaths[followed].pc, shared->pc);
        }
        assert_int_equal(shared->marks, 5);
        assert_int_equal(shared->stops, 1);
        assert_int_equal(deaths[1].status, deaths[0].status);
        assert_int_equal(deaths[1].pc, deaths[0].pc + (way == WAY_SUSPEND ? DEATH_IN_CALL : 0));
        assert_int_equal(deaths[1].info.si_code, deaths[0].info.si_code);
        if (death_of[way] != SIGABRT && death_of[way] != SIGTERM)
            assert_ptr_equal(deaths[1].info.si_addr, deaths[0].info.si_addr);
    }
    munmap(shared, sizeof *shared);
}

static volatile unsigned long damaged;

/* On the alternate stack, where its frame lies at the top: signals that come while the engine has another stack must
 * not be put there. */
static void on_alternate(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    volatile uint64_t canaries[64];
    uint64_t pc = *context_pc(context), sp = *context_sp(context);
    for (unsigned i = 0; i < 64; i++)
        canaries[i] = 0x1111111111111111 * (i % 15 + 1);
    unsigned long before = ticks;
    for (unsigned rounds = 0; ticks - before < 100; rounds++, progress++) {
        (void)work(20);
        for (unsigned i = 0; i < 64; i++)
            damaged += canaries[i] != 0x1111111111111111 * (i % 15 + 1);
        damaged += *context_pc(context) != pc || *context_sp(context) != sp;
    }
}

static void test_alternate_stack(void **state) {
    (void)state;
    struct ct_stalker *stalker;
    static char memory[65536];
    stack_t alternate = {.ss_sp = memory, .ss_size = sizeof memory}, none = {.ss_flags = SS_DISABLE}, now;
    assert_int_equal(sigaltstack(&alternate, NULL), 0);
    install(SIGALRM, on_tick, SA_RESTART | SA_ONSTACK);
    install(SIGUSR1, on_alternate, SA_ONSTACK);
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, -1), 0); /* into the engine with each block */
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    unsigned long before = ticks;
    set_timer(60);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    set_timer(0);
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    assert_int_equal(sigaltstack(&none, &now), 0);
    assert_true(ticks > before);
    assert_int_equal(damaged, 0);
    assert_false(sigismember(&mask, SIGALRM) || sigismember(&mask, SIGUSR1));
    assert_ptr_equal(now.ss_sp, memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actions),          cmocka_unit_test(test_timer),
        cmocka_unit_test(test_siglongjmp),       cmocka_unit_test(test_context),
        cmocka_unit_test(test_odd_instructions), cmocka_unit_test(test_storm),
        cmocka_unit_test(test_system_calls),     cmocka_unit_test(test_death),
        cmocka_unit_test(test_alternate_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
