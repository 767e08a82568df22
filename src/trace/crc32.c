/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of events, by tables, 16 bytes in each step: table[k][b] is the remainder of byte b followed by k zero
 * bytes, so the 16 lookups of a step do not depend on each other. The only state is the tables, which are made once. */
#include "trace/crc32.h"
#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0xedb88320u /* bits reversed */

static uint32_t table[16][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < 16; k++)
        for (uint32_t b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
}

static inline uint32_t look_up_four(uint32_t word, int k) {
    return table[k + 3][word & 255] ^ table[k + 2][word >> 8 & 255] ^ table[k + 1][word >> 16 & 255] ^
           table[k][word >> 24];
}

uint32_t ct_crc32_slow(uint32_t crc, const uint8_t *p, size_t size) {
    pthread_once(&once, make_tables);
    for (; size >= 16; size -= 16, p += 16) {
        uint32_t words[4];
        memcpy(words, p, sizeof words);
        crc = look_up_four(words[0] ^ crc, 12) ^ look_up_four(words[1], 8) ^ look_up_four(words[2], 4) ^
              look_up_four(words[3], 0);
    }
    for (; size; size--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return crc;
}

uint32_t ct_crc32(uint32_t crc, const void *data, size_t size) {
    crc = ~crc;
    size_t done = ct_crc32_fast(&crc, data, size);
    return ~ct_crc32_slow(crc, (const uint8_t *)data + done, size - done);
}
