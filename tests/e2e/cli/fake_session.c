/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for sessions, to test the command line alone: it starts and waits for programs and hooks nothing. What
 * shall happen is in the environment variable FAKE_SESSION, words separated by spaces:
 *   create=STATUS spawn=STATUS attach=STATUS install=STATUS resume=STATUS detach=STATUS   the step fails
 *   slow        hooking takes until progress says to give up, at most 10 s
 *   event=N     the N-th of enum ct_session_event_kind is reported by the third wait, whether the program has ended or
 *               not
 *   lost        events were lost
 *   windows     windows of detail were written
 *   options     the session's options are printed
 *   control=STATUS   the control socket answers so
 *   refuse=STATUS    the session refuses, with a sentence */
#include "cli/command.h"
#include "script/probe.h"
#include "trace/reader.h"
#include <contrail/session.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct ct_session {
    struct ct_session_options options;
    int pid, waits;
    bool spawned, resumed;
    char error[128];
};

static bool told(const char *word, int *number) {
    const char *all = getenv("FAKE_SESSION");
    for (size_t length = strlen(word); all && *all; all += strcspn(all, " "), all += *all == ' ')
        if (!strncmp(all, word, length) && (all[length] == '=' || all[length] == ' ' || !all[length])) {
            *number = all[length] == '=' ? atoi(all + length + 1) : 0;
            return true;
        }
    return false;
}

static int step(struct ct_session *session, const char *word) {
    int status;
    if (!told(word, &status))
        return 0;
    if (session)
        snprintf(session->error, sizeof session->error, "the step %s failed as told; nothing helps", word);
    return status;
}

static void nap(int ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static void print_options(const struct ct_session_options *o) {
    fprintf(stderr, "fake: format=%d keep_bytes=%llu keep_ns=%llu detail=%d stack_bytes=%d vectors=%d detail_rate=%u ",
            o->format, (unsigned long long)o->keep_bytes, (unsigned long long)o->keep_ns, o->detail, o->stack_bytes,
            o->vectors, o->detail_rate);
    fprintf(stderr, "detail_memory=%zu rolls=%d,%d,%llu,%llu metrics=%s triggers=", o->detail_memory, o->pre_roll_ms,
            o->post_roll_ms, (unsigned long long)o->pre_roll_events, (unsigned long long)o->post_roll_events,
            o->metrics_file ? o->metrics_file : "-");
    for (size_t i = 0; o->triggers && o->triggers[i]; i++)
        fprintf(stderr, "%s%s", i ? "," : "", o->triggers[i]);
    fputs("\n", stderr);
}

int ct_session_create(struct ct_session **out, const struct ct_session_options *options) {
    int ignored;
    *out = calloc(1, sizeof **out);
    (*out)->options = *options;
    if (told("options", &ignored))
        print_options(options);
    return step(*out, "create");
}

void ct_session_destroy(struct ct_session *session) {
    free(session);
}

int ct_session_spawn_suspended(struct ct_session *session, char *const *argv, char *const *envp) {
    (void)envp;
    int status = step(session, "spawn");
    if (status)
        return status;
    session->spawned = true;
    session->pid = fork();
    if (!session->pid) {
        raise(SIGSTOP);
        execvp(argv[0], argv);
        _exit(127);
    }
    waitpid(session->pid, NULL, WUNTRACED);
    return 0;
}

int ct_session_attach(struct ct_session *session, int pid) {
    session->pid = pid;
    return step(session, "attach");
}

int ct_session_install_full_coverage(struct ct_session *session) {
    int ignored, status = step(session, "install");
    if (told("slow", &ignored)) {
        fputs("fake: hooking\n", stderr);
        for (int i = 0; i < 500 && !status; i++, nap(20))
            if (session->options.progress(session->options.progress_arg, "planning", (uint64_t)i, 500))
                status = CT_ERR_TIMEOUT;
    }
    if (status && session->spawned)
        kill(session->pid, SIGCONT);
    return status;
}

int ct_session_resume(struct ct_session *session) {
    int status = step(session, "resume");
    session->resumed = true;
    if (session->spawned)
        kill(session->pid, SIGCONT);
    return status;
}

int ct_session_pause(struct ct_session *session) {
    return step(session, "pause");
}

int ct_session_detach(struct ct_session *session) {
    fputs("fake: detached\n", stderr);
    if (session->spawned)
        kill(session->pid, SIGCONT);
    return step(session, "detach");
}

enum ct_session_state ct_session_state(const struct ct_session *session) {
    (void)session;
    return CT_SESSION_RUNNING;
}

const char *ct_session_note(const struct ct_session *session) {
    (void)session;
    return "";
}

const char *ct_session_idle(const struct ct_session *session) {
    (void)session;
    return "";
}

const char *ct_session_idle_filters(const struct ct_session *session) {
    (void)session;
    return "";
}

const char *ct_session_error(const struct ct_session *session) {
    return session->error;
}

const char *ct_session_directory(const struct ct_session *session) {
    (void)session;
    return "traces/session_1";
}

const char *ct_session_process_directory(const struct ct_session *session) {
    (void)session;
    return "traces/session_1/pid_1";
}

bool ct_session_is_reachable(const struct ct_session *session) {
    return session != NULL;
}

int ct_session_pid(const struct ct_session *session) {
    return session->pid;
}

int ct_session_wait(struct ct_session *session, int timeout_ms, struct ct_session_event *what) {
    int event, status;
    what->kind = CT_SESSION_EVENT_NOTHING;
    what->exit_status = -1;
    if (told("event", &event) && session->waits++ <= 1)
        return 0;
    if (told("event", &event)) {
        what->kind = (enum ct_session_event_kind)event;
        if (what->kind == CT_SESSION_EVENT_DISK_FULL)
            snprintf(session->error, sizeof session->error, "recording stopped: the disk is full");
        return 0;
    }
    session->waits++;
    nap(timeout_ms);
    if (session->spawned && waitpid(session->pid, &status, WNOHANG) == session->pid) {
        what->kind = CT_SESSION_EVENT_EXITED;
        what->exit_status = status;
    }
    if (!session->spawned && kill(session->pid, 0) < 0)
        what->kind = CT_SESSION_EVENT_EXITED;
    return 0;
}

const char *ct_loss_name(enum ct_loss_reason reason) {
    return reason == CT_LOSS_DRAIN_LAG ? "DRAIN_LAG" : "OTHER";
}

const char *ct_loss_text(enum ct_loss_reason reason) {
    return reason == CT_LOSS_DRAIN_LAG ? "too fast" : "another reason";
}

const char *ct_session_window_name(enum ct_session_window state) {
    return state == CT_SESSION_WINDOW_PERSISTING ? "persisting" : "other";
}

int ct_session_statistics(const struct ct_session *session, struct ct_session_statistics *out) {
    int ignored;
    *out = (struct ct_session_statistics){
        .size = sizeof *out,
        .events = 12345678,
        .threads_seen = 4,
        .threads_alive = 3,
        .modules = 14,
        .functions = 12370,
        .hooked = 12345,
        .skipped = 25,
        .lane_bytes = 32 << 20,
        .lane_used = 3 << 20,
        .bytes_written = 1 << 20,
        .plan_ns = 85000000,
        .pause_ns = session->resumed ? 12000000 : 0,
        .recording_ns = (uint64_t)session->waits * 100000000,
    };
    if (told("lost", &ignored))
        out->lost[CT_LOSS_DRAIN_LAG] = 1234;
    if (told("windows", &ignored)) {
        out->windows = 2;
        out->detail_events = 98765;
        out->detail_reach_ns = 6100000;
        out->window_state = CT_SESSION_WINDOW_PERSISTING;
    }
    return 0;
}

int ct_session_control(int pid, const char *command, char *answer, size_t size) {
    static bool stopped;
    (void)pid;
    int status = stopped ? CT_ERR_NOT_FOUND : step(NULL, "control"), refused;
    stopped |= !strcmp(command, "stop");
    answer[0] = 0;
    if (status)
        return status;
    if (told("refuse", &refused)) {
        snprintf(answer, size, "the session does not want that; nothing helps");
        return refused;
    }
    if (strcmp(command, "status") && strcmp(command, "stop"))
        snprintf(answer, size, "told: %s", command);
    else
        snprintf(answer, size,
                 "{\"pid\": %d, \"state\": \"running\", \"events\": 1234567, \"lost\": {\"DRAIN_LAG\": 12}, "
                 "\"policy\": {\"triggers\": [\"symbol=\\\"a\", \"crash\"], \"excluded\": []}, \"lane_used\": 1536, "
                 "\"latency_p50_ns\": 4200000}",
                 pid);
    return status;
}

int main(int argc, char **argv) {
    const struct ct_command *const commands[] = {&ct_command_spawn, &ct_command_attach, &ct_command_detach,
                                                 &ct_command_ctl};
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(commands[i]->name, argv[1]))
            return commands[i]->run(argc - 1, argv + 1);
    return 2;
}

