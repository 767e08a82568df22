/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest, the symbols file and the status answer: what a session reports about itself. docs/TRACE-FORMAT.md has
 * the keys. Called by the drain thread once a second and by the session's thread at start and end, never at the same
 * time. */
#include "session/manifest.h"
#include "base/json_write.h"
#include "session/crash_watch.h"
#include "session/follower.h"
#include "session/recording.h"
#include "session/recording_sample.h"
#include "isa/machine.h"
#include "trace/segments.h"
#include "symbols/functions.h"
#include <contrail/contrail.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <sys/wait.h>

static void put_host(struct ct_json *j) {
    struct utsname name;
    if (uname(&name))
        return;
    ct_json_string(j, "host", name.nodename);
    ct_json_string(j, "os", name.sysname);
    ct_json_string(j, "kernel", name.release);
    ct_json_string(j, "arch", ct_machine_host()->name);
}

static void put_point(struct ct_json *j, const struct ct_clock_point *point) {
    ct_json_begin(j, NULL, '[');
    ct_json_number(j, NULL, point->counter);
    ct_json_number(j, NULL, point->ns);
    ct_json_end(j, ']');
}

static void put_wall(struct ct_json *j, const struct ct_clock_wall *wall) {
    ct_json_begin(j, "realtime", '[');
    for (size_t i = 0; i < wall->count; i++) {
        ct_json_begin(j, NULL, '[');
        ct_json_number(j, NULL, wall->pairs[i].boot_ns);
        ct_json_number(j, NULL, wall->pairs[i].real_ns);
        ct_json_signed(j, NULL, wall->pairs[i].offset_s);
        ct_json_end(j, ']');
    }
    ct_json_end(j, ']');
}

/* How late the time of a call or return may be. The margin: processors read the counter, and see a tick, a little
 * before or after the instructions around. */
static void put_lateness(struct ct_json *j, const struct ct_recording *r) {
    enum { MARGIN_NS = 1000 };
    const struct ct_ticker *ticker = &r->drain.ticker;
    double ns = ct_clock_hz(&r->clock) > 0 ? 1e9 / ct_clock_hz(&r->clock) : 0;
    ct_json_string(j, "events", "fast");
    ct_json_number(j, "late_ns", (uint64_t)((double)ct_ticker_late(ticker, 1) * ns) + MARGIN_NS);
    ct_json_number(j, "late_p99_ns", (uint64_t)((double)ct_ticker_late(ticker, 0.99) * ns) + MARGIN_NS);
    ct_json_number(j, "ticks", __atomic_load_n(&ticker->ticks, __ATOMIC_RELAXED));
}

static void put_clock(struct ct_json *j, const struct ct_recording *r) {
    const struct ct_clock *clock = &r->clock;
    ct_json_begin(j, "clock", '{');
    ct_json_string(j, "type", "boottime");
    ct_json_real(j, "counter_hz", ct_clock_hz(clock));
    ct_json_number(j, "calibration_count", clock->count);
    ct_json_begin(j, "calibrations", '[');
    put_point(j, &clock->first);
    put_point(j, &clock->newest);
    ct_json_end(j, ']');
    put_wall(j, &r->wall);
    if (r->lane.fast_clock)
        put_lateness(j, r);
    ct_json_end(j, '}');
}

static void put_cpu(struct ct_json *j, struct ct_recording *r) {
    if (!r->session->options.cpu)
        return;
    if (r->drain.switches)
        r->cpu.counts = ct_switches_counts(r->drain.switches);
    ct_json_begin(j, "cpu", '{');
    ct_json_string(j, "state", r->cpu.why_not[0] ? r->cpu.why_not : "recorded");
    ct_json_number(j, "switches", r->cpu.counts.switches);
    ct_json_number(j, "lost", r->cpu.counts.lost);
    ct_json_end(j, '}');
}

