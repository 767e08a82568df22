/* SPDX-License-Identifier: Apache-2.0 */
/* What the trace of a process holds. */
#include "report/info.h"
#include "trace/reader.h"
#include "trace/waits.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* an idle thread with more events is not read without being asked */
#define READ_AT_ONCE UINT64_C(5000000)

static const struct ct_json_node *root_of(const struct ct_facts *facts, size_t process) {
    return ct_json_root(facts->trees[process]);
}

/* ---- reasons ---- */

const char *ct_info_reason_text(const char *name) {
    static const struct {
        const char *name, *text;
    } texts[] = {
#define ROW(reason, sentence) {#reason, sentence},
        CT_HOOK_SKIP_LIST(ROW) CT_LOSS_LIST(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!strcmp(texts[i].name, name))
            return texts[i].text;
    return "";
}

/* Linkage stubs and parts of functions do not count as functions. */
bool ct_info_reason_is_part(const char *name) {
    static const enum ct_hook_skip_reason parts[] = {CT_HOOK_SKIP_PLT, CT_HOOK_SKIP_COLD, CT_HOOK_SKIP_FRAGMENT,
                                                     CT_HOOK_SKIP_ODD_ENTRY};
#define NAME(reason, sentence) [CT_HOOK_SKIP_##reason] = #reason,
    static const char *const names[] = {CT_HOOK_SKIP_LIST(NAME)};
#undef NAME
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strcmp(names[parts[i]], name))
            return true;
    return false;
}

uint64_t ct_info_reason_count(const struct ct_info *info, const char *name) {
    uint64_t sum = 0;
    for (size_t i = 0; i < info->module_count; i++)
        for (size_t k = 0; k < info->modules[i].reason_count; k++)
            if (!strcmp(info->modules[i].reasons[k].name, name))
                sum += info->modules[i].reasons[k].count;
    return sum;
}

static int compare_reasons(const void *a, const void *b) {
    const struct ct_info_reason *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Reads an object {REASON: number}. Leaves out reasons with the number 0. */
static int read_reasons(const struct ct_json_node *node, struct ct_info_reason **reasons, size_t *count) {
    const struct ct_json_node *entry = node && node->type == CT_JSON_OBJECT ? ct_json_first(node) : NULL;
    if (!entry)
        return 0;
    *reasons = calloc(node->count, sizeof **reasons);
    if (!*reasons)
        return CT_ERR_NO_MEMORY;
    for (; entry; entry = entry->next) {
        uint64_t n = ct_json_u64(entry, 0);
        if (n)
            (*reasons)[(*count)++] = (struct ct_info_reason){entry->key, ct_info_reason_text(entry->key), n,
                                                             ct_info_reason_is_part(entry->key)};
    }
    qsort(*reasons, *count, sizeof **reasons, compare_reasons);
    return 0;
}

/* ---- modules ---- */

static const struct ct_json_node *module_node(const struct ct_json_node *root, uint32_t id) {
    const struct ct_json_node *node = ct_json_first(ct_json_get(root, "modules", NULL));
    while (node && ct_json_u64(ct_json_get(node, "id", NULL), UINT64_MAX) != id)
        node = node->next;
    return node;
}

static int read_module(struct ct_info *info, struct ct_info_module *m, const struct ct_json_node *root) {
    const struct ct_trace_module *module = m->module;
    const struct ct_json_node *node = module_node(root, module->id);
    uint64_t parts = 0;
    int status = read_reasons(ct_json_get(node, "skipped", NULL), &m->reasons, &m->reason_count);
    m->code_bytes = ct_json_u64(ct_json_get(node, "code_bytes", NULL), 0);
    m->hooked_bytes = ct_json_u64(ct_json_get(node, "hooked_bytes", NULL), 0);
    m->guessed = ct_json_u64(ct_json_get(node, "guessed", NULL), 0);
    info->guessed += m->guessed;
    info->code_bytes += m->code_bytes;
    info->hooked_bytes += m->hooked_bytes;
    for (size_t i = 0; i < m->reason_count; i++)
        *(m->reasons[i].part ? &parts : &m->skipped) += m->reasons[i].count;
    m->functions = module->functions > parts ? module->functions - parts : 0;
    info->functions += m->functions;
    info->hooked += module->hooked;
    info->entry_only += module->entry_only;
    info->skipped += m->skipped;
    info->parts += parts;
    return status;
}

static int read_modules(struct ct_info *info, const struct ct_trace *trace, size_t process,
                        const struct ct_json_node *root) {
    size_t total = ct_trace_module_count(trace);
    info->modules = calloc(total + 1, sizeof *info->modules);
    if (!info->modules)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < total; i++) {
        const struct ct_trace_module *module = ct_trace_module_at(trace, i);
        if (module->process != process)
            continue;
        struct ct_info_module *m = &info->modules[info->module_count++];
        m->module = module;
        int status = read_module(info, m, root);
        if (status)
            return status;
    }
    return 0;
}

