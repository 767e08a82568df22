/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of stacks by address: a list sorted by the addresses of their outermost frames. Hooks and Stalker share it,
 * each with its own struct of stacks, which begins with that address. Freestanding. */
#ifndef CT_HOOK_STACK_ORDER_H
#define CT_HOOK_STACK_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* The stacks, `size` bytes each. */
struct ct_stack_pool {
    const void *stacks;
    size_t size;
};

static inline uint64_t ct_stack_order_high(struct ct_stack_pool pool, uint32_t stack) {
    return *(const uint64_t *)((const uint8_t *)pool.stacks + stack * pool.size);
}

/* Index of the first stack that reaches up to `slot`. Counts steps. */
static inline uint32_t ct_stack_order_find(const uint32_t *order, uint32_t count, struct ct_stack_pool pool,
                                           uint64_t slot, uint64_t *steps) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ct_stack_order_high(pool, order[middle]) < slot)
            low = middle + 1;
        else
            high = middle;
        ++*steps;
    }
    return low;
}

static inline void ct_stack_order_add(uint32_t *order, uint32_t *count, uint32_t at, uint32_t stack) {
    for (uint32_t i = (*count)++; i > at; i--)
        order[i] = order[i - 1];
    order[at] = stack;
}

/* The stack is at `at`, or after stacks with the same address. */
static inline void ct_stack_order_remove(uint32_t *order, uint32_t *count, uint32_t at, uint32_t stack) {
    while (at < *count && order[at] != stack)
        at++;
    *count -= at < *count;
    for (uint32_t i = at; i < *count; i++)
        order[i] = order[i + 1];
}

#endif
