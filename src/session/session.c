/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: the state machine and the events of the process. See contrail/session.h. */
#include "base/sized.h"
#include "plan/hot.h"
#include "session/children.h"
#include "session/control.h"
#include "session/metrics.h"
#include "session/recording.h"
#include "session/recording_install.h"
#include "session/recording_leave.h"
#include "trace/file.h"
#include "trace/segments.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_MEMORY   (32u << 20)
#define DEFAULT_DEPTH    (1u << 18)
#define DEFAULT_STACK    128
#define DEFAULT_INTERVAL 5u
#define DEFAULT_WAIT_MS  500u
#define LAST_LOOK_MS     50
#define SPAWN_LIMIT_MS   30000u
#define STOP_LIMIT_MS    5000u
#define CHECK_NS         200000000ull

/* ---- states ---- */

static const char *const state_names[] = {
#define NAME(name, text) [CT_SESSION_##name] = text,
    CT_SESSION_STATE_LIST(NAME)
#undef NAME
};

const char *ct_session_state_name(enum ct_session_state state) {
    return (unsigned)state < CT_SESSION_STATE_COUNT ? state_names[state] : "?";
}

bool ct_session_may_move(enum ct_session_state from, enum ct_session_state to) {
    static const uint16_t allowed[CT_SESSION_STATE_COUNT] = {
        [CT_SESSION_UNINITIALIZED] = 1 << CT_SESSION_INITIALIZED,
        [CT_SESSION_INITIALIZED] = 1 << CT_SESSION_SPAWNING | 1 << CT_SESSION_ATTACHING,
        [CT_SESSION_SPAWNING] = 1 << CT_SESSION_SUSPENDED,
        [CT_SESSION_SUSPENDED] = 1 << CT_SESSION_ATTACHING | 1 << CT_SESSION_DETACHING,
        [CT_SESSION_ATTACHING] = 1 << CT_SESSION_ATTACHED,
        [CT_SESSION_ATTACHED] = 1 << CT_SESSION_RUNNING | 1 << CT_SESSION_DETACHING | 1 << CT_SESSION_INITIALIZED,
        [CT_SESSION_RUNNING] = 1 << CT_SESSION_ATTACHED | 1 << CT_SESSION_DETACHING | 1 << CT_SESSION_INITIALIZED,
        [CT_SESSION_DETACHING] = 1 << CT_SESSION_INITIALIZED,
        [CT_SESSION_FAILED] = 1 << CT_SESSION_INITIALIZED,
    };
    if ((unsigned)from >= CT_SESSION_STATE_COUNT || (unsigned)to >= CT_SESSION_STATE_COUNT)
        return false;
    return to == CT_SESSION_FAILED ? from != CT_SESSION_UNINITIALIZED && from != CT_SESSION_FAILED
                                   : allowed[from] >> to & 1;
}

bool ct_session_move(struct ct_session *s, enum ct_session_state to) {
    if (!ct_session_may_move(s->state, to))
        return false;
    __atomic_store_n(&s->state, to, __ATOMIC_RELEASE);
    return true;
}

enum ct_session_state ct_session_state(const struct ct_session *s) {
    return s ? __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) : CT_SESSION_UNINITIALIZED;
}

/* ---- errors ---- */

const char *ct_session_note(const struct ct_session *s) {
    return s->note;
}

const char *ct_session_idle(const struct ct_session *s) {
    return s->idle;
}

const char *ct_session_idle_filters(const struct ct_session *s) {
    return s->idle_filters;
}

const char *ct_session_error(const struct ct_session *s) {
    return s->error;
}

static int fail(struct ct_session *s, int status, const char *text) {
    snprintf(s->error, sizeof s->error, "%s", text);
    return status;
}

static int bad_state(struct ct_session *s, const char *what) {
    snprintf(s->error, sizeof s->error, "%s is not possible while the session is %s", what,
             ct_session_state_name(s->state));
    return CT_ERR_BAD_STATE;
}

