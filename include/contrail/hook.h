/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks on functions of one's own process.
 *
 * A hook patches the entry of a function, so that its calls and returns are seen: by a listener written in C, by the
 * built-in recorder, or by a replacement. Nothing changes for the callers of the function: registers, flags, vector
 * state, stack arguments, unwinding, longjmp, signals, threads and fork behave as before.
 *
 *     struct ct_hooks *hooks;
 *     ct_hooks_create(&hooks, NULL);
 *     struct ct_hook_listener listener = {.size = sizeof listener, .on_call = seen};
 *     ct_hooks_attach(hooks, (void *)puts, &listener, NULL);   // effective at once
 *     puts("hello");                                           // seen() runs first
 *     ct_hooks_destroy(hooks);                                 // every byte as it was
 *
 * Several changes become one with ct_hooks_begin and ct_hooks_commit: all or nothing. Functions return 0 or a negative
 * code of contrail/status.h. A process has one set of hooks at a time. Its functions may be called from any thread, but
 * not from listeners and sinks (CT_ERR_BAD_STATE). Sinks and listeners that are running when a hook is reverted or the
 * set is destroyed finish. Structs begin with their size: the rule is in contrail/contrail.h. */
#ifndef CONTRAIL_HOOK_H
#define CONTRAIL_HOOK_H

#include <contrail/cpu.h>
#include <contrail/event.h>
#include <contrail/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct ct_hooks;

/* How code memory is made writable; AUTO takes the first that the process is allowed. */
enum ct_hooks_memory { CT_HOOKS_MEMORY_AUTO, CT_HOOKS_MEMORY_RWX, CT_HOOKS_MEMORY_DUAL, CT_HOOKS_MEMORY_PROTECT };

struct ct_hooks_options {
    size_t size;
    enum ct_hooks_memory memory;
    size_t max_depth; /* open calls per thread; 0: 1,048,576. Deeper calls run unseen and are counted. */
};

/* `options` may be NULL. */
int ct_hooks_create(struct ct_hooks **out, const struct ct_hooks_options *options);
/* Removes every hook and frees everything. Listeners get on_leave for the frames that were left and not reported yet:
 * those of the calling thread on its present stack, and those of threads that have ended. Frames of running threads,
 * and of suspended coroutines, are open: they return correctly and are still seen. The stubs that they need stay until
 * the process ends. */
void ct_hooks_destroy(struct ct_hooks *hooks);

/* ---- what a hook does ---- */

/* The call that a callback is about. */
struct ct_hook_call {
    size_t size;
    uint32_t hook;        /* number of the hook: dense, in order of attachment; from 0 in a process's first set */
    uint32_t depth;       /* hooked frames that are open below this one on this thread */
    void *function;       /* address that was hooked */
    void *return_address; /* the caller's, as it would be without hooks */
    void *user;           /* as given to ct_hooks_attach */
    uint64_t data;        /* the listener's own: 0 in on_call, kept until on_return of this call */
};

/* Any may be NULL. They run on the thread that calls, on its stack, with all registers saved. Calls that they make into
 * hooked functions are not seen, but counted (ct_hooks_statistics). on_call and on_return may longjmp away. */
struct ct_hook_listener {
    size_t size;
    void (*on_call)(struct ct_cpu_context *cpu, struct ct_hook_call *call);
    void (*on_return)(struct ct_cpu_context *cpu, struct ct_hook_call *call);
    /* A frame was left without returning (longjmp, exception, thread cancellation): its registers are gone. Comes once
     * for each, inner frames first: at once if the engine sees the jump, else with the next hooked call that finds the
     * frame gone, at the latest at ct_hooks_destroy. If the thread has ended, it runs on another. It must return. */
    void (*on_leave)(struct ct_hook_call *call);
};

/* ---- one function ---- */

/* Finds a function by its name: in the program, then in its libraries in the order of the loader; "libz.so.1!inflate"
 * only in that module. Knows what symbol tables and debug files know, static functions too. C++ names are given as they
 * are mangled, or as they are read, with or without parameters. Of several functions of that name in a module, the
 * first. CT_ERR_NOT_FOUND: no module, or none that is named so, has it. */
