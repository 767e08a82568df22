/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of a followed thread: coroutines that take turns.
 *
 * The address of its return address shows which stack a call or return is on. The newest frames of the running stack
 * are in the thread's array, where the loops of events.c find them; all others are in chains (chains.h). A slot close
 * to the running stack's frames belongs to that stack; the thread's own stack is known from the maps; any other slot is
 * looked up by address among the stacks with open frames. If a large frame is mistaken for another stack, no harm is
 * done: its depth continues from the frame that ran.
 *
 * Owner: the thread that has the claim of the thread's events (events.c). */
#include "stalk/stacks.h"
#include "hook/stack_order.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/thread.h"

#define NONE            UINT32_MAX
#define RUNNING_REACH   (16u << 10)
#define SUSPENDED_REACH (4u << 10)
#define FIRST_REACH     (64u << 10) /* until there is a second stack */
#define REFILL          32u

/* ---- the thread's own stack ---- */

struct stack_search {
    uint64_t address; /* 0: the main thread's stack, by its name */
    uint64_t low, high;
};

static int match_stack_map(void *arg, const struct ct_os_map *map) {
    struct stack_search *s = arg;
    bool found = s->address ? map->end > s->address : map->role == CT_OS_MAP_STACK;
    if (found && map->start <= (s->address ? s->address : map->start)) {
        s->low = map->start;
        s->high = s->address ? s->address : map->end;
    }
    return found;
}

/* The main thread's stack may grow to its limit. */
static void learn_home(struct stalk_stacks *s, const struct stalk_thread *t) {
    const uint64_t main_size = 8u << 20;
    if (t->tid != ct_os_gettid())
        return; /* another thread handles its end */
    bool main = t->tid == ct_os_getpid();
    struct stack_search search = {.address = main ? 0 : ct_os_thread_pointer()};
    ct_os_each_map(match_stack_map, &search);
    if (main && search.high && search.high - search.low < main_size)
        search.low = search.high - main_size;
    s->home_low = search.low;
    s->home_size = search.high - search.low;
}

static bool at_home(const struct stalk_stacks *s, uint64_t slot) {
    return slot - s->home_low < s->home_size;
}

/* ---- the list by address ---- */

static uint32_t place_in_order(const struct stalk_stacks *s, uint64_t slot) {
    const struct ct_stack_pool pool = {s->pool, sizeof s->pool[0]};
    uint64_t steps = 0;
    return ct_stack_order_find(s->order, s->count, pool, slot, &steps);
}

static void list_stack(struct stalk_stacks *s, uint32_t stack) {
    ct_stack_order_add(s->order, &s->count, place_in_order(s, s->pool[stack].high), stack);
    s->pool[stack].listed = true;
}

static void unlist_stack(struct stalk_stacks *s, uint32_t stack) {
    ct_stack_order_remove(s->order, &s->count, place_in_order(s, s->pool[stack].high), stack);
    s->pool[stack].listed = false;
}

static uint32_t new_stack(struct stalk_stacks *s, uint64_t slot) {
    uint32_t stack = s->free;
    if (stack != NONE)
        s->free = s->pool[stack].next;
    else if (s->used < STALK_STACKS)
        stack = s->used++;
    else
        return NONE;
    s->pool[stack] = (struct stalk_stack){.high = slot};
    if (at_home(s, slot))
        s->home = stack;
    else
        list_stack(s, stack);
    return stack;
}

static void forget_stack(struct stalk_stacks *s, uint32_t stack) {
    if (s->pool[stack].listed)
        unlist_stack(s, stack);
    if (s->home == stack)
        s->home = NONE;
    s->pool[stack].next = s->free;
    s->free = stack;
}

/* ---- finding the stack of a slot ---- */

static uint64_t low_of(const struct stalk_stacks *s, const struct stalk_run *r, uint32_t stack) {
    if (stack == s->running && r->count)
        return r->frames[r->count - 1];
    uint32_t newest = s->chains.stacks[stack].newest;
    return newest ? s->chains.nodes[newest].value : s->pool[stack].high;
}

static uint32_t find_stack_at(const struct stalk_stacks *s, const struct stalk_run *r, uint64_t slot) {
    if (at_home(s, slot))
        return s->home;
    uint32_t at = place_in_order(s, slot);
    if (at < s->count) {
        uint32_t above = s->order[at];
        uint64_t low = low_of(s, r, above);
        if (slot >= low || low - slot < (above == s->running ? RUNNING_REACH : SUSPENDED_REACH))
            return above;
    }
    if (at > 0) {
        uint32_t below = s->order[at - 1];
        if (slot - s->pool[below].high < (below == s->running ? RUNNING_REACH : SUSPENDED_REACH))
            return below;
    }
    return NONE;
}

/* As long as there is only one stack, what is near is on it. */
static bool is_near(const struct stalk_run *r, uint64_t slot) {
    if (!r->count)
        return true;
    uint64_t low = r->frames[r->count - 1], high = r->frames[0];
    return slot - low <= high - low || low - slot < FIRST_REACH || slot - high < FIRST_REACH;
}

static struct stalk_stacks *make_stacks(struct stalk_thread *t, const struct stalk_run *r) {
    struct stalk_stacks *s = ct_os_is_silent() ? NULL : ct_os_alloc(sizeof *s, CT_OS_READ | CT_OS_WRITE);
    if (!s)
        return NULL;
    s->home = s->free = NONE;
    learn_home(s, t);
    s->running = new_stack(s, r->frames[0]);
    return t->stacks = s;
}

/* ---- switching ---- */

void ct_stalk_stacks_refill(struct stalk_thread *t, struct stalk_run *r) {
    struct stalk_stacks *s = t->stacks;
    uint64_t slots[REFILL];
    uint32_t n = 0;
    if (!s || r->count)
        return;
    while (n < REFILL && stalk_chain_pop(&s->chains, s->running, &slots[n]))
        n++;
    r->base_depth -= (int32_t)n;
    while (n-- > 0)
        r->frames[r->count++] = slots[n];
}

static void suspend_stack(struct stalk_stacks *s, struct stalk_run *r) {
    struct stalk_stack *stack = &s->pool[s->running];
    int32_t depth = r->base_depth + (int32_t)r->count;
    for (uint32_t i = 0; i < r->count; i++)
        if (!stalk_chain_push(&s->chains, s->running, r->frames[i]))
            break; /* the ends of these frames will not be seen */
    stack->depth = depth;
    r->count = 0;
    if (!s->chains.stacks[s->running].count)
        forget_stack(s, s->running);
}

enum stalk_change ct_stalk_stacks_run(struct stalk_thread *t, struct stalk_run *r, uint64_t slot, uint32_t *id) {
    struct stalk_stacks *s = t->stacks;
    if (!s && (is_near(r, slot) || !(s = make_stacks(t, r))))
        return STALK_SAME_STACK;
    uint32_t stack = find_stack_at(s, r, slot);
    bool fresh = stack == NONE;
    if (stack == s->running) {
        if (slot > s->pool[stack].high)
            s->pool[stack].high = slot;
        return STALK_SAME_STACK;
    }
    if (fresh && s->free == NONE && s->used == STALK_STACKS)
        return STALK_SAME_STACK; /* too many stacks to tell apart */
    int32_t depth = r->base_depth + (int32_t)r->count;
    suspend_stack(s, r);
    if (fresh) {
        stack = new_stack(s, slot);
        s->pool[stack].depth = depth;
    }
    s->running = *id = stack;
    r->base_depth = s->pool[stack].depth;
    ct_stalk_stacks_refill(t, r);
    return fresh ? STALK_NEW_STACK : STALK_OTHER_STACK;
}