static void put_losses(struct ct_json *j, const uint64_t lost[CT_LOSS_COUNT]) {
    ct_json_begin(j, "lost", '{');
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        ct_json_number(j, ct_loss_name((enum ct_loss_reason)i), lost[i]);
    ct_json_end(j, '}');
}

static void put_events(struct ct_json *j, const struct ct_session_statistics *s) {
    ct_json_begin(j, "events", '{');
    ct_json_number(j, "written", s->events);
    put_losses(j, s->lost);
    ct_json_number(j, "abandoned", s->abandoned);
    ct_json_number(j, "deep_calls", s->deep_calls);
    ct_json_number(j, "left_frames", s->left_frames);
    ct_json_number(j, "guarded_calls", s->guarded_calls);
    ct_json_end(j, '}');
}

/* Files of finished processes may be deleted later too: then only this shows it. */
static void put_keep(struct ct_json *j, const struct ct_session_options *options) {
    if (!options->keep_bytes && !options->keep_ns)
        return;
    ct_json_begin(j, "keep", '{');
    ct_json_number(j, "bytes", options->keep_bytes);
    ct_json_number(j, "ns", options->keep_ns);
    ct_json_end(j, '}');
}

/* What --keep has deleted of the thread. */
static void put_kept(struct ct_json *j, const struct ct_drain_thread *t) {
    struct ct_series_kept kept = {0};
    if (t->series)
        kept = ct_series_kept(t->series);
    if (!kept.dropped)
        return;
    ct_json_number(j, "dropped", kept.dropped);
    ct_json_number(j, "dropped_until_ns", kept.dropped_until_ns);
    ct_json_number(j, "begins_ns", kept.begins_ns);
}

static void put_thread(struct ct_json *j, const struct ct_drain_thread *t) {
    uint64_t lost = 0;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        lost += t->lost[i];
    ct_json_begin(j, NULL, '{');
    ct_json_number(j, "id", t->id);
    ct_json_number(j, "tid", (uint64_t)t->tid);
    ct_json_string(j, "name", t->name);
    ct_json_bool(j, "has_detail", t->detail.written != 0);
    ct_json_number(j, "detail", t->detail.written);
    ct_json_number(j, "detail_lost", t->detail.lost);
    ct_json_number(j, "events", t->events);
    if (t->code_blocks || t->code_compiled || t->code_lost) {
        ct_json_begin(j, "code", '{');
        ct_json_number(j, "blocks", t->code_blocks);
        ct_json_number(j, "compiled", t->code_compiled);
        ct_json_number(j, "lost", t->code_lost);
        ct_json_end(j, '}');
    }
    ct_json_number(j, "lost", lost);
    if (t->waits.ns)
        ct_json_number(j, "waited_ns", t->waits.ns);
    put_kept(j, t);
    if (t->gone) /* it may have ended long after its last event */
        ct_json_number(j, "end_ns", t->last_ns > t->seen_ns ? t->last_ns : t->seen_ns);
    else if (t->seen_ns)
        ct_json_number(j, "seen_ns", t->seen_ns);
    ct_json_begin(j, "gaps", '[');
    for (size_t i = 0; i < t->gap_count; i++) {
        ct_json_begin(j, NULL, '{');
        ct_json_number(j, "at", t->gaps[i].at);
        ct_json_number(j, "lost", t->gaps[i].lost);
        ct_json_string(j, "reason", t->gaps[i].reason == CT_LOSS_COUNT ? "INHERITED" : ct_loss_name(t->gaps[i].reason));
        ct_json_end(j, '}');
    }
    ct_json_end(j, ']');
    ct_json_end(j, '}');
}

