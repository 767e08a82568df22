/* SPDX-License-Identifier: Apache-2.0 */
/* One viewport of one thread: see cells.h. */
#include "view/cells.h"
#include "base/grow.h"
#include "trace/reader.h"
#include "view/mix.h"
#include "view/paint.h"
#include <stdlib.h>

#define MOST_EVENTS (UINT64_C(3) << 19)  /* that are read for one thread: a tenth of a second */
enum { LOOKS = 48, LOOK_EVENTS = 4096 }; /* where there are more: how many places, and events at each */

/* Calls of a row that are narrower than a pixel, in the pixel where they begin. */
struct ct_cell_mix {
    struct ct_mix mix;
    uint64_t pixel, start_ns, end_ns, call, count;
};

/* ---- boxes ---- */

static uint64_t pixel_of(const struct ct_cells *c, uint64_t ns) {
    if (ns <= c->from_ns)
        return 0;
    __extension__ unsigned __int128 at = (unsigned __int128)(ns - c->from_ns) * c->width;
    return (uint64_t)(at / (c->to_ns - c->from_ns));
}

/* Slots of a level in which one call goes on are one box. */
static bool goes_on(const struct ct_cell_box *last, const struct ct_cell_box *box) {
    return last->function == box->function && last->end_ns == box->start_ns && last->share == 255 &&
           box->share == 255 && !box->calls && last->call == UINT64_MAX && box->call == UINT64_MAX;
}

static void put_box(struct ct_cells *c, uint32_t depth, const struct ct_cell_box *box) {
    struct ct_cell_row *row = &c->rows[depth - c->low];
    if (row->count && goes_on(&row->boxes[row->count - 1], box)) {
        row->boxes[row->count - 1].end_ns = box->end_ns;
        return;
    }
    if (ct_grow(&row->boxes, &row->room, row->count, sizeof *row->boxes, 32))
        row->boxes[row->count++] = *box;
    else
        c->failed = true;
}

static uint8_t share_of(uint64_t part, uint64_t all) {
    __extension__ unsigned __int128 share = (unsigned __int128)part * 255;
    return part >= all ? 255 : (uint8_t)(share / all);
}

static void flush(struct ct_cells *c, uint32_t depth) {
    struct ct_cell_mix *m = &c->mixes[depth - c->low];
    const struct ct_mix_part *most = ct_mix_most(&m->mix);
    if (most)
        put_box(c, depth,
                &(struct ct_cell_box){.start_ns = m->start_ns,
                                      .end_ns = m->end_ns,
                                      .function = most->function,
                                      .calls = m->mix.calls,
                                      .call = m->count == 1 ? m->call : UINT64_MAX,
                                      .share = share_of(most->covered_ns, m->end_ns - m->start_ns)});
    ct_mix_clear(&m->mix);
    m->count = 0;
}

static void merge(struct ct_cells *c, uint32_t depth, uint64_t function, const struct ct_cell_box *box,
                  uint64_t covered_ns) {
    struct ct_cell_mix *m = &c->mixes[depth - c->low];
    uint64_t pixel = pixel_of(c, box->start_ns);
    if (m->mix.count && m->pixel != pixel)
        flush(c, depth);
    if (!m->mix.count) {
        m->pixel = pixel;
        m->start_ns = box->start_ns;
        m->count = 0;
    }
    m->count += !m->count || box->call != m->call;
    m->call = box->call;
    m->end_ns = box->end_ns;
    if (!ct_mix_add(&m->mix, function, covered_ns, box->calls))
        c->failed = true;
}

void ct_cells_add(struct ct_cells *c, uint32_t depth, const struct ct_cell_box *box) {
    if (depth < c->low || depth > c->high || box->end_ns < c->from_ns || box->start_ns >= c->to_ns)
        return;
    uint64_t begin = box->start_ns > c->from_ns ? box->start_ns : c->from_ns;
    uint64_t length = box->end_ns < c->to_ns ? box->end_ns - begin : c->to_ns - begin;
    __extension__ unsigned __int128 pixels = (unsigned __int128)length * c->width;
    if (pixels < c->to_ns - c->from_ns) {
        uint64_t covered = (uint64_t)((unsigned __int128)(box->end_ns - box->start_ns) * box->share / 255);
        merge(c, depth, box->function, box, covered);
        return;
    }
    if (c->mixes[depth - c->low].mix.count)
        flush(c, depth);
    put_box(c, depth, box);
}

