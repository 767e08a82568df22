/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of live control: the socket (control.c), its callers (control_callers.c), the commands
 * (commands.c).
 *
 * One thread serves all callers (control_callers.c), one command at a time, and does what is due every second. What a
 * caller wants is noted (the policy, `paused`) and then applied to every process that does not have it yet. So it also
 * reaches children that begin meanwhile. */
#ifndef CT_SESSION_CONTROL_INTERNAL_H
#define CT_SESSION_CONTROL_INTERNAL_H

#include "session/control.h"
#include "session/control_place.h"
#include "session/metrics.h"
#include "session/recording.h"
#include <poll.h>
#include <sys/stat.h>

enum ct_caller_state {
    CT_CALLER_TALKS,    /* its line is not complete */
    CT_CALLER_ANSWERED, /* the answer is being sent */
    CT_CALLER_STOPS,    /* asked for the end, and waits for it */
};

struct ct_control_caller {
    int fd; /* -1: free */
    enum ct_caller_state state;
    uint64_t since_ns;
    size_t length, sent; /* of the line, then of the answer */
    char *answer;
    char line[CT_CONTROL_PLACE_LINE];
};

/* A mark that a caller has made. */
struct ct_control_mark {
    uint64_t ns;
    char label[CT_WINDOWS_LABEL];
};

enum { CT_CALLERS = 16, CT_CONTROL_MARKS = 32 };
struct ct_control_server {
    struct ct_session *session;
    pthread_t thread;
    int directory, listener, stop_fd; /* directory or listener -1: no directory for a socket */
    char name[CT_CONTROL_PLACE_NAME_SIZE];
    struct stat place; /* the socket of that name, if it is ours */
    bool paused;
    struct ct_metrics metrics;
    struct ct_control_mark marks[CT_CONTROL_MARKS]; /* the last ones: a ring */
    uint64_t mark_count;
    struct ct_control_caller callers[CT_CALLERS];
};

/* ---- control_callers.c ---- */

void ct_callers_init(struct ct_control_server *c);
/* Fills in what to wait for. */
void ct_callers_watch(const struct ct_control_server *c, struct pollfd p[CT_CALLERS]);
/* Accepts callers that wait at the listener, and serves all callers as far as possible without waiting. */
void ct_callers_accept(struct ct_control_server *c);
void ct_callers_serve(struct ct_control_server *c);
/* Ends all callers; those that asked for the end get their answer. */
void ct_callers_end(struct ct_control_server *c);

/* ---- commands.c ---- */

/* The command of a line; CT_SESSION_COMMAND_COUNT: unknown. *operand is the text after the command's words. */
enum ct_session_command ct_command_find(const char *line, const char **operand);
/* Runs it. *answer (freed by the caller) is for the user, also on failure; NULL: out of memory. */
int ct_command_run(struct ct_control_server *c, enum ct_session_command which, const char *operand, char **answer);
/* Applies what callers want to the processes that do not have it yet. False: some do not have it in time. */
bool ct_command_reconcile(struct ct_control_server *c);

#endif
