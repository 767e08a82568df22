/* SPDX-License-Identifier: Apache-2.0 */
/* detail.atf and its continuations: finds a record by its number and decodes it.
 *
 * Records differ in length, so a file is read through once, when its first record is requested, and the offset of every
 * 64th is kept. When that table is full, every second entry is dropped. Files are read, not mapped, and trusted only as
 * far as lengths make sense: what follows a damaged record cannot be found. */
#include "base/grow.h"
#include "base/sized.h"
#include "trace/reader.h"
#include <contrail/status.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD      sizeof(struct atf_detail_event)
#define FOOTER      sizeof(struct atf_detail_footer)
#define WINDOW      (32u << 10)
#define STRIDE      64
#define TABLE_LIMIT (16u << 10) /* entries: 128 KiB */
_Static_assert(WINDOW >= 2 * ATF_DETAIL_LENGTH_MAX, "a record fits into the window wherever it begins");

/* ---- bytes ---- */

static bool read_whole(int fd, void *to, size_t size, uint64_t offset) {
    size_t done;
    return ct_file_read(fd, to, size, offset, &done) == 0 && done == size;
}

/* `size` bytes of a part, NULL when they cannot be read. */
static const uint8_t *bytes_at(struct ct_details *details, struct ct_detail_part *part, uint64_t offset, size_t size) {
    if (details->window_part == part && offset >= details->window_offset &&
        offset + size <= details->window_offset + details->window_size)
        return details->window + (offset - details->window_offset);
    uint64_t left = part->end - offset;
    if (offset > part->end || size > left || ct_file_use(&part->file) != 0)
        return NULL;
    size_t done = 0;
    details->window_part = NULL;
    int error = ct_file_read(part->file.fd, details->window, left < WINDOW ? (size_t)left : WINDOW, offset, &done);
    ct_file_rest(&part->file);
    if (error || done < size)
        return NULL;
    details->window_part = part;
    details->window_offset = offset;
    details->window_size = done;
    return details->window;
}

/* The record that begins at `offset`; NULL: no whole one does. */
static const uint8_t *record_at(struct ct_details *details, struct ct_detail_part *part, uint64_t offset,
                                struct atf_detail_event *event) {
    if (part->end - offset < RECORD)
        return NULL;
    const uint8_t *bytes = bytes_at(details, part, offset, RECORD);
    if (!bytes)
        return NULL;
    memcpy(event, bytes, RECORD);
    if (event->total_length < RECORD || event->total_length > ATF_DETAIL_LENGTH_MAX ||
        event->total_length > part->end - offset)
        return NULL;
    return bytes_at(details, part, offset, event->total_length);
}

/* ---- one file ---- */

static bool add_place(struct ct_detail_part *part, uint64_t offset) {
    if (part->table_count == TABLE_LIMIT) {
        for (size_t i = 0; i < TABLE_LIMIT / 2; i++)
            part->table[i] = part->table[2 * i];
        part->table_count = TABLE_LIMIT / 2;
        part->stride *= 2;
        if (part->count % part->stride)
            return true;
    }
    if (!ct_grow(&part->table, &part->table_room, part->table_count, sizeof *part->table, 16))
        return false;
    part->table[part->table_count++] = offset;
    return true;
}

static int look_through(struct ct_details *details, struct ct_detail_part *part) {
    struct atf_detail_event event;
    uint64_t offset = part->events_offset;
    part->stride = STRIDE;
    /* No event can refer to higher numbers. */
    for (; part->start + part->count < ATF_NO_DETAIL && record_at(details, part, offset, &event); part->count++) {
        if (part->count % part->stride == 0 && !add_place(part, offset))
            return CT_ERR_NO_MEMORY;
        offset += event.total_length;
    }
    if (offset != part->end)
        part->state = CT_INDEX_CUT; /* or damaged: verify finds out */
    part->end = offset;
    return 0;
}

static bool footer_at(int fd, uint64_t offset, uint64_t length) {
    struct atf_detail_footer footer;
    return read_whole(fd, &footer, FOOTER, offset) && memcmp(footer.magic, ATF_DETAIL_FOOTER_MAGIC, 4) == 0 &&
           footer.bytes_length == length;
}

static bool is_readable(const struct atf_detail_header *header, uint64_t size) {
    return memcmp(header->magic, ATF_DETAIL_MAGIC, 4) == 0 && header->endian == ATF_LITTLE_ENDIAN &&
           header->version == ATF_VERSION && header->events_offset >= sizeof *header && header->events_offset <= size;
}

