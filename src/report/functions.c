/* SPDX-License-Identifier: Apache-2.0 */
/* The report: reads threads in parallel, merges their counts, makes rows.
 *
 * Workers share the trace (each reads a different thread of it), the counter of remaining threads, and a lock for
 * lookups of functions. The largest threads come first. A worker that finds no thread any more helps those that have a
 * large one (ranges.h). */
#include "report/functions.h"
#include "base/grow.h"
#include "report/count.h"
#include "report/sampled.h"
#include "trace/ahead.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORKERS = CT_CREW_MOST };

struct part {
    struct ct_report_row *rows;
    size_t count, capacity;
};

struct job {
    const struct ct_report_options *options;
    const struct ct_facts *facts;
    const struct ct_fits *fits;
    struct ct_trace *trace;
    pthread_mutex_t names;
    size_t *threads; /* indices, largest first */
    size_t thread_count;
    atomic_size_t next;
    struct ct_crew crew;
};

struct worker {
    _Alignas(128) struct job *job; /* no cache line belongs to two workers */
    struct ct_table tallies;
    struct ct_counter counter;
    struct part part; /* rows of whole threads, when each thread has its own rows */
    int status;
    pthread_t thread;
    bool started;
};

/* ---- rows ---- */

static struct ct_report_row *add_row(struct part *part) {
    if (!ct_grow(&part->rows, &part->capacity, part->count, sizeof *part->rows, 256))
        return NULL;
    return &part->rows[part->count++];
}

static void put_cpu(struct ct_report_row *row, const struct ct_tally *t) {
    row->cpu_ns = ct_off_rest(t->self_ns, &t->self_off);
    row->blocked_ns = t->self_off.ns[CT_OFF_BLOCKED];
    row->preempted_ns = t->self_off.ns[CT_OFF_PREEMPTED];
    row->unknown_ns = t->self_off.ns[CT_OFF_UNKNOWN];
    row->total_cpu_ns = ct_off_rest(t->total_ns, &t->total_off);
    row->total_blocked_ns = t->total_off.ns[CT_OFF_BLOCKED];
    row->total_preempted_ns = t->total_off.ns[CT_OFF_PREEMPTED];
}

static struct ct_report_row row_of(const struct ct_tally *t, size_t thread) {
    uint64_t timed = t->times.count;
    return (struct ct_report_row){
        .process = t->key.process,
        .function = t->key.function,
        .thread = thread,
        .calls = t->all_calls > t->calls ? t->all_calls : t->calls,
        .recorded = t->calls,
        .timed = timed,
        .total_ns = t->total_ns,
        .self_ns = t->self_ns,
        .avg_ns = timed ? t->sum_ns / timed : 0,
        .max_ns = t->times.max,
        .p50_ns = ct_histogram_at(&t->times, 0.50),
        .p95_ns = ct_histogram_at(&t->times, 0.95),
        .p99_ns = ct_histogram_at(&t->times, 0.99),
        .exceptions = t->exceptions,
        .open = t->open,
        .unpaired = t->unpaired,
        .entry_only = t->entry_only,
        .spread = {.squares = (double)t->squares,
                   .p25_ns = ct_histogram_at(&t->spread, 0.25),
                   .p50_ns = ct_histogram_at(&t->spread, 0.50),
                   .p75_ns = ct_histogram_at(&t->spread, 0.75)},
    };
}

/* Moves the times of single calls to the row. */
static int keep_times(struct ct_report_row *row, struct ct_tally *tally) {
    row->times = malloc(sizeof *row->times);
    if (!row->times)
        return CT_ERR_NO_MEMORY;
    *row->times = tally->times;
    tally->times = (struct ct_histogram){0};
    return 0;
}

static int make_rows(struct part *part, const struct ct_table *tallies, size_t thread, bool times) {
    for (size_t i = 0; i < tallies->capacity; i++) {
        struct ct_tally *tally = ct_tally_at(tallies, i);
        if (!tally || !(tally->calls + tally->unpaired +
                        tally->all_calls)) /* seen only outside the range, or in calls that do not fit */
            continue;
        struct ct_report_row *row = add_row(part);
        if (!row)
            return CT_ERR_NO_MEMORY;
        *row = row_of(tally, thread);
        put_cpu(row, tally);
        if (times && keep_times(row, tally))
            return CT_ERR_NO_MEMORY;
    }
    return 0;
}