/* ---- creation ---- */

static char **copy_list(const char *const *list) {
    size_t count = 0;
    while (list && list[count])
        count++;
    if (!count)
        return NULL;
    char **copy = calloc(count + 1, sizeof(char *));
    for (size_t i = 0; copy && i < count; i++)
        copy[i] = strdup(list[i]);
    return copy;
}

/* @hot means its list. */
static char **copy_excluded(const char *const *list) {
    size_t count = 0, hot = 0, used = 0;
    while (ct_hot_globs[hot])
        hot++;
    while (list && list[count])
        count++;
    char **copy = count ? calloc(count * hot + 1, sizeof(char *)) : NULL;
    for (size_t i = 0; copy && i < count; i++) {
        bool is_list = !strcmp(list[i], CT_HOT_WORD);
        for (size_t k = 0; k < (is_list ? hot : 1); k++)
            copy[used++] = strdup(is_list ? ct_hot_globs[k] : list[i]);
    }
    return copy;
}

static void free_list(char **list) {
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

/* Copies the caller's structs and fills in what they lack. */
static int copy_options(struct ct_session *s, const struct ct_session_options *options) {
    struct ct_session_options *o = &s->options;
    int status = ct_sized_copy_in(o, sizeof *o, options);
    if (!status && o->stalk) {
        status = ct_sized_copy_in(&s->stalk, sizeof s->stalk, o->stalk);
        o->stalk = &s->stalk;
    }
    return status;
}

/* Copies strings and lists; replaces 0 with defaults. */
static void complete_options(struct ct_session *s) {
    struct ct_session_options *o = &s->options;
    s->output = strdup(o->output ? o->output : "traces");
    s->command_line = strdup(o->command_line ? o->command_line : "");
    s->only = copy_list(o->only);
    s->exclude = copy_excluded(o->exclude);
    s->triggers = copy_list(o->triggers);
    s->metrics_file = o->metrics_file ? strdup(o->metrics_file) : NULL;
    o->output = s->output;
    o->command_line = s->command_line;
    o->only = (const char *const *)s->only;
    o->exclude = (const char *const *)s->exclude;
    o->triggers = (const char *const *)s->triggers;
    o->metrics_file = s->metrics_file;
    s->group_name = o->group ? strdup(o->group) : NULL;
    o->group = s->group_name;
    o->index_memory = o->index_memory ? o->index_memory : DEFAULT_MEMORY;
    if (o->stalk)
        o->detail = CT_SESSION_DETAIL_OFF;
    if (o->sample > 1) /* a sample has few events, and its times may as well be exact */
        o->fast_clock = 0;
    if (o->redact) {
        o->stack_bytes = -1;
        o->vectors = false;
        o->strings = 0;
    }
    o->stack_bytes = o->stack_bytes ? o->stack_bytes : DEFAULT_STACK;
    o->max_depth = o->max_depth ? o->max_depth : DEFAULT_DEPTH;
    o->drain_interval_ms = o->drain_interval_ms ? o->drain_interval_ms : DEFAULT_INTERVAL;
}

static int find_group(struct ct_session *s) {
    const struct group *group = s->options.group ? getgrnam(s->options.group) : NULL;
    s->group = group ? group->gr_gid : CT_PLACE_NO_GROUP;
    if (!s->options.group)
        return 0;
    if (!group)
        snprintf(s->error, sizeof s->error,
                 "there is no group \"%.100s\"; --group takes the name of one that you are in", s->options.group);
    else if (geteuid() && group->gr_gid != getegid() && !group_member(group->gr_gid))
        snprintf(s->error, sizeof s->error,
                 "you are not in the group \"%.100s\"; `id -nG` shows those that --group takes", s->options.group);
    else
        return 0;
    return CT_ERR_INVALID_ARGUMENT;
}

static int make_directory(struct ct_session *s) {
    int status = ct_trace_make_session(&s->place, s->output, s->group, s->directory, sizeof s->directory);
    int why = errno;
    if (!status)
        return 0;
    s->directory[0] = 0;
    snprintf(s->error, sizeof s->error, "cannot write traces below \"%s\" (%s); choose another place with --output DIR",
             s->output, ct_place_reason(why));
    return status;
}

/* Writes the first file at once: later failures do not end a recording, so this one must be reported. */
static int write_metrics(struct ct_session *s) {
    static const struct ct_metrics nothing;
    const struct ct_metrics_labels labels = {.directory = s->directory};
    if (!s->metrics_file)
        return 0;
    int error = ct_place_find(&s->metrics.place, &s->metrics.name, s->metrics_file);
    if (!error && ct_metrics_write(&nothing, &labels, s->metrics.place, s->metrics.name))
        error = errno;
    if (!error)
        return 0;
    snprintf(s->error, sizeof s->error, "cannot write \"%s\" (%s); choose another place with --metrics-file PATH",
             s->metrics_file, ct_place_reason(error));
    return ct_file_status(error) == CT_ERR_PERMISSION_DENIED ? CT_ERR_PERMISSION_DENIED : CT_ERR_NOT_FOUND;
}

int ct_session_create(struct ct_session **out, const struct ct_session_options *options) {
    if (!out)
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_session *s = *out = calloc(1, sizeof *s);
    if (!s)
        return CT_ERR_NO_MEMORY;
    int status = copy_options(s, options);
    if (status) {
        free(s);
        *out = NULL;
        return status;
    }
    complete_options(s);
    s->process.pidfd = s->process.exit_status = -1;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_rwlock_init(&s->policy_lock, NULL);
    if (s->options.keep_bytes || s->options.keep_ns)
        s->segments = ct_segments_create(s->options.keep_bytes, s->options.keep_ns);
    if (ct_children_create(s) || (!s->segments && (s->options.keep_bytes || s->options.keep_ns)))
        return CT_ERR_NO_MEMORY;
    ct_session_move(s, CT_SESSION_INITIALIZED);
    status = ct_policy_create(&s->policy, &s->options, ct_clock_now(), s->error, sizeof s->error);
    if (!status)
        status = find_group(s);
    if (!status)
        status = make_directory(s);
    return status ? status : write_metrics(s); /* on failure the session exists too: it has the error's text */
}

static void close_process(struct ct_session *s) {
    if (s->process.pidfd >= 0)
        close(s->process.pidfd);
    s->process.pidfd = -1;
}

void ct_session_destroy(struct ct_session *s) {
    if (!s)
        return;
    if (s->state == CT_SESSION_SUSPENDED || s->state == CT_SESSION_ATTACHED || s->state == CT_SESSION_RUNNING)
        (void)ct_session_detach(s);
    ct_control_stop(s);
    ct_children_destroy(s);
    ct_recording_destroy(s->first);
    ct_segments_free(s->segments);
    ct_place_unmake(s->place); /* only if nothing was recorded */
    ct_place_drop(s->place);
    ct_place_drop(s->metrics.place);
    close_process(s);
    ct_policy_destroy(s->policy);
    pthread_rwlock_destroy(&s->policy_lock);
    pthread_mutex_destroy(&s->mutex);
    free_list(s->only);
    free_list(s->exclude);
    free_list(s->triggers);
    free(s->metrics_file);
    free(s->metrics.name);
    free(s->group_name);
    free(s->output);
    free(s->command_line);
    free(s);
}

/* ---- transitions ---- */

/* Undoes everything; the process runs on. */
static int undo_failed(struct ct_session *s, int status) {
    ct_session_move(s, CT_SESSION_FAILED);
    pthread_mutex_lock(&s->mutex);
    struct ct_recording *r = s->first;
    s->first = NULL;
    pthread_mutex_unlock(&s->mutex);
    if (r)
        fail(s, status, r->error);
    ct_recording_destroy(r);
    ct_session_move(s, CT_SESSION_INITIALIZED);
    return status;
}

/* A program that is started for this may wait; one that has work to do may not. */
static unsigned wait_ms_of(const struct ct_session *s, enum ct_recording_origin origin) {
    long given = s->options.wait_ms;
    return given > 0 ? (unsigned)given : given < 0 || origin == CT_ORIGIN_ATTACH ? 0 : DEFAULT_WAIT_MS;
}

static int begin_process(struct ct_session *s, enum ct_recording_origin origin) {
    s->error[0] = 0;
    s->process.exit_status = -1;
    s->asked_to_stop = 0;
    s->wait_ms = wait_ms_of(s, origin);
    s->process.ended = false;
    close_process(s);
    pthread_mutex_lock(&s->mutex);
    struct ct_recording *old = s->first;
    s->first = ct_recording_create(s, origin);
    s->past = (struct ct_session_statistics){0};
    pthread_mutex_unlock(&s->mutex);
    ct_recording_destroy(old);
    if (!s->first)
        return fail(s, CT_ERR_NO_MEMORY, "out of memory");
    return 0;
}

static void take_process(struct ct_session *s, int pid, bool spawned) {
    s->first->pid = s->process.pid = pid;
    s->process.spawned = spawned;
    s->process.pidfd = fcntl(ct_remote_pidfd(s->first->remote), F_DUPFD_CLOEXEC, 0);
    if (s->options.redact)
        ct_recording_read_program(s->first);
    else
        snprintf(s->first->command_line, sizeof s->first->command_line, "%s", s->command_line);
}

int ct_session_spawn_suspended(struct ct_session *s, char *const *argv, char *const *envp) {
    if (!s || !argv || !argv[0])
        return CT_ERR_INVALID_ARGUMENT;
    if (!s->directory[0] || !ct_session_move(s, CT_SESSION_SPAWNING))
        return bad_state(s, "starting a program");
    int status = begin_process(s, CT_ORIGIN_SPAWN);
    if (status)
        return undo_failed(s, status);
    struct ct_remote_error error = {""};
    const struct ct_remote_spawn what = {.path = argv[0], .argv = argv, .envp = envp};
    unsigned limit = s->options.startup_timeout_ms ? s->options.startup_timeout_ms : SPAWN_LIMIT_MS;
    status = ct_remote_spawn(&s->first->remote, &what, limit, &error);
    if (status)
        return undo_failed(s, ct_recording_fail(s->first, status, "%s", error.text));
    take_process(s, ct_remote_pid(s->first->remote), true);
    s->first->times.stopped_at = ct_clock_now();
    ct_session_move(s, CT_SESSION_SUSPENDED);
    return 0;
}

int ct_session_attach(struct ct_session *s, int pid) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    /* install may bring a suspended process there too */
    if (!s->directory[0] || s->state != CT_SESSION_INITIALIZED || !ct_session_move(s, CT_SESSION_ATTACHING))
        return bad_state(s, "attaching");
    int status = begin_process(s, CT_ORIGIN_ATTACH);
    if (status)
        return undo_failed(s, status);
    struct ct_remote_error error = {""};
    status = ct_remote_open(&s->first->remote, pid, &error);
    if (status)
        return undo_failed(s, ct_recording_fail(s->first, status, "%s", error.text));
    take_process(s, pid, false);
    ct_session_move(s, CT_SESSION_ATTACHED);
    return 0;
}

