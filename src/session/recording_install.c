/* SPDX-License-Identifier: Apache-2.0 */
/* How a recording gets into its target: plan, stop, inject, hook. recording_leave.c has the way back. Runs on the
 * session's thread. Between stop and resume the target is stopped, so only what must happen there does. */
#include "session/recording_install.h"
#include "remote/namespace.h"
#include "session/children.h"
#include "session/confirm.h"
#include "session/follower.h"
#include "session/manifest.h"
#include "session/policy.h"
#include "session/recording.h"
#include "session/recording_leave.h"
#include "session/recording_room.h"
#include "trace/file.h"
#include "trace/switches_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPLANS         4
#define LIMIT_BASE_MS   10000u
#define PER_FUNCTION_US 500u
#define KEEP_SHARE      64u /* with --keep, a thread's switches have this part of the bytes at most */
#define KEEP_MOST       (4u << 20)
#define MIN_CLOCK_SPAN  5000000ull /* between the first two calibrations */
#define DEFAULT_DETAIL  (32u << 20)

/* ---- the time limit ---- */

static uint64_t limit_ms(const struct ct_recording *r) {
    if (r->session->options.startup_timeout_ms)
        return r->session->options.startup_timeout_ms;
    uint64_t functions = 0;
    for (size_t i = 0; r->plan && i < r->plan->module_count; i++)
        functions += r->plan->modules[i].function_count;
    return LIMIT_BASE_MS + functions * PER_FUNCTION_US / 1000;
}

static int check_time(struct ct_recording *r, uint64_t start, const char *step) {
    int status = ct_recording_progress(r, step);
    if (status)
        return status;
    uint64_t limit = limit_ms(r), spent = (ct_clock_now() - start) / 1000000;
    if (spent < limit)
        return 0;
    return ct_recording_fail(r, CT_ERR_TIMEOUT,
                             "hooking took longer than %llu ms; the program runs on without hooks: allow more with "
                             "--startup-timeout S",
                             (unsigned long long)limit);
}

/* ---- planning ---- */

/* A trigger sees all calls of the functions that it names, also where calls are sampled. */
static bool has_trigger(void *arg, const char *name, const char *module) {
    struct ct_session *session = arg;
    pthread_rwlock_rdlock(&session->policy_lock);
    bool has = ct_policy_mask(session->policy, name, module) != 0;
    pthread_rwlock_unlock(&session->policy_lock);
    return has;
}

