/* SPDX-License-Identifier: Apache-2.0 */
/* The API used at bad moments: in the child of a fork that another thread's API call was interrupted by, by a sink,
 * for functions that the hooks themselves depend on, and destroying a set while a thread is in its sink.
 *
 * What went wrong here: the child waited for a lock whose owner it doesn't have; a sink that called the API waited for
 * itself; an aborted transaction dropped the hooks' own hook on _Fork, and a listener there never heard of the return;
 * a disabled hook on _Unwind_Backtrace made stubs visible in backtraces again; and a thread came back from a sink into
 * memory that had been freed. */
#include "harness.h"
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

static struct ct_hooks *hooks;

static E2E_FN int one(int x) {
    E2E_BARRIER();
    return x + 1;
}

static E2E_FN int two(int x) {
    E2E_BARRIER();
    return x + 2;
}

static bool create(ct_event_sink *sink) {
    return E2E_EQUAL(ct_hooks_create(&hooks, NULL), 0) &&
           (!sink || E2E_EQUAL(ct_hooks_set_sink(hooks, sink, NULL, 256), 0));
}

static void destroy(void) {
    ct_hooks_destroy(hooks);
    hooks = NULL;
}

static int wait_for(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* ---- the API in a child ---- */

static volatile bool stop;

static void *hook_and_revert(void *arg) {
    while (!stop) {
        int hook = ct_hooks_record(hooks, (void *)two);
        if (hook >= 0)
            ct_hooks_revert(hooks, hook);
    }
    return arg;
}

static int use_api(void) {
    struct ct_hooks_statistics statistics = {.size = sizeof statistics};
    alarm(100);
    ct_hooks_statistics(hooks, &statistics);
    return one(1) == 2 && two(1) == 3 && ct_hooks_flush(hooks) == 0 ? 0 : 1;
}

static void check_fork(void) {
    pthread_t thread;
    if (!create(NULL))
        return;
    E2E_CHECK(ct_hooks_record(hooks, (void *)one) >= 0);
    stop = false;
    pthread_create(&thread, NULL, hook_and_revert, NULL);
    for (int i = e2e_times(20); i > 0; i--) {
        usleep(1000);
        pid_t pid = fork();
        if (pid == 0)
            _exit(use_api());
        if (!E2E_EQUAL(wait_for(pid), 0)) /* signal 14: it hung */
            break;
    }
    stop = true;
    pthread_join(thread, NULL);
    destroy();
}

/* ---- the API in a sink ---- */

static volatile int sink_calls;

static void calling_sink(void *arg, int tid, const struct ct_event *events, size_t count) {
    struct ct_hooks_statistics statistics = {.size = sizeof statistics};
    (void)arg, (void)tid, (void)events, (void)count;
    sink_calls++;
    ct_hooks_statistics(hooks, &statistics); /* no status to return: it must come back */
    E2E_EQUAL(ct_hooks_flush(hooks), CT_ERR_BAD_STATE);
    E2E_EQUAL(ct_hooks_record(hooks, (void *)two), CT_ERR_BAD_STATE);
    E2E_EQUAL(ct_hooks_begin(hooks), CT_ERR_BAD_STATE);
    E2E_EQUAL(ct_hooks_revert(hooks, 0), CT_ERR_BAD_STATE);
}

static void check_sink(void) {
    if (!create(calling_sink))
        return;
    E2E_CHECK(ct_hooks_record(hooks, (void *)one) >= 0);
    one(1);
    E2E_EQUAL(ct_hooks_flush(hooks), 0); /* by flush */
    E2E_CHECK(sink_calls > 0);
    int before = sink_calls;
    for (int i = 0; i < 1000; i++) /* by a full buffer */
        one(i);
    E2E_CHECK(sink_calls > before);
    E2E_CHECK(ct_hooks_record(hooks, (void *)two) >= 0);
    destroy();
}

/* ---- functions the hooks depend on ---- */

static int calls, returns;
static size_t events_seen;

static void count_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu, (void)call;
    calls++;
}

static void count_return(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu, (void)call;
    returns++;
}

static void counting_sink(void *arg, int tid, const struct ct_event *events, size_t count) {
    (void)arg, (void)tid, (void)events;
    events_seen += count;
}

static void fork_once(int expected) {
    calls = returns = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(one(1) == 2 ? 0 : 1);
    E2E_EQUAL(wait_for(pid), 0);
    E2E_EQUAL(calls, expected);
    E2E_EQUAL(returns, expected);
}