void ct_session_missed(const struct ct_session *session, char *reason, size_t size) {
    (void)session;
    if (size)
        reason[0] = 0;
}

uint64_t ct_find_disk_bytes(const char *path) {
    (void)path;
    return 1 << 20;
}

/* ---- --probe: there is no process that could have it ---- */

struct ct_remote;
int ct_session_use_remote(struct ct_session *s, int (*use)(void *arg, struct ct_remote *remote), void *arg);
int ct_session_use_remote(struct ct_session *s, int (*use)(void *arg, struct ct_remote *remote), void *arg) {
    (void)s;
    (void)use;
    (void)arg;
    return CT_ERR_UNSUPPORTED;
}

int ct_probe_compile(struct ct_probe_code *out, const char *file, const char *include, char *error, size_t error_size) {
    (void)include;
    *out = (struct ct_probe_code){.file = file};
    snprintf(error, error_size, "fake");
    return CT_ERR_UNSUPPORTED;
}

void ct_probe_code_free(struct ct_probe_code *code) {
    (void)code;
}

int ct_probes_begin(struct ct_probes **out, struct ct_remote *remote, const struct ct_probe_code *codes, size_t count,
                    char *error, size_t error_size) {
    (void)out;
    (void)remote;
    (void)codes;
    (void)count;
    snprintf(error, error_size, "fake");
    return CT_ERR_UNSUPPORTED;
}

size_t ct_probes_functions(const struct ct_probes *p) {
    (void)p;
    return 0;
}

const char *ct_probes_counter(struct ct_probes *p, size_t index, uint64_t *value) {
    (void)p;
    (void)index;
    (void)value;
    return NULL;
}

void ct_probes_end(struct ct_probes *p) {
    (void)p;
}
