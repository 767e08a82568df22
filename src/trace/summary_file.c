/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a summary: whether it fits its trace, and whether everything in it is possible. */
#include "trace/crc32.h"
#include "trace/summary_internal.h"
#include "trace/switches_file.h"
#include "trace/waits.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LEAST_LIMIT (1u << 20) /* bytes that a summary may have in any case */
#define SHARE       8          /* else at most an eighth of its index files */
#define EDGE        64         /* bytes of a header or footer */
#define QUIET_S     5          /* a file without an end that was changed later than this is being written */

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * 0x9e3779b97f4a7c15u ^ hash >> 29;
}

/* ---- what it was made from ---- */

static uint64_t index_bytes(const struct ct_index *index) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < index->part_count; i++)
        bytes += index->parts[i]->size;
    return bytes;
}

/* Header and footer have the checksums and counts. A file that was not finished is recognised by its time too. */
static uint64_t mix_part(uint64_t hash, struct ct_index_part *part) {
    uint8_t edge[2 * EDGE] = {0};
    struct stat status = {0};
    size_t done;
    hash = mix(mix(mix(hash, part->size), part->first), part->end);
    hash = mix(mix(hash, part->count), part->state);
    hash = mix(hash, ct_crc32(0, part->name, strlen(part->name)));
    if (part->file.path && ct_file_use(&part->file) == 0) {
        (void)ct_file_read(part->file.fd, edge, EDGE, 0, &done);
        if (part->size >= EDGE)
            (void)ct_file_read(part->file.fd, edge + EDGE, EDGE, part->size - EDGE, &done);
        (void)fstat(part->file.fd, &status);
        ct_file_rest(&part->file);
    }
    hash = mix(hash, ct_crc32(0, edge, sizeof edge));
    if (part->packed && part->packed->block_count)
        hash = mix(hash, ct_crc32(0, part->packed->blocks, part->packed->block_count * sizeof *part->packed->blocks));
    if (part->state == CT_INDEX_GOOD)
        return hash;
    return mix(mix(hash, (uint64_t)status.st_mtim.tv_sec), (uint64_t)status.st_mtim.tv_nsec);
}

/* Time that belongs to no call: waits for the recorder, and the file of switches by its size. */
static uint64_t mix_waits(const struct ct_summary_source *source, uint64_t hash) {
    const struct trace_thread *thread = &source->trace->threads[source->thread];
    const struct trace_process *process = &source->trace->processes[thread->info.process];
    struct ct_waits waits;
    struct stat file;
    if (ct_waits_of_thread(&waits, source->options->facts, source->trace, source->thread) == 0) {
        for (size_t i = 0; i < waits.count; i++)
            hash = mix(mix(hash, waits.spans[i].from_ns), waits.spans[i].to_ns);
        ct_waits_free(&waits);
    }
    char *path = ct_file_path("%s/thread_%u/" CT_SWITCHES_FILE, process->directory, thread->info.id);
    if (path && stat(path, &file) == 0)
        hash = mix(hash, (uint64_t)file.st_size);
    free(path);
    return hash;
}

static uint64_t mix_facts(const struct ct_summary_source *source, uint64_t entry_only) {
    const struct ct_thread_facts *facts = &source->options->facts->threads[source->thread];
    uint64_t hash = mix(mix(CTS_VERSION, entry_only), facts->complete);
    for (size_t i = 0; i < facts->gap_count; i++)
        hash = mix(hash, facts->gaps[i].at);
    return mix_waits(source, mix(hash, facts->gap_count));
}

int ct_summary_identify(struct ct_summary_source *source) {
    const struct trace_thread *thread = &source->trace->threads[source->thread];
    pthread_mutex_t *names = source->options->names;
    if (names)
        pthread_mutex_lock(names);
    const struct ct_symbols *symbols = ct_trace_symbols(source->trace, thread->info.process);
    uint64_t entry_only = ct_symbols_entry_only(symbols);
    if (names)
        pthread_mutex_unlock(names);
    source->facts = mix_facts(source, entry_only);
    source->files = thread->index.part_count;
    for (size_t i = 0; i < thread->index.part_count; i++)
        source->files = mix(source->files, mix_part(0, thread->index.parts[i]));
    return symbols ? 0 : CT_ERR_NO_MEMORY;
}

/* ---- checks ---- */

