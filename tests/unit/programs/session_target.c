/* SPDX-License-Identifier: Apache-2.0 */
/* A small process to record. It says "ready", then calls work() again and again until a signal comes: SIGTERM
 * ends it with code 7, SIGUSR1 makes it execute itself again (as "again"). With the argument "quick" it ends by itself,
 * with code 3. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t over, another;
static volatile unsigned long sum;

static void note(int number) {
    *(number == SIGTERM ? &over : &another) = 1;
}

__attribute__((noinline)) static void work(unsigned long x) {
    sum += x;
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    puts("ready");
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "quick")) {
        for (unsigned i = 0; i < 1000; i++)
            work(i);
        return 3;
    }
    int fast = argc > 1 && !strcmp(argv[1], "fast");
    while (!over && !another) {
        for (unsigned i = 0; i < (fast ? 100000u : 10u); i++)
            work(i);
        usleep(fast ? 1 : 500);
    }
    if (another)
        execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    return 7;
}