int ct_hooks_find(struct ct_hooks *hooks, const char *name, void **function);
/* Writes one sentence: which function could last not be hooked by one of the calls below, and why. "": none. */
int ct_hooks_reason(struct ct_hooks *hooks, char *text, size_t size);

/* These return the number of the hook, or a negative code. The listener is copied. */
int ct_hooks_attach(struct ct_hooks *hooks, void *function, const struct ct_hook_listener *listener, void *user);
int ct_hooks_record(struct ct_hooks *hooks, void *function);
/* Calls go to `replacement` instead. *original can be called and runs the function as it was; `original` may be
 * NULL. */
int ct_hooks_replace(struct ct_hooks *hooks, void *function, void *replacement, void **original);

/* Puts the entry bytes back. Calls that are open return correctly and are still seen. */
int ct_hooks_revert(struct ct_hooks *hooks, int hook);

/* Off and on again while threads run: one store, no thread is stopped. */
int ct_hooks_disable(struct ct_hooks *hooks, int hook);
int ct_hooks_enable(struct ct_hooks *hooks, int hook);

/* ---- transactions ---- */

/* Changes between begin and commit are planned at once, so that errors appear at the call that causes them. They take
 * effect together at commit, with the other threads stopped once. All or nothing: when one of the calls has failed,
 * commit fails with its error. A failed commit and an abort leave every byte as it was, and end the transaction. */
int ct_hooks_begin(struct ct_hooks *hooks);
int ct_hooks_commit(struct ct_hooks *hooks);
void ct_hooks_abort(struct ct_hooks *hooks);

/* ---- whole modules ---- */

enum ct_hook_flavor { CT_HOOK_FLAVOR_RECORD, CT_HOOK_FLAVOR_LISTEN };

struct ct_hooks_module {
    size_t size;
    const char *module; /* file name or path; NULL: the program itself */
    enum ct_hook_flavor flavor;
    const struct ct_hook_listener *listener; /* for CT_HOOK_FLAVOR_LISTEN; it is copied */
    void *user;
    /* NULL: every function. Or returns non-zero when the function is to be hooked. `name` is "" when it has none. */
    int (*filter)(void *arg, const char *name, void *address, size_t length);
    void *filter_arg;
};

/* Hooks every function of a loaded module, in one transaction (joins an open one). Functions that cannot be hooked are
 * skipped with a reason; that is not an error. */
int ct_hooks_attach_module(struct ct_hooks *hooks, const struct ct_hooks_module *what);

/* Why a function of a module has no hook. The list exists once, here. */
/* clang-format off */
#define CT_HOOK_SKIP_LIST(X) \
    X(FILTERED,     "left out by the caller's filter") \
    X(PLT,          "linkage stub, not a function") \
    X(COLD,         "cold part of another function") \
    X(ODD_ENTRY,    "entered without a return address on top of the stack") \
    X(FRAGMENT,     "nameless and only reached by conditional jumps: part of another function") \
    X(TOO_SHORT,    "too short for a jump, with no padding after it") \
    X(BRANCH_INTO,  "a branch lands inside the bytes that the patch needs") \
    X(LOOP_ENTRY,   "its first instruction is the target of a short loop that cannot be redirected") \
    X(UNDECODABLE,  "its first bytes are not valid instructions") \
    X(UNMOVABLE,    "its first instructions cannot run elsewhere") \
    X(OVERLAP,      "its first bytes belong to another hooked function") \
    X(OWN_CODE,     "belongs to Contrail itself") \
    X(OUT_OF_REACH, "no free memory within branch reach") \
    X(NO_ROOM,      "its library was loaded later, when the recorder had no room for more functions") \
    X(CAME_LATER,   "its library was loaded later, and the process could not be changed then") \
    X(DOUBTFUL,     "only a debug file knows it, in the midst of another function") \
    X(READ_CODE,    "its runtime reads its code and must find it as it was made (Mono's compiled modules, Valgrind)") \
    X(NO_SPRINGBOARD, \
                    "has room for a short jump only, and no bytes within its reach can hold a springboard")
/* clang-format on */
enum ct_hook_skip_reason {
    CT_HOOK_SKIP_NONE = 0,
#define CT_HOOK_SKIP_ENUM(name, text) CT_HOOK_SKIP_##name,
    CT_HOOK_SKIP_LIST(CT_HOOK_SKIP_ENUM)
#undef CT_HOOK_SKIP_ENUM
        CT_HOOK_SKIP_COUNT
};
const char *ct_hook_skip_name(enum ct_hook_skip_reason reason);
const char *ct_hook_skip_text(enum ct_hook_skip_reason reason);

