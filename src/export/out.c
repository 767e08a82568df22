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
    *out = (struct ct_out){.fd = fd, .buffer = malloc(CT_OUT_SIZE)};
    return out->buffer != NULL;
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

int ct_out_close(struct ct_out *out) {
    if (out->buffer)
        ct_out_flush(out);
    free(out->buffer);
    out->buffer = NULL;
    return out->error;
}

void ct_out_large(struct ct_out *out, const void *bytes, size_t count) {
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
