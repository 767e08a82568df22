/* Requests of recorded processes (abi/shm_abi.h): each recorded process has a thread that reads them. It sees to what
 * is loaded later; for a child, or a program that is executed, it starts a child thread (children.h), which answers. */
#ifndef CT_SESSION_REQUESTS_H
#define CT_SESSION_REQUESTS_H

#include "session/confirm.h"

/* A request that a child thread is to answer. */
struct ct_task {
    struct ct_recording *parent; /* whose request it is */
    struct ct_shm_request request;
    uint32_t index;          /* of the request */
    struct ct_confirmed who; /* who asks */
    bool answered;           /* the request may be somebody else's by now */
    /* Of an exec: */
    const char *foreign;    /* "an arm64 program": it is not to be recorded */
    char program[PATH_MAX]; /* "" when not known */
};

/* Starts the request thread of a recording, ends it. Ending waits for what was begun with its requests. */
int ct_requests_start(struct ct_recording *r);
void ct_requests_stop(struct ct_recording *r);

/* By a child thread: the answer, of which only the first counts; and that the parent's lane is not needed any more. */
void ct_requests_answer(struct ct_task *t, int value, uint32_t state);
void ct_requests_close(struct ct_task *t);

#endif
