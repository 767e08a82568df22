/* SPDX-License-Identifier: Apache-2.0 */
/* Static functions, optimized: compilers leave out what is not used, and pass the rest where they like. Prints its
 * calls as told.c does; what replay --args shows of them must be the same, or "?". */
#include <stdio.h>

#define F static __attribute__((noinline))

F int partly(int unused, int x, const int *p) {
    (void)unused;
    printf("partly\tunused=%d, x=%d, p=%p\t%d\n", x - 10, x, (const void *)p, x * 3);
    return x * 3;
}

F long whole(int a, long b) {
    printf("whole\ta=%d, b=%ld\t%ld\n", a, b, a + b);
    return a + b;
}

F int constant(int a, int always) {
    printf("constant\ta=%d, always=%d\t%d\n", a, always, a + always);
    return a + always;
}

int main(int argc, char **argv) {
    (void)argv;
    int v = argc + 40;
    long sum = 0;
    for (int i = 0; i < 20; i++) {
        partly(i, i + 10, &v);
        sum += whole(i, v);
        sum += constant(i, 7);
    }
    return sum > 1000000;
}
