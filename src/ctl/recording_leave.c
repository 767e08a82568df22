/* How a recording gets out of its target, and cleans up behind one that was killed. */
#include "ctl/eject.h"
#include "ctl/hold.h"
#include "ctl/recording.h"
#include "ctl/stalk.h"
#include <string.h>
#include <unistd.h>

#define SETTLE_TRIES    250
#define SETTLE_PAUSE_US 500u
#define SETTLE_LONGEST  10000u
#define STOP_LIMIT_MS   5000u

int ct_recording_stop(struct ct_recording *r) {
    struct ct_remote_error error = {""};
    if (ct_remote_is_stopped(r->remote))
        return 0;
    r->stopped_at = ct_clock_now();
    int status = ct_remote_stop(r->remote, STOP_LIMIT_MS, &error);
    return status ? ct_recording_fail(r, status, "%s", error.text) : 0;
}

/* Threads that are inside stubs run on for a moment, until none is. *clean: nothing of ours is left. */
static int leave_target(struct ct_recording *r, struct ct_ejection *e, bool *clean) {
    int status = ct_eject_hooks(e);
    for (int tries = 0; !status && tries < SETTLE_TRIES; tries++) {
        *clean = ct_eject_settle(e);
        if (*clean)
            return ct_eject_memory(e);
        (void)ct_remote_resume(r->remote);
        unsigned pause = SETTLE_PAUSE_US * (unsigned)(tries + 1);
        usleep(pause < SETTLE_LONGEST ? pause : SETTLE_LONGEST);
        status = ct_recording_stop(r);
    }
    return status; /* the hooks are gone; stubs that somebody will return to stay, and what unwinders need to know of them */
}

/* The target is stopped, and will be when this returns. */
int ct_recording_clean(struct ct_recording *r, bool *clean) {
    struct ct_ejection e;
    bool recorded;
    *clean = false;
    int status = ct_eject_open(&e, r->remote, &recorded);
    if (status == CT_ERR_NOT_FOUND && r->injection.boot) /* given up before the first thread had its block */
        status = ct_eject_open_at(&e, r->remote, r->injection.boot, &recorded);
    if (status == CT_ERR_NOT_FOUND) {
        *clean = true;
        return 0;
    }
    if (!status) {
        status = leave_target(r, &e, clean);
        ct_eject_close(&e);
    }
    return status;
}

/* Our shared memory is there under its name. */
static int is_our_memory(void *arg, const struct ct_os_map *map) {
    (void)arg;
    return strstr(map->path, "/memfd:contrail") == map->path;
}

int ct_recording_clean_behind_others(struct ct_recording *r) {
    struct ct_ejection e;
    bool recorded, clean = false;
    if (ct_remote_each_map(r->remote, is_our_memory, NULL) <= 0)
        return 0;
    int status = ct_recording_stop(r);
    if (status)
        return status;
    status = ct_eject_open(&e, r->remote, &recorded);
    if (status == CT_ERR_NOT_FOUND) {
        status = ct_stalk_clean_behind(r);
        (void)ct_remote_resume(r->remote);
        return status;
    }
    if (!status && recorded)
        status = ct_recording_fail(
            r, CT_ERR_BUSY, "process %d is being recorded already; `contrail detach %d` ends that", r->pid, r->pid);
    else if (status == CT_ERR_UNSUPPORTED)
        ct_recording_fail(
            r, status, "process %d carries hooks of another version of Contrail; start it anew to record it", r->pid);
    else if (!status)
        status = leave_target(r, &e, &clean);
    if (!status && !clean)
        status = ct_recording_fail(
            r, CT_ERR_BUSY,
            "process %d carries hooks of a recorder that was killed, and a thread is still inside one; try "
            "again later",
            r->pid);
    ct_eject_close(&e);
    (void)ct_remote_resume(r->remote);
    return status;
}

static int uninstall(struct ct_recording *r) {
    int status = ct_recording_stop(r);
    if (status == CT_ERR_NOT_FOUND)
        return 0; /* it has just ended */
    if (!status) {
        bool clean;
        status = r->stalk ? ct_stalk_leave(r) : ct_recording_clean(r, &clean);
        (void)ct_remote_resume(r->remote);
    }
    __atomic_store_n(&r->lane.control->recording, 0, __ATOMIC_RELAXED);
    if (status == CT_ERR_NOT_FOUND || !ct_remote_is_alive(r->remote))
        return 0;
    if (status)
        ct_recording_fail(r, status,
                          r->stalk ? "threads could not be let go now (%s); recording has stopped, the program runs on"
                                   : "the hooks could not be removed now (%s); they do no harm: recording has stopped, "
                                     "the program runs on",
                          r->error[0] ? r->error : ct_status_text(status));
    return status;
}

/* Nobody is to wait for us inside the agent meanwhile. */
int ct_recording_uninstall(struct ct_recording *r) {
    __atomic_store_n(&r->lane.control->listening, 0, __ATOMIC_RELEASE);
    pthread_mutex_lock(&r->work);
    ct_hold_release(r);
    int status = uninstall(r);
    pthread_mutex_unlock(&r->work);
    return status;
}
