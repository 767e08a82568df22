/* SPDX-License-Identifier: Apache-2.0 */
/* See session_util.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "session_util.h"

char *program;
char root[64], runtime[80], output[96];
struct ct_session *s;

/* ---- processes ---- */

static pid_t children[8];

/* Starts the program outside of any session and waits until it is ready. */
pid_t start_process(const char *mode) {
    int ends[2];
    char line[8] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        signal(SIGPIPE, SIG_IGN); /* nobody reads what it says when it is executed again */
        close(ends[0]);
        close(ends[1]);
        execl(program, "session_target", mode, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], line, 6), 6);
    assert_string_equal(line, "ready\n");
    close(ends[0]);
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++)
        if (!children[i]) {
            children[i] = pid;
            return pid;
        }
    fail_msg("too many processes");
    return -1;
}

int end_process(pid_t pid, int number) {
    int status = -1;
    kill(pid, number);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++)
        if (children[i] == pid)
            children[i] = 0;
    return status;
}

/* 'R', 'S', 't' (traced and stopped), 'Z' ...; 0: there is none. */
char process_state(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    const char *at = strrchr(text, ')');
    return at && at[1] ? at[2] : 0;
}

bool is_stopped(pid_t pid) {
    return process_state(pid) == 't';
}

/* Nothing of ours is in it. */
bool is_clean(pid_t pid) {
    char path[64], line[512];
    bool clean = true;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        clean &= !strstr(line, "memfd:contrail");
    if (file)
        fclose(file);
    return clean;
}

/* It does what it did before anybody came. */
bool handles(pid_t pid, int number) {
    char path[64], line[256];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "SigCgt: %llx", &caught);
    if (file)
        fclose(file);
    return caught >> (number - 1) & 1;
}

void check_unharmed(pid_t pid) {
    assert_false(is_stopped(pid));
    assert_true(is_clean(pid));
    int status = end_process(pid, SIGTERM);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

/* ---- directories ---- */

static unsigned counted;

static int count_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)path;
    (void)info;
    (void)kind;
    counted += where->level > 0;
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info;
    (void)kind;
    return where->level ? remove(path) : 0;
}

unsigned entries_below(const char *path) {
    counted = 0;
    nftw(path, count_one, 16, FTW_PHYS);
    return counted;
}

bool exists(const char *path) {
    return !access(path, F_OK);
}

static char *read_all(const char *path) {
    static char text[1 << 20];
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

char *manifest(void) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/manifest.json", ct_session_process_directory(s));
    return read_all(path);
}

/* ---- sessions ---- */

int begin(void **state) {
    (void)state;
    snprintf(output, sizeof output, "%s/traces", root);
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    return 0;
}

/* Whatever happened: no session, no process, no file. */
int clean(void **state) {
    (void)state;
    if (s)
        ct_session_destroy(s);
    s = NULL;
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++)
        if (children[i])
            end_process(children[i], SIGKILL);
    nftw(output, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    rmdir(output);
    return 0;
}

int create_with(struct ct_session_options options) {
    options.output = output;
    options.no_cache = false;
    return ct_session_create(&s, &options);
}

void create(void) {
    assert_int_equal(
        create_with((struct ct_session_options){.size = sizeof(struct ct_session_options), .index_memory = 1u << 20}),
        0);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
}

static char *argv_of(const char *mode, char **argv) {
    argv[0] = program;
    argv[1] = (char *)(uintptr_t)mode;
    argv[2] = NULL;
    return program;
}

int spawn(const char *mode) {
    char *argv[3];
    argv_of(mode, argv);
    return ct_session_spawn_suspended(s, argv, NULL);
}

/* Waits until something happens. */
struct ct_session_event wait_for_event(void) {
    struct ct_session_event what = {.size = sizeof what};
    do
        assert_int_equal(ct_session_wait(s, 1000, &what), 0);
    while (what.kind == CT_SESSION_EVENT_NOTHING);
    return what;
}

void expect_exit(int code) {
    struct ct_session_event what = wait_for_event();
    assert_int_equal(what.kind, CT_SESSION_EVENT_EXITED);
    assert_true(WIFEXITED(what.exit_status));
    assert_int_equal(WEXITSTATUS(what.exit_status), code);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
}

/* ---- the program ---- */

bool session_test_begins(int argc, char **argv) {
    strcpy(root, "/tmp/contrail-session-XXXXXX");
    if (argc < 2 || !mkdtemp(root))
        return false;
    program = argv[1];
    snprintf(runtime, sizeof runtime, "%s/run", root);
    mkdir(runtime, 0700);
    setenv("XDG_CACHE_HOME", root, 1);
    return true;
}

void session_test_ends(void) {
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    rmdir(root);
}
