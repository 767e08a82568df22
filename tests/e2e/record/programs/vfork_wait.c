/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in a vfork until its child is through, which takes half a second, again and again: such a thread cannot be
 * stopped. */
#include "zoo.h"
#include <sys/wait.h>

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN int slow_child(void) {
    int status = -1;
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/sleep", "sleep", "0.3", NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    return status;
}

/* The child of this one takes its time before it executes something. */
static FN int slow_vfork(void) {
    int status = -1;
    pid_t child = vfork();
    if (child == 0) {
        usleep(300000);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status;
}

int main(void) {
    puts("ready");
    fflush(stdout);
    for (int i = 0; i < 3; i++) {
        CHECK(slow_vfork() == 0);
        CHECK(slow_child() == 0);
        CHECK(leaf(i) == i + 1);
    }
    puts(zoo_failures ? "wrong" : "right");
    return zoo_failures;
}
