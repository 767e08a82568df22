/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of recorded processes (abi/shm_abi.h): each recorded process has a thread that reads them. It hooks what is
 * loaded later; for a child, or a program that is executed, it starts a child thread (children.h), which answers. */
#ifndef CT_SESSION_REQUESTS_H
#define CT_SESSION_REQUESTS_H

#include "session/confirm.h"

/* A request that a child thread answers. */
struct ct_task {
    struct ct_recording *parent; /* the process that has the request */
    struct ct_shm_request request;
    uint32_t index;          /* of the request */
    struct ct_confirmed who; /* the process or thread that asks */
    bool answered;           /* the request may be somebody else's by now */
    uint64_t since;          /* its thread waits since then */
    /* For an exec: */
    const char *foreign;    /* "an arm64 program": it is not recorded */
    char program[PATH_MAX]; /* "": unknown */
};

/* Start and end the request thread of a recording. The end waits for child threads that still need its requests. */
int ct_requests_start(struct ct_recording *r);
void ct_requests_stop(struct ct_recording *r);

/* For child threads: the answer, of which only the first counts; and the parent's lane is no longer needed. */
void ct_requests_answer(struct ct_task *t, int value, uint32_t state);
void ct_requests_close(struct ct_task *t);

#endif
