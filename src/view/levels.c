/* SPDX-License-Identifier: Apache-2.0 */
/* Reads levels: see levels.h.
 *
 * A tile is one LZ4 block. In it: the number of depths; for each depth how many bytes its runs have; the runs. A run
 * is the number of empty slots before it, doubled, plus one when it has several slots; the number of its function; how
 * many slots, or for a single one share and calls. Numbers have seven bits in each byte (trace/packed_block.h). */
#include "view/levels.h"
#include "base/grow.h"
#include "trace/crc32.h"
#include "trace/file.h"
#include "trace/packed_block.h"
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RAW = 64 << 20 };

struct ct_levels *ct_levels_new(uint64_t origin_ns) {
    struct ct_levels *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->origin_ns = l->until_ns = origin_ns;
    l->fd = -1;
    l->least = CT_LEVELS_EVENTS;
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

void ct_levels_free(struct ct_levels *l) {
    if (!l)
        return;
    for (unsigned i = 0; i < CT_LEVELS; i++) {
        for (size_t k = 0; k < l->levels[i].count; k++)
            free(l->levels[i].at[k].bytes);
        free(l->levels[i].at);
        free(l->levels[i].draft.bytes);
    }
    if (l->fd >= 0)
        close(l->fd);
    free(l->functions);
    free(l->open);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- tiles ---- */

/* With the lock held. NULL: none. */
static const struct ct_levels_tile *find_tile(const struct ct_levels *l, unsigned level, uint64_t index, bool *draft) {
    const struct ct_levels_list *list = &l->levels[level];
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->at[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    *draft = false;
    if (low < list->count && list->at[low].index == index)
        return &list->at[low];
    *draft = list->draft.bytes && list->draft.index == index;
    return *draft ? &list->draft : NULL;
}

bool ct_levels_has(struct ct_levels *l, unsigned level, uint64_t index) {
    bool draft;
    pthread_mutex_lock(&l->lock);
    bool has = level < CT_LEVELS && find_tile(l, level, index, &draft);
    pthread_mutex_unlock(&l->lock);
    return has;
}

/* The bytes of a tile, unpacked, malloc'ed. NULL: they are not there, or not those that were written. */
static uint8_t *unpack(const struct ct_levels *l, const struct ct_levels_tile *tile) {
    uint8_t *packed = tile->bytes, *raw = tile->raw <= MOST_RAW ? malloc((size_t)tile->raw + 1) : NULL;
    size_t done = tile->size;
    bool good = raw;
    if (good && !packed) {
        packed = malloc((size_t)tile->size + 1);
        good = packed && ct_file_read(l->fd, packed, tile->size, tile->offset, &done) == 0 && done == tile->size &&
               ct_crc32(0, packed, tile->size) == tile->crc;
    }
    if (good && tile->size == tile->raw)
        memcpy(raw, packed, tile->raw);
    else if (good)
        good =
            LZ4_decompress_safe((const char *)packed, (char *)raw, (int)tile->size, (int)tile->raw) == (int)tile->raw;
    if (packed != tile->bytes)
        free(packed);
    if (good)
        return raw;
    free(raw);
    return NULL;
}

/* ---- runs ---- */

struct reading {
    const struct ct_levels *levels;
    unsigned level;
    uint64_t first_slot; /* of the tile */
    void (*run)(void *arg, uint32_t depth, const struct ct_levels_run *run);
    void *arg;
};

static bool read_runs(const struct reading *r, uint32_t depth, const uint8_t *at, const uint8_t *end) {
    uint64_t slot = 0, gap, function, count, share = 255, calls;
    while (at < end) {
        if (!ct_varint_get(&at, end, &gap) || !ct_varint_get(&at, end, &function) ||
            function >= r->levels->function_count || !ct_varint_get(&at, end, &count))
            return false;
        bool several = gap & 1;
        slot += gap >> 1;
        calls = 0;
        share = 255;
        if (!several) {
            share = count;
            count = 1;
            if (!ct_varint_get(&at, end, &calls))
                return false;
        }
        if (!count || count > CT_LEVELS_SLOTS || slot > CT_LEVELS_SLOTS - count || share > 255)
            return false;
        r->run(r->arg, depth,
               &(struct ct_levels_run){.start_ns = r->levels->origin_ns + ((r->first_slot + slot) << r->level),
                                       .end_ns = r->levels->origin_ns + ((r->first_slot + slot + count) << r->level),
                                       .function = r->levels->functions[function],
                                       .calls = calls,
                                       .share = (uint8_t)share});
        slot += count;
    }
    return true;
}

static bool read_tile(const struct reading *r, const uint8_t *raw, size_t size, uint32_t low, uint32_t high) {
    const uint8_t *at = raw, *end = raw + size;
    uint64_t depths, bytes;
    if (!ct_varint_get(&at, end, &depths) || depths > size)
        return false;
    const uint8_t *lengths = at, *runs;
    for (uint64_t i = 0; i < depths; i++)
        if (!ct_varint_get(&at, end, &bytes))
            return false;
    runs = at;
    for (uint64_t i = 0; i < depths && i <= high; i++) {
        (void)ct_varint_get(&lengths, end, &bytes);
        if (bytes > (uint64_t)(end - runs) || (i >= low && !read_runs(r, (uint32_t)i, runs, runs + bytes)))
            return false;
        runs += bytes;
    }
    return true;
}

bool ct_levels_read(struct ct_levels *l, unsigned level, uint64_t index, uint32_t low, uint32_t high,
                    void (*run)(void *arg, uint32_t depth, const struct ct_levels_run *run), void *arg, bool *draft) {
    const struct reading r = {l, level, index << CT_LEVELS_SLOT_BITS, run, arg};
    pthread_mutex_lock(&l->lock);
    const struct ct_levels_tile *tile = level < CT_LEVELS ? find_tile(l, level, index, draft) : NULL;
    uint8_t *raw = tile ? unpack(l, tile) : NULL;
    bool good = raw && read_tile(&r, raw, tile->raw, low, high);
    pthread_mutex_unlock(&l->lock);
    free(raw);
    return good;
}
