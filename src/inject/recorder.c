/* SPDX-License-Identifier: Apache-2.0 */
/* See recorder.h. */
#include "inject/recorder.h"
#include "abi/shm_abi.h"
#include "remote/namespace.h"
#include <contrail/status.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TID_MASK 0x3fffffffu /* FUTEX_TID_MASK */

struct memory {
    uint64_t address, inode;
};

bool ct_recorder_is_memory(const struct ct_os_map *map) {
    return map->shared && map->inode && !strncmp(map->path, "/memfd:contrail", 15);
}

static int find_at_address(void *arg, const struct ct_os_map *map) {
    struct memory *m = arg;
    if (m->address < map->start || m->address >= map->end)
        return 0;
    m->inode = ct_recorder_is_memory(map) ? map->inode : 0;
    return 1;
}

static int is_same(void *arg, const struct ct_os_map *map) {
    const struct memory *m = arg;
    return ct_recorder_is_memory(map) && map->inode == m->inode;
}

/* ---- a recorder in our own pid namespace ---- */

static long status_number(int tid, const char *title) {
    return ct_remote_status_number(tid, tid, title, false);
}

static bool may_record(int pid, int tid) {
    long owner = status_number(tid, "Uid:");
    return status_number(tid, "Tgid:") != pid &&
           (owner == 0 || owner == (long)geteuid() || owner == status_number(pid, "Uid:"));
}

/* A thread with more rights than ours hides its memory from us: then it is enough that it exists. */
static bool has_memory(int tid, const struct memory *m) {
    int found = ct_os_each_map_of(tid, is_same, (void *)m);
    return found > 0 || found == CT_ERR_PERMISSION_DENIED;
}

static bool is_hidden(int tid) {
    return kill(tid, 0) && errno == EPERM && status_number(tid, "Tgid:") < 0;
}

static bool is_recorder(int pid, int tid, const struct memory *m) {
    return tid > 1 && (is_hidden(tid) || (may_record(pid, tid) && has_memory(tid, m)));
}

/* ---- a recorder in the process's pid namespace, below ours ---- */

static bool is_in_namespace(const struct ct_remote *remote, int inner, const struct memory *m) {
    int target = ct_remote_pid(remote);
    long wanted = ct_remote_namespace(target);
    bool found = false;
    if (wanted < 0 || wanted == ct_remote_namespace(getpid()))
        return false;
    DIR *directory = opendir("/proc");
    for (struct dirent *entry; directory && !found && !ct_remote_is_over(remote) && (entry = readdir(directory));) {
        int pid = atoi(entry->d_name);
        found = pid > 0 && pid != target && ct_remote_namespace(pid) == wanted && is_recorder(target, pid, m) &&
                ct_remote_outer_tid(pid, inner) > 0;
    }
    if (directory)
        closedir(directory);
    return found;
}

bool ct_recorder_is_alive(struct ct_remote *remote, uint64_t shm) {
    struct memory m = {.address = shm};
    uint32_t word = 0;
    if (ct_remote_each_map(remote, find_at_address, &m) <= 0 || !m.inode ||
        ct_remote_read(remote, shm + offsetof(struct ct_shm_control, liveness), &word, sizeof word) ||
        (word & CT_SHM_OWNER_DIED))
        return false;
    int tid = (int)(word & TID_MASK);
    return is_recorder(ct_remote_pid(remote), tid, &m) || (tid && is_in_namespace(remote, tid, &m));
}
