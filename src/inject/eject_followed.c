/* SPDX-License-Identifier: Apache-2.0 */
/* See eject.h: threads that a script's agent follows leave translated code, and its Stalker is freed. The agent does it
 * (agent/script_stalk.c), in calls that are made from outside under stops. */
#include "abi/script_abi.h"
#include "drain/clock.h"
#include "inject/eject_internal.h"
#include "inject/inject_memory.h"
#include "inject/redirect.h"
#include "remote/namespace.h"
#include <contrail/status.h>
#include <stddef.h>
#include <unistd.h>

#define TRIES             300
#define SHORT_US          500u
#define LONGEST_US        10000u

#define MEMBER(e, member) ((e)->boot.stalk + offsetof(struct ct_script_stalk, member)), &(member), sizeof(member)

/* A call of a controller that was killed may still be under way, on the stack for calls. */
static bool is_called(struct ct_ejection *e) {
    struct ct_registers regs;
    for (size_t i = 0; i < ct_remote_thread_count(e->remote); i++)
        if (ct_remote_get_regs(e->remote, i, &regs) || ct_registers_sp(&regs) - e->boot.image < e->boot.image_size)
            return true;
    return false;
}

static int command(struct ct_ejection *e, uint64_t number) {
    const uint64_t a[6] = {number};
    uint64_t run, result;
    int status = ct_remote_read(e->remote, MEMBER(e, run));
    if (!status && run - e->boot.image >= e->boot.text_size)
        status = CT_ERR_BAD_FILE;
    if (!status)
        status = ct_remote_call(e->remote, run, e->boot.stack, a, &result);
    return status ? status : ct_inject_said((int32_t)result);
}

/* *busy: the thread has to run on, and to be asked again. */
static int send_out(struct ct_ejection *e, size_t i, bool *busy) {
    struct ct_registers regs;
    int status = ct_remote_get_regs(e->remote, i, &regs);
    int32_t tid = ct_remote_thread_inner_tid(e->remote, i);
    uint64_t pc = ct_registers_pc(&regs);
    uint32_t inside = 0;
    if (!status)
        status = ct_remote_write(e->remote, MEMBER(e, tid));
    if (!status)
        status = ct_remote_write(e->remote, MEMBER(e, pc));
    if (!status)
        status = command(e, CT_SCRIPT_STALK_UNFOLLOW);
    if (status) {
        *busy |= status == CT_ERR_BUSY;
        return status == CT_ERR_BUSY || status == CT_ERR_NOT_FOUND ? 0 : status;
    }
    status = ct_remote_read(e->remote, MEMBER(e, pc));
    if (!status)
        status = ct_remote_read(e->remote, MEMBER(e, inside));
    *busy |= inside != 0;
    if (status || pc == ct_registers_pc(&regs))
        return status;
    status = ct_inject_redirect(e->remote, &regs, ct_registers_block(&regs));
    if (status)
        return status;
    ct_registers_set_pc(&regs, pc);
    return ct_remote_set_regs(e->remote, i, &regs);
}

static int send_all_out(struct ct_ejection *e, bool *busy) {
    uint32_t followed = 0;
    int status = 0;
    *busy = is_called(e);
    for (size_t i = 0; !*busy && !status && i < ct_remote_thread_count(e->remote); i++) {
        bool stays = false;
        status = send_out(e, i, &stays);
        followed |= stays;
    }
    *busy |= followed != 0;
    if (!status)
        status = ct_remote_read(e->remote, MEMBER(e, followed));
    *busy |= followed != 0;
    return status;
}

static int leave(struct ct_ejection *e, const struct ct_eject_turns *turns, uint64_t until) {
    uint32_t made = 0;
    bool busy = true;
    int status = ct_remote_read(e->remote, MEMBER(e, made));
    for (int tries = 0; !status && made && tries < TRIES && ct_clock_now() < until; tries++) {
        status = send_all_out(e, &busy);
        if (!status && !busy)
            return command(e, CT_SCRIPT_STALK_END);
        if (status)
            break;
        turns->go_on(turns->arg);
        unsigned pause = SHORT_US * (unsigned)(tries + 1);
        usleep(pause < LONGEST_US ? pause : LONGEST_US);
        status = turns->stop(turns->arg);
    }
    return status ? status : made ? CT_ERR_BUSY : 0;
}

int ct_eject_followed(struct ct_ejection *e, const struct ct_eject_turns *turns, uint64_t until) {
    if (!e->boot.stalk || e->boot.pid != ct_remote_inner_pid(e->remote))
        return 0;
    ct_remote_keep_filters(e->remote, !e->own);
    int status = leave(e, turns, until);
    ct_remote_keep_filters(e->remote, false);
    return status;
}
