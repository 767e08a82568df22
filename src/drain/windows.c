/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of detail. See windows.h. */
#include "drain/windows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_NS  2000000000ull /* records of a window may come this long after its end */
#define DEFAULT_MS 1000
#define POST_MOST  10000u
#define ENDLESS    UINT64_MAX

static uint64_t max_of(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t min_of(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- life ---- */

static uint64_t roll_ns(int ms, uint64_t events) {
    if (!ms)
        ms = events ? 0 : DEFAULT_MS;
    return ms > 0 ? (uint64_t)ms * 1000000u : 0;
}

struct ct_windows_options ct_windows_options_of(const struct ct_session_options *o) {
    return (struct ct_windows_options){
        .detail = o->detail,
        .rolls = {.pre_ns = roll_ns(o->pre_roll_ms, o->pre_roll_events),
                  .post_ns = roll_ns(o->post_roll_ms, o->post_roll_events),
                  .pre_events = o->pre_roll_events,
                  .post_events = o->post_roll_events,
                  .post_most = o->post_roll_ms || o->post_roll_events ? 0 : POST_MOST},
        .grows = o->detail_memory || o->pre_roll_ms > 0 || o->pre_roll_events,
    };
}

void ct_windows_init(struct ct_windows *w, const struct ct_windows_options *options) {
    *w = (struct ct_windows){.options = *options};
    w->state = options->detail == CT_SESSION_DETAIL_ALWAYS ? CT_SESSION_WINDOW_PERSISTING : CT_SESSION_WINDOW_CAPTURING;
}

static void free_window(struct ct_window *window) {
    free(window->reasons);
    free(window);
}

void ct_windows_free(struct ct_windows *w) {
    for (size_t i = 0; i < w->count; i++)
        free_window(w->recent[i]);
    for (size_t i = 0; i < w->kept_count; i++)
        free_window(w->kept[(w->kept_first + i) % CT_WINDOWS_KEPT]);
    for (size_t i = 0; i < w->text_count; i++)
        free(w->texts[i]);
    *w = (struct ct_windows){0};
}

/* ---- reasons ---- */

/* The place of a text: equal texts have the same one. The last place is for texts that do not fit. */
static size_t place_of_text(struct ct_windows *w, const char *text) {
    if (w->last_text < w->text_count && !strcmp(w->texts[w->last_text], text))
        return w->last_text;
    size_t i = 0;
    while (i < w->text_count && strcmp(w->texts[i], text))
        i++;
    if (i == CT_WINDOWS_REASONS)
        i--;
    if (i == w->text_count) {
        w->texts[i] = strdup(i + 1 == CT_WINDOWS_REASONS ? "other" : text);
        if (!w->texts[i])
            return SIZE_MAX;
        w->text_count++;
    }
    return w->last_text = i;
}

static bool add_reason(struct ct_window *window, const struct ct_window_reason *reason) {
    for (size_t i = 0; i < window->reason_count; i++) {
        struct ct_window_reason *r = &window->reasons[i];
        if (r->text != reason->text)
            continue;
        uint64_t count = r->count + reason->count;
        if (reason->first_ns < r->first_ns)
            *r = *reason;
        r->count = count;
        return true;
    }
    struct ct_window_reason *grown = realloc(window->reasons, (window->reason_count + 1) * sizeof *grown);
    if (!grown)
        return false;
    window->reasons = grown;
    grown[window->reason_count++] = *reason;
    return true;
}

/* ---- the list ---- */

/* The newest window that begins at or before the time; -1: none. */
static int last_from(const struct ct_windows *w, uint64_t ns) {
    size_t low = 0, high = w->count;
    if (high && w->recent[high - 1]->start <= ns) /* the usual case */
        return (int)high - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (w->recent[middle]->start <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return (int)low - 1;
}

static struct ct_window *window_at(const struct ct_windows *w, uint64_t ns) {
    int i = last_from(w, ns);
    return i >= 0 && ns <= w->recent[i]->end ? w->recent[i] : NULL;
}

/* Makes one window of two. What was between them was not wanted, unless they overlap. */
static void join_windows(struct ct_windows *w, size_t i) {
    struct ct_window *a = w->recent[i], *b = w->recent[i + 1];
    a->start = min_of(a->start, b->start);
    a->first_mark = min_of(a->first_mark, b->first_mark);
    a->reach = max_of(a->reach, b->reach > a->first_mark ? 0 : b->reach);
    a->first_record = a->records && b->records ? min_of(a->first_record, b->first_record)
                      : a->records             ? a->first_record
                                               : b->first_record;
    a->last_record = max_of(a->last_record, b->last_record);
    a->records += b->records;
    a->older += b->older;
    a->oldest = a->oldest && (!b->oldest || a->oldest < b->oldest) ? a->oldest : b->oldest;
    a->short_events |= b->short_events;
    a->short_start |= b->short_start;
    a->short_end |= b->short_end;
    if (b->last_mark >= a->last_mark) {
        a->last_mark = b->last_mark;
        a->left = b->left;
        a->tid = b->tid;
        a->post_ns = b->post_ns;
        a->most = b->most;
        a->after = b->after;
        a->limited = b->limited;
    }
    a->end = max_of(a->end, b->end);
    for (size_t k = 0; k < b->reason_count; k++)
        if (!add_reason(a, &b->reasons[k]))
            w->dropped_marks += b->reasons[k].count;
    free_window(b);
    memmove(&w->recent[i + 1], &w->recent[i + 2], (w->count - i - 2) * sizeof w->recent[0]);
    w->count--;
    w->opened--;
}

/* Moves the oldest window, which needs no more records, to the finished ones. */
static void finish_oldest(struct ct_windows *w) {
    if (w->kept_count == CT_WINDOWS_KEPT) {
        free_window(w->kept[w->kept_first]);
        w->kept_first = (w->kept_first + 1) % CT_WINDOWS_KEPT;
        w->kept_count--;
        w->omitted++;
    }
    w->kept[(w->kept_first + w->kept_count++) % CT_WINDOWS_KEPT] = w->recent[0];
    memmove(&w->recent[0], &w->recent[1], --w->count * sizeof w->recent[0]);
    w->finished++;
}

static struct ct_window *insert_window(struct ct_windows *w, const struct ct_window *what) {
    if (w->count == CT_WINDOWS_RECENT)
        join_windows(w, 0);
    struct ct_window *window = malloc(sizeof *window);
    if (!window)
        return NULL;
    *window = *what;
    size_t i = (size_t)(last_from(w, what->start) + 1);
    memmove(&w->recent[i + 1], &w->recent[i], (w->count - i) * sizeof w->recent[0]);
    w->recent[i] = window;
    w->count++;
    w->opened++;
    return window;
}

/* ---- marks ---- */

/* Adds the new window to one that it overlaps or touches, and then joins all that overlap. NULL: there is none. */
static struct ct_window *merge_window(struct ct_windows *w, const struct ct_window *what) {
    int i = last_from(w, what->end);
    if (i < 0 || w->recent[i]->end < what->start)
        return NULL;
    struct ct_window *window = w->recent[i];
    window->short_start = what->start < window->start ? what->short_start : window->short_start;
    window->start = min_of(window->start, what->start);
    window->first_mark = min_of(window->first_mark, what->first_mark);
    if (what->last_mark >= window->last_mark) {
        window->last_mark = what->last_mark;
        window->left = what->left;
        window->tid = what->tid;
        window->post_ns = what->post_ns;
        window->most = what->most;
        window->after = 0;
        window->limited = false;
        window->end = max_of(window->end, what->end);
    } else if (!what->left) {
        window->end = max_of(window->end, what->end);
    }
    while (i > 0 && w->recent[i - 1]->end >= window->start)
        join_windows(w, (size_t)--i);
    return w->recent[i];
}

static struct ct_window span_of(const struct ct_windows *w, uint64_t ns, int tid, uint64_t pre_ns,
                                const struct ct_windows_rolls *o) {
    struct ct_window span = {
        .start = ns > o->pre_ns ? ns - o->pre_ns : 0,
        .end = ns + o->post_ns,
        .first_mark = ns,
        .last_mark = ns,
        .left = o->post_events,
        .tid = tid,
        .post_ns = o->post_ns,
        .most = o->post_most,
    };
    span.start = min_of(span.start, pre_ns);
    if (o->post_events)
        span.end = ENDLESS;
    span.short_start = span.start < w->start_ns;
    span.start = min_of(max_of(span.start, w->start_ns), ns);
    if (w->end_ns && span.end > w->end_ns) {
        span.end = max_of(w->end_ns, ns);
        span.short_end = true;
    }
    if (w->lost_ns > span.start)
        span.reach = min_of(w->lost_ns, ns);
    return span;
}

static struct ct_window *window_of_mark(struct ct_windows *w, uint64_t ns, int tid, uint64_t pre_ns,
                                        const struct ct_windows_rolls *rolls) {
    struct ct_window span = span_of(w, ns, tid, pre_ns, rolls);
    if (w->options.detail == CT_SESSION_DETAIL_ALWAYS) {
        struct ct_window *all = w->count ? w->recent[0] : NULL;
        if (all && !all->first_mark)
            all->first_mark = ns;
        if (all)
            all->last_mark = max_of(all->last_mark, ns);
        return all;
    }
    struct ct_window *window = merge_window(w, &span);
    if (!window) {
        window = insert_window(w, &span);
        w->state = window ? CT_SESSION_WINDOW_MARKED : w->state;
    } else if (w->state == CT_SESSION_WINDOW_CAPTURING) {
        w->state = CT_SESSION_WINDOW_MARKED; /* it was over, and continues */
    }
    return window;
}

static void note_new_mark(struct ct_windows *w, uint64_t ns, uint64_t events) {
    w->new_first = w->new_marks ? min_of(w->new_first, ns) : ns;
    w->new_last = w->new_marks ? max_of(w->new_last, ns) : ns;
    w->new_events = w->new_marks ? max_of(w->new_events, events) : events;
    w->new_marks++;
}

static void add_mark(struct ct_windows *w, const struct ct_window_reason *mark, const char *text, uint64_t pre_ns,
                     const struct ct_windows_rolls *rolls) {
    struct ct_window_reason reason = *mark;
    uint64_t ns = reason.first_ns;
    w->marks++;
    if (w->options.detail == CT_SESSION_DETAIL_OFF)
        return;
    note_new_mark(w, ns, rolls->pre_events);
    size_t place = place_of_text(w, text);
    struct ct_window *window = place == SIZE_MAX ? NULL : window_of_mark(w, ns, reason.first_tid, pre_ns, rolls);
    reason.text = (uint32_t)place;
    if (!window || !add_reason(window, &reason))
        w->dropped_marks++;
}

void ct_windows_mark_from(struct ct_windows *w, uint64_t ns, const char *text, int tid, uint64_t function_id,
                          uint64_t pre_ns) {
    const struct ct_window_reason mark = {0, tid, 1, ns, function_id};
    add_mark(w, &mark, text, pre_ns, &w->options.rolls);
}

void ct_windows_mark_rolls(struct ct_windows *w, uint64_t ns, const char *text, const struct ct_windows_rolls *rolls) {
    const struct ct_window_reason mark = {0, 0, 1, ns, 0};
    add_mark(w, &mark, text, ns, rolls);
}

void ct_windows_mark(struct ct_windows *w, uint64_t ns, const char *text, int tid, uint64_t function_id) {
    ct_windows_mark_from(w, ns, text, tid, function_id, ns);
}

void ct_windows_repeat(struct ct_windows *w, const char *text, uint64_t count) {
    w->marks += count;
    struct ct_window *newest = w->count ? w->recent[w->count - 1] : NULL;
    size_t place = newest ? place_of_text(w, text) : SIZE_MAX;
    for (size_t i = 0; newest && i < newest->reason_count; i++)
        if (newest->reasons[i].text == place)
            newest->reasons[i].count += count;
}

void ct_windows_hold(struct ct_windows *w, uint64_t ns, const char *text) {
    size_t place = place_of_text(w, text) + 1;
    struct ct_window *newest = w->count ? w->recent[w->count - 1] : NULL;
    w->held_now = true;
    if (w->held != place || !newest) {
        ct_windows_mark(w, ns, text, 0, 0);
        w->held = place;
        return;
    }
    newest->last_mark = max_of(newest->last_mark, ns);
    newest->left = w->options.rolls.post_events;
    newest->end = newest->left ? ENDLESS : max_of(newest->end, ns + w->options.rolls.post_ns);
}

bool ct_windows_ask(struct ct_windows *w, const struct ct_windows_ask *ask) {
    uint32_t next = w->asked_next;
    if (w->options.detail == CT_SESSION_DETAIL_OFF ||
        next - __atomic_load_n(&w->asked_taken, __ATOMIC_ACQUIRE) == CT_WINDOWS_ASKED)
        return false;
    w->asked[next % CT_WINDOWS_ASKED] = *ask;
    __atomic_store_n(&w->asked_next, next + 1, __ATOMIC_RELEASE);
    return true;
}

bool ct_windows_is_asked(const struct ct_windows *w) {
    return __atomic_load_n(&w->asked_next, __ATOMIC_ACQUIRE) != __atomic_load_n(&w->asked_taken, __ATOMIC_RELAXED);
}

void ct_windows_take_asked(struct ct_windows *w) {
    while (ct_windows_is_asked(w)) {
        const struct ct_windows_ask *ask = &w->asked[w->asked_taken % CT_WINDOWS_ASKED];
        char text[sizeof CT_WINDOWS_MANUAL + 2 + CT_WINDOWS_LABEL];
        snprintf(text, sizeof text, "%s%s%.*s", CT_WINDOWS_MANUAL, ask->label[0] ? ": " : "",
                 (int)sizeof ask->label - 1, ask->label);
        ct_windows_mark_rolls(w, ask->ns, text, &ask->rolls);
        __atomic_store_n(&w->asked_taken, w->asked_taken + 1, __ATOMIC_RELEASE);
    }
}

/* ---- records ---- */

bool ct_windows_wants(const struct ct_windows *w, uint64_t ns) {
    if (w->options.detail != CT_SESSION_DETAIL_MARKED)
        return w->options.detail == CT_SESSION_DETAIL_ALWAYS;
    return window_at(w, ns) != NULL;
}

bool ct_windows_active(const struct ct_windows *w) {
    return w->count || w->options.detail == CT_SESSION_DETAIL_ALWAYS || ct_windows_is_asked(w);
}

bool ct_windows_settled(const struct ct_windows *w, uint64_t now) {
    const struct ct_window *newest = w->count ? w->recent[w->count - 1] : NULL;
    if (w->options.detail == CT_SESSION_DETAIL_ALWAYS || ct_windows_is_asked(w))
        return false;
    return !newest || (newest->end < now && now - newest->end > SETTLE_NS);
}

/* The post-roll ends with this record, unless its time is not over yet. */
static void close_counted(struct ct_window *window, uint64_t ns) {
    window->left = 0;
    window->end = max_of(max_of(ns, window->last_mark), window->last_mark + window->post_ns);
}

void ct_windows_saw(struct ct_windows *w, int tid, uint64_t ns) {
    struct ct_window *newest = w->count ? w->recent[w->count - 1] : NULL;
    if (!newest || !newest->left || ns <= newest->last_mark || (newest->tid && newest->tid != tid))
        return;
    if (!--newest->left)
        close_counted(newest, ns);
}

void ct_windows_thread_ended(struct ct_windows *w, int tid, uint64_t ns) {
    struct ct_window *newest = w->count ? w->recent[w->count - 1] : NULL;
    if (newest && newest->left && newest->tid == tid)
        close_counted(newest, ns);
}

void ct_windows_persisted(struct ct_windows *w, uint64_t ns) {
    struct ct_window *window = window_at(w, ns);
    if (!window)
        return;
    window->first_record = window->records ? min_of(window->first_record, ns) : ns;
    window->last_record = max_of(window->last_record, ns);
    window->records++;
    if (window->most && ns > window->last_mark && !window->limited && ++window->after == window->most) {
        window->limited = true;
        window->end = max_of(window->last_record, window->last_mark);
    }
}

void ct_windows_kept(struct ct_windows *w, uint64_t ns) {
    struct ct_window *newest = w->count ? w->recent[w->count - 1] : NULL;
    if (!newest)
        return;
    newest->oldest = newest->older++ ? min_of(newest->oldest, ns) : ns;
}

void ct_windows_short(struct ct_windows *w) {
    if (w->count)
        w->recent[w->count - 1]->short_events = true;
}

void ct_windows_lost(struct ct_windows *w, uint64_t ns) {
    w->lost_ns = max_of(w->lost_ns, ns);
    for (size_t i = 0; i < w->count; i++) {
        struct ct_window *window = w->recent[i];
        if (ns > window->start && ns <= window->first_mark)
            window->reach = max_of(window->reach, ns);
    }
}

/* ---- time ---- */

static struct ct_window *open_always(struct ct_windows *w, uint64_t ns) {
    struct ct_window all = {.start = ns, .end = ENDLESS};
    struct ct_window *window = insert_window(w, &all);
    size_t place = place_of_text(w, "always");
    const struct ct_window_reason reason = {(uint32_t)place, 0, 1, ns, 0};
    if (window && place != SIZE_MAX)
        (void)add_reason(window, &reason);
    return window;
}

void ct_windows_start(struct ct_windows *w, uint64_t ns) {
    w->start_ns = ns;
    if (w->options.detail == CT_SESSION_DETAIL_ALWAYS && !w->count)
        (void)open_always(w, ns);
}

/* No more records come, and no pre-roll of a later mark reaches into the window: that would make one window of both. */
static bool is_window_over(const struct ct_windows *w, const struct ct_window *window, uint64_t now) {
    if (window->end >= now || now - window->end <= SETTLE_NS)
        return false;
    return now - window->end > SETTLE_NS + w->options.rolls.pre_ns || window->end < w->gone_ns;
}

void ct_windows_tick(struct ct_windows *w, uint64_t now) {
    if (w->options.detail == CT_SESSION_DETAIL_ALWAYS)
        return;
    const struct ct_window *newest = w->count ? w->recent[w->count - 1] : NULL;
    if (w->state == CT_SESSION_WINDOW_MARKED)
        w->state = CT_SESSION_WINDOW_PERSISTING;
    else if (w->state == CT_SESSION_WINDOW_PERSISTING && !w->held_now && (!newest || newest->end < now))
        w->state = CT_SESSION_WINDOW_CAPTURING;
    if (!w->held_now)
        w->held = 0;
    w->held_now = false;
    while (w->count && is_window_over(w, w->recent[0], now))
        finish_oldest(w);
}

void ct_windows_end(struct ct_windows *w, uint64_t ns) {
    ct_windows_take_asked(w);
    w->end_ns = ns;
    for (size_t i = 0; i < w->count; i++) {
        struct ct_window *window = w->recent[i];
        if (window->end <= ns)
            continue;
        window->short_end = w->options.detail != CT_SESSION_DETAIL_ALWAYS;
        window->last_mark = max_of(window->first_mark, min_of(window->last_mark, ns)); /* one that lasts: time= */
        window->end = max_of(ns, window->last_mark);
        window->left = 0;
    }
    w->state = CT_SESSION_WINDOW_CAPTURING;
}
