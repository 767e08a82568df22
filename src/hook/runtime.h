/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the hooks that runs inside hooked calls: thread blocks, shadow stacks, event buffers, slow paths.
 *
 * Freestanding: no libc, no thread-local storage, no vector registers. Everything is reached from the thread block
 * (block.c). A block belongs to its thread; other threads touch it only under runtime->lock (to take an entry of a
 * migrated coroutine) or while its thread is stopped or dead. */
#ifndef CT_HOOK_RUNTIME_H
#define CT_HOOK_RUNTIME_H

#include <contrail/hook.h>
#include "hook/frame.h"
#include "hook/layout.h"
#include "os/thread.h"
#include <stdbool.h>

/* Values of ct_block.owner that no thread pointer has. */
enum { CT_OWNER_FORKED = 0, CT_OWNER_ATTENTION = 1 };

/* Why owner is CT_OWNER_ATTENTION. */
enum ct_attention {
    CT_ATTENTION_GUARD = 1 << 0,     /* inside a listener or sink: calls are not seen */
    CT_ATTENTION_CONTESTED = 1 << 1, /* a child may share this block until it execs or exits (vfork) */
    /* as CONTESTED, until the child has a block of its own: it runs beside us, with our thread pointer */
    CT_ATTENTION_SHARED = 1 << 3,
    CT_ATTENTION_UNWIND = 1 << 2, /* real return addresses are on the stack for an unwinder */
    CT_ATTENTION_WALK = 1 << 4,   /* as UNWIND, but the unwinder only looks: frames that end meanwhile have returned */
};

/* ct_shadow.slot: the address of the frame's return address, a multiple of 8. While a stub works on the entry ("in
 * flight") the value is a little less than that: a handler's frames still look deeper, and a frame that takes the same
 * slot does not. If a handler jumps out of the stub, this and `data` show what had been recorded. */
enum {
    CT_SLOT_CLAIMED = 0,    /* nothing is known yet, or nothing is left to do */
    CT_SLOT_HOLE = 4,       /* removed from the middle */
    CT_SLOT_LAST = 7,       /* greater values are frames */
    CT_SLOT_ENTERING = -7,  /* + address. data: the call's event, or 0 */
    CT_SLOT_RETURNING = -6, /* + address. data: the return's event, or 0 */
};

struct ct_shadow {
    uint64_t slot, ret, stub, data;
};

/* What the runtime knows about a hook. Written before the patch that makes it reachable, then only by its owner's API
 * calls. */
struct ct_hook_entry {
    struct { /* a copy of struct ct_hook_listener, of a size that debuggers know and that does not change with it */
        void (*on_call)(struct ct_cpu_context *cpu, struct ct_hook_call *call);
        void (*on_return)(struct ct_cpu_context *cpu, struct ct_hook_call *call);
        void (*on_leave)(struct ct_hook_call *call);
    } listener;
    void *user;
    uint64_t function;
    uint8_t flavor;  /* enum ct_hook_action */
    uint8_t special; /* enum ct_special */
    uint8_t entry_only;
    uint8_t signs; /* enum ct_signs */
};

/* With which key a function signs its return address (arm64). */
enum ct_signs { CT_SIGNS_NONE, CT_SIGNS_A, CT_SIGNS_B };

/* PASS: calls go straight on. The function has a stub because a springboard of another one is in its bytes. DIVERT: a
 * stub that was planned to LISTEN sends calls to `user` instead. */
enum ct_hook_action {
    CT_ACTION_NONE,
    CT_ACTION_RECORD,
    CT_ACTION_LISTEN,
    CT_ACTION_REPLACE,
    CT_ACTION_PASS,
    CT_ACTION_DIVERT
};

/* Functions that the engine itself must know about. */
enum ct_special {
    CT_SPECIAL_NONE,
    CT_SPECIAL_JUMP,  /* longjmp family: the target stack pointer is known */
    CT_SPECIAL_CLONE, /* clone with its flags in rdx, clone3 with a pointer to them in rdi */
    CT_SPECIAL_VFORK, /* the child runs on our memory until it execs or exits */
    /* known by its code: makes a clone or vfork system call, with arguments that can only be guessed */
    CT_SPECIAL_CLONES,
    CT_SPECIAL_UNWIND, /* unwinder entry points: real return addresses must be on the stack */
    CT_SPECIAL_LAND,   /* _Unwind_SetIP: the unwinder has found where it will go on */
    CT_SPECIAL_WALK,   /* _Unwind_Backtrace where it has no detour: looks at the stack and returns */
    CT_SPECIAL_LOOK,   /* libunwind's unw_step: looks at the frames of its callers, not at its own, and returns */
    /* as LOOK, along frame pointers: the sanitizers' UnwindFast(this, pc, frame, top, bottom, depth) */
    CT_SPECIAL_TRACE,
    CT_SPECIAL_LOADED,    /* _dl_debug_state: the loader has loaded or unloaded modules */
    CT_SPECIAL_EXEC,      /* execve, execveat: the process is about to become another program */
    CT_SPECIAL_SECCOMP,   /* prctl, seccomp, syscall: may forbid the process, and us with it, to make system calls */
    CT_SPECIAL_SET_BASE,  /* arch_prctl: may take GS; so may syscall */
    CT_SPECIAL_TAKE_BASE, /* known by its code: takes GS */
    CT_SPECIAL_SIGACTION, /* fault handlers are called through us (fault.h) */
};

