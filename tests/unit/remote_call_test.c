/* SPDX-License-Identifier: Apache-2.0 */
/* Calls made in another process: right results, nothing of it is noticed, whatever the thread was doing; and that we
 * may die at any step of them. */
#include "os/thread.h"
#include "remote_util.h"

#include <poll.h>
#include <linux/futex.h>
#include <sys/syscall.h>

static const char *const all_modes[] = {"nanosleep",  "poll", "epoll", "futex", "sigtimedwait",
                                        "semtimedop", "read", "ppoll", "spin",  "signals"};
enum { MODES = sizeof all_modes / sizeof *all_modes };

/* All that a controller does: system calls, calls of functions, registers. True when every result was right. */
static bool use(struct ct_remote *remote, const struct target *target) {
    uint64_t map[6] = {0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};
    uint64_t numbers[6] = {1, 20, 300, 4000, 50000, 600000}, unmap[6] = {0, 8192}, none[6] = {0}, sum = 0;
    int64_t at = 0, result = 0;
    struct ct_registers regs;
    bool good = ct_remote_syscall(remote, SYS_mmap, map, &at) == CT_OK && at > 0 && at % 4096 == 0;
    good = good && ct_remote_write(remote, (uint64_t)at, "hello", 5) == CT_OK;
    good = good && ct_remote_call(remote, target->sum_of_six, target->stack, numbers, &sum) == CT_OK && sum == 654321;
    good = good && ct_remote_syscall(remote, 9999, none, &result) == CT_OK && result == -ENOSYS;
    good = good && ct_remote_get_regs(remote, 0, &regs) == CT_OK;
    ct_registers_set_block(&regs, 0x10000);
    good = good && ct_remote_set_regs(remote, 0, &regs) == CT_OK;
    unmap[0] = (uint64_t)at;
    return good && ct_remote_syscall(remote, SYS_munmap, unmap, &result) == CT_OK && result == 0;
}

static void test_calls(void **state) {
    (void)state;
    for (size_t m = 0; m < MODES; m++) {
        struct target target;
        start_target(&target, all_modes[m]);
        struct ct_remote *remote = open_remote(target.pid);
        for (int i = 0; i < 20; i++) {
            stop_remote(remote);
            assert_true(use(remote, &target));
            ct_remote_resume(remote);
            usleep(i * 100);
        }
        ct_remote_close(remote);
        assert_int_equal(end_target(&target, NULL), 0);
    }
}

static void test_bad_calls(void **state) {
    (void)state;
    struct target target;
    uint64_t none[6] = {0}, result;
    int64_t number;
    start_target(&target, "nanosleep");
    struct ct_remote *remote = open_remote(target.pid);
    assert_int_equal(ct_remote_syscall(remote, SYS_getpid, none, &number), CT_ERR_BAD_STATE);
    assert_int_equal(ct_remote_call(remote, target.sum_of_six, target.stack, none, &result), CT_ERR_BAD_STATE);
    stop_remote(remote);
    assert_int_equal(ct_remote_call(remote, target.sum_of_six, target.stack + 8, none, &result),
                     CT_ERR_INVALID_ARGUMENT);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ct_remote_call(remote, target.fault, target.stack, none, &result), CT_ERR_SYSTEM);
    assert_int_equal(ct_remote_call(remote, 0, target.stack, none, &result), CT_ERR_SYSTEM);
    assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), target.pid); /* it still can */
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

static bool says_yes(void *arg) {
    ++*(int *)arg;
    return true;
}

