/* SPDX-License-Identifier: Apache-2.0 */
/* Thread blocks: made on a thread's first hooked call, found through GS or the word beside the thread pointer
 * (block_self.c), or a table (agent/table.c), reused after the thread has ended.
 *
 * A thread may find another thread's block: a new thread inherits its creator's GS, the word may be an ended thread's,
 * and a table has one entry for several threads. So every call compares the block's owner with the thread pointer;
 * ct_block_current handles every case in which they differ. Blocks are never freed and never leave the list. */
#include "hook/exposed.h"
#include "os/os.h"
#include "os/thread.h"

#define SLOW_STACK  (128u << 10)
#define FIRST_SWEEP 64u
#define SPINS       2000u
#define NAP_US      50u

void ct_runtime_pause(uint32_t *tries) {
    if (++*tries < SPINS || ct_os_is_silent())
        ct_os_relax();
    else
        ct_os_sleep_us(NAP_US);
}

void ct_runtime_lock(struct ct_runtime *rt) {
    uint32_t tries = 0;
    while (__atomic_exchange_n(&rt->lock, 1, __ATOMIC_ACQUIRE)) /* released by ct_runtime_unlock */
        ct_runtime_pause(&tries);
}

void ct_runtime_unlock(struct ct_runtime *rt) {
    __atomic_store_n(&rt->lock, 0, __ATOMIC_RELEASE);
}

/* No program's mask has this value: some signals cannot be blocked. */
#define MASKED_BEFORE (~0ull)

uint64_t ct_block_mask(struct ct_block *b) {
    if (b->masked)
        return MASKED_BEFORE;
    uint64_t mask = ct_os_block_signals();
    b->masked = !ct_os_is_silent(); /* else a handler may come and jump away */
    return mask;
}

void ct_block_unmask(struct ct_block *b, uint64_t mask) {
    if (mask == MASKED_BEFORE)
        return;
    b->masked = 0;
    ct_os_restore_signals(mask);
}

static void refresh_owner(struct ct_block *b) {
    bool walks = b->attention && !(b->attention & ~(uint32_t)(CT_ATTENTION_UNWIND | CT_ATTENTION_WALK));
    __atomic_store_n(&b->walker, walks && !b->detached ? b->thread_pointer : 0, __ATOMIC_RELEASE);
    __atomic_store_n(&b->owner, b->attention || b->detached ? CT_OWNER_ATTENTION : b->thread_pointer, __ATOMIC_RELEASE);
}

void ct_block_attend(struct ct_block *b, uint32_t bit) {
    __atomic_fetch_or(&b->attention, bit, __ATOMIC_RELAXED);
    refresh_owner(b);
}

void ct_block_unattend(struct ct_block *b, uint32_t bit) {
    __atomic_fetch_and(&b->attention, ~bit, __ATOMIC_RELAXED);
    refresh_owner(b);
}

static void fill_constants(struct ct_block *b, struct ct_runtime *rt) {
    b->self = b;
    b->runtime = rt;
    b->fn_enter = (uint64_t)&ct_hook_enter_slow;
    b->fn_entry = (uint64_t)&ct_hook_entry_slow;
    b->fn_leave = (uint64_t)&ct_hook_leave_slow;
    b->fn_event = (uint64_t)&ct_hook_event_slow;
    b->fn_special = (uint64_t)&ct_hook_special;
    b->fn_sample = (uint64_t)&ct_hook_sample_slow;
    b->fn_on_call = (uint64_t)&ct_hook_on_call;
    b->fn_on_return = (uint64_t)&ct_hook_on_return;
    b->vectors = rt->vectors;
    b->event_bit = rt->buffer_bytes;
    b->counters = &b->own_counters;
    b->errno_at = &b->no_errno;
    b->fn_cover = (uint64_t)&ct_hook_cover_slow;
    b->no_tick = UINT64_MAX;
    b->tick_at = &b->no_tick;
}

void ct_block_limit_depth(struct ct_block *b, size_t max_depth) {
    size_t room = ((uint64_t)b->stacks - (uint64_t)b->base) / sizeof(struct ct_shadow) - 2;
    b->limit = b->base + 1 + (max_depth < room ? max_depth : room);
}

static size_t round_to_pages(size_t size) {
    return (size + ct_os_page_size() - 1) & ~(ct_os_page_size() - 1);
}

/* Block pages, slow stack, shadow stack and the table of stacks are one mapping. Most of it is address space until it
 * is used. */
