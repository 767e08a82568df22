/* Announces in a shared mapping of a file how far it is: sequence FILE [COUNT]. After each batch the batch's number is stored.
 * Threads: two, each with its own place. */
#include "zoo.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

static volatile uint64_t *announced;
static uint64_t limit = UINT64_MAX;

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
    for (uint64_t number = 1; number <= limit; number++) {
        batch(number);
        __atomic_store_n(&announced[which], number, __ATOMIC_SEQ_CST);
        if (number % 4 == 0)
            usleep(200);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 1;
    if (argc > 2)
        limit = (uint64_t)atol(argv[2]);
    announced = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    pthread_create(&thread, NULL, thread_main, (void *)1);
    thread_main(NULL);
    pthread_join(thread, NULL);
    puts("finished");
    return 0;
}
