/* SPDX-License-Identifier: Apache-2.0 */
/* One process that a session records: from its plan to its finished trace. A session has a first recording, and one for
 * each child and each program executed (children.h). Each activity has its own header: recording_install.h,
 * recording_leave.h, recording_modules.h, recording_policy.h, ..., manifest.h.
 *
 * Owner: the thread that leads it (the session's, or its child thread); other threads may read under the mutex. */
#ifndef CT_SESSION_RECORDING_H
#define CT_SESSION_RECORDING_H

#include "drain/drain.h"
#include "drain/windows.h"
#include "inject/inject.h"
#include "session/recording_budget.h"
#include "session/recording_code.h"
#include "session/recording_modules.h"
#include "session/recording_policy.h"
#include "session/recording_switch.h"
#include "session/recording_waits.h"
#include "session/session.h"
#include "trace/place.h"

struct ct_crash_watch;
struct ct_requests;
struct ct_stalk;

/* How its recording came about. */
enum ct_recording_origin { CT_ORIGIN_SPAWN, CT_ORIGIN_ATTACH, CT_ORIGIN_FORK, CT_ORIGIN_EXEC };

/* A process that a recorded one has started, or has become, and that is not in the trace. */
struct ct_missed {
    int pid;
    char *program; /* "": unknown */
    char *reason;
};

/* At most CT_MISSED_LIST of them; under the mutex. */
#define CT_MISSED_LIST 256
struct ct_missed_list {
    struct ct_missed *items;
    size_t count;
};

/* Requests of the process. */
struct ct_recording_requests {
    struct ct_requests *thread; /* reads the agent's requests */
    uint64_t scan_again_ns;     /* the request thread searches all processes again from then on */
    uint64_t refused;           /* requests that named a process which is not the target's */
};

/* The tracer of the process while it runs. */
struct ct_recording_tracing {
    struct ct_crash_watch *watch; /* keeps it traced; NULL: not traced */
    int outside_tracers;          /* others that must trace it: it is not watched meanwhile; under `work` */
};

struct ct_recording_trace {
    struct ct_place *place; /* where its files are; NULL: none yet */
    struct ct_symbols_end symbols_end;
    char directory[PATH_MAX + 32]; /* its name, for people */
};

/* A thread that writes the names of a process that is stopped anyway, while that is entered. */
struct ct_recording_names {
    pthread_t thread;
    bool begun, runs;
    int status;
};

/* Time on processors (drain/switches.h). */
struct ct_recording_cpu {
    char why_not[CT_SWITCHES_WHY]; /* "": it is recorded, or was not asked for */
    struct ct_switches_counts counts;
};

struct ct_recording_times {
    uint64_t plan_ns, pause_ns, recorded_ns; /* durations */
    uint64_t stopped_at, resumed_at;
    uint64_t asked_at;   /* a forked child waits for its recording since then; 0: it does not */
    uint64_t ended_at;   /* when it was left, ended, or executed another program; 0: it is recorded */
    uint64_t checked_at; /* when it was last checked for another program */
};

struct ct_recording_end {
    const char *reason;
    int exit_status; /* as wait reports it; -1: unknown */
    bool replaced;   /* the process executes another program now, which has its own recording */
};

struct ct_recording {
    struct ct_recording *next; /* in its session */
    struct ct_session *session;
    enum ct_recording_origin origin;
    struct ct_remote *remote;
    int pid, parent_pid;
    char command_line[4096];
    struct ct_shared_plan *shared;
    struct ct_target_plan *plan; /* part of `shared` */
    struct ct_recording_modules modules;
    struct ct_missed_list missed;
    struct ct_left_code_list left;
    struct ct_injection injection;
    struct ct_stalk *stalk; /* NULL: functions are hooked */
    struct ct_lane lane;
    struct ct_clock clock;
    struct ct_clock_wall wall; /* under `files` */
    struct ct_drain drain;
    struct ct_windows windows; /* used by the drain thread */
    struct ct_recording_time_trigger time_trigger;
    uint16_t fitting; /* bits of function triggers that fit a function */
    struct ct_recording_requests requests;
    struct ct_recording_tracing tracing;
    struct ct_recording_trace trace;
    struct ct_recording_names names;
    struct ct_recording_times times;
    struct ct_recording_waits waits;
    struct ct_recording_cpu cpu;
    struct ct_recording_switched switched;
    struct ct_recording_end end;
    struct ct_recording_budget *budget; /* NULL: none so far */
    struct ct_session_statistics last;  /* the latest; stays when the trace is finished */
    char error[640];
    bool paused;           /* through the control socket; under `work` */
    bool given_up;         /* the user has cancelled it */
    pthread_mutex_t mutex; /* for plan, drain and last, while other threads may read them */
    pthread_mutex_t work;  /* held by a thread other than the owner that uses `remote`: request thread, leaving */
    pthread_mutex_t files; /* held by a thread that writes the manifest or the symbols; before `mutex` */
};

struct ct_recording *ct_recording_create(struct ct_session *s, enum ct_recording_origin origin);
void ct_recording_destroy(struct ct_recording *r);
int ct_recording_fail(struct ct_recording *r, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Replaces the command line with the name of the program's file: arguments, and the name that the process gives itself,
 * may be secret. */
void ct_recording_read_program(struct ct_recording *r);
int ct_recording_progress(struct ct_recording *r, const char *step);
/* The recording uses the plan from now on. A plan without users is freed. */
void ct_recording_share(struct ct_recording *r, struct ct_shared_plan *shared);
void ct_recording_release(struct ct_shared_plan *shared);
void ct_recording_statistics(struct ct_recording *r, struct ct_session_statistics *out);
/* Notes a process of this one that is not recorded: reported at the end, and in the manifest. */
void ct_recording_miss(struct ct_recording *r, int pid, const char *program, const char *reason);
/* Starts the clock again and resumes the process. */
void ct_recording_resume(struct ct_recording *r);
/* Has the process executed another program? */
bool ct_recording_was_replaced(struct ct_recording *r);
/* Notes that the process ended with this status (-1: unknown); returns the reason for the end of its recording. */
const char *ct_recording_note_exit(struct ct_recording *r, int status);
/* Notes that the process is not recorded from now on. The first call counts. */
void ct_recording_note_end(struct ct_recording *r);
/* Finishes the trace. The process is no longer used. */
int ct_recording_finish(struct ct_recording *r, const char *reason);

#endif
