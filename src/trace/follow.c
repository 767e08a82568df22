/* SPDX-License-Identifier: Apache-2.0 */
/* See follow.h. */
#include "trace/follow.h"
#include "trace/reader.h"
#include "trace/symbols_format.h"
#include "trace/table.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Identifies the file that was read: the recorder replaces files by new ones. */
struct stamp {
    ino_t inode;
    off_t size;
    struct timespec time;
};

struct process {
    struct ct_follow_process info;
    char *directory;
    struct ct_symbols *symbols;
    struct stamp stamp;
};

/* Number of a thread, by process and id. */
struct place {
    struct ct_table_key key;
    size_t number; /* plus one; 0: new */
};

struct ct_follow {
    char *path;
    uint64_t from_ns;
    bool mangled;
    struct process *processes;
    struct ct_follow_thread *threads;
    size_t process_count, thread_count;
    struct ct_table places;
    /* in this round */
    bool named;
    struct ct_trace *trace;
    struct ct_facts facts;
    size_t *numbers;     /* of the trace's processes, then of its threads */
    uint64_t *sequences; /* of the trace's threads: where to begin */
    size_t *indexes;     /* by our number of a thread: in the trace */
};

int ct_follow_open(struct ct_follow **out, const char *path, uint64_t from_ns, bool mangled) {
    struct ct_follow *f = *out = calloc(1, sizeof *f);
    if (!f)
        return CT_ERR_NO_MEMORY;
    f->path = strdup(path);
    f->from_ns = from_ns;
    f->mangled = mangled;
    if (f->path)
        return 0;
    free(f);
    *out = NULL;
    return CT_ERR_NO_MEMORY;
}

static void end_round(struct ct_follow *f) {
    ct_facts_free(&f->facts);
    ct_trace_close(f->trace);
    free(f->numbers);
    free(f->sequences);
    free(f->indexes);
    f->trace = NULL;
    f->numbers = f->indexes = NULL;
    f->sequences = NULL;
}

void ct_follow_close(struct ct_follow *f) {
    if (!f)
        return;
    end_round(f);
    for (size_t i = 0; i < f->process_count; i++) {
        free(f->processes[i].directory);
        ct_symbols_free(f->processes[i].symbols);
    }
    free(f->processes);
    free(f->threads);
    ct_table_free(&f->places, NULL);
    free(f->path);
    free(f);
}

/* ---- a round ---- */

static bool add_process(struct ct_follow *f, const char *directory) {
    struct process *processes = realloc(f->processes, (f->process_count + 1) * sizeof *processes);
    char *copy = strdup(directory);
    if (processes)
        f->processes = processes;
    if (!processes || !copy) {
        free(copy);
        return false;
    }
    processes[f->process_count++] = (struct process){.directory = copy};
    return true;
}

/* The number of a process of the trace. Processes nearly always come in the same order, so the search starts at its
 * index. */
static int number_process(struct ct_follow *f, size_t index, size_t *number) {
    const struct ct_trace_process *now = ct_trace_process_at(f->trace, index);
    size_t i = 0;
    for (; i < f->process_count; i++) {
        *number = (index + i) % f->process_count;
        if (!strcmp(f->processes[*number].directory, now->directory))
            break;
    }
    if (i == f->process_count) {
        if (!add_process(f, now->directory))
            return CT_ERR_NO_MEMORY;
        *number = i;
    }
    const struct ct_json_node *root = ct_json_root(f->facts.trees[index]);
    f->processes[*number].info = (struct ct_follow_process){
        .pid = now->pid,
        .parent_pid = (int)ct_json_u64(ct_json_get(root, "parent_pid", NULL), 0),
        .complete = now->complete,
        .time_start_ns = now->time_start_ns,
    };
    snprintf(f->processes[*number].info.program, sizeof f->processes[*number].info.program, "%s",
             ct_trace_program(f->trace, index));
    return 0;
}

static struct ct_follow_thread *add_thread(struct ct_follow *f) {
    if (f->thread_count % 64 == 0) {
        struct ct_follow_thread *threads = realloc(f->threads, (f->thread_count + 64) * sizeof *threads);
        if (!threads)
            return NULL;
        f->threads = threads;
    }
    return &f->threads[f->thread_count++];
}

static int number_thread(struct ct_follow *f, size_t index, size_t process, size_t *number) {
    const struct ct_trace_thread *now = ct_trace_thread_at(f->trace, index);
    struct place *place = ct_table_get(&f->places, process, now->id, sizeof *place);
    if (!place)
        return CT_ERR_NO_MEMORY;
    if (!place->number) {
        struct ct_follow_thread *fresh = add_thread(f);
        if (!fresh)
            return CT_ERR_NO_MEMORY;
        *fresh = (struct ct_follow_thread){.process = process, .id = now->id};
        if (f->from_ns)
            fresh->next = ct_index_search(&f->trace->threads[index].index, f->from_ns);
        place->number = f->thread_count;
    }
    *number = place->number - 1;
    struct ct_follow_thread *thread = &f->threads[*number];
    thread->tid = now->tid;
    snprintf(thread->name, sizeof thread->name, "%s", now->name);
    thread->gaps = f->facts.threads[index].gaps;
    thread->gap_count = f->facts.threads[index].gap_count;
    f->sequences[index] = f->named && !*now->name ? UINT64_MAX : thread->next;
    return 0;
}

