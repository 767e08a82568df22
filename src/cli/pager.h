/* SPDX-License-Identifier: Apache-2.0 */
/* Pagers for a command that shows several texts, one after the other, and has given up its rights before (rights.h).
 *
 * A process that keeps the user's own rights waits for texts: it gets the reading end of a pipe, runs $PAGER on it, and
 * reports when that has ended. It does nothing else. One owner. */
#ifndef CT_CLI_PAGER_H
#define CT_CLI_PAGER_H

#include <stdbool.h>

/* Runs $PAGER, or less, on a file; never returns. */
void ct_pager_run(int in) __attribute__((noreturn));
/* True when the user wants one, and it is there. */
bool ct_pager_wanted(void);

/* Starts the process. Call this before rights are given up. */
void ct_pager_keep(void);
/* True when there is such a process. */
bool ct_pager_is_kept(void);
/* Starts a pager; returns the descriptor to write to, -1: none. */
int ct_pager_start(void);
/* Waits until the pager has ended; the descriptor is closed. */
void ct_pager_wait(void);

#endif
