/* SPDX-License-Identifier: Apache-2.0 */
/* A cursor over untrusted bytes: every read is checked, a read past the end returns zero and sets `bad` permanently.
 *
 * Loops that read until the cursor is empty also end when it is bad, because a bad cursor is empty. */
#ifndef CT_SYMBOLS_READER_H
#define CT_SYMBOLS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the file and the virtual address of the first one. */
struct ct_span {
    const uint8_t *data;
    size_t size;
    uint64_t address;
};

struct ct_reader {
    const uint8_t *at, *end;
    bool bad;
};

static inline struct ct_reader ct_reader_of(const uint8_t *data, size_t size) {
    return (struct ct_reader){.at = data, .end = data + size};
}

static inline size_t ct_reader_left(const struct ct_reader *r) {
    return (size_t)(r->end - r->at);
}

static inline void ct_reader_fail(struct ct_reader *r) {
    r->bad = true;
    r->at = r->end;
}

static inline void ct_reader_skip(struct ct_reader *r, uint64_t size) {
    if (size > ct_reader_left(r))
        ct_reader_fail(r);
    else
        r->at += size;
}

static inline void ct_reader_bytes(struct ct_reader *r, void *out, size_t size) {
    if (size > ct_reader_left(r)) {
        memset(out, 0, size);
        ct_reader_fail(r);
    } else {
        memcpy(out, r->at, size);
        r->at += size;
    }
}

static inline uint8_t ct_reader_u8(struct ct_reader *r) {
    uint8_t v;
    ct_reader_bytes(r, &v, sizeof v);
    return v;
}

static inline uint16_t ct_reader_u16(struct ct_reader *r) {
    uint16_t v;
    ct_reader_bytes(r, &v, sizeof v);
    return v;
}

static inline uint32_t ct_reader_u32(struct ct_reader *r) {
    uint32_t v;
    ct_reader_bytes(r, &v, sizeof v);
    return v;
}

static inline uint64_t ct_reader_u64(struct ct_reader *r) {
    uint64_t v;
    ct_reader_bytes(r, &v, sizeof v);
    return v;
}

/* Bits beyond the 64th are dropped, as every consumer of LEB128 does. */
static inline uint64_t ct_reader_uleb(struct ct_reader *r) {
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = ct_reader_u8(r);
        if (shift < 64)
            v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return v;
    }
}

static inline int64_t ct_reader_sleb(struct ct_reader *r) {
    uint64_t v = 0;
    for (unsigned shift = 0;;) {
        uint8_t byte = ct_reader_u8(r);
        if (shift < 64)
            v |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte & 0x80)
            continue;
        if (shift < 64 && (byte & 0x40))
            v |= ~UINT64_C(0) << shift;
        return (int64_t)v;
    }
}

#endif
