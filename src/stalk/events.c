/* SPDX-License-Identifier: Apache-2.0 */
/* Events of one thread: records that translated code writes, the queue that they are expanded into, and sinks.
 *
 * A record has 16 bytes: the target if its site does not know it, the stack pointer, and the number of the site. With
 * timestamps it has 32 bytes. It has 8, the number alone, if neither calls nor returns are wanted. Records grow
 * downward; the last one is at an address whose low 16 bits are zero, which sends the code to the engine. One record
 * stands for a whole block and all its instructions; a record of site 0 is a reading of the fast clock.
 *
 * Depths are found while expanding. A frame is identified by the address of its return address, so frames that were
 * left by a jump are noticed.
 *
 * Owner: the followed thread, while it is in the engine. Everything except writing records needs the claim, because a
 * thread that ends the process takes the records of the others. It moves `taken` and does not touch the position of the
 * newest record: the code that writes records keeps running. */
#include "stalk/events.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/memory.h"
#include "stalk/records.h"
#include "stalk/stacks.h"
#include "stalk/stalker.h"
#include "stalk/thread.h"

static void *alloc_memory(size_t size) {
    return ct_os_alloc(size, CT_OS_READ | CT_OS_WRITE);
}

static void free_memory(void **memory, size_t size) {
    if (*memory)
        (void)ct_os_free(*memory, size);
    *memory = NULL;
}

static void free_counters(struct stalk_thread *t) {
    free_memory((void **)&t->counters, CT_COUNTERS * sizeof(uint64_t));
    free_memory((void **)&t->counted, CT_COUNTERS * sizeof(uint64_t));
}

void ct_stalk_events_free(struct stalk_thread *t) {
    free_memory((void **)&t->records_memory, 2 * CT_EVENT_ROOM);
    free_memory((void **)&t->queue, t->stalker->queue_capacity * sizeof *t->queue);
    free_memory((void **)&t->frames, STALK_MAX_FRAMES * sizeof *t->frames);
    free_memory((void **)&t->stacks, sizeof *t->stacks);
    free_memory((void **)&t->summary, t->summary_size * sizeof *t->summary);
    free_counters(t);
    t->records = NULL;
}

static bool make_room_for_events(struct stalk_thread *t) {
    t->records_memory = alloc_memory(2 * CT_EVENT_ROOM);
    t->queue = alloc_memory(t->stalker->queue_capacity * sizeof *t->queue);
    t->frames = alloc_memory(STALK_MAX_FRAMES * sizeof *t->frames);
    if (!t->records_memory || !t->queue || !t->frames) {
        ct_stalk_events_free(t);
        return false;
    }
    t->records = (uint8_t *)(((uint64_t)t->records_memory + CT_EVENT_ROOM - 1) & ~(uint64_t)(CT_EVENT_ROOM - 1));
    return true;
}

int ct_stalk_events_open(struct stalk_thread *t) {
    struct ct_stalker *s = t->stalker;
    t->records_top = t->area->events = t->taken = 0;
    t->claimed = 0;
    t->queued = t->frame_count = t->alternate.begin = 0;
    t->base_depth = 0;
    free_memory((void **)&t->stacks, sizeof *t->stacks);
    t->drained_at = ct_os_nanoseconds();
    t->clock = t->cache->mask & CT_STALKER_FAST_CLOCK ? ct_os_timestamp() : 0;
    if (!t->sink.mask)
        return CT_OK;
    if (!t->records && !make_room_for_events(t))
        return CT_ERR_NO_MEMORY;
    if (t->cache->count_calls) {
        /* The counters may be those of a thread that has ended. */
        free_counters(t);
        t->area->counters = t->counters = alloc_memory(CT_COUNTERS * sizeof(uint64_t));
        t->counted = alloc_memory(CT_COUNTERS * sizeof(uint64_t));
        if (!t->counters || !t->counted)
            return CT_ERR_NO_MEMORY;
    }
    if (t->sink.on_call_summary && !t->summary) {
        t->summary_size = 1 << 16;
        t->summary = alloc_memory(t->summary_size * sizeof *t->summary);
        if (!t->summary)
            return CT_ERR_NO_MEMORY;
    }
    t->queue_size = s->queue_capacity;
    uint64_t room = (uint64_t)s->queue_capacity * ct_stalk_record_size(t->cache->mask);
    t->records_top = (uint64_t)t->records + (room < CT_EVENT_ROOM ? room : CT_EVENT_ROOM);
    t->area->events = t->taken = t->records_top;
    return CT_OK;
}

