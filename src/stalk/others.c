/* SPDX-License-Identifier: Apache-2.0 */
/* Other threads of this process: followed and unfollowed wherever they are.
 *
 * All threads are stopped for a moment (os.h). A thread that is to be followed continues in ct_stalk_begin, one that is
 * to be unfollowed in ct_stalk_end: with all its registers, so that the engine does the rest on the thread itself. A
 * thread that is in the engine, or about to run a handler, is only asked. It may not enter the engine again, so we keep
 * checking until it has answered. Owner: the caller; the Stalker's lock is not held while threads are stopped. */
#include "stalk/others.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/link.h"
#include "stalk/memory.h"
#include "stalk/section.h"
#include "stalk/signals.h"
#include "stalk/stalker.h"
#include "stalk/thread.h"
#include "stalk/unwind.h"
#include "stalk/vfork.h"

#define TRIES     200
#define FEW_TRIES 20

/* Sleeps between two tries, for seconds in all. On a busy machine a thread gets its turn late; without the sleep it
 * would be stopped again before it has done anything. */
static void nap(unsigned tries) {
    ct_os_sleep_us(tries < 20 ? 500 : tries < 100 ? 5000 : 50000);
}

static struct stalk_thread *find_followed(struct ct_stalker *s, int tid) {
    for (struct stalk_thread *t = s->threads; t; t = t->next)
        if (t->tid == tid && t->following)
            return t;
    return NULL;
}

static int find_stopped(struct ct_os_stopped *stopped, int tid, size_t *index, struct ct_registers *regs) {
    for (size_t i = 0; i < ct_os_stopped_count(stopped); i++)
        if (ct_os_stopped_tid(stopped, i) == tid) {
            *index = i;
            return ct_os_stopped_get_regs(stopped, i, regs);
        }
    return CT_ERR_NOT_FOUND;
}

extern const uint8_t __start_ct_stalk_text[] __attribute__((visibility("hidden")));
extern const uint8_t __stop_ct_stalk_text[] __attribute__((visibility("hidden")));

/* Is the thread in our own code, where it may hold one of our locks? Also true if any thread is about to run a handler:
 * its frame may lead to translated code. */
static bool in_own_code(uint64_t pc) {
    return pc - (uint64_t)__start_ct_stalk_text < (uint64_t)(__stop_ct_stalk_text - __start_ct_stalk_text) ||
           __atomic_load_n(&ct_stalk_underway, __ATOMIC_ACQUIRE);
}

/* Is the thread on the engine's stack, or returning there from a handler that has put off a signal, or natively in one
 * of our functions? */
uint32_t ct_stalk_signals_taken;

static bool is_engaged(const struct stalk_thread *t) {
    return t->area &&
           (t->area->in_engine || t->area->pending || t->at_entry || __atomic_load_n(&t->area->busy, __ATOMIC_ACQUIRE));
}

bool ct_stalk_is_inside(const struct ct_stalker *s, int tid, uint64_t pc) {
    for (const struct stalk_thread *t = s->threads; t; t = t->next)
        if (t->tid == tid && is_engaged(t))
            return true;
    for (const struct stalk_cache *c = s->caches; c; c = c->next)
        for (const struct stalk_chunk *chunk = c->chunks; chunk; chunk = chunk->next)
            if (pc - chunk->run < chunk->size)
                return true;
    return ct_stalk_landing_of(pc) || ct_stalk_landing_region(pc);
}

