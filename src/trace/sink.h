/* SPDX-License-Identifier: Apache-2.0 */
/* Where the events of a thread writer go: raw or packed files. The thread writer owns it.
 *
 * Functions return 0 or an errno. After a failure only `finish` is called. */
#ifndef CT_TRACE_SINK_H
#define CT_TRACE_SINK_H

#include "abi/atf.h"
#include "trace/packed_block.h"
#include "trace/place.h"
#include "trace/segments.h"

struct ct_sink_options {
    struct ct_place *place; /* directory of the process; must live */
    const char *directory;  /* thread_N within it; must live */
    uint32_t tid;
    struct ct_series *series; /* NULL: files are never deleted */
    uint64_t first_seq;       /* position of the first event */
    uint8_t arch;             /* of the header */
};

struct ct_sink_kind {
    int (*open)(void **sink, const struct ct_sink_options *options);
    /* *done: number of events in files: all, or those before a failure. */
    int (*write)(void *sink, const struct atf_index_event *events, size_t count, size_t *done);
    /* Writes a block that the packer has ended: all of its events, or none. NULL: these files have no blocks. */
    int (*write_block)(void *sink, const struct ct_pack *pack, const uint8_t *block, size_t size);
    /* Links events that were written. Sorts `links`. */
    int (*link)(void *sink, struct ct_link *links, size_t count);
    /* Completes the file if possible, and frees the sink. */
    int (*finish)(void *sink);
    uint64_t (*bytes)(const void *sink); /* in files */
    void (*set_part)(void *sink, uint64_t events);
};
extern const struct ct_sink_kind ct_raw_sink, ct_packed_sink;

/* Name of a thread's file: index.atf, index_2.atf …, with segments index_000001.atf …; malloc'ed. */
char *ct_sink_path(const char *directory, const char *suffix, unsigned number, bool segmented);
/* True when the thread has a detail file. */
bool ct_sink_has_detail(struct ct_place *place, const char *directory);
void ct_links_sort(struct ct_link *links, size_t count);

#endif