/* ---- the claim ---- */

#define PATIENCE 2500 /* of threads that may not wait forever: two seconds */

enum claim { NOT_CLAIMED, CLAIMED, CLAIMED_BEFORE };

static enum claim claim(struct stalk_thread *t, int32_t tid, bool for_ever) {
    if (__atomic_load_n(&t->claimed, __ATOMIC_RELAXED) == tid)
        return CLAIMED_BEFORE;
    for (unsigned i = 0; for_ever || i < PATIENCE; i++) {
        int32_t nobody = 0;
        if (__atomic_compare_exchange_n(&t->claimed, &nobody, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return CLAIMED;
        ct_os_sleep_us(i < 500 ? 20 : 1000);
    }
    return NOT_CLAIMED;
}

static void release_claim(struct stalk_thread *t, enum claim c) {
    if (c == CLAIMED)
        __atomic_store_n(&t->claimed, 0, __ATOMIC_RELEASE);
}

/* ---- delivery ---- */

/* Moves the used slots of the table to its front; it is cleared afterwards. */
static uint32_t compact_summary(struct stalk_thread *t) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->summary_size; i++)
        if (t->summary[i].target) {
            uint64_t target = t->summary[i].target, count = t->summary[i].count;
            t->summary[i].target = t->summary[i].count = 0;
            t->summary[n].target = target;
            t->summary[n++].count = count;
        }
    return n;
}

static void deliver_summary(void *arg, void *vectors) {
    struct stalk_thread *t = arg;
    (void)vectors;
    uint32_t n = compact_summary(t);
    if (n)
        t->sink.on_call_summary(t->sink.user, t->tid, t->summary, n);
    for (uint32_t i = 0; i < n; i++)
        t->summary[i].target = t->summary[i].count = 0;
    t->summary_used = 0;
}

static struct ct_stalker_call_count *find_count(const struct stalk_thread *t, uint64_t target) {
    uint32_t mask = t->summary_size - 1, i = (uint32_t)(target * 0x9e3779b97f4a7c15ull >> 40) & mask;
    while (t->summary[i].target && t->summary[i].target != target)
        i = (i + 1) & mask;
    return &t->summary[i];
}

/* `by`: as in take_records. A table that is half full is delivered. */
static void count_call(struct stalk_thread *t, struct stalk_thread *by, uint64_t target, uint64_t count) {
    if (!t->summary)
        return;
    struct ct_stalker_call_count *c = find_count(t, target);
    if (!c->target && t->summary_used * 2 >= t->summary_size) {
        ct_stalk_call_out(by, deliver_summary, t);
        c = find_count(t, target);
    }
    t->summary_used += !c->target;
    c->target = target;
    c->count += count;
}

/* Counters only grow: the thread may be stopped in the middle of adding to one. */
static void take_counters(struct stalk_thread *t, struct stalk_thread *by) {
    const uint64_t *counters = t->area->counters;
    if (!t->cache->count_calls || !counters)
        return;
    for (uint32_t i = 1; i <= t->cache->counters; i++) {
        uint64_t now = __atomic_load_n(&counters[i], __ATOMIC_RELAXED);
        if (now != t->counted[i]) {
            count_call(t, by, t->cache->counter_targets[i], now - t->counted[i]);
            t->counted[i] = now;
        }
    }
}