static int redirect_to_begin(struct ct_stalker *s, struct ct_os_stopped *stopped, int tid,
                             const struct ct_stalker_transformer *transformer, const struct ct_stalker_sink *sink) {
    struct ct_registers regs;
    size_t index;
    int status = find_stopped(stopped, tid, &index, &regs);
    if (status)
        return status;
    if (find_followed(s, tid))
        return CT_ERR_BAD_STATE;
    uint64_t pc = ct_registers_pc(&regs);
    if (!pc || in_own_code(pc) || ct_stalk_is_inside(s, tid, pc) || __atomic_load_n(&s->lock, __ATOMIC_ACQUIRE) ||
        ct_stalk_signals_going_back())
        return CT_ERR_BUSY;
    uint64_t block;
    struct stalk_thread *t =
        ct_stalk_thread_make(s, tid, transformer, sink, ct_registers_block(&regs), &block, &status);
    if (!t)
        return status;
    t->begin = ct_stalk_section_interrupted(ct_registers_thread_base(&regs), pc);
    ct_registers_set_pc(&regs, ct_stalk_helper(t->cache->regions, ct_stalk_begin));
    ct_registers_set_block(&regs, block);
    status = ct_os_stopped_set_regs(stopped, index, &regs);
    if (status) {
        t->following = 0;
        __atomic_sub_fetch(&s->followed, 1, __ATOMIC_ACQ_REL);
    } else {
        ct_stalk_signals_take();
    }
    return status;
}

STALK_API int ct_stalker_follow(struct ct_stalker *s, int tid, const struct ct_stalker_transformer *transformer,
                                const struct ct_stalker_sink *sink) {
    struct ct_stalker_transformer own_transformer;
    struct ct_stalker_sink own_sink;
    if (!s || tid <= 0)
        return CT_ERR_INVALID_ARGUMENT;
    int status = ct_stalk_copy_in(transformer, sink, &own_transformer, &own_sink);
    if (status)
        return status;
    if (tid == ct_os_gettid())
        return ct_stalker_follow_me(s, transformer, sink);
    if (!ct_os_thread_alive(tid))
        return CT_ERR_NOT_FOUND;
    status = ct_stalk_make_cache(s, &own_transformer, &own_sink);
    if (status)
        return status;
    status = CT_ERR_BUSY;
    for (unsigned i = 0; i < TRIES && status == CT_ERR_BUSY; i++) {
        struct ct_os_stopped *stopped;
        status = ct_os_stop_threads(&stopped);
        if (status == CT_OK) {
            status = redirect_to_begin(s, stopped, tid, &own_transformer, &own_sink);
            ct_os_resume_threads(stopped);
        }
        if (status == CT_ERR_BUSY)
            nap(i);
    }
    return status;
}

static bool in_code(const struct stalk_cache *c, uint64_t pc) {
    for (const struct stalk_chunk *chunk = c->chunks; chunk; chunk = chunk->next)
        if (pc - chunk->run < chunk->used)
            return true;
    return ct_stalk_landing_of(pc) || ct_stalk_landing_region(pc);
}

/* The place where a thread is stopped decides how it is let go; *pc is changed where needed. CT_ERR_TRUNCATED: it runs
 * natively, and the caller does what is left to do. */
static int redirect_pc(struct stalk_thread *t, uint64_t *pc) {
    struct stalk_area *a = t->area;
    if (__atomic_load_n(&t->ending, __ATOMIC_ACQUIRE))
        return CT_OK; /* the thread that ends it will finish */
    t->following = 2;
    if (a->in_engine)
        return CT_OK;
    const struct stalk_region *region = ct_stalk_region_at(t, *pc);
    if (region && *pc >= ct_stalk_helper(region, ct_stalk_enter) && *pc < ct_stalk_helper(region, ct_stalk_restore))
        return CT_OK; /* on its way into the engine */
    if (region && *pc < ct_stalk_helper(region, ct_stalk_enter) && *pc >= ct_stalk_helper(region, ct_stalk_full))
        return CT_OK;
    if (in_code(t->cache, *pc) || ct_stalk_region_at(t, *pc)) {
        t->begin = *pc;
        ct_stalk_copy(&t->interrupted, a, sizeof *a); /* the code at pc may have saved values there */
        *pc = ct_stalk_helper(t->cache->regions, ct_stalk_end);
        return CT_OK;
    }
    if (in_own_code(*pc) || is_engaged(t))
        return CT_ERR_BUSY;
    /* It runs natively, in an excluded call whose return address is ours. */
    uint64_t address = 0, stub = 0;
    if (a->native && !ct_os_peek(a->native, &stub, sizeof stub) && (address = ct_stalk_return_of(t->cache, stub)))
        *(uint64_t *)a->native = address;
    return CT_ERR_TRUNCATED; /* to be finished by the caller */
}

