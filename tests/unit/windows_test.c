/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of detail: each edge of their states, how they merge, what the manifest says, and storms of marks. */
#include "drain/windows.h"
#include "base/json_write.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS    1000000ull
#define S     1000000000ull
#define START (1000 * S)

static struct ct_windows made(const struct ct_session_options *options) {
    struct ct_windows w;
    const struct ct_windows_options o = ct_windows_options_of(options);
    ct_windows_init(&w, &o);
    ct_windows_start(&w, START);
    return w;
}

static struct ct_windows usual(void) {
    const struct ct_session_options o = {.size = sizeof o, .pre_roll_ms = 100, .post_roll_ms = 200};
    return made(&o);
}

static void is(const struct ct_windows *w, enum ct_session_window state) {
    if (w->state != state)
        fail_msg("%s instead of %s", ct_session_window_name(w->state), ct_session_window_name(state));
}

/* ---- options ---- */

static void rolls_from_options(void **state) {
    (void)state;
    struct ct_session_options o = {.size = sizeof o};
    struct ct_windows_options w = ct_windows_options_of(&o);
    assert_int_equal(w.rolls.pre_ns, S);
    assert_int_equal(w.rolls.post_ns, S);
    assert_int_equal(w.rolls.post_most, 10000);
    assert_false(w.grows); /* a mebibyte stays in the processor's cache */
    o.detail_memory = 4 << 20;
    assert_true(ct_windows_options_of(&o).grows);
    o.detail_memory = 0;
    o.pre_roll_ms = -1;
    o.post_roll_events = 7;
    w = ct_windows_options_of(&o);
    assert_int_equal(w.rolls.pre_ns, 0);
    assert_int_equal(w.rolls.post_ns, 0); /* in records only */
    assert_int_equal(w.rolls.post_events, 7);
    assert_int_equal(w.rolls.post_most, 0);
    o.post_roll_ms = 5;
    assert_int_equal(ct_windows_options_of(&o).rolls.post_ns, 5 * MS);
}

/* ---- states ---- */

static void every_edge(void **state) {
    (void)state;
    struct ct_windows w = usual();
    uint64_t t = START + S;
    is(&w, CT_SESSION_WINDOW_CAPTURING);
    ct_windows_tick(&w, t);
    is(&w, CT_SESSION_WINDOW_CAPTURING);
    ct_windows_mark(&w, t, "symbol=f", 1, 2);
    is(&w, CT_SESSION_WINDOW_MARKED);
    ct_windows_mark(&w, t + MS, "symbol=f", 1, 2);
    is(&w, CT_SESSION_WINDOW_MARKED);
    ct_windows_tick(&w, t + 2 * MS);
    is(&w, CT_SESSION_WINDOW_PERSISTING);
    ct_windows_mark(&w, t + 150 * MS, "symbol=f", 1, 2);
    is(&w, CT_SESSION_WINDOW_PERSISTING);
    ct_windows_tick(&w, t + 350 * MS); /* the last moment of it */
    is(&w, CT_SESSION_WINDOW_PERSISTING);
    ct_windows_tick(&w, t + 350 * MS + 1);
    is(&w, CT_SESSION_WINDOW_CAPTURING);
    ct_windows_mark(&w, t + S, "symbol=f", 1, 2);
    ct_windows_tick(&w, t + S);
    is(&w, CT_SESSION_WINDOW_PERSISTING);
    ct_windows_mark(&w, t + 2 * S, "symbol=f", 1, 2); /* another window, before it was seen that the last is over */
    is(&w, CT_SESSION_WINDOW_MARKED);
    assert_int_equal(w.opened, 3);
    ct_windows_tick(&w, t + 3 * S); /* what was before is written first, though the post-roll is over as well */
    is(&w, CT_SESSION_WINDOW_PERSISTING);
    ct_windows_tick(&w, t + 3 * S);
    is(&w, CT_SESSION_WINDOW_CAPTURING);
    ct_windows_mark(&w, t + 4 * S, "symbol=f", 1, 2);
    ct_windows_end(&w, t + 4 * S + MS);
    is(&w, CT_SESSION_WINDOW_CAPTURING);
    ct_windows_free(&w);
}

