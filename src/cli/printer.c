/* SPDX-License-Identifier: Apache-2.0 */
/* Output of the reading commands. */
#include "cli/printer.h"
#include "cli/command.h"
#include "cli/pager.h"
#include "symbols/short_name.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INTERACTIVE_LIMIT = 4096, KEPT = -1 };
enum { LEAST_COLUMNS = 20, USUAL_COLUMNS = 80, MOST_COLUMNS = 10000 };

/* ---- the pager ---- */

/* The pager is the user's program and runs with the user's rights: a process of another user that has our terminal
 * could type on it. So it is started before rights are given up (rights.h), and waits until it is needed. */
static struct {
    pid_t pid; /* 0: none */
    int in, go;
} waiting;

/* Waits for one byte on `go`: the pager is needed. */
static void run_pager(int in, int go) {
    char byte;
    signal(SIGINT, SIG_IGN); /* a key pressed meanwhile is for the process that reads the trace */
    if (read(go, &byte, 1) != 1)
        _exit(0);
    ct_pager_run(in);
}

void ct_printer_prepare(void) {
    int data[2], go[2];
    if (waiting.pid || ct_pager_is_kept() || !isatty(STDOUT_FILENO) || !ct_pager_wanted() || pipe2(data, O_CLOEXEC))
        return;
    if (pipe2(go, O_CLOEXEC)) {
        close(data[0]);
        close(data[1]);
        return;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(data[1]);
        close(go[1]);
        run_pager(data[0], go[0]);
    }
    close(data[0]);
    close(go[0]);
    if (pid < 0) {
        close(data[1]);
        close(go[1]);
        return;
    }
    waiting.pid = pid;
    waiting.in = data[1];
    waiting.go = go[1];
}

/* One of several, by the process that keeps the rights for them. */
static void start_kept(struct ct_printer *p) {
    int fd = ct_pager_start();
    if (fd < 0)
        return;
    p->fd = fd;
    p->pager = KEPT;
    signal(SIGINT, SIG_IGN); /* for the pager */
}

static void start_pager(struct ct_printer *p) {
    if (ct_pager_is_kept()) {
        start_kept(p);
        return;
    }
    ct_printer_prepare();
    if (!waiting.pid || write(waiting.go, "", 1) != 1)
        return;
    close(waiting.go);
    p->pager = waiting.pid;
    p->fd = waiting.in;
    waiting.pid = 0;
    signal(SIGINT, SIG_IGN); /* for the pager */
}

/* The width that the user asks for; 0: none. */
static int columns_wanted(void) {
    const char *text = getenv("COLUMNS");
    char *end;
    long columns = text ? strtol(text, &end, 10) : 0;
    return columns >= LEAST_COLUMNS && columns <= MOST_COLUMNS && !*end ? (int)columns : 0;
}

static int terminal_width(void) {
    struct winsize size = {0};
    int wanted = columns_wanted();
    return wanted ? wanted : ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) ? 0 : size.ws_col;
}

size_t ct_printer_columns(const struct ct_printer *p) {
    int columns = p->width ? p->width : columns_wanted();
    return columns ? (size_t)columns : USUAL_COLUMNS;
}

/* As setlocale decides it, without the files of locales, which may not be installed. */
static bool has_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && (!value || !*value); i++)
        value = getenv(names[i]);
    return value && (strcasestr(value, "utf-8") || strcasestr(value, "utf8"));
}

void ct_printer_open(struct ct_printer *p, bool page) {
    bool terminal = isatty(STDOUT_FILENO);
    fflush(stdout);
    signal(SIGPIPE, SIG_IGN);
    p->fd = STDOUT_FILENO;
    p->pager = 0;
    p->colours = ct_colour_wanted(stdout);
    p->utf8 = has_utf8();
    p->width = terminal ? terminal_width() : 0;
    p->closed = false;
    p->error = 0;
    p->used = 0;
    p->limit = terminal ? INTERACTIVE_LIMIT : sizeof p->buffer;
    if (terminal && page)
        start_pager(p);
}

/* ---- writing ---- */

