/* SPDX-License-Identifier: Apache-2.0 */
/* What followed threads call and execute, counted in tables that are shared with the controller, so that they outlive
 * the process.
 *
 * Freestanding. Each follower counts frequent targets and blocks on its own. It adds its counts to the tables, by
 * atomic operations, when it makes room for others and at the end of a batch. Code that is new to the controller is
 * shown to it before it gets a number. */
#include "agent/stalk_tables.h"

#include "agent/agent_lane.h"
#include "isa/linkage.h"
#include "os/os.h"
#include "os/thread.h"

#define SAME_GONE 16u   /* times that code at one place was unmapped */
#define PATIENCE  20000 /* rounds of waiting for the controller to look at new code */

struct ct_tables ct_tables;

static uint32_t hash(uint64_t address, uint32_t capacity) {
    return (uint32_t)(address * 0x9e3779b97f4a7c15ull >> 32) & (capacity - 1);
}

/* Where a call ends up: after the jump of a linkage table, if it is bound already; 0: not yet. */
uint64_t ct_tables_function_at(uint64_t key) {
    uint8_t code[16];
    uint64_t word = ct_os_peek(key, code, sizeof code) ? 0 : ct_linkage_word(code, sizeof code, key), to;
    if (!word || ct_os_peek(word, &to, sizeof to))
        return key;
    return !ct_os_peek(to, code, sizeof code) && ct_linkage_is_unbound(code, sizeof code) ? 0 : to;
}

static bool is_known(uint64_t address) {
    const struct ct_stalk_tables *t = ct_tables.shared;
    uint32_t count = __atomic_load_n(&t->range_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count; i++)
        if (address - __atomic_load_n(&t->ranges[i][0], __ATOMIC_RELAXED) <
            __atomic_load_n(&t->ranges[i][1], __ATOMIC_RELAXED) - __atomic_load_n(&t->ranges[i][0], __ATOMIC_RELAXED))
            return true;
    return count >= CT_STALK_RANGES; /* too many to know them all */
}

/* The last unmapping of what was at the address; NULL: none. Newer ones come last. */
static struct ct_tables_gone *gone_at(uint64_t address) {
    for (uint32_t i = __atomic_load_n(&ct_tables.gone_count, __ATOMIC_ACQUIRE); i-- > 0;)
        if (address - ct_tables.gone[i].start < ct_tables.gone[i].end - ct_tables.gone[i].start)
            return &ct_tables.gone[i];
    return NULL;
}

/* An address's key: code that is loaded where other code was is not the same code. */
static uint64_t key_of(uint64_t address) {
    const struct ct_tables_gone *g = gone_at(address);
    return address | (g ? CT_STALK_AGAIN((uint64_t)(g - ct_tables.gone) + 1) : 0);
}

