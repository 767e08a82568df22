/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions for another process: see contrail/process.h. The calling thread does everything. The process is
 * stopped only in look_at_stacks and ct_process_modify_thread, and runs on when these return, whatever happened. */
#include "base/sized.h"
#include "inspect/process.h"
#include <contrail/status.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOP_LIMIT_MS 5000
/* How long the process may be stopped: enough for many threads, but no longer because of what is in its memory. */
#define STILL_MS        2000
#define STILL_THREAD_MS 1
#define MAX_FRAMES      100000

struct ct_process_stack {
    struct ct_process_task task;
    struct ct_walk_frame *frames;
    size_t count;
};

static void forget_frames(struct ct_process *process) {
    ct_process_names_free(&process->names);
    free(process->frames);
    process->names = (struct ct_process_names){0};
    process->frames = NULL;
}

static void forget_stacks(struct ct_process *process) {
    forget_frames(process);
    for (size_t i = 0; i < process->stack_count; i++)
        free(process->stacks[i].frames);
    free(process->stacks);
    process->stacks = NULL;
    process->stack_count = 0;
}

/* ---- opening and closing ---- */

int ct_process_open(struct ct_process **out, int pid, char *error, size_t error_size) {
    struct ct_remote_error why = {""};
    struct ct_process *process = calloc(1, sizeof *process);
    int status = process ? ct_remote_open(&process->remote, pid, &why) : CT_ERR_NO_MEMORY;
    if (status) {
        if (error && error_size)
            snprintf(error, error_size, "%s", why.text[0] ? why.text : ct_status_text(status));
        free(process);
        return status;
    }
    process->pid = pid;
    *out = process;
    return 0;
}

void ct_process_close(struct ct_process *process) {
    if (!process)
        return;
    ct_remote_close(process->remote);
    forget_stacks(process);
    ct_process_forget(process);
    free(process);
}

const char *ct_process_error(const struct ct_process *process) {
    return process->why.text;
}

/* ---- stacks of all threads ---- */

static const struct ct_process_task *find_task(const struct ct_process_task *tasks, size_t count, int tid) {
    for (size_t i = 0; i < count; i++)
        if (tasks[i].tid == tid)
            return &tasks[i];
    return NULL;
}

/* The process is stopped: no names, no tables, as little work as possible. `room` is for the frames of one thread. */
static int walk_all(struct ct_process *process, struct ct_walk_frame *room, size_t max_frames) {
    struct ct_walk_cache *cache = malloc(sizeof *cache);
    size_t count = ct_remote_thread_count(process->remote);
    struct ct_remote_cpu *cpus = calloc(count + 1, sizeof *cpus);
    process->stacks = calloc(count + 1, sizeof *process->stacks);
    int status = cache && cpus && process->stacks ? 0 : CT_ERR_NO_MEMORY;
    if (!status)
        status = ct_remote_get_cpus(process->remote, 0, count, cpus);
    for (size_t i = 0; !status && i < count; i++) {
        struct ct_process_stack *stack = &process->stacks[process->stack_count++];
        stack->task.tid = ct_remote_thread_tid(process->remote, i);
        stack->count = ct_walk_thread(process, i, &cpus[i], cache, room, max_frames);
        stack->frames = malloc((stack->count + 1) * sizeof *stack->frames);
        if (stack->frames)
            memcpy(stack->frames, room, stack->count * sizeof *room);
        else
            status = CT_ERR_NO_MEMORY;
        if (!status && ct_remote_is_over(process->remote))
            status = CT_ERR_TIMEOUT;
    }
    free(cpus);
    free(cache);
    return status;
}

static int explain_walk(struct ct_process *process, int status) {
    if (status == CT_ERR_TIMEOUT)
        snprintf(process->why.text, sizeof process->why.text,
                 "the stacks of process %d could not be read in the time that it may be stopped; it runs on: ask for "
                 "fewer frames with --frames N",
                 process->pid);
    return status;
}

