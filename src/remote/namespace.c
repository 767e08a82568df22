/* SPDX-License-Identifier: Apache-2.0 */
/* See namespace.h. */
#include "remote/namespace.h"
#include "remote/remote_internal.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int ct_remote_inner_number(int pid, int tid) {
    return (int)ct_remote_status_number(pid, tid, "NSpid:", true);
}

int ct_remote_outer_tid(int pid, int inner) {
    char path[64];
    int found = 0;
    if (ct_remote_inner_number(pid, inner) == inner)
        return inner;
    (void)snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && !found && (entry = readdir(tasks));) {
        int tid = atoi(entry->d_name);
        if (tid > 0 && ct_remote_inner_number(pid, tid) == inner)
            found = tid;
    }
    if (tasks)
        (void)closedir(tasks);
    return found;
}

int ct_remote_inner_pid(const struct ct_remote *remote) {
    int pid = ct_remote_pid(remote), inner = ct_remote_inner_number(pid, pid);
    return inner > 0 ? inner : pid; /* old kernels do not report it */
}

long ct_remote_namespace(int pid) {
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    return stat(path, &info) ? -1 : (long)info.st_ino;
}

int ct_remote_outer_pid(int other, int inner) {
    DIR *directory = opendir("/proc");
    long wanted = ct_remote_namespace(other);
    int found = 0;
    for (struct dirent *entry; directory && !found && (entry = readdir(directory));) {
        int pid = atoi(entry->d_name);
        if (pid > 0 && ct_remote_namespace(pid) == wanted && ct_remote_inner_number(pid, pid) == inner)
            found = pid;
    }
    if (directory)
        closedir(directory);
    return found;
}
