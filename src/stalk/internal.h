/* What the files of the Stalker share.
 *
 * Freestanding, as everything here: no libc, no thread-local storage, general registers only; it runs inside followed threads, on
 * a stack of its own, also in the agent.
 *
 * Who may touch what: a stalk_thread belongs to its thread while that is in the engine; everything else belongs to who
 * holds stalker->lock. Translated code reads the tables without the lock: their words are changed by single stores.
 *
 * Words: an entry is an address that translated code exists for; a fragment is what was translated in one go, one block or
 * several that follow each other; an exit is a place where a fragment leaves by a direct branch. */
#ifndef CT_STALK_INTERNAL_H
#define CT_STALK_INTERNAL_H

#include <contrail/stalker.h>
#include "stalk/chains.h"
#include "abi/stalk_abi.h"
#include "code/slab.h"
#include "isa/isa.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/layout.h"
#include <stdbool.h>

/* API functions run natively when followed code calls them. */
#define STALK_API __attribute__((section("ct_stalk_text")))

enum {
    STALK_GARBAGE = 1 << 20, /* bytes of code that was given up before all is begun anew */
    STALK_TABLE_BITS = 16,
    STALK_TABLE_SIZE = 1 << STALK_TABLE_BITS,
    STALK_CHUNK = 256 << 10,
    STALK_FRAGMENT_ROOM = 16 << 10, /* more than one fragment needs */
    STALK_MAX_INSNS = 128,
    STALK_MAX_EXITS = 48,
    STALK_MAX_EXCLUDED = 1 << 14,
    STALK_MAX_MAPS = 2048,
    STALK_MOST_ACROSS = 14, /* bytes of an instruction in the next mapping */
    STALK_MAX_FRAMES = 1 << 16,
    STALK_STACK = 256 << 10,
    STALK_RETURN_SLOT = 64, /* bytes of a stub that excluded calls return to */
    STALK_RETURN_NOP = 3,   /* bytes before the address that they return to */
    STALK_RETURN_WORD = 40, /* where the application's return address lies in it */
    STALK_RETURN_ROOM = 512 << 10,
    STALK_ID_CHUNK = 4096, /* items per chunk of numbered things */
    STALK_ID_CHUNKS = 1 << 14,
    STALK_SIGNALS = 65,
    STALK_MAX_PROBES = 1024,
    STALK_MAX_INLINE = 8,    /* targets of an inline cache */
    STALK_MOST_REFILLS = 15, /* of an inline cache; then its branch is not worth one */
    CT_COUNTERS = 1 << 18,   /* call sites that can be counted */
};

struct stalk_thread;
struct stalk_cache;

