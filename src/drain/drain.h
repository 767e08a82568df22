/* SPDX-License-Identifier: Apache-2.0 */
/* The drain takes events out of shared memory, gives them time, function and depth, and writes them to trace files.
 *
 * One thread does all of it, from ct_drain_start to ct_drain_finish; any thread may read the statistics. Every few
 * milliseconds it looks at all chunks, takes new events thread by thread, in the order of the chunks' numbers, and
 * writes them. Where processors are free and several threads of the target are busy, others help it to take the events
 * (drain_crew.c). */
#ifndef CT_DRAIN_DRAIN_H
#define CT_DRAIN_DRAIN_H

#include "drain/clock.h"
#include "drain/detail.h"
#include "drain/lane.h"
#include "drain/signal_record.h"
#include "drain/switches.h"
#include "drain/ticker.h"
#include "drain/windows.h"
#include "trace/code_file.h"
#include "trace/writer.h"
#include <contrail/session.h>
#include <pthread.h>

struct ct_drain_counts;
struct ct_drain_crew;

#define CT_DRAIN_SAMPLES 1024u

/* What one who takes events has for himself (drain_crew.c). The drain thread gathers the results after each part of a
 * pass. */
struct ct_drain_hand {
    struct ct_event *copy; /* of a chunk */
    /* the memory that is read next, as far as it is not on its way to us */
    const uint8_t *ahead, *ahead_end;
    struct {
        uint64_t counter;
        uint32_t weight;
    } sample[CT_DRAIN_SAMPLES];
    size_t sample_count;
    uint64_t time_start, time_end; /* of events */
    bool found, held_up, cut;
    int error;
};

struct ct_drain_gap {
    uint64_t at, lost;
    enum ct_loss_reason reason;
};

/* Signals, in the order in which they arrived. */
struct ct_drain_signal {
    struct ct_drain_signal *next;
    struct ct_signal_record record;
    uint64_t pass;    /* the pass in which it was taken from the queue */
    uint64_t seq, ns; /* its position in the index, and time, once it has one */
};
struct ct_drain_signals {
    struct ct_drain_signal *first, **end; /* end is valid if there is a first */
};

/* Calls that are open on a stack other than the thread's first one; see drain_stacks.c. */
struct ct_drain_stack {
    struct ct_drain_stack *next;  /* in its bucket, or in the free list */
    struct ct_drain_stack *below; /* the outer frames of the same stack; it is full */
    uint32_t id, group;
    uint32_t count, capacity;
    uint32_t *hooks;
};
struct ct_drain_stacks {
    uint32_t running;           /* number of the stack that runs; 0: the thread's first one */
    struct ct_drain_stack *now; /* open calls of the running stack; NULL: none, or it is the first one */
    struct ct_drain_stack **buckets, *free;
    uint32_t bucket_count, count;
    uint32_t groups; /* groups that were ever used */
};

/* Time in which a thread waited for memory; see drain_waits.c. */
struct ct_drain_waits {
    uint64_t seen;                     /* part of ct_shm_chunk.waited that is accounted for */
    uint64_t pending;                  /* of it: before the next event; in counts */
    uint64_t ns;                       /* all that was written */
    struct ct_switches_writer *writer; /* NULL: it has not waited yet */
};

/* See drain_pace.c. */
struct ct_drain_pace {
    unsigned idle_wakes;                     /* wake-ups after which nothing was found */
    int schedstat;                           /* what the kernel reports of the drain thread; -1: nothing */
    uint64_t submits, slept_at;              /* at the last sleep */
    uint64_t measured_ns, ran_ns, queued_ns; /* on a processor; waiting for one */
    bool asked, raised;                      /* a better priority: we have asked for it, and have it */
};

