/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping the threads of one's own process: that all of them stop, and how it fails. */
#include "stop_util.h"

/* ---- busy threads stop ---- */

static void check_still(int n, int cycles) {
    static uint64_t before[MAX_THREADS];
    uint64_t moved = 0;
    start_spinners(n);
    for (int cycle = 0; cycle < cycles; cycle++) {
        struct ct_os_stopped *s = stop();
        size_t count = ct_os_stopped_count(s);
        for (int i = 0; i < n; i++)
            before[i] = spinners[i].count;
        for (volatile int wait = 0; wait < 20000; wait++)
            ;
        for (int i = 0; i < n; i++)
            moved += before[i] != spinners[i].count;
        ct_os_resume_threads(s);
        assert_int_equal(count, n);
    }
    assert_int_equal(moved, 0);
    check_runs_on(n);
    end_spinners(n);
}

static void test_busy_threads_stand_still(void **state) {
    (void)state;
    check_still(0, times(20));
    check_still(1, times(200));
    check_still(8, times(200));
    check_still(64, times(40));
}

static void test_a_long_stop(void **state) {
    (void)state;
    start_spinners(3);
    struct ct_os_stopped *s = stop();
    struct ct_registers regs;
    uint64_t before = spinners[0].count + spinners[1].count + spinners[2].count;
    struct timespec time = {0, 300000000}; /* several of the helper's own time slices */
    syscall(SYS_nanosleep, &time, NULL);
    uint64_t after = spinners[0].count + spinners[1].count + spinners[2].count;
    int status = ct_os_stopped_get_regs(s, 0, &regs);
    ct_os_resume_threads(s);
    assert_int_equal(before, after);
    assert_int_equal(status, CT_OK);
    check_runs_on(3);
    end_spinners(3);
}

/* ---- threads come and go ---- */

static volatile uint64_t births, steps;

static void *short_life(void *arg) {
    for (int i = 0; i < 200000; i++)
        steps++; /* races with the others: all that counts is that it changes */
    return arg;
}

static void *breed(void *arg) {
    while (!finish) {
        pthread_t children[8];
        for (int i = 0; i < 8; i++)
            start_thread(&children[i], short_life, arg);
        for (int i = 0; i < 8; i++)
            pthread_join(children[i], NULL);
        births++;
    }
    return NULL;
}

static void test_threads_come_and_go(void **state) {
    (void)state;
    pthread_t breeders[4];
    finish = 0;
    births = 0;
    for (int i = 0; i < 4; i++)
        start_thread(&breeders[i], breed, NULL);
    for (int i = 0; i < times(300) || births < (uint64_t)times(50); i++) {
        struct ct_os_stopped *s = stop();
        size_t count = ct_os_stopped_count(s);
        uint64_t before = births + steps;
        for (volatile int wait = 0; wait < 20000; wait++)
            ;
        uint64_t after = births + steps;
        ct_os_resume_threads(s);
        assert_true(count >= 4);
        assert_int_equal(before, after);
    }
    finish = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(breeders[i], NULL);
}

/* The main thread of a process may end before the others, also in the middle of a stop. */
static void *outlive(void *arg) {
    (void)arg;
    for (int alone = 0; alone < 10;) {
        struct ct_os_stopped *s = NULL;
        if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
            _exit(1);
        size_t count = ct_os_stopped_count(s);
        ct_os_resume_threads(s);
        if (count != 1 && (count != 2 || alone))
            _exit(2);
        alone += count == 1;
    }
    _exit(0);
}

static int end_main_thread(void) {
    pthread_t thread;
    start_spinners(1);
    start_thread(&thread, outlive, NULL);
    usleep(500);
    syscall(SYS_exit, 0);
    return 3;
}

static void test_dead_main_thread(void **state) {
    (void)state;
    for (int i = 0; i < times(20); i++)
        assert_int_equal(in_child(end_main_thread), 0);
}

/* Kernel threads that work for the process are in its thread group too. They never execute its code: nobody stops
 * them. */
static void check_worker(int stops) {
    struct io_uring_params parameters = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 100000};
    int fd = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (fd < 0)
        skip();
    for (int i = 0; i < stops; i++) {
        struct ct_os_stopped *s = stop();
        size_t count = ct_os_stopped_count(s);
        ct_os_resume_threads(s);
        assert_int_equal(count, 0);
    }
    close(fd);
}

static void test_io_uring_worker(void **state) {
    (void)state;
    check_worker(20);
    for (int i = 0; i < 50; i++)
        check_worker(1); /* a young one has no name of its own yet */
}

static volatile int wins;

static void *compete(void *arg) {
    (void)arg;
    for (int i = 0; i < 100; i++) {
        struct ct_os_stopped *s = NULL;
        int status = ct_os_stop_threads_within(&s, LIMIT_MS);
        check(status == CT_OK);
        if (status != CT_OK)
            continue;
        uint64_t before = (uint64_t)wins;
        for (volatile int wait = 0; wait < 2000; wait++)
            ;
        int same = before == (uint64_t)wins;
        wins++;
        ct_os_resume_threads(s);
        check(same);
    }
    return NULL;
}

