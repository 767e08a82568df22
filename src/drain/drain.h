/* Draining: takes events out of shared memory, gives them time, function and depth, writes them to trace files.
 *
 * One thread does all of it, from ct_drain_start to ct_drain_finish; statistics may be read by anybody. Every few milliseconds it
 * looks at all chunks, takes what is new thread by thread in the order of their chunks' numbers, and hands it to the kernel. */
#ifndef CT_DRAIN_DRAIN_H
#define CT_DRAIN_DRAIN_H

#include "drain/clock.h"
#include "drain/detail.h"
#include "drain/lane.h"
#include "drain/signal_record.h"
#include "drain/windows.h"
#include "trace/code_file.h"
#include "trace/writer.h"
#include <contrail/session.h>
#include <pthread.h>

struct ct_drain_gap {
    uint64_t at, lost;
    enum ct_loss_reason reason;
};

/* Signals, in the order in which they came. */
struct ct_drain_signal {
    struct ct_drain_signal *next;
    struct ct_signal_record record;
    uint64_t pass;    /* in which it was taken from the queue */
    uint64_t seq, ns; /* its place in the index, when it has one */
};
struct ct_drain_signals {
    struct ct_drain_signal *first, **end; /* end is valid when there is a first */
};

/* Calls that are open on a stack other than the thread's first one; see drain_stacks.c. */
struct ct_drain_stack {
    struct ct_drain_stack *next;  /* in its bucket; or of those that are free */
    struct ct_drain_stack *below; /* with the frames that were called before, of the same stack; they are full */
    uint32_t id, group;
    uint32_t count, capacity;
    uint32_t *hooks;
};
struct ct_drain_stacks {
    uint32_t running;           /* number of the stack that events are of; 0: the thread's first one */
    struct ct_drain_stack *now; /* what is open on it; NULL: nothing, or it is the first one */
    struct ct_drain_stack **buckets, *free;
    uint32_t bucket_count, count;
    uint32_t groups; /* that were ever used */
};

/* A thread of the target, from its first event to the end of the trace. */
struct ct_drain_thread {
    struct ct_drain_thread *next; /* in order of id */
    uint32_t id, slot, generation;
    int tid;
    char name[16];
    struct ct_thread_writer *writer; /* NULL when closed */
    struct ct_series *series;        /* what of it was deleted; NULL: nothing ever is */
    bool ended;                      /* in the target: nothing more will be filled */
    uint64_t cut_pass;               /* the last pass that has left something of it */
    bool missing;                    /* at the last look there was no such thread */
    bool gone;                       /* it ended before the recording did */
    uint64_t next_number;            /* of its chunks */
    uint32_t taken;                  /* events that we had of the chunk with that number */
    uint64_t exhausted;              /* as in ct_shm_chunk, accounted for */
    uint64_t last_ns;
    uint64_t hole_since; /* 0: not waiting for a slot to be filled */
    uint64_t events, bytes;
    uint64_t lost[CT_LOSS_COUNT], gaps_lost;
    uint64_t abandoned, deep_calls, left_frames, guarded_calls;
    size_t depth;    /* calls that are open: first those that are not known, because their events were lost, */
    size_t unknown;  /* so many, */
    uint32_t *stack; /* then these: hook numbers */
    size_t stack_capacity;
    struct ct_drain_stacks stacks;
    struct ct_drain_gap *gaps;
    size_t gap_count;
    struct ct_detail_thread detail;
    struct ct_code_writer *code; /* what it has executed (trace/code_file.h); NULL: nothing was written yet */
    uint64_t code_blocks, code_compiled, code_lost, code_bytes;
    struct ct_drain_signals waiting; /* signals that have no place in the index yet */
    struct ct_drain_signals placed;  /* those that have one, and no detail record yet */
};

#define CT_LATENCY_BUCKETS    256
#define CT_DRAIN_TRIGGER_TEXT 256u

