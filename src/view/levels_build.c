/* SPDX-License-Identifier: Apache-2.0 */
/* Makes levels: one pass over the events of a thread.
 *
 * The time is divided into regions, in which the finest level is the same: halves of tiles that are worth having,
 * which are not worth dividing further. How many events there are is known from the tables of blocks. Within a region,
 * what is seen is added to the slot of that level; a slot that is full is added to the one above, with all its
 * functions, so each level is exact. At the end of a region everything that is open has been seen up to there, and
 * tiles that end there are complete. */
#include "base/grow.h"
#include "trace/crc32.h"
#include "trace/packed_block.h"
#include "trace/reader.h"
#include "view/levels.h"
#include "view/paint.h"
#include <lz4.h>
#include <stdlib.h>
#include <string.h>

enum { POLL_EVENTS = 1 << 16 };
#define DRAFT_EVENTS (UINT64_C(4) << 20) /* between drafts */

/* One depth in a level. */
struct row {
    uint8_t *bytes; /* runs of the tile */
    size_t used, room;
    uint64_t next; /* the slot after the last run */
    struct ct_mix mix;
    uint64_t slot; /* of the mix, while it has something */
};

struct level {
    struct row *rows;
    size_t count, room;
    uint64_t tile; /* that its rows are of */
};

/* Events up to a time, as the tables of blocks know it. */
struct mark {
    uint64_t time_ns, before;
};

struct known {
    struct ct_table_key key;
    uint32_t number; /* plus one */
};

struct ct_levels_builder {
    struct ct_levels *out;
    size_t thread, process;
    struct ct_painter painter;
    struct level levels[CT_LEVELS];
    struct mark *marks;
    size_t mark_count, mark_room;
    uint64_t all_events, known_ns; /* and the time up to which all are known */
    uint64_t next;                 /* position of the next event */
    size_t gap;                    /* the next one */
    bool started, has_region, failed;
    unsigned finest;         /* level of the region */
    uint64_t region_end_ns;  /* since the origin */
    uint64_t drafted;        /* events at the last draft */
    struct ct_table numbers; /* of functions */
    struct known *recent[256];
    uint64_t calls;
    uint32_t depth;
    bool alone; /* nobody reads ahead */
};

/* ---- functions ---- */

static uint32_t number_of(struct ct_levels_builder *b, uint64_t function) {
    struct known **recent = &b->recent[(function ^ function >> 32) % 256];
    if (*recent && (*recent)->key.function == function)
        return (*recent)->number - 1;
    struct known *known = ct_table_get(&b->numbers, 0, function, sizeof *known);
    struct ct_levels *out = b->out;
    if (known && !known->number) {
        pthread_mutex_lock(&out->lock);
        if (ct_grow(&out->functions, &out->function_room, out->function_count, sizeof *out->functions, 256)) {
            out->functions[out->function_count++] = function;
            known->number = (uint32_t)out->function_count;
        }
        pthread_mutex_unlock(&out->lock);
    }
    if (!known || !known->number) {
        b->failed = true;
        return 0;
    }
    *recent = known;
    return known->number - 1;
}

/* ---- rows ---- */

static struct row *row_at(struct ct_levels_builder *b, unsigned level, uint32_t depth) {
    struct level *l = &b->levels[level];
    if (!ct_grow_zeroed(&l->rows, &l->room, depth, sizeof *l->rows, 16)) {
        b->failed = true;
        return NULL;
    }
    l->count = depth >= l->count ? depth + 1 : l->count;
    return &l->rows[depth];
}

/* Writes `count` slots from `slot` on, which is counted from the beginning of the tile. */
static void put_run(struct ct_levels_builder *b, struct row *row, uint64_t slot, uint64_t count, uint64_t function,
                    uint64_t share, uint64_t calls) {
    if (!ct_grow(&row->bytes, &row->room, row->used + 40, 1, 256)) {
        b->failed = true;
        return;
    }
    uint8_t *to = row->bytes + row->used;
    to = ct_varint_put(to, (slot - row->next) << 1 | (count > 1));
    to = ct_varint_put(to, number_of(b, function));
    to = ct_varint_put(to, count > 1 ? count : share);
    if (count == 1)
        to = ct_varint_put(to, calls);
    row->used = (size_t)(to - row->bytes);
    row->next = slot + count;
}

