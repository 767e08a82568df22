/* SPDX-License-Identifier: Apache-2.0 */
/* See agent_open.h. A handler that comes meanwhile does the same work on the same frames: what it copies is equal, so
 * nothing is locked. The thread's number of slots in use may be too low afterwards; the next look puts it right. */
#include "agent/agent_open.h"

#define BYTES CT_SHM_DETAIL_CHUNK

/* When the frame was entered: what a word of CT_ENTERED_BITS has of the time. */
static uint64_t time_in(uint64_t word) {
    return word & ((1ull << CT_ENTERED_BITS) - 1) & ~1ull;
}

bool ct_agent_open_is_of(const struct ct_shm_detail *r, uint64_t word) {
    return time_in(r->stamp) == time_in(word);
}

static uint64_t entered(const struct ct_shadow *e) {
    return time_in(e->data);
}

/* Times go round. */
static bool is_after(uint64_t a, uint64_t b) {
    return time_in(a - b) - 1 < 1ull << (CT_ENTERED_BITS - 1);
}

static uint32_t slots_of_chunk(const struct ct_block *b) {
    return (uint32_t)(BYTES / b->call_size);
}

static struct ct_shm_detail *slot_at(const struct ct_block *b, uint64_t slots, uint32_t i) {
    uint32_t each = slots_of_chunk(b);
    return (struct ct_shm_detail *)(slots + i / each * 2ull * BYTES + i % each * b->call_size);
}

static uint32_t depth_of(const struct ct_block *b) {
    return b->top > b->base + 1 ? (uint32_t)(b->top - b->base - 1) : 0;
}

void ct_agent_open_trim(struct ct_block *b, uint64_t slots) {
    uint32_t count = b->detail_carried, depth = depth_of(b);
    count = count < depth ? count : depth;
    while (count && time_in(slot_at(b, slots, count - 1)->stamp) != entered(&b->base[count]))
        count--;
    b->detail_carried = count;
}

bool ct_agent_open_has(const struct ct_block *b, const struct ct_agent_old_chunk *chunk) {
    uint32_t next = b->detail_carried;
    return next < depth_of(b) && !is_after(entered(&b->base[next + 1]), time_in(chunk->until));
}

static bool is_record(const struct ct_block *b, const struct ct_shm_detail *r) {
    uint64_t tag = (uint64_t)r->hook << 32 | r->tag;
    return r->check == (r->stamp * (uint64_t)(int64_t)CT_DETAIL_MIX ^ tag ^ b->detail_key);
}

/* Is it the record of the frame's call? Of an entry that a stub works on the function may not be known yet, and its
 * slot is up to 7 less than the address. */
static bool is_call_of(const struct ct_shm_detail *r, const struct ct_shadow *e) {
    bool place = e->slot > CT_SLOT_LAST, function = place && !(e->slot & 7);
    return time_in(r->stamp) == entered(e) && (r->tag & CT_TAG_KIND) == CT_EVENT_CALL &&
           (!place || r->call.stack_pointer - e->slot <= 7) && (!function || r->hook == ct_shadow_number(e));
}

static bool is_older(const struct ct_shm_detail *r, const struct ct_shm_detail *than) {
    return (int32_t)(r->tag - than->tag) < 0;
}

/* The newest record of the frame's call that is older than another one; NULL: there is none. */
static const struct ct_shm_detail *newest(const struct ct_block *b, uint64_t start, const struct ct_shadow *e,
                                          const struct ct_shm_detail *than) {
    const struct ct_shm_detail *found = NULL;
    for (uint64_t at = start; at + b->call_size <= start + BYTES; at += 8) {
        const struct ct_shm_detail *r = (const struct ct_shm_detail *)at;
        if (is_call_of(r, e) && is_record(b, r) && (!than || is_older(r, than)) && (!found || is_older(found, r)))
            found = r;
    }
    return found;
}

/* The record of the call of a frame; NULL: it is not in the chunk. Counters do not tell calls apart that follow each
 * other closely: some step by 40 ns, and the fast clock by 16 events. So the function and the place of the return
 * address must be the same too. Calls that are alike in all three have ended, and are older than the frame's; or they
 * are tail calls that lead to the function again: their frames are open above it, and they are newer. */
static const struct ct_shm_detail *find_record(const struct ct_block *b, uint64_t start, const struct ct_shadow *e) {
    const struct ct_shm_detail *found = newest(b, start, e, NULL);
    for (const struct ct_shadow *inner = e + 1; found && inner < b->top && inner->slot == e->slot; inner++) {
        bool alike = inner->stub == e->stub && entered(inner) == entered(e) && inner->data & 1;
        const struct ct_shm_detail *older = alike ? newest(b, start, e, found) : NULL;
        found = older ? older : found;
    }
    return found;
}

/* The check word is cleared first and stored last: the controller takes what has the same one before and after. */
void ct_agent_open_copy(struct ct_shm_detail *to, const struct ct_shm_detail *from, uint64_t size) {
    volatile uint64_t *out = (volatile uint64_t *)to; /* volatile: must not become a call of memcpy */
    const uint64_t *in = (const uint64_t *)from;
    __atomic_store_n(&to->check, 0, __ATOMIC_SEQ_CST);
    for (uint64_t i = 1; i < size / 8; i++)
        out[i] = in[i];
    __atomic_store_n(&to->check, from->check, __ATOMIC_RELEASE);
}

/* A frame without a record has a slot as well, so that it is not looked for again. */
static void leave_empty(struct ct_shm_detail *to, uint64_t stamp) {
    __atomic_store_n(&to->check, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&to->stamp, stamp, __ATOMIC_RELAXED);
}

void ct_agent_open_carry(struct ct_block *b, const struct ct_agent_old_chunk *chunk, uint64_t slots, uint32_t chunks) {
    uint32_t room = slots_of_chunk(b) * chunks;
    while (b->detail_carried < room && ct_agent_open_has(b, chunk)) {
        uint32_t i = b->detail_carried;
        const struct ct_shadow *e = &b->base[i + 1];
        const struct ct_shm_detail *r = e->data & 1 ? find_record(b, chunk->start, e) : NULL;
        bool older = chunk->exact && entered(e) != time_in(chunk->until); /* else it may be the next chunk's first */
        if (r)
            ct_agent_open_copy(slot_at(b, slots, i), r, b->call_size);
        else if (older || !(e->data & 1))
            leave_empty(slot_at(b, slots, i), entered(e));
        else
            return;
        b->detail_carried = i + 1;
    }
}
