/* SPDX-License-Identifier: Apache-2.0 */
/* Files of levels: thread_N/levels.ctv, or in the cache where the trace is not ours to write.
 *
 * A header, tiles as they are made, the functions, the table of tiles. The header is written last; it has a checksum,
 * as have tables and each tile, and the identity of the events that the levels were made from. */
#include "base/grow.h"
#include "plan/target_plan.h"
#include "query/source.h"
#include "trace/crc32.h"
#include "trace/reader.h"
#include "view/levels.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC   "CTV1"
#define VERSION 1u

struct header {
    char magic[4];
    uint32_t crc; /* of what follows in the header */
    uint32_t version, tables_crc;
    uint64_t identity, origin_ns, calls;
    uint64_t tables, functions, tiles; /* offset; how many */
    uint32_t depth, reserved;
};

struct entry {
    uint64_t index, offset;
    uint32_t size, raw, crc, level;
};

struct ct_levels_file {
    struct ct_levels *levels;
    struct ct_place *place; /* NULL: the file has been made elsewhere */
    char fresh[80], name[80];
    uint64_t identity;
};

/* The directory, and the name in it; NULL: nowhere. */
static struct ct_place *find_place(struct ct_source *source, size_t thread, uint64_t identity, bool make,
                                   char name[80]) {
    struct ct_place *place = ct_summary_place(source->trace, thread);
    char path[PATH_MAX];
    snprintf(name, 80, CT_LEVELS_FILE);
    if (place)
        return place;
    snprintf(name, 80, "view_%016llx.levels", (unsigned long long)identity);
    if (ct_target_cache_find(path, sizeof path, make) != 0 ||
        ct_place_open(&place, path, CT_PLACE_PRIVATE, CT_PLACE_NO_GROUP) != 0)
        return NULL;
    return place;
}

/* ---- writing ---- */

bool ct_levels_add(struct ct_levels *l, const struct ct_levels_tile *from) {
    struct ct_levels_tile tile = *from;
    size_t done;
    pthread_mutex_lock(&l->lock);
    struct ct_levels_list *list = &l->levels[tile.level];
    bool good = ct_grow(&list->at, &list->room, list->count, sizeof *list->at, 16);
    if (good && l->fd >= 0 && ct_file_write(l->fd, tile.bytes, tile.size, l->file_size, 0, &done) == 0) {
        tile.offset = l->file_size;
        l->file_size += tile.size;
        free(tile.bytes);
        tile.bytes = NULL;
    }
    if (good)
        list->at[list->count++] = tile;
    else
        free(tile.bytes);
    pthread_mutex_unlock(&l->lock);
    return good;
}

/* A new file in a place of ours. */
static int create(struct ct_levels_file *f, struct ct_source *source, size_t thread) {
    f->place = find_place(source, thread, f->identity, true, f->name);
    snprintf(f->fresh, sizeof f->fresh, ".%.40s.%d", f->name, (int)getpid());
    int made = f->place ? ct_summary_create(f->place, f->fresh) : -1;
    int fd = made >= 0 ? ct_place_open_file(f->place, f->fresh, O_RDWR) : -1;
    if (made >= 0)
        close(made);
    return fd;
}

struct ct_levels_file *ct_levels_file_begin(struct ct_levels *l, struct ct_source *source, size_t thread, int fd) {
    struct ct_levels_file *f = calloc(1, sizeof *f);
    if (f) {
        f->levels = l;
        f->identity = ct_summary_identity(source->trace, thread, &source->facts);
        fd = fd >= 0 ? fd : create(f, source, thread);
    }
    if (!f || fd < 0) {
        if (f)
            ct_place_drop(f->place);
        if (fd >= 0)
            close(fd);
        free(f);
        return NULL;
    }
    l->fd = fd;
    l->file_size = sizeof(struct header);
    return f;
}

/* Functions and tiles, malloc'ed. */
static uint8_t *tables_of(const struct ct_levels *l, struct header *h, size_t *size) {
    h->functions = l->function_count;
    for (unsigned i = 0; i < CT_LEVELS; i++)
        for (size_t k = 0; k < l->levels[i].count; k++)
            h->tiles += !l->levels[i].at[k].bytes;
    *size = (size_t)(h->functions * sizeof *l->functions + h->tiles * sizeof(struct entry));
    uint8_t *bytes = malloc(*size + 1), *to = bytes;
    if (!bytes)
        return NULL;
    if (l->function_count)
        memcpy(to, l->functions, l->function_count * sizeof *l->functions);
    to += l->function_count * sizeof *l->functions;
    for (unsigned i = 0; i < CT_LEVELS; i++)
        for (size_t k = 0; k < l->levels[i].count; k++) {
            const struct ct_levels_tile *t = &l->levels[i].at[k];
            const struct entry entry = {t->index, t->offset, t->size, t->raw, t->crc, t->level};
            if (t->bytes)
                continue;
            memcpy(to, &entry, sizeof entry);
            to += sizeof entry;
        }
    return bytes;
}

static bool is_whole(const struct ct_levels *l) {
    for (unsigned i = 0; i < CT_LEVELS; i++)
        for (size_t k = 0; k < l->levels[i].count; k++)
            if (l->levels[i].at[k].bytes)
                return false;
    return true;
}

