/* SPDX-License-Identifier: Apache-2.0 */
/* Shadow stacks: where the real return addresses of observed frames are.
 *
 * Invariants: entries at and above `top` have slot 0. Claim (top) before filling, slot last; slot 0 before releasing.
 * An entry in flight (runtime.h) stays where it is while its stub may go on. An entry is found by the stack slot it
 * belongs to, never by function. A frame that seems to be left is not forgotten but parked under its slot: if it
 * returns after all (a coroutine that we took for a longjmp), its return address is there. It is certainly dead once
 * another frame uses its slot. Owner: the block's thread, with signals blocked unless stated otherwise. */
#include "hook/stacks.h"
#include "os/os.h"
#include "os/thread.h"

#define barrier() __asm__ volatile("" ::: "memory")

/* Two slots on a stack that is not the thread's own count as one stack when they are this close. */
#define FOREIGN_STACK_REACH (16u << 10)

/* ---- parked frames: open addressing by slot, under the runtime's lock ---- */

static uint32_t parked_index(uint64_t slot) {
    return (uint32_t)((slot >> 3) * 0x9e3779b97f4a7c15ull >> 40) & (CT_PARKED_CAPACITY - 1);
}

void ct_shadow_park(struct ct_runtime *rt, const struct ct_shadow *e) {
    struct ct_shadow *place = NULL;
    uint32_t i = parked_index(e->slot);
    for (uint32_t n = 0; n < CT_PARKED_CAPACITY; n++, i = (i + 1) & (CT_PARKED_CAPACITY - 1)) {
        struct ct_shadow *p = &rt->parked[i];
        bool same = p->slot == e->slot && p->stub == e->stub; /* a chain of tail calls has one slot and many stubs */
        if (same || p->slot == 0) { /* the same frame may come after a hole: look before taking it */
            if (same || !place)
                place = p;
            break;
        }
        if (p->slot == CT_SLOT_HOLE && !place)
            place = p;
        /* When the table is nearly full, an entry nearby is dropped: most are long dead. */
        if (n == 64 && rt->parked_count > CT_PARKED_CAPACITY / 4 * 3) {
            place = place ? place : p;
            break;
        }
    }
    if (!place)
        return;
    rt->parked_count += place->slot == 0;
    *place = *e;
}

/* Whatever this returns, a frame that was parked under this slot does not come back. */
static bool unpark(struct ct_runtime *rt, uint64_t slot, uint64_t resume, struct ct_shadow *found) {
    uint32_t i = parked_index(slot);
    for (uint32_t n = 0; n < CT_PARKED_CAPACITY && rt->parked[i].slot != 0; n++) {
        if (rt->parked[i].slot == slot && ct_shadow_resume(&rt->parked[i]) == resume) {
            *found = rt->parked[i];
            rt->parked[i].slot = CT_SLOT_HOLE;
            return true;
        }
        i = (i + 1) & (CT_PARKED_CAPACITY - 1);
    }
    return false;
}

/* ---- which stack is it ---- */

struct stack_search {
    uint64_t address; /* 0: the main thread's stack, by its name */
    uint64_t low, high, below;
};

static int find_stack(void *arg, const struct ct_os_map *map) {
    struct stack_search *s = arg;
    bool found = s->address ? map->end > s->address : map->role == CT_OS_MAP_STACK;
    if (found && map->start <= (s->address ? s->address : map->start)) {
        s->low = map->start;
        s->high = map->end;
    }
    if (!found)
        s->below = map->end;
    return found;
}

/* Finds the mapping that holds the thread's own stack: libraries put what the thread pointer points to at its upper
 * end. Frames do not show it: the first one that is seen may be a coroutine's. */
static uint64_t search_home(uint64_t block, uint64_t unused) {
    (void)unused;
    struct ct_block *b = (struct ct_block *)block;
    bool main = b->tid == b->pid;
    uint64_t pointer = b->thread_pointer == CT_OWNER_ATTENTION ? b->former_pointer : b->thread_pointer;
    struct stack_search s = {.address = main ? 0 : pointer, .low = 1, .high = 1};
    ct_os_each_map(find_stack, &s);
    b->home_low = s.low;
    b->home_high = main || s.high == 1 ? s.high : pointer;
    /* A main stack grows down: what lies between it and the next mapping belongs to it. */
    if (s.high - s.low > 1 && main)
        b->home_low = s.below + 1;
    return 0;
}

