/* SPDX-License-Identifier: Apache-2.0 */
/* The list of --exclude @hot: functions of runtimes that are known to be called extremely often, and to say little.
 * docs/OVERHEAD.md shows it. */
#ifndef CT_PLAN_HOT_H
#define CT_PLAN_HOT_H

#include <stdbool.h>

#define CT_HOT_WORD "@hot"

/* Globs on names of functions, NULL-terminated. */
extern const char *const ct_hot_globs[];

bool ct_hot_is_glob(const char *glob);

#endif
