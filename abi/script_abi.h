/* SPDX-License-Identifier: Apache-2.0 */
/* What the controller shares with the agent that serves scripts (agent/script_agent.c), after the lane in shared memory
 * (abi/shm_abi.h, control.extra_offset). Fixed width; addresses are the target's.
 *
 * A callback is a request in a slot. The slot's state is one word: a state in its low 8 bits, and above them a number
 * that changes with each request, so that an answer that comes too late meets another word. Only compare-and-swap
 * changes it, except by the side whose turn it is:
 *
 *   FREE → TAKEN (agent, which fills it) → POSTED (agent; it waits) → ANSWERING (controller, which fills in the answer)
 *     → ANSWERED (controller) → FREE (agent, which goes on with the changed registers)
 *     → WORK (controller) → WORKING (agent, which does it) → POSTED (agent)
 *   POSTED → FREE (agent): nobody has answered in time; the thread goes on unchanged
 *   ANSWERING → ABANDONED (agent): as that; the controller makes it FREE
 *   WORKING → FREE (agent): the work has left its frame (longjmp), and the thread is seen elsewhere
 *
 * The controller believes nothing that it reads here: numbers are checked, and addresses are only used as the
 * target's. */
#ifndef CT_ABI_SCRIPT_H
#define CT_ABI_SCRIPT_H

#include "abi/boot_abi.h"
#include "abi/stalk_abi.h"
#include <stdint.h>

#define CT_SCRIPT_SLOTS     256u
#define CT_SCRIPT_CPU_WORDS 34u /* room for any machine: general registers, pc, flags */
#define CT_SCRIPT_STACK     64u /* words on the stack of a call */
#define CT_SCRIPT_COUNTERS  64u

enum ct_script_slot_state {
    CT_ASK_FREE,
    CT_ASK_TAKEN,
    CT_ASK_POSTED,
    CT_ASK_ANSWERING,
    CT_ASK_ANSWERED,
    CT_ASK_WORK,
    CT_ASK_WORKING,
    CT_ASK_ABANDONED,
};
#define CT_ASK_STATE(word)       ((word)&0xffu)
#define CT_ASK_WORD(word, state) (((word) & ~0xffu) | (state)) /* the same request */
#define CT_ASK_NEXT(word, state) ((((word) & ~0xffu) + 0x100u) | (state))

/* A call that the waiting thread makes. src/agent/script_call_<isa>.S knows these offsets. */
struct ct_script_work {
    uint64_t function;    /* 0: the system call of the number integers[0] */
    uint64_t integers[8]; /* controller, like all of these: arguments in registers */
    uint64_t reals[8];
    uint64_t real_count, stack_count;
    uint64_t stack[CT_SCRIPT_STACK];
    uint64_t result, result_high, real, real_high; /* agent */
    uint64_t more_reals[2];                        /* agent, on arm64 */
    uint64_t errno_function;                       /* controller: 0: errno is not wanted */
    int32_t error;                                 /* agent */
    uint32_t reserved;
    uint64_t place; /* controller, on arm64: where a result goes that registers cannot hold */
};

_Static_assert(__builtin_offsetof(struct ct_script_work, reals) == 72, "REALS");
_Static_assert(__builtin_offsetof(struct ct_script_work, stack) == 152, "STACK");
_Static_assert(__builtin_offsetof(struct ct_script_work, result) == 664, "RESULT");
_Static_assert(__builtin_offsetof(struct ct_script_work, place) == 728, "PLACE");

/* What a request is about; the same numbers as enum ct_script_kind of src/script/script.h. */
enum ct_script_asks {
    CT_SCRIPT_ASKS_ENTER = 1,
    CT_SCRIPT_ASKS_LEAVE = 2,
    CT_SCRIPT_ASKS_CALLBACK = 3,
    CT_SCRIPT_ASKS_CALLOUT = 4,
    CT_SCRIPT_ASKS_PROBE = 5,
    CT_SCRIPT_ASKS_TRANSFORM = 6,
    CT_SCRIPT_ASKS_EXCEPTION = 7 /* id: enum ct_script_operation */
};

struct ct_script_slot {
    uint32_t state;    /* both; a futex of the thread that waits */
    uint32_t sleeping; /* agent: it waits in the kernel */
    uint32_t extended; /* controller: counts how often the time limit began again */
    uint32_t done;     /* agent: counts work that is done */
    /* agent, before POSTED */
    uint32_t kind, id;
    int32_t tid; /* as the thread sees it */
    uint32_t depth;
    uint32_t parent; /* slot of the running work that has led here, from 1; 0: none */
    uint32_t cpu_words;
    uint32_t changed, reserved; /* controller: is the answer not just to go on? */
    uint64_t call, function, return_address, address, fault;
    uint64_t vectors, vectors_size;
    uint64_t block;                    /* the thread's block */
    uint64_t stack;                    /* the stack pointer when the callback began */
    uint64_t cpu[CT_SCRIPT_CPU_WORDS]; /* agent; the controller changes it while ANSWERING */
    struct ct_script_work work;        /* controller, while ANSWERING; results: agent, while WORKING */
};

