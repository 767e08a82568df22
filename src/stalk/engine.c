/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: runs when translated code does not know where to continue.
 *
 * It runs on the followed thread, on the engine's stack, with the program's registers in the thread's area. It returns
 * the address at which the thread continues: translated code, or original code when following ends or pauses. */
#include "stalk/engine.h"
#include "hook/runtime.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/events.h"
#include "stalk/link.h"
#include "stalk/memory.h"
#include "stalk/section.h"
#include "stalk/signals.h"
#include "stalk/stalker.h"
#include "stalk/thread.h"
#include "stalk/translate.h"
#include "stalk/unwind.h"
#include "stalk/vfork.h"

/* ---- callbacks ---- */

void ct_stalk_call_out(struct stalk_thread *t, void (*fn)(void *arg, void *vectors), void *arg) {
    uint32_t before = t->in_callback;
    t->in_callback = 1;
    ct_hook_call_saved(t->stalker->vectors, fn, arg);
    t->in_callback = before;
}

static void tell_stop(void *arg, void *vectors) {
    struct stalk_thread *t = arg;
    (void)vectors;
    if (t->sink.flush)
        t->sink.flush(t->sink.user, t->tid);
    if (t->sink.stop)
        t->sink.stop(t->sink.user, t->tid, t->status);
}

void ct_stalk_tell_stop(struct stalk_thread *t) {
    ct_stalk_call_out(t, tell_stop, t);
}

bool ct_stalk_claim_end(struct stalk_thread *t) {
    return !__atomic_exchange_n(&t->ending, 1, __ATOMIC_ACQ_REL);
}

void ct_stalk_unfollowed(struct stalk_thread *t) {
    ct_stalk_signals_give_back();
    __atomic_sub_fetch(&t->stalker->followed, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&t->following, 0, __ATOMIC_RELEASE); /* last: other threads wait for this */
}

void ct_stalk_finish(struct stalk_thread *t, int status) {
    if (!t->following)
        return;
    if (ct_stalk_is_vforked(t)) { /* the parent is still followed */
        t->following = 0;
        return;
    }
    if (!ct_stalk_claim_end(t))
        return;
    t->status = status;
    ct_stalk_events_drain(t, true);
    ct_stalk_tell_stop(t);
    t->area->native = 0;
    t->area->own = 0;
    ct_stalk_unfollowed(t);
}

/* longjmp returns to the caller of setjmp, and excluded code may call longjmp: so setjmp runs natively too. */
bool ct_stalk_runs_natively(const struct ct_stalker *s, uint64_t target) {
    return ct_stalk_excluded(s, target) || (ct_stalk_has_excluded(s) && ct_stalk_is_setjmp(target));
}

void ct_stalk_begun(struct stalk_thread *t) {
    t->area->own = t->following == 1 && ct_os_has_thread_pointer() ? ct_os_thread_pointer() : 0;
    __atomic_store_n(&t->area->busy, 0, __ATOMIC_RELEASE);
}

/* ---- leaving ---- */

/* If the thread has just called excluded code, restores the return address that the program expects. */
static void take_stub_back(struct stalk_thread *t, struct stalk_regs *regs) {
    uint64_t word = 0, address = 0;
    if (!ct_stalk_runs_natively(t->stalker, regs->pc) || !ct_stalk_return_read(regs->gpr, &word) ||
        !(address = ct_stalk_return_of(t->cache, word)))
        return;
    ct_stalk_return_write(regs->gpr, address);
}

void ct_stalk_area_back(struct stalk_thread *t) {
    struct stalk_area *a = t->area;
    for (unsigned i = 0; i < STALK_REGISTERS; i++)
        a->gpr[i] = t->interrupted.gpr[i];
    a->reason = t->interrupted.reason;
    a->target = t->interrupted.target;
    a->resume = t->interrupted.resume;
    a->spill = t->interrupted.spill;
}

/* Leaves from a place in translated code that is not the end of a fragment: finds where the program is. `interrupted`:
 * the thread was stopped there, and the area was saved aside. */
static uint64_t leave_at(struct stalk_thread *t, uint64_t code, bool interrupted) {
    struct stalk_regs regs;
    struct stalk_area *a = t->area;
    for (unsigned i = 0; i < STALK_REGISTERS; i++)
        regs.gpr[i] = a->gpr[i];
    regs.flags = a->flags;
    regs.pc = code;
    if (interrupted)
        ct_stalk_area_back(t);
    else
        ct_stalk_resumable(regs.gpr, a);
    (void)ct_stalk_recover(t, &regs, false);
    take_stub_back(t, &regs);
    regs.pc = ct_stalk_section_again(t->cache, regs.pc);
    ct_stalk_sigreturn_undo(t, &regs);
    ct_stalk_events_cut(t, regs.pc, false);
    for (unsigned i = 0; i < STALK_REGISTERS; i++)
        a->gpr[i] = regs.gpr[i];
    a->flags = regs.flags;
    ct_stalk_finish(t, t->status);
    return regs.pc;
}