/* Reached through GS. */
struct stalk_area {
    uint64_t gpr[16];
    uint64_t flags, resume, reason, target;
    struct stalk_thread *thread;
    uint64_t stack, fn_engine;
    uint32_t in_engine, alternate;
    uint64_t events;
    uint64_t pending, mask;
    uint64_t *counters;
    uint64_t native;
    uint64_t spill;
    uint32_t tid, busy;
    uint64_t own;
};
#define STALK_ASSERT_AT(field, offset)                                                                                 \
    _Static_assert(__builtin_offsetof(struct stalk_area, field) + CT_AREA == (offset), #field)
STALK_ASSERT_AT(flags, CT_AREA_FLAGS);
STALK_ASSERT_AT(resume, CT_AREA_RESUME);
STALK_ASSERT_AT(reason, CT_AREA_REASON);
STALK_ASSERT_AT(target, CT_AREA_TARGET);
STALK_ASSERT_AT(thread, CT_AREA_THREAD);
STALK_ASSERT_AT(stack, CT_AREA_STACK);
STALK_ASSERT_AT(fn_engine, CT_AREA_FN_ENGINE);
STALK_ASSERT_AT(in_engine, CT_AREA_IN_ENGINE);
STALK_ASSERT_AT(alternate, CT_AREA_ALTERNATE);
STALK_ASSERT_AT(events, CT_AREA_EVENTS);
STALK_ASSERT_AT(pending, CT_AREA_PENDING);
STALK_ASSERT_AT(mask, CT_AREA_MASK);
STALK_ASSERT_AT(counters, CT_AREA_COUNTERS);
STALK_ASSERT_AT(native, CT_AREA_NATIVE);
STALK_ASSERT_AT(spill, CT_AREA_SPILL);
STALK_ASSERT_AT(tid, CT_AREA_TID);
STALK_ASSERT_AT(busy, CT_AREA_BUSY);
STALK_ASSERT_AT(own, CT_AREA_OWN);
_Static_assert(sizeof(struct stalk_area) <= CT_AREA_SIZE, "room in the block");

/* Memory that is only given back all at once. */
struct stalk_pool {
    void *blocks;
    uint8_t *block;
    size_t used, size;
    uint64_t *bytes; /* counted here */
};

/* Things that generated code names by number: they never move. */
struct stalk_ids {
    void **chunks;
    uint32_t count, item_size;
};

/* ---- code ---- */

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

/* A place where a fragment leaves by a jump that is changed when it is known where to. Indirect branches with an inline cache are
 * such exits (kind says so), and have links, exits too, one for each target: they are in the lists of the entries that they lead to, and
 * giving up one empties the cache. */
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

/* Bytes of a record: number of the site; for calls and returns also the stack pointer, a target and perhaps the time. */
static inline unsigned ct_stalk_record_size(uint32_t mask) {
    if (!(mask & (CT_STALKER_CALL | CT_STALKER_RET)))
        return 8;
    return mask & CT_STALKER_TIMESTAMPS ? 32 : CT_RECORD_SIZE;
}

/* Where the site's number is in a record of that size. */
static inline unsigned ct_stalk_site_offset(unsigned record_size) {
    return record_size == 8 ? 0 : CT_RECORD_SITE;
}

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
    struct stalk_chunk *cold;  /* the same with what runs seldom; NULL: none yet */
    struct stalk_chunk *warm;  /* the same with inline caches */
    uint64_t low, high;        /* originals it serves */
    uint64_t helpers;          /* run address of the copy of ct_stalk_code */
};

/* A critical section of rseq(2) that was translated. */
struct stalk_section {
    struct stalk_section *next;
    uint64_t begin, start, end,
        abort;             /* of the program: where the description is loaded, the section, where it is begun again */
    uint64_t *description; /* of the copy, for the kernel; never freed */
};

enum stalk_told { STALK_TELLING = 1, STALK_TOLD }; /* somebody is at it; that is done */

/* Everything that was translated for one combination of events and transformer. */
struct stalk_cache {
    struct stalk_cache *next;
    struct ct_stalker *stalker;
    uint32_t mask;
    bool count_calls; /* call summary without events */
    struct ct_stalker_transformer transformer;
    uint64_t *table;        /* below 2 GiB: [hash of the target] -> code */
    uint64_t *return_table; /* the same for returns: return sites differ in their lowest bits, functions do not */
    uint64_t miss;          /* what an empty place holds */
    uint64_t return_miss;   /* the same for returns */
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
    bool tells_destroy;               /* of callouts: somebody wants to know */
    uint64_t dead_bytes;              /* of code that was given up */
    struct stalk_region *home;        /* of the return chunk */
    struct stalk_chunk *return_chunk; /* of stubs that excluded calls return to */
    struct stalk_unwind *unwind;      /* NULL: no unwinder has been told */
    uint32_t unwind_told;             /* enum stalk_told */
    uint64_t *return_keys;            /* application return address -> code that excluded calls return to */
    uint64_t *return_stubs;
    size_t return_size, return_used;
    uint32_t counters; /* call counters in use */
    uint64_t *counter_targets;
};

/* ---- threads ---- */

/* An event for the agent alone: calls and returns that follow are on another stack. `target` is its number, from 0 on; they are used
 * again. `location` is 1 when it is a new one: what was open on another that had the number was left. */
#define STALK_STACK_EVENT 0x20u

