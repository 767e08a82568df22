/* SPDX-License-Identifier: Apache-2.0 */
/* The Stalker: follows threads through translated code.
 *
 * A followed thread does not run the code of its program but copies of it, made block by block as they are reached. The
 * copies behave as the originals: registers, flags, memory, return addresses on the stack, signals and exceptions are
 * as they would be unfollowed. On the way every call, return, block and instruction can be reported to a sink, code can
 * be changed by a transformer, and calls can be probed.
 *
 *     struct ct_stalker *stalker;
 *     ct_stalker_create(&stalker, NULL);
 *     struct ct_stalker_sink sink = {.size = sizeof sink, .mask = CT_STALKER_CALL, .on_receive = seen};
 *     ct_stalker_follow_me(stalker, NULL, &sink);
 *     work();                                      // its calls are recorded
 *     ct_stalker_unfollow_me(stalker);             // seen() has had all of them
 *     ct_stalker_destroy(stalker);
 *
 * Functions return 0 or a negative code of contrail/status.h. They may be called from any thread, but from callbacks
 * only where it is said (CT_ERR_BAD_STATE). Several Stalkers may exist; a thread is followed by one at a time. Structs
 * begin with their size: the rule is in contrail/contrail.h. */
#ifndef CONTRAIL_STALKER_H
#define CONTRAIL_STALKER_H

#include <contrail/cpu.h>
#include <contrail/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct ct_stalker;

/* How code memory is made writable; AUTO takes the first that the process is allowed. */
enum ct_stalker_memory {
    CT_STALKER_MEMORY_AUTO,
    CT_STALKER_MEMORY_RWX,
    CT_STALKER_MEMORY_DUAL,
    CT_STALKER_MEMORY_PROTECT
};

struct ct_stalker_options {
    size_t size;
    enum ct_stalker_memory memory;
    bool follow_children; /* threads that a followed thread starts are followed too */
    /* Targets that an indirect call or jump compares with itself before it uses the table of all: at most 8; 0: 4;
     * -1: none. */
    int inline_cache_entries;
    unsigned drain_interval_ms; /* events that are older are delivered when a block enters the engine; 0: 250 */
    size_t queue_capacity;      /* events that are kept before they are delivered; 0: 16,384 */
};

/* `options` may be NULL. */
int ct_stalker_create(struct ct_stalker **out, const struct ct_stalker_options *options);
/* Every thread must have been unfollowed: CT_ERR_BUSY otherwise, and nothing has changed. */
int ct_stalker_destroy(struct ct_stalker *stalker);

/* ---- events ---- */

/* The list exists once, here: name in masks and on the command line, bit. */
/* clang-format off */
#define CT_STALKER_EVENT_LIST(X) \
    X(CALL,    0x01, "call") \
    X(RET,     0x02, "ret") \
    X(EXEC,    0x04, "exec") \
    X(BLOCK,   0x08, "block") \
    X(COMPILE, 0x10, "compile")
/* clang-format on */
enum ct_stalker_event_kind {
#define CT_STALKER_EVENT_ENUM(name, bit, text) CT_STALKER_##name = bit,
    CT_STALKER_EVENT_LIST(CT_STALKER_EVENT_ENUM)
#undef CT_STALKER_EVENT_ENUM
        CT_STALKER_ALL_EVENTS = 0x1f,
    CT_STALKER_TIMESTAMPS = 0x100, /* in a mask: calls and returns carry the CPU counter */
    /* In a mask: they carry the counter as it was last read, which is after every 16th record, after each system call
     * and whenever code was entered that is not linked (excluded code returned, new code was reached). Half the cost;
     * how long a single short call took is not visible. Without effect beside TIMESTAMPS. */
    CT_STALKER_FAST_CLOCK = 0x200,
    CT_STALKER_MASK = 0x31f, /* all that a mask may hold */
};

struct ct_stalker_event {
    uint32_t kind; /* enum ct_stalker_event_kind */
    /* CALL, RET: frames that are open on the thread when the instruction begins; the frame that called follow_me is
     * 0. */
    int32_t depth;
    uint64_t location;  /* of the instruction; BLOCK, COMPILE: start of the block */
    uint64_t target;    /* CALL, RET: where it goes; BLOCK, COMPILE: end of the block (exclusive) */
    uint64_t timestamp; /* 0 unless asked for */
};

struct ct_stalker_call_count {
    uint64_t target, count;
};

/* Callbacks run on the followed thread, or on the one that flushes, with all registers saved; what they do is not
 * followed. They must not call functions of this header. Any may be NULL. */