static void put_module(void *arg, const struct ct_target_module *m) {
    struct ct_json *j = arg;
    const struct ct_target_bytes bytes = ct_target_module_bytes(m);
    char text[32];
    ct_json_begin(j, NULL, '{');
    ct_json_number(j, "id", m->id);
    ct_json_string(j, "path", m->path);
    ct_json_string(j, "build_id", m->build_id);
    ct_json_number(j, "base", m->bias);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)m->table_hash);
    ct_json_string(j, "table_hash", text);
    if (m->gone)
        ct_json_bool(j, "unloaded", true);
    ct_json_number(j, "functions", m->function_count);
    ct_json_number(j, "hooked", m->hooked);
    ct_json_number(j, "entry_only", m->entry_only);
    if (m->guessed)
        ct_json_number(j, "guessed", m->guessed);
    ct_json_number(j, "code_bytes", bytes.code);
    ct_json_number(j, "hooked_bytes", bytes.hooked);
    ct_json_begin(j, "skipped", '{');
    for (int r = 1; r < CT_HOOK_SKIP_COUNT; r++)
        if (m->skipped[r])
            ct_json_number(j, ct_hook_skip_name((enum ct_hook_skip_reason)r), m->skipped[r]);
    ct_json_end(j, '}');
    ct_json_end(j, '}');
}

static void put_left(struct ct_json *j, const struct ct_left_code *code) {
    ct_json_begin(j, NULL, '{');
    ct_json_string(j, "name", code->name);
    ct_json_number(j, "mappings", code->mappings);
    ct_json_number(j, "bytes", code->bytes);
    ct_json_string(j, "reason", code->reason);
    ct_json_end(j, '}');
}

static void put_missed(struct ct_json *j, const struct ct_missed *m) {
    ct_json_begin(j, NULL, '{');
    ct_json_number(j, "pid", (uint64_t)m->pid);
    ct_json_string(j, "program", m->program);
    ct_json_string(j, "reason", m->reason);
    ct_json_end(j, '}');
}

static void put_end(struct ct_json *j, const struct ct_recording *r) {
    ct_json_begin(j, "end", '{');
    ct_json_string(j, "reason", r->end.reason);
    if (r->end.exit_status >= 0 && WIFEXITED(r->end.exit_status))
        ct_json_number(j, "exit_code", (uint64_t)WEXITSTATUS(r->end.exit_status));
    if (r->end.exit_status >= 0 && WIFSIGNALED(r->end.exit_status))
        ct_json_number(j, "signal", (uint64_t)WTERMSIG(r->end.exit_status));
    ct_json_end(j, '}');
}

static void put_latency(struct ct_json *j, const struct ct_drain *d) {
    ct_json_begin(j, "latency", '{');
    ct_json_number(j, "p50_ns", ct_drain_latency(d, 0.5));
    ct_json_number(j, "p99_ns", ct_drain_latency(d, 0.99));
    ct_json_number(j, "max_ns", d->latency_max);
    ct_json_number(j, "samples", d->latency_samples);
    ct_json_end(j, '}');
}

/* What the drain thread got of the processors, and how long threads waited for it. */
static void put_drain(struct ct_json *j, const struct ct_drain *d, const struct ct_session_statistics *s) {
    ct_json_begin(j, "drain", '{');
    ct_json_number(j, "waited_ns", s->waited_ns);
    ct_json_number(j, "ran_ns", d->pace.ran_ns);
    ct_json_number(j, "queued_ns", d->pace.queued_ns);
    ct_json_bool(j, "raised", d->pace.raised);
    ct_json_end(j, '}');
}

static void put_lists(struct ct_json *j, struct ct_recording *r) {
    ct_json_begin(j, "threads", '[');
    for (const struct ct_drain_thread *t = r->drain.threads; t; t = t->next)
        put_thread(j, t);
    ct_json_end(j, ']');
    ct_json_begin(j, "modules", '[');
    pthread_mutex_lock(&r->mutex);
    ct_recording_each_module(r, put_module, j);
    ct_json_end(j, ']');
    ct_json_begin(j, "unrecorded", '[');
    for (size_t i = 0; i < r->missed.count; i++)
        put_missed(j, &r->missed.items[i]);
    ct_json_end(j, ']');
    ct_json_begin(j, "left_alone", '[');
    for (size_t i = 0; i < r->left.count; i++)
        put_left(j, &r->left.items[i]);
    ct_json_end(j, ']');
    ct_recording_put_waits(r, j);
    pthread_mutex_unlock(&r->mutex);
    ct_windows_put(&r->windows, j);
    pthread_rwlock_rdlock(&r->session->policy_lock);
    ct_policy_put(r->session->policy, j);
    pthread_rwlock_unlock(&r->session->policy_lock);
    ct_crash_watch_put(r, j);
}

