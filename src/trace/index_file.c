/* SPDX-License-Identifier: Apache-2.0 */
/* The index files of a thread, raw or packed: counts and reads their events.
 *
 * Files are read, not mapped: a file that shrinks while it is open (a recorder whose disk is full cuts off a torn
 * event) must not kill the reader, and thousands of threads must not need thousands of descriptors. A header is trusted
 * only where the file's size agrees. */
#include "trace/reader.h"
#include <contrail/status.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EVENT  sizeof(struct atf_index_event)
#define FOOTER sizeof(struct atf_index_footer)

static bool read_whole(int fd, void *to, size_t size, uint64_t offset) {
    size_t done;
    return ct_file_read(fd, to, size, offset, &done) == 0 && done == size;
}

static bool footer_at(int fd, uint64_t offset, uint64_t count) {
    struct atf_index_footer footer;
    return read_whole(fd, &footer, FOOTER, offset) && memcmp(footer.magic, ATF_INDEX_FOOTER_MAGIC, 4) == 0 &&
           footer.event_count == count;
}

static bool is_readable(const struct atf_index_header *header, uint64_t size) {
    return memcmp(header->magic, ATF_INDEX_MAGIC, 4) == 0 && header->endian == ATF_LITTLE_ENDIAN &&
           header->version == ATF_VERSION && header->event_size == EVENT && header->events_offset >= sizeof *header &&
           header->events_offset <= size;
}

/* Raw and packed headers begin alike, in all versions. */
static bool is_newer(const struct atf_index_header *header, bool packed) {
    return memcmp(header->magic, packed ? CTP_MAGIC : ATF_INDEX_MAGIC, 4) == 0 && header->endian == ATF_LITTLE_ENDIAN &&
           header->version > (packed ? CTP_VERSION : ATF_VERSION);
}

static bool readable_packed(const struct ctp_header *header) {
    return memcmp(header->magic, CTP_MAGIC, 4) == 0 && header->endian == ATF_LITTLE_ENDIAN &&
           header->version == CTP_VERSION;
}

static void inspect_raw(struct ct_index_part *part, const struct atf_index_header *header) {
    int fd = part->file.fd;
    part->thread_id = header->thread_id;
    part->arch = header->arch;
    part->events_offset = header->events_offset;
    if (part->segment)
        memcpy(&part->first, header->reserved, sizeof header->reserved);
    part->state = CT_INDEX_CUT;
    uint64_t room = part->size - header->events_offset;
    part->count = room / EVENT;
    if (header->footer_offset == header->events_offset + (uint64_t)header->event_count * EVENT) {
        if (header->event_count < part->count)
            part->count = header->event_count;
        if (part->count == header->event_count && footer_at(fd, header->footer_offset, part->count))
            part->state = CT_INDEX_GOOD;
    } else if (room >= FOOTER && (room - FOOTER) % EVENT == 0 &&
               footer_at(fd, part->size - FOOTER, (room - FOOTER) / EVENT)) {
        /* A footer, but the header does not have the counts: unusual, but clear. */
        part->count = (room - FOOTER) / EVENT;
        part->state = CT_INDEX_GOOD;
    }
}

/* The file is in use. Returns 0 or CT_ERR_NO_MEMORY. */
static int inspect_part(struct ct_index_part *part, bool packed) {
    union {
        struct atf_index_header raw;
        struct ctp_header packed;
    } header;
    struct stat status;
    int result = 0;
    if (fstat(part->file.fd, &status) != 0 || !S_ISREG(status.st_mode))
        return 0;
    part->size = (uint64_t)status.st_size;
    if (!read_whole(part->file.fd, &header, sizeof header, 0))
        return 0;
    if (packed && readable_packed(&header.packed))
        result = ct_packed_load(part);
    else if (!packed && is_readable(&header.raw, part->size))
        inspect_raw(part, &header.raw);
    else
        part->newer = is_newer(&header.raw, packed);
    return result;
}

static void close_part(struct ct_index_part *part) {
    ct_file_close(&part->file);
    ct_packed_free(part->packed);
    free(part);
}

