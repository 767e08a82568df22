/* How a session gets into its target: plan, stop, inject, hook. session_leave.c has the way back.
 * Runs on the session's thread; between stop and resume the target stands still, so only what must happen there does. */
#include "ctl/session_parts.h"
#include "remote/frames.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPLANS         4
#define LIMIT_BASE_MS   10000u
#define PER_FUNCTION_US 500u
#define MIN_CLOCK_SPAN  5000000ull /* of the first two calibrations */

/* ---- the time it may take ---- */

static uint64_t limit_ms(const struct ct_session *s) {
    if (s->options.startup_timeout_ms)
        return s->options.startup_timeout_ms;
    uint64_t functions = 0;
    for (size_t i = 0; s->plan && i < s->plan->module_count; i++)
        functions += s->plan->modules[i].function_count;
    return LIMIT_BASE_MS + functions * PER_FUNCTION_US / 1000;
}

static int check_time(struct ct_session *s, uint64_t start, const char *step) {
    int status = ct_session_report_progress(s, step, 0, 0);
    if (status)
        return status;
    uint64_t limit = limit_ms(s), spent = (ct_clock_now() - start) / 1000000;
    if (spent < limit)
        return 0;
    return ct_session_fail(s, CT_ERR_TIMEOUT,
                           "hooking took longer than %llu ms; the program runs on without hooks: allow more with "
                           "--startup-timeout S",
                           (unsigned long long)limit);
}

/* ---- planning ---- */

/* ~/.cache/contrail, as the user's environment has it. */
static bool cache_directory(char *path, size_t size) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (cache && cache[0] == '/')
        length = snprintf(path, size, "%s", cache);
    else if (home && home[0] == '/')
        length = snprintf(path, size, "%s/.cache", home);
    if (length < 0 || (size_t)length + 10 >= size)
        return false;
    (void)mkdir(path, 0700);
    strcat(path, "/contrail");
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static int make_plan(struct ct_session *s) {
    char cache[PATH_MAX];
    struct ct_remote_error error = {""};
    bool cached = !s->options.no_cache && cache_directory(cache, sizeof cache);
    const struct ct_target_plan_options options = {
        .filter = {.only = s->options.only, .exclude = s->options.exclude},
        .cache_dir = cached ? cache : NULL,
    };
    uint64_t start = ct_clock_now();
    struct ct_target_plan *plan = NULL;
    int status = ct_target_plan_make(&plan, s->remote, &options, &error);
    if (status)
        return ct_session_fail(s, status, "%s", error.text[0] ? error.text : ct_status_text(status));
    pthread_mutex_lock(&s->mutex);
    ct_target_plan_free(s->plan);
    s->plan = plan;
    pthread_mutex_unlock(&s->mutex);
    s->plan_ns += ct_clock_now() - start;
    free(s->function_ids);
    s->function_ids = malloc(plan->hook_count * sizeof *s->function_ids + 1);
    if (!s->function_ids)
        return ct_session_fail(s, CT_ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < plan->hook_count; i++)
        s->function_ids[i] = plan->hooks[i].function_id;
    return 0;
}

/* ---- files ---- */

/* A process that this session has recorded before gets a session's directory of its own. */
static int make_directory(struct ct_session *s) {
    char other[sizeof s->directory];
    int status = ct_trace_make_process(s->directory, s->pid, s->process_directory, sizeof s->process_directory);
    if (status && errno == EEXIST && !ct_trace_make_session(s->options.output, other, sizeof other)) {
        strcpy(s->directory, other);
        status = ct_trace_make_process(s->directory, s->pid, s->process_directory, sizeof s->process_directory);
    }
    if (status)
        s->process_directory[0] = 0; /* whatever is there is not ours to remove */
    return status;
}

static int begin_trace(struct ct_session *s) {
    int status = 0;
    if (!s->process_directory[0])
        status = make_directory(s);
    if (!status)
        status = ct_manifest_write_symbols(s);
    if (!status)
        status = ct_manifest_write(s, false);
    if (status)
        return ct_session_fail(s, status,
                               "the trace cannot be written to %s (%s); choose another place with --output DIR",
                               s->directory, status == CT_ERR_NO_SPACE ? "the disk is full" : ct_status_text(status));
    return 0;
}