static int redirect_to_end(struct stalk_thread *t, struct ct_os_stopped *stopped) {
    struct ct_registers regs;
    size_t index;
    if (!t->following)
        return CT_OK; /* it was asked before */
    int status = find_stopped(stopped, t->tid, &index, &regs);
    if (status == CT_ERR_NOT_FOUND) /* it has ended unnoticed */
        return __atomic_load_n(&t->ending, __ATOMIC_ACQUIRE) ? CT_OK : CT_ERR_TRUNCATED;
    uint64_t pc = status ? 0 : ct_registers_pc(&regs);
    status = status ? status : redirect_pc(t, &pc);
    if (status || pc == ct_registers_pc(&regs))
        return status;
    ct_registers_set_pc(&regs, pc);
    return ct_os_stopped_set_regs(stopped, index, &regs);
}

/* The thread is let go where it is stopped, or has ended: from now on it does nothing for us. */
static void release_thread(struct stalk_thread *t) {
    t->area->native = t->area->own = 0;
    (void)ct_stalk_claim_end(t);
}

/* We deliver the thread's events and end following for it. */
static void finish_native(struct stalk_thread *t) {
    ct_stalk_events_drain_native(t);
    ct_stalk_tell_stop(t);
    ct_stalk_unfollowed(t);
}

int ct_stalk_let_go(struct ct_stalker *s, int tid, uint64_t *pc) {
    struct stalk_thread *t = find_followed(s, tid);
    if (!t)
        return CT_ERR_NOT_FOUND;
    if (t->vfork.tid)
        ct_stalk_vfork_end(t); /* it is stopped, so its child has left its memory */
    int status = redirect_pc(t, pc);
    if (status != CT_ERR_TRUNCATED)
        return status;
    release_thread(t);
    finish_native(t);
    return CT_OK;
}

void ct_stalk_let_go_gone(struct ct_stalker *s, bool (*is_there)(void *arg, int tid), void *arg) {
    for (struct stalk_thread *t = s->threads; t; t = t->next)
        if (t->following && !is_there(arg, t->tid)) {
            release_thread(t);
            finish_native(t);
        }
}

/* Waits until the thread has left the engine for the last time, longer with each try. False: it may be in a loop. */
static bool has_ended(const struct stalk_thread *t, unsigned tries) {
    unsigned most = 200 + (tries < 20 ? tries : 20) * 50;
    for (unsigned i = 0; i < most; i++) {
        if (!__atomic_load_n(&t->following, __ATOMIC_ACQUIRE))
            return true;
        ct_os_sleep_us(i < 100 ? 20 : 200);
    }
    return false;
}

/* One try. CT_OK: the thread was asked, or is let go. */
static int ask_to_end(struct stalk_thread *t) {
    struct ct_os_stopped *stopped;
    int status = ct_os_stop_threads(&stopped);
    if (status)
        return status;
    status = redirect_to_end(t, stopped);
    if (status == CT_ERR_TRUNCATED)
        release_thread(t);
    ct_os_resume_threads(stopped);
    if (status != CT_ERR_TRUNCATED)
        return status;
    finish_native(t);
    return CT_OK;
}

STALK_API int ct_stalker_unfollow(struct ct_stalker *s, int tid) {
    if (!s || tid <= 0)
        return CT_ERR_INVALID_ARGUMENT;
    struct stalk_thread *t = find_followed(s, tid);
    if (!t)
        return CT_ERR_NOT_FOUND;
    if (tid == ct_os_gettid())
        return CT_ERR_BAD_STATE; /* use ct_stalker_unfollow_me, which knows where it returns to */
    int status = CT_ERR_BUSY;
    for (unsigned i = 0; i < TRIES; i++) {
        status = ask_to_end(t);
        if (status && status != CT_ERR_BUSY)
            return status;
        if (!status && has_ended(t, i))
            return CT_OK;
        if (status)
            nap(i);
    }
    return status ? status : CT_ERR_TIMEOUT;
}