/* See stacks.c. */
struct stalk_stack {
    uint64_t high; /* its outermost slot that was seen */
    int32_t depth; /* when it was suspended */
    uint32_t next; /* in the list of free ones */
    bool listed;
};
struct stalk_stacks {
    uint32_t running, home;
    uint64_t home_low, home_size; /* the thread's own stack */
    uint32_t count, used, free;
    struct stalk_stack pool[STALK_STACKS];
    uint32_t order[STALK_STACKS]; /* stacks other than the thread's own, by `high` */
    struct stalk_chains chains;
};
/* The running stack's newest frames; `base_depth` is the depth of the first. */
struct stalk_run {
    uint64_t *frames;
    uint32_t count;
    int32_t base_depth;
};
enum stalk_change { STALK_SAME_STACK, STALK_OTHER_STACK, STALK_NEW_STACK };

/* A handler runs on the alternate signal stack: frames from the one with number begin - 1 on. */
struct stalk_alternate {
    uint32_t begin; /* 0: none does */
    uint64_t low, size;
};

/* What a vfork's parent finds again when its child has left its memory (vfork.c). */
struct stalk_apart {
    int32_t tid; /* of the child, while it is there; 0: there is none */
    uint32_t muted;
    uint64_t resume, activation, native, fault_pc, through;
};

/* What is asked of whoever has the Stalker when processes are made; in the agent only. On the thread, in the engine. */
struct stalk_family {
    bool (*wants)(void); /* is about to make a process: is it to be followed? */
    bool (*forked)(int before,
                   int tid); /* in the child, whose thread has another number now; false: it goes on natively */
    void (*executes)(uint64_t path, int directory);
    void (*unmapped)(uint64_t start,
                     uint64_t end); /* code that was there is not there any more; all calls of it were told */
};

struct stalk_thread {
    struct stalk_area *area; /* first: assembly */
    struct ct_stalker *stalker;
    struct stalk_cache *cache;
    struct stalk_cache *left; /* it has changed over, and is on its way out of this one's helpers; NULL: none */
    struct stalk_thread *next;
    int32_t tid;
    uint32_t following; /* 1; 2: asked to end; 0: not any more, and nothing is left to do */
    uint32_t ending;    /* somebody does what is left to do: the thread, or who has seen it run natively */
    uint32_t in_callback;
    int32_t status; /* why following ended */
    uint64_t begin; /* BEGIN and END: where the thread stood */
    uint64_t land;  /* LAND: where the excluded call would have returned to */
    struct ct_stalker_sink sink;
    void *own_block; /* the GS block that we made; NULL: the hooks' */
    uint64_t stack;  /* memory of the engine's stack */
    /* events */
    uint8_t *records_memory; /* 2 * CT_EVENT_ROOM bytes; in them: */
    uint8_t *records;        /* CT_EVENT_ROOM bytes, aligned to as much */
    uint64_t *counters;      /* the area's, CT_COUNTERS of them */
    uint64_t records_top;
    uint64_t taken;  /* records from here up have been expanded */
    uint64_t clock;  /* with the fast one: its last reading; else 0 */
    int32_t claimed; /* tid of who expands and delivers; 0: nobody */
    struct ct_stalker_event *queue;
    uint32_t queued, queue_size, muted;
    uint64_t activation; /* muted until this is reached; 0: never */
    uint64_t drained_at;
    uint32_t entries;            /* of the engine */
    struct stalk_stacks *stacks; /* NULL: there was one only */
    uint64_t *frames;            /* of the running stack: the places of return addresses, outermost first */
    uint32_t frame_count;
    int32_t base_depth;
    struct stalk_alternate alternate;
    struct ct_stalker_call_count *summary; /* hash by target */
    uint32_t summary_size, summary_used;
    /* signals */
    bool at_entry;                          /* a signal came when another was about to be told, */
    uint64_t entry_mask;                    /* whose mask was this */
    uint64_t fault_pc;                      /* went there natively, to fault */
    uint64_t alternate_low, alternate_size; /* the area's alternate: of that stack */
    uint64_t through; /* calls with a return address below this are followed, excluded or not; 0: none */
    struct stalk_apart apart;
    struct stalk_area interrupted; /* END: the area as the thread left it */
};

struct stalk_range {
    uint64_t start, end;
};

struct stalk_map {
    uint64_t start, end;
    bool changes; /* writable, or shared with who can write it: without a system call that would tell us */
};

struct stalk_probe {
    uint64_t target;
    ct_stalker_callout *fn;
    void *data;
    void (*destroy)(void *data);
    bool used;
    uint32_t users; /* threads that are in it, and the one that has added it */
};