/* Includes threads that have ended: the drain's list has them all. */
static void put_detail(struct ct_json *j, struct ct_recording *r, const struct ct_session_statistics *s) {
    const struct ct_drain *d = &r->drain;
    uint64_t limited = 0;
    for (const struct ct_drain_thread *t = d->threads; t; t = t->next)
        limited += t->detail.limited;
    ct_json_begin(j, "detail", '{');
    ct_json_number(j, "written", s->detail_events);
    put_losses(j, s->detail_lost);
    ct_json_number(j, "limited", limited);
    ct_json_number(j, "bytes", s->detail_bytes);
    ct_json_number(j, "lane_bytes", (uint64_t)r->lane.detail_chunk_count * CT_SHM_DETAIL_CHUNK);
    ct_json_number(j, "most_of_a_thread", d->detail ? d->detail->most_bytes : 0);
    if (s->detail_needed)
        ct_json_number(j, "needed_bytes", s->detail_needed);
    ct_json_number(j, "stack_bytes", r->lane.stack_bytes);
    ct_json_bool(j, "vectors", r->lane.vectors);
    ct_json_number(j, "strings", r->lane.strings);
    if (r->lane.strings && r->session->options.structs)
        ct_json_bool(j, "structs", true);
    if (r->lane.strings && r->lane.control && r->lane.control->silent)
        ct_json_string(j, "strings_end", "the program has asked for a seccomp filter: no text was read from then on");
    ct_json_bool(j, "errno", r->lane.has_errno);
    if (r->plan && r->plan->errno_unknown)
        ct_json_string(j, "errno_unknown", r->plan->errno_unknown);
    ct_json_number(j, "rejected", d->detail ? d->detail->rejected : 0);
    ct_json_number(j, "marks_not_listed", d->detail ? d->detail->marks_omitted : 0);
    ct_json_end(j, '}');
}

/* Averages over the whole recording. */
static void put_rates(struct ct_json *j, const struct ct_session_statistics *s) {
    double seconds = (double)s->recording_ns * 1e-9, by = seconds > 0 ? 1 / seconds : 0;
    ct_json_number(j, "recording_ns", s->recording_ns);
    ct_json_number(j, "bytes_written", s->bytes_written);
    ct_json_number(j, "marks", s->marks);
    ct_json_begin(j, "per_second", '{');
    ct_json_real(j, "events", (double)s->events * by);
    ct_json_real(j, "written_bytes", (double)s->bytes_written * by);
    ct_json_begin(j, "lost", '{');
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        ct_json_real(j, ct_loss_name((enum ct_loss_reason)i), (double)s->lost[i] * by);
    ct_json_end(j, '}');
    ct_json_end(j, '}');
}

/* From when until when the process was recorded, whether or not it did anything. While it is recorded, and after the
 * recorder was killed, the end is that of the last complete pass over the lane. */
static void put_span(struct ct_json *j, const struct ct_recording *r) {
    uint64_t ended_at = __atomic_load_n(&r->times.ended_at, __ATOMIC_ACQUIRE);
    uint64_t written_ns = __atomic_load_n(&r->drain.written_ns, __ATOMIC_ACQUIRE);
    if (!r->times.resumed_at)
        return;
    ct_json_number(j, "recording_start_ns", r->times.resumed_at);
    ct_json_number(j, "recording_end_ns", ended_at ? ended_at : written_ns);
}

