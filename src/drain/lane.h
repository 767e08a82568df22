/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's side of the shared memory (abi/shm_abi.h): lays it out, shows that we are alive, takes events out.
 *
 * The target can write to all of it, even by mistake. So sizes and offsets are kept here as well, and nothing that is
 * read there may lead outside.
 *
 * Owner: the drain thread, once it runs; before that, the session's thread. */
#ifndef CT_DRAIN_LANE_H
#define CT_DRAIN_LANE_H

#include "abi/shm_abi.h"
#include <contrail/hook.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>

#define CT_LANE_CLASSES     4   /* sizes of segments: large, medium, small; and CT_SHM_DRY_SEGMENTS */
#define CT_LANE_MOST_CHUNKS 128 /* in the largest segments */

/* The list with one node that the kernel walks when the drain thread dies. It is private: the target can write only to
 * the word. */
struct ct_lane_robust {
    struct robust_list_head head, *before; /* `before`: the C library's list, which is restored */
    struct robust_list node;
};

struct ct_lane {
    int fd; /* -1: not open */
    size_t size;
    uint64_t window; /* the target must map the lane so that the pool's address is a multiple of this */
    uint32_t chunk_bytes, chunk_count, thread_capacity;
    bool lossless, fast_clock;
    struct ct_lane_robust robust;
    struct ct_shm_control *control;
    struct ct_shm_thread *threads;
    struct ct_shm_chunk *chunks;
    struct ct_shm_queue *queue;
    uint32_t *free_list; /* of the queue, like `submitted` */
    uint64_t *submitted;
    uint32_t queue_room;
    uint8_t *pool;
    /* detail; 0 segments: none */
    uint32_t segment_count;      /* without those that are there for want of memory */
    uint32_t dry_count;          /* which are these */
    uint32_t detail_chunk_count; /* of segment_count segments */
    uint32_t stack_bytes, hook_room, detail_rate, strings;
    bool detail_grows, vectors, reals, has_errno;
    uint64_t detail_key;
    struct ct_shm_segment *segments;
    uint32_t segments_of_class[CT_LANE_CLASSES]; /* our copy: the target could overwrite the segments' own */
    uint32_t chunks_of_class[CT_LANE_CLASSES];
    struct ct_shm_mark *marks;
    struct ct_shm_more_marks *more_marks;
    struct ct_shm_regions *regions;
    struct ct_shm_clock *clock;
    uint32_t *rules; /* by hook */
    struct ct_trigger_condition *conditions;
    int32_t *budgets;            /* by hook; NULL: no limit */
    struct ct_shm_count *counts; /* CT_SHM_COUNT_BANKS of hook_room each; NULL: calls are not sampled */
    uint8_t *detail_pool;
    uint8_t *extra; /* bytes after everything else; NULL: none */
};

struct ct_lane_options {
    size_t index_memory;
    bool lossless;
    bool fast_clock;      /* see drain/ticker.h */
    size_t detail_memory; /* 0: no detail */
    bool detail_grows;    /* threads keep as much of it as the pre-roll needs */
    uint32_t stack_bytes, detail_rate;
    bool vectors;
    bool reals;           /* functions may have CT_RULE_REALS */
    uint32_t strings;     /* bytes of texts; a multiple of 8 */
    int64_t errno_offset; /* of errno from the thread pointer; 0: not known */
    uint32_t hook_room;   /* for all hooks that there will ever be */
    uint32_t sample;      /* record every Nth call; 0: all */
    size_t extra;         /* bytes after everything else (control.extra_offset) */
};

/* Gives the memfd its final size, maps it and writes the layout. Takes ownership of the descriptor. CT_ERR_BAD_FILE:
 * the descriptor, which the target has made, is not a new and sealable memfd. */
int ct_lane_create(struct ct_lane *lane, int fd, const struct ct_lane_options *options);
/* Call it when all needed mappings exist: from now on nobody can map the memory for writing, or write to its file. */
int ct_lane_seal(struct ct_lane *lane);
void ct_lane_destroy(struct ct_lane *lane);
/* Finds the next part of [*from, *to) of the shared memory that was written to, as offsets; returns false if there is
 * none. The rest reads as zeros, and reading it would allocate its pages. */
bool ct_lane_find_used(const struct ct_lane *lane, size_t *from, size_t *to);

/* From now on, until ct_lane_release, the agent sees it if the calling thread dies. */
int ct_lane_hold(struct ct_lane *lane);
void ct_lane_release(struct ct_lane *lane);

static inline const struct ct_event *ct_lane_events(const struct ct_lane *lane, uint32_t chunk) {
    return (const struct ct_event *)(lane->pool + (2 * (uint64_t)chunk + 1) * lane->chunk_bytes);
}
static inline uint32_t ct_lane_capacity(const struct ct_lane *lane) {
    return lane->chunk_bytes / (uint32_t)sizeof(struct ct_event);
}
static inline const uint8_t *ct_lane_detail_chunk(const struct ct_lane *lane, uint32_t chunk) {
    return lane->detail_pool + (2 * (uint64_t)chunk + 1) * CT_SHM_DETAIL_CHUNK;
}
/* Refills the budget of calls that may be captured, per function. Called once a second. */
void ct_lane_refill_budgets(struct ct_lane *lane, size_t hooks);
/* How often a hook was called; all banks together. 0 if calls are not sampled. */
uint64_t ct_lane_calls(const struct ct_lane *lane, uint32_t hook);
/* Marks a moment that the controller itself has noticed: threads keep what they have. */
void ct_lane_mark(struct ct_lane *lane);
/* The first chunk, and the number of chunks, of a segment. */
void ct_lane_segment(const struct ct_lane *lane, uint32_t segment, uint32_t *chunk, uint32_t *chunks);
/* Clears and frees a segment. */
void ct_lane_free_segment(struct ct_lane *lane, uint32_t segment);
/* Counts the free segments again: a handler may have jumped out between a change and its count. */
void ct_lane_count_segments(struct ct_lane *lane);
/* Clears a chunk that the controller holds (DRAINING) and frees it. */
void ct_lane_free_chunk(struct ct_lane *lane, uint32_t chunk);
/* Counts the free chunks again: a handler may have jumped out between a change and its count. */
void ct_lane_count_chunks(struct ct_lane *lane);
/* What was submitted when `submits` was read is taken: nobody has to look there for chunks to drop. */
void ct_lane_pass_submitted(struct ct_lane *lane, uint64_t submits);
static inline uint64_t ct_lane_submits(const struct ct_lane *lane) {
    return __atomic_load_n(&lane->queue->submits, __ATOMIC_RELAXED);
}
/* Copies the slots that are filled, from `from` on, up to the first one that is not, or to `end`; returns where that
 * is. Each slot is read once: the target can change it. */
uint32_t ct_lane_copy_filled(struct ct_event *to, const struct ct_event *slots, uint32_t from, uint32_t end);
bool ct_lane_change_word(struct ct_lane *lane, uint32_t chunk, uint64_t from, uint64_t to);
static inline uint64_t ct_lane_word(const struct ct_lane *lane, uint32_t chunk) {
    return __atomic_load_n(&lane->chunks[chunk].word, __ATOMIC_ACQUIRE); /* released by the agent's swap and submit */
}

#endif
