/* SPDX-License-Identifier: Apache-2.0 */
/* See probe.h: the system's compiler makes an object file, freestanding. */
#include "script/probe.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_BYTES (64u << 20)
#define MOST_WORDS 65536u

extern char **environ;

/* As bindings/node/lib/cmodule.js has them. */
static const char *const options[] = {
    "-c",
    "-O2",
    "-std=gnu11",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-pic",
    "-fno-pie",
    "-fno-common",
    "-fno-tree-loop-distribute-patterns",
    "-w",
};
enum { OPTIONS = sizeof options / sizeof *options };

static char *read_words(int fd) {
    char *words = calloc(1, MOST_WORDS);
    size_t length = 0;
    ssize_t got = 1;
    char rest[512];
    while (words && got > 0) {
        bool room = length < MOST_WORDS - 1;
        got = room ? read(fd, words + length, MOST_WORDS - 1 - length) : read(fd, rest, sizeof rest);
        length += got > 0 && room ? (size_t)got : 0;
    }
    return words;
}

/* Exit status of the compiler; -1: there is no such one. */
static int run_compiler(const char *compiler, char **argv, char **words) {
    int ends[2], status = -1;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    int failed = posix_spawnp(&pid, compiler, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (!failed) {
        free(*words);
        *words = read_words(ends[0]);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    close(ends[0]);
    return failed || (WIFEXITED(status) && WEXITSTATUS(status) == 127) ? -1 : status;
}

static int read_object(struct ct_probe_code *out, const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool whole = fd >= 0 && !fstat(fd, &st) && st.st_size > 0 && st.st_size < MOST_BYTES &&
                 (out->bytes = malloc((size_t)st.st_size)) != NULL;
    for (ssize_t got; whole && out->size < (size_t)st.st_size; out->size += (size_t)got)
        if ((got = read(fd, out->bytes + out->size, (size_t)st.st_size - out->size)) <= 0)
            whole = false;
    if (fd >= 0)
        close(fd);
    return whole ? 0 : CT_ERR_BAD_FILE;
}

/* The first compiler that there is decides. */
static int compile(struct ct_probe_code *out, const char *include, const char *object) {
    const char *const compilers[] = {getenv("CONTRAIL_CC"), "cc", "gcc", "clang"};
    char *argv[OPTIONS + CT_PROBE_OPTIONS + 8];
    int n = 1, exit_status = -1;
    for (int i = 0; i < OPTIONS; i++)
        argv[n++] = (char *)(uintptr_t)options[i];
    for (int i = 0; i < CT_PROBE_OPTIONS && ct_probe_options[i]; i++)
        argv[n++] = (char *)(uintptr_t)ct_probe_options[i];
    const char *const rest[] = {"-I", include, out->file, "-o", object, NULL};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        argv[n++] = (char *)(uintptr_t)rest[i];
    for (size_t i = 0; exit_status < 0 && i < sizeof compilers / sizeof *compilers; i++) {
        if (!compilers[i] || !*compilers[i])
            continue;
        argv[0] = (char *)(uintptr_t)compilers[i];
        exit_status = run_compiler(compilers[i], argv, &out->words);
    }
    if (exit_status < 0)
        return CT_ERR_UNSUPPORTED;
    return exit_status ? CT_ERR_BAD_FILE : read_object(out, object);
}

int ct_probe_compile(struct ct_probe_code *out, const char *file, const char *include, char *error, size_t error_size) {
    const char *folder = getenv("TMPDIR");
    char place[PATH_MAX], object[PATH_MAX + 16];
    *out = (struct ct_probe_code){.file = file};
    if (access(file, R_OK)) {
        snprintf(error, error_size, "--probe: %s cannot be read: %s", file, strerror(errno));
        return CT_ERR_INVALID_ARGUMENT;
    }
    snprintf(place, sizeof place, "%s/contrail-probe-XXXXXX", folder && *folder ? folder : "/tmp");
    if (!mkdtemp(place)) {
        snprintf(error, error_size, "--probe: %s cannot be compiled in %s: %s", file, place, strerror(errno));
        return CT_ERR_SYSTEM;
    }
    snprintf(object, sizeof object, "%s/probe.o", place);
    int status = compile(out, include, object);
    unlink(object);
    rmdir(place);
    if (status == CT_ERR_UNSUPPORTED)
        snprintf(error, error_size, "--probe needs a C compiler: install gcc or clang, or name one in CONTRAIL_CC");
    else if (status)
        snprintf(error, error_size, "--probe: %s does not compile", file);
    if (!status) {
        free(out->words);
        out->words = NULL;
    }
    return status;
}

void ct_probe_code_free(struct ct_probe_code *code) {
    free(code->bytes);
    free(code->words);
    *code = (struct ct_probe_code){.file = NULL};
}