static void deliver_queue(void *arg, void *vectors) {
    struct stalk_thread *t = arg;
    (void)vectors;
    if (t->queued && t->sink.on_receive)
        t->sink.on_receive(t->sink.user, t->tid, t->queue, t->queued);
    __atomic_add_fetch(&t->stalker->statistics.events, t->queued, __ATOMIC_RELAXED);
    t->queued = 0;
}

/* ---- expanding ---- */

static inline struct ct_stalker_event *add_event(struct stalk_thread *t, uint32_t kind, uint64_t location,
                                                 uint64_t target) {
    if (__builtin_expect(t->queued == t->queue_size, 0))
        ct_stalk_call_out(t, deliver_queue, t);
    struct ct_stalker_event *e = &t->queue[t->queued++];
    e->kind = kind;
    e->depth = 0;
    e->location = location;
    e->target = target;
    e->timestamp = 0;
    return e;
}

/* The state of an expansion. The loops below keep it in registers: they are most of the cost of an event. */
struct expansion {
    struct stalk_thread *t, *by;
    struct ct_stalker_event *next, *limit;
    uint64_t *frames;
    uint32_t frame_count;
    int32_t base_depth;
    uint32_t mask;
    uint64_t clock;
    struct stalk_alternate alternate;
    bool summary, receive;
};

static void make_queue_room(struct expansion *x) {
    x->t->queued = (uint32_t)(x->next - x->t->queue);
    ct_stalk_call_out(x->by, deliver_queue, x->t);
    x->next = x->t->queue;
}

static inline void fill_event(struct ct_stalker_event *e, uint32_t kind, uint64_t location, uint64_t target) {
    e->kind = kind;
    e->depth = 0;
    e->location = location;
    e->target = target;
    e->timestamp = 0;
}

static inline struct ct_stalker_event *put_event(struct expansion *x, uint32_t kind, uint64_t location,
                                                 uint64_t target) {
    if (__builtin_expect(x->next == x->limit, 0))
        make_queue_room(x);
    fill_event(x->next, kind, location, target);
    return x->next++;
}

static struct stalk_run run_of(const struct expansion *x) {
    return (struct stalk_run){x->frames, x->frame_count, x->base_depth};
}

static void set_run(struct expansion *x, const struct stalk_run *run) {
    x->frame_count = run->count;
    x->base_depth = run->base_depth;
}

static void refill_frames(struct expansion *x) {
    struct stalk_run run = run_of(x);
    ct_stalk_stacks_refill(x->t, &run);
    set_run(x, &run);
}

static void change_stack(struct expansion *x, uint64_t slot) {
    struct stalk_run run = run_of(x);
    uint32_t id;
    enum stalk_change change = ct_stalk_stacks_run(x->t, &run, slot, &id);
    set_run(x, &run);
    if (change != STALK_SAME_STACK && x->receive && x->t->stalker->tell_stacks)
        put_event(x, STALK_STACK_EVENT, change == STALK_NEW_STACK, id);
}

/* Drops frames that have been left: those whose slot is below `slot` on the same stack, and with `from` 0 also the one
 * at `slot`. */
static void drop_frames(struct expansion *x, uint64_t slot, int32_t from) {
    while (x->frame_count) {
        int64_t distance = (int64_t)(x->frames[x->frame_count - 1] - slot);
        if (distance > -from || distance < -(64 << 20))
            break;
        if (!--x->frame_count)
            refill_frames(x);
    }
}

/* Makes room for frames: the outermost half is kept only as a count. */
static void make_frame_room(struct expansion *x) {
    for (uint32_t i = STALK_MAX_FRAMES / 2; i < STALK_MAX_FRAMES; i++)
        x->frames[i - STALK_MAX_FRAMES / 2] = x->frames[i];
    x->frame_count -= STALK_MAX_FRAMES / 2;
    x->base_depth += STALK_MAX_FRAMES / 2;
    uint32_t *begin = &x->alternate.begin;
    *begin = *begin > STALK_MAX_FRAMES / 2 ? *begin - STALK_MAX_FRAMES / 2 : 0;
}