struct stalk_action { /* the kernel's struct sigaction */
    uint64_t handler, flags, restorer, mask;
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
    bool has_rorx, quick_loop, has_gsbase, follow_children;
    bool tell_stacks;                  /* by events of kind STALK_STACK_EVENT */
    bool tell_sites;                   /* `depth` of a BLOCK is the number of its site */
    const struct stalk_family *family; /* NULL: children are nobody's business */
    struct ct_vectors vectors;
    struct stalk_cache *caches;
    bool keeps_sites;          /* whoever has it knows blocks by the numbers of their sites: caches are not replaced */
    struct stalk_cache *empty; /* replaced caches whose home could not be freed yet */
    struct stalk_thread *threads;
    uint32_t followed;
    uint32_t adopting; /* threads that look whether they are to be followed */
    bool cloned;       /* threads were started: they may stand where they begin, and are nobody's yet */
    struct stalk_range excluded[STALK_MAX_EXCLUDED]; /* the first is ours, the others are by address */
    uint32_t excluded_count;
    struct stalk_map maps[STALK_MAX_MAPS];
    uint32_t map_count;
    struct stalk_probe probes[STALK_MAX_PROBES];
    uint32_t probe_count;
    struct ct_stalker_statistics statistics;
    struct stalk_pool pool; /* what lives as long as the Stalker */
};

/* ---- memory.c ---- */

void ct_stalk_lock(struct ct_stalker *s);
void ct_stalk_unlock(struct ct_stalker *s);
/* Zeroed. NULL: out of memory. */
void *ct_stalk_alloc(struct stalk_pool *pool, size_t size);
void ct_stalk_pool_free(struct stalk_pool *pool);
static inline void *ct_stalk_item(const struct stalk_ids *ids, uint32_t id) {
    return (uint8_t *)ids->chunks[id / STALK_ID_CHUNK] + (size_t)(id % STALK_ID_CHUNK) * ids->item_size;
}
/* A new item, or 0 (which is never given out). */
uint32_t ct_stalk_new_item(struct stalk_pool *pool, struct stalk_ids *ids, uint32_t item_size);
static inline void ct_stalk_copy(void *to, const void *from, size_t n) {
    uint8_t *t = to;
    const uint8_t *f = from;
    for (size_t i = 0; i < n; i++)
        t[i] = f[i];
}
static inline bool ct_stalk_same(const void *a, const void *b, size_t n) {
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return false;
    return true;
}
/* Is there executable code at pc? Tells where its mapping ends, and whether it may change at any time. */
bool ct_stalk_executable(struct ct_stalker *s, uint64_t pc, uint64_t *end, bool *changes);
void ct_stalk_forget_maps(struct ct_stalker *s);
/* Unless they are known. */
void ct_stalk_know_maps(struct ct_stalker *s);

/* ---- cache.c ---- */

struct stalk_cache *ct_stalk_cache_for(struct ct_stalker *s, uint32_t mask, bool count_calls,
                                       const struct ct_stalker_transformer *transformer);
/* Everything is freed; `may_call`: functions of the process may be called for it (unwind_<isa>.c). */
void ct_stalk_cache_release(struct stalk_cache *c, bool may_call);
/* Too much of the cache is garbage: frees it if nobody else is in it, or has an empty one take its place. The thread is in the engine, and
 * needs nothing of it any more. */
void ct_stalk_cache_renew(struct stalk_thread *t);
/* Frees caches that have been replaced and that nobody is in. The bytes of code. */
uint64_t ct_stalk_cache_sweep(struct ct_stalker *s, struct stalk_thread *t);
/* All of it goes: owners of callouts are told. `t`: the calling thread, in the engine; NULL: it runs natively. */
void ct_stalk_callouts_destroy(struct stalk_cache *c, struct stalk_thread *t);
struct stalk_entry *ct_stalk_find(const struct stalk_cache *c, uint64_t address);
int ct_stalk_insert(struct stalk_cache *c, struct stalk_entry *e);
/* Region that serves this original address, made when needed. */
struct stalk_region *ct_stalk_region_for(struct stalk_cache *c, uint64_t address);
/* Makes sure that the region's chunk has `room` bytes. */
int ct_stalk_reserve(struct stalk_region *r, size_t room);
/* Takes `size` bytes for code that runs seldom. */
int ct_stalk_cold_room(struct stalk_region *r, size_t size, uint64_t *run, uint8_t **write);
/* The same for inline caches. */
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