/* Finds the end of the records. The file is in use. */
static void inspect_part(struct ct_detail_part *part) {
    struct stat status;
    int fd = part->file.fd;
    const struct atf_detail_header *header = &part->header;
    part->state = CT_INDEX_UNREADABLE;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return;
    part->size = (uint64_t)status.st_size;
    if (!read_whole(fd, &part->header, sizeof part->header, 0) || !is_readable(header, part->size))
        return;
    uint64_t room = part->size - header->events_offset;
    part->start = header->detail_seq_start;
    part->events_offset = header->events_offset;
    part->end = part->size;
    part->state = CT_INDEX_CUT;
    bool untouched = !header->event_count && !header->bytes_length;
    uint64_t length = untouched && room >= FOOTER ? room - FOOTER : header->bytes_length;
    if (!untouched && length < room)
        part->end = header->events_offset + length;
    if (length <= room && footer_at(fd, header->events_offset + length, length)) {
        part->end = header->events_offset + length;
        part->state = CT_INDEX_GOOD;
    }
}

static void close_part(struct ct_detail_part *part) {
    ct_file_close(&part->file);
    free(part->table);
    free(part);
}

static char *path_of(const char *directory, unsigned number) {
    return number == 1 ? ct_file_path("%s/detail.atf", directory) : ct_file_path("%s/detail_%u.atf", directory, number);
}

static int open_part(struct ct_details *details, struct ct_file_cache *cache, const char *directory, unsigned number) {
    struct ct_detail_part **parts = realloc(details->parts, (details->part_count + 1) * sizeof *parts);
    if (!parts)
        return CT_ERR_NO_MEMORY;
    details->parts = parts;
    struct ct_detail_part *part = calloc(1, sizeof *part);
    char *path = path_of(directory, number);
    if (!part || !path) {
        free(part);
        free(path);
        return CT_ERR_NO_MEMORY;
    }
    parts[details->part_count++] = part;
    part->number = number;
    part->state = CT_INDEX_UNREADABLE;
    if (ct_file_open(&part->file, cache, NULL, path, O_RDONLY | O_NONBLOCK) != 0)
        return 0;
    inspect_part(part);
    ct_file_rest(&part->file);
    return part->state == CT_INDEX_UNREADABLE ? 0 : look_through(details, part);
}

/* ---- the files of a thread ---- */

/* 0: not a file of ours. */
static unsigned number_of(const char *name) {
    unsigned number = 0;
    int length = 0;
    if (strcmp(name, "detail.atf") == 0)
        return 1;
    if (sscanf(name, "detail_%9u.atf%n", &number, &length) == 1 && length && !name[length] && number > 1)
        return number;
    return 0;
}

static int by_number(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/* Sorted, malloc'ed; NULL: none, or no memory. */
static unsigned *numbers_in(const char *directory, size_t *count) {
    unsigned *numbers = NULL;
    *count = 0;
    DIR *listing = opendir(directory);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        unsigned number = number_of(entry->d_name);
        if (!number)
            continue;
        unsigned *more = realloc(numbers, (*count + 1) * sizeof *numbers);
        if (!more)
            break;
        numbers = more;
        numbers[(*count)++] = number;
    }
    if (listing)
        closedir(listing);
    if (*count)
        qsort(numbers, *count, sizeof *numbers, by_number);
    return numbers;
}

bool ct_details_exist(const char *directory) {
    size_t count;
    free(numbers_in(directory, &count));
    return count != 0;
}

int ct_details_open(struct ct_details *details, struct ct_file_cache *cache, const char *directory) {
    size_t count;
    int status = 0;
    *details = (struct ct_details){.window = malloc(WINDOW)};
    if (!details->window)
        return CT_ERR_NO_MEMORY;
    unsigned *numbers = numbers_in(directory, &count);
    for (size_t i = 0; i < count && !status; i++)
        status = open_part(details, cache, directory, numbers[i]);
    free(numbers);
    if (status)
        ct_details_close(details);
    details->opened = !status;
    return status;
}

void ct_details_close(struct ct_details *details) {
    for (size_t i = 0; i < details->part_count; i++)
        close_part(details->parts[i]);
    free(details->parts);
    free(details->window);
    *details = (struct ct_details){0};
}