static int32_t enter_frame(struct expansion *x, uint64_t slot) {
    drop_frames(x, slot, 0);
    if (x->frame_count == STALK_MAX_FRAMES)
        make_frame_room(x);
    x->frames[x->frame_count] = slot;
    return x->base_depth + (int32_t)x->frame_count++;
}

static int32_t leave_frame(struct expansion *x, uint64_t slot) {
    drop_frames(x, slot, 1);
    int32_t depth = x->base_depth + (int32_t)x->frame_count;
    if (x->frame_count)
        x->frame_count -= x->frames[x->frame_count - 1] == slot;
    else
        x->base_depth--;
    if (!x->frame_count)
        refill_frames(x);
    return depth;
}

/* This is the first event on another stack: the handler on the alternate stack has returned, or was left by a jump. */
static void leave_alternate(struct expansion *x, uint64_t slot) {
    struct stalk_alternate *a = &x->alternate;
    if (!a->begin || slot - a->low < a->size)
        return;
    if (x->frame_count >= a->begin)
        x->frame_count = a->begin - 1;
    a->begin = 0;
}

/* Returns the number of frames that are open when the instruction begins. */
static __attribute__((noinline)) int32_t depth_of(struct expansion *x, uint64_t slot, bool call) {
    leave_alternate(x, slot);
    if (!x->alternate.begin)
        change_stack(x, slot);
    return call ? enter_frame(x, slot) : leave_frame(x, slot);
}

/* Expands the instructions of a block that are before `end`. */
static void expand_block(struct expansion *x, const struct stalk_site *site, uint32_t number, uint64_t end) {
    if (end <= site->location)
        return;
    if (x->mask & CT_STALKER_BLOCK)
        put_event(x, CT_STALKER_BLOCK, site->location, end < site->target ? end : site->target)->depth =
            x->t->stalker->tell_sites ? (int32_t)number : 0;
    if (!(x->mask & CT_STALKER_EXEC))
        return;
    uint64_t pc = site->location;
    for (uint32_t i = 0; i < site->insns && pc < end; i++) {
        put_event(x, CT_STALKER_EXEC, pc, 0);
        pc += site->lengths[i];
    }
}

static void expand_branch(struct expansion *x, const struct stalk_site *site, const struct stalk_record *r) {
    bool call = site->kind == CT_STALKER_CALL;
    uint64_t target = stalk_target_of(site, r);
    int32_t depth = depth_of(x, stalk_address_in(r->sp) - (call ? 8 : 0), call);
    if (call && x->summary)
        count_call(x->t, x->by, target, 1);
    if (!x->receive)
        return;
    struct ct_stalker_event *e = put_event(x, site->kind, site->location, target);
    e->depth = depth;
    e->timestamp = x->mask & CT_STALKER_TIMESTAMPS ? r->time : x->clock;
}

static inline uint32_t number_of(uint64_t at, unsigned size) {
    return *(const uint32_t *)(at + ct_stalk_site_offset(size));
}

/* Expands one record of any kind. */
static void expand_one(struct expansion *x, void *const *sites, uint64_t at, unsigned size, uint64_t end) {
    uint32_t number = number_of(at, size);
    const struct stalk_site *site = stalk_site_of(sites, number);
    if (!number)
        x->clock = stalk_reading_of((const struct stalk_record *)at);
    else if (site->kind == CT_STALKER_BLOCK)
        expand_block(x, site, number, end);
    else
        expand_branch(x, site, (const struct stalk_record *)at);
}

/* The loops for the most common masks: calls and returns, blocks, instructions. They run while the queue has room, and
 * return the record that is next. */