/* ---- continuing ---- */

bool ct_stalk_has_excluded(const struct ct_stalker *s) {
    return s->excluded_count > 1; /* the first range is ours */
}

/* Returns the stub to which the excluded call of `target` returns instead of `address`; 0: the call is followed. */
static uint64_t stub_for(struct stalk_thread *t, uint64_t target, uint64_t address) {
    if (!ct_stalk_has_excluded(t->stalker) || !ct_stalk_is_setjmp(target))
        return ct_stalk_return_stub(t->cache, address);
    return ct_stalk_landing(t->stalker, address); /* landing.c */
}

/* Excluded code is followed where the thread was in it when following began, for example. A register keeps the return
 * address of its function after that was saved: so its jumps are within the function, as far as we can know. */
static bool jumps_in_excluded(const struct stalk_thread *t, uint32_t exit) {
    const struct stalk_exit *e = exit ? ct_stalk_item(&t->cache->exits, exit) : NULL;
    return STALK_RETURN_IN_REGISTER && e && e->from && ct_stalk_excluded(t->stalker, e->from->first.address);
}

/* Where returns are instructions of their own, no other branch that has an exit is one: a function may begin right
 * after a call that never returns. */
static bool may_return(struct ct_stalker *s, uint64_t target, uint32_t exit) {
    return !(STALK_RETURN_IN_REGISTER && exit) && ct_stalk_is_returned_to(s, target);
}

/* A call of excluded code runs natively, and returns to a stub of ours. The return address is on the stack or in its
 * register. `exit`: the exit that it takes, or 0; `indirect`: by an indirect branch. False: it is no such call. */
static bool enter_excluded(struct stalk_thread *t, uint64_t target, uint32_t exit, bool indirect) {
    struct ct_stalker *s = t->stalker;
    const struct stalk_exit *e = exit && !indirect ? ct_stalk_item(&t->cache->exits, exit) : NULL;
    bool call = e && e->kind == CT_STALKER_END_CALL;
    uint64_t slot = ct_stalk_slot(t->area->gpr), address = 0;
    if (slot > t->through)
        t->through = 0;
    if (slot < t->through || !ct_stalk_runs_natively(s, target) || !ct_stalk_return_read(t->area->gpr, &address))
        return false;
    bool ours = target == (uint64_t)&ct_stalker_follow_me || target == (uint64_t)&ct_stalker_unfollow_me;
    /* A jump counts as a call if it is no return and there is a return address. */
    if (!call && !ours &&
        (!ct_stalk_follows_call(s, address) || may_return(s, target, exit) || jumps_in_excluded(t, exit)))
        return false;
    uint64_t stub = stub_for(t, target, address);
    if (!stub)
        return false;
    ct_stalk_return_write(t->area->gpr, stub);
    t->area->native = slot;
    s->statistics.excluded_calls++;
    if (call && e->from && !ct_stalk_excluded(s, e->from->first.address))
        ct_stalk_link_excluded(t->cache, exit, target, stub);
    else if (!e && !ours)
        ct_stalk_publish_excluded(t->cache, target, address, stub);
    return true;
}

/* Reading the time is a system call, so it is not read each time. */
static bool drain_is_due(struct stalk_thread *t) {
    return t->sink.mask && ++t->entries % 64 == 0 &&
           ct_os_nanoseconds() - t->drained_at >= t->stalker->drain_interval_ns;
}

/* Where the call that leaves a fragment returns to; 0: it is no call. */
static uint64_t return_site_of(const struct stalk_exit *exit) {
    bool call = exit->kind == CT_STALKER_END_CALL && exit->from;
    return call ? exit->from->first.address + exit->from->length : 0;
}

/* Excluded code, which may take long, returns through this exit: it is not linked, so that the engine reads the clock
 * each time. */
static bool reads_clock(const struct stalk_cache *c, uint32_t exit) {
    return c->mask & CT_STALKER_FAST_CLOCK && !((const struct stalk_exit *)ct_stalk_item(&c->exits, exit))->from;
}

static void tell_unwinder(void *arg, void *vectors) {
    (void)vectors;
    ct_stalk_unwind_register(arg);
}

