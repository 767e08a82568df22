/* The other processes of a session: children that recorded processes fork, and programs that they execute.
 *
 * Each process that comes to be recorded has a child thread, a thread that leads its recording from then on to its end. */
#ifndef CT_SESSION_CHILDREN_H
#define CT_SESSION_CHILDREN_H

#include "session/requests.h"

int ct_children_create(struct ct_session *s);
/* All child threads have ended when this returns. */
void ct_children_destroy(struct ct_session *s);

/* Starts a child thread for who has written this request; false: nobody is followed now. */
bool ct_children_start_thread(const struct ct_task *task);
/* One more process could not be recorded. */
void ct_children_miss(struct ct_session *s, const char *reason);
/* Processes that are being recorded, or about to be, apart from the first. */
size_t ct_children_active(struct ct_session *s);
/* Takes the hooks out of all of them; their traces are finished when this returns. */
void ct_children_leave(struct ct_session *s);
bool ct_children_are_leaving(struct ct_session *s);
/* One of them cannot be written any more. */
bool ct_children_broken(struct ct_session *s);
/* Waits until the process with this pidfd (-1: none) ends, or the number of children changes, at most so long. */
void ct_children_wait(struct ct_session *s, int pidfd, int timeout_ms);
void ct_children_add_statistics(struct ct_session *s, struct ct_session_statistics *sum);
/* Calls `each` for those that are being recorded. Their list is held meanwhile: `each` waits for nobody. */
void ct_children_each(struct ct_session *s, void (*each)(void *arg, struct ct_recording *r), void *arg);

#endif
