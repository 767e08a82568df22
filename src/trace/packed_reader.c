/* SPDX-License-Identifier: Apache-2.0 */
/* Reads packed index files: finds their blocks, and unpacks their events.
 *
 * A finished file has tables of its blocks. Without them (the recorder was killed, or still writes) the headers of the
 * blocks are walked; where bytes are not a block, the next block is searched for. The recorder replaces small blocks by
 * one that has their events: of blocks with the same positions, the one with the most events counts, and the last bytes
 * of such a file are trusted only when their checksum is right. Tables and headers are checked again when a block is
 * read. A block that has disappeared from a file that has changed was replaced meanwhile, and its events are searched
 * for again. */
#include "base/grow.h"
#include "trace/crc32.h"
#include "trace/reader.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK    sizeof(struct ctp_block)
#define FOOTER   sizeof(struct ctp_footer)
#define DOUBTFUL (1u << 20)   /* bytes at the end of an unfinished file whose checksums are verified */
#define WINDOW   (256u << 10) /* bytes searched for a block in one step */
#define TRIES    3            /* a file that is being written may change while we read it */

static bool read_whole(int fd, void *to, size_t size, uint64_t offset) {
    size_t done;
    return ct_file_read(fd, to, size, offset, &done) == 0 && done == size;
}

/* ---- lists ---- */

struct list {
    struct ctp_entry *entries;
    size_t count, room;
};

static bool add_entry(struct list *list, const struct ctp_entry *entry) {
    if (!ct_grow(&list->entries, &list->room, list->count, sizeof *list->entries, 64))
        return false;
    list->entries[list->count++] = *entry;
    return true;
}

static uint64_t entry_end(const struct ctp_entry *entry) {
    return entry->first_seq + entry->span + 1;
}

/* The block replaces those that it contains, or is left out when its events are there already. */
static bool add_events(struct list *list, const struct ctp_entry *entry) {
    struct ctp_entry *last = list->count ? &list->entries[list->count - 1] : NULL;
    if (last && entry->first_seq >= last->first_seq && entry->first_seq < entry_end(last) &&
        (entry->first_seq > last->first_seq || entry_end(entry) <= entry_end(last)))
        return true;
    while (last && last->first_seq >= entry->first_seq) {
        if (entry_end(entry) < entry_end(last))
            return true;
        list->count--;
        last = list->count ? &list->entries[list->count - 1] : NULL;
    }
    if (last && entry_end(last) > entry->first_seq)
        return true; /* overlaps in a way that no recorder writes */
    return add_entry(list, entry);
}

static bool is_sane(const struct ctp_entry *entry) {
    if (entry->first_seq > UINT64_MAX - UINT32_MAX - 1 || !entry->count)
        return false;
    return entry->count <= CTP_BLOCK_EVENTS && (entry->type == CTP_LINKS || entry->span == entry->count - 1);
}

static bool take_entry(struct list lists[2], const struct ctp_entry *entry) {
    if (entry->type != CTP_EVENTS && entry->type != CTP_LINKS)
        return true;
    if (!is_sane(entry))
        return true;
    return entry->type == CTP_EVENTS ? add_events(&lists[0], entry) : add_entry(&lists[1], entry);
}

static void free_lists(struct list lists[2]) {
    free(lists[0].entries);
    free(lists[1].entries);
    lists[0] = lists[1] = (struct list){0};
}

/* ---- the tables of a finished file ---- */

static bool read_footer(struct ct_index_part *part, struct ctp_footer *footer) {
    if (part->size < sizeof(struct ctp_header) + FOOTER ||
        !read_whole(part->file.fd, footer, FOOTER, part->size - FOOTER))
        return false;
    return !memcmp(footer->magic, CTP_FOOTER_MAGIC, 4) &&
           footer->crc == ct_crc32(0, &footer->table_offset, FOOTER - offsetof(struct ctp_footer, table_offset));
}

