/* SPDX-License-Identifier: Apache-2.0 */
/* How much room limits leave to a process: memory of its cgroup, address space, processes of its user. A limit that
 * cannot be found out counts as none.
 *
 * `root` is put before every path: "" for this machine; tests have others. */
#ifndef CT_DRAIN_ROOM_H
#define CT_DRAIN_ROOM_H

#include <stddef.h>
#include <stdint.h>

#define CT_ROOM_UNLIMITED UINT64_MAX

/* Bytes that the cgroup of the process, and those above it, can still be charged with. Pages of files that nobody has
 * used for a while count as free. */
uint64_t ct_room_memory(const char *root, int pid);
/* Bytes of address space that the process may still map (RLIMIT_AS). */
uint64_t ct_room_address_space(const char *root, int pid);
/* The number of its threads. */
uint64_t ct_room_threads(const char *root, int pid);
/* Processes and threads that it may still start, by a limit that counts those of `self` too: RLIMIT_NPROC if both
 * belong to one user, pids.max if both are in one cgroup. */
uint64_t ct_room_tasks(const char *root, int pid, int self);

#endif
