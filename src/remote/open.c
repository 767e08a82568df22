/* SPDX-License-Identifier: Apache-2.0 */
/* Opens another process. Processes that cannot be traced are refused here, before anything is stopped. */
#include "isa/machine.h"
#include "remote/remote_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/elf.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define KERNEL_THREAD 0x00200000ul /* PF_KTHREAD in the flags of /proc/PID/stat */

static bool nap(void) {
    if (ct_remote_waiting)
        ct_remote_waiting();
    usleep(50);
    return false;
}

static int read_remote(const void *memory, uint64_t address, void *bytes, size_t size) {
    return ct_remote_read(memory, address, bytes, size);
}

int ct_remote_allocate(struct ct_remote **out, int pid) {
    struct ct_remote *remote = calloc(1, sizeof *remote);
    if (!remote || ct_seize_prepare(&remote->set) != CT_OK) {
        free(remote);
        return CT_ERR_NO_MEMORY;
    }
    remote->pid = remote->view = remote->set.pid = pid;
    remote->pidfd = remote->mem = remote->watch.exit_status = -1;
    remote->set.sleep = nap;
    remote->set.read = read_remote;
    remote->set.memory = remote;
    *out = remote;
    return CT_OK;
}

void ct_remote_free(struct ct_remote *remote) {
    if (remote->pidfd >= 0)
        (void)close(remote->pidfd);
    if (remote->mem >= 0)
        (void)close(remote->mem);
    ct_seize_release(&remote->set);
    ct_watch_free(remote);
    free(remote->ranges);
    free(remote);
}

int ct_remote_open_image(struct ct_remote *remote) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/mem", remote->view);
    if (remote->mem >= 0)
        (void)close(remote->mem);
    remote->mem = open(path, O_RDWR | O_CLOEXEC);
    if (remote->mem < 0)
        return -errno;
    remote->inner_numbers = ct_remote_has_inner_numbers(remote->pid);
    return ct_remote_read_auxv(remote) == CT_OK ? 0 : -ESRCH;
}

/* ---- processes that cannot be traced ---- */

static bool is_kernel_thread(int pid) {
    char path[64], text[512];
    unsigned long flags = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[size] = 0;
    const char *at = strrchr(text, ')');
    return at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 && (flags & KERNEL_THREAD);
}

static int check_kind(int pid, struct ct_remote_error *error) {
    if (pid == getpid())
        return ct_remote_say(error, CT_ERR_ATTACH_FAILED, "process %d is contrail itself: it cannot record itself",
                             pid);
    long group = pid > 0 ? ct_remote_status_number(pid, pid, "Tgid:", false) : -1;
    if (group <= 0) {
        return access("/proc/self/status", R_OK) != 0
                   ? ct_remote_say(error, CT_ERR_ATTACH_FAILED, "/proc is not mounted: contrail needs it")
                   : ct_remote_say(error, CT_ERR_NOT_FOUND, "there is no process %d: `ps` lists those there are", pid);
    }
    if (group != pid)
        return ct_remote_say(error, CT_ERR_NOT_FOUND, "%d is a thread of process %ld: give %ld", pid, group, group);
    if (is_kernel_thread(pid))
        return ct_remote_say(error, CT_ERR_ATTACH_FAILED,
                             "process %d is a kernel thread: only programs can be recorded", pid);
    return CT_OK;
}

static int check_state(struct ct_remote *remote, struct ct_remote_error *error) {
    int pid = remote->pid;
    remote->view = ct_remote_find_view(pid);
    if (remote->view == 0)
        return ct_remote_say(error, CT_ERR_ATTACH_FAILED,
                             "process %d has ended already (a zombie until its parent %ld waits for it)", pid,
                             ct_remote_status_number(pid, pid, "PPid:", false));
    uint64_t begin = ct_seize_now_ms();
    long tracer = ct_remote_status_number(pid, remote->view, "TracerPid:", false);
    while (tracer > 0 && ct_seize_now_ms() - begin < ct_remote_patience_ms((int)tracer)) {
        (void)nap();
        tracer = ct_remote_status_number(pid, remote->view, "TracerPid:", false);
    }
    return tracer > 0 ? ct_remote_say_traced(error, pid, (int)tracer) : CT_OK;
}