/* ---- workers ---- */

static int count_threads(struct worker *w) {
    struct job *job = w->job;
    for (;;) {
        size_t i = atomic_fetch_add(&job->next, 1);
        if (i >= job->thread_count)
            return 0;
        int status = ct_count_thread(&w->counter, job->threads[i]);
        if (!status && job->options->per_thread) {
            status = make_rows(&w->part, &w->tallies, job->threads[i], job->options->times);
            ct_table_clear(&w->tallies, ct_tally_release);
        }
        if (status)
            return status;
    }
}

static void *run_worker(void *arg) {
    struct worker *w = arg;
    struct job *job = w->job;
    w->counter = (struct ct_counter){.trace = job->trace,
                                     .names = &job->names,
                                     .facts = job->facts,
                                     .tallies = &w->tallies,
                                     .spread = job->options->spread,
                                     .crew = &job->crew,
                                     .range_events = job->options->range_events,
                                     .select = &job->options->select,
                                     .fits = job->fits};
    w->status = count_threads(w);
    ct_counter_free(&w->counter);
    ct_crew_help(&job->crew);
    return NULL;
}

/* A large thread keeps several workers busy. */
static bool has_large_thread(const struct job *job) {
    uint64_t size = job->options->range_events ? job->options->range_events : CT_RANGE_EVENTS;
    return job->thread_count && ct_trace_thread_at(job->trace, job->threads[0])->event_count > size;
}

static unsigned workers_wanted(const struct job *job) {
    const struct ct_report_options *options = job->options;
    size_t threads = job->thread_count;
    unsigned n = options->workers ? options->workers : ct_ahead_processors(job->trace);
    if (n > MAX_WORKERS)
        n = MAX_WORKERS;
    return threads < n && !has_large_thread(job) ? (threads ? (unsigned)threads : 1) : n;
}

static int run_workers(struct worker *workers, unsigned count) {
    for (unsigned i = 1; i < count; i++) {
        workers[i].started = !pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]);
        if (!workers[i].started)
            ct_crew_leave(&workers[i].job->crew);
    }
    run_worker(&workers[0]);
    int status = workers[0].status;
    for (unsigned i = 1; i < count; i++) {
        if (!workers[i].started)
            continue; /* the others do its work */
        pthread_join(workers[i].thread, NULL);
        if (!status)
            status = workers[i].status;
    }
    return status;
}

/* ---- which threads ---- */

struct by_size {
    size_t index;
    uint64_t events;
};

