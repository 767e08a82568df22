/* SPDX-License-Identifier: Apache-2.0 */
/* The table of functions with a special behaviour. Sorted as `LC_ALL=C sort` does, for bisection. */
#include "hook/known.h"
#include <string.h>

/* clang-format off */
const struct ct_known_function ct_known_functions[] = {
    {"_ULx86_64_step",          CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_LOOK},
    {"_Unwind_Backtrace",       CT_HOOK_ENTRY_ONLY_UNWINDER,      CT_SPECIAL_UNWIND},
    {"_Unwind_ForcedUnwind",    CT_HOOK_ENTRY_ONLY_UNWINDER,      CT_SPECIAL_UNWIND},
    {"_Unwind_RaiseException",  CT_HOOK_ENTRY_ONLY_UNWINDER,      CT_SPECIAL_UNWIND},
    {"_Unwind_Resume",          CT_HOOK_ENTRY_ONLY_UNWINDER,      CT_SPECIAL_UNWIND},
    {"_Unwind_Resume_or_Rethrow", CT_HOOK_ENTRY_ONLY_UNWINDER,    CT_SPECIAL_UNWIND},
    {"_Unwind_SetIP",           CT_HOOK_ENTRY_ONLY_UNWINDER,      CT_SPECIAL_LAND},
    {"_ZN11__sanitizer18BufferedStackTrace10UnwindFastEmmmmj", CT_HOOK_ENTRY_ONLY_NONE, CT_SPECIAL_TRACE},
    {"____longjmp_chk",         CT_HOOK_ENTRY_ONLY_JUMPS_AWAY,    CT_SPECIAL_JUMP},
    {"__clone",                 CT_HOOK_ENTRY_ONLY_NEW_THREAD,    CT_SPECIAL_CLONE},
    {"__clone3",                CT_HOOK_ENTRY_ONLY_NEW_THREAD,    CT_SPECIAL_CLONE},
    {"__execve",                CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_EXEC},
    {"__fentry__",              CT_HOOK_ENTRY_ONLY_READS_RETURN,  CT_SPECIAL_NONE},
    {"__getcontext",            CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_NONE},
    {"__libc_longjmp",          CT_HOOK_ENTRY_ONLY_JUMPS_AWAY,    CT_SPECIAL_JUMP},
    {"__libc_sigaction",        CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_SIGACTION},
    {"__libc_siglongjmp",       CT_HOOK_ENTRY_ONLY_JUMPS_AWAY,    CT_SPECIAL_JUMP},
    {"__libc_vfork",            CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_VFORK},
    {"__longjmp",               CT_HOOK_ENTRY_ONLY_JUMPS_AWAY,    CT_SPECIAL_JUMP},
    {"__longjmp_chk",           CT_HOOK_ENTRY_ONLY_JUMPS_AWAY,    CT_SPECIAL_JUMP},
    {"__setcontext",            CT_HOOK_ENTRY_ONLY_JUMPS_AWAY,    CT_SPECIAL_NONE},
    {"__setjmp",                CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_NONE},
    {"__sigaction",             CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_SIGACTION},
    {"__sigsetjmp",             CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_NONE},
    {"__swapcontext",           CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_NONE},
    {"__unw_step",              CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_LOOK},
    {"__vfork",                 CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_VFORK},
    {"_dl_debug_state",         CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_LOADED},
    {"_longjmp",                CT_HOOK_ENTRY_ONLY_JUMPS_AWAY,    CT_SPECIAL_JUMP},
    {"_mcount",                 CT_HOOK_ENTRY_ONLY_READS_RETURN,  CT_SPECIAL_NONE},
    {"_setjmp",                 CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_NONE},
    {"arch_prctl",              CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_SET_BASE},
    {"clone",                   CT_HOOK_ENTRY_ONLY_NEW_THREAD,    CT_SPECIAL_CLONE},
    {"clone3",                  CT_HOOK_ENTRY_ONLY_NEW_THREAD,    CT_SPECIAL_CLONE},
    {"dl_iterate_phdr",         CT_HOOK_ENTRY_ONLY_READS_RETURN,  CT_SPECIAL_NONE},
    {"dlmopen",                 CT_HOOK_ENTRY_ONLY_READS_RETURN,  CT_SPECIAL_NONE},
    {"dlopen",                  CT_HOOK_ENTRY_ONLY_READS_RETURN,  CT_SPECIAL_NONE},
    {"dlsym",                   CT_HOOK_ENTRY_ONLY_READS_RETURN,  CT_SPECIAL_NONE},
    {"dlvsym",                  CT_HOOK_ENTRY_ONLY_READS_RETURN,  CT_SPECIAL_NONE},
    {"execve",                  CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_EXEC},
    {"execveat",                CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_EXEC},
    {"fexecve",                 CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_EXEC},
    {"getcontext",              CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_NONE},
    {"longjmp",                 CT_HOOK_ENTRY_ONLY_JUMPS_AWAY,    CT_SPECIAL_JUMP},
    {"mcount",                  CT_HOOK_ENTRY_ONLY_READS_RETURN,  CT_SPECIAL_NONE},
    {"prctl",                   CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_SECCOMP},
    {"seccomp",                 CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_SECCOMP},
    {"setcontext",              CT_HOOK_ENTRY_ONLY_JUMPS_AWAY,    CT_SPECIAL_NONE},
    {"setjmp",                  CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_NONE},
    {"sigaction",               CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_SIGACTION},
    {"siglongjmp",              CT_HOOK_ENTRY_ONLY_JUMPS_AWAY,    CT_SPECIAL_JUMP},
    {"sigsetjmp",               CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_NONE},
    {"swapcontext",             CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_NONE},
    {"syscall",                 CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_SECCOMP},
    {"unw_backtrace",           CT_HOOK_ENTRY_ONLY_UNWINDER,      CT_SPECIAL_WALK},
    {"unw_step",                CT_HOOK_ENTRY_ONLY_NONE,          CT_SPECIAL_LOOK},
    {"vfork",                   CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_VFORK},
    {NULL, CT_HOOK_ENTRY_ONLY_NONE, CT_SPECIAL_NONE},
};
/* clang-format on */

const struct ct_known_function *ct_known_find(const char *name) {
    size_t low = 0, high = sizeof ct_known_functions / sizeof ct_known_functions[0] - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(ct_known_functions[middle].name, name);
        if (!order)
            return &ct_known_functions[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool ct_known_return_map(const char *name) {
    static const char *const marks[] = {"Builtins_CEntry",    "JNI_CreateJavaVM",  "mono_jit_init",
                                        "caml_start_program", "runtime.morestack", "stg_returnToStackTop"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (*name == *marks[i] && !strncmp(name, marks[i], strlen(marks[i])))
            return true;
    return false;
}

bool ct_known_walks(const char *name) {
    return !strcmp(name, "_ULx86_64_step");
}

bool ct_known_libc(const char *name) {
    return !strncmp(name, "__libc_start_main", 17);
}

bool ct_known_inner_entry(const char *name) {
    return !strcmp(name, "runtime.goexit") || !strcmp(name, "runtime.goexit.abi0");
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), size = strlen(end);
    return length >= size && !strcmp(text + length - size, end);
}

bool ct_known_translates(const char *path) {
    return strstr(path, "/valgrind/") && ends_with(path, "-amd64-linux");
}

bool ct_known_reads_code(const char *path) {
    bool mono = ends_with(path, ".dll.so") || ends_with(path, ".exe.so");
    return mono || ct_known_translates(path);
}