/* Reading the maps takes more stack than a signal stack may have left: it is done on our own. */
static void learn_home(struct ct_block *b) {
    uint64_t mask = ct_block_mask(b), sp = (uint64_t)__builtin_frame_address(0);
    if (sp > (uint64_t)b && sp <= b->slow_stack)
        search_home((uint64_t)b, 0); /* we are on it already */
    else
        ct_hook_on_stack(b->slow_stack, search_home, (uint64_t)b, 0);
    ct_block_unmask(b, mask);
}

void ct_shadow_learn_home(struct ct_block *b) {
    if (!b->home_high)
        learn_home(b);
}

uint32_t ct_shadow_depth(const struct ct_block *b, const struct ct_shadow *e) {
    const volatile struct ct_stacks *s = b->stacks;
    uint32_t index = ct_stacks_index(b, e), settled, depth;
    do { /* a handler may come between two looks */
        settled = s->settled;
        depth = s->frames + index - settled;
    } while (s->settled != settled);
    if (index >= settled || b->runtime->reports_stacks)
        return depth; /* only listeners get the depth of a settled one */
    depth = 0;
    for (const struct ct_shadow *x = b->base + 1; x < e; x++)
        depth += ct_shadow_is_frame(x);
    return depth;
}

static bool at_home(const struct ct_block *b, uint64_t slot) {
    return slot >= b->home_low && slot < b->home_high;
}

bool ct_shadow_same_stack(struct ct_block *b, uint64_t x, uint64_t y) {
    if (!b->home_high)
        learn_home(b);
    bool home = at_home(b, x);
    if (home != at_home(b, y))
        return false;
    uint64_t distance = x > y ? x - y : y - x;
    return home || distance < FOREIGN_STACK_REACH;
}

bool ct_shadow_at_home(struct ct_block *b, uint64_t slot) {
    ct_shadow_learn_home(b);
    return at_home(b, slot);
}

uint64_t ct_shadow_reach(struct ct_block *b, uint64_t slot) {
    ct_shadow_learn_home(b);
    return at_home(b, slot) ? slot - b->home_low : FOREIGN_STACK_REACH - 1;
}

/* ---- leaving frames ---- */

struct leave_call {
    void (*on_leave)(struct ct_hook_call *call);
    struct ct_hook_call call;
};

static void call_on_leave(void *arg) {
    struct leave_call *l = arg;
    l->on_leave(&l->call);
}

void ct_shadow_notify_leave(struct ct_block *own, const struct ct_shadow *e, uint32_t depth) {
    uint32_t number = ct_shadow_number(e);
    const struct ct_hook_entry *hook = &own->runtime->hooks[number];
    struct leave_call l = {
        .on_leave = hook->listener.on_leave,
        .call = {.size = sizeof l.call,
                 .hook = number,
                 .depth = depth,
                 .function = (void *)hook->function,
                 .return_address = (void *)e->ret,
                 .user = hook->user,
                 .data = e->data},
    };
    if (l.on_leave)
        ct_runtime_call_out(own, call_on_leave, &l);
}

/* Reports that the frame was left without returning. */
static void report_left(struct ct_block *b, const struct ct_shadow *e, uint32_t depth, uint32_t stack) {
    uint32_t number = ct_shadow_number(e);
    if (number == CT_HOOK_NONE)
        return;
    const struct ct_hook_entry *hook = &b->runtime->hooks[number];
    b->counters->left_frames++;
    if (hook->flavor == CT_ACTION_RECORD) {
        ct_stacks_tell(b, stack);
        ct_event_write(b, number, CT_EVENT_EXCEPTION);
    }
    if (hook->flavor == CT_ACTION_LISTEN)
        ct_shadow_notify_leave(b, e, depth);
}

static void release_top(struct ct_block *b) {
    b->top[-1].slot = CT_SLOT_CLAIMED;
    barrier();
    b->top--;
}

void ct_shadow_filled(struct ct_block *b, uint64_t slot) {
    b->top[-1].slot = slot;
}

void ct_shadow_release(struct ct_block *b) {
    release_top(b);
    ct_shadow_cover(b);
}

/* Stubs go on with the events of the running stack. */
void ct_shadow_finish(struct ct_block *b) {
    ct_stacks_trim(b);
    ct_stacks_compact(b); /* where only walks are seen, no call does it */
    ct_shadow_cover(b);
    ct_stacks_tell(b, b->stacks->running);
}

