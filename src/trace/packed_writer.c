/* Writing one thread's index.ctp.
 *
 * Each write becomes blocks at the end of the file, at once: nothing waits for a block to be full. Small blocks that follow each
 * other are merged now and then, so that a quiet thread's file is not made of headers. `loose` is where such blocks begin.
 *
 * A kill at any moment loses nothing that was written: the merged block is first written behind the blocks that it replaces, then
 * over them, then the file is cut behind it. Readers of a file without a footer take each position from the block that holds the
 * most events around it, and look for the next block behind bytes that are none. */
#include "trace/buffers.h"
#include "trace/crc32.h"
#include "trace/file.h"
#include "trace/sink.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER       sizeof(struct ctp_header)
#define BLOCK        sizeof(struct ctp_block)
#define FOOTER       sizeof(struct ctp_footer)
#define SMALL_EVENTS 1024u       /* a block of less is small */
#define GOOD_EVENTS  2048u       /* small ones are merged when they hold that many together */
#define LOOSE_BLOCKS 32u         /* or when there are so many */
#define LOOSE_BYTES  (64u << 10) /* more than that is left as it is */
#define TABLE_BLOCKS 1024u       /* entries of a table before it is written */
#define MAX_STACK    (1u << 16)  /* open calls that a segment begins with */

struct packed {
    struct ct_file file;
    const char *directory;
    uint32_t tid;
    struct ct_series *series; /* NULL: one file for all */
    unsigned number;          /* of this file */
    struct ct_pack *pack;     /* while something is written */
    uint64_t next_seq;        /* of the next event */
    uint64_t closed_bytes;    /* of files before this one */
    uint64_t *stack;          /* with segments: functions of open calls, 0: not known */
    size_t depth, stack_room;

    /* of this file */
    uint64_t end; /* where the next block goes */
    uint64_t loose;
    unsigned loose_blocks;
    uint32_t loose_events;
    uint64_t first_seq, time_first, time_last;
    struct ctp_entry *entries; /* that are in no table yet */
    size_t entry_count, entry_room;
    uint64_t last_table, block_count, link_count;
};

/* ---- the file ---- */

static size_t table_size(const struct packed *packed) {
    return BLOCK + sizeof(struct ctp_table) + packed->entry_count * sizeof *packed->entries;
}

/* Bytes below the file-size limit that the end of the file will need. */
static size_t margin(const struct packed *packed) {
    return table_size(packed) + 2 * sizeof *packed->entries + FOOTER;
}

/* All of it, or nothing that is left in the file. */
static int put(struct packed *packed, const void *bytes, size_t size, uint64_t offset, size_t left_free) {
    size_t done;
    int error = ct_file_write(packed->file.fd, bytes, size, offset, left_free, &done);
    if (error && done && ftruncate(packed->file.fd, (off_t)offset) != 0)
        return error; /* readers know a cut block too */
    return error;
}

static int write_header(struct packed *packed) {
    struct ctp_header header = {
        .magic = {'C', 'T', 'P', '1'},
        .endian = ATF_LITTLE_ENDIAN,
        .version = CTP_VERSION,
        .arch = ATF_ARCH_X86_64,
        .os = ATF_OS_LINUX,
        .flags = packed->link_count || ct_sink_has_detail(packed->directory) ? ATF_HAS_DETAIL : 0,
        .thread_id = packed->tid,
        .clock_type = ATF_CLOCK_BOOTTIME,
        .first_seq = packed->first_seq,
    };
    size_t done;
    header.crc = ct_crc32(0, &header, offsetof(struct ctp_header, crc));
    return ct_file_write(packed->file.fd, &header, HEADER, 0, 0, &done);
}

/* ---- blocks ---- */

