/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that are or were followed.
 *
 * A thread's state is found through its GS block, which is the hooks' or one made here with the same layout
 * (hook/layout.h). A new thread inherits its creator's GS: the tid shows whose state it is. State and block stay until
 * the Stalker is destroyed: return addresses of excluded calls may still lead here. Owner: the Stalker's lock; the
 * thread itself also changes `following`. */
#include "stalk/thread.h"
#include "base/sized.h"
#include "hook/layout.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/link.h"
#include "stalk/memory.h"
#include "stalk/signals.h"
#include "stalk/stalker.h"
#include "stalk/translate.h"

#define BLOCK_SIZE 0x2000

_Static_assert(CT_AREA == CT_BLOCK_GUEST && CT_AREA + CT_AREA_SIZE <= CT_BLOCK_GUEST_END &&
                   CT_BLOCK_GUEST_END <= BLOCK_SIZE && CT_AREA_THREAD == CT_BLOCK_GUEST_OWNER &&
                   CT_AREA_TID == CT_BLOCK_GUEST_TID,
               "the area is the room that the hooks leave");

/* Is there a block of Contrail's at this address? */
static bool is_block(uint64_t block) {
    uint64_t self = 0;
    return block && !ct_os_peek(block + CT_BLOCK_SELF, &self, sizeof self) && self == block;
}

struct stalk_thread *ct_stalk_thread_of_block(uint64_t block) {
    if (!is_block(block))
        return NULL;
    struct stalk_thread *t = ((struct stalk_area *)(block + CT_AREA))->thread;
    if (!t)
        return NULL;
    int tid = ct_os_gettid();
    return t->tid == tid || t->vfork.tid == tid ? t : NULL;
}

struct stalk_thread *ct_stalk_thread_current(void) {
    return ct_stalk_thread_of_block(ct_os_get_block());
}

struct stalk_thread *ct_stalk_thread_enter(void) {
    uint64_t block = ct_os_get_block();
    struct stalk_area *a = (struct stalk_area *)(block + CT_AREA);
    if (!is_block(block) || a->tid != (uint32_t)ct_os_gettid())
        return NULL;
    __atomic_add_fetch(&a->busy, 1, __ATOMIC_SEQ_CST); /* before the state is read, which then stays */
    struct stalk_thread *t = __atomic_load_n(&a->thread, __ATOMIC_SEQ_CST);
    if (t && t->tid == (int32_t)a->tid)
        return t;
    ct_stalk_area_leave(a);
    return NULL;
}

void ct_stalk_area_leave(struct stalk_area *a) {
    __atomic_sub_fetch(&a->busy, 1, __ATOMIC_RELEASE);
}

/* Blocks of destroyed Stalkers. The GS of their threads, and of threads that these have started, may still lead to
 * them. They stay mapped, and are reused when the thread for which they were made has ended. */
static struct stalk_area *spare_blocks;

/* The list is linked through the first words of the blocks, which are free in those that we make. The area may be in
 * use again. */
static struct stalk_area **next_spare(struct stalk_area *a) {
    return (struct stalk_area **)((uint64_t)a - CT_AREA);
}

static uint32_t spare_lock;

/* The holder may have been stopped by us: then we do without the list. Released by unlock_spare. */
static bool lock_spare(void) {
    for (unsigned i = 0; i < 1000; i++, ct_os_relax())
        if (!__atomic_exchange_n(&spare_lock, 1, __ATOMIC_ACQUIRE))
            return true;
    return false;
}

static void unlock_spare(void) {
    __atomic_store_n(&spare_lock, 0, __ATOMIC_RELEASE);
}

static uint64_t take_spare(void) {
    if (!lock_spare())
        return 0;
    struct stalk_area **link = &spare_blocks, *a;
    while (*link && ct_os_thread_alive((int)(*link)->tid))
        link = next_spare(*link);
    if ((a = *link))
        *link = *next_spare(a);
    unlock_spare();
    return a ? (uint64_t)a - CT_AREA : 0;
}

static void keep_spare(uint64_t block, int tid) {
    struct stalk_area *a = (struct stalk_area *)(block + CT_AREA);
    a->tid = (uint32_t)tid;
    if (!lock_spare())
        return;
    *next_spare(a) = spare_blocks;
    spare_blocks = a;
    unlock_spare();
}

