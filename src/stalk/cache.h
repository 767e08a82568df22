/* What has been translated: entries, fragments, exits, regions of code memory, and the cache that holds them.
 *
 * Words: an entry is an address that translated code exists for; a fragment is what was translated in one go, one block
 * or several that follow each other; an exit is a place where a fragment leaves by a direct branch.
 *
 * Owner: the holder of stalker->lock. Translated code reads the tables without the lock: their words are changed by
 * single stores. */
#ifndef CT_STALK_CACHE_H
#define CT_STALK_CACHE_H

#include "code/slab.h"
#include "stalk/memory.h"
#include <contrail/stalker.h>
#include <stdbool.h>
#include <stdint.h>

struct stalk_cache;
struct stalk_section;
struct stalk_thread;
struct stalk_unwind;

enum {
    STALK_GARBAGE = 1 << 20, /* bytes of code that was given up before a cache begins again */
    STALK_TABLE_BITS = 16,
    STALK_TABLE_SIZE = 1 << STALK_TABLE_BITS,
    STALK_CHUNK = 256 << 10,
    STALK_FRAGMENT_ROOM = 16 << 10, /* more than one fragment needs */
    STALK_RETURN_SLOT = 64,         /* bytes of a stub that excluded calls return to */
    STALK_RETURN_NOP = 3,           /* bytes before the address that they return to */
    STALK_RETURN_WORD = 40,         /* where the application's return address lies in it */
    STALK_RETURN_ROOM = 512 << 10,
    STALK_MAX_INLINE = 8,    /* targets of an inline cache */
    STALK_MOST_REFILLS = 15, /* of an inline cache; then its branch is not worth one */
    CT_COUNTERS = 1 << 18,   /* call sites that can be counted */
};

struct stalk_fragment;

struct stalk_entry {
    uint64_t address;
    uint64_t code;     /* where it begins, with the program's registers in place */
    uint64_t indirect; /* where indirect branches come in; 0: not made yet */
    uint64_t returns;  /* where returns come in; 0: not made yet */
    struct stalk_fragment *fragment;
    struct stalk_entry *next; /* of the same fragment */
    uint32_t incoming;        /* first exit that is linked to it; 0: none */
};

enum { FRAGMENT_TRUSTED = 1, FRAGMENT_DEAD = 2 };

/* One byte pair per piece of a fragment: bytes of the original (0: our own code), bytes of the copy. */
struct stalk_piece {
    uint8_t original, code;
};

struct stalk_fragment {
    struct stalk_entry first;
    uint64_t code; /* run address of everything it has */
    uint32_t code_size;
    uint32_t length; /* of the original */
    const uint8_t *snapshot;
    const struct stalk_piece *pieces;
    uint64_t pieces_code; /* where the first piece lies */
    uint16_t piece_count;
    uint16_t flags;
    uint32_t recycled;
    uint32_t callouts; /* first of its callouts; 0: none */
    struct stalk_region *region;
    struct stalk_fragment *next_live, **link_live; /* list of the cache's that are not dead */
};

enum { STALK_END_CHANGED = 0x40 }; /* of an exit that is taken where code has changed: never linked */

/* A place where a fragment leaves by a jump that is changed when it is known where to. Indirect branches with an
 * inline cache are such exits (kind says so), and have links, exits too, one for each target: they are in the lists of
 * the entries that they lead to, and giving up one empties the cache. */
struct stalk_exit {
    uint64_t target;
    uint64_t patch;              /* run address of the rel32 */
    uint64_t stub;               /* where it goes while not linked */
    struct stalk_fragment *from; /* NULL: return from excluded code */
    struct stalk_region *region; /* that it lies in */
    uint32_t next;               /* linked to the same entry */
    uint32_t site;               /* links: the exit whose inline cache it belongs to; 0: it is no link */
    uint32_t cached;             /* first link; in links: the next one */
    uint8_t kind;                /* enum ct_stalker_end, or STALK_END_CHANGED */
    uint8_t linked;
    uint8_t crowded;                /* it takes the table for good */
    uint8_t count : 4, refills : 4; /* links now; how often they were given up */
};

/* An event site: what a record's number stands for. */
struct stalk_site {
    uint32_t kind; /* of the event */
    uint32_t insns;
    uint64_t location, target; /* target 0: in the record */
    const uint8_t *lengths;    /* of a block's instructions, for EXEC */
};

struct stalk_callout {
    ct_stalker_callout *fn;
    void *data;
    void (*destroy)(void *data);
    uint64_t pc;
    uint32_t next; /* of the same fragment */
    int32_t probe; /* -1: a callout of a transformer, or activation: -2 */
    uint8_t dead;
};

struct stalk_chunk {
    struct stalk_chunk *next;
    struct stalk_region *region;
    uint64_t run;
    uint8_t *write;
    uint32_t size, used;
    struct stalk_fragment **fragments; /* by address */
    uint32_t count, capacity;
};

/* Code memory for one stretch of the address space, with its own copy of the helpers. */
struct stalk_region {
    struct stalk_region *next;
    struct stalk_cache *cache;
    struct ct_arena *arena;
    struct stalk_chunk *chunk; /* that is being filled with fragments */
    struct stalk_chunk *cold;  /* that is being filled with what runs seldom; NULL: none yet */
    struct stalk_chunk *warm;  /* that is being filled with inline caches */
    uint64_t low, high;        /* originals it serves */
    uint64_t helpers;          /* run address of the copy of ct_stalk_code */
};

