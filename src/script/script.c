/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a script's target: see script.h. */
#include "script/script.h"
#include "remote/namespace.h"
#include "script/script_guest.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define START_MS 10000u

int ct_script_fail(struct ct_script *s, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&s->text);
    vsnprintf(s->error, sizeof s->error, format, arguments);
    pthread_mutex_unlock(&s->text);
    va_end(arguments);
    return status;
}

void ct_script_error(struct ct_script *s, char *text, size_t size) {
    pthread_mutex_lock(&s->text);
    snprintf(text, size, "%s", s->error);
    pthread_mutex_unlock(&s->text);
}

void ct_script_forget_error(struct ct_script *s) {
    pthread_mutex_lock(&s->text);
    s->error[0] = 0;
    pthread_mutex_unlock(&s->text);
}

/* ---- beginning ---- */

static struct ct_script *create(const struct ct_script_options *options) {
    struct ct_script *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    if (options)
        memcpy(&s->options, options, options->size < sizeof *options ? options->size : sizeof *options);
    s->lane.fd = -1;
    s->exit_status = -1;
    s->trust = 1;
    s->drain_interval_ms = 250;
    pthread_mutex_init(&s->work, NULL);
    pthread_mutex_init(&s->slots, NULL);
    pthread_mutex_init(&s->text, NULL);
    pthread_mutex_init(&s->worker, NULL);
    return s;
}

static void destroy(struct ct_script *s) {
    ct_script_stop_service(s);
    ct_script_guest_free(s);
    ct_lane_destroy(&s->lane);
    if (s->remote && !s->borrowed)
        ct_remote_close(s->remote);
    for (size_t i = 0; i < s->plan_count; i++)
        ct_target_plan_free(s->plans[i].plan);
    free(s->plans);
    free(s->hooked);
    free(s->memory);
    for (size_t i = 0; i < CT_SCRIPT_COUNTERS; i++)
        free(s->counters[i]);
    pthread_mutex_destroy(&s->work);
    pthread_mutex_destroy(&s->slots);
    pthread_mutex_destroy(&s->text);
    pthread_mutex_destroy(&s->worker);
    ct_script_free_lists(s);
    free(s);
}

static int begin(struct ct_script *s, struct ct_script **out, char *error, size_t error_size) {
    s->pid = ct_remote_pid(s->remote);
    s->other_namespace = ct_remote_inner_pid(s->remote) != s->pid;
    int status = ct_script_enter(s);
    if (!status) {
        *out = s;
        return 0;
    }
    if (error)
        snprintf(error, error_size, "%s", s->error[0] ? s->error : ct_status_text(status));
    destroy(s); /* which lets a stopped process run */
    return status;
}

static int refuse(struct ct_script *s, int status, const char *text, char *error, size_t error_size) {
    if (error)
        snprintf(error, error_size, "%s", text[0] ? text : ct_status_text(status));
    if (s)
        destroy(s);
    return status;
}

int ct_script_attach(struct ct_script **out, int pid, const struct ct_script_options *options, char *error,
                     size_t error_size) {
    struct ct_remote_error why = {""};
    struct ct_script *s = create(options);
    int status = s ? ct_remote_open(&s->remote, pid, &why) : CT_ERR_NO_MEMORY;
    return status ? refuse(s, status, why.text, error, error_size) : begin(s, out, error, error_size);
}

static void limit_files(int pid, uint32_t most) {
    struct rlimit limit;
    if (prlimit(pid, RLIMIT_NOFILE, NULL, &limit))
        return;
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    (void)prlimit(pid, RLIMIT_NOFILE, &limit, NULL);
}

int ct_script_spawn(struct ct_script **out, const char *path, char *const *argv, char *const *envp,
                    const struct ct_script_options *options, char *error, size_t error_size) {
    struct ct_remote_error why = {""};
    struct ct_remote_spawn what = {.path = path, .argv = argv, .envp = envp};
    struct ct_script *s = create(options);
    if (s && s->options.set_signals) {
        sigset_t mask;
        (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
        what.set_signals = true;
        what.ignored_signals = s->options.ignored_signals;
        memcpy(&what.signal_mask, &mask, sizeof what.signal_mask);
    }
    int status = s ? ct_remote_spawn(&s->remote, &what, START_MS, &why) : CT_ERR_NO_MEMORY;
    if (status)
        return refuse(s, status, why.text, error, error_size);
    s->spawned = true;
    if (s->options.open_files)
        limit_files(ct_remote_pid(s->remote), s->options.open_files);
    return begin(s, out, error, error_size);
}

int ct_script_join(struct ct_script **out, struct ct_remote *remote, char *error, size_t error_size) {
    struct ct_script *s = create(NULL);
    if (!s)
        return refuse(s, CT_ERR_NO_MEMORY, "", error, error_size);
    s->remote = remote;
    s->borrowed = true;
    return begin(s, out, error, error_size);
}

int ct_script_resume(struct ct_script *s) {
    pthread_mutex_lock(&s->work);
    int status = s->spawned && !s->resumed ? ct_remote_resume(s->remote) : CT_ERR_BAD_STATE;
    if (!status)
        s->resumed = true;
    pthread_mutex_unlock(&s->work);
    return status == CT_ERR_BAD_STATE ? ct_script_fail(s, status, "the process runs already") : status;
}

/* ---- end ---- */

void ct_script_abandon(struct ct_script *s) {
    destroy(s);
}

int ct_script_close(struct ct_script *s) {
    bool clean = true;
    ct_script_shut(s);
    __atomic_store_n(&s->lane.control->listening, 0, __ATOMIC_RELEASE); /* no thread waits in the agent any more */
    pthread_mutex_lock(&s->work);
    uint32_t gone = __atomic_load_n(&s->gone, __ATOMIC_ACQUIRE);
    bool there = !gone || gone == CT_SCRIPT_ALONE;
    int status = there ? ct_script_leave(s, &clean) : 0;
    if (there && !ct_remote_is_alive(s->remote))
        status = 0;
    else if (!status && !clean)
        status = CT_ERR_BUSY;
    if (ct_remote_is_stopped(s->remote))
        (void)ct_remote_resume(s->remote);
    __atomic_store_n(&s->lane.control->recording, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&s->work);
    destroy(s);
    return status;
}

static uint32_t life_of(const struct ct_script *s) {
    uint32_t gone = __atomic_load_n(&s->gone, __ATOMIC_ACQUIRE);
    return gone ? gone : s->spawned && !s->resumed ? CT_SCRIPT_STOPPED : CT_SCRIPT_RUNNING;
}

int ct_script_get_state(struct ct_script *s, struct ct_script_state *out) {
    *out = (struct ct_script_state){
        .life = life_of(s),
        .exit_status = s->exit_status,
        .pid = s->pid,
        .timeouts = __atomic_load_n(&s->shared->timeouts, __ATOMIC_RELAXED),
        .unserved = __atomic_load_n(&s->shared->unserved, __ATOMIC_RELAXED),
        .lost_events = ct_script_lost_events(s),
        .hooks = s->hooked_count,
        .main_base = s->main_base,
    };
    return 0;
}
