/* SPDX-License-Identifier: Apache-2.0 */
/* The drain's fast path: from slots of shared memory straight to the columns of a packed block.
 *
 * A run is what almost all events are: calls, and returns of the innermost open call, on the thread's first stack, all
 * with consecutive detail records or all without. In a run, the calls that the drain knows as open and those that the
 * block has opened advance together, so one loop does both and writes a byte or two for each event. It has no branch
 * that depends on whether an event is a call: for many programs nobody can guess that. A second loop, over events that
 * are still in the nearest cache, does the times. A run ends at the first event that is anything else, which goes the
 * long way (drain_events.c). Owner: the drain thread. */
#include "abi/event.h"
#include "drain/drain.h"
#include "drain/shapes.h"
#include "drain/times.h"
#include "trace/packed_columns.h"
#include <string.h>

#define NUMBERS     (UINT32_MAX / CT_TAG_STEP + 1)
#define RETURNS     ((uint64_t)(CT_EVENT_RETURN - CT_EVENT_CALL) << 32) /* from a call's word to its return's */
#define NUMBER_STEP ((uint64_t)CT_TAG_STEP << 32) /* from one word to the next, of consecutive numbers */
#define unlikely(x) __builtin_expect(!!(x), 0)

_Static_assert(offsetof(struct ct_event, hook) == 8 && offsetof(struct ct_event, kind) == 12, "one word has both");

_Static_assert(CT_EVENT_CALL == 1 && CT_EVENT_RETURN == 2, "the lowest bit says which");

/* What a run is about. */
struct run {
    struct ct_drain *d;
    struct ct_drain_thread *t;
    struct ct_pack *pack;
    uint64_t seq;                  /* of the first event */
    struct ct_detail_run *numbers; /* to which the numbers belong; NULL: the events have none */
};

/* The code of a function that the table lacks; NULL: the hook is unknown, or not one of a function. Only a call gets a
 * place in the block: what else has this hook may come from nowhere, and there are never more functions than events. */
static const struct ct_pack_code *find_code(const struct run *run, uint32_t hook, uint32_t kind,
                                            struct ct_pack_code *of_return) {
    if (kind != CT_EVENT_CALL && kind != CT_EVENT_RETURN)
        return NULL;
    uint64_t function = ct_drain_function(run->d, hook);
    *of_return = (struct ct_pack_code){.function = function, .key = hook};
    return !function ? NULL : kind == CT_EVENT_CALL ? ct_pack_note(run->pack, hook, function) : of_return;
}

/* Hides a value from the compiler, which would make branches of its parts. */
static inline uint32_t opaque(uint32_t value) {
    __asm__("" : "+r"(value));
    return value;
}

/* Writes the shapes of events one by one, of those that belong to the run; returns how many these are. `numbered`: the
 * kind of the first one has that number in it, and each other one the next number. */
static inline __attribute__((always_inline)) size_t put_few(const struct run *run, struct ct_drain_shapes *s,
                                                            const struct ct_event *events, size_t count,
                                                            uint64_t number, bool numbered) {
    const struct ct_event *e = events, *end = events + count;
    struct ct_pack_columns *c = ct_pack_columns(run->pack);
    const struct ct_pack_code *codes = c->codes;
    struct ct_pack_code other;
    /* hooks[used] and expected[used] are of the innermost open call. */
    size_t used = s->used;
    uint64_t *functions = c->state.stack, *expected = s->expected;
    uint32_t *hooks = s->hooks, call = s->call;
    uint8_t *shape = s->shape;
    for (; e < end; e++, number += NUMBER_STEP) {
        uint64_t word;
        memcpy(&word, &e->hook, sizeof word);
        word -= numbered ? number : 0;
        uint32_t hook = (uint32_t)word, kind = (uint32_t)(word >> 32);
        const struct ct_pack_code *code = &codes[word % CT_PACK_CODES];
        if (unlikely(code->key != hook) && !(code = find_code(run, hook, kind, &other)))
            break;
        /* What nothing is expected after is 0, and so is the word of a void event of hook 0. */
        uint32_t ends = (expected[used] == word) & (hooks[used] == hook) & (kind != CT_EVENT_VOID);
        if (unlikely(!opaque((kind == CT_EVENT_CALL) | ends)))
            break;
        call = kind & CT_EVENT_CALL;
        uint32_t bytes = code->bytes & (0 - call);
        memcpy(shape, &bytes, 2);
        shape += 1 + (bytes >> 16);
        functions[used] = code->function;
        used++;
        hooks[used] = hook;
        expected[used] = word + RETURNS;
        used += 2 * (size_t)call - 2;
    }
    s->shape = shape;
    s->call = call;
    s->used = used;
    return (size_t)(e - events);
}