/* Filter and cache are the session's. */
int ct_recording_make_plan(struct ct_recording *r, struct ct_target_plan_options options, struct ct_shared_plan **out) {
    char cache[PATH_MAX];
    struct ct_remote_error error = {""};
    bool cached = !r->session->options.no_cache && !ct_target_cache_find(cache, sizeof cache, true);
    options.filter =
        (struct ct_target_filter){.only = r->session->options.only, .exclude = r->session->options.exclude};
    options.cache_dir = cached ? cache : NULL;
    options.cache_bytes = r->session->options.cache_size;
    options.detail = r->session->options.detail != CT_SESSION_DETAIL_OFF;
    options.fast_clock = r->session->options.fast_clock != 0;
    options.guess = r->session->options.guess != 0;
    options.sample = r->session->options.sample > 1;
    options.always = has_trigger;
    options.always_arg = r->session;
    if (r->session->options.stalk) { /* names of all functions; exclusions apply when following */
        options.filter = (struct ct_target_filter){0};
        options.names_only = true;
    }
    uint64_t start = ct_clock_now();
    struct ct_target_plan *plan = NULL;
    int status = ct_target_plan_make(&plan, r->remote, &options, &error);
    if (status)
        return ct_recording_fail(r, status, "%s", error.text[0] ? error.text : ct_status_text(status));
    r->times.plan_ns += ct_clock_now() - start;
    if (r->session->options.stalk)
        ct_follower.plan(plan);
    struct ct_shared_plan *shared = calloc(1, sizeof *shared);
    uint64_t *ids = malloc(plan->hook_count * sizeof *ids + 1);
    if (!shared || !ids) {
        free(shared);
        free(ids);
        ct_target_plan_free(plan);
        return ct_recording_fail(r, CT_ERR_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < plan->hook_count; i++)
        ids[i] = plan->hooks[i].function_id;
    *shared = (struct ct_shared_plan){.plan = plan, .function_ids = ids, .users = 1};
    *out = shared;
    return 0;
}

static bool is_given_up(void *recording) {
    return ct_recording_progress(recording, "planning") != 0;
}

static int make_plan(struct ct_recording *r) {
    struct ct_shared_plan *shared;
    const struct ct_target_plan_options options = {.given_up = is_given_up, .given_up_arg = r};
    int status = ct_recording_make_plan(r, options, &shared);
    if (status)
        return status;
    ct_recording_share(r, shared);
    ct_recording_release(shared); /* the recording holds it now */
    r->modules.next_module = (uint32_t)shared->plan->module_count;
    r->modules.next_hook = (uint32_t)shared->plan->hook_count;
    return 0;
}

/* ---- files ---- */

static int make_directory(struct ct_recording *r) {
    char name[32];
    int status = ct_trace_make_process(&r->trace.place, r->session->place, r->pid, name, sizeof name);
    if (!status)
        snprintf(r->trace.directory, sizeof r->trace.directory, "%s/%s", r->session->directory, name);
    return status;
}

static void *write_names(void *recording) {
    struct ct_recording *r = recording;
    r->names.status = r->trace.place ? 0 : make_directory(r);
    if (!r->names.status)
        r->names.status = ct_manifest_write_symbols(r);
    return NULL;
}

static int finish_names(struct ct_recording *r) {
    int status = r->names.status ? r->names.status : ct_manifest_write(r, false);
    const char *remedy, *why = ct_file_why(status, &remedy);
    if (status)
        return ct_recording_fail(r, status, "the trace cannot be written to %s (%s); %s", r->session->directory, why,
                                 remedy);
    return 0;
}

void ct_recording_begin_names(struct ct_recording *r) {
    if (r->trace.place) /* they are there */
        return;
    r->names.begun = true;
    r->names.runs = pthread_create(&r->names.thread, NULL, write_names, r) == 0;
    if (!r->names.runs)
        (void)write_names(r);
}

int ct_recording_end_names(struct ct_recording *r) {
    if (!r->names.begun)
        return 0;
    if (r->names.runs)
        pthread_join(r->names.thread, NULL);
    r->names.begun = false;
    return finish_names(r);
}

/* What a follower does by itself. */
static bool begins_names_later(const struct ct_recording *r) {
    return r->session->options.stalk && ct_remote_is_stopped(r->remote) && !r->trace.place;
}

static int begin_trace(struct ct_recording *r) {
    if (begins_names_later(r))
        return 0;
    (void)write_names(r);
    return finish_names(r);
}

/* Removes a directory that has no event yet. */
static void drop_trace(struct ct_recording *r) {
    static const char *const files[] = {"manifest.json", "symbols"};
    static const char *const indexes[] = {"index.ctp",        "index.atf",      "index_000001.ctp",
                                          "index_000001.atf", CT_SWITCHES_FILE, CT_WAITS_FILE};
    char name[64];
    if (!r->trace.place)
        return;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        (void)ct_place_remove(r->trace.place, files[i]);
    for (const struct ct_drain_thread *t = r->drain.threads; t; t = t->next) {
        for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++) {
            snprintf(name, sizeof name, "thread_%u/%s", t->id, indexes[i]);
            (void)ct_place_remove(r->trace.place, name);
        }
        snprintf(name, sizeof name, "thread_%u", t->id);
        (void)ct_place_remove_directory(r->trace.place, name);
    }
    (void)ct_place_remove_directory(r->session->place, strrchr(r->trace.directory, '/') + 1);
    ct_place_drop(r->trace.place);
    r->trace.place = NULL;
    r->trace.directory[0] = 0;
}

/* ---- hooking ---- */

static void write_manifest_sometimes(void *arg) {
    struct ct_recording *r = arg;
    ct_lane_refill_budgets(&r->lane, r->lane.hook_room);
    ct_recording_look_at_code(r);
    (void)ct_manifest_write(r, false);
}

/* The process is stopped: it makes no threads meanwhile. Without the kernel's permission it is recorded too. */
static void open_switches(struct ct_recording *r) {
    uint64_t keep = r->session->options.keep_bytes, limit = CT_SWITCHES_LIMIT;
    if (!r->session->options.cpu)
        return;
    if (r->session->options.keep_bytes || r->session->options.keep_ns)
        limit = keep && keep / KEEP_SHARE < KEEP_MOST ? keep / KEEP_SHARE : KEEP_MOST;
    int status = ct_switches_open(&r->drain.switches, r->pid, limit, r->cpu.why_not);
    if (status && r->origin <= CT_ORIGIN_ATTACH && !r->session->note[0])
        snprintf(r->session->note, sizeof r->session->note, "--cpu has no effect: %s", r->cpu.why_not);
}

