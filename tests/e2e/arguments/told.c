/* SPDX-License-Identifier: Apache-2.0 */
/* Calls functions of its own and prints of each call what it was called with and what it returned, as `replay --args`
 * is to show it: NAME, ARGUMENTS, RESULT between tabs. With an argument it dies of SIGSEGV at the end, in a call that
 * it has printed. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define F    __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")

struct point {
    int x, y;
};
struct large {
    long a, b, c;
};
enum mode { READ = 1, WRITE = 2, APPEND = 4 };

F int length_of(const char *text, double scale, bool twice);
F long many(long a, int b, short c, signed char d, unsigned e, uint64_t f, long g, int h);
F struct point moved(struct point p, enum mode mode);
F long sum(struct large l, int n);
F void nothing(void);
F float mixed(float a, int b, double c, void *d);
F int deref(int n, int *where);

int length_of(const char *text, double scale, bool twice) {
    KEEP;
    return (int)((double)strlen(text) * scale) * (twice ? 2 : 1);
}
long many(long a, int b, short c, signed char d, unsigned e, uint64_t f, long g, int h) {
    KEEP;
    return a + b + c + d + (long)e + (long)f + g + h;
}
struct point moved(struct point p, enum mode mode) {
    KEEP;
    return (struct point){p.x + (int)mode, p.y};
}
long sum(struct large l, int n) {
    KEEP;
    return l.a + l.b + l.c + n;
}
void nothing(void) {
    KEEP;
}
float mixed(float a, int b, double c, void *d) {
    KEEP;
    return a + (float)b + (float)c + (d ? 1 : 0);
}
int deref(int n, int *where) {
    KEEP;
    return n + *where;
}

static const char *mode_name(int i) {
    static const char *const names[] = {"READ", "WRITE", "READ|WRITE", "APPEND", "8"};
    return names[i % 5];
}

static void round_of(int i) {
    char text[24];
    static const enum mode modes[] = {READ, WRITE, READ | WRITE, APPEND, (enum mode)8};
    snprintf(text, sizeof text, "item \"%d\"", i);
    int n = length_of(text, 1.5, i % 2);
    printf("length_of\ttext=\"item \\\"%d\\\"\", scale=1.5, twice=%s\t%d\n", i, i % 2 ? "true" : "false", n);
    long l = many(i, -i, (short)(3 * i), (signed char)i, 4000000000u, UINT64_MAX, -7, i - 100);
    printf("many\ta=%d, b=%d, c=%d, d=%d, e=4000000000, f=18446744073709551615, g=-7, h=%d\t%ld\n", i, -i,
           (short)(3 * i), (signed char)i, i - 100, l);
    struct point p = moved((struct point){i, -2 * i}, modes[i % 5]);
    printf("moved\tp={x=%d, y=%d}, mode=%s\t{x=%d, y=%d}\n", i, -2 * i, mode_name(i), p.x, p.y);
    l = sum((struct large){i, i + 1, i + 2}, 9);
    printf("sum\tl={a=%d, b=%d, c=%d}, n=9\t%ld\n", i, i + 1, i + 2, l);
    nothing();
    printf("nothing\t\t\n");
    float f = mixed(0.5f, i, -0.25, text);
    printf("mixed\ta=0.5, b=%d, c=-0.25, d=%p\t%.2f\n", i, (void *)text, (double)f); /* ends with .25 */
}

int main(int argc, char **argv) {
    (void)argv;
    int value = 5;
    for (int i = 0; i < 200; i++)
        round_of(i);
    printf("deref\tn=1, where=%p\t6\n", (void *)&value);
    deref(1, &value);
    printf("deref\tn=2, where=0x10\t\n");
    fflush(stdout);
    if (argc > 1)
        deref(2, (int *)0x10);
    return 0;
}
