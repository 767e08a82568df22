/* SPDX-License-Identifier: Apache-2.0 */
/* What the shadow stacks in the target know: where frames really return to. See eject.h. */
#include "base/grow.h"
#include "inject/eject_internal.h"
#include "hook/runtime.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

/* There are as many blocks as there were threads at a time. Entries: 16,384 threads with 128 frames each, 64 MiB. */
#define MAX_BLOCKS  65536u
#define MAX_ENTRIES (1u << 21)
#define PIECE       4096u /* entries that are read at once */
#define LOOK_STEPS  1024u

struct known_returns {
    struct ct_ejection *e;
    struct ct_shadow *piece;
    struct ct_eject_return *at;
    size_t count, capacity;
    uint64_t seen;
    bool busy; /* some thread is in the middle of something, or not everything is known: our code must stay */
};

/* ---- collecting ---- */

static int add_entry(struct known_returns *known, const struct ct_shadow *e) {
    if (e->slot <= CT_SLOT_LAST || e->slot == UINT64_MAX)
        return 0;
    if (!ct_grow(&known->at, &known->capacity, known->count, sizeof *known->at, 256))
        return CT_ERR_NO_MEMORY;
    known->at[known->count] = (struct ct_eject_return){
        .slot = (e->slot + 7) & ~7ull, .resume = e->stub + CT_AFTER_TO_RESUME, .ret = e->ret, .order = known->count};
    known->count++;
    return 0;
}

static int add_entries(struct known_returns *known, uint64_t from, uint64_t count) {
    int status = count <= MAX_ENTRIES - known->seen ? 0 : CT_ERR_BAD_FILE;
    for (uint64_t done = 0, part; !status && done < count; done += part) {
        part = count - done < PIECE ? count - done : PIECE;
        status = ct_remote_read(known->e->remote, from + done * sizeof *known->piece, known->piece,
                                part * sizeof *known->piece);
        for (uint64_t i = 0; !status && i < part; i++)
            status = add_entry(known, &known->piece[i]);
    }
    known->seen += count;
    return status;
}

static void note_memory(struct ct_ejection *e, uint64_t at, uint64_t size) {
    if (at && size)
        e->blocks[e->block_count++] = (struct ct_boot_region){at, size};
}

static int add_block(struct known_returns *known, uint64_t at, const struct ct_block *b) {
    uint64_t base = (uint64_t)b->base, top = (uint64_t)b->top;
    note_memory(known->e, at, b->size);
    if (!b->in_use)
        return 0;
    known->busy |= (b->attention & (CT_ATTENTION_GUARD | CT_ATTENTION_SHARED)) != 0;
    return top > base ? add_entries(known, base, (top - base) / sizeof(struct ct_shadow)) : 0;
}

static int add_blocks(struct known_returns *known, uint64_t at) {
    struct ct_block *block = malloc(sizeof *block); /* large */
    int status = block ? 0 : CT_ERR_NO_MEMORY;
    for (unsigned n = 0; !status && at; n++) {
        status = n < MAX_BLOCKS ? ct_remote_read(known->e->remote, at, block, sizeof *block) : CT_ERR_BAD_FILE;
        if (!status)
            status = add_block(known, at, block);
        at = status ? 0 : (uint64_t)block->next;
    }
    free(block);
    return status;
}

static int collect_returns(struct known_returns *known, const struct ct_runtime *rt) {
    struct ct_ejection *e = known->e;
    free(e->blocks);
    e->block_count = 0;
    e->blocks = malloc((MAX_BLOCKS + 1) * sizeof *e->blocks);
    known->piece = malloc(PIECE * sizeof *known->piece);
    int status = e->blocks && known->piece ? add_blocks(known, (uint64_t)rt->blocks) : CT_ERR_NO_MEMORY;
    if (!status && rt->parked_count)
        status = add_entries(known, (uint64_t)rt->parked, CT_PARKED_CAPACITY);
    if (!status)
        note_memory(e, (uint64_t)rt->parked, CT_PARKED_CAPACITY * sizeof *rt->parked);
    known->busy |= rt->parked_count > CT_PARKED_CAPACITY / 4 * 3; /* some may have been evicted */
    free(known->piece);
    return status ? status : ct_eject_tidy(e->blocks, &e->block_count);
}

/* ---- looking up ---- */

static int compare_words(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int by_slot(const void *a, const void *b) {
    const struct ct_eject_return *x = a, *y = b;
    int result = compare_words(x->slot, y->slot);
    if (!result)
        result = compare_words(x->resume, y->resume);
    return result ? result : compare_words(x->order, y->order);
}

/* The last entry of this stub that was pushed before `order`; otherwise its last one, as it may come from another
 * block. NULL: none. */
static const struct ct_eject_return *find_return(const struct ct_eject_group *group, uint64_t resume, uint64_t order) {
    const struct ct_eject_return *at = group->at;
    size_t low = 0, high = group->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (at[middle].resume < resume || (at[middle].resume == resume && at[middle].order < order))
            low = middle + 1;
        else
            high = middle;
    }
    if (low && at[low - 1].resume == resume)
        return &at[low - 1];
    if (low == group->count || at[low].resume != resume)
        return NULL;
    return order == UINT64_MAX ? &at[low] : find_return(group, resume, UINT64_MAX);
}

struct ct_eject_group ct_eject_group_at(const struct ct_eject_return *at, size_t count, size_t first) {
    size_t n = 1;
    while (first + n < count && at[first + n].slot == at[first].slot)
        n++;
    return (struct ct_eject_group){&at[first], n};
}

bool ct_eject_is_resume(const struct ct_eject_group *group, uint64_t value) {
    return find_return(group, value, UINT64_MAX) != NULL;
}

/* A chain of tail calls has one slot and several stubs, each of which leads to the one before. A chain cannot be longer
 * than the number of entries: such a chain is a loop. */
int ct_eject_real_return(const struct ct_remote *remote, const struct ct_eject_group *group, uint64_t value,
                         uint64_t *real) {
    uint64_t order = UINT64_MAX;
    const struct ct_eject_return *next;
    for (size_t steps = 0; (next = find_return(group, value, order)); steps++) {
        if (steps == group->count)
            return CT_ERR_BAD_FILE;
        if (steps % LOOK_STEPS == LOOK_STEPS - 1 && ct_remote_is_over(remote))
            return CT_ERR_TIMEOUT;
        value = next->ret;
        order = next->order;
    }
    *real = value;
    return 0;
}

int ct_eject_bare_stacks(struct ct_ejection *e, bool *bare) {
    struct ct_runtime runtime;
    struct known_returns known = {.e = e};
    *bare = !e->boot.runtime; /* without a runtime, no thread ever had a block */
    if (*bare)
        return 0;
    int status = ct_remote_read(e->remote, e->boot.runtime, &runtime, sizeof runtime);
    if (!status)
        status = collect_returns(&known, &runtime);
    if (!status && !known.busy && known.count) {
        qsort(known.at, known.count, sizeof *known.at, by_slot);
        status = ct_eject_put_right(e, known.at, known.count, (uint64_t)runtime.hooks);
    }
    *bare = !status && !known.busy;
    free(known.at);
    return status == CT_ERR_NOT_MAPPED ? CT_ERR_BAD_FILE : status;
}
