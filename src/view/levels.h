/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be seen of a large thread, at every width: levels, of which each has slots twice as long as the one below.
 *
 * A slot of level L is 2^L ns long and begins at a multiple of that, counted from the beginning of the trace. For each
 * depth it has the function that covers most of the slot, how much of it, and how many calls begin in it. Slots are
 * kept in tiles, 256 of one level. A tile is there when more than CT_LEVELS_EVENTS events are in its time; where it is
 * not, the events themselves are read as fast. So there are fine levels only where much happens.
 *
 * They are made in one pass over the events (levels_build.c), can be read meanwhile, and are continued when the trace
 * grows. A file of them (levels_file.c) is used only when it was made from these very events. Any thread. */
#ifndef CT_VIEW_LEVELS_H
#define CT_VIEW_LEVELS_H

#include "view/mix.h"
#include <pthread.h>

enum { CT_LEVELS = 48, CT_LEVELS_SLOTS = 256, CT_LEVELS_SLOT_BITS = 8 };
#define CT_LEVELS_EVENTS (UINT64_C(1) << 17)

struct ct_levels_tile {
    uint64_t index;  /* the time of its begin, in tiles of its level */
    uint64_t offset; /* in the file */
    uint32_t size, raw, crc;
    uint32_t level;
    uint8_t *bytes; /* in memory, instead of in the file; NULL: it is there */
};

/* A call that is open. */
struct ct_levels_open {
    uint64_t function, sequence, began_ns;
    uint32_t depth; /* as events have it */
};

struct ct_levels {
    pthread_mutex_t lock; /* of all that follows */
    uint64_t origin_ns;   /* the beginning of the trace */
    uint64_t until_ns;    /* tiles say everything up to here (CLOCK_BOOTTIME) */
    bool done;            /* there is nothing after that */
    uint64_t least;       /* a tile has more events than this; CT_LEVELS_EVENTS but for tests */
    uint64_t calls;       /* that were seen */
    uint32_t depth;       /* of the deepest call, plus one */
    uint64_t *functions;  /* by the number that tiles have */
    size_t function_count, function_room;
    struct ct_levels_list {
        struct ct_levels_tile *at; /* by index */
        size_t count, room;
        struct ct_levels_tile draft; /* one that is not complete; bytes NULL: none */
    } levels[CT_LEVELS];
    /* Of a trace that grows: what is open before the event at the position open_next, which is at open_ns or later.
     * Oldest first; NULL: not known. */
    struct ct_levels_open *open;
    size_t open_count;
    uint64_t open_next, open_ns;
    int fd; /* -1: no file */
    uint64_t file_size;
};

struct ct_levels *ct_levels_new(uint64_t origin_ns);
void ct_levels_free(struct ct_levels *levels);

/* A run of slots with the same contents. */
struct ct_levels_run {
    uint64_t start_ns, end_ns; /* CLOCK_BOOTTIME */
    uint64_t function, calls;
    uint8_t share;
};
/* The runs of a tile, depth by depth in order. False: there is no such tile, or it is damaged. *draft: it is not
 * complete (until_ns). */
bool ct_levels_read(struct ct_levels *levels, unsigned level, uint64_t index, uint32_t low, uint32_t high,
                    void (*run)(void *arg, uint32_t depth, const struct ct_levels_run *run), void *arg, bool *draft);
bool ct_levels_has(struct ct_levels *levels, unsigned level, uint64_t index);

/* ---- making (levels_build.c) ---- */

struct ct_levels_builder;
struct ct_source;
struct ct_place;
/* *levels lives longer. `alone`: the other processors have work of their own. */
struct ct_levels_builder *ct_levels_builder_new(struct ct_levels *levels, struct ct_source *source, size_t thread,
                                                bool alone);
/* Reads the events that are new. `ended`: there will be no more. `poll` is asked now and then whether to stop; it may
 * be NULL. Returns 0, CT_ERR_NO_MEMORY or CT_ERR_TIMEOUT. */
int ct_levels_build(struct ct_levels_builder *builder, struct ct_source *source, bool ended,
                    bool (*stop)(void *arg, uint64_t events), void *arg);
void ct_levels_builder_free(struct ct_levels_builder *builder);

/* ---- files (levels_file.c) ---- */

#define CT_LEVELS_FILE "levels.ctv"
/* Begins a file for the tiles that come, if the thread's directory or the cache takes one. `fd`: the file, which has
 * been made elsewhere; -1: none. */
struct ct_levels_file;
struct ct_levels_file *ct_levels_file_begin(struct ct_levels *levels, struct ct_source *source, size_t thread, int fd);
/* Completes it, or removes it. True: it is complete. */
bool ct_levels_file_end(struct ct_levels_file *file, bool complete);
/* False: there is none that was made from these events. */
bool ct_levels_load(struct ct_levels *levels, struct ct_source *source, size_t thread);
/* Adds a tile, to the file or in memory; takes the bytes. False: no memory. */
bool ct_levels_add(struct ct_levels *levels, const struct ct_levels_tile *tile);

#endif