void ct_printer_flush(struct ct_printer *p) {
    size_t done = 0;
    while (done < p->used && ct_printer_wanted(p)) {
        ssize_t n = write(p->fd, p->buffer + done, p->used - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno == EPIPE)
            p->closed = true;
        else if (errno != EINTR)
            p->error = errno;
    }
    p->used = 0;
}

void ct_printer_bytes(struct ct_printer *p, const char *bytes, size_t count) {
    while (count) {
        size_t room = p->limit - p->used, part = count < room ? count : room;
        memcpy(p->buffer + p->used, bytes, part);
        p->used += part;
        bytes += part;
        count -= part;
        if (p->used == p->limit)
            ct_printer_flush(p);
    }
}

void ct_printer_text(struct ct_printer *p, const char *text) {
    ct_printer_bytes(p, text, strlen(text));
}

void ct_printer_spaces(struct ct_printer *p, size_t count) {
    static const char spaces[] = "                                                                ";
    while (count) {
        size_t part = count < sizeof spaces - 1 ? count : sizeof spaces - 1;
        ct_printer_bytes(p, spaces, part);
        count -= part;
    }
}

void ct_printer_format(struct ct_printer *p, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (n > 0) /* it may contain names */
        ct_printer_bytes(p, text, ct_message_clean_lines(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1));
}

void ct_printer_colour(struct ct_printer *p, enum ct_colour colour) {
    if (p->colours)
        ct_printer_text(p, ct_colour(stdout, colour));
}

/* ---- names ---- */

/* Size of the first `columns` characters. */
static size_t bytes_of(const char *text, size_t length, size_t columns) {
    size_t at = 0;
    for (bool shown; at < length && columns--;)
        at += ct_message_character(text + at, length - at, &shown);
    return at;
}

static size_t columns_of(const char *text, size_t length) {
    size_t columns = 0;
    bool shown;
    for (size_t at = 0; at < length; at += ct_message_character(text + at, length - at, &shown))
        columns++;
    return columns;
}

static void put_clean(struct ct_printer *p, const char *text, size_t length) {
    for (size_t start = 0, end = 0; start < length; start = end) {
        bool shown = true;
        size_t size = 0;
        for (; end < length; end += size) {
            size = ct_message_character(text + end, length - end, &shown);
            if (!shown)
                break;
        }
        ct_printer_bytes(p, text + start, end - start);
        if (end < length) {
            ct_printer_bytes(p, "?", 1);
            end += size;
        }
    }
}

size_t ct_printer_name(struct ct_printer *p, const char *name, size_t room) {
    size_t length = strlen(name), columns = columns_of(name, length);
    if (room == 0 || columns <= room) {
        put_clean(p, name, length);
        return columns;
    }
    size_t dots = p->utf8 ? 1 : room < 3 ? room : 3;
    put_clean(p, name, bytes_of(name, length, room - dots));
    ct_printer_bytes(p, p->utf8 ? "…" : "...", p->utf8 ? strlen("…") : dots);
    return room;
}

static bool keeps_names;

void ct_printer_keep_names(void) {
    keeps_names = true;
}

/* Leaves out more and more until the name fits: arguments below the first level, parameters, all arguments. */
size_t ct_printer_function(struct ct_printer *p, const char *name, size_t room) {
    static char *(*const steps[])(const char *, const char *) = {ct_short_name, ct_short_parameters, ct_shorter_name};
    char *made = NULL;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && !keeps_names; i++) {
        const char *text = made ? made : name;
        if (i && (!room || columns_of(text, strlen(text)) <= room))
            break;
        char *next = steps[i](text, p->utf8 ? "…" : "...");
        if (next) {
            free(made);
            made = next;
        }
    }
    size_t took = ct_printer_name(p, made ? made : name, room);
    free(made);
    return took;
}

/* ---- the end ---- */

int ct_printer_close(struct ct_printer *p) {
    ct_printer_flush(p);
    if (p->pager) {
        int status;
        close(p->fd);
        if (p->pager == KEPT)
            ct_pager_wait();
        while (p->pager != KEPT && waitpid(p->pager, &status, 0) < 0 && errno == EINTR)
            ;
        signal(SIGINT, SIG_DFL);
    }
    if (!p->error)
        return 0;
    ct_message_error("the output could not be written: %s", strerror(p->error));
    return CT_EXIT_UNAVAILABLE;
}
