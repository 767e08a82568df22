/* SPDX-License-Identifier: Apache-2.0 */
/* What is missing in the files of a trace, without reading its events: headers, tables and sizes against the manifest.
 *
 * A trace that is not finished (it is being recorded, or its recorder was killed) has files without an end, and a
 * manifest that is up to a second old: there only what was once counted and is gone is missing. */
#include "trace/reader.h"
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANIFEST_VERSION = 1 };

struct search {
    struct ct_trace *trace;
    void (*report)(void *arg, const char *sentence);
    void *arg;
    size_t found;
};

__attribute__((format(printf, 2, 3))) static void report(struct search *s, const char *format, ...) {
    char sentence[PATH_MAX + 256];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    s->found++;
    if (s->report)
        s->report(s->arg, sentence);
}

/* ---- processes ---- */

static const struct ct_json_node *root_of(const struct trace_process *process) {
    return ct_json_root(process->manifest);
}

static bool is_disk_full(const struct trace_process *process) {
    return !strcmp(ct_json_text(ct_json_get(root_of(process), "end", "reason", NULL), ""), "disk");
}

/* Files may lack an end only where the recorder had no chance to write one. */
static bool is_finished(const struct trace_process *process) {
    return process->info.complete && !is_disk_full(process);
}

static void check_process(struct search *s, size_t index) {
    const struct trace_process *process = &s->trace->processes[index];
    const struct ct_json_node *root = root_of(process);
    uint64_t version = ct_json_u64(ct_json_get(root, "version", NULL), MANIFEST_VERSION);
    if (!root)
        report(s, "%s/manifest.json cannot be read: names of threads, losses and the end are not known",
               process->directory);
    if (version > MANIFEST_VERSION)
        report(s,
               "%s was written by a newer contrail (version %" PRIu64 " of the manifest): parts of it may be missing",
               process->directory, version);
    if (is_disk_full(process))
        report(s, "%s: the disk was full, or another write failed: what happened after that is missing",
               process->directory);
    const char *problem = ct_symbols_problem(ct_trace_symbols(s->trace, index));
    if (problem && (process->info.complete || strcmp(problem, "it is cut") != 0))
        report(s, "%s/symbols: %s: names are missing", process->directory, problem);
}

/* ---- threads ---- */

static void check_part(struct search *s, const struct trace_thread *thread, const struct ct_index_part *part,
                       bool finished) {
    const struct trace_process *process = &s->trace->processes[thread->info.process];
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/thread_%u/%s", process->directory, thread->info.id, part->name);
    if (part->newer)
        report(s, "%s was written by a newer contrail: its events cannot be read; read it with that version", name);
    else if (part->state == CT_INDEX_UNREADABLE && (finished || part->size))
        report(s, "%s: its header is damaged: its events cannot be read", name);
    else if (part->state == CT_INDEX_CUT && finished)
        report(s, "%s: it ends early", name);
    else if (part->packed && part->packed->bad_table)
        report(s, "%s: its table is damaged", name);
}

/* Events that the manifest counts and that neither the files have nor --keep has deleted. */
static uint64_t missing_events(const struct trace_process *process, const struct trace_thread *thread) {
    uint64_t listed = ct_json_u64(ct_json_get(thread->manifest, "events", NULL), 0), readable = 0;
    bool keeps = ct_json_get(root_of(process), "keep", NULL);
    if (keeps && !thread->index.part_count)
        return 0;
    for (size_t i = 0; i < thread->index.part_count; i++)
        readable += thread->index.parts[i]->count;
    uint64_t deleted = keeps ? thread->index.first : 0;
    uint64_t holes =
        thread->index.end > thread->index.first + readable ? thread->index.end - thread->index.first - readable : 0;
    uint64_t after = listed > thread->index.end ? listed - thread->index.end : 0;
    uint64_t before = thread->index.first - deleted;
    return before + holes + after;
}

struct detail_search {
    struct search *search;
    const struct trace_process *process;
    bool finished;
    uint64_t records;
};

static void on_detail(void *arg, const char *name, enum ct_index_state state, uint64_t records) {
    struct detail_search *d = arg;
    d->records += records;
    if (state == CT_INDEX_UNREADABLE)
        report(d->search, "%s: its header is damaged: its detail records cannot be read", name);
    else if (state == CT_INDEX_CUT && d->finished)
        report(d->search, "%s: it ends early: detail records are missing", name);
}

static void check_detail(struct search *s, const struct trace_thread *thread, bool finished) {
    const struct trace_process *process = &s->trace->processes[thread->info.process];
    char *directory = ct_file_path("%s/thread_%u", process->directory, thread->info.id);
    struct detail_search d = {s, process, finished, 0};
    size_t found = s->found;
    if (directory)
        ct_details_inspect(&s->trace->cache, directory, on_detail, &d);
    uint64_t listed = ct_json_u64(ct_json_get(thread->manifest, "detail", NULL), 0);
    bool keeps = ct_json_get(root_of(process), "keep", NULL);
    if (finished && !keeps && s->found == found && d.records < listed)
        report(s, "%s: %" PRIu64 " of %" PRIu64 " detail records are missing", directory ? directory : "a thread",
               listed - d.records, listed);
    free(directory);
}

static void check_thread(struct search *s, const struct trace_thread *thread) {
    const struct trace_process *process = &s->trace->processes[thread->info.process];
    bool finished = is_finished(process);
    for (size_t i = 0; i < thread->index.part_count; i++)
        check_part(s, thread, thread->index.parts[i], finished);
    uint64_t missing = missing_events(process, thread);
    if (missing)
        report(s, "%s/thread_%u: %" PRIu64 " events are missing, %" PRIu64 " can be read", process->directory,
               thread->info.id, missing, thread->info.event_count);
    if (thread->info.has_detail || ct_json_u64(ct_json_get(thread->manifest, "detail", NULL), 0))
        check_detail(s, thread, finished);
}

size_t ct_trace_damage(struct ct_trace *trace, void (*report_line)(void *arg, const char *sentence), void *arg) {
    struct search s = {.trace = trace, .report = report_line, .arg = arg};
    for (size_t i = 0, thread = 0; i < trace->process_count; i++) {
        check_process(&s, i);
        for (; thread < trace->thread_count && trace->threads[thread].info.process == i; thread++)
            check_thread(&s, &trace->threads[thread]);
    }
    return s.found;
}

uint64_t ct_trace_unreadable_blocks(const struct ct_trace *trace) {
    uint64_t blocks = 0;
    for (size_t i = 0; i < trace->thread_count; i++)
        blocks += trace->threads[i].index.damaged;
    return blocks;
}
