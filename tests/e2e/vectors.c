/* SPDX-License-Identifier: Apache-2.0 */
/* x87, SSE, AVX and AVX-512 arguments and results (arm64: those in q registers), rounding modes and exception flags,
 * through hooks whose listeners destroy all of that state.
 *
 * An engine can go wrong here by saving too little (ymm and zmm uppers, mask registers, a result on the x87 stack), by
 * running a C listener on a filled x87 stack, and by leaking the listener's floating point flags into the program. */
#include "harness.h"
#include <complex.h>
#include <fenv.h>
#ifdef __x86_64__
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif
#include <string.h>

static E2E_FN float add_float(float a, float b) {
    return a + b;
}

static E2E_FN double add_double(double a, double b) {
    return a + b;
}

static E2E_FN long double add_long(long double a, long double b) {
    return a + b;
}

static E2E_FN double complex turn(double complex z) {
    return z * I;
}

static E2E_FN long double complex turn_long(long double complex z) { /* st(0) and st(1) */
    return z * I;
}

#ifdef __x86_64__
static E2E_FN __m128 add_m128(__m128 a, __m128 b) {
    return _mm_add_ps(a, b);
}

/* Two eightbytes in xmm0, and the mmx class */
static E2E_FN __m128i mix_m128(__m128i a, long b, __m128i c) {
    return _mm_add_epi64(_mm_xor_si128(a, c), _mm_set1_epi64x(b));
}

__attribute__((target("avx"))) static E2E_FN __m256d add_m256(__m256d a, __m256d b) {
    return _mm256_add_pd(a, b);
}

/* Nine vectors: the last on the stack */
__attribute__((target("avx"))) static E2E_FN __m256d many_m256(__m256d a, __m256d b, __m256d c, __m256d d, __m256d e,
                                                               __m256d f, __m256d g, __m256d h, __m256d i) {
    __m256d sum = _mm256_add_pd(_mm256_add_pd(a, b), _mm256_add_pd(c, d));
    sum = _mm256_add_pd(sum, _mm256_add_pd(_mm256_add_pd(e, f), _mm256_add_pd(g, h)));
    return _mm256_add_pd(sum, _mm256_mul_pd(i, i));
}

__attribute__((target("avx512f"))) static E2E_FN __m512i add_m512(__m512i a, __m512i b) {
    return _mm512_add_epi64(a, b);
}

static void check_vectors(void) {
    __m128 v = add_m128(_mm_setr_ps(1, 2, 3, 4), _mm_set1_ps(10));
    E2E_CHECK(v[0] == 11 && v[1] == 12 && v[2] == 13 && v[3] == 14);
    __m128i x = mix_m128(_mm_set_epi64x(8, 1), 100, _mm_set_epi64x(1, 2));
    E2E_CHECK(_mm_cvtsi128_si64(x) == 103 && _mm_extract_epi16(x, 4) == 109);
}
#else
static E2E_FN float32x4_t add_m128(float32x4_t a, float32x4_t b) {
    return vaddq_f32(a, b);
}

/* Four vectors in q0 to q3, and back: a homogeneous aggregate */
static E2E_FN float64x2x4_t mix_m128(float64x2x4_t a, long b, double c) {
    for (int i = 0; i < 4; i++)
        a.val[i] = vaddq_f64(a.val[i], vdupq_n_f64((double)b + c));
    return a;
}

/* Nine vectors: the last on the stack */
static E2E_FN float32x4_t many_m128(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d, float32x4_t e,
                                    float32x4_t f, float32x4_t g, float32x4_t h, float32x4_t i) {
    float32x4_t sum = vaddq_f32(vaddq_f32(a, b), vaddq_f32(c, d));
    sum = vaddq_f32(sum, vaddq_f32(vaddq_f32(e, f), vaddq_f32(g, h)));
    return vaddq_f32(sum, vmulq_f32(i, i));
}

static void check_vectors(void) {
    static const float counted[4] = {1, 2, 3, 4};
    float32x4_t a = vld1q_f32(counted), v = add_m128(a, vdupq_n_f32(10));
    E2E_CHECK(v[0] == 11 && v[1] == 12 && v[2] == 13 && v[3] == 14);
    float64x2x4_t x = {{vdupq_n_f64(1), vdupq_n_f64(2), vdupq_n_f64(3), vdupq_n_f64(4)}};
    x = mix_m128(x, 100, 0.5);
    E2E_CHECK(x.val[0][0] == 101.5 && x.val[1][1] == 102.5 && x.val[2][0] == 103.5 && x.val[3][1] == 104.5);
}

static void check_many(void) {
    static const float counted[4] = {1, 2, 3, 4};
    float32x4_t a = vld1q_f32(counted), sum = many_m128(a, a, a, a, a, a, a, a, a);
    E2E_CHECK(sum[0] == 9 && sum[1] == 20 && sum[2] == 33 && sum[3] == 48);
}
#endif

