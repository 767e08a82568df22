/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and return values of every class that travel through a hook, and what a listener reads and writes of them.
 *
 * An engine can go wrong here by moving the stack (arguments seven and up, structures by value), by losing al (the
 * number of vector registers of a variadic call), by losing rdi and rax of a hidden result pointer, and by vector
 * registers that a listener destroys. */
#include "harness.h"
#include <stdarg.h>
#include <string.h>

struct pair {
    long a, b;
}; /* two registers */
struct mixed {
    double d;
    long l;
}; /* xmm0 and rax */
struct floats {
    float f[4];
}; /* xmm0 and xmm1 */
struct big {
    long v[8];
}; /* memory: hidden pointer when returned, stack when passed */
struct odd_size {
    char text[37];
};

static E2E_FN long sum_ints(int count, ...) {
    va_list args;
    va_start(args, count);
    long sum = 0;
    for (int i = 0; i < count; i++)
        sum += va_arg(args, int);
    va_end(args);
    return sum;
}

static E2E_FN double sum_mixed(const char *types, ...) {
    va_list args;
    va_start(args, types);
    double sum = 0;
    for (; *types; types++) {
        if (*types == 'd')
            sum += va_arg(args, double);
        else if (*types == 'L')
            sum += (double)va_arg(args, long double);
        else if (*types == 'p')
            sum += (double)va_arg(args, struct pair).b;
        else
            sum += va_arg(args, int);
    }
    va_end(args);
    return sum;
}

static E2E_FN struct pair make_pair(long a, long b) {
    return (struct pair){a, b};
}

static E2E_FN struct mixed make_mixed(double d, long l) {
    return (struct mixed){d * 2, l * 2};
}

static E2E_FN struct floats make_floats(float a, float b, float c, float d) {
    return (struct floats){{a, b, c, d}};
}

static E2E_FN struct big make_big(long seed) {
    struct big b;
    for (int i = 0; i < 8; i++)
        b.v[i] = seed * i;
    return b;
}

static E2E_FN long sum_big(struct big by_value, long factor, struct pair tail) {
    long sum = 0;
    for (int i = 0; i < 8; i++)
        sum += by_value.v[i];
    by_value.v[0] = -1; /* the callee owns the copy */
    E2E_BARRIER();
    return sum * factor + tail.a * 10 + tail.b;
}

static E2E_FN struct odd_size turn_around(struct odd_size in, int size) {
    struct odd_size out = in;
    for (int i = 0; i < size; i++)
        out.text[i] = in.text[size - 1 - i];
    return out;
}

static E2E_FN long twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k,
                          long l) {
    long all[12] = {a, b, c, d, e, f, g, h, i, j, k, l};
    long value = 0;
    for (int n = 0; n < 12; n++)
        value = value * 3 + all[n];
    return value;
}

static E2E_FN double twelve_doubles(double a, double b, double c, double d, double e, double f, double g, double h,
                                    double i, double j, double k, double l, float m, long double n) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l + (double)m +
           (double)n;
}

static E2E_FN double interleaved(int a, double b, long c, float d, short e, double f, char g, double h, unsigned i,
                                 double j, long k, double l, double m, double n, double o) {
    return a + b * 2 + (double)c * 3 + (double)d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9 + j * 10 + (double)k * 11 +
           l * 12 + m * 13 + n * 14 + o * 15;
}

static E2E_FN __int128 wide(__int128 a, long b, __int128 c) {
    return a * b + c;
}

static E2E_FN _Bool is_odd(unsigned char value) {
    return value & 1;
}

static E2E_FN signed char narrow(int value) {
    return (signed char)value;
}

