/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks .xz with liblzma, which is loaded when the first module needs it: most systems have no such modules, and a
 * process that hooks itself should not get an additional library. */
#include "symbols/debug_file.h"
#include <dlfcn.h>
#include <lzma.h>
#include <pthread.h>
#include <stdlib.h>

#define MEMORY_LIMIT (UINT64_C(256) << 20) /* of the decoder */

static struct {
    __typeof__(&lzma_stream_decoder) start;
    __typeof__(&lzma_code) run;
    __typeof__(&lzma_end) end;
} lzma;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load_library(void) {
    void *library = dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    *(void **)&lzma.start = dlsym(library, "lzma_stream_decoder");
    *(void **)&lzma.run = dlsym(library, "lzma_code");
    *(void **)&lzma.end = dlsym(library, "lzma_end");
    if (!lzma.run || !lzma.end)
        lzma.start = NULL;
}

/* Doubles the room as long as the decoder fills it. */
static lzma_ret unpack_stream(lzma_stream *stream, size_t limit, uint8_t **out, size_t *size) {
    lzma_ret result = LZMA_OK;
    size_t room = 0;
    while (result == LZMA_OK) {
        if (*size == room) {
            if (room >= limit)
                return LZMA_MEM_ERROR;
            room = room ? 2 * room : (size_t)1 << 20;
            room = room < limit ? room : limit;
            uint8_t *grown = realloc(*out, room);
            if (!grown)
                return LZMA_MEM_ERROR;
            *out = grown;
        }
        stream->next_out = *out + *size;
        stream->avail_out = room - *size;
        result = lzma.run(stream, LZMA_FINISH);
        *size = room - stream->avail_out;
    }
    return result;
}

bool ct_xz_unpack(const void *bytes, size_t size, size_t limit, void **out, size_t *out_size) {
    lzma_stream stream = LZMA_STREAM_INIT;
    uint8_t *unpacked = NULL;
    pthread_once(&once, load_library);
    if (!lzma.start || lzma.start(&stream, MEMORY_LIMIT, 0) != LZMA_OK)
        return false;
    stream.next_in = bytes;
    stream.avail_in = size;
    *out_size = 0;
    lzma_ret result = unpack_stream(&stream, limit, &unpacked, out_size);
    lzma.end(&stream);
    if (result != LZMA_STREAM_END) {
        free(unpacked);
        return false;
    }
    *out = unpacked;
    return true;
}
