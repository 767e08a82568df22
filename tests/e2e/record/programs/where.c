/* SPDX-License-Identifier: Apache-2.0 */
/* Prints its own return addresses and backtraces, as places in the program: as untraced. */
#include "zoo.h"
#include <execinfo.h>
#include <signal.h>

ZOO_GATES

extern const char __executable_start[];

static FN long caller_of(void) {
    BARRIER();
    return (const char *)__builtin_return_address(0) - __executable_start;
}

static FN void show(const char *what) {
    void *frames[32];
    int count = backtrace(frames, 32);
    printf("%s:", what);
    for (int i = 0; i < count; i++) {
        long place = (const char *)frames[i] - __executable_start;
        printf(place > 0 && place < 1 << 20 ? " %lx" : " libc", place);
    }
    printf("\n");
}

static FN void recurse(int depth) {
    if (depth)
        recurse(depth - 1);
    else
        show("recursion");
    BARRIER();
}

static FN void on_signal(int number) {
    (void)number;
    show("signal");
}

static FN int compare(const void *a, const void *b) {
    if (*(const int *)a == 1)
        show("callback");
    return *(const int *)a - *(const int *)b;
}

int main(void) {
    int values[] = {1, 2};
    wait_for_start();
    printf("%lx\n", caller_of());
    printf("%lx\n", caller_of());
    recurse(5);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    qsort(values, 2, sizeof *values, compare);
    wait_for_end();
    return 0;
}