static int remember(struct packed *packed, const uint8_t *block, uint64_t offset) {
    struct ctp_block header;
    memcpy(&header, block, sizeof header);
    if (packed->entry_count == packed->entry_room) {
        size_t room = packed->entry_room ? 2 * packed->entry_room : 8;
        struct ctp_entry *entries = realloc(packed->entries, room * sizeof *entries);
        if (!entries)
            return ENOMEM;
        packed->entries = entries;
        packed->entry_room = room;
    }
    packed->entries[packed->entry_count++] = (struct ctp_entry){.offset = offset,
                                                                .first_seq = header.first_seq,
                                                                .time_first_ns = header.time_first_ns,
                                                                .count = header.count,
                                                                .type = header.type,
                                                                .span = header.span,
                                                                .size = header.size};
    return 0;
}

static void forget_from(struct packed *packed, uint64_t offset) {
    while (packed->entry_count && packed->entries[packed->entry_count - 1].offset >= offset)
        packed->entry_count--;
}

static void seal(struct packed *packed) {
    packed->loose = packed->end;
    packed->loose_blocks = packed->loose_events = 0;
}

static int append(struct packed *packed, const uint8_t *block, size_t size) {
    int error = remember(packed, block, packed->end);
    if (error)
        return error;
    error = put(packed, block, size, packed->end, margin(packed));
    if (error)
        packed->entry_count--;
    else
        packed->end += size;
    return error;
}

/* Nothing is loose. */
static int write_table(struct packed *packed) {
    size_t size = table_size(packed);
    struct ctp_block header = {.type = CTP_TABLE, .count = (uint32_t)packed->entry_count};
    struct ctp_table table = {.previous = packed->last_table};
    uint8_t *block = malloc(size + 8);
    if (!block)
        return ENOMEM;
    memcpy(block, &header, BLOCK);
    memcpy(block + BLOCK, &table, sizeof table);
    if (packed->entry_count)
        memcpy(block + BLOCK + sizeof table, packed->entries, packed->entry_count * sizeof *packed->entries);
    size = ct_pack_seal(block, size);
    int error = put(packed, block, size, packed->end, FOOTER);
    free(block);
    if (error)
        return error;
    packed->last_table = packed->end;
    packed->end += size;
    packed->block_count += packed->entry_count;
    packed->entry_count = 0;
    seal(packed);
    return 0;
}

/* ---- merging ---- */

/* What takes the place of the loose blocks. */
struct merge {
    struct atf_index_event *events; /* of the loose blocks, in a borrowed buffer */
    size_t count;
    uint8_t *bytes; /* the loose blocks */
    size_t size;
};

static void release(struct merge *merge) {
    if (merge->events)
        ct_buffer_give(merge->events, CT_BUFFER_CLASSES - 1);
    free(merge->bytes);
}

/* Reads the loose blocks back. False: it cannot be done now, they stay. */
static bool read_loose(struct packed *packed, struct merge *merge) {
    struct ct_unpack unpack = {0};
    size_t done;
    bool good = true;
    *merge = (struct merge){.size = (size_t)(packed->end - packed->loose)};
    merge->bytes = malloc(merge->size);
    merge->events = ct_buffer_take(CT_BUFFER_CLASSES - 1);
    if (!merge->bytes || !merge->events ||
        ct_file_read(packed->file.fd, merge->bytes, merge->size, packed->loose, &done) != 0 || done != merge->size)
        return false;
    for (size_t at = 0; at < merge->size && good;) {
        struct ctp_block header;
        memcpy(&header, merge->bytes + at, BLOCK);
        if (!ct_block_plausible(&header, merge->size - at))
            good = false;
        else if (header.type == CTP_EVENTS)
            good = merge->count + header.count <= CT_PACK_EVENTS && ct_block_intact(merge->bytes + at) &&
                   ct_unpack_begin(&unpack, merge->bytes + at, packed->tid) == 0 &&
                   ct_unpack_events(&unpack, merge->events + merge->count, header.count, &done) == 0;
        merge->count += header.type == CTP_EVENTS ? header.count : 0;
        at += header.size;
    }
    ct_unpack_free(&unpack);
    return good && merge->count <= CT_PACK_EVENTS;
}