static int number_all(struct ct_follow *f) {
    size_t processes = ct_trace_process_count(f->trace), threads = ct_trace_thread_count(f->trace);
    int status = 0;
    f->numbers = calloc(processes + threads + 1, sizeof *f->numbers);
    f->sequences = calloc(threads + 1, sizeof *f->sequences);
    if (!f->numbers || !f->sequences)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < processes && !status; i++)
        status = number_process(f, i, &f->numbers[i]);
    for (size_t i = 0; i < threads && !status; i++) {
        size_t process = f->numbers[ct_trace_thread_at(f->trace, i)->process];
        status = number_thread(f, i, process, &f->numbers[processes + i]);
    }
    return status;
}

static int index_threads(struct ct_follow *f) {
    const size_t *numbers = f->numbers + ct_trace_process_count(f->trace);
    f->indexes = malloc((f->thread_count + 1) * sizeof *f->indexes);
    for (size_t i = 0; f->indexes && i < f->thread_count; i++)
        f->indexes[i] = SIZE_MAX;
    for (size_t i = 0; f->indexes && i < ct_trace_thread_count(f->trace); i++)
        f->indexes[numbers[i]] = i;
    return f->indexes ? 0 : CT_ERR_NO_MEMORY;
}

int ct_follow_look(struct ct_follow *f, bool named) {
    end_round(f);
    f->named = named;
    for (size_t i = 0; i < f->thread_count; i++)
        f->threads[i].gap_count = 0;
    int status = ct_trace_open(&f->trace, f->path, NULL, 0);
    if (!status)
        status = ct_facts_load(&f->facts, f->trace);
    if (!status)
        status = number_all(f);
    if (!status)
        status = index_threads(f);
    return status;
}

int ct_follow_events(struct ct_follow *f, uint64_t until_ns,
                     int (*on_event)(void *arg, const struct ct_trace_event *event), void *arg) {
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    int status = f->trace ? ct_trace_cursor_open_at(&cursor, f->trace, f->sequences) : CT_ERR_BAD_STATE;
    if (status)
        return status;
    const size_t *numbers = f->numbers + ct_trace_process_count(f->trace);
    while (!status && ct_trace_cursor_next(cursor, &event) && event.timestamp_ns <= until_ns) {
        event.thread = numbers[event.thread];
        f->threads[event.thread].next = event.sequence + 1;
        status = on_event(arg, &event);
    }
    ct_trace_cursor_close(cursor);
    return status;
}

/* ---- what is known ---- */

struct ct_trace *ct_follow_trace(const struct ct_follow *f) {
    return f->trace;
}

const size_t *ct_follow_indexes(const struct ct_follow *f) {
    return f->indexes;
}

size_t ct_follow_process_count(const struct ct_follow *f) {
    return f->process_count;
}

const struct ct_follow_process *ct_follow_process_at(const struct ct_follow *f, size_t process) {
    return process < f->process_count ? &f->processes[process].info : NULL;
}

size_t ct_follow_thread_count(const struct ct_follow *f) {
    return f->thread_count;
}

const struct ct_follow_thread *ct_follow_thread_at(const struct ct_follow *f, size_t thread) {
    return thread < f->thread_count ? &f->threads[thread] : NULL;
}

uint64_t ct_follow_thread_end(const struct ct_follow *f, size_t thread, uint64_t last_ns, size_t open_frames) {
    size_t index = f->indexes && thread < f->thread_count ? f->indexes[thread] : SIZE_MAX;
    return index == SIZE_MAX ? last_ns : ct_facts_thread_end(&f->facts, f->trace, index, last_ns, open_frames);
}

/* ---- names ---- */

/* False: the file is the one that was read, or does not exist. */
static bool has_changed(struct process *p) {
    struct stat now;
    char *path = ct_file_path("%s/" CT_SYMBOLS_FILE, p->directory);
    bool there = path && !stat(path, &now);
    free(path);
    struct stamp stamp = {0};
    if (there)
        stamp = (struct stamp){now.st_ino, now.st_size, now.st_mtim};
    bool same = stamp.inode == p->stamp.inode && stamp.size == p->stamp.size &&
                stamp.time.tv_sec == p->stamp.time.tv_sec && stamp.time.tv_nsec == p->stamp.time.tv_nsec;
    p->stamp = stamp;
    return there && !same;
}

const struct ct_trace_function *ct_follow_function(struct ct_follow *f, size_t process, uint64_t id) {
    struct process *p = &f->processes[process];
    const struct ct_trace_function *function = ct_symbols_find(p->symbols, id);
    if (function || !has_changed(p))
        return function;
    ct_symbols_free(p->symbols);
    p->symbols = ct_symbols_load(p->directory);
    if (p->symbols && f->mangled)
        ct_symbols_keep_mangled(p->symbols);
    return ct_symbols_find(p->symbols, id);
}