/* ---- translate.c ---- */

/* Translated code for an address, trusted or checked now. NULL: cannot be followed; *status tells why (CT_ERR_NOT_MAPPED: no code
 * there). */
struct stalk_entry *ct_stalk_obtain(struct stalk_thread *t, uint64_t address, int *status);
/* The return site of a call, before it is needed. */
void ct_stalk_translate_ahead(struct stalk_thread *t, uint64_t address);
/* Gives up every fragment whose original has changed. `others_run`: threads, which may unmap it meanwhile. */
void ct_stalk_check_all(struct ct_stalker *s, bool others_run);
/* Branches may go there directly. */
static inline bool ct_stalk_trusted(const struct stalk_entry *e) {
    return e->fragment->flags & FRAGMENT_TRUSTED;
}
bool ct_stalk_excluded(const struct ct_stalker *s, uint64_t address);
/* The first range, ours apart, that begins behind the address. */
uint32_t ct_stalk_excluded_behind(const struct ct_stalker *s, uint64_t address);
/* The same for calls, of setjmp too. */
bool ct_stalk_runs_natively(const struct ct_stalker *s, uint64_t target);
/* By the user. */
bool ct_stalk_has_excluded(const struct ct_stalker *s);
int ct_stalk_probe_at(const struct ct_stalker *s, uint64_t address);
/* One user less: the last one tells the owner. */
void ct_stalk_probe_leave(struct stalk_probe *p);

/* ---- lower_<isa>.c ---- */

struct stalk_build; /* build.h */

/* The exit goes straight to the entry from now on. */
void ct_stalk_link(struct stalk_cache *c, uint32_t exit, struct stalk_entry *e);
void ct_stalk_unlink(struct stalk_cache *c, uint32_t exit);
/* The indirect branch knows one target more from now on. */
void ct_stalk_cache_target(struct stalk_cache *c, uint32_t exit, struct stalk_entry *e);
/* It has no inline cache from now on. */
void ct_stalk_take_table(struct stalk_cache *c, uint32_t exit);
/* The table leads indirect branches to the entry from now on. */
void ct_stalk_publish(struct stalk_cache *c, struct stalk_entry *e);
/* The same for returns. */
void ct_stalk_publish_return(struct stalk_cache *c, struct stalk_entry *e);
/* Code that an excluded call returns to, for the application's return address. 0: out of memory. */
uint64_t ct_stalk_return_stub(struct stalk_cache *c, uint64_t return_address);
/* Where the address of such code is kept, by return address; of code of other kinds by an address and one of these bits. 0 there: it is to
 * be made. NULL: out of memory. */
#define STALK_KEY_CLONE          (1ull << 63)
#define STALK_KEY_CLONE_FOLLOWED (3ull << 62)
#define STALK_KEY_CLONE_VFORK    (5ull << 61)
#define STALK_KEY_TARGET         (1ull << 62)
#define STALK_KEY_SETTER         (1ull << 61)
uint64_t *ct_stalk_stub_place(struct stalk_cache *c, uint64_t key);
/* The application's return address for such code; 0: it is none. */
uint64_t ct_stalk_return_of(const struct stalk_cache *c, uint64_t stub);
/* A copy of a system call that may return twice. The child goes on at `next`, natively or through ct_stalk_child, or both go to
 * the engine (vfork.c). */
enum stalk_clone { STALK_CLONE_NATIVE, STALK_CLONE_THREAD, STALK_CLONE_VFORK };
uint64_t ct_stalk_clone_stub(struct stalk_cache *c, uint64_t next, uint64_t resume, enum stalk_clone kind);
bool ct_stalk_has_rorx(void);
bool ct_stalk_has_quick_loop(void);
/* Does the word look like a return address: is there a call before it? */
bool ct_stalk_follows_call(struct ct_stalker *s, uint64_t address);

/* ---- excluded_<isa>.c ---- */