/* Notes the functions of the calls that many at once have left open. */
static void note_functions(const struct run *run, const struct ct_drain_shapes *s) {
    uint64_t *functions = ct_pack_columns(run->pack)->state.stack;
    for (size_t i = s->low + 1; i <= s->used; i++) {
        const struct ct_pack_code *code = &s->codes[s->hooks[i] % CT_PACK_CODES];
        functions[i - 1] = code->key == s->hooks[i] ? code->function : ct_drain_function(run->d, s->hooks[i]);
    }
}

/* Writes the shapes of the events that belong to the run; returns how many these are. Groups go many at once, and a
 * group that cannot, one by one. */
static inline __attribute__((always_inline)) size_t put_shapes(const struct run *run, const struct ct_event *events,
                                                               size_t count, uint64_t number, bool numbered) {
    struct ct_pack_columns *c = ct_pack_columns(run->pack);
    const size_t start = c->state.used;
    struct ct_drain_shapes s = {c->codes,     c->expected, run->t->stack + (run->t->depth - run->t->unknown - start),
                                c->shape,     start,       start,
                                c->after_call};
    const uint64_t step = numbered ? NUMBER_STEP : 0;
    size_t done = 0, many = 0, n;
    do {
        n = ct_drain_put_shapes(&s, events + done, count - done, number, step);
        many += n;
        done += n;
        number += n * step;
        size_t few = many ? CT_DRAIN_SHAPES : count;
        few = few < count - done ? few : count - done;
        n = put_few(run, &s, events + done, few, number, numbered);
        done += n;
        number += n * step;
        if (n < few)
            break;
    } while (done < count);
    if (many)
        note_functions(run, &s);
    c->shape = s.shape;
    c->after_call = s.call;
    c->state.used = s.used;
    c->state.depth += (uint32_t)(s.used - start);
    return done;
}

/* Writes the times of events one by one. */
static uint8_t *put_times(const struct ct_clock *clock, const struct ct_event *events, size_t count, uint8_t *time,
                          uint64_t *last_ns) {
    for (size_t i = 0; i < count; i++) {
        uint64_t ns = ct_clock_ns(clock, events[i].timestamp);
        ns = ns > *last_ns ? ns : *last_ns;
        time = ct_pack_time(time, ns - *last_ns);
        *last_ns = ns;
    }
    return time;
}

/* Most times of a busy thread are a byte or two each: ct_drain_put_times does many at once. */
static void put_all_times(const struct run *run, const struct ct_event *events, size_t count) {
    struct ct_pack_columns *c = ct_pack_columns(run->pack);
    const struct ct_clock clock = *run->d->clock;
    uint64_t last_ns = c->last_ns;
    uint8_t *time = c->time;
    while (count) {
        size_t n = ct_drain_put_times(&clock, events, count, &time, &last_ns);
        events += n;
        count -= n;
        n = count < CT_DRAIN_TIMES ? count : CT_DRAIN_TIMES;
        time = put_times(&clock, events, n, time, &last_ns);
        events += n;
        count -= n;
    }
    c->time = time;
    c->last_ns = last_ns;
}