static uint64_t in_tile(uint64_t slot) {
    return slot & (CT_LEVELS_SLOTS - 1);
}

static void flush(struct ct_levels_builder *b, unsigned level, uint32_t depth);

static void add_mix(struct ct_levels_builder *b, unsigned level, uint32_t depth, uint64_t slot,
                    const struct ct_mix *mix) {
    struct row *row = row_at(b, level, depth);
    if (!row)
        return;
    if (row->mix.count && row->slot != slot) {
        flush(b, level, depth);
        row = &b->levels[level].rows[depth];
    }
    row->slot = slot;
    b->failed |= !ct_mix_merge(&row->mix, mix);
}

static void add(struct ct_levels_builder *b, unsigned level, uint32_t depth, uint64_t slot, uint64_t function,
                uint64_t covered_ns, uint64_t calls) {
    struct row *row = row_at(b, level, depth);
    if (!row)
        return;
    if (row->mix.count && row->slot != slot)
        flush(b, level, depth);
    row->slot = slot;
    b->failed |= !ct_mix_add(&row->mix, function, covered_ns, calls);
}

/* The slot of this depth is complete: it becomes a run, and a part of the slot above. */
static void flush(struct ct_levels_builder *b, unsigned level, uint32_t depth) {
    struct row *row = &b->levels[level].rows[depth];
    const struct ct_mix_part *most = ct_mix_most(&row->mix);
    uint64_t length = UINT64_C(1) << level;
    __extension__ unsigned __int128 share = (unsigned __int128)most->covered_ns * 255;
    put_run(b, row, in_tile(row->slot), 1, most->function,
            most->covered_ns >= length ? 255 : (uint64_t)(share >> level), row->mix.calls);
    if (level + 1 < CT_LEVELS)
        add_mix(b, level + 1, depth, row->slot >> 1, &row->mix);
    ct_mix_clear(&row->mix);
}

/* The function covers all of the slots from `first` up to `end`. */
static void add_full(struct ct_levels_builder *b, unsigned level, uint32_t depth, uint64_t first, uint64_t end,
                     uint64_t function) {
    for (; first < end && level < CT_LEVELS; level++) {
        struct row *row = row_at(b, level, depth);
        if (!row)
            return;
        if (row->mix.count)
            flush(b, level, depth);
        row = &b->levels[level].rows[depth];
        put_run(b, row, in_tile(first), end - first, function, 255, 0);
        if (level + 1 == CT_LEVELS)
            return;
        uint64_t half = UINT64_C(1) << level;
        if (first & 1)
            add(b, level + 1, depth, first++ >> 1, function, half, 0);
        if (first < end && end & 1) { /* comes after those between */
            add_full(b, level + 1, depth, first >> 1, end >> 1, function);
            add(b, level + 1, depth, end >> 1, function, half, 0);
            return;
        }
        first >>= 1;
        end >>= 1;
    }
}

/* What is seen, within the region. */
static void on_piece(void *arg, uint32_t depth, const struct ct_piece *piece) {
    struct ct_levels_builder *b = arg;
    uint64_t origin = b->out->origin_ns;
    unsigned level = b->finest;
    uint64_t from = piece->from_ns > origin ? piece->from_ns - origin : 0;
    uint64_t to = piece->to_ns > origin ? piece->to_ns - origin : 0;
    uint64_t first = from >> level, last = to > from ? (to - 1) >> level : first;
    b->calls += piece->first;
    b->depth = depth >= b->depth ? depth + 1 : b->depth;
    if (first == last) {
        add(b, level, depth, first, piece->function, to - from, piece->first);
        return;
    }
    add(b, level, depth, first, piece->function, ((first + 1) << level) - from, piece->first);
    if (last > first + 1)
        add_full(b, level, depth, first + 1, last, piece->function);
    add(b, level, depth, last, piece->function, to - (last << level), 0);
}

/* ---- tiles ---- */