static void flush_all(struct ct_cells *c) {
    for (uint32_t depth = c->low; depth <= c->high; depth++)
        if (c->mixes[depth - c->low].mix.count)
            flush(c, depth);
}

/* ---- from the events ---- */

/* A part of the viewport. */
struct range {
    struct ct_cells *cells;
    struct ct_view_reader *reader;
    uint64_t from_ns, to_ns;
};

/* What begins before the part is seen in the one before it. */
static void on_piece(void *arg, uint32_t depth, const struct ct_piece *piece) {
    const struct range *r = arg;
    bool whole = r->from_ns <= r->cells->from_ns || piece->from_ns >= r->from_ns;
    if (depth < r->cells->low || depth > r->cells->high || piece->to_ns < r->from_ns)
        return;
    ct_cells_add(r->cells, depth,
                 &(struct ct_cell_box){.start_ns = whole ? piece->from_ns : r->from_ns,
                                       .end_ns = piece->to_ns,
                                       .function = piece->function,
                                       .calls = whole && piece->first,
                                       .call = piece->sequence,
                                       .share = 255});
}

static uint64_t position(const struct range *r, uint64_t ns) {
    return ct_summary_position(r->reader->trace, r->cells->thread, ns);
}

static int paint(const struct range *r, bool blind) {
    return ct_paint(&(struct ct_paint){.source = r->reader->source,
                                       .thread = r->cells->thread,
                                       .from_ns = r->from_ns,
                                       .to_ns = r->to_ns,
                                       .piece = on_piece,
                                       .blind = blind,
                                       .arg = (void *)(uintptr_t)r});
}

/* Looks at some places, evenly over the time. */
static int look(const struct range *r) {
    struct ct_cells *c = r->cells;
    struct ct_index *index = &r->reader->trace->threads[c->thread].index;
    uint64_t step = (r->to_ns - r->from_ns) / LOOKS + 1, seen_ns = r->from_ns;
    int status = 0;
    c->sampled = true;
    for (unsigned i = 0; i < LOOKS && !status; i++) {
        struct range part = {c, r->reader, r->from_ns + i * step, 0};
        struct atf_index_event last;
        if (part.from_ns < seen_ns || part.from_ns >= r->to_ns)
            continue;
        uint64_t first = position(r, part.from_ns), end = first + LOOK_EVENTS;
        if (!ct_index_read(index, end < index->end ? end : index->end - 1, &last, 1))
            continue;
        seen_ns = part.to_ns = last.timestamp_ns < r->to_ns ? last.timestamp_ns : r->to_ns;
        if (part.to_ns > part.from_ns)
            status = paint(&part, true);
    }
    return status;
}

/* Are the calls that are open where levels end known, and is that shortly before the part? With the levels' lock. */
static bool ends_before(const struct ct_levels *levels, const struct range *r) {
    return levels->open && levels->open_ns <= r->from_ns && levels->open_next <= position(r, r->from_ns) &&
           position(r, r->to_ns) - levels->open_next <= 2 * MOST_EVENTS;
}

/* The calls that are open where levels end, as events, malloc'ed; NULL: not known, or not before the part. */
static struct ct_trace_event *open_before(const struct range *r, size_t *count, uint64_t *next) {
    struct ct_levels *levels = ct_view_levels(r->reader->of, r->cells->thread);
    struct ct_trace_event *events = NULL;
    if (!levels)
        return NULL;
    pthread_mutex_lock(&levels->lock);
    *next = levels->open_next;
    *count = levels->open_count;
    if (ends_before(levels, r))
        events = calloc(*count + 1, sizeof *events);
    for (size_t i = 0; events && i < *count; i++)
        events[i] = (struct ct_trace_event){.timestamp_ns = levels->open[i].began_ns,
                                            .function_id = levels->open[i].function,
                                            .thread = r->cells->thread,
                                            .sequence = levels->open[i].sequence,
                                            .kind = CT_TRACE_CALL,
                                            .depth = levels->open[i].depth,
                                            .detail = CT_TRACE_NO_DETAIL};
    pthread_mutex_unlock(&levels->lock);
    return events;
}

