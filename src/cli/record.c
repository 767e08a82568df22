/* SPDX-License-Identifier: Apache-2.0 */
/* The course of a recording, for spawn and attach. Everything runs on the main thread; signals only set flags that are
 * checked between steps. Messages go to stderr: stdout belongs to the target. */
#include "cli/record.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/record_probe.h"
#include "cli/record_text.h"
#include "cli/signals.h"
#include "cli/summaries.h"
#include "trace/reader.h"
#include "trace/summary.h"
#include <limits.h>
#include <contrail/session.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

bool ct_record_parse_pid(const char *command, const char *text, int *pid) {
    uint64_t number;
    if (!ct_option_parse_number(text, &number) || number == 0 || number > INT32_MAX) {
        ct_message_error("%s takes the number of a process, not \"%s\"; `pgrep NAME` finds it", command, text);
        return false;
    }
    *pid = (int)number;
    return true;
}

struct recording {
    const struct ct_record_options *options;
    struct ct_session *session;
    struct ct_live live;
    struct ct_record_probe probe;
    bool spawned;
    bool had_children; /* of the program that exec replaced by us: not ours to wait for */
    int pid;           /* of the target; 0 before there is one */
    char name[64];
};

/* ---- the end of a spawned program ---- */

static int code_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : CT_EXIT_INTERNAL;
}

/* Waits for the program, which is not recorded any more, and returns its exit code (pid -1: our only child, if there is
 * one). A signal that is sent to us alone ends the wait. */
static int wait_for_program(int pid) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0), status;
    for (;;) {
        pid_t done = waitpid(pid, &status, WNOHANG);
        if (done > 0)
            break;
        if (done < 0 && errno != EINTR) {
            status = -1; /* another thread has collected it: there is no status to pass on */
            break;
        }
        if (ct_signals_stop()) {
            status = ct_signals_stop(); /* as wait(2) would report it about us */
            break;
        }
        struct pollfd end = {fd, POLLIN, 0};
        poll(&end, fd >= 0, fd >= 0 ? 500 : 20);
    }
    if (fd >= 0)
        close(fd);
    return status == -1 ? 0 : code_of(status);
}

/* ---- start ---- */

static int show_progress(void *arg, const char *step, uint64_t done, uint64_t total) {
    struct recording *r = arg;
    ct_live_show_step(&r->live, step, done, total);
    return ct_signals_any() != 0;
}

/* Returns -1 to continue, or the exit code. */
static int create_session(struct recording *r, const char *command_line) {
    struct ct_session_options options;
    ct_record_session_options(r->options, &options);
    options.command_line = command_line;
    options.progress = show_progress;
    options.progress_arg = r;
    int status = ct_session_create(&r->session, &options);
    if (status >= 0)
        return -1;
    ct_message_error("%s", r->session ? ct_session_error(r->session) : ct_status_text(status));
    ct_session_destroy(r->session);
    if (status == CT_ERR_INVALID_ARGUMENT || status == CT_ERR_NO_SPACE) /* a wrong trigger, or one too many */
        return CT_EXIT_USAGE;
    return status == CT_ERR_PERMISSION_DENIED ? CT_EXIT_PERMISSION : CT_EXIT_UNAVAILABLE;
}

/* Starts up to the point where everything is hooked and the program is stopped. */
static int start_session(struct recording *r, char **argv) {
    siginfo_t ignored;
    r->had_children = !waitid(P_ALL, 0, &ignored, WEXITED | WNOHANG | WNOWAIT);
    int status = argv ? ct_session_spawn_suspended(r->session, argv, NULL) : ct_session_attach(r->session, r->pid);
    if (argv)
        r->pid = ct_session_pid(r->session);
    ct_signals_spawned(r->options->wait);
    if (status >= 0)
        status = ct_session_install_full_coverage(r->session);
    if (status >= 0)
        status = ct_record_probe_begin(&r->probe, r->session);
    if (r->pid > 0 && !r->name[0])
        ct_record_name_of(r->name, sizeof r->name, r->pid);
    ct_live_erase(&r->live);
    return status;
}

/* A program that was started still exists and runs unrecorded: its end is ours. */
static int start_failed(struct recording *r, int status) {
    char sentence[1024];
    int given_up = ct_signals_any();
    snprintf(sentence, sizeof sentence, "%s", r->probe.error[0] ? r->probe.error : ct_session_error(r->session));
    if (given_up)
        ct_message_error("signal %d (%s) ended the start; %s %d continues unrecorded", given_up, strsignal(given_up),
                         r->name[0] ? r->name : "process", r->pid);
    else
        ct_message_fail(status, sentence);
    ct_session_destroy(r->session);
    r->session = NULL;
    ct_record_probe_end(&r->probe);
    ct_signals_recorded();
    int code = 0;
    if (r->spawned && (r->pid > 0 || !r->had_children))
        code = wait_for_program(r->pid > 0 ? r->pid : -1);
    return given_up && r->spawned ? code : ct_message_exit_code(given_up ? CT_ERR_TIMEOUT : status);
}

