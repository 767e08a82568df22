/* SPDX-License-Identifier: Apache-2.0 */
/* How a function is treated: skipped, recorded on entry only, watched by the engine. Decided from facts alone, so that
 * a process that hooks itself and a controller that hooks another process decide alike. */
#ifndef CT_HOOK_CLASSIFY_H
#define CT_HOOK_CLASSIFY_H

#include "hook/runtime.h"

/* Which side installs the hooks. From outside, the target's functions cannot be replaced by calls of ours, so a stack
 * walk that returns (which has a detour inside) is prepared at its entry. System call filters matter there, since
 * nobody else can make calls for the agent. */
enum ct_classify_side { CT_CLASSIFY_INSIDE, CT_CLASSIFY_OUTSIDE };

struct ct_function_facts {
    enum ct_classify_side side;
    const char *name;    /* "" when nameless */
    uint32_t flags;      /* enum ct_func_flag */
    uint32_t scan_flags; /* enum ct_scan_flag */
    bool referenced;     /* its entry is called, jumped to, or its address taken */
    bool return_map;     /* its module's runtime looks up return addresses */
    bool libc;           /* its module has the C library in it */
    bool reads_code;     /* its module's code must stay as it is */
    bool walks;          /* its module is libunwind */
    bool no_unwinder;    /* no unwinder is loaded: libc will load one when it needs it, and nobody watches that one */
};

struct ct_function_class {
    enum ct_hook_skip_reason skip; /* as far as it is known before a hook is planned */
    enum ct_special special;
    enum ct_hook_entry_only_reason entry_only;
    bool service; /* the engine itself needs a hook, even if nobody else does */
};

struct ct_function_class ct_classify(const struct ct_function_facts *facts);

#endif
