/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the agent (in the target) and the controller share: one memfd, mapped by both.
 *
 *   control block | thread slots | chunk headers | queue | segments, rules, budgets | pool of windows | pool of detail
 *   windows
 *
 * Fields have a fixed width, offsets count from the start, there are no pointers. Fields are only ever appended;
 * `version` changes when a meaning does. The pool is a row of windows of twice the chunk's size. A chunk's events are
 * the second half of its window, so the address of every slot has the bit `chunk_bytes` set and the first address past
 * the end does not: the address alone shows whether a reserved slot is valid. First halves are never touched: they cost
 * address space, but no memory. The pool is mapped at a multiple of the window's size.
 *
 * A chunk's state is one 64-bit word, changed only by compare-and-swap:
 *   FREE → TAKEN (a thread fills the header) → ACTIVE (it is the thread's) → FULL (submitted) → DRAINING → FREE
 *   FULL → TAKEN: the oldest events are dropped for new ones; TAKEN → FREE: not needed after all
 *   DRAINING → FULL: the controller does not know the thread
 * The header is valid while its generation equals the word's. A TAKEN chunk has events only once it has a number. A
 * handler may jump out of a swap: then a chunk may stay TAKEN although it is in use, or ACTIVE although it is full and
 * its thread has moved on to the next number. The controller recognizes such chunks by their headers.
 *
 * `drained` in the word is the number of events that the controller has taken (in a TAKEN chunk: the slot of the thread
 * that took it). The controller takes events of an ACTIVE chunk by raising `drained` after it has copied them: if the
 * word has changed meanwhile, the copy is worthless. So each event is counted exactly once, as written or as lost,
 * whichever side is faster. FREE chunks are zero: the side that frees a chunk clears it first. */
#ifndef CT_ABI_SHM_H
#define CT_ABI_SHM_H

#include "abi/event.h"
#include "abi/trigger.h"
#include <stdbool.h>
#include <stdint.h>

#define CT_SHM_MAGIC   0x4c525443u /* "CTRL" */
#define CT_SHM_VERSION 6u

/* ---- chunk words ---- */

enum ct_chunk_state { CT_CHUNK_FREE, CT_CHUNK_TAKEN, CT_CHUNK_ACTIVE, CT_CHUNK_FULL, CT_CHUNK_DRAINING };

#define CT_CHUNK_STATE(word)      ((unsigned)((word)&0xff))
#define CT_CHUNK_DRAINED(word)    ((uint32_t)((word) >> 8 & 0xffffff))
#define CT_CHUNK_GENERATION(word) ((uint32_t)((word) >> 32))
#define CT_CHUNK_WORD(state, drained, generation)                                                                      \
    ((uint64_t)(state) | (uint64_t)(drained) << 8 | (uint64_t)(generation) << 32)

struct ct_shm_chunk {
    uint64_t word;   /* both */
    uint64_t number; /* agent: 1, 2, 3 ... within its thread: missing numbers were dropped. 0: not in use yet */
    uint64_t waited; /* agent: for how long the thread had waited for chunks when it got this one; in counts */
    uint32_t thread; /* agent: the thread's slot */
    uint32_t thread_generation; /* agent */
    uint32_t depth;             /* agent: number of frames open before its first event */
    uint32_t generation;        /* agent: as in the word; written last when the chunk is taken */
    uint64_t exhausted;         /* agent: events that the thread had lost for lack of a chunk when it got this one */
    uint32_t stack;             /* agent: number of the stack that its first events are on (CT_EVENT_STACK) */
    uint32_t reserved0;
    uint64_t reserved1;
};
_Static_assert(sizeof(struct ct_shm_chunk) == 64, "one cache line");

/* Which chunks are free, and which were submitted, in that order. These are hints, so that nobody has to search all
 * headers: the word of a chunk alone decides. An entry may be missing or out of date, since a handler may jump away
 * between a change of the word and the entry. The lists have control.queue_room entries each, and follow the
 * structure: `free` (32 bits: the chunk), then `submitted` (64 bits: the chunk, and its generation in the high
 * half).
 *   free: a stack. What was freed last is taken first: it is in a processor's cache.
 *   submitted: a ring. The entries between `oldest` and `submits` are those that may be dropped, the oldest first. */
struct ct_shm_queue {
    uint64_t free_top; /* both: number of entries; in the high half a count of changes */
    uint8_t pad0[56];
    uint64_t submits; /* agent: number of chunks that were ever submitted */
    /* both: the thread that brings `submits` to this number wakes the controller, and sets CT_SHM_NO_WAKE */
    uint64_t wake_at;
    uint32_t wakes; /* both: a futex, which the controller sleeps on */
    uint8_t pad1[44];
    uint64_t oldest;   /* both: number of submitted chunks that are no longer there, or will not be for long */
    uint64_t searched; /* agent: when it last searched all headers for a chunk to drop */
    uint8_t pad2[48];
};
_Static_assert(sizeof(struct ct_shm_queue) == 192, "three cache lines");
#define CT_SHM_NO_WAKE          UINT64_MAX /* the controller is awake */
#define CT_SHM_QUEUE_SIZE(room) (sizeof(struct ct_shm_queue) + (uint64_t)(room) * (sizeof(uint32_t) + sizeof(uint64_t)))

/* ---- threads ---- */

enum ct_thread_state { CT_THREAD_FREE, CT_THREAD_ALIVE, CT_THREAD_ENDED, CT_THREAD_TAKEN };

/* FREE → TAKEN → ALIVE (agent) → ENDED (agent, when it notices) → FREE (controller, when all its events are on disk) */
struct ct_shm_thread {
    uint32_t state;      /* both */
    uint32_t generation; /* agent: counts the threads that have used the slot */
    int32_t tid;         /* agent: as the thread sees it */
    uint32_t reserved0;
    char name[16]; /* agent: when the thread was first seen */
    uint64_t guarded_calls, deep_calls, left_frames, abandoned,
        limited;                    /* agent: struct ct_counters of hook/runtime.h */
    uint64_t lost[CT_LOSS_COUNT];   /* agent: events */
    uint64_t waited;                /* agent: for how long it has waited for chunks; in counts of the counter */
    uint64_t wait_since, wait_used; /* agent: when the current second began, and how much of it was waiting */
};
_Static_assert(sizeof(struct ct_shm_thread) == 128, "two cache lines");

/* ---- detail: registers and stack of calls, a rolling window for each thread ----
 *
 * The detail pool is a row of windows like the index lane's: chunks of CT_SHM_DETAIL_CHUNK bytes, each the second half
 * of its window. A segment is several chunks in a row. A thread owns one segment and fills its chunks in turn, over and
 * over. When something is marked, or detail is to be kept anyway, the thread hands its segment over (FROZEN) instead of
 * overwriting it, and takes another one. If none is free it overwrites its own, and the oldest records are dropped; in
 * lossless mode it hands the segment over and waits.
 *   FREE → OWNED (agent) → FROZEN (agent) → FREE (controller, which has cleared it); OWNED → FREE: its thread has ended
 *   OWNED → KEPT → OWNED (agent): a full segment whose records the pre-roll needs, until the thread fills it again
 *   KEPT → FROZEN (both): other threads need it
 *   OWNED → OPEN (agent): copies of records of calls that are still open, one in each slot of the size of a call's
 *   record. A slot is used again only when its call has returned and the controller has seen all marks.
 * The state's word names the thread's slot too: what a handler that jumps away leaves there is freed with its thread. A
 * record counts only if its check word is right and names the thread that owns the segment, and if it overlaps no other
 * record: a stub that a signal handler interrupted may write its record to a place that belongs to somebody else by
 * then. All bytes of a record are written, so nothing of an older one is left in it. The controller may read a segment
 * that is in use, and leaves out the part that the thread may be writing. */
#define CT_SHM_DETAIL_CHUNK 8192u
#define CT_SHM_SMALL_CHUNKS 2u /* of the smallest segments */
/* Segments that are used when no memory is left while a mark is pending: they come after all others in the table, are
 * OPEN or FREE, and have memory only once they are used. The first chunk has a slot for each of the innermost calls,
 * by depth; the others have records that marks want, one after the other. */
#define CT_SHM_DRY_SEGMENTS 256u
#define CT_SHM_DRY_CHUNKS   4u
enum ct_segment_state { CT_SEGMENT_FREE, CT_SEGMENT_OWNED, CT_SEGMENT_FROZEN, CT_SEGMENT_KEPT, CT_SEGMENT_OPEN };
#define CT_SEGMENT_STATE(word)       ((word)&0xff)
#define CT_SEGMENT_SLOT(word)        ((word) >> 8)
#define CT_SEGMENT_WORD(state, slot) ((uint32_t)(state) | (uint32_t)(slot) << 8)

struct ct_shm_segment {
    uint32_t word;                      /* both */
    uint32_t thread, thread_generation; /* agent: the owner */
    uint32_t chunk, chunks;             /* controller, before the start */
    uint32_t serial;                    /* agent: 1, 2, 3 ... within its thread */
    uint64_t begin;                     /* agent: another value each time it is taken, stored last; 0: not yet */
    uint64_t filled;                    /* agent: counter value when it was last full and kept */
    uint32_t turns;                     /* agent: chunks of it that were filled, at least */
    uint32_t marks;                     /* agent: control.mark_serial when it was taken */
    uint32_t again;                     /* agent: the thread fills it again, it holds older records as well */
    uint32_t next;                      /* agent: the segment that its thread filled after it, from 1; a hint */
    uint32_t filling;                   /* agent: the chunk of it that is being filled, from 1; 0: not known */
    uint32_t reserved;
};
_Static_assert(sizeof(struct ct_shm_segment) == 64, "one cache line");

/* A record in a detail chunk; 8-aligned. */
struct ct_shm_detail {
    /* stored last: stamp * CT_DETAIL_MIX ^ tag and hook as one word ^ control.detail_key ^ CT_SHM_DETAIL_OWNER */
    uint64_t check;
    uint64_t stamp; /* as in the event that it belongs to */
    uint32_t tag;   /* kind, and the event's number in its thread; number 0: the event was lost */
    uint32_t hook;
    union {
        struct {
            uint64_t registers[8]; /* rdi rsi rdx rcx r8 r9 rax r10 */
            uint64_t frame_pointer, stack_pointer;
            uint64_t stack_size;
            /* control.stack_bytes of room, then the vector registers if they are captured: 8 of 16 bytes */
            uint8_t stack[];
        } call;
        struct {
            uint64_t registers[2]; /* rax rdx; two vector registers may follow the structure */
            uint64_t return_address, frame_pointer, stack_pointer;
            /* at the call (at most CT_ENTERED_ERRNO; CT_ERRNO_UNKNOWN), and now; both 0: the thread's is not known */
            uint32_t errno_before, errno_after;
        } ret;
    };
};
#define CT_ASSERT_DETAIL_AT(field, offset)                                                                             \
    _Static_assert(__builtin_offsetof(struct ct_shm_detail, field) == (offset), #field)
CT_ASSERT_DETAIL_AT(stamp, CT_DETAIL_STAMP);
CT_ASSERT_DETAIL_AT(tag, CT_DETAIL_TAG);
CT_ASSERT_DETAIL_AT(call.registers, CT_DETAIL_REGISTERS);
CT_ASSERT_DETAIL_AT(call.frame_pointer, CT_DETAIL_FP);
/* How many bytes come before the vector registers. The first of them are the return address: from the stack, where the
 * call has put it there; otherwise (`has_link`) before what is from the stack. stack_pointer is where the first one is,
 * or would be. */
static inline uint32_t ct_shm_detail_room(uint32_t stack_bytes, bool has_link) {
    return has_link ? stack_bytes + 8 : stack_bytes < 8 ? 8 : stack_bytes;
}
CT_ASSERT_DETAIL_AT(call.stack_pointer, CT_DETAIL_SP);
CT_ASSERT_DETAIL_AT(call.stack_size, CT_DETAIL_STACK_SIZE);
CT_ASSERT_DETAIL_AT(call.stack, CT_DETAIL_STACK);
CT_ASSERT_DETAIL_AT(ret.errno_before, CT_DETAIL_ERRNO);
CT_ASSERT_DETAIL_AT(ret.errno_after, CT_DETAIL_RETURN_SIZE - 4);
#undef CT_ASSERT_DETAIL_AT
/* More values of an event, in a record of their own that comes before the event's: it has the same stamp and number,
 * the kind CT_EVENT_VALUES, and its size in its hook. Pieces follow, each with its room. */
struct ct_shm_piece {
    uint64_t address; /* of what follows; or CT_PIECE_REALS */
    uint16_t size;    /* bytes that are known */
    uint16_t room;    /* bytes that follow: a multiple of 8 */
    uint32_t reserved;
};
_Static_assert(sizeof(struct ct_shm_piece) == 16, "piece");
#define CT_VALUES_HEAD                        24u   /* offset of the first piece */
#define CT_VALUES_MOST                        2040u /* bytes of a record; at least CT_DETAIL_RETURN_SIZE */
#define CT_VALUES_HOOKS                       (1u << 24)
#define CT_VALUES_HOOK(hook, size)            ((uint32_t)(hook) | (uint32_t)(size) / 8 << 24)
#define CT_VALUES_SIZE(hook)                  (((hook) >> 24) * 8)
#define CT_STRINGS_MOST                       256u /* bytes of one text */

#define CT_SHM_DETAIL_OWNER(slot, generation) ((uint64_t)(slot) | (uint64_t)((generation)&0xffff) << 14)
/* the key has its highest bit set, so zeroed memory is never a record */
#define CT_SHM_DETAIL_OWNER_BITS 30

/* Address of a piece that is not memory: the low 8 bytes of the vector registers that pass floating-point numbers. No
 * program has memory there. */
#define CT_PIECE_REALS     0x9e3a15c4d2b86f01ull
#define CT_REALS_AT_CALL   8u /* registers */
#define CT_REALS_AT_RETURN 2u

/* Function triggers, which the agent evaluates at the call itself. control.rules_offset: by hook number, 32 bits: one
 * for each trigger, then CT_RULE_*. control.conditions_offset: struct ct_trigger_condition, CT_TRIGGER_CONDITIONS for
 * each trigger. */
#define CT_RULE_TRIGGERS        0xffffu
#define CT_RULE_FAILS_MINUS_ONE (1u << 16) /* it sets errno when it returns -1; only where a trigger looks at errno */
#define CT_RULE_FAILS_NULL      (1u << 17)
#define CT_RULE_TEXTS           18         /* where six bits begin: arguments whose texts are captured */
#define CT_RULE_IF_PRINTABLE    (1u << 24) /* ... if they look like texts */
#define CT_RULE_REALS           (1u << 25) /* floating-point arguments and results are captured */
#define CT_RULE_WHOLE           (1u << 26) /* not only texts: all bytes that there is room for, of structures */
enum ct_shm_trigger_kind { CT_SHM_ON_NOTHING, CT_SHM_ON_CALL, CT_SHM_ON_RETURN, CT_SHM_ON_SLOW };
struct ct_shm_trigger {
    uint32_t kind;       /* controller */
    uint32_t conditions; /* ON_CALL, ON_RETURN: how many there are */
    uint64_t counts;     /* ON_SLOW: in counts of the time stamp counter */
    uint32_t id;         /* the controller's name for it: bits are reused */
    uint32_t reserved[3];
};

struct ct_shm_mark {
    uint64_t serial; /* agent: 1, 2, 3 ...; 0 while it is being written */
    uint64_t stamp;
    uint32_t thread, hook;
    uint32_t trigger; /* id of the trigger */
    uint32_t number;  /* of the event in its thread; 0: the event was lost */
    int64_t value;
};
#define CT_SHM_MARKS 64u

/* Marks that did not fit into the ring, by the trigger's bit: how many, and when. */
struct ct_shm_more_marks {
    uint64_t count;        /* both */
    uint64_t first, last;  /* agent: stamps; the controller resets `first` to 0 */
    uint32_t thread, hook; /* agent: of the last mark */
};

/* Counts of calls, when they are sampled: control.counts_offset, CT_SHM_COUNT_BANKS arrays by hook. A thread uses the
 * bank of its slot, alone; threads in higher slots share the last bank. */
struct ct_shm_count {
    uint64_t calls;  /* agent */
    uint64_t chosen; /* agent: calls when the last one was recorded because it was the function's turn */
};
#define CT_SHM_COUNT_BANKS 16u

/* ---- requests: questions of the agent to the controller, whose answer it waits for ---- */

enum ct_request_kind { CT_REQUEST_FORKED = 1, CT_REQUEST_EXEC = 2, CT_REQUEST_LOADED = 3 };
/* FREE → FILLED (agent) → POSTED (agent) → TAKEN (controller) → ANSWERED (controller) → FREE (agent). A forked child
 * finds the request FREE once it has a lane of its own, since that is other memory. An agent that stops waiting makes
 * the request FREE, whatever its state. FILLED includes the thread's id: if the thread is killed in this state, the
 * controller frees the request. */
enum ct_request_state { CT_REQUEST_FREE, CT_REQUEST_FILLED, CT_REQUEST_POSTED, CT_REQUEST_TAKEN, CT_REQUEST_ANSWERED };
#define CT_REQUEST_FILLED_BY(tid) ((uint32_t)(tid) << 8 | CT_REQUEST_FILLED)
/* The thread that fills it; 0: none. */
#define CT_REQUEST_FILLER(state) (((state)&0xff) == CT_REQUEST_FILLED ? (int)((state) >> 8) : 0)

struct ct_shm_request {
    uint32_t state;    /* both */
    uint32_t kind;     /* agent */
    int32_t pid, tid;  /* agent: the thread that asks, as it sees itself */
    uint64_t argument; /* agent: EXEC: address of the path */
    int32_t directory; /* agent: EXEC: descriptor that the path is relative to, or AT_FDCWD */
    int32_t answer;    /* controller: 1: yes */
    uint64_t asked;    /* agent: CPU counter when it was posted */
    uint64_t resumed;  /* agent: CPU counter when its thread went on */
    uint32_t reserved[4];
};
_Static_assert(sizeof(struct ct_shm_request) == 64, "one cache line");

#define CT_SHM_REQUESTS        32u
#define CT_SHM_REQUESTS_OFFSET 1024u /* after the control block, in the same page */

/* ---- the control block ---- */

enum ct_agent_state { CT_AGENT_ABSENT, CT_AGENT_READY, CT_AGENT_STOPPED };
/* Why the agent has stopped on its own. */
enum ct_agent_error { CT_AGENT_NO_ERROR, CT_AGENT_CONTROLLER_DIED };

#define CT_SHM_OWNER_DIED 0x40000000u /* FUTEX_OWNER_DIED */

struct ct_shm_control {
    uint32_t magic, version;
    uint32_t chunk_bytes, chunk_count; /* controller, before the start, like all offsets */
    uint32_t thread_capacity;
    uint32_t lossless;
    uint64_t threads_offset, chunks_offset, pool_offset, size;
    uint32_t agent_state; /* agent: enum ct_agent_state */
    uint32_t agent_error; /* agent */
    uint32_t recording;   /* controller: 0 stops all recording */
    uint32_t silent;      /* agent: it no longer makes system calls (seccomp) */
    uint64_t drain_stamp; /* controller: counter value up to which everything submitted is on disk */
    uint64_t write_since; /* controller: counter value when the current write began; 0: none is in progress */
    /* controller: a write that takes at least this many counts is to blame for what is dropped meanwhile */
    uint64_t slow_write;
    uint32_t request_futex; /* agent: a futex, woken for each request */
    uint32_t children;      /* controller: child processes are recorded too */
    uint64_t last_fork;     /* agent: counter value when the process last made, or wanted to make, a child */
    uint32_t listening;     /* controller: it reads requests */
    uint8_t pad0[128 - 116];
    /* controller: the thread id of its drain thread, as that thread sees it; 0 after an orderly end. The kernel adds
     * CT_SHM_OWNER_DIED when the thread dies: the word is on the thread's robust list, whose pointers are the
     * controller's own memory. A stopped controller is not a dead one. */
    uint32_t liveness;
    uint8_t pad_liveness[60];
    /* agent, contended */
    uint32_t hint; /* number of chunks that were taken for the first time; those after them are free */
    uint32_t thread_hint;
    int32_t free_chunks;                 /* both: number of FREE chunks; may be off for a moment */
    uint32_t thread_high;                /* number of slots that have ever been used */
    uint64_t lost_threads;               /* threads that could not be recorded */
    uint64_t lost_unseen[CT_LOSS_COUNT]; /* events of no particular thread, by reason */
    uint8_t pad1[64 - 56];
    /* detail; controller, before the start */
    uint64_t segments_offset, segment_of_chunk_offset, rules_offset, budgets_offset, detail_pool_offset;
    uint32_t segment_count, detail_chunk_count; /* 0: no detail is captured */
    uint32_t stack_bytes, vectors;
    uint64_t detail_key;
    uint32_t detail_rate; /* 0: no limit */
    uint32_t hook_room;   /* of rules and budgets */
    /* both: everything is to be kept, full segments are handed over; the agent sets it with each mark */
    uint32_t persisting;
    uint32_t mark_serial;  /* both: counts marks */
    int32_t free_segments; /* both; may be off for a moment */
    uint32_t mark_taken;   /* controller: how many marks it has read (the low half) */
    uint64_t mark_next;    /* agent: number of marks written to the ring so far */
    uint64_t extra_offset; /* controller: tables of the agent that follows threads (abi/stalk_abi.h); 0: none */
    /* controller, while it installs the agent: what a later controller removes if this one is killed before the agent's
     * tables list it. */
    uint64_t reserved, reserved_size; /* one range of memory, from the beginning of this mapping on; 0: none */
    uint64_t boot;                    /* struct ct_boot, once it is written; 0: not yet */
    struct ct_shm_trigger triggers[CT_TRIGGER_BITS]; /* controller */
    /* controller: mark_serial when it last had taken everything that marks wanted. While the two differ, nothing that
     * a thread had when the mark was made is overwritten. */
    uint32_t looked;
    uint32_t share;             /* controller: how many of the large segments a thread may have */
    uint64_t pre_counts;        /* controller: the pre-roll, in counts of the counter; 0: threads keep one segment */
    uint32_t pre_records;       /* controller: the pre-roll in records; 0: it is not given */
    uint32_t large;             /* controller, before the start: the number of large segments, which come first */
    int64_t errno_offset;       /* controller, before the start: of errno from the thread pointer; 0: not known */
    uint64_t conditions_offset; /* controller, before the start */
    uint32_t strings;           /* controller, before the start: most bytes of a text; a multiple of 8; 0: none */
    uint32_t sample;            /* controller, before the start: every Nth call is recorded; 0: all are */
    uint64_t counts_offset;     /* controller, before the start */
    uint32_t queue_room;        /* controller, before the start: entries of each list of the queue; a power of two */
    uint64_t queue_offset;      /* controller, before the start: of struct ct_shm_queue */
    /* controller: for how long a thread may wait for a chunk, of each second, before it drops one; in counts */
    uint64_t wait_counts, wait_second;
    uint32_t grows; /* controller, before the start: threads begin with a small segment and take more */
    uint32_t dry;   /* controller, before the start: number of segments for want of memory */
};
_Static_assert(__builtin_offsetof(struct ct_shm_control, agent_state) == 56, "agent_state");
_Static_assert(__builtin_offsetof(struct ct_shm_control, liveness) == 128, "liveness");
_Static_assert(__builtin_offsetof(struct ct_shm_control, hint) == 192, "hint");
_Static_assert(__builtin_offsetof(struct ct_shm_control, boot) == 376, "CONTROL_BOOT of scripts/gdb/contrail.py");
_Static_assert(__builtin_offsetof(struct ct_shm_control, triggers) == 384, "triggers");
_Static_assert(sizeof(struct ct_shm_control) <= CT_SHM_REQUESTS_OFFSET, "control block");

/* Memory for stubs, listed before it is mapped, for the same purpose as `reserved` of the control block. */
#define CT_SHM_REGIONS 1023u
struct ct_shm_regions {
    uint64_t count, unused;
    struct {
        uint64_t start, size;
    } list[CT_SHM_REGIONS];
};

/* The fast clock. The controller stores a counter value several thousand times a second: an event whose thread has read
 * the counter since then need not read it again (hook/stubs_x64.S). UINT64_MAX: each event reads it. Alone in its cache
 * line. */
struct ct_shm_clock {
    uint64_t tick; /* controller */
    uint32_t fast; /* controller, before the start: stubs look at `tick` */
    uint8_t pad[52];
};
_Static_assert(sizeof(struct ct_shm_clock) == 64, "one cache line");

/* extends into the second page as far as needed */
#define CT_SHM_MARKS_OFFSET      (CT_SHM_REQUESTS_OFFSET + CT_SHM_REQUESTS * 64u)
#define CT_SHM_MORE_MARKS_OFFSET (CT_SHM_MARKS_OFFSET + CT_SHM_MARKS * (uint32_t)sizeof(struct ct_shm_mark))
#define CT_SHM_CLOCK_OFFSET      8128u
#define CT_SHM_REGIONS_OFFSET    8192u
/* of everything that has a fixed place */
#define CT_SHM_HEAD_SIZE (CT_SHM_REGIONS_OFFSET + (uint32_t)sizeof(struct ct_shm_regions))
_Static_assert(CT_SHM_MORE_MARKS_OFFSET + CT_TRIGGER_BITS * sizeof(struct ct_shm_more_marks) <= CT_SHM_CLOCK_OFFSET,
               "head");

#endif
