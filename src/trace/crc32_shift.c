/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of bytes that are changed in the middle: the effect of a change on the remainder, moved over the bytes that
 * follow.
 *
 * A remainder is a polynomial whose highest power is bit 0. One byte of distance is a multiplication by x^8. */
#include "trace/crc32.h"
#include <pthread.h>

#define POLYNOMIAL 0xedb88320u /* bits reversed */
#define ONE        0x80000000u /* x^0 */

static uint32_t powers[64]; /* x^(8 * 2^k) */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (; a; a <<= 1) { /* from x^0 upward */
        if (a & ONE)
            product ^= b;
        b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
    }
    return product;
}

static void make_powers(void) {
    powers[0] = ONE >> 8;
    for (int k = 1; k < 64; k++)
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
}

uint32_t ct_crc32_shift(uint32_t difference, uint64_t bytes) {
    pthread_once(&once, make_powers);
    for (int k = 0; bytes && difference; bytes >>= 1, k++)
        if (bytes & 1)
            difference = multiply(difference, powers[k]);
    return difference;
}

uint32_t ct_crc32_difference(const void *changes, size_t size) {
    uint32_t difference = 0;
    size_t done = ct_crc32_fast(&difference, changes, size);
    return ct_crc32_slow(difference, (const uint8_t *)changes + done, size - done);
}