static int start_drain(struct ct_recording *r) {
    while (ct_clock_now() - r->clock.first.ns < MIN_CLOCK_SPAN)
        usleep(500);
    ct_clock_calibrate(&r->clock);
    r->drain = (struct ct_drain){
        .lane = &r->lane,
        .clock = &r->clock,
        .function_ids = r->modules.all_ids ? r->modules.all_ids : r->shared->function_ids,
        .hook_count = r->modules.next_hook,
        .place = r->trace.place,
        .pid = r->pid,
        .other_namespace = ct_remote_inner_pid(r->remote) != r->pid,
        .inner_pid = ct_remote_inner_pid(r->remote),
        .interval_ms = r->session->options.drain_interval_ms,
        .wait_ms = __atomic_load_n(&r->session->wait_ms, __ATOMIC_RELAXED),
        .format = {r->session->options.format, r->session->segments},
        .every_second = write_manifest_sometimes,
        .every_second_arg = r,
        .windows = &r->windows,
        .on_pass = ct_recording_on_pass,
        .on_pass_arg = r,
        .trigger_text = ct_recording_trigger_text,
        .trigger_arg = r,
        .resolve_arg = r,
    };
    ct_follower.join_drain(r, &r->drain);
    open_switches(r);
    const struct ct_windows_options windows = ct_windows_options_of(&r->session->options);
    ct_windows_init(&r->windows, &windows);
    ct_windows_start(&r->windows, ct_clock_now());
    ct_lane_refill_budgets(&r->lane, r->lane.hook_room);
    ct_recording_apply_policy(r);
    (void)ct_recording_switch(r); /* what fails is tried again while it runs */
    int status = ct_drain_start(&r->drain);
    return status ? ct_recording_fail(r, status, "recording could not be started (%s)", ct_status_text(status)) : 0;
}

static struct ct_injection_options injection_options(const struct ct_recording *r) {
    const struct ct_session_options *o = &r->session->options;
    size_t memory = o->detail_memory ? o->detail_memory : DEFAULT_DETAIL; /* 0 stays: the default does not grow */
    return (struct ct_injection_options){
        .lane = {.index_memory = o->index_memory,
                 .lossless = o->lossless,
                 .fast_clock = o->fast_clock != 0,
                 .detail_memory = o->detail == CT_SESSION_DETAIL_OFF ? 0 : memory,
                 .detail_grows = o->detail == CT_SESSION_DETAIL_MARKED && ct_windows_options_of(o).grows,
                 .stack_bytes = o->stack_bytes < 0 ? 0 : (uint32_t)o->stack_bytes,
                 .detail_rate = o->detail_rate,
                 .sample = o->sample > 1 ? (uint32_t)o->sample : 0,
                 .vectors = o->vectors,
                 .reals = !o->vectors && !o->redact,
                 .strings = ((uint32_t)o->strings + 7) & ~7u},
        .max_depth = o->max_depth,
    };
}

/* Plans and injects; tries once more if something else was mapped meanwhile where a region belongs. */
static int enter_target(struct ct_recording *r) {
    struct ct_injection_options options = injection_options(r);
    int status = ct_recording_fit(r, &options.lane);
    if (status)
        return status;
    options.lane.errno_offset = r->plan->errno_offset;
    for (int tries = 0;; tries++) {
        struct ct_remote_error error = {""};
        status = ct_recording_stop(r);
        if (status)
            return status;
        status = ct_inject(&r->injection, r->remote, r->plan, &r->lane, &options, &error);
        if (!status)
            return 0;
        ct_lane_destroy(&r->lane);
        if (status != CT_ERR_BUSY || error.text[0] == 0 || tries == REPLANS)
            return error.text[0] ? ct_recording_fail(r, status, "%s", error.text) : status;
        if (r->origin == CT_ORIGIN_ATTACH)
            (void)ct_recording_go_on(r, CT_WAIT_START);
        if ((status = make_plan(r)) || (status = ct_manifest_write_symbols(r)))
            return status;
    }
}

/* Undoes a start that failed: the target runs on as if nothing had happened. */
static void withdraw(struct ct_recording *r) {
    bool clean;
    ct_requests_stop(r);
    if (r->remote && r->injection.image && !ct_recording_stop(r))
        (void)ct_recording_clean(r, &clean);
    if (r->remote && ct_remote_is_stopped(r->remote))
        (void)ct_remote_resume(r->remote);
    if (r->lane.control)
        r->lane.control->recording = 0;
    (void)ct_drain_finish(&r->drain);
    drop_trace(r);
}

