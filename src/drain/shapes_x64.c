/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes with AVX-512, eight events in each step; processors without it do them one by one.
 *
 * Which of the eight are calls is a number of eight bits. It decides which call each return ends, one of the eight or
 * one that was open before, and which of the calls stay open: a table has that for each of the 256 numbers. What each
 * return expects then comes from one permutation, and the calls that stay open go to the arrays by one compression.
 * Nothing is stored before all of the group is known to be right. */
#include "drain/shapes.h"
#include "abi/event.h"
#include <immintrin.h>
#include <pthread.h>

#define GROUP   CT_DRAIN_SHAPES
#define ALL     0xffu
#define VECTORS __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,bmi2,popcnt")))
#define RETURNS ((uint64_t)(CT_EVENT_RETURN - CT_EVENT_CALL) << 32) /* from a call's word to its return's */
#define TWO     (1u << 16)                                          /* in ct_pack_code.bytes: there are two */

_Static_assert(sizeof(struct ct_event) == 16 && offsetof(struct ct_event, hook) == 8, "words are the odd ones");
_Static_assert(sizeof(struct ct_pack_code) == 16 && offsetof(struct ct_pack_code, key) == 8 &&
                   offsetof(struct ct_pack_code, bytes) == 12,
               "one word has key and bytes");

/* By number. A return ends the call at `ends`: 0 to 7 are calls of the group, 15 is the innermost one that was open
 * before it, 14 the next one. */
static struct pattern { uint8_t ends[GROUP]; } patterns[256];
static uint8_t stay_open[256], popped[256]; /* which calls of the group; how many of those before it end */

static void make_pattern(unsigned calls) {
    unsigned open[GROUP], count = 0, mask = 0;
    for (unsigned i = 0; i < GROUP; i++) {
        if (calls >> i & 1)
            open[count++] = i;
        else if (count)
            patterns[calls].ends[i] = (uint8_t)open[--count];
        else
            patterns[calls].ends[i] = (uint8_t)(2 * GROUP - 1 - popped[calls]++);
    }
    while (count)
        mask |= 1u << open[--count];
    stay_open[calls] = (uint8_t)mask;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_vectors;
bool ct_drain_shapes_singly;

static void prepare(void) {
    has_vectors = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    for (unsigned calls = 0; calls < 256; calls++)
        make_pattern(calls);
}

/* Words of eight events. */
static inline VECTORS __m512i load_words(const struct ct_event *e) {
    const __m512i odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    return _mm512_permutex2var_epi64(_mm512_loadu_si512(e), odd, _mm512_loadu_si512(e + 4));
}

/* Writes the bytes of a group of which some have two. */
static VECTORS uint8_t *put_each(uint8_t *shape, __m512i bytes) {
    uint64_t each[GROUP];
    _mm512_storeu_si512(each, bytes);
    for (unsigned i = 0; i < GROUP; i++) {
        memcpy(shape, &each[i], 2);
        shape += 1 + (each[i] >> 16);
    }
    return shape;
}

/* What the eight innermost open calls expect, the innermost one last; 0 where the drain knows another call. */
static inline VECTORS __m512i load_expected(const struct ct_drain_shapes *s) {
    __mmask8 there = (__mmask8)(s->used < GROUP ? ALL << (GROUP - s->used) : ALL);
    __m512i expected = _mm512_maskz_loadu_epi64(there, s->expected + s->used - (GROUP - 1));
    __m512i hooks = _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(there, s->hooks + s->used - (GROUP - 1)));
    __m512i low = _mm512_and_si512(expected, _mm512_set1_epi64(UINT32_MAX));
    return _mm512_maskz_mov_epi64(_mm512_cmpeq_epi64_mask(low, hooks), expected);
}

static inline VECTORS void put_open(struct ct_drain_shapes *s, unsigned calls, __m512i ends) {
    __mmask8 open = stay_open[calls], first = (__mmask8)((1u << __builtin_popcount(open)) - 1);
    size_t used = s->used - popped[calls];
    __m512i left = _mm512_maskz_compress_epi64(open, ends);
    _mm512_mask_storeu_epi64(s->expected + used + 1, first, left);
    _mm256_mask_storeu_epi32(s->hooks + used + 1, first, _mm512_cvtepi64_epi32(left));
    s->low = used < s->low ? used : s->low;
    s->used = used + (unsigned)__builtin_popcount(open);
}

/* Takes a group; false: one of its events is another kind of event. */
static inline VECTORS bool put_group(struct ct_drain_shapes *s, __m512i words) {
    const __m512i kinds = _mm512_srli_epi64(words, 32);
    __mmask8 calls = _mm512_cmpeq_epi64_mask(kinds, _mm512_set1_epi64(CT_EVENT_CALL));
    __mmask8 returns = _mm512_cmpeq_epi64_mask(kinds, _mm512_set1_epi64(CT_EVENT_RETURN));
    __m512i places = _mm512_and_si512(words, _mm512_set1_epi64(CT_PACK_CODES - 1));
    __m512i codes = _mm512_i64gather_epi64(_mm512_add_epi64(places, places), &s->codes->key, 8);
    __m512i differ = _mm512_slli_epi64(_mm512_xor_si512(codes, words), 32);
    __m512i ends = _mm512_add_epi64(words, _mm512_set1_epi64(RETURNS));
    __m512i which = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)&patterns[calls]));
    __m512i expected = _mm512_permutex2var_epi64(ends, which, load_expected(s));
    __mmask8 good =
        _mm512_mask_cmpeq_epi64_mask(returns, expected, words) | _mm512_mask_testn_epi64_mask(calls, differ, differ);
    if (__builtin_expect(good != ALL, 0))
        return false;
    __m512i bytes = _mm512_maskz_srli_epi64(calls, codes, 32);
    if (__builtin_expect(_mm512_test_epi64_mask(bytes, _mm512_set1_epi64(TWO)), 0)) {
        s->shape = put_each(s->shape, bytes);
    } else {
        _mm_storel_epi64((__m128i *)s->shape, _mm512_cvtepi64_epi8(bytes));
        s->shape += GROUP;
    }
    put_open(s, calls, ends);
    s->call = calls >> (GROUP - 1);
    return true;
}

static VECTORS size_t put_groups(struct ct_drain_shapes *to, const struct ct_event *events, size_t count,
                                 uint64_t number, uint64_t step) {
    struct ct_drain_shapes s = *to;
    __m512i numbers = _mm512_add_epi64(
        _mm512_set1_epi64((long long)number),
        _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64((long long)step)));
    const __m512i more = _mm512_set1_epi64((long long)(GROUP * step));
    size_t done = 0;
    for (; done + GROUP <= count && put_group(&s, _mm512_sub_epi64(load_words(events + done), numbers)); done += GROUP)
        numbers = _mm512_add_epi64(numbers, more);
    *to = s;
    return done;
}

size_t ct_drain_put_shapes(struct ct_drain_shapes *s, const struct ct_event *events, size_t count, uint64_t number,
                           uint64_t step) {
    (void)pthread_once(&once, prepare);
    return has_vectors && !ct_drain_shapes_singly ? put_groups(s, events, count, number, step) : 0;
}
