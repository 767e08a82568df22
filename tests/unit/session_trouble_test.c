/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that fail leave nothing behind; the control socket, and who may use it; looking from another thread.
 * Argument: the program to record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "session_util.h"

/* ---- failures ---- */

static void expect_failure(int status, int expected) {
    assert_int_equal(status, expected);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    assert_true(strlen(ct_session_error(s)) > 10);
    assert_int_equal(entries_below(output), 1);
}

static void test_spawn_failures(void **state) {
    (void)state;
    char plain[128];
    snprintf(plain, sizeof plain, "%s/plain", root);
    close(open(plain, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    char *missing[] = {"/nowhere/at/all", NULL}, *unknown[] = {"no-such-program-here", NULL}, *file[] = {plain, NULL};
    create();
    expect_failure(ct_session_spawn_suspended(s, missing, NULL), CT_ERR_NOT_FOUND);
    expect_failure(ct_session_spawn_suspended(s, unknown, NULL), CT_ERR_NOT_FOUND);
    expect_failure(ct_session_spawn_suspended(s, file, NULL), CT_ERR_PERMISSION_DENIED);
    unlink(plain);
    ct_session_destroy(s);
    s = NULL;
    assert_false(exists(output));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

static void test_attach_failures(void **state) {
    (void)state;
    create();
    pid_t zombie = fork();
    if (zombie == 0)
        _exit(0);
    while (process_state(zombie) != 'Z')
        usleep(1000);
    expect_failure(ct_session_attach(s, 0x7ffffff0), CT_ERR_NOT_FOUND);
    expect_failure(ct_session_attach(s, -5), CT_ERR_NOT_FOUND);
    assert_true(ct_session_attach(s, zombie) < 0);
    assert_true(ct_session_attach(s, getpid()) < 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    waitpid(zombie, NULL, 0);
    /* Somebody else traces it. */
    pid_t pid = start_process(NULL);
    assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
    expect_failure(ct_session_attach(s, pid), CT_ERR_BUSY);
    assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
    waitpid(pid, NULL, 0);
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    check_unharmed(pid);
}

/* Two of us cannot record the same process. */
static void test_recorded_already(void **state) {
    (void)state;
    pid_t pid = start_process(NULL);
    create();
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_resume(s), 0);
    struct ct_session *first = s;
    create();
    int status = ct_session_attach(s, pid);
    if (!status)
        status = ct_session_install_full_coverage(s);
    assert_int_equal(status, CT_ERR_BUSY);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    ct_session_destroy(s);
    s = first;
    assert_int_equal(ct_session_state(s), CT_SESSION_RUNNING);
    char answer[4096];
    assert_int_equal(ct_session_control(pid, "status", answer, sizeof answer), 0);
    assert_int_equal(ct_session_detach(s), 0);
    check_unharmed(pid);
}

static void test_output_failures(void **state) {
    (void)state;
    struct ct_session_options options = {.size = sizeof options, .output = "/dev/null/traces"};
    int status = ct_session_create(&s, &options);
    assert_true(status < 0);
    assert_non_null(s); /* it says why */
    assert_non_null(strstr(ct_session_error(s), "--output"));
    assert_int_equal(spawn("quick"), CT_ERR_BAD_STATE);
    assert_int_equal(ct_session_attach(s, getppid()), CT_ERR_BAD_STATE);
    ct_session_destroy(s);
    s = NULL;
    /* Parents that were made for nothing go too. */
    char deep[160];
    snprintf(deep, sizeof deep, "%s/a/b/c", output);
    options.output = deep;
    assert_int_equal(ct_session_create(&s, &options), 0);
    assert_true(exists(deep));
    ct_session_destroy(s);
    s = NULL;
    assert_false(exists(output));
}

static unsigned steps, give_up_at;

static int give_up(void *arg, const char *step, uint64_t done, uint64_t total) {
    (void)arg;
    (void)done;
    (void)total;
    assert_true(step && step[0]);
    return steps++ == give_up_at;
}

/* Ctrl-C at each step: everything is undone. */
static void test_giving_up(void **state) {
    (void)state;
    unsigned seen = 0;
    for (give_up_at = 0;; give_up_at++, seen++) {
        pid_t pid = start_process(NULL);
        steps = 0;
        assert_int_equal(create_with((struct ct_session_options){
                             .size = sizeof(struct ct_session_options), .progress = give_up, .index_memory = 1u << 20}),
                         0);
        assert_int_equal(ct_session_attach(s, pid), 0);
        int status = ct_session_install_full_coverage(s);
        if (!status) {
            assert_int_equal(ct_session_detach(s), 0);
            check_unharmed(pid);
            break;
        }
        assert_int_equal(status, CT_ERR_TIMEOUT);
        assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
        assert_string_equal(ct_session_process_directory(s), "");
        ct_session_destroy(s);
        s = NULL;
        assert_false(exists(output));
        check_unharmed(pid);
    }
    assert_true(seen >= 3);
}

/* The same for a program that we started: it runs, unrecorded. */
static void test_giving_up_spawned(void **state) {
    (void)state;
    for (give_up_at = 0; give_up_at < 3; give_up_at++) {
        steps = 0;
        assert_int_equal(create_with((struct ct_session_options){
                             .size = sizeof(struct ct_session_options), .progress = give_up, .index_memory = 1u << 20}),
                         0);
        assert_int_equal(spawn("quick"), 0);
        pid_t pid = ct_session_pid(s);
        assert_int_equal(ct_session_install_full_coverage(s), CT_ERR_TIMEOUT);
        assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
        ct_session_destroy(s);
        s = NULL;
        assert_false(exists(output));
    }
}

static void test_timeout(void **state) {
    (void)state;
    pid_t pid = start_process(NULL);
    assert_int_equal(
        create_with((struct ct_session_options){.size = sizeof(struct ct_session_options), .startup_timeout_ms = 1}),
        0);
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), CT_ERR_TIMEOUT);
    assert_non_null(strstr(ct_session_error(s), "--startup-timeout"));
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    check_unharmed(pid);
}

/* Destroying in the middle detaches. */
static void test_destroy(void **state) {
    (void)state;
    for (int how_far = 0; how_far < 3; how_far++) {
        pid_t pid = start_process(NULL);
        create();
        assert_int_equal(ct_session_attach(s, pid), 0);
        if (how_far > 0)
            assert_int_equal(ct_session_install_full_coverage(s), 0);
        if (how_far > 1)
            assert_int_equal(ct_session_resume(s), 0);
        ct_session_destroy(s);
        s = NULL;
        assert_int_equal(exists(output), how_far > 0);
        check_unharmed(pid);
    }
}

/* ---- the control socket ---- */

static pid_t record(void) {
    pid_t pid = start_process(NULL);
    create();
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_resume(s), 0);
    return pid;
}