static bool check_header(const struct cts_header *h, const struct ct_summary_source *source, size_t size) {
    const struct ct_index *index = &source->trace->threads[source->thread].index;
    return !memcmp(h->magic, CTS_MAGIC, 4) && h->version == CTS_VERSION && h->size == size &&
           h->files == source->files && h->facts == source->facts && h->first_seq == index->first &&
           h->end_seq == index->end && h->event_count <= index->count && h->bitmap_size >= 8 &&
           h->bitmap_size <= CT_SUMMARY_BITS / 8 && !(h->bitmap_size & (h->bitmap_size - 1)) &&
           h->frame_count <= size / sizeof(struct cts_frame) && h->call_count < CTS_UNKNOWN &&
           size == sizeof *h + (uint64_t)h->span_count * (sizeof(struct cts_span) + h->bitmap_size) +
                       (uint64_t)h->function_count * sizeof(struct cts_function) +
                       (uint64_t)h->call_count * sizeof(struct cts_call) +
                       (uint64_t)h->start_count * sizeof(struct cts_start) + h->frame_count * sizeof(struct cts_frame);
}

/* Finds the block that begins at the position, from *part and *block on. */
static bool begins_block(const struct ct_index *index, size_t *part, size_t *block, const struct cts_span *span) {
    for (; *part < index->part_count; ++*part, *block = 0) {
        const struct ct_index_part *p = index->parts[*part];
        if (p->end <= span->first_seq)
            continue;
        if (!p->packed)
            return p->first <= span->first_seq;
        while (*block < p->packed->block_count && p->packed->blocks[*block].first_seq < span->first_seq)
            ++*block;
        return *block < p->packed->block_count && p->packed->blocks[*block].first_seq == span->first_seq &&
               p->packed->blocks[*block].time_first_ns == span->time_first_ns;
    }
    return false;
}

static bool check_spans(const struct ct_summary *s, const struct ct_index *index) {
    uint64_t events = 0, next = s->header->first_seq, last_ns = 0;
    bool ordered = !(s->header->flags & CTS_UNORDERED);
    size_t part = 0, block = 0;
    for (uint32_t i = 0; i < s->header->span_count; i++) {
        const struct cts_span *span = &s->spans[i];
        uint64_t end = i + 1 < s->header->span_count ? s->spans[i + 1].first_seq : s->header->end_seq;
        if (span->first_seq < next || span->first_seq >= end || !span->count || span->count > end - span->first_seq ||
            !begins_block(index, &part, &block, span))
            return false;
        if (ordered && (span->time_first_ns < last_ns || span->time_last_ns < span->time_first_ns))
            return false;
        last_ns = span->time_last_ns;
        next = span->first_seq + 1;
        events += span->count;
    }
    return events == s->header->event_count;
}

static bool check_calls(const struct ct_summary *s) {
    for (uint32_t i = 0; i < s->header->call_count; i++)
        if (s->calls[i].end > CTS_LOST)
            return false;
    return true;
}

static bool check_start(const struct ct_summary *s, const struct cts_start *start) {
    const struct cts_header *h = s->header;
    if (start->span >= h->span_count || start->first_frame > h->frame_count ||
        start->frame_count > h->frame_count - start->first_frame || start->running > start->frame_count)
        return false;
    const struct cts_frame *frames = s->frames + start->first_frame;
    for (uint32_t i = 0; i < start->frame_count; i++) {
        uint32_t call = frames[i].call;
        if (frames[i].caller > i || call == CTS_UNKNOWN || (!(call & CTS_UNKNOWN) && call >= h->call_count))
            return false;
    }
    return true;
}

static bool check_starts(const struct ct_summary *s, const struct ct_thread_facts *facts) {
    for (uint32_t i = 0; i < s->header->start_count; i++)
        if (!check_start(s, &s->starts[i]) || s->starts[i].gaps > facts->gap_count ||
            (i && s->starts[i].span <= s->starts[i - 1].span))
            return false;
    return s->header->start_count ? s->starts[0].span == 0 && s->starts[0].frame_count == 0 : !s->header->span_count;
}

bool ct_summary_check(struct ct_summary *s, const struct ct_summary_source *source, uint8_t *bytes, size_t size) {
    const struct ct_index *index = &source->trace->threads[source->thread].index;
    const struct cts_header *h = (const struct cts_header *)bytes;
    size_t covered = offsetof(struct cts_header, version);
    if (size < sizeof *h || !check_header(h, source, size) || h->crc != ct_crc32(0, bytes + covered, size - covered))
        return false;
    *s = (struct ct_summary){.bytes = bytes, .header = h};
    s->spans = (const struct cts_span *)(bytes + sizeof *h);
    s->bitmaps = (const uint8_t *)(s->spans + h->span_count);
    s->functions = (const struct cts_function *)(s->bitmaps + (size_t)h->span_count * h->bitmap_size);
    s->calls = (const struct cts_call *)(s->functions + h->function_count);
    s->starts = (const struct cts_start *)(s->calls + h->call_count);
    s->frames = (const struct cts_frame *)(s->starts + h->start_count);
    return check_spans(s, index) && check_calls(s) && check_starts(s, &source->options->facts->threads[source->thread]);
}