static void wait_for_look(uint64_t address, bool fresh) {
    const struct ct_shm_control *c = ct_agent_lane_control();
    struct ct_stalk_tables *t = ct_tables.shared;
    uint64_t looks = __atomic_load_n(&t->looks, __ATOMIC_ACQUIRE), nobody = 0;
    for (unsigned i = 0; i < PATIENCE && (fresh || !is_known(address)); i++) {
        if (!__atomic_load_n(&c->listening, __ATOMIC_ACQUIRE) || !ct_agent_lane_is_recording())
            return;
        if (__atomic_load_n(&t->looks, __ATOMIC_ACQUIRE) > looks + 1)
            return; /* the second look began after we came, and has not found it */
        (void)__atomic_compare_exchange_n(&t->asked, &nobody, address, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        nobody = 0;
        ct_agent_lane_wait();
    }
}

/* Code that was loaded after we came: the controller looks at it while it is still there. */
void ct_tables_introduce(uint64_t address) {
    struct ct_tables_gone *gone = gone_at(address);
    bool fresh = gone && __atomic_load_n(&gone->fresh, __ATOMIC_ACQUIRE);
    wait_for_look(address, fresh);
    if (fresh)
        __atomic_store_n(&gone->fresh, false, __ATOMIC_RELEASE);
}

/* A key's index in the table; CT_TABLES_NOWHERE: the table is full. */
static uint32_t place_of(uint64_t key) {
    uint32_t capacity = ct_tables.shared->target_capacity, i = hash(key, capacity);
    for (uint32_t n = 0; n < capacity / 2; n++, i = (i + 1) & (capacity - 1)) {
        struct ct_stalk_target *t = &ct_tables.targets[i];
        uint64_t there = __atomic_load_n(&t->key, __ATOMIC_ACQUIRE);
        if (!there) {
            ct_tables_introduce(CT_STALK_ADDRESS(key));
            if (__atomic_compare_exchange_n(&t->key, &there, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                there = key;
        }
        if (there == key)
            return i;
    }
    __atomic_fetch_add(&ct_tables.shared->full, 1, __ATOMIC_RELAXED);
    return CT_TABLES_NOWHERE;
}

/* The number of a call's target. It means one function for ever: calls of a linkage table's stub that is not bound yet
 * have another number. *bound: the number is final. */
uint32_t ct_tables_number_of(uint64_t to, bool *bound) {
    uint64_t key = key_of(to);
    uint32_t i = place_of(key);
    struct ct_stalk_target *t = &ct_tables.targets[i];
    *bound = true;
    if (i == CT_TABLES_NOWHERE || __atomic_load_n(&t->address, __ATOMIC_RELAXED))
        return i;
    uint64_t address = ct_tables_function_at(to);
    *bound = address != 0;
    if (!address)
        return place_of(key | CT_STALK_UNBOUND);
    ct_tables_introduce(address);
    __atomic_store_n(&t->address, address, __ATOMIC_RELEASE);
    return i;
}

void ct_tables_count_target(uint64_t to, uint64_t count) {
    bool bound;
    uint32_t i = ct_tables_number_of(to, &bound);
    if (i != CT_TABLES_NOWHERE)
        __atomic_fetch_add(&ct_tables.targets[i].count, count, __ATOMIC_RELAXED);
}

static void flush_target(struct ct_tables_target *c) {
    if (c->count)
        __atomic_fetch_add(&ct_tables.targets[c->number].count, c->count, __ATOMIC_RELAXED);
    c->count = 0;
}

/* The number for a call, which is counted. */
uint32_t ct_tables_number_for(struct ct_tables_known *k, uint64_t key) {
    struct ct_tables_target *c = ct_tables_place(k, key);
    if (c->key != key) {
        bool bound;
        uint32_t number = ct_tables_number_of(key, &bound);
        if (!bound && number != CT_TABLES_NOWHERE)
            __atomic_fetch_add(&ct_tables.targets[number].count, 1, __ATOMIC_RELAXED);
        if (!bound || number == CT_TABLES_NOWHERE)
            return number;
        flush_target(c);
        *c = (struct ct_tables_target){key, number, 0};
    }
    ct_tables_count(k, c, 1);
    return c->number;
}

static void add_to_block(uint64_t start, uint64_t end, uint64_t count) {
    uint64_t key = key_of(start);
    uint32_t capacity = ct_tables.shared->block_capacity, i = hash(key, capacity);
    for (uint32_t n = 0; n < 4096; n++, i = (i + 1) & (capacity - 1)) {
        struct ct_stalk_place *b = &ct_tables.blocks[i];
        uint64_t there = __atomic_load_n(&b->start, __ATOMIC_RELAXED);
        if (!there) {
            ct_tables_introduce(start);
            if (__atomic_compare_exchange_n(&b->start, &there, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                there = key;
        }
        if (there != key)
            continue;
        if (end > b->end) /* a block that was left in the middle is not a shorter block */
            b->end = end;
        __atomic_fetch_add(&b->count, count, __ATOMIC_RELAXED);
        return;
    }
    __atomic_fetch_add(&ct_tables.shared->full, 1, __ATOMIC_RELAXED);
}

static void flush_block(struct ct_tables_block *c) {
    if (c->count)
        add_to_block(c->start, c->end, c->count);
    c->count = 0;
}

void ct_tables_count_block(struct ct_tables_known *k, uint64_t start, uint64_t end) {
    struct ct_tables_block *c = &k->blocks[(start ^ start >> 11) & (CT_TABLES_BLOCKS - 1)];
    if (c->start != start) {
        flush_block(c);
        *c = (struct ct_tables_block){start, end, 0};
    }
    if (end > c->end)
        c->end = end;
    c->count++;
}

void ct_tables_flush(struct ct_tables_known *k, bool blocks) {
    for (uint32_t g = 0; g < CT_TABLES_TARGETS / CT_TABLES_GROUP; g++)
        if (k->counted[g]) {
            k->counted[g] = 0;
            for (uint32_t i = 0; i < CT_TABLES_GROUP; i++)
                flush_target(&k->targets[g * CT_TABLES_GROUP + i]);
        }
    for (uint32_t i = 0; blocks && i < CT_TABLES_BLOCKS; i++)
        flush_block(&k->blocks[i]);
}

void ct_tables_forget(struct ct_tables_known *k) {
    for (uint32_t i = 0; i < CT_TABLES_TARGETS; i++)
        k->targets[i] = (struct ct_tables_target){0};
    for (uint32_t i = 0; i < CT_TABLES_BLOCKS; i++)
        k->blocks[i] = (struct ct_tables_block){0};
}

/* Called between batches, when nothing is counted there. */
void ct_tables_forget_old(struct ct_tables_known *k) {
    uint32_t epoch = __atomic_load_n(&ct_tables.gone_count, __ATOMIC_ACQUIRE);
    if (k->epoch != epoch)
        ct_tables_forget(k);
    k->epoch = epoch;
}

static uint32_t times_gone(uint64_t start, uint64_t end) {
    uint32_t times = 0;
    for (uint32_t i = 0; i < ct_tables.gone_count; i++)
        times += ct_tables.gone[i].start == start && ct_tables.gone[i].end == end;
    return times;
}

/* Names are looked up again for what is loaded there next. A library that comes and goes without end must not fill the
 * tables. */
void ct_tables_unmapped(uint64_t start, uint64_t end) {
    while (__atomic_exchange_n(&ct_tables.gone_lock, 1, __ATOMIC_ACQUIRE)) /* released below */
        ct_agent_lane_wait();
    if (ct_tables.gone_count < CT_TABLES_GONE && times_gone(start, end) < SAME_GONE) {
        ct_tables.gone[ct_tables.gone_count] = (struct ct_tables_gone){start, end, true};
        __atomic_fetch_add(&ct_tables.shared->unmapped, 1, __ATOMIC_RELEASE);
        __atomic_store_n(&ct_tables.gone_count, ct_tables.gone_count + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&ct_tables.gone_lock, 0, __ATOMIC_RELEASE);
}