static void put_numbers(struct ct_json *j, struct ct_recording *r) {
    struct ct_session_statistics now;
    ct_recording_statistics(r, &now);
    ct_json_number(j, "time_start_ns", r->drain.time_start);
    ct_json_number(j, "time_end_ns", r->drain.time_end);
    put_span(j, r);
    put_events(j, &now);
    put_detail(j, r, &now);
    put_latency(j, &r->drain);
    put_drain(j, &r->drain, &now);
    put_rates(j, &now);
    ct_json_number(j, "plan_ns", now.plan_ns);
    ct_json_number(j, "pause_ns", now.pause_ns);
    ct_json_number(j, "lane_bytes", now.lane_bytes);
    ct_json_number(j, "lane_least_free", now.lane_least_free);
    ct_json_number(j, "lane_times_above", now.lane_times_above);
    ct_json_number(j, "changed_code", r->injection.changed);
    ct_json_number(j, "refused_requests", __atomic_load_n(&r->requests.refused, __ATOMIC_RELAXED));
    ct_json_number(j, "lost_threads", r->lane.control ? r->lane.control->lost_threads : 0);
}

static int write_manifest(struct ct_recording *r, bool complete) {
    static const char *const origins[] = {"spawn", "attach", "fork", "exec"};
    struct ct_json j = {0};
    char tool[64];
    snprintf(tool, sizeof tool, "contrail %s", ct_version());
    ct_json_begin(&j, NULL, '{');
    ct_json_string(&j, "format", r->session->options.format == CT_SESSION_FORMAT_PACKED ? "packed" : "atf2");
    ct_json_number(&j, "version", 1);
    ct_json_string(&j, "tool", tool);
    ct_json_bool(&j, "complete", complete);
    ct_json_string(&j, "command_line", r->command_line);
    ct_json_bool(&j, "redacted", r->session->options.redact);
    ct_json_number(&j, "pid", (uint64_t)r->pid);
    ct_json_number(&j, "parent_pid", (uint64_t)r->parent_pid);
    ct_json_string(&j, "origin", origins[r->origin]);
    put_host(&j);
    ct_clock_note_wall(&r->wall);
    put_clock(&j, r);
    put_cpu(&j, r);
    put_keep(&j, &r->session->options);
    put_numbers(&j, r);
    ct_follower.put_manifest(r, &j);
    ct_recording_budget_put(r, &j);
    ct_recording_sample_put(r, &j);
    put_end(&j, r);
    put_lists(&j, r);
    ct_json_end(&j, '}');
    int status = j.failed ? CT_ERR_NO_MEMORY : ct_trace_write_manifest(r->trace.place, &j);
    ct_json_free(&j);
    return status;
}

/* The drain's thread writes it every second, so a lock is needed. */
int ct_manifest_write(struct ct_recording *r, bool complete) {
    pthread_mutex_lock(&r->files);
    int status = write_manifest(r, complete);
    pthread_mutex_unlock(&r->files);
    return status;
}

static void write_module(void *arg, const struct ct_target_module *m) {
    struct ct_symbols_writer *w = arg;
    ct_symbols_writer_module(w, m->id, m->path, m->build_id, m->bias);
    for (size_t k = 0; k < m->function_count; k++) {
        const struct ct_target_function *f = &m->functions[k];
        const char *entry_only =
            f->entry_only ? ct_hook_entry_only_text((enum ct_hook_entry_only_reason)f->entry_only) : "";
        const char *skip = f->skip ? ct_hook_skip_name((enum ct_hook_skip_reason)f->skip) : "";
        if (f->flags & CT_FUNC_GUESSED)
            ct_symbols_writer_guess(w, (uint64_t)m->id << 32 | k, f->offset, f->size, skip, entry_only);
        else
            ct_symbols_writer_function(w, (uint64_t)m->id << 32 | k, f->offset, f->size, f->name, skip, entry_only);
    }
}

static int write_symbols(struct ct_recording *r) {
    struct ct_symbols_writer *w;
    int status = ct_symbols_writer_open(&w, r->trace.place);
    if (status)
        return status;
    ct_symbols_writer_note_end(w, &r->trace.symbols_end);
    ct_follower.put_symbols(r, w, true);
    pthread_mutex_lock(&r->mutex);
    ct_recording_each_module(r, write_module, w);
    pthread_mutex_unlock(&r->mutex);
    return ct_symbols_writer_close(w);
}

