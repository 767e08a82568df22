/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes count when shared memory names them: those that have the recording's memory in its place, and no
 * others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "session/confirm.h"
#include <contrail/status.h>

static struct ct_recording r;
static int older; /* a process from before the recording */
static int ready[2];

/* ---- processes ---- */

static int say_ready(void) {
    return write(ready[1], "+", 1) == 1;
}

static void wait_ready(void) {
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
}

static void stay(void) {
    (void)say_ready();
    for (;;)
        pause();
}

/* A child that does `what`, and then waits to be killed. */
static int make(void (*what)(void)) {
    int pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (what)
            what();
        stay();
    }
    wait_ready();
    return pid;
}

static void end(int pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static int child_status(int pid) {
    struct ct_confirmed c;
    int status = ct_confirm_child(&r, pid, &c);
    assert_true(status || (c.pid == pid && c.tid == pid));
    assert_int_equal(c.pidfd >= 0, !status);
    if (!status)
        close(c.pidfd);
    return status;
}

/* ---- the recording: of this process ---- */

static int begin(void **state) {
    (void)state;
    assert_int_equal(pipe(ready), 0);
    older = make(NULL);
    usleep(30000); /* more than a tick of the kernel's clock */
    int fd = memfd_create("contrail", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ct_lane_create(&r.lane, fd, &(struct ct_lane_options){.index_memory = 1 << 20}), 0);
    r.pid = r.drain.inner_pid = getpid();
    r.injection.lane = &r.lane;
    r.injection.shm_size = r.lane.size + r.lane.window;
    void *at = mmap(NULL, r.injection.shm_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    r.injection.shm = (uint64_t)at;
    void *view = (void *)ct_inject_lane_at(&r.injection);
    assert_ptr_equal(mmap(view, r.lane.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), view);
    assert_int_equal(ct_lane_seal(&r.lane), 0);
    ct_clock_start(&r.clock);
    usleep(30000);
    return 0;
}

static int finish(void **state) {
    (void)state;
    end(older);
    munmap((void *)r.injection.shm, r.injection.shm_size);
    ct_lane_destroy(&r.lane);
    return 0;
}

/* ---- children ---- */

static void test_child(void **state) {
    (void)state;
    int pid = make(NULL);
    assert_int_equal(child_status(pid), 0);
    assert_true(ct_confirm_has_other(&r));
    end(pid);
    assert_int_equal(child_status(pid), CT_ERR_NOT_FOUND);
    assert_false(ct_confirm_has_other(&r));
}

static void fill_memory(void) {
    size_t size = 256u << 20;
    uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; at != MAP_FAILED && i < size; i += 4096)
        at[i] = 1;
}

/* A killed process has no memory for a while before it is a zombie. It is a child of ours all that time. */
static void test_killed(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        int status, pid = make(fill_memory);
        kill(pid, SIGKILL);
        for (time_t limit = time(NULL) + 60; !(status = child_status(pid));)
            if (time(NULL) > limit)
                fail_msg("the killed process %d still has its memory after a minute", pid);
        assert_int_equal(status, CT_ERR_NOT_FOUND);
        waitpid(pid, NULL, 0);
    }
}

static void unmap(void) {
    munmap((void *)ct_inject_lane_at(&r.injection), r.lane.size);
}

/* The recorder's own processes (one that traces) have the memory too, in the recorder's place: nobody waits for a
 * request of theirs when the recorded process ends. */
static void test_own_process(void **state) {
    (void)state;
    int pid = make(unmap);
    assert_false(ct_confirm_has_other(&r));
    end(pid);
}

static void map_for_reading(void) {
    void *at = (void *)ct_inject_lane_at(&r.injection);
    (void)mmap(at, r.lane.size, PROT_READ, MAP_SHARED | MAP_FIXED, r.lane.fd, 0);
}

