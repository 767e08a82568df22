/* SPDX-License-Identifier: Apache-2.0 */
/* Well-known functions of C libraries: how they report an error, and which of their arguments are texts. For modules
 * without debug information, and for what debug information does not say. */
#ifndef CT_SYMBOLS_LIBRARY_CALLS_H
#define CT_SYMBOLS_LIBRARY_CALLS_H

#include <stdbool.h>
#include <stdint.h>

enum ct_library_failure {
    CT_FAILS_OTHERWISE, /* not by errno, or not only then */
    CT_FAILS_MINUS_ONE, /* returns -1 and sets errno */
    CT_FAILS_NULL,      /* returns NULL and sets errno */
};

struct ct_library_call {
    const char *name;
    uint8_t failure; /* enum ct_library_failure */
    uint8_t texts;   /* bit n: argument n is a text */
};

/* NULL: the function is not known. Only for modules that are C libraries: other modules may use the names for other
 * things. */
const struct ct_library_call *ct_library_call(const char *name);
/* Is the module (a path or a file name) a C library? */
bool ct_library_is_c(const char *module);

#endif
