/* Everything about the code of a target: its modules, their functions, and the plan of all hooks. Nothing is changed in
 * the target by this unit: it reads memory and files, and produces bytes.
 *
 * Made while the target runs (attach) or is stopped (spawn). Stub memory is planned at addresses that are free in the
 * target's maps at that moment; whoever installs the plan maps them with MAP_FIXED_NOREPLACE and plans again should one be taken. */
#ifndef CT_PLAN_TARGET_PLAN_H
#define CT_PLAN_TARGET_PLAN_H

#include "hook/plan.h"
#include "remote/remote.h"
#include <contrail/hook.h>

/* Which functions: globs (fnmatch) on a function's name (mangled or not), its module's file name or path. Everything by default. */
struct ct_target_filter {
    const char *const *only;    /* NULL-terminated, or NULL */
    const char *const *exclude; /* wins over only */
};

/* A function of a module. Its index in the module's array is the symbol_index of the trace: dense, in address order. */
struct ct_target_function {
    uint64_t offset, size; /* in the module's own numbering; run address = module bias + offset */
    const char *name;      /* "" when nameless */
    uint32_t flags;        /* enum ct_func_flag */
    int32_t hook;          /* number of its hook, -1: none */
    uint8_t skip; /* enum ct_hook_skip_reason: why it is not recorded; with a hook: which is for the engine only */
    uint8_t entry_only; /* enum ct_hook_entry_only_reason */
};

struct ct_target_module {
    uint32_t id; /* module_id of the trace: from 1 */
    const char *path, *build_id;
    uint64_t bias;       /* run address = bias + offset */
    uint64_t start, end; /* run addresses of all of its segments */
    uint64_t inode;      /* of its file */
    bool gone;           /* in what ct_recording_each_module shows: it was unloaded since */
    struct ct_target_function *functions;
    size_t function_count;
    uint64_t table_hash;                                    /* FNV-1a 64 over (offset, size, name) of all functions */
    size_t hooked, entry_only, skipped[CT_HOOK_SKIP_COUNT]; /* hooked: and recorded; entry_only: of these */
    bool from_cache;
};

/* One hook: for installing, moving threads and removing. `service`: the engine itself needs it (clone, longjmp, unwinders);
 * services are installed first and removed last. With action NONE it records nothing (its function is filtered out). */
struct ct_target_hook {
    struct ct_plan plan;  /* patches, moves, word_on/word_off */
    uint64_t function_id; /* module_id << 32 | symbol_index */
    uint8_t action;       /* enum ct_hook_action: RECORD or NONE */
    uint8_t special;      /* enum ct_special */
    uint8_t entry_only;   /* enum ct_hook_entry_only_reason */
    bool service;
};

/* Executable memory for stubs: `bytes` go to `address`. */
struct ct_target_region {
    uint64_t address;
    size_t size; /* page multiple; all of it is to be mapped */
    size_t used;
    uint8_t *bytes;
};

struct ct_target_plan {
    struct ct_target_module *modules;
    size_t module_count;
    struct ct_target_hook *hooks; /* by number: dense from 0 */
    size_t hook_count;
    struct ct_target_region *regions;
    size_t region_count;
    uint64_t get_cfa; /* run address of the target's _Unwind_GetCFA, 0: none */
    uint64_t analyse_ns, plan_ns;
    size_t cache_hits, cache_misses;
};

/* A module that has been planned before. */
struct ct_target_known {
    uint64_t start, end, inode;
};

#define CT_TARGET_CACHE_BYTES (128u << 20)
/* $XDG_CACHE_HOME/contrail or ~/.cache/contrail, or the latter in our own home when another user could change those. `make`: it
 * is made. Returns 0 or an errno: ENOENT also when there is none yet, CT_PLACE_NOT_OURS or CT_PLACE_LINK when others
 * could change it. */
int ct_target_cache_find(char *path, size_t size, bool make);

struct ct_target_plan_options {
    struct ct_target_filter filter;
    const char *cache_dir; /* analyses per build-id are kept there, if nobody else can change it; NULL: no cache */
    uint64_t cache_bytes;  /* at most; 0: CT_TARGET_CACHE_BYTES */
    /* For a plan of what has been loaded later: these are left out, numbers go on. hooks[i] has the number first_hook + i. */
    const struct ct_target_known *known;
    size_t known_count;
    uint32_t first_module, first_hook;
    bool has_unwinder;
    bool detail;     /* stubs capture registers and stack of calls */
    bool names_only; /* functions and what they are, and no hooks: nothing is to be patched */
    /* Asked now and then, by the calling thread; true ends it with CT_ERR_TIMEOUT. May be NULL. */
    bool (*given_up)(void *arg);
    void *given_up_arg;
};

/* Reads all modules of the target and plans all hooks, on several threads of ours. The same target gives the same bytes, with
 * or without a cache (text that has changed in memory since it was analysed is analysed again). Modules that are left alone
 * whole (vdso, JIT and anonymous code, a file that cannot be read) appear with their functions skipped, or not at all when
 * they have no file. */
int ct_target_plan_make(struct ct_target_plan **out, struct ct_remote *remote,
                        const struct ct_target_plan_options *options, struct ct_remote_error *error);
void ct_target_plan_free(struct ct_target_plan *plan);

/* A mapping of a module's code; and which of the known modules it belongs to, NULL: none. */
bool ct_target_is_code(const struct ct_os_map *map);
const struct ct_target_known *ct_target_find_known(const struct ct_target_known *known, size_t count,
                                                   const struct ct_os_map *map);

/* Where a thread that stands at pc goes when the hooks are installed; 0: it may stay. */
uint64_t ct_target_plan_moved(const struct ct_target_plan *plan, uint64_t pc, bool in_call);

#endif
