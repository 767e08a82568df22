/* SPDX-License-Identifier: Apache-2.0 */
/* fork in hooked functions: the child returns through the frames it inherited and goes on calling hooked functions;
 * the parent's events are what they would be without the child.
 *
 * An engine can go wrong here by a child that writes into its parent's buffers or delivers the parent's events again,
 * and by return addresses that only the parent has. */
#include "harness.h"
#include "machine.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static E2E_FN int leaf(int x) {
    E2E_BARRIER();
    return x + 1;
}

static E2E_FN pid_t forker(void) {
    leaf(0);
    pid_t pid = fork();
    leaf(pid == 0);
    E2E_BARRIER();
    return pid;
}

static E2E_FN pid_t raw_forker(void) {
    pid_t pid = raw_fork();
    leaf(pid == 0);
    E2E_BARRIER();
    return pid;
}

static E2E_FN pid_t nested(int depth, bool raw) {
    pid_t pid = depth ? nested(depth - 1, raw) : raw ? raw_forker() : forker();
    E2E_BARRIER();
    return pid;
}

static E2E_FN int work(int x) {
    int y = leaf(x);
    E2E_BARRIER();
    return leaf(y);
}

static void *thread_main(void *arg) {
    int *failed = arg;
    for (int i = 0; i < 1000; i++)
        *failed |= work(i) != i + 2;
    return NULL;
}

/* The child lives on for a while: alone, with a thread, and as a parent itself. */
static int child_life(void) {
    int failed = 0;
    pthread_t thread;
    for (int i = 0; i < 10000; i++)
        failed |= work(i) != i + 2;
    if (pthread_create(&thread, NULL, thread_main, &failed) == 0)
        pthread_join(thread, NULL);
    pid_t grandchild = nested(2, false);
    if (grandchild == 0)
        _exit(work(1) == 3 ? 0 : 1);
    int status = 0;
    failed |= waitpid(grandchild, &status, 0) != grandchild || status != 0;
    if (!e2e_plain()) { /* the child may flush and change its hooks */
        struct e2e_summary s = e2e_summarize(0);
        failed |= s.unpaired > 8; /* returns of inherited frames: at most those */
        failed |= ct_hooks_flush(e2e_hooks) != 0;
        int hook = ct_hooks_record(e2e_hooks, (void *)child_life);
        failed |= hook < 0 || ct_hooks_revert(e2e_hooks, hook) != 0;
    }
    return failed;
}

static void run(bool raw, const char *tree) {
    pid_t pid = nested(3, raw);
    if (pid == 0) {
        int failed = raw ? work(1) != 3 : child_life();
        _exit(failed || !e2e_passed());
    }
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    E2E_EQUAL(status, 0);
    E2E_EXPECT(tree);
}

/* Many forks while other threads record: no child may hang on a lock that a thread held at that moment. The threads
 * work while the parent forks, and have an end for each fork: traces are read event by event. */
enum { FORKS = 30, THREADS = 3, WORK_PER_FORK = 1000 };
static atomic_int forks;

static struct busy {
    int failed;
    atomic_int worked; /* since the start */
} busy[THREADS];

static void *busy_main(void *arg) {
    struct busy *own = arg;
    for (int now = 0; now >= 0; now = atomic_load(&forks)) {
        if (atomic_load(&own->worked) >= now * WORK_PER_FORK) {
            usleep(100);
            continue;
        }
        own->failed |= work(1) != 3;
        atomic_fetch_add(&own->worked, 1);
    }
    return NULL;
}

/* Until all threads are at work for this fork. */
static void begin_work(int number) {
    atomic_store(&forks, number + 1);
    for (int i = 0; i < THREADS; i++)
        while (atomic_load(&busy[i].worked) <= number * WORK_PER_FORK)
            sched_yield();
}

static void check_forks_under_load(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, busy_main, &busy[i]);
    for (int i = 0; i < FORKS; i++) {
        begin_work(i);
        pid_t pid = forker();
        if (pid == 0) {
            alarm(120);
            int bad = 0;
            for (int k = 0; k < 3000; k++)
                bad |= work(k) != k + 2;
            _exit(bad);
        }
        int status = -1;
        waitpid(pid, &status, 0);
        E2E_EQUAL(status, 0);
    }
    atomic_store(&forks, -1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        E2E_EQUAL(busy[i].failed, 0);
    }
    E2E_EXPECT("forker(leaf()*2)*30");
    if (e2e_plain())
        return;
    struct e2e_summary s = e2e_summarize(-1);
    E2E_EQUAL(s.calls, s.returns);
    E2E_EQUAL(s.left + s.open + s.unpaired, 0);
    e2e_forget();
}

int main(int argc, char **argv) {
    e2e_begin_with(argc, argv, NULL, 1024);
    E2E_RECORD(leaf);
    E2E_RECORD(forker);
    E2E_RECORD(raw_forker);
    E2E_RECORD(nested);
    E2E_RECORD(work);
    run(false, "nested(nested(nested(nested(forker(leaf()*2)))))");
    run(true, "nested(nested(nested(nested(raw_forker(leaf())))))");
    run(false, "nested(nested(nested(nested(forker(leaf()*2)))))");
    check_forks_under_load();
    return e2e_end();
}