/* ---- threads and events ---- */

static int compare_threads(const void *a, const void *b, void *arg) {
    const struct ct_trace *trace = arg;
    const struct ct_trace_thread *x = ct_trace_thread_at(trace, *(const size_t *)a);
    const struct ct_trace_thread *y = ct_trace_thread_at(trace, *(const size_t *)b);
    if (x->event_count != y->event_count)
        return x->event_count < y->event_count ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int read_threads(struct ct_info *info, struct ct_trace *trace, size_t process) {
    size_t total = ct_trace_thread_count(trace);
    info->threads = calloc(total + 1, sizeof *info->threads);
    if (!info->threads)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < total; i++) {
        const struct ct_trace_thread *thread = ct_trace_thread_at(trace, i);
        if (thread->process != process)
            continue;
        info->threads[info->thread_count++] = i;
        info->events += thread->event_count;
        info->dropped += thread->first_sequence;
        info->cut_threads += thread->cut;
    }
    if (info->thread_count)
        qsort_r(info->threads, info->thread_count, sizeof *info->threads, compare_threads, trace);
    return 0;
}

static int count_kinds(struct ct_info *info, struct ct_trace *trace) {
    uint64_t kinds[4] = {0}, signals = 0;
    for (size_t i = 0; i < info->thread_count; i++) {
        struct ct_trace_cursor *cursor;
        struct ct_trace_event event;
        int status = ct_trace_cursor_open_thread(&cursor, trace, info->threads[i], 0);
        if (status)
            return status;
        while (ct_trace_cursor_next(cursor, &event)) {
            kinds[event.kind & 3]++;
            signals += event.kind == CT_TRACE_EXCEPTION && !event.function_id;
        }
        ct_trace_cursor_close(cursor);
    }
    info->calls = kinds[CT_TRACE_CALL];
    info->returns = kinds[CT_TRACE_RETURN];
    info->exceptions = kinds[CT_TRACE_EXCEPTION] - signals;
    info->signals = signals;
    info->counted = true;
    return 0;
}

/* ---- the rest of the manifest ---- */

/* The manifest's clock is the machine's uptime; the session's name has the time of day. */
static void read_started(struct ct_info *info) {
    static const char shape[] = "session_dddddddd_dddddd";
    const char *at = info->process->directory;
    for (const char *next; (next = strstr(at, "session_")) != NULL;)
        at = next + 1;
    if (at == info->process->directory)
        return;
    at--;
    for (size_t i = 0; i < sizeof shape - 1; i++)
        if (shape[i] == 'd' ? at[i] < '0' || at[i] > '9' : at[i] != shape[i])
            return;
    at += strlen("session_");
    snprintf(info->started, sizeof info->started, "%.4s-%.2s-%.2s %.2s:%.2s:%.2s", at, at + 4, at + 6, at + 9, at + 11,
             at + 13);
}

static const char *text_at(const struct ct_json_node *root, const char *key) {
    return ct_json_text(ct_json_get(root, key, NULL), "");
}

