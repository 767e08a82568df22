/* SPDX-License-Identifier: Apache-2.0 */
/* The way out of another process, in turns: code changes under stops only. The tables are made by hand; the target is
 * a child that spins. */
#include "remote_util.h"

#include "abi/script_abi.h"
#include "inject/eject.h"

enum { ENTRY = 0x100, STALK = 0x400, PAGE = 4096, JUMP = 0xe9, CODE = 0x90 };

static uint8_t *page; /* code, and what a script's agent says about whom it follows */

static int start_child(void) {
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    memset(page, CODE, STALK);
    memset(page + ENTRY, JUMP, 5);
    ((struct ct_script_stalk *)(void *)(page + STALK))->made = 1;
    int parent = getpid(), pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
            _exit(1);
        for (;;)
            (void)getppid();
    }
    return pid;
}

static void go_on(void *remote) {
    assert_int_equal(ct_remote_resume(remote), 0);
}

/* A debugger has come in the meantime. */
static int cannot_stop(void *remote) {
    (void)remote;
    return CT_ERR_BUSY;
}

/* Threads that a script follows need another turn, for which the process does not stop again: it says why. */
static void test_running_code_stays(void **state) {
    (void)state;
    int pid = start_child();
    struct ct_boot_patch patch = {.at = (uint64_t)(page + ENTRY), .size = 5};
    uint8_t byte = 0;
    bool clean = true;
    memset(patch.bytes, JUMP, 5);
    memset(patch.original, CODE, 5);
    struct ct_remote *remote = open_remote(pid);
    const struct ct_eject_turns turns = {cannot_stop, go_on, remote};
    struct ct_ejection e = {.remote = remote, .patches = &patch, .patch_count = 1};
    e.boot.pid = pid;
    e.boot.stalk = (uint64_t)(page + STALK);
    e.boot.image_size = UINT64_MAX; /* so that each thread seems to be in it */
    stop_remote(remote);
    assert_int_equal(ct_eject_all(&e, &turns, 1000000000, &clean), CT_ERR_BUSY);
    assert_false(clean);
    stop_remote(remote);
    assert_int_equal(ct_remote_read(remote, patch.at, &byte, 1), 0);
    assert_int_equal(byte, JUMP);
    free(e.forwards);
    ct_remote_close(remote);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    munmap(page, PAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_running_code_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
