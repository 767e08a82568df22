/* SPDX-License-Identifier: Apache-2.0 */
/* Globs on names of functions. */
#include "symbols/name_match.h"
#include "symbols/demangle.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static bool matches_any(const char *const *globs, const char *text) {
    for (; *globs; globs++)
        if (!fnmatch(*globs, text, 0))
            return true;
    return false;
}

bool ct_name_fits(const char *const *globs, const char *name) {
    if (!*name)
        return false;
    if (matches_any(globs, name))
        return true;
    char *display = ct_demangle(name);
    if (!display)
        return false;
    bool fit = matches_any(globs, display);
    if (!fit) {
        size_t start, length = ct_demangled_base(display, &start);
        display[start + length] = 0;
        fit = matches_any(globs, display + start);
    }
    free(display);
    return fit;
}
