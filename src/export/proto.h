/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf messages, encoded by hand: a message is built in a small buffer, then put into another message or into the
 * output, after its length. Texts are cut to CT_PROTO_TEXT bytes. A message has room for four texts and some numbers;
 * what does not fit is left out, so a message with more texts needs a larger CT_PROTO_ROOM. */
#ifndef CT_EXPORT_PROTO_H
#define CT_EXPORT_PROTO_H

#include "export/out.h"

enum { CT_PROTO_TEXT = 4096, CT_PROTO_ROOM = 4 * CT_PROTO_TEXT + 1024 };

struct ct_proto {
    size_t used;
    uint8_t bytes[CT_PROTO_ROOM];
};

static inline size_t ct_proto_varint(uint8_t *to, uint64_t value) {
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        to[n++] = (uint8_t)(value | 0x80);
    to[n++] = (uint8_t)value;
    return n;
}

static inline void ct_proto_number(struct ct_proto *p, uint32_t field, uint64_t value) {
    if (p->used + 20 > CT_PROTO_ROOM)
        return;
    p->used += ct_proto_varint(p->bytes + p->used, field << 3);
    p->used += ct_proto_varint(p->bytes + p->used, value);
}

static inline void ct_proto_bytes(struct ct_proto *p, uint32_t field, const void *bytes, size_t count) {
    if (p->used + 20 + count > CT_PROTO_ROOM)
        return;
    p->used += ct_proto_varint(p->bytes + p->used, field << 3 | 2);
    p->used += ct_proto_varint(p->bytes + p->used, count);
    memcpy(p->bytes + p->used, bytes, count);
    p->used += count;
}

static inline void ct_proto_double(struct ct_proto *p, uint32_t field, double value) {
    if (p->used + 20 > CT_PROTO_ROOM)
        return;
    p->used += ct_proto_varint(p->bytes + p->used, field << 3 | 1);
    memcpy(p->bytes + p->used, &value, 8); /* little-endian, as all our machines are */
    p->used += 8;
}

/* Writes a string field: UTF-8, with '?' for other bytes, at most CT_PROTO_TEXT bytes. */
void ct_proto_text(struct ct_proto *p, uint32_t field, const char *text);

static inline void ct_proto_message(struct ct_proto *p, uint32_t field, const struct ct_proto *inner) {
    ct_proto_bytes(p, field, inner->bytes, inner->used);
}

/* Writes the message after its length; with a field number, as an element of that field of the whole file. */
void ct_proto_put(struct ct_out *out, uint32_t field, const struct ct_proto *message);

#endif
