/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of detail: which moments are persisted, and what the manifest says about them.
 *
 * Pure logic, driven by the drain thread: times are arguments (CLOCK_BOOTTIME ns, as in the trace). Each mark wants the
 * detail from its pre-roll to its post-roll; windows that overlap or touch become one and keep all reasons. Invariants:
 * windows are in order and do not overlap; memory is bounded, and a mark costs the same whatever came before.
 *
 *            mark                    tick (what was captured before is written)
 *  CAPTURING ────────▶ MARKED ──────────────────────────────────────────────────▶ PERSISTING ──┐ mark: it gets longer
 *      ▲                 ▲  └─┘ mark: its window gets longer                        │   │   ▲──┘
 *      │                 └───────── mark after the end of the window ───────────────┘   │
 *      └──────────────────────────────── tick after the end of the window ─────────────┘
 *
 * One pass of the drain calls ct_windows_mark for all marks, then ct_windows_wants for the records that it finds,
 * ct_windows_persisted for those that it writes, and last ct_windows_tick with the time at which the pass began. */
#ifndef CT_DRAIN_WINDOWS_H
#define CT_DRAIN_WINDOWS_H

#include <contrail/session.h>
#include <stdbool.h>
#include <stdint.h>

struct ct_json;

#define CT_WINDOWS_RECENT  64u   /* windows that may still get records */
#define CT_WINDOWS_KEPT    1024u /* finished windows that the manifest lists; the oldest are dropped first */
#define CT_WINDOWS_REASONS 96u   /* different texts; further ones are counted as "other" */

struct ct_window_reason {
    uint32_t text; /* index in ct_windows.texts */
    int first_tid;
    uint64_t count;
    uint64_t first_ns, first_function; /* of its first mark */
};

struct ct_window {
    uint64_t start, end;                         /* wanted time; end UINT64_MAX: the post-roll counts records */
    uint64_t first_mark, last_mark;              /* 0: none (always) */
    uint64_t reach;                              /* detail before this is gone; 0: all was there */
    uint64_t first_record, last_record, records; /* persisted records */
    uint64_t older, oldest;                      /* persisted records from before its start, and the first one's time */
    uint64_t post_ns;                            /* post-roll of the last mark */
    uint64_t most, after;                        /* its limit (post_most), and records after it so far */
    uint64_t left;                               /* post-roll in records: this many more of `tid` */
    int tid;                                     /* the thread that made the last mark */
    bool short_start, short_end;                 /* cut by the start, or the end, of the recording */
    bool limited;                                /* its post-roll was over with `most` */
    bool short_events;                           /* some thread had fewer records left than the pre-roll wants */
    struct ct_window_reason *reasons;
    size_t reason_count;
};

/* How much before and after a mark is wanted. If both time and events are given, the one that reaches further is
 * used. */
struct ct_windows_rolls {
    uint64_t pre_ns, post_ns;
    uint64_t pre_events, post_events; /* records of each thread, of the thread that made the mark; 0: not used */
    uint64_t post_most;               /* the post-roll is over after this many records of all threads; 0: no limit */
};

struct ct_windows_options {
    int detail; /* enum ct_session_detail */
    struct ct_windows_rolls rolls;
    bool grows; /* threads may have as much memory as the pre-roll needs */
};
/* From a session's options, with defaults filled in. */
struct ct_windows_options ct_windows_options_of(const struct ct_session_options *options);

/* A mark that was asked for (ctl mark). */
#define CT_WINDOWS_MANUAL "manual" /* its text; a label follows after ": " */
#define CT_WINDOWS_LABEL  80u
#define CT_WINDOWS_ASKED  16u
struct ct_windows_ask {
    uint64_t ns;
    char label[CT_WINDOWS_LABEL]; /* "": none */
    struct ct_windows_rolls rolls;
};

