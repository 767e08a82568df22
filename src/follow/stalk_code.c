/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what a followed process has executed from the lane to thread_N/code.ctc (trace/code_file.h). A block keeps the
 * module that was at its address when it was first seen, whatever is loaded there later. Owner: the drain thread. */
#include "follow/stalk_internal.h"
#include "abi/event.h"
#include "trace/code_file.h"
#include <contrail/stalker.h>

static struct ct_code_block block_of(struct ct_recording *r, const struct ct_stalk_code *code, uint32_t number) {
    const uint8_t *lengths = (const uint8_t *)r->stalk->tables + CT_STALK_LENGTHS_AT;
    struct ct_stalk_settled at = ct_stalk_settle(r, &r->stalk->places->code[number], code->start);
    return (struct ct_code_block){.module = at.module,
                                  .offset = code->start - at.bias,
                                  .size = code->size,
                                  .insns = code->insns,
                                  .lengths = lengths + code->lengths};
}

/* Copies an entry, reading it once: the target can change the table at any time. False: no valid entry has this
 * number. */
static bool read_code(const struct ct_stalk *s, uint32_t number, struct ct_stalk_code *out) {
    const struct ct_stalk_code *table = (const struct ct_stalk_code *)((const uint8_t *)s->tables + CT_STALK_CODE_AT);
    if (!s->has_code || number >= CT_STALK_CODE)
        return false;
    uint64_t sizes = __atomic_load_n((const uint64_t *)&table[number].size, __ATOMIC_RELAXED);
    *out = (struct ct_stalk_code){.start = __atomic_load_n(&table[number].start, __ATOMIC_ACQUIRE),
                                  .size = (uint32_t)sizes,
                                  .insns = (uint32_t)(sizes >> 32),
                                  .lengths = __atomic_load_n(&table[number].lengths, __ATOMIC_RELAXED)};
    return out->lengths <= CT_STALK_LENGTHS && out->insns <= CT_STALK_LENGTHS - out->lengths;
}

void ct_stalk_settle_code(struct ct_recording *r) {
    const struct ct_stalk *s = r->stalk;
    struct ct_stalk_code code;
    uint64_t count = __atomic_load_n(&s->tables->code_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count && i < CT_STALK_CODE; i++)
        if (read_code(s, i, &code) && code.start)
            (void)ct_stalk_settle(r, &s->places->code[i], code.start);
}

static int open_writer(struct ct_recording *r, struct ct_drain_thread *t) {
    return ct_code_writer_open(&t->code, r->trace.place, t->id, (uint32_t)t->tid, r->session->options.stalk->events);
}

/* These events count for the trace's time range too: there may be no others. */
static void note_time(struct ct_drain *d, uint64_t ns) {
    if (!d->time_start || ns < d->time_start)
        d->time_start = ns;
    if (ns > d->time_end)
        d->time_end = ns;
}

void ct_stalk_code_event(void *arg, struct ct_drain_thread *t, const struct ct_event *e, uint64_t position) {
    struct ct_recording *r = arg;
    uint32_t kind = e->kind & CT_TAG_KIND;
    struct ct_stalk_code code;
    bool known = read_code(r->stalk, e->hook, &code);
    int status = t->code ? 0 : open_writer(r, t);
    if (status) {
        r->drain.error = r->drain.error ? r->drain.error : status;
        return;
    }
    note_time(&r->drain, ct_clock_ns(&r->clock, e->timestamp));
    ct_code_writer_at(t->code, position, ct_clock_ns(&r->clock, e->timestamp));
    if (!known) {
        ct_code_writer_lost(t->code, 1);
        t->code_lost++;
        return;
    }
    if (kind == CT_EVENT_COMPILED || !ct_code_writer_knows(t->code, e->hook)) {
        struct ct_code_block block = block_of(r, &code, e->hook);
        if (kind == CT_EVENT_COMPILED)
            ct_code_writer_compiled(t->code, &block);
        else
            ct_code_writer_define(t->code, e->hook, &block);
    }
    if (kind == CT_EVENT_COMPILED) {
        t->code_compiled++;
        return;
    }
    ct_code_writer_block(t->code, e->hook, kind == CT_EVENT_PART ? e->kind / CT_TAG_STEP : 0);
    t->code_blocks++;
}