/* Each waits for the others, and gets its turn. */
static void test_one_stop_at_a_time(void **state) {
    (void)state;
    pthread_t threads[3];
    wins = errors = 0;
    for (int i = 0; i < 3; i++)
        start_thread(&threads[i], compete, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wins, 300);
    assert_int_equal(errors, 0);
}

/* One that does not give the turn back is waited for so long, and no longer. */
static void test_turn_is_not_waited_for_ever(void **state) {
    (void)state;
    struct ct_os_stopped *s = stop(), *other = NULL;
    int status = ct_os_stop_threads_within(&other, 20);
    ct_os_resume_threads(s);
    assert_int_equal(status, CT_ERR_BUSY);
}

/* ---- what the program could see ---- */

static void test_no_trace_left(void **state) {
    (void)state;
    start_spinners(2);
    for (int dumpable = 0; dumpable <= 1; dumpable++) {
        prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0);
        struct ct_os_stopped *s = stop();
        int during = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
        ct_os_resume_threads(s);
        assert_int_equal(during, dumpable);
        assert_int_equal(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), dumpable);
        errno = 0;
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
        assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
        assert_int_equal(errno, ECHILD);
    }
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int i = 1; i < 32; i++)
        assert_int_equal(sigismember(&mask, i), 0);
    end_spinners(2);
}

static void *open_and_close(void *arg) {
    int first = open("/dev/null", O_RDONLY);
    close(first);
    while (!finish) {
        int fd = open("/dev/null", O_RDONLY);
        check(fd == first);
        close(fd);
    }
    return arg;
}

/* Neither takes the helper a descriptor number, nor (seen as a missing end of file) does it hold any open. */
static void test_descriptors_are_left_alone(void **state) {
    (void)state;
    pthread_t thread;
    int fds[2];
    char byte;
    finish = errors = 0;
    struct ct_os_stopped *s = stop();
    long opened = pipe(fds);
    close(fds[1]);
    long end = read(fds[0], &byte, 1);
    close(fds[0]);
    ct_os_resume_threads(s);
    assert_int_equal(opened, 0);
    assert_int_equal(end, 0);
    start_thread(&thread, open_and_close, NULL);
    for (int i = 0; i < 200; i++) {
        s = stop();
        ct_os_resume_threads(s);
    }
    finish = 1;
    pthread_join(thread, NULL);
    assert_int_equal(errors, 0);
}

static int as_nobody(void) {
    bool changes = getuid() != 65534;
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 77;
    if (!changes)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);      /* as a change of the user does */
    if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1) /* changing the user has made it 0 or 2 */
        return 1;
    start_spinners(3);
    for (int i = 0; i < 20; i++) {
        struct ct_os_stopped *s = NULL;
        if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
            return 2;
        if (ct_os_stopped_count(s) != 3)
            return 3;
        ct_os_resume_threads(s);
    }
    end_spinners(3);
    return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : 4;
}

static void test_without_privileges(void **state) {
    (void)state;
    int result = in_child(as_nobody);
    if (result == 77)
        skip();
    assert_int_equal(result, 0);
}

/* ---- failures ---- */

static int go_fds[2], done_fds[2];

