/* SPDX-License-Identifier: Apache-2.0 */
/* Traces and their readers: see store.h. */
#include "view/store.h"
#include "base/json_read.h"
#include "trace/reader.h"
#include <contrail/session.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST_READERS = 6 };
#define LOOK_NS UINT64_C(300000000)
#define ASK_NS  UINT64_C(1000000000)

uint64_t ct_view_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- readers ---- */

/* Called while rows are read. Not 0: the request has taken too long, or the server ends. */
static int poll_reader(void *arg) {
    const struct ct_view_reader *reader = arg;
    return reader->of->view->stopping || (reader->deadline_ns && ct_view_now() > reader->deadline_ns);
}

static void close_reader(struct ct_view_reader *reader) {
    ct_source_close(reader->source);
    ct_trace_close(reader->trace);
    reader->source = NULL;
    reader->trace = NULL;
}

static int open_reader(struct ct_view_reader *reader, char *error, size_t size) {
    struct ct_view_trace *of = reader->of;
    int status = ct_trace_open(&reader->trace, of->path, error, size);
    if (status) {
        reader->trace = NULL;
        return status;
    }
    reader->trace->jobs = of->view->options.jobs;
    status = ct_source_open(&reader->source, &(struct ct_source_setup){.trace = reader->trace,
                                                                       .directories = of->view->options.directories,
                                                                       .often = !of->live,
                                                                       .poll = poll_reader,
                                                                       .poll_arg = reader});
    if (status)
        close_reader(reader);
    return status;
}

/* The reader sees what others have computed. With the lock held. */
static void lend_summaries(struct ct_view_trace *t, struct ct_view_reader *reader) {
    for (size_t i = 0; i < t->shared_count && i < ct_trace_thread_count(reader->trace); i++)
        if (t->summaries[i])
            ct_source_lend(reader->source, i, t->summaries[i]);
}

/* A reader that nobody has, with the lock held; waits for one. NULL: no memory. */
static struct ct_view_reader *find_reader(struct ct_view_trace *t) {
    for (;;) {
        for (struct ct_view_reader *r = t->readers; r; r = r->next)
            if (!r->taken)
                return r;
        if (t->reader_count < MOST_READERS)
            break;
        pthread_cond_wait(&t->given_back, &t->lock);
    }
    struct ct_view_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->of = t;
    reader->next = t->readers;
    t->readers = reader;
    t->reader_count++;
    return reader;
}

struct ct_view_reader *ct_view_take(struct ct_view_trace *t) {
    pthread_mutex_lock(&t->lock);
    struct ct_view_reader *reader = find_reader(t);
    uint64_t generation = t->generation;
    if (reader)
        reader->taken = true;
    pthread_mutex_unlock(&t->lock);
    if (!reader)
        return NULL;
    if (reader->source && reader->generation != generation)
        close_reader(reader);
    reader->deadline_ns = 0;
    if (!reader->source && open_reader(reader, NULL, 0) != 0) {
        ct_view_give(reader);
        return NULL;
    }
    reader->generation = generation;
    pthread_mutex_lock(&t->lock);
    if (generation == t->generation)
        lend_summaries(t, reader);
    pthread_mutex_unlock(&t->lock);
    return reader;
}

void ct_view_give(struct ct_view_reader *reader) {
    uint64_t unreadable = reader->trace ? ct_trace_unreadable_blocks(reader->trace) : 0;
    pthread_mutex_lock(&reader->of->lock);
    reader->taken = false;
    reader->of->unreadable = unreadable > reader->of->unreadable ? unreadable : reader->of->unreadable;
    pthread_cond_signal(&reader->of->given_back);
    pthread_mutex_unlock(&reader->of->lock);
}

struct ct_view_reader *ct_view_reader_new(struct ct_view_trace *trace) {
    struct ct_view_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->of = trace;
    if (!open_reader(reader, NULL, 0))
        return reader;
    free(reader);
    return NULL;
}

void ct_view_reader_free(struct ct_view_reader *reader) {
    if (reader)
        close_reader(reader);
    free(reader);
}

/* ---- what all readers share ---- */

struct ct_levels *ct_view_levels(struct ct_view_trace *t, size_t thread) {
    pthread_mutex_lock(&t->lock);
    struct ct_levels *levels = thread < t->shared_count ? t->levels[thread] : NULL;
    pthread_mutex_unlock(&t->lock);
    return levels;
}

double ct_view_progress(const struct ct_view_trace *t) {
    uint64_t made = t->made, wanted = t->wanted;
    return wanted && made < wanted ? (double)made / (double)wanted : 1;
}

/* ---- growing ---- */

