/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of suspended stacks, one chain per stack: the newest frame comes back first. Freestanding; one owner. Zeroed
 * memory is an empty set of chains; the system provides its pages as they are used. */
#ifndef CT_STALK_CHAINS_H
#define CT_STALK_CHAINS_H

#include <stdbool.h>
#include <stdint.h>

#define STALK_STACKS      (1u << 16)
#define STALK_CHAIN_NODES (1u << 20)

struct stalk_chains {
    uint32_t used, free; /* node numbers start at 1 */
    struct {
        uint32_t newest, count;
    } stacks[STALK_STACKS];
    struct stalk_chain_node {
        uint64_t value;
        uint32_t older;
    } nodes[STALK_CHAIN_NODES];
};

/* False: no node is free. */
static inline bool stalk_chain_push(struct stalk_chains *c, uint32_t stack, uint64_t value) {
    uint32_t n = c->free;
    if (n)
        c->free = c->nodes[n].older;
    else if (c->used + 1 < STALK_CHAIN_NODES)
        n = ++c->used;
    else
        return false;
    c->nodes[n] = (struct stalk_chain_node){value, c->stacks[stack].newest};
    c->stacks[stack].newest = n;
    c->stacks[stack].count++;
    return true;
}

static inline bool stalk_chain_pop(struct stalk_chains *c, uint32_t stack, uint64_t *value) {
    uint32_t n = c->stacks[stack].newest;
    if (!n)
        return false;
    *value = c->nodes[n].value;
    c->stacks[stack].newest = c->nodes[n].older;
    c->stacks[stack].count--;
    c->nodes[n].older = c->free;
    c->free = n;
    return true;
}

#endif