/* Behind the loose blocks, over them, and the rest away. */
static int replace(struct packed *packed, const uint8_t *bytes, size_t size) {
    uint64_t copy = packed->loose + size > packed->end ? packed->loose + size : packed->end;
    size_t done;
    int error = ct_file_write(packed->file.fd, bytes, size, copy, margin(packed), &done);
    if (error) {
        (void)!ftruncate(packed->file.fd, (off_t)packed->end);
        return error;
    }
    error = ct_file_write(packed->file.fd, bytes, size, packed->loose, 0, &done);
    if (!error && ftruncate(packed->file.fd, (off_t)(packed->loose + size)) != 0)
        error = errno;
    return error;
}

/* The merged block, then the blocks of links that stood between the others. The result has its place in merge->bytes. */
static bool assemble(struct merge *merge, const uint8_t *block, size_t size) {
    uint8_t *bytes = malloc(merge->size + size);
    size_t used = size;
    if (!bytes)
        return false;
    memcpy(bytes, block, size);
    for (size_t at = 0; at < merge->size;) {
        struct ctp_block header;
        memcpy(&header, merge->bytes + at, BLOCK);
        if (header.type != CTP_EVENTS) {
            memcpy(bytes + used, merge->bytes + at, header.size);
            used += header.size;
        }
        at += header.size;
    }
    free(merge->bytes);
    merge->bytes = bytes;
    merge->size = used;
    return true;
}

/* The entries of what stands from packed->loose on. */
static int remember_all(struct packed *packed, const struct merge *merge) {
    int error = 0;
    forget_from(packed, packed->loose);
    for (size_t at = 0; at < merge->size && !error;) {
        struct ctp_block header;
        memcpy(&header, merge->bytes + at, BLOCK);
        error = remember(packed, merge->bytes + at, packed->loose + at);
        at += header.size;
    }
    return error;
}

/* The loose blocks and new events become one block. *merged false: nothing has happened. */
static int merge_loose(struct packed *packed, const struct atf_index_event *events, size_t count, bool *merged) {
    struct merge merge;
    int error = 0;
    size_t size;
    *merged = false;
    if (read_loose(packed, &merge) && merge.count && merge.count + count <= CT_PACK_EVENTS) {
        uint64_t first = packed->next_seq - merge.count;
        if (count)
            memcpy(merge.events + merge.count, events, count * sizeof *events);
        merge.count += count;
        const uint8_t *block = ct_pack_events(packed->pack, merge.events, merge.count, first, packed->tid, &size);
        *merged = assemble(&merge, block, size) && replace(packed, merge.bytes, merge.size) == 0;
        if (*merged) {
            error = remember_all(packed, &merge);
            packed->end = packed->loose + merge.size;
            packed->loose_blocks = 1;
            packed->loose_events = (uint32_t)merge.count;
            if (merge.count >= SMALL_EVENTS)
                seal(packed);
        }
    }
    release(&merge);
    if (!*merged)
        seal(packed); /* they stay as they are */
    return error;
}

/* ---- files ---- */

static int write_end(struct packed *packed) {
    struct ctp_footer footer = {
        .magic = {'1', 'P', 'T', 'C'},
        .event_count = packed->next_seq - packed->first_seq,
        .time_start_ns = packed->time_first,
        .time_end_ns = packed->time_last,
        .link_count = packed->link_count,
    };
    int error = write_table(packed);
    if (error)
        return error;
    footer.table_offset = packed->last_table;
    footer.block_count = packed->block_count;
    footer.crc = ct_crc32(0, &footer.table_offset, sizeof footer - offsetof(struct ctp_footer, table_offset));
    error = put(packed, &footer, FOOTER, packed->end, 0);
    if (!error)
        packed->end += FOOTER;
    return error;
}

/* The file is in use. */
static int finish_file(struct packed *packed) {
    bool merged;
    int error = packed->loose_blocks > 1 ? merge_loose(packed, NULL, 0, &merged) : 0;
    seal(packed);
    if (!error)
        error = write_header(packed);
    if (!error)
        error = write_end(packed);
    return error;
}

