/* Live control of a session: its socket, what it can be told (commands.c), its numbers (metrics.c).
 *
 * One thread serves callers, one at a time, and does what is due every second. What a caller wants is written down as a wish (the
 * policy, `paused`), and then brought to every process that does not have it yet: so it reaches children too that begin
 * meanwhile. */
#ifndef CT_CTL_CONTROL_H
#define CT_CTL_CONTROL_H

#include "ctl/metrics.h"
#include "ctl/recording.h"
#include <sys/stat.h>
#include <sys/un.h>

struct ct_control_server {
    struct ct_session *session;
    pthread_t thread;
    int listener, stop_fd; /* listener -1: there is no place for a socket */
    int asker;             /* who has asked for the end, and hears when it has come; -1: nobody */
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    struct stat place; /* the socket at that path, if it is ours */
    bool paused;
    struct ct_metrics metrics;
};

/* ---- commands.c ---- */

/* What a line asks for; CT_CONTROL_COUNT: nothing that is known. *operand is what comes behind the words. */
enum ct_control_command ct_command_find(const char *line, const char **operand);
/* Does it. *answer (freed by the caller) is for the user, also when it fails; NULL: out of memory. */
int ct_command_run(struct ct_control_server *c, enum ct_control_command which, const char *operand, char **answer);
/* Brings what is wished to the processes that do not have it yet. False: not to all of them in time. */
bool ct_command_reconcile(struct ct_control_server *c);

#endif
