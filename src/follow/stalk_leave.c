/* SPDX-License-Identifier: Apache-2.0 */
/* Ends following: for the recording that follows the process, and for one that attaches after a recorder was killed.
 *
 * When no thread is in translated code any more, nothing leads back to it: signal frames hold the program's own state,
 * and return addresses of excluded calls have been restored. The agent's image stays mapped if a handler has
 * interrupted its first instructions, or if an unwinder knows of it. */
#include "follow/stalk_internal.h"
#include "hook/layout.h"
#include "inject/inject_memory.h"
#include "inject/recorder.h"
#include "remote/frames.h"
#include "remote/namespace.h"
#include "session/recording_leave.h"
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define TRIES          300
#define LONGEST_NAP_US 100000 /* on a busy machine a thread gets its turn late */
/* Limits for all rounds together. What a killed recorder left may be forged by the target: it gets less time. */
#define LEAVE_NS        30000000000ull
#define OTHERS_LEAVE_NS 5000000000ull

static bool is_image(const void *injection, uint64_t pc) {
    const struct ct_injection *in = injection;
    return pc - in->image < in->image_size;
}

/* One round: sends every followed thread out. *busy: a thread is still in our code. */
static int send_threads_out(struct ct_recording *r, bool *busy) {
    const struct ct_injection *in = &r->injection;
    struct ct_stalk_lists l;
    struct ct_stalk_boot boot = {.command = CT_STALK_UNFOLLOW};
    int status = ct_stalk_list(r, &l, true);
    *busy = false;
    for (size_t i = 0; !status && i < l.count; i++)
        *busy |= is_image(in, l.threads[i].pc);
    if (!status)
        status = ct_stalk_ask(r, &l, &boot);
    *busy |= boot.followed || boot.inside;
    ct_stalk_free_lists(&l);
    return status;
}

/* Is this a block of ours? A thread may have taken the register for itself since. */
static bool is_block(struct ct_recording *r, uint64_t at) {
    uint64_t self = 0;
    return at && !ct_remote_read(r->remote, at + CT_BLOCK_SELF, &self, sizeof self) && self == at;
}

static int clear_register(struct ct_recording *r) {
    int status = 0;
    for (size_t i = 0; !status && i < ct_remote_thread_count(r->remote); i++) {
        struct ct_registers regs;
        status = ct_remote_get_regs(r->remote, i, &regs);
        if (status || !is_block(r, ct_registers_block(&regs)))
            continue;
        ct_registers_set_block(&regs, 0);
        status = ct_remote_set_regs(r->remote, i, &regs);
    }
    return status;
}

/* No thread is in our code: gives the register and the memory back. */
static int give_memory_back(struct ct_recording *r) {
    struct ct_injection *in = &r->injection;
    struct ct_stalk_lists l;
    struct ct_stalk_boot boot = {.command = CT_STALK_END};
    int status = clear_register(r);
    if (status || (status = ct_stalk_list(r, &l, true)))
        return status;
    l.count = 0;
    status = ct_stalk_ask(r, &l, &boot);
    ct_stalk_free_lists(&l);
    if (!status && in->shm_size)
        status = ct_inject_unmap(in, in->shm, in->shm_size);
    if (!status && !boot.inside && !ct_remote_comes_to(in->remote, is_image, in))
        status = ct_inject_unmap(in, in->image, in->image_size);
    return status;
}

static int leave_process(struct ct_recording *r, uint64_t limit_ns) {
    uint64_t begin = ct_clock_now();
    bool busy = true;
    int status = 0;
    for (int i = 0; !status && i < TRIES && ct_clock_now() - begin < limit_ns; i++) {
        status = send_threads_out(r, &busy);
        if (status || !busy)
            break;
        (void)ct_recording_go_on(r, CT_WAIT_LEAVE); /* the engine does the rest, on the threads themselves */
        usleep(i < LONGEST_NAP_US / 500 ? 500u * (unsigned)(i + 1) : LONGEST_NAP_US);
        status = ct_recording_stop(r);
    }
    if (!status && busy)
        status = CT_ERR_TIMEOUT;
    return status ? status : give_memory_back(r);
}

int ct_stalk_leave(struct ct_recording *r) {
    return leave_process(r, LEAVE_NS);
}

/* ---- after a recorder that was killed ---- */

struct lane {
    struct ct_recording *r;
    uint64_t at;
    struct ct_shm_control control;
};

static int find_lane(void *arg, const struct ct_os_map *map) {
    struct lane *l = arg;
    if (strstr(map->path, "/memfd:contrail") != map->path || map->offset ||
        ct_remote_read(l->r->remote, map->start, &l->control, sizeof l->control) || l->control.magic != CT_SHM_MAGIC ||
        l->control.version != CT_SHM_VERSION || !l->control.extra_offset)
        return 0;
    l->at = map->start;
    return 1;
}

/* Asks the agent of a killed recorder to let its threads go. What we call there may be the program's own code: it must
 * not run without the program's seccomp filters, and has no more time than the stop (ct_remote_limit). */
static int leave_for_others(struct ct_recording *r, const struct ct_stalk_tables *t, uint64_t lane) {
    struct ct_stalk stalk = {.boot = t->boot, .shm = lane}, *own = r->stalk;
    struct ct_injection injection = r->injection;
    r->stalk = &stalk;
    r->injection = (struct ct_injection){
        .remote = r->remote,
        .image = t->image,
        .image_size = t->image_size,
        .entry = t->entry,
        .stack = t->stack,
        .shm = t->shm,
        .shm_size = t->shm_size,
    };
    ct_remote_keep_filters(r->remote, true);
    int status = leave_process(r, OTHERS_LEAVE_NS);
    ct_remote_keep_filters(r->remote, false);
    r->stalk = own;
    r->injection = injection;
    return status;
}

int ct_stalk_clean_after(struct ct_recording *r) {
    struct lane l = {.r = r};
    struct ct_stalk_tables t;
    if (ct_remote_each_map(r->remote, find_lane, &l) <= 0)
        return 0;
    int status = ct_remote_read(r->remote, l.at + l.control.extra_offset, &t, offsetof(struct ct_stalk_tables, ranges));
    if (status)
        return status;
    if ((t.pid == ct_remote_inner_pid(r->remote) || !t.entry) && ct_recorder_is_alive(r->remote, l.at))
        return ct_recording_fail(r, CT_ERR_BUSY, "process %d is being followed already; `contrail detach %d` ends that",
                                 r->pid, r->pid);
    if (!t.entry) /* the recorder was killed before the agent ran: no thread was followed */
        return 0;
    status = leave_for_others(r, &t, l.at);
    if (status == CT_ERR_PERMISSION_DENIED)
        return ct_recording_fail(
            r, CT_ERR_BUSY,
            "process %d is still followed for a recorder that was killed, and each of its threads has a "
            "seccomp filter, which is not lifted for that; restart it to record it",
            r->pid);
    return status ? ct_recording_fail(r, CT_ERR_BUSY,
                                      "process %d is still followed for a recorder that was killed; try again later",
                                      r->pid)
                  : 0;
}
