/* SPDX-License-Identifier: Apache-2.0 */
/* A range of a thread that is walked by itself, while others are walked on other processors.
 *
 *   ct_walk_part_read   its events are read, and counted as in reports (report/range.h): without those before them
 *   ct_walk_part_begin  in the order of ranges: the part gets the calls that are open; the whole walk goes on after it
 *   ct_walk_part_run    the events again, now with all that is to be known: the format's functions are called
 *
 * Only plain ranges can do so, and nearly all are: nothing is missing, and calls are one stack in one lane. Of all
 * others the whole walk reads the events, where it is. */
#ifndef CT_EXPORT_WALK_PART_H
#define CT_EXPORT_WALK_PART_H

#include "export/walk.h"

struct ct_walk_part {
    struct ct_walk walk; /* what the format sees */
    struct ct_range_reader reader;
    struct ct_range range;
    struct ct_span *spans; /* the open calls, the outermost first */
    size_t used, room;
    struct ct_export_lane lane;
};

/* For the thread that the walk is in. The source lives longer. Returns 0 or a status; close it in any case. */
int ct_walk_part_open(struct ct_walk_part *part, const struct ct_walk *whole, const struct ct_range_source *source);
void ct_walk_part_read(struct ct_walk_part *part, uint64_t first, uint64_t end);
/* False: the whole walk has to read the range, or there is a status. */
bool ct_walk_part_begin(struct ct_walk_part *part, struct ct_walk *whole, struct ct_scan *scan);
void ct_walk_part_run(struct ct_walk_part *part);
/* Nobody else uses the whole walk. */
void ct_walk_part_close(struct ct_walk_part *part, struct ct_walk *whole);

#endif
