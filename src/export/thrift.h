/* SPDX-License-Identifier: Apache-2.0 */
/* Thrift's compact protocol, as far as the headers of Parquet files need it.
 *
 * A struct is written field by field, in the order of their numbers; `last` is the number of the field before, which
 * the caller keeps for each struct (0 at its beginning). ct_thrift_stop ends a struct. */
#ifndef CT_EXPORT_THRIFT_H
#define CT_EXPORT_THRIFT_H

#include "export/bytes.h"

enum ct_thrift_type {
    CT_THRIFT_TRUE = 1,
    CT_THRIFT_FALSE = 2,
    CT_THRIFT_I8 = 3,
    CT_THRIFT_I16 = 4,
    CT_THRIFT_I32 = 5,
    CT_THRIFT_I64 = 6,
    CT_THRIFT_BINARY = 8,
    CT_THRIFT_LIST = 9,
    CT_THRIFT_STRUCT = 12,
};

static inline void ct_thrift_field(struct ct_bytes *b, int *last, int id, enum ct_thrift_type type) {
    ct_bytes_byte(b, (uint8_t)((id - *last) << 4 | (int)type)); /* our numbers are never more than 15 apart */
    *last = id;
}

static inline void ct_thrift_number(struct ct_bytes *b, int *last, int id, enum ct_thrift_type type, int64_t value) {
    ct_thrift_field(b, last, id, type);
    ct_bytes_zigzag(b, value);
}

static inline void ct_thrift_i32(struct ct_bytes *b, int *last, int id, int64_t value) {
    ct_thrift_number(b, last, id, CT_THRIFT_I32, value);
}

static inline void ct_thrift_i64(struct ct_bytes *b, int *last, int id, int64_t value) {
    ct_thrift_number(b, last, id, CT_THRIFT_I64, value);
}

static inline void ct_thrift_bool(struct ct_bytes *b, int *last, int id, bool value) {
    ct_thrift_field(b, last, id, value ? CT_THRIFT_TRUE : CT_THRIFT_FALSE);
}

/* A text without a field before it: an element of a list. */
static inline void ct_thrift_element(struct ct_bytes *b, const void *bytes, size_t size) {
    ct_bytes_varint(b, size);
    ct_bytes_put(b, bytes, size);
}

static inline void ct_thrift_binary(struct ct_bytes *b, int *last, int id, const void *bytes, size_t size) {
    ct_thrift_field(b, last, id, CT_THRIFT_BINARY);
    ct_thrift_element(b, bytes, size);
}

static inline void ct_thrift_text(struct ct_bytes *b, int *last, int id, const char *text) {
    ct_thrift_binary(b, last, id, text, strlen(text));
}

static inline void ct_thrift_list(struct ct_bytes *b, int *last, int id, enum ct_thrift_type type, size_t count) {
    ct_thrift_field(b, last, id, CT_THRIFT_LIST);
    if (count < 15) {
        ct_bytes_byte(b, (uint8_t)(count << 4 | type));
        return;
    }
    ct_bytes_byte(b, (uint8_t)(0xf0 | type));
    ct_bytes_varint(b, count);
}

static inline void ct_thrift_stop(struct ct_bytes *b) {
    ct_bytes_byte(b, 0);
}

#endif
