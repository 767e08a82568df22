/* SPDX-License-Identifier: Apache-2.0 */
/* See eject.h: the whole way out, in turns. */
#include "drain/clock.h"
#include "inject/eject_internal.h"
#include "inject/eject_left.h"
#include "inject/recorder.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <unistd.h>

#define TRIES      250
#define PAUSE_US   500u
#define LONGEST_US 10000u

int ct_eject_all(struct ct_ejection *e, const struct ct_eject_turns *turns, uint64_t limit_ns, bool *clean) {
    uint64_t begin = ct_clock_now();
    *clean = false;
    /* If it fails, the hooks are removed all the same, unless the process runs; the agent's memory stays. */
    int status = ct_eject_followed(e, turns, begin + limit_ns);
    if (status != CT_ERR_TIMEOUT && ct_remote_is_stopped(e->remote))
        status = ct_eject_hooks(e);
    for (int tries = 0; !status && tries < TRIES && ct_clock_now() - begin < limit_ns; tries++) {
        status = ct_eject_settle(e, clean);
        if (status)
            break;
        if (*clean)
            return ct_eject_memory(e);
        turns->go_on(turns->arg);
        unsigned pause = PAUSE_US * (unsigned)(tries + 1);
        usleep(pause < LONGEST_US ? pause : LONGEST_US);
        status = turns->stop(turns->arg);
    }
    return status;
}

/* ---- after others ---- */

#define MOST_LEFT 64 /* recorders that were killed one after the other */

static int eject_one(struct ct_ejection *e, const struct ct_eject_turns *turns, bool recorded, uint64_t limit_ns) {
    bool clean = false;
    int status = recorded ? CT_ERR_BUSY : ct_eject_all(e, turns, limit_ns, &clean);
    ct_eject_close(e);
    return status ? status : clean ? 0 : CT_ERR_BUSY;
}

/* A thread that was making a call for a recorder that was killed returns from it by itself. */
static int unmap_left(struct ct_remote *remote, struct ct_left *left, const struct ct_eject_turns *turns,
                      uint64_t until) {
    int status = 0;
    while (!status && ct_left_is_entered(left)) {
        if (ct_clock_now() > until)
            return CT_ERR_BUSY;
        turns->go_on(turns->arg);
        usleep(LONGEST_US);
        status = turns->stop(turns->arg);
        if (!status && (status = ct_left_find(left, remote)) == CT_ERR_NOT_FOUND)
            return 0;
    }
    return status ? status : ct_left_unmap(left);
}

static int eject_left(struct ct_remote *remote, struct ct_left *left, const struct ct_eject_turns *turns,
                      uint64_t until) {
    struct ct_ejection e;
    bool recorded;
    int status = ct_left_find(left, remote);
    if (status)
        return status;
    if (ct_recorder_is_alive(remote, left->lane))
        return CT_ERR_BUSY;
    if (left->control.boot && !ct_eject_open_at(&e, remote, left->control.boot, &recorded))
        return eject_one(&e, turns, recorded, until - ct_clock_now());
    return unmap_left(remote, left, turns, until);
}

int ct_eject_others(struct ct_remote *remote, const struct ct_eject_turns *turns, uint64_t limit_ns) {
    struct ct_ejection e;
    bool recorded;
    uint64_t until = ct_clock_now() + limit_ns;
    int status = ct_eject_open(&e, remote, &recorded);
    if (status != CT_ERR_NOT_FOUND)
        return status ? status : eject_one(&e, turns, recorded, limit_ns);
    struct ct_left *left = malloc(sizeof *left);
    status = left ? 0 : CT_ERR_NO_MEMORY;
    for (int i = 0; !status && i < MOST_LEFT; i++)
        status = ct_clock_now() > until ? CT_ERR_TIMEOUT : eject_left(remote, left, turns, until);
    free(left);
    return status == CT_ERR_NOT_FOUND ? 0 : status;
}