void ct_stalk_threads_end(void) {
    for (struct stalk_area *a = spare_blocks, *next; a; a = next) {
        next = *next_spare(a);
        (void)ct_os_free((void *)((uint64_t)a - CT_AREA), BLOCK_SIZE);
    }
    spare_blocks = NULL;
}

void ct_stalk_thread_forget(struct stalk_thread *t) {
    if (!t->area || t->area->thread != t)
        return;
    t->area->thread = NULL;
    t->area->counters = NULL;
}

void ct_stalk_thread_free(struct stalk_thread *t) {
    ct_stalk_thread_forget(t);
    if (t->stalker)
        ct_stalk_events_free(t);
    if (t->own_block)
        keep_spare((uint64_t)t->own_block, t->tid);
    (void)ct_os_free((void *)t->stack, STALK_STACK);
}

static uint64_t make_block(void) {
    uint64_t spare = take_spare();
    if (spare)
        return spare;
    uint8_t *block = ct_os_alloc(BLOCK_SIZE, CT_OS_READ | CT_OS_WRITE);
    if (block)
        *(uint64_t *)(block + CT_BLOCK_SELF) = (uint64_t)block;
    return (uint64_t)block;
}

static struct stalk_thread *find_thread(struct ct_stalker *s, int tid) {
    for (struct stalk_thread *t = s->threads; t; t = t->next)
        if (t->tid == tid)
            return t;
    return NULL;
}

/* The state of an ended thread may be reused. */
static struct stalk_thread *find_ended(struct ct_stalker *s) {
    for (struct stalk_thread *t = s->threads; t; t = t->next)
        if (!t->following && t->own_block && !ct_os_thread_alive(t->tid))
            return t;
    return NULL;
}

static struct stalk_thread *make_thread(struct ct_stalker *s, int tid) {
    struct stalk_thread *t = find_thread(s, tid);
    if (t)
        return t;
    t = find_ended(s);
    if (!t) {
        t = ct_stalk_alloc(&s->pool, sizeof *t);
        uint8_t *stack = ct_os_alloc(STALK_STACK, CT_OS_READ | CT_OS_WRITE);
        if (!t || !stack)
            return NULL;
        t->stack = (uint64_t)stack;
        t->next = s->threads;
        s->threads = t;
    }
    t->tid = tid;
    return t;
}

/* Did the thread with this tid inherit the block? A block that we made and that no thread uses now stays with its first
 * owner, which may use it again and may have started several threads. The hooks handle this for their own blocks. */
static bool is_of_another(uint64_t block, int tid) {
    const struct stalk_area *a = (const struct stalk_area *)(block + CT_AREA);
    if (a->thread)
        return a->thread->tid != tid;
    bool ours = *(const uint64_t *)(block + CT_BLOCK_OWNER) == 0;
    return ours && a->tid != (uint32_t)tid;
}

/* Finds a block for the thread whose GS is `present`: a block, something else, or 0. */
static int find_block(struct stalk_thread *t, uint64_t present, uint64_t *block) {
    if (present && !is_block(present))
        return CT_ERR_UNSUPPORTED; /* the program uses GS for itself */
    *block = present && !is_of_another(present, t->tid) ? present : 0;
    if (*block)
        return CT_OK;
    if (!t->own_block)
        t->own_block = (void *)make_block();
    *block = (uint64_t)t->own_block;
    return *block ? CT_OK : CT_ERR_NO_MEMORY;
}

int ct_stalk_copy_in(const struct ct_stalker_transformer *transformer, const struct ct_stalker_sink *sink,
                     struct ct_stalker_transformer *own_transformer, struct ct_stalker_sink *own_sink) {
    int status = ct_sized_copy_in(own_transformer, sizeof *own_transformer, transformer);
    if (!status)
        status = ct_sized_copy_in(own_sink, sizeof *own_sink, sink);
    if (!status && own_sink->mask & ~(uint32_t)CT_STALKER_MASK)
        status = CT_ERR_INVALID_ARGUMENT;
    return status;
}

/* The mask decides what code is generated. */
static struct stalk_cache *cache_for(struct ct_stalker *s, const struct ct_stalker_transformer *transformer,
                                     const struct ct_stalker_sink *sink) {
    bool count = sink->on_call_summary && !sink->on_receive;
    uint32_t mask = sink->mask;
    if (sink->on_call_summary)
        mask |= CT_STALKER_CALL;
    if (count)
        mask &= CT_STALKER_CALL;
    if (mask & CT_STALKER_TIMESTAMPS || !(mask & (CT_STALKER_CALL | CT_STALKER_RET)))
        mask &= ~(uint32_t)CT_STALKER_FAST_CLOCK;
    return ct_stalk_cache_for(s, mask, count, transformer);
}

