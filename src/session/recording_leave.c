/* SPDX-License-Identifier: Apache-2.0 */
/* How a recording gets out of its target, and cleans up after one that was killed.
 *
 * What is found in the target is not trusted (eject.h): a stop never lasts longer than our limits, whatever is there,
 * and all rounds together have a limit too. While we clean up after others, the user may give up at any time. */
#include "session/recording_leave.h"
#include "inject/eject.h"
#include "inject/eject_left.h"
#include "inject/recorder.h"
#include "session/crash_watch.h"
#include "session/follower.h"
#include "session/recording.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTLE_TRIES    250
#define SETTLE_LONGEST  10000u
#define MOST_LEFT       64 /* recorders that were killed one after the other */
#define STOP_LIMIT_MS   5000u
#define OTHERS_STILL_MS 2000u          /* a stop for cleaning up after others */
#define LEAVE_NS        30000000000ull /* all rounds, after ourselves */
#define OTHERS_LEAVE_NS 5000000000ull  /* all rounds, after others */

int ct_recording_stop(struct ct_recording *r) {
    struct ct_remote_error error = {""};
    if (ct_remote_is_stopped(r->remote))
        return 0;
    int status = ct_remote_stop(r->remote, STOP_LIMIT_MS, &error);
    r->times.stopped_at = ct_remote_stopped_since(r->remote);
    return status ? ct_recording_fail(r, status, "%s", error.text) : 0;
}

static int stop_again(void *recording) {
    return ct_recording_stop(recording);
}

static void go_on(void *recording) {
    (void)ct_recording_go_on(recording, CT_WAIT_LEAVE);
}

static int leave_target(struct ct_recording *r, struct ct_ejection *e, uint64_t limit_ns, bool *clean) {
    const struct ct_eject_turns turns = {stop_again, go_on, r};
    return ct_eject_all(e, &turns, limit_ns, clean);
}

/* The target is stopped, and is again when this returns. */
int ct_recording_clean(struct ct_recording *r, bool *clean) {
    struct ct_ejection e;
    bool recorded;
    *clean = false;
    ct_remote_limit(r->remote, CT_RECORDING_STILL_MS, NULL, NULL);
    int status = ct_eject_open_at(&e, r->remote, r->injection.boot, &recorded);
    if (status == CT_ERR_NOT_FOUND) {
        *clean = true;
        return 0;
    }
    if (!status) {
        status = leave_target(r, &e, LEAVE_NS, clean);
        ct_eject_close(&e);
        if (status == CT_ERR_BAD_FILE)
            status = 0; /* without hooks it does no harm */
    }
    return status;
}

/* ---- after others ---- */

/* Is it our shared memory, by its name? */
static int is_our_memory(void *arg, const struct ct_os_map *map) {
    (void)arg;
    return strstr(map->path, "/memfd:contrail") == map->path;
}

static bool is_given_up(void *arg) {
    return ct_recording_progress(arg, "cleaning up") != 0;
}

/* Explains why something of ours in a process cannot be removed now. */
static int explain_others(struct ct_recording *r, int status) {
    if (is_given_up(r))
        return CT_ERR_TIMEOUT;
    switch (status) {
    case CT_ERR_UNSUPPORTED:
        return ct_recording_fail(
            r, status, "process %d carries hooks of another version of Contrail; restart it to record it", r->pid);
    case CT_ERR_TIMEOUT:
    case CT_ERR_BAD_FILE:
        return ct_recording_fail(
            r, CT_ERR_BUSY,
            "process %d has tables that look like those of a recorder that was killed, but they are "
            "damaged; it is not recorded: restart it to record it",
            r->pid);
    default:
        return status;
    }
}

static int eject_others(struct ct_recording *r, struct ct_ejection *e) {
    bool clean = false;
    int status = leave_target(r, e, OTHERS_LEAVE_NS, &clean);
    if (status)
        return explain_others(r, status);
    if (clean)
        return 0;
    return ct_recording_fail(
        r, CT_ERR_BUSY,
        "process %d carries hooks of a recorder that was killed, and a thread is still inside one; try "
        "again later",
        r->pid);
}

/* A thread that was making a call for a recorder that was killed returns from it by itself. */
static int wait_until_left(struct ct_recording *r, struct ct_left *left, uint64_t until) {
    int status = 0;
    for (int tries = 0; !status && ct_left_is_entered(left); tries++) {
        if (tries == SETTLE_TRIES || ct_clock_now() > until)
            return ct_recording_fail(
                r, CT_ERR_BUSY,
                "process %d has memory of a recorder that was killed, and a thread is still inside; try again later",
                r->pid);
        (void)ct_recording_go_on(r, CT_WAIT_LEAVE);
        usleep(SETTLE_LONGEST);
        status = ct_recording_stop(r);
        if (!status && (status = ct_left_find(left, r->remote)) == CT_ERR_NOT_FOUND)
            return 0;
    }
    return status;
}

