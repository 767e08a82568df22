/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: triggers on functions, evaluated at the call or return itself. See agent_detail.h, and abi/shm_abi.h for the
 * ring of marks. */
#include "agent/agent_detail.h"

#define COUNTS ((1ull << CT_ENTERED_BITS) - 1)

static struct {
    struct ct_shm_control *control;
    struct ct_shm_mark *ring;
    struct ct_shm_more_marks *more;
} marks;

void ct_agent_marks_open(uint64_t shm) {
    marks.control = (struct ct_shm_control *)shm;
    marks.ring = (struct ct_shm_mark *)(shm + CT_SHM_MARKS_OFFSET);
    marks.more = (struct ct_shm_more_marks *)(shm + CT_SHM_MORE_MARKS_OFFSET);
}

/* Takes a place in the ring; 0: the controller has not read the oldest mark yet. */
static uint64_t take_mark(struct ct_shm_control *c) {
    uint64_t next = __atomic_load_n(&c->mark_next, __ATOMIC_RELAXED);
    do
        if ((uint32_t)next - __atomic_load_n(&c->mark_taken, __ATOMIC_ACQUIRE) >= CT_SHM_MARKS)
            return 0;
    while (!__atomic_compare_exchange_n(&c->mark_next, &next, next + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return next + 1;
}

/* When marks come too fast, a trigger's marks are only counted, from the first to the last. */
static void mark_more(const struct ct_block *b, uint32_t bit, const struct ct_detail_note *note) {
    struct ct_shm_more_marks *m = &marks.more[bit];
    uint64_t none = 0;
    m->last = note->stamp;
    m->thread = b->lane_slot;
    m->hook = note->hook;
    (void)__atomic_compare_exchange_n(&m->first, &none, note->stamp, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    __atomic_fetch_add(&m->count, 1, __ATOMIC_RELEASE); /* acquired by the controller */
}

static void write_mark(struct ct_block *b, uint32_t bit, const struct ct_detail_note *note, uint64_t value) {
    struct ct_shm_control *c = marks.control;
    uint64_t serial = take_mark(c);
    if (serial) {
        struct ct_shm_mark *m = &marks.ring[(serial - 1) % CT_SHM_MARKS];
        m->stamp = note->stamp;
        m->thread = b->lane_slot;
        m->hook = note->hook;
        m->trigger = c->triggers[bit].id;
        m->number = note->tag / CT_TAG_STEP;
        m->value = (int64_t)value;
        __atomic_store_n(&m->serial, serial, __ATOMIC_RELEASE); /* acquired by the controller */
    } else {
        mark_more(b, bit, note);
    }
    /* Both: what is there now is kept, and so is what comes until the controller has seen the mark. */
    b->detail_marking = 1;
    __atomic_fetch_add(&c->mark_serial, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&c->persisting, 1, __ATOMIC_RELAXED);
}

static bool trigger_fires(const struct ct_shm_trigger *t, const struct ct_detail_note *note, uint64_t value) {
    bool returned = (note->tag & CT_TAG_KIND) == CT_EVENT_RETURN;
    switch (t->kind) {
    case CT_SHM_ON_CALL:
        return !returned;
    case CT_SHM_ON_RETURN:
        return returned && ct_trigger_compares(t->compare, t->value, value);
    case CT_SHM_ON_SLOW:
        return returned && note->entered && ((note->stamp - note->entered) & COUNTS) >= t->counts;
    default:
        return false;
    }
}

void ct_agent_detail_mark(const struct ct_detail_note *note, uint64_t value) {
    struct ct_block *b = ct_block_found();
    for (unsigned rules = b->rules[note->hook]; rules; rules &= rules - 1) {
        uint32_t bit = (uint32_t)__builtin_ctz(rules);
        if (trigger_fires(&marks.control->triggers[bit], note, value))
            write_mark(b, bit, note, value);
    }
}