/* The tile as bytes, malloc'ed; NULL: no memory. */
static uint8_t *encode(const struct level *l, size_t *size) {
    size_t bytes = 10 * (l->count + 1);
    for (size_t i = 0; i < l->count; i++)
        bytes += l->rows[i].used;
    uint8_t *raw = malloc(bytes), *to = raw;
    if (!raw)
        return NULL;
    to = ct_varint_put(to, l->count);
    for (size_t i = 0; i < l->count; i++)
        to = ct_varint_put(to, l->rows[i].used);
    for (size_t i = 0; i < l->count; i++) {
        if (l->rows[i].used)
            memcpy(to, l->rows[i].bytes, l->rows[i].used);
        to += l->rows[i].used;
    }
    *size = (size_t)(to - raw);
    return raw;
}

static void clear_tile(struct level *l) {
    for (size_t i = 0; i < l->count; i++)
        l->rows[i].used = l->rows[i].next = 0;
    l->count = 0;
}

static void put_tile(struct ct_levels_builder *b, unsigned level, uint64_t index) {
    struct ct_levels_tile tile = {.index = index, .level = level};
    size_t size;
    uint8_t *raw = encode(&b->levels[level], &size);
    int room = raw ? LZ4_compressBound((int)size) : 0;
    tile.bytes = raw ? malloc((size_t)room + 1) : NULL;
    if (tile.bytes) {
        int packed = LZ4_compress_default((const char *)raw, (char *)tile.bytes, (int)size, room);
        tile.raw = tile.size = (uint32_t)size;
        if (packed > 0 && (size_t)packed < size)
            tile.size = (uint32_t)packed;
        else
            memcpy(tile.bytes, raw, size);
        tile.crc = ct_crc32(0, tile.bytes, tile.size);
    }
    b->failed |= !tile.bytes || !ct_levels_add(b->out, &tile);
    free(raw);
}

/* Everything has been seen up to the end of the region: `end` is it, since the origin. */
static void end_tiles(struct ct_levels_builder *b, uint64_t end, bool all) {
    for (unsigned level = b->finest; level < CT_LEVELS; level++) {
        unsigned bits = level + CT_LEVELS_SLOT_BITS;
        if (!all && end & ((UINT64_C(1) << bits) - 1))
            break;
        struct level *l = &b->levels[level];
        bool empty = true;
        for (uint32_t depth = 0; depth < l->count; depth++) {
            if (l->rows[depth].mix.count)
                flush(b, level, depth);
            empty &= !l->rows[depth].used;
        }
        if (!empty)
            put_tile(b, level, (end - 1) >> bits);
        clear_tile(l);
        if (all && !((end - 1) >> bits)) /* all higher ones are the same picture, smaller */
            break;
    }
}

/* Copies of tiles that are not complete, for readers. What is in slots that are not complete is left out. */
static void put_drafts(struct ct_levels_builder *b, uint64_t until) {
    for (unsigned level = 0; level < CT_LEVELS; level++) {
        unsigned bits = level + CT_LEVELS_SLOT_BITS;
        struct ct_levels_tile draft = {.index = until >> bits, .level = level};
        bool has = level >= b->finest && until & ((UINT64_C(1) << bits) - 1);
        size_t size = 0;
        if (has && (draft.bytes = encode(&b->levels[level], &size)))
            draft.size = draft.raw = (uint32_t)size;
        pthread_mutex_lock(&b->out->lock);
        struct ct_levels_tile old = b->out->levels[level].draft;
        b->out->levels[level].draft = draft;
        pthread_mutex_unlock(&b->out->lock);
        free(old.bytes);
    }
}

/* Which calls are open where it goes on: readers of what comes after need not read what is before. */
static void note_open(struct ct_levels_builder *b) {
    struct ct_levels *out = b->out;
    struct ct_levels_open *open = calloc(b->painter.frames.count + 1, sizeof *open), *old;
    size_t count = 0;
    for (struct ct_frame *f = NULL; open && (f = ct_frames_next(&b->painter.frames, f));)
        open[count++] = (struct ct_levels_open){f->function, f->sequence, f->began_ns, f->called_at};
    pthread_mutex_lock(&out->lock);
    old = out->open;
    out->open = open;
    out->open_count = count;
    out->open_next = b->next;
    out->open_ns = b->painter.last_ns;
    pthread_mutex_unlock(&out->lock);
    free(old);
}

