/* How a session gets out of its target, and cleans up behind one that was killed. Runs on the session's thread. */
#include "ctl/eject.h"
#include "ctl/session_parts.h"
#include <string.h>
#include <unistd.h>

#define SETTLE_TRIES    50
#define SETTLE_PAUSE_US 500u
#define STOP_LIMIT_MS   5000u

int ct_session_stop_target(struct ct_session *s) {
    struct ct_remote_error error = {""};
    if (ct_remote_is_stopped(s->remote))
        return 0;
    s->stopped_at = ct_clock_now();
    int status = ct_remote_stop(s->remote, STOP_LIMIT_MS, &error);
    return status ? ct_session_fail(s, status, "%s", error.text) : 0;
}

/* Threads that are inside stubs run on for a moment, until none is. *clean: nothing of ours is left. */
static int leave_target(struct ct_session *s, struct ct_ejection *e, bool *clean) {
    int status = ct_eject_hooks(e);
    for (int tries = 0; !status && tries < SETTLE_TRIES; tries++) {
        *clean = ct_eject_settle(e);
        if (*clean)
            return ct_eject_memory(e);
        (void)ct_remote_resume(s->remote);
        usleep(SETTLE_PAUSE_US * (unsigned)(tries + 1));
        status = ct_session_stop_target(s);
    }
    return status; /* the hooks are gone; stubs that somebody will return to stay */
}

/* The target is stopped, and will be when this returns. */
int ct_session_clean(struct ct_session *s, bool *clean) {
    struct ct_ejection e;
    bool recorded;
    *clean = false;
    int status = ct_eject_open(&e, s->remote, &recorded);
    if (status == CT_ERR_NOT_FOUND && s->injection.boot) /* given up before the first thread had its block */
        status = ct_eject_open_at(&e, s->remote, s->injection.boot, &recorded);
    if (status == CT_ERR_NOT_FOUND) {
        *clean = true;
        return 0;
    }
    if (!status) {
        status = leave_target(s, &e, clean);
        ct_eject_close(&e);
    }
    return status;
}

/* Our shared memory is there under its name. */
static int is_our_memory(void *arg, const struct ct_os_map *map) {
    (void)arg;
    return strstr(map->path, "/memfd:contrail") == map->path;
}

int ct_session_clean_behind_others(struct ct_session *s) {
    struct ct_ejection e;
    bool recorded, clean = false;
    if (ct_remote_each_map(s->remote, is_our_memory, NULL) <= 0)
        return 0;
    int status = ct_session_stop_target(s);
    if (status)
        return status;
    status = ct_eject_open(&e, s->remote, &recorded);
    if (status == CT_ERR_NOT_FOUND) {
        (void)ct_remote_resume(s->remote);
        return 0;
    }
    if (!status && recorded)
        status = ct_session_fail(s, CT_ERR_BUSY, "process %d is being recorded already; `contrail detach %d` ends that",
                                 s->pid, s->pid);
    else if (status == CT_ERR_UNSUPPORTED)
        ct_session_fail(s, status,
                        "process %d carries hooks of another version of Contrail; start it anew to record it", s->pid);
    else if (!status)
        status = leave_target(s, &e, &clean);
    if (!status && !clean)
        status = ct_session_fail(
            s, CT_ERR_BUSY,
            "process %d carries hooks of a recorder that was killed, and a thread is still inside one; try "
            "again later",
            s->pid);
    ct_eject_close(&e);
    (void)ct_remote_resume(s->remote);
    return status;
}

int ct_session_uninstall(struct ct_session *s) {
    int status = ct_session_stop_target(s);
    if (status == CT_ERR_NOT_FOUND)
        return 0; /* it has just ended */
    if (!status) {
        bool clean;
        status = ct_session_clean(s, &clean);
        (void)ct_remote_resume(s->remote);
    }
    __atomic_store_n(&s->lane.control->recording, 0, __ATOMIC_RELAXED);
    if (status == CT_ERR_NOT_FOUND || !ct_remote_is_alive(s->remote))
        return 0;
    if (status)
        ct_session_fail(
            s, status,
            "the hooks could not be removed now (%s); they do no harm: recording has stopped, the program runs on",
            s->error[0] ? s->error : ct_status_text(status));
    return status;
}
