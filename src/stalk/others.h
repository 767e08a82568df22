/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on followed threads from outside, and the end of a Stalker. */
#ifndef CT_STALK_OTHERS_H
#define CT_STALK_OTHERS_H

#include <stdbool.h>
#include <stdint.h>

struct ct_stalker;

/* Waits until no thread is in the Stalker's code or can reach it. CT_ERR_BUSY: threads are followed, or do not leave
 * it. */
int ct_stalk_wait_until_left(struct ct_stalker *s);
/* May a thread that a followed thread has started, and that is not known yet, be in the Stalker's code? */
bool ct_stalk_has_starting(struct ct_stalker *s);
/* Frees the Stalker. No thread is in its code. CT_ERR_BUSY: threads are followed. */
int ct_stalk_destroy(struct ct_stalker *s);
/* The thread is stopped at *pc, by another process or thread, and continues at the new *pc when this has returned 0.
 * Following ends as soon as the engine has handled it. CT_ERR_NOT_FOUND: it was not followed. CT_ERR_BUSY: it is at a
 * place where it can only be asked. */
int ct_stalk_let_go(struct ct_stalker *s, int tid, uint64_t *pc);
/* Is the thread in translated code or in the engine? A thread that is no longer followed may be on its way out. */
bool ct_stalk_is_inside(const struct ct_stalker *s, int tid, uint64_t pc);
/* Lets go of threads that have ended unnoticed, in excluded code. */
void ct_stalk_let_go_gone(struct ct_stalker *s, bool (*is_there)(void *arg, int tid), void *arg);

#endif