struct ct_runtime;

/* Event buffer: this header, then a power of two of bytes of events. The events' address has that bit set and the lower
 * bits clear, so each slot's address has it set, and the first address past the end does not. */
struct ct_buffer {
    struct ct_buffer *next;
    size_t delivered; /* bytes of events that the sink has received */
    uint8_t pad[48];
    struct ct_event events[];
};

/* What could not be seen, or was unusual. */
struct ct_counters {
    uint64_t guarded_calls, deep_calls, left_frames, abandoned;
    uint64_t limited; /* details that were not captured because there were too many */
};

/* What a stub that captures detail knows about the event that it has just written. */
struct ct_detail_note {
    uint64_t stamp;     /* 0: there was none */
    uint32_t tag, hook; /* a tag without a number: there is a limit, and it has been reached */
    uint64_t entered;   /* of a return: its call, see CT_ENTERED_BITS; 0: not known */
};

/* A walk over the stack by an unwinder. */
struct ct_hook_walk {
    uint64_t exposed_slot; /* return slot of the unwinder function that exposed the returns */
    uint64_t reach;        /* a call at most this far below it is made by the unwinder, or by a handler on its stack */
    uint64_t land_sp;      /* stack pointer where the unwinder will land; 0 while it is still looking */
    uint64_t high;         /* it looks at no slot from here on; 0: it looks at all */
    uint32_t attention;    /* CT_ATTENTION_UNWIND, perhaps with CT_ATTENTION_WALK */
    uint32_t returns;      /* its own frame is observed, and the walk ends with it */
};

/* Walks that were interrupted by handlers that walk too. */
#define CT_WALKS 8u

/* A value of ct_block.in_use. */
#define CT_BLOCK_STRAY 3u

