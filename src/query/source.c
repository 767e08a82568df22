/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of a trace share: see source.h. */
#include "query/source.h"
#include "query/edges.h"
#include "trace/reader.h"
#include <stdlib.h>

static uint64_t beginning_of(const struct ct_trace *trace) {
    uint64_t start = UINT64_MAX;
    for (size_t i = 0; i < ct_trace_process_count(trace); i++) {
        uint64_t begin = ct_trace_process_at(trace, i)->time_start_ns;
        start = begin < start ? begin : start;
    }
    return start == UINT64_MAX ? 0 : start;
}

int ct_source_open(struct ct_source **out, const struct ct_source_setup *setup) {
    struct ct_source *s = *out = calloc(1, sizeof *s);
    size_t threads = ct_trace_thread_count(setup->trace);
    if (!s)
        return CT_ERR_NO_MEMORY;
    s->setup = *setup;
    s->trace = setup->trace;
    s->names = (struct ct_function_cache){.trace = s->trace, .select = &s->select};
    s->start_ns = beginning_of(s->trace);
    s->summaries = calloc(threads + 1, sizeof *s->summaries);
    s->looked = calloc(threads + 1, sizeof *s->looked);
    s->lent = calloc(threads + 1, sizeof *s->lent);
    int status = s->summaries && s->looked && s->lent ? ct_facts_load(&s->facts, s->trace) : CT_ERR_NO_MEMORY;
    if (status) {
        ct_source_close(s);
        *out = NULL;
    }
    return status;
}

void ct_source_close(struct ct_source *s) {
    if (!s)
        return;
    for (size_t i = 0; s->summaries && i < ct_trace_thread_count(s->trace); i++)
        if (s->lent && !s->lent[i])
            ct_summary_close(s->summaries[i]);
    free(s->summaries);
    free(s->looked);
    free(s->lent);
    ct_report_free(s->report);
    ct_edges_free(&s->edges);
    if (s->has_processes)
        ct_processes_free(&s->processes);
    if (s->has_wall)
        ct_wall_free(&s->wall);
    ct_argument_reader_close(s->arguments);
    ct_function_cache_free(&s->names);
    ct_facts_free(&s->facts);
    free(s);
}

struct ct_summary *ct_source_summary(struct ct_source *s, size_t thread) {
    const struct ct_summary_options options = {.facts = &s->facts, .once = !s->setup.often};
    if (!s->looked[thread])
        (void)ct_summary_open(&s->summaries[thread], s->trace, thread, &options);
    s->looked[thread] = true;
    return s->summaries[thread];
}

void ct_source_lend(struct ct_source *s, size_t thread, struct ct_summary *summary) {
    if (s->looked[thread])
        return;
    s->summaries[thread] = summary;
    s->looked[thread] = s->lent[thread] = true;
}

const struct ct_report *ct_source_report(struct ct_source *s) {
    const struct ct_report_options options = {.sort = CT_REPORT_BY_TOTAL};
    if (!s->report && ct_report_make(&s->report, s->trace, &options) != 0)
        s->report = NULL;
    return s->report;
}

int ct_source_edges(struct ct_source *s, const struct ct_edges **out) {
    int status = s->has_edges ? 0 : ct_edges_make(&s->edges, s, 0, 0);
    s->has_edges = !status;
    *out = &s->edges;
    return status;
}

const struct ct_processes *ct_source_processes(struct ct_source *s) {
    if (!s->has_processes && ct_processes_make(&s->processes, s->trace, &s->facts) == 0)
        s->has_processes = true;
    return s->has_processes ? &s->processes : NULL;
}

struct ct_argument_reader *ct_source_arguments(struct ct_source *s) {
    if (!s->arguments && ct_argument_reader_open(&s->arguments, s->trace, s->setup.directories) != 0)
        s->arguments = NULL;
    return s->arguments;
}

const struct ct_wall *ct_source_wall(struct ct_source *s) {
    if (!s->has_wall && ct_wall_load(&s->wall, s->trace) == 0)
        s->has_wall = true;
    return s->has_wall ? &s->wall : NULL;
}

struct ct_source_blocks ct_source_blocks(const struct ct_source *s) {
    struct ct_source_blocks blocks = {0};
    for (size_t i = 0; i < s->trace->thread_count; i++) {
        const struct ct_index *index = &s->trace->threads[i].index;
        for (size_t k = 0; k < index->part_count; k++)
            blocks.all += index->parts[k]->packed ? index->parts[k]->packed->block_count : 0;
    }
    blocks.unpacked = __atomic_load_n(&s->trace->cache.unpacked, __ATOMIC_RELAXED);
    return blocks;
}