static void check_scalars(void) {
    E2E_CHECK(add_float(1.5f, 2.25f) == 3.75f);
    E2E_CHECK(add_double(1.5, 1e300) == 1.5 + 1e300);
    volatile long double tiny = 1e-4000L;
    E2E_CHECK(add_long(tiny, tiny) == 2 * tiny);
    double complex z = turn(3 + 4 * I);
    E2E_CHECK(creal(z) == -4 && cimag(z) == 3);
    long double complex w = turn_long(5.0L + 6.0L * I);
    E2E_CHECK(creall(w) == -6 && cimagl(w) == 5);
    check_vectors();
}

/* x87 registers that are live in the caller across nothing: the stack must be empty again after each call. */
static void check_x87_stack(void) {
    long double sum = 0;
    for (int i = 0; i < 64; i++) /* a leak of one register would show after eight */
        sum = add_long(sum, i);
    E2E_CHECK(sum == 2016);
}

static void check_modes(void) {
    volatile double third = 3, one = 1;
    fesetround(FE_UPWARD);
    double up = add_double(1, 1e-30);
    long double up_long = add_long(1, 1e-40L);
    E2E_CHECK(fegetround() == FE_UPWARD);
    E2E_CHECK(up > 1);
    E2E_CHECK(up_long > 1);
    fesetround(FE_TONEAREST);
    feclearexcept(FE_ALL_EXCEPT);
    E2E_CHECK(add_double(1, 2) == 3);
    E2E_EQUAL(fetestexcept(FE_ALL_EXCEPT), 0);
    one = one / third;
    E2E_EQUAL(fetestexcept(FE_ALL_EXCEPT), FE_INEXACT);
    E2E_CHECK(add_double(4, 2) == 6);
    E2E_EQUAL(fetestexcept(FE_ALL_EXCEPT), FE_INEXACT);
    feclearexcept(FE_ALL_EXCEPT);
}

#ifdef __x86_64__
__attribute__((target("avx"))) static void check_avx(void) {
    __m256d a = _mm256_setr_pd(1, 2, 3, 4);
    __m256d sum = add_m256(a, _mm256_set1_pd(0.5));
    E2E_CHECK(sum[0] == 1.5 && sum[1] == 2.5 && sum[2] == 3.5 && sum[3] == 4.5);
    sum = many_m256(a, a, a, a, a, a, a, a, a);
    E2E_CHECK(sum[0] == 9 && sum[1] == 20 && sum[2] == 33 && sum[3] == 48);
}

__attribute__((target("avx512f"))) static void check_avx512(void) {
    long long out[8], want[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    __m512i a = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    __m512i b = _mm512_setr_epi64(1, 2, 3, 4, 5, 6, 7, 8);
    _mm512_storeu_si512(out, add_m512(a, b));
    E2E_CHECK(memcmp(out, want, sizeof out) == 0);
}

static void check_more(void) {
    if (__builtin_cpu_supports("avx")) {
        check_avx();
        E2E_EXPECT("add_m256() many_m256()");
    }
    if (__builtin_cpu_supports("avx512f")) {
        check_avx512();
        E2E_EXPECT("add_m512()");
    }
}

static void record_more(void) {
    E2E_RECORD(add_m256);
    E2E_RECORD(many_m256);
    E2E_RECORD(add_m512);
}
#else
static void check_more(void) {
    check_many();
    E2E_EXPECT("many_m128()");
}

static void record_more(void) {
    E2E_RECORD(many_m128);
}
#endif

/* The harness's own listener destroys everything; this one also counts on a working floating point unit. */
static double listener_sum;
static long double listener_long_sum;
static void use_floats(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    (void)call;
    volatile double three = 3;
    volatile long double seven = 7;
    listener_sum += 1.0 / three; /* inexact */
    listener_long_sum += 1.0L / seven;
    volatile double zero = 0;
    volatile double infinite = three / zero; /* division by zero */
    (void)infinite;
    e2e_clobber();
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    struct ct_hook_listener floats = {.size = sizeof floats, .on_call = use_floats, .on_return = use_floats};
    if (!e2e_plain())
        e2e_name(ct_hooks_attach(e2e_hooks, (void *)add_long, &floats, NULL), "add_long");
    E2E_RECORD(add_float);
    E2E_RECORD(add_double);
    E2E_RECORD(turn);
    E2E_RECORD(turn_long);
    E2E_RECORD(add_m128);
    E2E_RECORD(mix_m128);
    record_more();
    check_scalars();
    E2E_EXPECT("add_float() add_double() turn() turn_long() add_m128() mix_m128()");
    check_x87_stack();
    check_modes();
    E2E_EXPECT("add_double()*3");
    if (!e2e_plain())
        E2E_CHECK(listener_sum > 43.3 && listener_sum < 44.1 && listener_long_sum > 18.5L && listener_long_sum < 19);
    check_more();
    return e2e_end();
}
