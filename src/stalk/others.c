/* Other threads of this process: followed and unfollowed wherever they stand.
 *
 * All threads are stopped for a moment (os.h). One that is to be followed goes on in ct_stalk_begin, one that is not to be
 * any more in ct_stalk_end: with all its registers, so that the engine does the rest on the thread itself. A thread that is in the
 * engine, or about to run a handler, is only asked. Owner: the caller; the Stalker's lock is not held while threads are stopped. */
#include "os/os.h"
#include "os/thread.h"
#include "stalk/internal.h"

#define TRIES 200

/* Between two tries, for seconds in all. A thread that gets its turn late, on a busy machine, would otherwise be stopped again before it has
 * done anything. */
static void nap(unsigned tries) {
    ct_os_sleep_us(tries < 20 ? 500 : tries < 100 ? 5000 : 50000);
}

static struct stalk_thread *find_followed(struct ct_stalker *s, int tid) {
    for (struct stalk_thread *t = s->threads; t; t = t->next)
        if (t->tid == tid && t->following)
            return t;
    return NULL;
}

static int find_stopped(struct ct_os_stopped *stopped, int tid, size_t *index, struct ct_os_regs *regs) {
    for (size_t i = 0; i < ct_os_stopped_count(stopped); i++)
        if (ct_os_stopped_tid(stopped, i) == tid) {
            *index = i;
            return ct_os_stopped_get_regs(stopped, i, regs);
        }
    return CT_ERR_NOT_FOUND;
}

extern const uint8_t __start_ct_stalk_text[] __attribute__((visibility("hidden")));
extern const uint8_t __stop_ct_stalk_text[] __attribute__((visibility("hidden")));

/* It may hold one of our locks; or it, or another thread, is about to run a handler, and its frame may lead to translated code. */
static bool in_own_code(uint64_t pc) {
    return pc - (uint64_t)__start_ct_stalk_text < (uint64_t)(__stop_ct_stalk_text - __start_ct_stalk_text) ||
           __atomic_load_n(&ct_stalk_in_signal, __ATOMIC_ACQUIRE);
}