static void check_results(void) {
    E2E_EQUAL(sum_ints(0), 0);
    E2E_EQUAL(sum_ints(10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 55);
    E2E_CHECK(sum_mixed("dididididididididididi", 1.5, 1, 2.5, 2, 3.5, 3, 4.5, 4, 5.5, 5, 6.5, 6, 7.5, 7, 8.5, 8, 9.5,
                        9, 10.5, 10, 11.5, 11) == 137.5);
    E2E_CHECK(sum_mixed("dLpi", 0.5, 2.25L, (struct pair){1, 7}, 3) == 12.75);
    E2E_CHECK(sum_mixed("iii", 1, 2, 3) == 6); /* al = 0 */
    struct pair p = make_pair(-5, 7);
    E2E_CHECK(p.a == -5 && p.b == 7);
    struct mixed m = make_mixed(1.25, 21);
    E2E_CHECK(m.d == 2.5 && m.l == 42);
    struct floats f = make_floats(1, 2, 3, 4);
    E2E_CHECK(f.f[0] == 1 && f.f[1] == 2 && f.f[2] == 3 && f.f[3] == 4);
    struct big b = make_big(11);
    E2E_EQUAL(b.v[7], 77);
    E2E_EQUAL(sum_big(b, 2, p), 308 * 2 - 50 + 7);
    E2E_EQUAL(b.v[0], 0);
    struct odd_size o = {"the quick brown fox jumps over a dog"};
    E2E_CHECK(strcmp(turn_around(o, 36).text, "god a revo spmuj xof nworb kciuq eht") == 0);
    E2E_EQUAL(twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), 398574);
    E2E_CHECK(twelve_doubles(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0.5f, 0.25L) == 650.75);
    E2E_CHECK(interleaved(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2) == 135);
    __int128 w = wide((__int128)1 << 100, 3, -1);
    E2E_CHECK(w == ((__int128)3 << 100) - 1);
    E2E_CHECK(is_odd(7) && !is_odd(8));
    E2E_EQUAL(narrow(0x1ff), -1);
}

/* ---- what a listener reads and writes ---- */

static long seen_arguments[12];

static void read_arguments(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)call;
    for (unsigned i = 0; i < 12; i++)
        seen_arguments[i] = (long)ct_cpu_argument(cpu, i);
}

static void double_arguments(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)call;
    for (unsigned i = 0; i < 12; i++)
        ct_cpu_set_argument(cpu, i, 2 * ct_cpu_argument(cpu, i));
}

static uint64_t seen_return;
static void change_return(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)call;
    seen_return = ct_cpu_return_value(cpu);
    ct_cpu_set_return_value(cpu, seen_return + 1000);
}

static void check_listeners(void) {
    struct ct_hook_listener reader = {.size = sizeof reader, .on_call = read_arguments};
    struct ct_hook_listener doubler = {.size = sizeof doubler, .on_call = double_arguments, .on_return = change_return};
    int hook = ct_hooks_attach(e2e_hooks, (void *)twelve, &reader, NULL);
    E2E_CHECK(hook >= 0);
    e2e_name(hook, "twelve");
    E2E_EQUAL(twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -12), 398574 - 24);
    for (int i = 0; i < 11; i++)
        E2E_EQUAL(seen_arguments[i], i + 1);
    E2E_EQUAL(seen_arguments[11], -12);
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);

    hook = ct_hooks_attach(e2e_hooks, (void *)twelve, &doubler, NULL);
    E2E_CHECK(hook >= 0);
    e2e_name(hook, "twelve");
    E2E_EQUAL(twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), 2 * 398574 + 1000);
    E2E_EQUAL(seen_return, 2 * 398574);
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
    E2E_EQUAL(twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), 398574);
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    if (!e2e_plain())
        check_listeners();
    E2E_RECORD(sum_ints);
    E2E_RECORD(sum_mixed);
    E2E_RECORD(make_pair);
    E2E_RECORD(make_mixed);
    E2E_RECORD(make_floats);
    E2E_RECORD(make_big);
    E2E_RECORD(sum_big);
    E2E_RECORD(turn_around);
    E2E_RECORD(twelve);
    E2E_RECORD(twelve_doubles);
    E2E_RECORD(interleaved);
    E2E_RECORD(wide);
    E2E_RECORD(is_odd);
    E2E_RECORD(narrow);
    check_results();
    E2E_EXPECT("sum_ints()*2 sum_mixed()*3 make_pair() make_mixed() make_floats() make_big() sum_big() turn_around()"
               "twelve() twelve_doubles() interleaved() wide() is_odd()*2 narrow()");
    return e2e_end();
}