/* One per thread. */
struct ct_block {
    /* wiped on fork */
    uint8_t pad0[CT_BLOCK_OWNER];
    uint64_t owner;
    uint64_t cursor;
    uint64_t detail_cursor;
    uint32_t ordinal, pad_ordinal;
    uint64_t walker;
    uint8_t pad1[CT_BLOCK_KEPT - CT_BLOCK_WALKER - 8];
    /* kept */
    uint8_t pad2[CT_BLOCK_TOP - CT_BLOCK_KEPT];
    struct ct_shadow *top;
    struct ct_shadow *limit;
    struct ct_block *self;
    uint64_t fn_enter, fn_entry, fn_leave, fn_event;
    uint64_t floor;
    uint64_t fn_on_call, fn_on_return;
    struct ct_vectors vectors;
    uint64_t event_bit; /* = bytes of an event buffer */
    struct ct_runtime *runtime;
    struct ct_block *next; /* list of all blocks; never unlinked */
    struct ct_shadow *base;
    uint64_t fn_detail, fn_mark;
    const uint32_t *rules;
    int32_t *budgets;
    uint64_t call_size, return_size, detail_bit, stack_bytes;
    uint64_t stack_low, stack_high;
    uint64_t detail_key, vector_bytes;
    struct ct_counters *counters;
    uint64_t fn_special;
    struct ct_hook_walk walk; /* while CT_ATTENTION_UNWIND is set */
    uint64_t thread_pointer;  /* what owner is when nothing needs attention */
    struct ct_shadow *first;
    int32_t tid, pid;
    uint32_t attention;           /* enum ct_attention bits */
    uint32_t detached;            /* a child that shares our memory: sees nothing */
    uint32_t clones;              /* children that began with this block and run beside its thread */
    uint32_t parted;              /* how many of these have a block of their own by now; the children count it */
    uint32_t masked;              /* signals are blocked by ct_block_mask */
    uint64_t guard_sp;            /* stack pointer when the guard was set: shows that a listener has jumped away */
    uint64_t home_low, home_high; /* the thread's own stack; 0 until needed */
    struct ct_stacks *stacks;     /* which frames are on which stack (stacks.h); NULL: no shadow stack */
    uint32_t reported_stack;      /* the stack that was last reported: the events that follow are on it */
    uint64_t slow_stack;          /* top of the stack that slow paths use */
    /* Event buffers: the active one; full ones, oldest first; spare ones. Lists under event_lock. */
    struct ct_buffer *active, *full, *full_last, *spare;
    uint32_t full_count;
    uint32_t event_lock;
    uint32_t delivering; /* a thread hands full buffers to the sink; one at a time, so that the order is kept */
    uint32_t lane_slot;  /* of the agent's lane (agent/agent_lane.c) */
    struct ct_counters own_counters;
    /* Detail (agent/agent_detail.c): size of the thread's segments, in chunks; how many it has had. */
    uint32_t detail_home, detail_serial;
    uint32_t waits; /* how often the thread has looked for room in vain since it last found some (agent/agent_lane.c) */
    size_t size;    /* of the whole mapping */
    /* 0: free; 1: a thread's; 2: changing between the two; CT_BLOCK_STRAY: threads without a block find it */
    uint32_t in_use;
    uint32_t borrows; /* its thread has another thread's pointer, and finds that one's block */
    uint32_t interrupted_count;
    struct ct_hook_walk interrupted[CT_WALKS]; /* the oldest first */
    const uint32_t *errno_at;                  /* no_errno: it is not known */
    uint32_t no_errno;                         /* 0 */
    /* Detail, too: the segment with records of open calls, from 1 (0: none); the outermost frames whose records are
     * there; the tag of the event that was marked last. */
    uint32_t detail_open, detail_carried, detail_marking;
    /* The fast clock (abi/shm_abi.h). */
    const uint64_t *tick_at; /* no_tick: there is none */
    uint64_t reading;
    uint64_t no_tick;       /* UINT64_MAX: each event reads the counter */
    struct ct_shadow *bare; /* see ct_shadow_cover */
    uint64_t fn_cover;
    /* Sampling: counts by hook; every Nth call is recorded. */
    struct ct_shm_count *counts;
    uint64_t sample, fn_sample, counts_alone;
    uint64_t stack_plain; /* see layout.h */
    uint32_t cover;       /* how many frames are hooked again at a time */
    /* Detail's full segments that the thread keeps: the small one that it began with (from 1; 0: none), the oldest of
     * the others, and how many these are. */
    uint32_t detail_first, detail_oldest, detail_kept;
    uint32_t detail_dry,
        detail_dry_used; /* agent/agent_dry.c: its segment, from 1; bytes of it that marks have taken */
    uint32_t popped;     /* the event that is being written is the return of a frame that is gone already */
    /* Real addresses that are on the stack in place of stubs' (exposed_a64.c). */
    uint32_t exposed_count, exposed_limit;
    struct ct_exposed *exposed;
    uint64_t former_pointer; /* the thread pointer of the ended thread, once another one has it */
    uint64_t goes_through;   /* not 0: runtime->go_through says where the thread goes after this callback */
    uint32_t script_work;    /* agent/script_agent.c: slot of the work that the thread does, from 1; 0: none */
};

_Static_assert(CT_BLOCK_GUEST_END <= CT_BLOCK_TOP || sizeof(struct ct_block) <= CT_BLOCK_GUEST, "room for the Stalker");

#define CT_PARKED_CAPACITY (1u << 18)

/* Who listens to calls that are recorded (agent/script_guest.c); 0: nobody. As struct ct_hook_listener. */
#define CT_HOOK_GUESTS 4
struct ct_hook_guest {
    void (*on_call)(struct ct_cpu_context *cpu, struct ct_hook_call *call);
    void (*on_return)(struct ct_cpu_context *cpu, struct ct_hook_call *call);
    uint64_t liveness; /* address of the word that says that its controller lives (abi/shm_abi.h) */
};

