/* SPDX-License-Identifier: Apache-2.0 */
/* What the controller shares with the agent that follows threads (agent/stalk_agent.c): commands, and tables after the
 * index lane in shared memory (abi/shm_abi.h, control.extra_offset).
 *
 * Addresses in struct ct_stalk_boot are the target's. Tables: fixed width, no pointers. */
#ifndef CT_ABI_STALK_H
#define CT_ABI_STALK_H

#include <stdint.h>

#define CT_STALK_BOOT_MAGIC 0x4b4c5453u /* "STLK" */

/* Functions of the process that the engine calls, or must recognize. The controller looks up their names once. */
/* clang-format off */
#define CT_STALK_FUNCTION_LIST(X) \
    X(REGISTER,   "__register_frame_info") \
    X(DEREGISTER, "__deregister_frame_info") \
    X(GET_IP,     "_Unwind_GetIP") \
    X(SET_IP,     "_Unwind_SetIP") \
    X(SET_GR,     "_Unwind_SetGR") \
    X(RESUME,     "_Unwind_Resume") \
    X(SETJMP,     "setjmp") \
    X(SETJMP_,    "_setjmp") \
    X(SIGSETJMP,  "__sigsetjmp")
/* clang-format on */
#define CT_STALK_FUNCTIONS 9

enum ct_stalk_command {
    CT_STALK_START = 1,    /* make a Stalker, and follow the listed threads */
    CT_STALK_UNFOLLOW = 2, /* let the listed threads go */
    CT_STALK_END = 3,      /* nobody is followed or in our code: free everything except the image and the lane */
};

struct ct_stalk_boot_thread {
    int32_t tid;        /* as the thread sees it */
    int32_t status;     /* result: 0: set the two below */
    uint64_t block, pc; /* as they are; result: as they must be set */
};

struct ct_stalk_boot {
    uint32_t magic, command;
    int32_t status; /* result */
    int32_t pid;    /* as the process sees it */
    uint64_t shm;
    uint32_t mask; /* enum ct_stalker_event_kind */
    uint32_t follow_new_threads;
    uint32_t queue_capacity, drain_interval_ms;
    int32_t trust;
    uint32_t count_calls;                   /* calls are counted, without an event for each */
    uint32_t count_blocks;                  /* blocks are counted, with or without an event for each */
    uint64_t excluded, excluded_count;      /* pairs of addresses: start, end */
    uint64_t threads, thread_count;         /* struct ct_stalk_boot_thread */
    uint64_t functions[CT_STALK_FUNCTIONS]; /* CT_STALK_FUNCTION_LIST; 0: the process has no such function */
    uint64_t followed;                      /* result of UNFOLLOW: threads that are still followed */
    /* result of UNFOLLOW: listed threads that have yet to leave our code; of END: the image must stay */
    uint64_t inside;
};

/* A place in the code with a count: an open-addressed table by `start`; 0: free. */
struct ct_stalk_place {
    uint64_t start, end, count;
};

/* `key` is where a call goes, `address` where it ends up (after a linkage table's jump), `count` how often. An event's
 * hook is the index into this table. Calls through a linkage table that is not bound yet have an entry of their own:
 * CT_STALK_UNBOUND is set in the key, and `address` is 0. */
#define CT_STALK_UNBOUND (1ull << 63)
/* In keys, and where places begin: the code that was at this address before has been unmapped; the number, from 1, of
 * the last such unmapping. */
#define CT_STALK_AGAIN(number) ((uint64_t)(number) << 48)
#define CT_STALK_ADDRESS(key)  ((key) & ((1ull << 48) - 1))
struct ct_stalk_target {
    uint64_t key, address, count;
};

/* A block that was translated, or that is executed. `lengths`: index of the lengths of its instructions. */
struct ct_stalk_code {
    uint64_t start;
    uint32_t size, insns;
    uint64_t lengths;
};
_Static_assert(__builtin_offsetof(struct ct_stalk_code, size) % 8 == 0, "size and instructions are read as one word");
#define CT_STALK_LENGTHS (16u << 20)

#define CT_STALK_RANGES  1024
struct ct_stalk_tables {
    uint32_t target_capacity, block_capacity; /* controller; powers of two */
    uint64_t targets_offset, blocks_offset;   /* from the beginning of this structure */
    uint64_t code_offset, lengths_offset;     /* from there too; lengths: CT_STALK_LENGTHS bytes; 0: not written */
    uint64_t code_count, lengths_used;        /* agent */
    uint32_t code_capacity, reserved;         /* controller */
    uint64_t events[8];                       /* agent: by bit of their kind */
    uint64_t full;                            /* agent: calls and blocks that found no free entry */
    uint64_t started;                         /* agent: threads that were followed from their beginning */
    uint64_t stopped;                         /* agent: threads whose events are complete */
    uint64_t left;                            /* agent: of these, threads that could not be followed to their end */
    uint64_t forked;                          /* agent: children that were let go */
    /* agent: figures of its Stalker, as of the last events that were handed over */
    uint64_t blocks, fragments, original_bytes, code_bytes;
    /* agent: an address that is in none of the ranges below; controller: resets it to 0 when it is about to look */
    uint64_t asked;
    uint64_t unmapped; /* agent: how often code was unmapped */
    uint64_t looks;    /* controller: how often it has looked */
    /* controller: for a later one that cleans up if this one dies. The process that it follows; where the agent is, and
     * what is mapped. */
    int32_t pid;
    uint32_t range_count;
    uint64_t entry, stack, boot, shm, shm_size, image, image_size;
    uint64_t ranges[CT_STALK_RANGES][2]; /* controller: executable memory it knows of, start and end */
};

#endif