/* The thread wants to go to `target`. `exit`: the exit that it takes; 0: an indirect branch without an inline cache. */
static uint64_t go(struct stalk_thread *t, uint64_t target, uint32_t exit, bool indirect) {
    struct ct_stalker *s = t->stalker;
    struct stalk_cache *c = t->cache;
    int status = CT_OK;
    uint8_t kind = exit ? ((struct stalk_exit *)ct_stalk_item(&c->exits, exit))->kind : CT_STALKER_END_JUMP_INDIRECT;
    uint64_t behind = indirect ? ct_stalk_return_of(c, target) : 0;
    if (behind) /* a longjmp, or the return of excluded code that is followed after all */
        target = behind;
    if (ct_stalk_has_excluded(s) && __atomic_load_n(&c->unwind_state, __ATOMIC_ACQUIRE) != STALK_REGISTERED)
        ct_stalk_call_out(t, tell_unwinder, c);
    ct_stalk_lock(s);
    if ((exit || indirect) && kind != CT_STALKER_END_RETURN && kind != CT_STALKER_END_LIMIT &&
        enter_excluded(t, target, exit, indirect)) {
        if (exit && indirect)
            ct_stalk_take_table(c, exit); /* the table leads there */
        ct_stalk_unlock(s);
        return target;
    }
    uint64_t return_site = exit ? return_site_of(ct_stalk_item(&c->exits, exit)) : 0;
    struct stalk_entry *e = ct_stalk_obtain(t, target, &status);
    if (e && return_site)
        ct_stalk_translate_ahead(t, return_site);
    if (e && ct_stalk_trusted(e) && (kind == CT_STALKER_END_RETURN || !ct_stalk_runs_natively(s, target))) {
        if (exit && indirect)
            ct_stalk_cache_target(c, exit, e);
        else if (exit && !reads_clock(c, exit))
            ct_stalk_link(c, exit, e);
        else if (indirect && t->area->reason == (CT_REASON_MISS | CT_MISS_RETURN))
            ct_stalk_publish_return(c, e);
        else if (indirect)
            ct_stalk_publish(c, e);
    }
    ct_stalk_unlock(s);
    if (e)
        return e->code;
    if (status == CT_ERR_NOT_MAPPED)
        t->fault_pc = target; /* it faults there, as it would if it were not followed */
    else
        ct_stalk_finish(t, status);
    return target;
}

struct callout_run {
    struct stalk_thread *thread;
    struct stalk_callout *callout;
    struct stalk_probe *probe; /* NULL: a transformer's callout */
    struct stalk_cpu cpu;
};

static void run_callout(void *arg, void *vectors) {
    struct callout_run *run = arg;
    run->callout->fn(ct_stalk_cpu_context(&run->cpu, vectors), run->callout->data);
    if (run->probe)
        ct_stalk_probe_leave(run->probe);
}