/* An intact block of a table, malloc'ed. */
static uint8_t *read_table(const struct ct_index_part *part, uint64_t offset, uint64_t limit) {
    struct ctp_block header;
    if (offset < sizeof(struct ctp_header) || offset > limit || limit - offset < BLOCK + sizeof(struct ctp_table) ||
        !read_whole(part->file.fd, &header, BLOCK, offset) || !ct_block_plausible(&header, limit - offset) ||
        header.type != CTP_TABLE ||
        BLOCK + sizeof(struct ctp_table) + (uint64_t)header.count * sizeof(struct ctp_entry) > header.size)
        return NULL;
    uint8_t *block = malloc(header.size);
    if (block && read_whole(part->file.fd, block, header.size, offset) && !memcmp(block, &header, BLOCK) &&
        ct_block_intact(block))
        return block;
    free(block);
    return NULL;
}

/* Reads the entries of all tables, last table first, each in front of those read before. */
static struct ctp_entry *read_tables(const struct ct_index_part *part, const struct ctp_footer *footer) {
    uint64_t left = footer->block_count, limit = part->size - FOOTER;
    struct ctp_entry *entries;
    if (left > part->size / BLOCK || !(entries = malloc((size_t)(left + 1) * sizeof *entries)))
        return NULL;
    for (uint64_t offset = footer->table_offset; offset;) {
        struct ctp_block header;
        struct ctp_table table;
        uint8_t *block = read_table(part, offset, limit);
        if (block) {
            memcpy(&header, block, BLOCK);
            memcpy(&table, block + BLOCK, sizeof table);
        }
        if (!block || header.count > left || table.previous >= offset) {
            free(block);
            free(entries);
            return NULL;
        }
        left -= header.count;
        if (header.count)
            memcpy(entries + left, block + BLOCK + sizeof table, header.count * sizeof *entries);
        free(block);
        limit = offset;
        offset = table.previous;
    }
    if (!left)
        return entries;
    free(entries);
    return NULL;
}

/* Returns 0; EBADMSG: walk the file instead; ENOMEM. */
static int load_tables(struct ct_index_part *part, const struct ctp_footer *footer, struct list lists[2]) {
    struct ctp_entry *entries = read_tables(part, footer);
    uint64_t events = 0, links = 0, offset = sizeof(struct ctp_header);
    bool good = entries, memory = true;
    for (uint64_t i = 0; i < footer->block_count && good && memory; i++) {
        const struct ctp_entry *entry = &entries[i];
        good = entry->offset >= offset && entry->size >= BLOCK && entry->size <= CTP_BLOCK_BYTES &&
               entry->offset <= part->size - FOOTER && entry->size <= part->size - FOOTER - entry->offset &&
               (entry->type == CTP_STACK || is_sane(entry));
        offset = entry->offset + entry->size;
        events += entry->type == CTP_EVENTS ? entry->count : 0;
        links += entry->type == CTP_LINKS ? entry->count : 0;
        if (good)
            memory = take_entry(lists, entry);
    }
    free(entries);
    if (good && memory)
        for (size_t i = 0; i < lists[0].count; i++)
            events -= lists[0].entries[i].count;
    good &= events == 0 && links == footer->link_count; /* none was left out */
    return !memory ? ENOMEM : good ? 0 : EBADMSG;
}

/* ---- walking ---- */

static struct ctp_entry entry_of(const struct ctp_block *header, uint64_t offset) {
    return (struct ctp_entry){.offset = offset,
                              .first_seq = header->first_seq,
                              .time_first_ns = header->time_first_ns,
                              .count = header->count,
                              .type = header->type,
                              .span = header->span,
                              .size = header->size};
}

static bool intact_at(const struct ct_index_part *part, const struct ctp_block *header, uint64_t offset) {
    uint8_t *block = malloc(header->size);
    bool good = block && read_whole(part->file.fd, block, header->size, offset) && !memcmp(block, header, BLOCK) &&
                ct_block_intact(block);
    free(block);
    return good;
}