/* The exit calls excluded code, and returns through `stub`, without the engine from now on. */
void ct_stalk_link_excluded(struct stalk_cache *c, uint32_t exit, uint64_t target, uint64_t stub);
/* The same for indirect branches to `target` with this return address on the stack. */
void ct_stalk_publish_excluded(struct stalk_cache *c, uint64_t target, uint64_t address, uint64_t stub);
void ct_stalk_clear_native(struct stalk_cache *c);

/* ---- unwind_<isa>.c ---- */

/* Functions of the process, by enum stalk_function; 0: there is none. */
enum stalk_function {
#define CT_STALK_FUNCTION_ENUM(name, text) STALK_##name,
    CT_STALK_FUNCTION_LIST(CT_STALK_FUNCTION_ENUM)
#undef CT_STALK_FUNCTION_ENUM
        STALK_FUNCTIONS
};
_Static_assert(STALK_FUNCTIONS == CT_STALK_FUNCTIONS, "the list is counted");
extern uint64_t ct_stalk_functions[STALK_FUNCTIONS];
/* Those that the linker has found, where nobody has told. */
void ct_stalk_find_functions(void);
bool ct_stalk_is_setjmp(uint64_t address);

/* Unwinders find their way through the stubs of the return chunk, and following goes on when an exception leaves through one. Calls a
 * function of the process, once for a cache. */
void ct_stalk_unwind_register(struct stalk_cache *c);
/* False: the range must stay as it is. */
bool ct_stalk_unwind_deregister(struct stalk_cache *c);

/* ---- section_<isa>.c ---- */

/* Where a thread goes on that was stopped at pc in its own code and is moved: the kernel would have begun a section again. */
uint64_t ct_stalk_section_interrupted(uint64_t thread_pointer, uint64_t pc);
/* The code of all sections goes. */
void ct_stalk_sections_forget(struct stalk_cache *c);
/* In the child of a fork: another thread of its parent may have had the lock. */
void ct_stalk_sections_in_child(void);
/* Where a thread goes on that has left translated code at pc: elsewhere if it was about to enter a section, or in one. */
uint64_t ct_stalk_section_again(const struct stalk_cache *c, uint64_t pc);

/* ---- landing_<isa>.c ---- */

/* Code for setjmp to return to instead of `address`: it follows threads that are followed when they get there. 0: no room. */
uint64_t ct_stalk_landing(struct ct_stalker *s, uint64_t address);
/* The application's return address for such code, from any place in it; 0: it is none. */
uint64_t ct_stalk_landing_of(uint64_t pc);
/* The copy of the helpers that these use, if it contains pc. */
const struct stalk_region *ct_stalk_landing_region(uint64_t pc);
bool ct_stalk_landings_shared(void);
void ct_stalk_landings_in_child(void);

/* ---- engine.c ---- */

uint64_t ct_stalk_engine(struct stalk_thread *t);
/* Calls fn(arg) written in ordinary C: vector state saved, the thread marked as being in a callback. */
void ct_stalk_call_out(struct stalk_thread *t, void (*fn)(void *arg, void *vectors), void *arg);
/* Following ends: sinks are told. The caller lets the thread go on natively. */
void ct_stalk_finish(struct stalk_thread *t, int status);
void ct_stalk_tell_stop(struct stalk_thread *t);
/* Whoever comes first does what is left to do. */
bool ct_stalk_claim_end(struct stalk_thread *t);
/* The last of that: others may see now that it is over. */
void ct_stalk_unfollowed(struct stalk_thread *t);
/* BEGIN: from now on the thread is in translated code. */
void ct_stalk_begun(struct stalk_thread *t);
/* END: the area becomes what it was where the thread was stopped. */
void ct_stalk_area_back(struct stalk_thread *t);

/* ---- syscall.c ---- */

/* A system call is about to be made: where the thread continues. */
uint64_t ct_stalk_syscall_enter(struct stalk_thread *t);

/* ---- vfork.c ---- */

