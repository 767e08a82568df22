/* SPDX-License-Identifier: Apache-2.0 */
/* victim: a process of another user that has nothing to do with it all. Its heap is where Go programs have theirs; it
 * looks at it again and again and says so in standard error when anything has changed. The pages between the marks are
 * never touched, so a write to one makes the process larger. A second thread sleeps: a stop of the process,
 * for however short a time, makes it switch. */
#include "hostile.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEAP 0xc000000000ull
#define SIZE (1ull << 30)
#define STEP (2ull << 20)
#define MARK 0x600df00dull

__attribute__((noinline)) static size_t check(const char *secret) {
    char copy[64];
    strcpy(copy, secret);
    return strlen(copy);
}

static size_t changed(const uint64_t *heap) {
    size_t count = 0;
    for (size_t i = 0; i < SIZE / sizeof *heap; i += STEP / sizeof *heap)
        count += heap[i] != MARK;
    return count;
}

static void *sleep_on(void *unused) {
    for (;;)
        pause();
    return unused;
}

int main(void) {
    pthread_t sleeper;
    hostile_begin();
    uint64_t *heap = mmap((void *)HEAP, SIZE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (heap == MAP_FAILED || madvise(heap, SIZE, MADV_NOHUGEPAGE))
        hostile_end("no heap");
    for (size_t i = 0; i < SIZE / sizeof *heap; i += STEP / sizeof *heap)
        heap[i] = MARK;
    if (pthread_create(&sleeper, NULL, sleep_on, NULL))
        hostile_end("no thread");
    while (check("TOPSECRET-hunter2") && !changed(heap))
        hostile_beat();
    hostile_say("%zu marks of the heap have changed", changed(heap));
    hostile_beat_on();
}