/* ---- the file ---- */

static char *directory_of(const struct ct_summary_source *source) {
    const struct trace_thread *thread = &source->trace->threads[source->thread];
    return ct_file_path("%s/thread_%u", source->trace->processes[thread->info.process].directory, thread->info.id);
}

bool ct_summary_exists(const struct ct_summary_source *source) {
    char *directory = directory_of(source);
    bool exists = directory && ct_find_exists(directory, CTS_FILE);
    free(directory);
    return exists;
}

bool ct_summary_load(struct ct_summary *summary, const struct ct_summary_source *source) {
    uint64_t limit = index_bytes(&source->trace->threads[source->thread].index) / SHARE + LEAST_LIMIT;
    char *directory = directory_of(source), *path = directory ? ct_file_path("%s/" CTS_FILE, directory) : NULL;
    char *bytes = NULL;
    size_t size = 0;
    int error = path ? ct_file_load(path, limit, &bytes, &size) : ENOMEM;
    free(path);
    free(directory);
    if (!error && ct_summary_check(summary, source, (uint8_t *)bytes, size))
        return true;
    free(bytes);
    return false;
}

/* A thread that is still being written needs another summary in a moment. */
static bool is_quiet(const struct ct_summary_source *source) {
    const struct trace_thread *thread = &source->trace->threads[source->thread];
    bool quiet = thread->index.part_count != 0;
    for (size_t i = 0; i < thread->index.part_count; i++) {
        struct ct_index_part *part = thread->index.parts[i];
        struct stat status;
        if (part->state == CT_INDEX_GOOD || !part->file.path || ct_file_use(&part->file) != 0)
            continue;
        quiet &= fstat(part->file.fd, &status) == 0 && status.st_mtim.tv_sec + QUIET_S < time(NULL);
        ct_file_rest(&part->file);
    }
    return quiet;
}

/* Users who can read the directory can read the summary. */
int ct_summary_create(struct ct_place *place, const char *name) {
    struct stat above;
    int fd = ct_file_open_fresh(place, name);
    if (fd >= 0 && fstat(ct_place_descriptor(place), &above) == 0 && fchown(fd, (uid_t)-1, above.st_gid) == 0)
        (void)fchmod(fd, above.st_mode & 0640);
    return fd;
}

static void write_file(struct ct_place *place, const uint8_t *bytes, size_t size) {
    char fresh[64];
    size_t done;
    snprintf(fresh, sizeof fresh, "." CTS_FILE ".%d", (int)getpid());
    int fd = ct_summary_create(place, fresh);
    if (fd < 0)
        return;
    int error = ct_file_write(fd, bytes, size, 0, 0, &done);
    if (close(fd) != 0 || error || ct_place_replace(place, fresh, CTS_FILE) != 0)
        (void)ct_place_remove(place, fresh);
}

/* The thread's directory, if a summary may be stored there; NULL: not. */
static struct ct_place *place_to_store(const struct ct_summary_source *source) {
    struct ct_place *place = NULL;
    char *directory = is_quiet(source) ? directory_of(source) : NULL;
    if (directory && ct_place_open(&place, directory, 0, CT_PLACE_NO_GROUP) != 0)
        place = NULL;
    free(directory);
    if (place && ct_place_is_closed(place) && faccessat(ct_place_descriptor(place), ".", W_OK, AT_EACCESS) == 0)
        return place;
    ct_place_drop(place);
    return NULL;
}

bool ct_summary_can_store(const struct ct_summary_source *source) {
    struct ct_place *place = place_to_store(source);
    ct_place_drop(place);
    return place;
}

void ct_summary_store(const struct ct_summary_source *source, const uint8_t *bytes, size_t size) {
    struct ct_place *place = place_to_store(source);
    if (place)
        write_file(place, bytes, size);
    ct_place_drop(place);
}

/* ---- for others ---- */

uint64_t ct_summary_identity(struct ct_trace *trace, size_t thread, const struct ct_facts *facts) {
    const struct ct_summary_options options = {.facts = facts};
    struct ct_summary_source source = {.trace = trace, .thread = thread, .options = &options};
    return ct_summary_identify(&source) == 0 ? mix(source.files, source.facts) : 0;
}

struct ct_place *ct_summary_place(struct ct_trace *trace, size_t thread) {
    const struct ct_summary_source source = {.trace = trace, .thread = thread};
    return place_to_store(&source);
}