/* Code that no table divides into functions is missing in the trace. */
static void say_poor(const struct ct_session_statistics *s, bool guess) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    ct_message_error(
        "the tables of %s module%s name only %s function%s for %s of code, so the others are not recorded%s; "
        "install debug symbols, or use %scontrail stalk, which needs no tables",
        ct_text_count(a, s->poor_modules), s->poor_modules == 1 ? "" : "s", ct_text_count(b, s->poor_functions),
        s->poor_functions == 1 ? "" : "s", ct_text_size(c, s->poor_bytes), guess ? " unless they were guessed" : "",
        guess ? "" : "--guess, or ");
}

static void say_nothing_is_recorded(const struct ct_session_statistics *s) {
    if (s->read_code)
        ct_message_error(
            "nothing is recorded: the program that runs this code also reads it, and must find it unchanged "
            "(Valgrind, Mono); record without it, or use contrail stalk");
    else if (s->functions || !s->poor_modules)
        ct_message_error(
            "nothing is recorded: no function matches --only and --exclude; `contrail modules PID --functions` lists "
            "functions");
}

static void say_started(struct recording *r) {
    char text[512];
    struct ct_session_statistics s = {.size = sizeof s};
    ct_session_statistics(r->session, &s);
    ct_record_start_text(text, sizeof text, r->pid, r->name, &s);
    if (!r->options->quiet)
        ct_message_error("%s", text);
    if (!r->options->quiet)
        ct_record_probe_say_started(&r->probe);
    if (*ct_session_note(r->session))
        ct_message_error("%s", ct_session_note(r->session));
    if (*ct_session_idle(r->session) && !r->options->quiet)
        ct_message_error("%s", ct_session_idle(r->session));
    if (*ct_session_idle_filters(r->session) && !r->options->quiet)
        ct_message_error("%s", ct_session_idle_filters(r->session));
    if (s.poor_modules && !s.stalk_on && (!s.hooked || !r->options->quiet))
        say_poor(&s, r->options->guess);
    if (!s.hooked && !s.stalk_on)
        say_nothing_is_recorded(&s);
    if (!ct_session_is_reachable(r->session) && !r->options->quiet)
        ct_message_error(
            "contrail ctl, detach and tail cannot reach this recording: there is no place for its socket; set "
            "XDG_RUNTIME_DIR to a directory that only you can change");
}

/* ---- while it is recorded ---- */

/* True when Enter was pressed. In the background the terminal is not read: that would stop us. */
static bool enter_pressed(int terminal) {
    struct pollfd input = {terminal, POLLIN, 0};
    char bytes[256];
    if (terminal < 0 || tcgetpgrp(terminal) != getpgrp() || poll(&input, 1, 0) <= 0)
        return false;
    ssize_t n = read(terminal, bytes, sizeof bytes);
    return n > 0 && memchr(bytes, '\n', (size_t)n);
}

/* Keeps the hooked program stopped. 0: let it run; otherwise `what` says what happened. */
static int keep_stopped(struct recording *r, struct ct_session_event *what) {
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC), status = 0;
    ct_message_error("%d is hooked and stopped: press Enter or type `kill -USR1 %d` to let it run", r->pid, getpid());
    while (status >= 0 && what->kind == CT_SESSION_EVENT_NOTHING && !ct_signals_go() && !ct_signals_any() &&
           !enter_pressed(terminal))
        status = ct_session_wait(r->session, 50, what);
    if (terminal >= 0)
        close(terminal);
    return status;
}

/* Returns when something happens, a signal asks for the end, or the time is over (CT_SESSION_EVENT_NOTHING). */
static int wait_for_end(struct recording *r, struct ct_session_event *what) {
    uint64_t end = r->options->duration_ns ? ct_live_now() + r->options->duration_ns : UINT64_MAX;
    for (;;) {
        struct ct_session_statistics s = {.size = sizeof s};
        uint64_t now = ct_live_now(), left = now < end ? end - now : 0;
        if (ct_signals_stop() || !left)
            return 0;
        int status = ct_session_wait(r->session, left < 100000000 ? (int)(left / 1000000) + 1 : 100, what);
        if (status < 0 || what->kind != CT_SESSION_EVENT_NOTHING)
            return status;
        if (r->live.on) {
            ct_session_statistics(r->session, &s);
            ct_live_show(&r->live, &s);
        }
    }
}