struct ct_stalker_sink {
    size_t size;
    uint32_t mask; /* enum ct_stalker_event_kind bits; CALL alone is enough for on_call_summary */
    void *user;
    void (*start)(void *user, int tid);
    /* Events of one thread, oldest first. */
    void (*on_receive)(void *user, int tid, const struct ct_stalker_event *events, size_t count);
    /* How often each target was called since the last time. With this and without on_receive calls are counted in the
     * translated code itself. */
    void (*on_call_summary)(void *user, int tid, const struct ct_stalker_call_count *counts, size_t count);
    void (*flush)(void *user, int tid);
    /* Following has ended: 0, or why the thread goes on unfollowed. */
    void (*stop)(void *user, int tid, int status);
};

/* Bit of an event's name ("call"), or CT_ERR_NOT_FOUND. */
int ct_stalker_event_of(const char *name);

/* ---- transformers ---- */

struct ct_stalker_iterator;
struct ct_stalker_writer;

enum { CT_STALKER_NO_REGISTER = 0xff, CT_STALKER_PC = 0xfe };

/* What kind of instruction it is. */
enum ct_stalker_insn_kind {
    CT_STALKER_INSN_OTHER,
    CT_STALKER_INSN_JUMP,
    CT_STALKER_INSN_BRANCH, /* conditional */
    CT_STALKER_INSN_CALL,
    CT_STALKER_INSN_RETURN,
    CT_STALKER_INSN_SYSCALL,
};

struct ct_stalker_insn {
    size_t size;
    uint64_t address;
    const uint8_t *bytes;
    enum ct_stalker_insn_kind kind;
    uint8_t length;
    bool indirect;       /* branches: the target is not in the instruction */
    bool has_memory;     /* an explicit memory operand: */
    uint8_t base, index; /* registers in hardware numbering, CT_STALKER_PC, CT_STALKER_NO_REGISTER */
    uint8_t scale;
    bool memory_read, memory_written; /* implicit accesses included */
    int64_t displacement;
    int64_t immediate;
    uint64_t target;                            /* of direct branches */
    uint32_t registers_read, registers_written; /* bit n: register n, implicit ones included; arm64: bit 31 is sp */
    uint32_t flags_read, flags_written;         /* as in the flags register */
};

typedef void ct_stalker_callout(struct ct_cpu_context *cpu, void *data);

struct ct_stalker_transformer {
    size_t size;
    /* Writes the translation of one block: every instruction that ct_stalker_iterator_next gives is kept, replaced or
     * left out. Not 0: following stops, and the thread goes on in its original code. NULL: everything is kept. */
    int (*transform)(void *user, struct ct_stalker_iterator *iterator, struct ct_stalker_writer *writer);
    void *user;
};

/* The next instruction of the block; NULL at its end. */
const struct ct_stalker_insn *ct_stalker_iterator_next(struct ct_stalker_iterator *iterator);
/* Writes the current instruction. One that is not kept is not executed. */
void ct_stalker_iterator_keep(struct ct_stalker_iterator *iterator);
/* Calls `callout` here, with the whole state of the thread; its changes take effect, a changed pc too. `destroy` (may
 * be NULL) is called when the memory of the block is freed, at the latest when the Stalker is destroyed. */
void ct_stalker_iterator_put_callout(struct ct_stalker_iterator *iterator, ct_stalker_callout *callout, void *data,
                                     void (*destroy)(void *data));
/* Inserts machine code as it is: it must not depend on its address. */
void ct_stalker_writer_put_bytes(struct ct_stalker_writer *writer, const void *bytes, size_t size);
/* Adds one to *counter, in the code itself: registers and flags stay as they are, nothing is called. Not atomic: what
 * several threads count at one moment may be counted once. `counter` must live as long as the Stalker. */
void ct_stalker_writer_put_count(struct ct_stalker_writer *writer, uint64_t *counter);
/* Inserts a copy of the instruction at `address`, moved as if it were there. Not a branch. */
int ct_stalker_writer_put_insn(struct ct_stalker_writer *writer, uint64_t address);

/* ---- following ---- */

/* Follows the calling thread, from the return of this call on. NULL transformer: code as it is; NULL sink: no events.
 * Both are copied. */
int ct_stalker_follow_me(struct ct_stalker *stalker, const struct ct_stalker_transformer *transformer,
                         const struct ct_stalker_sink *sink);
/* The thread goes on in original code; its events have been delivered. Allowed in callouts. */
int ct_stalker_unfollow_me(struct ct_stalker *stalker);
/* Follows another thread of this process, wherever it is. CT_ERR_NOT_FOUND: this process has no such thread;
 * CT_ERR_BAD_STATE: it is followed already; CT_ERR_BUSY: it is where it cannot be taken over, or is being debugged. */