/* ---- regions ---- */

/* Events before the time, which is counted from the origin. */
static uint64_t events_before(const struct ct_levels_builder *b, uint64_t time) {
    uint64_t ns = b->out->origin_ns + time;
    size_t low = 0, high = b->mark_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->marks[middle].time_ns < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < b->mark_count ? b->marks[low].before : b->all_events;
}

static bool is_worth(const struct ct_levels_builder *b, unsigned level, uint64_t index) {
    unsigned bits = level + CT_LEVELS_SLOT_BITS;
    return events_before(b, (index + 1) << bits) - events_before(b, index << bits) > b->out->least;
}

/* Chooses the region that begins at `time`. False: it is not known yet. */
static bool choose_region(struct ct_levels_builder *b, uint64_t time, bool ended) {
    unsigned level = CT_LEVELS - 1;
    uint64_t end = (((time >> (level + CT_LEVELS_SLOT_BITS)) + 1) << (level + CT_LEVELS_SLOT_BITS));
    while (level > 0 && is_worth(b, level - 1, time >> (level - 1 + CT_LEVELS_SLOT_BITS)))
        level--;
    unsigned bits = level + CT_LEVELS_SLOT_BITS - (level > 0); /* half of the tile, unless it is of the finest level */
    end = ((time >> bits) + 1) << bits;
    if (!ended && b->out->origin_ns + end > b->known_ns)
        return false;
    b->finest = level;
    b->region_end_ns = end;
    return b->has_region = true;
}

static bool note_part(struct ct_levels_builder *b, struct ct_index *index, const struct ct_index_part *part) {
    enum { RAW = 8192 };
    struct atf_index_event event;
    size_t count = part->packed ? part->packed->block_count : (size_t)((part->count + RAW - 1) / RAW);
    for (size_t i = 0; i < count; i++) {
        uint64_t first = part->packed ? part->packed->blocks[i].first_seq : part->first + i * RAW, time;
        if (part->packed)
            time = part->packed->blocks[i].time_first_ns;
        else if (ct_index_read(index, first, &event, 1))
            time = event.timestamp_ns;
        else
            continue;
        if (!ct_grow(&b->marks, &b->mark_room, b->mark_count, sizeof *b->marks, 256))
            return false;
        uint64_t last = b->mark_count ? b->marks[b->mark_count - 1].time_ns : 0;
        b->marks[b->mark_count++] = (struct mark){time > last ? time : last, first - index->first};
    }
    return true;
}

/* Reads the tables of blocks again. */
static bool note_blocks(struct ct_levels_builder *b, struct ct_index *index) {
    struct atf_index_event last;
    b->mark_count = 0;
    b->all_events = index->end - index->first;
    for (size_t i = 0; i < index->part_count; i++)
        if (!note_part(b, index, index->parts[i]))
            return false;
    if (index->count && ct_index_read(index, index->end - 1, &last, 1))
        b->known_ns = last.timestamp_ns;
    return true;
}

/* ---- events ---- */

static void pass_gaps(struct ct_levels_builder *b, const struct ct_thread_facts *facts,
                      const struct ct_trace_event *event) {
    if (b->gap >= facts->gap_count || facts->gaps[b->gap].at > event->sequence)
        return;
    ct_frames_gap(&b->painter.frames, 0);
    while (b->gap < facts->gap_count && facts->gaps[b->gap].at <= event->sequence)
        b->gap++;
}

/* Ends regions that end at or before the time. False: the next one is not known yet. */
static bool pass_regions(struct ct_levels_builder *b, uint64_t ns, bool ended) {
    uint64_t origin = b->out->origin_ns, time = ns > origin ? ns - origin : 0;
    while (!b->has_region || time >= b->region_end_ns) {
        uint64_t at = b->has_region ? b->region_end_ns : b->started ? b->out->until_ns - origin : 0;
        if (b->has_region) {
            ct_strips_settle(&b->painter.strips, origin + at);
            end_tiles(b, at, false);
            pthread_mutex_lock(&b->out->lock);
            b->out->until_ns = origin + at;
            b->out->calls = b->calls;
            b->out->depth = b->depth;
            pthread_mutex_unlock(&b->out->lock);
            b->has_region = false;
        }
        b->started = true;
        if (!choose_region(b, at, ended))
            return false;
    }
    return true;
}