/* A thread of the target, from its first event to the end of the trace. */
struct ct_drain_thread {
    struct ct_drain_thread *next; /* in order of id */
    uint32_t id, slot, generation;
    int tid;
    char name[16];
    struct ct_drain_hand *hand;      /* that takes its events now; NULL: the drain thread's own */
    struct ct_thread_writer *writer; /* NULL: closed */
    struct ct_series *series;        /* parts that were deleted; NULL: nothing is ever deleted */
    bool ended;                      /* in the target: it fills no more events */
    uint64_t cut_pass;               /* the last pass that left some of its events */
    bool missing;                    /* the last look found no such thread */
    bool gone;                       /* it ended before the recording did */
    uint64_t seen_ns;                /* the last look that found it; 0: none has */
    uint64_t next_number;            /* of its next chunk */
    uint32_t taken;                  /* events already taken from the chunk with that number */
    uint64_t exhausted;              /* part of ct_shm_chunk.exhausted that is accounted for */
    uint64_t last_ns;
    uint64_t hole_since; /* waiting for a slot to be filled since then; 0: not waiting */
    uint64_t events, bytes;
    uint64_t lost[CT_LOSS_COUNT], gaps_lost;
    uint64_t abandoned, deep_calls, left_frames, guarded_calls;
    size_t depth;    /* open calls */
    size_t unknown;  /* the outermost of these: their events were lost */
    uint32_t *stack; /* hook numbers of the others, from 1 on */
    size_t stack_capacity;
    struct ct_drain_stacks stacks;
    struct ct_drain_gap *gaps;
    size_t gap_count;
    struct ct_drain_waits waits;
    struct ct_detail_thread detail;
    struct ct_code_writer *code; /* the code that it executed (trace/code_file.h); NULL: nothing was written yet */
    uint64_t code_blocks, code_compiled, code_lost, code_bytes;
    struct ct_drain_signals waiting; /* signals that have no place in the index yet */
    struct ct_drain_signals placed;  /* signals that have one, but no detail record yet */
};

#define CT_LATENCY_BUCKETS    256
#define CT_DRAIN_TRIGGER_TEXT 256u

