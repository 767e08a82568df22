/* SPDX-License-Identifier: Apache-2.0 */
/* Open calls of stacks other than the thread's first one: coroutines, handlers on stacks of their own.
 *
 * On a stack, the last call that began ends first, so each has a stack of its own here, and nothing is ever searched.
 * In the trace, such a stack has a group of depths (abi/atf.h) to itself while calls are open on it: the depth of an
 * event identifies both its stack and its place there. A stack that is deeper than a group gets another group. Numbers
 * and hooks come from the target, so memory is bounded; calls that do not fit are not kept as open. Owner: the drain
 * thread. */
#include "abi/atf.h"
#include "drain/drain.h"
#include <stdlib.h>

#define FIRST_BUCKETS  64u
#define FIRST_CAPACITY 8u
/* Memory of a stack besides its entries, measured in entries. */
#define OVERHEAD 16u

static struct ct_drain_stack **bucket_of(const struct ct_drain_stacks *s, uint32_t id) {
    return &s->buckets[id & (s->bucket_count - 1)];
}

static struct ct_drain_stack *find_stack(const struct ct_drain_stacks *s, uint32_t id) {
    struct ct_drain_stack *stack = s->bucket_count ? *bucket_of(s, id) : NULL;
    while (stack && stack->id != id)
        stack = stack->next;
    return stack;
}

void ct_drain_stacks_run(struct ct_drain_thread *t, uint32_t id) {
    t->stacks.running = id;
    t->stacks.now = id ? find_stack(&t->stacks, id) : NULL;
}

/* ---- memory ---- */

static bool grow_buckets(struct ct_drain_stacks *s) {
    uint32_t count = s->bucket_count ? 2 * s->bucket_count : FIRST_BUCKETS;
    struct ct_drain_stack **buckets = calloc(count, sizeof *buckets), *next;
    if (!buckets)
        return false;
    for (uint32_t i = 0; i < s->bucket_count; i++)
        for (struct ct_drain_stack *stack = s->buckets[i]; stack; stack = next) {
            next = stack->next;
            stack->next = buckets[stack->id & (count - 1)];
            buckets[stack->id & (count - 1)] = stack;
        }
    free(s->buckets);
    s->buckets = buckets;
    s->bucket_count = count;
    return true;
}

static void link_stack(struct ct_drain_stacks *s, struct ct_drain_stack *stack) {
    struct ct_drain_stack **bucket = bucket_of(s, stack->id);
    stack->next = *bucket;
    *bucket = stack;
    s->count++;
}

static void unlink_stack(struct ct_drain_stacks *s, struct ct_drain_stack *stack) {
    struct ct_drain_stack **at = bucket_of(s, stack->id);
    while (*at != stack)
        at = &(*at)->next;
    *at = stack->next;
    s->count--;
}

/* A stack with a group that is not in use. */
static struct ct_drain_stack *new_stack(struct ct_drain *d, struct ct_drain_stacks *s) {
    struct ct_drain_stack *stack = s->free;
    if (stack) {
        s->free = stack->next;
        return stack;
    }
    if (s->groups >= ATF_DEPTH_GROUPS || !ct_drain_take_room(d, OVERHEAD))
        return NULL;
    if (!(stack = calloc(1, sizeof *stack))) {
        ct_drain_give_room(d, OVERHEAD);
        return NULL;
    }
    stack->group = s->groups++;
    return stack;
}

/* Opens a group for the next calls of the running stack; NULL: out of memory or groups. */
static struct ct_drain_stack *open_group(struct ct_drain *d, struct ct_drain_stacks *s) {
    if (s->count >= s->bucket_count && !grow_buckets(s))
        return NULL;
    struct ct_drain_stack *stack = new_stack(d, s), *below = s->now;
    if (!stack)
        return NULL;
    if (below)
        unlink_stack(s, below);
    stack->below = below;
    stack->id = s->running;
    stack->count = 0;
    link_stack(s, stack);
    return s->now = stack;
}

static void close_group(struct ct_drain_stacks *s, struct ct_drain_stack *stack) {
    struct ct_drain_stack *below = stack->below;
    unlink_stack(s, stack);
    stack->next = s->free;
    s->free = stack;
    if (below)
        link_stack(s, below);
    s->now = below;
}

static bool grow_stack(struct ct_drain *d, struct ct_drain_stack *stack) {
    if (stack->count < stack->capacity)
        return true;
    uint32_t capacity = stack->capacity ? 2 * stack->capacity : FIRST_CAPACITY, more = capacity - stack->capacity;
    if (!ct_drain_take_room(d, more))
        return false;
    uint32_t *hooks = realloc(stack->hooks, capacity * sizeof *hooks);
    if (!hooks) {
        ct_drain_give_room(d, more);
        return false;
    }
    stack->hooks = hooks;
    stack->capacity = capacity;
    return true;
}

/* ---- depths ---- */

static uint32_t depth_at(const struct ct_drain_stack *stack, uint32_t place) {
    return ATF_DEPTH_OF_GROUP(stack->group) + place;
}

/* A depth at which no call is open. */
uint32_t ct_drain_stacks_depth(const struct ct_drain_thread *t) {
    const struct ct_drain_stacks *s = &t->stacks;
    if (s->now && s->now->count < ATF_DEPTH_GROUP)
        return depth_at(s->now, s->now->count);
    uint32_t group = s->free ? s->free->group : s->groups;
    return group < ATF_DEPTH_GROUPS ? ATF_DEPTH_OF_GROUP(group) : ATF_DEPTH_NONE;
}

uint32_t ct_drain_stacks_push(struct ct_drain *d, struct ct_drain_thread *t, uint32_t hook) {
    struct ct_drain_stack *stack = t->stacks.now;
    if (!stack || stack->count == ATF_DEPTH_GROUP)
        stack = open_group(d, &t->stacks);
    if (stack && !grow_stack(d, stack)) {
        if (!stack->count)
            close_group(&t->stacks, stack);
        stack = NULL;
    }
    if (!stack)
        return ATF_DEPTH_NONE;
    stack->hooks[stack->count] = hook;
    return depth_at(stack, stack->count++);
}

uint32_t ct_drain_stacks_pop(struct ct_drain *d, struct ct_drain_thread *t, uint32_t hook) {
    struct ct_drain_stack *stack = t->stacks.now;
    (void)d;
    if (!stack || stack->hooks[stack->count - 1] != hook)
        return ct_drain_stacks_depth(t); /* its call was not seen at all */
    uint32_t depth = depth_at(stack, --stack->count);
    if (!stack->count)
        close_group(&t->stacks, stack);
    return depth;
}

/* ---- the end ---- */

void ct_drain_stacks_forget(struct ct_drain *d, struct ct_drain_thread *t) {
    struct ct_drain_stacks *s = &t->stacks;
    (void)d;
    for (uint32_t i = 0; i < s->bucket_count; i++)
        while (s->buckets[i])
            close_group(s, s->buckets[i]);
    s->now = NULL;
}

void ct_drain_stacks_free(struct ct_drain *d, struct ct_drain_thread *t) {
    struct ct_drain_stacks *s = &t->stacks;
    struct ct_drain_stack *next;
    ct_drain_stacks_forget(d, t);
    for (struct ct_drain_stack *stack = s->free; stack; stack = next) {
        next = stack->next;
        ct_drain_give_room(d, stack->capacity + OVERHEAD);
        free(stack->hooks);
        free(stack);
    }
    free(s->buckets);
    *s = (struct ct_drain_stacks){0};
}
