/* SPDX-License-Identifier: Apache-2.0 */
/* Collects facts about a process that the user wants to record. Reads /proc only, and never stops the process. The
 * process may end meanwhile; facts that are not known then keep their neutral value. */
#include "doctor/doctor.h"
#include "drain/room.h"
#include "isa/machine.h"
#include "os/os.h"
#include "remote/remote.h"
#include <contrail/session.h>
#include <contrail/status.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *proc_path(char path[64], int pid, const char *name) {
    snprintf(path, 64, "/proc/%d/%s", pid, name);
    return path;
}

/* ---- status ---- */

struct status {
    int seccomp, tracer;
    unsigned real, effective;
    uint64_t capabilities;
};

static bool read_status(int pid, int tid, struct status *out) {
    char path[64], line[256];
    *out = (struct status){.seccomp = -1};
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (fgets(line, sizeof line, file)) {
        if (!strncmp(line, "Seccomp:", 8))
            out->seccomp = atoi(line + 8);
        else if (!strncmp(line, "TracerPid:", 10))
            out->tracer = atoi(line + 10);
        else if (!strncmp(line, "CapEff:", 7))
            out->capabilities = strtoull(line + 7, NULL, 16);
        else if (!strncmp(line, "Uid:", 4) && sscanf(line + 4, "%u %u", &out->real, &out->effective) != 2)
            out->real = out->effective = 0;
    }
    (void)fclose(file);
    return true;
}

static void collect_threads(struct ct_doctor_target *t) {
    char path[64];
    struct status status;
    DIR *directory = opendir(proc_path(path, t->pid, "task"));
    t->all_filtered = directory != NULL;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        int tid = atoi(entry->d_name);
        if (tid <= 0 || !read_status(t->pid, tid, &status))
            continue;
        t->threads++;
        t->all_filtered &= status.seccomp > 0;
        if (status.seccomp > t->seccomp)
            t->seccomp = status.seccomp;
    }
    if (directory)
        closedir(directory);
    t->all_filtered &= t->threads > 0;
}

static void collect_rights(struct ct_doctor_target *t) {
    struct status status, own;
    if (!read_status(t->pid, t->pid, &status) || !read_status(getpid(), getpid(), &own))
        return;
    t->tracer = status.tracer;
    t->other_user = status.real != (unsigned)geteuid();
    t->more_rights = status.real != status.effective || (status.capabilities & ~own.capabilities);
}

static bool other_namespace(int pid, const char *name) {
    char path[64], inner[32];
    struct stat ours, its;
    snprintf(inner, sizeof inner, "ns/%s", name);
    if (stat(proc_path(path, getpid(), inner), &ours) || stat(proc_path(path, pid, inner), &its))
        return false;
    return ours.st_ino != its.st_ino || ours.st_dev != its.st_dev;
}

/* ---- program ---- */

struct files {
    struct ct_doctor_target *target;
    char last[256];
};

static int look_at_map(void *arg, const struct ct_os_map *map) {
    struct files *files = arg;
    const char *slash = strrchr(map->path, '/'), *name = slash ? slash + 1 : map->path;
    if (!strcmp(map->path, "/memfd:contrail"))
        files->target->hooks = true;
    if (!map->inode || !(map->prot & CT_OS_EXEC) || !strncmp(map->path, "/memfd:", 7))
        return 0;
    if (strncmp(files->last, map->path, sizeof files->last - 1))
        files->target->modules++;
    snprintf(files->last, sizeof files->last, "%s", map->path);
    if (!strncmp(name, "libc.so.6", 9) || !strncmp(name, "libc-2.", 7))
        files->target->libc = CT_DOCTOR_LIBC_GLIBC;
    else if (!strncmp(name, "ld-musl-", 8) || !strcmp(name, "libc.so"))
        files->target->libc = CT_DOCTOR_LIBC_MUSL;
    return 0;
}

static void collect_program(struct ct_doctor_target *t) {
    char path[64];
    Elf64_Ehdr header = {0};
    ssize_t length = readlink(proc_path(path, t->pid, "exe"), t->program, sizeof t->program - 1);
    t->program[length > 0 ? length : 0] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_elf = fd >= 0 && read(fd, &header, sizeof header) == (ssize_t)sizeof header &&
                  !memcmp(header.e_ident, ELFMAG, SELFMAG);
    if (fd >= 0)
        close(fd);
    if (is_elf)
        t->architecture = header.e_ident[EI_CLASS] == ELFCLASS32       ? "a 32-bit architecture"
                          : header.e_machine == ct_machine_host()->elf ? ct_machine_host()->name
                                                                       : "another architecture";
}

/* A program without a loader is statically linked, whatever it has mapped. */
static void open_target(struct ct_doctor_target *t) {
    struct ct_remote *remote = NULL;
    struct ct_remote_error error = {""};
    t->open_status = ct_remote_open(&remote, t->pid, &error);
    snprintf(t->why, sizeof t->why, "%s", error.text);
    if (t->open_status)
        return;
    if (t->libc == CT_DOCTOR_LIBC_UNKNOWN && !ct_remote_auxv(remote, AT_BASE))
        t->libc = CT_DOCTOR_LIBC_STATIC;
    t->same_filters = t->seccomp > 0 && !ct_remote_has_seccomp(remote);
    ct_remote_close(remote);
}

void ct_doctor_collect_target(struct ct_doctor_target *t, int pid) {
    char answer[4096];
    struct files files = {.target = t};
    *t = (struct ct_doctor_target){.pid = pid, .architecture = "", .seccomp = -1};
    collect_program(t);
    collect_rights(t);
    collect_threads(t);
    (void)ct_os_each_map_of(pid, look_at_map, &files);
    open_target(t);
    t->memory_left = ct_room_memory("", pid);
    t->tasks_left = ct_room_tasks("", pid, getpid());
    t->other_pids = other_namespace(pid, "pid");
    t->other_mounts = other_namespace(pid, "mnt");
    if (t->hooks)
        t->recorded = ct_session_control(pid, "status", answer, sizeof answer) >= 0;
}
