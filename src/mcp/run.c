/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command as a child process: see run.h. */
#include "mcp/run.h"
#include "base/grow.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BYTES = 16 << 20, PIECE = 64 << 10, TICK_MS = 1000, STOP_SECONDS = 5 };

extern char **environ;

/* ---- words ---- */

void ct_mcp_word(struct ct_mcp_words *words, const char *word) {
    if (words->count == CT_MCP_WORDS || !(words->at[words->count] = strdup(word)))
        words->failed = true;
    else
        words->count++;
}

void ct_mcp_words_free(struct ct_mcp_words *words) {
    for (size_t i = 0; i < words->count; i++)
        free(words->at[i]);
    *words = (struct ct_mcp_words){0};
}

static bool is_plain(const char *word) {
    return *word && !word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./=:,@%+")];
}

static void put_word(FILE *out, const char *word) {
    if (is_plain(word)) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

char *ct_mcp_words_text(const struct ct_mcp_words *words) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fputs("contrail", out);
    for (size_t i = 1; i < words->count; i++) {
        fputc(' ', out);
        put_word(out, words->at[i]);
    }
    fclose(out);
    return text;
}

/* ---- the child ---- */

void ct_mcp_run_init(struct ct_mcp_run *run) {
    *run = (struct ct_mcp_run){0};
    pthread_mutex_init(&run->lock, NULL);
}

void ct_mcp_run_free(struct ct_mcp_run *run) {
    free(run->out);
    free(run->error);
    pthread_mutex_destroy(&run->lock);
}

/* Its process group: what it has started ends too. */
static void end_child(struct ct_mcp_run *run, int signal) {
    pthread_mutex_lock(&run->lock);
    if (run->child)
        (void)kill(-run->child, signal);
    pthread_mutex_unlock(&run->lock);
}

void ct_mcp_cancel(struct ct_mcp_run *run) {
    pthread_mutex_lock(&run->lock);
    run->cancelled = true;
    if (run->child)
        (void)kill(-run->child, SIGTERM);
    pthread_mutex_unlock(&run->lock);
}

static int start(struct ct_mcp_run *run, const struct ct_mcp_words *words, int out, int error) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    pid_t child;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, error, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pthread_mutex_lock(&run->lock);
    int failed =
        run->cancelled ? ECANCELED : posix_spawn(&child, words->at[0], &actions, &attributes, words->at, environ);
    run->child = failed ? 0 : child;
    pthread_mutex_unlock(&run->lock);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* ---- what it prints ---- */

struct stream {
    int fd;
    char **text;
    size_t *length, room;
};

/* False: the stream has ended. */
static bool take(struct ct_mcp_run *run, struct stream *s) {
    char dropped[4096];
    bool full = *s->length >= MOST_BYTES || !ct_grow(s->text, &s->room, *s->length + PIECE, 1, 2 * PIECE);
    ssize_t n = read(s->fd, full ? dropped : *s->text + *s->length, full ? sizeof dropped : PIECE);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (full)
        run->cut |= n > 0;
    else
        *s->length += (size_t)n;
    return n > 0;
}

static unsigned seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned)(now.tv_sec - start->tv_sec - (now.tv_nsec < start->tv_nsec));
}

/* Called each second or more often. Asks a command to end that takes too long; then ends it. */
static void pass_time(struct ct_mcp_run *run, unsigned seconds, unsigned *last) {
    if (seconds == *last)
        return;
    *last = seconds;
    if (run->tick)
        run->tick(run->arg, seconds);
    if (run->timeout_s && seconds >= run->timeout_s) {
        run->timed_out = true;
        end_child(run, seconds >= run->timeout_s + STOP_SECONDS ? SIGKILL : SIGTERM);
    }
}

static void read_all(struct ct_mcp_run *run, int out, int error) {
    struct stream streams[2] = {{out, &run->out, &run->out_length, 0}, {error, &run->error, &run->error_length, 0}};
    struct timespec began;
    unsigned last = 0;
    clock_gettime(CLOCK_MONOTONIC, &began);
    while (streams[0].fd >= 0 || streams[1].fd >= 0) {
        struct pollfd polled[2] = {{streams[0].fd, POLLIN, 0}, {streams[1].fd, POLLIN, 0}};
        if (poll(polled, 2, TICK_MS) > 0)
            for (int i = 0; i < 2; i++)
                if (polled[i].revents && !take(run, &streams[i]))
                    streams[i].fd = -1;
        pass_time(run, seconds_since(&began), &last);
    }
}

static void reap(struct ct_mcp_run *run) {
    int how = 0;
    while (waitpid(run->child, &how, 0) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&run->lock);
    run->child = 0;
    pthread_mutex_unlock(&run->lock);
    run->exit = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/* Texts end with a NUL, also empty ones. */
static bool end_texts(struct ct_mcp_run *run) {
    if (!run->out)
        run->out = calloc(1, 1);
    if (!run->error)
        run->error = calloc(1, 1);
    if (!run->out || !run->error)
        return false;
    run->out[run->out_length] = run->error[run->error_length] = 0; /* take leaves room */
    return true;
}

int ct_mcp_run(struct ct_mcp_run *run, const struct ct_mcp_words *words) {
    int out[2], error[2];
    if (words->failed)
        return CT_ERR_NO_MEMORY;
    if (pipe2(out, O_CLOEXEC))
        return CT_ERR_SYSTEM;
    if (pipe2(error, O_CLOEXEC)) {
        close(out[0]);
        close(out[1]);
        return CT_ERR_SYSTEM;
    }
    int failed = start(run, words, out[1], error[1]);
    close(out[1]);
    close(error[1]);
    if (!failed) {
        read_all(run, out[0], error[0]);
        reap(run);
    }
    close(out[0]);
    close(error[0]);
    if (failed)
        return failed == ECANCELED ? CT_ERR_TIMEOUT : CT_ERR_SYSTEM;
    return end_texts(run) ? 0 : CT_ERR_NO_MEMORY;
}
