/* SPDX-License-Identifier: Apache-2.0 */
/* A session: its options, its processes, its policy. See contrail/session.h.
 *
 * Owner: the thread that calls the session's functions; members that other threads use say so. */
#ifndef CT_SESSION_SESSION_H
#define CT_SESSION_SESSION_H

#include "trace/place.h"
#include <contrail/session.h>
#include <limits.h>
#include <pthread.h>
#include <sys/types.h>

struct ct_children;
struct ct_control_server;
struct ct_policy;
struct ct_recording;
struct ct_segments;

struct ct_session_metrics {
    struct ct_place *place; /* directory of the metrics file */
    char *name;             /* its name there */
};

/* The process that the session started or attached to. */
struct ct_session_process {
    bool spawned; /* we are its parent */
    int pid, pidfd, exit_status;
    bool ended; /* it has ended, and was waited for */
};

struct ct_session {
    enum ct_session_state state; /* read by any thread */
    char *output, *command_line;
    char **only, **exclude, **triggers, *metrics_file, *group_name;
    struct ct_session_options options; /* strings point to our copies */
    struct ct_session_stalk stalk;
    char error[640];
    char note[320];           /* see ct_session_note */
    char idle[448];           /* see ct_session_idle */
    char idle_filters[640];   /* see ct_session_idle_filters */
    struct ct_place *place;   /* the session's directory */
    char directory[PATH_MAX]; /* its name, for people */
    struct ct_session_metrics metrics;
    gid_t group; /* may read the trace; or CT_PLACE_NO_GROUP */
    struct ct_session_process process;
    struct ct_recording *first;
    struct ct_children *children;
    struct ct_control_server *control;
    struct ct_policy *policy;
    pthread_rwlock_t policy_lock;      /* the control thread changes it, many read it: the drain never waits long */
    unsigned wait_ms;                  /* options.wait_ms, or what the control socket's thread has set instead */
    int asked_to_stop;                 /* over the control socket */
    struct ct_session_statistics past; /* sums of recordings that are over */
    struct ct_segments *segments;      /* decides which index files are deleted; NULL: none */
    pthread_mutex_t mutex;             /* for lists */
};

struct ct_remote;
/* For what else is to be put into the process that the session started or attached to: nobody else uses `remote`
 * meanwhile. */
int ct_session_use_remote(struct ct_session *s, int (*use)(void *arg, struct ct_remote *remote), void *arg);

/* Moves to another state; false: not allowed, and nothing happens. */
bool ct_session_move(struct ct_session *s, enum ct_session_state to);
bool ct_session_may_move(enum ct_session_state from, enum ct_session_state to);

#endif