struct ct_drain {
    /* set before the start */
    struct ct_lane *lane;
    struct ct_clock *clock;
    const uint64_t *function_ids; /* by hook number */
    size_t hook_count;
    struct ct_place *place; /* of the process's files */
    int pid;
    bool other_namespace; /* tids are not ours */
    int inner_pid;        /* its own number there */
    unsigned interval_ms;
    uint32_t spare_threads;          /* that are believed beside those which the kernel has made; 0: the default */
    struct ct_trace_format format;   /* of index files */
    void (*every_second)(void *arg); /* on the drain thread */
    void *every_second_arg;
    struct ct_windows *windows; /* which moments' detail is wanted; NULL: there is none */
    /* On the drain thread, in each pass: what else marks moments. */
    void (*on_pass)(void *arg, uint64_t now_ns);
    bool (*every_pass)(
        void *arg); /* whatever there is to be done besides: true when there was something; may be NULL */
    void *on_pass_arg;
    /* The text of a function trigger, by its id. */
    void (*trigger_text)(void *arg, uint32_t id, char *text, size_t size);
    void *trigger_arg;
    /* function_id of a hook's number, where these are not known beforehand; NULL: function_ids has them. */
    uint64_t (*resolve)(void *arg, uint32_t number);
    /* Before events of functions that `resolve` has told are written: so that what is on disk is explained by what was there before it.
     * NULL: functions are known before their first event. */
    int (*explain)(void *arg);
    void *resolve_arg;
    /* An event of code (CT_EVENT_BLOCK and others), with resolve_arg; `position`: events of the index before it. */
    void (*code)(void *arg, struct ct_drain_thread *t, const struct ct_event *e, uint64_t position);
    char
        end_mark[64]; /* set before ct_drain_finish: how the process ended marks its last moment; "" when it does not */
    /* the drain thread's */
    struct ct_drain_signals strays; /* of threads that have no file yet */
    uint64_t pass;
    size_t placed_count; /* signals whose registers are still to be written */
    struct ct_drain_thread *threads, **threads_end;
    struct ct_drain_thread **by_slot;
    uint8_t *quarantined; /* by chunk: a slot in it may still be written to */
    struct ct_event *copy;
    struct ct_detail *detail; /* NULL: no detail is captured */
    bool finishing;           /* nothing more comes from the target */
    uint32_t chunks_left;     /* that this pass may still take: the target can fill them as fast as they are taken */
    uint64_t hurry_at;        /* from then on the end does not wait for exactness; 0: it is not the end yet */
    bool hurried;             /* calls of returns are looked for in few places only */
    size_t stacks_room;       /* entries of all threads' stacks */
    size_t gap_count;         /* of all threads */
    uint64_t threads_allowed; /* as many as the kernel can have made; */
    uint64_t made_before;     /* of its count when we began */
    uint32_t next_id;
    uint64_t time_start, time_end; /* of events */
    uint64_t bytes_closed;
    uint64_t latency[CT_LATENCY_BUCKETS], latency_max, latency_samples;
    struct {
        uint64_t counter;
        uint32_t weight;
    } sample[1024];
    size_t sample_count;
    bool found; /* something new in this pass */
    bool cut;   /* this pass has left something */
    bool above; /* the lane is fuller than the high watermark, or was and is not yet below the low one */
    uint64_t times_above;
    uint32_t least_free; /* chunks, ever */
    /* shared */
    pthread_t thread;
    pthread_mutex_t mutex;           /* statistics, the list of threads, signals */
    struct ct_drain_signals signals; /* that were handed over */
    size_t signal_count;             /* of these */
    uint64_t signals_lost;           /* no memory */
    struct ct_session_statistics statistics;
    int stop_fd;
    int stopping;        /* ct_drain_finish was called */
    int held;            /* the lane is held: 1, or a negative status */
    int error;           /* of a write; recording has stopped */
    uint64_t written_ns; /* what was there then is written: when the last whole pass began; 0: the drain has ended */
    int running;
};

