/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: every edge of the state machine, legal and illegal, with real processes; what happens to the process
 * meanwhile. Argument: the program to record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "session_util.h"

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

static void call_illegal(unsigned legal) {
    enum ct_session_state before = ct_session_state(s);
    struct ct_session_event what = {.size = sizeof what};
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
}

/* All but the legal ones fail and change nothing: not the state, not the process, not the files. The recorder makes
 * some of those itself, when it gets to it. */
static void expect_refused(unsigned legal, pid_t pid) {
    bool stopped = pid && is_stopped(pid);
    unsigned files, rounds = 0;
    do {
        files = entries_below(output);
        call_illegal(legal);
    } while (entries_below(output) != files && ++rounds < 100);
    assert_true(rounds < 100);
    if (pid)
        assert_int_equal(is_stopped(pid), stopped);
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
    struct ct_session_event what = {.size = sizeof what};
    pid_t pid = start_process(NULL);
    create();
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_ATTACHED);
    assert_int_equal(ct_session_pid(s), pid);
    assert_false(is_stopped(pid)); /* nothing has happened to it */
    expect_refused(INSTALL | DETACH | WAIT, pid);
    assert_int_equal(ct_session_wait(s, 0, &what), 0);
    assert_int_equal(what.kind, CT_SESSION_EVENT_NOTHING);
    assert_int_equal(ct_session_detach(s), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    check_unharmed(pid);
}

static void test_calls_when_installed_and_running(void **state) {
    (void)state;
    struct ct_session_event what = {.size = sizeof what};
    pid_t pid = start_process(NULL);
    create();
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_state(s), CT_SESSION_ATTACHED);
    assert_true(is_stopped(pid));
    expect_refused(RESUME | DETACH | WAIT, pid);
    assert_int_equal(ct_session_wait(s, 0, &what), 0);
    assert_int_equal(what.kind, CT_SESSION_EVENT_NOTHING);
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
        assert_int_equal(what.kind, CT_SESSION_EVENT_NOTHING);
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
        struct ct_session_statistics n = {.size = sizeof n};
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
    struct ct_session_event what = wait_for_event();
    assert_int_equal(what.kind, CT_SESSION_EVENT_EXITED);
    assert_true(WIFSIGNALED(what.exit_status) && WTERMSIG(what.exit_status) == SIGKILL);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    assert_non_null(strstr(manifest(), "\"reason\":\"signal\",\"signal\":9"));
}

/* It dies while it is stopped: hooked and not resumed, and paused; and before it is hooked. */
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
        struct ct_session_event what = wait_for_event();
        assert_int_equal(what.kind, CT_SESSION_EVENT_EXITED);
        assert_int_equal(what.exit_status, SIGKILL); /* nobody has waited for it yet: /proc has it */
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
    assert_int_equal(create_with((struct ct_session_options){
                         .size = sizeof(struct ct_session_options), .index_memory = 1u << 20, .no_children = true}),
                     0);
    assert_int_equal(ct_session_attach(s, pid), 0);
    assert_int_equal(ct_session_install_full_coverage(s), 0);
    assert_int_equal(ct_session_resume(s), 0);
    kill(pid, SIGUSR1);
    assert_int_equal(wait_for_event().kind, CT_SESSION_EVENT_REPLACED);
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    assert_non_null(strstr(manifest(), "\"reason\":\"exec\""));
    while (!handles(pid, SIGUSR1)) /* the new program has installed its handlers */
        usleep(1000);
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
        struct ct_session_statistics n = {.size = sizeof n};
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
    struct ct_session_event what = wait_for_event();
    int status = ct_session_detach(s);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(what.kind, CT_SESSION_EVENT_DISK_FULL);
    assert_int_equal(status, CT_ERR_FILE_LIMIT);
    assert_non_null(strstr(ct_session_error(s), "ulimit -f"));
    assert_int_equal(ct_session_state(s), CT_SESSION_INITIALIZED);
    check_unharmed(pid);
}

int main(int argc, char **argv) {
    if (!session_test_begins(argc, argv))
        return 64;
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
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    session_test_ends();
    return failed;
}