/* The open calls, for readers that begin here. */
static int write_stack(struct packed *packed, uint64_t time_ns) {
    struct ctp_block header = {.type = CTP_STACK,
                               .count = (uint32_t)packed->depth,
                               .first_seq = packed->next_seq,
                               .time_first_ns = time_ns,
                               .time_last_ns = time_ns,
                               .depth = (uint32_t)packed->depth};
    uint64_t last = 0;
    if (packed->depth > MAX_STACK)
        return 0;
    uint8_t *block = malloc(BLOCK + 10 * packed->depth + 8), *p = block + BLOCK;
    if (!block)
        return ENOMEM;
    memcpy(block, &header, BLOCK);
    for (size_t i = 0; i < packed->depth; i++) {
        p = ct_varint_put(p, ct_zigzag(packed->stack[i] - last));
        last = packed->stack[i];
    }
    int error = append(packed, block, ct_pack_seal(block, (size_t)(p - block)));
    free(block);
    seal(packed);
    return error;
}

/* The file is in use afterwards, also when its header could not be written. */
static int begin_file(struct packed *packed) {
    char *path = ct_sink_path(packed->directory, "ctp", packed->number, packed->series != NULL);
    int error = ct_file_open(&packed->file, &ct_file_writers, path, O_RDWR | O_CREAT | O_EXCL);
    if (error)
        return error;
    packed->end = HEADER;
    packed->first_seq = packed->next_seq;
    packed->time_first = packed->time_last = 0;
    packed->entry_count = 0;
    packed->last_table = packed->block_count = packed->link_count = 0;
    seal(packed);
    return write_header(packed);
}

static void tell_finished(struct packed *packed, const char *path) {
    if (packed->series)
        ct_series_finished(packed->series, path, packed->end, packed->next_seq - packed->first_seq);
    packed->closed_bytes += packed->end;
    packed->end = 0;
}

static int next_file(struct packed *packed, uint64_t time_ns) {
    int error = finish_file(packed);
    char *path = strdup(packed->file.path);
    ct_file_rest(&packed->file);
    int late = ct_file_close(&packed->file);
    if (path)
        tell_finished(packed, path);
    free(path);
    if (error || late || !path)
        return error ? error : late ? late : ENOMEM;
    packed->number++;
    error = begin_file(packed);
    return error ? error : write_stack(packed, time_ns);
}

/* ---- events ---- */

/* With segments: what is open behind the events that were packed. */
static int follow_stack(struct packed *packed) {
    struct ct_pack_net net = ct_pack_net(packed->pack);
    if (!packed->series)
        return 0;
    size_t below = net.depth > net.call_count ? net.depth - net.call_count : 0, depth = below + net.call_count;
    if (depth > MAX_STACK) {
        packed->depth = depth; /* nobody will know them */
        return 0;
    }
    if (depth > packed->stack_room) {
        uint64_t *stack = realloc(packed->stack, 2 * depth * sizeof *stack);
        if (!stack)
            return ENOMEM;
        packed->stack = stack;
        packed->stack_room = 2 * depth;
    }
    size_t known = packed->depth > MAX_STACK ? 0 : packed->depth;
    for (size_t i = known; i < below; i++)
        packed->stack[i] = 0;
    if (net.call_count)
        memcpy(packed->stack + below, net.calls, net.call_count * sizeof *net.calls);
    packed->depth = depth;
    return 0;
}

/* Up to CT_PACK_EVENTS events. */
static int write_run(struct packed *packed, const struct atf_index_event *events, size_t count) {
    bool small = count < SMALL_EVENTS, merged = false;
    int error = 0;
    size_t size;
    const uint8_t *block = ct_pack_events(packed->pack, events, count, packed->next_seq, packed->tid, &size);
    error = follow_stack(packed);
    if (small && packed->loose_blocks && !error &&
        (packed->loose_blocks + 1 >= LOOSE_BLOCKS || packed->loose_events + count >= GOOD_EVENTS)) {
        if (packed->end - packed->loose > LOOSE_BYTES)
            seal(packed);
        else
            error = merge_loose(packed, events, count, &merged);
        if (!merged) /* its memory was used */
            block = ct_pack_events(packed->pack, events, count, packed->next_seq, packed->tid, &size);
    }
    if (!merged && !error) {
        error = append(packed, block, size);
        packed->loose_blocks++;
        packed->loose_events += (uint32_t)count;
        if (!small)
            seal(packed);
    }
    if (error)
        return error;
    if (packed->next_seq == packed->first_seq)
        packed->time_first = events[0].timestamp_ns;
    packed->time_last = events[count - 1].timestamp_ns;
    packed->next_seq += count;
    if (packed->series)
        ct_series_grown(packed->series, packed->end, packed->time_first, packed->time_last);
    return packed->entry_count >= TABLE_BLOCKS && packed->loose == packed->end ? write_table(packed) : 0;
}

