/* SPDX-License-Identifier: Apache-2.0 */
/* Walks through a large thread on all processors.
 *
 * Each worker takes the next range of the thread. When its events are read, it waits for the whole walk to come to the
 * range. From there it goes on by itself, and the walk is passed on: to walk takes longer than to read and to pass on,
 * so all processors have work. What the format writes is kept in memory until it is the range's turn.
 *
 *   worker 1   read 0  begin 0  run 0 ...........  write 0  read 2   begin 2 ...
 *   worker 2   read 1           begin 1  run 1 ...........  write 1  read 3 ...
 *
 * Memory: some ranges for each worker. */
#ifndef CT_EXPORT_WALK_RANGES_H
#define CT_EXPORT_WALK_RANGES_H

#include "export/walk.h"

/* Walks from where the walk is, until near the end of the thread: the caller reads the rest. Does nothing where the
 * thread is small, or the format does not share. `read` reads events up to a position, and returns how many. */
void ct_walk_ranges(struct ct_walk *w, struct ct_scan *scan,
                    uint64_t (*read)(struct ct_walk *w, struct ct_scan *scan, uint64_t end));

#endif