static int check_machine(const struct ct_remote *remote, struct ct_remote_error *error) {
    char path[64];
    uint8_t header[CT_REMOTE_HEAD];
    (void)snprintf(path, sizeof path, "/proc/%d/exe", remote->view);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return CT_OK; /* the file is out of reach: opening the memory will fail if need be */
    ssize_t size = read(fd, header, sizeof header);
    (void)close(fd);
    const char *what = ct_remote_foreign(header, size > 0 ? (size_t)size : 0);
    if (!what && ct_remote_is_bionic(header, (size_t)size))
        return ct_remote_say(error, CT_ERR_UNSUPPORTED, "process %d runs a program " CT_REMOTE_BIONIC, remote->pid);
    return what ? ct_remote_say(error, CT_ERR_UNSUPPORTED, "process %d runs %s: this contrail records %s programs only",
                                remote->pid, what, ct_machine_host()->name)
                : CT_OK;
}

static int open_checked(struct ct_remote *remote, struct ct_remote_error *error) {
    int status = check_state(remote, error);
    if (status != CT_OK)
        return status;
    int failure = ct_remote_open_image(remote);
    if (failure == -EACCES || failure == -EPERM)
        return ct_remote_say_forbidden(error, remote->pid);
    if (failure == -ESRCH || failure == -ENOENT)
        return ct_remote_say(error, CT_ERR_NOT_FOUND, "process %d has just ended", remote->pid);
    if (failure != 0)
        return ct_remote_say(error, CT_ERR_ATTACH_FAILED, "the memory of process %d cannot be opened: %s", remote->pid,
                             strerror(-failure));
    return check_machine(remote, error);
}

int ct_remote_open(struct ct_remote **out, int pid, struct ct_remote_error *error) {
    struct ct_remote *remote = NULL;
    int status = check_kind(pid, error);
    if (status != CT_OK)
        return status;
    if (ct_remote_allocate(&remote, pid) != CT_OK)
        return ct_remote_say(error, CT_ERR_NO_MEMORY, "out of memory");
    /* first: everything that is read below is then about this process */
    remote->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (remote->pidfd < 0)
        status = errno == ESRCH ? ct_remote_say(error, CT_ERR_NOT_FOUND, "process %d has just ended", pid)
                                : ct_remote_say(error, CT_ERR_ATTACH_FAILED, "process %d cannot be opened: %s", pid,
                                                strerror(errno));
    else
        status = open_checked(remote, error);
    if (status != CT_OK) {
        ct_remote_free(remote);
        return status;
    }
    *out = remote;
    return CT_OK;
}

void ct_remote_close(struct ct_remote *remote) {
    if (!remote)
        return;
    ct_remote_unwatch(remote);
    (void)ct_remote_resume(remote);
    ct_remote_free(remote);
}

/* ---- what is known without a stop ---- */

int ct_remote_pid(const struct ct_remote *remote) {
    return remote->pid;
}

int ct_remote_pidfd(const struct ct_remote *remote) {
    return remote->pidfd;
}

/* The memory file belongs to the image that it was opened for: when that is gone, every read returns 0. */
bool ct_remote_is_alive(const struct ct_remote *remote) {
    struct pollfd ended = {remote->pidfd, POLLIN, 0};
    char byte;
    if (poll(&ended, 1, 0) != 0)
        return false;
    return pread(remote->mem, &byte, 1, (off_t)ct_os_page_size()) != 0;
}

/* Opening a file can have effects (a device may act on it, we could write to somebody else's file), and the descriptor
 * may refer to anything. So only a regular file without a name is opened, through a descriptor that holds it
 * meanwhile. */
static int open_again(int view, int fd) {
    char path[64];
    struct stat info;
    int copy = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", view, fd);
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place >= 0 && !fstat(place, &info) && S_ISREG(info.st_mode) && !info.st_nlink) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", place);
        copy = open(path, O_RDWR | O_CLOEXEC);
    }
    if (place >= 0)
        (void)close(place);
    return copy;
}

/* If the descriptor cannot be copied (the main thread has ended, a container forbids it), its file is opened again. If
 * we have a filter of our own, this comes first: a filter may kill for a call that programs seldom make. */
int ct_remote_fetch_fd(const struct ct_remote *remote, int fd) {
    int copy = ct_filters_are_on_us() ? open_again(remote->view, fd) : -1;
    if (copy < 0)
        copy = (int)syscall(SYS_pidfd_getfd, remote->pidfd, fd, 0);
    if (copy >= 0)
        return copy;
    int failure = errno;
    if (failure == EBADF && remote->view == remote->pid)
        return CT_ERR_NOT_FOUND;
    copy = open_again(remote->view, fd);
    if (copy >= 0)
        return copy;
    return failure == EPERM || failure == EACCES ? CT_ERR_PERMISSION_DENIED : CT_ERR_NOT_FOUND;
}

uint64_t ct_remote_auxv(const struct ct_remote *remote, uint64_t type) {
    for (size_t i = 0; i < remote->auxv_count && remote->auxv[i][0] != 0; i++)
        if (remote->auxv[i][0] == type)
            return remote->auxv[i][1];
    return 0;
}