static uint64_t count_that_fit(const struct expansion *x, uint64_t at, uint64_t newest, unsigned size) {
    uint64_t records = (at - newest) / size + 1, room = (uint64_t)(x->limit - x->next);
    return records < room ? records : room;
}

/* What is usual needs no search. `n`: number of records. */
static inline __attribute__((always_inline)) uint64_t expand_branches(struct expansion *x, void *const *sites,
                                                                      uint64_t at, uint64_t n, uint32_t clock) {
    const bool time = clock & CT_STALKER_TIMESTAMPS, fast = clock & CT_STALKER_FAST_CLOCK;
    const unsigned size = time ? sizeof(struct stalk_record) : CT_RECORD_SIZE;
    uint64_t last = at - n * size;
    struct ct_stalker_event *e = x->next;
    uint64_t now = x->clock;
    uint64_t *frames = x->frames;
    uint32_t count = x->frame_count;
    int32_t base = x->base_depth;
    for (; at != last; at -= size) {
        const struct stalk_record *r = (const struct stalk_record *)at;
        if (fast && __builtin_expect(!r->site, 0)) {
            now = stalk_reading_of(r);
            continue;
        }
        const struct stalk_site *site = stalk_site_of(sites, r->site);
        uint32_t kind = site->kind, call = kind & CT_STALKER_CALL;
        uint64_t slot = stalk_address_in(r->sp) - 8 * (uint64_t)call;
        int32_t depth = base + (int32_t)count;
        if (__builtin_expect(stalk_is_next(frames, count, slot, call), 1)) {
            frames[count] = slot;
            count += 2 * call - 1;
        } else {
            const struct ct_stalker_event *before = e;
            x->frame_count = count;
            x->next = e;
            depth = depth_of(x, slot, call);
            count = x->frame_count;
            base = x->base_depth;
            if (__builtin_expect(x->next != before, 0)) { /* the queue has less room than was counted */
                if (x->next == x->limit)
                    make_queue_room(x);
                e = x->next;
                last = at - size;
            }
        }
        e->kind = kind;
        e->depth = depth;
        e->location = site->location;
        e->target = stalk_target_of(site, r);
        e->timestamp = time ? r->time : fast ? now : 0;
        e++;
    }
    x->next = e;
    x->clock = now;
    x->frame_count = count;
    x->base_depth = base;
    return at;
}
_Static_assert(CT_STALKER_CALL == 1, "expand_branches counts with it");

static uint64_t expand_blocks(struct expansion *x, void *const *sites, uint64_t at, uint64_t n, unsigned size) {
    struct ct_stalker_event *e = x->next, *end = e + n;
    for (; e != end; at -= size, e++) {
        const struct stalk_site *site = stalk_site_of(sites, number_of(at, size));
        fill_event(e, CT_STALKER_BLOCK, site->location, site->target);
    }
    x->next = e;
    return at;
}

static uint64_t expand_insns(struct expansion *x, void *const *sites, uint64_t at, uint64_t newest, unsigned size) {
    struct ct_stalker_event *next = x->next;
    bool blocks = x->mask & CT_STALKER_BLOCK;
    for (; at >= newest; at -= size) {
        const struct stalk_site *site = stalk_site_of(sites, number_of(at, size));
        const uint8_t *lengths = site->lengths;
        uint32_t insns = site->insns;
        uint64_t pc = site->location;
        if ((size_t)(x->limit - next) <= insns)
            break;
        if (blocks)
            fill_event(next++, CT_STALKER_BLOCK, pc, site->target);
        for (uint32_t i = 0; i < insns; i++) {
            fill_event(next++, CT_STALKER_EXEC, pc, 0);
            pc += lengths[i];
        }
    }
    x->next = next;
    return at;
}

/* ---- taking without expanding ---- */

struct taking {
    struct stalk_branches b; /* must be first */
    struct expansion *x;
    uint64_t taken;
};

static void end_taking(const struct taking *g) {
    struct expansion *x = g->x;
    x->clock = g->b.clock;
    x->frame_count = g->b.frame_count;
    x->base_depth = g->b.base_depth;
}