static int take_away(struct ct_recording *r, struct ct_left *left, uint64_t until) {
    struct ct_ejection e;
    bool recorded;
    if (ct_recorder_is_alive(r->remote, left->lane))
        return ct_recording_fail(r, CT_ERR_BUSY, "process %d is being recorded already; `contrail detach %d` ends that",
                                 r->pid, r->pid);
    if (left->control.boot && !ct_eject_open_at(&e, r->remote, left->control.boot, &recorded)) {
        int status = eject_others(r, &e);
        ct_eject_close(&e);
        return status;
    }
    int status = wait_until_left(r, left, until);
    return status ? status : ct_left_unmap(left);
}

/* Removes what recorders have left that were killed while they injected: all within the time limit for others. */
static int take_away_left(struct ct_recording *r) {
    uint64_t until = ct_clock_now() + OTHERS_LEAVE_NS;
    struct ct_left *left = malloc(sizeof *left);
    int status = left ? 0 : CT_ERR_NO_MEMORY;
    for (int i = 0; !status && i < MOST_LEFT; i++) {
        status = ct_clock_now() > until ? CT_ERR_TIMEOUT : ct_left_find(left, r->remote);
        if (!status)
            status = take_away(r, left, until);
    }
    free(left);
    return status == CT_ERR_NOT_FOUND ? 0 : explain_others(r, status);
}

static int clean_after_others(struct ct_recording *r) {
    struct ct_ejection e;
    bool recorded;
    int status = ct_eject_open(&e, r->remote, &recorded);
    if (status == CT_ERR_NOT_FOUND) {
        status = ct_follower.clean_after(r);
        return status ? status : take_away_left(r);
    }
    if (status)
        return explain_others(r, status);
    if (recorded && e.boot.stalk)
        status = ct_recording_fail(r, CT_ERR_BUSY,
                                   "process %d is scripted: end the script first; it can come back once the process is "
                                   "recorded",
                                   r->pid);
    else if (recorded)
        status = ct_recording_fail(
            r, CT_ERR_BUSY, "process %d is being recorded already; `contrail detach %d` ends that", r->pid, r->pid);
    else
        status = eject_others(r, &e);
    ct_eject_close(&e);
    return status;
}

int ct_recording_clean_after_others(struct ct_recording *r) {
    if (ct_remote_each_map(r->remote, is_our_memory, NULL) <= 0)
        return 0;
    ct_remote_limit(r->remote, OTHERS_STILL_MS, is_given_up, r);
    int status = ct_recording_stop(r);
    if (!status)
        status = clean_after_others(r);
    if (ct_remote_is_stopped(r->remote))
        (void)ct_recording_go_on(r, CT_WAIT_LEAVE);
    ct_remote_limit(r->remote, 0, NULL, NULL);
    return status;
}

/* ---- our own hooks ---- */

static int uninstall(struct ct_recording *r) {
    int status = ct_recording_stop(r);
    if (status == CT_ERR_NOT_FOUND)
        return 0; /* it has just ended */
    ct_recording_note_end(r);
    if (!status) {
        bool clean;
        ct_remote_limit(r->remote, CT_RECORDING_STILL_MS, NULL, NULL);
        status = r->stalk ? ct_follower.leave(r) : ct_recording_clean(r, &clean);
        (void)ct_recording_go_on(r, CT_WAIT_LEAVE);
    }
    __atomic_store_n(&r->lane.control->recording, 0, __ATOMIC_RELAXED);
    if (status == CT_ERR_NOT_FOUND || !ct_remote_is_alive(r->remote))
        return 0;
    if (status)
        ct_recording_fail(r, status,
                          r->stalk
                              ? "threads could not be released now (%s); recording has stopped, the program runs on"
                              : "the hooks could not be removed now (%s); they do no harm: recording has stopped, "
                                "the program runs on",
                          r->error[0] ? r->error : ct_status_text(status));
    return status;
}

/* No thread may wait for us inside the agent meanwhile. */
int ct_recording_uninstall(struct ct_recording *r) {
    ct_recording_budget_stop(r);
    __atomic_store_n(&r->lane.control->listening, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&r->drain.leaving, true, __ATOMIC_RELEASE);
    pthread_mutex_lock(&r->work);
    ct_crash_watch_release(r);
    int status = uninstall(r);
    pthread_mutex_unlock(&r->work);
    return status;
}
