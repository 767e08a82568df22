/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what followed threads executed, between the lines of their calls. The place of a block is looked up once for
 * each block of a file; memory grows with the number of blocks, not with their executions. */
#include "report/replay_internal.h"
#include <stdlib.h>
#include <string.h>

static void look_up(struct ct_replay_source *s, const struct ct_code_block *b, struct ct_replay_place *place) {
    struct ct_replay_run *r = s->replay;
    struct ct_trace_place at = ct_trace_place(r->trace, s->process, b->module, b->offset);
    place->module = at.module;
    place->function = at.function ? ct_function_cache_get(&r->known, s->process, at.function->id) : NULL;
    place->start = at.function ? at.function->offset : 0;
    place->module_fits = ct_select_by(r->options->select.modules, place->module);
}

/* Place of a block, by its number in the file; NULL: no memory. */
static const struct ct_replay_place *place_of(struct ct_replay_source *s, const struct ct_code_record *record) {
    if (record->number >= s->place_count) {
        size_t count = record->number + record->number / 2 + 256;
        struct ct_replay_place *places = realloc(s->places, count * sizeof *places);
        if (!places)
            return NULL;
        memset(places + s->place_count, 0, (count - s->place_count) * sizeof *places);
        s->places = places;
        s->place_count = count;
    }
    struct ct_replay_place *place = &s->places[record->number];
    if (!place->module)
        look_up(s, &record->block, place);
    return place;
}

/* Blocks are shown like calls of their function: in selected calls, or in selected functions. */
static bool is_shown(struct ct_replay_source *s, const struct ct_replay_place *place) {
    const struct ct_replay_options *options = s->replay->options;
    const struct ct_replay_call *top = ct_replay_top(s);
    bool inside = !options->select.functions || (top && top->inside);
    if (!place->module_fits)
        return false;
    if (!inside)
        return place->function && place->function->function_fits;
    return !options->max_depth || !top || top->level < options->max_depth;
}

static struct ct_replay_call *new_line(struct ct_replay_source *s, enum ct_replay_kind kind, uint64_t time_ns) {
    struct ct_replay_call *line = ct_replay_new(&s->replay->lines);
    if (!line)
        return NULL;
    ct_replay_fill(s, line, kind, NULL);
    line->line.time_ns = time_ns;
    line->line.detail = CT_TRACE_NO_DETAIL;
    return line;
}

static void put_block(struct ct_replay_source *s, uint64_t time_ns, const struct ct_code_record *record) {
    struct ct_replay_place compiled;
    const struct ct_replay_place *place = &compiled;
    if (record->what == CT_CODE_COMPILED)
        look_up(s, &record->block, &compiled);
    else
        place = place_of(s, record);
    if (!place)
        s->replay->lines.stopped = CT_ERR_NO_MEMORY;
    if (!place || !is_shown(s, place))
        return;
    bool ran = record->what == CT_CODE_RAN;
    struct ct_replay_call *line = new_line(s, ran ? CT_REPLAY_BLOCK : CT_REPLAY_COMPILED, time_ns);
    if (!line)
        return;
    line->line.name = place->function && *place->function->function->linkage_name ? place->function->name : "";
    line->line.module = place->module;
    line->line.into = record->block.offset - place->start;
    line->line.block = record->block;
    line->line.executed = record->executed;
    ct_replay_put(s, line);
}

void ct_replay_code(struct ct_replay_source *s, uint64_t time_ns, const struct ct_code_record *record) {
    struct ct_replay_call *line;
    s->last_ns = time_ns;
    if (time_ns < s->replay->options->select.from_ns)
        return;
    switch (record->what) {
    case CT_CODE_RAN:
    case CT_CODE_COMPILED:
        put_block(s, time_ns, record);
        return;
    case CT_CODE_LOST:
    case CT_CODE_DAMAGED:
        line = new_line(s, record->what == CT_CODE_LOST ? CT_REPLAY_BLOCKS_LOST : CT_REPLAY_DAMAGED, time_ns);
        if (!line)
            return;
        line->line.lost = record->count;
        line->line.reason =
            record->what == CT_CODE_DAMAGED ? ct_trace_cursor_problem(s->replay->cursor, s->thread) : "";
        ct_replay_put(s, line);
        return;
    }
}

int ct_replay_each_instruction(const struct ct_replay_line *line, bool each,
                               int (*show)(void *arg, const struct ct_replay_line *line, uint64_t at), void *arg) {
    int stop = 0;
    uint64_t at = 0;
    if (line->kind != CT_REPLAY_BLOCK || !each)
        return show(arg, line, 0);
    for (uint32_t i = 0; i < line->executed && !stop; i++) {
        stop = show(arg, line, at);
        at += line->block.lengths[i];
    }
    return stop;
}