/* The first intact block from `offset` on; part->size: none. */
static uint64_t find_block(const struct ct_index_part *part, uint64_t offset) {
    uint8_t *window = malloc(WINDOW);
    uint64_t found = part->size;
    while (window && found == part->size && part->size - offset >= BLOCK) {
        size_t done;
        if (ct_file_read(part->file.fd, window, WINDOW, offset, &done) != 0 || done < BLOCK)
            break;
        size_t at = 0;
        for (; at + BLOCK <= done; at += 8) {
            struct ctp_block header;
            if (memcmp(window + at, CTP_BLOCK_MAGIC, 4) != 0)
                continue;
            memcpy(&header, window + at, BLOCK);
            if (ct_block_plausible(&header, part->size - offset - at) && intact_at(part, &header, offset + at)) {
                found = offset + at;
                break;
            }
        }
        offset += at;
    }
    free(window);
    return found;
}

static int walk_blocks(const struct ct_index_part *part, struct list lists[2]) {
    uint64_t offset = sizeof(struct ctp_header);
    while (offset < part->size && part->size - offset >= BLOCK) {
        struct ctp_block header;
        if (!read_whole(part->file.fd, &header, BLOCK, offset))
            break;
        bool good = ct_block_plausible(&header, part->size - offset);
        if (good && part->size - offset < DOUBTFUL)
            good = intact_at(part, &header, offset);
        if (!good) {
            offset = find_block(part, offset + 8);
            continue;
        }
        struct ctp_entry entry = entry_of(&header, offset);
        if (!take_entry(lists, &entry))
            return ENOMEM;
        offset += header.size;
    }
    return 0;
}

static uint64_t missing_in(const struct list *events, uint64_t first) {
    uint64_t missing = 0, next = first;
    for (size_t i = 0; i < events->count; i++) {
        missing += events->entries[i].first_seq - next;
        next = entry_end(&events->entries[i]);
    }
    return missing;
}

/* Drops blocks before the file's own first position: they do not belong to it. */
static void drop_foreign(struct list *events, uint64_t first) {
    size_t foreign = 0;
    while (foreign < events->count && events->entries[foreign].first_seq < first)
        foreign++;
    if (foreign) {
        events->count -= foreign;
        memmove(events->entries, events->entries + foreign, events->count * sizeof *events->entries);
    }
}

static int walk_again(struct ct_index_part *part, struct list lists[2]) {
    int error = 0;
    for (int i = 0; i < TRIES; i++) {
        struct stat status;
        free_lists(lists);
        if (i && fstat(part->file.fd, &status) == 0)
            part->size = (uint64_t)status.st_size;
        error = walk_blocks(part, lists);
        drop_foreign(&lists[0], part->first);
        if (error || !missing_in(&lists[0], part->first))
            break;
    }
    return error;
}

/* ---- the part ---- */

static int by_position(const void *a, const void *b) {
    const struct ctp_entry *x = a, *y = b;
    return (x->first_seq > y->first_seq) - (x->first_seq < y->first_seq);
}

static bool reach_of(struct ct_packed *packed) {
    uint64_t reach = 0;
    if (!packed->link_count)
        return true;
    qsort(packed->links, packed->link_count, sizeof *packed->links, by_position);
    packed->link_reach = malloc(packed->link_count * sizeof *packed->link_reach);
    for (size_t i = 0; packed->link_reach && i < packed->link_count; i++) {
        uint64_t end = entry_end(&packed->links[i]);
        reach = end > reach ? end : reach;
        packed->link_reach[i] = reach;
    }
    return packed->link_reach != NULL;
}

static void take_lists(struct ct_index_part *part, struct list lists[2]) {
    struct ct_packed *packed = part->packed;
    packed->blocks = lists[0].entries;
    packed->block_count = lists[0].count;
    packed->links = lists[1].entries;
    packed->link_count = lists[1].count;
    packed->missing = missing_in(&lists[0], part->first);
    part->end = packed->block_count ? entry_end(&packed->blocks[packed->block_count - 1]) : part->first;
    part->count = part->end - part->first - packed->missing;
}

