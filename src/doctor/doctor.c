/* SPDX-License-Identifier: Apache-2.0 */
/* Collects facts about this machine and about ourselves, on the caller's thread. Tracing is tried on a child, which is
 * gone when ct_doctor_collect returns. */
#include "doctor/doctor.h"
#include "isa/machine.h"
#include "os/thread.h"
#include "drain/switches.h"
#include "plan/target_plan.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#define HWCAP2_FSGSBASE_BIT 2ul /* in AT_HWCAP2: programs may use the instructions */

/* The number after `title` in a file of "title: number" lines; -1: none. */
static long long number_in(const char *path, const char *title, int base) {
    char line[256];
    long long value = -1;
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    while (value < 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, title, strlen(title)))
            value = strtoll(line + strlen(title), NULL, base);
    (void)fclose(file);
    return value;
}

/* ---- rights ---- */

/* Traces a child that only waits. The child cannot outlive us. */
static int try_ptrace(void) {
    pid_t parent = getpid(), child = fork();
    int status, error = 0;
    if (child < 0)
        return errno;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            pause();
        raise(SIGKILL);
    }
    if (ptrace(PTRACE_SEIZE, child, NULL, NULL) || ptrace(PTRACE_INTERRUPT, child, NULL, NULL))
        error = errno;
    else if (waitpid(child, &status, __WALL) != child || !WIFSTOPPED(status))
        error = ECHILD;
    kill(child, SIGKILL);
    while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status))
        ;
    return error;
}

static void collect_rights(struct ct_doctor_facts *f) {
    long long capabilities = number_in("/proc/self/status", "CapEff:", 16);
    f->ptrace_error = try_ptrace();
    f->yama = (int)number_in("/proc/sys/kernel/yama/ptrace_scope", "", 10);
    f->user = (unsigned)geteuid();
    f->capabilities = capabilities < 0 ? 0 : (uint64_t)capabilities;
    f->seccomp = (int)number_in("/proc/self/status", "Seccomp:", 10);
}

/* ---- memory ---- */

static uint64_t limit_of(__rlimit_resource_t resource) {
    struct rlimit limit;
    return getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY ? CT_DOCTOR_UNLIMITED : limit.rlim_cur;
}

static void collect_memory(struct ct_doctor_facts *f) {
    long long limit = number_in("/proc/meminfo", "CommitLimit:", 10),
              used = number_in("/proc/meminfo", "Committed_AS:", 10);
    f->address_space = limit_of(RLIMIT_AS);
    f->locked_memory = limit_of(RLIMIT_MEMLOCK);
    f->open_files = limit_of(RLIMIT_NOFILE);
    f->overcommit = (int)number_in("/proc/sys/vm/overcommit_memory", "", 10);
    f->commit_left = limit > used ? (uint64_t)(limit - used) * 1024 : 0;
}

/* ---- kernel and processor ---- */

/* Tries pidfd_getfd with one of our own descriptors: that is always allowed if the call exists. */
static void try_calls(struct ct_doctor_facts *f) {
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int memfd = (int)syscall(SYS_memfd_create, "contrail-doctor", MFD_CLOEXEC);
    int copy = pidfd >= 0 && memfd >= 0 ? (int)syscall(SYS_pidfd_getfd, pidfd, memfd, 0) : -1;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    f->pidfd_open = pidfd >= 0;
    f->memfd = memfd >= 0;
    f->pidfd_getfd = copy >= 0;
    f->wipe_on_fork = memory != MAP_FAILED && !madvise(memory, page, MADV_WIPEONFORK);
    f->no_gs = !ct_os_inherits_block();
    f->steady_counter = ct_machine_host()->steady_counter;
    f->fsgsbase = !f->no_gs && (getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE_BIT);
    if (memory != MAP_FAILED)
        munmap(memory, page);
    if (copy >= 0)
        close(copy);
    if (memfd >= 0)
        close(memfd);
    if (pidfd >= 0)
        close(pidfd);
}

static bool has_word(const char *line, const char *word) {
    size_t length = strlen(word);
    for (const char *at = line; (at = strstr(at, word)); at += length)
        if (at > line && at[-1] == ' ' && strchr(" \n", at[length]))
            return true;
    return false;
}

static void collect_processor(struct ct_doctor_facts *f) {
    char line[8192];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "flags", 5)) {
            f->constant_tsc = has_word(line, "constant_tsc");
            f->nonstop_tsc = has_word(line, "nonstop_tsc");
            break;
        }
    if (file)
        (void)fclose(file);
    file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (file && fgets(f->clock_source, sizeof f->clock_source, file))
        f->clock_source[strcspn(f->clock_source, "\n")] = 0;
    if (file)
        (void)fclose(file);
}

static void collect_kernel(struct ct_doctor_facts *f) {
    struct utsname name;
    if (!uname(&name)) {
        snprintf(f->kernel, sizeof f->kernel, "%s", name.release);
        if (sscanf(name.release, "%u.%u", &f->kernel_major, &f->kernel_minor) != 2)
            f->kernel_major = f->kernel_minor = 0;
    }
    try_calls(f);
    f->switches_error = ct_switches_try(false);
    f->switches_whole_error = ct_switches_try(true);
    f->processors = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
}

/* ---- directories ---- */

/* Could this directory be created and written to? Checks the nearest parent that exists, and cuts `path` to it. */
static int try_directory(char *path) {
    struct stat info;
    while (stat(path, &info)) {
        char *slash = strrchr(path, '/');
        if (errno != ENOENT)
            return errno;
        if (slash && slash != path)
            *slash = 0;
        else
            strcpy(path, slash ? "/" : ".");
    }
    if (!S_ISDIR(info.st_mode))
        return ENOTDIR;
    return faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) ? errno : 0;
}

/* Finds the cache as ct_recording_make_plan does. */
static void collect_cache(struct ct_doctor_facts *f) {
    char path[PATH_MAX];
    f->cache_error = ct_target_cache_find(f->cache, sizeof f->cache, false);
    memcpy(path, f->cache, sizeof path);
    if (path[0] && (!f->cache_error || f->cache_error == ENOENT))
        f->cache_error = try_directory(path);
}

static void collect_output(struct ct_doctor_facts *f, const char *output) {
    struct statvfs disk;
    char path[PATH_MAX];
    if ((size_t)snprintf(f->output, sizeof f->output, "%s", output) >= sizeof f->output) {
        f->output_error = ENAMETOOLONG;
        return;
    }
    memcpy(path, f->output, sizeof path);
    f->output_error = try_directory(path);
    if (statvfs(path, &disk)) {
        f->output_error = f->output_error ? f->output_error : errno;
        return;
    }
    f->disk_free = (uint64_t)disk.f_bavail * disk.f_frsize;
}

void ct_doctor_collect(struct ct_doctor_facts *facts, const char *output, int pid) {
    memset(facts, 0, sizeof *facts);
    collect_rights(facts);
    collect_memory(facts);
    collect_kernel(facts);
    collect_processor(facts);
    collect_cache(facts);
    collect_output(facts, output);
    if (pid)
        ct_doctor_collect_target(&facts->target, pid);
}
