/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of the lists in contrail/hook.h. */
#include <contrail/hook.h>

const char *ct_hook_skip_name(enum ct_hook_skip_reason reason) {
    static const char *const names[] = {"NONE",
#define NAME(name, text) #name,
                                        CT_HOOK_SKIP_LIST(NAME)
#undef NAME
    };
    return (unsigned)reason < CT_HOOK_SKIP_COUNT ? names[reason] : "UNKNOWN";
}

const char *ct_hook_skip_text(enum ct_hook_skip_reason reason) {
    static const char *const texts[] = {"not skipped",
#define TEXT(name, text) text,
                                        CT_HOOK_SKIP_LIST(TEXT)
#undef TEXT
    };
    return (unsigned)reason < CT_HOOK_SKIP_COUNT ? texts[reason] : "unknown reason";
}

const char *ct_hook_entry_only_text(enum ct_hook_entry_only_reason reason) {
    static const char *const texts[] = {"recorded on entry and return",
#define TEXT(name, text) text,
                                        CT_HOOK_ENTRY_ONLY_LIST(TEXT)
#undef TEXT
    };
    return (unsigned)reason < CT_HOOK_ENTRY_ONLY_COUNT ? texts[reason] : "unknown reason";
}