/* After its time, or when it was given up, a stop has neither memory nor calls to offer. The next one has. */
static void test_limit(void **state) {
    (void)state;
    struct target target;
    int asked = 0;
    uint64_t none[6] = {0}, word, sum;
    start_target(&target, "nanosleep");
    struct ct_remote *remote = open_remote(target.pid);
    ct_remote_limit(remote, 1, NULL, NULL);
    stop_remote(remote);
    usleep(5000);
    assert_true(ct_remote_is_over(remote));
    assert_int_equal(ct_remote_read(remote, target.sum_of_six, &word, sizeof word), CT_ERR_TIMEOUT);
    assert_int_equal(ct_remote_call(remote, target.sum_of_six, target.stack, none, &sum), CT_ERR_TIMEOUT);
    assert_false(ct_remote_is_late(remote)); /* it has not begun */
    ct_remote_resume(remote);
    assert_int_equal(ct_remote_read(remote, target.sum_of_six, &word, sizeof word), CT_OK);
    ct_remote_limit(remote, LIMIT_MS, says_yes, &asked);
    stop_remote(remote);
    assert_int_equal(ct_remote_read(remote, target.sum_of_six, &word, sizeof word), CT_ERR_TIMEOUT);
    assert_int_equal(asked, 1);
    ct_remote_limit(remote, 0, NULL, NULL);
    assert_true(use(remote, &target));
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

/* Functions that do not return: one that only runs, one whose system calls the tracer hears of all the time. The
 * process runs on. */
static void test_endless_calls(void **state) {
    (void)state;
#ifdef __x86_64__
    static const char *const codes[] = {"\xeb\xfe", "\xb8\x6e\0\0\0\x0f\x05\xeb\xf7"}; /* jmp; getppid, jmp */
    static const size_t sizes[] = {2, 9};
#else
    static const uint32_t run = 0x14000000, ask[] = {0xd28015a8, 0xd4000001, 0x17fffffe}; /* b; getppid, b */
    static const void *const codes[] = {&run, ask};
    static const size_t sizes[] = {sizeof run, sizeof ask};
#endif
    for (int i = 0; i < 2; i++) {
        struct target target;
        uint64_t map[6] = {0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};
        uint64_t none[6] = {0}, result;
        int64_t at;
        start_target(&target, "nanosleep");
        struct ct_remote *remote = open_remote(target.pid);
        stop_remote(remote);
        assert_int_equal(ct_remote_syscall(remote, SYS_mmap, map, &at), CT_OK);
        assert_int_equal(ct_remote_write(remote, (uint64_t)at, codes[i], sizes[i]), CT_OK);
        ct_remote_limit(remote, 200, NULL, NULL);
        assert_int_equal(ct_remote_call(remote, (uint64_t)at, target.stack, none, &result), CT_ERR_TIMEOUT);
        ct_remote_close(remote);
        wait_for_state(target.pid, "R");
        wait_untraced(target.pid);
        kill(target.pid, SIGKILL);
        assert_int_equal(end_target(&target, NULL), -SIGKILL);
    }
}

/* A call that returns after we have stopped waiting finds its way back, whatever calls were made meanwhile. */
static void test_late_return(void **state) {
    (void)state;
#ifdef __x86_64__
    static const uint8_t code[] = {0x8b, 0x07, 0x85, 0xc0, 0x74, 0xfa, 0xc3}; /* 1: mov (%rdi),%eax; je 1b; ret */
#else
    static const uint32_t code[] = {0xb9400001, 0x34ffffe1, 0xd65f03c0}; /* 1: ldr w1, [x0]; cbz w1, 1b; ret */
#endif
    struct target target;
    uint64_t map[6] = {0, 16384, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};
    uint64_t result, go = 1;
    int64_t at;
    start_target(&target, "nanosleep");
    struct ct_remote *remote = open_remote(target.pid);
    stop_remote(remote);
    assert_int_equal(ct_remote_syscall(remote, SYS_mmap, map, &at), CT_OK);
    assert_int_equal(ct_remote_write(remote, (uint64_t)at, code, sizeof code), CT_OK);
    const uint64_t word[6] = {(uint64_t)at + 4096};
    ct_remote_limit(remote, 200, NULL, NULL);
    assert_int_equal(ct_remote_call(remote, (uint64_t)at, (uint64_t)at + 16384, word, &result), CT_ERR_TIMEOUT);
    assert_true(ct_remote_is_late(remote));
    ct_remote_limit(remote, 0, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        ct_remote_resume(remote);
        stop_remote(remote);
        assert_true(use(remote, &target));
    }
    assert_int_equal(ct_remote_write(remote, word[0], &go, sizeof go), CT_OK);
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

/* A sleep is as long as it was meant to be, over many stops with calls. */
static void test_sleep_goes_on(void **state) {
    (void)state;
    int go[2];
    char byte;
    assert_int_equal(pipe(go), 0);
    int pid = fork();
    if (pid == 0) {
        struct timespec pause = {0, 300000000}, start, end;
        if (read(go[0], &byte, 1) != 1)
            _exit(3);
        clock_gettime(CLOCK_MONOTONIC, &start);
        if (nanosleep(&pause, NULL) != 0)
            _exit(1);
        clock_gettime(CLOCK_MONOTONIC, &end);
        long long ns = (end.tv_sec - start.tv_sec) * 1000000000ll + end.tv_nsec - start.tv_nsec;
        _exit(ns < 300000000 ? 2 : 0);
    }
    struct ct_remote *remote = open_remote(pid);
    assert_int_equal(write(go[1], "", 1), 1);
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < 1000 && state_of(pid) != 'Z';
         i++) { /* restarted from its beginning each time it would never end */
        int stopped = ct_remote_stop(remote, LIMIT_MS, NULL);
        if (stopped == CT_ERR_NOT_FOUND)
            break; /* it has just ended */
        assert_int_equal(stopped, CT_OK);
        assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), pid);
        ct_remote_resume(remote);
        usleep(20000);
    }
    ct_remote_close(remote);
    wait_for_state(pid, "Z");
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* ---- calls that sleep themselves, in the middle of the program's sleep ---- */

