/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum by the instructions that arm64 has for it. */
#include "trace/crc32.h"
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <string.h>
#include <sys/auxv.h>

__attribute__((target("+crc"))) static uint32_t add_words(uint32_t crc, const uint8_t *data, size_t size) {
    for (uint64_t word; size >= sizeof word; data += sizeof word, size -= sizeof word) {
        memcpy(&word, data, sizeof word);
        crc = __crc32d(crc, word);
    }
    return crc;
}

size_t ct_crc32_fast(uint32_t *crc, const uint8_t *data, size_t size) {
    if (!(getauxval(AT_HWCAP) & HWCAP_CRC32))
        return 0;
    size &= ~(size_t)7;
    *crc = add_words(*crc, data, size);
    return size;
}