/* Functions of the agent that C modules call, with their names there (bindings/node/include/gum). */
/* clang-format off */
#define CT_SCRIPT_FUNCTION_LIST(X) \
    X(NEXT, "ct_gum_next") \
    X(KEEP, "ct_gum_keep") \
    X(PUT_CALLOUT, "ct_gum_put_callout") \
    X(PUT_BYTES, "ct_gum_put_bytes") \
    X(PUT_COUNT, "ct_gum_put_count") \
    X(PUT_COPY, "ct_gum_put_copy") \
    X(PUT_LABEL, "ct_gum_put_label") \
    X(PUT_JUMP, "ct_gum_put_jump") \
    X(CLOCK, "ct_clock")
/* clang-format on */
enum ct_script_functions {
#define CT_SCRIPT_FUNCTION_ENUM(name, text) CT_SCRIPT_DOES_##name,
    CT_SCRIPT_FUNCTION_LIST(CT_SCRIPT_FUNCTION_ENUM)
#undef CT_SCRIPT_FUNCTION_ENUM
        CT_SCRIPT_FUNCTIONS
};

#define CT_SCRIPT_COUNTER "ct_counter_"

struct ct_script_shared {
    /* controller */
    uint32_t open; /* callbacks are wanted; 0: threads go on */
    uint32_t reserved0;
    uint64_t limit_counts; /* of the CPU counter: for how long a thread waits */
    uint64_t spin_counts;  /* for how long it looks before it sleeps */
    /* Threads of the controller. Who rings the bell wakes those that sleep; but those that wait for requests need not
     * be woken while another one attends: it looks for requests before it sleeps. */
    uint32_t waiters;  /* sleep, and wait for requests */
    uint32_t callers;  /* sleep, and wait for the end of work */
    uint32_t attended; /* 1: one attends */
    uint32_t faults;   /* faults become requests, once they are watched */
    uint32_t reserved1[4];
    /* agent */
    uint32_t bell;    /* counts news; a futex of the controller */
    uint32_t working; /* slots in WORKING */
    uint64_t timeouts, unserved;
    uint64_t posted[CT_SCRIPT_SLOTS / 64]; /* both: bit of each slot with a request that is new */
    uint32_t worker;                       /* slot of the worker, from 1; 0: there is none */
    int32_t worker_error;                  /* what pthread_create has returned */
    /* agent, before the first hook: its functions */
    uint64_t on_enter, on_leave, callback_entry, make_worker, watch_faults;
    uint64_t functions[CT_SCRIPT_FUNCTIONS];
    /* C modules: words that outlive the process. Their names begin with CT_SCRIPT_COUNTER there. */
    uint64_t counters[CT_SCRIPT_COUNTERS];
    struct ct_script_slot slots[CT_SCRIPT_SLOTS];
};

/* ---- a script beside a recording ----
 *
 * The recorder's agent has the hooks, the thread blocks and the shadow stacks. The script's image is a guest: it has
 * shared memory of its own, and hears of calls through the recorder's agent (agent/script_guest.c). */

#define CT_SCRIPT_JOIN_MAGIC 0x4e494f4au /* "JOIN" */
#define CT_SCRIPT_JOIN_CODES 34u

/* What the guest wants to know of one function; 0: nothing. Functions as in struct ct_hook_listener. */
struct ct_script_guest_hook {
    uint64_t on_call, on_return, user;
};

/* What the image's entry gets instead of struct ct_boot. */
struct ct_script_join {
    uint32_t magic;
    int32_t status;            /* result: 0 or a code of contrail/status.h */
    uint64_t boot;             /* of the recorder's agent */
    uint64_t shm;              /* the guest's own */
    uint64_t hooks, hook_room; /* struct ct_script_guest_hook [hook_room], by the recorder's hook number */
    uint32_t place, silent;    /* in ct_runtime.guests; the process already forbids our system calls */
    /* For whoever takes the recorder's hooks out: the guest's mappings. The first two are its image and its shared
     * memory; the others are memory that it has allocated, map_size 0: none. */
    struct ct_boot_code codes[CT_SCRIPT_JOIN_CODES];
};

/* ---- the Stalker: at this distance from struct ct_script_shared ---- */

#define CT_SCRIPT_STALK_AT ((sizeof(struct ct_script_shared) + 63) & ~63ull)
#define CT_SCRIPT_EXCLUDED 4096u