static void check_watched(void) {
    struct ct_hook_listener listener = {.size = sizeof listener, .on_call = count_call, .on_return = count_return};
    void *function = dlsym(RTLD_DEFAULT, "_Fork");
    if (!function || !create(counting_sink))
        return; /* an older C library */
    int hook = ct_hooks_attach(hooks, function, &listener, NULL);
    E2E_CHECK(ct_hooks_attach(hooks, (void *)one, &listener, NULL) >= 0);
    if (E2E_CHECK(hook >= 0)) {
        fork_once(1);
        E2E_EQUAL(ct_hooks_begin(hooks), 0);
        E2E_EQUAL(ct_hooks_revert(hooks, hook), 0);
        ct_hooks_abort(hooks);
        fork_once(1);
        E2E_EQUAL(ct_hooks_revert(hooks, hook), 0);
        fork_once(0);
        hook = ct_hooks_attach(hooks, function, &listener, NULL);
        E2E_CHECK(hook >= 0);
        fork_once(1);
    }
    E2E_EQUAL(ct_hooks_flush(hooks), 0);
    E2E_EQUAL(events_seen, 0); /* nothing was recorded */
    destroy();
}

static E2E_FN int frames(int depth) {
    void *addresses[64];
    int count = depth ? frames(depth - 1) : backtrace(addresses, 64);
    E2E_BARRIER();
    return count;
}

static void check_backtrace(void) {
    int plain = frames(10);
    if (!create(NULL))
        return;
    E2E_CHECK(ct_hooks_record(hooks, (void *)frames) >= 0);
    E2E_EQUAL(frames(10), plain);
    int hook = ct_hooks_record(hooks, (void *)_Unwind_Backtrace);
    if (E2E_CHECK(hook >= 0)) {
        E2E_EQUAL(frames(10), plain);
        E2E_EQUAL(ct_hooks_disable(hooks, hook), 0);
        E2E_EQUAL(frames(10), plain);
        E2E_EQUAL(ct_hooks_enable(hooks, hook), 0);
        E2E_EQUAL(frames(10), plain);
        E2E_EQUAL(ct_hooks_revert(hooks, hook), 0);
        E2E_EQUAL(frames(10), plain);
    }
    destroy();
}

/* ---- the end of a set, with a thread in its sink ---- */

/* Recorded on entry only, since it looks at its return address. */
static E2E_FN void *reads_return(void) {
    return __builtin_return_address(0);
}

static volatile bool in_sink, destroyed;

/* Stays for long enough that the set is destroyed meanwhile, or destroy waits: both are right. */
static void slow_sink(void *arg, int tid, const struct ct_event *events, size_t count) {
    (void)arg, (void)tid, (void)events, (void)count;
    in_sink = true;
    for (int i = 0; i < 100 && !destroyed; i++)
        usleep(1000);
    usleep(1000);
}

static void *call_until_in_sink(void *arg) {
    while (!in_sink)
        for (int i = 0; i < 100; i++)
            if (arg)
                reads_return();
            else
                one(i);
    for (int i = 0; i < 100; i++)
        one(i);
    return (void *)call_until_in_sink;
}

static void check_destroy(void *entry_only) {
    pthread_t thread;
    void *result = NULL;
    in_sink = destroyed = false;
    if (!create(slow_sink))
        return;
    E2E_CHECK(ct_hooks_record(hooks, (void *)one) >= 0);
    E2E_CHECK(ct_hooks_record(hooks, (void *)reads_return) >= 0);
    pthread_create(&thread, NULL, call_until_in_sink, entry_only);
    while (!in_sink)
        usleep(100);
    destroy();
    destroyed = true;
    pthread_join(thread, &result);
    E2E_CHECK(result == (void *)call_until_in_sink);
}

/* ---- the end of a set, with threads that find out where their stack is ---- */

/* Each thread's first longjmp does so, on a stack of the hooks' own: where it will go on in them is on the other
 * one only. */
static void *jump_once(void *arg) {
    jmp_buf place;
    if (!setjmp(place))
        longjmp(place, 1);
    return arg;
}

static void *jump_on_and_on(void *arg) {
    while (!stop) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, jump_once, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return arg;
}

static void check_destroy_meanwhile(void) {
    pthread_t threads[2];
    stop = false;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, jump_on_and_on, NULL);
    for (int i = e2e_times(20); i > 0; i--) {
        if (!create(NULL))
            break;
        E2E_CHECK(ct_hooks_record(hooks, (void *)one) >= 0);
        usleep(1000);
        destroy();
    }
    stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* ---- all of them ---- */

static int run(const char *only) {
    if (!*only || !strcmp(only, "fork"))
        check_fork();
    if (!*only || !strcmp(only, "sink"))
        check_sink();
    if (!*only || !strcmp(only, "watched"))
        check_watched();
    if (!*only || !strcmp(only, "backtrace"))
        check_backtrace();
    if (!*only || !strcmp(only, "destroy")) {
        check_destroy((void *)reads_return);
        check_destroy(NULL);
        check_destroy_meanwhile();
    }
    return e2e_end();
}

static pid_t child;

static void end_child(int number) {
    (void)number;
    kill(child, SIGKILL);
}

/* In a child: sinks run with signals blocked, so one that hangs cannot be ended by its own alarm. */
int main(int argc, char **argv) {
    child = fork();
    if (child == 0)
        return run(argc > 1 ? argv[1] : "");
    signal(SIGALRM, end_child);
    alarm(120);
    int status = wait_for(child);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    fprintf(stderr, "ended by signal %d (9: it hung)\n", WTERMSIG(status));
    return 1;
}
