/* index.atf and its continuations: how many events there are to be read, and reading them.
 *
 * Files are read, not mapped: one that shrinks while it is open (a recorder whose disk is full cuts a torn event off) must
 * not kill the reader, and thousands of threads must not need thousands of descriptors. What a header says is believed only
 * where the file's size agrees. */
#include "trace/reader.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
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

static bool readable(const struct atf_index_header *header, uint64_t size) {
    return memcmp(header->magic, ATF_INDEX_MAGIC, 4) == 0 && header->endian == ATF_LITTLE_ENDIAN &&
           header->version == ATF_VERSION && header->event_size == EVENT && header->events_offset >= sizeof *header &&
           header->events_offset <= size;
}

/* The file is in use. */
static void inspect(struct ct_index_part *part) {
    struct atf_index_header header;
    struct stat status;
    int fd = part->file.fd;
    part->state = CT_INDEX_UNREADABLE;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return;
    part->size = (uint64_t)status.st_size;
    if (!read_whole(fd, &header, sizeof header, 0) || !readable(&header, part->size))
        return;
    part->thread_id = header.thread_id;
    part->events_offset = header.events_offset;
    part->state = CT_INDEX_CUT;
    uint64_t room = part->size - header.events_offset;
    part->count = room / EVENT;
    if (header.footer_offset == header.events_offset + (uint64_t)header.event_count * EVENT) {
        if (header.event_count < part->count)
            part->count = header.event_count;
        if (part->count == header.event_count && footer_at(fd, header.footer_offset, part->count))
            part->state = CT_INDEX_GOOD;
    } else if (room >= FOOTER && (room - FOOTER) % EVENT == 0 &&
               footer_at(fd, part->size - FOOTER, (room - FOOTER) / EVENT)) {
        /* A footer without a header that knows of it: not our order, but clear. */
        part->count = (room - FOOTER) / EVENT;
        part->state = CT_INDEX_GOOD;
    }
}

/* *error ENOENT: there is no such part. Other failures to open make it an unreadable one. */
static struct ct_index_part *open_part(struct ct_file_cache *cache, const char *directory, size_t number, int *error) {
    struct ct_index_part *part = calloc(1, sizeof *part);
    char *path =
        number == 1 ? ct_file_path("%s/index.atf", directory) : ct_file_path("%s/index_%zu.atf", directory, number);
    *error = ENOMEM;
    if (!part) {
        free(path);
        return NULL;
    }
    part->state = CT_INDEX_UNREADABLE;
    *error = ct_file_open(&part->file, cache, path, O_RDONLY | O_NONBLOCK);
    if (*error == ENOENT || *error == ENOTDIR || *error == ENOMEM) {
        free(part);
        return NULL;
    }
    if (!*error) {
        inspect(part);
        ct_file_rest(&part->file);
    }
    *error = 0;
    return part;
}

static void close_part(struct ct_index_part *part) {
    ct_file_close(&part->file);
    free(part);
}

int ct_index_open(struct ct_index *index, struct ct_file_cache *cache, const char *directory) {
    struct ct_index_part *part;
    int error;
    *index = (struct ct_index){0};
    while ((part = open_part(cache, directory, index->part_count + 1, &error))) {
        struct ct_index_part **parts = realloc(index->parts, (index->part_count + 1) * sizeof *parts);
        if (!parts) {
            close_part(part);
            error = ENOMEM;
            break;
        }
        index->parts = parts;
        parts[index->part_count++] = part;
        index->count += part->count;
        index->cut |= part->state != CT_INDEX_GOOD;
    }
    index->cut |= index->part_count == 0;
    if (error != ENOMEM)
        return 0;
    ct_index_close(index);
    return CT_ERR_NO_MEMORY;
}

void ct_index_close(struct ct_index *index) {
    for (size_t i = 0; i < index->part_count; i++)
        close_part(index->parts[i]);
    free(index->parts);
    *index = (struct ct_index){0};
}

size_t ct_index_read(struct ct_index *index, uint64_t sequence, struct atf_index_event *events, size_t count) {
    size_t i = 0, done = 0;
    while (i < index->part_count && sequence >= index->parts[i]->count)
        sequence -= index->parts[i++]->count;
    if (i == index->part_count)
        return 0;
    struct ct_index_part *part = index->parts[i];
    if (count > part->count - sequence)
        count = (size_t)(part->count - sequence);
    if (ct_file_use(&part->file) != 0)
        return 0;
    int error = ct_file_read(part->file.fd, events, count * EVENT, part->events_offset + sequence * EVENT, &done);
    ct_file_rest(&part->file);
    return error ? 0 : done / EVENT;
}

uint64_t ct_index_search(struct ct_index *index, uint64_t time_ns) {
    uint64_t low = 0, high = index->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        struct atf_index_event event;
        if (ct_index_read(index, middle, &event, 1) != 1 || event.timestamp_ns >= time_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
