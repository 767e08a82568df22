/* SPDX-License-Identifier: Apache-2.0 */
/* A followed thread's calls and returns on their way to the index lane.
 *
 * Freestanding. Everything here runs on the followed thread, or on one that has its claim (stalk/events.c): nothing
 * else reserves slots for it meanwhile, and no handler does. */
#include "agent/stalk_follower.h"
#include "agent/agent_lane.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/events.h"
#include "stalk/stacks.h"

/* The frame is counted as open while its event is written: the lane stores depths in its chunks. */
void ct_follower_write(struct ct_follower *f, uint32_t number, uint32_t kind, uint64_t stamp) {
    f->block.top = f->block.base + 1 + f->open;
    struct ct_event *e = ct_event_reserve(&f->block, kind, NULL);
    if (!e)
        return;
    e->hook = number;
    e->kind = kind;
    __atomic_store_n(&e->timestamp, stamp ? stamp : ct_os_timestamp(), __ATOMIC_RELEASE);
}

/* ---- stacks ---- */

#define REFILL 32u

/* When the newer frames of the running stack have ended, frames that were suspended with it come next. */
static void refill_frames(struct ct_follower *f) {
    uint64_t frames[REFILL];
    uint32_t n = 0;
    while (!f->open && f->chains && n < REFILL && stalk_chain_pop(f->chains, f->stack, &frames[n]))
        n++;
    while (n-- > 0)
        f->frames[f->open++] = (struct ct_follower_frame){(uint32_t)frames[n], (int32_t)(frames[n] >> 32)};
}

void ct_follower_forget_stacks(struct ct_follower *f) {
    if (f->chains)
        (void)ct_os_free(f->chains, sizeof *f->chains);
    f->chains = NULL;
}

/* Calls that cannot be kept stay open to the end: their returns are missing. */
static void suspend_frames(struct ct_follower *f) {
    if (!f->chains && f->open && !ct_os_is_silent())
        f->chains = ct_os_alloc(sizeof *f->chains, CT_OS_READ | CT_OS_WRITE);
    for (uint32_t i = 0; i < f->open; i++) {
        uint64_t frame = (uint64_t)(uint32_t)f->frames[i].depth << 32 | f->frames[i].number;
        if (!f->chains || !stalk_chain_push(f->chains, f->stack, frame))
            f->block.counters->deep_calls++;
    }
    f->open = 0;
}

/* Frames at this depth and deeper were left without a return. */
static void leave_frames(struct ct_follower *f, int32_t depth, uint64_t stamp) {
    while (f->open && f->frames[f->open - 1].depth >= depth) {
        uint32_t number = f->frames[f->open - 1].number;
        ct_follower_write(f, number, ct_follower_is_unseen(number) ? CT_EVENT_RETURN : CT_EVENT_EXCEPTION, stamp);
        if (!--f->open)
            refill_frames(f);
    }
}

static void change_stack(struct ct_follower *f, const struct ct_stalker_event *e) {
    suspend_frames(f);
    f->stack = f->block.reported_stack = (uint32_t)e->target;
    refill_frames(f);
    ct_follower_write(f, f->stack, CT_EVENT_STACK, f->stamp);
    if (e->location) /* a new one */
        leave_frames(f, INT32_MIN, f->stamp);
}

/* ---- calls ---- */

static void enter_frame(struct ct_follower *f, const struct ct_stalker_event *e) {
    leave_frames(f, e->depth, e->timestamp);
    if (f->open == CT_FOLLOWER_MAX_OPEN) {
        f->block.counters->deep_calls++;
        return;
    }
    uint32_t number = ct_tables_number_for(&f->known, e->target);
    f->frames[f->open].number = number;
    f->frames[f->open++].depth = e->depth;
    ct_follower_write(f, number, CT_EVENT_CALL, e->timestamp);
}

static void return_from_frame(struct ct_follower *f, const struct ct_stalker_event *e) {
    leave_frames(f, e->depth, e->timestamp);
    if (!f->open || f->frames[f->open - 1].depth != e->depth - 1)
        return; /* it was entered before we came */
    ct_follower_write(f, f->frames[f->open - 1].number, CT_EVENT_RETURN, e->timestamp);
    if (!--f->open)
        refill_frames(f);
}

void ct_follower_receive(struct ct_follower *f, const struct ct_stalker_event *e) {
    if (e->timestamp)
        f->stamp = e->timestamp;
    if (e->kind == CT_STALKER_CALL)
        enter_frame(f, e);
    else if (e->kind == CT_STALKER_RET)
        return_from_frame(f, e);
    else if (e->kind == STALK_STACK_EVENT)
        change_stack(f, e);
}

