/* SPDX-License-Identifier: Apache-2.0 */
/* How a process ended that is not our child. /proc shows it until the parent has waited for the process; afterwards the
 * kernel reports it through the process's descriptor (since 6.15). */
#include "remote/remote.h"

#include <contrail/status.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct pidfd_info and PIDFD_GET_INFO in their first version: older headers lack them. */
struct process_info {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
};
_Static_assert(sizeof(struct process_info) == 64, "as the kernel knows it");
#define GET_INFO  _IOWR(0xff, 11, struct process_info)
#define INFO_EXIT (1ull << 3)

enum { EXIT_CODE_FIELD = 52, STATE_FIELD = 3, TRIES = 20, PAUSE_US = 500 };

/* The status of a process that nobody has waited for yet; otherwise -1. */
static int status_of_zombie(int pidfd, int pid) {
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        (void)fclose(file);
    text[size] = 0;
    char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || (at[2] != 'Z' && at[2] != 'X'))
        return -1;
    at += 2;
    for (int field = STATE_FIELD; at && field < EXIT_CODE_FIELD; field++)
        at = strchr(at + 1, ' ');
    if (!at || syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) != 0)
        return -1; /* its number may belong to another process by now */
    return atoi(at);
}

/* CT_ERR_UNSUPPORTED: the kernel cannot report it. */
static int status_by_descriptor(int pidfd, int *status) {
    struct process_info info = {.mask = INFO_EXIT};
    if (ioctl(pidfd, GET_INFO, &info) != 0)
        return errno == ESRCH ? CT_ERR_NOT_FOUND : CT_ERR_UNSUPPORTED;
    if (!(info.mask & INFO_EXIT))
        return CT_ERR_NOT_FOUND;
    *status = info.exit_code;
    return 0;
}

int ct_remote_how_ended(int pidfd, int pid) {
    for (int i = 0; i < TRIES; i++) { /* the process may be between the two states */
        int status = status_of_zombie(pidfd, pid);
        if (status >= 0)
            return status;
        int result = status_by_descriptor(pidfd, &status);
        if (!result)
            return status;
        if (result == CT_ERR_UNSUPPORTED)
            break;
        (void)usleep(PAUSE_US);
    }
    return -1;
}
