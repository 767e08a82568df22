/* SPDX-License-Identifier: Apache-2.0 */
/* A program that does a step for each letter on its standard input: what `contrail tail` is watched with.
 *   a step_a, which calls inner twice    t the same in a thread "helper"    f the same in a child process
 *   b a burst of 30,000 inner
 *   w step_w, which waits for the next letter    l loads the library of the first argument and calls late_step */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))

static volatile int sum;

KEEP static void inner(void) {
    sum++;
}

KEEP static void step_a(void) {
    inner();
    inner();
    sum++;
}

KEEP static int next_letter(void) {
    char letter;
    return read(0, &letter, 1) == 1 ? letter : 0;
}

KEEP static void step_w(void) {
    next_letter();
    sum++;
}

static void *in_thread(void *arg) {
    (void)arg;
    step_a();
    return NULL;
}

/* A thread begins with the name of the one that makes it. */
static void start_helper(void) {
    pthread_t thread;
    pthread_setname_np(pthread_self(), "helper");
    int failed = pthread_create(&thread, NULL, in_thread, NULL);
    pthread_setname_np(pthread_self(), "steps");
    if (!failed)
        pthread_join(thread, NULL);
}

static void in_child(void) {
    pid_t child = fork();
    if (!child) {
        step_a();
        next_letter(); /* so that it can be watched */
        step_w();
        _exit(0);
    }
    printf("%d\n", (int)child);
    fflush(stdout);
    waitpid(child, NULL, 0);
}

KEEP static void load(const char *path) {
    void *library = dlopen(path, RTLD_NOW), *symbol = library ? dlsym(library, "late_step") : NULL;
    void (*late_step)(void);
    memcpy(&late_step, &symbol, sizeof symbol);
    if (symbol)
        late_step();
}

int main(int argc, char **argv) {
    printf("%d\n", (int)getpid());
    fflush(stdout);
    for (int letter; (letter = next_letter());)
        switch (letter) {
        case 'a':
            step_a();
            break;
        case 'b':
            for (int i = 0; i < 30000; i++)
                inner();
            break;
        case 't':
            start_helper();
            break;
        case 'f':
            in_child();
            break;
        case 'w':
            step_w();
            break;
        case 'l':
            load(argc > 1 ? argv[1] : "");
            break;
        }
    return 0;
}
