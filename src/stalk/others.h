/* What is done to followed threads from outside, and the end of a Stalker. */
#ifndef CT_STALK_OTHERS_H
#define CT_STALK_OTHERS_H

#include <stdbool.h>
#include <stdint.h>

struct ct_stalker;

/* No thread is in its code any more, or finds it. CT_ERR_BUSY: threads are followed, or do not come out of it. */
int ct_stalk_wait_until_left(struct ct_stalker *s);
/* A thread that was started by a followed one, and that we know nothing of, may be in its code. */
bool ct_stalk_has_starting(struct ct_stalker *s);
/* No thread is in its code. CT_ERR_BUSY: threads are followed. */
int ct_stalk_destroy(struct ct_stalker *s);
/* The thread is stopped at *pc, by another process or thread, and goes on there when this has returned 0. It is not
 * followed any more as soon as the engine has seen to it. CT_ERR_NOT_FOUND: it was not followed. CT_ERR_BUSY: it is
 * where it can only be asked. */
int ct_stalk_let_go(struct ct_stalker *s, int tid, uint64_t *pc);
/* In translated code, or in the engine; also one that is not followed any more, and on its way out. */
bool ct_stalk_is_inside(const struct ct_stalker *s, int tid, uint64_t pc);
/* Lets go of threads that have ended in excluded code, where nobody has seen it. */
void ct_stalk_let_go_gone(struct ct_stalker *s, bool (*is_there)(void *arg, int tid), void *arg);

#endif
