/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that end inside hooked frames: pthread_cancel (deferred, and asynchronous) and pthread_exit, with cleanup
 * handlers, C++ destructors and thread-specific data that call hooked functions on the way out.
 *
 * An engine can go wrong here because a forced unwind walks through stubs, because cleanup runs on top of frames that
 * are half gone, and because a thread's state must outlive its last hooked call and no longer. */
#include "harness.h"
#include <atomic>
#include <pthread.h>
#include <semaphore.h>
#include <string>
#include <unistd.h>

#define FN extern "C" E2E_FN __attribute__((visibility("hidden")))

static std::string order;
static pthread_key_t key;
static sem_t ready;
static std::atomic<int> tid;

FN void note(int mark) {
    order += static_cast<char>(mark);
    E2E_BARRIER();
}

FN void cleanup_handler(void *arg) {
    note(*static_cast<char *>(arg));
    E2E_BARRIER();
}

/* The last thing a thread calls: frames that were left must be closed before it. */
FN void thread_data_destructor(void *arg) {
    (void)arg;
    E2E_BARRIER();
}

struct guard {
    char mark;
    explicit guard(char m) : mark(m) {
    }
    ~guard() {
        note(mark);
    }
};

FN void wait_here() {
    sem_post(&ready);
    for (;;)
        pause(); /* a cancellation point */
}

FN void spin_here() {
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    sem_post(&ready);
    for (;;)
        E2E_BARRIER();
}

FN void exit_here() {
    sem_post(&ready);
    pthread_exit(reinterpret_cast<void *>(77));
}

enum { WAIT, SPIN, EXIT };

FN void innermost(int how) {
    static char mark = 'h';
    pthread_cleanup_push(cleanup_handler, &mark);
    if (how == WAIT)
        wait_here();
    else if (how == SPIN)
        spin_here();
    else
        exit_here();
    pthread_cleanup_pop(0);
}

FN void middle(int how) {
    guard g('m');
    innermost(how);
    E2E_BARRIER();
}

FN void outer(int how) {
    guard g('o');
    try {
        middle(how);
    } catch (...) { /* a forced unwind passes here and must go on */
        note('r');
        throw;
    }
    E2E_BARRIER();
}

static void *thread_body(void *arg) {
    tid = e2e_gettid();
    pthread_setspecific(key, &key);
    outer(*static_cast<int *>(arg));
    return nullptr;
}

static void run(int how, const char *expected_order, const char *tree) {
    pthread_t thread;
    void *result = nullptr;
    order.clear();
    pthread_create(&thread, nullptr, thread_body, &how);
    sem_wait(&ready);
    if (how != EXIT)
        pthread_cancel(thread);
    pthread_join(thread, &result);
    E2E_CHECK(result == (how == EXIT ? reinterpret_cast<void *>(77) : PTHREAD_CANCELED));
    if (order != expected_order)
        e2e_fail(__FILE__, __LINE__, "cleanup ran as %s, expected %s", order.c_str(), expected_order);
    E2E_EXPECT_TID(tid, tree);
}

#define TREE(last)                                                                                                     \
    "outer(middle(innermost(" last "! cleanup_handler(note()))! note())! note()*2)! thread_data_destructor()"

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    sem_init(&ready, 0, 0);
    pthread_key_create(&key, thread_data_destructor);
    E2E_RECORD(note);
    E2E_RECORD(cleanup_handler);
    E2E_RECORD(thread_data_destructor);
    E2E_RECORD(wait_here);
    E2E_RECORD(spin_here);
    E2E_RECORD(exit_here);
    E2E_RECORD(innermost);
    E2E_RECORD(middle);
    E2E_RECORD(outer);
    for (int i = 0; i < 3; i++) {
        run(WAIT, "hmro", TREE("wait_here"));
        run(SPIN, "hmro", TREE("spin_here"));
        run(EXIT, "hmro", TREE("exit_here"));
    }
    return e2e_end();
}
