/* A followed thread. It owns this while it is in the engine. */
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

/* A handler runs on the alternate signal stack: frames from the one with number begin - 1 on. */
struct stalk_alternate {
    uint32_t begin; /* 0: none does */
    uint64_t low, size;
};

/* What a vfork's parent finds again when its child has left its memory (vfork.c). */
struct stalk_vfork {
    int32_t tid; /* of the child, while it is there; 0: there is none */
    uint32_t muted;
    uint64_t resume, activation, native, fault_pc, through;
};

struct stalk_thread {
    struct stalk_area *area; /* first: assembly */
    struct ct_stalker *stalker;
    struct stalk_cache *cache;
    struct stalk_cache *left; /* it has changed over, and is on its way out of this one's helpers; NULL: none */
    struct stalk_thread *next;
    int32_t tid;
    uint32_t following; /* 1; 2: asked to end; 0: not any more, and nothing is left to do */
    uint32_t ending;    /* a thread does what is left to do: this one, or one that has seen it run natively */
    uint32_t in_callback;
    int32_t status; /* why following ended */
    uint64_t begin; /* BEGIN and END: where the thread was */
    uint64_t land;  /* LAND: where the excluded call would have returned to */
    struct ct_stalker_sink sink;
    void *own_block; /* the GS block that we made; NULL: the hooks' */
    uint64_t stack;  /* memory of the engine's stack */
    /* events */
    uint8_t *records_memory; /* 2 * CT_EVENT_ROOM bytes; in them: */
    uint8_t *records;        /* CT_EVENT_ROOM bytes, aligned to as much */
    uint64_t *counters;      /* the area's, CT_COUNTERS of them */
    uint64_t records_top;
    uint64_t taken;  /* records from here up have been expanded */
    uint64_t clock;  /* with the fast one: its last reading; else 0 */
    int32_t claimed; /* tid of the thread that expands and delivers; 0: none */
    struct ct_stalker_event *queue;
    uint32_t queued, queue_size, muted;
    uint64_t activation; /* muted until this is reached; 0: never */
    uint64_t drained_at;
    uint32_t entries;            /* of the engine */
    struct stalk_stacks *stacks; /* NULL: there was one only */
    uint64_t *frames;            /* of the running stack: the places of return addresses, outermost first */
    uint32_t frame_count;
    int32_t base_depth;
    struct stalk_alternate alternate;
    struct ct_stalker_call_count *summary; /* hash by target */
    uint32_t summary_size, summary_used;
    /* signals */
    bool at_entry;                          /* a signal came when another was about to be reported, */
    uint64_t entry_mask;                    /* whose mask was this */
    uint64_t fault_pc;                      /* went there natively, to fault */
    uint64_t alternate_low, alternate_size; /* the area's alternate: of that stack */
    uint64_t through; /* calls with a return address below this are followed, excluded or not; 0: none */
    struct stalk_vfork vfork;
    struct stalk_area interrupted; /* END: the area as the thread left it */
};

/* The calling thread's, if it is followed or was; no system call when `block` (its GS base) is known. */
struct stalk_thread *ct_stalk_thread_of_block(uint64_t block);
struct stalk_thread *ct_stalk_thread_current(void);
/* As ct_stalk_thread_current, for functions that run natively: until ct_stalk_area_leave(t->area) nobody lets the
 * thread go, or frees its state. */
struct stalk_thread *ct_stalk_thread_enter(void);
void ct_stalk_area_leave(struct stalk_area *a);
/* The thread does not find its state any more. */
void ct_stalk_thread_forget(struct stalk_thread *t);
struct stalk_thread *ct_stalk_thread_make(struct ct_stalker *s, int tid,
                                          const struct ct_stalker_transformer *transformer,
                                          const struct ct_stalker_sink *sink, uint64_t present, uint64_t *block,
                                          int *status);
/* The Stalker is being destroyed. */
void ct_stalk_thread_free(struct stalk_thread *t);
/* Every thread is stopped, and no GS leads to a block that was made for one: they are freed. */
void ct_stalk_threads_end(void);
/* What a caller of the public functions gives, in complete structs of ours, also where it gives NULL. */
int ct_stalk_copy_in(const struct ct_stalker_transformer *transformer, const struct ct_stalker_sink *sink,
                     struct ct_stalker_transformer *own_transformer, struct ct_stalker_sink *own_sink);
/* What threads with this transformer and sink will need: before others are stopped, because it calls functions
 * outside. */
int ct_stalk_make_cache(struct ct_stalker *s, const struct ct_stalker_transformer *transformer,
                        const struct ct_stalker_sink *sink);

#endif
