/* SPDX-License-Identifier: Apache-2.0 */
/* A script beside a recording. Freestanding.
 *
 * A process has one agent with hooks: there is one register for the thread's block, one shadow stack, one way in which
 * unwinders see return addresses. So the recorder's agent keeps all of that, and tells its guests of calls, after it
 * has written the event (hook/runtime.c). This image waits for the controller of the script as it always does.
 *
 * Nothing in it makes a thread block: that is the work of the recorder's agent, whose statics are others. */
#include "agent/agent_lane.h"
#include "agent/script_agent.h"
#include "os/os.h"
#include "os/thread.h"

#define DEPTH_BITS 20

static struct {
    struct ct_runtime *runtime; /* NULL: the script has the process for itself */
    const struct ct_shm_control *recorder;
    const struct ct_script_guest_hook *hooks;
    uint64_t room;
    int32_t pid;
} guest;

bool ct_script_guest_is_open(void) {
    const struct ct_shm_control *c = guest.recorder;
    return !guest.runtime ||
           (__atomic_load_n(&c->listening, __ATOMIC_ACQUIRE) && __atomic_load_n(&c->recording, __ATOMIC_RELAXED) &&
            !(__atomic_load_n(&c->liveness, __ATOMIC_RELAXED) & CT_SHM_OWNER_DIED) && guest.runtime->pid == guest.pid);
}

/* Entry and return of one call have the same number, which no other open call has: its slot, and how many are open
 * below, since a tail call takes the same place. */
static uint64_t number_of(const struct ct_hook_call *call) {
    return call->data / sizeof(uint64_t) << DEPTH_BITS | (call->depth & ((1u << DEPTH_BITS) - 1));
}

static void hear(struct ct_cpu_context *cpu, struct ct_hook_call *call, bool returning) {
    if (call->hook >= guest.room || !ct_script_guest_is_open())
        return;
    if (guest.runtime->silent)
        ct_os_go_silent();
    const struct ct_script_guest_hook *h = &guest.hooks[call->hook];
    uint64_t function = __atomic_load_n(returning ? &h->on_return : &h->on_call, __ATOMIC_ACQUIRE);
    if (!function)
        return;
    call->user = (void *)h->user;
    call->data = number_of(call);
    ((void (*)(struct ct_cpu_context *, struct ct_hook_call *))function)(cpu, call);
}

static void on_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    hear(cpu, call, false);
}

static void on_return(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    hear(cpu, call, true);
}

/* Called while every thread is stopped. */
int ct_script_guest_join(const struct ct_script_join *join) {
    const struct ct_boot *boot = (const struct ct_boot *)join->boot;
    struct ct_runtime *rt = (struct ct_runtime *)boot->runtime;
    if (boot->magic != CT_BOOT_MAGIC || !rt || join->place >= CT_HOOK_GUESTS)
        return CT_ERR_BAD_FILE;
    guest.recorder = (const struct ct_shm_control *)boot->shm;
    guest.hooks = (const struct ct_script_guest_hook *)join->hooks;
    guest.room = join->hook_room;
    guest.pid = rt->pid;
    guest.runtime = rt;
    if (join->silent || rt->silent)
        ct_os_go_silent();
    rt->guests[join->place].liveness = (uint64_t)&ct_agent_lane_control()->liveness;
    rt->guests[join->place].on_call = on_call;
    rt->guests[join->place].on_return = on_return;
    return CT_OK;
}
