/* SPDX-License-Identifier: Apache-2.0 */
/* Children that libc knows nothing of: one that shares the memory, and the thread's own storage, of its parent (clone
 * with CLONE_VM and neither CLONE_SETTLS nor CLONE_VFORK), and one of a raw fork by a thread without hooked calls.
 *
 * What went wrong here: parent and child used the same record of open calls at the same time; and the child of a raw
 * fork took itself for its parent, so what it recorded was lost. */
#include "harness.h"
#include "machine.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_SIZE = 256 * 1024, ROUNDS = 200, CALLS_OF_10 = 177, CALLS_OF_5 = 15 };

static volatile bool go, wrong;

static E2E_FN int fibonacci(int n) {
    int first = n < 2 ? n : fibonacci(n - 1);
    E2E_BARRIER();
    int second = n < 2 ? 0 : fibonacci(n - 2);
    E2E_BARRIER();
    return first + second;
}

static void many(void) {
    for (int i = 0; i < ROUNDS; i++)
        if (fibonacci(10) != 55)
            wrong = true;
}

static int wait_for(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* ---- the memory of two ---- */

static int sharing_child(void *arg) {
    (void)arg;
    while (!go)
        ;
    many();
    syscall(SYS_exit, 0);
    return 0;
}

/* The parent's first hooked call comes before the child's, or after it. */
static void check_sharing(char *stack, bool parent_first) {
    go = !parent_first;
    pid_t pid = clone(sharing_child, stack + STACK_SIZE, CLONE_VM | SIGCHLD, NULL);
    if (!E2E_CHECK(pid > 0))
        return;
    E2E_EQUAL(fibonacci(5), 5);
    go = true;
    many();
    E2E_EQUAL(wait_for(pid), 0);
    E2E_CHECK(!wrong);
    if (e2e_plain())
        return;
    struct e2e_summary s = e2e_summarize(0);
    E2E_EQUAL(s.calls, CALLS_OF_5 + ROUNDS * CALLS_OF_10);
    E2E_EQUAL(s.returns, s.calls);
    E2E_EQUAL(s.left + s.unpaired, 0);
    e2e_forget();
}

/* ---- a raw fork ---- */

static bool child_sees_itself(int hook) {
    if (e2e_plain())
        return fibonacci(5) == 5;
    e2e_forget();
    bool right = fibonacci(5) == 5;
    right &= E2E_EQUAL(e2e_count(-1, hook, CT_EVENT_CALL), CALLS_OF_5);
    right &= E2E_EQUAL(e2e_count(-1, hook, CT_EVENT_RETURN), CALLS_OF_5);
    return right;
}

static void *fork_raw(void *arg) {
    pid_t pid = raw_fork();
    if (pid == 0) {
        alarm(120);
        _exit(child_sees_itself(*(int *)arg) ? 0 : 1);
    }
    E2E_EQUAL(wait_for(pid), 0);
    return NULL;
}

static void *call_and_fork_raw(void *arg) {
    fibonacci(5);
    return fork_raw(arg);
}

static void check_raw_fork(void *(*body)(void *), int hook) {
    pthread_t thread;
    pthread_create(&thread, NULL, body, &hook);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    alarm(240);
    e2e_begin(argc, argv);
    int hook = E2E_RECORD(fibonacci);
    char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!E2E_CHECK(stack != MAP_FAILED))
        return e2e_end();
    for (int i = 0; i < 10; i++)
        check_sharing(stack, i % 2 == 0);
    e2e_forget();
    check_raw_fork(fork_raw, hook);
    check_raw_fork(call_and_fork_raw, hook);
    fork_raw(&hook);
    return e2e_end();
}
