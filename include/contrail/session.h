/* SPDX-License-Identifier: Apache-2.0 */
/* Recording sessions: start a process or attach to one, hook everything in it, write its events to trace files.
 *
 * A session records one process, with its children, at a time and is used from one thread, because tracing belongs to a
 * thread. It has threads of its own that write events and serve the control socket. ct_session_state and
 * ct_session_statistics may be called from any thread. Structs begin with their size: the rule is in
 * contrail/contrail.h. The states and the calls that move between them:
 *
 *   create → INITIALIZED
 *   spawn_suspended:        INITIALIZED → SPAWNING → SUSPENDED
 *   attach:                 INITIALIZED → ATTACHING → ATTACHED    (the process runs on)
 *   install_full_coverage:  SUSPENDED → ATTACHING → ATTACHED, or ATTACHED → ATTACHED   (the process is stopped)
 *   resume:                 ATTACHED → RUNNING
 *   pause:                  RUNNING → ATTACHED
 *   detach:                 SUSPENDED, ATTACHED, RUNNING → DETACHING → INITIALIZED     (hooks removed, trace finished)
 *   the process ends:       RUNNING, ATTACHED → INITIALIZED       (seen by ct_session_wait; the trace is finished)
 *   any failure:            → FAILED → INITIALIZED (everything undone; the process runs on unhooked)
 *
 * Any other call in any other state fails with CT_ERR_BAD_STATE and changes nothing. */
#ifndef CONTRAIL_SESSION_H
#define CONTRAIL_SESSION_H

#include <contrail/event.h>
#include <contrail/hook.h>
#include <contrail/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The list exists once. */
#define CT_SESSION_STATE_LIST(X)                                                                                       \
    X(UNINITIALIZED, "uninitialized")                                                                                  \
    X(INITIALIZED, "initialized")                                                                                      \
    X(SPAWNING, "spawning")                                                                                            \
    X(SUSPENDED, "suspended")                                                                                          \
    X(ATTACHING, "attaching")                                                                                          \
    X(ATTACHED, "attached") X(RUNNING, "running") X(DETACHING, "detaching") X(FAILED, "failed")
enum ct_session_state {
#define CT_SESSION_STATE_ENUM(name, text) CT_SESSION_##name,
    CT_SESSION_STATE_LIST(CT_SESSION_STATE_ENUM)
#undef CT_SESSION_STATE_ENUM
        CT_SESSION_STATE_COUNT
};
const char *ct_session_state_name(enum ct_session_state state);

struct ct_session;

/* The files that events are written to, and which moments have detail: arguments, stacks, return values. */
enum ct_session_format { CT_SESSION_FORMAT_PACKED, CT_SESSION_FORMAT_ATF2 };
enum ct_session_detail { CT_SESSION_DETAIL_MARKED, CT_SESSION_DETAIL_ALWAYS, CT_SESSION_DETAIL_OFF };

/* Following threads through translated code (contrail/stalker.h) instead of hooking functions. */
struct ct_session_stalk {
    size_t size;
    uint32_t events;            /* enum ct_stalker_event_kind bits */
    bool count_calls;           /* how often each function is called, without an event for each; with no events */
    bool count_blocks;          /* how often each block is executed, without an event for each */
    bool fast_clock;            /* CT_STALKER_FAST_CLOCK instead of a reading for each event */
    int thread;                 /* 0: all; -1: the main thread; else a thread's number */
    int trust;                  /* as ct_stalker_set_trust_threshold */
    unsigned drain_interval_ms; /* 0: default */
    size_t queue_capacity;      /* 0: default */
};