/* Removes the entry; what is above it stays. */
static void make_hole(struct ct_block *b, struct ct_shadow *e) {
    bool settled = e < ct_stacks_region(b);
    b->stacks->frames -= settled && b->stacks->frames;
    e->slot = CT_SLOT_HOLE;
}

static void park(struct ct_block *b, const struct ct_shadow *e) {
    ct_runtime_lock(b->runtime);
    ct_shadow_park(b->runtime, e);
    ct_runtime_unlock(b->runtime);
}

static bool was_recorded(uint64_t event) {
    return event && !(event & 1) && ((const struct ct_event *)event)->timestamp != 0;
}

/* Was its call recorded, but no end of it? Always so unless a stub was abandoned half-way. */
static bool is_open(const struct ct_shadow *e) {
    uint64_t state = e->slot - ct_shadow_place(e);
    if (state == (uint64_t)CT_SLOT_ENTERING)
        return was_recorded(e->data);
    return state != (uint64_t)CT_SLOT_RETURNING || !was_recorded(e->data);
}

void ct_shadow_close(struct ct_block *b, struct ct_shadow *e, bool reused) {
    struct ct_shadow copy = *e;
    bool open = is_open(&copy);
    uint32_t stack = ct_stacks_of(b, e);
    make_hole(b, e);
    if (!reused && !ct_shadow_in_flight(&copy))
        park(b, &copy);
    if (ct_shadow_in_flight(&copy) && copy.data && !was_recorded(copy.data))
        ct_event_abandon(b, copy.data);
    if (open)
        report_left(b, &copy, ct_shadow_depth(b, e), stack);
}

bool ct_shadow_is_above(const struct ct_block *b, const struct ct_shadow *e, uint64_t high) {
    return high && ct_shadow_is_frame(e) && e->slot >= high && at_home(b, high - 8) && at_home(b, e->slot);
}

/* Closes a whole range of places on the stack that `place` belongs to; 0: on any stack. Goes from the newest to
 * `first`. An entry that is only claimed is closed with the frame below it. */
static void close_places(struct ct_block *b, struct ct_shadow *first, uint64_t low, uint64_t high, uint64_t place) {
    struct ct_shadow *e = b->top - 1, *region = ct_stacks_region(b);
    for (; e >= first && !(place && ct_shadow_is_above(b, e, high)); e--, b->stacks->steps++) {
        uint64_t at = ct_shadow_place(e);
        if (ct_shadow_is_frame(e) && at >= low && at < high && (!place || ct_shadow_same_stack(b, at, place)))
            ct_shadow_close(b, e, false);
    }
    for (e = (e > region ? e : region) + 1; e < b->top; e++)
        if (e->slot == CT_SLOT_CLAIMED && e[-1].slot == CT_SLOT_HOLE)
            e->slot = CT_SLOT_HOLE;
}

static bool is_tail_call(const struct ct_shadow *e, uint64_t slot) {
    return ct_frame_of_call(slot) == ct_shadow_resume(e);
}

/* Does the frame stay, when another one begins at its slot? */
static bool is_kept(const struct ct_shadow *e, uint64_t slot) {
    return is_tail_call(e, slot) || !ct_frame_is_taken(slot, e->ret);
}

/* A claimed entry belongs to a stub that a signal handler interrupted, unless the handler jumped away: then the frame
 * below it was left too, or is the current one. */
static bool claimed_is_dead(struct ct_block *b, uint64_t slot) {
    struct ct_shadow *e = b->top - 1;
    while (e >= ct_stacks_region(b) && !ct_shadow_is_frame(e))
        e--;
    if (e < ct_stacks_region(b))
        e = ct_stacks_newest(b, b->stacks->running);
    return e && slot >= ct_shadow_place(e) && ct_shadow_same_stack(b, slot, ct_shadow_place(e));
}

static bool is_left(struct ct_block *b, const struct ct_shadow *e, uint64_t slot) {
    uint64_t place = ct_shadow_place(e);
    if (slot < place || (slot == place && !ct_shadow_in_flight(e) && is_kept(e, slot)))
        return false;
    return slot == place || ct_shadow_same_stack(b, slot, place);
}

/* Frames of the region at or below `slot` are gone, because a new frame starts there. False: some are not. */
static bool close_left_region(struct ct_block *b, uint64_t slot) {
    while (b->top > ct_stacks_region(b)) {
        struct ct_shadow *e = b->top - 1;
        if (e->slot == CT_SLOT_CLAIMED && !claimed_is_dead(b, slot))
            return false;
        if (ct_shadow_is_frame(e)) {
            if (!is_left(b, e, slot))
                return false;
            ct_shadow_close(b, e, slot == ct_shadow_place(e));
        }
        release_top(b);
    }
    return true;
}

