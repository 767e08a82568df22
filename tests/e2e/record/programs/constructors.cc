/* SPDX-License-Identifier: Apache-2.0 */
/* What runs before and after main: constructors of the program and of a library, static objects, atexit handlers,
 * thread-local destructors. The first of them must be in the trace. */
#include "zoo.h"
#include <pthread.h>

ZOO_GATES

extern "C" {
int library_value(void);

static FN void first_constructor(void) __attribute__((constructor(101)));
static FN void first_constructor(void) {
    puts("first constructor");
    fflush(stdout);
}

static FN void static_object_made(void) {
    puts("static object made");
}

static FN void static_object_gone(void) {
    puts("static object gone");
}

static FN void thread_object_made(void) {
    BARRIER();
}

static FN void thread_object_gone(void) {
    puts("thread object gone");
}

static FN void preinit(void) {
    BARRIER();
}

static FN void last_destructor(void) __attribute__((destructor(101)));
static FN void last_destructor(void) {
    puts("last destructor");
    fflush(stdout);
}

static FN void first_atexit(void) {
    puts("first atexit");
}

static FN void second_atexit(void) {
    puts("second atexit");
}

static FN void key_destructor(void *) {
    puts("key destructor");
}
}

struct static_object {
    __attribute__((always_inline)) static_object() {
        static_object_made();
    }
    __attribute__((always_inline)) ~static_object() {
        static_object_gone();
    }
};
static static_object object;

struct thread_object {
    int used;
    __attribute__((always_inline)) thread_object() : used(1) {
        thread_object_made();
    }
    __attribute__((always_inline)) ~thread_object() {
        thread_object_gone();
    }
};
static thread_local thread_object per_thread;
static pthread_key_t key;

extern "C" {
static FN void *thread_main(void *arg) {
    per_thread.used++;
    pthread_setspecific(key, &key);
    return arg;
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(void) = preinit;
}

int main() {
    pthread_t thread;
    atexit(first_atexit);
    atexit(second_atexit);
    pthread_key_create(&key, key_destructor);
    wait_for_start();
    per_thread.used++;
    pthread_create(&thread, nullptr, thread_main, nullptr);
    pthread_join(thread, nullptr);
    printf("library %d\n", library_value());
    return 0;
}