struct ct_drain {
    /* set before the start */
    struct ct_lane *lane;
    struct ct_clock *clock;
    const uint64_t *function_ids; /* by hook number */
    size_t hook_count;
    struct ct_place *place; /* directory of the process's files */
    int pid;
    bool other_namespace; /* tids differ from those that we see */
    int inner_pid;        /* pid in its own namespace */
    unsigned interval_ms;
    unsigned workers;                /* that compress blocks (trace/pack_pool.h); 0: what the machine can spare */
    unsigned hands;                  /* that take events; 0: what the machine can spare */
    unsigned wait_ms;                /* for which a thread waits in each second before it drops events */
    uint32_t spare_threads;          /* accepted in addition to those that the kernel has made; 0: the default */
    struct ct_trace_format format;   /* of index files */
    void (*every_second)(void *arg); /* on the drain thread */
    void *every_second_arg;
    struct ct_switches *switches; /* time on processors; NULL: not recorded. The drain closes it */
    struct ct_ticker ticker;      /* of the fast clock */
    struct ct_windows *windows;   /* moments whose detail is wanted; NULL: no detail */
    /* In each pass, on the drain thread: marks moments. */
    void (*on_pass)(void *arg, uint64_t now_ns);
    /* Other work in each pass; returns true if there was some. May be NULL. */
    bool (*every_pass)(void *arg);
    void *on_pass_arg;
    /* The text of a function trigger, by its id. */
    void (*trigger_text)(void *arg, uint32_t id, char *text, size_t size);
    void *trigger_arg;
    /* function_id of a hook number, if these are not known in advance; NULL: function_ids has them. */
    uint64_t (*resolve)(void *arg, uint32_t number);
    /* Called before events of functions that `resolve` has returned are written: what explains an event is on disk
     * before the event. NULL: functions are known before their first event. */
    int (*explain)(void *arg);
    void *resolve_arg;
    /* Takes an event of code (CT_EVENT_BLOCK and others), with resolve_arg. `position`: number of index events before
     * it. */
    void (*code)(void *arg, struct ct_drain_thread *t, const struct ct_event *e, uint64_t position);
    struct ct_drain_counts *counts; /* calls are counted there (drain_count.h); NULL: they are not. Set at any time */
    /* Set before ct_drain_finish: the trigger by which the end of the process marks its last moment; "": none does. */
    char end_mark[64];
    uint64_t ended_ns; /* set before ct_drain_finish: when the recording ended; 0: now */
    bool detached;     /* set before ct_drain_finish: the process goes on */
    bool leaving;      /* set before the process is left: threads that end for us go on for the program */
    /* owned by the drain thread */
    struct ct_drain_signals strays; /* signals of threads that have no file yet */
    uint64_t pass;
    size_t placed_count; /* signals whose registers are not written yet */
    struct ct_drain_thread *threads, **threads_end;
    struct ct_drain_thread **by_slot;
    uint8_t *quarantined; /* by chunk: the target may still write to a slot in it */
    struct ct_drain_hand own;
    struct ct_drain_crew *crew;  /* NULL: nobody helps so far */
    uint32_t writing;            /* how many hands write to a file now */
    struct ct_detail *detail;    /* NULL: no detail is captured */
    bool finishing;              /* the target sends nothing more */
    struct ct_drain_chunk *list; /* drain_take.c: the chunks of this pass */
    struct ct_drain_turn *turns; /* drain_take.c: the threads that they belong to */
    uint64_t submits;            /* number of chunks that had been submitted when this pass began */
    bool held_up;                /* this pass left chunks of a thread, because it has to wait for a slot */
    uint64_t hurry_at;           /* from then on the end is fast rather than exact; 0: it is not the end yet */
    bool hurried;                /* the call of a return is searched only among the innermost ones */
    size_t stacks_room;          /* entries of all threads' stacks */
    size_t gap_count;            /* of all threads */
    uint64_t threads_allowed;    /* at most as many as the kernel can have made */
    uint64_t made_before;        /* the kernel's count at the last look */
    uint32_t next_id;
    uint64_t time_start, time_end; /* of events */
    uint64_t bytes_closed;
    uint64_t latency[CT_LATENCY_BUCKETS], latency_max, latency_samples;
    bool found; /* this pass found something new */
    struct ct_drain_pace pace;
    bool switching; /* threads switch often: the next pass should be soon */
    bool cut;       /* this pass left something */
    bool above;     /* the lane passed the high watermark, and is not below the low one yet */
    uint64_t times_above;
    uint32_t least_free; /* fewest free chunks so far */
    /* shared */
    pthread_t thread;
    pthread_mutex_t mutex;           /* statistics, the list of threads, signals */
    pthread_mutex_t places;          /* of signals in the index, for hands; taken before `mutex` */
    struct ct_drain_signals signals; /* handed over by other threads */
    size_t signal_count;             /* in `signals` */
    uint64_t signals_lost;           /* for lack of memory */
    struct ct_session_statistics statistics;
    int stop_fd;
    int stopping;        /* ct_drain_finish was called */
    int held;            /* the lane is held: 1, or a negative status */
    int error;           /* of a write; recording stops then */
    uint64_t written_ns; /* start of the last complete pass: events up to then are written; 0: the drain has ended */
    int running;
};

int ct_drain_start(struct ct_drain *drain);
/* Sets a larger array of functions; existing ones keep their numbers. The old array must stay valid until the end. */
void ct_drain_set_functions(struct ct_drain *drain, const uint64_t *function_ids, size_t hook_count);
/* Changes wait_ms, from any thread; the drain thread applies it soon. */
void ct_drain_set_wait(struct ct_drain *drain, unsigned ms);
/* Takes what is left and closes all files. */
int ct_drain_finish(struct ct_drain *drain);
void ct_drain_free(struct ct_drain *drain);
uint64_t ct_drain_latency(const struct ct_drain *drain, double share);

static inline struct ct_drain_hand *ct_drain_hand(struct ct_drain *drain, const struct ct_drain_thread *thread) {
    return thread->hand ? thread->hand : &drain->own;
}