/* ---- records ---- */

_Static_assert(CT_STALKER_CALL == 1 && CT_STALKER_RET == 2 && CT_EVENT_CALL == 1 && CT_EVENT_RETURN == 2,
               "kinds are written as they are, and counted with");

/* Takes up to `n` records: calls of known targets from the innermost frame, and returns from it. Both have the depth
 * that comes next. No branch depends on which of them a record is: for many programs nobody can guess that. The
 * outermost frame ends the long way, since others may have to come back then. `first`: the slot for the first event.
 *
 * This and the readings of the counter are what following with calls costs, so it is done in one step: no event in
 * between, and what does not change stays in registers. */
static inline __attribute__((always_inline)) void take_run(struct ct_follower *f, struct stalk_branches *b,
                                                           struct ct_event *first, size_t n, const bool fast,
                                                           uint64_t *calls, uint64_t *returns) {
    const unsigned size = fast ? CT_RECORD_SIZE : sizeof(struct stalk_record);
    struct ct_event *next = first;
    uint64_t at = b->at, last = at - n * size, now = b->clock;
    uint32_t count = b->frame_count, open = f->open;
    uint64_t *frames = b->frames;
    void *const *sites = b->sites;
    const int32_t base = b->base_depth;
    for (; at != last; at -= size) {
        const struct stalk_record *r = (const struct stalk_record *)at;
        if (fast && __builtin_expect(!r->site, 0)) {
            now = stalk_reading_of(r);
            continue;
        }
        const struct stalk_site *site = stalk_site_of(sites, r->site);
        struct ct_follower_frame *top = &f->frames[open - 1];
        uint64_t slot = stalk_address_in(r->sp), time = fast ? now : r->time;
        uint32_t number, kind;
        if (count - 1 >= STALK_MAX_FRAMES - 1 || top->depth + 1 != base + (int32_t)count)
            break;
        if (site->kind == CT_STALKER_CALL) {
            uint64_t target = stalk_target_of(site, r);
            struct ct_tables_target *known = ct_tables_place(&f->known, target);
            slot -= 8;
            if (frames[count - 1] - slot - 1 >= STALK_NEAR || known->key != target || open == CT_FOLLOWER_MAX_OPEN)
                break;
            number = known->number;
            ct_tables_count(&f->known, known, 1);
            top[1] = (struct ct_follower_frame){number, top->depth + 1};
            frames[count++] = slot;
            open++;
            kind = CT_EVENT_CALL;
        } else {
            if (frames[count - 1] != slot || open == 1)
                break;
            number = top->number;
            kind = CT_EVENT_RETURN;
            count--;
            open--;
        }
        next->hook = number;
        next->kind = kind;
        __atomic_store_n(&next->timestamp, time | (time == 0), __ATOMIC_RELEASE); /* 0: not written yet */
        next++;
    }
    n = (size_t)(next - first);
    ct_event_wrote(&f->block, n);
    if (n)
        f->stamp = next[-1].timestamp;
    uint64_t called = (n + open - f->open) / 2; /* a call adds a frame, a return takes one */
    *calls += called;
    *returns += n - called;
    b->at = at;
    b->clock = now;
    b->frame_count = count;
    f->open = open;
}

static void take_one(struct ct_follower *f, struct stalk_branches *b, uint64_t *calls, uint64_t *returns) {
    const struct ct_stalker_event *events;
    size_t count = b->expand(b, &events);
    for (size_t i = 0; i < count; i++) {
        ct_follower_receive(f, &events[i]);
        *calls += events[i].kind == CT_STALKER_CALL;
        *returns += events[i].kind == CT_STALKER_RET;
    }
}

void ct_follower_take(struct ct_follower *f, struct stalk_branches *b, uint64_t *calls, uint64_t *returns) {
    while (b->at >= b->newest) {
        size_t left = (b->at - b->newest) / ct_stalk_record_size(b->mask) + 1, room;
        struct ct_event *first = ct_event_room(&f->block, &room);
        size_t n = !f->open ? 0 : room < left ? room : left;
        if (b->mask & CT_STALKER_TIMESTAMPS)
            take_run(f, b, first, n, false, calls, returns);
        else
            take_run(f, b, first, n, true, calls, returns);
        if (b->at >= b->newest)
            take_one(f, b, calls, returns);
    }
}