/* On the engine's stack, or coming back there from a handler that has put a signal off. */
static bool is_engaged(const struct stalk_thread *t) {
    return t->area && (t->area->in_engine || t->area->pending || t->at_entry);
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
    struct ct_os_regs regs;
    size_t index;
    int status = find_stopped(stopped, tid, &index, &regs);
    if (status)
        return status;
    if (find_followed(s, tid))
        return CT_ERR_BAD_STATE;
    if (!regs.pc || in_own_code(regs.pc) || ct_stalk_is_inside(s, tid, regs.pc) ||
        __atomic_load_n(&s->lock, __ATOMIC_ACQUIRE))
        return CT_ERR_BUSY;
    uint64_t block;
    struct stalk_thread *t = ct_stalk_thread_make(s, tid, transformer, sink, regs.gs_base, &block, &status);
    if (!t)
        return status;
    t->begin = ct_stalk_section_interrupted(regs.fs_base, regs.pc);
    regs.pc = ct_stalk_helper(t->cache->regions, ct_stalk_begin);
    regs.gs_base = block;
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
    if (!s || tid <= 0 || (sink && sink->mask & ~(uint32_t)CT_STALKER_MASK))
        return CT_ERR_INVALID_ARGUMENT;
    if (tid == ct_os_gettid())
        return ct_stalker_follow_me(s, transformer, sink);
    if (!ct_os_thread_alive(tid))
        return CT_ERR_NOT_FOUND;
    int status = ct_stalk_make_cache(s, transformer, sink);
    if (status)
        return status;
    status = CT_ERR_BUSY;
    for (unsigned i = 0; i < TRIES && status == CT_ERR_BUSY; i++) {
        struct ct_os_stopped *stopped;
        status = ct_os_stop_threads(&stopped);
        if (status == CT_OK) {
            status = redirect_to_begin(s, stopped, tid, transformer, sink);
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

/* Where a stopped thread stands decides how it is let go: *pc is changed where needed. CT_ERR_TRUNCATED: it runs natively, and
 * the caller finishes what is left to do. */
static int redirect(struct stalk_thread *t, uint64_t *pc) {
    t->following = 2;
    struct stalk_area *a = t->area;
    if (a->in_engine)
        return CT_OK;
    const struct stalk_region *region = ct_stalk_region_at(t, *pc);
    if (region && *pc >= ct_stalk_helper(region, ct_stalk_enter) && *pc < ct_stalk_helper(region, ct_stalk_restore))
        return CT_OK; /* on its way into the engine */
    if (region && *pc < ct_stalk_helper(region, ct_stalk_enter) && *pc >= ct_stalk_helper(region, ct_stalk_full))
        return CT_OK;
    if (in_code(t->cache, *pc) || ct_stalk_region_at(t, *pc)) {
        t->begin = *pc;
        ct_stalk_copy(&t->interrupted, a, sizeof *a); /* the code that it stands in may have put things there */
        *pc = ct_stalk_helper(t->cache->regions, ct_stalk_end);
        return CT_OK;
    }
    if (in_own_code(*pc) || is_engaged(t))
        return CT_ERR_BUSY;
    /* Native: in an excluded call, whose return address is ours. */
    uint64_t address = 0, stub = 0;
    if (a->native && !ct_os_peek(a->native, &stub, sizeof stub) && (address = ct_stalk_return_of(t->cache, stub)))
        *(uint64_t *)a->native = address;
    return CT_ERR_TRUNCATED; /* to be finished by the caller */
}

static int redirect_to_end(struct stalk_thread *t, struct ct_os_stopped *stopped) {
    struct ct_os_regs regs;
    size_t index;
    if (!t->following)
        return CT_OK; /* it was asked before */
    int status = find_stopped(stopped, t->tid, &index, &regs);
    if (status == CT_ERR_NOT_FOUND) { /* gone; it may have said so itself */
        ct_stalk_unfollowed(t);
        return CT_OK;
    }
    uint64_t pc = regs.pc;
    status = status ? status : redirect(t, &regs.pc);
    return !status && regs.pc != pc ? ct_os_stopped_set_regs(stopped, index, &regs) : status;
}

/* It is let go where it stands, still: from now on it does nothing for us. */
static void release(struct stalk_thread *t) {
    t->area->native = t->area->own = 0;
    __atomic_store_n(&t->ending, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&t->following, 0, __ATOMIC_RELEASE);
}

/* Its events are ours to deliver. */
static void finish_native(struct stalk_thread *t) {
    ct_stalk_events_drain_native(t);
    ct_stalk_tell_stop(t);
    ct_stalk_signals_give_back();
    __atomic_sub_fetch(&t->stalker->followed, 1, __ATOMIC_ACQ_REL);
}

int ct_stalk_let_go(struct ct_stalker *s, int tid, uint64_t *pc) {
    struct stalk_thread *t = find_followed(s, tid);
    if (!t)
        return CT_ERR_NOT_FOUND;
    if (t->apart.tid)
        ct_stalk_apart_end(t); /* while its child is there it cannot stand still */
    int status = redirect(t, pc);
    if (status != CT_ERR_TRUNCATED)
        return status;
    release(t);
    finish_native(t);
    return CT_OK;
}

void ct_stalk_let_go_gone(struct ct_stalker *s, bool (*is_there)(void *arg, int tid), void *arg) {
    for (struct stalk_thread *t = s->threads; t; t = t->next)
        if (t->following && !is_there(arg, t->tid)) {
            release(t);
            finish_native(t);
        }
}

/* Waits until the thread has left the engine for the last time. */
static int wait_for_end(struct stalk_thread *t) {
    for (unsigned i = 0; i < 20000; i++) {
        if (!__atomic_load_n(&t->following, __ATOMIC_ACQUIRE))
            return CT_OK;
        if (!ct_os_thread_alive(t->tid)) {
            ct_stalk_unfollowed(t);
            return CT_OK;
        }
        ct_os_sleep_us(i < 100 ? 20 : i < 5000 ? 200 : 2000);
    }
    return CT_ERR_TIMEOUT;
}

STALK_API int ct_stalker_unfollow(struct ct_stalker *s, int tid) {
    if (!s || tid <= 0)
        return CT_ERR_INVALID_ARGUMENT;
    struct stalk_thread *t = find_followed(s, tid);
    if (!t)
        return CT_ERR_NOT_FOUND;
    if (tid == ct_os_gettid())
        return CT_ERR_BAD_STATE; /* ct_stalker_unfollow_me, which knows where it returns to */
    int status = CT_ERR_BUSY;
    for (unsigned i = 0; i < TRIES && status == CT_ERR_BUSY; i++) {
        struct ct_os_stopped *stopped;
        status = ct_os_stop_threads(&stopped);
        if (status == CT_OK) {
            status = redirect_to_end(t, stopped);
            if (status == CT_ERR_TRUNCATED) {
                release(t);
                ct_os_resume_threads(stopped);
                finish_native(t);
                return CT_OK;
            }
            ct_os_resume_threads(stopped);
        }
        if (status == CT_ERR_BUSY)
            nap(i);
    }
    return status ? status : wait_for_end(t);
}

/* Another thread that was followed once, and may stand anywhere. */
static bool has_others(const struct ct_stalker *s) {
    for (const struct stalk_thread *t = s->threads; t; t = t->next)
        if (t->tid != ct_os_gettid() && ct_os_thread_alive(t->tid))
            return true;
    return false;
}

static bool is_anybody_inside(const struct ct_stalker *s, struct ct_os_stopped *stopped) {
    struct ct_os_regs regs;
    for (size_t i = 0; i < ct_os_stopped_count(stopped); i++)
        if (!ct_os_stopped_get_regs(stopped, i, &regs) &&
            (ct_stalk_is_inside(s, ct_os_stopped_tid(stopped, i), regs.pc) || in_own_code(regs.pc)))
            return true;
    return __atomic_load_n(&s->followed, __ATOMIC_ACQUIRE) != 0; /* somebody is about to say that it is over */
}

int ct_stalk_wait_until_left(struct ct_stalker *s) {
    for (unsigned i = 0; i < TRIES; nap(i++)) {
        struct ct_os_stopped *stopped;
        for (const struct stalk_thread *t = s->threads; t; t = t->next)
            if (__atomic_load_n(&t->following, __ATOMIC_ACQUIRE))
                return CT_ERR_BUSY;
        if (!has_others(s))
            return CT_OK;
        if (ct_os_stop_threads(&stopped))
            continue;
        bool inside = is_anybody_inside(s, stopped);
        ct_os_resume_threads(stopped);
        if (!inside)
            return CT_OK;
    }
    return CT_ERR_BUSY;
}

STALK_API int ct_stalker_stop(struct ct_stalker *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    int result = CT_OK, own = ct_os_gettid();
    for (struct stalk_thread *t = s->threads; t; t = t->next) {
        if (!t->following || t->tid == own)
            continue;
        int status = ct_stalker_unfollow(s, t->tid);
        if (status && status != CT_ERR_NOT_FOUND)
            result = status;
    }
    return result;
}