struct ct_windows {
    struct ct_windows_options options;
    enum ct_session_window state;
    uint64_t start_ns, end_ns;                   /* of the recording; 0: not yet */
    struct ct_window *recent[CT_WINDOWS_RECENT]; /* in order; the last one may be open */
    size_t count;
    struct ct_window *kept[CT_WINDOWS_KEPT]; /* a ring */
    size_t kept_count, kept_first;
    uint64_t omitted;              /* finished windows that are no longer kept */
    uint64_t finished, opened;     /* windows so far; those that became one count once */
    uint64_t marks, dropped_marks; /* dropped: for lack of memory */
    char *texts[CT_WINDOWS_REASONS];
    size_t text_count, last_text, last_hit;
    uint64_t lost_ns; /* time of the newest record that was overwritten */
    uint64_t gone_ns; /* some thread's records before this are no longer in memory; set by detail.c */
    size_t held;      /* index, from 1, of the text that keeps the newest window open; 0: none */
    bool held_now;    /* ct_windows_hold was called since the last tick */
    /* marks since the drain last looked at these, which clears them: how many; times of the first and the last; the
     * largest pre-roll in events */
    uint64_t new_marks, new_first, new_last, new_events;
    /* one other thread: a ring of marks that were asked for */
    struct ct_windows_ask asked[CT_WINDOWS_ASKED];
    uint32_t asked_next, asked_taken;
};

void ct_windows_init(struct ct_windows *windows, const struct ct_windows_options *options);
void ct_windows_free(struct ct_windows *windows);
/* The recording begins: no pre-roll reaches further back. */
void ct_windows_start(struct ct_windows *windows, uint64_t ns);

/* Adds a mark. Marks may come slightly out of order. */
void ct_windows_mark(struct ct_windows *windows, uint64_t ns, const char *text, int tid, uint64_t function_id);
/* Adds a mark with --pre-roll-events: `pre_ns` is the time of the thread's record that is this many records before the
 * mark (of the oldest one left if there are fewer). */
void ct_windows_mark_from(struct ct_windows *windows, uint64_t ns, const char *text, int tid, uint64_t function_id,
                          uint64_t pre_ns);
/* Counts `count` more marks like the last one with this text. */
void ct_windows_repeat(struct ct_windows *windows, const char *text, uint64_t count);
/* A mark that lasts as long as this is called before every tick (time=). It is counted once. */
void ct_windows_hold(struct ct_windows *windows, uint64_t ns, const char *text);
/* Adds a mark with rolls of its own. */
void ct_windows_mark_rolls(struct ct_windows *windows, uint64_t ns, const char *text,
                           const struct ct_windows_rolls *rolls);
/* Asks for a manual mark, from one thread that is not the drain's; ct_windows_take_asked takes it. Returns false if
 * nothing is persisted (--detail off), or too many wait. */
bool ct_windows_ask(struct ct_windows *windows, const struct ct_windows_ask *ask);
bool ct_windows_is_asked(const struct ct_windows *windows);
void ct_windows_take_asked(struct ct_windows *windows);

/* Is the detail of this moment to be persisted? */
bool ct_windows_wants(const struct ct_windows *windows, uint64_t ns);
/* May any window still get records? If not, nothing needs to be looked at. */
bool ct_windows_active(const struct ct_windows *windows);
/* Have all windows been over for so long that their own records have come? (The pre-roll of another mark may still
 * reach into one.) */
bool ct_windows_settled(const struct ct_windows *windows, uint64_t now_ns);
/* A record of this time was seen, wanted or not, in the order of its thread. Counts post-rolls in records; only needed
 * with post_events. */
void ct_windows_saw(struct ct_windows *windows, int tid, uint64_t ns);
/* The thread will make no more records: a post-roll that counts them is over. */
void ct_windows_thread_ended(struct ct_windows *windows, int tid, uint64_t ns);
/* A record of this time was written. */
void ct_windows_persisted(struct ct_windows *windows, uint64_t ns);
/* A record of this time, from before all windows that are open, was written for the newest mark. */
void ct_windows_kept(struct ct_windows *windows, uint64_t ns);
/* A thread has fewer records left than the pre-roll in events wants. */
void ct_windows_short(struct ct_windows *windows);
/* A thread's detail up to this time was overwritten: the pre-rolls of windows around it are short. */
void ct_windows_lost(struct ct_windows *windows, uint64_t ns);

/* Advances the state, and finishes windows that are over and get no more records. */
void ct_windows_tick(struct ct_windows *windows, uint64_t now_ns);
/* The recording ends, and with it all windows. */
void ct_windows_end(struct ct_windows *windows, uint64_t ns);

/* Writes the array "windows" of the manifest. */
void ct_windows_put(const struct ct_windows *windows, struct ct_json *json);

#endif