static uint64_t number_at(const struct ct_json_node *root, const char *group, const char *key) {
    return ct_json_u64(ct_json_get(root, group, key, NULL), 0);
}

static void read_stalk(struct ct_info *info, const struct ct_json_node *root) {
    size_t used = 0;
    info->stalk = ct_json_get(root, "stalk", NULL) != NULL;
    info->stalk_threads = number_at(root, "stalk", "threads_followed");
    info->stalk_left = number_at(root, "stalk", "threads_left") + number_at(root, "stalk", "threads_refused");
    info->stalk_blocks = number_at(root, "stalk", "blocks_translated");
    info->stalk_children = number_at(root, "stalk", "children_let_go");
    for (const struct ct_json_node *n = ct_json_first(ct_json_get(root, "stalk", "events", NULL)); n; n = n->next) {
        int length = snprintf(info->stalk_events + used, sizeof info->stalk_events - used, "%s%llu %.32s",
                              used ? ", " : "", (unsigned long long)ct_json_u64(n, 0), n->key);
        if (length > 0 && used + (size_t)length < sizeof info->stalk_events)
            used += (size_t)length;
    }
}

static int read_manifest(struct ct_info *info, const struct ct_json_node *root) {
    read_stalk(info, root);
    info->parent_pid = (int)number_at(root, "parent_pid", NULL);
    info->origin = text_at(root, "origin");
    info->disk_bytes = ct_find_disk_bytes(info->process->directory);
    info->command_line = text_at(root, "command_line");
    info->redacted = ct_json_flag(ct_json_get(root, "redacted", NULL), false);
    info->tool = text_at(root, "tool");
    info->host = text_at(root, "host");
    info->os = text_at(root, "os");
    info->kernel = text_at(root, "kernel");
    info->arch = text_at(root, "arch");
    info->abandoned = number_at(root, "events", "abandoned");
    info->deep_calls = number_at(root, "events", "deep_calls");
    info->left_frames = number_at(root, "events", "left_frames");
    info->guarded_calls = number_at(root, "events", "guarded_calls");
    info->latency_p50_ns = number_at(root, "latency", "p50_ns");
    info->latency_p99_ns = number_at(root, "latency", "p99_ns");
    info->latency_max_ns = number_at(root, "latency", "max_ns");
    info->latency_samples = number_at(root, "latency", "samples");
    info->late_ns = number_at(root, "clock", "late_ns");
    info->late_p99_ns = number_at(root, "clock", "late_p99_ns");
    info->memory_waited_ns = number_at(root, "drain", "waited_ns");
    info->drain_ran_ns = number_at(root, "drain", "ran_ns");
    info->drain_queued_ns = number_at(root, "drain", "queued_ns");
    info->drain_raised = ct_json_flag(ct_json_get(root, "drain", "raised", NULL), false);
    info->plan_ns = number_at(root, "plan_ns", NULL);
    info->pause_ns = number_at(root, "pause_ns", NULL);
    info->lane_bytes = number_at(root, "lane_bytes", NULL);
    info->end_reason = ct_json_text(ct_json_get(root, "end", "reason", NULL), "");
    info->exit_code = ct_json_i64(ct_json_get(root, "end", "exit_code", NULL), -1);
    info->signal = ct_json_i64(ct_json_get(root, "end", "signal", NULL), 0);
    int status = read_reasons(ct_json_get(root, "events", "lost", NULL), &info->losses, &info->loss_count);
    for (size_t i = 0; i < info->loss_count; i++)
        info->lost += info->losses[i].count;
    return status;
}

static int read_left(struct ct_info *info, const struct ct_json_node *list) {
    const struct ct_json_node *node = ct_json_first(list);
    info->left = node ? calloc(list->count, sizeof *info->left) : NULL;
    if (node && !info->left)
        return CT_ERR_NO_MEMORY;
    for (; node; node = node->next)
        info->left[info->left_count++] = (struct ct_info_left){
            .name = text_at(node, "name"),
            .reason = text_at(node, "reason"),
            .mappings = number_at(node, "mappings", NULL),
            .bytes = number_at(node, "bytes", NULL),
        };
    return 0;
}