/* Closes all such frames of the running stack. */
static void close_left(struct ct_block *b, uint64_t slot) {
    struct ct_shadow *e;
    if (!close_left_region(b, slot))
        return;
    while ((e = ct_stacks_newest(b, b->stacks->running)) && slot >= ct_shadow_place(e) &&
           !(slot == ct_shadow_place(e) && is_kept(e, slot)))
        ct_shadow_close(b, e, slot == ct_shadow_place(e));
    ct_stacks_trim(b);
}

/* A handler that has interrupted a stub is on another stack: its frame may take over the slot of an entry below. */
static void close_reused(struct ct_block *b, uint64_t slot) {
    uint64_t expected = ct_frame_of_call(slot);
    for (struct ct_shadow *e = b->top - 1; e >= ct_stacks_region(b); e--) {
        if (!ct_shadow_is_frame(e) || ct_shadow_place(e) != slot)
            continue;
        if (!ct_shadow_in_flight(e) && ct_shadow_resume(e) == expected)
            expected = e->ret; /* a chain of tail calls, from its end */
        else if (ct_shadow_in_flight(e) || ct_frame_is_taken(slot, e->ret))
            ct_shadow_close(b, e, true);
    }
}

/* Fills a claimed entry. */
static void fill_entry(struct ct_shadow *e, uint64_t slot, uint64_t stub) {
    e->ret = ct_frame_of_call(slot);
    e->stub = stub;
    e->data = 0;
    barrier();
    e->slot = slot;
}

static struct ct_shadow *push_entry(struct ct_block *b, uint64_t slot, uint64_t stub) {
    struct ct_shadow *e = b->top;
    if (e >= b->limit)
        return NULL;
    b->top = e + 1;
    barrier();
    fill_entry(e, slot, stub);
    return e;
}

/* Pushes like the shared code: a handler may come at any instruction, and leave another entry innermost. One
 * instruction claims the entry; NULL: it is not the one below `slot` that was checked. */
static struct ct_shadow *push_fast(struct ct_block *b, uint64_t slot, uint64_t stub) {
    if (slot >= b->top[-1].slot || slot < b->floor || b->top >= b->limit)
        return NULL;
    struct ct_shadow *e = (struct ct_shadow *)__atomic_fetch_add((uint64_t *)&b->top, sizeof *e, __ATOMIC_RELAXED);
    if (slot >= e[-1].slot || slot < b->floor || e >= b->limit) {
        b->top = e;
        return NULL;
    }
    fill_entry(e, slot, stub);
    return e;
}

struct ct_shadow *ct_shadow_enter(struct ct_block *b, uint64_t slot, uint64_t stub) {
    struct ct_shadow *fast = push_fast(b, slot, stub);
    if (fast)
        return fast;
    uint64_t mask = ct_block_mask(b);
    if (ct_stacks_run(b, slot)) {
        close_left(b, slot);
        ct_stacks_compact(b);
    } else {
        (void)close_left_region(b, slot);
        close_reused(b, slot);
    }
    ct_shadow_cover(b); /* what is pushed is not bare */
    struct ct_shadow *e = push_entry(b, slot, stub);
    if (e)
        ct_stacks_extend(b, slot);
    ct_stacks_tell(b, b->stacks->running);
    ct_block_unmask(b, mask);
    return e;
}

/* ---- returning ---- */

/* Slot and stub must match: a slot that was left on one thread may be in use by another frame on the next. */
static bool returns_to(const struct ct_shadow *e, uint64_t slot, uint64_t resume) {
    return e->slot == slot && ct_shadow_resume(e) == resume;
}

/* A coroutine that comes back on another thread than the one it was called on. */
static bool take_from_others(struct ct_block *own, uint64_t slot, uint64_t resume, struct ct_shadow *found) {
    for (struct ct_block *b = own->runtime->blocks; b; b = b->next) {
        if (b == own || !b->in_use)
            continue;
        for (struct ct_shadow *e = b->top - 1; e > b->base; e--) {
            if (!returns_to(e, slot, resume))
                continue;
            *found = *e;
            uint64_t expected = slot;
            if (__atomic_compare_exchange_n(&e->slot, &expected, CT_SLOT_HOLE, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED))
                return true;
        }
    }
    return false;
}

