/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a trace: finds its processes, threads and modules.
 *
 * Names, losses and modules come from the manifest; what exists comes from the directories and files. Where they
 * disagree the files are right: the manifest of a killed recorder is a second old. */
#include "trace/reader.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_ROOT "./traces"

/* ---- one process ---- */

static int add_thread(struct ct_trace *trace, size_t process, uint32_t id) {
    struct trace_process *owner = &trace->processes[process];
    if (trace->thread_count % 64 == 0) {
        struct trace_thread *threads = realloc(trace->threads, (trace->thread_count + 64) * sizeof *threads);
        if (!threads)
            return CT_ERR_NO_MEMORY;
        trace->threads = threads;
    }
    struct trace_thread *thread = &trace->threads[trace->thread_count++];
    *thread = (struct trace_thread){
        .info = {.size = sizeof(struct ct_trace_thread), .process = process, .id = id, .name = ""}};
    owner->info.thread_count++;
    char *directory = ct_file_path("%s/thread_%u", owner->directory, id);
    int status = directory ? ct_index_open(&thread->index, &trace->cache, directory) : CT_ERR_NO_MEMORY;
    thread->info.has_detail = directory && ct_details_exist(directory);
    free(directory);
    thread->info.event_count = thread->index.count;
    thread->info.first_sequence = thread->index.first;
    thread->info.cut = thread->index.cut;
    if (thread->index.part_count)
        thread->info.tid = thread->index.parts[0]->thread_id;
    return status;
}

static int compare_ids(const void *a, const void *b) {
    const struct trace_thread *x = a, *y = b;
    return (x->info.id > y->info.id) - (x->info.id < y->info.id);
}

static struct trace_thread *find_thread(struct ct_trace *trace, const struct trace_process *process, uint32_t id) {
    struct trace_thread key = {.info = {.id = id}};
    size_t count = trace->thread_count - process->first_thread;
    return count ? bsearch(&key, trace->threads + process->first_thread, count, sizeof key, compare_ids) : NULL;
}

/* Adds what the manifest knows about the threads, and the threads that only the manifest knows. */
static int merge_threads(struct ct_trace *trace, size_t process) {
    const struct ct_json_node *list = ct_json_get(ct_json_root(trace->processes[process].manifest), "threads", NULL);
    const struct ct_json_node *node;
    size_t found = trace->thread_count;
    for (node = ct_json_first(list); node; node = node->next) {
        uint64_t id = ct_json_u64(ct_json_get(node, "id", NULL), UINT64_MAX);
        if (id > UINT32_MAX)
            continue;
        struct trace_process *owner = &trace->processes[process];
        struct trace_thread *threads = trace->threads + owner->first_thread, key = {.info = {.id = (uint32_t)id}};
        size_t listed = found - owner->first_thread;
        if (listed && bsearch(&key, threads, listed, sizeof key, compare_ids))
            continue;
        int status = add_thread(trace, process, (uint32_t)id);
        if (status)
            return status;
    }
    struct trace_process *owner = &trace->processes[process];
    if (trace->thread_count > found)
        qsort(trace->threads + owner->first_thread, trace->thread_count - owner->first_thread, sizeof *trace->threads,
              compare_ids);
    for (node = ct_json_first(list); node; node = node->next) {
        uint64_t id = ct_json_u64(ct_json_get(node, "id", NULL), UINT64_MAX);
        struct trace_thread *thread = id <= UINT32_MAX ? find_thread(trace, owner, (uint32_t)id) : NULL;
        if (!thread)
            continue;
        thread->manifest = node;
        thread->info.tid = (uint32_t)ct_json_u64(ct_json_get(node, "tid", NULL), thread->info.tid);
        thread->info.name = ct_json_text(ct_json_get(node, "name", NULL), "");
        thread->info.lost = ct_json_u64(ct_json_get(node, "lost", NULL), 0);
        /* the thread never had a file, so nothing was cut off; or all its files were deleted */
        if (!thread->index.part_count) {
            uint64_t events = ct_json_u64(ct_json_get(node, "events", NULL), 0);
            bool kept = ct_json_get(ct_json_root(owner->manifest), "keep", NULL);
            thread->info.cut = events != 0 && !kept;
            thread->info.first_sequence = kept ? events : 0;
        }
    }
    return 0;
}

static int find_threads(struct ct_trace *trace, size_t process) {
    uint32_t *ids;
    size_t count;
    struct trace_process *owner = &trace->processes[process];
    owner->first_thread = trace->thread_count;
    int status = ct_file_status(ct_find_numbered(owner->directory, "thread_", &ids, &count));
    for (size_t i = 0; i < count && !status; i++)
        status = add_thread(trace, process, ids[i]);
    free(ids);
    return status ? status : merge_threads(trace, process);
}