enum stalk_unwind_state { STALK_REGISTERING = 1, STALK_REGISTERED }; /* a thread is at it; that is done */

/* Everything that was translated for one combination of events and transformer. */
struct stalk_cache {
    struct stalk_cache *next;
    struct ct_stalker *stalker;
    uint32_t mask;
    bool count_calls; /* call summary without events */
    struct ct_stalker_transformer transformer;
    uint64_t *table;        /* below 2 GiB: [hash of the target] -> code */
    uint64_t *return_table; /* for returns: return sites differ in their lowest bits, functions do not */
    uint64_t miss;          /* what an empty place holds */
    uint64_t return_miss;   /* what an empty place of return_table holds */
    uint64_t
        *native_table; /* below 2 GiB: [return address] -> code that makes the call to excluded code; NULL: none yet */
    struct stalk_entry **hash;
    size_t hash_size, hash_used;
    struct stalk_region *regions;
    struct stalk_chunk *chunks;
    struct stalk_ids exits, sites, callouts;
    struct stalk_pool pool;      /* what describes translated code */
    struct stalk_pool lasting;   /* regions and chunks */
    struct stalk_cache *newer;   /* takes its place: threads change over when they come by; NULL: none */
    struct stalk_fragment *live; /* that are not dead */
    struct stalk_section *sections;
    bool tells_destroy;               /* of callouts: their owner wants to know */
    uint64_t dead_bytes;              /* of code that was given up */
    struct stalk_region *home;        /* of the return chunk */
    struct stalk_chunk *return_chunk; /* of stubs that excluded calls return to */
    struct stalk_unwind *unwind;      /* NULL: no unwinder knows */
    uint32_t unwind_state;            /* enum stalk_unwind_state */
    uint64_t *return_keys;            /* application return address -> code that excluded calls return to */
    uint64_t *return_stubs;
    size_t return_size, return_used;
    uint32_t counters; /* call counters in use */
    uint64_t *counter_targets;
};

struct stalk_cache *ct_stalk_cache_for(struct ct_stalker *s, uint32_t mask, bool count_calls,
                                       const struct ct_stalker_transformer *transformer);
/* Everything is freed; `may_call`: functions of the process may be called for it (unwind_<isa>.c). */
void ct_stalk_cache_release(struct stalk_cache *c, bool may_call);
/* Too much of the cache is garbage: frees it if no other thread is in it, or replaces it by an empty one. The thread
 * is in the engine, and needs nothing of it any more. */
void ct_stalk_cache_renew(struct stalk_thread *t);
/* Frees caches that have been replaced and that nobody is in. The bytes of code. */
uint64_t ct_stalk_cache_sweep(struct ct_stalker *s, struct stalk_thread *t);
/* All of it goes: owners of callouts are called. `t`: the calling thread, in the engine; NULL: it runs natively. */
void ct_stalk_callouts_destroy(struct stalk_cache *c, struct stalk_thread *t);
struct stalk_entry *ct_stalk_find(const struct stalk_cache *c, uint64_t address);
int ct_stalk_insert(struct stalk_cache *c, struct stalk_entry *e);
/* Region that serves this original address, made when needed. */
struct stalk_region *ct_stalk_region_for(struct stalk_cache *c, uint64_t address);
/* Makes sure that the region's chunk has `room` bytes. */
int ct_stalk_reserve(struct stalk_region *r, size_t room);
/* Takes `size` bytes for code that runs seldom. */
int ct_stalk_cold_room(struct stalk_region *r, size_t size, uint64_t *run, uint8_t **write);
/* Takes `size` bytes for inline caches. */
int ct_stalk_warm_room(struct stalk_region *r, size_t size, uint64_t *run, uint8_t **write);
/* The fragment is finished: it takes its place in the chunk. */
int ct_stalk_place(struct stalk_region *r, struct stalk_fragment *f);
/* Fragment whose code contains pc, or NULL. */
struct stalk_fragment *ct_stalk_fragment_at(const struct stalk_cache *c, uint64_t pc);
/* The region whose copy of the helpers contains pc, where the thread may be; or NULL. */
const struct stalk_region *ct_stalk_region_at(const struct stalk_thread *t, uint64_t pc);
static inline uint64_t ct_stalk_helper(const struct stalk_region *r, const uint8_t *routine) {
    extern const uint8_t ct_stalk_code[];
    return r->helpers + (uint64_t)(routine - ct_stalk_code);
}
/* Stores 4 bytes that do not cross what the mode can change at once. */
void ct_stalk_patch32(struct stalk_region *r, uint64_t run, uint32_t value);
/* Gives up everything and frees it. The caller knows that no thread is in its code. The bytes of code. */
uint64_t ct_stalk_cache_flush(struct stalk_cache *c);
void ct_stalk_invalidate_range(struct stalk_cache *c, uint64_t start, uint64_t end);
void ct_stalk_invalidate_fragment(struct stalk_cache *c, struct stalk_fragment *f);
uint32_t ct_stalk_table_index(const struct ct_stalker *s, uint64_t address);
uint32_t ct_stalk_return_index(const struct ct_stalker *s, uint64_t address);

/* Branches may go there directly. */
static inline bool ct_stalk_trusted(const struct stalk_entry *e) {
    return e->fragment->flags & FRAGMENT_TRUSTED;
}

#endif