struct ct_block *ct_block_map(struct ct_runtime *rt) {
    size_t header = round_to_pages(sizeof(struct ct_block));
    size_t shadow = round_to_pages((rt->max_depth + 2) * sizeof(struct ct_shadow));
    size_t stacks = round_to_pages(ct_stacks_bytes(shadow / sizeof(struct ct_shadow)));
    size_t exposed = round_to_pages(ct_exposed_bytes(shadow / sizeof(struct ct_shadow)));
    size_t size = header + SLOW_STACK + shadow + stacks + exposed;
    struct ct_block *b = ct_os_alloc(size, CT_OS_READ | CT_OS_WRITE);
    if (!b)
        return NULL;
    if (ct_os_wipe_on_fork(b, CT_BLOCK_KEPT)) {
        ct_os_free(b, size);
        return NULL;
    }
    fill_constants(b, rt);
    b->size = size;
    b->slow_stack = (uint64_t)b + header + SLOW_STACK;
    b->base = (struct ct_shadow *)b->slow_stack;
    b->base[0].slot = ~0ull; /* sentinel: below every stack */
    ct_stacks_place(b, (void *)(b->slow_stack + shadow), shadow / sizeof(struct ct_shadow));
    ct_exposed_place(b, (void *)(b->slow_stack + shadow + stacks), shadow / sizeof(struct ct_shadow));
    ct_block_limit_depth(b, rt->max_depth);
    return b;
}

struct ct_block *ct_block_make_stray(struct ct_runtime *rt) {
    ct_os_learn_jumps();
    struct ct_block *b = ct_block_map(rt);
    if (!b)
        return NULL;
    b->in_use = CT_BLOCK_STRAY;
    b->top = b->base + 1;
    b->thread_pointer = b->owner = CT_OWNER_ATTENTION;
    ct_block_publish(rt, b);
    return b;
}

/* From now on nobody finds the block by its thread pointer. */
static void forget_pointer(struct ct_block *b) {
    if (b->thread_pointer != CT_OWNER_ATTENTION)
        b->former_pointer = b->thread_pointer;
    b->thread_pointer = CT_OWNER_ATTENTION;
    refresh_owner(b);
}

static void retire_block(struct ct_runtime *rt, struct ct_block *b) {
    rt->retired.guarded_calls += b->counters->guarded_calls;
    rt->retired.deep_calls += b->counters->deep_calls;
    rt->retired.left_frames += b->counters->left_frames;
    rt->retired.abandoned += b->counters->abandoned;
    b->own_counters = (struct ct_counters){0};
    b->counters = &b->own_counters;
    /* Coroutines that the ended thread had suspended may go on elsewhere. */
    while (b->top > b->base + 1) {
        struct ct_shadow *e = b->top - 1;
        if (e->slot > CT_SLOT_LAST)
            ct_shadow_park(rt, e);
        e->slot = 0;
        b->top--;
    }
    forget_pointer(b);
    b->in_use = 0;
}

