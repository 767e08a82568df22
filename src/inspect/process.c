/* The public face of another process: see contrail/process.h. Everything is done by the calling thread; the process is
 * stopped only in look_at_stacks and ct_process_modify_thread, and runs on when these return, whatever happened. */
#include "inspect/process.h"
#include <contrail/status.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOP_LIMIT_MS 5000
/* How long it may stand still: enough for many threads, and not longer because of what lies in its memory. */
#define STILL_MS        2000
#define STILL_THREAD_MS 1
#define MAX_FRAMES      100000

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
    ct_process_forget(process);
    free(process);
}

const char *ct_process_error(const struct ct_process *process) {
    return process->why.text;
}

/* ---- threads ---- */

struct stack {
    struct ct_process_task task;
    struct ct_walk_frame *frames;
    size_t count;
};

struct stacks {
    struct stack *at;
    size_t count;
};

static void free_stacks(struct stacks *all) {
    for (size_t i = 0; i < all->count; i++)
        free(all->at[i].frames);
    free(all->at);
}

static const struct ct_process_task *find_task(const struct ct_process_task *tasks, size_t count, int tid) {
    for (size_t i = 0; i < count; i++)
        if (tasks[i].tid == tid)
            return &tasks[i];
    return NULL;
}

/* The process is stopped: no names, no tables, as little as possible. `room` takes a thread's frames. */
static int walk_all(struct ct_process *process, struct stacks *all, struct ct_walk_frame *room, size_t max_frames) {
    struct ct_walk_cache *cache = malloc(sizeof *cache);
    size_t count = ct_remote_thread_count(process->remote);
    struct ct_remote_cpu *cpus = calloc(count + 1, sizeof *cpus);
    all->at = calloc(count + 1, sizeof *all->at);
    int status = cache && cpus && all->at ? 0 : CT_ERR_NO_MEMORY;
    if (!status)
        status = ct_remote_get_cpus(process->remote, 0, count, cpus);
    for (size_t i = 0; !status && i < count; i++) {
        struct stack *stack = &all->at[all->count++];
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
        snprintf(
            process->why.text, sizeof process->why.text,
            "the stacks of process %d could not be read in the time that it may stand still for; it runs on: ask for "
            "fewer frames with --frames N",
            process->pid);
    return status;
}

/* `threads`: as many as it had a moment ago. */
static int look_at_stacks(struct ct_process *process, size_t max_frames, size_t threads, struct stacks *all) {
    struct ct_walk_frame *room = malloc(max_frames * sizeof *room);
    int status = room ? ct_process_refresh(process) : CT_ERR_NO_MEMORY;
    for (size_t i = 0; !status && i < process->file_count; i++)
        if (!ct_process_unwind(process->files[i])) /* ahead of the stop, as far as is known */
            ct_process_functions(process->files[i]);
    ct_remote_limit(process->remote, STILL_MS + STILL_THREAD_MS * (unsigned)threads, NULL, NULL);
    if (!status)
        status = ct_remote_stop(process->remote, STOP_LIMIT_MS, &process->why);
    if (status) {
        free(room);
        return status;
    }
    status = ct_process_refresh(process); /* what came meanwhile */
    if (!status)
        status = explain_walk(process, walk_all(process, all, room, max_frames));
    int resumed = ct_remote_resume(process->remote);
    free(room);
    return status ? status : resumed;
}

static int report_stack(struct ct_process *process, const struct stack *stack,
                        int (*each)(void *arg, const struct ct_process_thread *thread), void *arg) {
    struct ct_process_names names = {0};
    int status = 0;
    for (size_t i = 0; !status && i < stack->count; i++)
        status = ct_process_name_frame(process, &stack->frames[i], &names);
    struct ct_process_thread thread = {
        .tid = stack->task.tid, .state = stack->task.state, .frames = names.frames, .frame_count = names.count};
    memcpy(thread.name, stack->task.name, sizeof thread.name);
    if (!status)
        status = each(arg, &thread);
    ct_process_names_free(&names);
    return status;
}

/* Names and states were taken before the stop. A thread that has started since is running, or was. */
static void describe(struct stacks *all, int pid, const struct ct_process_task *tasks, size_t count) {
    for (size_t i = 0; i < all->count; i++) {
        struct ct_process_task *task = &all->at[i].task;
        const struct ct_process_task *known = find_task(tasks, count, task->tid);
        int tid = task->tid;
        if (known)
            *task = *known;
        else if (!ct_process_task(pid, tid, task))
            *task = (struct ct_process_task){.tid = tid, .state = 'X'};
    }
}

static int by_tid(const void *a, const void *b) {
    const struct stack *x = a, *y = b;
    return x->task.tid < y->task.tid ? -1 : x->task.tid > y->task.tid;
}

int ct_process_each_thread(struct ct_process *process, size_t max_frames,
                           int (*each)(void *arg, const struct ct_process_thread *thread), void *arg) {
    process->why.text[0] = 0;
    struct ct_process_task *tasks;
    struct stacks all = {0};
    size_t count;
    if (max_frames > MAX_FRAMES)
        max_frames = MAX_FRAMES;
    int status =
        ct_remote_is_alive(process->remote) ? ct_process_tasks(process->pid, &tasks, &count) : CT_ERR_NOT_FOUND;
    if (status == CT_ERR_NOT_FOUND)
        snprintf(process->why.text, sizeof process->why.text, "process %d has ended", process->pid);
    if (status)
        return status;
    if (max_frames) {
        status = look_at_stacks(process, max_frames, count, &all);
    } else {
        all.at = calloc(count, sizeof *all.at);
        status = all.at ? 0 : CT_ERR_NO_MEMORY;
        for (size_t i = 0; !status && i < count; i++)
            all.at[all.count++].task = tasks[i];
    }
    if (!status && max_frames) {
        describe(&all, process->pid, tasks, count);
        qsort(all.at, all.count, sizeof *all.at, by_tid);
    }
    for (size_t i = 0; !status && i < all.count; i++)
        status = report_stack(process, &all.at[i], each, arg);
    free_stacks(&all);
    free(tasks);
    return status;
}

/* ---- modules and symbols ---- */

int ct_process_each_module(struct ct_process *process, int (*each)(void *arg, const struct ct_process_module *module),
                           void *arg) {
    process->why.text[0] = 0;
    int status = ct_process_refresh(process);
    for (size_t i = 0; !status && i < process->file_count; i++) {
        struct ct_process_file *file = process->files[i];
        const struct ct_functions *functions = ct_process_functions(file);
        struct ct_process_module module = {
            .path = file->path,
            .build_id = functions ? ct_functions_build_id(functions) : "",
            .bias = file->bias,
            .start = file->start,
            .end = file->end,
            .functions = functions ? ct_functions_count(functions) : 0,
        };
        status = each(arg, &module);
    }
    return status;
}

int ct_process_generated_code(struct ct_process *process, struct ct_process_generated *out) {
    process->why.text[0] = 0;
    int status = ct_process_refresh(process);
    *out = (struct ct_process_generated){.recorded = process->recorded};
    for (size_t i = 0; !status && i < process->code_count; i++)
        if (process->code[i].generated) {
            out->mappings++;
            out->bytes += process->code[i].end - process->code[i].start;
        }
    return status;
}

static bool matches(const char *glob, const char *path) {
    const char *slash = strrchr(path, '/');
    return !glob || !fnmatch(glob, path, 0) || (slash && !fnmatch(glob, slash + 1, 0));
}

static int each_symbol_of(struct ct_process_file *file, int (*each)(void *arg, const struct ct_process_symbol *symbol),
                          void *arg) {
    const struct ct_functions *functions = ct_process_functions(file);
    int result = 0;
    for (size_t i = 0; functions && !result && i < ct_functions_count(functions); i++) {
        const struct ct_func *func = ct_functions_at(functions, i);
        struct ct_process_symbol symbol = {
            .module = file->path,
            .name = ct_functions_name(functions, func),
            .address = file->bias + func->offset,
            .size = func->size,
            .offset = func->offset,
        };
        result = each(arg, &symbol);
    }
    return result;
}

int ct_process_each_symbol(struct ct_process *process, const char *module_glob,
                           int (*each)(void *arg, const struct ct_process_symbol *symbol), void *arg) {
    process->why.text[0] = 0;
    int status = ct_process_refresh(process);
    for (size_t i = 0; !status && i < process->file_count; i++)
        if (matches(module_glob, process->files[i]->path))
            status = each_symbol_of(process->files[i], each, arg);
    return status;
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
