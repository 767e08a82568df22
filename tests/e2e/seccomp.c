/* SPDX-License-Identifier: Apache-2.0 */
/* longjmp over hooked frames in a process that is killed when it calls process_vm_readv, as sandboxes do.
 *
 * What went wrong here: frames that were left are found by looking at the stack, and memory that may be gone was read
 * by a system call: one the program had never made itself, and so none that its filter had to allow. */
#include "harness.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static jmp_buf place;

static E2E_FN int leave(bool really) {
    if (really)
        longjmp(place, 1);
    E2E_BARRIER();
    return 1;
}

static E2E_FN int through(int depth) {
    int below = depth ? through(depth - 1) : leave(true);
    E2E_BARRIER();
    return below;
}

static bool forbid(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void *thread_main(void *arg) {
    if (!setjmp(place))
        through(3);
    leave(false);
    E2E_EXPECT("through(through(through(through(leave!)!)!)!)! leave()");
    return arg;
}

/* In a child, so that being killed is a failure with a text. */
static int confined(void) {
    alarm(120);
    if (!forbid())
        return 77;
    if (!setjmp(place))
        leave(true);
    for (volatile int i = 0; i < 3; i++)
        if (!setjmp(place))
            through(1);
    leave(false);
    E2E_EXPECT("leave! through(through(leave!)!)!*3 leave()");
    pthread_t thread;
    pthread_create(&thread, NULL, thread_main, NULL);
    pthread_join(thread, NULL);
    return e2e_passed() ? 0 : 1;
}

int main(int argc, char **argv) {
    alarm(240);
    e2e_begin(argc, argv);
    E2E_RECORD(leave);
    E2E_RECORD(through);
    leave(false);
    E2E_EXPECT("leave()");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(confined());
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        e2e_skip("no filters here");
    E2E_EQUAL(status, 0);
    return e2e_end();
}
