/* SPDX-License-Identifier: Apache-2.0 */
/* libm: every common function over a range, printed exactly. */
#include "workload.h"
#include <complex.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>

typedef double function(double);

static const struct {
    const char *name;
    function *f;
    double low, high;
} functions[] = {
    {"sin", sin, -100, 100},     {"cos", cos, -100, 100},   {"tan", tan, -1, 1},      {"asin", asin, -1, 1},
    {"acos", acos, -1, 1},       {"atan", atan, -50, 50},   {"exp", exp, -30, 30},    {"exp2", exp2, -30, 30},
    {"expm1", expm1, -5, 5},     {"log", log, 0.001, 1000}, {"log2", log2, 0.001, 9}, {"log10", log10, 0.001, 9},
    {"log1p", log1p, -0.5, 5},   {"sqrt", sqrt, 0, 1000},   {"cbrt", cbrt, -9, 9},    {"sinh", sinh, -5, 5},
    {"cosh", cosh, -5, 5},       {"tanh", tanh, -5, 5},     {"asinh", asinh, -5, 5},  {"acosh", acosh, 1, 50},
    {"atanh", atanh, -0.9, 0.9}, {"erf", erf, -3, 3},       {"erfc", erfc, -3, 3},    {"tgamma", tgamma, 0.1, 20},
    {"lgamma", lgamma, 0.1, 50}, {"j0", j0, 0, 20},         {"y1", y1, 0.1, 20},      {"floor", floor, -9, 9},
    {"ceil", ceil, -9, 9},       {"rint", rint, -9, 9},     {"round", round, -9, 9},  {"trunc", trunc, -9, 9},
};

void workload_math(int scale) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        double sum = 0;
        int steps = scale * 200;
        for (int k = 0; k <= steps; k++)
            sum += functions[i].f(functions[i].low + (functions[i].high - functions[i].low) * k / steps);
        printf("%s %a\n", functions[i].name, sum);
    }
    double sum = 0;
    long double long_sum = 0;
    float short_sum = 0;
    for (int k = 1; k < scale * 300; k++) {
        int exponent;
        double whole;
        sum += pow(1.001, k) + atan2(k, 3) + fmod(k, 0.7) + hypot(k, k + 1) + frexp(k, &exponent) +
               modf(k / 3.0, &whole) + ldexp(k, -k % 10) + fma(k, 0.1, 0.2) + remainder(k, 0.9) + nextafter(k, 0);
        long_sum += sinl((long double)k) + powl(1.0001L, k) + expl(-0.01L * k);
        short_sum += sinf((float)k) + powf(1.0001f, (float)k) + logf((float)k);
    }
    printf("pow and others %a %La %a\n", sum, long_sum, (double)short_sum);
    double complex z = cexp(0.5 + 0.25 * I) + csqrt(-2 + 0.1 * I) + cpow(1 + 2 * I, 0.3);
    printf("complex %a %a\n", creal(z), cimag(z));
    fesetround(FE_DOWNWARD);
    volatile double third = 3;
    printf("rounded down %a %ld\n", 1 / third, lrint(2.7));
    fesetround(FE_TONEAREST);
}
