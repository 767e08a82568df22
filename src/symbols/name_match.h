/* SPDX-License-Identifier: Apache-2.0 */
/* Globs on names of functions. */
#ifndef CT_SYMBOLS_NAME_MATCH_H
#define CT_SYMBOLS_NAME_MATCH_H

#include <stdbool.h>

/* True when the name matches one of the globs (fnmatch): as in the binary, demangled, or demangled without result and
 * parameters. `globs` is NULL-terminated. An empty name matches none. */
bool ct_name_fits(const char *const *globs, const char *name);

#endif