static int compare_size(const void *a, const void *b) {
    const struct by_size *x = a, *y = b;
    if (x->events != y->events)
        return x->events < y->events ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static int choose_threads(struct job *job) {
    size_t total = ct_trace_thread_count(job->trace);
    struct by_size *sizes = calloc(total + 1, sizeof *sizes);
    job->threads = calloc(total + 1, sizeof *job->threads);
    if (!sizes || !job->threads) {
        free(sizes);
        return CT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < total; i++) {
        const struct ct_trace_thread *thread = ct_trace_thread_at(job->trace, i);
        if (ct_select_thread(&job->options->select, job->trace, i))
            sizes[job->thread_count++] = (struct by_size){i, thread->event_count};
    }
    qsort(sizes, job->thread_count, sizeof *sizes, compare_size);
    for (size_t i = 0; i < job->thread_count; i++)
        job->threads[i] = sizes[i].index;
    free(sizes);
    return 0;
}

/* ---- merging ---- */

/* Processes that run the same program have the same functions: each function is one row, under the key that it has in
 * the first process. */
struct same_function {
    struct ct_table_key by_hash;
    struct ct_table_key first;
    bool known;
};

static uint64_t hash_text(uint64_t hash, const char *text) {
    do
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3ull; /* FNV-1a */
    while (*text++);
    return hash;
}

/* `fixed`: some keys are in use already, and stay. */
static int unite_key(struct ct_table *same, const struct ct_trace *trace, struct ct_table_key *key, bool fixed) {
    const struct ct_trace_function *f = ct_trace_function(trace, key->process, key->function);
    if (!f || ct_trace_process_count(trace) < 2)
        return 0;
    uint64_t hash = hash_text(hash_text(0xcbf29ce484222325ull ^ f->offset, f->module), f->name);
    struct same_function *entry = ct_table_get(same, 0, hash, sizeof *entry);
    if (!entry)
        return CT_ERR_NO_MEMORY;
    if (!entry->known || (key->process < entry->first.process && !fixed))
        entry->first = *key;
    entry->known = true;
    *key = entry->first;
    return 0;
}

/* The first process is the one with the lowest number, whichever worker has it: all are looked at before the first is
 * merged. */
static int note_first(struct ct_table *same, const struct ct_trace *trace, const struct ct_table *from) {
    int status = 0;
    for (size_t i = 0; i < from->capacity && !status; i++) {
        const struct ct_tally *tally = ct_tally_at(from, i);
        struct ct_table_key key = tally ? tally->key : (struct ct_table_key){0};
        status = tally ? unite_key(same, trace, &key, false) : 0;
    }
    return status;
}

static int merge_tallies(struct ct_table *into, struct ct_table *same, const struct ct_trace *trace,
                         const struct ct_table *from) {
    for (size_t i = 0; i < from->capacity; i++) {
        const struct ct_tally *tally = ct_tally_at(from, i);
        if (!tally)
            continue;
        struct ct_table_key key = tally->key;
        int status = unite_key(same, trace, &key, true);
        struct ct_tally *to = status ? NULL : ct_tally_get(into, key.process, key.function);
        if (!to || !ct_tally_merge(to, tally))
            return CT_ERR_NO_MEMORY;
    }
    return 0;
}

/* ---- calls that were not recorded, because they were sampled ---- */

struct merging {
    const struct ct_trace *trace;
    struct ct_table merged, same;
};

static int add_all_calls(void *arg, size_t process, uint64_t function, uint64_t calls) {
    struct merging *m = arg;
    struct ct_table_key key = {.process = process, .function = function};
    int status = unite_key(&m->same, m->trace, &key, true);
    struct ct_tally *tally = status ? NULL : ct_tally_get(&m->merged, key.process, key.function);
    if (!tally)
        return CT_ERR_NO_MEMORY;
    tally->all_calls += calls;
    return 0;
}

/* The manifest has sums over all threads and all of the time. */
static bool wants_all_calls(const struct ct_report_options *o) {
    return !o->per_thread && !o->select.threads && !o->select.from_ns && !o->select.to_ns && !o->select.where;
}

static int merge_all_calls(struct merging *m, const struct job *job) {
    int status = 0;
    for (size_t i = 0; i < job->facts->process_count && wants_all_calls(job->options) && !status; i++)
        if (ct_select_process(&job->options->select, job->trace, i))
            status = ct_sampled_each(job->facts, i, add_all_calls, m);
    return status;
}

/* Merges all threads of all workers into one row for each function. */
static int merge_workers(struct part *part, const struct job *job, struct worker *workers, unsigned count) {
    struct merging m = {.trace = job->trace};
    int status = 0;
    for (unsigned i = 0; i < count && !status; i++)
        status = note_first(&m.same, job->trace, &workers[i].tallies);
    for (unsigned i = 0; i < count && !status; i++)
        status = merge_tallies(&m.merged, &m.same, job->trace, &workers[i].tallies);
    if (!status)
        status = merge_all_calls(&m, job);
    if (!status)
        status = make_rows(part, &m.merged, SIZE_MAX, job->options->times);
    ct_table_free(&m.merged, ct_tally_release);
    ct_table_free(&m.same, NULL);
    return status;
}

static int move_rows(struct part *into, const struct part *from) {
    for (size_t i = 0; i < from->count; i++) {
        struct ct_report_row *row = add_row(into);
        if (!row)
            return CT_ERR_NO_MEMORY;
        *row = from->rows[i];
    }
    return 0;
}

static void add_totals(struct ct_report *r, const struct ct_count_totals *t) {
    r->events += t->events;
    r->calls += t->calls;
    r->exceptions += t->exceptions;
    r->open += t->open;
    r->unpaired += t->unpaired;
    r->gaps += t->gaps;
    r->lost += t->lost;
    r->gap_ns += t->gap_ns;
    r->threads += t->threads;
    r->waited_ns += t->waited_ns;
    r->cpu_threads += t->cpu_threads;
    r->ranges += t->ranges;
}

static int gather_rows(struct ct_report *r, struct job *job, struct worker *workers, unsigned count) {
    struct part all = {0};
    int status = job->options->per_thread ? 0 : merge_workers(&all, job, workers, count);
    for (unsigned i = 0; i < count; i++) {
        add_totals(r, &workers[i].counter.totals);
        if (!status)
            status = move_rows(&all, &workers[i].part);
    }
    r->rows = all.rows;
    r->row_count = all.count;
    return status;
}

static void free_workers(struct worker *workers, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        ct_table_free(&workers[i].tallies, ct_tally_release);
        free(workers[i].part.rows);
    }
}

