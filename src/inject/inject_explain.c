/* SPDX-License-Identifier: Apache-2.0 */
/* Why our memory could not be put into a target: one sentence for the user, with the remedy. */
#include "inject/inject_memory.h"
#include <contrail/status.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int say(struct ct_remote_error *error, int status, const char *text) {
    snprintf(error->text, sizeof error->text, "%s", text);
    return status;
}

/* A filter counts if it is known to forbid a call, or if we may not try. */
static int explain_denied(struct ct_injection *in, struct ct_remote_error *error) {
    if (ct_remote_has_seccomp(in->remote))
        return say(
            error, CT_ERR_PERMISSION_DENIED,
            "each thread of the process has a seccomp filter that contrail may not lift, and that is not its own: "
            "run contrail as root and outside of the container, or start the container with `--security-opt "
            "seccomp=unconfined`");
    return say(error, CT_ERR_PERMISSION_DENIED,
               "the new memory in the process may not be opened here: CAP_SYS_PTRACE is missing (in a "
               "container, start it with `--cap-add SYS_PTRACE`), or a security module forbids it");
}

static int explain_refused(struct ct_injection *in, struct ct_remote_error *error) {
    if (in->refusal == EAGAIN)
        return say(error, CT_ERR_ATTACH_FAILED,
                   "the process locks its memory (mlockall), and its limit does not allow more: raise it with "
                   "`prlimit --memlock=unlimited --pid PID`, or use a smaller --index-mem");
    if (in->refusal == 0 && !ct_remote_has_seccomp(in->remote))
        return say(error, CT_ERR_ATTACH_FAILED,
                   "a system call that recording needs (mmap, mprotect, memfd_create) failed in the process; it runs "
                   "on without hooks: try again");
    if (in->refusal == 0 || in->refusal == EPERM || in->refusal == ENOSYS || in->refusal == EACCES)
        return say(error, CT_ERR_ATTACH_FAILED,
                   "the process may not make the system calls that recording needs (mmap, mprotect, "
                   "memfd_create): its seccomp filter forbids it");
    snprintf(error->text, sizeof error->text, "a system call that recording needs failed in the process: %s",
             strerror(in->refusal));
    return CT_ERR_ATTACH_FAILED;
}

int ct_inject_explain(struct ct_injection *in, int status, struct ct_remote_error *error) {
    switch (status) {
    case CT_ERR_PERMISSION_DENIED:
        return explain_denied(in, error);
    case CT_ERR_SYSTEM:
        return explain_refused(in, error);
    case CT_ERR_NO_MEMORY:
        return say(error, status,
                   "the process cannot get the memory that recording needs; raise its address space "
                   "limit (ulimit -v) or use a smaller --index-mem");
    case CT_ERR_NO_SPACE:
        return say(error, CT_ERR_ATTACH_FAILED,
                   "the process has as many open files as it may have, and recording needs one for a moment; raise its "
                   "limit with `prlimit --nofile=N --pid PID`");
    case CT_ERR_BAD_FILE:
        return say(
            error, CT_ERR_ATTACH_FAILED,
            "a filter of the process answers its system calls, and does not return the memory that was asked for; "
            "it cannot be recorded");
    default:
        return say(error, status, ct_status_text(status));
    }
}
