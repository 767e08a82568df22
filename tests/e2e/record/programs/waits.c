/* SPDX-License-Identifier: Apache-2.0 */
/* Waits in a chain of calls until its input ends: main, first, second, third, wait_here. Says so before; with an
 * argument, by its process id. */
#include "zoo.h"

static int shown;

static FN int wait_here(void) {
    char byte;
    printf("%d\n", shown);
    fflush(stdout);
    while (read(0, &byte, 1) == 1 && byte != 'q')
        ;
    BARRIER();
    return 1;
}

static FN int third(int again);

static FN int second(int again) {
    int sum = third(again);
    BARRIER();
    return sum + 1;
}

static FN int first(int again) {
    int sum = second(again);
    BARRIER();
    return sum + 1;
}

/* The chain a second time, if it is asked for: then all of its frames come after the recorder. */
static FN int third(int again) {
    int sum = wait_here();
    if (again)
        sum += first(again - 1);
    BARRIER();
    return sum + 1;
}

int main(int argc, char **argv) {
    shown = argc > 1 ? getpid() : 0;
    int sum = first(argc > 1 ? atoi(argv[1]) : 0);
    BARRIER();
    return sum;
}