/* `threads`: how many it had a moment ago. */
static int look_at_stacks(struct ct_process *process, size_t max_frames, size_t threads) {
    struct ct_walk_frame *room = malloc(max_frames * sizeof *room);
    int status = room ? ct_process_refresh(process) : CT_ERR_NO_MEMORY;
    for (size_t i = 0; !status && i < process->file_count; i++)
        if (!ct_process_unwind(process->files[i])) /* before the stop, as far as known */
            ct_process_functions(process->files[i]);
    ct_remote_limit(process->remote, STILL_MS + STILL_THREAD_MS * (unsigned)threads, NULL, NULL);
    if (!status)
        status = ct_remote_stop(process->remote, STOP_LIMIT_MS, &process->why);
    if (status) {
        free(room);
        return status;
    }
    status = ct_process_refresh(process); /* files that were mapped meanwhile */
    if (!status)
        status = explain_walk(process, walk_all(process, room, max_frames));
    int resumed = ct_remote_resume(process->remote);
    free(room);
    return status ? status : resumed;
}

/* Names and states were read before the stop. A thread that has started since counts as running. */
static void describe_stacks(struct ct_process *process, const struct ct_process_task *tasks, size_t count) {
    for (size_t i = 0; i < process->stack_count; i++) {
        struct ct_process_task *task = &process->stacks[i].task;
        const struct ct_process_task *known = find_task(tasks, count, task->tid);
        int tid = task->tid;
        if (known)
            *task = *known;
        else if (!ct_process_task(process->pid, tid, task))
            *task = (struct ct_process_task){.tid = tid, .state = 'X'};
    }
}

static int by_tid(const void *a, const void *b) {
    const struct ct_process_stack *x = a, *y = b;
    return x->task.tid < y->task.tid ? -1 : x->task.tid > y->task.tid;
}

/* Without backtraces: the process is not stopped. */
static int list_tasks(struct ct_process *process, const struct ct_process_task *tasks, size_t count) {
    process->stacks = calloc(count, sizeof *process->stacks);
    for (size_t i = 0; process->stacks && i < count; i++)
        process->stacks[process->stack_count++].task = tasks[i];
    return process->stacks ? 0 : CT_ERR_NO_MEMORY;
}

static int look_at_threads(struct ct_process *process, size_t max_frames) {
    struct ct_process_task *tasks;
    size_t count;
    process->why.text[0] = 0;
    forget_stacks(process);
    int status =
        ct_remote_is_alive(process->remote) ? ct_process_tasks(process->pid, &tasks, &count) : CT_ERR_NOT_FOUND;
    if (status == CT_ERR_NOT_FOUND)
        snprintf(process->why.text, sizeof process->why.text, "process %d has ended", process->pid);
    if (status)
        return status;
    if (max_frames)
        status = look_at_stacks(process, max_frames < MAX_FRAMES ? max_frames : MAX_FRAMES, count);
    else
        status = list_tasks(process, tasks, count);
    if (!status && max_frames) {
        describe_stacks(process, tasks, count);
        qsort(process->stacks, process->stack_count, sizeof *process->stacks, by_tid);
    }
    free(tasks);
    if (status)
        forget_stacks(process);
    return status;
}

static int name_frames(struct ct_process *process, const struct ct_process_stack *stack) {
    struct ct_process_names *names = &process->names;
    int status = 0;
    forget_frames(process);
    for (size_t i = 0; !status && i < stack->count; i++)
        status = ct_process_name_frame(process, &stack->frames[i], names);
    process->frames = calloc(names->count + 1, sizeof *process->frames);
    if (!status && !process->frames)
        status = CT_ERR_NO_MEMORY;
    for (size_t i = 0; !status && i < names->count; i++)
        process->frames[i] = &names->frames[i];
    return status;
}

int ct_process_next_thread(struct ct_process *process, size_t max_frames, uint64_t *position,
                           struct ct_process_thread *thread) {
    if (!position || !ct_sized_is_valid(thread))
        return CT_ERR_INVALID_ARGUMENT;
    int status = *position ? 0 : look_at_threads(process, max_frames);
    if (status || *position >= process->stack_count)
        return status;
    const struct ct_process_stack *stack = &process->stacks[(*position)++];
    status = name_frames(process, stack);
    if (status)
        return status;
    struct ct_process_thread own = {.size = sizeof own,
                                    .tid = stack->task.tid,
                                    .state = stack->task.state,
                                    .frames = process->frames,
                                    .frame_count = process->names.count};
    memcpy(own.name, stack->task.name, sizeof own.name);
    (void)ct_sized_copy_out(thread, &own, sizeof own);
    return 1;
}

/* ---- modules and symbols ---- */

/* The first call of a walk reads the current modules. */
static int begin_walk(struct ct_process *process, uint64_t position) {
    process->why.text[0] = 0;
    return position ? 0 : ct_process_refresh(process);
}

