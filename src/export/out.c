/* SPDX-License-Identifier: Apache-2.0 */
/* Buffered output to a file. */
#include "export/out.h"
#include "base/digits.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool ct_out_open(struct ct_out *out, int fd) {
    *out = (struct ct_out){.fd = fd, .size = CT_OUT_SIZE, .buffer = malloc(CT_OUT_SIZE)};
    return out->buffer != NULL;
}

bool ct_out_open_memory(struct ct_out *out, void (*many)(struct ct_out *out), void *arg) {
    bool good = ct_out_open(out, -1);
    out->many = many;
    out->arg = arg;
    return good;
}

static void write_all(struct ct_out *out, const uint8_t *bytes, size_t count) {
    while (count && !out->error) {
        ssize_t n = write(out->fd, bytes, count);
        if (n >= 0) {
            bytes += n;
            count -= (size_t)n;
        } else if (errno == EAGAIN) { /* a pipe that was made non-blocking */
            struct pollfd room = {out->fd, POLLOUT, 0};
            poll(&room, 1, -1);
        } else if (errno != EINTR) {
            out->error = errno;
        }
    }
}

void ct_out_flush(struct ct_out *out) {
    write_all(out, out->buffer, out->used);
    out->used = 0;
}

void ct_out_make_room(struct ct_out *out, size_t count) {
    if (!out->many) {
        ct_out_flush(out);
        return;
    }
    if (out->used >= CT_OUT_MANY)
        out->many(out);
    size_t size = 2 * (out->used + count);
    uint8_t *grown = out->used + count > out->size ? realloc(out->buffer, size) : NULL;
    if (grown) {
        out->buffer = grown;
        out->size = size;
    } else if (out->used + count > out->size) {
        out->error = ENOMEM;
        out->used = 0; /* there is room for what is asked for at once */
    }
}

int ct_out_close(struct ct_out *out) {
    if (out->buffer && !out->many)
        ct_out_flush(out);
    free(out->buffer);
    out->buffer = NULL;
    return out->error;
}

void ct_out_large(struct ct_out *out, const void *bytes, size_t count) {
    for (size_t part; out->many && count; count -= part, bytes = (const uint8_t *)bytes + part) {
        part = count < 4096 ? count : 4096;
        memcpy(ct_out_room(out, part), bytes, part);
        ct_out_took(out, part);
    }
    if (!count)
        return;
    ct_out_flush(out);
    write_all(out, bytes, count);
    out->bytes += count;
}

void ct_out_number(struct ct_out *out, uint64_t number) {
    char digits[CT_DIGITS];
    size_t at = ct_digits(digits, number);
    ct_out_bytes(out, digits + at, sizeof digits - at);
}

void ct_out_format(struct ct_out *out, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (n > 0)
        ct_out_bytes(out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}