int ct_session_use_remote(struct ct_session *s, int (*use)(void *arg, struct ct_remote *remote), void *arg) {
    struct ct_recording *r = s->first;
    if (!r || !r->remote)
        return CT_ERR_BAD_STATE;
    pthread_mutex_lock(&r->work);
    int status = use(arg, r->remote);
    pthread_mutex_unlock(&r->work);
    return status;
}

int ct_session_install_full_coverage(struct ct_session *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    bool suspended = s->state == CT_SESSION_SUSPENDED;
    if ((!suspended && s->state != CT_SESSION_ATTACHED) || s->first->plan)
        return bad_state(s, "hooking");
    if (suspended)
        ct_session_move(s, CT_SESSION_ATTACHING);
    int status = ct_recording_install(s->first);
    if (!status)
        status = ct_control_start(s);
    if (status)
        return undo_failed(s, status);
    if (suspended)
        ct_session_move(s, CT_SESSION_ATTACHED);
    return 0;
}

int ct_session_resume(struct ct_session *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    if (s->state != CT_SESSION_ATTACHED || !s->first->plan)
        return bad_state(s, "resuming");
    ct_recording_resume(s->first);
    ct_session_move(s, CT_SESSION_RUNNING);
    return 0;
}

int ct_session_pause(struct ct_session *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    if (s->state != CT_SESSION_RUNNING)
        return bad_state(s, "pausing");
    if (!s->first->remote)
        return fail(s, CT_ERR_NOT_FOUND, "the process that was recorded first has ended");
    pthread_mutex_lock(&s->first->work);
    int status = ct_recording_stop(s->first);
    pthread_mutex_unlock(&s->first->work);
    if (status)
        return fail(s, status, s->first->error);
    ct_session_move(s, CT_SESSION_ATTACHED);
    return 0;
}

