/* Letters of recorded processes (abi/shm_abi.h): each recorded process has a postman, a thread that reads them. What is loaded
 * later he sees to himself; for a child, or a program that is executed, he starts a keeper (children.h), who answers. */
#ifndef CT_SESSION_POST_H
#define CT_SESSION_POST_H

#include "session/confirm.h"

/* A letter that a keeper is to answer. */
struct ct_task {
    struct ct_recording *parent; /* whose letter it is */
    struct ct_shm_letter letter;
    uint32_t index;          /* of the letter */
    struct ct_confirmed who; /* who asks */
    bool answered;           /* the letter may be somebody else's by now */
    /* Of an exec: */
    const char *foreign;    /* "an arm64 program": it is not to be recorded */
    char program[PATH_MAX]; /* "" when not known */
};

/* Starts the postman of a recording, ends it. Ending waits for what was begun with its letters. */
int ct_post_start(struct ct_recording *r);
void ct_post_stop(struct ct_recording *r);

/* By a keeper: the answer, of which only the first counts; and that the parent's lane is not needed any more. */
void ct_post_answer(struct ct_task *t, int value, uint32_t state);
void ct_post_close(struct ct_task *t);

#endif
