/* SPDX-License-Identifier: Apache-2.0 */
/* Gives up rights, see rights.h. Uses raw system calls: each is needed only once. */
#include "cli/rights.h"
#include "isa/machine.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534

/* ---- choosing the user ---- */

static bool has_capability(unsigned capability) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    return !syscall(SYS_capget, &header, data) && data[capability / 32].permitted >> capability % 32 & 1;
}

/* Finds the common owner of all traces, if it is not root. */
static bool one_owner(char *const *traces, int count, struct stat *info) {
    struct stat other;
    if (!count || stat(traces[0], info) || info->st_uid == 0)
        return false;
    for (int i = 1; i < count; i++)
        if (stat(traces[i], &other) || other.st_uid != info->st_uid)
            return false;
    return true;
}

/* The owner may have no access to the directories above. */
static bool can_open(uid_t user, char *const *traces, int count) {
    bool can = !seteuid(user);
    for (int i = 0; can && i < count; i++) {
        int fd = open(traces[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        can = fd >= 0;
        if (can)
            close(fd);
    }
    return !seteuid(0) && can;
}

struct ct_rights ct_rights_to_talk(char *const *traces, int count) {
    struct stat info;
    return (struct ct_rights){geteuid(), getegid(), geteuid() == 0 && one_owner(traces, count, &info)};
}

struct ct_rights ct_rights_to_write(char *const *traces, int count) {
    struct stat info;
    if (geteuid() != 0 || !has_capability(CAP_SETUID) || !has_capability(CAP_SETGID) ||
        !one_owner(traces, count, &info))
        return (struct ct_rights){geteuid(), getegid(), false};
    return (struct ct_rights){info.st_uid, info.st_gid, true};
}

struct ct_rights ct_rights_to_read(char *const *traces, int count) {
    struct stat info;
    if (geteuid() != 0 || !has_capability(CAP_SETUID) || !has_capability(CAP_SETGID))
        return (struct ct_rights){geteuid(), getegid(), false};
    if (one_owner(traces, count, &info) && can_open(info.st_uid, traces, count))
        return (struct ct_rights){info.st_uid, info.st_gid, false};
    if (has_capability(CAP_DAC_READ_SEARCH))
        return (struct ct_rights){NOBODY, NOBODY, true};
    return (struct ct_rights){0, getegid(), false};
}

/* ---- capabilities ---- */

static void become_user(const struct ct_rights *r) {
    if (r->user == geteuid())
        return;
    (void)prctl(PR_SET_KEEPCAPS, r->search, 0, 0, 0);
    if (!setgroups(0, NULL) && !setresgid(r->group, r->group, r->group))
        /* from now on our memory is closed to that user's other processes */
        (void)!setresuid(r->user, r->user, r->user);
}

static void keep_capabilities(bool search) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    if (search)
        data[0].permitted = data[0].effective = 1u << CAP_DAC_READ_SEARCH;
    (void)syscall(SYS_capset, &header, data);
}

/* ---- system calls ---- */

/* Readers never need these: programs, other processes, parts of the kernel, files by number. */
static const int refused[] = {
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_bpf,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_setns,
    SYS_unshare,
    SYS_reboot,
    SYS_open_by_handle_at,
    SYS_io_uring_setup,
    SYS_kexec_file_load,
    SYS_pidfd_getfd,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_swapon,
    SYS_personality,
    SYS_setuid,
    SYS_setresuid,
    SYS_setreuid,
    SYS_capset,
    SYS_socket,
    SYS_socketpair,
    SYS_connect, /* last: left out for `sockets` */
};
enum { REFUSED = sizeof refused / sizeof refused[0], OF_SOCKETS = 3, X32 = 0x40000000 };

static void refuse_calls(bool sockets) {
    struct sock_filter code[REFUSED + 8];
    unsigned short n = 0;
    int count = sockets ? REFUSED - OF_SOCKETS : REFUSED;
    const uint8_t no = (uint8_t)(count + 1); /* counted from the first comparison */
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ct_machine_audit(ct_machine_host()), 0, no + 2);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, no, 0);
    for (int i = 0; i < count; i++)
        code[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refused[i], (uint8_t)(count - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    const struct sock_fprog program = {.len = n, .filter = code};
    (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

void ct_rights_drop(const struct ct_rights *rights, bool sockets) {
    for (unsigned i = 0; i < 64; i++)
        (void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
    become_user(rights);
    keep_capabilities(rights->search);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    refuse_calls(sockets);
}
