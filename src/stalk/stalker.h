/* The Stalker itself, and what it asks of the agent.
 *
 * Freestanding, as everything here: no libc, no thread-local storage, general registers only; it runs inside followed
 * threads, on a stack of its own, also in the agent. A stalk_thread belongs to its thread while that is in the engine;
 * everything else belongs to the holder of stalker->lock. */
#ifndef CT_STALK_STALKER_H
#define CT_STALK_STALKER_H

#include "code/slab.h"
#include "os/thread.h"
#include "stalk/area.h"
#include "stalk/memory.h"
#include <contrail/stalker.h>
#include <stdbool.h>
#include <stdint.h>

struct stalk_cache;
struct stalk_thread;

/* API functions run natively when followed code calls them. */
#define STALK_API __attribute__((section("ct_stalk_text")))

enum {
    STALK_MAX_EXCLUDED = 1 << 14,
    STALK_MAX_MAPS = 2048,
    STALK_MAX_PROBES = 1024,
};

/* What is asked of the Stalker's owner when processes are made; in the agent only. On the thread, in the engine. */
struct stalk_family {
    bool (*wants)(void); /* is about to make a process: is it to be followed? */
    /* In the child, whose thread has another number now; false: it goes on natively. */
    bool (*forked)(int before, int tid);
    void (*executes)(uint64_t path, int directory);
    /* Code that was there is not there any more; all calls of it were reported. */
    void (*unmapped)(uint64_t start, uint64_t end);
};

struct stalk_range {
    uint64_t start, end;
};

struct stalk_map {
    uint64_t start, end;
    bool changes; /* writable, or shared with a process that can write it: no system call shows it */
};

struct stalk_probe {
    uint64_t target;
    ct_stalker_callout *fn;
    void *data;
    void (*destroy)(void *data);
    bool used;
    uint32_t users; /* threads that are in it, and the one that has added it */
};

struct ct_stalker {
    uint32_t lock;
    int32_t pid;
    struct ct_stalker *next; /* list of all */
    enum ct_wx_mode mode;
    uint32_t queue_capacity;
    uint64_t drain_interval_ns;
    int32_t trust;
    uint8_t inline_entries; /* of an inline cache; 0: there are none */
    struct stalk_machine machine;
    bool follow_children;
    bool tell_stacks;                  /* by events of kind STALK_STACK_EVENT */
    bool tell_sites;                   /* `depth` of a BLOCK is the number of its site */
    const struct stalk_family *family; /* NULL: children are nobody's business */
    struct ct_vectors vectors;
    struct stalk_cache *caches;
    bool keeps_sites;          /* the owner knows blocks by the numbers of their sites: caches are not replaced */
    struct stalk_cache *empty; /* replaced caches whose home could not be freed yet */
    struct stalk_thread *threads;
    uint32_t followed;
    uint32_t adopting; /* threads that look whether they are to be followed */
    bool cloned;       /* threads were started: they may be where they begin, and are nobody's yet */
    struct stalk_range excluded[STALK_MAX_EXCLUDED]; /* the first is ours, the others are by address */
    uint32_t excluded_count;
    struct stalk_map maps[STALK_MAX_MAPS];
    uint32_t map_count;
    struct stalk_probe probes[STALK_MAX_PROBES];
    uint32_t probe_count;
    struct ct_stalker_statistics statistics;
    struct stalk_pool pool; /* what lives as long as the Stalker */
};

/* To every Stalker: what was made of this code is given up. */
void ct_stalk_code_changed(uint64_t start, size_t size);
/* In the child of a fork: another thread of its parent may have had the lock. */
void ct_stalk_list_in_child(void);

#endif