static int in_nanosleep(void) {
    struct timespec pause = {0, 300000000};
    return nanosleep(&pause, NULL);
}

static int in_futex(void) {
    static uint32_t word;
    struct timespec limit = {0, 300000000};
    return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &limit, NULL, 0) == -1 && errno == ETIMEDOUT ? 0 : -1;
}

static int in_poll(void) {
    return poll(NULL, 0, 300);
}

static char call_stack[64 << 10] __attribute__((aligned(16)));

static void check_sleep_in_sleep(int (*sleep)(void)) {
    const uint64_t arguments[6] = {1000};
    uint64_t result;
    int pid = fork(), status;
    if (pid == 0)
        _exit(sleep() != 0);
    struct ct_remote *remote = open_remote(pid);
    for (int i = 0; i < 50 && state_of(pid) != 'Z'; i++) {
        if (ct_remote_stop(remote, LIMIT_MS, NULL) != CT_OK)
            break; /* it has just ended */
        assert_int_equal(ct_remote_call(remote, (uint64_t)(uintptr_t)ct_os_sleep_us,
                                        (uint64_t)(uintptr_t)(call_stack + sizeof call_stack), arguments, &result),
                         CT_OK);
        ct_remote_resume(remote);
        sleep_ms(10);
    }
    ct_remote_close(remote);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* The program's own goes on for its rest, and does not end with EINTR. */
static void test_calls_that_sleep(void **state) {
    (void)state;
    check_sleep_in_sleep(in_nanosleep);
    check_sleep_in_sleep(in_futex);
    check_sleep_in_sleep(in_poll);
}

/* Signals that are sent while a call is under way: SIGSTOP, one of those that faults raise, any other. */
static void test_signals_between_calls(void **state) {
    (void)state;
    struct target target;
    int handled;
    start_target(&target, "spin");
    struct ct_remote *remote = open_remote(target.pid);
    stop_remote(remote);
    kill(target.pid, SIGUSR1);
    kill(target.pid, SIGSTOP);
    assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), target.pid);
    assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), target.pid);
    ct_remote_resume(remote);
    wait_for_state(target.pid, "T");
    kill(target.pid, SIGCONT);
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, &handled), 0);
    assert_int_equal(handled, 1);

    start_target(&target, "spin");
    remote = open_remote(target.pid);
    stop_remote(remote);
    kill(target.pid, SIGSEGV); /* no handler: it is to die of it, but not before it runs again */
    assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), target.pid);
    assert_true(ct_remote_is_alive(remote));
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), -SIGSEGV);
}

static void test_seccomp(void **state) {
    (void)state;
    struct target target;
    uint64_t none[6] = {UINT32_MAX};
    int64_t result = 0;
    start_target(&target, "spin");
    struct ct_remote *remote = open_remote(target.pid);
    assert_false(ct_remote_has_seccomp(remote));
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);

    start_target(&target, "seccomp");
    remote = open_remote(target.pid);
    assert_true(ct_remote_has_seccomp(remote));
    for (int i = 0; i < 5; i++) {
        stop_remote(remote);
        assert_true(ct_remote_has_seccomp(remote));
        int status = ct_remote_syscall(remote, SYS_personality, none, &result);
        if (geteuid() == 0 && status == CT_OK)
            assert_true(result >= 0); /* the filter would have said EPERM */
        else
            assert_int_equal(status, CT_ERR_PERMISSION_DENIED);
        ct_remote_resume(remote); /* the target sees that the filter is in force again */
        sleep_ms(5);
    }
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

