/* --keep: files are written in segments, and the oldest go.
 *
 * One keeper for all files of a session; any thread. A series is the files of one kind of one thread (index, or detail). A finished
 * segment is deleted when those that are newer hold at least `keep_bytes` without it, or when its last event is more than
 * `keep_ns` older than the newest event of the session. Files that are being written always stay, and are kept short: together
 * they hold less than a quarter more. */
#ifndef CT_TRACE_SEGMENTS_H
#define CT_TRACE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_place;

struct ct_segments;
/* 0: not limited by that. NULL: no memory. */
struct ct_segments *ct_segments_create(uint64_t keep_bytes, uint64_t keep_ns);
/* When all writers are closed. */
void ct_segments_free(struct ct_segments *segments);

struct ct_series;
/* NULL: no memory. It stays until ct_segments_free, so that what was dropped can be told at any time. */
struct ct_series *ct_series_open(struct ct_segments *segments);
/* Before something of that time is written: true when the file is to be finished first, and the next one begun. */
bool ct_series_is_full(struct ct_series *series, uint64_t time_ns);
/* How large the file is now, and of which times its events are. */
void ct_series_grown(struct ct_series *series, uint64_t bytes, uint64_t first_ns, uint64_t last_ns);
/* The file was closed, with so many events or records; another one may follow. Old ones are deleted now. */
void ct_series_finished(struct ct_series *series, struct ct_place *place, const char *path, uint64_t bytes,
                        uint64_t events);

struct ct_series_kept {
    uint64_t dropped;          /* events or records that were deleted */
    uint64_t dropped_files;    /* segments */
    uint64_t dropped_until_ns; /* time of the newest event that was deleted; 0: none was */
    uint64_t begins_ns;        /* time of the oldest event that is left; 0: nothing was dropped, or nothing is left */
};
struct ct_series_kept ct_series_kept(struct ct_series *series);

#endif
