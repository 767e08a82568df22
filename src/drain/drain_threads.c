/* SPDX-License-Identifier: Apache-2.0 */
/* The target's threads as the drain sees them. Owner: the drain thread; the list is changed under the mutex. */
#include "drain/drain.h"
#include "remote/namespace.h"
#include <contrail/status.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LOOKS = 256 }; /* threads that are looked at each second */

static bool read_line(const char *path, char *line, size_t size) {
    FILE *file = fopen(path, "re");
    bool ok = file && fgets(line, (int)size, file);
    if (file)
        fclose(file);
    return ok;
}

/* The tid that we see of a thread whose own tid is `inner`. */
static int outer_tid(const struct ct_drain *d, int inner) {
    if (inner == d->inner_pid) /* the main thread, even if it has ended */
        return d->pid;
    int outer = d->other_namespace ? ct_remote_outer_tid(d->pid, inner) : 0;
    return outer ? outer : inner;
}

/* A main thread that ends before the others stays as a zombie, until the process ends. */
static bool is_zombie(int pid) {
    char path[64], line[128];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    const char *after = read_line(path, line, sizeof line) ? strrchr(line, ')') : NULL;
    return after && after[1] && (after[2] == 'Z' || after[2] == 'X');
}

/* Returns false if the thread no longer exists. */
static bool read_name(const struct ct_drain *d, struct ct_drain_thread *t) {
    char path[64], line[32];
    if (t->tid == d->pid && is_zombie(t->tid))
        return false;
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", d->pid, t->tid);
    if (!read_line(path, line, sizeof line))
        return false;
    line[strcspn(line, "\n")] = 0;
    snprintf(t->name, sizeof t->name, "%.15s", line);
    return true;
}

/* A process lives if it has a program, which no zombie has; or if its main thread is a zombie, but not its only thread
 * (a directory of threads has two more links than threads). */
static bool process_lives(const struct ct_drain *d) {
    char path[64], byte;
    struct stat tasks;
    snprintf(path, sizeof path, "/proc/%d/exe", d->pid);
    if (readlink(path, &byte, 1) >= 0 || errno == EACCES || errno == EPERM)
        return true;
    snprintf(path, sizeof path, "/proc/%d/task", d->pid);
    return !stat(path, &tasks) && tasks.st_nlink > 3;
}

/* ---- how many threads there can be ---- */

#define SPARE_THREADS 64u /* threads that count twice: they were left out and are recorded again */

/* The number of processes and threads that the kernel has made since the machine started; 0: unknown. */
static uint64_t count_made(void) {
    char *line = NULL;
    size_t size = 0;
    unsigned long long made = 0;
    FILE *file = fopen("/proc/stat", "re");
    while (file && !made && getline(&line, &size, file) >= 0)
        (void)sscanf(line, "processes %llu", &made);
    free(line);
    if (file)
        fclose(file);
    return made;
}

void ct_drain_watch_threads(struct ct_drain *d) {
    char path[64];
    struct stat tasks;
    snprintf(path, sizeof path, "/proc/%d/task", d->pid);
    d->threads_allowed =
        (d->spare_threads ? d->spare_threads : SPARE_THREADS) + (stat(path, &tasks) ? 1 : tasks.st_nlink);
    d->made_before = count_made();
}

/* Slots and generations come from the target, and each new one makes a directory. So there are never more than the
 * kernel has made threads. The kernel is asked when its last answer is not enough. */
static bool may_be_new(struct ct_drain *d) {
    if (d->next_id < d->threads_allowed || !d->made_before)
        return true;
    uint64_t made = count_made();
    d->threads_allowed += made > d->made_before ? made - d->made_before : 0;
    d->made_before = made > d->made_before ? made : d->made_before;
    return d->next_id < d->threads_allowed;
}