/* Without the right to lift the filter nothing is tried. */
static void test_seccomp_without_rights(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip();
    int pid = fork();
    if (pid == 0) {
        struct target target;
        uint64_t none[6] = {UINT32_MAX};
        int64_t result;
        if (setgid(65534) != 0 || setuid(65534) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
            _exit(1);
        start_target(&target, "seccomp");
        struct ct_remote *remote = open_remote(target.pid);
        stop_remote(remote);
        int status = ct_remote_syscall(remote, SYS_personality, none, &result);
        ct_remote_close(remote);
        _exit(status == CT_ERR_PERMISSION_DENIED && end_target(&target, NULL) == 0 ? 0 : 2);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* ---- death ---- */

/* A controller that is killed before its n-th step; false: it came to its end before that. */
static bool control_and_die(const struct target *target, int n, bool alone) {
    int pid = fork(), status;
    if (pid == 0) {
        struct ct_remote *remote = NULL;
        struct ct_remote_error error = {{0}};
        die_at(n, alone);
        bool good = ct_remote_open(&remote, target->pid, &error) == CT_OK;
        good = good && ct_remote_stop(remote, LIMIT_MS, &error) == CT_OK;
        good = good && use(remote, target);
        good = good && ct_remote_resume(remote) == CT_OK;
        if (!good && steps_left > 0)
            print_error("step %d: %s\n", n, error.text);
        while (steps_left <= 0)
            pause(); /* the kill is on its way */
        _exit(!good);
    }
    waitpid(pid, &status, 0);
    wait_untraced(target->pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    assert_int_equal(status, 0);
    return false;
}

/* Nobody traces it any more, and it runs. */
static void check_runs(int pid) {
    for (int i = 0; i < 10000 && strchr("tT", state_of(pid)); i++)
        usleep(200);
    assert_non_null(strchr("RSD", state_of(pid)));
}

static void check_death_at_each_step(const char *mode, bool alone) {
    struct target target;
    int steps = 1;
    start_target(&target, mode);
    while (control_and_die(&target, steps, alone)) {
        check_runs(target.pid);
        steps++;
        usleep(steps % 4 * 300);
    }
    assert_true(steps > 60);
    assert_int_equal(end_target(&target, NULL), 0);
}

static void test_death_at_each_step(void **state) {
    (void)state;
    for (size_t m = 0; m < MODES; m++)
        check_death_at_each_step(all_modes[m], false);
}

static void test_lonely_death_at_each_step(void **state) {
    (void)state;
    for (size_t m = 0; m < MODES; m++)
        check_death_at_each_step(all_modes[m], true);
}

/* Killed after a thread has been asked to stop and before its registers have been seen: calls that end with EINTR then
 * are repeated nevertheless, since the tracer lives long enough. */
static void test_death_before_the_stop(void **state) {
    (void)state;
    static const char *const modes[] = {"epoll", "sigtimedwait", "semtimedop"};
    for (size_t m = 0; m < 3; m++) {
        struct target target;
        start_target(&target, modes[m]);
        for (int i = 0; i < 100; i++) {
            int pid = fork();
            if (pid == 0) {
                struct ct_remote *remote = NULL;
                if (ct_remote_open(&remote, target.pid, NULL) != CT_OK)
                    _exit(1);
                die_at(i % 2 + 1, true);
                ct_remote_step = NULL;
                ct_remote_waiting = count_down;
                (void)ct_remote_stop(remote, LIMIT_MS, NULL);
                pause();
            }
            usleep(2000);
            kill(pid, SIGKILL); /* a stop that needed no waiting */
            waitpid(pid, NULL, 0);
            wait_untraced(target.pid);
        }
        assert_int_equal(end_target(&target, NULL), 0);
    }
}

/* Somebody kills the tracer alone: the target runs, and we get an error. */
static void test_death_of_the_tracer(void **state) {
    (void)state;
    struct target target;
    uint64_t none[6] = {0};
    int64_t result;
    start_target(&target, "nanosleep");
    struct ct_remote *remote = open_remote(target.pid);
    stop_remote(remote);
    char path[64], line[128];
    int tracer = 0;
    snprintf(path, sizeof path, "/proc/%d/status", target.pid);
    FILE *file = fopen(path, "r");
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "TracerPid: %d", &tracer) == 1)
            break;
    fclose(file);
    assert_int_not_equal(tracer, 0);
    assert_int_not_equal(tracer, getpid());
    kill(tracer, SIGKILL);
    check_runs(target.pid);
    assert_int_equal(ct_remote_syscall(remote, SYS_getpid, none, &result), CT_ERR_SYSTEM);
    assert_int_equal(ct_remote_resume(remote), CT_OK);
    stop_remote(remote);
    assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), target.pid);
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

/* The rest of a sleep, not all of it again. On arm64 it is all of it (docs/ARM64.md): it ends when nobody stops it any
 * more. */
static void test_death_and_sleep(void **state) {
    (void)state;
#ifdef __aarch64__
    const int rounds = 24;
#else
    const int rounds = 600;
#endif
    int pid = fork();
    if (pid == 0) {
        struct timespec pause = {0, 300000000};
        _exit(nanosleep(&pause, NULL) != 0);
    }
    for (int i = 0; i < rounds && state_of(pid) != 'Z'; i++) { /* begun again each time it would never end */
        int child = fork();
        if (child == 0) {
            struct ct_remote *remote = NULL;
            uint64_t none[6] = {0};
            int64_t result;
            die_at(i % 8 + 8, i % 2); /* always on its way: once the kernel has resumed the sleep it stays resumed */
            if (ct_remote_open(&remote, pid, NULL) == CT_OK && ct_remote_stop(remote, LIMIT_MS, NULL) == CT_OK)
                (void)ct_remote_syscall(remote, SYS_getpid, none, &result);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        if (state_of(pid) != 'Z')
            wait_untraced(pid);
        usleep(20000);
    }
#ifdef __aarch64__
    wait_for_state(pid, "Z");
#endif
    assert_int_equal(state_of(pid), 'Z');
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* Signals that come meanwhile are not lost either. */
static void test_death_and_signals(void **state) {
    (void)state;
    struct target target;
    union sigval value = {0};
    int handled, sent = 0, steps = 1;
    start_target(&target, "spin");
    do {
        sent += sigqueue(target.pid, SIGRTMIN, value) == 0;
        int sender = fork();
        if (sender == 0) {
            for (int i = 0; i < 3; i++) {
                usleep(150);
                if (sigqueue(target.pid, SIGRTMIN, value) != 0)
                    _exit(1);
            }
            _exit(0);
        }
        bool died = control_and_die(&target, steps / 2 + 1, steps % 2);
        steps++;
        int status;
        waitpid(sender, &status, 0);
        assert_int_equal(status, 0);
        sent += 3;
        if (!died)
            break;
    } while (true);
    assert_true(steps > 120);
    check_runs(target.pid);
    assert_int_equal(end_target(&target, &handled), 0);
    assert_int_equal(handled, sent);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_endless_calls),
        cmocka_unit_test(test_late_return),
        cmocka_unit_test(test_sleep_goes_on),
        cmocka_unit_test(test_calls_that_sleep),
        cmocka_unit_test(test_signals_between_calls),
        cmocka_unit_test(test_seccomp),
        cmocka_unit_test(test_seccomp_without_rights),
        cmocka_unit_test(test_death_at_each_step),
        cmocka_unit_test(test_lonely_death_at_each_step),
        cmocka_unit_test(test_death_before_the_stop),
        cmocka_unit_test(test_death_of_the_tracer),
        cmocka_unit_test(test_death_and_sleep),
        cmocka_unit_test(test_death_and_signals),
    };
    const struct CMUnitTest with_a_thread[] = {
        /* as the tracer */
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_endless_calls),
        cmocka_unit_test(test_late_return),
        cmocka_unit_test(test_signals_between_calls),
        cmocka_unit_test(test_death_at_each_step),
        cmocka_unit_test(test_death_and_sleep),
    };
    if (argc < 2)
        return 2;
    target_path = argv[1];
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ct_remote_never_vfork = true;
    return failed + cmocka_run_group_tests(with_a_thread, NULL, NULL);
}
