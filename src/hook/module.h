/* SPDX-License-Identifier: Apache-2.0 */
/* Modules as the hooks see them: functions, the scan of the code, and the memory for stubs near it. */
#ifndef CT_HOOK_MODULE_H
#define CT_HOOK_MODULE_H

#include "code/slab.h"
#include "hook/classify.h"
#include "hook/plan.h"
#include "symbols/functions.h"

struct ct_hook_function {
    const char *name; /* "" when nameless */
    uint32_t flags;   /* enum ct_func_flag */
};

/* Stub memory, and a copy of the shared code, for all modules within a range. */
struct ct_hook_region {
    struct ct_hook_region *next;
    uint64_t start, end; /* the code that it serves */
    struct ct_arena *arena;
    struct ct_shared_code shared;
    uint64_t shared_run; /* where the copy of the shared code runs */
    bool shared_written;
};

/* NULL, or a function that is called for code that was patched, or may have been (when all threads run again), and for
 * stubs that are about to be freed. For users that keep copies of code. */
extern void (*ct_hook_on_change)(uint64_t start, size_t size);

/* Everything that is known about the code of this process. */
struct ct_hook_code_map {
    struct ct_hook_module *modules;
    struct ct_hook_region *regions;
    enum ct_wx_mode mode;
    uint64_t unloads; /* the number of modules that the process had unloaded when we last looked */
};

/* Loaded once per module and kept: the scan must show the code as it was before the first patch. */
struct ct_hook_module {
    struct ct_hook_module *next;
    char *path;
    uint64_t start, end;                /* executable segment */
    struct ct_functions *table;         /* NULL for code that belongs to no file */
    struct ct_hook_function *functions; /* parallel to scan.funcs */
    struct ct_scan scan;
    struct ct_hook_region *region;
    bool wanted;                 /* it has hooks, or the engine itself must watch it */
    bool served;                 /* the engine's own hooks are planned */
    bool gone;                   /* was unloaded; kept because records point to it */
    bool return_map;             /* its runtime looks up return addresses: entry-only */
    bool reads_code;             /* its code must stay as it is: see known.h */
    uint64_t own_start, own_end; /* Contrail's own code in it: a hook there would make the engine call itself */
    struct {
        uint64_t start, end;
    } readable[8];
    unsigned readable_count;
};

/* The module that holds the address; loads it when it is new. CT_ERR_NOT_MAPPED, CT_ERR_NOT_CODE ... */
int ct_hook_module_at(struct ct_hook_code_map *map, uint64_t address, struct ct_hook_module **out);
/* By path, file name, or NULL for the program. */
int ct_hook_module_named(struct ct_hook_code_map *map, const char *name, struct ct_hook_module **out);
static inline bool ct_hook_is_own(const struct ct_hook_module *m, uint64_t address) {
    return address >= m->own_start && address < m->own_end;
}

/* Facts about a listed function; for others without a name or anything else. */
struct ct_function_facts ct_hook_module_facts(const struct ct_hook_module *m, size_t index);

/* Marks modules that have been unloaded. True when anything was unloaded since the last time. */
bool ct_hook_code_map_refresh(struct ct_hook_code_map *map);
/* `keep_code`: stubs may still be in use, their memory stays. */
void ct_hook_code_map_free(struct ct_hook_code_map *map, bool keep_code);
/* The region whose stub memory holds the address, or NULL. */
struct ct_hook_region *ct_hook_region_of(const struct ct_hook_code_map *map, uint64_t address);

#endif