void ct_details_inspect(struct ct_file_cache *cache, const char *directory,
                        void (*each)(void *arg, const char *path, enum ct_index_state state, uint64_t records),
                        void *arg) {
    size_t count;
    unsigned *numbers = numbers_in(directory, &count);
    for (size_t i = 0; i < count; i++) {
        struct ct_detail_part part = {.state = CT_INDEX_UNREADABLE};
        char *path = path_of(directory, numbers[i]);
        if (path && ct_file_open(&part.file, cache, NULL, strdup(path), O_RDONLY | O_NONBLOCK) == 0) {
            inspect_part(&part);
            ct_file_rest(&part.file);
        }
        bool good = part.state == CT_INDEX_GOOD;
        each(arg, path ? path : directory, (enum ct_index_state)part.state, good ? part.header.event_count : 0);
        ct_file_close(&part.file);
        free(path);
    }
    free(numbers);
}

/* ---- records ---- */

static struct ct_detail_part *part_of(const struct ct_details *details, uint64_t sequence) {
    for (size_t i = details->part_count; i-- > 0;)
        if (sequence >= details->parts[i]->start && sequence - details->parts[i]->start < details->parts[i]->count)
            return details->parts[i];
    return NULL;
}

const uint8_t *ct_details_record(struct ct_details *details, uint64_t detail_seq, struct atf_detail_event *event) {
    struct ct_detail_part *part = part_of(details, detail_seq);
    if (!part)
        return NULL;
    uint64_t wanted = detail_seq - part->start, at = wanted / part->stride * part->stride;
    uint64_t offset = part->table[wanted / part->stride];
    if (details->last_part == part && details->last_seq <= wanted && details->last_seq > at) {
        at = details->last_seq;
        offset = details->last_offset;
    }
    for (;; at++) {
        const uint8_t *record = record_at(details, part, offset, event);
        if (!record)
            return NULL; /* the file has shrunk */
        offset += event->total_length;
        if (at < wanted)
            continue;
        details->last_part = part;
        details->last_seq = wanted + 1;
        details->last_offset = offset;
        return record;
    }
}

/* The piece that is not memory; false: it is. */
static bool parse_reals(const struct atf_detail_piece *piece, const uint8_t *bytes, struct ct_trace_detail *out) {
    if (piece->address != ATF_PIECE_REALS || piece->size > sizeof out->reals)
        return piece->address == ATF_PIECE_REALS;
    memcpy(out->reals, bytes, piece->size);
    out->real_count = piece->size / (unsigned)sizeof *out->reals;
    return true;
}

/* Pieces that we have no room for are left out. */
static int parse_pieces(const uint8_t *bytes, size_t size, struct ct_trace_detail *out) {
    size_t used = 0, most = sizeof out->pieces / sizeof *out->pieces;
    struct atf_detail_piece piece;
    while (size) {
        size_t padded;
        if (size < sizeof piece)
            return CT_ERR_BAD_FILE;
        memcpy(&piece, bytes, sizeof piece);
        padded = ((size_t)piece.size + 7) & ~(size_t)7;
        if (!piece.size || size - sizeof piece < padded)
            return CT_ERR_BAD_FILE;
        if (!parse_reals(&piece, bytes + sizeof piece, out) && out->piece_count < most &&
            piece.size <= sizeof out->piece_bytes - used) {
            memcpy(out->piece_bytes + used, bytes + sizeof piece, piece.size);
            out->pieces[out->piece_count].address = piece.address;
            out->pieces[out->piece_count].size = piece.size;
            out->pieces[out->piece_count++].offset = (uint16_t)used;
            used += piece.size;
        }
        bytes += sizeof piece + padded;
        size -= sizeof piece + padded;
    }
    return 0;
}