int ct_drain_start(struct ct_drain *drain);
/* More functions than before, with the same numbers for those that were there. The old array must stay until the end. */
void ct_drain_set_functions(struct ct_drain *drain, const uint64_t *function_ids, size_t hook_count);
/* Takes what is left and closes all files. */
int ct_drain_finish(struct ct_drain *drain);
void ct_drain_free(struct ct_drain *drain);
uint64_t ct_drain_latency(const struct ct_drain *drain, double share);

/* ---- drain_events.c ---- */

void ct_drain_emit(struct ct_drain *drain, struct ct_drain_thread *thread, const struct ct_event *events, size_t count);
/* Events are missing here; `depth` frames are open after it. */
void ct_drain_note_gap(struct ct_drain *drain, struct ct_drain_thread *thread, uint64_t lost,
                       enum ct_loss_reason reason, uint32_t depth);
/* So many frames are open before the thread's first event: a child that was forked is in the middle of its parent's. */
void ct_drain_inherit(struct ct_drain *drain, struct ct_drain_thread *thread, uint32_t depth);
/* How late the events of this pass are, which are on their way to the disk at `now`. */
void ct_drain_measure(struct ct_drain *drain, uint64_t now);
/* function_id of a hook; 0: there is none. */
uint64_t ct_drain_function(const struct ct_drain *drain, uint32_t hook);

#define CT_DRAIN_DEPTH_IN_ALL (1u << 26) /* entries of all stacks together: calls come from the target */

/* ---- drain_stacks.c: calls that are open on stacks other than the thread's first one ---- */

/* The events that follow are of this one. */
void ct_drain_stacks_run(struct ct_drain_thread *thread, uint32_t id);
/* Depth of a call, or of the end of one, on the running stack. */
uint32_t ct_drain_stacks_push(struct ct_drain *drain, struct ct_drain_thread *thread, uint32_t hook);
uint32_t ct_drain_stacks_pop(struct ct_drain *drain, struct ct_drain_thread *thread, uint32_t hook);
/* That of a call which opens no frame. */
uint32_t ct_drain_stacks_depth(const struct ct_drain_thread *thread);
/* What was open is not known any more. */
void ct_drain_stacks_forget(struct ct_drain *drain, struct ct_drain_thread *thread);
void ct_drain_stacks_free(struct ct_drain *drain, struct ct_drain_thread *thread);

/* ---- drain_signals.c ---- */

/* From any thread, while the signal's thread stands. It is put behind all events that the thread has filled. */
int ct_drain_signal(struct ct_drain *drain, const struct ct_signal_record *record);
/* How many of the thread's next events come before its next signal; signals that are older than all of them are put. */
size_t ct_drain_signals_before(struct ct_drain *drain, struct ct_drain_thread *thread, const struct ct_event *events,
                               size_t count);
/* At the end of a pass: signals behind which nothing has come. `all`: the last one. */
void ct_drain_put_signals(struct ct_drain *drain, bool all);
/* Their registers, among the detail of calls in the order of events: of signals before this position in the index. */
void ct_drain_put_registers(struct ct_drain *drain, struct ct_drain_thread *thread, uint64_t before);
/* At the end of a pass: of those before which no more detail can come. */
void ct_drain_put_old_registers(struct ct_drain *drain);
void ct_drain_free_signals(struct ct_drain *drain);

/* ---- drain_threads.c ---- */

/* Counts the threads that there are, and those that the kernel makes from now on. */
void ct_drain_watch_threads(struct ct_drain *drain);
/* The thread that has the slot now; made on first sight. NULL: out of memory or files, or it cannot exist. */
struct ct_drain_thread *ct_drain_thread_of(struct ct_drain *drain, uint32_t slot, uint32_t generation);
void ct_drain_refresh(struct ct_drain *drain, struct ct_drain_thread *thread);
void ct_drain_refresh_names(struct ct_drain *drain);
int ct_drain_close_thread(struct ct_drain *drain, struct ct_drain_thread *thread);

#endif