/* ---- drain_crew.c ---- */

/* May several hands take events of different threads at once? */
bool ct_drain_crew_may(const struct ct_drain *drain);
/* Calls work(drain, i, hand) for each i below `count`, on several threads, and returns when all is done. */
void ct_drain_crew_run(struct ct_drain *drain, size_t count,
                       void (*work)(struct ct_drain *drain, size_t i, struct ct_drain_hand *hand));
/* Adds what hands have noted to what the drain knows. `now`: what they have taken is on its way to the disk. */
void ct_drain_gather(struct ct_drain *drain, uint64_t now);
void ct_drain_crew_end(struct ct_drain *drain);
/* For tests: a chunk takes this much longer. */
extern unsigned ct_drain_delay_us;

/* ---- drain_take.c ---- */

int ct_drain_take_start(struct ct_drain *drain);
void ct_drain_take_end(struct ct_drain *drain);
/* Takes what is in the lane now, not what comes meanwhile. */
void ct_drain_take(struct ct_drain *drain);
/* Is memory of the lane short? */
bool ct_drain_is_short(const struct ct_drain *drain);
/* Frees chunks whose abandoned slots were filled after all. */
void ct_drain_free_quarantined(struct ct_drain *drain);
/* Frees what an ended thread has left; returns false while it has something that will go away by itself. */
bool ct_drain_free_left(struct ct_drain *drain, uint32_t slot, uint32_t generation);

/* ---- drain_pace.c ---- */

/* Sleeps between two passes; returns false if it is time to finish. */
bool ct_drain_sleep(struct ct_drain *drain, unsigned ms);
/* Ends a sleep, from any thread. */
void ct_drain_wake(struct ct_drain *drain);
void ct_drain_pace_begin(struct ct_drain *drain);
/* Measures what share of the processors the thread gets, and asks for more where that is too little. */
void ct_drain_pace_measure(struct ct_drain *drain);
void ct_drain_pace_end(struct ct_drain *drain);

/* ---- drain_waits.c ---- */

/* `waited`: of a chunk's header. */
void ct_drain_note_wait(struct ct_drain_thread *thread, uint64_t waited);
/* Writes the wait that was noted: it ended right before an event with the counter value `first`, which is the thread's
 * next one. */
void ct_drain_put_wait(struct ct_drain *drain, struct ct_drain_thread *thread, uint64_t first);
int ct_drain_flush_waits(struct ct_drain_thread *thread);
int ct_drain_close_waits(struct ct_drain_thread *thread);

/* ---- drain_events.c ---- */

void ct_drain_emit(struct ct_drain *drain, struct ct_drain_thread *thread, const struct ct_event *events, size_t count);
/* Notes that events are missing here. `depth` frames are open after the gap. */
void ct_drain_note_gap(struct ct_drain *drain, struct ct_drain_thread *thread, uint64_t lost,
                       enum ct_loss_reason reason, uint32_t depth);
/* `depth` frames are open before the thread's first event: a forked child starts inside its parent's calls. */
void ct_drain_inherit(struct ct_drain *drain, struct ct_drain_thread *thread, uint32_t depth);
/* Measures the latency of events that a hand has taken, and which are on their way to the disk at `now`. */
void ct_drain_measure(struct ct_drain *drain, struct ct_drain_hand *hand, uint64_t now);
/* function_id of a hook; 0: none. */
uint64_t ct_drain_function(const struct ct_drain *drain, uint32_t hook);

/* A write begins or ends; `drain` is a struct ct_drain. */
void ct_drain_writing(void *drain, bool begins);
/* Puts events into a block that has room for them; returns how many these are. `one_by_one`: without drain_run.c, for
 * comparisons. */
size_t ct_drain_pack(struct ct_drain *drain, struct ct_drain_thread *thread, struct ct_pack *pack,
                     const struct ct_event *events, size_t count, bool one_by_one);

/* ---- drain_run.c ---- */

