/* One process that a session records: from its plan to its finished trace. A session has a first one, and one for each child
 * and each program executed (children.h).
 *
 * Owner: the thread that leads it (the session's, or its child thread); other threads may look under the mutex. */
#ifndef CT_SESSION_RECORDING_H
#define CT_SESSION_RECORDING_H

#include "drain/drain.h"
#include "inject/inject.h"
#include "session/policy.h"
#include "drain/windows.h"
#include "trace/place.h"
#include <contrail/session.h>
#include <limits.h>
#include <time.h>

struct ct_control_server;
struct ct_children;
struct ct_stalk;
struct ct_requests;

/* How the process came to be recorded. */
enum ct_recording_origin { CT_ORIGIN_SPAWN, CT_ORIGIN_ATTACH, CT_ORIGIN_FORK, CT_ORIGIN_EXEC };

/* A plan serves a process and the children it forks. */
struct ct_shared_plan {
    struct ct_target_plan *plan;
    uint64_t *function_ids; /* by hook number */
    int users;
};

/* A process that a recorded one has made or become, and that is not in the trace. */
struct ct_missed {
    int pid;
    char *program; /* "" when not known */
    char *reason;
};

/* Executable memory that belongs to no module. */
struct ct_left_code {
    char *name;
    const char *reason;
    uint64_t mappings, bytes; /* the most that was seen at a time */
};

struct ct_recording {
    struct ct_recording *next; /* in its session */
    struct ct_session *session;
    enum ct_recording_origin origin;
    struct ct_remote *remote;
    int pid, parent_pid;
    int exit_status; /* as wait tells it; -1: not known */
    struct ct_shared_plan *shared;
    struct ct_target_plan *plan;  /* of shared */
    struct ct_shared_plan **more; /* for libraries that were loaded later */
    size_t more_count;
    bool full; /* of these: what is loaded now is not recorded */
    uint32_t next_module, next_hook;
    bool *gone; /* by module id - 1: unloaded since */
    size_t gone_count;
    uint64_t *all_ids; /* function ids by hook number, once there is more */
    size_t ids_room;
    uint64_t **old_ids; /* arrays that became too small */
    size_t old_count;
    struct ct_missed *missed; /* at most CT_MISSED_LIST of them; under the mutex */
    size_t missed_count;
    struct ct_left_code *left; /* under the mutex */
    size_t left_count;
    struct ct_injection injection;
    struct ct_stalk *stalk; /* NULL: functions are hooked */
    struct ct_lane lane;
    struct ct_clock clock;
    struct ct_drain drain;
    struct ct_windows windows;          /* the drain thread's */
    time_t clock_second;                /* the drain thread's: of the last look at time triggers; */
    char held[CT_TRIGGER_TEXT];         /* the one that lasts, "" */
    struct ct_requests *requests;       /* reads the agent's requests */
    uint64_t scan_again_ns;             /* the request thread's: all processes are looked through again from then on */
    uint64_t refused;                   /* requests that named a process which is not the target's */
    struct ct_crash_watch *crash_watch; /* why it stays traced; NULL: it does not */
    int outside_tracers;    /* others that are to trace the process: it is not watched meanwhile; under `work` */
    struct ct_place *place; /* where its files are; NULL: none is there */
    struct ct_symbols_end symbols_end;
    char directory[PATH_MAX + 32]; /* its name, for people */
    char command_line[4096];
    char error[640];
    uint64_t plan_ns, pause_ns, stopped_at, resumed_at, recorded_ns;
    uint64_t checked_at;  /* whether it is still the same program */
    uint32_t switched;    /* the version of the policy that is in force in the process; written under `work`; */
    size_t switched_more; /* as of so many libraries that were loaded later */
    bool paused;          /* by who controls the session; under `work` */
    const char *end_reason;
    struct ct_session_statistics last; /* as of the last look: stays when the trace is finished */
    pthread_mutex_t mutex;             /* plan, drain and last, while other threads may look */
    pthread_mutex_t work;              /* held by who uses `remote` beside the owner: request thread, leaving */
    pthread_mutex_t files;             /* held by who writes the manifest or the symbols; before `mutex` */
    bool given_up;                     /* the user does not want it any more */
    bool replaced;                     /* the process executes another program now, which has a recording of its own */
};

struct ct_session {
    enum ct_session_state state; /* read by anybody */
    char *output, *command_line;
    char **only, **exclude, **triggers, *metrics_file, *group_name;
    struct ct_session_options options; /* strings point to our copies */
    struct ct_session_stalk stalk;
    char error[640];
    char note[320];                 /* see ct_session_note */
    struct ct_place *place;         /* the session's directory */
    char directory[PATH_MAX];       /* its name, for people */
    struct ct_place *metrics_place; /* directory of the metrics file, and */
    char *metrics_name;             /* its name there */
    gid_t group;                    /* that may read the trace, or CT_PLACE_NO_GROUP */
    bool spawned;                   /* we are the first process's parent */
    int pid, pidfd, exit_status;
    bool ended; /* the first process has, and was waited for */
    struct ct_recording *first;
    struct ct_children *children;
    struct ct_control_server *control;
    struct ct_policy *policy;
    pthread_rwlock_t policy_lock;      /* the control thread changes it, many look: the drain never waits for long */
    int asked_to_stop;                 /* over the control socket */
    struct ct_session_statistics past; /* of recordings that are over */
    struct ct_segments *segments;      /* which index files go; NULL: none */
    pthread_mutex_t mutex;             /* lists */
};

/* ---- session.c ---- */