/* Strings and lists are copied. */
struct ct_session_options {
    size_t size;
    const char *output;      /* root of the trace directories; NULL: "traces" */
    const char *const *only; /* globs on function or module names, NULL-terminated; NULL: everything */
    const char *const *exclude;
    const char *command_line;    /* for the manifest; NULL: none */
    size_t max_depth;            /* recorded frames per thread; 0: 262,144 */
    size_t index_memory;         /* bytes of the index lane; 0: 32 MiB */
    unsigned drain_interval_ms;  /* 0: 5 */
    bool lossless;               /* threads wait when the lane is full, instead of dropping the oldest events */
    unsigned startup_timeout_ms; /* 0: computed from the number of functions */
    bool no_cache;               /* plan every module again */
    bool no_children;            /* processes that it forks, and programs that it executes, run unrecorded */
    /* The flight recorder. */
    enum ct_session_format format;
    uint64_t keep_bytes, keep_ns;  /* keep the newest events only, by size or by age; 0: everything */
    enum ct_session_detail detail; /* which of arguments, stacks, return values are written */
    int stack_bytes;               /* of each call; 0: 128; -1: none; a multiple of 8 up to 512 */
    bool vectors;                  /* vector argument registers too */
    unsigned detail_rate;          /* detail records per hook and second; 0: no limit */
    size_t detail_memory;          /* bytes of the detail lane; 0: 32 MiB, of which a thread has 1 */
    const char *const *triggers; /* what marks a moment ("symbol=GLOB", "crash", …), NULL-terminated; NULL: nothing */
    int pre_roll_ms, post_roll_ms;              /* detail that is written before and after a mark; 0: 1000; -1: none */
    uint64_t pre_roll_events, post_roll_events; /* and counted in detail records of its thread; 0: not used */
    const struct ct_session_stalk *stalk;       /* NULL: hooks. It is copied */
    const char *metrics_file;                   /* written again every second, Prometheus's text format; NULL: none */
    const char *group; /* the trace can be read by this group too; NULL: by nobody but its owner */
    bool redact;       /* leave out stack bytes, vector registers, texts and command lines */
    size_t cache_size; /* bytes of the cache of analyses; 0: 128 MiB */
    bool cpu;          /* when threads are on a processor too, if the kernel lets us */
    /* Called during long steps, on the session's thread; may be NULL. It returns non-zero to give up (Ctrl-C):
     * everything is undone. */
    int (*progress)(void *arg, const char *step, uint64_t done, uint64_t total);
    void *progress_arg;
    size_t strings; /* most bytes (up to 256) of texts that arguments point to; 0: none are captured */
    size_t guess;   /* 1: functions of modules whose tables name hardly any too: those that their code calls; 0: not */
    size_t sample;  /* record every Nth call of each function, with all that it calls; 0, 1: all. All are counted */
    size_t budget;  /* what recording may cost, in hundredths of a percent of the program's CPU time; 0: no limit */
    size_t fast_clock; /* 1: most calls and returns have the time of one shortly before; 0: each has its own */
    size_t structs;    /* 1: `strings` is for structures that arguments point to as well, whatever is in them; 0: not */
    /* For how long a thread waits in each second when the index lane is full, before the oldest events are dropped: in
     * milliseconds; 0: 500 for a program that is started, none for one that is attached to; -1: none. */
    long wait_ms;
};

/* `options` may be NULL. Fails with CT_ERR_PERMISSION_DENIED and the like when the output directory cannot be made: the
 * session exists even so, and ct_session_error says why. When *out is NULL, there is none. */
int ct_session_create(struct ct_session **out, const struct ct_session_options *options);
/* Detaches first where that is needed. */
void ct_session_destroy(struct ct_session *session);

/* argv[0] is looked up in PATH unless it has a slash. `envp` NULL: the environment of the calling process. */
int ct_session_spawn_suspended(struct ct_session *session, char *const *argv, char *const *envp);
int ct_session_attach(struct ct_session *session, int pid);
/* Plans (with an attached process still running), stops the process, hooks every function. */
int ct_session_install_full_coverage(struct ct_session *session);
int ct_session_resume(struct ct_session *session);
int ct_session_pause(struct ct_session *session);
int ct_session_detach(struct ct_session *session);

enum ct_session_state ct_session_state(const struct ct_session *session);
/* The last failure as one sentence for the user, with the remedy; "" when there was none. */
const char *ct_session_error(const struct ct_session *session);
/* What the user should know about how it is recorded (lanes had to be smaller, ...): one sentence, or "". */
const char *ct_session_note(const struct ct_session *session);
/* Triggers that fit no function so far: one sentence, or "". */
const char *ct_session_idle(const struct ct_session *session);
/* Globs of `only` and `exclude` that fit no function so far: one sentence, or "". */
const char *ct_session_idle_filters(const struct ct_session *session);
/* The session's directory and the process's (…/pid_N), "" before there is one. */
const char *ct_session_directory(const struct ct_session *session);
const char *ct_session_process_directory(const struct ct_session *session);
int ct_session_pid(const struct ct_session *session);