/* False: the probe is being removed. */
static bool enter_probe(struct stalk_probe *p) {
    uint32_t users = __atomic_load_n(&p->users, __ATOMIC_RELAXED);
    while (p->used && users)
        if (__atomic_compare_exchange_n(&p->users, &users, users + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return true;
    return false;
}

static uint64_t call_out(struct stalk_thread *t, uint32_t id) {
    struct stalk_area *a = t->area;
    uint64_t resume = a->target;
    struct callout_run run;
    run.thread = t;
    run.callout = ct_stalk_item(&t->cache->callouts, id);
    if (run.callout->probe == -2) { /* the place where events begin */
        ct_stalk_events_drain(t, false);
        if (t->activation == run.callout->pc)
            t->muted = 0;
        return resume;
    }
    run.probe = run.callout->probe >= 0 ? &t->stalker->probes[run.callout->probe] : NULL;
    if (run.probe && !enter_probe(run.probe))
        return resume;
    ct_stalk_cpu_load(&run.cpu, a->gpr, a->flags, run.callout->pc);
    ct_stalk_call_out(t, run_callout, &run);
    uint64_t pc = ct_stalk_cpu_store(&run.cpu, a->gpr, &a->flags);
    if (pc == run.callout->pc)
        return resume;
    if (t->following == 1)
        return go(t, pc, 0, false);
    ct_stalk_finish(t, CT_OK);
    return pc;
}

/* An exception has left excluded code: the thread continues as if the caller resumed the exception. The unwinder finds
 * its own frames on the stack, so all of it is followed, excluded or not. Returns where that begins. */
static uint64_t land(struct stalk_thread *t) {
    struct stalk_area *a = t->area;
    ct_stalk_pass_on(a->gpr, t->land);
    a->native = 0;
    ct_stalk_area_leave(a);
    t->through = ct_stalk_slot(a->gpr);
    return ct_stalk_functions[STALK_RESUME];
}

/* The thread is to be unfollowed, or was unfollowed on its way here. */
static uint64_t end_of_following(struct stalk_thread *t, uint32_t kind, uint32_t index) {
    uint64_t target = t->area->target;
    if (kind == CT_REASON_FULL)
        ct_stalk_events_drain(t, false); /* leave_at may run code that writes another record */
    if (kind == CT_REASON_EXIT || kind == CT_REASON_CHANGED)
        target = ((struct stalk_exit *)ct_stalk_item(&t->cache->exits, index))->target;
    else if (kind == CT_REASON_BEGIN)
        target = t->begin;
    else if (kind == CT_REASON_LAND)
        target = land(t);
    else if (kind != CT_REASON_MISS && kind != CT_REASON_SITE && kind != CT_REASON_LANDED)
        return leave_at(t, kind == CT_REASON_END ? t->begin : target, kind == CT_REASON_END);
    ct_stalk_finish(t, CT_OK);
    return target;
}

/* The thread has nothing to return to in its cache: it may have to change to another cache. True: it has, and its exit
 * is no longer known. */
static bool has_moved(struct stalk_thread *t) {
    if (t->vfork.tid || t->stalker->keeps_sites) /* the parent of a vfork will continue where it was */
        return false;
    if (!t->cache->newer && t->cache->dead_bytes <= STALK_GARBAGE)
        return false;
    ct_stalk_cache_renew(t);
    return true;
}

/* The thread leaves a fragment by a direct branch. */
static uint64_t leave_fragment(struct stalk_thread *t, uint32_t index) {
    const struct stalk_exit *e = ct_stalk_item(&t->cache->exits, index);
    uint64_t target = e->target;
    bool may_call = e->kind != CT_STALKER_END_RETURN && e->kind != CT_STALKER_END_LIMIT;
    t->area->native = 0;
    return has_moved(t) ? go(t, target, 0, may_call) : go(t, target, index, false);
}

/* The code that the thread was about to execute is not what was translated. */
static uint64_t look_again(struct stalk_thread *t, uint32_t index) {
    const struct stalk_exit *e = ct_stalk_item(&t->cache->exits, index);
    uint64_t target = e->target;
    ct_stalk_lock(t->stalker);
    t->stalker->statistics.changed++;
    ct_stalk_invalidate_fragment(t->cache, e->from);
    ct_stalk_unlock(t->stalker);
    (void)has_moved(t);
    return go(t, target, 0, false);
}

static uint64_t run_engine(struct stalk_thread *t) {
    uint32_t kind = t->area->reason & 0xf0000000, index = t->area->reason & 0x0fffffff;
    uint64_t to = t->area->target;
    t->stalker->statistics.entries++;
    t->left = NULL;
    ct_stalk_check_alternate(t);
    if (kind == CT_REASON_BACK && t->vfork.tid) {
        ct_stalk_vfork_end(t);
        ct_stalk_vfork_release(t->stalker);
    }
    if (kind == CT_REASON_BEGIN) {
        ct_stalk_signals_begin();
        ct_stalk_begun(t);
    }
    if (t->following != 1)
        return end_of_following(t, kind, index);
    switch (kind) {
    case CT_REASON_EXIT:
        to = leave_fragment(t, index);
        break;
    case CT_REASON_CHANGED:
        to = look_again(t, index);
        break;
    case CT_REASON_MISS:
        t->stalker->statistics.lookups++;
        (void)has_moved(t);
        to = go(t, to, 0, true);
        break;
    case CT_REASON_SITE:
        t->stalker->statistics.lookups++;
        to = go(t, to, has_moved(t) ? 0 : index, true);
        break;
    case CT_REASON_CALLOUT:
        to = call_out(t, index);
        break;
    case CT_REASON_SYSCALL:
        to = ct_stalk_syscall_enter(t);
        break;
    case CT_REASON_POINTER:
        if (ct_stalk_move_block(t, index))
            break;
        t->status = CT_ERR_UNSUPPORTED;
        return leave_at(t, to, false);
    case CT_REASON_FULL:
        ct_stalk_events_drain(t, false);
        break;
    case CT_REASON_LANDED:
        t->area->native = 0;
        to = go(t, to, 0, false);
        break;
    case CT_REASON_LAND:
        to = go(t, land(t), 0, false);
        break;
    case CT_REASON_BEGIN:
        to = go(t, t->begin, 0, false);
        break;
    case CT_REASON_VFORKED:
        ct_stalk_vfork_begin(t);
        return t->vfork.resume;
    case CT_REASON_BACK:
        to = t->vfork.resume;
        break;
    default:
        return leave_at(t, t->begin, true);
    }
    if (t->following == 2 &&
        (kind == CT_REASON_CALLOUT || kind == CT_REASON_FULL || kind == CT_REASON_SYSCALL || kind == CT_REASON_POINTER))
        return leave_at(t, to, false);
    if (t->following == 1 && drain_is_due(t))
        ct_stalk_events_drain(t, true);
    else if (t->following == 1 && t->cache->mask & CT_STALKER_FAST_CLOCK)
        ct_stalk_events_drain(t, false); /* reads the clock */
    return to;
}

uint64_t ct_stalk_engine(struct stalk_thread *t) {
    return ct_stalk_way_out(t, run_engine(t));
}
