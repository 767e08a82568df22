/* SPDX-License-Identifier: Apache-2.0 */
/* Computes for a while with four threads (answer ROUNDS), and prints the answer, which is always the same.
 *
 * answer ROUNDS hold: goes on with work of the same kind until standard input ends, and does one more round then. */
#include "zoo.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

static int rounds = 20;
static int hold;
static volatile int ended;
static uint64_t sums[4];

static FN uint64_t mix(uint64_t x) {
    for (int i = 0; i < 100; i++) {
        x ^= x >> 29;
        x = x * 0xbf58476d1ce4e5b9u + 1;
    }
    return x;
}

static FN void jump(jmp_buf *out) {
    longjmp(*out, 1);
}

static FN int left(int depth, jmp_buf *out) {
    int below = depth ? left(depth - 1, out) : (jump(out), 0);
    BARRIER();
    return below + 1;
}

static FN uint64_t round_of_work(uint64_t x) {
    jmp_buf out;
    char *text = malloc(64);
    for (int i = 0; i < 100; i++)
        x = mix(x);
    snprintf(text, 64, "%llx", (unsigned long long)x);
    x += strlen(text);
    free(text);
    if (_setjmp(out) == 0)
        left(5, &out);
    return x;
}

static FN void *thread_main(void *arg) {
    intptr_t which = (intptr_t)arg;
    uint64_t x = (uint64_t)which + 1;
    for (int i = 0; i < rounds; i++) {
        x = round_of_work(x);
        if (i % 4 == 0)
            usleep(1000);
    }
    sums[which] = x;
    for (int i = 0, last = !hold; !last; i++) {
        last = ended;
        x = round_of_work(x);
        if (i % 4 == 0)
            usleep(1000);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[4];
    char byte;
    if (argc > 1)
        rounds = atoi(argv[1]);
    hold = argc > 2;
    puts("started");
    fflush(stdout);
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, thread_main, (void *)i);
    while (hold && read(0, &byte, 1) == 1)
        ;
    ended = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%016llx\n", (unsigned long long)(sums[0] ^ sums[1] ^ sums[2] ^ sums[3]));
    return 21;
}
