/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the code that puts patches into a stopped target and the code that removes them. */
#ifndef CT_INJECT_STOPPED_H
#define CT_INJECT_STOPPED_H

#include "hook/page_writer.h"
#include "remote/remote.h"

/* Writes to the target's memory. */
struct ct_page_writer ct_stopped_writer(struct ct_remote *remote);
/* Moves threads, and code that signal handlers interrupted, to where `moved` says; 0: they stay. `in_call`: the thread
 * is in a system call that will be repeated. */
int ct_stopped_move_threads(struct ct_remote *remote, uint64_t (*moved)(const void *arg, uint64_t pc, bool in_call),
                            const void *arg);

#endif
