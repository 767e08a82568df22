/* SPDX-License-Identifier: Apache-2.0 */
/* Announces in a shared mapping of a file how far it is: sequence FILE [hold]. After each batch the batch's number is
 * stored. Threads: two, each with its own place. hold: until standard input ends. */
#include "zoo.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

static volatile uint64_t *announced;
static volatile int ended;

static FN uint64_t step(uint64_t x) {
    BARRIER();
    return x * 3 + 1;
}

static FN void batch(uint64_t number) {
    uint64_t x = number;
    for (int i = 0; i < 50; i++)
        x = step(x);
    BARRIER();
}

static FN void *thread_main(void *arg) {
    intptr_t which = (intptr_t)arg;
    for (uint64_t number = 1; !ended; number++) {
        batch(number);
        __atomic_store_n(&announced[which], number, __ATOMIC_SEQ_CST);
        if (number % 4 == 0)
            usleep(200);
    }
    return NULL;
}

static FN void *listen_to_input(void *arg) {
    char byte;
    while (read(0, &byte, 1) == 1)
        ;
    ended = 1;
    return arg;
}

int main(int argc, char **argv) {
    pthread_t thread, listener;
    int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 1;
    announced = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (argc > 2)
        pthread_create(&listener, NULL, listen_to_input, NULL);
    pthread_create(&thread, NULL, thread_main, (void *)1);
    thread_main(NULL);
    pthread_join(thread, NULL);
    puts("finished");
    return 0;
}