static void socket_of(pid_t pid, char *path, size_t size) {
    snprintf(path, size, "%s/contrail/%d.sock", runtime, pid);
}

/* Brackets and quotes are balanced, and it is one object. */
static void check_json(const char *text) {
    int depth = 0;
    bool quoted = false;
    assert_int_equal(text[0], '{');
    for (; *text && *text != '\n'; text++) {
        if (quoted && *text == '\\')
            text++;
        else if (*text == '"')
            quoted = !quoted;
        else if (!quoted && (*text == '{' || *text == '['))
            depth++;
        else if (!quoted && (*text == '}' || *text == ']'))
            assert_true(--depth > 0 || !text[1] || text[1] == '\n');
    }
    assert_true(!quoted && !depth);
}

/* Other users than root may not look where its recordings are: that is all they learn then. */
static void expect_unrecorded(pid_t pid) {
    char answer[4096];
    int status = ct_session_control(pid, "status", answer, sizeof answer);
    if (geteuid() == 0 || status != CT_ERR_PERMISSION_DENIED)
        assert_int_equal(status, CT_ERR_NOT_FOUND);
}

static void test_control_status(void **state) {
    (void)state;
    char answer[8192], path[160], small[8];
    struct stat info;
    pid_t pid = record();
    assert_int_equal(ct_session_control(pid, "status", answer, sizeof answer), 0);
    check_json(answer);
    assert_non_null(strstr(answer, "\"state\":\"running\""));
    assert_non_null(strstr(answer, "\"written\":"));
    assert_int_equal(ct_session_control(pid, "dance", answer, sizeof answer), CT_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(answer, "unknown"));
    assert_int_equal(ct_session_control(pid, "status", small, sizeof small), 0); /* cut, and not beyond its end */
    assert_int_equal(strlen(small), sizeof small - 1);
    assert_int_equal(ct_session_control(pid, "status", answer, 0), CT_ERR_INVALID_ARGUMENT);
    expect_unrecorded(getpid());
    socket_of(pid, path, sizeof path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(ct_session_pause(s), 0);
    assert_int_equal(ct_session_control(pid, "status", answer, sizeof answer), 0);
    assert_non_null(strstr(answer, "\"state\":\"attached\""));
    assert_int_equal(ct_session_detach(s), 0);
    assert_false(exists(path));
    expect_unrecorded(pid);
    check_unharmed(pid);
}

static void *ask_to_stop(void *arg) {
    char answer[256] = "";
    int status = ct_session_control(*(pid_t *)arg, "stop", answer, sizeof answer);
    return (void *)(uintptr_t)(status == 0 && !strcmp(answer, "ok"));
}

static void test_control_stop(void **state) {
    (void)state;
    pid_t pid = record();
    pthread_t asker;
    void *pleased;
    assert_int_equal(pthread_create(&asker, NULL, ask_to_stop, &pid), 0);
    assert_int_equal(wait_for_event().kind, CT_SESSION_EVENT_ASKED_TO_STOP);
    assert_int_equal(ct_session_state(s), CT_SESSION_RUNNING);
    assert_int_equal(ct_session_detach(s), 0);
    pthread_join(asker, &pleased);
    assert_true(pleased);
    check_unharmed(pid);
}

/* A process of another user: the exit code says what answer it got. */
static int as_somebody_else(pid_t pid, bool knock) {
    pid_t child = fork();
    if (child == 0) {
        char answer[4096] = "", path[160];
        if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
            _exit(99);
        if (!knock)
            _exit(ct_session_control(pid, "status", answer, sizeof answer) == CT_ERR_PERMISSION_DENIED ? 0 : 1);
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        socket_of(pid, path, sizeof path);
        strcpy(address.sun_path, path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address))
            _exit(2);
        (void)!send(fd, "stop\n", 5, MSG_NOSIGNAL);
        _exit(recv(fd, answer, sizeof answer, 0) > 0 ? 3 : 0); /* hung up */
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_control_is_the_owners(void **state) {
    (void)state;
    if (geteuid() != 0) {
        skip();
        return;
    }
    char path[160], directory[128];
    unsetenv("XDG_RUNTIME_DIR"); /* then it is where another user looks */
    pid_t pid = record();
    assert_int_equal(as_somebody_else(pid, false), 0);
    assert_int_equal(ct_session_detach(s), 0);
    ct_session_destroy(s);
    check_unharmed(pid);
    /* Even when everybody may connect, the kernel says who does. */
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    pid = record();
    socket_of(pid, path, sizeof path);
    snprintf(directory, sizeof directory, "%s/contrail", runtime);
    chmod(root, 0755);
    chmod(runtime, 0755);
    chmod(directory, 0755);
    chmod(path, 0777);
    assert_int_equal(as_somebody_else(pid, true), 0);
    struct ct_session_event what = {.size = sizeof what};
    assert_int_equal(ct_session_wait(s, 50, &what), 0);
    assert_int_equal(what.kind, CT_SESSION_EVENT_NOTHING);
    chmod(directory, 0700);
    assert_int_equal(ct_session_detach(s), 0);
    check_unharmed(pid);
}

/* The recorder was killed: its socket is stale, its hooks lead nowhere. The next one takes over. */
static void test_after_a_killed_recorder(void **state) {
    (void)state;
    char path[160], answer[4096];
    int ends[2];
    char byte;
    pid_t pid = start_process(NULL);
    assert_int_equal(pipe(ends), 0);
    pid_t recorder = fork();
    if (recorder == 0) {
        bool ok = !create_with((struct ct_session_options){.size = sizeof(struct ct_session_options)}) &&
                  !ct_session_attach(s, pid) && !ct_session_install_full_coverage(s) && !ct_session_resume(s);
        (void)!write(ends[1], ok ? "+" : "-", 1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(byte, '+');
    kill(recorder, SIGKILL);
    assert_int_equal(waitpid(recorder, NULL, 0), recorder);
    close(ends[0]);
    close(ends[1]);
    socket_of(pid, path, sizeof path);
    assert_true(exists(path));
    expect_unrecorded(pid);
    create();
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_resume(s), 0);
    assert_int_equal(ct_session_control(pid, "status", answer, sizeof answer), 0);
    assert_int_equal(ct_session_detach(s), 0);
    assert_false(exists(path));
    check_unharmed(pid);
}

/* ---- from another thread ---- */

static volatile int looking;

static void *look(void *arg) {
    uint64_t last = 0, *looks = arg;
    while (__atomic_load_n(&looking, __ATOMIC_ACQUIRE)) {
        struct ct_session_statistics n = {.size = sizeof n};
        ct_session_statistics(s, &n);
        enum ct_session_state now = ct_session_state(s);
        if (n.events < last || now == CT_SESSION_UNINITIALIZED || now == CT_SESSION_FAILED)
            return (void *)1;
        last = n.events;
        __atomic_fetch_add(looks, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void test_statistics_from_another_thread(void **state) {
    (void)state;
    pid_t pid = start_process("fast");
    pthread_t thread;
    uint64_t looks = 0;
    void *wrong;
    create();
    looking = 1;
    assert_int_equal(pthread_create(&thread, NULL, look, &looks), 0);
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_resume(s), 0);
    struct ct_session_statistics n = {.size = sizeof n};
    do
        ct_session_statistics(s, &n);
    while (n.events < 100000 || __atomic_load_n(&looks, __ATOMIC_RELAXED) <= 10);
    assert_int_equal(ct_session_detach(s), 0);
    __atomic_store_n(&looking, 0, __ATOMIC_RELEASE);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    struct ct_session_statistics last = {.size = sizeof last};
    ct_session_statistics(s, &last); /* stays when the trace is finished */
    assert_true(last.events >= n.events && last.hooked);
    check_unharmed(pid);
}

int main(int argc, char **argv) {
    if (!session_test_begins(argc, argv))
        return 64;
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, clean)
    const struct CMUnitTest tests[] = {
        TEST(test_spawn_failures),
        TEST(test_attach_failures),
        TEST(test_recorded_already),
        TEST(test_output_failures),
        TEST(test_giving_up),
        TEST(test_giving_up_spawned),
        TEST(test_timeout),
        TEST(test_destroy),
        TEST(test_control_status),
        TEST(test_control_stop),
        TEST(test_control_is_the_owners),
        TEST(test_after_a_killed_recorder),
        TEST(test_statistics_from_another_thread),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    session_test_ends();
    return failed;
}
