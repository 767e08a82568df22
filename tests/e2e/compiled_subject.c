/* SPDX-License-Identifier: Apache-2.0 */
/* One file, compiled in many ways (both compilers, every optimization level): whatever prologues, tail calls and frames
 * come out of it, the calls between these functions are the same. Names are prefixed per way of compiling. */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)
#define NAME(n)     JOIN(SUBJECT, n)
#if defined(__clang__)
#define FUNCTION __attribute__((noinline, visibility("hidden")))
#else
#define FUNCTION __attribute__((noipa, visibility("hidden")))
#endif
#define BARRIER() __asm__ volatile("" ::: "memory")

struct big {
    long v[10];
};

FUNCTION long NAME(leaf)(long x);
FUNCTION long NAME(tail)(long x);
FUNCTION double NAME(floats)(double a, float b, int c);
FUNCTION struct big NAME(structs)(struct big b, long x);
FUNCTION long NAME(recursive)(long n);
FUNCTION long NAME(switches)(int n, long x);
FUNCTION long NAME(loops)(const long *values, int count);
FUNCTION long NAME(variadic)(int count, ...);
FUNCTION long NAME(callback)(long (*f)(long), long x);
FUNCTION long NAME(stack_user)(long n);
FUNCTION long NAME(run)(long x);

long NAME(leaf)(long x) {
    BARRIER();
    return x + 1;
}

long NAME(tail)(long x) {
    BARRIER();
    return NAME(leaf)(x * 2);
}

double NAME(floats)(double a, float b, int c) {
    BARRIER();
    return a * 2 + (double)b + c;
}

struct big NAME(structs)(struct big b, long x) {
    BARRIER();
    for (int i = 0; i < 10; i++)
        b.v[i] += x * i;
    return b;
}

long NAME(recursive)(long n) {
    if (n <= 0)
        return 0;
    long below = NAME(recursive)(n - 1);
    BARRIER();
    return below + n;
}

/* Dense enough for a jump table */
long NAME(switches)(int n, long x) {
    switch (n) {
    case 0:
        return NAME(leaf)(x);
    case 1:
        return x * 3;
    case 2:
        return NAME(tail)(x);
    case 3:
        return x - 7;
    case 4:
        return NAME(recursive)(2);
    case 5:
        return -x;
    case 6:
        return x << 3;
    default:
        return 0;
    }
}

long NAME(loops)(const long *values, int count) {
    long sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i] * (i + 1); /* vectorized at -O3 */
    BARRIER();
    return sum;
}

long NAME(variadic)(int count, ...) {
    __builtin_va_list args;
    __builtin_va_start(args, count);
    long sum = 0;
    for (int i = 0; i < count; i++)
        sum += i % 2 ? (long)__builtin_va_arg(args, double) : __builtin_va_arg(args, long);
    __builtin_va_end(args);
    BARRIER();
    return sum;
}

long NAME(callback)(long (*f)(long), long x) {
    long y = f(x);
    BARRIER();
    return y + f(y);
}

long NAME(stack_user)(long n) {
    volatile long space[600]; /* more than a page: stack probes */
    space[0] = n;
    space[599] = NAME(leaf)(n);
    return space[0] + space[599];
}

long NAME(run)(long x) {
    static const long values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    struct big b = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
    long sum = 0;
    for (int i = 0; i < 8; i++) {
        sum = sum * 3 + NAME(switches)(i, x);
        BARRIER();
    }
    sum += (long)NAME(floats)(1.5, 2.5f, (int)x);
    b = NAME(structs)(b, x);
    sum += b.v[9];
    sum += NAME(loops)(values, 17);
    sum += NAME(variadic)(6, 1L, 2.5, 3L, 4.5, 5L, 6.5);
    sum += NAME(callback)(NAME(leaf), x);
    sum += NAME(callback)(NAME(tail), x);
    sum += NAME(stack_user)(x);
    BARRIER();
    return sum;
}