static int install_in_target(struct ct_recording *r) {
    uint64_t start = ct_clock_now();
    struct ct_remote_error error = {""};
    int status = check_time(r, start, "planning");
    if (!status && r->origin == CT_ORIGIN_ATTACH)
        status = ct_recording_clean_after_others(r);
    if (!status)
        status = make_plan(r);
    if (!status)
        status = check_time(r, start, "planning");
    if (!status)
        status = begin_trace(r);
    if (!status && !r->session->options.stalk && r->origin <= CT_ORIGIN_ATTACH)
        ct_recording_note_filters(r); /* a process that was attached to still runs */
    ct_remote_limit(r->remote, (unsigned)limit_ms(r), NULL, NULL);
    if (!status)
        status = r->session->options.stalk ? ct_follower.install(r) : enter_target(r);
    if (r->names.begun)
        (void)ct_recording_end_names(r); /* it failed before it came to that */
    if (!status)
        status = check_time(r, start, "hooking");
    if (!status)
        status = start_drain(r);
    if (!status && (status = ct_requests_start(r)))
        ct_recording_fail(r, status, "%s", ct_status_text(status));
    if (!status && !r->stalk && (status = ct_inject_hooks(&r->injection, &error)))
        ct_recording_fail(r, status, "%s", error.text);
    if (!status)
        status = check_time(r, start, "hooking");
    ct_remote_limit(r->remote, 0, NULL, NULL); /* it may stay stopped until the user resumes it */
    return status;
}

int ct_recording_install(struct ct_recording *r) {
    int status = install_in_target(r);
    if (status) {
        withdraw(r);
        return status;
    }
    if (r->origin <= CT_ORIGIN_ATTACH)
        ct_recording_note_triggers(r);
    if (r->origin != CT_ORIGIN_ATTACH)
        ct_recording_note_install(r);
    return 0;
}

void ct_recording_note_install(struct ct_recording *r) {
    ct_recording_look_at_code(r);
    (void)ct_manifest_write(r, false);
}

/* ---- forked children ---- */

/* The names are the parent's: they are not written twice. */
static int begin_forked_trace(struct ct_recording *r, const struct ct_recording *parent) {
    int status = make_directory(r);
    if (status)
        return ct_recording_fail(r, status, "the trace cannot be written to %s", r->session->directory);
    if (ct_place_link(parent->trace.place, "symbols", r->trace.place, "symbols"))
        status = ct_manifest_write_symbols(r);
    return status ? status : ct_manifest_write(r, false);
}

static int install_forked(struct ct_recording *r, struct ct_recording *parent) {
    struct ct_injection_options options = injection_options(r);
    struct ct_remote_error error = {""};
    ct_recording_share(r, parent->shared);
    options.lane.errno_offset = r->plan->errno_offset;
    int status = ct_recording_inherit_modules(r, parent);
    if (!status && !parent->stalk)
        status = ct_recording_fit(r, &options.lane);
    if (!status)
        status = begin_forked_trace(r, parent);
    if (!status)
        status = ct_recording_stop(r);
    if (!status && !ct_confirm_maps(parent, r->pid)) /* it has executed a program meanwhile: nothing of ours is there */
        status = CT_ERR_NOT_FOUND;
    if (!status && parent->stalk)
        status = ct_follower.install_forked(r, parent);
    else if (!status &&
             (status = ct_inject_lane(&r->injection, r->remote, &parent->injection, &r->lane, &options, &error)))
        ct_recording_fail(r, status, "%s", error.text);
    if (!status)
        ct_recording_budget_inherit(r, parent);
    if (!status)
        status = start_drain(r);
    return status ? status : ct_requests_start(r);
}

/* The child waits for us inside the agent: whatever fails, it runs on unrecorded. */
int ct_recording_install_forked(struct ct_recording *r, struct ct_recording *parent) {
    ct_remote_limit(r->remote, CT_RECORDING_STILL_MS, NULL, NULL);
    int status = install_forked(r, parent);
    ct_remote_limit(r->remote, 0, NULL, NULL);
    if (!status) {
        ct_recording_look_at_code(r);
        return 0;
    }
    ct_requests_stop(r);
    if (ct_remote_is_stopped(r->remote))
        (void)ct_remote_resume(r->remote);
    (void)ct_drain_finish(&r->drain);
    drop_trace(r);
    return status;
}
