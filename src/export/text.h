/* Texts from traces that may hold any bytes, for formats that are UTF-8. */
#ifndef CT_EXPORT_TEXT_H
#define CT_EXPORT_TEXT_H

#include "export/out.h"

/* Copies the text, at most `room` bytes and only whole characters, with '?' for what is not UTF-8 and, unless `controls` are kept, for
 * control characters. Returns how many bytes it became; there is no NUL behind them. */
size_t ct_text_clean(char *to, size_t room, const char *text, bool controls);
/* The whole text without control characters, malloc'ed, with a NUL. NULL: out of memory. */
char *ct_text_copy(const char *text);
/* The same to the output; each character of `escaped` gets a backslash before it. */
void ct_text_put(struct ct_out *out, const char *text, const char *escaped);

#endif
