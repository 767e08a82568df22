/* Sessions: the state machine and what happens to the process. See contrail/session.h. */
#include "ctl/session_parts.h"
#include <errno.h>
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
#define DEFAULT_INTERVAL 5u
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

int ct_session_fail(struct ct_session *s, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->error, sizeof s->error, format, arguments);
    va_end(arguments);
    return status;
}

const char *ct_session_error(const struct ct_session *s) {
    return s->error;
}

static int bad_state(struct ct_session *s, const char *what) {
    return ct_session_fail(s, CT_ERR_BAD_STATE, "%s is not possible while the session is %s", what,
                           ct_session_state_name(s->state));
}

int ct_session_report_progress(struct ct_session *s, const char *step, uint64_t done, uint64_t total) {
    if (!s->options.progress || !s->options.progress(s->options.progress_arg, step, done, total))
        return 0;
    return ct_session_fail(s, CT_ERR_TIMEOUT, "given up while %s; the program runs on without hooks", step);
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

static void free_list(char **list) {
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

static void take_options(struct ct_session *s, const struct ct_session_options *options) {
    struct ct_session_options *o = &s->options;
    *o = options ? *options : (struct ct_session_options){0};
    s->output = strdup(o->output ? o->output : "traces");
    s->command_line = strdup(o->command_line ? o->command_line : "");
    s->only = copy_list(o->only);
    s->exclude = copy_list(o->exclude);
    o->output = s->output;
    o->command_line = s->command_line;
    o->only = (const char *const *)s->only;
    o->exclude = (const char *const *)s->exclude;
    o->index_memory = o->index_memory ? o->index_memory : DEFAULT_MEMORY;
    o->max_depth = o->max_depth ? o->max_depth : DEFAULT_DEPTH;
    o->drain_interval_ms = o->drain_interval_ms ? o->drain_interval_ms : DEFAULT_INTERVAL;
}

/* Length of the shortest beginning of a path that is not there; 0: all of it is. */
static size_t first_missing(const char *path) {
    char prefix[PATH_MAX] = "";
    struct stat info;
    for (size_t i = 1; i < sizeof prefix && path[0]; i++) {
        prefix[i - 1] = path[i - 1];
        if ((path[i] == '/' || !path[i]) && stat(prefix, &info))
            return i;
        if (!path[i])
            break;
    }
    return 0;
}

static int make_directory(struct ct_session *s) {
    s->made_length = first_missing(s->output);
    int status = ct_trace_make_session(s->output, s->directory, sizeof s->directory);
    int why = errno;
    if (status) {
        s->directory[0] = 0;
        return ct_session_fail(s, status,
                               "cannot write traces below \"%s\" (%s); choose another place with --output DIR",
                               s->output, strerror(why));
    }
    return 0;
}

int ct_session_create(struct ct_session **out, const struct ct_session_options *options) {
    if (!out)
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_session *s = *out = calloc(1, sizeof *s);
    if (!s)
        return CT_ERR_NO_MEMORY;
    take_options(s, options);
    s->lane.fd = -1;
    s->exit_status = -1;
    pthread_mutex_init(&s->mutex, NULL);
    ct_session_move(s, CT_SESSION_INITIALIZED);
    return make_directory(s); /* the session exists even so: it tells why */
}

void ct_session_forget(struct ct_session *s) {
    ct_control_stop(s);
    (void)ct_drain_finish(&s->drain);
    pthread_mutex_lock(&s->mutex);
    ct_drain_free(&s->drain);
    ct_lane_destroy(&s->lane);
    ct_target_plan_free(s->plan);
    s->plan = NULL;
    free(s->function_ids);
    s->function_ids = NULL;
    s->injection = (struct ct_injection){0};
    pthread_mutex_unlock(&s->mutex);
    if (s->remote)
        ct_remote_close(s->remote);
    s->remote = NULL;
}

/* Nothing was recorded: no directory is left behind. */
static void remove_unused_directories(struct ct_session *s) {
    if (!s->directory[0] || rmdir(s->directory))
        return;
    size_t length = strlen(s->output);
    while (s->made_length && length >= s->made_length && !rmdir(s->output)) {
        while (length > 0 && s->output[length] != '/')
            length--;
        s->output[length] = 0;
    }
}

void ct_session_destroy(struct ct_session *s) {
    if (!s)
        return;
    if (s->state == CT_SESSION_SUSPENDED || s->state == CT_SESSION_ATTACHED || s->state == CT_SESSION_RUNNING)
        (void)ct_session_detach(s);
    ct_session_forget(s);
    remove_unused_directories(s);
    pthread_mutex_destroy(&s->mutex);
    free_list(s->only);
    free_list(s->exclude);
    free(s->output);
    free(s->command_line);
    free(s);
}

/* ---- moving on ---- */

/* Everything is undone, the process runs on. */
static int failed(struct ct_session *s, int status) {
    ct_session_move(s, CT_SESSION_FAILED);
    ct_session_forget(s);
    ct_session_move(s, CT_SESSION_INITIALIZED);
    return status;
}

static void begin_process(struct ct_session *s) {
    s->error[0] = 0;
    s->end_reason = "";
    s->exit_status = -1;
    s->asked_to_stop = 0;
    s->plan_ns = s->pause_ns = s->recorded_ns = s->resumed_at = 0;
    s->process_directory[0] = 0;
    ct_clock_start(&s->clock);
}

int ct_session_spawn_suspended(struct ct_session *s, char *const *argv, char *const *envp) {
    if (!s || !argv || !argv[0])
        return CT_ERR_INVALID_ARGUMENT;
    if (!s->directory[0] || !ct_session_move(s, CT_SESSION_SPAWNING))
        return bad_state(s, "starting a program");
    begin_process(s);
    struct ct_remote_error error = {""};
    const struct ct_remote_spawn what = {.path = argv[0], .argv = argv, .envp = envp};
    int status = ct_remote_spawn(
        &s->remote, &what, s->options.startup_timeout_ms ? s->options.startup_timeout_ms : SPAWN_LIMIT_MS, &error);
    if (status)
        return failed(s, ct_session_fail(s, status, "%s", error.text));
    s->spawned = true;
    s->pid = ct_remote_pid(s->remote);
    s->stopped_at = ct_clock_now();
    ct_session_move(s, CT_SESSION_SUSPENDED);
    return 0;
}

int ct_session_attach(struct ct_session *s, int pid) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    /* a suspended process may move there too, by install */
    if (!s->directory[0] || s->state != CT_SESSION_INITIALIZED || !ct_session_move(s, CT_SESSION_ATTACHING))
        return bad_state(s, "attaching");
    begin_process(s);
    struct ct_remote_error error = {""};
    int status = ct_remote_open(&s->remote, pid, &error);
    if (status)
        return failed(s, ct_session_fail(s, status, "%s", error.text));
    s->spawned = false;
    s->pid = pid;
    ct_session_move(s, CT_SESSION_ATTACHED);
    return 0;
}

int ct_session_install_full_coverage(struct ct_session *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    bool suspended = s->state == CT_SESSION_SUSPENDED;
    if ((!suspended && s->state != CT_SESSION_ATTACHED) || s->plan)
        return bad_state(s, "hooking");
    if (suspended)
        ct_session_move(s, CT_SESSION_ATTACHING);
    int status = ct_session_install(s);
    if (status)
        return failed(s, status);
    if (suspended)
        ct_session_move(s, CT_SESSION_ATTACHED);
    return 0;
}

int ct_session_resume(struct ct_session *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    if (s->state != CT_SESSION_ATTACHED || !s->plan)
        return bad_state(s, "resuming");
    bool first = !s->resumed_at;
    if (first)
        s->resumed_at = ct_clock_now();
    (void)ct_remote_resume(s->remote); /* a process that was killed meanwhile is noticed by ct_session_wait */
    if (first)
        s->pause_ns = ct_clock_now() - s->stopped_at;
    ct_session_move(s, CT_SESSION_RUNNING);
    return 0;
}

int ct_session_pause(struct ct_session *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    if (s->state != CT_SESSION_RUNNING)
        return bad_state(s, "pausing");
    struct ct_remote_error error = {""};
    int status = ct_remote_stop(s->remote, STOP_LIMIT_MS, &error);
    if (status)
        return ct_session_fail(s, status, "%s", error.text);
    ct_session_move(s, CT_SESSION_ATTACHED);
    return 0;
}

/* The trace is finished; the process is no longer our business. */
static int finish_trace(struct ct_session *s, const char *reason) {
    s->recorded_ns = s->resumed_at ? ct_clock_now() - s->resumed_at : 0;
    s->end_reason = reason;
    int status = ct_drain_finish(&s->drain);
    if (s->plan) {
        int written = ct_manifest_write(s, true);
        status = status ? status : written;
    }
    if (status)
        ct_session_fail(s, status,
                        "the trace in %s could not be written completely (%s); free some space or choose another "
                        "place with --output DIR",
                        s->process_directory, status == CT_ERR_NO_SPACE ? "the disk is full" : ct_status_text(status));
    struct ct_session_statistics last;
    ct_session_statistics(s, &last); /* remembered */
    ct_session_forget(s);
    return status;
}

int ct_session_detach(struct ct_session *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    if (!ct_session_move(s, CT_SESSION_DETACHING))
        return bad_state(s, "detaching");
    int status = s->plan ? ct_session_uninstall(s) : 0;
    int finished = finish_trace(s, "detach");
    ct_session_move(s, CT_SESSION_INITIALIZED);
    return status ? status : finished;
}

/* ---- what happens to the process ---- */

static int end_of_process(struct ct_session *s, struct ct_session_happening *what) {
    int status = 0;
    if (s->spawned && waitpid(s->pid, &status, 0) == s->pid)
        s->exit_status = status;
    what->event = CT_SESSION_EXITED;
    what->exit_status = s->exit_status;
    int finished = finish_trace(s, s->exit_status < 0 ? "exit" : WIFSIGNALED(s->exit_status) ? "signal" : "exit");
    ct_session_move(s, CT_SESSION_INITIALIZED);
    return finished;
}

/* A process that is ending has lost its memory as well, for as long as the kernel closes its files: it has no program then. */
static bool has_program(int pid) {
    char path[64], name[8];
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    return readlink(path, name, sizeof name) >= 0 || errno == EACCES || errno == EPERM;
}

static int replaced(struct ct_session *s, struct ct_session_happening *what) {
    what->event = CT_SESSION_REPLACED;
    int finished = finish_trace(s, "exec");
    ct_session_move(s, CT_SESSION_INITIALIZED);
    return finished;
}

int ct_session_wait(struct ct_session *s, int timeout_ms, struct ct_session_happening *what) {
    *what = (struct ct_session_happening){.event = CT_SESSION_NOTHING, .exit_status = -1};
    if (!s || (s->state != CT_SESSION_RUNNING && s->state != CT_SESSION_ATTACHED))
        return CT_ERR_BAD_STATE;
    uint64_t deadline = ct_clock_now() + (uint64_t)(timeout_ms < 0 ? INT_MAX : timeout_ms) * 1000000u;
    for (;;) {
        uint64_t now = ct_clock_now();
        struct pollfd p = {.fd = ct_remote_pidfd(s->remote), .events = POLLIN};
        uint64_t left_ms = now < deadline ? (deadline - now) / 1000000 : 0;
        if (poll(&p, 1, left_ms > 50 ? 50 : (int)left_ms) > 0)
            return end_of_process(s, what);
        if (s->state == CT_SESSION_RUNNING && now - s->checked_at > CHECK_NS) {
            s->checked_at = now;
            if (!ct_remote_is_alive(s->remote) && has_program(s->pid) && poll(&p, 1, 0) == 0)
                return replaced(s, what);
        }
        if (__atomic_load_n(&s->asked_to_stop, __ATOMIC_ACQUIRE))
            what->event = CT_SESSION_ASKED_TO_STOP;
        else if (__atomic_load_n(&s->drain.error, __ATOMIC_ACQUIRE))
            what->event = CT_SESSION_DISK_FULL;
        if (what->event || now >= deadline)
            return 0;
    }
}

/* ---- telling ---- */

const char *ct_session_directory(const struct ct_session *s) {
    return s->directory;
}

const char *ct_session_process_directory(const struct ct_session *s) {
    return s->process_directory;
}

int ct_session_pid(const struct ct_session *s) {
    return s->pid;
}

/* Linkage stubs and parts of functions are no functions. */
static bool is_function(int reason) {
    return reason != CT_SKIP_PLT && reason != CT_SKIP_COLD && reason != CT_SKIP_FRAGMENT && reason != CT_SKIP_ODD_ENTRY;
}

static void count_plan(const struct ct_target_plan *plan, struct ct_session_statistics *out) {
    uint64_t parts = 0;
    out->modules = plan->module_count;
    for (size_t i = 0; i < plan->module_count; i++) {
        const struct ct_target_module *m = &plan->modules[i];
        out->functions += m->function_count;
        out->hooked += m->hooked;
        out->entry_only += m->entry_only;
        for (int r = 0; r < CT_SKIP_COUNT; r++)
            *(is_function(r) ? &out->skipped : &parts) += m->skipped[r];
    }
    out->functions -= parts;
}

void ct_session_statistics(const struct ct_session *session, struct ct_session_statistics *out) {
    struct ct_session *s = (struct ct_session *)(uintptr_t)session;
    pthread_mutex_lock(&s->mutex);
    if (s->drain.threads_end) {
        pthread_mutex_lock(&s->drain.mutex);
        s->last = s->drain.statistics;
        pthread_mutex_unlock(&s->drain.mutex);
    }
    if (s->plan) {
        s->last.modules = s->last.functions = s->last.hooked = s->last.entry_only = s->last.skipped = 0;
        count_plan(s->plan, &s->last);
    }
    s->last.plan_ns = s->plan_ns;
    s->last.pause_ns = s->pause_ns;
    s->last.recording_ns = s->recorded_ns ? s->recorded_ns : s->resumed_at ? ct_clock_now() - s->resumed_at : 0;
    *out = s->last;
    pthread_mutex_unlock(&s->mutex);
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