/* index_NNNNNN.ctp or .atf, six digits or more; 0: another name. */
static unsigned segment_number(const char *name) {
    unsigned number;
    int digits = 0, length = 0;
    if (sscanf(name, "index_%n%9u.%n", &digits, &number, &length) != 1 || length - digits < 7 ||
        (strcmp(name + length, "ctp") != 0 && strcmp(name + length, "atf") != 0))
        return 0;
    return number;
}

/* *error ENOENT: there is no such file. After other failures the part is an unreadable one. */
static struct ct_index_part *open_part(struct ct_file_cache *cache, const char *directory, const char *name,
                                       int *error) {
    struct ct_index_part *part = calloc(1, sizeof *part);
    *error = ENOMEM;
    if (!part)
        return NULL;
    snprintf(part->name, sizeof part->name, "%s", name);
    part->state = CT_INDEX_UNREADABLE;
    part->segment = segment_number(name) != 0;
    *error = ct_file_open(&part->file, cache, NULL, ct_file_path("%s/%s", directory, name), O_RDONLY | O_NONBLOCK);
    if (*error == ENOENT || *error == ENOTDIR || *error == ENOMEM) {
        free(part);
        return NULL;
    }
    if (!*error) {
        int status = inspect_part(part, strstr(name, ".ctp") != NULL);
        ct_file_rest(&part->file);
        if (status) {
            close_part(part);
            *error = ENOMEM;
            return NULL;
        }
    }
    *error = 0;
    return part;
}

/* 0 or an errno; ENOENT: there is no such file. */
static int add_part(struct ct_index *index, struct ct_file_cache *cache, const char *directory, const char *name) {
    int error;
    struct ct_index_part *part = open_part(cache, directory, name, &error);
    if (!part)
        return error;
    struct ct_index_part **parts = realloc(index->parts, (index->part_count + 1) * sizeof *parts);
    if (!parts) {
        close_part(part);
        return ENOMEM;
    }
    index->parts = parts;
    parts[index->part_count++] = part;
    return 0;
}

/* ---- segments ---- */

static int only_segments(const struct dirent *entry) {
    return segment_number(entry->d_name) != 0;
}

static int by_number(const struct dirent **a, const struct dirent **b) {
    unsigned x = segment_number((*a)->d_name), y = segment_number((*b)->d_name);
    return (x > y) - (x < y);
}

static int add_segments(struct ct_index *index, struct ct_file_cache *cache, const char *directory) {
    struct dirent **names;
    int error = 0, count = scandir(directory, &names, only_segments, by_number);
    if (count < 0)
        return errno == ENOMEM ? ENOMEM : 0;
    for (int i = 0; i < count; i++) {
        if (!error)
            error = add_part(index, cache, directory, names[i]->d_name);
        if (error == ENOENT) /* the recorder has just deleted it */
            error = 0;
        free(names[i]);
    }
    free(names);
    return error;
}

/* ---- the index ---- */

/* Sets the position of each part in the thread. Segments contain it themselves; one that cannot be read, or has an
 * impossible position, gets none. */
static void place_parts(struct ct_index *index) {
    uint64_t next = 0;
    for (size_t i = 0; i < index->part_count; i++) {
        struct ct_index_part *part = index->parts[i];
        if (part->state == CT_INDEX_UNREADABLE || (part->segment && part->first < next)) {
            part->count = 0;
            part->state = CT_INDEX_UNREADABLE;
        }
        if (part->state == CT_INDEX_UNREADABLE || (!part->segment && !part->packed))
            part->first = next;
        if (!part->packed || part->state == CT_INDEX_UNREADABLE)
            part->end = part->first + part->count;
        if (!index->count)
            index->first = part->first;
        next = index->end = part->end;
        index->count += part->count;
        index->cut |= part->state != CT_INDEX_GOOD || (part->packed && part->packed->missing);
    }
    index->cut |= index->part_count == 0;
}