static void late_mark_opens_again(void **state) {
    (void)state;
    struct ct_windows w = usual();
    uint64_t t = START + S;
    ct_windows_mark(&w, t, "a", 1, 0);
    ct_windows_tick(&w, t);
    ct_windows_tick(&w, t + 250 * MS);
    is(&w, CT_SESSION_WINDOW_CAPTURING);
    ct_windows_mark(&w, t + 210 * MS, "a", 1, 0); /* its pre-roll reaches into the window */
    is(&w, CT_SESSION_WINDOW_MARKED);
    assert_int_equal(w.opened, 1);
    assert_int_equal(w.recent[0]->end, t + 410 * MS);
    ct_windows_free(&w);
}

static bool ask(struct ct_windows *w, uint64_t ns, const char *label, uint64_t pre_ns) {
    struct ct_windows_ask a = {.ns = ns, .rolls = w->options.rolls};
    snprintf(a.label, sizeof a.label, "%s", label);
    a.rolls.pre_ns = pre_ns ? pre_ns : a.rolls.pre_ns;
    return ct_windows_ask(w, &a);
}

static void asked_marks(void **state) {
    (void)state;
    struct ct_windows w = usual();
    assert_false(ct_windows_active(&w));
    assert_true(ask(&w, START + S, "", 0));
    assert_true(ask(&w, START + S + 1, "", 0));
    assert_true(ct_windows_active(&w));
    is(&w, CT_SESSION_WINDOW_CAPTURING);
    ct_windows_take_asked(&w);
    ct_windows_tick(&w, START + S + MS);
    assert_int_equal(w.marks, 2);
    assert_true(ct_windows_wants(&w, START + S - 100 * MS));
    assert_true(ct_windows_wants(&w, START + S + 200 * MS));
    assert_string_equal(w.texts[w.recent[0]->reasons[0].text], "manual");
    assert_int_equal(w.recent[0]->reasons[0].count, 2);
    for (unsigned i = 0; i < CT_WINDOWS_ASKED; i++)
        assert_true(ask(&w, START + 2 * S, "", 0));
    assert_false(ask(&w, START + 2 * S, "", 0)); /* more than can wait */
    ct_windows_take_asked(&w);
    ct_windows_tick(&w, START + 2 * S);
    assert_int_equal(w.marks, 2 + CT_WINDOWS_ASKED);
    ct_windows_free(&w);
}

static void labels_and_rolls_of_marks(void **state) {
    (void)state;
    struct ct_windows w = usual();
    assert_true(ask(&w, START + 10 * S, "before deploy", 2 * S));
    assert_true(ask(&w, START + 12 * S, "", 0));
    ct_windows_take_asked(&w);
    ct_windows_tick(&w, START + 12 * S);
    assert_int_equal(w.count, 2);
    assert_int_equal(w.recent[0]->start, START + 8 * S);
    assert_int_equal(w.recent[1]->start, START + 12 * S - 100 * MS);
    assert_string_equal(w.texts[w.recent[0]->reasons[0].text], "manual: before deploy");
    assert_string_equal(w.texts[w.recent[1]->reasons[0].text], "manual");
    assert_int_equal(w.new_marks, 2);
    assert_int_equal(w.new_first, START + 10 * S);
    assert_int_equal(w.new_last, START + 12 * S);
    ct_windows_free(&w);
}

/* The default post-roll is over after 10,000 records; another mark begins a new one. */
static void post_roll_is_limited(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o};
    struct ct_windows w = made(&o);
    ct_windows_mark(&w, START + S, "a", 1, 0);
    for (uint64_t i = 0; i <= 10000; i++) /* the marked one, and those after it */
        ct_windows_persisted(&w, START + S + i);
    assert_int_equal(w.recent[0]->end, START + S + 10000);
    assert_false(ct_windows_wants(&w, START + S + 10001));
    ct_windows_mark(&w, START + S + 20000, "a", 1, 0);
    assert_int_equal(w.count, 1);
    assert_int_equal(w.recent[0]->end, START + 2 * S + 20000);
    assert_false(w.recent[0]->limited);
    ct_windows_free(&w);
}

/* ---- spans ---- */