/* The queue is empty while records are taken. */
static size_t expand_for_taker(struct stalk_branches *b, const struct ct_stalker_event **events) {
    struct taking *g = (struct taking *)b;
    struct expansion *x = g->x;
    unsigned size = ct_stalk_record_size(x->mask);
    end_taking(g);
    expand_one(x, b->sites, b->at, size, UINT64_MAX);
    b->at -= size;
    b->clock = x->clock;
    b->frame_count = x->frame_count;
    b->base_depth = x->base_depth;
    size_t count = (size_t)(x->next - x->t->queue);
    x->next = x->t->queue;
    *events = x->next;
    return count;
}

static void take_branches(void *arg, void *vectors) {
    struct taking *g = arg;
    struct stalk_thread *t = g->x->t;
    t->queued = (uint32_t)(g->x->next - t->queue);
    deliver_queue(t, vectors);
    g->x->next = t->queue;
    g->taken = t->stalker->take(t->tid, &g->b);
    __atomic_add_fetch(&t->stalker->statistics.events, g->taken, __ATOMIC_RELAXED);
}

/* Returns the record that is next. */
static uint64_t take_many(struct expansion *x, void *const *sites, uint64_t at, uint64_t newest) {
    struct taking g = {
        {sites, at, newest, x->clock, x->frames, x->frame_count, x->base_depth, x->mask, expand_for_taker}, x, 0};
    ct_stalk_call_out(x->by, take_branches, &g);
    end_taking(&g);
    return g.b.at;
}

/* Both, so that frames rarely need a search, and with times. */
static bool may_take(const struct expansion *x) {
    const uint32_t both = CT_STALKER_CALL | CT_STALKER_RET, clock = CT_STALKER_TIMESTAMPS | CT_STALKER_FAST_CLOCK;
    return x->t->stalker->take && (x->mask & both) == both && x->mask & clock;
}

static uint64_t expand_many(struct expansion *x, void *const *sites, uint64_t at, uint64_t newest, unsigned size) {
    bool branches = x->mask & (CT_STALKER_CALL | CT_STALKER_RET), blocks = x->mask & CT_STALKER_BLOCK,
         insns = x->mask & CT_STALKER_EXEC;
    if (!x->receive || x->summary || (branches && (blocks || insns)) || x->t->stalker->tell_sites)
        return at;
    if (insns)
        return expand_insns(x, sites, at, newest, size);
    if (may_take(x) && (at = take_many(x, sites, at, newest)) < newest)
        return at;
    uint64_t n = count_that_fit(x, at, newest, size);
    if (blocks)
        return expand_blocks(x, sites, at, n, size);
    if (x->mask & CT_STALKER_TIMESTAMPS)
        return expand_branches(x, sites, at, n, CT_STALKER_TIMESTAMPS);
    if (x->mask & CT_STALKER_FAST_CLOCK)
        return expand_branches(x, sites, at, n, CT_STALKER_FAST_CLOCK);
    return expand_branches(x, sites, at, n, 0);
}

/* Expands the records. Of the newest one, only the instructions before `end`. */
static void expand_records(struct expansion *x, uint64_t oldest, uint64_t newest, uint64_t end) {
    unsigned size = ct_stalk_record_size(x->t->cache->mask);
    void *const *sites = x->t->cache->sites.chunks;
    uint64_t at = oldest - size, whole = end == UINT64_MAX ? newest : newest + size;
    while (at >= newest) {
        if (at >= whole && !x->alternate.begin) /* these loops know only one stack */
            at = expand_many(x, sites, at, whole, size);
        if (at >= newest) {
            expand_one(x, sites, at, size, at == newest ? end : UINT64_MAX);
            at -= size;
        }
    }
}

