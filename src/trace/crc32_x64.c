/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum by carry-less multiplication: each step folds four lanes of 16 bytes 64 bytes ahead. Below: remainders
 * of powers of x, bits reversed, and the polynomial and its inverse for the final reduction. */
#include "trace/crc32.h"
#include <immintrin.h>

#define FOLD_512 0x1c6e41596ll, 0x154442bd4ll /* x^(512-32), x^(512+32) */
#define FOLD_128 0x0ccaa009ell, 0x1751997d0ll /* x^(128-32), x^(128+32) */
#define FOLD_64  0x163cd6124ll                /* x^64 */
#define REDUCE   0x1f7011641ll, 0x1db710641ll /* inverse, polynomial */

#define CLMUL    __attribute__((target("pclmul,sse4.1")))

static inline CLMUL __m128i load(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)p);
}

static inline CLMUL __m128i fold(__m128i x, __m128i by, __m128i next) {
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)), next);
}

static inline CLMUL uint32_t reduce(__m128i x) {
    const __m128i low32 = _mm_setr_epi32(-1, 0, 0, 0), by = _mm_set_epi64x(REDUCE);
    x = _mm_xor_si128(_mm_clmulepi64_si128(x, _mm_set_epi64x(FOLD_128), 0x10), _mm_srli_si128(x, 8));
    x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low32), _mm_set_epi64x(0, FOLD_64), 0x00),
                      _mm_srli_si128(x, 4));
    __m128i t = _mm_clmulepi64_si128(_mm_and_si128(x, low32), by, 0x10);
    t = _mm_clmulepi64_si128(_mm_and_si128(t, low32), by, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, t), 1);
}

static CLMUL uint32_t fold_all(uint32_t crc, const uint8_t *p, size_t size) {
    const __m128i by512 = _mm_set_epi64x(FOLD_512), by128 = _mm_set_epi64x(FOLD_128);
    __m128i a = _mm_xor_si128(load(p), _mm_cvtsi32_si128((int)crc)), b = load(p + 16), c = load(p + 32),
            d = load(p + 48);
    for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
        a = fold(a, by512, load(p));
        b = fold(b, by512, load(p + 16));
        c = fold(c, by512, load(p + 32));
        d = fold(d, by512, load(p + 48));
    }
    a = fold(fold(fold(a, by128, b), by128, c), by128, d);
    for (; size >= 16; p += 16, size -= 16)
        a = fold(a, by128, load(p));
    return reduce(a);
}

size_t ct_crc32_fast(uint32_t *crc, const uint8_t *data, size_t size) {
    if (size < 64 || !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1"))
        return 0;
    size &= ~(size_t)15;
    *crc = fold_all(*crc, data, size);
    return size;
}
