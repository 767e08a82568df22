/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of C in all shapes: see parameters_subject.h. */
#include "parameters_subject.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

struct capture capture_call, capture_return;
const void *capture_target;
extern const char capture[];
void *volatile capture_entry = (void *)capture;

typedef unsigned short small;
enum colour { RED, GREEN = 5, BLUE = -7 };
enum mode { READ = 1, WRITE = 2, EXECUTE = 4 };
struct pair {
    int x, y;
};
struct mixed {
    double d;
    long l;
};
struct floats {
    float a, b, c;
};
struct large {
    long a, b, c;
    char name[8];
};
struct chars {
    char text[10];
};
struct bits {
    unsigned a : 3;
    int b : 5;
    unsigned c : 24;
};
struct nested {
    struct pair p;
    unsigned char flag;
};
struct __attribute__((packed)) packed {
    char c;
    long l;
};
union either {
    long l;
    double d;
};
struct wide {
    long double v;
};
struct two {
    long l, m;
};
struct empty {};

#define F VISIBLE

F int signs(signed char a, short b, int c, long d, long long e, small f) {
    return a + b + c + (int)d + (int)e + f;
}
F unsigned char narrow(unsigned char a, bool b, char c, char d) {
    return (unsigned char)(a + b + c + d);
}
F enum colour enums(enum colour a, enum colour b, enum mode c, enum mode d) {
    return a == RED ? b : (enum colour)(c + d);
}
F void nothing(void) {
    __asm__ volatile("");
}
F const void *pointers(void *p, int **q, int (*function)(int), const char *text) {
    return p ? (const void *)text : (const void *)(q ? (void *)q : (void *)function);
}
F double reals(float a, double b, int n, float c) {
    return a + b + n + c;
}
F float single(float a) {
    return a * 2;
}
F long many(long a, long b, long c, long d, long e, long f, long g, int h, char i, double x) {
    return a + b + c + d + e + f + g + h + i + (long)x;
}
F struct pair pairs(struct pair a, int n) {
    return (struct pair){a.x + n, a.y};
}
F struct mixed mix(struct mixed a, struct floats b) {
    return (struct mixed){a.d + b.c, a.l};
}
F struct floats three(struct floats a) {
    return a;
}
F struct large big(int n, struct large a, int m) {
    a.a += n + m;
    return a;
}
F int texts(struct chars a, struct bits b, struct nested c) {
    return a.text[0] + (int)b.a + c.flag;
}
F long odd(struct packed a, union either b, int after) {
    return a.l + b.l + after;
}
F struct wide wide(long double a, int n, struct wide b) {
    return (struct wide){a + n + b.v};
}
F long double extended(int n) {
    return n;
}
F int none(struct empty a, int n) {
    (void)a;
    return n;
}
F int spread(int n, ...) {
    va_list list;
    va_start(list, n);
    int sum = va_arg(list, int);
    va_end(list);
    return sum;
}
F __int128 huge(__int128 a, int n) {
    return a + n;
}
/* The last register is too few for a pair: it goes to the stack, the next number takes the register. */
F int full(long a, long b, long c, long d, long e, struct two s, int last) {
    return (int)(a + b + c + d + e + s.l + s.m + last);
}
F int unnamed(int n, const volatile int *const restrict p) {
    return n + (p != NULL);
}

static volatile int one = 1;
#define CASE(f, ...)                                                                                                   \
    static void call_##f(void) {                                                                                       \
        CALL(f, __VA_ARGS__);                                                                                          \
    }
CASE(signs, -1, -2, -3, -4, 5, 65535)
CASE(narrow, 200, true, 'x', '\n')
CASE(enums, RED, BLUE, READ | EXECUTE, (enum mode)8)
static void call_nothing(void) {
    CALL(nothing);
}
CASE(reals, 0.1f, 0.1, 7, -2.5f)
CASE(single, 1.5f)
CASE(many, 1, 2, 3, 4, 5, 6, 7, -8, 'i', 0.5)
CASE(pairs, (struct pair){-1, 2}, 3)
CASE(mix, (struct mixed){1.5, -9}, (struct floats){1, 2, 3})
CASE(three, (struct floats){1, 2, 3})
CASE(big, 1, (struct large){10, 20, 30, "name"}, 2)
CASE(texts, (struct chars){"hello"}, (struct bits){5, -3, 77}, (struct nested){{1, 2}, 3})
CASE(odd, (struct packed){'p', 12}, (union either){.l = 34}, 5)
CASE(wide, 1.25L, 4, (struct wide){2.5L})
CASE(extended, 3)
CASE(none, (struct empty){}, 6)
CASE(spread, 1, 2, 3)
CASE(huge, 5, 6)
CASE(full, 1, 2, 3, 4, 5, (struct two){6, 7}, 8)
CASE(unnamed, 4, NULL)
static void call_pointers(void) {
    char text[32];
    strcpy(text, one ? "on the \"stack\"\t\xc3\xa4\xff" : "");
    CALL(pointers, (void *)0x1234, NULL, (int (*)(int))0x5678, text);
}

__attribute__((visibility("default"))) const struct subject_case cases_c[] = {
#define ROW(f, arguments, result) {(const void *)f, call_##f, arguments, result},
    ROW(signs, "a=-1, b=-2, c=-3, d=-4, e=5, f=65535", "65530") ROW(narrow, "a=200, b=true, c='x', d='\\n'", "75")
        ROW(enums, "a=RED, b=BLUE, c=READ|EXECUTE, d=8", "BLUE") ROW(nothing, "", "")
            ROW(pointers, "p=0x1234, q=0x0, function=0x5678, text=\"on the \\\"stack\\\"\\tä\\xff\"", "*")
                ROW(reals, "a=0.1, b=0.1, n=7, c=-2.5", "4.700000001490116") ROW(single, "a=1.5", "3.0")
                    ROW(many, "a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=-8, i='i', x=0.5", "125")
                        ROW(pairs, "a={x=-1, y=2}, n=3", "{x=2, y=2}")
                            ROW(mix, "a={d=1.5, l=-9}, b={a=1.0, b=2.0, c=3.0}", "{d=4.5, l=-9}")
                                ROW(three, "a={a=1.0, b=2.0, c=3.0}", "{a=1.0, b=2.0, c=3.0}")
                                    ROW(big, "n=1, a={a=10, b=20, c=30, name=\"name\"}, m=2", "*")
                                        ROW(texts, "a={text=\"hello\"}, b={a=5, b=-3, c=77}, c={p={x=1, y=2}, flag=3}",
                                            "112") ROW(odd, "a={c='p', l=12}, b={l=34, d=1.67982e-322}, after=5", "51")
                                            ROW(wide, "a=1.25, n=4, b={v=2.5}", "?") ROW(extended, "n=3", "?")
                                                ROW(none, "a={}, n=6", "6") ROW(spread, "n=1, …", "2")
                                                    ROW(huge, "a=5, n=6", "11")
                                                        ROW(full, "a=1, b=2, c=3, d=4, e=5, s={l=6, m=7}, last=8", "36")
                                                            ROW(unnamed, "n=4, p=0x0", "4"){0},
};

__attribute__((visibility("default"))) const struct capture *captured(int back) {
    return back ? &capture_return : &capture_call;
}