struct ct_runtime {
    struct ct_block *blocks; /* first: scripts/gdb/contrail.py starts here */
    uint32_t lock;           /* slow paths only, signals blocked */
    int32_t pid;
    uint32_t block_count, next_sweep;
    uint32_t children_blind; /* a forked child sees nothing: its events have nowhere to go */
    /* Called in a forked child: may it be recorded? NULL: no, if children are blind. */
    bool (*on_fork)(struct ct_runtime *rt);
    /* Called when the loader reports that the list of modules has changed. */
    void (*on_loaded)(void);
    /* Called before a child may be made. */
    void (*before_fork)(void);
    /* Called before the program takes GS for itself. */
    void (*before_gs)(void);
    /* Called before the calling thread executes another program, in any process. */
    void (*on_exec)(uint64_t path, int directory);
    struct ct_hook_entry *hooks;
    size_t max_depth;
    size_t buffer_bytes;
    ct_event_sink *sink;
    void *sink_arg;
    struct ct_vectors vectors;
    struct ct_shadow *parked; /* frames that were left, by slot: if one returns after all, it is found here */
    uint64_t parked_count;
    struct ct_counters retired; /* of blocks that were reused */
    uint64_t threads_seen;
    uint32_t reports_stacks; /* events of kind CT_EVENT_STACK are wanted */
    uint64_t boot;           /* where the controller finds its tables again (abi/boot_abi.h) */
    /* Is this memory of our stubs? Called by fault handlers. */
    bool (*holds_stubs)(uint64_t at, uint64_t size);
    /* A function of the unwinder that the program uses; NULL until known. */
    uint64_t (*get_cfa)(void *context);
    /* Where a thread goes that was to go on at `to` after a callback. */
    uint64_t (*go_through)(struct ct_block *b, uint64_t to);
    /* rt_sigaction where not the kernel but the Stalker knows the program's actions; NULL: the kernel does */
    int (*signal_action)(int signal, const struct ct_os_action *action, struct ct_os_action *old);
    /* Functions of the program that code of ours has called, and that have not returned: our memory must stay. */
    uint32_t inside;
    uint32_t silent; /* the process may make no system calls of ours any more */
    struct ct_hook_guest guests[CT_HOOK_GUESTS];
    struct ct_block *(*current)(void); /* ct_block_current of the agent that the runtime belongs to */
    /* The function of an event has rules (abi/shm_abi.h): a trigger may wait for it. */
    void (*mark)(struct ct_block *b, const struct ct_detail_note *note, const struct ct_cpu_context *cpu);
};

#define CT_ASSERT_AT(field, offset) _Static_assert(__builtin_offsetof(struct ct_block, field) == (offset), #field)
/* scripts/gdb/contrail.py knows these offsets. */
CT_ASSERT_AT(runtime, 0x1168);
_Static_assert(__builtin_offsetof(struct ct_runtime, hooks) == 72, "RUNTIME_HOOKS");
/* Controllers of other builds read and write it: a change that moves its fields raises CT_BOOT_VERSION. */
_Static_assert(__builtin_offsetof(struct ct_runtime, get_cfa) == 216, "CT_BOOT_VERSION");
_Static_assert(sizeof(struct ct_hook_entry) == 48, "HOOK_SIZE");
_Static_assert(__builtin_offsetof(struct ct_hook_entry, function) == 32, "HOOK_FUNCTION");
CT_ASSERT_AT(owner, CT_BLOCK_OWNER);
CT_ASSERT_AT(cursor, CT_BLOCK_CURSOR);
CT_ASSERT_AT(event_bit, CT_BLOCK_EVENT_BIT);
CT_ASSERT_AT(top, CT_BLOCK_TOP);
CT_ASSERT_AT(limit, CT_BLOCK_LIMIT);
CT_ASSERT_AT(self, CT_BLOCK_SELF);
_Static_assert(CT_BLOCK_SELF == CT_OS_BLOCK_SELF, "where the OS layer looks for it");
CT_ASSERT_AT(fn_enter, CT_BLOCK_FN_ENTER);
CT_ASSERT_AT(fn_entry, CT_BLOCK_FN_ENTRY);
CT_ASSERT_AT(fn_leave, CT_BLOCK_FN_LEAVE);
CT_ASSERT_AT(fn_event, CT_BLOCK_FN_EVENT);
CT_ASSERT_AT(fn_special, CT_BLOCK_FN_SPECIAL);
CT_ASSERT_AT(floor, CT_BLOCK_FLOOR);
CT_ASSERT_AT(fn_on_call, CT_BLOCK_FN_ON_CALL);
CT_ASSERT_AT(fn_on_return, CT_BLOCK_FN_ON_RETURN);
CT_ASSERT_AT(vectors.size, CT_BLOCK_VECTORS_SIZE);
CT_ASSERT_AT(vectors.parts, CT_BLOCK_VECTORS_PARTS);
CT_ASSERT_AT(next, CT_BLOCK_NEXT);
CT_ASSERT_AT(base, CT_BLOCK_BASE);
CT_ASSERT_AT(detail_cursor, CT_BLOCK_DETAIL_CURSOR);
CT_ASSERT_AT(ordinal, CT_BLOCK_ORDINAL);
CT_ASSERT_AT(walker, CT_BLOCK_WALKER);
CT_ASSERT_AT(walk.exposed_slot, CT_BLOCK_EXPOSED_SLOT);
CT_ASSERT_AT(walk.reach, CT_BLOCK_WALK_REACH);
CT_ASSERT_AT(fn_detail, CT_BLOCK_FN_DETAIL);
CT_ASSERT_AT(fn_mark, CT_BLOCK_FN_MARK);
CT_ASSERT_AT(rules, CT_BLOCK_RULES);
CT_ASSERT_AT(budgets, CT_BLOCK_BUDGETS);
CT_ASSERT_AT(call_size, CT_BLOCK_CALL_SIZE);
CT_ASSERT_AT(return_size, CT_BLOCK_RETURN_SIZE);
CT_ASSERT_AT(detail_bit, CT_BLOCK_DETAIL_BIT);
CT_ASSERT_AT(stack_bytes, CT_BLOCK_STACK_BYTES);
CT_ASSERT_AT(stack_low, CT_BLOCK_STACK_LOW);
CT_ASSERT_AT(stack_high, CT_BLOCK_STACK_HIGH);
CT_ASSERT_AT(detail_key, CT_BLOCK_DETAIL_KEY);
CT_ASSERT_AT(vector_bytes, CT_BLOCK_VECTOR_BYTES);
CT_ASSERT_AT(counters, CT_BLOCK_COUNTERS);
CT_ASSERT_AT(thread_pointer, CT_BLOCK_POINTER);
CT_ASSERT_AT(first, CT_BLOCK_FIRST);
CT_ASSERT_AT(errno_at, CT_BLOCK_ERRNO);
CT_ASSERT_AT(counts, CT_BLOCK_COUNTS);
CT_ASSERT_AT(sample, CT_BLOCK_SAMPLE);
CT_ASSERT_AT(fn_sample, CT_BLOCK_FN_SAMPLE);
CT_ASSERT_AT(counts_alone, CT_BLOCK_COUNTS_ALONE);
CT_ASSERT_AT(stack_plain, CT_BLOCK_STACK_PLAIN);
CT_ASSERT_AT(tick_at, CT_BLOCK_TICK_AT);
CT_ASSERT_AT(reading, CT_BLOCK_READING);
CT_ASSERT_AT(bare, CT_BLOCK_BARE);
CT_ASSERT_AT(fn_cover, CT_BLOCK_FN_COVER);
_Static_assert(__builtin_offsetof(struct ct_counters, limited) == CT_COUNTERS_LIMITED, "limited");
_Static_assert(sizeof(struct ct_detail_note) == CT_NOTE_SIZE, "note");
_Static_assert(sizeof(struct ct_shadow) == CT_SHADOW_SIZE, "shadow entry");

