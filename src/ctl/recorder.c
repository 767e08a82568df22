/* See recorder.h. */
#include "ctl/recorder.h"
#include "abi/shm_abi.h"
#include <contrail/status.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#define TID_MASK 0x3fffffffu /* FUTEX_TID_MASK */

struct memory {
    uint64_t address, inode;
};

static bool is_shared(const struct ct_os_map *map) {
    return map->shared && map->inode && !strncmp(map->path, "/memfd:contrail", 15);
}

static int find_at_address(void *arg, const struct ct_os_map *map) {
    struct memory *m = arg;
    if (m->address < map->start || m->address >= map->end)
        return 0;
    m->inode = is_shared(map) ? map->inode : 0;
    return 1;
}

static int is_same(void *arg, const struct ct_os_map *map) {
    const struct memory *m = arg;
    return is_shared(map) && map->inode == m->inode;
}

/* ---- a thread in our own pid namespace ---- */

/* Number of a line of a thread's status; -1: there is none, or no such thread. */
static long status_number(int tid, const char *title) {
    char path[64], line[512];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    FILE *file = fopen(path, "re");
    while (file && value < 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, title, strlen(title)))
            value = strtol(line + strlen(title), NULL, 10);
    if (file)
        fclose(file);
    return value;
}

static bool may_record(int pid, int tid) {
    long owner = status_number(tid, "Uid:");
    return status_number(tid, "Tgid:") != pid &&
           (owner == 0 || owner == (long)geteuid() || owner == status_number(pid, "Uid:"));
}

/* What runs with more rights than we have hides its memory from us: that it is there must do. */
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

/* ---- one in the process's pid namespace, below ours ---- */

static ino_t namespace_of(int pid) {
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    return stat(path, &info) ? 0 : info.st_ino;
}

static bool has_inner_number(int pid, int tid, int inner) {
    char path[64], line[512];
    bool same = false;
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        const char *last = strncmp(line, "NSpid:", 6) ? NULL : strrchr(line, '\t');
        same |= last && atoi(last + 1) == inner;
    }
    if (file)
        fclose(file);
    return same;
}

static bool has_thread(int pid, int inner) {
    char path[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && !found && (entry = readdir(directory));)
        found = atoi(entry->d_name) > 0 && has_inner_number(pid, atoi(entry->d_name), inner);
    if (directory)
        closedir(directory);
    return found;
}

static bool is_in_namespace(const struct ct_remote *remote, int inner, const struct memory *m) {
    int target = ct_remote_pid(remote);
    ino_t wanted = namespace_of(target);
    bool found = false;
    if (!wanted || wanted == namespace_of(getpid()))
        return false;
    DIR *directory = opendir("/proc");
    for (struct dirent *entry; directory && !found && !ct_remote_is_over(remote) && (entry = readdir(directory));) {
        int pid = atoi(entry->d_name);
        found = pid > 0 && pid != target && namespace_of(pid) == wanted && is_recorder(target, pid, m) &&
                has_thread(pid, inner);
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
