/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads at once, each with little to do: crowd COUNT. At each byte of its input it waits until all of them have
 * called leaf once more, and says so. */
#include "zoo.h"
#include <pthread.h>

static long sum;
static volatile int stop, wanted_rounds;
static int answers;

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN void *thread_main(void *arg) {
    for (int seen = 0; !stop;) {
        int now = wanted_rounds;
        __atomic_fetch_add(&sum, leaf(0), __ATOMIC_RELAXED);
        if (now != seen)
            __atomic_fetch_add(&answers, 1, __ATOMIC_RELEASE);
        seen = now;
        usleep(50000);
    }
    return arg;
}

int main(int argc, char **argv) {
    static pthread_t threads[10000];
    pthread_attr_t attr;
    int count = 0, wanted = argc > 1 ? atoi(argv[1]) : 100;
    char byte;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    while (count < wanted && count < 10000 && pthread_create(&threads[count], &attr, thread_main, NULL) == 0)
        count++;
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) == 1) {
        answers = 0;
        wanted_rounds++;
        while (__atomic_load_n(&answers, __ATOMIC_ACQUIRE) < count)
            usleep(1000);
        puts("all");
        fflush(stdout);
    }
    stop = 1;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    puts(count == wanted && sum >= count ? "right" : "wrong");
    return 0;
}