/* ---- blocks (block.c) ---- */

/* Makes or reuses a block; the caller has blocked signals. */
struct ct_block *ct_block_create(struct ct_runtime *rt, int tid, uint64_t thread_pointer);
/* The block of the calling thread; makes one for a new thread. NULL: out of memory. */
struct ct_block *ct_block_current(void);
/* Makes the block that threads without a block find: it belongs to nobody, and makes stubs call slow paths. */
struct ct_block *ct_block_make_stray(struct ct_runtime *rt);
/* Maps a block; adds it to the list. For ct_block_create and agent/table.c. */
struct ct_block *ct_block_map(struct ct_runtime *rt);
void ct_block_publish(struct ct_runtime *rt, struct ct_block *block);
/* A new thread gets this thread pointer: it must not find the block of the ended thread that had it. `own` is the
 * caller's block. */
void ct_block_give_away(struct ct_block *own, uint64_t thread_pointer);

/* Reports frames of all threads that have ended. */
void ct_block_report_ended(struct ct_runtime *rt);

/* Of a process that hooks itself (block_self.c): makes what is needed before the first thread gets a block; and what
 * the shared code has as its literals, where it has some (CT_HOOK_LITERALS). */
int ct_block_prepare(struct ct_runtime *rt);
void ct_block_literals(uint64_t literals[2]);

/* Two implementations: block_self.c for a process that hooks itself, agent/table.c for one that is recorded. */

/* The block that the calling thread finds: its own, or another, or the stray one; never NULL. */
struct ct_block *ct_block_found(void);
/* From now on the calling thread finds this block. */
int ct_block_install(struct ct_block *block);
/* Threads with its thread pointer find this block, where blocks are found by pointer. */
void ct_block_place(struct ct_block *block);
/* Are blocks found by the thread pointer alone? Then threads with the same pointer find the same block. */
bool ct_block_by_pointer(void);
/* Limited by the block's memory. */
void ct_block_limit_depth(struct ct_block *block, size_t max_depth);
void ct_block_attend(struct ct_block *block, uint32_t bit);
void ct_block_unattend(struct ct_block *block, uint32_t bit);
/* Blocks signals unless they are blocked already; the second function takes the result and undoes it. */
uint64_t ct_block_mask(struct ct_block *block);
void ct_block_unmask(struct ct_block *block, uint64_t mask);
/* Called between two attempts to get something that another thread holds, which may be without a processor. `tries`
 * begins with 0. */
