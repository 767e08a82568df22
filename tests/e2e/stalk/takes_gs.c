/* SPDX-License-Identifier: Apache-2.0 */
/* A thread takes GS for itself and uses it until the program ends; its first output says that it has, and its pid.
 * Ends with 0 when asked to. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SET_GS 0x1001

static long words[4];
static volatile int stop;

static void *use(void *unused) {
    syscall(SYS_arch_prctl, SET_GS, words);
    words[2] = 42;
    printf("taken\n%d\n", (int)getpid());
    fflush(stdout);
    while (!stop) {
        long value;
        __asm__ volatile("mov %%gs:16, %0" : "=r"(value));
        if (value != 42)
            _exit(1);
        usleep(100);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    char byte;
    pthread_create(&thread, NULL, use, NULL);
    stop = read(0, &byte, 1) >= 0;
    pthread_join(thread, NULL);
    return 0;
}