static int write_links(struct packed *packed, const struct ct_link *links, size_t count) {
    uint8_t *block = malloc(CT_PACK_LINKS_BYTES);
    int error = block ? 0 : ENOMEM;
    for (size_t n; count && !error; links += n, count -= n) {
        for (n = 1; n < count && n < CT_PACK_LINKS && links[n].index_seq - links[0].index_seq <= UINT32_MAX;)
            n++;
        error = append(packed, block, ct_pack_links(block, links, n));
        packed->link_count += error ? 0 : n;
        packed->loose_blocks += packed->loose_blocks != 0;
    }
    if (!packed->loose_blocks)
        seal(packed);
    free(block);
    return error;
}

/* Events that came with their detail. */
static int link_run(struct packed *packed, const struct atf_index_event *events, size_t count, uint64_t first_seq) {
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

static int write_all(struct packed *packed, const struct atf_index_event *events, size_t count, size_t *done) {
    int error = 0;
    while (*done < count && !error) {
        size_t n = count - *done < CT_PACK_EVENTS ? count - *done : CT_PACK_EVENTS;
        const struct atf_index_event *run = events + *done;
        if (packed->series && ct_series_is_full(packed->series, run->timestamp_ns))
            error = next_file(packed, run->timestamp_ns);
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

static int use(struct packed *packed) {
    int error = packed->file.path ? ct_file_use(&packed->file) : EBADF;
    if (error)
        return error;
    packed->pack = ct_pack_take();
    if (packed->pack)
        return 0;
    ct_file_rest(&packed->file);
    return ENOMEM;
}

static void rest(struct packed *packed) {
    ct_pack_give(packed->pack);
    packed->pack = NULL;
    if (packed->file.path)
        ct_file_rest(&packed->file);
}

static int packed_write(void *sink, const struct atf_index_event *events, size_t count, size_t *done) {
    struct packed *packed = sink;
    int error = use(packed);
    *done = 0;
    if (error)
        return error;
    error = write_all(packed, events, count, done);
    rest(packed);
    return error;
}

static int packed_link(void *sink, struct ct_link *links, size_t count) {
    struct packed *packed = sink;
    int error = use(packed);
    if (error)
        return error;
    ct_links_sort(links, count);
    error = write_links(packed, links, count);
    rest(packed);
    return error;
}

static void free_packed(struct packed *packed) {
    free(packed->entries);
    free(packed->stack);
    free(packed);
}

static int packed_open(void **sink, const struct ct_sink_options *options) {
    struct packed *packed = calloc(1, sizeof *packed);
    if (!packed)
        return ENOMEM;
    packed->directory = options->directory;
    packed->tid = options->tid;
    packed->series = options->series;
    packed->number = 1;
    int error = begin_file(packed);
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
    struct packed *packed = sink;
    int error = use(packed);
    if (!error) {
        error = finish_file(packed);
        rest(packed);
    }
    char *path = packed->file.path ? strdup(packed->file.path) : NULL;
    int late = ct_file_close(&packed->file);
    if (path)
        tell_finished(packed, path);
    free(path);
    free_packed(packed);
    return error ? error : late;
}

static uint64_t packed_bytes(const void *sink) {
    const struct packed *packed = sink;
    return packed->closed_bytes + packed->end;
}

static void packed_set_part(void *sink, uint64_t events) {
    (void)sink; /* positions are 64 bits wide: one file holds them all */
    (void)events;
}

const struct ct_sink_kind ct_packed_sink = {packed_open,   packed_write, packed_link,
                                            packed_finish, packed_bytes, packed_set_part};