void ct_runtime_pause(uint32_t *tries);
/* Spin lock for slow paths; the caller has blocked signals. */
void ct_runtime_lock(struct ct_runtime *rt);
void ct_runtime_unlock(struct ct_runtime *rt);

/* ---- shadow stack (shadow.c) ---- */

static inline uint64_t ct_shadow_resume(const struct ct_shadow *e) {
    return e->stub + CT_AFTER_TO_RESUME;
}
static inline uint32_t ct_shadow_number(const struct ct_shadow *e) {
    return *(const uint32_t *)(e->stub + CT_AFTER_TO_NUMBER);
}
/* Where the frame returns to. That of a chain of tail calls is that of its oldest member. */
uint64_t ct_shadow_real_return(const struct ct_shadow *e);
/* How many frames are open below an entry, including those of other stacks. */
uint32_t ct_shadow_depth(const struct ct_block *b, const struct ct_shadow *e);
/* The stub has finished with the innermost entry: it now belongs to the frame at `slot`, or is free again. */
void ct_shadow_filled(struct ct_block *b, uint64_t slot);
void ct_shadow_release(struct ct_block *b);
/* Closes frames that were left below `slot`, then pushes. NULL when the shadow stack is full. */
struct ct_shadow *ct_shadow_enter(struct ct_block *b, uint64_t slot, uint64_t stub);
/* Finds and removes the entry of a return through `slot` to the stub's `resume`, wherever it is; *found gets a copy,
 * *depth its depth. */
bool ct_shadow_leave(struct ct_block *b, uint64_t slot, uint64_t resume, struct ct_shadow *found, uint32_t *depth);
/* The resume address of the returning frame at `slot`, if `now` is in the slot: either that address, or the one that is
 * there for a stack walker. */
uint64_t ct_shadow_resume_in(struct ct_block *b, uint64_t slot, uint64_t now);
/* A frame that is not pushed begins at `slot`: from now on events are on its stack. */
void ct_shadow_arrive(struct ct_block *b, uint64_t slot);
/* Closes frames that were left at and below `slot`, where a new frame starts. */
void ct_shadow_settle(struct ct_block *b, uint64_t slot);
/* Every frame with its slot in [low, high) was left. */
void ct_shadow_close_range(struct ct_block *b, uint64_t low, uint64_t high);
/* Frames with their slot in [low, high] have returned, unseen: another frame begins at `high`. */
void ct_shadow_return_range(struct ct_block *b, uint64_t low, uint64_t high);
/* The frame is gone; what is above it stays. `reused`: its slot holds another frame's return address by now. */
void ct_shadow_close(struct ct_block *b, struct ct_shadow *e, bool reused);
/* Called when a slow path has finished its changes. */
void ct_shadow_finish(struct ct_block *b);
/* Calls the listener's on_leave on the thread that `own` belongs to. */
void ct_shadow_notify_leave(struct ct_block *own, const struct ct_shadow *e, uint32_t depth);
/* Finds the thread's own stack, if possible. */
void ct_shadow_learn_home(struct ct_block *b);
/* The thread goes on at stack pointer `sp`: it has left every frame of this stack below it. */
void ct_shadow_prune(struct ct_block *b, uint64_t sp);
/* ---- return addresses on the stack (exposed.c) ---- */

/* The first puts real return addresses on the stack from `sp` on. The second puts stub addresses back, where no
 * interrupted walk needs the real ones. */
void ct_shadow_expose_returns(struct ct_block *b, uint64_t sp);
void ct_shadow_rehook_returns(struct ct_block *b, uint64_t sp);
/* An unwinder lands at `sp`: like ct_shadow_rehook_returns, but where it may be, only the newest frames are hooked
 * again. The others stay bare until they are about to be the innermost ones: a landing costs the same at any depth. */
void ct_shadow_rehook_newest(struct ct_block *b, uint64_t sp);
/* Hooks the next frames again if the innermost one is bare. Called whenever `top` may have reached `bare`. */
void ct_shadow_cover(struct ct_block *b);
/* Entries are about to be moved: no frame is bare any more. */
void ct_shadow_cover_all(struct ct_block *b);
/* Exposes returns below `high` only, up to where the stack is certainly mapped; 0: all. */
void ct_shadow_expose_returns_below(struct ct_block *b, uint64_t sp, uint64_t high);
void ct_shadow_rehook_returns_below(struct ct_block *b, uint64_t sp, uint64_t high);
/* Puts stub addresses back where the present walk does not need the real ones either. */
void ct_shadow_rehook_other_returns(struct ct_block *b, uint64_t sp);
/* A handler that has interrupted a stub walks the stack: its frames will return unseen, and then the stub must find its
 * own entry innermost. So they count as returned from now on. */
