/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow. The first failure to grow is kept; what is put after it is dropped. One owner. */
#ifndef CT_EXPORT_BYTES_H
#define CT_EXPORT_BYTES_H

#include "base/grow.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct ct_bytes {
    uint8_t *at;
    size_t used, room;
    bool no_memory;
};

/* Room for `count` bytes at the end, which the caller fills; NULL: out of memory. */
static inline uint8_t *ct_bytes_add(struct ct_bytes *b, size_t count) {
    if (b->no_memory || (count && !ct_grow(&b->at, &b->room, b->used + count - 1, 1, 4096))) {
        b->no_memory = true;
        return NULL;
    }
    b->used += count;
    return b->at + b->used - count;
}

static inline void ct_bytes_put(struct ct_bytes *b, const void *bytes, size_t count) {
    uint8_t *to = ct_bytes_add(b, count);
    if (to && count)
        memcpy(to, bytes, count);
}

static inline void ct_bytes_byte(struct ct_bytes *b, uint8_t byte) {
    ct_bytes_put(b, &byte, 1);
}

/* LEB128 */
static inline void ct_bytes_varint(struct ct_bytes *b, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        ct_bytes_byte(b, (uint8_t)(value | 0x80));
    ct_bytes_byte(b, (uint8_t)value);
}

static inline void ct_bytes_zigzag(struct ct_bytes *b, int64_t value) {
    ct_bytes_varint(b, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static inline void ct_bytes_u32(struct ct_bytes *b, uint32_t value) {
    ct_bytes_put(b, &value, sizeof value); /* little-endian, as all our machines are */
}

static inline void ct_bytes_free(struct ct_bytes *b) {
    free(b->at);
    *b = (struct ct_bytes){0};
}

#endif
