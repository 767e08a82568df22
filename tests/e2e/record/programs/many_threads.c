/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that come and go: 2,000 one after the other, then 200 at once. */
#include "zoo.h"
#include <pthread.h>
#include <stdint.h>

ZOO_GATES

static pthread_barrier_t all_there;

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN void *short_thread(void *arg) {
    return (void *)leaf(leaf(leaf((intptr_t)arg)));
}

static FN void *long_thread(void *arg) {
    pthread_barrier_wait(&all_there);
    long sum = 0;
    for (long i = 0; i < 20; i++)
        sum += leaf(i);
    pthread_barrier_wait(&all_there);
    return (void *)(sum + (intptr_t)arg);
}

static FN void one_by_one(int count) {
    for (intptr_t i = 0; i < count; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, short_thread, (void *)i) == 0);
        pthread_join(thread, &result);
        CHECK((intptr_t)result == i + 3);
    }
}

static FN void at_once(int count) {
    static pthread_t threads[1000];
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 * 1024);
    pthread_barrier_init(&all_there, NULL, (unsigned)count);
    for (intptr_t i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], &attr, long_thread, (void *)i) == 0);
    for (intptr_t i = 0; i < count; i++) {
        void *result;
        pthread_join(threads[i], &result);
        CHECK((intptr_t)result == i + 210);
    }
}

int main(void) {
    wait_for_start();
    one_by_one(2000);
    at_once(200);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
