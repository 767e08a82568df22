/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of a thread: see stacks.h. Owner: the block's thread, with signals blocked. */
#include "hook/stacks.h"
#include "hook/stack_order.h"
#include "os/os.h"

/* Slots on a stack that is not the thread's own count as the same stack when they are this close: */
#define RUNNING_REACH   (16u << 10) /* to frames of the running stack */
#define SUSPENDED_REACH (4u << 10)  /* to frames of a stack that may go on now */
#define FIRST_REACH     (64u << 10) /* before anything is known about stacks */

#define REVIVED         4u  /* this many frames of a stack that goes on return to where stubs find them */
#define CHAIN_LIMIT     64u /* and this many more, if they are a chain of tail calls */
#define LEAST_GROWTH    128u

#define barrier()       __asm__ volatile("" ::: "memory")

/* ---- memory ---- */

size_t ct_stacks_bytes(size_t entries) {
    return sizeof(struct ct_stacks) +
           entries * (sizeof(struct ct_stack) + sizeof(struct ct_stack_link) + 2 * sizeof(uint32_t));
}

void ct_stacks_place(struct ct_block *b, void *memory, size_t entries) {
    struct ct_stacks *s = memory;
    b->stacks = s;
    s->pool = (struct ct_stack *)(s + 1);
    s->links = (struct ct_stack_link *)(s->pool + entries);
    s->order = (uint32_t *)(s->links + entries);
    s->moved = s->order + entries;
}

static uint32_t new_stack(struct ct_stacks *s, uint64_t slot) {
    uint32_t n = s->free;
    if (n != CT_NO_STACK)
        s->free = s->pool[n].next;
    else
        n = s->used++; /* there are no more stacks than entries, and the running one */
    s->pool[n] = (struct ct_stack){.high = slot, .id = s->next_id++, .known = 1};
    return n;
}

void ct_stacks_begin(struct ct_block *b) {
    struct ct_stacks *s = b->stacks;
    s->home = s->free = CT_NO_STACK;
    s->known = s->count = s->used = s->next_id = s->frames = 0;
    s->settled = 1;
    s->compact_at = LEAST_GROWTH;
    s->running = new_stack(s, 0);
    b->reported_stack = 0;
    b->bare = NULL;
    b->floor = ~0ull; /* unknown until the first call */
}

static uint32_t top_index(const struct ct_block *b) {
    return ct_stacks_index(b, b->top);
}

uint32_t ct_stacks_of(const struct ct_block *b, const struct ct_shadow *e) {
    const struct ct_stacks *s = b->stacks;
    uint32_t i = ct_stacks_index(b, e);
    return i < s->settled && s->links[i].stack != CT_NO_STACK ? s->links[i].stack : s->running;
}

/* ---- the list by address ---- */

/* Index of the first stack that reaches up to `slot`. */
static uint32_t place_in_order(struct ct_stacks *s, uint64_t slot) {
    const struct ct_stack_pool pool = {s->pool, sizeof s->pool[0]};
    return ct_stack_order_find(s->order, s->count, pool, slot, &s->steps);
}

static void list_stack(struct ct_stacks *s, uint32_t stack) {
    ct_stack_order_add(s->order, &s->count, place_in_order(s, s->pool[stack].high), stack);
    s->pool[stack].listed = 1;
}

static void forget_stack(struct ct_stacks *s, uint32_t stack) {
    struct ct_stack *t = &s->pool[stack];
    if (t->listed)
        ct_stack_order_remove(s->order, &s->count, place_in_order(s, t->high), stack);
    if (s->home == stack)
        s->home = CT_NO_STACK;
    t->listed = t->known = 0;
    t->next = s->free;
    s->free = stack;
}

/* ---- chains ---- */

struct ct_shadow *ct_stacks_newest(struct ct_block *b, uint32_t stack) {
    struct ct_stacks *s = b->stacks;
    if (stack == CT_NO_STACK)
        return NULL;
    struct ct_stack *t = &s->pool[stack];
    while (t->newest && !ct_shadow_is_frame(b->base + t->newest)) {
        t->newest = s->links[t->newest].older;
        s->steps++;
    }
    return t->newest ? b->base + t->newest : NULL;
}

