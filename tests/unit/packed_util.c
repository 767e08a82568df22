/* SPDX-License-Identifier: Apache-2.0 */
#include "packed_util.h"
#include "random_util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t state;

void seed(uint64_t value) {
    state = value;
}

uint32_t pick(uint32_t limit) {
    return (uint32_t)(random_next(&state) >> 33) % limit;
}

/* ---- events as programs make them ---- */

struct maker {
    uint64_t stack[64];
    uint32_t depth;
    uint64_t ns;
};

/* Mostly calls and returns; entry-only calls, exceptions, coroutines, gaps, signals, long pauses between. */
static struct atf_index_event make_event(struct maker *m, bool wild) {
    uint32_t what = pick(1000);
    uint64_t function = UINT64_C(1) << 32 | pick(wild ? 20000 : 300);
    struct atf_index_event event = {.thread_id = TID, .detail_seq = ATF_NO_DETAIL, .event_kind = ATF_CALL};
    m->ns += what % 7 ? pick(120) : pick(1000) ? pick(40000) : (uint64_t)pick(100000) * 1000000;
    event.timestamp_ns = m->ns;
    event.function_id = function;
    event.call_depth = m->depth;
    if (wild && what < 8) { /* anything at all */
        event.event_kind = what;
        event.call_depth = what & 1 ? UINT32_MAX - what : pick(100);
        event.thread_id = what & 2 ? TID : 5;
        event.timestamp_ns = what & 4 ? m->ns : 3;
        return event;
    }
    if (what < 20) /* entry-only */
        return event;
    if (what < 25) { /* a signal */
        event.event_kind = ATF_EXCEPTION;
        event.function_id = 0;
        return event;
    }
    if (what < 28) /* events were lost */
        event.call_depth = m->depth = pick(30);
    if (m->depth < 60 && (m->depth == 0 || what < 510)) {
        m->stack[m->depth++] = function;
        return event;
    }
    uint32_t at = what > 985 ? pick(m->depth) : m->depth - 1;
    event.event_kind = what % 50 ? ATF_RETURN : ATF_EXCEPTION;
    event.function_id = m->stack[at];
    event.call_depth = at;
    m->depth--;
    memmove(&m->stack[at], &m->stack[at + 1], (m->depth - at) * sizeof m->stack[0]);
    return event;
}

struct atf_index_event *make_events(size_t count, bool wild) {
    struct maker m = {.ns = 1000000};
    struct atf_index_event *events = malloc(count * sizeof *events);
    assert_non_null(events);
    for (size_t i = 0; i < count; i++)
        events[i] = make_event(&m, wild);
    return events;
}