struct ct_drain_thread *ct_drain_thread_of(struct ct_drain *d, uint32_t slot, uint32_t generation) {
    struct ct_drain_thread *t = d->by_slot[slot];
    if (t && t->generation == generation)
        return t;
    const struct ct_shm_thread *s = &d->lane->threads[slot];
    if (!may_be_new(d))
        return NULL;
    if (t && t->writer) { /* only the target can have freed the slot; no more files are open than there are slots */
        int status = ct_drain_close_thread(d, t);
        d->error = d->error ? d->error : status;
    }
    if (!(t = calloc(1, sizeof *t)))
        return NULL;
    t->id = d->next_id + 1;
    t->slot = slot;
    t->generation = generation;
    t->tid = outer_tid(d, s->tid);
    t->next_number = 1;
    memcpy(t->name, s->name, sizeof t->name);
    t->name[sizeof t->name - 1] = 0;
    (void)read_name(d, t);
    int status = ct_thread_writer_open_as(&t->writer, d->place, t->id, (uint32_t)t->tid, &d->format);
    if (status) {
        d->error = d->error ? d->error : status;
        free(t);
        return NULL;
    }
    t->series = ct_thread_writer_series(t->writer);
    ct_switches_begin_thread(d->switches, d->place, t);
    d->next_id++;
    pthread_mutex_lock(&d->mutex);
    *d->threads_end = t;
    d->threads_end = &t->next;
    d->by_slot[slot] = t;
    pthread_mutex_unlock(&d->mutex);
    return t;
}

/* Copies the slot's counters while the slot still belongs to this thread. */
void ct_drain_refresh(struct ct_drain *d, struct ct_drain_thread *t) {
    const struct ct_shm_thread *s = &d->lane->threads[t->slot];
    if (__atomic_load_n(&s->generation, __ATOMIC_ACQUIRE) != t->generation)
        return;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        t->lost[i] = s->lost[i];
    t->deep_calls = s->deep_calls;
    t->left_frames = s->left_frames;
    t->guarded_calls = s->guarded_calls;
    t->detail.limited = s->limited;
}

/* When a process ends, its threads disappear one by one. So a thread has ended by itself only if it is still missing at
 * the next look while the process lives. */
static void look_at(struct ct_drain *d, struct ct_drain_thread *t, uint64_t now, bool at_once) {
    bool missing = !read_name(d, t);
    t->gone |= missing && (t->missing || at_once) && process_lives(d);
    t->missing = missing;
    if (!missing)
        t->seen_ns = now;
}

void ct_drain_refresh_names(struct ct_drain *d) {
    uint64_t now = ct_clock_now();
    unsigned count = 0;
    for (struct ct_drain_thread *t = d->threads; t && count < MOST_LOOKS; t = t->next)
        if (t->writer && !t->ended) {
            look_at(d, t, now, false);
            count++;
        }
}

/* The process goes on without us, so its threads do not disappear because it ends. */
void ct_drain_last_look(struct ct_drain *d) {
    uint64_t now = ct_clock_now();
    for (struct ct_drain_thread *t = d->threads; t; t = t->next)
        if (t->writer && !t->ended)
            look_at(d, t, now, true);
}

int ct_drain_close_thread(struct ct_drain *d, struct ct_drain_thread *t) {
    if (!t->writer)
        return 0;
    ct_drain_put_registers(d, t, UINT64_MAX);
    ct_drain_refresh(d, t);
    uint64_t lost = t->lost[CT_LOSS_POOL_EXHAUSTED] + t->lost[CT_LOSS_DRAIN_LAG] + t->lost[CT_LOSS_DISK_SLOW];
    if (lost > t->gaps_lost) /* at its end: nothing came after the gap */
        ct_drain_note_gap(d, t, lost - t->gaps_lost, CT_LOSS_DRAIN_LAG, 0);
    (void)ct_thread_writer_flush(t->writer);
    t->bytes = ct_thread_writer_bytes(t->writer);
    d->bytes_closed += t->bytes;
    t->lost[CT_LOSS_DISK_SLOW] += ct_thread_writer_dropped(t->writer);
    t->events -= ct_thread_writer_dropped(t->writer);
    int status = ct_detail_close_thread(d, t);
    int closed = ct_thread_writer_close(t->writer);
    status = status ? status : closed;
    if (t->code) {
        closed = ct_code_writer_close(t->code, &t->code_bytes);
        status = status ? status : closed;
        t->code = NULL;
    }
    closed = ct_drain_close_waits(t);
    status = status ? status : closed;
    ct_switches_end_thread(d->switches, t);
    t->writer = NULL;
    ct_drain_give_room(d, t->stack_capacity);
    ct_drain_stacks_free(d, t);
    free(t->stack);
    t->stack = NULL;
    t->stack_capacity = t->depth = t->unknown = 0;
    return status;
}
