/* SPDX-License-Identifier: Apache-2.0 */
/* What has been translated: entries, fragments, exits, regions of code memory, and the cache that holds them.
 *
 * Words: an entry is an address for which translated code exists. A fragment is code that was translated in one go: one
 * block, or several consecutive ones. An exit is a place where a fragment leaves by a direct branch.
 *
 * Owner: the holder of stalker->lock. Translated code reads the tables without the lock, so their words are changed by
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
    STALK_GARBAGE = 1 << 20, /* bytes of dead code before a cache starts over */
    STALK_TABLE_BITS = 16,
    STALK_TABLE_SIZE = 1 << STALK_TABLE_BITS,
    STALK_HASH_SIZE = 1 << 15, /* places for entries, at first */
    STALK_CHUNK = 256 << 10,
    STALK_FRAGMENT_ROOM = 16 << 10, /* more than one fragment needs */
    STALK_RETURN_SLOT = 64,         /* bytes of a stub to which excluded calls return */
    STALK_RETURN_NOP = 3,           /* bytes of the stub before the address to which they return */
    STALK_RETURN_WORD = 40,         /* offset of the application's return address in the stub */
    STALK_RETURN_ROOM = 512 << 10,
    STALK_MAX_INLINE = 8,    /* targets of an inline cache */
    STALK_MOST_REFILLS = 15, /* of an inline cache; after that the branch is not worth one */
    CT_COUNTERS = 1 << 18,   /* call sites that can be counted */
};

struct stalk_fragment;

struct stalk_entry {
    uint64_t address;
    uint64_t code;     /* where the code begins; all registers are the program's */
    uint64_t indirect; /* where indirect branches enter; 0: not made yet */
    uint64_t returns;  /* where returns enter; 0: not made yet */
    struct stalk_fragment *fragment;
    struct stalk_entry *next; /* next entry of the fragment */
    uint32_t incoming;        /* first exit that is linked to this entry; 0: none */
    bool spoils_flags;        /* `returns` changes the flags, which the code overwrites */
};

enum { STALK_NO_UNIT_REGISTER = 31 };

enum { FRAGMENT_TRUSTED = 1, FRAGMENT_DEAD = 2, FRAGMENT_COMPARED = 4 }; /* COMPARED: whenever it runs */

/* One pair per piece of a fragment: bytes of the original (0: our own code), and bytes of translated code. */
struct stalk_piece {
    uint8_t original, code;
};

struct stalk_fragment {
    struct stalk_entry first;
    uint64_t code; /* run address of all its code */
    uint32_t code_size;
    uint32_t length; /* of the original */
    const uint8_t *snapshot;
    const struct stalk_piece *pieces;
    uint64_t pieces_code; /* run address of the first piece */
    uint16_t piece_count;
    uint16_t flags;
    uint16_t unit_from, unit_to; /* offsets of code that has x18 in another register (unit_a64.h) */
    uint8_t unit_register;       /* STALK_NO_UNIT_REGISTER: there is none */
    uint32_t recycled;
    uint32_t callouts; /* first callout; 0: none */
    struct stalk_region *region;
    uint64_t relies_from, relies_to;   /* other code: the fragment is given up with it; equal: there is none */
    uint64_t constant, constant_value; /* a word that it relies on too, which holds this value; 0: there is none */
    struct stalk_fragment *next_live, **link_live; /* list of the cache's live fragments */
};

enum { STALK_END_CHANGED = 0x40 }; /* kind of an exit that is taken when code has changed; never linked */

/* A place where a fragment leaves by a jump that is patched once its destination is known. An indirect branch with an
 * inline cache is such an exit too (`kind` says so). It has one link, also an exit, for each cached target. Links are
 * in the lists of the entries that they lead to; when one of these entries is given up, the inline cache is emptied. */
