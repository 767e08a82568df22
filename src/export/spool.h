/* SPDX-License-Identifier: Apache-2.0 */
/* Several streams of bytes that grow at the same time and are read one after the other: blocks in a temporary file, and
 * a buffer for each stream. Each stream takes 4 KiB of memory, and 8 bytes for each 4 KiB written. One owner. */
#ifndef CT_EXPORT_SPOOL_H
#define CT_EXPORT_SPOOL_H

#include "export/out.h"
#include <stdio.h>

enum { CT_SPOOL_BLOCK = 4096 };

struct ct_spool_stream {
    uint8_t *buffer;
    size_t used;
    uint64_t *blocks; /* their numbers in the file */
    size_t count, capacity;
};

struct ct_spool {
    FILE *file; /* NULL: not needed yet */
    uint64_t blocks;
    struct ct_spool_stream *streams;
    size_t count;
    bool no_memory;
    int error; /* errno */
};

void ct_spool_put(struct ct_spool *spool, size_t stream, const void *bytes, size_t count);
/* Writes the stream to the output. */
void ct_spool_copy(struct ct_spool *spool, size_t stream, struct ct_out *out);
/* Forgets all streams. */
void ct_spool_clear(struct ct_spool *spool);
void ct_spool_free(struct ct_spool *spool);

#endif