/* Other threads keep away from the block of an ended thread from now on. */
static bool claim_ended(struct ct_block *b, int tid) {
    uint32_t used = 1;
    if (!__atomic_compare_exchange_n(&b->in_use, &used, 2, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return false;
    if (b->tid == tid)
        return true;
    /* another thread was faster, and the block belongs to a new thread already */
    __atomic_store_n(&b->in_use, 1, __ATOMIC_RELEASE);
    return false;
}

/* Takes back the block of an ended thread. Events and left frames are reported without the lock: sinks and listeners
 * are foreign code. */
static void retire_ended(struct ct_runtime *rt, struct ct_block *b, int tid) {
    if (!claim_ended(b, tid))
        return;
    ct_event_drain(b);
    ct_left_report_ended(b);
    ct_runtime_lock(rt);
    retire_block(rt, b);
    ct_runtime_unlock(rt);
}

static struct ct_block *take_free(struct ct_runtime *rt) {
    for (struct ct_block *b = rt->blocks; b; b = b->next) {
        uint32_t free_ = 0;
        if (!__atomic_load_n(&b->in_use, __ATOMIC_RELAXED) &&
            __atomic_compare_exchange_n(&b->in_use, &free_, 2, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return b; /* not 1 yet: its tid is still the ended thread's, and a sweep would take it back */
    }
    return NULL;
}

void ct_block_publish(struct ct_runtime *rt, struct ct_block *b) {
    struct ct_block *head = __atomic_load_n(&rt->blocks, __ATOMIC_RELAXED);
    do
        b->next = head;
    while (!__atomic_compare_exchange_n(&rt->blocks, &head, b, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    __atomic_fetch_add(&rt->block_count, 1, __ATOMIC_RELAXED);
}

static void begin_thread(struct ct_block *b, int tid, uint64_t thread_pointer) {
    b->tid = tid;
    b->pid = b->runtime->pid;
    b->thread_pointer = thread_pointer;
    b->attention = 0;
    b->detached = 0;
    b->clones = b->parted = 0;
    b->masked = 0;
    b->borrows = b->script_work = 0;
    b->goes_through = 0;
    b->interrupted_count = b->exposed_count = 0;
    b->home_low = b->home_high = 0;
    b->top = b->base + 1;
    ct_stacks_begin(b);
    b->first = tid == b->pid ? NULL : b->top;
    ct_event_begin(b);
    refresh_owner(b);
}

struct ct_block *ct_block_create(struct ct_runtime *rt, int tid, uint64_t thread_pointer) {
    struct ct_block *b = take_free(rt);
    bool fresh = !b;
    if (fresh && !(b = ct_block_map(rt)))
        return NULL;
    begin_thread(b, tid, thread_pointer);
    __atomic_store_n(&b->in_use, 1, __ATOMIC_RELEASE);
    if (fresh)
        ct_block_publish(rt, b);
    __atomic_fetch_add(&rt->threads_seen, 1, __ATOMIC_RELAXED);
    return b;
}

/* A forked child is alone in its copy of our memory. Other threads may have been in the middle of anything: their
 * buffers are not touched. */
static void restart_after_fork(struct ct_runtime *rt, struct ct_block *own) {
    rt->lock = 0;
    rt->pid = ct_os_getpid();
    for (struct ct_block *b = rt->blocks; b; b = b->next) {
        if (b == own || !b->in_use || b->in_use == CT_BLOCK_STRAY)
            continue;
        ct_event_forget(b);
        retire_block(rt, b);
    }
}

/* The process was forked by a thread that had no block of its own. */
static void restart_without_block(struct ct_runtime *rt) {
    uint64_t mask = ct_os_block_signals();
    restart_after_fork(rt, NULL);
    if (rt->on_fork)
        (void)rt->on_fork(rt);
    ct_os_restore_signals(mask);
}

/* The child is in the middle of its parent's frames. */
static struct ct_block *adopt_after_fork(struct ct_block *b) {
    uint64_t mask = ct_os_block_signals();
    restart_after_fork(b->runtime, b);
    b->pid = b->runtime->pid;
    b->tid = ct_os_gettid();
    b->attention &= ~(uint32_t)(CT_ATTENTION_CONTESTED | CT_ATTENTION_SHARED);
    b->clones = b->parted = 0;
    if (b->runtime->on_fork && b->runtime->on_fork(b->runtime)) {
        ct_event_begin(b);
    } else {
        b->detached |= b->runtime->children_blind;
        ct_event_reset(b);
    }
    refresh_owner(b);
    ct_os_restore_signals(mask);
    return b;
}

/* An ended thread had our tid: its block must not be found under this tid again. */
static void retire_namesake(struct ct_runtime *rt, const struct ct_block *own) {
    for (struct ct_block *b = rt->blocks; b; b = b->next)
        if (b != own && b->in_use == 1 && b->tid == own->tid)
            retire_ended(rt, b, own->tid);
}

/* Looking for ended threads costs a system call for each block: only done when their number may have doubled. */
static void sweep_sometimes(struct ct_runtime *rt) {
    if (rt->block_count < rt->next_sweep)
        return;
    uint32_t live = 0;
    for (struct ct_block *b = rt->blocks; b; b = b->next) {
        int tid = b->tid;
        if (b->in_use == 1 && !ct_os_thread_alive(tid))
            retire_ended(rt, b, tid);
        live += b->in_use != 0;
    }
    rt->next_sweep = live * 2 > FIRST_SWEEP ? live * 2 : FIRST_SWEEP;
}

void ct_block_report_ended(struct ct_runtime *rt) {
    for (struct ct_block *b = rt->blocks; b; b = b->next) {
        int tid = b->tid;
        if (b->in_use != 1 || ct_os_thread_alive(tid) || !claim_ended(b, tid))
            continue;
        ct_left_report_ended(b);
        __atomic_store_n(&b->in_use, 1, __ATOMIC_RELEASE);
    }
}

/* Gives a block to a thread, or a child process on our memory, that has none yet. */
static struct ct_block *register_thread(struct ct_block *inherited, int tid, uint64_t thread_pointer) {
    struct ct_runtime *rt = inherited->runtime;
    uint64_t mask = ct_os_block_signals();
    struct ct_block *b = ct_block_create(rt, tid, thread_pointer);
    if (b) {
        b->detached = ct_os_getpid() != rt->pid;
        refresh_owner(b);
        b->borrows = inherited->thread_pointer == thread_pointer;
        ct_block_install(b); /* before others' events are delivered: the sink may call hooked functions */
        if (inherited->thread_pointer == thread_pointer)
            __atomic_fetch_add(&inherited->parted, 1, __ATOMIC_RELEASE); /* read by take_back */
        if (!b->detached) { /* for a child on our memory all our threads look dead */
            retire_namesake(rt, b);
            sweep_sometimes(rt);
        }
    }
    ct_os_restore_signals(mask);
    return b;
}

/* Does a child run beside us with our thread pointer, and find our block by it? It has another process id. */
static bool is_borrowed(const struct ct_block *own, uint64_t thread_pointer) {
    for (const struct ct_block *b = own->runtime->blocks; b; b = b->next)
        if (b != own && b->in_use == 1 && b->borrows && b->thread_pointer == thread_pointer &&
            ct_os_process_alive(b->tid))
            return true;
    return false;
}

/* Our own block, found by our tid: a vfork's child that used it is gone, or our thread pointer has changed. */
static struct ct_block *take_back(struct ct_block *b, uint64_t thread_pointer) {
    bool alone = __atomic_load_n(&b->parted, __ATOMIC_ACQUIRE) >= b->clones; /* register_thread adds to it */
    if (alone && (b->attention & CT_ATTENTION_SHARED) && ct_block_by_pointer())
        alone = !is_borrowed(b, thread_pointer);
    if (b->thread_pointer != thread_pointer) {
        b->thread_pointer = thread_pointer;
        b->borrows = 0;
        ct_block_place(b);
        ct_event_moved(b);
    }
    ct_block_unattend(b, CT_ATTENTION_CONTESTED | (alone ? CT_ATTENTION_SHARED : 0));
    return b;
}

/* Where blocks are found by thread pointer: finds the block of a thread that has one, but not under its pointer. Either
 * the pointer has changed (certain for the main thread, and for one that had its creator's pointer until now; otherwise
 * another thread had this tid before), or another thread has the same pointer and its block is found. NULL: the thread
 * has no block. */
static struct ct_block *find_again(struct ct_runtime *rt, int tid, uint64_t thread_pointer) {
    bool foreign = ct_os_getpid() != rt->pid;
    struct ct_block *b = rt->blocks;
    while (b && !(b->in_use == 1 && b->tid == tid && (b->detached != 0) == foreign && (b->borrows || tid == rt->pid)))
        b = b->next;
    if (!b || (b->borrows && b->thread_pointer == thread_pointer))
        return b;
    return take_back(b, thread_pointer);
}

void ct_block_give_away(struct ct_block *own, uint64_t thread_pointer) {
    for (struct ct_block *b = own->runtime->blocks; b; b = b->next)
        if (b != own && b->in_use == 1 && b->thread_pointer == thread_pointer)
            forget_pointer(b);
}

/* Where blocks are found by thread pointer: has a new thread found the block of an ended one? This does not happen if
 * the new thread's creation was seen (ct_block_give_away). */
static bool is_left(const struct ct_block *b) {
    if (!ct_block_by_pointer() || b->owner == CT_OWNER_FORKED || b->in_use == CT_BLOCK_STRAY || ct_os_is_silent())
        return false;
    return ct_os_gettid() != b->tid && !ct_os_process_alive(b->tid);
}

struct ct_block *ct_block_current(void) {
    struct ct_block *b = ct_block_found();
    uint64_t thread_pointer = ct_os_thread_pointer();
    if (is_left(b))
        forget_pointer(b);
    if (b->owner == thread_pointer)
        return b;
    bool same_pointer = b->thread_pointer == thread_pointer;
    if (b->owner == CT_OWNER_FORKED && same_pointer)
        return adopt_after_fork(b);
    if (b->owner == CT_OWNER_FORKED && ct_os_getpid() != b->runtime->pid)
        restart_without_block(b->runtime);
    if (b->in_use == CT_BLOCK_STRAY)
        b->owner = CT_OWNER_ATTENTION;
    if (same_pointer && !(b->attention & (CT_ATTENTION_CONTESTED | CT_ATTENTION_SHARED)))
        return b;
    if (ct_os_is_silent())
        return same_pointer ? b : NULL; /* a system call would be needed to know which thread this is */
    int tid = ct_os_gettid();
    if (tid == b->tid)
        return take_back(b, thread_pointer);
    struct ct_block *again = ct_block_by_pointer() ? find_again(b->runtime, tid, thread_pointer) : NULL;
    return again ? again : register_thread(b, tid, thread_pointer);
}
