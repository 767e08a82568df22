/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one thread's index.ctp.
 *
 * Each write becomes blocks at the end of the file at once: nothing waits until a block is full. Small blocks that
 * follow each other are merged now and then (packed_merge.c). They begin at `loose`. */
#include "trace/buffers.h"
#include "trace/packed_out.h"
#include "trace/sink.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GOOD_EVENTS  2048u       /* small blocks are merged when they have this many events together */
#define LOOSE_BLOCKS 32u         /* or when there are this many of them */
#define LOOSE_BYTES  (64u << 10) /* more bytes than this are left as they are */
#define TABLE_BLOCKS 128u        /* entries of a table before it is written: there may be thousands of writers */

/* ---- events ---- */

/* With segments: tracks the calls that are open after the events that were packed. */
static int follow_stack(struct ct_packed_out *packed, const struct ct_pack *pack) {
    struct ct_pack_net net = ct_pack_net(pack);
    if (!packed->series)
        return 0;
    size_t below = net.depth > net.call_count ? net.depth - net.call_count : 0, depth = below + net.call_count;
    if (depth > CT_PACKED_STACK) {
        packed->depth = depth; /* too deep: the functions are not known any more */
        return 0;
    }
    if (depth > packed->stack_room) {
        uint64_t *stack = realloc(packed->stack, 2 * depth * sizeof *stack);
        if (!stack)
            return ENOMEM;
        packed->stack = stack;
        packed->stack_room = 2 * depth;
    }
    size_t known = packed->depth > CT_PACKED_STACK ? 0 : packed->depth;
    for (size_t i = known; i < below; i++)
        packed->stack[i] = 0;
    if (net.call_count)
        memcpy(packed->stack + below, net.calls, net.call_count * sizeof *net.calls);
    packed->depth = depth;
    return 0;
}

/* Working memory for packing, while the file is in use. */
static struct ct_pack *pack_of(struct ct_packed_out *packed) {
    if (!packed->pack)
        packed->pack = ct_pack_take();
    return packed->pack;
}

/* Is this small block to be merged with those before it? Leaves these as they are if they are too large. */
static bool wants_merge(struct ct_packed_out *packed, size_t count) {
    if (count >= CT_PACKED_SMALL || !packed->loose_blocks ||
        (packed->loose_blocks + 1 < LOOSE_BLOCKS && packed->loose_events + count < GOOD_EVENTS))
        return false;
    if (packed->end - packed->loose <= LOOSE_BYTES)
        return true;
    ct_packed_out_seal(packed);
    return false;
}

static int append_block(struct ct_packed_out *packed, const uint8_t *block, size_t size, size_t count) {
    int error = ct_packed_out_append(packed, block, size);
    packed->loose_blocks++;
    packed->loose_events += (uint32_t)count;
    if (count >= CT_PACKED_SMALL)
        ct_packed_out_seal(packed);
    return error;
}

/* Counts the events of a block that is in the file. */
static int note_block(struct ct_packed_out *packed, const struct ctp_block *header) {
    if (packed->next_seq == packed->first_seq)
        packed->time_first = header->time_first_ns;
    packed->time_last = header->time_last_ns;
    packed->next_seq += header->count;
    if (packed->series)
        ct_series_grown(packed->series, packed->end, packed->time_first, packed->time_last);
    return packed->entry_count >= TABLE_BLOCKS && packed->loose == packed->end ? ct_packed_out_table(packed) : 0;
}

/* Merges the events of a small block with the blocks before it. *merged false: the block is still to be written. */
static int merge_block(struct ct_packed_out *packed, const uint8_t *block, size_t count, bool *merged) {
    struct ct_unpack unpack = {0};
    struct atf_index_event *events = ct_buffer_take(CT_BUFFER_CLASSES - 1);
    size_t done;
    int error = 0;
    *merged = false;
    if (events && pack_of(packed) && ct_unpack_begin(&unpack, block, packed->tid) == 0 &&
        ct_unpack_events(&unpack, events, count, &done) == 0)
        error = ct_packed_out_merge(packed, events, count, merged);
    else
        ct_packed_out_seal(packed);
    ct_unpack_free(&unpack);
    if (events)
        ct_buffer_give(events, CT_BUFFER_CLASSES - 1);
    return error;
}

/* Writes a block that `pack` has ended. */
static int write_block(struct ct_packed_out *packed, const struct ct_pack *pack, const uint8_t *block, size_t size) {
    struct ctp_block header;
    memcpy(&header, block, sizeof header);
    bool merged = false;
    int error = follow_stack(packed, pack);
    if (!error && wants_merge(packed, header.count))
        error = merge_block(packed, block, header.count, &merged);
    if (!error && !merged)
        error = append_block(packed, block, size, header.count);
    return error ? error : note_block(packed, &header);
}

/* Begins the next segment if this one is full. */
static int make_room(struct ct_packed_out *packed, uint64_t time_ns) {
    if (!packed->series || !ct_series_is_full(packed->series, time_ns))
        return 0;
    return pack_of(packed) ? ct_packed_out_next(packed, time_ns) : ENOMEM;
}