static struct timespec changed_at(const struct ct_index_part *part, uint64_t *size) {
    struct stat status;
    if (fstat(part->file.fd, &status) != 0)
        return (struct timespec){0};
    *size = (uint64_t)status.st_size;
    return status.st_mtim;
}

int ct_packed_load(struct ct_index_part *part) {
    struct list lists[2] = {{0}, {0}};
    struct ct_packed *packed = calloc(1, sizeof *packed);
    part->packed = packed;
    if (packed) /* before anything is read: at worst, a change is noticed once too often */
        packed->changed = changed_at(part, &packed->size);
    if (!packed || !read_whole(part->file.fd, &packed->header, sizeof packed->header, 0)) {
        part->state = CT_INDEX_UNREADABLE;
        return packed ? 0 : CT_ERR_NO_MEMORY;
    }
    part->thread_id = packed->header.thread_id;
    part->arch = packed->header.arch;
    part->first = packed->header.first_seq < UINT64_MAX >> 1 ? packed->header.first_seq : 0;
    packed->has_footer = read_footer(part, &packed->footer);
    int error = packed->has_footer ? load_tables(part, &packed->footer, lists) : EBADMSG;
    packed->bad_table = packed->has_footer && error == EBADMSG;
    part->state = error ? CT_INDEX_CUT : CT_INDEX_GOOD;
    if (error == EBADMSG)
        error = walk_again(part, lists);
    else
        drop_foreign(&lists[0], part->first);
    take_lists(part, lists);
    if (part->state == CT_INDEX_GOOD && (packed->missing || part->count != packed->footer.event_count))
        packed->bad_table = true;
    return error || !reach_of(packed) ? CT_ERR_NO_MEMORY : 0;
}

void ct_packed_free(struct ct_packed *packed) {
    if (!packed)
        return;
    free(packed->blocks);
    free(packed->links);
    free(packed->link_reach);
    free(packed->read_links);
    free(packed->clean_ns);
    free(packed);
}

/* The recorder has changed the file since we looked: finds its blocks again, as far as they contain known events.
 * False: nothing new. */
static bool look_again(struct ct_index_part *part) {
    struct ct_packed *packed = part->packed;
    uint64_t size = packed->size;
    struct timespec changed = changed_at(part, &size);
    if (packed->has_footer || (size == packed->size && changed.tv_sec == packed->changed.tv_sec &&
                               changed.tv_nsec == packed->changed.tv_nsec))
        return false;
    struct ct_index_part now = *part;
    now.size = size;
    bool good = ct_packed_load(&now) == 0 && now.state != CT_INDEX_UNREADABLE && now.end >= part->end;
    if (good) { /* everything known about the file stays true: only the offsets are new */
        struct ct_packed old = *packed;
        *packed = *now.packed;
        *now.packed = old;
        packed->has_footer = packed->bad_table = false;
        packed->missing = old.missing;
        part->size = now.size;
    }
    ct_packed_free(now.packed);
    return good;
}

/* ---- reading ---- */

uint8_t *ct_packed_block(const struct ct_index_part *part, const struct ctp_entry *entry) {
    struct ctp_block header;
    uint8_t *block = malloc(entry->size > BLOCK ? entry->size : BLOCK);
    if (!block || entry->size < BLOCK || !read_whole(part->file.fd, block, entry->size, entry->offset)) {
        free(block);
        return NULL;
    }
    memcpy(&header, block, BLOCK);
    struct ctp_entry said = entry_of(&header, entry->offset);
    if (ct_block_plausible(&header, entry->size) && header.size == entry->size && !memcmp(&said, entry, sizeof said) &&
        ct_block_intact(block))
        return block;
    free(block);
    return NULL;
}