void ct_shadow_give_up(struct ct_block *b);
/* Keeps a frame that was left; called under the lock. */
void ct_shadow_park(struct ct_runtime *rt, const struct ct_shadow *e);
bool ct_shadow_same_stack(struct ct_block *b, uint64_t x, uint64_t y);
bool ct_shadow_at_home(struct ct_block *b, uint64_t slot);
/* Are the slots of this entry and all below it too high? On other stacks than the thread's own they come in any
 * order. */
bool ct_shadow_is_above(const struct ct_block *b, const struct ct_shadow *e, uint64_t high);
/* How far below `slot` is certainly the same stack. */
uint64_t ct_shadow_reach(struct ct_block *b, uint64_t slot);

/* ---- frames of listeners that were left unseen (left.c) ---- */

/* Of the calling thread: `slot` is that of its innermost frame, which is not hooked, and returns to `address`. */
void ct_left_report_own(struct ct_block *b, uint64_t slot, uint64_t address);
/* Of a thread that has ended: on_leave runs on the calling thread. */
void ct_left_report_ended(struct ct_block *b);

/* ---- walks by unwinders (walk.c) ---- */

/* An unwinder function, called at `slot`, is about to look at the stack. `attention`: as in struct ct_hook_walk. */
void ct_walk_begin(struct ct_block *b, uint64_t slot, uint32_t attention);
/* As ct_walk_begin, for a function that is observed and looks only at its callers below `high` (0: all): the stack is
 * as before when it returns. */
void ct_walk_look(struct ct_block *b, uint64_t slot, uint64_t high);
uint64_t ct_walk_look_end(struct ct_block *b, enum ct_special special, uint64_t slot, struct ct_special_frame *frame);
/* The unwinder has found where it will go on. */
void ct_walk_land(struct ct_block *b, uint64_t slot, void *context);
/* A call, jump or return to `slot` is seen: ends the walks that this shows to be over. */
void ct_walk_end(struct ct_block *b, uint64_t slot);
/* The frame at `slot` returns. */
void ct_walk_end_look(struct ct_block *b, uint64_t slot);

/* ---- events (event.c) ---- */

/* Two implementations: event.c for a process that hooks itself, agent/agent_lane.c for one that is recorded. */

/* A new thread gets the block. */
void ct_event_begin(struct ct_block *b);
/* In a forked child: other threads' events belong to the parent. */
void ct_event_forget(struct ct_block *b);
/* The thread has another thread pointer now. */
void ct_event_moved(struct ct_block *b);
/* The first gives a slot for an event of this kind, in a fresh buffer when needed; NULL: the event is lost, and
 * counted. The second makes it valid. If a handler jumps away between the two, the slot is a hole. Then *note (if not
 * NULL) says what to give back: the slot's address, or before there is one an odd number. */
struct ct_event *ct_event_reserve(struct ct_block *b, uint32_t kind, uint64_t *note);
void ct_event_fill(struct ct_event *event, uint32_t hook, uint32_t tag);
/* Gives back what the note of an abandoned stub names: no event was recorded. */
void ct_event_abandon(struct ct_block *b, uint64_t note);
/* Reserves and fills. */
void ct_event_write(struct ct_block *b, uint32_t hook, uint32_t kind);
/* Reserves and fills, and describes the event in the note. */
void ct_event_note(struct ct_block *b, uint32_t hook, uint32_t kind, struct ct_detail_note *note);
/* Hands everything undelivered to the sink, from any thread. */
void ct_event_drain(struct ct_block *b);
/* Forgets all events: a forked child must not deliver its parent's. */
void ct_event_reset(struct ct_block *b);
/* Calls fn(arg), written in ordinary C, from a slow path: guarded, and with vector state saved. */
void ct_runtime_call_out(struct ct_block *b, void (*fn)(void *), void *arg);

/* ---- slow paths (runtime.c), called from the shared code ---- */

