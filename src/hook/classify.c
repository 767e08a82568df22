/* SPDX-License-Identifier: Apache-2.0 */
/* Decides about unusual functions: see classify.h. No state: any thread may call it. */
#include "hook/classify.h"
#include "hook/known.h"
#include "hook/scan.h"
#include "symbols/functions.h"
#include <string.h>

/* Functions of libc that load an unwinder and let it walk the stack. Real return addresses must be there before it
 * starts. libunwind's `backtrace` walks by itself. */
static const struct ct_known_function *find_lazy(const struct ct_function_facts *f) {
    static const struct ct_known_function lazy[] = {
        {"backtrace", CT_HOOK_ENTRY_ONLY_UNWINDER, CT_SPECIAL_WALK},
        {"pthread_exit", CT_HOOK_ENTRY_ONLY_UNWINDER, CT_SPECIAL_UNWIND},
    };
    if (f->walks && !strcmp(f->name, lazy[0].name))
        return &lazy[0];
    for (size_t i = 0; f->no_unwinder && i < sizeof lazy / sizeof lazy[0]; i++)
        if (!strcmp(f->name, lazy[i].name))
            return &lazy[i];
    return NULL;
}

/* libc has forwarders with the unwinder's names for its own use. Only its debug file shows them, and they are ordinary
 * functions. */
static const struct ct_known_function *find_known(const struct ct_function_facts *f) {
    bool forwarder = (f->flags & CT_FUNC_LENT_NAME) && !strncmp(f->name, "_Unwind_", 8);
    return forwarder ? NULL : ct_known_find(f->name);
}

/* What the table says about the function, for one side. */
static enum ct_special known_special(const struct ct_known_function *known, const struct ct_function_facts *f) {
    enum ct_classify_side side = f->side;
    if (!known)
        return CT_SPECIAL_NONE;
    /* Other functions of this name (of sanitizers, signal chains) keep handlers themselves, and call the library's. */
    if (known->special == CT_SPECIAL_SIGACTION && !f->libc)
        return CT_SPECIAL_NONE;
    bool outside_only = known->special == CT_SPECIAL_SECCOMP || known->special == CT_SPECIAL_EXEC ||
                        known->special == CT_SPECIAL_SET_BASE || known->special == CT_SPECIAL_LOADED ||
                        known->special == CT_SPECIAL_LOOK || known->special == CT_SPECIAL_TRACE ||
                        known->special == CT_SPECIAL_SIGACTION;
    if (outside_only && side == CT_CLASSIFY_INSIDE)
        return CT_SPECIAL_NONE;
    if (side == CT_CLASSIFY_OUTSIDE && !strcmp(known->name, "_Unwind_Backtrace"))
        return CT_SPECIAL_WALK;
    return known->special;
}

static enum ct_special special_of(enum ct_special known, const struct ct_function_facts *f) {
    uint32_t scan_flags = f->scan_flags;
    if (known)
        return known;
    if (scan_flags & CT_SCAN_LONGJMP)
        return CT_SPECIAL_JUMP;
    if ((scan_flags & CT_SCAN_EXECS) && f->side == CT_CLASSIFY_OUTSIDE)
        return CT_SPECIAL_EXEC;
    if ((scan_flags & CT_SCAN_TAKES_GS) && f->side == CT_CLASSIFY_OUTSIDE)
        return CT_SPECIAL_TAKE_BASE;
    if ((scan_flags & CT_SCAN_TRACES) && f->side == CT_CLASSIFY_OUTSIDE)
        return CT_SPECIAL_TRACE;
    return scan_flags & CT_SCAN_CLONES ? CT_SPECIAL_CLONES : CT_SPECIAL_NONE;
}

static enum ct_hook_entry_only_reason entry_only_of(const struct ct_known_function *known,
                                                    const struct ct_function_facts *f) {
    if (known && known->entry_only)
        return known->entry_only;
    if (f->scan_flags & CT_SCAN_LONGJMP)
        return CT_HOOK_ENTRY_ONLY_JUMPS_AWAY;
    if (f->scan_flags & CT_SCAN_POPS_ARGUMENTS)
        return CT_HOOK_ENTRY_ONLY_POPS_ARGUMENTS;
    if (f->scan_flags & CT_SCAN_USES_RETURN)
        return CT_HOOK_ENTRY_ONLY_READS_RETURN;
    return f->return_map ? CT_HOOK_ENTRY_ONLY_RETURN_MAP : CT_HOOK_ENTRY_ONLY_NONE;
}

static enum ct_hook_skip_reason skip_of(const struct ct_function_facts *f) {
    if (f->flags & CT_FUNC_PLT)
        return CT_HOOK_SKIP_PLT;
    if (f->flags & CT_FUNC_COLD)
        return CT_HOOK_SKIP_COLD;
    if ((f->flags & (CT_FUNC_ODD_ENTRY | CT_FUNC_NO_RETURN_ADDRESS)) || (f->scan_flags & CT_SCAN_SETS_STACK) ||
        ct_known_inner_entry(f->name))
        return CT_HOOK_SKIP_ODD_ENTRY;
    if (f->reads_code)
        return CT_HOOK_SKIP_READ_CODE;
    if (f->flags & CT_FUNC_DOUBTFUL)
        return CT_HOOK_SKIP_DOUBTFUL;
    if ((f->flags & CT_FUNC_GUESSED) && (f->scan_flags & CT_SCAN_CONDITIONAL))
        return CT_HOOK_SKIP_FRAGMENT; /* perhaps entered with a frame */
    bool nameless = !(f->flags & CT_FUNC_NAMED);
    return nameless && (f->scan_flags & CT_SCAN_CONDITIONAL) && !f->referenced ? CT_HOOK_SKIP_FRAGMENT
                                                                               : CT_HOOK_SKIP_NONE;
}

struct ct_function_class ct_classify(const struct ct_function_facts *f) {
    const struct ct_known_function *lazy = find_lazy(f), *known = lazy ? lazy : find_known(f);
    enum ct_special special = special_of(known_special(known, f), f);
    return (struct ct_function_class){
        .skip = skip_of(f),
        .special = special,
        .entry_only = entry_only_of(known, f),
        /* not even services: what runs the code would fail on them */
        .service = special != CT_SPECIAL_NONE && !f->reads_code,
    };
}