/* What marks keep of calls that are open (detail_open.c), and the numbers. */
static void note_detail(const struct run *run, const struct ct_event *events, size_t count) {
    struct ct_drain_thread *t = run->t;
    size_t known = t->depth - t->unknown;
    uint64_t last_ns = t->last_ns;
    for (size_t i = 0; i < count; i++) {
        uint32_t number = events[i].kind / CT_TAG_STEP;
        uint64_t ns = ct_clock_ns(run->d->clock, events[i].timestamp);
        last_ns = ns > last_ns ? ns : last_ns;
        t->detail.newest += number != 0;
        if ((events[i].kind & CT_TAG_KIND) == CT_EVENT_CALL)
            ct_detail_opened(t, known++, number, run->seq + i, last_ns);
        else
            ct_detail_closed(t, --known, number, last_ns);
    }
    if (run->numbers) {
        run->numbers->count += count;
        t->detail.newest_ns = last_ns;
    }
}

/* Do the events have no numbers, or such that continue the thread's last run of numbers? */
static bool find_numbers(struct run *run, const struct ct_event *first) {
    struct ct_detail_thread *t = &run->t->detail;
    uint32_t number = first->kind / CT_TAG_STEP, next = (uint32_t)(t->newest + 1) % NUMBERS;
    if (!number)
        return true;
    if (!t->run_count || number != next)
        return false;
    struct ct_detail_run *r = run->numbers = &t->runs[t->run_count - 1];
    return r->number + r->count == t->newest + 1 && r->seq + r->count == run->seq &&
           r->point.counter == run->d->clock->newest.counter;
}

/* Events with numbers must be in order of time: the others have times that are not the clock's. The number 0, with
 * which numbers begin again, is none. */
static size_t count_ordered(const struct run *run, const struct ct_event *events, size_t count) {
    size_t before_zero = NUMBERS - events[0].kind / CT_TAG_STEP;
    const struct ct_clock *clock = run->d->clock;
    int64_t last = INT64_MIN, distance;
    size_t i = 0;
    count = count < before_zero ? count : before_zero;
    if (ct_clock_ns(clock, events[0].timestamp) < run->t->last_ns)
        return 0;
    for (; i < count && (distance = (int64_t)(events[i].timestamp - clock->newest.counter)) >= last; i++)
        last = distance;
    return i;
}

void ct_drain_expect_return(struct ct_pack *pack, uint32_t hook) {
    struct ct_pack_columns *c = ct_pack_columns(pack);
    c->expected[c->state.used] = hook | (uint64_t)CT_EVENT_RETURN << 32;
}

size_t ct_drain_pack_run(struct ct_drain *d, struct ct_drain_thread *t, struct ct_pack *pack,
                         const struct ct_event *events, size_t count, uint64_t seq) {
    struct ct_pack_columns *c = ct_pack_columns(pack);
    struct run run = {d, t, pack, seq, NULL};
    size_t known = t->depth - t->unknown, room = t->stack_capacity - known;
    if (!c->count || t->stacks.running || c->state.depth != t->depth || c->last_ns != t->last_ns ||
        c->state.used > known || known >= t->stack_capacity || !ct_pack_use_codes(pack, count))
        return 0;
    count = count < room ? count : room;
    if (d->detail && !find_numbers(&run, &events[0]))
        return 0;
    if (run.numbers)
        count = count_ordered(&run, events, count);
    size_t used = c->state.used, n;
    if (run.numbers)
        n = put_shapes(&run, events, count, (uint64_t)(events[0].kind & ~(uint32_t)CT_TAG_KIND) << 32, true);
    else
        n = put_shapes(&run, events, count, 0, false);
    if (d->detail)
        note_detail(&run, events, n);
    put_all_times(&run, events, n);
    c->count += (uint32_t)n;
    t->depth += c->state.used - used;
    t->last_ns = c->last_ns;
    return n;
}