enum { CT_GO_BODY = 0, CT_GO_OBSERVED = 1 }; /* ct_hook_on_call: other values are where the call goes instead */
/* `note`, if not NULL, gets what a stub that captures detail needs to know. */
uint64_t ct_hook_enter_slow(uint64_t slot, uint64_t stub, struct ct_detail_note *note);
uint64_t ct_hook_entry_slow(uint64_t slot, uint64_t stub, struct ct_detail_note *note);
uint64_t ct_hook_leave_slow(uint64_t slot, struct ct_detail_note *note);
void ct_hook_event_slow(uint64_t hook, uint64_t kind, uint64_t slot, struct ct_detail_note *note);
/* A return that has no event. */
void ct_hook_left_slow(uint64_t slot, struct ct_shadow *found);
void ct_hook_cover_slow(void);
uint64_t ct_hook_special(uint64_t slot, uint64_t stub, struct ct_special_frame *frame, struct ct_detail_note *note);
uint64_t ct_hook_sample_slow(uint64_t stub);
uint64_t ct_hook_on_call(struct ct_cpu_context *cpu, uint64_t slot, uint64_t stub);
uint64_t ct_hook_on_return(struct ct_cpu_context *cpu, uint64_t slot);

/* A function is about to begin; one has returned to an address. */
void ct_cpu_set_called(struct ct_cpu_context *cpu, uint64_t function);
void ct_cpu_set_returned(struct ct_cpu_context *cpu, uint64_t address);
/* Where the n-th argument is: in the context, or on the stack. */
uint64_t *ct_cpu_argument_place(const struct ct_cpu_context *cpu, unsigned n);
/* The first six arguments. ct_cpu_argument is exported: calling it may go through the loader, which may be hooked. */
void ct_cpu_first_arguments(const struct ct_cpu_context *cpu, uint64_t arguments[6]);

/* ---- assembly (stubs_<isa>.S) ---- */

#pragma GCC visibility push(hidden) /* else the agent would need relocations */
extern const uint8_t ct_hook_code[], ct_hook_code_end[];
extern const uint8_t ct_hook_enter_record[], ct_hook_enter_entry[], ct_hook_enter_special[], ct_hook_enter_listen[],
    ct_hook_leave_record[], ct_hook_leave_listen[], ct_hook_enter_detail[], ct_hook_enter_entry_detail[],
    ct_hook_enter_special_detail[], ct_hook_leave_detail[], ct_hook_enter_record_fast[], ct_hook_enter_entry_fast[],
    ct_hook_leave_record_fast[], ct_hook_enter_detail_fast[], ct_hook_enter_entry_detail_fast[],
    ct_hook_leave_detail_fast[], ct_hook_sample_record[], ct_hook_sample_detail[], ct_hook_sample_entry[],
    ct_hook_sample_entry_detail[];
/* The shared code without GS (stubs_table_<isa>.S). In a recorded process's stub regions it follows the other, at this
 * offset. */
extern const uint8_t ct_table_code[], ct_table_code_end[];
extern const uint8_t ct_table_enter_record[], ct_table_enter_entry[], ct_table_enter_special[], ct_table_enter_listen[],
    ct_table_leave_record[], ct_table_leave_listen[], ct_table_enter_detail[], ct_table_enter_entry_detail[],
    ct_table_enter_special_detail[], ct_table_leave_detail[], ct_table_enter_record_fast[], ct_table_enter_entry_fast[],
    ct_table_leave_record_fast[], ct_table_enter_detail_fast[], ct_table_enter_entry_detail_fast[],
    ct_table_leave_detail_fast[], ct_table_sample_record[], ct_table_sample_detail[], ct_table_sample_entry[],
    ct_table_sample_entry_detail[];
#pragma GCC visibility pop
static inline uint64_t ct_table_code_offset(void) {
    return ((uint64_t)(ct_hook_code_end - ct_hook_code) + 63) & ~63ull;
}
static inline uint64_t ct_both_codes_size(void) {
    return ct_table_code_offset() + (uint64_t)(ct_table_code_end - ct_table_code);
}
/* The words that make the first form lead to the second (switch.c): the i-th word, at an offset in the first; false:
 * there are no more. Each is one aligned store, while threads run. */
bool ct_switch_word(unsigned i, uint64_t *offset, uint64_t *word);
/* Returns this word with a jump at its start, to code at a distance from it (switch_<isa>.c). */
uint64_t ct_switch_jump(uint64_t word, uint64_t distance);
/* Calls fn(a, b) on another stack. */
uint64_t ct_hook_on_stack(uint64_t stack, uint64_t (*fn)(uint64_t, uint64_t), uint64_t a, uint64_t b);
/* Calls fn(arg, vectors) with the vector state saved in `vectors` and set as C code expects it, and restores it
 * afterwards: for code that was not compiled for general registers only. */
void ct_hook_call_saved(struct ct_vectors vectors, void (*fn)(void *arg, void *vectors), void *arg);

#endif
