/* SPDX-License-Identifier: Apache-2.0 */
/* What the manifest says about threads. Texts belong to the parsed manifests, which are kept. */
#include "trace/facts.h"
#include <stdlib.h>
#include <string.h>

/* ---- finding a thread of a manifest in the trace: a table by id, because there may be thousands ---- */

struct place {
    size_t process;
    uint32_t id;
    size_t index;
};

static int compare_places(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static struct place *places_of(const struct ct_trace *trace, size_t count) {
    struct place *places = calloc(count + 1, sizeof *places);
    for (size_t i = 0; places && i < count; i++) {
        const struct ct_trace_thread *thread = ct_trace_thread_at(trace, i);
        places[i] = (struct place){thread->process, thread->id, i};
    }
    if (places)
        qsort(places, count, sizeof *places, compare_places);
    return places;
}

/* ---- reading ---- */

static int compare_gaps(const void *a, const void *b) {
    const struct ct_gap *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int read_gaps(struct ct_thread_facts *facts, const struct ct_json_node *gaps) {
    const struct ct_json_node *node = ct_json_first(gaps);
    if (!node || facts->gaps)
        return 0;
    facts->gaps = calloc(gaps->count, sizeof *facts->gaps);
    if (!facts->gaps)
        return CT_ERR_NO_MEMORY;
    for (; node; node = node->next)
        facts->gaps[facts->gap_count++] = (struct ct_gap){
            .at = ct_json_u64(ct_json_get(node, "at", NULL), 0),
            .lost = ct_json_u64(ct_json_get(node, "lost", NULL), 0),
            .reason = ct_json_text(ct_json_get(node, "reason", NULL), ""),
        };
    qsort(facts->gaps, facts->gap_count, sizeof *facts->gaps, compare_gaps);
    return 0;
}

/* When the recorder last looked which threads exist: it notes one time for all that it sees. */
static uint64_t last_look(const struct ct_json_node *threads) {
    uint64_t looked_ns = 0;
    for (const struct ct_json_node *node = ct_json_first(threads); node; node = node->next) {
        uint64_t seen_ns = ct_json_u64(ct_json_get(node, "seen_ns", NULL), 0);
        looked_ns = seen_ns > looked_ns ? seen_ns : looked_ns;
    }
    return looked_ns;
}

static int read_threads(struct ct_facts *facts, size_t process, const struct ct_json_node *root,
                        const struct place *places) {
    const struct ct_json_node *list = ct_json_get(root, "threads", NULL), *node = ct_json_first(list);
    uint64_t looked_ns = last_look(list);
    for (; node; node = node->next) {
        struct place key = {.process = process, .id = (uint32_t)ct_json_u64(ct_json_get(node, "id", NULL), UINT32_MAX)};
        const struct place *place = bsearch(&key, places, facts->thread_count, sizeof key, compare_places);
        if (!place)
            continue;
        struct ct_thread_facts *thread = &facts->threads[place->index];
        thread->end_ns = ct_json_u64(ct_json_get(node, "end_ns", NULL), 0);
        thread->seen_ns = ct_json_u64(ct_json_get(node, "seen_ns", NULL), 0);
        thread->lasted = thread->seen_ns && thread->seen_ns == looked_ns;
        int status = read_gaps(thread, ct_json_get(node, "gaps", NULL));
        if (status)
            return status;
    }
    return 0;
}

static int read_processes(struct ct_facts *facts, const struct ct_trace *trace, const struct place *places) {
    for (size_t i = 0; i < facts->process_count; i++) {
        const char *text = ct_trace_process_at(trace, i)->manifest;
        int status = text ? ct_json_parse(&facts->trees[i], text, strlen(text), NULL) : CT_ERR_BAD_FILE;
        if (!status)
            status = read_threads(facts, i, ct_json_root(facts->trees[i]), places);
        if (status == CT_ERR_NO_MEMORY)
            return status;
    }
    return 0;
}

int ct_facts_load(struct ct_facts *facts, const struct ct_trace *trace) {
    *facts =
        (struct ct_facts){.thread_count = ct_trace_thread_count(trace), .process_count = ct_trace_process_count(trace)};
    facts->threads = calloc(facts->thread_count + 1, sizeof *facts->threads);
    facts->trees = calloc(facts->process_count + 1, sizeof *facts->trees);
    struct place *places = places_of(trace, facts->thread_count);
    int status = facts->threads && facts->trees && places ? read_processes(facts, trace, places) : CT_ERR_NO_MEMORY;
    free(places);
    if (status) {
        ct_facts_free(facts);
        return status;
    }
    for (size_t i = 0; i < facts->thread_count; i++) {
        const struct ct_trace_thread *thread = ct_trace_thread_at(trace, i);
        facts->threads[i].complete = ct_trace_process_at(trace, thread->process)->complete && !thread->cut &&
                                     thread->lost == 0 && thread->first_sequence == 0 &&
                                     facts->threads[i].gap_count == 0;
    }
    return 0;
}

void ct_facts_free(struct ct_facts *facts) {
    for (size_t i = 0; facts->threads && i < facts->thread_count; i++)
        free(facts->threads[i].gaps);
    for (size_t i = 0; facts->trees && i < facts->process_count; i++)
        ct_json_tree_free(facts->trees[i]);
    free(facts->threads);
    free(facts->trees);
    *facts = (struct ct_facts){0};
}

/* ---- the end of a thread ---- */

uint64_t ct_facts_thread_end(const struct ct_facts *facts, const struct ct_trace *trace, size_t thread,
                             uint64_t last_ns, size_t open_frames) {
    const struct ct_trace_thread *t = ct_trace_thread_at(trace, thread);
    const struct ct_trace_process *process = ct_trace_process_at(trace, t->process);
    const struct ct_thread_facts *known = &facts->threads[thread];
    uint64_t end_ns = known->end_ns;
    bool returned = open_frames <= 1 && t->tid != (uint32_t)process->pid;
    if (!end_ns && (!returned || (known->lasted && known->seen_ns > last_ns)))
        end_ns = process->recording_end_ns;
    else if (!end_ns)
        end_ns = known->seen_ns;
    return end_ns > last_ns ? end_ns : last_ns;
}
