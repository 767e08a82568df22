/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of processes and threads in pid namespaces: ours, and those that they have themselves. */
#ifndef CT_REMOTE_NAMESPACE_H
#define CT_REMOTE_NAMESPACE_H

struct ct_remote;

/* Our number of the process that has the number `inner` in the pid namespace of process `other`; 0: none. */
int ct_remote_outer_pid(int other, int inner);
/* Identifies the pid namespace of a process; -1: unknown. */
long ct_remote_namespace(int pid);
/* The number that a thread has in its own pid namespace; -1: no such thread. */
int ct_remote_inner_number(int pid, int tid);
/* Our number of the thread of process `pid` that has the number `inner` in its own pid namespace; 0: none. */
int ct_remote_outer_tid(int pid, int inner);
/* The process's number in its own pid namespace. */
int ct_remote_inner_pid(const struct ct_remote *remote);

#endif