struct stalk_exit {
    uint64_t target;
    uint64_t patch;              /* run address of the rel32 */
    uint64_t stub;               /* where it jumps while it is not linked */
    struct stalk_fragment *from; /* NULL: it is a return from excluded code */
    struct stalk_region *region; /* the region of its code */
    uint32_t next;               /* next exit that is linked to the same entry */
    uint32_t site;               /* of a link: the exit with the inline cache; 0: this is no link */
    uint32_t cached;             /* first link; of a link: the next one */
    uint8_t kind;                /* enum ct_stalker_end, or STALK_END_CHANGED */
    uint8_t linked;
    uint8_t skips;   /* bytes of an entry that it jumps over if that code is compared before it runs (check_x64.c) */
    uint8_t crowded; /* it uses the table from now on */
    uint8_t count : 4, refills : 4; /* links now; how often they were dropped */
};

/* An event site: the meaning of a site number in a record. */
struct stalk_site {
    uint32_t kind; /* of the event */
    uint32_t insns;
    uint64_t location, target; /* target 0: the record has it */
    const uint8_t *lengths;    /* of a block's instructions, for EXEC */
};

struct stalk_callout {
    ct_stalker_callout *fn;
    void *data;
    void (*destroy)(void *data);
    uint64_t pc;
    uint32_t next; /* next callout of the fragment */
    int32_t probe; /* index of the probe; -1: a transformer's callout; -2: activation */
    uint8_t dead;
};

struct stalk_chunk {
    struct stalk_chunk *next;
    struct stalk_region *region;
    uint64_t run;
    uint8_t *write;
    uint32_t size, used, ready;        /* ready: so far memory was asked for */
    struct stalk_fragment **fragments; /* by address */
    uint32_t count, capacity;
};

/* Code memory for one stretch of the address space, with its own copy of the helpers. */
struct stalk_region {
    struct stalk_region *next;
    struct stalk_cache *cache;
    struct ct_arena *arena;
    struct stalk_chunk *chunk; /* is being filled with fragments */
    struct stalk_chunk *cold;  /* is being filled with code that rarely runs; NULL: none yet */
    struct stalk_chunk *warm;  /* is being filled with inline caches */
    uint64_t low, high;        /* range of original addresses that it serves */
    uint64_t helpers;          /* run address of the copy of ct_stalk_code */
};

enum stalk_unwind_state { STALK_REGISTERING = 1, STALK_REGISTERED }; /* a thread is registering the stubs; it is done */

/* Everything that was translated for one combination of events and transformer. */
struct stalk_cache {
    struct stalk_cache *next;
    struct ct_stalker *stalker;
    uint32_t mask;
    bool count_calls; /* call summary without events */
    struct ct_stalker_transformer transformer;
    uint64_t *table;        /* below 2 GiB: [hash of the target] -> code */
    uint64_t *return_table; /* for returns: their addresses differ in the lowest bits, those of functions do not */
    uint64_t miss;          /* value of an empty slot of `table` */
    uint64_t return_miss;   /* value of an empty slot of return_table */
    /* Below 2 GiB: [return address] -> code that calls excluded code; NULL: none yet. */
    uint64_t *native_table;
    uint64_t *hash; /* entries by address (cache.c) */
    size_t hash_size, hash_used;
    struct stalk_region *regions;
    struct stalk_chunk *chunks;
    struct stalk_ids exits, sites, callouts;
    struct stalk_pool pool;      /* descriptions of translated code */
    struct stalk_pool lasting;   /* regions and chunks */
    struct stalk_cache *newer;   /* replaces this cache: threads change over when they enter the engine; NULL: none */
    struct stalk_fragment *live; /* list of fragments that are not dead */
    struct stalk_section *sections;
    bool tells_destroy;               /* some callout has a destroy function */
    uint64_t dead_bytes;              /* bytes of code of dead fragments */
    struct stalk_region *home;        /* region of the return chunk */
    struct stalk_chunk *return_chunk; /* stubs to which excluded calls return */
    struct stalk_unwind *unwind;      /* NULL: the stubs are not registered with an unwinder */
    uint32_t unwind_state;            /* enum stalk_unwind_state */
    uint64_t *return_keys;            /* application's return address -> stub to which excluded calls return */
    uint64_t *return_stubs;
    size_t return_size, return_used;
    uint32_t counters; /* call counters in use */
    uint64_t *counter_targets;
};