static int finish_first(struct ct_session *s, const char *reason) {
    if (!s->first->remote)
        return 0;
    int status = ct_recording_finish(s->first, reason);
    return status ? fail(s, status, s->first->error) : 0;
}

int ct_session_detach(struct ct_session *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    if (!ct_session_move(s, CT_SESSION_DETACHING))
        return bad_state(s, "detaching");
    ct_children_leave(s);
    int status = s->first->plan && s->first->remote ? ct_recording_uninstall(s->first) : 0;
    if (status)
        fail(s, status, s->first->error);
    int finished = finish_first(s, "detach");
    ct_children_leave(s); /* children that it has made meanwhile; no more follow */
    ct_control_stop(s);
    ct_session_move(s, CT_SESSION_INITIALIZED);
    return status ? status : finished;
}

/* ---- events of the process ---- */

/* The first process has ended; its children may run on. */
static int note_end(struct ct_session *s) {
    int status = 0;
    if (!s->process.spawned)
        s->process.exit_status = ct_remote_how_ended(s->process.pidfd, s->process.pid);
    else if (waitpid(s->process.pid, &status, 0) == s->process.pid)
        s->process.exit_status = status;
    s->process.ended = true;
    return finish_first(s, ct_recording_note_exit(s->first, s->process.exit_status));
}

