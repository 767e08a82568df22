/* SPDX-License-Identifier: Apache-2.0 */
/* The code of a target: its modules, their functions, and the plan of all hooks. This unit changes nothing in the
 * target: it reads memory and files, and produces bytes.
 *
 * A plan is made while the target runs (attach) or is stopped (spawn). Stub memory is planned at addresses that are
 * free in the target's maps at that moment. The caller that installs the plan maps them with MAP_FIXED_NOREPLACE, and
 * plans again if one has been taken. */
#ifndef CT_PLAN_TARGET_PLAN_H
#define CT_PLAN_TARGET_PLAN_H

#include "hook/plan.h"
#include "remote/remote.h"
#include <contrail/hook.h>

/* Selects functions by globs (fnmatch) on their name (mangled or not), or their module's file name or path. The default
 * is all functions. */
struct ct_target_filter {
    const char *const *only;    /* NULL-terminated, or NULL */
    const char *const *exclude; /* wins over only */
};

/* A function of a module. Its index in the module's array is its symbol_index in the trace: dense, in address order. */
struct ct_target_function {
    uint64_t offset, size; /* run address = module bias + offset */
    const char *name;      /* "" when nameless */
    uint32_t flags;        /* enum ct_func_flag */
    int32_t hook;          /* number of its hook; -1: none */
    uint8_t skip; /* enum ct_hook_skip_reason: why it is not recorded; a hook that it has is for the engine only */
    uint8_t entry_only; /* enum ct_hook_entry_only_reason */
    bool reals;         /* it computes with floating-point numbers (CT_SCAN_REALS) */
};

struct ct_target_module {
    uint32_t id; /* module_id in the trace, from 1 */
    const char *path, *build_id;
    uint64_t bias;       /* run address = bias + offset */
    uint64_t start, end; /* run addresses of all of its segments */
    uint64_t inode;      /* of its file */
    bool gone;           /* it has been unloaded; only set by ct_recording_each_module */
    struct ct_target_function *functions;
    size_t function_count;
    uint64_t table_hash;                                    /* FNV-1a 64 over (offset, size, name) of all functions */
    size_t hooked, entry_only, skipped[CT_HOOK_SKIP_COUNT]; /* hooked: hooked and recorded; entry_only: part of these */
    size_t guessed;                                         /* part of `hooked` */
    uint64_t code_bytes;                                    /* of its executable sections, without linkage stubs */
    bool from_cache;
};

/* A hook, with what is needed to install it, move threads and remove it. `service`: the engine itself needs it (clone,
 * longjmp, unwinders); services are installed first and removed last. A hook with action NONE records nothing: its
 * function is filtered out. */
struct ct_target_hook {
    struct ct_plan plan;  /* patches, moves, word_on/word_off */
    uint64_t function_id; /* module_id << 32 | symbol_index */
    uint8_t action;       /* enum ct_hook_action: RECORD, LISTEN or NONE */
    uint8_t special;      /* enum ct_special */
    uint8_t entry_only;   /* enum ct_hook_entry_only_reason */
    bool service;
};

/* Executable memory for stubs: `bytes` go to `address`. */
struct ct_target_region {
    uint64_t address;
    size_t size; /* a multiple of the page size; all of it is to be mapped */
    size_t used;
    uint8_t *bytes;
};

/* Coverage in bytes: of a module's code, without parts of functions, of the functions of it that are known, and of
 * those that are recorded. The padding after a function counts as its own. */
struct ct_target_bytes {
    uint64_t code, known, hooked;
};
struct ct_target_bytes ct_target_module_bytes(const struct ct_target_module *module);
/* Are most of its functions unknown? */
bool ct_target_lacks_functions(const struct ct_target_bytes *bytes);
/* Is that worth saying? Of small modules it is not, because much of their code is the linker's; unless nothing is known
 * of the program itself. */
bool ct_target_is_poor(const struct ct_target_bytes *bytes, bool program);

struct ct_target_plan {
    struct ct_target_module *modules;
    size_t module_count;
    struct ct_target_hook *hooks; /* by number, dense from 0 */
    size_t hook_count;
    struct ct_target_region *regions;
    size_t region_count;
    uint64_t get_cfa;          /* run address of the target's _Unwind_GetCFA; 0: none */
    int64_t errno_offset;      /* of errno from the thread pointer; 0: not known */
    const char *errno_unknown; /* why it is not; NULL: it is known, or was not looked for */
    uint64_t analyse_ns, plan_ns;
    size_t cache_hits, cache_misses;
};

/* A module that an earlier plan has. */
struct ct_target_known {
    uint64_t start, end, inode;
};

#define CT_TARGET_CACHE_BYTES (128u << 20)
/* Finds the cache: $XDG_CACHE_HOME/contrail or ~/.cache/contrail; if another user could change that, .cache/contrail in
 * our user's home. `make`: creates the directory if needed. Returns 0 or an errno: ENOENT also if it does not exist
 * yet, CT_PLACE_NOT_OURS or CT_PLACE_LINK if others could change it. */
int ct_target_cache_find(char *path, size_t size, bool make);

struct ct_target_plan_options {
    struct ct_target_filter filter;
    const char *cache_dir; /* for analyses, by build-id; not used if others can change it; NULL: no cache */
    uint64_t cache_bytes;  /* at most; 0: CT_TARGET_CACHE_BYTES */
    /* For a plan of modules that were loaded later: the known ones are left out, and numbers continue. hooks[i] has the
     * number first_hook + i. */
    const struct ct_target_known *known;
    size_t known_count;
    uint32_t first_module, first_hook;
    bool has_unwinder;
    bool detail; /* stubs capture registers and stack of calls */
    bool sample; /* stubs record every Nth call, and count all */
    /* With `sample`: true for functions of which all calls are recorded. Called on several threads. May be NULL. */
    bool (*always)(void *arg, const char *name, const char *module);
    void *always_arg;
    bool fast_clock; /* stubs read the counter only now and then (drain/ticker.h) */
    bool guess;      /* functions of modules whose tables name hardly any (target_guess.h) */
    bool listen;     /* hooks have listeners instead of events; functions that the engine watches are not observed */
    bool names_only; /* only functions and what they are, no hooks: nothing will be patched */
    /* Called now and then on the calling thread; true ends the planning with CT_ERR_TIMEOUT. May be NULL. */
    bool (*given_up)(void *arg);
    void *given_up_arg;
};

/* Reads all modules of the target and plans all hooks, on several threads of our own. The same target gives the same
 * bytes, with or without a cache (text that has changed in memory since its analysis is analysed again, unless only
 * names are wanted). Modules that
 * are left alone completely (vdso, JIT and anonymous code, a file that cannot be read) appear with their functions
 * skipped, or, if they have no file, not at all. */
int ct_target_plan_make(struct ct_target_plan **out, struct ct_remote *remote,
                        const struct ct_target_plan_options *options, struct ct_remote_error *error);
void ct_target_plan_free(struct ct_target_plan *plan);

/* Is this a mapping of a module's code? And the known module that it belongs to; NULL: none. */
bool ct_target_is_code(const struct ct_os_map *map);
const struct ct_target_known *ct_target_find_known(const struct ct_target_known *known, size_t count,
                                                   const struct ct_os_map *map);

/* The hook of the function at this run address; NULL: it has none. */
const struct ct_target_hook *ct_target_plan_hook(const struct ct_target_plan *plan, uint64_t function);

/* Where a thread that is stopped at pc must continue once the hooks are installed; 0: at pc. */
uint64_t ct_target_plan_moved(const struct ct_target_plan *plan, uint64_t pc, bool in_call);

#endif
