/* What session.c, session_install.c, manifest.c and control.c share. */
#ifndef CT_CTL_SESSION_PARTS_H
#define CT_CTL_SESSION_PARTS_H

#include "ctl/drain.h"
#include "ctl/inject.h"
#include <contrail/session.h>
#include <limits.h>

struct ct_control_server;

struct ct_session {
    enum ct_session_state state; /* read by anybody */
    char *output, *command_line;
    char **only, **exclude;
    struct ct_session_options options; /* strings point to our copies */
    char error[640];
    char directory[PATH_MAX], process_directory[PATH_MAX + 32];
    size_t made_length; /* of `output`, up to the first directory that we have made; 0: all were there */
    /* of the process that is recorded */
    struct ct_remote *remote;
    bool spawned; /* started by us */
    int pid;
    int exit_status; /* as wait tells it; -1: not known */
    struct ct_target_plan *plan;
    uint64_t *function_ids;
    struct ct_injection injection;
    struct ct_lane lane;
    struct ct_clock clock;
    struct ct_drain drain;
    struct ct_control_server *control;
    uint64_t plan_ns, pause_ns, stopped_at, resumed_at, recorded_ns;
    uint64_t checked_at; /* whether it is still the same program */
    const char *end_reason;
    struct ct_session_statistics last; /* as of the last look: stays when the trace is finished */
    int asked_to_stop;                 /* over the control socket */
    pthread_mutex_t mutex;             /* plan and end_reason, while other threads may look */
};

/* ---- session.c ---- */

int ct_session_fail(struct ct_session *s, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Moves to another state; false (and nothing happens) when that is not allowed. */
bool ct_session_move(struct ct_session *s, enum ct_session_state to);
bool ct_session_may_move(enum ct_session_state from, enum ct_session_state to);
int ct_session_report_progress(struct ct_session *s, const char *step, uint64_t done, uint64_t total);
/* Trace files are closed, memory given back. */
void ct_session_forget(struct ct_session *s);

/* ---- session_install.c ---- */

int ct_session_install(struct ct_session *s);

/* ---- session_leave.c ---- */

/* Everything out of the target, which runs again. */
int ct_session_uninstall(struct ct_session *s);
int ct_session_stop_target(struct ct_session *s);
/* Takes out what is in the stopped target; it is stopped afterwards too. *clean: nothing of ours is left. */
int ct_session_clean(struct ct_session *s, bool *clean);
/* Hooks of a recorder that was killed are removed, before anything is planned. CT_ERR_BUSY: the recorder lives. */
int ct_session_clean_behind_others(struct ct_session *s);

/* ---- manifest.c ---- */

int ct_manifest_write(struct ct_session *s, bool complete);
int ct_manifest_write_symbols(struct ct_session *s);
/* The answer to `status`. */
void ct_manifest_status(struct ct_session *s, struct ct_json *json);

/* ---- control.c ---- */

int ct_control_start(struct ct_session *s);
void ct_control_stop(struct ct_session *s);

#endif