static uint64_t events_before(const struct range *r) {
    return position(r, r->from_ns) - ct_trace_thread_at(r->reader->trace, r->cells->thread)->first_sequence;
}

static int draw_from_open(const struct range *r) {
    size_t count = 0;
    uint64_t next = 0;
    struct ct_trace_event *open = open_before(r, &count, &next);
    if (!open && events_before(r) <= MOST_EVENTS)
        return paint(r, false);
    r->cells->sampled |= !open;
    int status = ct_paint(&(struct ct_paint){.source = r->reader->source,
                                             .thread = r->cells->thread,
                                             .from_ns = r->from_ns,
                                             .to_ns = r->to_ns,
                                             .piece = on_piece,
                                             .blind = true,
                                             .open = open,
                                             .open_count = open ? count : 0,
                                             .next = next,
                                             .arg = (void *)(uintptr_t)r});
    free(open);
    return status;
}

/* What is open at the beginning is found by the summary, which may not be there yet. */
static bool is_blind(const struct range *r) {
    return !r->reader->source->summaries[r->cells->thread] && events_before(r) > CT_SUMMARY_LEAST;
}

static int draw_events(const struct range *r) {
    uint64_t first = position(r, r->from_ns), end = position(r, r->to_ns);
    if (end > first && end - first > MOST_EVENTS)
        return look(r);
    return is_blind(r) ? draw_from_open(r) : paint(r, false);
}

/* ---- from levels ---- */

static void on_run(void *arg, uint32_t depth, const struct ct_levels_run *run) {
    const struct range *r = arg;
    if (run->end_ns <= r->from_ns || run->start_ns >= r->to_ns)
        return;
    ct_cells_add(r->cells, depth,
                 &(struct ct_cell_box){.start_ns = run->start_ns,
                                       .end_ns = run->end_ns,
                                       .function = run->function,
                                       .calls = run->calls,
                                       .call = UINT64_MAX,
                                       .share = run->share});
}

struct drawing {
    struct ct_cells *cells;
    struct ct_view_reader *reader;
    struct ct_levels *levels;
    uint64_t origin_ns, until_ns;
    unsigned level;
    uint64_t missing; /* since when no tile was there; 0: nothing is missing */
};

/* Draws what no tile has, up to here. */
static int draw_missing(struct drawing *d, uint64_t until_ns) {
    const struct range r = {d->cells, d->reader, d->missing, until_ns};
    d->missing = 0;
    return r.from_ns && r.from_ns < until_ns ? draw_events(&r) : 0;
}

static int draw_tile(struct drawing *d, uint64_t index) {
    unsigned bits = d->level + CT_LEVELS_SLOT_BITS;
    const struct ct_cells *c = d->cells;
    uint64_t start = d->origin_ns + (index << bits), end = d->origin_ns + ((index + 1) << bits);
    struct range r = {d->cells, d->reader, start > c->from_ns ? start : c->from_ns, end < c->to_ns ? end : c->to_ns};
    bool draft = false, has = ct_levels_has(d->levels, d->level, index);
    int status = has ? draw_missing(d, r.from_ns) : 0;
    if (has) {
        uint64_t all = r.to_ns;
        r.to_ns = r.to_ns > d->until_ns ? d->until_ns : r.to_ns;
        has = ct_levels_read(d->levels, d->level, index, c->low, c->high, on_run, &r, &draft);
        if (has && draft && all > d->until_ns) /* nobody has the rest yet */
            d->missing = d->until_ns > r.from_ns ? d->until_ns : r.from_ns;
    }
    if (!has && !d->missing)
        d->missing = r.from_ns;
    return status;
}