int ct_stalk_make_cache(struct ct_stalker *s, const struct ct_stalker_transformer *transformer,
                        const struct ct_stalker_sink *sink) {
    ct_stalk_lock(s);
    struct stalk_cache *c = cache_for(s, transformer, sink);
    ct_stalk_unlock(s);
    return c ? CT_OK : CT_ERR_NO_MEMORY;
}

static int prepare_thread(struct stalk_thread *t, uint64_t block, const struct ct_stalker_transformer *transformer,
                          const struct ct_stalker_sink *sink) {
    struct ct_stalker *s = t->stalker;
    ct_stalk_copy(&t->sink, sink, sizeof t->sink);
    t->cache = cache_for(s, transformer, &t->sink);
    t->left = NULL;
    if (!t->cache)
        return CT_ERR_NO_MEMORY;
    t->sink.mask = t->cache->mask;
    struct stalk_area *a = (struct stalk_area *)(block + CT_AREA);
    t->area = a;
    a->stack = t->stack + STALK_STACK - 64;
    a->fn_engine = (uint64_t)&ct_stalk_engine;
    a->in_engine = a->alternate = 0;
    a->pending = a->native = a->own = 0;
    a->counters = NULL;
    t->in_callback = 0;
    t->at_entry = false;
    t->fault_pc = t->through = 0;
    t->muted = 0;
    t->activation = 0;
    t->status = 0;
    int status = ct_stalk_events_open(t);
    a->tid = (uint32_t)t->tid;
    if (!status)
        a->thread = t;
    return status;
}

struct stalk_thread *ct_stalk_thread_make(struct ct_stalker *s, int tid,
                                          const struct ct_stalker_transformer *transformer,
                                          const struct ct_stalker_sink *sink, uint64_t present, uint64_t *block,
                                          int *status) {
    ct_stalk_lock(s);
    struct stalk_thread *t = make_thread(s, tid);
    *status = t ? CT_OK : CT_ERR_NO_MEMORY;
    if (t && t->following)
        *status = CT_ERR_BAD_STATE;
    if (!*status) {
        t->stalker = s;
        *status = find_block(t, present, block);
    }
    const struct stalk_area *a = *status ? NULL : (const struct stalk_area *)(*block + CT_AREA);
    if (a && a->thread && a->thread != t && a->thread->tid == tid && a->thread->following)
        *status = CT_ERR_BAD_STATE; /* another Stalker follows it */
    else if (a && tid != ct_os_gettid() && a->tid == (uint32_t)tid && a->busy)
        *status = CT_ERR_BUSY; /* it is in a function of ours */
    /* Code may have changed while no thread was followed. */
    if (!*status && !s->followed)
        ct_stalk_check_all(s, tid == ct_os_gettid() && !ct_os_single_threaded());
    if (!*status)
        *status = prepare_thread(t, *block, transformer, sink);
    if (!*status) {
        t->area->busy = tid == ct_os_gettid(); /* until it begins */
        t->ending = 0;
        t->following = 1;
        __atomic_add_fetch(&s->followed, 1, __ATOMIC_ACQ_REL);
    }
    ct_stalk_unlock(s);
    return *status ? NULL : t;
}

/* ---- the calling thread ---- */

struct begin {
    int64_t status;
    uint64_t begin; /* 0: not followed */
};
struct begin ct_stalk_do_follow_me(struct ct_stalker *s, const struct ct_stalker_transformer *transformer,
                                   const struct ct_stalker_sink *sink, uint64_t *slot);
int ct_stalk_do_unfollow_me(struct ct_stalker *s, uint64_t *slot);

static void report_start(void *arg, void *vectors) {
    struct stalk_thread *t = arg;
    (void)vectors;
    t->sink.start(t->sink.user, t->tid);
}

static void do_not_begin(struct stalk_thread *t) {
    t->area->busy = 0;
    t->following = 0;
    __atomic_sub_fetch(&t->stalker->followed, 1, __ATOMIC_ACQ_REL);
}

