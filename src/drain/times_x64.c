/* SPDX-License-Identifier: Apache-2.0 */
/* Times with SSE2, which every x86_64 has: four events in each step, sixteen in a group.
 *
 * The result must be what ct_clock_ns gives, to the last bit: detail records of an event get their time from it. So the
 * operations are the same ones: the distance as a double, times the rate, cut off. A distance that does not fit into
 * 32 bits, or becomes more than a second (so that no difference overflows), ends the group. */
#include "drain/times.h"
#include "trace/packed_columns.h"
#include <emmintrin.h>
#include <stdbool.h>

#define LIMIT_BITS 30 /* of ns, either way */

/* The distances of two events from the clock's newest point. */
static inline __m128i two_distances(const struct ct_event *e, __m128i newest) {
    __m128i both = _mm_loadl_epi64((const __m128i *)&e[0].timestamp);
    both = _mm_castpd_si128(_mm_loadh_pd(_mm_castsi128_pd(both), (const double *)&e[1].timestamp));
    return _mm_sub_epi64(both, newest);
}

/* Distances of four events in ns. *fit: all ones for each that is right. */
static inline __m128i four_offsets(const struct ct_event *e, __m128i newest, __m128d rate, __m128i *fit) {
    __m128 a = _mm_castsi128_ps(two_distances(e, newest)), b = _mm_castsi128_ps(two_distances(e + 2, newest));
    __m128i low = _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)));
    __m128i high = _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
    *fit = _mm_and_si128(*fit, _mm_cmpeq_epi32(_mm_srai_epi32(low, 31), high));
    __m128d first = _mm_cvtepi32_pd(low), second = _mm_cvtepi32_pd(_mm_shuffle_epi32(low, _MM_SHUFFLE(1, 0, 3, 2)));
    __m128i ns =
        _mm_unpacklo_epi64(_mm_cvttpd_epi32(_mm_mul_pd(first, rate)), _mm_cvttpd_epi32(_mm_mul_pd(second, rate)));
    *fit = _mm_and_si128(*fit, _mm_cmpeq_epi32(_mm_srai_epi32(ns, 31), _mm_srai_epi32(ns, LIMIT_BITS)));
    return ns;
}

/* Each minus the one before it; `before` has that of the first one at its end. */
static inline __m128i differences(__m128i before, __m128i offsets) {
    __m128i shifted = _mm_or_si128(_mm_slli_si128(offsets, 4), _mm_srli_si128(before, 12));
    return _mm_sub_epi32(offsets, shifted);
}

static inline bool all_set(__m128i mask) {
    return _mm_movemask_epi8(mask) == 0xffff;
}

/* Which of the differences take two bytes? One bit for each. */
static inline unsigned wide_ones(__m128i bytes) {
    const __m128i limit = _mm_set1_epi8((char)CTP_TIME_SHORT);
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(bytes, limit), bytes));
}

/* The group has one difference of two bytes, number k. With the fast clock most groups are so. */
static inline uint8_t *put_one_wide(uint8_t *time, __m128i bytes, unsigned k, uint32_t wide) {
    const __m128i numbers = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m128i before = _mm_cmplt_epi8(numbers, _mm_set1_epi8((char)k));
    __m128i moved = _mm_or_si128(_mm_and_si128(before, bytes), _mm_andnot_si128(before, _mm_slli_si128(bytes, 1)));
    _mm_storeu_si128((__m128i *)time, moved);
    time[CT_DRAIN_TIMES] = (uint8_t)(_mm_extract_epi16(bytes, 7) >> 8);
    (void)ct_pack_time(time + k, wide);
    return time + CT_DRAIN_TIMES + 1;
}

static inline uint8_t *put_group(uint8_t *time, const __m128i *delta) {
    __m128i bytes = _mm_packus_epi16(_mm_packs_epi32(delta[0], delta[1]), _mm_packs_epi32(delta[2], delta[3]));
    unsigned wide = wide_ones(bytes);
    uint32_t each[CT_DRAIN_TIMES];
    if (!wide) {
        _mm_storeu_si128((__m128i *)time, bytes);
        return time + CT_DRAIN_TIMES;
    }
    for (int i = 0; i < 4; i++)
        _mm_storeu_si128((__m128i *)(each + 4 * i), delta[i]);
    unsigned first = (unsigned)__builtin_ctz(wide);
    if (!(wide & (wide - 1)))
        return put_one_wide(time, bytes, first, each[first]);
    for (unsigned i = 0; i < CT_DRAIN_TIMES; i++)
        time = ct_pack_time(time, each[i]);
    return time;
}

size_t ct_drain_put_times(const struct ct_clock *clock, const struct ct_event *events, size_t count, uint8_t **time,
                          uint64_t *last_ns) {
    const __m128i newest = _mm_set1_epi64x((long long)clock->newest.counter), below = _mm_set1_epi32(-1),
                  limit = _mm_set1_epi32(CT_PACK_LONG_TIME);
    const __m128d rate = _mm_set1_pd(clock->rate);
    int64_t last = (int64_t)(*last_ns - clock->newest.ns);
    size_t done = 0;
    if (last < -(1 << LIMIT_BITS) || last >= 1 << LIMIT_BITS)
        return 0;
    __m128i before = _mm_set1_epi32((int32_t)last);
    for (; done + CT_DRAIN_TIMES <= count; done += CT_DRAIN_TIMES) {
        const struct ct_event *e = events + done;
        __m128i fit = below, delta[4], end = before;
        for (int i = 0; i < 4; i++) {
            __m128i offsets = four_offsets(e + 4 * i, newest, rate, &fit);
            delta[i] = differences(end, offsets);
            end = offsets;
            fit = _mm_and_si128(fit, _mm_and_si128(_mm_cmpgt_epi32(delta[i], below), _mm_cmplt_epi32(delta[i], limit)));
        }
        if (!all_set(fit))
            break;
        *time = put_group(*time, delta);
        before = end;
    }
    if (done)
        *last_ns = clock->newest.ns + (uint64_t)(int64_t)_mm_cvtsi128_si32(_mm_shuffle_epi32(before, 0xff));
    return done;
}
