/* Functions that cannot be treated like any other, by name. */
#ifndef CT_HOOK_KNOWN_H
#define CT_HOOK_KNOWN_H

#include "hook/runtime.h"

struct ct_known_function {
    const char *name;
    enum ct_hook_entry_only_reason entry_only;
    enum ct_special special;
};

/* True for names that only modules of a runtime have which maps return addresses: its garbage collector or stack walker
 * would not know a stub's. */
bool ct_known_return_map(const char *name);
/* A function that a C library has, and nobody else. */
bool ct_known_libc(const char *name);

/* True for a name that only libunwind has. What else it calls `backtrace` is libc's name, for a function that walks itself. */
bool ct_known_walks(const char *name);

/* True for modules whose code is read by who runs it, and must be as it was made: what Mono has compiled ahead, where it looks for
 * calls to complete, and Valgrind's tools, which let their programs run parts of it in translation. */
bool ct_known_reads_code(const char *path);
/* True for a Valgrind tool: all code of its process is run in translation, with simulated registers, that of libraries as well. */
bool ct_known_translates(const char *path);

/* Go's goroutines return to the second byte of this function: nothing may be patched there. */
bool ct_known_inner_entry(const char *name);

/* NULL when there is nothing to know about it. */
const struct ct_known_function *ct_known_find(const char *name);

/* The table itself, for whoever needs all of them; ends with a NULL name. */
extern const struct ct_known_function ct_known_functions[];

#endif