struct ct_shadow *ct_stacks_older(const struct ct_block *b, const struct ct_shadow *e) {
    struct ct_stacks *s = b->stacks;
    uint32_t i = ct_stacks_index(b, e);
    do {
        i = s->links[i].older;
        s->steps++;
    } while (i && !ct_shadow_is_frame(b->base + i));
    return i ? b->base + i : NULL;
}

static void link_entry(struct ct_stacks *s, uint32_t i, uint32_t stack) {
    s->links[i] = (struct ct_stack_link){s->pool[stack].newest, stack};
    s->pool[stack].newest = i;
}

/* Entry `i` is about to be released: there is no newer one. */
static void unlink_entry(struct ct_block *b, uint32_t i) {
    struct ct_stacks *s = b->stacks;
    uint32_t stack = s->links[i].stack;
    if (stack == CT_NO_STACK)
        return;
    if (s->pool[stack].newest == i)
        s->pool[stack].newest = s->links[i].older;
    if (stack != s->running && s->pool[stack].known && !ct_stacks_newest(b, stack))
        forget_stack(s, stack);
}

/* ---- which stack ---- */

/* The innermost frame of the region; NULL: none. */
static struct ct_shadow *region_frame(struct ct_block *b) {
    struct ct_shadow *e = b->top - 1, *first = ct_stacks_region(b);
    while (e >= first && !ct_shadow_is_frame(e))
        e--;
    return e >= first ? e : NULL;
}

static uint64_t low_of(struct ct_block *b, uint32_t stack) {
    struct ct_shadow *e = stack == b->stacks->running ? region_frame(b) : NULL;
    if (!e)
        e = ct_stacks_newest(b, stack);
    return e ? ct_shadow_place(e) : b->stacks->pool[stack].high;
}

static bool at_home(const struct ct_block *b, uint64_t slot) {
    return slot >= b->home_low && slot < b->home_high;
}

/* The running stack may be any; from now on it is home or listed. */
static void know_home(struct ct_block *b) {
    struct ct_stacks *s = b->stacks;
    if (s->known)
        return;
    ct_shadow_learn_home(b);
    if (!s->pool[s->running].high)
        return; /* nothing was seen on it yet */
    s->known = 1;
    if (at_home(b, s->pool[s->running].high))
        s->home = s->running;
    else
        list_stack(s, s->running);
}

uint32_t ct_stacks_find(struct ct_block *b, uint64_t slot) {
    struct ct_stacks *s = b->stacks;
    know_home(b);
    if (at_home(b, slot))
        return s->home;
    uint32_t at = place_in_order(s, slot);
    if (at < s->count) {
        uint32_t above = s->order[at], reach = above == s->running ? RUNNING_REACH : SUSPENDED_REACH;
        uint64_t low = low_of(b, above);
        if (slot >= low || low - slot < reach)
            return above;
    }
    if (at > 0) {
        uint32_t below = s->order[at - 1], reach = below == s->running ? RUNNING_REACH : SUSPENDED_REACH;
        if (slot - s->pool[below].high < reach)
            return below;
    }
    return CT_NO_STACK;
}

struct ct_shadow *ct_stacks_settled(struct ct_block *b, uint64_t slot, uint64_t resume) {
    uint32_t stack = ct_stacks_find(b, slot);
    struct ct_shadow *e = ct_stacks_newest(b, stack);
    for (; e && ct_shadow_place(e) <= slot; e = ct_stacks_older(b, e))
        if (e->slot == slot && (!resume || ct_shadow_resume(e) == resume))
            return e;
    return NULL;
}

/* ---- the bar ---- */

static void release_top(struct ct_block *b) {
    b->top[-1].slot = CT_SLOT_CLAIMED;
    barrier();
    b->top--;
}

/* One entry after the limit is reserved for the bar. The thread's own stack needs no bar if nothing is below its
 * frames. Another stack does: the bar shows it when a frame of the thread's own stack comes next. */
