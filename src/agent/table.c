/* SPDX-License-Identifier: Apache-2.0 */
/* How threads of a recorded process find their blocks: GS points to the block. Once the program needs GS for itself,
 * blocks are found in a table, by thread pointer, with the other form of the shared code (hook/stubs_<isa>.S), which is
 * slower by some nanoseconds.
 *
 * The table is complete at any time. An entry holds the block of the thread that asked last, as its distance from the
 * stray block: zero is the stray block, which belongs to nobody and makes stubs call slow paths. Threads that share an
 * entry take turns there, each time through a slow path; with the pointers that libraries make, this is rare
 * (CT_TABLE_MIX spreads pointers at even distances evenly). An entry is one word, so nothing is locked. A thread that
 * finds another thread's block sees that by its owner. */
#include "agent/table.h"
#include "agent/agent_lane.h"
#include "os/os.h"

static int64_t table[1u << CT_TABLE_BITS];
static struct ct_block *stray;
static uint32_t *in_use; /* in struct ct_boot: the controller may switch too */

static int64_t *place_of(uint64_t thread_pointer) {
    return &table[thread_pointer * CT_TABLE_MIX >> CT_TABLE_SHIFT >> 3];
}

int ct_table_open(struct ct_runtime *rt, struct ct_boot *boot) {
    stray = ct_block_make_stray(rt);
    if (!stray)
        return CT_ERR_NO_MEMORY;
    boot->table = (uint64_t)table;
    boot->stray = (uint64_t)stray;
    in_use = &boot->by_table;
    rt->before_gs = ct_table_switch;
    return CT_OK;
}

static bool is_switched(void) {
    return __atomic_load_n(in_use, __ATOMIC_ACQUIRE);
}

bool ct_block_by_pointer(void) {
    return !ct_os_inherits_block() || is_switched();
}

/* The calling thread still has its own GS, and so have threads that are in the first form of the code now: they leave
 * it as they entered it. */
void ct_table_switch(void) {
    if (!__atomic_exchange_n(in_use, 1, __ATOMIC_ACQ_REL))
        ct_agent_lane_switch_code();
}

void ct_block_place(struct ct_block *b) {
    if (b->borrows)
        return;
    __atomic_store_n(place_of(b->thread_pointer), (int64_t)b - (int64_t)stray, __ATOMIC_RELEASE);
    if (!ct_os_inherits_block() && !is_switched())
        (void)ct_os_set_block(b);
}

int ct_block_install(struct ct_block *b) {
    ct_block_place(b);
    return ct_block_by_pointer() ? CT_OK : ct_os_set_block(b);
}

/* Searches the list: another thread has taken its entry. */
static struct ct_block *find_block(uint64_t thread_pointer) {
    for (struct ct_block *b = stray->runtime->blocks; b; b = b->next)
        if (b->in_use == 1 && !b->borrows && b->thread_pointer == thread_pointer)
            return b;
    return NULL;
}

/* Like LOAD_BLOCK of the shared code. */
struct ct_block *ct_block_found(void) {
    if (!is_switched()) {
        struct ct_block *own = ct_os_block();
        return own ? own : stray;
    }
    uint64_t thread_pointer = ct_os_thread_pointer();
    int64_t distance = __atomic_load_n(place_of(thread_pointer), __ATOMIC_ACQUIRE);
    struct ct_block *b = (struct ct_block *)((int64_t)stray + distance);
    if (!distance || b->thread_pointer == thread_pointer)
        return b;
    b = find_block(thread_pointer);
    if (b)
        ct_block_place(b);
    return b ? b : stray;
}
