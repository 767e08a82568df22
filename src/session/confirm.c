/* SPDX-License-Identifier: Apache-2.0 */
/* See confirm.h. */
#include "session/confirm.h"
#include "remote/namespace.h"
#include <contrail/status.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXITING     4u  /* PF_EXITING in the flags of /proc/PID/stat */
#define GENERATIONS 64  /* of parents that are checked */
#define SCAN_SHARE  16u /* a search through all processes takes at most 1/16 of the time */

/* ---- what the kernel reports ---- */

struct process {
    char state;
    int parent;
    unsigned flags;
    uint64_t began_ns; /* CLOCK_BOOTTIME, to a tick */
};

static bool read_process(int pid, struct process *out) {
    char path[64], text[512];
    unsigned long long ticks = 0, tick_ns = 1000000000ull / (unsigned long long)sysconf(_SC_CLK_TCK);
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = 0;
    const char *rest = strrchr(text, ')'); /* the name before it may contain anything */
    if (!rest || sscanf(rest, ") %c %d %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                        &out->state, &out->parent, &out->flags, &ticks) != 4)
        return false;
    out->began_ns = (ticks + 1) * tick_ns;
    return true;
}

/* A task that is ending gives up its memory before it becomes a zombie. Without the flag a killed child looks like one
 * that has never mapped our memory. */
bool ct_confirm_has_ended(int task) {
    struct process p;
    return !read_process(task, &p) || p.state == 'Z' || p.state == 'X' || (p.flags & EXITING);
}

/* Processes that began before the recording cannot have inherited anything from it. */
static bool began_later(const struct ct_recording *r, int pid, struct process *p) {
    return read_process(pid, p) && p->began_ns >= r->clock.first.ns;
}

struct place {
    uint64_t at, inode;
};

static int is_place(void *arg, const struct ct_os_map *map) {
    const struct place *p = arg;
    return map->start == p->at && map->inode == p->inode && map->shared && (map->prot & CT_OS_WRITE) && !map->offset;
}

bool ct_confirm_maps(const struct ct_recording *r, int task) {
    struct stat memory;
    struct place p = {.at = ct_inject_lane_at(&r->injection)};
    if (task <= 0 || fstat(r->lane.fd, &memory))
        return false;
    p.inode = memory.st_ino;
    return ct_os_each_map_of(task, is_place, &p) > 0;
}

/* ---- descent ---- */

static bool is_ancestor(const struct ct_recording *r, int pid) {
    struct process p;
    int at = r->pid;
    for (int i = 0; i < GENERATIONS && at > 0; i++) {
        if (at == pid)
            return true;
        at = read_process(at, &p) ? p.parent : 0;
    }
    return pid <= 1;
}

/* Follows parents up to the recorded process, or to the process that adopts orphans, which is one of its ancestors. */
static bool descends(const struct ct_recording *r, int pid) {
    struct process p;
    for (int i = 0; i < GENERATIONS; i++, pid = p.parent) {
        if (is_ancestor(r, pid))
            return true;
        if (!began_later(r, pid, &p))
            return false;
    }
    return false;
}

/* ---- numbers ---- */

static bool is_candidate(const struct ct_recording *r, int pid) {
    struct process p;
    return pid > 0 && pid != getpid() && began_later(r, pid, &p) && ct_confirm_maps(r, pid);
}

/* The process may have entered its own namespace since: then its number says nothing, but its memory does. */
static int scan_processes(struct ct_recording *r, int inner) {
    struct dirent *entry;
    int found = 0;
    uint64_t start = ct_clock_now();
    DIR *processes = start >= r->requests.scan_again_ns ? opendir("/proc") : NULL;
    while (processes && !found && (entry = readdir(processes))) {
        int pid = atoi(entry->d_name);
        if (is_candidate(r, pid) && ct_remote_inner_number(pid, pid) == inner)
            found = pid;
    }
    if (processes) {
        closedir(processes);
        r->requests.scan_again_ns = found ? 0 : start + (ct_clock_now() - start) * SCAN_SHARE;
    }
    return found;
}

/* Our number of the process that has the number `inner` in its own pid namespace; 0: none. */
static int outer_pid(struct ct_recording *r, int inner) {
    int pid = r->drain.other_namespace ? ct_remote_outer_pid(r->pid, inner) : inner;
    int other = pid > 0 && ct_confirm_maps(r, pid) ? 0 : scan_processes(r, inner);
    return other ? other : pid;
}

/* ---- requests ---- */

static int hold_process(int pid, struct ct_confirmed *out) {
    *out = (struct ct_confirmed){pid, pid, -1};
    out->pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    return out->pidfd < 0 ? CT_ERR_NOT_FOUND : 0;
}

static int refuse_claim(struct ct_confirmed *out) {
    bool ended =
        !ct_confirm_holds(out) || ct_confirm_has_ended(out->pid) || (out->tid > 0 && ct_confirm_has_ended(out->tid));
    int status = ended ? CT_ERR_NOT_FOUND : CT_ERR_PERMISSION_DENIED;
    close(out->pidfd);
    out->pidfd = -1;
    return status;
}

int ct_confirm_child(struct ct_recording *r, int inner, struct ct_confirmed *out) {
    int status = hold_process(outer_pid(r, inner), out);
    if (status)
        return status;
    bool good = out->pid != r->pid && is_candidate(r, out->pid) && descends(r, out->pid) && ct_confirm_holds(out);
    return good ? 0 : refuse_claim(out);
}

int ct_confirm_executing(struct ct_recording *r, int inner_pid, int inner_tid, struct ct_confirmed *out) {
    int status = hold_process(inner_pid == r->drain.inner_pid ? r->pid : outer_pid(r, inner_pid), out);
    if (status)
        return status;
    out->tid = ct_remote_outer_tid(out->pid, inner_tid);
    bool ours = out->pid == r->pid || (is_candidate(r, out->pid) && descends(r, out->pid));
    return ours && ct_confirm_maps(r, out->tid) && ct_confirm_holds(out) ? 0 : refuse_claim(out);
}

bool ct_confirm_holds(const struct ct_confirmed *confirmed) {
    struct pollfd ended = {.fd = confirmed->pidfd, .events = POLLIN};
    return poll(&ended, 1, 0) == 0;
}

bool ct_confirm_has_other(const struct ct_recording *r) {
    struct dirent *entry;
    bool found = false;
    DIR *processes = opendir("/proc");
    while (processes && !found && (entry = readdir(processes))) {
        int pid = atoi(entry->d_name);
        found = pid != r->pid && is_candidate(r, pid);
    }
    if (processes)
        closedir(processes);
    return found;
}
