/* SPDX-License-Identifier: Apache-2.0 */
/* What the trace of a process holds, from its manifest and its files. Texts belong to the trace and the facts: both
 * must live. */
#ifndef CT_REPORT_INFO_H
#define CT_REPORT_INFO_H

#include "report/crash.h"
#include "report/idle.h"
#include "report/left_out.h"
#include "trace/facts.h"
#include "trace/wall.h"
#include <contrail/hook.h>
#include <contrail/session.h>

/* How often a reason applies. */
struct ct_info_reason {
    const char *name; /* of CT_HOOK_SKIP_LIST or CT_LOSS_LIST */
    const char *text; /* the sentence; "" when the name is not known */
    uint64_t count;
    bool part; /* a linkage stub or a part of a function: not a function that can be called */
};

struct ct_info_module {
    const struct ct_trace_module *module;
    struct ct_info_reason *reasons; /* why functions and parts are not hooked; largest first */
    size_t reason_count;
    uint64_t functions, skipped;       /* without parts */
    uint64_t guessed;                  /* part of its hooked functions: no table has them */
    uint64_t code_bytes, hooked_bytes; /* code_bytes 0: not known */
};

/* A process that is not in the trace. */
struct ct_info_missed {
    int pid;
    const char *program, *reason; /* program: "" when not known */
};

/* Code that belongs to no module and is not hooked. */
struct ct_info_left {
    const char *name, *reason;
    uint64_t mappings, bytes;
};

/* A span of time whose detail was persisted. */
struct ct_info_window {
    uint64_t mark_ns, marks, records; /* mark_ns: of the first mark; 0: none (--detail always) */
    uint64_t pre_ns, post_ns;         /* actual lengths: shorter than asked for when memory, start or end cut them */
    const char *pre, *post;           /* "whole", "cut by memory" ... */
    char *reasons;                    /* the triggers; NULL when out of memory */
};

struct ct_info {
    const struct ct_trace_process *process;
    int parent_pid;     /* 0: not known */
    const char *origin; /* "spawn", "attach", "fork", "exec", "" when not known */
    const char *command_line, *tool, *host, *os, *kernel, *arch; /* "" when not known */
    bool redacted;
    char started[CT_WALL_TEXT]; /* local time of the first event, or when the session was made (its name); "" */
    uint64_t duration_ns;       /* of the recording; up to the last event when process->recording_known is false */
    uint64_t waited_ns;         /* of it: a thread waited for the recorder */
    uint64_t waits_more, waits_more_ns; /* waits that the manifest does not list */
    const char *cpu;                    /* "recorded", why it is not, or "" */
    uint64_t switches, switches_lost;
    uint64_t events;                              /* events that can be read */
    uint64_t calls, returns, exceptions, signals; /* only when counted */
    bool counted;
    uint64_t dropped; /* older events that --keep has deleted */
    uint64_t lost, abandoned, deep_calls, left_frames, guarded_calls;
    struct ct_info_reason *losses; /* largest first */
    size_t loss_count;
    size_t *threads; /* indices, by events */
    size_t thread_count, cut_threads;
    struct ct_info_module *modules; /* by id */
    size_t module_count;
    struct ct_info_left *left;
    size_t left_count;
    struct ct_info_missed *missed;
    size_t missed_count;
    uint64_t guessed;                                       /* part of `hooked` */
    uint64_t functions, hooked, entry_only, skipped, parts; /* functions and skipped: without parts */
    uint64_t code_bytes, hooked_bytes;                      /* code_bytes 0: not known */
    uint64_t latency_p50_ns, latency_p99_ns, latency_max_ns, latency_samples;
    uint64_t memory_waited_ns;              /* sum of the times for which threads waited for memory */
    uint64_t drain_ran_ns, drain_queued_ns; /* of the thread that writes: on a processor, and waiting for one */
    bool drain_raised;                      /* it got a better priority */
    uint64_t plan_ns, pause_ns, lane_bytes;
    uint64_t late_ns, late_p99_ns; /* with the fast clock: how late times may be; 0: they are exact */
    uint64_t disk_bytes;           /* of all its files, as du counts */
    const char *end_reason;        /* "exit", "signal", "detach", "exec", "disk", "" when not known */
    int64_t exit_code, signal;
    uint64_t detail, detail_lost; /* records */
    uint64_t detail_thread;       /* the most memory for detail that a thread has had */
    uint64_t detail_needed;       /* memory with which no pre-roll would have been cut; 0: none was */
    struct ct_info_window *windows;
    size_t window_count;
    bool stalk; /* its threads were followed through translated code */
    uint64_t stalk_threads, stalk_left, stalk_blocks, stalk_children;
    char stalk_events[256]; /* "12 call, 11 ret" */
    struct ct_crash *crash; /* signals, and calls that were open when the process died */
    struct ct_idle_list idle;
    uint64_t sampled; /* every Nth call was recorded; 0: all were */
    struct ct_left_out_list left_out;
};

/* `count`: reads all events too, to count calls and returns separately. */
int ct_info_make(struct ct_info **out, struct ct_trace *trace, const struct ct_facts *facts, size_t process,
                 bool count);
void ct_info_free(struct ct_info *info);

/* Of a name of CT_HOOK_SKIP_LIST or CT_LOSS_LIST; "" when it is not known. */
const char *ct_info_reason_text(const char *name);
/* Is it the reason of linkage stubs or parts of functions, which do not count as functions? */
bool ct_info_reason_is_part(const char *name);
/* In all modules. */
uint64_t ct_info_reason_count(const struct ct_info *info, const char *name);

struct ct_json;
struct ct_json_node;
/* info_windows.c; the last one adds keys to an object. */
int ct_info_read_windows(struct ct_info *info, const struct ct_json_node *root);
void ct_info_free_windows(struct ct_info *info);
void ct_info_windows_json(const struct ct_info *info, struct ct_json *json);

/* Writes one object. */
void ct_info_json(const struct ct_info *info, const struct ct_trace *trace, const struct ct_facts *facts,
                  struct ct_json *json);

#endif