static void exact_limits(void **state) {
    (void)state;
    struct ct_windows w = usual();
    uint64_t t = START + S;
    ct_windows_mark(&w, t, "a", 1, 0);
    assert_false(ct_windows_wants(&w, t - 100 * MS - 1));
    assert_true(ct_windows_wants(&w, t - 100 * MS));
    assert_true(ct_windows_wants(&w, t));
    assert_true(ct_windows_wants(&w, t + 200 * MS));
    assert_false(ct_windows_wants(&w, t + 200 * MS + 1));
    ct_windows_mark(&w, t + S, "a", 1, 0); /* both are wanted */
    assert_true(ct_windows_wants(&w, t));
    assert_false(ct_windows_wants(&w, t + 500 * MS));
    assert_true(ct_windows_wants(&w, t + S));
    ct_windows_free(&w);
}

static void no_rolls(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .pre_roll_ms = -1, .post_roll_ms = -1};
    struct ct_windows w = made(&o);
    ct_windows_mark(&w, START + 10, "a", 1, 0);
    ct_windows_mark(&w, START + 12, "a", 1, 0);
    assert_true(ct_windows_wants(&w, START + 10));
    assert_false(ct_windows_wants(&w, START + 11));
    assert_true(ct_windows_wants(&w, START + 12));
    assert_int_equal(w.opened, 2);
    ct_windows_free(&w);
}

static void overlaps_merge_and_keep_reasons(void **state) {
    (void)state;
    struct ct_windows w = usual();
    uint64_t t = START + S;
    ct_windows_mark(&w, t, "symbol=f", 11, 101);
    ct_windows_mark(&w, t + 300 * MS, "crash", 12, 102); /* touches: 200 after, 100 before */
    ct_windows_mark(&w, t + 310 * MS, "symbol=f", 13, 103);
    ct_windows_mark(&w, t + 611 * MS, "manual", 0, 0); /* just not */
    assert_int_equal(w.count, 2);
    assert_int_equal(w.opened, 2);
    const struct ct_window *a = w.recent[0];
    assert_int_equal(a->start, t - 100 * MS);
    assert_int_equal(a->end, t + 510 * MS);
    assert_int_equal(a->first_mark, t);
    assert_int_equal(a->last_mark, t + 310 * MS);
    assert_int_equal(a->reason_count, 2);
    assert_int_equal(a->reasons[0].count, 2);
    assert_int_equal(a->reasons[0].first_tid, 11);
    assert_int_equal(a->reasons[0].first_function, 101);
    assert_int_equal(a->reasons[1].count, 1);
    assert_int_equal(a->reasons[1].first_ns, t + 300 * MS);
    ct_windows_free(&w);
}

/* A mark of another thread that comes late lies between two windows and makes them one. */
static void late_mark_joins_two(void **state) {
    (void)state;
    struct ct_windows w = usual();
    uint64_t t = START + S;
    ct_windows_mark(&w, t, "a", 1, 0);
    ct_windows_mark(&w, t + 400 * MS, "b", 2, 0);
    assert_int_equal(w.count, 2);
    ct_windows_persisted(&w, t);
    ct_windows_persisted(&w, t + 390 * MS);
    ct_windows_mark(&w, t + 250 * MS, "c", 3, 0);
    assert_int_equal(w.count, 1);
    assert_int_equal(w.opened, 1);
    const struct ct_window *a = w.recent[0];
    assert_int_equal(a->start, t - 100 * MS);
    assert_int_equal(a->end, t + 600 * MS);
    assert_int_equal(a->last_mark, t + 400 * MS);
    assert_int_equal(a->reason_count, 3);
    assert_int_equal(a->records, 2);
    assert_int_equal(a->first_record, t);
    assert_int_equal(a->last_record, t + 390 * MS);
    ct_windows_free(&w);
}

static void late_mark_before_all(void **state) {
    (void)state;
    struct ct_windows w = usual();
    uint64_t t = START + 10 * S;
    ct_windows_mark(&w, t, "a", 1, 0);
    ct_windows_mark(&w, t - 5 * S, "b", 2, 0);
    ct_windows_mark(&w, t - 2 * S, "c", 2, 0);
    assert_int_equal(w.count, 3);
    assert_int_equal(w.recent[0]->first_mark, t - 5 * S);
    assert_int_equal(w.recent[1]->first_mark, t - 2 * S);
    assert_int_equal(w.recent[2]->first_mark, t);
    assert_true(ct_windows_wants(&w, t - 5 * S));
    assert_false(ct_windows_wants(&w, t - 3 * S));
    ct_windows_free(&w);
}

