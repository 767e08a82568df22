/* SPDX-License-Identifier: Apache-2.0 */
/* One viewport of one thread: see cells.h. */
#include "view/cells.h"
#include "base/grow.h"
#include "trace/reader.h"
#include "view/mix.h"
#include "view/paint.h"
#include <stdlib.h>

#define MOST_EVENTS (UINT64_C(2) << 20)  /* that are read for one thread: a tenth of a second */
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

static void put_box(struct ct_cells *c, uint32_t depth, const struct ct_cell_box *box) {
    struct ct_cell_row *row = &c->rows[depth - c->low];
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

static void on_piece(void *arg, uint32_t depth, const struct ct_piece *piece) {
    ct_cells_add(arg, depth,
                 &(struct ct_cell_box){.start_ns = piece->from_ns,
                                       .end_ns = piece->to_ns,
                                       .function = piece->function,
                                       .calls = piece->first,
                                       .call = piece->sequence,
                                       .share = 255});
}

static void flush_all(struct ct_cells *c) {
    for (uint32_t depth = c->low; depth <= c->high; depth++)
        if (c->mixes[depth - c->low].mix.count)
            flush(c, depth);
}

/* ---- where boxes come from ---- */

/* Looks at some places, evenly over the time. */
static int look(struct ct_cells *c, struct ct_view_reader *reader) {
    struct ct_index *index = &reader->trace->threads[c->thread].index;
    uint64_t step = (c->to_ns - c->from_ns) / LOOKS, seen_ns = c->from_ns;
    int status = 0;
    c->sampled = true;
    for (unsigned i = 0; i < LOOKS && !status; i++) {
        uint64_t from = c->from_ns + i * step;
        if (from < seen_ns)
            continue;
        struct atf_index_event last;
        uint64_t first = ct_index_search(index, from), end = first + LOOK_EVENTS;
        if (!ct_index_read(index, end < index->end ? end : index->end - 1, &last, 1))
            continue;
        seen_ns = last.timestamp_ns < c->to_ns ? last.timestamp_ns : c->to_ns;
        if (seen_ns > from)
            status = ct_paint(&(struct ct_paint){.source = reader->source,
                                                 .thread = c->thread,
                                                 .from_ns = from,
                                                 .to_ns = seen_ns,
                                                 .piece = on_piece,
                                                 .blind = true,
                                                 .arg = c});
    }
    return status;
}

static int make(struct ct_cells *c, struct ct_view_reader *reader) {
    const struct ct_trace_thread *info = ct_trace_thread_at(reader->trace, c->thread);
    uint64_t first = ct_summary_position(reader->trace, c->thread, c->from_ns);
    uint64_t end = ct_summary_position(reader->trace, c->thread, c->to_ns);
    bool summary = !ct_summary_is_worth(reader->trace, info->event_count) || reader->source->summaries[c->thread];
    if (end - first > MOST_EVENTS)
        return look(c, reader);
    struct ct_paint paint = {.source = reader->source,
                             .thread = c->thread,
                             .from_ns = c->from_ns,
                             .to_ns = c->to_ns,
                             .piece = on_piece,
                             .arg = c};
    /* What is open at the beginning is found by the summary, which is not there yet. */
    c->sampled = paint.blind = !summary && first - info->first_sequence > MOST_EVENTS;
    return ct_paint(&paint);
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
