/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a format on another processor: see walk_pipe.h. Spans have numbers that are used again after their end. */
#include "export/walk_pipe.h"
#include "base/grow.h"
#include "trace/ahead.h"
#include <pthread.h>
#include <stdlib.h>

/* A side that waits goes on when half of the batches are there for it, so that not each one wakes a thread. */
enum { STEPS = 1024, BATCHES = 8, HALF = BATCHES / 2, NONE = 0 };

enum what { BEGIN_THREAD, END_THREAD, BEGIN, END, ENTRY, UNPAIRED, GAP, SIGNAL, OFF };

/* Something that happens in the walk. */
struct step {
    uint8_t what;
    uint8_t how; /* END: enum ct_span_end; UNPAIRED: left; OFF: begin */
    bool continued, context;
    uint32_t detail;
    uint32_t span, caller; /* numbers, NONE: none */
    uint64_t now_ns;
    struct ct_name *name;
    union {
        struct {
            uint64_t ns; /* BEGIN: start; END: self; GAP: its index; BEGIN_THREAD: the thread's */
            size_t lane;
        };
        struct ct_off_span off;
    };
};

struct batch {
    _Alignas(CT_EXPORT_APART) struct step steps[STEPS]; /* a line each */
    size_t count;
};

struct ct_walk_pipe {
    /* the walk's */
    const struct ct_walk_format *real;
    struct ct_walk_format noting;
    uint32_t *free_numbers, span_count;
    size_t free_count, free_room;
    struct batch *filling;
    /* both */
    _Alignas(CT_EXPORT_APART) pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t filled, done; /* batches */
    bool last;
    struct batch *batches;
    pthread_t thread;
    /* the format's */
    struct ct_walk walk;
    struct ct_span **spans;
    size_t room;
};

/* ---- the format's side ---- */

/* The span with this number; NULL: none, or no memory. */
static struct ct_span *span_at(struct ct_walk_pipe *p, uint32_t number) {
    if (number == NONE)
        return NULL;
    if (!ct_grow_zeroed(&p->spans, &p->room, number, sizeof(struct ct_span *), 256) ||
        (!p->spans[number] && !(p->spans[number] = calloc(1, sizeof(struct ct_span))))) {
        ct_export_fail(p->walk.e, CT_ERR_NO_MEMORY);
        return NULL;
    }
    return p->spans[number];
}

static bool has_lane(struct ct_walk *w, size_t lane) {
    while (lane >= w->lane_count) {
        if (!ct_grow(&w->lanes, &w->lane_capacity, w->lane_count, sizeof *w->lanes, 16)) {
            ct_export_fail(w->e, CT_ERR_NO_MEMORY);
            return false;
        }
        w->lanes[w->lane_count++] = (struct ct_export_lane){0};
    }
    return true;
}

static void begin_thread(struct ct_walk_pipe *p, size_t thread) {
    struct ct_walk *w = &p->walk;
    w->thread = thread;
    w->info = ct_trace_thread_at(w->e->trace, thread);
    w->process = w->info->process;
    w->lane_count = 0;
    if (p->real->begin_thread)
        p->real->begin_thread(w);
}

static void begin_span(struct ct_walk_pipe *p, const struct step *step) {
    struct ct_span *span = span_at(p, step->span), *caller = span_at(p, step->caller);
    if (!span || !has_lane(&p->walk, step->lane))
        return;
    if (!step->continued)
        *span = (struct ct_span){.name = step->name, .start_ns = step->ns, .context = step->context};
    span->continued = step->continued;
    span->lane = step->lane;
    p->real->begin(&p->walk, span, caller);
}

static void end_span(struct ct_walk_pipe *p, const struct step *step) {
    struct ct_span *span = span_at(p, step->span), *caller = span_at(p, step->caller);
    if (!span)
        return;
    span->self_ns = step->ns;
    p->real->end(&p->walk, span, caller, (enum ct_span_end)step->how);
}

static void do_step(struct ct_walk_pipe *p, const struct step *step) {
    const struct ct_walk_format *real = p->real;
    struct ct_walk *w = &p->walk;
    w->now_ns = step->now_ns;
    w->detail = step->detail;
    switch ((enum what)step->what) {
    case BEGIN_THREAD:
        begin_thread(p, (size_t)step->ns);
        break;
    case END_THREAD:
        real->end_thread(w);
        break;
    case BEGIN:
        begin_span(p, step);
        break;
    case END:
        end_span(p, step);
        break;
    case ENTRY:
        real->entry(w, step->name, span_at(p, step->caller));
        break;
    case UNPAIRED:
        real->unpaired(w, step->name, step->how);
        break;
    case GAP:
        real->gap(w, &w->e->facts.threads[w->thread].gaps[step->ns]);
        break;
    case SIGNAL:
        real->signal(w);
        break;
    case OFF:
        w->off_name = step->name;
        real->off(w, &step->off, step->how);
        break;
    }
}