static int parse_call(const uint8_t *record, const struct atf_detail_event *event, struct ct_trace_detail *out) {
    struct atf_detail_call call;
    if (event->total_length < sizeof call)
        return CT_ERR_BAD_FILE;
    memcpy(&call, record, sizeof call);
    bool vectors = event->flags & ATF_DETAIL_VECTORS;
    struct atf_detail_errno error;
    size_t at = sizeof call + call.stack_size + (vectors ? sizeof out->vectors : 0);
    size_t needed = at + (event->flags & ATF_DETAIL_ERRNO ? sizeof error : 0);
    if (call.stack_size > sizeof out->stack || event->total_length < needed)
        return CT_ERR_BAD_FILE;
    out->function_id = call.function_id;
    memcpy(out->registers, call.registers, sizeof out->registers);
    out->return_address = call.return_address;
    out->frame_pointer = call.frame_pointer;
    out->stack_pointer = call.stack_pointer;
    out->stack_size = call.stack_size;
    memcpy(out->stack, record + sizeof call, call.stack_size);
    out->has_vectors = vectors;
    if (vectors)
        memcpy(out->vectors, record + sizeof call + call.stack_size, sizeof out->vectors);
    if (event->event_type == ATF_DETAIL_RETURN && event->flags & ATF_DETAIL_ERRNO) {
        memcpy(&error, record + at, sizeof error);
        out->errno_before = error.before;
        out->errno_after = error.after;
    }
    if (event->flags & ATF_DETAIL_STRINGS)
        return parse_pieces(record + needed, event->total_length - needed, out);
    return 0;
}

static int parse_signal(const uint8_t *record, const struct atf_detail_event *event, struct ct_trace_detail *out) {
    struct atf_detail_signal signal;
    if (event->total_length < sizeof signal)
        return CT_ERR_BAD_FILE;
    memcpy(&signal, record, sizeof signal);
    out->signal = signal.signal;
    out->code = (int32_t)signal.code;
    out->fault_address = signal.fault_address;
    size_t count = (event->total_length - sizeof signal) / sizeof *out->cpu, most = sizeof out->cpu / sizeof *out->cpu;
    out->cpu_count = (unsigned)(count < most ? count : most);
    memcpy(out->cpu, record + sizeof signal, out->cpu_count * sizeof *out->cpu);
    return 0;
}

int ct_details_parse(const uint8_t *record, const struct atf_detail_event *event, uint8_t arch,
                     struct ct_trace_detail *out) {
    out->type = event->event_type;
    out->index_seq = event->index_seq;
    out->timestamp_ns = event->timestamp;
    out->arch = arch;
    out->function_id = 0;
    out->stack_size = 0;
    out->has_vectors = false;
    out->errno_before = out->errno_after = CT_TRACE_NO_ERRNO;
    out->piece_count = out->real_count = 0;
    out->cpu_count = 0;
    if (event->event_type == ATF_DETAIL_CALL || event->event_type == ATF_DETAIL_RETURN)
        return parse_call(record, event, out);
    return event->event_type == ATF_DETAIL_SIGNAL ? parse_signal(record, event, out) : 0;
}

/* ---- of a trace ---- */

struct ct_details *ct_trace_details(struct ct_trace *trace, size_t thread) {
    struct trace_thread *owner = &trace->threads[thread];
    if (owner->details.opened)
        return &owner->details;
    char *directory = ct_file_path("%s/thread_%u", trace->processes[owner->info.process].directory, owner->info.id);
    int status = directory ? ct_details_open(&owner->details, &trace->cache, directory) : CT_ERR_NO_MEMORY;
    free(directory);
    return status ? NULL : &owner->details;
}

int ct_trace_detail(struct ct_trace *trace, size_t thread, uint32_t detail_seq, struct ct_trace_detail *out) {
    struct ct_trace_detail own = {.size = sizeof own};
    struct atf_detail_event event;
    if (thread >= trace->thread_count || !ct_sized_is_valid(out))
        return CT_ERR_INVALID_ARGUMENT;
    if (!trace->threads[thread].info.has_detail || detail_seq == ATF_NO_DETAIL)
        return CT_ERR_NOT_FOUND;
    struct ct_details *details = ct_trace_details(trace, thread);
    if (!details)
        return CT_ERR_NO_MEMORY;
    const uint8_t *record = ct_details_record(details, detail_seq, &event);
    int status = record ? ct_details_parse(record, &event, details->last_part->header.arch, &own) : CT_ERR_NOT_FOUND;
    return status ? status : ct_sized_copy_out(out, &own, sizeof own);
}

int ct_trace_detail_range(struct ct_trace *trace, size_t thread, uint64_t *first, uint64_t *end) {
    *first = *end = 0;
    if (thread >= trace->thread_count)
        return CT_ERR_INVALID_ARGUMENT;
    if (!trace->threads[thread].info.has_detail)
        return 0;
    struct ct_details *details = ct_trace_details(trace, thread);
    if (!details)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < details->part_count; i++) {
        const struct ct_detail_part *part = details->parts[i];
        if (!part->count)
            continue;
        if (!*end)
            *first = part->start;
        *end = part->start + part->count;
    }
    return 0;
}