static int end_session(struct ct_session *s, struct ct_session_event *what, enum ct_session_event_kind event,
                       int status) {
    what->kind = event;
    what->exit_status = s->process.exit_status;
    ct_control_stop(s);
    ct_session_move(s, CT_SESSION_INITIALIZED);
    return status;
}

static enum ct_session_event_kind something_asked(struct ct_session *s) {
    if (__atomic_load_n(&s->asked_to_stop, __ATOMIC_ACQUIRE))
        return CT_SESSION_EVENT_ASKED_TO_STOP;
    bool broken = __atomic_load_n(&s->first->drain.error, __ATOMIC_ACQUIRE) || ct_children_broken(s);
    return broken ? CT_SESSION_EVENT_DISK_FULL : CT_SESSION_EVENT_NOTHING;
}

/* Is the session over, or has it something left to do? */
static bool is_over(struct ct_session *s, struct ct_session_event *what, int *status) {
    struct pollfd p = {.fd = s->process.pidfd, .events = POLLIN};
    if (!s->process.ended && poll(&p, 1, 0) > 0)
        *status = note_end(s);
    if (!s->process.ended && s->first->remote && s->state == CT_SESSION_RUNNING && ct_recording_was_replaced(s->first))
        *status = finish_first(s, "exec");
    if (s->first->remote || ct_children_active(s))
        return false;
    if (!s->process.ended && poll(&p, 1, LAST_LOOK_MS) > 0) /* the last thing recorded may have been its end */
        *status = note_end(s);
    *status = end_session(s, what, s->process.ended ? CT_SESSION_EVENT_EXITED : CT_SESSION_EVENT_REPLACED, *status);
    return true;
}