int ct_process_next_module(struct ct_process *process, uint64_t *position, struct ct_process_module *module) {
    if (!position || !ct_sized_is_valid(module))
        return CT_ERR_INVALID_ARGUMENT;
    int status = begin_walk(process, *position);
    if (status || *position >= process->file_count)
        return status;
    struct ct_process_file *file = process->files[(*position)++];
    const struct ct_functions *functions = ct_process_functions(file);
    const struct ct_process_module own = {
        .size = sizeof own,
        .path = file->path,
        .build_id = functions ? ct_functions_build_id(functions) : "",
        .bias = file->bias,
        .start = file->start,
        .end = file->end,
        .functions = functions ? ct_functions_count(functions) : 0,
    };
    (void)ct_sized_copy_out(module, &own, sizeof own);
    return 1;
}

int ct_process_generated_code(struct ct_process *process, struct ct_process_generated *out) {
    if (!ct_sized_is_valid(out))
        return CT_ERR_INVALID_ARGUMENT;
    int status = begin_walk(process, 0);
    struct ct_process_generated own = {.size = sizeof own, .recorded = process->recorded};
    for (size_t i = 0; !status && i < process->code_count; i++)
        if (process->code[i].generated) {
            own.mappings++;
            own.bytes += process->code[i].end - process->code[i].start;
        }
    (void)ct_sized_copy_out(out, &own, sizeof own);
    return status;
}

static bool matches(const char *glob, const char *path) {
    const char *slash = strrchr(path, '/');
    return !glob || !fnmatch(glob, path, 0) || (slash && !fnmatch(glob, slash + 1, 0));
}

/* A position in a walk over symbols: number of the file, and number of the function in it. */
enum { SYMBOL_BITS = 32 };

static const struct ct_func *find_symbol(struct ct_process *process, const char *module_glob, uint64_t *position,
                                         const struct ct_process_file **file) {
    for (uint64_t n; (n = *position >> SYMBOL_BITS) < process->file_count; *position = (n + 1) << SYMBOL_BITS) {
        *file = process->files[n];
        const struct ct_functions *functions =
            matches(module_glob, (*file)->path) ? ct_process_functions(process->files[n]) : NULL;
        size_t i = (size_t)(*position & ((1ull << SYMBOL_BITS) - 1));
        if (functions && i < ct_functions_count(functions)) {
            ++*position;
            return ct_functions_at(functions, i);
        }
    }
    return NULL;
}

int ct_process_next_symbol(struct ct_process *process, const char *module_glob, uint64_t *position,
                           struct ct_process_symbol *symbol) {
    const struct ct_process_file *file;
    if (!position || !ct_sized_is_valid(symbol))
        return CT_ERR_INVALID_ARGUMENT;
    int status = begin_walk(process, *position);
    const struct ct_func *func = status ? NULL : find_symbol(process, module_glob, position, &file);
    if (!func)
        return status;
    const struct ct_process_symbol own = {
        .size = sizeof own,
        .module = file->path,
        .name = ct_functions_name(file->functions, func),
        .address = file->bias + func->offset,
        .length = func->size,
        .offset = func->offset,
    };
    (void)ct_sized_copy_out(symbol, &own, sizeof own);
    return 1;
}

/* ---- registers ---- */

static bool find_thread(const struct ct_process *process, int tid, size_t *i) {
    for (*i = 0; *i < ct_remote_thread_count(process->remote); ++*i)
        if (ct_remote_thread_tid(process->remote, *i) == tid)
            return true;
    return false;
}

int ct_process_modify_thread(struct ct_process *process, int tid, int (*change)(void *arg, struct ct_cpu_context *cpu),
                             void *arg) {
    process->why.text[0] = 0;
    struct ct_remote_cpu before, after;
    size_t i;
    int status = ct_remote_stop(process->remote, STOP_LIMIT_MS, &process->why);
    if (status)
        return status;
    status = find_thread(process, tid, &i) ? ct_remote_get_cpus(process->remote, i, 1, &before) : CT_ERR_NOT_FOUND;
    if (status == CT_ERR_NOT_FOUND)
        snprintf(process->why.text, sizeof process->why.text,
                 "process %d has no thread %d; `contrail threads %d` lists them", process->pid, tid, process->pid);
    if (!status) {
        after = before;
        status = change(arg, ct_remote_cpu_context(&after));
    }
    if (!status)
        status = ct_remote_set_cpu(process->remote, i, &before, &after);
    int resumed = ct_remote_resume(process->remote);
    return status ? status : resumed;
}