/* Is another thread alive that was followed once? It may be anywhere. */
static bool has_others(const struct ct_stalker *s) {
    for (const struct stalk_thread *t = s->threads; t; t = t->next)
        if (t->tid != ct_os_gettid() && ct_os_thread_alive(t->tid))
            return true;
    return false;
}

static bool is_any_inside(const struct ct_stalker *s, struct ct_os_stopped *stopped) {
    struct ct_registers regs;
    for (size_t i = 0; i < ct_os_stopped_count(stopped); i++)
        if (!ct_os_stopped_get_regs(stopped, i, &regs) &&
            (ct_stalk_is_inside(s, ct_os_stopped_tid(stopped, i), ct_registers_pc(&regs)) ||
             in_own_code(ct_registers_pc(&regs))))
            return true;
    return __atomic_load_n(&s->followed, __ATOMIC_ACQUIRE) != 0; /* a thread is about to report its end */
}

static bool is_starting(struct ct_stalker *s, struct ct_os_stopped *stopped) {
    struct ct_registers regs;
    for (size_t i = 0; i < ct_os_stopped_count(stopped); i++)
        if (!ct_os_stopped_get_regs(stopped, i, &regs) && !find_followed(s, ct_os_stopped_tid(stopped, i)) &&
            ct_stalk_is_inside(s, 0, ct_registers_pc(&regs)))
            return true;
    return false;
}

bool ct_stalk_has_starting(struct ct_stalker *s) {
    if (!s->cloned || ct_os_single_threaded())
        return false;
    for (unsigned i = 0; i < FEW_TRIES; nap(i++)) {
        struct ct_os_stopped *stopped;
        if (ct_os_stop_threads(&stopped))
            continue;
        bool starting = is_starting(s, stopped);
        ct_os_resume_threads(stopped);
        if (!starting)
            return false;
    }
    return true;
}

/* Runs while the threads are stopped: afterwards no thread finds its state of ours. */
static bool forget_threads(const struct ct_stalker *s, struct ct_os_stopped *stopped) {
    if (is_any_inside(s, stopped))
        return false;
    for (struct stalk_thread *t = s->threads; t; t = t->next)
        ct_stalk_thread_forget(t);
    return true;
}

int ct_stalk_wait_until_left(struct ct_stalker *s) {
    for (unsigned i = 0; i < TRIES; nap(i++)) {
        struct ct_os_stopped *stopped;
        for (const struct stalk_thread *t = s->threads; t; t = t->next)
            if (__atomic_load_n(&t->following, __ATOMIC_ACQUIRE))
                return CT_ERR_BUSY;
        bool others = has_others(s);
        if (!others && (!s->cloned || ct_os_single_threaded()))
            return CT_OK;
        if (ct_os_stop_threads(&stopped)) {
            if (!others && i >= FEW_TRIES)
                return CT_OK; /* a debugger prevents the stop: new threads have had time */
            continue;
        }
        bool left = forget_threads(s, stopped);
        ct_os_resume_threads(stopped);
        if (left)
            return CT_OK;
    }
    return CT_ERR_BUSY;
}

/* Unfollows all other threads. True: one was followed. */
static bool unfollow_others(struct ct_stalker *s, int *result) {
    bool found = false;
    int own = ct_os_gettid();
    for (struct stalk_thread *t = s->threads; t; t = t->next) {
        if (!__atomic_load_n(&t->following, __ATOMIC_ACQUIRE) || t->tid == own)
            continue;
        int status = ct_stalker_unfollow(s, t->tid);
        if (status && status != CT_ERR_NOT_FOUND)
            *result = status;
        found = true;
    }
    return found;
}

/* New threads may have appeared meanwhile; those that look for their creator later find it unfollowed. */
STALK_API int ct_stalker_stop(struct ct_stalker *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    int result = CT_OK;
    for (unsigned i = 0; i < TRIES && !result; i++) {
        bool adopting = __atomic_load_n(&s->adopting, __ATOMIC_SEQ_CST) != 0;
        if (!unfollow_others(s, &result) && !adopting)
            break;
        if (adopting)
            nap(i);
    }
    return result;
}