static void short_at_the_start(void **state) {
    (void)state;
    struct ct_windows w = usual();
    ct_windows_mark(&w, START + 30 * MS, "a", 1, 0);
    assert_int_equal(w.recent[0]->start, START);
    assert_true(w.recent[0]->short_start);
    ct_windows_mark(&w, START + S, "a", 1, 0);
    assert_false(w.recent[1]->short_start);
    ct_windows_free(&w);
}

static void short_at_the_end(void **state) {
    (void)state;
    struct ct_windows w = usual();
    ct_windows_mark(&w, START + S, "a", 1, 0);
    ct_windows_mark(&w, START + 2 * S, "a", 1, 0);
    ct_windows_end(&w, START + 2 * S + 40 * MS);
    assert_int_equal(w.recent[0]->end, START + S + 200 * MS);
    assert_false(w.recent[0]->short_end);
    assert_int_equal(w.recent[1]->end, START + 2 * S + 40 * MS);
    assert_true(w.recent[1]->short_end);
    ct_windows_mark(&w, START + 2 * S + 39 * MS, "late", 1, 0); /* found when all was over */
    assert_int_equal(w.recent[1]->end, START + 2 * S + 40 * MS);
    ct_windows_free(&w);
}

/* A mark that lasts is renewed in each pass, also in those after the recording's end. */
static void lasts_until_the_end(void **state) {
    (void)state;
    struct ct_windows w = usual();
    for (uint64_t t = START + S; t <= START + 2 * S; t += 100 * MS) {
        ct_windows_hold(&w, t, "time");
        ct_windows_tick(&w, t);
    }
    ct_windows_end(&w, START + S + 950 * MS);
    assert_int_equal(w.recent[0]->end, START + S + 950 * MS);
    assert_int_equal(w.recent[0]->last_mark, START + S + 950 * MS);
    ct_windows_free(&w);
}

static void short_of_memory(void **state) {
    (void)state;
    struct ct_windows w = usual();
    uint64_t t = START + S;
    ct_windows_lost(&w, t - 60 * MS); /* overwritten before there was a mark */
    ct_windows_mark(&w, t, "a", 1, 0);
    assert_int_equal(w.recent[0]->reach, t - 60 * MS);
    ct_windows_lost(&w, t - 30 * MS); /* and before it was written */
    assert_int_equal(w.recent[0]->reach, t - 30 * MS);
    ct_windows_lost(&w, t + 30 * MS); /* after the mark: that is counted as lost, and no matter of the pre-roll */
    assert_int_equal(w.recent[0]->reach, t - 30 * MS);
    ct_windows_mark(&w, t + S, "a", 1, 0); /* that one is whole */
    assert_int_equal(w.recent[1]->reach, 0);
    ct_windows_free(&w);
}

/* ---- records instead of times ---- */

static void rolls_in_records(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .pre_roll_events = 10, .post_roll_events = 3};
    struct ct_windows w = made(&o);
    uint64_t t = START + S;
    ct_windows_mark_from(&w, t, "a", 7, 0, t - 55);
    assert_false(ct_windows_wants(&w, t - 56));
    assert_true(ct_windows_wants(&w, t - 55));
    ct_windows_saw(&w, 7, t); /* the marked one itself */
    ct_windows_saw(&w, 7, t + 1);
    ct_windows_saw(&w, 8, t + 2); /* another thread's */
    ct_windows_tick(&w, t + 10);
    ct_windows_tick(&w, t + 100 * S); /* however long it takes */
    is(&w, CT_SESSION_WINDOW_PERSISTING);
    ct_windows_saw(&w, 7, t + 101 * S);
    assert_true(ct_windows_wants(&w, t + 102 * S));
    ct_windows_saw(&w, 7, t + 102 * S);
    assert_true(ct_windows_wants(&w, t + 102 * S));
    assert_false(ct_windows_wants(&w, t + 102 * S + 1));
    ct_windows_saw(&w, 7, t + 103 * S);
    assert_int_equal(w.recent[0]->end, t + 102 * S);
    ct_windows_tick(&w, t + 103 * S);
    is(&w, CT_SESSION_WINDOW_CAPTURING);
    ct_windows_free(&w);
}

