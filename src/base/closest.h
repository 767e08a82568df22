/* SPDX-License-Identifier: Apache-2.0 */
/* The word that was probably meant where a name is misspelt. */
#ifndef CT_BASE_CLOSEST_H
#define CT_BASE_CLOSEST_H

#include <stddef.h>

/* Of `count` names (the i-th is name(arg, i)), the one that `word` was probably meant to be, or NULL. */
const char *ct_closest_name(const char *word, const char *(*name)(const void *arg, size_t i), const void *arg,
                            size_t count);

#endif