struct begin ct_stalk_do_follow_me(struct ct_stalker *s, const struct ct_stalker_transformer *transformer,
                                   const struct ct_stalker_sink *sink, uint64_t *slot) {
    struct ct_stalker_transformer own_transformer;
    struct ct_stalker_sink own_sink;
    int status = s ? ct_stalk_copy_in(transformer, sink, &own_transformer, &own_sink) : CT_ERR_INVALID_ARGUMENT;
    struct begin result = {status, 0};
    if (status)
        return result;
    uint64_t base = ct_os_get_block(), block;
    struct stalk_thread *lost = ct_stalk_thread_enter();
    if (lost && lost->stalker == s && lost->following == 1 && !lost->in_callback &&
        !ct_stalk_return_of(lost->cache, *slot)) {
        /* It jumped out of an excluded call: it is followed again from here. */
        lost->begin = *slot;
        return (struct begin){CT_OK, ct_stalk_helper(lost->cache->regions, ct_stalk_begin)};
    }
    if (lost)
        ct_stalk_area_leave(lost->area);
    uint64_t signals = ct_os_block_signals();
    struct stalk_thread *t =
        ct_stalk_thread_make(s, ct_os_gettid(), &own_transformer, &own_sink, base, &block, &status);
    if (t && block != base)
        status = ct_os_set_block((void *)block);
    if (t && status) {
        do_not_begin(t);
        t = NULL;
    }
    if (t) {
        ct_stalk_signals_take();
        t->begin = *slot;
        result.begin = ct_stalk_helper(t->cache->regions, ct_stalk_begin);
    }
    ct_os_restore_signals(signals);
    if (t && t->sink.start)
        ct_stalk_call_out(t, report_start, t);
    result.status = status;
    return result;
}

static uint64_t adopt_thread(const struct stalk_thread *parent, uint64_t base, uint64_t next) {
    uint64_t block;
    int status;
    if (__atomic_load_n(&parent->following, __ATOMIC_SEQ_CST) != 1)
        return next; /* the creator was let go meanwhile */
    struct stalk_thread *t = ct_stalk_thread_make(parent->stalker, ct_os_gettid(), &parent->cache->transformer,
                                                  &parent->sink, base, &block, &status);
    if (!t)
        return next;
    if (ct_os_set_block((void *)block)) {
        do_not_begin(t);
        return next;
    }
    ct_stalk_signals_take();
    t->begin = next;
    if (t->sink.start)
        ct_stalk_call_out(t, report_start, t);
    return ct_stalk_helper(t->cache->regions, ct_stalk_begin);
}

/* Called by a thread that a followed thread has started, at its first instruction, while GS is still its creator's.
 * Returns where it continues. */
uint64_t ct_stalk_adopt(uint64_t next);

uint64_t ct_stalk_adopt(uint64_t next) {
    uint64_t base = ct_os_get_block();
    struct stalk_thread *parent = ((struct stalk_area *)(base + CT_AREA))->thread;
    if (!parent)
        return next;
    struct ct_stalker *s = parent->stalker;
    __atomic_add_fetch(&s->adopting, 1, __ATOMIC_SEQ_CST); /* before the creator's state is read */
    next = adopt_thread(parent, base, next);
    __atomic_sub_fetch(&s->adopting, 1, __ATOMIC_SEQ_CST);
    return next;
}

static int unfollow_calling(struct stalk_thread *t, uint64_t *slot) {
    if (!t->following || __atomic_load_n(&t->ending, __ATOMIC_ACQUIRE))
        return CT_ERR_BAD_STATE;
    if (t->in_callback) {
        t->following = 2; /* the engine does the rest */
        return CT_OK;
    }
    uint64_t address = ct_stalk_return_of(t->cache, *slot);
    if (address) /* else the thread left translated code by a jump out of an excluded call */
        *slot = address;
    ct_stalk_finish(t, CT_OK);
    return CT_OK;
}

/* Runs natively, as an excluded call: the return address is ours, and is replaced by the program's. */
int ct_stalk_do_unfollow_me(struct ct_stalker *s, uint64_t *slot) {
    struct stalk_thread *t = ct_stalk_thread_enter();
    if (!t)
        return CT_ERR_BAD_STATE;
    struct stalk_area *a = t->area;
    int status = t->stalker == s ? unfollow_calling(t, slot) : CT_ERR_BAD_STATE;
    ct_stalk_area_leave(a); /* its state may be freed from here on */
    return status;
}
