/* Recording sessions: start or attach to a process, hook everything in it, drain its events to trace files.
 *
 * A session records one process at a time and is used from one thread (tracing belongs to a thread); it has threads of
 * its own that drain and serve the control socket. ct_session_state and ct_session_statistics may be called from any
 * thread. The states and the calls that move between them:
 *
 *   create → INITIALIZED
 *   spawn_suspended:        INITIALIZED → SPAWNING → SUSPENDED
 *   attach:                 INITIALIZED → ATTACHING → ATTACHED    (the process runs on)
 *   install_full_coverage:  SUSPENDED → ATTACHING → ATTACHED, or ATTACHED → ATTACHED   (the process stands still from here)
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

/* Files of the index lane, and what of the detail lane is kept. Zero is the default of each. */
enum ct_session_format { CT_FORMAT_PACKED, CT_FORMAT_ATF2 };
enum ct_session_detail { CT_DETAIL_MARKED, CT_DETAIL_ALWAYS, CT_DETAIL_OFF };

/* Following threads through translated code (contrail/stalker.h) instead of hooking functions. */
struct ct_session_stalk {
    uint32_t events;            /* enum ct_stalker_event_kind bits */
    bool count_calls;           /* how often each function is called, without an event for each; with no events */
    bool count_blocks;          /* how often each block is executed, without an event for each */
    int thread;                 /* 0: all; -1: the main thread; else a thread's number */
    int trust;                  /* as ct_stalker_set_trust_threshold */
    bool fast_clock;            /* CT_STALKER_FAST_CLOCK instead of a reading for each event */
    size_t queue_capacity;      /* 0: default */
    unsigned drain_interval_ms; /* 0: default */
};

struct ct_session_options {
    const char *output;      /* root of the trace directories; NULL: "traces" */
    const char *const *only; /* globs on function or module names, NULL-terminated; NULL: everything */
    const char *const *exclude;
    const char *command_line;    /* for the manifest; NULL: none */
    size_t max_depth;            /* recorded frames per thread; 0: 262,144 */
    size_t index_memory;         /* bytes of the index lane; 0: 32 MiB */
    unsigned drain_interval_ms;  /* 0: 5 */
    bool lossless;               /* threads wait when the lane is full, instead of dropping the oldest events */
    unsigned startup_timeout_ms; /* 0: computed from the number of functions */
    bool no_cache;               /* plan every module anew */
    bool no_children;            /* processes that it forks, and programs that it executes, run unrecorded */
    /* The flight recorder. */
    int format;                   /* enum ct_session_format */
    uint64_t keep_bytes, keep_ns; /* the newest of the index files, by size or by age; 0: everything */
    int detail;                   /* enum ct_session_detail: what of arguments, stacks, return values is persisted */
    int stack_bytes;              /* of each call; 0: 128; -1: none; a multiple of 8 up to 512 */
    bool vectors;                 /* vector argument registers too */
    unsigned detail_rate;         /* detail records per hook and second; 0: no limit */
    size_t detail_memory;         /* bytes of the detail lane; 0: 32 MiB */
    const char *const *triggers; /* what marks a moment ("symbol=GLOB", "crash", …), NULL-terminated; NULL: nothing */
    int pre_roll_ms, post_roll_ms;              /* persisted before and after a mark; 0: 1000; -1: none */
    uint64_t pre_roll_events, post_roll_events; /* the same in detail records of its thread; 0: not used */
    const struct ct_session_stalk *stalk;       /* NULL: hooks. It is copied */
    const char *metrics_file;                   /* rewritten every second, Prometheus's text format; NULL: none */
    const char *group; /* the trace can be read by this group too; NULL: by nobody but its owner */
    bool redact;       /* leave out stack bytes, vector registers and command lines */
    size_t cache_size; /* bytes of the cache of analyses; 0: 128 MiB */
    /* Told while a long step goes on; may be NULL. Non-zero: give up (Ctrl-C), everything is undone. Called on the
     * session's thread. */
    int (*progress)(void *arg, const char *step, uint64_t done, uint64_t total);
    void *progress_arg;
};

/* Fails with CT_ERR_PERMISSION_DENIED and the like when the output directory cannot be made. */
int ct_session_create(struct ct_session **out, const struct ct_session_options *options);
/* Detaches first where needed. */
void ct_session_destroy(struct ct_session *session);

/* argv[0] is looked up in PATH unless it has a slash; envp NULL: ours. */
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
/* What the user should know about how it is recorded (lanes had to be smaller, ...): one sentence, "" when there is nothing. */
const char *ct_session_note(const struct ct_session *session);
/* The session's directory and the process's (…/pid_N), "" before there is one. */
const char *ct_session_directory(const struct ct_session *session);
const char *ct_session_process_directory(const struct ct_session *session);
int ct_session_pid(const struct ct_session *session);

/* ---- what happens to the process ---- */

enum ct_session_event {
    CT_SESSION_NOTHING,       /* the time is over */
    CT_SESSION_EXITED,        /* exit_status is set (spawned processes; an attached one's is not known: -1) */
    CT_SESSION_REPLACED,      /* it executed another program: recording is over, the process goes on untraced */
    CT_SESSION_ASKED_TO_STOP, /* over the control socket: detach */
    CT_SESSION_DISK_FULL,     /* or another write error: recording has stopped; detach */
};
struct ct_session_happening {
    enum ct_session_event event;
    int exit_status; /* of the first process, as wait(2) tells it; -1: unknown, or it has not ended */
};
/* Waits for one of these. EXITED and REPLACED finish the trace and move to INITIALIZED. */
int ct_session_wait(struct ct_session *session, int timeout_ms, struct ct_session_happening *what);

/* ---- numbers ---- */

