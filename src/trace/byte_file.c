/* SPDX-License-Identifier: Apache-2.0 */
/* See byte_file.h. */
#include "trace/byte_file.h"
#include "trace/crc32.h"
#include "trace/file.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void ct_byte_file_flush(struct ct_byte_file *f) {
    size_t done = 0;
    if (!f->used || f->error) {
        f->used = 0;
        return;
    }
    int fd = ct_file_open_in(f->place, f->path, O_WRONLY);
    f->error = fd < 0 ? -fd : ct_file_write(fd, f->buffer, f->used, f->size, 0, &done);
    if (fd >= 0 && close(fd) && !f->error)
        f->error = errno;
    f->crc = ct_crc32(f->crc, f->buffer, done);
    f->size += done;
    f->used = 0;
}

void ct_byte_file_number(struct ct_byte_file *f, uint64_t value) {
    do
        f->buffer[f->used++] = (uint8_t)((value & 0x7f) | (value > 0x7f) << 7);
    while (value >>= 7);
}