static void put_bar(struct ct_block *b) {
    struct ct_stacks *s = b->stacks;
    bool nothing = b->top == b->base + 1 && (!s->known || s->running == s->home);
    if (s->settled != top_index(b) || nothing || b->top > b->limit)
        return;
    s->links[s->settled++] = (struct ct_stack_link){0, CT_NO_STACK};
    b->top++;
    barrier();
    b->top[-1].slot = CT_SLOT_HOLE;
}

void ct_stacks_trim(struct ct_block *b) {
    struct ct_stacks *s = b->stacks;
    while (b->top[-1].slot == CT_SLOT_HOLE) {
        if (top_index(b) == s->settled)
            unlink_entry(b, --s->settled);
        release_top(b);
        s->steps++;
    }
    put_bar(b);
}

/* ---- switching ---- */

/* The region's frames join the chain of their stack. */
static bool settle_region(struct ct_block *b) {
    struct ct_stacks *s = b->stacks;
    for (struct ct_shadow *e = ct_stacks_region(b); e < b->top; e++, s->steps++)
        if (ct_shadow_in_flight(e) || e->slot == CT_SLOT_CLAIMED)
            return false;
    for (uint32_t i = s->settled, end = top_index(b); i < end; i++, s->steps++) {
        if (ct_shadow_is_frame(b->base + i)) {
            link_entry(s, i, s->running);
            s->frames++;
        } else {
            s->links[i] = (struct ct_stack_link){0, CT_NO_STACK};
        }
    }
    s->settled = top_index(b);
    return true;
}

/* Frames that will return next come back into the region: no other thread looks for them, since their stack runs
 * here. */
static void revive_frames(struct ct_block *b) {
    struct ct_stacks *s = b->stacks;
    struct ct_shadow *frames[CHAIN_LIMIT], *e = ct_stacks_newest(b, s->running);
    uint32_t n = 0;
    while (e && n < CHAIN_LIMIT && (n < REVIVED || e->slot == frames[n - 1]->slot)) {
        frames[n++] = e;
        e = ct_stacks_older(b, e);
    }
    if (!n || b->top + n + 1 >= b->limit || !b->runtime->reports_stacks)
        return; /* listeners get the depths of frames, which follow from their places */
    s->pool[s->running].newest = s->links[ct_stacks_index(b, frames[n - 1])].older;
    while (n-- > 0) {
        struct ct_shadow *to = b->top;
        s->links[ct_stacks_index(b, frames[n])].stack = CT_NO_STACK;
        b->top = to + 1;
        barrier();
        to->ret = frames[n]->ret;
        to->stub = frames[n]->stub;
        to->data = frames[n]->data;
        barrier();
        to->slot = frames[n]->slot;
        frames[n]->slot = CT_SLOT_HOLE;
        s->frames -= s->frames != 0;
        s->steps++;
    }
}

static void set_floor(struct ct_block *b) {
    struct ct_stacks *s = b->stacks;
    if (s->running == s->home) {
        b->floor = b->home_low;
        return;
    }
    uint64_t low = low_of(b, s->running), reach = s->known ? RUNNING_REACH : FIRST_REACH;
    b->floor = low > reach ? low - reach : 8;
    uint32_t at = s->known ? place_in_order(s, s->pool[s->running].high) : 0;
    if (at > 0 && s->pool[s->order[at - 1]].high >= b->floor)
        b->floor = s->pool[s->order[at - 1]].high + 8;
}

static bool change_to(struct ct_block *b, uint32_t stack, uint64_t slot) {
    struct ct_stacks *s = b->stacks;
    uint32_t before = s->running;
    ct_shadow_cover_all(b);
    if (!settle_region(b))
        return false;
    bool fresh = stack == CT_NO_STACK;
    if (fresh)
        stack = new_stack(s, slot);
    s->running = stack;
    if (!ct_stacks_newest(b, before))
        forget_stack(s, before);
    if (fresh && at_home(b, slot))
        s->home = stack;
    else if (fresh)
        list_stack(s, stack);
    ct_stacks_trim(b);
    revive_frames(b);
    return true;
}