/* Moves to another state; false (and nothing happens) when that is not allowed. */
bool ct_session_move(struct ct_session *s, enum ct_session_state to);
bool ct_session_may_move(enum ct_session_state from, enum ct_session_state to);

/* ---- recording.c ---- */

struct ct_recording *ct_recording_create(struct ct_session *s, enum ct_recording_origin origin);
void ct_recording_destroy(struct ct_recording *r);
int ct_recording_fail(struct ct_recording *r, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The command line becomes the name of the program's file: arguments, and what the process calls itself, may be secret. */
void ct_recording_read_program(struct ct_recording *r);
int ct_recording_progress(struct ct_recording *r, const char *step);
void ct_recording_share(struct ct_recording *r, struct ct_shared_plan *shared);
void ct_recording_statistics(struct ct_recording *r, struct ct_session_statistics *out);
/* A process that belongs to this one is not recorded: told at the end, and in the manifest. */
#define CT_MISSED_LIST 256
void ct_recording_miss(struct ct_recording *r, int pid, const char *program, const char *reason);
/* Starts the clock anew, and lets the process go. */
void ct_recording_resume(struct ct_recording *r);
/* The process has become another program. */
bool ct_recording_was_replaced(struct ct_recording *r);
/* The process has ended so (-1: not known); why its recording has. */
const char *ct_recording_note_exit(struct ct_recording *r, int status);
/* The trace is finished; the process is no longer our business. */
int ct_recording_finish(struct ct_recording *r, const char *reason);

/* ---- recording_install.c ---- */

int ct_recording_install(struct ct_recording *r);
/* A child that a recorded process has forked: it has agent, stubs and patches already, and gets a lane of its own. */
int ct_recording_install_forked(struct ct_recording *r, struct ct_recording *parent);

/* ---- recording_room.c ---- */

/* Makes lanes small enough for what limits leave to the process. CT_ERR_NO_MEMORY: there is not even room for small ones. */
int ct_recording_fit(struct ct_recording *r, struct ct_lane_options *lane);

/* ---- recording_modules.c ---- */

/* The loader says that modules have come or gone: what is new is hooked. */
int ct_recording_update_modules(struct ct_recording *r);
/* Calls `each` for every module, those that are gone included. Under the mutex, or on the request thread. */
void ct_recording_each_module(const struct ct_recording *r,
                              void (*each)(void *arg, const struct ct_target_module *module), void *arg);
/* What a forked child has of its parent. Its remote is open. */
int ct_recording_inherit_modules(struct ct_recording *r, struct ct_recording *parent);
void ct_recording_drop_modules(struct ct_recording *r);
int ct_recording_make_plan(struct ct_recording *r, struct ct_target_plan_options options, struct ct_shared_plan **out);
void ct_recording_release(struct ct_shared_plan *shared);

/* ---- recording_code.c ---- */

/* Notes code that is left alone: the kernel's, and what programs make at run time. Any thread; does nothing while somebody else
 * uses the remote. */
void ct_recording_look_at_code(struct ct_recording *r);
void ct_recording_free_code(struct ct_recording *r);

/* ---- recording_policy.c ---- */

/* Function triggers, as the policy has them now, take effect in the process. Any thread that may look at its modules. */
void ct_recording_apply_policy(struct ct_recording *r);
/* All of the policy, if the process does not have it as it is now, whether it runs or not. The caller holds `work`. */
void ct_recording_bring_policy(struct ct_recording *r);
/* For ct_drain.trigger_text. */
void ct_recording_trigger_text(void *recording, uint32_t id, char *text, size_t size);
/* For ct_drain.on_pass: while a time trigger lasts, a window is held open. */
void ct_recording_on_pass(void *recording, uint64_t now_ns);

/* ---- recording_switch.c ---- */

/* Switches functions on and off in the process as the policy says now, whether it runs or not. The caller holds `work`, or is the
 * only one who knows it. */
int ct_recording_switch(struct ct_recording *r);
/* Is that done, for all libraries that are there? Any thread; certain for who holds `work`. */
bool ct_recording_is_switched(const struct ct_recording *r);

/* ---- recording_leave.c ---- */

#define CT_RECORDING_STILL_MS                                                                                          \
    10000u /* a stop of a process that is recorded lasts no longer, whatever it has in its memory */

/* Everything out of the target, which runs again. */
int ct_recording_uninstall(struct ct_recording *r);
int ct_recording_stop(struct ct_recording *r);
/* Takes out what is in the stopped target; it is stopped afterwards too. *clean: nothing of ours is left. */
int ct_recording_clean(struct ct_recording *r, bool *clean);
/* Hooks of a recorder that was killed are removed, before anything is planned. CT_ERR_BUSY: the recorder lives. */
int ct_recording_clean_behind_others(struct ct_recording *r);

/* ---- manifest.c ---- */

int ct_manifest_write(struct ct_recording *r, bool complete);
int ct_manifest_write_symbols(struct ct_recording *r);
/* The same where only functions without a name can have come since (stalk.h), and then only if they have. */
int ct_manifest_add_symbols(struct ct_recording *r);
/* Members of the answer to `status`, into an open object. */
void ct_manifest_status(struct ct_session *s, struct ct_json *json);

/* ---- control.c ---- */

int ct_control_start(struct ct_session *s);
void ct_control_stop(struct ct_session *s);
/* The session can be reached by the pid of another process that it records, or no longer. */
void ct_control_add(struct ct_session *s, int pid);
void ct_control_remove(struct ct_session *s, int pid);
/* Are processes that begin now to stand still? */
bool ct_control_wants_pause(const struct ct_session *s);

#endif
