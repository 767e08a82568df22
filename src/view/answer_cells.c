/* SPDX-License-Identifier: Apache-2.0 */
/* /api/cells and /api/map: pictures of the timeline. */
#include "trace/reader.h"
#include "view/answer.h"
#include "view/cells.h"
#include "view/strips.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, MOST_BOXES = 1 << 18 };

/* ---- cells ---- */

static void put_box(struct ct_view_answer *a, const struct ct_cells *c, size_t process, const struct ct_cell_box *box,
                    struct ct_view_used *used) {
    uint32_t number = ct_view_function(a, process, box->function);
    ct_view_use(used, number);
    ct_view_put_time(a, NULL, box->start_ns);
    ct_view_put_time(a, NULL, box->end_ns);
    ct_json_signed(&a->json, NULL, number == UINT32_MAX ? -1 : (int64_t)number);
    ct_json_number(&a->json, NULL, box->share);
    ct_json_number(&a->json, NULL, box->calls);
    ct_json_signed(&a->json, NULL, box->call == UINT64_MAX ? -1 : ct_source_call_id(c->thread, box->call));
}

/* What the rows of a thread are; returns how many boxes. */
static size_t put_rows(struct ct_view_answer *a, const struct ct_cells *c, struct ct_view_used *used) {
    size_t process = ct_trace_thread_at(a->reader->trace, c->thread)->process, boxes = 0;
    uint32_t last = c->high + 1;
    while (last > c->low && !c->rows[last - 1 - c->low].count)
        last--;
    ct_json_begin(&a->json, NULL, '{');
    ct_json_number(&a->json, "thread", c->thread + 1);
    ct_json_bool(&a->json, "sampled", c->sampled);
    ct_json_begin(&a->json, "depths", '[');
    for (uint32_t depth = c->low; depth < last; depth++) {
        const struct ct_cell_row *row = &c->rows[depth - c->low];
        ct_json_begin(&a->json, NULL, '[');
        for (size_t i = 0; i < row->count; i++)
            put_box(a, c, process, &row->boxes[i], used);
        boxes += row->count;
        ct_json_end(&a->json, ']');
    }
    ct_json_end(&a->json, ']');
    ct_json_end(&a->json, '}');
    return boxes;
}

/* "3-40", "3" or nothing. */
static void read_depths(const struct ct_view_answer *a, struct ct_cells *c) {
    const char *text = ct_view_text(a, "depth", "");
    char *end;
    unsigned long low = strtoul(text, &end, 10), high = *end == '-' ? strtoul(end + 1, NULL, 10) : low;
    if (!*text)
        high = CT_CELLS_DEPTHS - 1;
    low = low < CT_STRIPS ? low : CT_STRIPS - 1;
    high = high < low ? low : high;
    c->low = (uint32_t)low;
    c->high = (uint32_t)(high - low < CT_CELLS_DEPTHS ? high : low + CT_CELLS_DEPTHS - 1);
}

static void put_thread(struct ct_view_answer *a, struct ct_cells ask, size_t thread, struct ct_view_used *used,
                       size_t *boxes) {
    struct ct_cells cells = ask;
    cells.thread = thread;
    int status = ct_cells_make(&cells, a->reader);
    if (status)
        ct_view_fail(a, status);
    else
        *boxes += put_rows(a, &cells, used);
    ct_cells_free(&cells);
}

void ct_view_answer_cells(struct ct_view_answer *a) {
    struct ct_cells ask = {0};
    struct ct_view_used used = {0};
    const char *threads = ct_view_text(a, "threads", "1");
    size_t boxes = 0, count = 0;
    ct_view_range(a, &ask.from_ns, &ask.to_ns);
    uint64_t width = ct_view_number(a, "width", 1000);
    ask.width = width < 1 ? 1 : width > CT_CELLS_WIDTH ? CT_CELLS_WIDTH : (uint32_t)width;
    read_depths(a, &ask);
    ct_json_real(&a->json, "progress", ct_view_progress(a->trace));
    ct_view_put_time(a, "from", ask.from_ns);
    ct_view_put_time(a, "to", ask.to_ns);
    ct_json_begin(&a->json, "threads", '[');
    while (*threads && !a->error && count++ < MOST_THREADS && boxes < MOST_BOXES) {
        char *end;
        unsigned long thread = strtoul(threads, &end, 10);
        if (end != threads && thread && thread <= ct_trace_thread_count(a->reader->trace))
            put_thread(a, ask, (size_t)thread - 1, &used, &boxes);
        threads = *end == ',' ? end + 1 : "";
    }
    ct_json_end(&a->json, ']');
    ct_json_bool(&a->json, "cut", *threads);
    ct_view_put_functions(a, &used);
}

/* ---- the map ---- */

struct map {
    uint64_t from_ns, to_ns;
    uint32_t width;
    double *events;
    uint8_t *lost;
};