/* A process that traces one of our threads until it is asked to end. */
static pid_t start_tracer(int tid) {
    char byte = 0;
    assert_int_equal(pipe(go_fds), 0);
    assert_int_equal(pipe(done_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(go_fds[1]);
        byte = ptrace(PTRACE_SEIZE, tid, 0, 0) == 0;
        if (write(done_fds[1], &byte, 1) == 1)
            (void)!read(go_fds[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(read(done_fds[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    return pid;
}

static void end_tracer(pid_t pid) {
    for (int i = 0; i < 2; i++) {
        close(go_fds[i]);
        close(done_fds[i]);
    }
    waitpid(pid, NULL, 0);
}

static void test_busy_when_traced(void **state) {
    (void)state;
    struct ct_os_stopped *s = NULL;
    start_spinners(3);
    pid_t tracer = start_tracer(gettid_now());
    assert_int_equal(ct_os_stop_threads(&s), CT_ERR_BUSY);
    check_runs_on(3);
    end_tracer(tracer);
    tracer = start_tracer(spinners[1].tid);
    assert_int_equal(ct_os_stop_threads(&s), CT_ERR_BUSY);
    check_runs_on(3);
    end_tracer(tracer);
    s = stop();
    ct_os_resume_threads(s);
    end_spinners(3);
}

static volatile pid_t vfork_child;

/* Uninterruptible until the child ends, which it does when the pipe is closed. */
static void *sleep_in_vfork(void *arg) {
    waiter_tid = gettid_now();
    pid_t pid = vfork();
    if (pid == 0) {
        char byte;
        vfork_child = (pid_t)syscall(SYS_getpid);
        syscall(SYS_close, go_fds[1]);
        syscall(SYS_read, go_fds[0], &byte, 1);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    return arg;
}

static pthread_t start_vfork(void) {
    pthread_t thread;
    assert_int_equal(pipe(go_fds), 0);
    vfork_child = 0;
    start_thread(&thread, sleep_in_vfork, NULL);
    while (!vfork_child)
        usleep(100);
    return thread;
}

static void end_vfork(pthread_t thread) {
    close(go_fds[1]);
    pthread_join(thread, NULL);
    close(go_fds[0]);
}

static void test_timeout_undoes_everything(void **state) {
    (void)state;
    struct ct_os_stopped *s = NULL;
    start_spinners(3);
    pthread_t thread = start_vfork();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ct_os_stop_threads_within(&s, 50), CT_ERR_TIMEOUT);
        check_runs_on(3);
    }
    end_vfork(thread);
    s = stop();
    ct_os_resume_threads(s);
    check_runs_on(3);
    end_spinners(3);
}

/* A child of `parent` that is not one of `but`; 0: none. */
static pid_t find_child(pid_t parent, pid_t but) {
    DIR *directory = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;
    while (!found && (entry = readdir(directory))) {
        char path[300], line[256];
        int pid = atoi(entry->d_name), owner = 0;
        snprintf(path, sizeof path, "/proc/%s/status", entry->d_name);
        FILE *file = pid > 0 && pid != but ? fopen(path, "r") : NULL;
        while (file && fgets(line, sizeof line, file))
            sscanf(line, "PPid: %d", &owner);
        if (file)
            fclose(file);
        if (owner == parent && pid != getpid())
            found = pid;
    }
    closedir(directory);
    return found;
}

static void test_helper_killed_while_stopped(void **state) {
    (void)state;
    start_spinners(3);
    for (int i = 0; i < 5; i++) {
        struct ct_registers regs;
        struct ct_os_stopped *s = stop();
        int fds[2];
        (void)!pipe(fds);
        pid_t parent = getpid();
        pid_t killer = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* libc's fork may wait for a lock */
        if (killer == 0) {
            pid_t helper = find_child(parent, getpid());
            syscall(SYS_exit_group, helper > 0 && kill(helper, SIGKILL) == 0 ? 0 : 1);
        }
        int status = -1, result;
        while (syscall(SYS_wait4, killer, &status, 0, NULL) != killer)
            ;
        do
            result = ct_os_stopped_get_regs(s, 0, &regs);
        while (result == CT_OK);
        ct_os_resume_threads(s);
        assert_int_equal(status, 0);
        assert_int_equal(result, CT_ERR_SYSTEM);
        check_runs_on(3);
        close(fds[0]);
        close(fds[1]);
    }
    end_spinners(3);
}

static void test_helper_killed_while_stopping(void **state) {
    (void)state;
    struct ct_os_stopped *s = NULL;
    start_spinners(3);
    pthread_t thread = start_vfork(); /* keeps the stop from being complete */
    fflush(NULL);
    pid_t parent = getpid(), other = vfork_child, killer = fork();
    if (killer == 0) {
        pid_t helper;
        while ((helper = find_child(parent, other)) == 0 || helper == getpid())
            ;
        _exit(kill(helper, SIGKILL));
    }
    assert_int_equal(ct_os_stop_threads_within(&s, LIMIT_MS), CT_ERR_SYSTEM);
    int status;
    waitpid(killer, &status, 0);
    assert_int_equal(status, 0);
    check_runs_on(3);
    end_vfork(thread);
    end_spinners(3);
}

/* exec and exit of a stopped process by its own caller, and death by a signal, leave nothing behind. */
static int die_while_stopped(void) {
    struct ct_os_stopped *s = NULL;
    start_spinners(2);
    if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
        return 1;
    syscall(SYS_kill, getpid(), SIGKILL);
    return 2;
}

static int exit_while_stopped(void) {
    struct ct_os_stopped *s = NULL;
    start_spinners(2);
    if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
        return 1;
    syscall(SYS_exit_group, 5);
    return 2;
}

static int exec_while_stopped(void) {
    struct ct_os_stopped *s = NULL;
    start_spinners(2);
    if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
        return 1;
    execl("/bin/sh", "sh", "-c", "exit 6", NULL);
    return 2;
}

static void test_end_of_the_process(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(in_child(die_while_stopped), -SIGKILL);
        assert_int_equal(in_child(exit_while_stopped), 5);
        assert_int_equal(in_child(exec_while_stopped), 6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy_threads_stand_still),
        cmocka_unit_test(test_a_long_stop),
        cmocka_unit_test(test_threads_come_and_go),
        cmocka_unit_test(test_dead_main_thread),
        cmocka_unit_test(test_io_uring_worker),
        cmocka_unit_test(test_one_stop_at_a_time),
        cmocka_unit_test(test_turn_is_not_waited_for_ever),
        cmocka_unit_test(test_no_trace_left),
        cmocka_unit_test(test_descriptors_are_left_alone),
        cmocka_unit_test(test_without_privileges),
        cmocka_unit_test(test_busy_when_traced),
        cmocka_unit_test(test_timeout_undoes_everything),
        cmocka_unit_test(test_helper_killed_while_stopped),
        cmocka_unit_test(test_helper_killed_while_stopping),
        cmocka_unit_test(test_end_of_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
