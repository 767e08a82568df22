/* SPDX-License-Identifier: Apache-2.0 */
/* Another program is executed by a thread that is not the first one, while others run. */
#include "zoo.h"
#include <pthread.h>

ZOO_GATES

static volatile int stop;
static int begun;

static FN long leaf(long x) {
    for (int i = 0; i < 2000; i++)
        BARRIER();
    return x + 1;
}

static FN void *busy(void *arg) {
    for (long i = 0; !stop; i++) {
        leaf(i);
        if (i == 0)
            __atomic_add_fetch(&begun, 1, __ATOMIC_RELEASE);
    }
    return arg;
}

static FN void *replace(void *arg) {
    while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < 2)
        usleep(1000);
    usleep(20000);
    execl("/bin/echo", "echo", "replaced", NULL);
    return arg;
}

int main(void) {
    pthread_t threads[3];
    wait_for_start();
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, busy, NULL);
    pthread_create(&threads[2], NULL, replace, NULL);
    pthread_join(threads[0], NULL);
    return 1;
}
