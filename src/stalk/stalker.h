/* SPDX-License-Identifier: Apache-2.0 */
/* The Stalker itself, and the functions that it calls in the agent.
 *
 * Freestanding, as everything in this folder: no libc, no thread-local storage, general registers only. It runs inside
 * followed threads, on a stack of its own, also in the agent. A stalk_thread belongs to its thread while that is in the
 * engine; everything else belongs to the holder of stalker->lock. */
#ifndef CT_STALK_STALKER_H
#define CT_STALK_STALKER_H

#include "code/slab.h"
#include "os/thread.h"
#include "stalk/area.h"
#include "stalk/memory.h"
#include <contrail/stalker.h>
#include <stdbool.h>
#include <stdint.h>

struct stalk_branches;
struct stalk_cache;
struct stalk_thread;

/* API functions run natively when followed code calls them. */
#define STALK_API __attribute__((section("ct_stalk_text")))

enum {
    STALK_MAX_EXCLUDED = 1 << 14,
    STALK_MAX_MAPS = 2048,
    STALK_MAX_CONSTANTS = 1024,
    STALK_MAX_PROBES = 1024,
};

/* Functions of the Stalker's owner for new processes and programs; only the agent has them. They are called on the
 * thread, in the engine. */
struct stalk_family {
    bool (*wants)(void); /* the thread is about to make a process: is it to be followed? */
    /* Called in the child, whose thread has a new tid; false: it continues natively. */
    bool (*forked)(int before, int tid);
    void (*executes)(uint64_t path, int directory);
    /* Code in this range was unmapped; all calls of it have been reported. */
    void (*unmapped)(uint64_t start, uint64_t end);
};

struct stalk_range {
    uint64_t start, end;
};

struct stalk_map {
    uint64_t start, end;
    bool changes; /* writable, or shared with a process that can write it: it can change without a system call */
    bool file;    /* all of it is a file's */
};

struct stalk_probe {
    uint64_t target;
    ct_stalker_callout *fn;
    void *data;
    void (*destroy)(void *data);
    bool used;
    uint32_t users; /* threads that are in the callout, and one for the thread that added the probe */
};

struct ct_stalker {
    uint32_t lock;
    int32_t pid;
    struct ct_stalker *next; /* list of all Stalkers */
    enum ct_wx_mode mode;
    uint32_t queue_capacity;
    uint64_t drain_interval_ns;
    int32_t trust;
    bool trusts_files;      /* code of files that does not change without a system call is trusted at once */
    uint8_t inline_entries; /* most targets of an inline cache; 0: no inline caches */
    struct stalk_machine machine;
    bool follow_children;
    bool tell_stacks;                  /* report changes of stack by events of kind STALK_STACK_EVENT */
    bool tell_sites;                   /* `depth` of a BLOCK event is the number of its site */
    const struct stalk_family *family; /* NULL: no functions for new processes */
    /* Takes a thread's records of calls and returns as they are (records.h), in place of its sink's on_receive, and
     * returns how many events they were. It takes all, or none if nobody reads. Only the agent has this. */
    uint64_t (*take)(int tid, struct stalk_branches *b);
    struct ct_vectors vectors;
    struct stalk_cache *caches;
    bool keeps_sites;          /* the owner knows blocks by the numbers of their sites: caches are never replaced */
    struct stalk_cache *empty; /* replaced caches whose home region could not be freed yet */
    struct stalk_thread *threads;
    uint32_t followed;
    uint32_t adopting; /* new threads that check whether they are to be followed */
    bool cloned;       /* threads were started: they may be at their first instructions, and are not known yet */
    struct stalk_range excluded[STALK_MAX_EXCLUDED]; /* the first is ours, the others are sorted by address */
    uint32_t excluded_count;
    struct stalk_map maps[STALK_MAX_MAPS];
    uint32_t map_count, map_turn;                      /* how many there are; how often they were read or forgotten */
    struct stalk_range constants[STALK_MAX_CONSTANTS]; /* of files, private, and only readable: as far as is known */
    uint32_t constant_count;
    bool constants_old; /* mappings were protected since: there may be more */
    bool written_to;    /* another process writes to any memory: no word is constant */
    struct stalk_probe probes[STALK_MAX_PROBES];
    uint32_t probe_count;
    struct ct_stalker_statistics statistics;
    struct stalk_pool pool; /* memory that lives as long as the Stalker */
};

/* Gives up translations of this code in every Stalker. */
void ct_stalk_code_changed(uint64_t start, size_t size);
/* In the child of a fork: another thread of the parent may have held the lock. */
void ct_stalk_list_in_child(void);

#endif
