/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of bytes in a temporary file. */
#include "export/spool.h"
#include "base/grow.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static struct ct_spool_stream *stream_at(struct ct_spool *s, size_t stream) {
    if (stream >= s->count) {
        size_t count = stream + 1;
        struct ct_spool_stream *grown = realloc(s->streams, count * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + s->count, 0, (count - s->count) * sizeof *grown);
        s->streams = grown;
        s->count = count;
    }
    struct ct_spool_stream *t = &s->streams[stream];
    if (!t->buffer)
        t->buffer = malloc(CT_SPOOL_BLOCK);
    return t->buffer ? t : NULL;
}

static bool remember_block(struct ct_spool_stream *t, uint64_t block) {
    if (!ct_grow(&t->blocks, &t->capacity, t->count, sizeof *t->blocks, 64))
        return false;
    t->blocks[t->count++] = block;
    return true;
}

static void store_block(struct ct_spool *s, struct ct_spool_stream *t) {
    t->used = 0;
    if (!s->file && !(s->file = tmpfile())) {
        s->error = errno;
        return;
    }
    if (!remember_block(t, s->blocks)) {
        s->no_memory = true;
        return;
    }
    ssize_t n = pwrite(fileno(s->file), t->buffer, CT_SPOOL_BLOCK, (off_t)(s->blocks++ * CT_SPOOL_BLOCK));
    if (n != CT_SPOOL_BLOCK)
        s->error = n < 0 ? errno : ENOSPC;
}

void ct_spool_put(struct ct_spool *s, size_t stream, const void *bytes, size_t count) {
    struct ct_spool_stream *t = stream_at(s, stream);
    const uint8_t *from = bytes;
    if (!t)
        s->no_memory = true;
    while (t && count) {
        size_t room = CT_SPOOL_BLOCK - t->used, part = count < room ? count : room;
        memcpy(t->buffer + t->used, from, part);
        t->used += part;
        from += part;
        count -= part;
        if (t->used == CT_SPOOL_BLOCK)
            store_block(s, t);
    }
}

void ct_spool_copy(struct ct_spool *s, size_t stream, struct ct_out *out) {
    uint8_t block[CT_SPOOL_BLOCK];
    if (stream >= s->count)
        return;
    const struct ct_spool_stream *t = &s->streams[stream];
    for (size_t i = 0; i < t->count && !s->error; i++) {
        ssize_t n = pread(fileno(s->file), block, sizeof block, (off_t)(t->blocks[i] * CT_SPOOL_BLOCK));
        if (n == (ssize_t)sizeof block)
            ct_out_bytes(out, block, sizeof block);
        else
            s->error = n < 0 ? errno : EIO;
    }
    if (t->used)
        ct_out_bytes(out, t->buffer, t->used);
}

void ct_spool_clear(struct ct_spool *s) {
    for (size_t i = 0; i < s->count; i++) {
        free(s->streams[i].buffer);
        free(s->streams[i].blocks);
    }
    free(s->streams);
    s->streams = NULL;
    s->count = 0;
    s->blocks = 0;
}

void ct_spool_free(struct ct_spool *s) {
    ct_spool_clear(s);
    if (s->file)
        fclose(s->file);
    *s = (struct ct_spool){0};
}