/* Packs the first of these events that are nothing special; returns how many these are. `seq` is the position of the
 * first one. */
size_t ct_drain_pack_run(struct ct_drain *drain, struct ct_drain_thread *thread, struct ct_pack *pack,
                         const struct ct_event *events, size_t count, uint64_t seq);
/* The last event of the block is a call of this hook. */
void ct_drain_expect_return(struct ct_pack *pack, uint32_t hook);

#define CT_DRAIN_DEPTH_IN_ALL (1u << 26) /* entries of all stacks together; a limit, since calls come from the target */

static inline void ct_drain_give_room(struct ct_drain *drain, size_t entries) {
    __atomic_fetch_sub(&drain->stacks_room, entries, __ATOMIC_RELAXED);
}

/* Takes room for entries of stacks. False: there is none. */
static inline bool ct_drain_take_room(struct ct_drain *drain, size_t entries) {
    bool room = __atomic_add_fetch(&drain->stacks_room, entries, __ATOMIC_RELAXED) <= CT_DRAIN_DEPTH_IN_ALL;
    if (!room)
        ct_drain_give_room(drain, entries);
    return room;
}

/* ---- drain_stacks.c: calls that are open on stacks other than the thread's first one ---- */

/* The events that follow belong to this stack. */
void ct_drain_stacks_run(struct ct_drain_thread *thread, uint32_t id);
/* The depth of a call or a return on the running stack. */
uint32_t ct_drain_stacks_push(struct ct_drain *drain, struct ct_drain_thread *thread, uint32_t hook);
uint32_t ct_drain_stacks_pop(struct ct_drain *drain, struct ct_drain_thread *thread, uint32_t hook);
/* The depth of a call that opens no frame. */
uint32_t ct_drain_stacks_depth(const struct ct_drain_thread *thread);
/* Forgets all open calls: events were lost. */
void ct_drain_stacks_forget(struct ct_drain *drain, struct ct_drain_thread *thread);
void ct_drain_stacks_free(struct ct_drain *drain, struct ct_drain_thread *thread);

/* ---- drain_signals.c ---- */

/* Hands over a signal, from any thread, while the signal's thread is stopped. The signal goes after all events that the
 * thread has filled. */
int ct_drain_signal(struct ct_drain *drain, const struct ct_signal_record *record);
/* The number of the thread's next events that come before its next signal. Places signals that are older than all of
 * these events. */
size_t ct_drain_signals_before(struct ct_drain *drain, struct ct_drain_thread *thread, const struct ct_event *events,
                               size_t count);
/* Ends a pass: places signals after which no event has come. `all`: this is the last pass. */
void ct_drain_put_signals(struct ct_drain *drain, bool all);
/* Writes the registers of signals before this position in the index, so that detail is in the order of events. */
void ct_drain_put_registers(struct ct_drain *drain, struct ct_drain_thread *thread, uint64_t before);
/* At the end of a pass: writes the registers of signals before which no more detail can come. */
void ct_drain_put_old_registers(struct ct_drain *drain);
/* Is there a signal that is a mark, and has no place in the index yet? */
bool ct_drain_awaits_marks(struct ct_drain *drain);
void ct_drain_free_signals(struct ct_drain *drain);

/* ---- drain_threads.c ---- */

/* Counts the threads that exist, and from now on those that the kernel makes. */
void ct_drain_watch_threads(struct ct_drain *drain);
/* The thread that has the slot now; created at its first event. NULL: out of memory or files, or it cannot exist. */
struct ct_drain_thread *ct_drain_thread_of(struct ct_drain *drain, uint32_t slot, uint32_t generation);
void ct_drain_refresh(struct ct_drain *drain, struct ct_drain_thread *thread);
void ct_drain_refresh_names(struct ct_drain *drain);
/* The same for all threads, when the process goes on unrecorded. */
void ct_drain_last_look(struct ct_drain *drain);
int ct_drain_close_thread(struct ct_drain *drain, struct ct_drain_thread *thread);

#endif