static struct ct_shadow *find_in_region(struct ct_block *b, uint64_t slot, uint64_t resume) {
    for (struct ct_shadow *e = b->top - 1; e >= ct_stacks_region(b); e--, b->stacks->steps++)
        if (returns_to(e, slot, resume))
            return e;
    return NULL;
}

/* Entries above `e` that its return shows to be left: same stack, deeper. */
static void close_above(struct ct_block *b, struct ct_shadow *e, uint64_t slot) {
    for (struct ct_shadow *x = b->top - 1; x > e && x >= ct_stacks_region(b); x--) {
        if (x->slot == CT_SLOT_CLAIMED)
            x->slot = CT_SLOT_HOLE;
        else if (ct_shadow_is_frame(x) && ct_shadow_place(x) < slot &&
                 ct_shadow_same_stack(b, ct_shadow_place(x), slot))
            ct_shadow_close(b, x, false);
    }
}

/* Closes deeper entries in the chain of a settled one. */
static void close_deeper(struct ct_block *b, const struct ct_shadow *e, uint64_t slot) {
    uint32_t stack = ct_stacks_of(b, e);
    struct ct_shadow *x;
    while ((x = ct_stacks_newest(b, stack)) && x != e && ct_shadow_place(x) < slot)
        ct_shadow_close(b, x, false);
}

/* A handler may have changed the stacks between a stub's look at them and its claim: then the stub's entry is in the
 * chain of another stack. */
static struct ct_shadow *find_astray(struct ct_block *b, uint64_t slot, uint64_t resume) {
    for (struct ct_shadow *e = ct_stacks_region(b) - 1; e > b->base; e--)
        if (returns_to(e, slot, resume))
            return e;
    return NULL;
}

/* Finds an entry of this thread that is not the innermost one. */
static struct ct_shadow *find_own(struct ct_block *b, uint64_t slot, uint64_t resume) {
    struct ct_shadow *e = find_in_region(b, slot, resume);
    if (!e && ct_stacks_run(b, slot))
        e = find_in_region(b, slot, resume);
    if (e) {
        close_above(b, e, slot);
        return e;
    }
    if ((e = ct_stacks_settled(b, slot, resume)))
        close_deeper(b, e, slot);
    else
        e = find_astray(b, slot, resume);
    return e;
}

/* Finds a frame that seemed to be left, or was called on another thread. */
static bool find_elsewhere(struct ct_block *b, uint64_t slot, uint64_t resume, struct ct_shadow *found) {
    struct ct_shadow parked;
    ct_runtime_lock(b->runtime);
    bool ok = unpark(b->runtime, slot, resume, &parked);
    /* a frame that is still open somewhere is newer than one that was left */
    if (take_from_others(b, slot, resume, found))
        ok = true;
    else if (ok)
        *found = parked;
    ct_runtime_unlock(b->runtime);
    return ok;
}

/* Leaves the innermost entry, like the shared code: it is in flight before it is released, so a handler does not touch
 * it. */