static uint32_t header_crc(const struct header *h) {
    return ct_crc32(0, &h->version, sizeof *h - offsetof(struct header, version));
}

static bool write_tables(struct ct_levels_file *f) {
    struct ct_levels *l = f->levels;
    struct header h = {.magic = {'C', 'T', 'V', '1'},
                       .version = VERSION,
                       .identity = f->identity,
                       .origin_ns = l->origin_ns,
                       .calls = l->calls,
                       .tables = l->file_size,
                       .depth = l->depth};
    size_t size, done;
    uint8_t *tables = tables_of(l, &h, &size);
    if (!tables)
        return false;
    h.tables_crc = ct_crc32(0, tables, size);
    h.crc = header_crc(&h);
    bool good = ct_file_write(l->fd, tables, size, l->file_size, 0, &done) == 0 &&
                ct_file_write(l->fd, &h, sizeof h, 0, 0, &done) == 0;
    free(tables);
    return good;
}

bool ct_levels_file_end(struct ct_levels_file *f, bool complete) {
    if (!f)
        return false;
    pthread_mutex_lock(&f->levels->lock);
    bool good = complete && is_whole(f->levels) && write_tables(f);
    pthread_mutex_unlock(&f->levels->lock);
    if (f->place && (!good || ct_place_replace(f->place, f->fresh, f->name) != 0))
        (void)ct_place_remove(f->place, f->fresh); /* it is read until the end all the same */
    ct_place_drop(f->place);
    free(f);
    return good;
}

/* ---- reading ---- */

static bool add_entry(struct ct_levels *l, const struct entry *e, const struct header *h) {
    if (e->level >= CT_LEVELS || e->offset < sizeof *h || e->offset > h->tables || e->size > h->tables - e->offset)
        return false;
    struct ct_levels_list *list = &l->levels[e->level];
    if (list->count && list->at[list->count - 1].index >= e->index)
        return false;
    if (!ct_grow(&list->at, &list->room, list->count, sizeof *list->at, 16))
        return false;
    list->at[list->count++] = (struct ct_levels_tile){
        .index = e->index, .offset = e->offset, .size = e->size, .raw = e->raw, .crc = e->crc, .level = e->level};
    return true;
}

/* Checks tables that were read, and takes them. */
static bool take_tables(struct ct_levels *l, const struct header *h, const uint8_t *tables, size_t size) {
    struct entry entry;
    if (ct_crc32(0, tables, size) != h->tables_crc)
        return false;
    l->functions = malloc((size_t)h->functions * sizeof *l->functions + 1);
    if (!l->functions)
        return false;
    memcpy(l->functions, tables, (size_t)h->functions * sizeof *l->functions);
    l->function_count = l->function_room = (size_t)h->functions;
    tables += h->functions * sizeof *l->functions;
    for (uint64_t i = 0; i < h->tiles; i++, tables += sizeof entry) {
        memcpy(&entry, tables, sizeof entry);
        if (!add_entry(l, &entry, h))
            return false;
    }
    l->calls = h->calls;
    l->depth = h->depth;
    l->until_ns = UINT64_MAX;
    return l->done = true;
}

static bool read_tables(struct ct_levels *l, int fd, uint64_t identity) {
    struct header h;
    struct stat info;
    size_t done;
    if (fstat(fd, &info) != 0 || ct_file_read(fd, &h, sizeof h, 0, &done) != 0 || done != sizeof h ||
        memcmp(h.magic, MAGIC, 4) != 0 || h.version != VERSION || h.crc != header_crc(&h) || h.identity != identity ||
        h.origin_ns != l->origin_ns || h.tables > (uint64_t)info.st_size)
        return false;
    uint64_t room = (uint64_t)info.st_size - h.tables;
    if (h.functions > room / sizeof *l->functions || h.tiles > room / sizeof(struct entry) ||
        h.functions * sizeof *l->functions + h.tiles * sizeof(struct entry) != room)
        return false;
    uint8_t *tables = malloc((size_t)room + 1);
    bool good = tables && ct_file_read(fd, tables, (size_t)room, h.tables, &done) == 0 && done == room &&
                take_tables(l, &h, tables, (size_t)room);
    free(tables);
    return good;
}

/* What could be taken from a file that is damaged further on. */
static void forget(struct ct_levels *l) {
    for (unsigned i = 0; i < CT_LEVELS; i++)
        l->levels[i].count = 0;
    free(l->functions);
    l->functions = NULL;
    l->function_count = l->function_room = 0;
}

bool ct_levels_load(struct ct_levels *l, struct ct_source *source, size_t thread) {
    const struct ct_trace_thread *info = ct_trace_thread_at(source->trace, thread);
    uint64_t identity = ct_summary_identity(source->trace, thread, &source->facts);
    char *path =
        ct_file_path("%s/thread_%u/" CT_LEVELS_FILE, source->trace->processes[info->process].directory, info->id);
    char name[80];
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(path);
    for (int i = 0; i < 2; i++) {
        if (fd >= 0 && read_tables(l, fd, identity)) {
            l->fd = fd;
            return true;
        }
        if (fd >= 0)
            close(fd);
        forget(l);
        struct ct_place *place = i ? NULL : find_place(source, thread, identity, false, name);
        fd = place ? ct_place_open_file(place, name, O_RDONLY | O_NONBLOCK) : -1;
        ct_place_drop(place);
    }
    return false;
}
