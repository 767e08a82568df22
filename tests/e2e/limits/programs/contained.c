/* SPDX-License-Identifier: Apache-2.0 */
/* contained [OPTION]... COMMAND...: runs a command as Docker's defaults do, without Docker: in namespaces of its own
 * for processes, mounts, names and messages, with Docker's capabilities and a seccomp filter that forbids what the
 * published default profile forbids.
 *   --join PID   enters the container whose first process is PID (docker exec)
 *   --ptrace     with --cap-add SYS_PTRACE
 *   --kill       a call that is forbidden kills (Docker's answers EPERM)
 *   --forbid N   this system call is forbidden too
 *   --bare       the filter alone
 * Exit status 77: this machine has no such namespaces. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SKIPPED = 77, MOST = 512, NAMESPACES = 0x7e020000, FIRST_UNKNOWN = 452 };

static struct options {
    int join, forbid;
    bool trace, kill, bare;
} options = {.forbid = -1};

static int leave(const char *what, int code) {
    fprintf(stderr, "contained: %s: %s\n", what, strerror(errno));
    exit(code);
}

/* ---- the filter ---- */

static const int forbidden[] = {
    SYS_acct,
    SYS_add_key,
    SYS_bpf,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_fanotify_init,
    SYS_finit_module,
    SYS_get_mempolicy,
    SYS_init_module,
    SYS_ioperm,
    SYS_iopl,
    SYS_kcmp,
    SYS_kexec_file_load,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_lookup_dcookie,
    SYS_mbind,
    SYS_migrate_pages,
    SYS_mount,
    SYS_move_pages,
    SYS_nfsservctl,
    SYS_open_by_handle_at,
    SYS_perf_event_open,
    SYS_pivot_root,
    SYS_quotactl,
    SYS_reboot,
    SYS_request_key,
    SYS_set_mempolicy,
    SYS_setdomainname,
    SYS_sethostname,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_sysfs,
    SYS_syslog,
    SYS_umount2,
    SYS_unshare,
    SYS_uselib,
    SYS_userfaultfd,
    SYS_ustat,
    SYS_vhangup,
    /* by number: older headers do not name them */
    428 /* open_tree */,
    429 /* move_mount */,
    430 /* fsopen */,
    431 /* fsconfig */,
    432 /* fsmount */,
    433 /* fspick */,
    440 /* process_madvise */,
    442 /* mount_setattr */,
    443 /* quotactl_fd */,
    450 /* set_mempolicy_home_node */,
};
enum { PIDFD_GETFD = 438, CLONE3 = 435 };

static struct sock_filter program[MOST];
static unsigned short count;

static void put(unsigned short code, unsigned char yes, unsigned char no, unsigned value) {
    program[count++] = (struct sock_filter){code, yes, no, value};
}

static void load(size_t offset) {
    put(BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)offset);
}

static void answer(unsigned action) {
    put(BPF_RET | BPF_K, 0, 0, action);
}

static void answer_to(int number, unsigned action) {
    put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)number);
    answer(action);
}

/* Five values of personality are allowed. */
static void judge_personality(unsigned no) {
    static const unsigned good[] = {0, 8, 0x20000, 0x20008, 0xffffffff};
    put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1 + 2 * sizeof good / sizeof *good + 1, SYS_personality);
    load(offsetof(struct seccomp_data, args[0]));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        answer_to((int)good[i], SECCOMP_RET_ALLOW);
    answer(no);
}

/* A clone that makes namespaces is not. */
static void judge_clone(unsigned no) {
    put(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, SYS_clone);
    load(offsetof(struct seccomp_data, args[0]));
    put(BPF_JMP | BPF_JSET | BPF_K, 0, 1, NAMESPACES);
    answer(no);
    answer(SECCOMP_RET_ALLOW);
}

static void install_filter(void) {
    unsigned no = options.kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    load(offsetof(struct seccomp_data, arch));
    put(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
    answer(no);
    load(offsetof(struct seccomp_data, nr));
    put(BPF_JMP | BPF_JGE | BPF_K, 0, 1, FIRST_UNKNOWN);
    answer(SECCOMP_RET_ERRNO | ENOSYS);
    answer_to(CLONE3, SECCOMP_RET_ERRNO | ENOSYS);
    if (!options.trace)
        answer_to(PIDFD_GETFD, no);
    if (options.forbid >= 0)
        answer_to(options.forbid, no);
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        answer_to(forbidden[i], no);
    judge_personality(no);
    judge_clone(no);
    answer(SECCOMP_RET_ALLOW);
    const struct sock_fprog all = {count, program};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))
        leave("seccomp", SKIPPED);
}

/* ---- the rest ---- */

/* An exec as root gives what the bounding set has. */
static void drop_capabilities(void) {
    static const int kept[] = {
        CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FSETID,  CAP_FOWNER,           CAP_MKNOD,      CAP_NET_RAW, CAP_SETGID,
        CAP_SETUID, CAP_SETFCAP,      CAP_SETPCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_KILL,    CAP_AUDIT_WRITE};
    for (int one = 0; prctl(PR_CAPBSET_READ, one) >= 0; one++) {
        bool keep = one == CAP_SYS_PTRACE && options.trace;
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            keep |= kept[i] == one;
        if (!keep)
            (void)prctl(PR_CAPBSET_DROP, one);
    }
}

static void enter(int pid) {
    static const char *const names[] = {"uts", "ipc", "pid", "mnt"};
    char path[64];
    int files[4];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, names[i]);
        files[i] = open(path, O_RDONLY | O_CLOEXEC);
    }
    for (int i = 0; i < 4; i++)
        if (setns(files[i], 0))
            leave("setns", SKIPPED);
}

static void make_container(void) {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        leave("unshare", SKIPPED);
}

static void run(char **command) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!options.bare && !options.join && mount("proc", "/proc", "proc", 0, NULL))
        leave("/proc", SKIPPED);
    if (options.bare)
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    install_filter();
    if (!options.bare)
        drop_capabilities();
    execvp(command[0], command);
    leave(command[0], 127);
}

static char **read_options(char **argument) {
    for (; *argument && **argument == '-'; argument++) {
        if (!strcmp(*argument, "--join"))
            options.join = atoi(*++argument);
        else if (!strcmp(*argument, "--forbid"))
            options.forbid = atoi(*++argument);
        else if (!strcmp(*argument, "--ptrace"))
            options.trace = true;
        else if (!strcmp(*argument, "--kill"))
            options.kill = true;
        else if (!strcmp(*argument, "--bare"))
            options.bare = true;
    }
    return argument;
}

int main(int argc, char **argv) {
    char **command = read_options(argv + 1);
    int status = 0;
    if (argc < 2 || !*command)
        return 2;
    if (options.bare)
        run(command);
    if (options.join)
        enter(options.join);
    else
        make_container();
    pid_t child = fork();
    if (child < 0)
        leave("fork", SKIPPED);
    if (child == 0)
        run(command);
    (void)signal(SIGINT, SIG_IGN);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
