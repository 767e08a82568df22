/* SPDX-License-Identifier: Apache-2.0 */
/* Small, with code that is executed and code that is not. */
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) static int leaf(int x) {
    return x * 3 + 1;
}

__attribute__((noinline)) static int choose(int x) {
    switch (x % 5) {
    case 0:
        return leaf(x);
    case 1:
        return leaf(x) + leaf(x + 1);
    case 2:
        return x ? x / 2 : 7;
    case 3:
        return -x;
    default:
        return (int)strlen("never");
    }
}

__attribute__((noinline)) static int never(int x) {
    puts("never");
    return leaf(x);
}

int main(int argc, char **argv) {
    char text[300];
    int sum = 0;
    for (int i = 0; i < 20; i++)
        sum += i % 5 == 4 ? 0 : choose(i);
    memset(text, argc, sizeof text);
    if (argc > 5)
        sum = never(argv[0][0]);
    printf("%d %d\n", sum, text[7]);
    return 3;
}