/* A manifest that was not finished does not have the last events. */
static void find_event_times(struct ct_trace *trace, size_t process) {
    struct trace_process *owner = &trace->processes[process];
    const struct ct_json_node *root = ct_json_root(owner->manifest);
    struct ct_trace_process *info = &owner->info;
    struct atf_index_event event;
    info->time_start_ns = ct_json_u64(ct_json_get(root, "time_start_ns", NULL), 0);
    info->time_end_ns = ct_json_u64(ct_json_get(root, "time_end_ns", NULL), 0);
    if (info->complete && info->time_end_ns)
        return;
    for (size_t i = owner->first_thread; i < trace->thread_count; i++) {
        struct ct_index *index = &trace->threads[i].index;
        if (!index->count)
            continue;
        if (!info->time_start_ns && ct_index_read(index, index->first, &event, 1) == 1)
            info->time_start_ns = event.timestamp_ns;
        if (ct_index_read(index, index->end - 1, &event, 1) == 1 && event.timestamp_ns > info->time_end_ns)
            info->time_end_ns = event.timestamp_ns;
    }
}

/* Finds out from when until when the process was recorded, and when the events in between begin and end. */
static void find_times(struct ct_trace *trace, size_t process) {
    const struct ct_json_node *root = ct_json_root(trace->processes[process].manifest);
    struct ct_trace_process *info = &trace->processes[process].info;
    find_event_times(trace, process);
    uint64_t start = ct_json_u64(ct_json_get(root, "recording_start_ns", NULL), 0);
    uint64_t end = ct_json_u64(ct_json_get(root, "recording_end_ns", NULL), 0);
    info->recording_known = start && end >= start;
    if (!info->recording_known)
        start = end = 0;
    bool earlier = info->time_start_ns && info->time_start_ns < start;
    info->recording_start_ns = start && !earlier ? start : info->time_start_ns;
    info->recording_end_ns = end > info->time_end_ns ? end : info->time_end_ns;
}

static struct ct_trace_module *add_module(struct ct_trace *trace, size_t process) {
    if (trace->module_count % 64 == 0) {
        struct ct_trace_module *modules = realloc(trace->modules, (trace->module_count + 64) * sizeof *modules);
        if (!modules)
            return NULL;
        trace->modules = modules;
    }
    struct ct_trace_module *module = &trace->modules[trace->module_count++];
    *module = (struct ct_trace_module){.size = sizeof *module, .process = process};
    trace->processes[process].info.module_count++;
    return module;
}

/* Reads the modules from the manifest; from the symbols when it has none. */
static int find_modules(struct ct_trace *trace, size_t process) {
    const struct ct_json_node *list = ct_json_get(ct_json_root(trace->processes[process].manifest), "modules", NULL);
    for (const struct ct_json_node *node = ct_json_first(list); node; node = node->next) {
        struct ct_trace_module *module = add_module(trace, process);
        if (!module)
            return CT_ERR_NO_MEMORY;
        module->id = (uint32_t)ct_json_u64(ct_json_get(node, "id", NULL), 0);
        module->path = ct_json_text(ct_json_get(node, "path", NULL), "");
        module->build_id = ct_json_text(ct_json_get(node, "build_id", NULL), "");
        module->base = ct_json_u64(ct_json_get(node, "base", NULL), 0);
        module->functions = ct_json_u64(ct_json_get(node, "functions", NULL), 0);
        module->hooked = ct_json_u64(ct_json_get(node, "hooked", NULL), 0);
        module->entry_only = ct_json_u64(ct_json_get(node, "entry_only", NULL), 0);
    }
    if (ct_json_first(list))
        return 0;
    const struct ct_symbols *symbols = ct_trace_symbols(trace, process);
    for (size_t i = 0; i < ct_symbols_module_count(symbols); i++) {
        struct ct_symbols_module known = ct_symbols_module_at(symbols, i);
        struct ct_trace_module *module = add_module(trace, process);
        if (!module)
            return CT_ERR_NO_MEMORY;
        module->id = known.id;
        module->path = known.path;
        module->build_id = known.build_id;
        module->base = known.base;
        module->functions = known.functions;
    }
    return 0;
}