/* How many events no tile of this level has, and the number of tiles. */
static uint64_t count_missing(const struct drawing *d, uint64_t first, uint64_t last) {
    unsigned bits = d->level + CT_LEVELS_SLOT_BITS;
    const struct ct_cells *c = d->cells;
    uint64_t events = 0;
    for (uint64_t i = first; i <= last; i++) {
        struct range r = {d->cells, d->reader, d->origin_ns + (i << bits), d->origin_ns + ((i + 1) << bits)};
        if (ct_levels_has(d->levels, d->level, i))
            continue;
        r.from_ns = r.from_ns > c->from_ns ? r.from_ns : c->from_ns;
        r.to_ns = r.to_ns < c->to_ns ? r.to_ns : c->to_ns;
        uint64_t from = position(&r, r.from_ns), to = position(&r, r.to_ns);
        events += to > from ? to - from : 0;
    }
    return events;
}

static int draw_levels(struct drawing *d) {
    const struct ct_cells *c = d->cells;
    uint64_t pixel = (c->to_ns - c->from_ns) / c->width, from = c->from_ns - d->origin_ns;
    uint64_t to = c->to_ns - d->origin_ns, first, last;
    int status = 0;
    while (d->level + 1 < CT_LEVELS && UINT64_C(2) << d->level <= pixel)
        d->level++;
    for (;; d->level++) {
        first = from >> (d->level + CT_LEVELS_SLOT_BITS);
        last = (to - 1) >> (d->level + CT_LEVELS_SLOT_BITS);
        if (d->level + 1 == CT_LEVELS || first == last || count_missing(d, first, last) <= c->most_events)
            break;
    }
    for (uint64_t i = first; i <= last && !status; i++)
        status = draw_tile(d, i);
    return status ? status : draw_missing(d, c->to_ns);
}

/* Few events are read as they are, if what is open at their beginning is known. */
static bool wants_events(const struct drawing *d, const struct range *all) {
    const struct ct_cells *c = all->cells;
    bool few = position(all, c->to_ns) - position(all, c->from_ns) <= c->most_events / 4;
    if (!few || !is_blind(all))
        return few;
    pthread_mutex_lock(&d->levels->lock);
    bool known = ends_before(d->levels, all);
    pthread_mutex_unlock(&d->levels->lock);
    return known;
}

static int make(struct ct_cells *c, struct ct_view_reader *reader) {
    const struct range all = {c, reader, c->from_ns, c->to_ns};
    struct drawing d = {.cells = c, .reader = reader, .levels = ct_view_levels(reader->of, c->thread)};
    c->most_events = c->most_events ? c->most_events : MOST_EVENTS;
    if (!d.levels || wants_events(&d, &all))
        return draw_events(&all);
    pthread_mutex_lock(&d.levels->lock);
    d.origin_ns = d.levels->origin_ns;
    d.until_ns = d.levels->until_ns;
    pthread_mutex_unlock(&d.levels->lock);
    if (c->from_ns < d.origin_ns || c->to_ns <= d.origin_ns)
        return draw_events(&all);
    return draw_levels(&d);
}

int ct_cells_make(struct ct_cells *c, struct ct_view_reader *reader) {
    size_t rows = c->high - c->low + 1;
    c->rows = calloc(rows, sizeof *c->rows);
    c->mixes = calloc(rows, sizeof *c->mixes);
    int status = c->rows && c->mixes ? make(c, reader) : CT_ERR_NO_MEMORY;
    if (!status)
        flush_all(c);
    return status ? status : c->failed ? CT_ERR_NO_MEMORY : 0;
}

void ct_cells_free(struct ct_cells *c) {
    size_t rows = c->high - c->low + 1;
    for (size_t i = 0; c->rows && i < rows; i++)
        free(c->rows[i].boxes);
    for (size_t i = 0; c->mixes && i < rows; i++)
        ct_mix_free(&c->mixes[i].mix);
    free(c->rows);
    free(c->mixes);
}
