/* SPDX-License-Identifier: Apache-2.0 */
/* A followed thread. The thread owns this struct while it is in the engine. */
#ifndef CT_STALK_THREAD_H
#define CT_STALK_THREAD_H

#include "stalk/area.h"
#include "stalk/stacks.h"
#include <contrail/stalker.h>
#include <stdbool.h>
#include <stdint.h>

struct ct_stalker;
struct stalk_cache;

enum { STALK_MAX_FRAMES = 1 << 16, STALK_STACK = 256 << 10 };

/* A handler runs on the alternate signal stack: its frames start at index begin - 1. */
struct stalk_alternate {
    uint32_t begin; /* 0: no handler does */
    uint64_t low, size;
};

/* State of the parent of a vfork, restored when its child has left its memory (vfork.c). */
struct stalk_vfork {
    int32_t tid; /* of the child, while it is in this memory; 0: none */
    uint32_t muted;
    uint64_t resume, activation, native, fault_pc, through;
};

struct stalk_thread {
    struct stalk_area *area; /* must be first: assembly uses it */
    struct ct_stalker *stalker;
    struct stalk_cache *cache;
    struct stalk_cache *left; /* the cache that it changed from, while it is in that one's helpers; NULL: none */
    struct stalk_thread *next;
    int32_t tid;
    uint32_t following; /* 1: yes; 2: asked to end; 0: no, and nothing is left to do */
    uint32_t ending;    /* a thread does what is left to do: this one, or one that found it running natively */
    uint32_t in_callback;
    int32_t status; /* why following ended */
    uint64_t begin; /* BEGIN and END: where the thread was stopped */
    uint64_t land;  /* LAND: where the excluded call would have returned */
    struct ct_stalker_sink sink;
    void *own_block; /* the GS block that we made; NULL: the block is the hooks' */
    uint64_t stack;  /* memory of the engine's stack */
    /* events */
    uint8_t *records_memory; /* 2 * CT_EVENT_ROOM bytes, which contain `records` */
    uint8_t *records;        /* CT_EVENT_ROOM bytes, aligned to CT_EVENT_ROOM */
    uint64_t *counters;      /* those of the area, CT_COUNTERS of them */
    uint64_t *counted;       /* what was taken of each */
    uint64_t records_top;
    uint64_t taken;  /* records from here up have been expanded */
    uint64_t clock;  /* last reading of the fast clock; 0 without it */
    int32_t claimed; /* tid of the thread that expands and delivers; 0: none */
    struct ct_stalker_event *queue;
    uint32_t queued, queue_size, muted;
    uint64_t activation; /* muted until the thread reaches this; 0: forever */
    uint64_t drained_at;
    uint32_t entries;            /* how often the engine was entered */
    struct stalk_stacks *stacks; /* NULL: only one stack was seen */
    uint64_t *frames;            /* of the running stack: addresses of return addresses, outermost first */
    uint32_t frame_count;
    int32_t base_depth;
    struct stalk_alternate alternate;
    struct ct_stalker_call_count *summary; /* hash by target */
    uint32_t summary_size, summary_used;
    /* signals */
    bool at_entry;                          /* a signal arrived at the entry of another signal */
    uint64_t entry_mask;                    /* the mask of that other signal */
    uint64_t fault_pc;                      /* the thread went there natively, to fault */
    uint64_t alternate_low, alternate_size; /* the alternate stack, if area->alternate */
    uint64_t through; /* calls whose return address is below this are followed, excluded or not; 0: none */
    struct stalk_vfork vfork;
    struct stalk_area interrupted; /* END: the area when the thread was stopped */
};

/* State of the calling thread, if it is or was followed. No system call is needed when `block` (its GS base) is
 * known. */
struct stalk_thread *ct_stalk_thread_of_block(uint64_t block);
struct stalk_thread *ct_stalk_thread_current(void);
/* Like ct_stalk_thread_current, for functions that run natively: until ct_stalk_area_leave(t->area), no other thread
 * lets this one go or frees its state. */
struct stalk_thread *ct_stalk_thread_enter(void);
void ct_stalk_area_leave(struct stalk_area *a);
/* From now on the thread does not find its state. */
void ct_stalk_thread_forget(struct stalk_thread *t);
struct stalk_thread *ct_stalk_thread_make(struct ct_stalker *s, int tid,
                                          const struct ct_stalker_transformer *transformer,
                                          const struct ct_stalker_sink *sink, uint64_t present, uint64_t *block,
                                          int *status);
/* Called when the Stalker is destroyed. */
void ct_stalk_thread_free(struct stalk_thread *t);
/* Frees the blocks that were made for threads. Every thread is stopped, and no GS leads to one of them. */
void ct_stalk_threads_end(void);
/* Copies what a caller of the public functions passes, NULL included, into complete structs of ours. */
int ct_stalk_copy_in(const struct ct_stalker_transformer *transformer, const struct ct_stalker_sink *sink,
                     struct ct_stalker_transformer *own_transformer, struct ct_stalker_sink *own_sink);
/* Makes the cache that threads with this transformer and sink will need. Called before other threads are stopped,
 * because it calls functions of the process. */
int ct_stalk_make_cache(struct ct_stalker *s, const struct ct_stalker_transformer *transformer,
                        const struct ct_stalker_sink *sink);

#endif
