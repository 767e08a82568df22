/* SPDX-License-Identifier: Apache-2.0 */
/* What the scripts of this folder are tried on: sample [ROUNDS [MILLISECONDS between them]].
 *
 *   gcc -g -O1 -pthread examples/scripts/sample.c -o /tmp/sample
 *   contrail script examples/scripts/force-check.js -- /tmp/sample 3 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP static __attribute__((noinline))

/* A check that fails. */
KEEP int licence_is_valid(const char *key) {
    return strcmp(key, "let me in") == 0;
}

/* Seven percent more. */
KEEP long price(long net) {
    return net + net * 7 / 100;
}

KEEP int step(int n) {
    return n * 2 + 1;
}

KEEP int walk(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += step(i);
    return sum;
}

KEEP size_t look_into(const char *path) {
    char buffer[64];
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, buffer, sizeof buffer);
    close(fd);
    return got > 0 ? (size_t)got : 0;
}

KEEP void *keep(size_t size) {
    return malloc(size);
}

KEEP void finish(void) {
    fflush(stdout);
}

static volatile int walked; /* or a compiler would walk once */

static void *work(void *arg) {
    volatile int *stop = arg;
    while (!*stop) {
        walked = walk(20 + walked % 2);
        usleep(2000);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 5, pause_ms = argc > 2 ? atoi(argv[2]) : 20;
    static volatile int stop;
    pthread_t worker;
    pthread_create(&worker, NULL, work, (void *)&stop);
    for (int i = 0; i < rounds; i++) {
        void *small = keep(100), *large = keep(4096);
        printf("round %d: licence %s, price %ld, walked %d, read %s\n", i,
               licence_is_valid("guess") ? "valid" : "wrong", price(1000), walk(i),
               look_into("/etc/hostname") ? "something" : "nothing");
        fflush(stdout);
        free(small);
        free(large);
        usleep((useconds_t)pause_ms * 1000);
    }
    stop = 1;
    pthread_join(worker, NULL);
    finish();
    return 0;
}