/* CT_ERR_NOT_FOUND: the directory has no manifest. */
static int add_process(struct ct_trace *trace, const char *directory) {
    size_t size, index = trace->process_count;
    char *path = ct_file_path("%s/manifest.json", directory), *text;
    if (!path)
        return CT_ERR_NO_MEMORY;
    int status = ct_file_status(ct_file_load(path, CT_MANIFEST_LIMIT, &text, &size));
    free(path);
    if (status)
        return status;
    struct trace_process *processes = realloc(trace->processes, (index + 1) * sizeof *processes);
    if (!processes) {
        free(text);
        return CT_ERR_NO_MEMORY;
    }
    trace->processes = processes;
    struct trace_process *process = &processes[index];
    *process = (struct trace_process){.text = text, .directory = strdup(directory)};
    trace->process_count++;
    status = ct_json_parse(&process->manifest, text, size, NULL);
    if (status == CT_ERR_NO_MEMORY || !process->directory)
        return CT_ERR_NO_MEMORY;
    const struct ct_json_node *root = ct_json_root(process->manifest);
    const char *name = strrchr(directory, '/');
    int pid = 0;
    if (sscanf(name ? name + 1 : directory, "pid_%d", &pid) != 1)
        pid = 0;
    process->info.size = sizeof process->info;
    process->info.pid = (int)ct_json_i64(ct_json_get(root, "pid", NULL), pid);
    process->info.complete = ct_json_flag(ct_json_get(root, "complete", NULL), false);
    process->info.directory = process->directory;
    process->info.manifest = process->manifest ? text : "{}";
    status = find_threads(trace, index);
    if (status)
        return status;
    find_times(trace, index);
    return find_modules(trace, index);
}

/* ---- the trace ---- */

__attribute__((format(printf, 3, 4))) static void set_error(char *error, size_t size, const char *format, ...) {
    va_list arguments;
    if (!error || !size)
        return;
    va_start(arguments, format);
    vsnprintf(error, size, format, arguments);
    va_end(arguments);
}

/* pid_N, and for each further program that the process executed pid_N_2, pid_N_3 ... */
static int add_programs(struct ct_trace *trace, const char *path, uint32_t pid, char *error, size_t error_size) {
    int status = CT_OK;
    char name[40];
    snprintf(name, sizeof name, "pid_%u", pid);
    for (unsigned turn = 2; ct_find_exists(path, name) && (!status || status == CT_ERR_NOT_FOUND); turn++) {
        char *directory = ct_file_path("%s/%s", path, name);
        status = directory ? add_process(trace, directory) : CT_ERR_NO_MEMORY;
        if (status && status != CT_ERR_NOT_FOUND)
            set_error(error, error_size, "%s cannot be read: %s", directory ? directory : path, ct_status_text(status));
        free(directory);
        snprintf(name, sizeof name, "pid_%u_%u", pid, turn);
    }
    return status;
}

static int add_session(struct ct_trace *trace, const char *path, char *error, size_t error_size) {
    uint32_t *pids;
    size_t count;
    int problem = ct_find_numbered(path, "pid_", &pids, &count), status = ct_file_status(problem);
    if (problem)
        set_error(error, error_size, "%s cannot be read: %s", path, strerror(problem));
    for (size_t i = 0; i < count && (!status || status == CT_ERR_NOT_FOUND); i++)
        status = add_programs(trace, path, pids[i], error, error_size);
    free(pids);
    if (status && status != CT_ERR_NOT_FOUND)
        return status;
    if (trace->process_count)
        return 0;
    char *newest = count ? NULL : ct_find_newest_session(path);
    if (newest)
        set_error(error, error_size, "%s contains traces; name one of them (the newest is %s)", path, newest);
    else
        set_error(
            error, error_size,
            "%s has no manifest.json: it is not a trace, or its recorder was ended before recording began; record one "
            "with contrail spawn PROG",
            path);
    free(newest);
    return CT_ERR_NOT_FOUND;
}

static int open_path(struct ct_trace *trace, const char *path, char *error, size_t error_size) {
    struct stat status;
    if (stat(path, &status) != 0) {
        int problem = errno;
        set_error(error, error_size,
                  problem == ENOENT ? "there is no trace %s; contrail info without a name shows the newest under %s"
                                    : "the trace %s cannot be read",
                  path, DEFAULT_ROOT);
        return ct_file_status(problem);
    }
    if (!S_ISDIR(status.st_mode)) {
        set_error(error, error_size, "%s is not a directory; name a session directory or a pid_N directory in it",
                  path);
        return CT_ERR_BAD_FILE;
    }
    if (!ct_find_exists(path, "manifest.json"))
        return add_session(trace, path, error, error_size);
    int result = add_process(trace, path);
    if (result)
        set_error(error, error_size, "%s cannot be read: %s", path, ct_status_text(result));
    return result;
}

static char *path_of(const char *path, char *error, size_t error_size, int *status) {
    char *copy = path ? strdup(path) : ct_find_newest_session(DEFAULT_ROOT);
    *status = copy ? 0 : path ? CT_ERR_NO_MEMORY : CT_ERR_NOT_FOUND;
    if (!copy && !path)
        set_error(error, error_size, "no trace found under %s; record one with contrail spawn PROG", DEFAULT_ROOT);
    size_t length = copy ? strlen(copy) : 0;
    while (length > 1 && copy[length - 1] == '/')
        copy[--length] = 0;
    return copy;
}

