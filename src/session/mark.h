/* SPDX-License-Identifier: Apache-2.0 */
/* The operand of the command `mark`: words like pre-ms=2000, and last label=TEXT, which may have spaces. */
#ifndef CT_SESSION_MARK_H
#define CT_SESSION_MARK_H

#include "drain/windows.h"
#include <stddef.h>

/* Changes the rolls that are given, and sets the label. `ask` has the session's rolls. Returns a negative status with a
 * sentence in `error` if the operand is wrong. */
int ct_mark_parse(const char *operand, struct ct_windows_ask *ask, char *error, size_t size);

#endif
