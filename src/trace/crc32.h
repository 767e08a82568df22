/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32 as in IEEE 802.3 (zlib's): "123456789" gives 0xcbf43926. */
#ifndef CT_TRACE_CRC32_H
#define CT_TRACE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues from the checksum of the bytes before (0 at the start). Any thread. */
uint32_t ct_crc32(uint32_t crc, const void *data, size_t size);

/* How a checksum changes when bytes are changed by an exclusive or with `changes` and `bytes` more follow: the new
 * checksum is the old one ^ ct_crc32_shift(ct_crc32_difference(changes, size), bytes that follow). */
uint32_t ct_crc32_difference(const void *changes, size_t size);
uint32_t ct_crc32_shift(uint32_t difference, uint64_t bytes);

/* Per instruction set: processes as many bytes as it can do faster than tables and returns how many. *crc is the
 * inverted checksum. */
size_t ct_crc32_fast(uint32_t *crc, const uint8_t *data, size_t size);
/* The checksum by tables, for any machine. */
uint32_t ct_crc32_slow(uint32_t crc, const uint8_t *data, size_t size);

#endif