/* A directory that holds no event yet. */
static void drop_trace(struct ct_session *s) {
    static const char *const files[] = {"manifest.json", "symbols"};
    char path[sizeof s->process_directory + 32];
    if (!s->process_directory[0])
        return;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", s->process_directory, files[i]);
        (void)unlink(path);
    }
    for (const struct ct_drain_thread *t = s->drain.threads; t; t = t->next) {
        snprintf(path, sizeof path, "%s/thread_%u/index.atf", s->process_directory, t->id);
        (void)unlink(path);
        snprintf(path, sizeof path, "%s/thread_%u", s->process_directory, t->id);
        (void)rmdir(path);
    }
    (void)rmdir(s->process_directory);
    s->process_directory[0] = 0;
}

/* ---- hooking ---- */

static void write_manifest_sometimes(void *arg) {
    (void)ct_manifest_write(arg, false);
}

static int start_drain(struct ct_session *s) {
    while (ct_clock_now() - s->clock.first.ns < MIN_CLOCK_SPAN)
        usleep(500);
    ct_clock_calibrate(&s->clock);
    s->drain = (struct ct_drain){
        .lane = &s->lane,
        .clock = &s->clock,
        .function_ids = s->function_ids,
        .hook_count = s->plan->hook_count,
        .directory = s->process_directory,
        .pid = s->pid,
        .other_namespace = ct_remote_inner_pid(s->remote) != s->pid,
        .interval_ms = s->options.drain_interval_ms,
        .every_second = write_manifest_sometimes,
        .every_second_arg = s,
    };
    int status = ct_drain_start(&s->drain);
    return status ? ct_session_fail(s, status, "recording could not be started (%s)", ct_status_text(status)) : 0;
}

/* Plans and injects; should a place be taken meanwhile, once more. */
static int enter_target(struct ct_session *s) {
    const struct ct_injection_options options = {
        .index_memory = s->options.index_memory,
        .max_depth = s->options.max_depth,
        .lossless = s->options.lossless,
    };
    for (int tries = 0;; tries++) {
        struct ct_remote_error error = {""};
        int status = ct_session_stop_target(s);
        if (status)
            return status;
        status = ct_inject(&s->injection, s->remote, s->plan, &s->lane, &options, &error);
        if (!status)
            return 0;
        ct_lane_destroy(&s->lane);
        if (status != CT_ERR_BUSY || error.text[0] == 0 || tries == REPLANS)
            return error.text[0] ? ct_session_fail(s, status, "%s", error.text) : status;
        if (!s->spawned)
            (void)ct_remote_resume(s->remote);
        if ((status = make_plan(s)) || (status = ct_manifest_write_symbols(s)))
            return status;
    }
}

/* The undoing of a start that failed: the target runs on as if nothing had been. */
static void withdraw(struct ct_session *s) {
    bool clean;
    if (s->remote && s->injection.image && !ct_session_stop_target(s))
        (void)ct_session_clean(s, &clean);
    if (s->remote && ct_remote_is_stopped(s->remote))
        (void)ct_remote_resume(s->remote);
    if (s->lane.control)
        s->lane.control->recording = 0;
    (void)ct_drain_finish(&s->drain);
    drop_trace(s);
}

static int install(struct ct_session *s) {
    uint64_t start = ct_clock_now();
    struct ct_remote_error error = {""};
    int status = check_time(s, start, "planning");
    if (!status && !s->spawned)
        status = ct_session_clean_behind_others(s);
    if (!status)
        status = make_plan(s);
    if (!status)
        status = check_time(s, start, "planning");
    if (!status)
        status = begin_trace(s);
    if (!status)
        status = enter_target(s);
    if (!status)
        status = check_time(s, start, "hooking");
    if (!status)
        status = start_drain(s);
    if (!status && (status = ct_inject_hooks(&s->injection, &error)))
        ct_session_fail(s, status, "%s", error.text);
    if (!status)
        status = check_time(s, start, "hooking");
    if (!status)
        status = ct_control_start(s);
    return status;
}

int ct_session_install(struct ct_session *s) {
    int status = install(s);
    if (status) {
        withdraw(s);
        return status;
    }
    (void)ct_manifest_write(s, false);
    return 0;
}
