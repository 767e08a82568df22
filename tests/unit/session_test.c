/* Sessions: every edge of the state machine, legal and illegal, with real processes; failures leave nothing behind; the control
 * socket; what happens to the process. Argument: the program to record (programs/session_target.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "ctl/session_parts.h"
#include <contrail/session.h>

static char *program;
static char root[64], runtime[80], output[96];
static struct ct_session *s;

/* ---- processes ---- */

static pid_t children[8];

/* Starts the program outside of any session and waits until it is ready. */
static pid_t start_process(const char *mode) {
    int ends[2];
    char line[8] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        signal(SIGPIPE, SIG_IGN); /* nobody reads what it says when it is executed anew */
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

static int end_process(pid_t pid, int number) {
    int status = -1;
    kill(pid, number);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++)
        if (children[i] == pid)
            children[i] = 0;
    return status;
}

/* 'R', 'S', 't' (traced and stopped), 'Z' ...; 0: there is none. */
static char process_state(pid_t pid) {
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

static bool is_stopped(pid_t pid) {
    return process_state(pid) == 't';
}

/* Nothing of ours is in it. */
static bool is_clean(pid_t pid) {
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
static void check_unharmed(pid_t pid) {
    assert_false(is_stopped(pid));
    assert_true(is_clean(pid));
    int status = end_process(pid, SIGTERM);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

/* ---- directories ---- */

static int count_one(const char *path, const struct stat *info, int kind, struct FTW *where);
static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where);
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

static unsigned entries_below(const char *path) {
    counted = 0;
    nftw(path, count_one, 16, FTW_PHYS);
    return counted;
}

static bool exists(const char *path) {
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

static char *manifest(void) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/manifest.json", ct_session_process_directory(s));
    return read_all(path);
}

/* ---- sessions ---- */

static int begin(void **state) {
    (void)state;
    snprintf(output, sizeof output, "%s/traces", root);
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    return 0;
}

/* Whatever happened: no session, no process, no file. */
static int clean(void **state) {
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

static int create_with(struct ct_session_options options) {
    options.output = output;
    options.no_cache = false;
    return ct_session_create(&s, &options);
}

static void create(void) {
    assert_int_equal(create_with((struct ct_session_options){.index_memory = 1u << 20}), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
}

static char *argv_of(const char *mode, char **argv) {
    argv[0] = program;
    argv[1] = (char *)(uintptr_t)mode;
    argv[2] = NULL;
    return program;
}

static int spawn(const char *mode) {
    char *argv[3];
    argv_of(mode, argv);
    return ct_session_spawn_suspended(s, argv, NULL);
}

/* Waits until something happens. */
static struct ct_session_happening wait_for_event(void) {
    struct ct_session_happening what;
    do
        assert_int_equal(ct_session_wait(s, 1000, &what), 0);
    while (what.event == CT_SESSION_NOTHING);
    return what;
}

static void expect_exit(int code) {
    struct ct_session_happening what = wait_for_event();
    assert_int_equal(what.event, CT_SESSION_EXITED);
    assert_true(WIFEXITED(what.exit_status));
    assert_int_equal(WEXITSTATUS(what.exit_status), code);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
}

/* ---- the table of moves ---- */

static bool is_legal(enum ct_session_state from, enum ct_session_state to) {
    static const struct {
        enum ct_session_state from, to;
    } legal[] = {
        {CT_SESSION_UNINITIALIZED, CT_SESSION_INITIALIZED}, {CT_SESSION_INITIALIZED, CT_SESSION_SPAWNING},
        {CT_SESSION_SPAWNING, CT_SESSION_SUSPENDED},        {CT_SESSION_INITIALIZED, CT_SESSION_ATTACHING},
        {CT_SESSION_SUSPENDED, CT_SESSION_ATTACHING},       {CT_SESSION_ATTACHING, CT_SESSION_ATTACHED},
        {CT_SESSION_ATTACHED, CT_SESSION_RUNNING},          {CT_SESSION_RUNNING, CT_SESSION_ATTACHED},
        {CT_SESSION_SUSPENDED, CT_SESSION_DETACHING},       {CT_SESSION_ATTACHED, CT_SESSION_DETACHING},
        {CT_SESSION_RUNNING, CT_SESSION_DETACHING},         {CT_SESSION_DETACHING, CT_SESSION_INITIALIZED},
        {CT_SESSION_RUNNING, CT_SESSION_INITIALIZED},       {CT_SESSION_ATTACHED, CT_SESSION_INITIALIZED},
        {CT_SESSION_INITIALIZED, CT_SESSION_FAILED},        {CT_SESSION_SPAWNING, CT_SESSION_FAILED},
        {CT_SESSION_SUSPENDED, CT_SESSION_FAILED},          {CT_SESSION_ATTACHING, CT_SESSION_FAILED},
        {CT_SESSION_ATTACHED, CT_SESSION_FAILED},           {CT_SESSION_RUNNING, CT_SESSION_FAILED},
        {CT_SESSION_DETACHING, CT_SESSION_FAILED},          {CT_SESSION_FAILED, CT_SESSION_INITIALIZED},
    };
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++)
        if (legal[i].from == from && legal[i].to == to)
            return true;
    return false;
}

static void test_all_moves(void **state) {
    (void)state;
    for (int from = -1; from <= CT_SESSION_STATE_COUNT; from++)
        for (int to = -1; to <= CT_SESSION_STATE_COUNT; to++) {
            bool expected = is_legal((enum ct_session_state)from, (enum ct_session_state)to);
            if (ct_session_may_move((enum ct_session_state)from, (enum ct_session_state)to) != expected)
                fail_msg("%s to %s", ct_session_state_name((enum ct_session_state)from),
                         ct_session_state_name((enum ct_session_state)to));
        }
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(ct_session_state_name(CT_SESSION_UNINITIALIZED), "uninitialized");
    assert_string_equal(ct_session_state_name(CT_SESSION_RUNNING), "running");
    assert_string_equal(ct_session_state_name(CT_SESSION_FAILED), "failed");
    assert_string_equal(ct_session_state_name(CT_SESSION_STATE_COUNT), "?");
    assert_string_equal(ct_loss_name(CT_LOSS_DRAIN_LAG), "DRAIN_LAG");
    assert_string_equal(ct_loss_name(CT_LOSS_COUNT), "?");
    assert_int_equal(ct_session_state(NULL), CT_SESSION_UNINITIALIZED);
}

/* ---- calls in each state ---- */

enum call { SPAWN = 1, ATTACH = 2, INSTALL = 4, RESUME = 8, PAUSE = 16, DETACH = 32, WAIT = 64 };

/* All but the legal ones fail and change nothing: not the state, not the process, not the files. */
static void expect_refused(unsigned legal, pid_t pid) {
    enum ct_session_state before = ct_session_state(s);
    bool stopped = pid && is_stopped(pid);
    unsigned files = entries_below(output);
    struct ct_session_happening what;
    for (unsigned call = SPAWN; call <= WAIT; call <<= 1) {
        if (legal & call)
            continue;
        int status = call == SPAWN     ? spawn("quick")
                     : call == ATTACH  ? ct_session_attach(s, getppid())
                     : call == INSTALL ? ct_session_install_full_coverage(s)
                     : call == RESUME  ? ct_session_resume(s)
                     : call == PAUSE   ? ct_session_pause(s)
                     : call == DETACH  ? ct_session_detach(s)
                                       : ct_session_wait(s, 0, &what);
        if (status != CT_ERR_BAD_STATE)
            fail_msg("call %u while %s: %d", call, ct_session_state_name(before), status);
        assert_int_equal(ct_session_state(s), before);
        if (call != WAIT)
            assert_non_null(strstr(ct_session_error(s), ct_session_state_name(before)));
    }
    if (pid)
        assert_int_equal(is_stopped(pid), stopped);
    assert_int_equal(entries_below(output), files);
}

static void test_calls_when_initialized(void **state) {
    (void)state;
    create();
    expect_refused(SPAWN | ATTACH, 0);
    assert_int_equal(ct_session_pid(s), 0);
    assert_string_equal(ct_session_process_directory(s), "");
    assert_int_equal(entries_below(output), 1); /* the session's directory */
    ct_session_destroy(s);
    s = NULL;
    assert_false(exists(output)); /* nothing was recorded: nothing stays */
}

static void test_calls_when_suspended(void **state) {
    (void)state;
    create();
    assert_int_equal(spawn("quick"), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_SUSPENDED);
    pid_t pid = ct_session_pid(s);
    assert_true(is_stopped(pid));
    expect_refused(INSTALL | DETACH, pid);
    assert_int_equal(ct_session_detach(s), 0); /* it runs on, unrecorded */
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    expect_refused(SPAWN | ATTACH, 0);
}

static void test_calls_when_attached(void **state) {
    (void)state;
    struct ct_session_happening what;
    pid_t pid = start_process(NULL);
    create();
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_ATTACHED);
    assert_int_equal(ct_session_pid(s), pid);
    assert_false(is_stopped(pid)); /* nothing has happened to it */
    expect_refused(INSTALL | DETACH | WAIT, pid);
    assert_int_equal(ct_session_wait(s, 0, &what), 0);
    assert_int_equal(what.event, CT_SESSION_NOTHING);
    assert_int_equal(ct_session_detach(s), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    check_unharmed(pid);
}

static void test_calls_when_installed_and_running(void **state) {
    (void)state;
    struct ct_session_happening what;
    pid_t pid = start_process(NULL);
    create();
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_ATTACHED);
    assert_true(is_stopped(pid));
    expect_refused(RESUME | DETACH | WAIT, pid);
    assert_int_equal(ct_session_wait(s, 0, &what), 0);
    assert_int_equal(what.event, CT_SESSION_NOTHING);
    assert_int_equal(ct_session_resume(s), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_RUNNING);
    assert_false(is_stopped(pid));
    expect_refused(PAUSE | DETACH | WAIT, pid);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ct_session_pause(s), 0);
        assert_int_equal(ct_session_state(s), CT_SESSION_ATTACHED);
        assert_true(is_stopped(pid));
        expect_refused(RESUME | DETACH | WAIT, pid);
        assert_int_equal(ct_session_resume(s), 0);
        assert_int_equal(ct_session_state(s), CT_SESSION_RUNNING);
        assert_int_equal(ct_session_wait(s, 5, &what), 0);
        assert_int_equal(what.event, CT_SESSION_NOTHING);
    }
    assert_int_equal(ct_session_detach(s), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    expect_refused(SPAWN | ATTACH, pid);
    check_unharmed(pid);
    assert_non_null(strstr(manifest(), "\"complete\":true"));
}

static void test_detach_while_paused(void **state) {
    (void)state;
    pid_t pid = start_process(NULL);
    create();
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_resume(s), 0);
    assert_int_equal(ct_session_pause(s), 0);
    assert_int_equal(ct_session_detach(s), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    check_unharmed(pid);
}

static void test_detach_before_resume(void **state) {
    (void)state;
    create();
    assert_int_equal(spawn("quick"), 0);
    pid_t pid = ct_session_pid(s);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_ATTACHED);
    assert_int_equal(ct_session_detach(s), 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void test_bad_arguments(void **state) {
    (void)state;
    char *nothing[] = {NULL};
    assert_int_equal(ct_session_create(NULL, NULL), CT_ERR_INVALID_ARGUMENT);
    create();
    assert_int_equal(ct_session_spawn_suspended(NULL, nothing, NULL), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_session_spawn_suspended(s, NULL, NULL), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_session_spawn_suspended(s, nothing, NULL), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_session_attach(NULL, 1), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_session_install_full_coverage(NULL), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_session_resume(NULL), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_session_pause(NULL), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_session_detach(NULL), CT_ERR_INVALID_ARGUMENT);
    ct_session_destroy(NULL);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
}

/* ---- whole recordings ---- */

static void test_spawn_to_exit(void **state) {
    (void)state;
    create();
    for (int round = 0; round < 2; round++) { /* a session records one after the other */
        assert_int_equal(spawn("quick"), 0);
        assert_int_equal(ct_session_install_full_coverage(s), 0);
        assert_int_equal(ct_session_resume(s), 0);
        expect_exit(3);
        struct ct_session_statistics n;
        ct_session_statistics(s, &n);
        assert_true(n.events + n.lost[CT_LOSS_DRAIN_LAG] >= 2000);
        assert_true(n.hooked > 1000 && n.functions >= n.hooked);
        assert_int_equal(n.threads_seen, 1);
        assert_true(n.plan_ns && n.recording_ns);
        const char *text = manifest();
        assert_non_null(strstr(text, "\"complete\":true"));
        assert_non_null(strstr(text, "\"reason\":\"exit\",\"exit_code\":3"));
    }
    assert_int_equal(entries_below(output), 1 + 2 * 5); /* session; pid_N, manifest, symbols, thread_1, index.atf */
}

static void test_killed(void **state) {
    (void)state;
    create();
    assert_int_equal(spawn(NULL), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_resume(s), 0);
    kill(ct_session_pid(s), SIGKILL);
    struct ct_session_happening what = wait_for_event();
    assert_int_equal(what.event, CT_SESSION_EXITED);
    assert_true(WIFSIGNALED(what.exit_status) && WTERMSIG(what.exit_status) == SIGKILL);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    assert_non_null(strstr(manifest(), "\"reason\":\"signal\",\"signal\":9"));
}

/* It dies while it stands still: hooked and not resumed, and paused; and before it is hooked. */
static void test_killed_while_attached(void **state) {
    (void)state;
    create();
    for (int paused = 0; paused < 3; paused++) {
        pid_t pid = start_process(NULL);
        assert_int_equal(ct_session_attach(s, pid), 0);
        if (paused < 2)
            assert_int_equal(ct_session_install_full_coverage(s), 0);
        if (paused == 1) {
            assert_int_equal(ct_session_resume(s), 0);
            assert_int_equal(ct_session_pause(s), 0);
        }
        kill(pid, SIGKILL);
        struct ct_session_happening what = wait_for_event();
        assert_int_equal(what.event, CT_SESSION_EXITED);
        assert_int_equal(what.exit_status, -1); /* not our child, as far as the session knows */
        assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
        end_process(pid, SIGKILL);
    }
}

static void test_killed_before_the_next_call(void **state) {
    (void)state;
    create();
    pid_t pid = start_process(NULL);
    assert_int_equal(ct_session_attach(s, pid), 0);
    end_process(pid, SIGKILL);
    assert_true(ct_session_install_full_coverage(s) < 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    assert_true(ct_session_error(s)[0]);
    pid = start_process(NULL);
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_resume(s), 0);
    end_process(pid, SIGKILL);
    assert_true(ct_session_pause(s) < 0); /* noticed by the next wait, or detach */
    assert_int_equal(ct_session_state(s), CT_SESSION_RUNNING);
    assert_int_equal(ct_session_detach(s), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    assert_non_null(strstr(manifest(), "\"complete\":true"));
}

static void test_replaced(void **state) {
    (void)state;
    pid_t pid = start_process(NULL);
    create();
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_resume(s), 0);
    kill(pid, SIGUSR1);
    assert_int_equal(wait_for_event().event, CT_SESSION_REPLACED);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    assert_non_null(strstr(manifest(), "\"reason\":\"exec\""));
    usleep(100000); /* the new program installs its handlers */
    check_unharmed(pid);
}

static void test_attach_again_and_again(void **state) {
    (void)state;
    pid_t pid = start_process(NULL);
    create();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ct_session_attach(s, pid), 0);
        if (ct_session_install_full_coverage(s))
            fail_msg("round %d: %s", i, ct_session_error(s));
        assert_int_equal(ct_session_resume(s), 0);
        struct ct_session_statistics n;
        do
            ct_session_statistics(s, &n);
        while (!n.events);
        assert_int_equal(ct_session_detach(s), 0);
        assert_true(is_clean(pid));
    }
    check_unharmed(pid);
}

