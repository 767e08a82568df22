/* How a function is to be treated: skipped, recorded on entry only, watched by the engine. Decided from facts alone, so that
 * a process that hooks itself and a controller that hooks another one decide alike. */
#ifndef CT_HOOK_CLASSIFY_H
#define CT_HOOK_CLASSIFY_H

#include "hook/runtime.h"

/* Who hooks. From outside nothing of the target can be called in place of its own functions, so a walk of the stack that
 * returns (which has a detour inside) is prepared at its entry; and system call filters matter, since there is nobody else
 * to make calls for the agent. */
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
    bool no_unwinder;    /* none is loaded: libc will load one when it needs it, which nobody watches */
};

struct ct_function_class {
    enum ct_hook_skip_reason skip; /* what can be told before a hook is planned */
    enum ct_special special;
    enum ct_hook_entry_only_reason entry_only;
    bool service; /* the engine itself needs a hook, even if nobody else does */
};

struct ct_function_class ct_classify(const struct ct_function_facts *facts);

#endif
