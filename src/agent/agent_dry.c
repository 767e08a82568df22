/* SPDX-License-Identifier: Apache-2.0 */
/* See agent_dry.h. A slot is that of a frame's place in the shadow stack, so a handler that comes meanwhile uses
 * others. Frames that are deeper than there are slots use those of the outermost ones again. */
#include "agent/agent_dry.h"
#include "agent/agent_open.h"
#include "hook/stacks.h"

#define BYTES CT_SHM_DETAIL_CHUNK

static struct {
    struct ct_shm_control *control;
    struct ct_shm_segment *segments;
    uint64_t pool;
} dry;

void ct_agent_dry_open(uint64_t shm) {
    dry.control = (struct ct_shm_control *)shm;
    dry.segments = (struct ct_shm_segment *)(shm + dry.control->segments_offset);
    dry.pool = shm + dry.control->detail_pool_offset;
}

/* Address of the n-th chunk of the thread's segment. */
static uint64_t chunk_at(const struct ct_block *b, uint32_t n) {
    return dry.pool + (2ull * (dry.segments[b->detail_dry - 1].chunk + n) + 1) * BYTES;
}

/* Takes a segment for the thread, once. */
static bool has_segment(struct ct_block *b) {
    const struct ct_shm_thread *t = (const struct ct_shm_thread *)((uint64_t)dry.control + dry.control->threads_offset);
    uint32_t from = dry.control->segment_count;
    for (uint32_t n = 0; !b->detail_dry && n < dry.control->dry; n++) {
        uint32_t i = from + (b->lane_slot + n) % dry.control->dry, free = CT_SEGMENT_FREE;
        struct ct_shm_segment *s = &dry.segments[i];
        if (!__atomic_compare_exchange_n(&s->word, &free, CT_SEGMENT_WORD(CT_SEGMENT_OPEN, b->lane_slot), false,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue; /* released by the controller */
        s->thread = b->lane_slot;
        s->thread_generation = t[b->lane_slot].generation;
        s->turns = s->chunks - 1;                         /* all of it may be in use */
        __atomic_store_n(&s->begin, 1, __ATOMIC_RELEASE); /* acquired by the controller */
        b->detail_dry = i + 1;
    }
    return b->detail_dry;
}

/* The check word is cleared first: the controller takes what has the same one before and after. */
static uint64_t clear_record(uint64_t at) {
    __atomic_store_n(&((struct ct_shm_detail *)at)->check, 0, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return at;
}

/* Room among the records of marks; 0: none is left. */
static uint64_t append(struct ct_block *b, uint64_t size) {
    uint32_t at = __atomic_load_n(&b->detail_dry_used, __ATOMIC_RELAXED), from;
    do {
        from = at % BYTES + size > BYTES ? (at / BYTES + 1) * BYTES : at;
        if (from + size > (CT_SHM_DRY_CHUNKS - 1) * BYTES)
            return 0;
    } while (!__atomic_compare_exchange_n(&b->detail_dry_used, &at, (uint32_t)(from + size), false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return clear_record(chunk_at(b, 1 + from / BYTES) + from % BYTES);
}

/* A stub that a handler interrupts for another stack might go on later, when its slot belongs to another call. */
static bool has_one_stack(const struct ct_block *b) {
    return !b->stacks || !b->stacks->count;
}

/* The slot of the innermost frame. An entry of a function that has no frame finds it in use by its caller's. */
static uint64_t take_slot(struct ct_block *b) {
    uint32_t slots = (uint32_t)(BYTES / b->call_size);
    if (b->top <= b->base + 1 || !has_one_stack(b))
        return 0;
    uint64_t at = chunk_at(b, 0) + (uint64_t)(b->top - b->base - 1) % slots * b->call_size;
    const struct ct_shm_detail *r = (const struct ct_shm_detail *)at;
    if (r->check && ct_agent_open_is_of(r, b->top[-1].data))
        return 0;
    return clear_record(at);
}

uint64_t ct_agent_dry_reserve(struct ct_block *b, uint64_t size, bool marked) {
    if ((!marked && size != b->call_size) || !has_segment(b))
        return 0;
    uint64_t at = marked ? append(b, size) : 0;
    return at || size != b->call_size ? at : take_slot(b);
}

void ct_agent_dry_keep_call(struct ct_block *b, const struct ct_detail_note *note) {
    uint32_t slots = (uint32_t)(BYTES / b->call_size);
    if (__atomic_load_n(&dry.control->mark_serial, __ATOMIC_RELAXED) ==
        __atomic_load_n(&dry.control->looked, __ATOMIC_ACQUIRE)) /* released by the controller */
        b->detail_dry_used = 0;
    if (!b->detail_dry || (note->tag & CT_TAG_KIND) != CT_EVENT_RETURN || !note->entered)
        return;
    for (uint32_t i = 0; i < slots; i++) {
        const struct ct_shm_detail *r = (const struct ct_shm_detail *)(chunk_at(b, 0) + i * b->call_size);
        uint64_t to =
            r->check && r->hook == note->hook && ct_agent_open_is_of(r, note->entered) ? append(b, b->call_size) : 0;
        if (to)
            ct_agent_open_copy((struct ct_shm_detail *)to, r, b->call_size);
    }
}
