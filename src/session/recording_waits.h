/* SPDX-License-Identifier: Apache-2.0 */
/* Time in which threads of a recorded process waited for the recorder: it is ours, and no function's. Readers leave it
 * out of the times of calls. The list is bounded; what does not fit is counted. */
#ifndef CT_SESSION_RECORDING_WAITS_H
#define CT_SESSION_RECORDING_WAITS_H

#include <stddef.h>
#include <stdint.h>

/* The only list: the names are those in the manifest. */
#define CT_WAIT_LIST(X)                                                                                                \
    X(START, "start")         /* stopped while hooks are made, until it runs with them */                              \
    X(LIBRARIES, "libraries") /* a thread that has loaded libraries */                                                 \
    X(EXEC, "exec")           /* a thread that is about to execute a program */                                        \
    X(HOOKS, "hooks")         /* stopped for a change of hooks, or of what watches it */                               \
    X(LEAVE, "leave")         /* stopped while hooks are taken out */                                                  \
    X(PAUSE, "pause")         /* the user paused it */
enum ct_wait_reason {
#define CT_WAIT_ENUM(name, text) CT_WAIT_##name,
    CT_WAIT_LIST(CT_WAIT_ENUM)
#undef CT_WAIT_ENUM
};

struct ct_wait {
    int tid; /* 0: all threads */
    enum ct_wait_reason reason;
    uint64_t from_ns, to_ns;
};

#define CT_WAITS_LISTED 4096
/* Under the recording's mutex. */
struct ct_recording_waits {
    struct ct_wait *items;
    size_t count, room;
    uint64_t more, more_ns; /* that are not listed */
};

struct ct_json;
struct ct_recording;

/* A thread (0: all) has waited. from_ns 0: nothing is noted. */
void ct_recording_note_wait(struct ct_recording *r, int tid, uint64_t from_ns, uint64_t to_ns,
                            enum ct_wait_reason reason);
/* Lets a stopped process go on, and notes how long it was stopped. The status is that of ct_remote_resume. */
int ct_recording_go_on(struct ct_recording *r, enum ct_wait_reason reason);
/* Adds the list to an open object of the manifest; the mutex is held. */
void ct_recording_put_waits(const struct ct_recording *r, struct ct_json *json);

#endif