/* ---- what happens to the process ---- */

enum ct_session_event_kind {
    CT_SESSION_EVENT_NOTHING,       /* the time is over, and nothing has happened */
    CT_SESSION_EVENT_EXITED,        /* exit_status is set (spawned processes; an attached one's is not known: -1) */
    CT_SESSION_EVENT_REPLACED,      /* it executed another program: recording is over, the process goes on untraced */
    CT_SESSION_EVENT_ASKED_TO_STOP, /* over the control socket: detach */
    CT_SESSION_EVENT_DISK_FULL,     /* or another write error: recording has stopped; detach */
};
struct ct_session_event {
    size_t size;
    enum ct_session_event_kind kind;
    int exit_status; /* of the first process, as wait(2) reports it; -1: unknown, or it has not ended */
};
/* Waits for one of these. EXITED and REPLACED finish the trace and move to INITIALIZED. `timeout_ms` -1: no limit. */
int ct_session_wait(struct ct_session *session, int timeout_ms, struct ct_session_event *event);

/* ---- numbers ---- */

/* How detail is written. Capturing: the newest detail is in memory, nothing is written. Marked: a moment was marked,
 * and what was before it is about to be written. Persisting: that is written, and so is what comes, up to the end of
 * the post-roll. The list exists once. */
#define CT_SESSION_WINDOW_LIST(X) X(CAPTURING, "capturing") X(MARKED, "marked") X(PERSISTING, "persisting")
enum ct_session_window {
#define CT_SESSION_WINDOW_ENUM(name, text) CT_SESSION_WINDOW_##name,
    CT_SESSION_WINDOW_LIST(CT_SESSION_WINDOW_ENUM)
#undef CT_SESSION_WINDOW_ENUM
        CT_SESSION_WINDOW_COUNT
};
const char *ct_session_window_name(enum ct_session_window state);

/* Room for reasons and kinds of events that later versions add. */
#define CT_SESSION_LOSS_ROOM  16
#define CT_SESSION_STALK_ROOM 16

struct ct_session_statistics {
    size_t size;
    uint64_t events;                     /* on disk, or on the way to it */
    uint64_t lost[CT_SESSION_LOSS_ROOM]; /* events, by enum ct_loss_reason */
    uint64_t abandoned;                  /* events that were begun and never completed */
    uint64_t deep_calls, left_frames, guarded_calls;
    uint64_t threads_seen, threads_alive;
    uint64_t processes;        /* that were or are recorded */
    uint64_t missed_processes; /* that could not be: ct_session_missed says why */
    uint64_t modules, functions, hooked, entry_only, skipped;
    uint64_t read_code;             /* of those skipped: what runs them reads their code (CT_HOOK_SKIP_READ_CODE) */
    uint64_t lane_bytes, lane_used; /* index lane: size, and held by unread events */
    uint64_t lane_least_free;       /* the least that was ever free */
    uint64_t lane_times_above;      /* how often it got fuller than 85 % */
    bool lane_above;                /* it is now, or has not been below 50 % since */
    uint64_t bytes_written;
    uint64_t detail_events;                     /* detail records on disk, or on the way to it */
    uint64_t detail_lost[CT_SESSION_LOSS_ROOM]; /* detail records that were wanted and are not written */
    uint64_t detail_bytes;                      /* written */
    uint64_t detail_reach_ns;                   /* how far back the detail in memory reaches now */
    uint64_t detail_needed;                     /* memory that would have reached all pre-rolls; 0: none was cut */
    uint64_t marks, windows;                    /* moments that were marked, windows of detail that were written */
    enum ct_session_window window_state;        /* of the first process that is recorded */
    uint64_t signals;                           /* seen before they were delivered (--trigger crash, signal=NAME) */
    bool traced;                                /* for them it stays traced while it runs: nobody else can trace it */
    uint64_t latency_p50_ns, latency_p99_ns;    /* from an event to its write */
    uint64_t plan_ns, pause_ns;                 /* planning; how long the process was stopped for hooking */
    uint64_t recording_ns;
    uint64_t written_until_ns; /* CLOCK_BOOTTIME: what happened before is on disk; 0: nothing is being recorded */
    /* When threads are followed instead. */
    bool stalk_on;
    uint64_t stalk_events[CT_SESSION_STALK_ROOM]; /* in the order of CT_STALKER_EVENT_LIST */
    uint64_t stalk_threads;                       /* that were followed */
    uint64_t stalk_left;     /* threads that were not followed to their end, and those that could not be at all */
    uint64_t stalk_blocks;   /* translated */
    uint64_t stalk_children; /* forked, and not followed */
    /* Modules whose tables name hardly any function of their code, which is not recorded: the rest of these numbers
     * does not count it. */
    uint64_t poor_modules, poor_functions,
        poor_bytes;     /* poor_functions: that are named; poor_bytes: of all their code */
    uint64_t waited_ns; /* for which threads waited because the index lane was full, in all */
    /* The budget, and what recording costs now, in hundredths of a percent; functions that are left out for it now. */
    uint64_t budget, budget_used, left_out;
};
int ct_session_statistics(const struct ct_session *session, struct ct_session_statistics *out);