/* Before the system call; in the child, when it is in the engine for the first time; in the parent, wherever it is first seen. */
void ct_stalk_apart_prepare(struct stalk_thread *t, uint64_t resume);
void ct_stalk_apart_begin(struct stalk_thread *t);
void ct_stalk_apart_end(struct stalk_thread *t);
/* The same, where the parent runs: a child that was killed in the engine may have had the lock. */
void ct_stalk_apart_release(struct ct_stalker *s);
/* The calling thread is that child. */
static inline bool ct_stalk_is_apart(const struct stalk_thread *t) {
    return t->apart.tid && t->apart.tid == ct_os_gettid();
}
/* The calling thread is its parent, and is back. */
static inline bool ct_stalk_is_back(const struct stalk_thread *t) {
    return t->apart.tid && t->tid == ct_os_gettid();
}

/* ---- events.c ---- */

int ct_stalk_events_open(struct stalk_thread *t);
/* Frees what events needed. */
void ct_stalk_events_free(struct stalk_thread *t);
/* Expands the records into the queue, and delivers it when it is time or `deliver`. */
void ct_stalk_events_drain(struct stalk_thread *t, bool deliver);
/* The thread was interrupted at pc, in the middle of a block: what the block's record says too much is taken back. `reached`: the
 * instruction at pc was tried. */
void ct_stalk_events_cut(struct stalk_thread *t, uint64_t pc, bool reached);
/* The process is about to end, or to become another: the calling thread `by` takes what the others have recorded so far. They run on.
 * `counts`: of calls too, which is only right if it ends indeed. */
void ct_stalk_events_drain_others(struct stalk_thread *by, bool counts);
/* The thread goes on in the cache that has taken the place of its own: what it has recorded is expanded first. */
void ct_stalk_events_change_over(struct stalk_thread *t);
/* Of a thread that runs natively. */
void ct_stalk_events_drain_native(struct stalk_thread *t);
/* What a vfork's child has recorded in its parent's stead is forgotten. */
void ct_stalk_events_forget(struct stalk_thread *t);
void ct_stalk_event_compile(struct stalk_thread *t, uint64_t start, uint64_t end);
/* A handler is about to run, in place of what is at pc: a call. `slot`: where its return address lies; `switched`: that is on
 * the alternate stack, and pc's was not. */
void ct_stalk_event_handler(struct stalk_thread *t, uint64_t pc, uint64_t handler, uint64_t slot,
                            const struct stalk_alternate *switched);

/* ---- recover_<isa>.c ---- */

struct stalk_regs {
    uint64_t gpr[16], pc, flags;
};
enum stalk_place { STALK_ELSEWHERE, STALK_CLEAN, STALK_LATER };
/* Registers of the thread, interrupted at regs->pc (by a fault of that instruction if `fault`), become those of the program. ELSEWHERE:
 * not in translated code, nothing changed; LATER: in the engine. */
enum stalk_place ct_stalk_recover(struct stalk_thread *t, struct stalk_regs *regs, bool fault);

/* ---- signal.c ---- */

/* One more thread is followed: handlers that are there now are replaced. One less: the last one puts them back. Once each for every
 * thread, of all Stalkers. */
void ct_stalk_signals_take(void);
void ct_stalk_signals_give_back(void);
/* Somebody puts them back: who takes them waits for it, so it must not stand still. */
bool ct_stalk_signals_going_back(void);
/* The child of a fork has one followed thread. */
void ct_stalk_signals_in_child(void);
/* Everything is blocked; *mask is what was before. */
struct stalk_way {
    uint64_t to;       /* 0: back to the kernel */
    uint64_t natively; /* not 0: with *mask */
};
struct stalk_way ct_stalk_on_signal(uint64_t signal, void *info, void *context, uint64_t *mask);
/* Threads that are in there, or in ct_stalk_child. */
extern uint32_t ct_stalk_underway;
/* rt_sigaction of the program. */
int64_t ct_stalk_sigaction(uint64_t signal, const struct stalk_action *new, struct stalk_action *old);
/* The same of a vfork's child, which has actions of its own but not the memory that we know them in. */
int64_t ct_stalk_sigaction_apart(uint64_t signal, const struct stalk_action *new, struct stalk_action *old);
/* rt_sigreturn: the frame's program counter becomes one of translated code. */
void ct_stalk_sigreturn(struct stalk_thread *t, uint64_t frame);
/* The stack of a call or return whose slot is not just below the innermost frame, or that frame's. *id: of another stack than before. */
enum stalk_change ct_stalk_stacks_run(struct stalk_thread *t, struct stalk_run *run, uint64_t slot, uint32_t *id);
/* Frames that were suspended with the running stack come back when its newer ones have ended. */
void ct_stalk_stacks_refill(struct stalk_thread *t, struct stalk_run *run);