int ct_trace_open(struct ct_trace **out, const char *path, char *error, size_t error_size) {
    int status;
    *out = NULL;
    set_error(error, error_size, "%s", "");
    struct ct_trace *trace = calloc(1, sizeof *trace);
    if (!trace) {
        set_error(error, error_size, "%s", ct_status_text(CT_ERR_NO_MEMORY));
        return CT_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&trace->cache.lock, NULL);
    trace->path = path_of(path, error, error_size, &status);
    if (!status)
        status = open_path(trace, trace->path, error, error_size);
    if (status) {
        if (error && error_size && !*error)
            set_error(error, error_size, "%s", ct_status_text(status));
        ct_trace_close(trace);
        return status;
    }
    *out = trace;
    return 0;
}

void ct_trace_close(struct ct_trace *trace) {
    if (!trace)
        return;
    for (size_t i = 0; i < trace->thread_count; i++) {
        ct_index_close(&trace->threads[i].index);
        ct_details_close(&trace->threads[i].details);
    }
    for (size_t i = 0; i < trace->process_count; i++) {
        ct_symbols_free(trace->processes[i].symbols);
        ct_json_tree_free(trace->processes[i].manifest);
        free(trace->processes[i].text);
        free(trace->processes[i].directory);
    }
    free(trace->threads);
    free(trace->processes);
    free(trace->modules);
    free(trace->path);
    pthread_mutex_destroy(&trace->cache.lock);
    free(trace);
}

/* ---- contents ---- */

const char *ct_trace_path(const struct ct_trace *trace) {
    return trace->path;
}

size_t ct_trace_process_count(const struct ct_trace *trace) {
    return trace->process_count;
}

const struct ct_trace_process *ct_trace_process_at(const struct ct_trace *trace, size_t index) {
    return index < trace->process_count ? &trace->processes[index].info : NULL;
}

size_t ct_trace_thread_count(const struct ct_trace *trace) {
    return trace->thread_count;
}

const struct ct_trace_thread *ct_trace_thread_at(const struct ct_trace *trace, size_t index) {
    return index < trace->thread_count ? &trace->threads[index].info : NULL;
}

size_t ct_trace_module_count(const struct ct_trace *trace) {
    return trace->module_count;
}

const struct ct_trace_module *ct_trace_module_at(const struct ct_trace *trace, size_t index) {
    return index < trace->module_count ? &trace->modules[index] : NULL;
}

struct ct_symbols *ct_trace_symbols(const struct ct_trace *trace, size_t process) {
    if (process >= trace->process_count)
        return NULL;
    struct trace_process *owner = &trace->processes[process];
    if (!owner->symbols)
        owner->symbols = ct_symbols_load(owner->directory);
    if (owner->symbols && trace->mangled)
        ct_symbols_keep_mangled(owner->symbols);
    return owner->symbols;
}

struct ct_trace_place ct_trace_place(const struct ct_trace *trace, size_t process, uint32_t module, uint64_t offset) {
    struct ct_symbols *symbols = ct_trace_symbols(trace, process);
    const char *path = ct_symbols_module_of(symbols, module).path, *slash = path ? strrchr(path, '/') : NULL;
    return (struct ct_trace_place){
        .function = path ? ct_symbols_at(symbols, module, offset) : NULL,
        .module = !path || !module ? ""
                  : slash          ? slash + 1
                                   : path,
    };
}

const struct ct_trace_function *ct_trace_function(const struct ct_trace *trace, size_t process, uint64_t id) {
    return ct_symbols_find(ct_trace_symbols(trace, process), id);
}

const char *ct_trace_program(const struct ct_trace *trace, size_t process) {
    for (size_t i = 0; i < trace->module_count; i++) {
        const struct ct_trace_module *module = &trace->modules[i];
        if (module->process != process)
            continue;
        const char *slash = strrchr(module->path, '/');
        return slash ? slash + 1 : module->path;
    }
    return "";
}

int ct_trace_open_calls(struct ct_trace *trace, size_t thread, uint64_t **functions, size_t *count) {
    *functions = NULL;
    *count = 0;
    if (thread >= trace->thread_count)
        return CT_ERR_INVALID_ARGUMENT;
    const struct ct_index *index = &trace->threads[thread].index;
    for (size_t i = 0; i < index->part_count; i++)
        if (index->parts[i]->first == index->first && index->parts[i]->count && index->parts[i]->packed)
            return ct_packed_open_calls(index->parts[i], functions, count);
    return 0;
}

void ct_trace_keep_mangled(struct ct_trace *trace) {
    trace->mangled = true;
}