int ct_index_open(struct ct_index *index, struct ct_file_cache *cache, const char *directory) {
    char name[32] = "index.atf";
    *index = (struct ct_index){0};
    int error = add_part(index, cache, directory, "index.ctp");
    for (unsigned number = 2; error == ENOENT || (!error && number > 2); number++) {
        error = add_part(index, cache, directory, name);
        if (error)
            break;
        snprintf(name, sizeof name, "index_%u.atf", number);
    }
    if (!index->part_count && error != ENOMEM)
        error = add_segments(index, cache, directory);
    if (error == ENOMEM) {
        ct_index_close(index);
        return CT_ERR_NO_MEMORY;
    }
    place_parts(index);
    return 0;
}

void ct_index_close(struct ct_index *index) {
    for (size_t i = 0; i < index->part_count; i++)
        close_part(index->parts[i]);
    free(index->parts);
    ct_unpack_free(&index->unpack);
    *index = (struct ct_index){0};
}

/* The part that contains the position; NULL: none. */
static struct ct_index_part *part_at(const struct ct_index *index, uint64_t sequence) {
    size_t low = 0, high = index->part_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->parts[middle]->end <= sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low < index->part_count && index->parts[low]->first <= sequence ? index->parts[low] : NULL;
}

static size_t read_raw(struct ct_index_part *part, uint64_t sequence, struct atf_index_event *events, size_t count) {
    size_t done;
    sequence -= part->first;
    if (count > part->count - sequence)
        count = (size_t)(part->count - sequence);
    int error = ct_file_read(part->file.fd, events, count * EVENT, part->events_offset + sequence * EVENT, &done);
    return error ? 0 : done / EVENT;
}

size_t ct_index_read(struct ct_index *index, uint64_t sequence, struct atf_index_event *events, size_t count) {
    struct ct_index_part *part = part_at(index, sequence);
    if (!part || ct_file_use(&part->file) != 0)
        return 0;
    bool packed = part->packed;
    size_t done =
        packed ? ct_packed_read(index, part, sequence, events, count) : read_raw(part, sequence, events, count);
    ct_file_rest(&part->file);
    for (size_t i = 0; packed && i < index->part_count; i++) /* links come after their events */
        if (index->parts[i]->packed && index->parts[i]->packed->link_count)
            ct_packed_links(index->parts[i], sequence, events, done);
    return done;
}

uint64_t ct_index_skip(const struct ct_index *index, uint64_t sequence) {
    for (size_t i = 0; i < index->part_count; i++) {
        const struct ct_index_part *part = index->parts[i];
        if (part->end <= sequence)
            continue;
        if (part->first > sequence)
            return part->first;
        uint64_t next = part->packed ? ct_packed_skip(part, sequence) : part->end;
        if (next < part->end)
            return next;
        sequence = part->end;
        return i + 1 < index->part_count && index->parts[i + 1]->first > sequence ? index->parts[i + 1]->first
                                                                                  : sequence;
    }
    return index->end;
}

uint64_t ct_index_block_end(const struct ct_index *index, uint64_t sequence, uint64_t most) {
    const struct ct_index_part *part = part_at(index, sequence);
    if (!part)
        return ct_index_skip(index, sequence);
    if (part->packed)
        return ct_packed_skip(part, sequence);
    return part->end - sequence > most ? sequence + most : part->end;
}

/* ---- by time ---- */

static uint64_t search_raw(struct ct_index_part *part, uint64_t time_ns) {
    uint64_t low = part->first, high = part->end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        struct atf_index_event event;
        if (read_raw(part, middle, &event, 1) != 1 || event.timestamp_ns >= time_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint64_t ct_index_search(struct ct_index *index, uint64_t time_ns) {
    for (size_t i = 0; i < index->part_count; i++) {
        struct ct_index_part *part = index->parts[i];
        if (part->end == part->first || ct_file_use(&part->file) != 0)
            continue;
        uint64_t found = part->packed ? ct_packed_search(index, part, time_ns) : search_raw(part, time_ns);
        ct_file_rest(&part->file);
        if (found < part->end)
            return found;
    }
    return index->end;
}