static int count_all(struct ct_report *r, struct job *job) {
    struct worker workers[MAX_WORKERS] = {0};
    unsigned count = workers_wanted(job);
    for (unsigned i = 0; i < count; i++)
        workers[i] = (struct worker){.job = job};
    ct_crew_begin(&job->crew, count);
    int status = run_workers(workers, count);
    ct_crew_end(&job->crew);
    if (!status)
        status = gather_rows(r, job, workers, count);
    free_workers(workers, count);
    return status;
}

/* ---- what was left out for a budget ---- */

struct asked {
    struct ct_report *report;
    const struct ct_trace *trace;
    const struct ct_select *select;
};

static bool has_selected_thread(const struct asked *a, size_t process) {
    for (size_t i = 0; i < ct_trace_thread_count(a->trace); i++)
        if (ct_trace_thread_at(a->trace, i)->process == process && ct_select_thread(a->select, a->trace, i))
            return true;
    return false;
}

/* Was the function left out at a moment, and in a process, that the report is about, and would it be in it? */
static bool is_asked_for(void *arg, const struct ct_left_out *one) {
    const struct asked *a = arg;
    const struct ct_cached_function *known = ct_function_cache_get(&a->report->names, one->process, one->id);
    if ((a->select->to_ns && one->first_ns >= a->select->to_ns) || (one->back_ns && one->back_ns <= a->select->from_ns))
        return false;
    return known && known->function_fits && known->module_fits && has_selected_thread(a, one->process);
}

int ct_report_make(struct ct_report **out, struct ct_trace *trace, const struct ct_report_options *options) {
    struct ct_facts facts;
    struct ct_report *r = calloc(1, sizeof *r);
    if (!r)
        return CT_ERR_NO_MEMORY;
    int status = ct_facts_load(&facts, trace);
    if (status) {
        free(r);
        return status;
    }
    struct job job = {.options = options, .facts = &facts, .trace = trace};
    struct ct_fits *fits = NULL;
    pthread_mutex_init(&job.names, NULL);
    status = ct_fits_make(&fits, trace, &facts, &options->select, CT_FITS_WHERE, options->directories);
    job.fits = fits;
    if (!status)
        status = choose_threads(&job);
    if (!status)
        status = count_all(r, &job);
    if (!status)
        status = ct_report_arrange(r, trace, options);
    if (!status)
        status = ct_left_out_read(&r->left_out, trace, &facts, SIZE_MAX);
    if (!status)
        ct_left_out_filter(&r->left_out, is_asked_for, &(struct asked){r, trace, &options->select});
    r->sampled = ct_sampled_rate(&facts);
    r->exact = r->sampled && wants_all_calls(options);
    ct_fits_free(fits);
    free(job.threads);
    pthread_mutex_destroy(&job.names);
    ct_facts_free(&facts);
    if (status) {
        ct_report_free(r);
        return status;
    }
    *out = r;
    return 0;
}