static void test_disk_is_full(void **state) {
    (void)state;
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    pid_t pid = start_process("fast");
    create();
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    small = (struct rlimit){1 << 20, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(ct_session_resume(s), 0);
    struct ct_session_happening what = wait_for_event();
    int status = ct_session_detach(s);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(what.event, CT_SESSION_DISK_FULL);
    assert_int_equal(status, CT_ERR_NO_SPACE);
    assert_non_null(strstr(ct_session_error(s), "--output"));
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    check_unharmed(pid);
}

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
    struct ct_session_options options = {.output = "/dev/null/traces"};
    int status = ct_session_create(&s, &options);
    assert_true(status < 0);
    assert_non_null(s); /* it tells why */
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
        assert_int_equal(create_with((struct ct_session_options){.progress = give_up, .index_memory = 1u << 20}), 0);
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
        assert_int_equal(entries_below(runtime), exists(runtime) && entries_below(runtime) ? 1 : 0);
        check_unharmed(pid);
    }
    assert_true(seen >= 3);
}

/* The same for a program that we started: it runs, unrecorded. */
static void test_giving_up_spawned(void **state) {
    (void)state;
    for (give_up_at = 0; give_up_at < 3; give_up_at++) {
        steps = 0;
        assert_int_equal(create_with((struct ct_session_options){.progress = give_up, .index_memory = 1u << 20}), 0);
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
    assert_int_equal(create_with((struct ct_session_options){.startup_timeout_ms = 1}), 0);
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

static void test_control_status(void **state) {
    (void)state;
    char answer[8192], path[160], small[8];
    struct stat info;
    pid_t pid = record();
    assert_int_equal(ct_session_control(pid, "status", answer, sizeof answer), 0);
    check_json(answer);
    assert_non_null(strstr(answer, "\"state\":\"running\""));
    assert_non_null(strstr(answer, "\"written\":"));
    assert_int_equal(ct_session_control(pid, "dance", answer, sizeof answer), CT_ERR_SYSTEM);
    assert_non_null(strstr(answer, "unknown"));
    assert_int_equal(ct_session_control(pid, "status", small, sizeof small), 0); /* cut, and not beyond its end */
    assert_int_equal(strlen(small), sizeof small - 1);
    assert_int_equal(ct_session_control(pid, "status", answer, 0), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_session_control(getpid(), "status", answer, sizeof answer), CT_ERR_NOT_FOUND);
    socket_of(pid, path, sizeof path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(ct_session_pause(s), 0);
    assert_int_equal(ct_session_control(pid, "status", answer, sizeof answer), 0);
    assert_non_null(strstr(answer, "\"state\":\"attached\""));
    assert_int_equal(ct_session_detach(s), 0);
    assert_false(exists(path));
    assert_int_equal(ct_session_control(pid, "status", answer, sizeof answer), CT_ERR_NOT_FOUND);
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
    assert_int_equal(wait_for_event().event, CT_SESSION_ASKED_TO_STOP);
    assert_int_equal(ct_session_state(s), CT_SESSION_RUNNING);
    assert_int_equal(ct_session_detach(s), 0);
    pthread_join(asker, &pleased);
    assert_true(pleased);
    check_unharmed(pid);
}

/* A process of another user: the exit code tells what it was told. */
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
    /* Even with all doors open the kernel tells who is knocking. */
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    pid = record();
    socket_of(pid, path, sizeof path);
    snprintf(directory, sizeof directory, "%s/contrail", runtime);
    chmod(root, 0755);
    chmod(runtime, 0755);
    chmod(directory, 0755);
    chmod(path, 0777);
    assert_int_equal(as_somebody_else(pid, true), 0);
    struct ct_session_happening what;
    assert_int_equal(ct_session_wait(s, 50, &what), 0);
    assert_int_equal(what.event, CT_SESSION_NOTHING);
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
        bool ok = !create_with((struct ct_session_options){0}) && !ct_session_attach(s, pid) &&
                  !ct_session_install_full_coverage(s) && !ct_session_resume(s);
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
    assert_int_equal(ct_session_control(pid, "status", answer, sizeof answer), CT_ERR_NOT_FOUND);
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
        struct ct_session_statistics n;
        ct_session_statistics(s, &n);
        enum ct_session_state now = ct_session_state(s);
        if (n.events < last || now == CT_SESSION_UNINITIALIZED || now == CT_SESSION_FAILED)
            return (void *)1;
        last = n.events;
        ++*looks;
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
    struct ct_session_statistics n;
    do
        ct_session_statistics(s, &n);
    while (n.events < 100000);
    assert_int_equal(ct_session_detach(s), 0);
    __atomic_store_n(&looking, 0, __ATOMIC_RELEASE);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    assert_true(looks > 10);
    struct ct_session_statistics last;
    ct_session_statistics(s, &last); /* stays when the trace is finished */
    assert_true(last.events >= n.events && last.hooked);
    check_unharmed(pid);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 64;
    program = argv[1];
    strcpy(root, "/tmp/contrail-session-XXXXXX");
    if (!mkdtemp(root))
        return 70;
    snprintf(runtime, sizeof runtime, "%s/run", root);
    mkdir(runtime, 0700);
    setenv("XDG_CACHE_HOME", root, 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, clean)
    const struct CMUnitTest tests[] = {
        TEST(test_all_moves),
        TEST(test_names),
        TEST(test_calls_when_initialized),
        TEST(test_calls_when_suspended),
        TEST(test_calls_when_attached),
        TEST(test_calls_when_installed_and_running),
        TEST(test_detach_while_paused),
        TEST(test_detach_before_resume),
        TEST(test_bad_arguments),
        TEST(test_spawn_to_exit),
        TEST(test_killed),
        TEST(test_killed_while_attached),
        TEST(test_killed_before_the_next_call),
        TEST(test_replaced),
        TEST(test_attach_again_and_again),
        TEST(test_disk_is_full),
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
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    rmdir(root);
    return failed;
}