static int read_missed(struct ct_info *info, const struct ct_json_node *list) {
    const struct ct_json_node *node = ct_json_first(list);
    info->missed = node ? calloc(list->count, sizeof *info->missed) : NULL;
    if (node && !info->missed)
        return CT_ERR_NO_MEMORY;
    for (; node; node = node->next)
        info->missed[info->missed_count++] = (struct ct_info_missed){
            .pid = (int)number_at(node, "pid", NULL),
            .program = text_at(node, "program"),
            .reason = text_at(node, "reason"),
        };
    return 0;
}

static int read_times(struct ct_info *info, const struct ct_facts *facts, size_t process,
                      const struct ct_json_node *root) {
    struct ct_waits waits;
    int status = ct_waits_of_process(&waits, facts, process);
    if (status)
        return status;
    const struct ct_trace_process *p = info->process;
    uint64_t start_ns = p->time_start_ns ? p->time_start_ns : p->recording_start_ns; /* without events: the latter */
    info->waited_ns = ct_waits_in(&waits, start_ns, p->recording_end_ns);
    info->waits_more = waits.more;
    info->waits_more_ns = waits.more_ns;
    ct_waits_free(&waits);
    info->cpu = ct_json_text(ct_json_get(root, "cpu", "state", NULL), "");
    info->switches = number_at(root, "cpu", "switches");
    info->switches_lost = number_at(root, "cpu", "lost");
    return 0;
}

/* Traces of older recorders have only the name of the session. */
static int read_wall(struct ct_info *info, const struct ct_trace *trace) {
    struct ct_wall wall;
    int status = ct_wall_load(&wall, trace);
    if (!status && wall.count && info->process->time_start_ns)
        ct_wall_text(&wall, info->process->time_start_ns, info->started);
    ct_wall_free(&wall);
    return status;
}

int ct_info_make(struct ct_info **out, struct ct_trace *trace, const struct ct_facts *facts, size_t process,
                 bool count) {
    struct ct_info *info = calloc(1, sizeof *info);
    if (!info)
        return CT_ERR_NO_MEMORY;
    const struct ct_json_node *root = root_of(facts, process);
    info->process = ct_trace_process_at(trace, process);
    if (info->process->recording_end_ns > info->process->recording_start_ns)
        info->duration_ns = info->process->recording_end_ns - info->process->recording_start_ns;
    read_started(info);
    int status = read_wall(info, trace);
    if (!status)
        status = read_manifest(info, root);
    if (!status)
        status = read_times(info, facts, process, root);
    if (!status)
        status = read_left(info, ct_json_get(root, "left_alone", NULL));
    if (!status)
        status = read_missed(info, ct_json_get(root, "unrecorded", NULL));
    if (!status)
        status = ct_info_read_windows(info, root);
    if (!status)
        status = read_modules(info, trace, process, root);
    if (!status)
        status = read_threads(info, trace, process);
    if (!status && count)
        status = count_kinds(info, trace);
    if (!status)
        status = ct_crash_make(&info->crash, trace, facts, process);
    if (!status)
        status = ct_left_out_read(&info->left_out, trace, facts, process);
    info->sampled = number_at(root, "sample", "rate");
    if (!status)
        status = ct_idle_find(&info->idle, trace, facts, process, count ? UINT64_MAX : READ_AT_ONCE);
    if (status) {
        ct_info_free(info);
        return status;
    }
    *out = info;
    return 0;
}

void ct_info_free(struct ct_info *info) {
    if (!info)
        return;
    ct_info_free_windows(info);
    for (size_t i = 0; info->modules && i < info->module_count; i++)
        free(info->modules[i].reasons);
    free(info->modules);
    free(info->threads);
    free(info->losses);
    ct_crash_free(info->crash);
    ct_idle_free(&info->idle);
    ct_left_out_free(&info->left_out);
    free(info->left);
    free(info->missed);
    free(info);
}