static double column_of(const struct map *m, uint64_t ns) {
    if (ns <= m->from_ns)
        return 0;
    return (double)(ns - m->from_ns) * m->width / (double)(m->to_ns - m->from_ns);
}

/* Events that are spread evenly from one time to another. */
static void add_events(struct map *m, uint64_t first_ns, uint64_t last_ns, double events) {
    if (last_ns < m->from_ns || first_ns >= m->to_ns)
        return;
    double from = column_of(m, first_ns), to = column_of(m, last_ns + 1), all = to - from;
    if (first_ns < m->from_ns) /* the part before is not seen */
        all = (double)(last_ns + 1 - first_ns) * m->width / (double)(m->to_ns - m->from_ns);
    for (uint32_t i = (uint32_t)from; i < m->width && i < to; i++) {
        double low = from > i ? from : i, high = to < i + 1 ? to : i + 1;
        m->events[i] += all > 0 ? events * (high - low) / all : events;
    }
}

static void add_part(struct map *m, const struct ct_index_part *part, uint64_t last_ns) {
    const struct ct_packed *packed = part->packed;
    for (size_t i = 0; i < packed->block_count; i++) {
        const struct ctp_entry *e = &packed->blocks[i];
        uint64_t next_ns = i + 1 < packed->block_count ? packed->blocks[i + 1].time_first_ns : last_ns;
        add_events(m, e->time_first_ns, next_ns > e->time_first_ns ? next_ns - 1 : e->time_first_ns, e->count);
    }
}

static uint64_t time_at(struct ct_index *index, uint64_t sequence) {
    struct atf_index_event event;
    return ct_index_read(index, sequence, &event, 1) ? event.timestamp_ns : 0;
}

static void add_thread(struct map *m, struct ct_trace *trace, size_t thread) {
    enum { RAW_STEPS = 256 };
    struct ct_index *index = &trace->threads[thread].index;
    if (!index->count)
        return;
    uint64_t last_ns = time_at(index, index->end - 1);
    for (size_t i = 0; i < index->part_count; i++) {
        const struct ct_index_part *part = index->parts[i];
        if (part->packed) {
            add_part(m, part, i + 1 < index->part_count ? time_at(index, part->end) : last_ns + 1);
            continue;
        }
        uint64_t step = part->count / RAW_STEPS + 1;
        for (uint64_t at = part->first; at < part->end; at += step) {
            uint64_t next = at + step < part->end ? at + step : part->end;
            add_events(m, time_at(index, at), time_at(index, next - 1), (double)(next - at));
        }
    }
}

static void add_losses(struct map *m, struct ct_source *s, size_t thread) {
    const struct ct_thread_facts *facts = &s->facts.threads[thread];
    struct ct_index *index = &s->trace->threads[thread].index;
    for (size_t i = 0; i < facts->gap_count; i++) {
        uint64_t at = facts->gaps[i].at;
        uint64_t from = at > index->first ? time_at(index, at - 1) : 0, to = at < index->end ? time_at(index, at) : 0;
        from = from ? from : to;
        to = to ? to : from;
        if (!from || to < m->from_ns || from >= m->to_ns)
            continue;
        for (uint32_t k = (uint32_t)column_of(m, from); k < m->width && k <= column_of(m, to); k++)
            m->lost[k] = 1;
    }
}

void ct_view_answer_map(struct ct_view_answer *a) {
    struct map m = {.width = (uint32_t)ct_view_number(a, "width", 1000)};
    struct ct_source *s = a->reader->source;
    ct_view_range(a, &m.from_ns, &m.to_ns);
    m.width = m.width < 1 ? 1 : m.width > CT_CELLS_WIDTH ? CT_CELLS_WIDTH : m.width;
    m.events = calloc(m.width, sizeof *m.events);
    m.lost = calloc(m.width, 1);
    if (!m.events || !m.lost)
        ct_view_fail(a, CT_ERR_NO_MEMORY);
    for (size_t i = 0; !a->error && i < ct_trace_thread_count(s->trace); i++) {
        add_thread(&m, s->trace, i);
        add_losses(&m, s, i);
    }
    ct_json_real(&a->json, "progress", ct_view_progress(a->trace));
    ct_json_number(&a->json, "width", m.width);
    ct_view_put_time(a, "from", m.from_ns);
    ct_view_put_time(a, "to", m.to_ns);
    ct_json_begin(&a->json, "calls", '[');
    for (uint32_t i = 0; !a->error && i < m.width; i++)
        ct_json_number(&a->json, NULL, (uint64_t)(m.events[i] / 2 + 0.5));
    ct_json_end(&a->json, ']');
    ct_json_begin(&a->json, "lost", '[');
    for (uint32_t i = 0; !a->error && i < m.width; i++)
        ct_json_number(&a->json, NULL, m.lost[i]);
    ct_json_end(&a->json, ']');
    free(m.events);
    free(m.lost);
}