int ct_stalker_follow(struct ct_stalker *stalker, int tid, const struct ct_stalker_transformer *transformer,
                      const struct ct_stalker_sink *sink);
/* Lets it go on in original code, at any moment. */
int ct_stalker_unfollow(struct ct_stalker *stalker, int tid);
/* Unfollows every thread. */
int ct_stalker_stop(struct ct_stalker *stalker);
/* tid 0: the calling thread. 1, 0 or a negative code. */
int ct_stalker_is_following(struct ct_stalker *stalker, int tid);
/* Delivers what the calling thread has recorded; of other threads what they have handed over. */
int ct_stalker_flush(struct ct_stalker *stalker);
/* Frees code that was given up and that no thread can be executing. Returns the number of bytes, or a negative code. */
int64_t ct_stalker_garbage_collect(struct ct_stalker *stalker);

/* The calling thread stays followed, but its events are dropped: until it comes to the block at `target` (activate), or
 * for good (deactivate). */
int ct_stalker_activate(struct ct_stalker *stalker, uint64_t target);
int ct_stalker_deactivate(struct ct_stalker *stalker);

/* ---- what is followed ---- */

/* Calls into [start, start + size) run natively; following goes on when they return. What such code calls back is not
 * followed. CT_ERR_INVALID_ARGUMENT: empty, or overlaps a range that is excluded already. */
int ct_stalker_exclude(struct ct_stalker *stalker, uint64_t start, uint64_t size);
/* The executable part of a loaded module, by file name or path. */
int ct_stalker_exclude_module(struct ct_stalker *stalker, const char *module);

/* How often a block must have been found unchanged before it is taken for constant: -1 never, 0 at once, default 1.
 * Code in mappings that are writable or shared is compared whenever it is executed, unless the threshold is 0. */
int ct_stalker_set_trust_threshold(struct ct_stalker *stalker, int threshold);
int ct_stalker_trust_threshold(struct ct_stalker *stalker);
/* Code at this address has changed: what was made of it is given up. */
int ct_stalker_invalidate(struct ct_stalker *stalker, uint64_t address);

/* Calls `callout` whenever a followed thread calls `target`: pc is the target, sp points to the return address. Returns
 * the number of the probe, or a negative code; CT_ERR_NOT_MAPPED: there is no code. */
int ct_stalker_add_call_probe(struct ct_stalker *stalker, uint64_t target, ct_stalker_callout *callout, void *data,
                              void (*destroy)(void *data));
/* The probe is not called any more; another thread may still be in it. `destroy` is called when no thread is: now, or
 * by the last thread that leaves it. */
int ct_stalker_remove_call_probe(struct ct_stalker *stalker, int probe);

/* ---- counters ---- */

/* How blocks end. */
/* clang-format off */
#define CT_STALKER_END_LIST(X) \
    X(JUMP, "jump") \
    X(BRANCH, "conditional branch") \
    X(CALL, "call") \
    X(CALL_INDIRECT, "indirect call") \
    X(JUMP_INDIRECT, "indirect jump") \
    X(RETURN, "return") \
    X(SYSCALL, "system call") \
    X(LIMIT, "size limit, or the next block is known") \
    X(OTHER, "code that cannot be followed")
/* clang-format on */
enum ct_stalker_end {
#define CT_STALKER_END_ENUM(name, text) CT_STALKER_END_##name,
    CT_STALKER_END_LIST(CT_STALKER_END_ENUM)
#undef CT_STALKER_END_ENUM
        CT_STALKER_END_COUNT
};

/* Room for ends that later versions add. */
#define CT_STALKER_END_ROOM 16

struct ct_stalker_statistics {
    size_t size;
    uint64_t blocks;       /* translated, those within larger fragments included */
    uint64_t fragments;    /* runs of blocks that were translated together */
    uint64_t instructions; /* translated */
    uint64_t original_bytes, code_bytes, metadata_bytes;
    uint64_t ends[CT_STALKER_END_ROOM]; /* of blocks, by enum ct_stalker_end */
    uint64_t entries;                   /* of the engine, by any thread */
    uint64_t lookups;                   /* of them, indirect branches that the code itself could not resolve */
    uint64_t links;                     /* branches that go straight to their target */
    uint64_t recycled;                  /* blocks found unchanged */
    uint64_t changed;                   /* blocks found changed */
    uint64_t invalidated;               /* fragments given up */
    uint64_t events, lost_events;
    uint64_t excluded_calls; /* through the engine */
    uint64_t signals;        /* delivered into translated code */
    uint64_t cached;         /* targets put into inline caches */
    uint64_t crowded;        /* indirect calls and jumps that had more targets than their inline cache */
};
int ct_stalker_statistics(struct ct_stalker *stalker, struct ct_stalker_statistics *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