static void *run_format(void *arg) {
    struct ct_walk_pipe *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        if (p->done == p->filled)
            while (p->filled - p->done < HALF && !p->last)
                pthread_cond_wait(&p->changed, &p->lock);
        if (p->done == p->filled)
            break;
        const struct batch *batch = &p->batches[p->done % BATCHES];
        pthread_mutex_unlock(&p->lock);
        for (size_t i = 0; i < batch->count && !p->walk.e->status; i++)
            do_step(p, &batch->steps[i]);
        pthread_mutex_lock(&p->lock);
        p->done++;
        if (p->filled - p->done == HALF)
            pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- the walk's side ---- */

static void hand_over(struct ct_walk_pipe *p) {
    pthread_mutex_lock(&p->lock);
    p->filled++;
    if (p->filled - p->done == HALF)
        pthread_cond_broadcast(&p->changed);
    if (p->filled - p->done == BATCHES)
        while (p->filled - p->done > HALF)
            pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    p->filling = &p->batches[p->filled % BATCHES];
    p->filling->count = 0;
}

/* The next step, to be completed before the one after it is asked for. */
static struct step *add_step(struct ct_walk *w, enum what what) {
    struct ct_walk_pipe *p = w->arg;
    if (p->filling->count == STEPS)
        hand_over(p);
    struct step *step = &p->filling->steps[p->filling->count++];
    step->what = (uint8_t)what;
    step->now_ns = w->now_ns;
    step->detail = w->detail;
    return step;
}

/* The walk does not use `node`: it has the number. */
static uint32_t number_of(const struct ct_span *span) {
    return span ? (uint32_t)(uintptr_t)span->node : NONE;
}

static uint32_t new_number(struct ct_walk_pipe *p) {
    return p->free_count ? p->free_numbers[--p->free_count] : ++p->span_count;
}

static void note_begin_thread(struct ct_walk *w) {
    add_step(w, BEGIN_THREAD)->ns = w->thread;
}

static void note_end_thread(struct ct_walk *w) {
    (void)add_step(w, END_THREAD);
}

static void note_begin(struct ct_walk *w, struct ct_span *span, struct ct_span *caller) {
    struct step *step = add_step(w, BEGIN);
    if (!span->continued)
        span->node = (void *)(uintptr_t)new_number(w->arg);
    step->span = number_of(span);
    step->caller = number_of(caller);
    step->continued = span->continued;
    step->context = span->context;
    step->lane = span->lane;
    step->ns = span->start_ns;
    step->name = span->name;
}

static void note_end(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how) {
    struct ct_walk_pipe *p = w->arg;
    struct step *step = add_step(w, END);
    step->span = number_of(span);
    step->caller = number_of(caller);
    step->how = (uint8_t)how;
    step->ns = span->self_ns;
    if (how == CT_SPAN_MOVED)
        return;
    if (ct_grow(&p->free_numbers, &p->free_room, p->free_count, sizeof *p->free_numbers, 256))
        p->free_numbers[p->free_count++] = step->span;
}

static void note_entry(struct ct_walk *w, struct ct_name *name, struct ct_span *caller) {
    struct step *step = add_step(w, ENTRY);
    step->name = name;
    step->caller = number_of(caller);
}

static void note_unpaired(struct ct_walk *w, struct ct_name *name, bool left) {
    struct step *step = add_step(w, UNPAIRED);
    step->name = name;
    step->how = left;
}

static void note_gap(struct ct_walk *w, const struct ct_gap *gap) {
    add_step(w, GAP)->ns = (uint64_t)(gap - w->e->facts.threads[w->thread].gaps);
}

static void note_signal(struct ct_walk *w) {
    (void)add_step(w, SIGNAL);
}

static void note_off(struct ct_walk *w, const struct ct_off_span *span, bool begin) {
    struct step *step = add_step(w, OFF);
    step->off = *span;
    step->how = begin;
    step->name = w->off_name;
}

/* ---- the pipe ---- */

/* Notes what the format has a function for. */
static struct ct_walk_format noting(const struct ct_walk_format *real) {
    return (struct ct_walk_format){.begin_thread = note_begin_thread,
                                   .end_thread = real->end_thread ? note_end_thread : NULL,
                                   .begin = note_begin,
                                   .end = note_end,
                                   .entry = real->entry ? note_entry : NULL,
                                   .unpaired = real->unpaired ? note_unpaired : NULL,
                                   .gap = real->gap ? note_gap : NULL,
                                   .signal = real->signal ? note_signal : NULL,
                                   .off = real->off ? note_off : NULL,
                                   .names_off = real->names_off};
}

struct ct_walk_pipe *ct_walk_pipe_open(struct ct_export *e, const struct ct_walk_format *format, void *arg) {
    uint64_t least = e->trace->ahead_least ? e->trace->ahead_least : CT_AHEAD_LEAST;
    /* With two it pays only where these share a cache: docs/PERFORMANCE.md, "What did not pay". */
    unsigned processors = e->trace->ahead_least ? 2 : 3;
    if (!format->writes || ct_ahead_processors(e->trace) < processors || e->total < least)
        return NULL;
    struct ct_walk_pipe *p = aligned_alloc(CT_EXPORT_APART, sizeof *p);
    struct batch *batches = aligned_alloc(CT_EXPORT_APART, BATCHES * sizeof *batches);
    if (!p || !batches) {
        free(batches);
        free(p);
        return NULL;
    }
    batches->count = 0;
    *p = (struct ct_walk_pipe){.real = format,
                               .noting = noting(format),
                               .filling = batches,
                               .batches = batches,
                               .walk = {.e = e, .arg = arg, .format = format}};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    if (pthread_create(&p->thread, NULL, run_format, p) == 0)
        return p;
    free(batches);
    free(p);
    return NULL;
}

const struct ct_walk_format *ct_walk_pipe_format(const struct ct_walk_pipe *p) {
    return &p->noting;
}

void ct_walk_pipe_close(struct ct_walk_pipe *p) {
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->filled++;
    p->last = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    for (size_t i = 0; i < p->room; i++)
        free(p->spans[i]);
    free(p->spans);
    free(p->walk.lanes);
    free(p->free_numbers);
    free(p->batches);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