/* The block that contains the position, or the next one; block_count: none. */
static size_t find_position(const struct ct_packed *packed, uint64_t sequence) {
    size_t low = 0, high = packed->block_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (entry_end(&packed->blocks[middle]) <= sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t ct_packed_skip(const struct ct_index_part *part, uint64_t sequence) {
    const struct ct_packed *packed = part->packed;
    size_t block = find_position(packed, sequence);
    if (block == packed->block_count)
        return part->end;
    if (packed->blocks[block].first_seq > sequence)
        return packed->blocks[block].first_seq;
    return entry_end(&packed->blocks[block]);
}

static bool begin_block(struct ct_index *index, struct ct_index_part *part, size_t number) {
    const struct ctp_entry *entry = &part->packed->blocks[number];
    uint8_t *block = ct_packed_block(part, entry);
    index->unpacked = NULL;
    bool good = block && ct_unpack_begin(&index->unpack, block, part->thread_id) == 0;
    if (good)
        memcpy(&index->unpacked_header, block, BLOCK);
    free(block);
    if (!good)
        return false;
    __atomic_fetch_add(&part->file.cache->unpacked, 1, __ATOMIC_RELAXED);
    index->unpacked = part;
    index->unpacked_block = number;
    return true;
}

/* Continues in the block that is being unpacked. */
static bool skip_to(struct ct_index *index, uint64_t sequence) {
    struct atf_index_event skipped[64];
    size_t done = 1;
    while (index->unpack.next_seq < sequence && done) {
        uint64_t left = sequence - index->unpack.next_seq;
        if (ct_unpack_events(&index->unpack, skipped, left < 64 ? (size_t)left : 64, &done) != 0)
            return false;
    }
    return index->unpack.next_seq == sequence && index->unpack.left;
}

/* Makes the event at the position the next one to be unpacked. The number of the block may have changed since it was
 * begun; its events have not. */
static bool seek_event(struct ct_index *index, struct ct_index_part *part, size_t block, uint64_t sequence) {
    bool begun = index->unpacked == part && index->unpacked_block == block && index->unpack.next_seq <= sequence &&
                 index->unpack.left;
    return (begun && skip_to(index, sequence)) || (begin_block(index, part, block) && skip_to(index, sequence));
}

static void keep_link(void *arg, const struct ct_link *link) {
    struct ct_packed *packed = arg;
    packed->read_links[packed->read_count++] = *link;
}

/* Reads the links of a block into read_links. False: the block is not there. */
static bool read_links(const struct ct_index_part *part, size_t number) {
    struct ct_packed *packed = part->packed;
    const struct ctp_entry *entry = &packed->links[number];
    if (packed->read_block == number + 1)
        return packed->read_links;
    uint8_t *block = ct_packed_block(part, entry);
    free(packed->read_links);
    packed->read_links = block ? malloc(entry->count * sizeof *packed->read_links) : NULL;
    packed->read_count = 0;
    packed->read_block = number + 1;
    if (packed->read_links)
        (void)ct_unpack_links(block, keep_link, packed);
    free(block);
    return packed->read_links;
}

/* False: a block of links is not there. */
static bool put_links(struct ct_index_part *part, uint64_t sequence, struct atf_index_event *events, size_t count) {
    struct ct_packed *packed = part->packed;
    size_t low = 0, high = packed->link_count;
    bool all = true;
    while (low < high) { /* links that begin after the events */
        size_t middle = low + (high - low) / 2;
        if (packed->links[middle].first_seq < sequence + count)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (low && packed->link_reach[low - 1] > sequence)
        low--;
    for (; low < end; low++) {
        if (entry_end(&packed->links[low]) <= sequence)
            continue;
        all &= read_links(part, low);
        for (size_t i = 0; i < packed->read_count; i++) {
            uint64_t at = packed->read_links[i].index_seq - sequence;
            if (at < count)
                events[at].detail_seq = packed->read_links[i].detail_seq;
        }
    }
    return all;
}

void ct_packed_links(struct ct_index_part *part, uint64_t sequence, struct atf_index_event *events, size_t count) {
    if (!part->packed->link_count || ct_file_use(&part->file) != 0)
        return;
    for (int i = 0; i < TRIES && !put_links(part, sequence, events, count) && look_again(part); i++) {
    }
    ct_file_rest(&part->file);
}

size_t ct_packed_read(struct ct_index *index, struct ct_index_part *part, uint64_t sequence,
                      struct atf_index_event *events, size_t count) {
    const struct ct_packed *packed = part->packed;
    size_t done = 0;
    if (sequence >= part->end)
        return 0;
    if (count > part->end - sequence) /* written since */
        count = (size_t)(part->end - sequence);
    for (int i = 0; i < TRIES; i++) {
        size_t block = find_position(packed, sequence);
        if (block == packed->block_count || packed->blocks[block].first_seq > sequence)
            return 0;
        if (seek_event(index, part, block, sequence)) {
            index->damaged += ct_unpack_events(&index->unpack, events, count, &done) != 0;
            return done;
        }
        if (!look_again(part))
            break;
    }
    index->damaged++;
    return 0;
}

bool ct_packed_is_clean(const struct ct_index *index, uint64_t first, uint64_t end) {
    static const uint8_t zero[sizeof index->unpacked_header.reserved];
    const struct ctp_block *header = &index->unpacked_header;
    const struct ct_unpack *unpack = &index->unpack;
    return index->unpacked && header->first_seq == first && header->first_seq + header->count == end &&
           unpack->next_seq == end && unpack->shape == unpack->shape_end && unpack->time == unpack->time_end &&
           unpack->odd == unpack->odd_end && unpack->last_ns == header->time_last_ns &&
           !memcmp(header->reserved, zero, sizeof zero);
}

void ct_packed_note_clean(struct ct_index_part *part, uint64_t first, uint64_t last_ns) {
    struct ct_packed *packed = part->packed;
    size_t block = find_position(packed, first);
    if (!packed->clean_ns)
        packed->clean_ns = calloc(packed->block_count, sizeof *packed->clean_ns);
    if (packed->clean_ns && block < packed->block_count && packed->blocks[block].first_seq == first)
        packed->clean_ns[block] = last_ns;
}

uint64_t ct_packed_search(struct ct_index *index, struct ct_index_part *part, uint64_t time_ns) {
    const struct ct_packed *packed = part->packed;
    struct atf_index_event events[64];
    size_t low = 0, high = packed->block_count, count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (packed->blocks[middle].time_first_ns < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t next = low < packed->block_count ? packed->blocks[low].first_seq : part->end;
    if (!low)
        return next;
    const struct ctp_entry *entry = &packed->blocks[low - 1];
    for (uint64_t at = entry->first_seq; at < entry_end(entry); at += count) {
        count = ct_packed_read(index, part, at, events, 64);
        if (!count)
            break;
        for (size_t i = 0; i < count; i++)
            if (events[i].timestamp_ns >= time_ns)
                return at + i;
    }
    return next;
}

/* ---- the beginning of a segment ---- */

static uint64_t *read_stack(const uint8_t *block, const struct ctp_block *header) {
    const uint8_t *p = block + BLOCK, *end = block + header->size;
    uint64_t *functions = malloc(((size_t)header->count + 1) * sizeof *functions), last = 0, delta;
    for (uint32_t i = 0; functions && i < header->count; i++) {
        if (!ct_varint_get(&p, end, &delta)) {
            free(functions);
            return NULL;
        }
        functions[i] = last += ct_unzigzag(delta);
    }
    return functions;
}

int ct_packed_open_calls(struct ct_index_part *part, uint64_t **functions, size_t *count) {
    struct ctp_block header;
    uint64_t offset = sizeof(struct ctp_header);
    *functions = NULL;
    *count = 0;
    if (ct_file_use(&part->file) != 0)
        return 0;
    if (read_whole(part->file.fd, &header, BLOCK, offset) && ct_block_plausible(&header, part->size - offset) &&
        header.type == CTP_STACK && header.first_seq == part->first && header.count <= header.size) {
        struct ctp_entry entry = entry_of(&header, offset);
        uint8_t *block = ct_packed_block(part, &entry);
        *functions = block ? read_stack(block, &header) : NULL;
        *count = *functions ? header.count : 0;
        free(block);
    }
    ct_file_rest(&part->file);
    return 0;
}
