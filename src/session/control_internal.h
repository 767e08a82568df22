/* What the files of live control share: the socket (control.c), its callers (control_callers.c), what a session can be
 * asked (commands.c).
 *
 * One thread serves all callers (control_callers.c), one command at a time, and does what is due every second. What a
 * caller wants is noted as a wish (the policy, `paused`), and then brought to every process that does not have it yet:
 * so it reaches children too that begin meanwhile. */
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
    CT_CALLER_ANSWERED, /* the answer is on its way */
    CT_CALLER_STOPS,    /* has asked for the end, and hears when it has come */
};

struct ct_control_caller {
    int fd; /* -1: nobody */
    enum ct_caller_state state;
    uint64_t since_ns;
    size_t length, sent; /* of the line, then of the answer */
    char *answer;
    char line[CT_CONTROL_PLACE_LINE];
};

enum { CT_CALLERS = 16 };
struct ct_control_server {
    struct ct_session *session;
    pthread_t thread;
    int directory, listener, stop_fd; /* directory or listener -1: there is no place for a socket */
    char name[CT_CONTROL_PLACE_NAME_SIZE];
    struct stat place; /* the socket of that name, if it is ours */
    bool paused;
    struct ct_metrics metrics;
    struct ct_control_caller callers[CT_CALLERS];
};

/* ---- control_callers.c ---- */

void ct_callers_init(struct ct_control_server *c);
/* What to wait for. */
void ct_callers_watch(const struct ct_control_server *c, struct pollfd p[CT_CALLERS]);
/* Takes in who is waiting at the listener; serves who is here, as far as that needs no waiting. */
void ct_callers_accept(struct ct_control_server *c);
void ct_callers_serve(struct ct_control_server *c);
/* Everybody goes; who has asked for the end hears that it has come. */
void ct_callers_end(struct ct_control_server *c);

/* ---- commands.c ---- */

/* What a line asks for; CT_SESSION_COMMAND_COUNT: nothing that is known. *operand is what comes behind the words. */
enum ct_session_command ct_command_find(const char *line, const char **operand);
/* Does it. *answer (freed by the caller) is for the user, also when it fails; NULL: out of memory. */
int ct_command_run(struct ct_control_server *c, enum ct_session_command which, const char *operand, char **answer);
/* Brings what is wished to the processes that do not have it yet. False: not to all of them in time. */
bool ct_command_reconcile(struct ct_control_server *c);

#endif
