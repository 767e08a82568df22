/* SPDX-License-Identifier: Apache-2.0 */
/* What the trace of a process holds, as JSON. */
#include "report/info.h"
#include "base/json_write.h"

static void reasons_json(const char *key, const struct ct_info_reason *reasons, size_t count, bool of_modules,
                         struct ct_json *json) {
    ct_json_begin(json, key, '[');
    for (size_t i = 0; i < count; i++) {
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "reason", reasons[i].name);
        ct_json_string(json, "text", reasons[i].text);
        ct_json_number(json, "count", reasons[i].count);
        if (of_modules)
            ct_json_bool(json, "part", reasons[i].part);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

static void threads_json(const struct ct_info *info, const struct ct_trace *trace, const struct ct_facts *facts,
                         struct ct_json *json) {
    ct_json_begin(json, "threads", '[');
    for (size_t i = 0; i < info->thread_count; i++) {
        const struct ct_trace_thread *thread = ct_trace_thread_at(trace, info->threads[i]);
        ct_json_begin(json, NULL, '{');
        ct_json_number(json, "id", thread->id);
        ct_json_number(json, "tid", thread->tid);
        ct_json_string(json, "name", thread->name);
        ct_json_number(json, "events", thread->event_count);
        ct_json_number(json, "lost", thread->lost);
        ct_json_number(json, "gaps", facts->threads[info->threads[i]].gap_count);
        ct_json_bool(json, "cut", thread->cut);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

static void modules_json(const struct ct_info *info, struct ct_json *json) {
    ct_json_begin(json, "modules", '[');
    for (size_t i = 0; i < info->module_count; i++) {
        const struct ct_info_module *m = &info->modules[i];
        ct_json_begin(json, NULL, '{');
        ct_json_number(json, "id", m->module->id);
        ct_json_string(json, "path", m->module->path);
        ct_json_string(json, "build_id", m->module->build_id);
        ct_json_number(json, "base", m->module->base);
        ct_json_number(json, "functions", m->functions);
        ct_json_number(json, "hooked", m->module->hooked);
        ct_json_number(json, "entry_only", m->module->entry_only);
        if (m->guessed)
            ct_json_number(json, "guessed", m->guessed);
        ct_json_number(json, "skipped", m->skipped);
        if (m->code_bytes) {
            ct_json_number(json, "code_bytes", m->code_bytes);
            ct_json_number(json, "hooked_bytes", m->hooked_bytes);
        }
        reasons_json("reasons", m->reasons, m->reason_count, true, json);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

static void outside_json(const struct ct_info *info, struct ct_json *json) {
    ct_json_begin(json, "left_alone", '[');
    for (size_t i = 0; i < info->left_count; i++) {
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "name", info->left[i].name);
        ct_json_number(json, "mappings", info->left[i].mappings);
        ct_json_number(json, "bytes", info->left[i].bytes);
        ct_json_string(json, "reason", info->left[i].reason);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
    ct_json_begin(json, "unrecorded", '[');
    for (size_t i = 0; i < info->missed_count; i++) {
        ct_json_begin(json, NULL, '{');
        ct_json_signed(json, "pid", info->missed[i].pid);
        ct_json_string(json, "program", info->missed[i].program);
        ct_json_string(json, "reason", info->missed[i].reason);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

static void events_json(const struct ct_info *info, struct ct_json *json) {
    ct_json_begin(json, "events", '{');
    ct_json_number(json, "total", info->events);
    if (info->counted) {
        ct_json_number(json, "calls", info->calls);
        ct_json_number(json, "returns", info->returns);
        ct_json_number(json, "exceptions", info->exceptions);
        ct_json_number(json, "signals", info->signals);
    }
    if (info->dropped)
        ct_json_number(json, "dropped", info->dropped);
    ct_json_number(json, "lost", info->lost);
    reasons_json("losses", info->losses, info->loss_count, false, json);
    ct_json_number(json, "abandoned", info->abandoned);
    ct_json_number(json, "deep_calls", info->deep_calls);
    ct_json_number(json, "left_frames", info->left_frames);
    ct_json_number(json, "guarded_calls", info->guarded_calls);
    ct_json_end(json, '}');
}

static void numbers_json(const struct ct_info *info, struct ct_json *json) {
    ct_json_begin(json, "coverage", '{');
    ct_json_number(json, "functions", info->functions);
    ct_json_number(json, "hooked", info->hooked);
    ct_json_number(json, "entry_only", info->entry_only);
    if (info->guessed)
        ct_json_number(json, "guessed", info->guessed);
    ct_json_number(json, "skipped", info->skipped);
    ct_json_number(json, "parts", info->parts);
    if (info->code_bytes) {
        ct_json_number(json, "code_bytes", info->code_bytes);
        ct_json_number(json, "hooked_bytes", info->hooked_bytes);
    }
    ct_json_end(json, '}');
    ct_json_begin(json, "latency", '{');
    ct_json_number(json, "p50_ns", info->latency_p50_ns);
    ct_json_number(json, "p99_ns", info->latency_p99_ns);
    ct_json_number(json, "max_ns", info->latency_max_ns);
    ct_json_number(json, "samples", info->latency_samples);
    ct_json_end(json, '}');
    ct_json_begin(json, "clock", '{');
    ct_json_string(json, "events", info->late_ns ? "fast" : "exact");
    if (info->late_ns) {
        ct_json_number(json, "late_ns", info->late_ns);
        ct_json_number(json, "late_p99_ns", info->late_p99_ns);
    }
    ct_json_end(json, '}');
    ct_json_begin(json, "drain", '{');
    ct_json_number(json, "waited_ns", info->memory_waited_ns);
    ct_json_number(json, "ran_ns", info->drain_ran_ns);
    ct_json_number(json, "queued_ns", info->drain_queued_ns);
    ct_json_bool(json, "raised", info->drain_raised);
    ct_json_end(json, '}');
    ct_json_number(json, "plan_ns", info->plan_ns);
    ct_json_number(json, "pause_ns", info->pause_ns);
    ct_json_number(json, "lane_bytes", info->lane_bytes);
    ct_json_number(json, "disk_bytes", info->disk_bytes);
    ct_info_windows_json(info, json);
    ct_json_begin(json, "end", '{');
    ct_json_string(json, "reason", info->end_reason);
    ct_json_signed(json, "exit_code", info->exit_code);
    ct_json_signed(json, "signal", info->signal);
    ct_json_end(json, '}');
}

/* Writes nothing when functions were hooked. */
static void stalk_json(const struct ct_info *info, struct ct_json *json) {
    if (!info->stalk)
        return;
    ct_json_begin(json, "stalk", '{');
    ct_json_number(json, "threads_followed", info->stalk_threads);
    ct_json_number(json, "threads_left", info->stalk_left);
    ct_json_number(json, "children_let_go", info->stalk_children);
    ct_json_number(json, "blocks_translated", info->stalk_blocks);
    ct_json_string(json, "events", info->stalk_events);
    ct_json_end(json, '}');
}

void ct_info_json(const struct ct_info *info, const struct ct_trace *trace, const struct ct_facts *facts,
                  struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "directory", info->process->directory);
    ct_json_signed(json, "pid", info->process->pid);
    ct_json_signed(json, "parent_pid", info->parent_pid);
    ct_json_string(json, "origin", info->origin);
    ct_json_string(json, "command_line", info->command_line);
    ct_json_bool(json, "redacted", info->redacted);
    ct_json_string(json, "tool", info->tool);
    ct_json_string(json, "host", info->host);
    ct_json_string(json, "os", info->os);
    ct_json_string(json, "kernel", info->kernel);
    ct_json_string(json, "arch", info->arch);
    ct_json_bool(json, "complete", info->process->complete);
    ct_json_string(json, "started", info->started);
    ct_json_number(json, "time_start_ns", info->process->time_start_ns);
    ct_json_number(json, "time_end_ns", info->process->time_end_ns);
    ct_json_number(json, "recording_start_ns", info->process->recording_start_ns);
    ct_json_number(json, "recording_end_ns", info->process->recording_end_ns);
    ct_json_bool(json, "recording_known", info->process->recording_known);
    ct_json_number(json, "duration_ns", info->duration_ns);
    ct_json_number(json, "waited_ns", info->waited_ns);
    ct_json_number(json, "waits_not_listed", info->waits_more);
    ct_json_number(json, "waits_not_listed_ns", info->waits_more_ns);
    ct_json_string(json, "cpu", info->cpu);
    events_json(info, json);
    numbers_json(info, json);
    if (info->sampled)
        ct_json_number(json, "sample", info->sampled);
    ct_left_out_json(&info->left_out, json);
    stalk_json(info, json);
    threads_json(info, trace, facts, json);
    ct_idle_json(&info->idle, trace, info->crash->process, json);
    ct_crash_json(info->crash, trace, json);
    modules_json(info, json);
    outside_json(info, json);
    ct_json_end(json, '}');
}