static int read_events(struct ct_levels_builder *b, struct ct_source *source, bool ended,
                       bool (*stop)(void *arg, uint64_t events), void *arg) {
    const struct ct_thread_facts *facts = &source->facts.threads[b->thread];
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    int status = ct_trace_cursor_open_thread_at(&cursor, source->trace, b->thread, b->next);
    unsigned left = POLL_EVENTS;
    if (status)
        return status;
    if (b->alone)
        ct_trace_cursor_alone(cursor);
    while (!status && ct_trace_cursor_next(cursor, &event)) {
        if (!pass_regions(b, event.timestamp_ns, ended))
            break;
        pass_gaps(b, facts, &event);
        status = ct_painter_event(&b->painter, &event);
        b->next = event.sequence + 1;
        if (!status && b->failed)
            status = CT_ERR_NO_MEMORY;
        if (--left)
            continue;
        left = POLL_EVENTS;
        if (stop && stop(arg, b->next))
            status = CT_ERR_TIMEOUT;
        if (b->next - b->drafted > DRAFT_EVENTS) {
            b->drafted = b->next;
            put_drafts(b, b->out->until_ns - b->out->origin_ns);
        }
    }
    ct_trace_cursor_close(cursor);
    return status;
}

/* What is open ends with the thread. */
static void finish(struct ct_levels_builder *b, const struct ct_source *source) {
    const struct ct_thread_facts *facts = &source->facts.threads[b->thread];
    uint64_t last = b->painter.last_ns, end = last;
    if (b->gap >= facts->gap_count)
        end = ct_facts_thread_end(&source->facts, source->trace, b->thread, last, b->painter.frames.count);
    end = end < last ? last : end;
    (void)pass_regions(b, end, true);
    ct_strips_settle(&b->painter.strips, end);
    end_tiles(b, end - b->out->origin_ns + 1, true);
    pthread_mutex_lock(&b->out->lock);
    b->out->until_ns = UINT64_MAX;
    b->out->done = true;
    b->out->calls = b->calls;
    b->out->depth = b->depth;
    for (unsigned i = 0; i < CT_LEVELS; i++) {
        free(b->out->levels[i].draft.bytes);
        b->out->levels[i].draft.bytes = NULL;
    }
    pthread_mutex_unlock(&b->out->lock);
}

struct ct_levels_builder *ct_levels_builder_new(struct ct_levels *levels, struct ct_source *source, size_t thread,
                                                bool alone) {
    struct ct_levels_builder *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->out = levels;
    b->thread = thread;
    b->alone = alone;
    b->process = ct_trace_thread_at(source->trace, thread)->process;
    b->next = source->trace->threads[thread].index.first;
    b->painter.process = b->process;
    b->painter.strips.piece = on_piece;
    b->painter.strips.arg = b;
    ct_painter_begin(&b->painter, source->facts.threads[thread].complete);
    return b;
}

int ct_levels_build(struct ct_levels_builder *b, struct ct_source *source, bool ended,
                    bool (*stop)(void *arg, uint64_t events), void *arg) {
    b->painter.source = source;
    if (!note_blocks(b, &source->trace->threads[b->thread].index))
        return CT_ERR_NO_MEMORY;
    int status = read_events(b, source, ended, stop, arg);
    if (!status && ended)
        finish(b, source);
    else if (!status)
        put_drafts(b, b->out->until_ns - b->out->origin_ns);
    if (!status && !ended)
        note_open(b);
    return status;
}

void ct_levels_builder_free(struct ct_levels_builder *b) {
    if (!b)
        return;
    for (unsigned i = 0; i < CT_LEVELS; i++) {
        for (size_t k = 0; k < b->levels[i].room; k++) {
            free(b->levels[i].rows[k].bytes);
            ct_mix_free(&b->levels[i].rows[k].mix);
        }
        free(b->levels[i].rows);
    }
    ct_painter_free(&b->painter);
    ct_table_free(&b->numbers, NULL);
    free(b->marks);
    free(b);
}