/* Writes a new file each time: forked children may have a link to the old one. */
int ct_manifest_write_symbols(struct ct_recording *r) {
    pthread_mutex_lock(&r->files);
    int status = write_symbols(r);
    pthread_mutex_unlock(&r->files);
    return status;
}

/* Adds only what is new, unless the file is a link to the parent's. */
static int add_symbols(struct ct_recording *r) {
    struct ct_symbols_writer *w;
    if (!r->trace.symbols_end.inode || ct_symbols_writer_continue(&w, r->trace.place, &r->trace.symbols_end))
        return write_symbols(r);
    ct_follower.put_symbols(r, w, false);
    return ct_symbols_writer_close(w);
}

int ct_manifest_add_symbols(struct ct_recording *r) {
    if (!ct_follower.has_new_symbols(r))
        return 0;
    pthread_mutex_lock(&r->files);
    int status = add_symbols(r);
    pthread_mutex_unlock(&r->files);
    return status;
}

static void put_detail_status(struct ct_json *j, const struct ct_session *s, const struct ct_session_statistics *n) {
    static const char *const modes[] = {"marked", "always", "off"};
    ct_json_begin(j, "detail", '{');
    ct_json_string(j, "mode", modes[s->options.detail]);
    ct_json_string(j, "state", ct_session_window_name(n->window_state));
    ct_json_number(j, "reach_ns", n->detail_reach_ns);
    ct_json_number(j, "marks", n->marks);
    ct_json_number(j, "windows", n->windows);
    ct_json_number(j, "written", n->detail_events);
    put_losses(j, n->detail_lost);
    ct_json_number(j, "bytes", n->detail_bytes);
    ct_json_end(j, '}');
}

void ct_manifest_status(struct ct_session *s, struct ct_json *j) {
    struct ct_session_statistics n = {.size = sizeof n};
    char path[PATH_MAX]; /* absolute: the caller may be in another working directory */
    ct_session_statistics(s, &n);
    ct_json_string(j, "state", ct_session_state_name(ct_session_state(s)));
    ct_json_number(j, "pid", (uint64_t)s->process.pid);
    ct_json_string(j, "directory", realpath(s->directory, path) ? path : s->directory);
    put_events(j, &n);
    ct_json_number(j, "processes", n.processes);
    ct_json_number(j, "threads_seen", n.threads_seen);
    ct_json_number(j, "threads_alive", n.threads_alive);
    ct_json_number(j, "modules", n.modules);
    ct_json_number(j, "functions", n.functions);
    ct_json_number(j, "hooked", n.hooked);
    ct_json_number(j, "entry_only", n.entry_only);
    ct_json_number(j, "skipped", n.skipped);
    ct_json_number(j, "lane_bytes", n.lane_bytes);
    ct_json_number(j, "lane_used", n.lane_used);
    ct_json_number(j, "lane_least_free", n.lane_least_free);
    ct_json_bool(j, "lane_above", n.lane_above);
    ct_json_number(j, "bytes_written", n.bytes_written);
    ct_json_number(j, "waited_ns", n.waited_ns);
    ct_json_number(j, "latency_p50_ns", n.latency_p50_ns);
    ct_json_number(j, "latency_p99_ns", n.latency_p99_ns);
    ct_json_number(j, "behind_ns", n.written_until_ns ? ct_clock_now() - n.written_until_ns : 0);
    ct_json_number(j, "recording_ns", n.recording_ns);
    if (n.budget) {
        ct_json_begin(j, "budget", '{');
        ct_json_real(j, "limit", (double)n.budget / 10000);
        ct_json_real(j, "used", (double)n.budget_used / 10000);
        ct_json_number(j, "left_out", n.left_out);
        ct_json_end(j, '}');
    }
    put_detail_status(j, s, &n);
}
