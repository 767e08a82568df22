/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences for the user: what is forbidden, by whom, and what helps. */
#include "remote/remote_internal.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int ct_remote_say(struct ct_remote_error *error, int status, const char *format, ...) {
    va_list arguments;
    if (!error)
        return status;
    va_start(arguments, format);
    (void)vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

static int read_number(const char *path) {
    int value = -1;
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%d", &value) != 1)
        value = -1;
    (void)fclose(file);
    return value;
}

static void name_user(char *name, size_t size, long uid) {
    struct passwd entry, *found = NULL;
    char buffer[4096];
    if (getpwuid_r((uid_t)uid, &entry, buffer, sizeof buffer, &found) == 0 && found)
        (void)snprintf(name, size, "%s", found->pw_name);
    else
        (void)snprintf(name, size, "number %ld", uid);
}

int ct_remote_say_forbidden(struct ct_remote_error *error, int pid) {
    int status = CT_ERR_PERMISSION_DENIED;
    long uid = ct_remote_status_number(pid, pid, "Uid:", false);
    int yama = read_number("/proc/sys/kernel/yama/ptrace_scope");
    if (yama == 3)
        return ct_remote_say(
            error, status,
            "this system forbids tracing altogether (kernel.yama.ptrace_scope is 3): process %d cannot be "
            "attached to until a restart with another value",
            pid);
    if (uid >= 0 && (uid_t)uid != geteuid() && geteuid() != 0) {
        char name[64];
        name_user(name, sizeof name, uid);
        return ct_remote_say(error, status,
                             "process %d belongs to the user %s: run contrail as that user, as root or with "
                             "CAP_SYS_PTRACE",
                             pid, name);
    }
    if (geteuid() != 0 && yama > 0)
        return ct_remote_say(
            error, status,
            "this system lets %s attach to process %d (kernel.yama.ptrace_scope is %d): run contrail as "
            "root, start the program with `contrail spawn`, or set the sysctl to 0",
            yama == 1 ? "only a parent" : "only root", pid, yama);
    if (geteuid() != 0)
        return ct_remote_say(
            error, status,
            "process %d is protected (it has more privileges than you or is not dumpable): run contrail as "
            "root or with CAP_SYS_PTRACE",
            pid);
    return ct_remote_say(error, status,
                         "process %d may not be traced: CAP_SYS_PTRACE is missing here (start the container with "
                         "`--cap-add SYS_PTRACE`), or a "
                         "security module forbids it",
                         pid);
}

int ct_remote_say_traced(struct ct_remote_error *error, int pid, int tracer) {
    char path[64], name[64] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/comm", tracer);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fgets(name, sizeof name, file))
            name[strcspn(name, "\n")] = 0;
        (void)fclose(file);
    }
    if (!strcmp(name, "contrail"))
        return ct_remote_say(error, CT_ERR_BUSY,
                             "process %d is being recorded by process %d, which keeps it traced to see its signals: "
                             "`contrail detach %d` ends that",
                             pid, tracer, pid);
    return ct_remote_say(error, CT_ERR_BUSY, "process %d is already traced by process %d (%s): detach that one first",
                         pid, tracer, *name ? name : "?");
}