static void a_mark_counts_anew(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .post_roll_events = 2};
    struct ct_windows w = made(&o);
    uint64_t t = START + 5 * S;
    ct_windows_mark(&w, t, "a", 7, 0);
    ct_windows_saw(&w, 7, t + 1);
    ct_windows_mark(&w, t + 2, "a", 7, 0);
    ct_windows_saw(&w, 7, t + 3);
    assert_true(ct_windows_wants(&w, t + S));
    ct_windows_mark(&w, t + 1, "a", 8, 0); /* late: the newest one counts */
    ct_windows_saw(&w, 7, t + 4);
    assert_int_equal(w.recent[0]->end, t + 4);
    assert_int_equal(w.opened, 1);
    ct_windows_free(&w);
}

static void the_thread_ends_first(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .post_roll_events = 2};
    struct ct_windows w = made(&o);
    uint64_t t = START + 5 * S;
    ct_windows_mark(&w, t, "a", 7, 0);
    ct_windows_thread_ended(&w, 8, t + 5);
    assert_true(ct_windows_wants(&w, t + S));
    ct_windows_thread_ended(&w, 7, t + 9);
    assert_int_equal(w.recent[0]->end, t + 9);
    ct_windows_free(&w);
}

static void records_and_time(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .post_roll_events = 1, .post_roll_ms = 10};
    struct ct_windows w = made(&o);
    uint64_t t = START + 5 * S;
    ct_windows_mark(&w, t, "a", 7, 0);
    ct_windows_saw(&w, 7, t + 1);
    assert_int_equal(w.recent[0]->end, t + 10 * MS); /* what reaches further */
    ct_windows_free(&w);
}

/* ---- marks that last ---- */

static void held_open(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .pre_roll_ms = -1, .post_roll_ms = -1};
    struct ct_windows w = made(&o);
    uint64_t t = START;
    for (int i = 0; i < 1000; i++) {
        t += 5 * MS;
        ct_windows_hold(&w, t, "time=08:00-09:00");
        assert_true(ct_windows_wants(&w, t - MS) == (i > 0));
        ct_windows_tick(&w, t + 1);
    }
    is(&w, CT_SESSION_WINDOW_PERSISTING);
    assert_int_equal(w.count, 1);
    assert_int_equal(w.marks, 1);
    assert_int_equal(w.recent[0]->reasons[0].count, 1);
    ct_windows_tick(&w, t + 5 * MS);
    is(&w, CT_SESSION_WINDOW_CAPTURING);
    assert_int_equal(w.recent[0]->end, t);
    ct_windows_hold(&w, t + S, "time=08:00-09:00"); /* another day */
    assert_int_equal(w.count, 2);
    assert_int_equal(w.marks, 2);
    ct_windows_free(&w);
}

/* ---- modes ---- */

static void always_is_one_window(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .detail = CT_SESSION_DETAIL_ALWAYS};
    struct ct_windows w = made(&o);
    is(&w, CT_SESSION_WINDOW_PERSISTING);
    assert_true(ct_windows_wants(&w, START));
    ct_windows_mark(&w, START + S, "a", 1, 0);
    ct_windows_mark(&w, START + 60 * S, "a", 1, 0);
    ct_windows_persisted(&w, START + 5);
    for (uint64_t t = 0; t < 100; t++)
        ct_windows_tick(&w, START + t * S);
    is(&w, CT_SESSION_WINDOW_PERSISTING);
    ct_windows_end(&w, START + 200 * S);
    assert_int_equal(w.count, 1);
    assert_int_equal(w.opened, 1);
    assert_int_equal(w.recent[0]->start, START);
    assert_int_equal(w.recent[0]->end, START + 200 * S);
    assert_false(w.recent[0]->short_end);
    assert_int_equal(w.recent[0]->reason_count, 2);
    assert_int_equal(w.recent[0]->reasons[1].count, 2);
    assert_int_equal(w.recent[0]->records, 1);
    ct_windows_free(&w);
}

static void off_is_none(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .detail = CT_SESSION_DETAIL_OFF};
    struct ct_windows w = made(&o);
    ct_windows_mark(&w, START + S, "a", 1, 0);
    assert_false(ask(&w, START + S, "", 0));
    assert_false(ct_windows_wants(&w, START + S));
    assert_false(ct_windows_active(&w));
    assert_int_equal(w.marks, 1);
    assert_int_equal(w.opened, 0);
    ct_windows_free(&w);
}