enum ct_script_stalk_command {
    CT_SCRIPT_STALK_FOLLOW = 1, /* thread `tid`, which is stopped at `pc`: it goes on at the new pc, with `block` */
    CT_SCRIPT_STALK_FOLLOW_ME,  /* the calling thread, which waits in a callback */
    CT_SCRIPT_STALK_UNFOLLOW,   /* thread `tid`, stopped at `pc`: it goes on at the new pc */
    CT_SCRIPT_STALK_END,        /* nobody is followed or in our code: free everything */
    CT_SCRIPT_STALK_EXCLUDE,    /* `start`, `size` */
    CT_SCRIPT_STALK_INVALIDATE, /* code at `start` has changed */
    /* calls of `start` call `size` with `pc`, a function in the target, or 0: make a request with the number `pc`.
     * Result: `block` */
    CT_SCRIPT_STALK_PROBE,
    CT_SCRIPT_STALK_UNPROBE, /* the probe `block` */
    CT_SCRIPT_STALK_FLUSH,   /* events that threads have are handed over */
    CT_SCRIPT_STALK_COLLECT, /* code that was given up is freed. Result: `size` */
    CT_SCRIPT_STALK_TRUST,   /* `trust` holds from now on */
};

/* Events of one thread, or counts of its calls: struct ct_stalker_event, struct ct_stalker_call_count. */
struct ct_script_batch {
    uint64_t bytes; /* with this header; 0: nothing more up to the end of the ring */
    int32_t tid;
    uint32_t count, summary;
    uint32_t ready; /* agent, last */
};

/* A block that is to be transformed, and what becomes of it. One thread translates at a time. */
#define CT_SCRIPT_INSNS  128u
#define CT_SCRIPT_EDITS  1024u
#define CT_SCRIPT_LABELS 64u /* branches in one block */

enum ct_script_edits {
    CT_SCRIPT_EDIT_KEEP = 1, /* instruction `insn`; what is not kept is left out */
    CT_SCRIPT_EDIT_BYTES,    /* `length` bytes */
    CT_SCRIPT_EDIT_CALLOUT,  /* a request with the number `id`, or the function at `address` with `user` */
    CT_SCRIPT_EDIT_COUNT,    /* adds one to the word at `address` */
    CT_SCRIPT_EDIT_LABEL,    /* number `id` is here */
    CT_SCRIPT_EDIT_JUMP,     /* to label `id`, under the condition `user` (CT_STALK_ALWAYS: always) */
    CT_SCRIPT_EDIT_COPY,     /* a copy of the instruction at `address`, moved */
};
struct ct_script_block_edit { /* as struct ct_script_edit of src/script/script.h */
    uint32_t kind, insn, id, length;
    uint64_t address, user;
    uint8_t bytes[64];
};
struct ct_script_block {
    uint32_t count, edit_count;
    uint64_t addresses[CT_SCRIPT_INSNS];                /* agent */
    uint8_t lengths[CT_SCRIPT_INSNS];                   /* agent */
    struct ct_script_block_edit edits[CT_SCRIPT_EDITS]; /* controller */
};

struct ct_script_stalk {
    uint64_t run; /* agent: the function that takes commands */
    /* controller: a command's arguments; both: its results */
    uint64_t functions[CT_STALK_FUNCTIONS]; /* CT_STALK_FUNCTION_LIST */
    uint32_t mask, summary, transform;
    int32_t trust;
    uint64_t native_transform, native_on_event, user; /* functions of C modules, and what they get; 0: none */
    uint32_t queue_capacity, drain_interval_ms;
    int32_t tid, status;
    uint32_t inside; /* of UNFOLLOW: the thread has yet to leave our code */
    uint64_t pc, block, thread_pointer, start, size;
    uint32_t followed, made; /* agent: threads that are followed; is there a Stalker? */
    uint64_t left;           /* agent: threads that could not be followed to their end */
    uint32_t excluded_count, reserved;
    uint64_t excluded[CT_SCRIPT_EXCLUDED][2]; /* controller: before the Stalker is made */
    struct ct_script_block transformed;
    /* The ring: positions count on, and are taken modulo its size. */
    uint32_t lock;
    uint32_t asking;     /* a thread that translates waits for an answer: it has the Stalker's lock */
    uint64_t head, lost; /* agent, like those above */
    uint64_t tail;       /* controller */
};

#define CT_SCRIPT_RING_AT ((sizeof(struct ct_script_stalk) + 63) & ~63ull) /* from struct ct_script_stalk on */
#define CT_SCRIPT_RING    (32ull << 20)
#define CT_SCRIPT_EXTRA   (CT_SCRIPT_STALK_AT + CT_SCRIPT_RING_AT + CT_SCRIPT_RING)

#endif
