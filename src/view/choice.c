/* SPDX-License-Identifier: Apache-2.0 */
/* What a request selects: see choice.h. */
#include "view/choice.h"
#include "trace/reader.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A glob that matches this text alone. NULL: out of memory. */
static char *escape(const char *text) {
    char *glob = malloc(2 * strlen(text) + 1), *to = glob;
    for (; glob && *text; text++) {
        if (strchr("*?[]\\", *text))
            *to++ = '\\';
        *to++ = *text;
    }
    if (glob)
        *to = 0;
    return glob;
}

static bool choose_thread(struct ct_view_choice *c, struct ct_view_answer *a) {
    const struct ct_trace *trace = a->reader->trace;
    c->thread = SIZE_MAX;
    if (!ct_view_number(a, "thread", 0))
        return true;
    if (!ct_view_thread(a, &c->thread))
        return false;
    const struct ct_trace_thread *info = ct_trace_thread_at(trace, c->thread);
    snprintf(c->tid, sizeof c->tid, "%u", info->tid);
    snprintf(c->pid, sizeof c->pid, "%d", ct_trace_process_at(trace, info->process)->pid);
    c->threads[0] = c->tid;
    c->processes[0] = c->pid;
    c->select.threads = c->threads;
    c->select.processes = c->processes;
    return true;
}

static bool choose_function(struct ct_view_choice *c, struct ct_view_answer *a) {
    uint64_t number = ct_view_number(a, "function", UINT64_MAX);
    if (number == UINT64_MAX)
        return true;
    const struct ct_view_name *name = ct_view_names_get(&a->trace->names, (uint32_t)number);
    const struct ct_cached_function *known =
        name && number < UINT32_MAX ? ct_function_cache_get(&a->reader->source->names, name->process, name->function)
                                    : NULL;
    if (!known) {
        ct_view_refuse(a, 404, "the trace has no such function");
        return false;
    }
    c->name = known->name;
    c->module = known->module;
    c->glob = escape(c->name);
    c->module_glob = escape(c->module);
    c->functions[0] = c->glob;
    c->modules[0] = c->module_glob;
    c->select.functions = c->functions;
    c->select.modules = *c->module ? c->modules : NULL;
    return c->glob && c->module_glob;
}

static uint64_t count_events(const struct ct_view_choice *c, struct ct_trace *trace) {
    uint64_t events = 0;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        if (c->thread == SIZE_MAX || c->thread == i)
            events += ct_summary_position(trace, i, c->to_ns) - ct_summary_position(trace, i, c->from_ns);
    return events;
}

bool ct_view_choose(struct ct_view_choice *c, struct ct_view_answer *a) {
    *c = (struct ct_view_choice){0};
    ct_view_range(a, &c->from_ns, &c->to_ns);
    if (!choose_thread(c, a) || !choose_function(c, a)) {
        if (!a->error)
            ct_view_fail(a, CT_ERR_NO_MEMORY);
        return false;
    }
    if (ct_view_text(a, "from", NULL) || ct_view_text(a, "to", NULL)) {
        c->select.from_ns = c->from_ns;
        c->select.to_ns = c->to_ns;
    }
    c->events = count_events(c, a->reader->trace);
    return true;
}

void ct_view_choice_free(struct ct_view_choice *c) {
    free(c->glob);
    free(c->module_glob);
}

static bool is_name(void *arg, const char *name) {
    const struct ct_view_choice *c = arg;
    return !strcmp(c->name, name);
}

static bool is_module(void *arg, const char *name) {
    const struct ct_view_choice *c = arg;
    return !strcmp(c->module, name);
}

void ct_view_choice_ask(struct ct_view_choice *c, const struct ct_view_answer *a, struct ct_ask *ask) {
    const struct ct_source *s = a->reader->source;
    ct_ask_all(ask);
    ask->ranges[CT_ASK_TIME] = (struct ct_ask_range){ct_source_time(s, c->from_ns), ct_source_time(s, c->to_ns) - 1};
    if (c->thread != SIZE_MAX)
        ask->ranges[CT_ASK_THREAD] = (struct ct_ask_range){(int64_t)c->thread + 1, (int64_t)c->thread + 1};
    if (c->name) {
        ask->functions = (struct ct_ask_names){is_name, c};
        ask->modules = (struct ct_ask_names){is_module, c};
    }
}