static uint64_t add_file(uint64_t hash, const char *directory, const char *name) {
    struct stat info;
    char *path = ct_file_path("%s/%s", directory, name);
    if (path && stat(path, &info) == 0) {
        const uint64_t words[] = {(uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
                                  (uint64_t)info.st_mtim.tv_nsec};
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            hash = (hash ^ words[i]) * 0x100000001b3u;
    }
    free(path);
    return hash;
}

/* Changes when files grow, or processes, threads and segments come. */
static uint64_t sign(const struct ct_trace *trace) {
    uint64_t hash = add_file(0xcbf29ce484222325u, trace->path, ".");
    char name[64];
    for (size_t i = 0; i < trace->process_count; i++) {
        hash = add_file(hash, trace->processes[i].directory, "manifest.json");
        hash = add_file(hash, trace->processes[i].directory, ".");
    }
    for (size_t i = 0; i < trace->thread_count; i++) {
        const struct ct_trace_thread *info = &trace->threads[i].info;
        const char *directory = trace->processes[info->process].directory;
        snprintf(name, sizeof name, "thread_%u", info->id);
        hash = add_file(hash, directory, name);
        for (size_t k = 0; k < trace->threads[i].index.part_count; k++) {
            snprintf(name, sizeof name, "thread_%u/%s", info->id, trace->threads[i].index.parts[k]->name);
            hash = add_file(hash, directory, name);
        }
    }
    return hash;
}

static int find_live(const struct ct_trace *trace);

void ct_view_look(struct ct_view_trace *t) {
    uint64_t now = ct_view_now();
    pthread_mutex_lock(&t->lock);
    bool look = t->live && now - t->looked_ns > LOOK_NS, ask = look && now - t->asked_ns > ASK_NS;
    t->looked_ns = look ? now : t->looked_ns;
    t->asked_ns = ask ? now : t->asked_ns;
    pthread_mutex_unlock(&t->lock);
    struct ct_view_reader *reader = look ? ct_view_take(t) : NULL;
    if (!reader)
        return;
    int pid = ask ? find_live(reader->trace) : t->pid; /* before the files: what is written last is seen */
    uint64_t signature = sign(reader->trace);
    pthread_mutex_lock(&t->lock);
    t->generation += signature != t->signature || (!pid && t->live);
    t->signature = signature;
    t->pid = pid;
    t->live = pid != 0;
    pthread_mutex_unlock(&t->lock);
    ct_view_give(reader);
}

/* ---- traces ---- */

/* Whether the session that a recorder has answered is the one of a process of the trace: of a trace that was left
 * unfinished, or copied, a process of the same number may be recorded by now. */
static bool is_session_of(const char *answer, const struct ct_trace_process *process) {
    struct ct_json_tree *tree = NULL;
    struct stat its, ours;
    char *session = ct_file_path("%s/..", process->directory);
    bool same = session && !ct_json_parse(&tree, answer, strlen(answer), NULL) &&
                !stat(ct_json_text(ct_json_get(ct_json_root(tree), "directory", NULL), ""), &its) &&
                !stat(session, &ours) && its.st_dev == ours.st_dev && its.st_ino == ours.st_ino;
    ct_json_tree_free(tree);
    free(session);
    return same;
}

/* A process that is recorded right now; 0: none. */
static int find_live(const struct ct_trace *trace) {
    static char answer[65536];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int live = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < ct_trace_process_count(trace) && !live; i++) {
        const struct ct_trace_process *p = ct_trace_process_at(trace, i);
        if (!p->complete && ct_session_control(p->pid, "status", answer, sizeof answer) >= 0 &&
            is_session_of(answer, p))
            live = p->pid;
    }
    pthread_mutex_unlock(&lock);
    return live;
}

static const char *last_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

int ct_view_trace_open(struct ct_view_trace **out, struct ct_view *view, const char *path, char *error, size_t size) {
    struct ct_view_trace *t = calloc(1, sizeof *t);
    struct ct_view_reader *reader = calloc(1, sizeof *reader);
    *out = NULL;
    if (!t || !reader || !(t->path = strdup(path))) {
        free(t);
        free(reader);
        return CT_ERR_NO_MEMORY;
    }
    t->view = view;
    t->name = strdup(last_name(t->path));
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->given_back, NULL);
    ct_view_names_begin(&t->names);
    reader->of = t;
    t->readers = reader;
    t->reader_count = 1;
    int status = t->name ? open_reader(reader, error, size) : CT_ERR_NO_MEMORY;
    if (status) {
        ct_view_trace_close(t);
        return status;
    }
    t->program = strdup(ct_trace_process_count(reader->trace) ? ct_trace_program(reader->trace, 0) : "");
    t->pid = find_live(reader->trace);
    t->live = t->pid != 0;
    *out = t;
    return 0;
}

bool ct_view_trace_close(struct ct_view_trace *t) {
    if (!t)
        return true;
    if (!ct_view_maker_stop(t))
        return false;
    ct_report_free(t->report);
    ct_view_reader_free(t->report_reader);
    for (struct ct_view_reader *r = t->readers, *next; r; r = next) {
        next = r->next;
        close_reader(r);
        free(r);
    }
    for (size_t i = 0; i < t->shared_count; i++) {
        ct_summary_close(t->summaries[i]);
        ct_levels_free(t->levels[i]);
    }
    free(t->summaries);
    free(t->levels);
    ct_view_names_free(&t->names);
    pthread_cond_destroy(&t->given_back);
    pthread_mutex_destroy(&t->lock);
    free(t->program);
    free(t->name);
    free(t->path);
    free(t);
    return true;
}
