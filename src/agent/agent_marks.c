/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: triggers on functions, evaluated at the call or return itself. See agent_detail.h, and abi/shm_abi.h for the
 * ring of marks. */
#include "agent/agent_detail.h"
#include "agent/agent_dry.h"
#include "agent/agent_values.h"
#include "hook/frame.h"
#include "os/os.h"

#define COUNTS ((1ull << CT_ENTERED_BITS) - 1)

static struct {
    struct ct_shm_control *control;
    struct ct_shm_mark *ring;
    struct ct_shm_more_marks *more;
    const struct ct_trigger_condition *conditions;
} marks;

void ct_agent_marks_open(uint64_t shm) {
    marks.control = (struct ct_shm_control *)shm;
    marks.ring = (struct ct_shm_mark *)(shm + CT_SHM_MARKS_OFFSET);
    marks.more = (struct ct_shm_more_marks *)(shm + CT_SHM_MORE_MARKS_OFFSET);
    marks.conditions = (const struct ct_trigger_condition *)(shm + marks.control->conditions_offset);
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
    b->detail_marking = note->tag;
    __atomic_fetch_add(&c->mark_serial, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&c->persisting, 1, __ATOMIC_RELAXED);
}

/* What a trigger looks at. */
struct moment {
    const struct ct_block *block;
    const struct ct_detail_note *note;
    uint64_t result, slot;
    struct ct_special_frame *frame;
    const uint64_t *arguments; /* NULL: slot and frame lead to them */
    bool returned;
};

/* Has the call set errno? One that is the same as before is older, unless the function always sets it when it fails. */
static bool sets_errno(const struct moment *m) {
    uint32_t after = *m->block->errno_at, rule = m->block->rules[m->note->hook];
    bool minus_one = m->result == UINT64_MAX || m->result == UINT32_MAX;
    if ((rule & CT_RULE_FAILS_MINUS_ONE && minus_one) || (rule & CT_RULE_FAILS_NULL && !m->result))
        return after != 0;
    return m->note->entered &&
           m->note->entered >> CT_ENTERED_BITS != (after < CT_ENTERED_ERRNO ? after : CT_ENTERED_ERRNO);
}

/* The memory may be unmapped at any moment. */
static bool is_like(const struct moment *m, const struct ct_trigger_condition *c, uint64_t at) {
    char text[CT_TRIGGER_TEXT_BYTES];
    uint32_t size = at ? (uint32_t)ct_os_peek_some(m->block->pid, at, text, sizeof text) : 0;
    return size && ct_trigger_is_like(c->pattern, text, size);
}

static bool holds(const struct moment *m, const struct ct_trigger_condition *c) {
    uint64_t value = m->result;
    if (c->value < CT_TRIGGER_ARGUMENTS) {
        if (m->returned)
            return false;
        value = m->arguments ? m->arguments[c->value] : *ct_frame_argument(m->slot, m->frame, c->value);
    } else if (c->value == CT_TRIGGER_ERRNO) {
        if (!m->returned || !sets_errno(m))
            return false;
        value = *m->block->errno_at;
    }
    return c->compare == CT_COMPARE_LIKE ? is_like(m, c, value) : ct_trigger_compares(c->compare, c->number, value);
}

static bool all_hold(const struct moment *m, uint32_t bit) {
    const struct ct_trigger_condition *c = &marks.conditions[bit * CT_TRIGGER_CONDITIONS];
    uint32_t count = marks.control->triggers[bit].conditions;
    for (uint32_t i = 0; i < count && i < CT_TRIGGER_CONDITIONS; i++)
        if (!holds(m, &c[i]))
            return false;
    return true;
}

static bool trigger_fires(const struct moment *m, uint32_t bit) {
    const struct ct_shm_trigger *t = &marks.control->triggers[bit];
    const struct ct_detail_note *note = m->note;
    switch (t->kind) {
    case CT_SHM_ON_CALL:
        return !m->returned && all_hold(m, bit);
    case CT_SHM_ON_RETURN:
        return m->returned && all_hold(m, bit);
    case CT_SHM_ON_SLOW:
        return m->returned && note->entered && ((note->stamp - note->entered) & COUNTS) >= t->counts;
    default:
        return false;
    }
}

static void capture_values(const struct moment *m, struct ct_block *b) {
    uint32_t rule = b->rules[m->note->hook], room = marks.control->strings;
    bool texts = rule >> CT_RULE_TEXTS & 0x3f && !m->returned;
    if (texts && ct_os_is_silent()) {
        marks.control->silent = 1;
        texts = false;
    }
    if (texts || rule & CT_RULE_REALS)
        ct_agent_values_capture(b, m->note, m->slot, m->frame, texts ? room : 0);
}

static void mark(struct ct_block *b, const struct moment *m) {
    const struct ct_detail_note *note = m->note;
    for (unsigned rules = b->rules[note->hook] & CT_RULE_TRIGGERS; rules; rules &= rules - 1) {
        uint32_t bit = (uint32_t)__builtin_ctz(rules);
        if (!trigger_fires(m, bit))
            continue;
        if (b->detail_marking != note->tag)
            ct_agent_dry_keep_call(b, note);
        write_mark(b, bit, note, m->result);
    }
}

static bool is_return(const struct ct_detail_note *note) {
    return (note->tag & CT_TAG_KIND) == CT_EVENT_RETURN;
}

void ct_agent_detail_mark(const struct ct_detail_note *note, uint64_t value, uint64_t slot,
                          struct ct_special_frame *frame) {
    struct ct_block *b = ct_block_found();
    const struct moment m = {b, note, value, slot, frame, NULL, is_return(note)};
    mark(b, &m);
    if (note->tag >= CT_TAG_STEP)
        capture_values(&m, b);
}

void ct_agent_detail_mark_listened(struct ct_block *b, const struct ct_detail_note *note,
                                   const struct ct_cpu_context *cpu) {
    uint64_t arguments[CT_TRIGGER_ARGUMENTS];
    ct_cpu_first_arguments(cpu, arguments);
    const struct moment m = {b, note, ct_cpu_return_value(cpu), 0, NULL, arguments, is_return(note)};
    mark(b, &m);
}
