/* Globs on names of functions. */
#ifndef CT_SYMBOLS_NAME_MATCH_H
#define CT_SYMBOLS_NAME_MATCH_H

#include <stdbool.h>

/* Does the name fit one of the globs (fnmatch): as the binary has it, demangled, or demangled without result and parameters?
 * Globs are NULL-terminated. A name that is empty fits none. */
bool ct_name_fits(const char *const *globs, const char *name);

#endif
