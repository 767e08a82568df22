/* SPDX-License-Identifier: Apache-2.0 */
/* Buffered output to a file. Keeps the first failure. One owner. */
#ifndef CT_EXPORT_OUT_H
#define CT_EXPORT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CT_OUT_SIZE = 256 << 10, CT_OUT_MANY = 8 << 20 };

struct ct_out {
    int fd;
    _Atomic int error; /* errno of the first write that failed: everything after it is dropped */
    size_t used;
    uint64_t bytes; /* accepted, whether written or not */
    uint8_t *buffer;
    size_t size;
    /* In memory, for bytes whose turn has not come: called when there are many (CT_OUT_MANY), and writes them. NULL: a
     * file. */
    void (*many)(struct ct_out *out);
    void *arg;
};

/* False: out of memory. */
bool ct_out_open(struct ct_out *out, int fd);
bool ct_out_open_memory(struct ct_out *out, void (*many)(struct ct_out *out), void *arg);
void ct_out_flush(struct ct_out *out);
/* Flushes; leaves the descriptor open. Returns the error. */
int ct_out_close(struct ct_out *out);
/* The slow path of ct_out_room. */
void ct_out_make_room(struct ct_out *out, size_t count);
void ct_out_large(struct ct_out *out, const void *bytes, size_t count);
void ct_out_number(struct ct_out *out, uint64_t number);
void ct_out_format(struct ct_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns room for `count` bytes, at most 4,096. Fill it and report how many with ct_out_took. */
static inline uint8_t *ct_out_room(struct ct_out *out, size_t count) {
    if (out->used + count > out->size)
        ct_out_make_room(out, count);
    return out->buffer + out->used;
}

static inline void ct_out_took(struct ct_out *out, size_t count) {
    out->used += count;
    out->bytes += count;
}

static inline void ct_out_bytes(struct ct_out *out, const void *bytes, size_t count) {
    if (count > 4096) {
        ct_out_large(out, bytes, count);
        return;
    }
    memcpy(ct_out_room(out, count), bytes, count);
    ct_out_took(out, count);
}

static inline void ct_out_text(struct ct_out *out, const char *text) {
    ct_out_bytes(out, text, strlen(text));
}

#endif