/* Why a function is recorded on entry only (its return is not seen). */
/* clang-format off */
#define CT_HOOK_ENTRY_ONLY_LIST(X) \
    X(RETURNS_TWICE,  "returns more than once (setjmp, vfork, getcontext)") \
    X(READS_RETURN,   "looks at or changes its own return address") \
    X(POPS_ARGUMENTS, "takes its arguments off the stack (ret n)") \
    X(JUMPS_AWAY,     "never returns to its caller (longjmp)") \
    X(NEW_THREAD,     "starts a process or thread on its own stack (clone)") \
    X(UNWINDER,       "walks or unwinds the stack") \
    X(RETURN_MAP,     "belongs to a runtime that looks up return addresses in tables " \
                      "(OCaml, GHC, Go, V8, HotSpot, Mono)")
/* clang-format on */
enum ct_hook_entry_only_reason {
    CT_HOOK_ENTRY_ONLY_NONE = 0,
#define CT_HOOK_ENTRY_ONLY_ENUM(name, text) CT_HOOK_ENTRY_ONLY_##name,
    CT_HOOK_ENTRY_ONLY_LIST(CT_HOOK_ENTRY_ONLY_ENUM)
#undef CT_HOOK_ENTRY_ONLY_ENUM
        CT_HOOK_ENTRY_ONLY_COUNT
};
const char *ct_hook_entry_only_text(enum ct_hook_entry_only_reason reason);

struct ct_hook_info {
    size_t size;
    int hook; /* -1 when skipped */
    enum ct_hook_skip_reason skip;
    enum ct_hook_entry_only_reason entry_only;
    void *function;
    const char *name;   /* "" when unknown */
    const char *module; /* "" when hooked by address */
};
/* Every function that was asked for: first those with a hook, by number, then those that were skipped. Hooks that are
 * added during the walk may be left out. */
int ct_hooks_next(struct ct_hooks *hooks, uint64_t *position, struct ct_hook_info *info);

/* ---- the built-in recorder ---- */

/* The counter that timestamps are read from, now. */
uint64_t ct_timestamp(void);

/* Takes events of the thread `tid`, oldest first, never two calls at a time for one thread. Called on the recording
 * thread when its buffer is full (guarded as a listener is, signals blocked), on any thread for threads that have
 * ended, and by ct_hooks_flush for the rest. */
typedef void ct_event_sink(void *arg, int tid, const struct ct_event *events, size_t count);

/* Without a sink each thread keeps its newest events in a ring. Call this before the first ct_hooks_record.
 * `buffer_events` per thread is rounded up to a power of two; 0: 16,384. Threads that have recorded already keep their
 * buffers. */
int ct_hooks_set_sink(struct ct_hooks *hooks, ct_event_sink *sink, void *arg, size_t buffer_events);
/* Delivers what all threads have recorded and not delivered yet, while they run on. */
int ct_hooks_flush(struct ct_hooks *hooks);

/* ---- counters ---- */

/* Room for reasons that later versions add. */
#define CT_HOOKS_SKIP_ROOM 32

struct ct_hooks_statistics {
    size_t size;
    uint64_t hooked;                         /* hooks in place */
    uint64_t entry_only;                     /* of them, without returns */
    uint64_t skipped;                        /* functions without a hook */
    uint64_t skipped_by[CT_HOOKS_SKIP_ROOM]; /* by enum ct_hook_skip_reason */
    uint64_t guarded_calls;                  /* calls from listeners into hooked code, not seen */
    uint64_t deep_calls;                     /* calls beyond max_depth, not seen */
    uint64_t left_frames;                    /* frames left without returning */
    uint64_t abandoned;                      /* events that were begun and never completed (siglongjmp out of a stub) */
    uint64_t threads;                        /* threads seen so far */
    uint64_t plan_ns, stop_ns;               /* of the last commit: planning, and how long other threads were stopped */
};
/* All zero, with CT_ERR_BAD_STATE, when it is called from a listener or sink. */
int ct_hooks_statistics(struct ct_hooks *hooks, struct ct_hooks_statistics *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
