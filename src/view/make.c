/* SPDX-License-Identifier: Apache-2.0 */
/* Makes what large threads are read by: summaries and levels. One thread of the server waits for the trace to grow;
 * workers, as many as there are processors, take the threads of the trace, the largest first. */
#include "base/grow.h"
#include "trace/ahead.h"
#include "trace/reader.h"
#include "view/store.h"
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 16, ROUND_MS = 200, WORKER_NICE = 10, PATIENCE_S = 2 };

struct part {
    size_t thread;
    uint64_t events;
    struct ct_levels_builder *builder; /* of a trace that grows; continued in the next round */
    uint64_t counted;                  /* events that were added to the trace's `made` */
    bool finished;
};

struct ct_view_maker {
    struct ct_view_trace *trace;
    pthread_t thread;
    bool running;
    _Atomic bool stop;
    pthread_mutex_t lock; /* of `next` */
    struct part *parts;
    size_t count, room, next;
    uint64_t generation; /* that was read last */
    bool ended;          /* the trace does not grow any more */
    bool alone;          /* each processor has a worker with a thread */
};

/* ---- what is shared ---- */

/* Makes room for the threads of the trace. */
static bool share(struct ct_view_trace *t, size_t count) {
    pthread_mutex_lock(&t->lock);
    bool good = true;
    if (count > t->shared_count) {
        struct ct_summary **summaries = calloc(count, sizeof(struct ct_summary *));
        struct ct_levels **levels = calloc(count, sizeof(struct ct_levels *));
        good = summaries && levels;
        if (good && t->shared_count) {
            memcpy(summaries, t->summaries, t->shared_count * sizeof *summaries);
            memcpy(levels, t->levels, t->shared_count * sizeof *levels);
        }
        free(good ? (void *)t->summaries : (void *)summaries);
        free(good ? (void *)t->levels : (void *)levels);
        if (good) {
            t->summaries = summaries;
            t->levels = levels;
            t->shared_count = count;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return good;
}

static void share_summary(struct ct_view_trace *t, size_t thread, struct ct_summary *summary) {
    pthread_mutex_lock(&t->lock);
    t->summaries[thread] = summary;
    pthread_mutex_unlock(&t->lock);
}

static void share_levels(struct ct_view_trace *t, size_t thread, struct ct_levels *levels) {
    pthread_mutex_lock(&t->lock);
    t->levels[thread] = levels;
    pthread_mutex_unlock(&t->lock);
}

/* ---- one thread of the trace ---- */

struct work {
    struct ct_view_maker *maker;
    struct part *part;
    uint64_t first;
};

static bool on_progress(void *arg, uint64_t next) {
    struct work *w = arg;
    uint64_t done = next - w->first;
    w->maker->trace->made += done - w->part->counted;
    w->part->counted = done;
    return w->maker->stop;
}

static void summarize(struct ct_view_maker *m, struct ct_source *source, const struct part *part, bool stored) {
    struct ct_summary *summary = NULL;
    const struct ct_summary_options options = {.facts = &source->facts, .stored_only = stored};
    if (m->stop || m->trace->summaries[part->thread])
        return;
    if (ct_summary_open(&summary, source->trace, part->thread, &options) == 0)
        share_summary(m->trace, part->thread, summary);
}

/* A file for the levels of a thread, made where we may not write; -1: none. */
static int kept_file(const struct ct_view_trace *t, const struct ct_trace_thread *info, const char *process) {
    const struct ct_view_keep *keep = t->view->options.keep;
    return keep ? keep->file(keep->arg, t->number, process, info->id) : -1;
}

static void make_levels(struct ct_view_maker *m, struct ct_source *source, struct part *part) {
    struct ct_levels *levels = m->trace->levels[part->thread];
    struct ct_levels_file *file = NULL;
    const struct ct_trace_thread *info = ct_trace_thread_at(source->trace, part->thread);
    const char *process = ct_trace_process_at(source->trace, info->process)->directory;
    const struct ct_view_keep *keep = m->trace->view->options.keep;
    struct work work = {m, part, source->trace->threads[part->thread].index.first};
    if (!levels) {
        levels = ct_levels_new(source->start_ns);
        if (levels && m->ended && ct_levels_load(levels, source, part->thread))
            part->finished = true;
        else if (levels && m->ended)
            file = ct_levels_file_begin(levels, source, part->thread, kept_file(m->trace, info, process));
        if (levels)
            share_levels(m->trace, part->thread, levels);
    }
    if (levels && !part->finished && !part->builder)
        part->builder = ct_levels_builder_new(levels, source, part->thread, m->alone);
    int status = part->builder ? ct_levels_build(part->builder, source, m->ended, on_progress, &work) : 0;
    if (m->ended || status) {
        ct_levels_builder_free(part->builder);
        part->builder = NULL;
        part->finished = true;
    }
    if (ct_levels_file_end(file, !status && levels && levels->done) && keep)
        keep->complete(keep->arg, m->trace->number, process, info->id);
    m->trace->made += part->events - part->counted;
    part->counted = part->events;
}

/* ---- workers ---- */

static struct part *next_part(struct ct_view_maker *m) {
    pthread_mutex_lock(&m->lock);
    struct part *part = m->next < m->count && !m->stop ? &m->parts[m->next++] : NULL;
    pthread_mutex_unlock(&m->lock);
    return part;
}

/* Requests come first, however the server itself was started. The kernel has a priority for each thread. */
static void step_back(void) {
    id_t own = (id_t)syscall(SYS_gettid);
    (void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0}); /* a real-time thread has no nice value */
    (void)setpriority(PRIO_PROCESS, own, getpriority(PRIO_PROCESS, own) + WORKER_NICE);
}

/* Levels of all threads first: they are what is seen. */
static void *work(void *arg) {
    struct ct_view_maker *m = arg;
    step_back();
    struct ct_view_reader *reader = ct_view_reader_new(m->trace);
    struct part *part;
    while (reader && (part = next_part(m)))
        if (!part->finished)
            make_levels(m, reader->source, part);
    ct_view_reader_free(reader);
    return NULL;
}

static void *summarize_all(void *arg) {
    struct ct_view_maker *m = arg;
    struct ct_view_reader *reader = ct_view_reader_new(m->trace);
    struct part *part;
    while (reader && (part = next_part(m)))
        summarize(m, reader->source, part, false);
    ct_view_reader_free(reader);
    return NULL;
}

static void run_workers(struct ct_view_maker *m, void *(*body)(void *arg), unsigned wanted) {
    pthread_t workers[WORKERS];
    unsigned count = 0;
    m->next = 0;
    while (count + 1 < wanted && count < WORKERS && !pthread_create(&workers[count], NULL, body, m))
        count++;
    (void)body(m);
    while (count)
        pthread_join(workers[--count], NULL);
}

static int by_events(const void *a, const void *b) {
    const struct part *x = a, *y = b;
    return x->events != y->events ? (x->events < y->events ? 1 : -1)
                                  : (x->thread > y->thread) - (x->thread < y->thread);
}

static struct part *find_part(struct ct_view_maker *m, size_t thread) {
    for (size_t i = 0; i < m->count; i++)
        if (m->parts[i].thread == thread)
            return &m->parts[i];
    if (!ct_grow_zeroed(&m->parts, &m->room, m->count, sizeof *m->parts, 16))
        return NULL;
    m->parts[m->count] = (struct part){.thread = thread};
    return &m->parts[m->count++];
}

/* Lists the large threads, and loads the summaries that are there. */
static void list_parts(struct ct_view_maker *m, struct ct_view_reader *reader) {
    struct ct_view_trace *t = m->trace;
    uint64_t wanted = 0;
    for (size_t i = 0; i < ct_trace_thread_count(reader->trace); i++) {
        uint64_t events = ct_trace_thread_at(reader->trace, i)->event_count;
        struct part *part = events > 2 * CT_LEVELS_EVENTS ? find_part(m, i) : NULL;
        if (!part)
            continue;
        part->events = events;
        wanted += events;
    }
    t->wanted = wanted;
    if (m->count)
        qsort(m->parts, m->count, sizeof *m->parts, by_events);
    for (size_t i = 0; i < m->count && m->ended; i++)
        summarize(m, reader->source, &m->parts[i], true);
}

static void make_round(struct ct_view_maker *m) {
    struct ct_view_reader *reader = ct_view_reader_new(m->trace);
    unsigned processors = reader ? ct_ahead_processors(reader->trace) : 1;
    if (!reader || !share(m->trace, ct_trace_thread_count(reader->trace))) {
        ct_view_reader_free(reader);
        return;
    }
    list_parts(m, reader);
    ct_view_reader_free(reader);
    m->alone = m->count >= processors;
    run_workers(m, work, processors);
    if (m->ended)
        run_workers(m, summarize_all, processors);
}

/* Sums of all functions: a call is shown beside the others of its function. */
static void make_report(struct ct_view_maker *m) {
    const struct ct_report_options options = {.sort = CT_REPORT_BY_SELF};
    struct ct_view_reader *reader = m->stop ? NULL : ct_view_reader_new(m->trace);
    struct ct_report *report = NULL;
    if (!reader || ct_report_make(&report, reader->trace, &options) != 0) {
        ct_view_reader_free(reader);
        return;
    }
    pthread_mutex_lock(&m->trace->lock);
    m->trace->report = report;
    m->trace->report_reader = reader;
    pthread_mutex_unlock(&m->trace->lock);
}

static void *run(void *arg) {
    struct ct_view_maker *m = arg;
    struct ct_view_trace *t = m->trace;
    for (bool first = true; !m->stop; first = false) {
        ct_view_look(t);
        pthread_mutex_lock(&t->lock);
        bool grown = first || t->generation != m->generation;
        m->generation = t->generation;
        m->ended = !t->live;
        pthread_mutex_unlock(&t->lock);
        if (grown)
            make_round(m);
        if (m->ended) {
            make_report(m);
            break;
        }
        poll(NULL, 0, ROUND_MS);
    }
    return NULL;
}

int ct_view_maker_start(struct ct_view_trace *t) {
    struct ct_view_maker *m = t->maker = calloc(1, sizeof *m);
    if (!m)
        return CT_ERR_NO_MEMORY;
    m->trace = t;
    pthread_mutex_init(&m->lock, NULL);
    m->running = pthread_create(&m->thread, NULL, run, m) == 0;
    return m->running ? 0 : CT_ERR_SYSTEM;
}

bool ct_view_maker_stop(struct ct_view_trace *t) {
    struct ct_view_maker *m = t->maker;
    struct timespec until;
    if (!m)
        return true;
    m->stop = true;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (m->running && pthread_timedjoin_np(m->thread, NULL, &until) != 0)
        return false;
    for (size_t i = 0; i < m->count; i++)
        ct_levels_builder_free(m->parts[i].builder);
    free(m->parts);
    pthread_mutex_destroy(&m->lock);
    free(m);
    t->maker = NULL;
    return true;
}
