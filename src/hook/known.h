/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that cannot be treated like any other, by name. */
#ifndef CT_HOOK_KNOWN_H
#define CT_HOOK_KNOWN_H

#include "hook/runtime.h"

struct ct_known_function {
    const char *name;
    enum ct_hook_entry_only_reason entry_only;
    enum ct_special special;
};

/* True for names that occur only in modules of a runtime that maps return addresses: its garbage collector or stack
 * walker would not know a stub's address. */
bool ct_known_return_map(const char *name);
/* A function that only a C library has. */
bool ct_known_libc(const char *name);

/* True for a name that only libunwind has. Its other function `backtrace` has a name of libc's, and walks by itself. */
bool ct_known_walks(const char *name);

/* True for modules whose code is read by what runs it, and must stay as it was made: code that Mono has compiled ahead
 * of time, where it looks for calls to complete, and Valgrind's tools, which let their programs run parts of it in
 * translation. */
bool ct_known_reads_code(const char *path);
/* True for a Valgrind tool: all code of its process, libraries included, runs in translation, with simulated
 * registers. */
bool ct_known_translates(const char *path);

/* Go's goroutines return to the second byte of this function: nothing may be patched there. */
bool ct_known_inner_entry(const char *name);

/* NULL when the function is not special. */
const struct ct_known_function *ct_known_find(const char *name);

/* The table itself, for callers that need all entries; ends with a NULL name. */
extern const struct ct_known_function ct_known_functions[];

#endif
