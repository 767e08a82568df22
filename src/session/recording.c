/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a recording, except for getting into its target and out again. See recording.h. */
#include "session/recording.h"
#include "session/children.h"
#include "session/control.h"
#include "session/crash_watch.h"
#include "session/follower.h"
#include "session/manifest.h"
#include "session/recording_install.h"
#include "trace/file.h"
#include "symbols/functions.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_NS 200000000ull

struct ct_recording *ct_recording_create(struct ct_session *s, enum ct_recording_origin origin) {
    struct ct_recording *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->session = s;
    r->origin = origin;
    r->lane.fd = -1;
    r->end.exit_status = -1;
    r->end.reason = "";
    pthread_mutex_init(&r->mutex, NULL);
    pthread_mutex_init(&r->work, NULL);
    pthread_mutex_init(&r->files, NULL);
    ct_clock_start(&r->clock);
    return r;
}

/* ---- plans ---- */

void ct_recording_release(struct ct_shared_plan *shared) {
    if (!shared || __atomic_sub_fetch(&shared->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    ct_target_plan_free(shared->plan);
    free(shared->function_ids);
    free(shared);
}

static void release_plan(struct ct_recording *r) {
    struct ct_shared_plan *shared = r->shared;
    r->shared = NULL;
    r->plan = NULL;
    ct_recording_release(shared);
    ct_recording_drop_modules(r);
}

void ct_recording_share(struct ct_recording *r, struct ct_shared_plan *shared) {
    pthread_mutex_lock(&r->mutex);
    release_plan(r);
    __atomic_add_fetch(&shared->users, 1, __ATOMIC_ACQ_REL);
    r->shared = shared;
    r->plan = shared->plan;
    pthread_mutex_unlock(&r->mutex);
}

/* ---- errors and progress ---- */

int ct_recording_fail(struct ct_recording *r, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->error, sizeof r->error, format, arguments);
    va_end(arguments);
    return status;
}

/* Children start while the session's thread does something else: the user waits for the first process only. */
int ct_recording_progress(struct ct_recording *r, const char *step) {
    const struct ct_session_options *o = &r->session->options;
    if (r->origin > CT_ORIGIN_ATTACH || !o->progress)
        return 0;
    r->given_up = r->given_up || o->progress(o->progress_arg, step, 0, 0); /* the next caller sees it too */
    if (!r->given_up)
        return 0;
    return ct_recording_fail(r, CT_ERR_TIMEOUT, "given up while %s; the program runs on without hooks", step);
}

/* ---- what is not recorded ---- */

void ct_recording_miss(struct ct_recording *r, int pid, const char *program, const char *reason) {
    pthread_mutex_lock(&r->mutex);
    struct ct_missed *list =
        r->missed.count < CT_MISSED_LIST ? realloc(r->missed.items, (r->missed.count + 1) * sizeof *list) : NULL;
    r->missed.items = list ? list : r->missed.items;
    struct ct_missed one = {pid, list ? strdup(program) : NULL, list ? strdup(reason) : NULL};
    if (one.program && one.reason) {
        r->missed.items[r->missed.count++] = one;
    } else {
        free(one.program);
        free(one.reason);
    }
    pthread_mutex_unlock(&r->mutex);
    ct_children_miss(r->session, reason);
}

static void free_missed(struct ct_recording *r) {
    for (size_t i = 0; i < r->missed.count; i++) {
        free(r->missed.items[i].program);
        free(r->missed.items[i].reason);
    }
    free(r->missed.items);
}

/* ---- running ---- */

/* Callers that wanted something before this have not applied it to the process, because it did not run. */
static void apply_pending(struct ct_recording *r) {
    ct_recording_bring_policy(r); /* what fails is tried again while it runs */
    (void)ct_crash_watch_begin(r);
    __atomic_store_n(&r->paused, ct_control_wants_pause(r->session), __ATOMIC_RELAXED);
}

void ct_recording_resume(struct ct_recording *r) {
    /* The process may write a request at once: the request thread must not find it half resumed. */
    pthread_mutex_lock(&r->work);
    bool first = !r->times.resumed_at;
    if (first)
        r->times.resumed_at = ct_clock_now();
    apply_pending(r);
    /* The thread that waits for the process notices if it was killed meanwhile. */
    if (!r->paused)
        (void)ct_recording_go_on(r, first ? CT_WAIT_START : CT_WAIT_PAUSE);
    if (first)
        r->times.pause_ns = ct_clock_now() - r->times.stopped_at;
    ct_recording_budget_begin(r);
    pthread_mutex_unlock(&r->work);
    if (first && r->origin == CT_ORIGIN_ATTACH)
        ct_recording_note_install(r);
}

/* A process that is ending has also lost its memory, while the kernel closes its files: it has no program then. */
static bool has_program(int pid) {
    char path[64], name[8];
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    return readlink(path, name, sizeof name) >= 0 || errno == EACCES || errno == EPERM;
}

bool ct_recording_was_replaced(struct ct_recording *r) {
    uint64_t now = ct_clock_now();
    if (__atomic_load_n(&r->end.replaced, __ATOMIC_ACQUIRE))
        return true;
    if (now - r->times.checked_at < CHECK_NS)
        return false;
    r->times.checked_at = now;
    struct pollfd p = {.fd = ct_remote_pidfd(r->remote), .events = POLLIN};
    return !ct_remote_is_alive(r->remote) && has_program(r->pid) && poll(&p, 1, 0) == 0;
}

/* ---- the end ---- */

const char *ct_recording_note_exit(struct ct_recording *r, int status) {
    r->end.exit_status = status;
    return status >= 0 && WIFSIGNALED(status) ? "signal" : "exit";
}

static void release_target(struct ct_recording *r) {
    ct_recording_budget_stop(r);
    ct_requests_stop(r);
    ct_crash_watch_end(r);
    (void)ct_drain_finish(&r->drain);
    pthread_mutex_lock(&r->work);
    pthread_mutex_lock(&r->mutex);
    ct_drain_free(&r->drain);
    ct_windows_free(&r->windows);
    ct_recording_budget_free(r);
    if (r->lane.control) /* a child that has not been seen yet must not wait for us */
        __atomic_store_n(&r->lane.control->recording, 0, __ATOMIC_RELEASE);
    ct_follower.free(r);
    ct_lane_destroy(&r->lane);
    release_plan(r);
    r->injection = (struct ct_injection){0};
    pthread_mutex_unlock(&r->mutex);
    if (r->remote)
        ct_remote_close(r->remote);
    r->remote = NULL;
    pthread_mutex_unlock(&r->work);
    ct_crash_watch_free(r);
}

void ct_recording_note_end(struct ct_recording *r) {
    uint64_t none = 0;
    (void)__atomic_compare_exchange_n(&r->times.ended_at, &none, ct_clock_now(), false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE);
}

int ct_recording_finish(struct ct_recording *r, const char *reason) {
    ct_recording_budget_stop(r);
    ct_recording_note_end(r);
    r->times.recorded_ns = r->times.resumed_at ? r->times.ended_at - r->times.resumed_at : 0;
    bool replaced = __atomic_load_n(&r->end.replaced, __ATOMIC_ACQUIRE);
    r->end.reason = replaced ? "exec" : reason;
    r->end.exit_status = replaced ? -1 : r->end.exit_status; /* that of the other program */
    r->drain.ended_ns = r->times.ended_at;
    r->drain.detached = !strcmp(r->end.reason, "detach");
    ct_recording_look_at_code(r);
    ct_requests_stop(r);
    ct_crash_watch_end(r);
    if (r->end.exit_status >= 0 && WIFSIGNALED(r->end.exit_status))
        snprintf(r->drain.end_mark, sizeof r->drain.end_mark, "end: killed by SIG%s",
                 sigabbrev_np(WTERMSIG(r->end.exit_status)) ? sigabbrev_np(WTERMSIG(r->end.exit_status)) : "RT");
    int status = ct_drain_finish(&r->drain);
    (void)ct_follower.write_tables(r);
    if (r->plan) {
        int written = ct_manifest_write(r, true);
        status = status ? status : written;
    }
    const char *remedy, *why = ct_file_why(status, &remedy);
    if (status)
        ct_recording_fail(r, status, "the trace in %s could not be written completely (%s); %s", r->trace.directory,
                          why, remedy);
    struct ct_session_statistics last;
    ct_recording_statistics(r, &last); /* kept in r->last */
    release_target(r);
    return status;
}

void ct_recording_read_program(struct ct_recording *r) {
    char path[64], file[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", r->pid);
    ssize_t length = readlink(path, file, sizeof file - 1);
    file[length > 0 ? length : 0] = 0;
    const char *slash = strrchr(file, '/');
    snprintf(r->command_line, sizeof r->command_line, "%s", slash ? slash + 1 : file);
}

void ct_recording_destroy(struct ct_recording *r) {
    if (!r)
        return;
    release_target(r);
    free_missed(r);
    free(r->waits.items);
    ct_place_drop(r->trace.place);
    ct_recording_free_code(r);
    pthread_mutex_destroy(&r->mutex);
    pthread_mutex_destroy(&r->work);
    pthread_mutex_destroy(&r->files);
    free(r);
}

/* ---- numbers ---- */

/* Linkage stubs and parts of functions do not count as functions. */
static bool is_function(int reason) {
    return reason != CT_HOOK_SKIP_PLT && reason != CT_HOOK_SKIP_COLD && reason != CT_HOOK_SKIP_FRAGMENT &&
           reason != CT_HOOK_SKIP_ODD_ENTRY;
}

/* Functions that tables have, not guesses. */
static uint64_t count_named(const struct ct_target_module *m) {
    uint64_t count = 0;
    for (size_t i = 0; i < m->function_count; i++)
        count += !(m->functions[i].flags & CT_FUNC_GUESSED);
    return count;
}

static void count_module(void *arg, const struct ct_target_module *m) {
    struct ct_session_statistics *out = arg;
    const struct ct_target_bytes bytes = ct_target_module_bytes(m);
    if (ct_target_is_poor(&bytes, m->id == 1)) {
        out->poor_modules++;
        out->poor_functions += count_named(m);
        out->poor_bytes += bytes.code;
    }
    out->modules++;
    out->functions += m->function_count;
    out->hooked += m->hooked;
    out->entry_only += m->entry_only;
    out->read_code += m->skipped[CT_HOOK_SKIP_READ_CODE];
    for (int k = 0; k < CT_HOOK_SKIP_COUNT; k++)
        *(is_function(k) ? &out->skipped : &out->functions) += is_function(k) ? m->skipped[k] : 0 - m->skipped[k];
}

static void count_modules(const struct ct_recording *r, struct ct_session_statistics *out) {
    out->modules = out->functions = out->hooked = out->entry_only = out->skipped = out->read_code = 0;
    out->poor_modules = out->poor_functions = out->poor_bytes = 0;
    ct_recording_each_module(r, count_module, out);
}

void ct_recording_statistics(struct ct_recording *r, struct ct_session_statistics *out) {
    bool traced = ct_crash_watch_is_wanted(r);
    pthread_mutex_lock(&r->mutex);
    if (r->drain.threads_end) {
        pthread_mutex_lock(&r->drain.mutex);
        r->last = r->drain.statistics;
        pthread_mutex_unlock(&r->drain.mutex);
        r->last.written_until_ns = __atomic_load_n(&r->drain.written_ns, __ATOMIC_ACQUIRE);
    }
    if (r->plan)
        count_modules(r, &r->last);
    ct_follower.put_statistics(r, &r->last);
    ct_recording_budget_count(r, &r->last);
    r->last.signals = r->tracing.watch ? ct_crash_watch_count(r) : r->last.signals;
    r->last.traced = traced;
    r->last.plan_ns = r->times.plan_ns;
    r->last.pause_ns = r->times.pause_ns;
    r->last.recording_ns = r->times.recorded_ns  ? r->times.recorded_ns
                           : r->times.resumed_at ? ct_clock_now() - r->times.resumed_at
                                                 : 0;
    *out = r->last;
    pthread_mutex_unlock(&r->mutex);
}
