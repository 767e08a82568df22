/* SPDX-License-Identifier: Apache-2.0 */
/* --keep: files are written in segments, and the oldest ones are deleted.
 *
 * One object for all files of a session; any thread. A series is the files of one kind (index or detail) of one thread.
 * A finished segment is deleted when the newer ones have at least `keep_bytes` without it, or when its last event is
 * more than `keep_ns` older than the newest event of the session. Files that are being written always stay, and are
 * kept short: together they add less than a quarter. */
#ifndef CT_TRACE_SEGMENTS_H
#define CT_TRACE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_place;

struct ct_segments;
/* 0: no such limit. NULL: no memory. */
struct ct_segments *ct_segments_create(uint64_t keep_bytes, uint64_t keep_ns);
/* Call this when all writers are closed. */
void ct_segments_free(struct ct_segments *segments);

struct ct_series;
/* NULL: no memory. It stays until ct_segments_free, so that what was dropped can be reported at any time. */
struct ct_series *ct_series_open(struct ct_segments *segments);
/* Call this before something of that time is written. True: finish the file first and begin the next one. */
bool ct_series_is_full(struct ct_series *series, uint64_t time_ns);
/* Reports the size of the file, and the times of its first and last event. */
void ct_series_grown(struct ct_series *series, uint64_t bytes, uint64_t first_ns, uint64_t last_ns);
/* The file was closed, with `events` events or records; another one may follow. Deletes old segments now. */
void ct_series_finished(struct ct_series *series, struct ct_place *place, const char *path, uint64_t bytes,
                        uint64_t events);

struct ct_series_kept {
    uint64_t dropped;          /* events or records that were deleted */
    uint64_t dropped_files;    /* segments that were deleted */
    uint64_t dropped_until_ns; /* time of the newest event that was deleted; 0: none was */
    uint64_t begins_ns;        /* time of the oldest event that is left; 0: nothing was dropped, or nothing is left */
};
struct ct_series_kept ct_series_kept(struct ct_series *series);

#endif