/* In the engine: has the thread left the alternate signal stack? */
void ct_stalk_check_alternate(struct stalk_thread *t);
/* The thread does not make the call in translated code after all: where it was about to, the frame is the program's again. */
void ct_stalk_sigreturn_undo(struct stalk_thread *t, const struct stalk_regs *regs);

/* ---- stalker.c ---- */

/* To every Stalker: what was made of this code is given up. */
void ct_stalk_code_changed(uint64_t start, size_t size);
/* In the child of a fork: another thread of its parent may have had the lock. */
void ct_stalk_list_in_child(void);

/* ---- thread.c ---- */

/* The calling thread's, if it is followed or was; no system call when `block` (its GS base) is known. */
struct stalk_thread *ct_stalk_thread_of_block(uint64_t block);
struct stalk_thread *ct_stalk_thread_current(void);
/* The same for functions that run natively: until ct_stalk_area_leave(t->area) nobody lets the thread go, or frees its state. */
struct stalk_thread *ct_stalk_thread_enter(void);
void ct_stalk_area_leave(struct stalk_area *a);
/* The thread does not find its state any more. */
void ct_stalk_thread_forget(struct stalk_thread *t);
struct stalk_thread *ct_stalk_thread_make(struct ct_stalker *s, int tid,
                                          const struct ct_stalker_transformer *transformer,
                                          const struct ct_stalker_sink *sink, uint64_t present, uint64_t *block,
                                          int *status);
/* The Stalker is being destroyed. */
void ct_stalk_thread_free(struct stalk_thread *t);
/* Every thread stands still, and no GS leads to a block that was made for one: they are freed. */
void ct_stalk_threads_end(void);
/* What threads with this transformer and sink will need: before others are stopped, because it calls functions outside. */
int ct_stalk_make_cache(struct ct_stalker *s, const struct ct_stalker_transformer *transformer,
                        const struct ct_stalker_sink *sink);

/* ---- others.c ---- */

/* From outside: the thread stands still at *pc, and is to go on there when this has returned 0. It is not followed any more as
 * soon as the engine has seen to it. CT_ERR_NOT_FOUND: it was not followed. */
/* Nobody stands in its code any more, or finds it. CT_ERR_BUSY: threads are followed, or do not come out of it. */
int ct_stalk_wait_until_left(struct ct_stalker *s);
/* A thread that was started by a followed one, and that we know nothing of, may stand in its code. */
bool ct_stalk_has_starting(struct ct_stalker *s);
/* For who knows that. CT_ERR_BUSY: threads are followed. */
int ct_stalk_destroy(struct ct_stalker *s);
int ct_stalk_let_go(struct ct_stalker *s, int tid, uint64_t *pc); /* CT_ERR_BUSY: it is where it can only be asked */
/* In translated code, or in the engine; also one that is not followed any more, and on its way out. */
bool ct_stalk_is_inside(const struct ct_stalker *s, int tid, uint64_t pc);
/* The same for threads that have ended without a word, in excluded code. */
void ct_stalk_let_go_gone(struct ct_stalker *s, bool (*is_there)(void *arg, int tid), void *arg);

/* ---- entry_<isa>.S ---- */

extern const uint8_t ct_stalk_code[], ct_stalk_code_end[], ct_stalk_collide[], ct_stalk_miss[],
    ct_stalk_return_collide[], ct_stalk_return_miss[], ct_stalk_uncached[], ct_stalk_native_miss[], ct_stalk_landed[],
    ct_stalk_land[], ct_stalk_clock[], ct_stalk_full[], ct_stalk_syscall[], ct_stalk_begin[], ct_stalk_end[],
    ct_stalk_enter[], ct_stalk_saved[], ct_stalk_switch[], ct_stalk_going[], ct_stalk_restore[],
    ct_stalk_signal_entry[], ct_stalk_signal_blocked[], ct_stalk_signal_return[], ct_stalk_child[];

#endif