struct stalk_cache *ct_stalk_cache_for(struct ct_stalker *s, uint32_t mask, bool count_calls,
                                       const struct ct_stalker_transformer *transformer);
/* Frees the cache. `may_call`: functions of the process may be called for this (unwind_<isa>.c). */
void ct_stalk_cache_release(struct stalk_cache *c, bool may_call);
/* Too much of the cache is garbage: empties it if no other thread is in it, or replaces it by an empty one. The calling
 * thread is in the engine, and needs nothing of the cache any more. */
void ct_stalk_cache_renew(struct stalk_thread *t);
/* Frees replaced caches that no thread is in. Returns the bytes of code that were freed. */
uint64_t ct_stalk_cache_sweep(struct ct_stalker *s, struct stalk_thread *t);
/* All callouts are going away: calls their destroy functions. `t`: the calling thread, in the engine; NULL: the caller
 * runs natively. */
void ct_stalk_callouts_destroy(struct stalk_cache *c, struct stalk_thread *t);
struct stalk_entry *ct_stalk_find(const struct stalk_cache *c, uint64_t address);
int ct_stalk_insert(struct stalk_cache *c, struct stalk_entry *e);
/* Returns the region that serves this original address, made when needed. */
struct stalk_region *ct_stalk_region_for(struct stalk_cache *c, uint64_t address);
/* Ensures that the region's chunk has `room` bytes, and that code that rarely runs has room, too. */
int ct_stalk_reserve(struct stalk_region *r, size_t room);
/* Returns the region that serves this address and has room for a fragment of that size. */
int ct_stalk_region_with_room(struct stalk_cache *c, uint64_t address, size_t room, struct stalk_region **out);
/* Allocates `size` bytes for code that rarely runs. */
int ct_stalk_cold_room(struct stalk_region *r, size_t size, uint64_t *run, uint8_t **write);
/* Allocates `size` bytes for inline caches. */
int ct_stalk_warm_room(struct stalk_region *r, size_t size, uint64_t *run, uint8_t **write);
/* The fragment is finished: adds it to the chunk. */
int ct_stalk_place(struct stalk_region *r, struct stalk_fragment *f);
/* Returns the fragment whose code contains pc, or NULL. */
struct stalk_fragment *ct_stalk_fragment_at(const struct stalk_cache *c, uint64_t pc);
/* Returns the region whose copy of the helpers contains pc, among those that the thread may be in; or NULL. */
const struct stalk_region *ct_stalk_region_at(const struct stalk_thread *t, uint64_t pc);
static inline uint64_t ct_stalk_helper(const struct stalk_region *r, const uint8_t *routine) {
    extern const uint8_t ct_stalk_code[];
    return r->helpers + (uint64_t)(routine - ct_stalk_code);
}
/* Gives up all fragments and frees them. The caller knows that no thread is in their code. Returns the bytes of
 * code. */
uint64_t ct_stalk_cache_flush(struct stalk_cache *c);
void ct_stalk_invalidate_range(struct stalk_cache *c, uint64_t start, uint64_t end);
void ct_stalk_invalidate_fragment(struct stalk_cache *c, struct stalk_fragment *f);
uint32_t ct_stalk_table_index(const struct ct_stalker *s, uint64_t address);
uint32_t ct_stalk_return_index(const struct ct_stalker *s, uint64_t address);

/* May branches be linked to the entry directly? */
static inline bool ct_stalk_trusted(const struct stalk_entry *e) {
    return e->fragment->flags & FRAGMENT_TRUSTED;
}

#endif