static bool leave_fast(struct ct_block *b, uint64_t slot, uint64_t resume, struct ct_shadow *found, uint32_t *depth) {
    struct ct_shadow *e = b->top - 1;
    uint64_t expected = slot;
    if (!returns_to(e, slot, resume))
        return false;
    *found = *e;
    e->data = 0;
    if (!__atomic_compare_exchange_n(&e->slot, &expected, slot + (uint64_t)CT_SLOT_RETURNING, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return false;
    if (b->top != e + 1) { /* a handler came, and it is no longer the innermost one */
        e->data = found->data;
        e->slot = slot;
        return false;
    }
    *depth = ct_shadow_depth(b, e);
    release_top(b);
    ct_shadow_cover(b);
    return true;
}

bool ct_shadow_leave(struct ct_block *b, uint64_t slot, uint64_t resume, struct ct_shadow *found, uint32_t *depth) {
    if (leave_fast(b, slot, resume, found, depth))
        return true;
    uint64_t mask = ct_block_mask(b);
    struct ct_shadow *e = find_own(b, slot, resume);
    bool ok = true;
    if (e) {
        *found = *e;
        *depth = ct_shadow_depth(b, e);
        make_hole(b, e);
    } else {
        ok = find_elsewhere(b, slot, resume, found);
        *depth = ct_shadow_depth(b, b->top);
    }
    ct_shadow_finish(b);
    ct_block_unmask(b, mask);
    return ok;
}

void ct_shadow_close_range(struct ct_block *b, uint64_t low, uint64_t high) {
    uint64_t mask = ct_block_mask(b);
    close_places(b, b->base + 1, low, high, 0);
    ct_shadow_finish(b);
    ct_block_unmask(b, mask);
}

/* The frame returns, and nobody will see it. */
static void end_unseen(struct ct_block *b, struct ct_shadow *e) {
    uint32_t number = ct_shadow_number(e), stack = ct_stacks_of(b, e);
    make_hole(b, e);
    if (number == CT_HOOK_NONE || b->runtime->hooks[number].flavor != CT_ACTION_RECORD)
        return;
    ct_stacks_tell(b, stack);
    ct_event_write(b, number, CT_EVENT_RETURN);
}

/* Does the frame that begins at `slot` take the entry's place by a tail call? `expected`: what the newer frames of a
 * chain return to; 0 for the newest. A frame that has returned unseen has no stub address in its slot. */
static bool is_continued(const struct ct_shadow *e, uint64_t slot, uint64_t *expected) {
    if (e->slot != slot || ct_shadow_resume(e) != (*expected ? *expected : ct_frame_of_call(slot)))
        return false;
    *expected = e->ret;
    return true;
}

void ct_shadow_return_range(struct ct_block *b, uint64_t low, uint64_t high) {
    uint64_t mask = ct_block_mask(b), expected = 0;
    for (struct ct_shadow *e = b->top - 1; e > b->base; e--) {
        if (!ct_shadow_is_frame(e) || ct_shadow_in_flight(e) || e->slot < low || e->slot > high ||
            !ct_shadow_same_stack(b, e->slot, low))
            continue;
        if (!is_continued(e, high, &expected))
            end_unseen(b, e);
    }
    ct_shadow_finish(b);
    ct_block_unmask(b, mask);
}

void ct_shadow_prune(struct ct_block *b, uint64_t sp) {
    uint64_t mask = ct_block_mask(b);
    close_places(b, b->base + 1, 0, sp, sp);
    uint32_t stack = ct_stacks_find(b, sp);
    struct ct_shadow *e;
    while ((e = ct_stacks_newest(b, stack)) && ct_shadow_place(e) < sp)
        ct_shadow_close(b, e, false);
    ct_shadow_finish(b);
    ct_block_unmask(b, mask);
}

void ct_shadow_arrive(struct ct_block *b, uint64_t slot) {
    if (slot < b->top[-1].slot && slot >= b->floor)
        return;
    uint64_t mask = ct_block_mask(b);
    if (ct_stacks_run(b, slot))
        ct_stacks_extend(b, slot);
    ct_stacks_tell(b, b->stacks->running);
    ct_block_unmask(b, mask);
}

void ct_shadow_settle(struct ct_block *b, uint64_t slot) {
    uint64_t mask = ct_block_mask(b);
    if (ct_stacks_run(b, slot))
        close_left(b, slot);
    else
        (void)close_left_region(b, slot);
    ct_shadow_finish(b);
    ct_block_unmask(b, mask);
}

/* ---- unwinders ---- */

uint64_t ct_shadow_real_return(const struct ct_shadow *e) {
    while (e[-1].slot == e->slot && e->ret == ct_shadow_resume(&e[-1]))
        e--;
    return e->ret;
}

uint64_t ct_shadow_resume_in(struct ct_block *b, uint64_t slot, uint64_t now) {
    struct ct_shadow *e = b->top - 1;
    while (e >= ct_stacks_region(b) && e->slot != slot)
        e--;
    if (e < ct_stacks_region(b))
        e = ct_stacks_settled(b, slot, 0);
    return e && ct_shadow_real_return(e) == now ? ct_shadow_resume(e) : now;
}

void ct_shadow_give_up(struct ct_block *b) {
    uint64_t mask = ct_block_mask(b);
    struct ct_shadow *stub = b->top - 1, *first = ct_stacks_region(b);
    while (stub >= first && !ct_shadow_in_flight(stub) && stub->slot != CT_SLOT_CLAIMED)
        stub--;
    for (struct ct_shadow *e = b->top - 1; stub >= first && e > stub; e--) {
        if (!ct_shadow_is_frame(e))
            continue;
        park(b, e); /* in case it is another stack's after all */
        end_unseen(b, e);
    }
    ct_shadow_finish(b);
    ct_block_unmask(b, mask);
}