/* ---- storms ---- */

/* A mark every 10 µs for 20 s, and nothing before or after is wanted: 2,000,000 windows that do not touch. */
static void storm_of_points(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .pre_roll_ms = -1, .post_roll_ms = -1};
    struct ct_windows w = made(&o);
    uint64_t t = START;
    for (uint64_t i = 0; i < 2000000; i++) {
        t += 10000;
        ct_windows_mark(&w, t, i % 3 ? "symbol=f" : "slow=f:1ms", 1, 0);
        assert_true(w.count <= CT_WINDOWS_RECENT);
        if (i % 500 == 0)
            ct_windows_tick(&w, t);
    }
    assert_int_equal(w.marks, 2000000);
    assert_int_equal(w.dropped_marks, 0);
    uint64_t counted = 0;
    for (size_t i = 0; i < w.count; i++)
        for (size_t k = 0; k < w.recent[i]->reason_count; k++)
            counted += w.recent[i]->reasons[k].count;
    for (size_t i = 0; i < w.kept_count; i++)
        for (size_t k = 0; k < w.kept[(w.kept_first + i) % CT_WINDOWS_KEPT]->reason_count; k++)
            counted += w.kept[(w.kept_first + i) % CT_WINDOWS_KEPT]->reasons[k].count;
    assert_int_equal(counted, 2000000);
    assert_true(ct_windows_wants(&w, t));
    ct_windows_free(&w);
}

static void storm_with_rolls(void **state) {
    (void)state;
    struct ct_windows w = usual();
    uint64_t t = START + S;
    for (int i = 0; i < 1000000; i++) {
        t += 10000;
        ct_windows_mark(&w, t, "symbol=f", i % 7, 0);
        if (i % 500 == 0)
            ct_windows_tick(&w, t);
    }
    assert_int_equal(w.count, 1);
    assert_int_equal(w.recent[0]->reasons[0].count, 1000000);
    assert_int_equal(w.recent[0]->end, t + 200 * MS);
    ct_windows_free(&w);
}

/* However long the pre-roll is, one that reaches into a window makes it longer. */
static void long_pre_roll_joins(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .pre_roll_ms = 60000, .post_roll_ms = -1};
    for (int gone = 0; gone < 2; gone++) {
        struct ct_windows w = made(&o);
        uint64_t t = START + 100 * S;
        ct_windows_mark(&w, t, "a", 1, 0);
        ct_windows_tick(&w, t);
        ct_windows_tick(&w, t + S);
        assert_false(ct_windows_settled(&w, t + S));
        w.gone_ns = gone ? t + 5 * S : 0; /* then there is nothing between the two */
        ct_windows_tick(&w, t + 59 * S);
        assert_true(ct_windows_settled(&w, t + 59 * S));
        is(&w, CT_SESSION_WINDOW_CAPTURING);
        ct_windows_mark(&w, t + 60 * S, "b", 1, 0);
        ct_windows_tick(&w, t + 60 * S);
        assert_int_equal(w.opened, 1 + gone);
        assert_int_equal(w.finished, gone);
        assert_int_equal(w.recent[0]->last_mark, t + 60 * S);
        ct_windows_tick(&w, t + 123 * S);
        assert_int_equal(w.finished, 1 + gone);
        ct_windows_free(&w);
    }
}

/* Months of windows: the newest are kept, the others counted. */
static void long_runs_are_bounded(void **state) {
    (void)state;
    struct ct_windows w = usual();
    uint64_t t = START;
    for (int i = 0; i < 5000; i++) {
        t += 10 * S;
        ct_windows_mark(&w, t, "a", 1, 0);
        ct_windows_tick(&w, t);
        ct_windows_tick(&w, t + 5 * S);
        is(&w, CT_SESSION_WINDOW_CAPTURING);
    }
    assert_int_equal(w.opened, 5000);
    assert_int_equal(w.finished, 5000);
    assert_int_equal(w.kept_count, CT_WINDOWS_KEPT);
    assert_int_equal(w.omitted, 5000 - CT_WINDOWS_KEPT);
    assert_int_equal(w.kept[(w.kept_first + w.kept_count - 1) % CT_WINDOWS_KEPT]->first_mark, t);
    ct_windows_free(&w);
}

