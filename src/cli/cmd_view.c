/* SPDX-License-Identifier: Apache-2.0 */
/* contrail view: shows traces in the browser. */
#include "cli/command.h"
#include "cli/ctl.h"
#include "cli/message.h"
#include "cli/reading.h"
#include "cli/rights.h"
#include "cli/signals.h"
#include "cli/view_keeper.h"
#include "base/json_read.h"
#include "http/http.h"
#include "trace/reader.h"
#include "view/view.h"
#include <contrail/session.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct options {
    struct ct_option_list directories;
    uint64_t port, timeout;
    bool no_open;
};

/* ---- traces ---- */

struct named {
    const char *paths[CT_VIEW_TRACES + 1];
    char *made[CT_VIEW_TRACES + 1]; /* those that are to be freed */
    int count;
    bool live; /* a process was named, or a session that is being recorded */
};

static char status_answer[65536];

/* The directory of the session in what its recorder has answered; NULL: it is not there. */
static char *answered_directory(void) {
    struct ct_json_tree *tree = NULL;
    char *directory = NULL;
    if (!ct_json_parse(&tree, status_answer, strlen(status_answer), NULL)) {
        const char *text = ct_json_text(ct_json_get(ct_json_root(tree), "directory", NULL), "");
        directory = *text ? strdup(text) : NULL;
    }
    ct_json_tree_free(tree);
    return directory;
}

/* The directory of the session that records a process; NULL after a message. */
static char *session_of(uint64_t pid, int *code) {
    if (!ct_ctl_ask((int)pid, "status", status_answer, sizeof status_answer, code))
        return NULL;
    char *directory = answered_directory();
    if (!directory) {
        ct_message_error("the contrail that records process %d does not say where", (int)pid);
        *code = CT_EXIT_INTERNAL;
    }
    return directory;
}

/* Is a recorder writing into this session, which has a directory for the process? Others may have a process of that
 * number too. */
static bool is_recorded_in(const char *session, const char *name) {
    struct stat its, ours;
    int pid = atoi(name + 4);
    if (strncmp(name, "pid_", 4) != 0 || pid <= 0 ||
        ct_session_control(pid, "status", status_answer, sizeof status_answer) < 0)
        return false;
    char *directory = answered_directory();
    bool same = directory && !stat(directory, &its) && !stat(session, &ours) && its.st_dev == ours.st_dev &&
                its.st_ino == ours.st_ino;
    free(directory);
    return same;
}

/* A recorder that is asked later must know us: that is found out before rights are given up. */
static bool is_recorded(const char *session) {
    enum { MOST = 256 };
    DIR *directory = opendir(session);
    const struct dirent *entry;
    bool recorded = false;
    for (int i = 0; directory && !recorded && i < MOST && (entry = readdir(directory)); i++)
        recorded = is_recorded_in(session, entry->d_name);
    if (directory)
        closedir(directory);
    return recorded;
}

/* Digits that are no directory are a process. */
static bool name_trace(struct named *n, const char *word, int *code) {
    uint64_t pid;
    if (access(word, F_OK) != 0 && ct_option_parse_number(word, &pid) && pid && pid <= INT_MAX) {
        n->made[n->count] = session_of(pid, code);
        n->live = true;
        word = n->made[n->count];
    }
    n->paths[n->count] = word;
    n->count += word != NULL;
    n->live = n->live || (word && is_recorded(word));
    return word != NULL;
}

/* Returns -1 to continue, otherwise the exit code, after a message. */
static int name_traces(struct named *n, const struct ct_operands *operands) {
    int code = -1;
    for (int i = 0; i < operands->count; i++)
        if (!name_trace(n, operands->at[i], &code))
            return code;
    if (operands->count)
        return -1;
    n->paths[0] = n->made[0] = ct_find_newest_session(ct_reading_root());
    n->count = n->made[0] != NULL;
    n->live = n->count && is_recorded(n->made[0]);
    if (n->count)
        return -1;
    ct_message_error("no trace found under %s; record one with contrail spawn PROG", ct_reading_root());
    return CT_EXIT_UNAVAILABLE;
}

static void free_names(struct named *n) {
    for (int i = 0; i <= CT_VIEW_TRACES; i++)
        free(n->made[i]);
}

/* ---- the browser ---- */

/* Who opens the address, as the desktops agree. */
#define OPENER "xdg-open"

/* The whole path of a program; false: it is not in PATH. */
static bool find_program(const char *name, char path[PATH_MAX]) {
    const char *at = getenv("PATH");
    for (; at && *at; at += *at == ':') {
        size_t length = strcspn(at, ":");
        int written = snprintf(path, PATH_MAX, "%.*s/%s", (int)length, at, name);
        if (length && written > 0 && written < PATH_MAX && access(path, X_OK) == 0)
            return true;
        at += length;
    }
    return false;
}

static bool has_display(void) {
    const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY"), *browser = getenv("BROWSER");
    return (x && *x) || (wayland && *wayland) || (browser && *browser);
}

/* Waits for the address, and becomes the program that opens it. */
static void open_address(int from, char *program) {
    char address[256];
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    ssize_t length = read(from, address, sizeof address - 1);
    if (length <= 0 || setsid() < 0)
        return;
    address[length] = 0;
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3 && nothing >= 0; i++)
        dup2(nothing, i);
    (void)prctl(PR_SET_PDEATHSIG, 0);
    execl(program, OPENER, address, (char *)NULL);
}

/* A process that waits for the address: it is made before rights are given up. Returns where to write it; -1: none,
 * after a sentence that says why. */