/* Writes up to CT_PACK_EVENTS events. */
static int write_run(struct ct_packed_out *packed, const struct atf_index_event *events, size_t count) {
    struct ct_pack *pack = ct_pack_take();
    size_t size;
    if (!pack)
        return ENOMEM;
    const uint8_t *block = ct_pack_events(pack, events, count, packed->next_seq, packed->tid, &size);
    int error = write_block(packed, pack, block, size);
    ct_pack_give(pack);
    return error;
}

static int write_links(struct ct_packed_out *packed, const struct ct_link *links, size_t count) {
    uint8_t *block = malloc(CT_PACK_LINKS_BYTES);
    int error = block ? 0 : ENOMEM;
    for (size_t n; count && !error; links += n, count -= n) {
        for (n = 1; n < count && n < CT_PACK_LINKS && links[n].index_seq - links[0].index_seq <= UINT32_MAX;)
            n++;
        error = ct_packed_out_append(packed, block, ct_pack_links(block, links, n));
        packed->link_count += error ? 0 : n;
        packed->loose_blocks += packed->loose_blocks != 0;
    }
    if (!packed->loose_blocks)
        ct_packed_out_seal(packed);
    free(block);
    return error;
}

/* Writes the links of events that came with their detail. */
static int link_run(struct ct_packed_out *packed, const struct atf_index_event *events, size_t count,
                    uint64_t first_seq) {
    struct ct_link links[64];
    size_t used = 0;
    int error = 0;
    for (size_t i = 0; i < count && !error; i++) {
        if (events[i].detail_seq != ATF_NO_DETAIL)
            links[used++] = (struct ct_link){first_seq + i, events[i].detail_seq};
        if (used == sizeof links / sizeof *links || (used && i + 1 == count)) {
            error = write_links(packed, links, used);
            used = 0;
        }
    }
    return error;
}

static int write_all(struct ct_packed_out *packed, const struct atf_index_event *events, size_t count, size_t *done) {
    int error = 0;
    while (*done < count && !error) {
        size_t n = count - *done < CT_PACK_EVENTS ? count - *done : CT_PACK_EVENTS;
        const struct atf_index_event *run = events + *done;
        error = make_room(packed, run->timestamp_ns);
        if (!error)
            error = write_run(packed, run, n);
        if (error)
            break;
        *done += n;
        error = link_run(packed, run, n, packed->next_seq - n);
    }
    return error;
}

/* ---- the sink ---- */

static int use_file(struct ct_packed_out *packed) {
    return packed->file.path ? ct_file_use(&packed->file) : EBADF;
}

static void rest_file(struct ct_packed_out *packed) {
    ct_pack_give(packed->pack);
    packed->pack = NULL;
    if (packed->file.path)
        ct_file_rest(&packed->file);
}

static int packed_write(void *sink, const struct atf_index_event *events, size_t count, size_t *done) {
    struct ct_packed_out *packed = sink;
    int error = use_file(packed);
    *done = 0;
    if (error)
        return error;
    error = write_all(packed, events, count, done);
    rest_file(packed);
    return error;
}

static int packed_write_block(void *sink, const struct ct_pack *pack, const uint8_t *block, size_t size) {
    struct ct_packed_out *packed = sink;
    struct ctp_block header;
    memcpy(&header, block, sizeof header);
    int error = use_file(packed);
    if (error)
        return error;
    error = make_room(packed, header.time_first_ns);
    if (!error)
        error = write_block(packed, pack, block, size);
    rest_file(packed);
    return error;
}

static int packed_link(void *sink, struct ct_link *links, size_t count) {
    struct ct_packed_out *packed = sink;
    int error = use_file(packed);
    if (error)
        return error;
    ct_links_sort(links, count);
    error = write_links(packed, links, count);
    rest_file(packed);
    return error;
}

static void free_packed(struct ct_packed_out *packed) {
    free(packed->entries);
    free(packed->stack);
    free(packed);
}

static int packed_open(void **sink, const struct ct_sink_options *options) {
    struct ct_packed_out *packed = calloc(1, sizeof *packed);
    if (!packed)
        return ENOMEM;
    packed->place = options->place;
    packed->directory = options->directory;
    packed->tid = options->tid;
    packed->arch = options->arch;
    packed->series = options->series;
    packed->number = 1;
    int error = ct_packed_out_begin(packed);
    if (packed->file.path)
        ct_file_rest(&packed->file);
    if (error) {
        ct_file_close(&packed->file);
        free_packed(packed);
        return error;
    }
    *sink = packed;
    return 0;
}

static int packed_finish(void *sink) {
    struct ct_packed_out *packed = sink;
    int error = use_file(packed);
    if (!error) {
        error = pack_of(packed) ? ct_packed_out_finish(packed) : ENOMEM;
        rest_file(packed);
    }
    char *path = packed->file.path ? strdup(packed->file.path) : NULL;
    int late = ct_file_close(&packed->file);
    if (path)
        ct_packed_out_closed(packed, path);
    free(path);
    free_packed(packed);
    return error ? error : late;
}

static uint64_t packed_bytes(const void *sink) {
    const struct ct_packed_out *packed = sink;
    return packed->closed_bytes + packed->end;
}

static void packed_set_part(void *sink, uint64_t events) {
    (void)sink; /* positions are 64 bits wide: one file can have all events */
    (void)events;
}

const struct ct_sink_kind ct_packed_sink = {packed_open,   packed_write, packed_write_block, packed_link,
                                            packed_finish, packed_bytes, packed_set_part};