static void many_texts(void **state) {
    (void)state;
    struct ct_windows w = usual();
    char text[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "symbol=f%d", i);
        ct_windows_mark(&w, START + S, text, 1, 0);
    }
    assert_int_equal(w.text_count, CT_WINDOWS_REASONS);
    assert_int_equal(w.recent[0]->reason_count, CT_WINDOWS_REASONS);
    assert_string_equal(w.texts[CT_WINDOWS_REASONS - 1], "other");
    assert_int_equal(w.recent[0]->reasons[CT_WINDOWS_REASONS - 1].count, 1000 - (CT_WINDOWS_REASONS - 1));
    ct_windows_free(&w);
}

/* ---- the manifest ---- */

static void told(struct ct_windows *w, const char *expected) {
    struct ct_json j = {0};
    ct_json_begin(&j, NULL, '{');
    ct_windows_put(w, &j);
    ct_json_end(&j, '}');
    assert_string_equal(j.text, expected);
    ct_json_free(&j);
}

static void told_truly(void **state) {
    (void)state;
    struct ct_windows w = usual();
    told(&w, "{\"windows\":[]}");
    ct_windows_mark(&w, START + 30 * MS, "symbol=f", 5, 9);
    ct_windows_persisted(&w, START + 20 * MS);
    ct_windows_persisted(&w, START + 40 * MS);
    ct_windows_end(&w, START + 50 * MS);
    told(&w,
         "{\"windows\":[{\"start_ns\":1000000000000,\"end_ns\":1000050000000,\"first_mark_ns\":1000030000000,"
         "\"last_mark_ns\":1000030000000,\"pre_roll_ns\":30000000,\"pre_roll\":\"cut by the start\","
         "\"post_roll_ns\":20000000,\"post_roll\":\"cut by the end\",\"records\":2,\"first_record_ns\":1000020000000,"
         "\"last_record_ns\":1000040000000,\"reasons\":[{\"trigger\":\"symbol=f\",\"count\":1,"
         "\"first_ns\":1000030000000,\"tid\":5,\"function_id\":9}]}]}");
    ct_windows_free(&w);
}

static void told_of_memory_and_going_on(void **state) {
    (void)state;
    const struct ct_session_options o = {.size = sizeof o, .post_roll_events = 2, .pre_roll_ms = 100};
    struct ct_windows w = made(&o);
    ct_windows_lost(&w, START + S - MS);
    ct_windows_mark(&w, START + S, "manual", 0, 0);
    told(&w,
         "{\"windows\":[{\"start_ns\":1000999000000,\"first_mark_ns\":1001000000000,\"last_mark_ns\":1001000000000,"
         "\"pre_roll_ns\":1000000,\"pre_roll\":\"cut by memory\",\"post_roll\":\"going on\",\"records\":0,\"reasons\":["
         "{\"trigger\":\"manual\",\"count\":1,\"first_ns\":1001000000000}]}]}");
    ct_windows_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rolls_from_options),
        cmocka_unit_test(every_edge),
        cmocka_unit_test(late_mark_opens_again),
        cmocka_unit_test(asked_marks),
        cmocka_unit_test(labels_and_rolls_of_marks),
        cmocka_unit_test(post_roll_is_limited),
        cmocka_unit_test(exact_limits),
        cmocka_unit_test(no_rolls),
        cmocka_unit_test(overlaps_merge_and_keep_reasons),
        cmocka_unit_test(late_mark_joins_two),
        cmocka_unit_test(late_mark_before_all),
        cmocka_unit_test(short_at_the_start),
        cmocka_unit_test(short_at_the_end),
        cmocka_unit_test(lasts_until_the_end),
        cmocka_unit_test(short_of_memory),
        cmocka_unit_test(rolls_in_records),
        cmocka_unit_test(a_mark_counts_anew),
        cmocka_unit_test(the_thread_ends_first),
        cmocka_unit_test(records_and_time),
        cmocka_unit_test(held_open),
        cmocka_unit_test(always_is_one_window),
        cmocka_unit_test(off_is_none),
        cmocka_unit_test(storm_of_points),
        cmocka_unit_test(storm_with_rolls),
        cmocka_unit_test(long_pre_roll_joins),
        cmocka_unit_test(long_runs_are_bounded),
        cmocka_unit_test(many_texts),
        cmocka_unit_test(told_truly),
        cmocka_unit_test(told_of_memory_and_going_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
