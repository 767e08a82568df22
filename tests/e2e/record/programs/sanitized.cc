/* SPDX-License-Identifier: Apache-2.0 */
/* A program for compilers' sanitizers. What its first argument says happens below a few named functions, so that a
 * report has stacks that can be compared: leaks, memory used after it was freed, races, overflows.
 *
 * What went wrong here: the leak checker's tracer, a clone without a thread pointer of its own, took its parent's open
 * calls for its own; and the sanitizers' walk along frame pointers, at each malloc, found stubs in place of callers. */
#include "zoo.h"
#include <pthread.h>
#include <sched.h>
#include <stdexcept>
#include <string.h>
#include <string>

ZOO_GATES

enum { DEPTH = 12, THREADS = 4, ROUNDS = 40 };

static void *volatile kept;
/* Apart: ThreadSanitizer keeps the accesses of eight bytes together, and two threads that note theirs at once may lose
 * one. While they were neighbours the race of `shared` was found in five of six runs only. */
alignas(64) static int shared;
alignas(64) static int turn;

static FN void *allocate(size_t size) {
    void *p = malloc(size);
    BARRIER();
    return p;
}

static FN void *allocate_below(int depth, size_t size) {
    void *p = depth ? allocate_below(depth - 1, size) : allocate(size);
    BARRIER();
    return p;
}

static FN void release(void *p) {
    free(p);
    BARRIER();
}

/* Calls and returns between walks: each must find its caller. */
static FN void churn() {
    for (int i = 0; i < ROUNDS; i++)
        release(allocate_below(i % DEPTH, 16 + (size_t)i));
    BARRIER();
}

static FN void leak(size_t size) {
    for (int i = 0; i < 10; i++)
        kept = allocate_below(3, size);
    kept = nullptr;
    BARRIER();
}

/* What the last calls have left on the stack must not look like pointers to what was lost. */
static FN void wipe() {
    volatile char room[8192];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
    BARRIER();
}

static FN int use_after_free() {
    volatile char *p = (volatile char *)allocate_below(2, 40);
    release((void *)p);
    int value = p[8];
    BARRIER();
    return value;
}

static FN void throws(int depth) {
    if (!depth)
        throw std::runtime_error(std::string(100, 'x'));
    throws(depth - 1);
    BARRIER();
}

static FN size_t catches() {
    size_t sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        try {
            throws(i % DEPTH);
        } catch (const std::runtime_error &e) {
            sum += strlen(e.what());
        }
        churn();
    }
    return sum;
}

static void *thread(void *arg) {
    churn();
    leak(100 + (size_t)arg * 8);
    wipe();
    return nullptr;
}

static FN void increase() {
    shared++;
    BARRIER();
}

/* After the main thread, in an order that is no order for the language. */
static void *racer(void *) {
    while (!__atomic_load_n(&turn, __ATOMIC_RELAXED))
        sched_yield();
    increase();
    return nullptr;
}

static FN void run_threads(void *(*body)(void *)) {
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t id;
        pthread_create(&id, nullptr, body, (void *)i);
        pthread_join(id, nullptr);
    }
    BARRIER();
}

static FN void race() {
    pthread_t id;
    pthread_create(&id, nullptr, racer, nullptr);
    increase();
    __atomic_store_n(&turn, 1, __ATOMIC_RELAXED);
    pthread_join(id, nullptr);
    BARRIER();
}

static FN int overflow(int value) {
    int result = value + 2147483647;
    BARRIER();
    return result;
}

int main(int argc, char **argv) {
    std::string what = argc > 1 ? argv[1] : "clean";
    wait_for_start();
    if (what == "clean")
        churn();
    else if (what == "leak")
        leak(33);
    else if (what == "use_after_free")
        printf("%d\n", use_after_free());
    else if (what == "throws")
        printf("%zu\n", catches());
    else if (what == "threads")
        run_threads(thread);
    else if (what == "race")
        race();
    else if (what == "overflow")
        printf("%d\n", overflow(argc));
    wipe();
    puts("done");
    fflush(stdout);
    return 0;
}