static int wait_for(struct ct_session *s, int timeout_ms, struct ct_session_event *what) {
    if (!s || (s->state != CT_SESSION_RUNNING && s->state != CT_SESSION_ATTACHED))
        return CT_ERR_BAD_STATE;
    uint64_t deadline = ct_clock_now() + (uint64_t)(timeout_ms < 0 ? INT_MAX : timeout_ms) * 1000000u;
    for (int status = 0;;) {
        if (is_over(s, what, &status))
            return status;
        what->exit_status = s->process.exit_status; /* the first process may have ended while its children run on */
        what->kind = something_asked(s);
        uint64_t now = ct_clock_now();
        if (what->kind || now >= deadline || status)
            return status;
        uint64_t left_ms = (deadline - now) / 1000000;
        ct_children_wait(s, s->process.ended ? -1 : s->process.pidfd, left_ms > 50 ? 50 : (int)left_ms);
    }
}

int ct_session_wait(struct ct_session *s, int timeout_ms, struct ct_session_event *event) {
    struct ct_session_event own = {.size = sizeof own, .kind = CT_SESSION_EVENT_NOTHING, .exit_status = -1};
    if (!ct_sized_is_valid(event))
        return CT_ERR_INVALID_ARGUMENT;
    int status = wait_for(s, timeout_ms, &own);
    (void)ct_sized_copy_out(event, &own, sizeof own);
    return status;
}

/* ---- reporting ---- */

const char *ct_session_directory(const struct ct_session *s) {
    return s->directory;
}

const char *ct_session_process_directory(const struct ct_session *s) {
    return s->first ? s->first->trace.directory : "";
}

int ct_session_pid(const struct ct_session *s) {
    return s->process.pid;
}

_Static_assert(CT_LOSS_COUNT <= CT_SESSION_LOSS_ROOM, "lost has no room for another reason");

int ct_session_statistics(const struct ct_session *session, struct ct_session_statistics *out) {
    struct ct_session *s = (struct ct_session *)(uintptr_t)session;
    struct ct_session_statistics own = {.size = sizeof own};
    if (!ct_sized_is_valid(out))
        return CT_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&s->mutex);
    if (s->first)
        ct_recording_statistics(s->first, &own);
    own.processes = s->first != NULL;
    pthread_mutex_unlock(&s->mutex);
    ct_children_add_statistics(s, &own);
    return ct_sized_copy_out(out, &own, sizeof own);
}

#define LOSS_NAME(name, text) [CT_LOSS_##name] = #name,
#define LOSS_TEXT(name, text) [CT_LOSS_##name] = text,
static const char *const loss_names[] = {CT_LOSS_LIST(LOSS_NAME)};
static const char *const loss_texts[] = {CT_LOSS_LIST(LOSS_TEXT)};

const char *ct_loss_name(enum ct_loss_reason reason) {
    return (unsigned)reason < CT_LOSS_COUNT ? loss_names[reason] : "?";
}

const char *ct_loss_text(enum ct_loss_reason reason) {
    return (unsigned)reason < CT_LOSS_COUNT ? loss_texts[reason] : "?";
}

#define WINDOW_STATE_NAME(name, text) [CT_SESSION_WINDOW_##name] = text,
static const char *const window_state_names[] = {CT_SESSION_WINDOW_LIST(WINDOW_STATE_NAME)};

const char *ct_session_window_name(enum ct_session_window state) {
    return (unsigned)state < CT_SESSION_WINDOW_COUNT ? window_state_names[state] : "?";
}
