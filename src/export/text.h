/* SPDX-License-Identifier: Apache-2.0 */
/* Cleans texts of traces, which may hold any bytes, for formats that are UTF-8. */
#ifndef CT_EXPORT_TEXT_H
#define CT_EXPORT_TEXT_H

#include "export/out.h"

/* Copies the text, at most `room` bytes and only whole characters. Replaces what is not UTF-8 by '?', and control
 * characters too unless `controls` is set. Returns the number of bytes; adds no NUL. */
size_t ct_text_clean(char *to, size_t room, const char *text, bool controls);
/* Copies the whole text without control characters, malloc'ed, with a NUL. NULL: out of memory. */
char *ct_text_copy(const char *text);
/* Writes the whole text without control characters; puts a backslash before each character of `escaped`. */
void ct_text_put(struct ct_out *out, const char *text, const char *escaped);

#endif