/* Why the last process that could not be recorded could not; "" when all could. */
void ct_session_missed(const struct ct_session *session, char *reason, size_t size);

/* ---- from another process: a session's control socket ---- */

/* False: the process is hooked, and nobody can control the session, because there is no directory that only its user
 * can change: $XDG_RUNTIME_DIR, /run (root), /run/user/UID, the home directory. */
bool ct_session_is_reachable(const struct ct_session *session);

/* Commands that a session takes while it records: words, operand, what it does. The list exists once. */
#define CT_SESSION_COMMAND_LIST(X)                                                                                     \
    X(STATUS, "status", "", "print events, losses, memory, threads, latency and the state of detail")                  \
    X(MARK, "mark", "[ROLLS]", "mark this moment: the detail around it is written")                                    \
    X(TRIGGER_ADD, "trigger add", "TRIGGER", "mark moments from now on, like --trigger does")                          \
    X(TRIGGER_REMOVE, "trigger remove", "TRIGGER", "take a trigger back")                                              \
    X(TRIGGER_LIST, "trigger list", "", "print the triggers there are")                                                \
    X(EXCLUDE_ADD, "exclude add", "GLOB", "no longer record functions or modules like GLOB")                           \
    X(EXCLUDE_REMOVE, "exclude remove", "GLOB", "record them again")                                                   \
    X(BUDGET, "budget", "PERCENT", "leave functions out while recording costs more than this; off: record all again")  \
    X(RECORD_OFF, "record off", "", "record nothing for the time being")                                               \
    X(RECORD_ON, "record on", "", "record again")                                                                      \
    X(WAIT_MS, "wait-ms", "N", "let threads wait N milliseconds of each second when the memory is full")               \
    X(PAUSE, "pause", "", "stop all processes of the session")                                                         \
    X(RESUME, "resume", "", "let them run on")                                                                         \
    X(STOP, "stop", "", "end the recording, as `contrail detach PID` does")
enum ct_session_command {
#define CT_SESSION_COMMAND_ENUM(name, words, operand, help) CT_SESSION_COMMAND_##name,
    CT_SESSION_COMMAND_LIST(CT_SESSION_COMMAND_ENUM)
#undef CT_SESSION_COMMAND_ENUM
        CT_SESSION_COMMAND_COUNT
};

/* Sends one command of the list, followed by its operand, to the session that records `pid`, and puts the answer (JSON
 * for status) into `answer`. A negative code with an answer: the session refuses, and says why in one sentence. Without
 * one (""), it was not reached. CT_ERR_NOT_FOUND: nobody records the process; CT_ERR_PERMISSION_DENIED: another user
 * does; CT_ERR_TIMEOUT: the session has not answered within 20 s (stop: 40 s). Only a session of our own user, of root,
 * or, for root, of the user of the process is believed; do not trust its answer all the same. */
int ct_session_control(int pid, const char *command, char *answer, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