/* How detail is persisted: it rolls on (capturing); a moment was marked and what was before it is to be written (marked); that
 * is written and so is what comes, up to the end of the post-roll (persisting). The list exists once. */
#define CT_WINDOW_STATE_LIST(X) X(CAPTURING, "capturing") X(MARKED, "marked") X(PERSISTING, "persisting")
enum ct_window_state {
#define CT_WINDOW_STATE_ENUM(name, text) CT_WINDOW_##name,
    CT_WINDOW_STATE_LIST(CT_WINDOW_STATE_ENUM)
#undef CT_WINDOW_STATE_ENUM
        CT_WINDOW_STATE_COUNT
};
const char *ct_window_state_name(enum ct_window_state state);

struct ct_session_statistics {
    uint64_t events;              /* on disk, or on the way to it */
    uint64_t lost[CT_LOSS_COUNT]; /* events */
    uint64_t abandoned;           /* slots that were reserved and never filled */
    uint64_t deep_calls, left_frames, guarded_calls;
    uint64_t threads_seen, threads_alive;
    uint64_t processes;        /* that were or are recorded */
    uint64_t missed_processes; /* that could not be: ct_session_missed tells why */
    uint64_t modules, functions, hooked, entry_only, skipped;
    uint64_t read_code;             /* of those skipped: what runs them reads their code (CT_SKIP_READ_CODE) */
    uint64_t lane_bytes, lane_used; /* index lane: size, and held by unread events */
    uint64_t lane_least_free;       /* the least that was ever free */
    uint64_t lane_times_above;      /* how often it got fuller than 85 % */
    bool lane_above;                /* it is so now, or has not been below 50 % since */
    uint64_t bytes_written;
    uint64_t detail_events;              /* detail records on disk, or on the way to it */
    uint64_t detail_lost[CT_LOSS_COUNT]; /* detail records that were lost though they were to be persisted */
    uint64_t detail_bytes;               /* written */
    uint64_t detail_reach_ns;            /* how far back the rolling window reaches now */
    uint64_t marks, windows;             /* of detail: moments that were marked, windows that were persisted */
    enum ct_window_state window_state;   /* of the first process that is recorded */
    uint64_t signals;                    /* that were seen before they were delivered (--trigger crash, signal=NAME) */
    bool traced;                         /* for that it stays traced while it runs: nobody else can trace it */
    uint64_t latency_p50_ns, latency_p99_ns; /* capture to disk */
    uint64_t plan_ns, pause_ns;              /* planning; how long the process stood still for hooking */
    uint64_t recording_ns;
    uint64_t written_until_ns; /* CLOCK_BOOTTIME: what happened before is on disk; 0: nothing is being recorded */
    struct {
        bool on;            /* threads are followed, functions are not hooked */
        uint64_t events[5]; /* in the order of CT_STALKER_EVENT_LIST */
        uint64_t threads;   /* that were followed, */
        uint64_t left;      /* of them those that were not to their end, and those that could not be */
        uint64_t blocks;    /* translated */
        uint64_t children;  /* forked, and not followed */
    } stalk;
};
void ct_session_statistics(const struct ct_session *session, struct ct_session_statistics *out);

/* Why the last process of the session that could not be recorded could not; "" when all could. */
void ct_session_missed(const struct ct_session *session, char *reason, size_t size);

/* ---- from another process: a session's control socket ---- */

/* False: the process is hooked, and nobody can control the session, because there is no directory that only its user can change:
 * $XDG_RUNTIME_DIR, /run (root), /run/user/UID, the home directory. */
bool ct_session_is_reachable(const struct ct_session *session);

/* What a session can be told while it records: words, operand, what it does. The list exists once. */
#define CT_CONTROL_LIST(X)                                                                                             \
    X(STATUS, "status", "", "print events, losses, memory, threads, latency and the state of detail")                  \
    X(MARK, "mark", "", "mark this moment: the detail around it is written")                                           \
    X(TRIGGER_ADD, "trigger add", "TRIGGER", "mark moments from now on, like --trigger does")                          \
    X(TRIGGER_REMOVE, "trigger remove", "TRIGGER", "take a trigger back")                                              \
    X(TRIGGER_LIST, "trigger list", "", "print the triggers there are")                                                \
    X(EXCLUDE_ADD, "exclude add", "GLOB", "no longer record functions or modules like GLOB")                           \
    X(EXCLUDE_REMOVE, "exclude remove", "GLOB", "record them again")                                                   \
    X(RECORD_OFF, "record off", "", "record nothing for the time being")                                               \
    X(RECORD_ON, "record on", "", "record again")                                                                      \
    X(PAUSE, "pause", "", "stop all processes of the session")                                                         \
    X(RESUME, "resume", "", "let them run on")                                                                         \
    X(STOP, "stop", "", "end the recording, as `contrail detach PID` does")
enum ct_control_command {
#define CT_CONTROL_ENUM(name, words, operand, help) CT_CONTROL_##name,
    CT_CONTROL_LIST(CT_CONTROL_ENUM)
#undef CT_CONTROL_ENUM
        CT_CONTROL_COUNT
};

/* Sends one command of the list, with its operand behind it, to the session that records `pid`; the answer (JSON for status) is
 * put into `answer`. A negative status with an answer: the session refuses, and says why in one sentence. Without one ("") it was
 * not reached: CT_ERR_NOT_FOUND: nobody records it. CT_ERR_PERMISSION_DENIED: somebody else does. CT_ERR_TIMEOUT: it has not answered
 * within 20 s (stop: 40 s). Only a session of our own user, of root, or, for root, of the user of the process is believed; what it
 * answers may be anything all the same. */
int ct_session_control(int pid, const char *command, char *answer, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