static int prepare_browser(void) {
    char program[PATH_MAX];
    int ends[2];
    if (!find_program(OPENER, program)) {
        ct_message_error("no browser is opened, since " OPENER " is not in PATH (Debian: xdg-utils); open the address");
        return -1;
    }
    if (!has_display()) {
        ct_message_error("no browser is opened, since there is no display; open the address in one");
        return -1;
    }
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t child = fork();
    if (child) {
        close(ends[0]);
        if (child < 0)
            close(ends[1]);
        return child < 0 ? -1 : ends[1];
    }
    close(ends[1]);
    open_address(ends[0], program);
    _exit(0);
}

/* ---- serving ---- */

static int explain(int status, const char *error, const struct options *o) {
    if (*error)
        return ct_message_fail(status, error);
    if (status == CT_ERR_UNSUPPORTED) {
        ct_message_error("view needs libmicrohttpd; install it (Debian: libmicrohttpd12)");
        return CT_EXIT_UNAVAILABLE;
    }
    if (status == CT_ERR_BUSY) {
        ct_message_error("port %u is in use; give another one with --port, or none", (unsigned)o->port);
        return CT_EXIT_UNAVAILABLE;
    }
    return ct_message_fail(status, NULL);
}

static uint64_t now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

/* Returns when a signal comes, or the time is over. `browser`: a process of `user`, whose command line all can read. */
static int serve(const struct options *o, const struct named *n, const struct ct_view_keep *keep, int browser,
                 uid_t user) {
    struct ct_view *view;
    char error[1024] = "", token[CT_HTTP_TOKEN + 1], name[CT_HTTP_TOKEN + 1], once[CT_HTTP_TOKEN + 1], cookie[32],
         address[128];
    if (!ct_http_make_token(token) || !ct_http_make_token(name) || !ct_http_make_token(once))
        return ct_message_fail(CT_ERR_SYSTEM, NULL);
    snprintf(cookie, sizeof cookie, "contrail_%.8s", name);
    ct_signals_install(false);
    (void)signal(SIGPIPE, SIG_IGN); /* a browser that is gone */
    int status = ct_view_open(&view,
                              &(struct ct_view_options){.paths = n->paths,
                                                        .directories = o->directories.items,
                                                        .port = (uint16_t)o->port,
                                                        .token = token,
                                                        .cookie = cookie,
                                                        .once = browser >= 0 ? once : NULL,
                                                        .once_uid = user,
                                                        .keep = keep},
                              error, sizeof error);
    if (status)
        return explain(status, error, o);
    printf("http://127.0.0.1:%u/?token=%s\n", ct_view_port(view), token);
    fflush(stdout);
    int length = snprintf(address, sizeof address, "http://127.0.0.1:%u/?token=%s", ct_view_port(view), once);
    if (browser >= 0)
        (void)!write(browser, address, (size_t)length);
    uint64_t end = o->timeout ? now_s() + (o->timeout + 999999999) / 1000000000 : UINT64_MAX;
    while (!ct_signals_stop() && now_s() < end)
        poll(NULL, 0, 200);
    ct_view_close(view);
    return ct_message_finish();
}

static int run(const struct options *o, const struct ct_operands *operands) {
    struct named n = {0};
    int code = name_traces(&n, operands);
    if (code < 0) {
        struct ct_rights rights = n.live ? ct_rights_to_talk((char *const *)(uintptr_t)n.paths, n.count)
                                         : ct_rights_to_read((char *const *)(uintptr_t)n.paths, n.count);
        struct ct_view_keeper *keeper =
            rights.user != geteuid() && rights.search ? ct_view_keeper_start(n.paths, n.count) : NULL;
        int browser = o->no_open ? -1 : prepare_browser();
        uid_t user = geteuid();
        ct_rights_drop(&rights, true);
        code = serve(o, &n, ct_view_keeper_keep(keeper), browser, user);
        if (browser >= 0)
            close(browser);
        ct_view_keeper_end(keeper);
    }
    free_names(&n);
    return code;
}

static int run_view(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    int code = ct_options_parse(&ct_command_view, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    code = run(&options, &operands);
    ct_options_release(&ct_command_view, &options);
    return code;
}

static const struct ct_option option_table[] = {
    {"no-open", 'n', CT_OPTION_FLAG, offsetof(struct options, no_open), NULL,
     "print the address, and start no browser"},
    {"port", 'p', CT_OPTION_NUMBER, offsetof(struct options, port), "N", "listen on this port; 0: any that is free",
     .max = 65535},
    {"timeout", 0, CT_OPTION_DURATION, offsetof(struct options, timeout), "TIME",
     "end after this time (default: with Ctrl-C)"},
    {"debug-dir", 0, CT_OPTION_LIST, offsetof(struct options, directories), "DIR",
     "look for binaries and debug files there too"},
    {0},
};

const struct ct_command ct_command_view = {
    .name = "view",
    .group = CT_GROUP_READ,
    .run = run_view,
    .summary = "show traces in the browser",
    .operands = "[TRACE|PID ...]",
    .max_operands = CT_VIEW_TRACES,
    .description =
        "Serves a page that shows the trace: its calls over time, flame graphs, functions, latencies, crashes, SQL. "
        "A trace that is still being written is followed; PID names a process that is recorded right now. With a "
        "second trace the page compares them.\n\n"
        "The server listens on 127.0.0.1 alone. Its address has a token, and nobody without it gets an answer. "
        "Through ssh: `ssh -L 8000:127.0.0.1:8000 HOST contrail view --no-open --port 8000`. Nothing is loaded from "
        "elsewhere. It ends with Ctrl-C.",
    .options = option_table,
    .examples = "contrail view\n"
                "contrail view traces/session_20250102_030405\n"
                "contrail view before after\n"
                "contrail view $(pidof server)\n"
                "contrail view --no-open --port 8000 --timeout 1h",
};
