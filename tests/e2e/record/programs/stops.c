/* SPDX-License-Identifier: Apache-2.0 */
/* Stopped and continued, by itself and in the middle of work. */
#include "zoo.h"
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

ZOO_GATES

static volatile sig_atomic_t continued;

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN void on_continue(int number) {
    leaf(number);
    continued++;
}

static volatile int *begun; /* stops, shared with the child */

static int is_stopped(const char *path) {
    char line[512];
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, sizeof line, f))
        _exit(1);
    fclose(f);
    return strrchr(line, ')')[2] == 'T';
}

/* A child that continues us once for each stop. */
static pid_t start_helper(int times) {
    char path[64];
    pid_t parent = getpid(), child = fork();
    if (child != 0)
        return child;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)parent);
    for (int i = 1; i <= times; i++) {
        while (*begun < i || !is_stopped(path))
            usleep(500);
        kill(parent, SIGCONT);
    }
    _exit(0);
}

static FN void stop(int number) {
    ++*begun;
    raise(number);
    leaf(1);
}

int main(void) {
    begun = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    signal(SIGCONT, on_continue);
    wait_for_start();
    pid_t helper = start_helper(4);
    for (int i = 0; i < 4; i++)
        stop(SIGSTOP); /* not SIGTSTP: without a terminal it stops nobody */
    int status;
    CHECK(waitpid(helper, &status, 0) == helper && status == 0);
    CHECK(continued == 4);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
