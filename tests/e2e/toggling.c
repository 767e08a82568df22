/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks that come and go while four threads call the functions: disabled and enabled, reverted and attached again,
 * whole sets destroyed with threads inside.
 *
 * An engine can go wrong here by a thread that is in bytes that change, by a stub that goes away under a thread
 * that will still return through it, and by a return whose call was recorded by a hook that is no more. */
#include "harness.h"
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

static E2E_FN int leaf(int x) {
    E2E_BARRIER();
    return x + 1;
}

static E2E_FN int work(int x) {
    int y = leaf(x);
    y = leaf(y);
    E2E_BARRIER();
    return y;
}

static E2E_FN int dive(int depth) {
    int below = depth ? dive(depth - 1) : 0;
    E2E_BARRIER();
    return below + 1;
}

static volatile bool stop;

static void *caller_main(void *arg) {
    long *count = arg;
    while (!stop) {
        int x = (int)(*count & 0xffff);
        if (work(x) != x + 2 || dive(10) != 11)
            e2e_fail(__FILE__, __LINE__, "wrong result");
        if (__atomic_add_fetch(count, 1, __ATOMIC_RELAXED) > 100000)
            usleep(100); /* the log has an end, however long it takes to change hooks */
    }
    return NULL;
}

static pthread_t callers[4];
static long rounds[4];

static void start_callers(void) {
    stop = false;
    memset(rounds, 0, sizeof rounds);
    for (int i = 0; i < 4; i++)
        pthread_create(&callers[i], NULL, caller_main, &rounds[i]);
}

static long all_rounds(void) {
    long sum = 0;
    for (int i = 0; i < 4; i++)
        sum += __atomic_load_n(&rounds[i], __ATOMIC_RELAXED);
    return sum;
}

/* Until one of them has done a round that began after we came: of five more, two are the same thread's. */
static void let_run(void) {
    long before = all_rounds();
    do
        usleep(100);
    while (all_rounds() < before + 5);
}

static void stop_callers(void) {
    for (int i = 0; i < 4; i++)
        while (__atomic_load_n(&rounds[i], __ATOMIC_RELAXED) == 0)
            usleep(100);
    stop = true;
    for (int i = 0; i < 4; i++)
        pthread_join(callers[i], NULL);
}

/* Calls and returns of each thread are in balance, whatever was switched off in between. */
static void check_balance(void) {
    struct e2e_summary s = e2e_summarize(-1);
    E2E_EQUAL(s.calls, s.returns + s.left);
    E2E_EQUAL(s.left, 0);
    E2E_EQUAL(s.open + s.unpaired, 0);
    E2E_CHECK(s.calls > 0);
    e2e_forget();
}

static void check_switching(void) {
    int hooks[] = {E2E_RECORD(leaf), E2E_RECORD(work), E2E_RECORD(dive)};
    start_callers();
    let_run();
    for (int i = 0; i < 120; i++) {
        int which = hooks[i % 3];
        E2E_EQUAL(ct_hooks_disable(e2e_hooks, which), 0);
        if (i % 5 == 0)
            E2E_EQUAL(ct_hooks_disable(e2e_hooks, which), 0); /* again is no error */
        usleep(100);
        E2E_EQUAL(ct_hooks_enable(e2e_hooks, which), 0);
    }
    for (int i = 0; i < 3; i++)
        E2E_EQUAL(ct_hooks_disable(e2e_hooks, hooks[i]), 0);
    stop_callers();
    check_balance();
    work(1);
    dive(3);
    E2E_EXPECT(""); /* off is off */
    E2E_EQUAL(ct_hooks_enable(e2e_hooks, hooks[0]), 0);
    work(1);
    E2E_EXPECT("leaf()*2");
    for (int i = 0; i < 3; i++)
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, hooks[i]), 0);
    work(1);
    E2E_EXPECT("");
}

static void check_reattaching(void) {
    uint8_t before[3][16], after[3][16];
    void *functions[] = {(void *)leaf, (void *)work, (void *)dive};
    for (int i = 0; i < 3; i++)
        memcpy(before[i], functions[i], 16);
    start_callers();
    for (int i = 0; i < 15; i++) {
        int a = E2E_RECORD(leaf);
        int b = E2E_RECORD(work);
        if (i == 0)
            let_run();
        usleep(300);
        E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
        int c = E2E_RECORD(dive);
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, a), 0);
        E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0);
        usleep(300);
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, b), 0);
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, c), 0);
    }
    stop_callers();
    for (int i = 0; i < 3; i++) {
        memcpy(after[i], functions[i], 16);
        E2E_CHECK(memcmp(before[i], after[i], 16) == 0);
    }
    check_balance();
}

/* Threads wait inside hooked frames while the hook set is destroyed, then return through them. */
static sem_t inside, go_on;

static E2E_FN int wait_inside(int x) {
    sem_post(&inside);
    sem_wait(&go_on);
    return x + 1;
}

static E2E_FN int nested_wait(int depth, int x) {
    int y = depth ? nested_wait(depth - 1, x) : wait_inside(x);
    E2E_BARRIER();
    return y + 1;
}

static void *waiter_main(void *arg) {
    int *value = arg;
    *value = nested_wait(5, *value);
    return NULL;
}

static void check_destroy(int argc, char **argv) {
    pthread_t threads[4];
    int values[4] = {0, 100, 200, 300};
    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    E2E_RECORD(wait_inside);
    E2E_RECORD(nested_wait);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, waiter_main, &values[i]);
    for (int i = 0; i < 4; i++)
        sem_wait(&inside);
    ct_hooks_destroy(e2e_hooks);
    e2e_hooks = NULL;
    for (int i = 0; i < 4; i++)
        sem_post(&go_on);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        E2E_EQUAL(values[i], i * 100 + 7);
    }
    /* and a new set in the same process */
    e2e_begin(argc, argv);
    E2E_EQUAL(work(1), 3);
    E2E_RECORD(work);
    E2E_EQUAL(work(1), 3);
}

static void check_destroy_under_load(int argc, char **argv) {
    start_callers();
    for (int i = 0; i < 6; i++) {
        E2E_RECORD(leaf);
        E2E_RECORD(dive);
        usleep(500);
        ct_hooks_destroy(e2e_hooks);
        e2e_begin(argc, argv);
    }
    stop_callers();
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    if (e2e_plain()) {
        start_callers();
        usleep(1000);
        stop_callers();
        return e2e_end();
    }
    check_switching();
    check_reattaching();
    check_destroy(argc, argv);
    check_destroy_under_load(argc, argv);
    return e2e_end();
}