static int record_target(struct recording *r, struct ct_session_event *what) {
    if (r->spawned)
        say_started(r); /* before the program says anything */
    int status = r->options->wait ? keep_stopped(r, what) : 0;
    bool given_up = r->options->wait && ct_signals_any(); /* a key as well: the stopped program cannot see it */
    if (status >= 0 && what->kind == CT_SESSION_EVENT_NOTHING && !given_up) {
        status = ct_session_resume(r->session);
        if (status >= 0 && !r->spawned)
            say_started(r); /* only now it is known how long the process was stopped */
        if (status >= 0)
            status = wait_for_end(r, what);
    }
    ct_live_erase(&r->live);
    return status;
}

/* ---- end ---- */

/* What the last line says, taken from the session before it is destroyed. */
struct ended {
    struct ct_session_statistics statistics;
    char missed[640]; /* why processes could not be recorded */
    char *directory;  /* of the session; malloc'ed; NULL: the recording failed, or there is no memory */
};

static struct ended note_ended(const struct recording *r) {
    struct ended e = {.statistics.size = sizeof e.statistics, .directory = strdup(ct_session_directory(r->session))};
    ct_session_statistics(r->session, &e.statistics);
    if (e.statistics.missed_processes)
        ct_session_missed(r->session, e.missed, sizeof e.missed);
    return e;
}

static void say_missed(const struct ended *e) {
    uint64_t count = e->statistics.missed_processes;
    if (count)
        ct_message_error("%llu process%s could not be recorded: %s", (unsigned long long)count, count == 1 ? "" : "es",
                         e->missed);
}

/* After the summaries are made: they count as well. */
static void say_ended(const struct recording *r, const struct ended *e) {
    char text[1024], next[2048];
    const char *const command[] = {"contrail", "report", e->directory, NULL};
    if (!e->directory)
        return;
    ct_record_end_text(text, sizeof text, &e->statistics, ct_find_disk_bytes(e->directory));
    ct_record_command_line(next, sizeof next, command);
    if (!r->options->quiet)
        ct_message_error("%s; read it with: %s", text, next);
    if (!r->options->quiet)
        ct_record_probe_say_ended(&r->probe);
    say_missed(e);
}

static void say_replaced(const struct recording *r) {
    if (!r->options->quiet)
        ct_message_error("%d now runs another program, which is not recorded", r->pid);
}

static bool is_over(const struct ct_session_event *what) {
    return what->kind == CT_SESSION_EVENT_EXITED || what->kind == CT_SESSION_EVENT_REPLACED;
}

/* Returns the exit code. */
static int finish_recording(struct recording *r, int status, const struct ct_session_event *what) {
    if (status >= 0 && what->kind == CT_SESSION_EVENT_DISK_FULL) {
        const char *why = ct_session_error(r->session);
        ct_message_error("%s", *why ? why : "recording stopped: the trace could not be written");
    }
    if (status >= 0 && !is_over(what))
        status = ct_session_detach(r->session);
    if (status < 0)
        ct_message_fail(status, ct_session_error(r->session));
    else if (what->kind == CT_SESSION_EVENT_REPLACED)
        say_replaced(r);
    if (status >= 0 && r->options->directory)
        snprintf(r->options->directory, PATH_MAX, "%s", ct_session_process_directory(r->session));
    struct ended ended = status >= 0 ? note_ended(r) : (struct ended){.directory = NULL};
    ct_session_destroy(r->session);
    r->session = NULL;
    ct_signals_recorded();
    if (ended.directory && ended.statistics.events >= CT_SUMMARY_LEAST)
        ct_summaries_make(ended.directory);
    say_ended(r, &ended);
    ct_record_probe_end(&r->probe);
    free(ended.directory);
    int code = 0;
    if (r->spawned)
        code = what->exit_status != -1 ? code_of(what->exit_status) : wait_for_program(r->pid);
    if (status < 0)
        return ct_message_exit_code(status);
    return what->kind == CT_SESSION_EVENT_DISK_FULL ? CT_EXIT_UNAVAILABLE : code;
}

int ct_record_run(const struct ct_record_options *options, char **argv, int pid) {
    static char command_line[65536];
    struct recording r = {.options = options, .spawned = argv != NULL, .pid = pid};
    struct ct_session_event what = {.size = sizeof what, .kind = CT_SESSION_EVENT_NOTHING, .exit_status = -1};
    if (argv)
        ct_record_command_line(command_line, sizeof command_line, (const char *const *)argv);
    else
        ct_record_command_line_of(command_line, sizeof command_line, pid);
    ct_signals_install(argv != NULL);
    ct_live_init(&r.live, !options->quiet, argv != NULL);
    int status = ct_record_probe_compile(&r.probe, &options->probes);
    if (status)
        return status;
    status = create_session(&r, command_line);
    if (status >= 0) {
        ct_record_probe_end(&r.probe);
        return status;
    }
    status = start_session(&r, argv);
    if (status < 0)
        return start_failed(&r, status);
    status = record_target(&r, &what);
    return finish_recording(&r, status, &what);
}