static void map_other_memory(void) {
    int fd = memfd_create("contrail", 0);
    void *at = (void *)ct_inject_lane_at(&r.injection);
    (void)!ftruncate(fd, (off_t)r.lane.size);
    (void)mmap(at, r.lane.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
}

static void execute(void) {
    (void)say_ready();
    execl("/bin/sleep", "sleep", "1000", (char *)NULL);
    _exit(1);
}

/* The memory is sealed: a process without it cannot get it for writing any more. */
static void map_again(void) {
    unmap();
    void *at = (void *)ct_inject_lane_at(&r.injection);
    void *got = mmap(at, r.lane.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, r.lane.fd, 0);
    if (got != MAP_FAILED)
        _exit(1);
}

static void test_strangers(void **state) {
    (void)state;
    void (*const ways[])(void) = {unmap, map_for_reading, map_other_memory, map_again};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int pid = make(ways[i]);
        assert_int_equal(child_status(pid), CT_ERR_PERMISSION_DENIED);
        end(pid);
    }
    assert_int_equal(child_status(older), CT_ERR_PERMISSION_DENIED);
    assert_int_equal(child_status(getpid()), CT_ERR_PERMISSION_DENIED); /* the recorded process itself */
    assert_int_equal(child_status(1), CT_ERR_PERMISSION_DENIED);
    assert_int_equal(child_status(0), CT_ERR_NOT_FOUND);
    assert_int_equal(child_status(-1), CT_ERR_NOT_FOUND);
    assert_int_equal(child_status(INT32_MIN), CT_ERR_NOT_FOUND);
    assert_int_equal(child_status(INT32_MAX), CT_ERR_NOT_FOUND);
}

/* What was confirmed before it executed something is not confirmed afterwards. */
static void test_executes(void **state) {
    (void)state;
    int pid = make(execute);
    for (int i = 0; i < 2000 && ct_confirm_maps(&r, pid); i++)
        usleep(5000);
    assert_false(ct_confirm_maps(&r, pid));
    assert_int_equal(child_status(pid), CT_ERR_PERMISSION_DENIED);
    end(pid);
}

/* Its parent has ended: the process that adopted it is an ancestor of the recorded process. */
static void test_orphan(void **state) {
    (void)state;
    int numbers[2], pid = 0;
    assert_int_equal(pipe(numbers), 0);
    int between = fork();
    if (between == 0) {
        int orphan = fork();
        if (orphan == 0)
            stay();
        (void)!write(numbers[1], &orphan, sizeof orphan);
        _exit(0);
    }
    assert_int_equal(read(numbers[0], &pid, sizeof pid), sizeof pid);
    waitpid(between, NULL, 0);
    wait_ready();
    assert_int_equal(child_status(pid), 0);
    kill(pid, SIGKILL);
    close(numbers[0]);
    close(numbers[1]);
}

static void test_held(void **state) {
    (void)state;
    struct ct_confirmed c;
    int pid = make(NULL);
    assert_int_equal(ct_confirm_child(&r, pid, &c), 0);
    assert_true(ct_confirm_holds(&c));
    end(pid);
    assert_false(ct_confirm_holds(&c));
    close(c.pidfd);
}

/* ---- processes that execute a program ---- */

static int executing_status(int pid, int tid) {
    struct ct_confirmed c;
    int status = ct_confirm_executing(&r, pid, tid, &c);
    assert_true(status || (c.pid == pid && c.tid == tid));
    if (!status)
        close(c.pidfd);
    return status;
}

static void *tell_number(void *arg) {
    *(int *)arg = (int)syscall(SYS_gettid);
    stay();
    return NULL;
}

static void test_executing(void **state) {
    (void)state;
    pthread_t thread;
    int tid = 0, pid = make(NULL);
    assert_int_equal(pthread_create(&thread, NULL, tell_number, &tid), 0);
    wait_ready();
    assert_int_equal(executing_status(getpid(), getpid()), 0);
    assert_int_equal(executing_status(getpid(), tid), 0);
    assert_int_equal(executing_status(pid, pid), 0);
    assert_int_equal(executing_status(pid, tid), CT_ERR_PERMISSION_DENIED); /* a thread of another process */
    assert_int_equal(executing_status(getpid(), pid), CT_ERR_PERMISSION_DENIED);
    assert_int_equal(executing_status(older, older), CT_ERR_PERMISSION_DENIED);
    assert_int_equal(executing_status(1, 1), CT_ERR_PERMISSION_DENIED);
    assert_int_equal(executing_status(getpid(), 0), CT_ERR_PERMISSION_DENIED);
    end(pid);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_process), cmocka_unit_test(test_child),  cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_executes),    cmocka_unit_test(test_orphan), cmocka_unit_test(test_held),
        cmocka_unit_test(test_executing),   cmocka_unit_test(test_killed),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