bool ct_stacks_run(struct ct_block *b, uint64_t slot) {
    struct ct_stacks *s = b->stacks;
    if (!s->pool[s->running].high) {
        s->pool[s->running].high = slot;
        return true;
    }
    uint32_t stack = ct_stacks_find(b, slot);
    if (stack == s->running)
        return true;
    if (!change_to(b, stack, slot))
        return false;
    set_floor(b);
    return true;
}

void ct_stacks_extend(struct ct_block *b, uint64_t slot) {
    struct ct_stack *t = &b->stacks->pool[b->stacks->running];
    if (slot > t->high)
        t->high = slot;
    set_floor(b);
}

/* ---- holes ---- */

/* A frame that is in no chain was moved, and put back by a stub that a handler had interrupted. */
static bool is_kept(const struct ct_block *b, uint32_t i) {
    return ct_shadow_is_frame(b->base + i) && b->stacks->links[i].stack != CT_NO_STACK;
}

/* Frames below `end` move down; `moved` holds their stacks, by their new place. Returns where the next one would go. */
static struct ct_shadow *move_down(struct ct_block *b, uint32_t end) {
    struct ct_stacks *s = b->stacks;
    struct ct_shadow *to = b->base + 1;
    for (uint32_t i = 1; i < end; i++, s->steps++) {
        if (!is_kept(b, i))
            continue;
        s->moved[ct_stacks_index(b, to)] = s->links[i].stack;
        *to++ = b->base[i];
    }
    return to;
}

static void chain_anew(struct ct_stacks *s, uint32_t end) {
    for (uint32_t i = 0; i < s->used; i++)
        s->pool[i].newest = 0; /* of free stacks too: they are initialized again */
    for (uint32_t i = 1; i < end; i++)
        link_entry(s, i, s->moved[i]);
}

static void make_dense(struct ct_block *b) {
    struct ct_stacks *s = b->stacks;
    uint32_t end = s->settled;
    ct_runtime_lock(b->runtime);
    struct ct_shadow *to = move_down(b, end);
    s->settled = ct_stacks_index(b, to);
    s->frames = s->settled - 1;
    chain_anew(s, s->settled);
    if (end > 1) { /* the bar: there was one, so there is a place for it */
        s->links[s->settled++] = (struct ct_stack_link){0, CT_NO_STACK};
        *to++ = (struct ct_shadow){.slot = CT_SLOT_HOLE};
    }
    for (struct ct_shadow *e = b->base + end; e < b->top; e++)
        if (e->slot != CT_SLOT_HOLE)
            *to++ = *e;
    while (b->top > to)
        release_top(b);
    ct_runtime_unlock(b->runtime);
    for (uint32_t i = 0; i < s->count;) /* stacks whose frames have all moved to other threads */
        if (s->order[i] != s->running && !s->pool[s->order[i]].newest)
            forget_stack(s, s->order[i]);
        else
            i++;
}

void ct_stacks_compact(struct ct_block *b) {
    struct ct_stacks *s = b->stacks;
    uint32_t entries = top_index(b);
    uint32_t holes = s->settled - 1 - (s->frames < s->settled ? s->frames : s->settled - 1);
    bool full = b->top >= b->limit && holes > entries / 8;
    if (entries < s->compact_at && !full)
        return;
    for (struct ct_shadow *e = ct_stacks_region(b); e < b->top; e++)
        if (ct_shadow_in_flight(e) || e->slot == CT_SLOT_CLAIMED)
            return; /* its stub knows its place */
    ct_shadow_cover_all(b);
    make_dense(b);
    s->compact_at = 2 * top_index(b) + LEAST_GROWTH;
}

/* ---- reports to the reader ---- */

void ct_stacks_tell(struct ct_block *b, uint32_t stack) {
    uint32_t id = b->stacks->pool[stack].id;
    if (id == b->reported_stack || !b->runtime->reports_stacks)
        return;
    b->reported_stack = id;
    ct_event_write(b, id, CT_EVENT_STACK);
}
