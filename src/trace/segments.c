/* SPDX-License-Identifier: Apache-2.0 */
/* See segments.h. Finished segments are in one list, ordered by their last event, oldest first; new ones come near its
 * end. */
#include "trace/segments.h"
#include "trace/place.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_BYTES (4u << 10) /* smallest segment */
#define OPEN_PART   32u        /* open files may have keep_bytes / OPEN_PART together */
#define TIME_PART   8u         /* a segment lasts keep_ns / TIME_PART */

struct segment {
    struct segment *older, *newer;
    struct ct_series *series;
    struct ct_place *place; /* held */
    char *path;             /* within the place */
    uint64_t bytes, events, first_ns, last_ns;
};

struct ct_series {
    struct ct_series *next;
    struct ct_segments *segments;
    bool open;
    uint64_t bytes, first_ns, last_ns; /* of the open file */
    uint64_t dropped, dropped_files, dropped_until_ns;
    uint64_t begins_ns; /* after a deletion: beginning of the oldest finished segment that is left, 0: there is none */
};

struct ct_segments {
    pthread_mutex_t lock;
    uint64_t keep_bytes, keep_ns;
    uint64_t finished_bytes, newest_ns;
    size_t open;
    struct segment *oldest, *newest; /* finished */
    struct ct_series *series;
};

struct ct_segments *ct_segments_create(uint64_t keep_bytes, uint64_t keep_ns) {
    struct ct_segments *segments = calloc(1, sizeof *segments);
    if (!segments)
        return NULL;
    segments->keep_bytes = keep_bytes;
    segments->keep_ns = keep_ns;
    pthread_mutex_init(&segments->lock, NULL);
    return segments;
}

static void free_segment(struct segment *segment) {
    ct_place_drop(segment->place);
    free(segment->path);
    free(segment);
}

void ct_segments_free(struct ct_segments *segments) {
    if (!segments)
        return;
    for (struct segment *segment = segments->oldest, *next; segment; segment = next) {
        next = segment->newer;
        free_segment(segment);
    }
    for (struct ct_series *series = segments->series, *next; series; series = next) {
        next = series->next;
        free(series);
    }
    pthread_mutex_destroy(&segments->lock);
    free(segments);
}

struct ct_series *ct_series_open(struct ct_segments *segments) {
    struct ct_series *series = calloc(1, sizeof *series);
    if (!series)
        return NULL;
    series->segments = segments;
    pthread_mutex_lock(&segments->lock);
    series->next = segments->series;
    segments->series = series;
    pthread_mutex_unlock(&segments->lock);
    return series;
}

static uint64_t largest_segment(const struct ct_segments *segments) {
    if (!segments->keep_bytes)
        return UINT64_MAX;
    uint64_t bytes = segments->keep_bytes / OPEN_PART / (segments->open ? segments->open : 1);
    return bytes < LEAST_BYTES ? LEAST_BYTES : bytes;
}

bool ct_series_is_full(struct ct_series *series, uint64_t time_ns) {
    struct ct_segments *segments = series->segments;
    pthread_mutex_lock(&segments->lock);
    bool full = series->open && (series->bytes >= largest_segment(segments) ||
                                 (segments->keep_ns && time_ns > series->first_ns &&
                                  time_ns - series->first_ns >= segments->keep_ns / TIME_PART));
    pthread_mutex_unlock(&segments->lock);
    return full;
}

void ct_series_grown(struct ct_series *series, uint64_t bytes, uint64_t first_ns, uint64_t last_ns) {
    struct ct_segments *segments = series->segments;
    pthread_mutex_lock(&segments->lock);
    segments->open += !series->open;
    series->open = true;
    series->bytes = bytes;
    series->first_ns = first_ns;
    series->last_ns = last_ns;
    if (last_ns > segments->newest_ns)
        segments->newest_ns = last_ns;
    pthread_mutex_unlock(&segments->lock);
}

/* ---- deleting ---- */

static bool may_go(const struct ct_segments *segments, const struct segment *segment) {
    if (segments->keep_ns && segments->newest_ns - segment->last_ns > segments->keep_ns)
        return true;
    return segments->keep_bytes && segments->finished_bytes - segment->bytes >= segments->keep_bytes;
}

/* Time of the oldest segment of the series; 0: none is finished. */
static uint64_t begin_of(const struct ct_segments *segments, const struct ct_series *series) {
    for (const struct segment *at = segments->oldest; at; at = at->newer)
        if (at->series == series && at->events)
            return at->first_ns;
    return 0;
}

static void delete_old(struct ct_segments *segments) {
    struct segment *segment;
    while ((segment = segments->oldest) && may_go(segments, segment)) {
        struct ct_series *series = segment->series;
        (void)ct_place_remove(segment->place, segment->path);
        segments->oldest = segment->newer;
        *(segment->newer ? &segment->newer->older : &segments->newest) = NULL;
        segments->finished_bytes -= segment->bytes;
        series->dropped += segment->events;
        series->dropped_files++;
        if (segment->events)
            series->dropped_until_ns = segment->last_ns;
        series->begins_ns = begin_of(segments, series);
        free_segment(segment);
    }
}

/* Inserts after all that are as old. */
static void insert_segment(struct ct_segments *segments, struct segment *segment) {
    struct segment *before = segments->newest;
    while (before && before->last_ns > segment->last_ns)
        before = before->older;
    segment->older = before;
    segment->newer = before ? before->newer : segments->oldest;
    *(segment->newer ? &segment->newer->older : &segments->newest) = segment;
    *(before ? &before->newer : &segments->oldest) = segment;
    segments->finished_bytes += segment->bytes;
    if (segment->series->dropped && !segment->series->begins_ns && segment->events)
        segment->series->begins_ns = segment->first_ns;
}

void ct_series_finished(struct ct_series *series, struct ct_place *place, const char *path, uint64_t bytes,
                        uint64_t events) {
    struct ct_segments *segments = series->segments;
    struct segment *segment = calloc(1, sizeof *segment);
    char *copy = strdup(path);
    pthread_mutex_lock(&segments->lock);
    if (segment && copy) { /* else the segment stays for ever */
        *segment = (struct segment){.series = series,
                                    .place = ct_place_hold(place),
                                    .path = copy,
                                    .bytes = bytes,
                                    .events = events,
                                    .first_ns = series->first_ns};
        segment->last_ns = series->last_ns;
        insert_segment(segments, segment);
    } else {
        free(segment);
        free(copy);
    }
    segments->open -= series->open;
    series->open = false;
    series->bytes = series->first_ns = series->last_ns = 0;
    delete_old(segments);
    pthread_mutex_unlock(&segments->lock);
}

struct ct_series_kept ct_series_kept(struct ct_series *series) {
    struct ct_segments *segments = series->segments;
    struct ct_series_kept kept = {0};
    pthread_mutex_lock(&segments->lock);
    kept.dropped = series->dropped;
    kept.dropped_files = series->dropped_files;
    kept.dropped_until_ns = series->dropped_until_ns;
    kept.begins_ns = series->begins_ns || !series->dropped || !series->open ? series->begins_ns : series->first_ns;
    pthread_mutex_unlock(&segments->lock);
    return kept;
}