/* `by`: the thread that expands the records of t. */
static struct expansion expansion_of(struct stalk_thread *t, struct stalk_thread *by) {
    return (struct expansion){.t = t,
                              .by = by,
                              .next = t->queue + t->queued,
                              .limit = t->queue + t->queue_size,
                              .frames = t->frames,
                              .frame_count = t->frame_count,
                              .base_depth = t->base_depth,
                              .mask = t->cache->mask,
                              .clock = t->clock,
                              .alternate = t->alternate,
                              .summary = t->sink.on_call_summary != NULL,
                              .receive = t->sink.on_receive != NULL};
}

static void end_expansion(const struct expansion *x) {
    struct stalk_thread *t = x->t;
    t->queued = (uint32_t)(x->next - t->queue);
    t->frame_count = x->frame_count;
    t->base_depth = x->base_depth;
    t->clock = x->clock;
    t->alternate = x->alternate;
}

/* `end`: the last block was executed only up to there. `by`: the calling thread; if it is not t, it does not touch the
 * position of the newest record. NULL: t is stopped at any place, perhaps inside of its newest block, which is left. */
static void take_records(struct stalk_thread *t, struct stalk_thread *by, uint64_t end) {
    uint64_t newest = __atomic_load_n(&t->area->events, __ATOMIC_ACQUIRE), oldest = t->taken;
    if (!by && newest != oldest && t->cache->mask & (CT_STALKER_BLOCK | CT_STALKER_EXEC))
        newest += ct_stalk_record_size(t->cache->mask);
    if (by == t)
        t->area->events = t->records_top;
    t->taken = by == t ? t->records_top : newest;
    if (!t->muted && newest != oldest) {
        struct expansion x = expansion_of(t, by ? by : t);
        expand_records(&x, oldest, newest, end);
        end_expansion(&x);
    }
    if (by == t && t->cache->mask & CT_STALKER_FAST_CLOCK)
        t->clock = ct_os_timestamp();
}

static void deliver_all(struct stalk_thread *t, struct stalk_thread *by, bool counts) {
    t->drained_at = ct_os_nanoseconds();
    if (__atomic_load_n(&t->vfork.tid, __ATOMIC_ACQUIRE))
        return;
    if (t->queued)
        ct_stalk_call_out(by, deliver_queue, t);
    if (t->sink.on_call_summary && counts) {
        take_counters(t, by);
        ct_stalk_call_out(by, deliver_summary, t);
    }
}

void ct_stalk_events_drain(struct stalk_thread *t, bool deliver_now) {
    enum claim c = claim(t, t->tid, true);
    take_records(t, t, UINT64_MAX);
    if (deliver_now)
        deliver_all(t, t, true);
    release_claim(t, c);
}

void ct_stalk_events_change_over(struct stalk_thread *t) {
    enum claim c = claim(t, t->tid, true);
    take_records(t, t, UINT64_MAX);
    take_counters(t, t);
    t->left = t->cache;
    while (t->cache->newer)
        t->cache = t->cache->newer;
    release_claim(t, c);
}

void ct_stalk_events_drain_native(struct stalk_thread *t) {
    enum claim c = claim(t, ct_os_gettid(), false); /* the holder may be stopped, by us */
    if (c != CLAIMED)
        return;
    take_records(t, t, UINT64_MAX);
    deliver_all(t, t, true);
    release_claim(t, c);
}

void ct_stalk_events_drain_others(struct stalk_thread *by, bool counts) {
    for (struct stalk_thread *t = by->stalker->threads; t; t = t->next) {
        if (t == by || !__atomic_load_n(&t->following, __ATOMIC_ACQUIRE) || !t->sink.mask)
            continue;
        enum claim c = claim(t, by->tid, false);
        if (c != CLAIMED)
            continue;
        take_records(t, by, UINT64_MAX);
        deliver_all(t, by, counts);
        release_claim(t, c);
    }
}

