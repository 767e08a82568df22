/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by time, from summaries: see spread.h. */
#include "view/spread.h"
#include "trace/reader.h"

size_t ct_view_column(const struct ct_view_choice *c, uint64_t ns, size_t width) {
    if (ns < c->from_ns)
        return 0;
    __extension__ unsigned __int128 at = (unsigned __int128)(ns - c->from_ns) * width;
    size_t column = (size_t)(at / (c->to_ns - c->from_ns));
    return column < width ? column : width - 1;
}

static uint64_t calls_of(const struct ct_summary *summary, uint64_t function) {
    for (size_t i = 0; i < ct_summary_function_count(summary); i++)
        if (ct_summary_function(summary, i)->function == function)
            return ct_summary_function(summary, i)->calls;
    return 0;
}

static void spread_thread(const struct ct_summary *summary, const struct ct_view_choice *c, uint64_t function,
                          uint64_t *columns, size_t width) {
    uint64_t having = 0, calls = calls_of(summary, function);
    size_t spans = calls ? ct_summary_span_count(summary) : 0;
    for (size_t k = 0; k < spans; k++)
        having += ct_summary_may_have(summary, k, function);
    for (size_t k = 0; k < spans; k++) {
        const struct cts_span *span = ct_summary_span(summary, k);
        if (ct_summary_may_have(summary, k, function) && span->time_last_ns >= c->from_ns &&
            span->time_first_ns < c->to_ns)
            columns[ct_view_column(c, span->time_first_ns, width)] += (calls + having - 1) / having;
    }
}

void ct_view_spread(const struct ct_view_answer *a, const struct ct_view_choice *c, const struct ct_view_name *name,
                    uint64_t *columns, size_t width) {
    const struct ct_source *s = a->reader->source;
    for (size_t i = 0; i < ct_trace_thread_count(s->trace); i++)
        if (s->summaries[i] && (c->thread == SIZE_MAX || c->thread == i) &&
            ct_trace_thread_at(s->trace, i)->process == name->process)
            spread_thread(s->summaries[i], c, name->function, columns, width);
}