int ct_stalk_events_drain_stopped(struct stalk_thread *t) {
    if (!__atomic_load_n(&t->following, __ATOMIC_ACQUIRE) || !t->sink.mask)
        return CT_OK;
    if (__atomic_load_n(&t->claimed, __ATOMIC_ACQUIRE))
        return CT_ERR_BUSY;
    take_records(t, NULL, UINT64_MAX);
    deliver_all(t, t, true);
    return CT_OK;
}

void ct_stalk_events_forget(struct stalk_thread *t) {
    t->area->events = t->taken = t->records_top;
    t->queued = 0;
    for (uint32_t i = 1; t->counters && i <= t->cache->counters; i++)
        t->counters[i] = t->counted[i];
    if (__atomic_load_n(&t->claimed, __ATOMIC_RELAXED) == t->tid)
        __atomic_store_n(&t->claimed, 0, __ATOMIC_RELEASE); /* the claim of the child, which was killed */
}

void ct_stalk_event_compile(struct stalk_thread *t, uint64_t start, uint64_t end) {
    if (t->muted)
        return;
    enum claim c = claim(t, t->tid, true);
    take_records(t, t, UINT64_MAX);
    add_event(t, CT_STALKER_COMPILE, start, end);
    release_claim(t, c);
}

/* The handler's slot is where the kernel put the restorer's address. */
static void enter_handler(struct expansion *x, uint64_t pc, uint64_t handler, uint64_t slot,
                          const struct stalk_alternate *switched) {
    int32_t depth;
    if (switched) { /* no frame of the other stack was left: they are all below */
        leave_alternate(x, slot);
        if (x->frame_count == STALK_MAX_FRAMES)
            make_frame_room(x);
        depth = x->base_depth + (int32_t)x->frame_count;
        x->frames[x->frame_count++] = slot;
        x->alternate = *switched;
        x->alternate.begin = x->frame_count;
    } else {
        depth = depth_of(x, slot, true);
    }
    if (x->summary)
        count_call(x->t, x->by, handler, 1);
    if (!x->receive)
        return;
    struct ct_stalker_event *e = put_event(x, CT_STALKER_CALL, pc, handler);
    e->depth = depth;
    e->timestamp = x->mask & CT_STALKER_TIMESTAMPS ? ct_os_timestamp() : x->clock;
}

void ct_stalk_event_handler(struct stalk_thread *t, uint64_t pc, uint64_t handler, uint64_t slot,
                            const struct stalk_alternate *switched) {
    if (t->muted || !(t->cache->mask & CT_STALKER_CALL))
        return;
    enum claim c = claim(t, t->tid, true);
    take_records(t, t, UINT64_MAX);
    struct expansion x = expansion_of(t, t);
    enter_handler(&x, pc, handler, slot, switched);
    end_expansion(&x);
    release_claim(t, c);
}

/* Drops a reading of the clock, so that the newest record is the program's. */
static void drop_reading(struct stalk_thread *t) {
    unsigned size = ct_stalk_record_size(t->cache->mask);
    if (t->area->events != t->taken && !number_of(t->area->events, size))
        t->area->events += CT_RECORD_SIZE;
}

/* Is the newest record that of a block that contains pc? */
static bool is_in_newest(const struct stalk_thread *t, uint64_t pc) {
    if (t->area->events == t->taken)
        return false;
    uint32_t newest = number_of(t->area->events, ct_stalk_record_size(t->cache->mask));
    const struct stalk_site *site = ct_stalk_item(&t->cache->sites, newest);
    return site->kind == CT_STALKER_BLOCK && pc - site->location < site->target - site->location;
}

void ct_stalk_events_cut(struct stalk_thread *t, uint64_t pc, bool reached) {
    if (!(t->cache->mask & (CT_STALKER_BLOCK | CT_STALKER_EXEC)))
        return;
    enum claim c = claim(t, t->tid, true);
    drop_reading(t);
    if (is_in_newest(t, pc))
        take_records(t, t, reached ? pc + 1 : pc);
    release_claim(t, c);
}
