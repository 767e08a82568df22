/* SPDX-License-Identifier: Apache-2.0 */
/* Texts from traces. Cleaning never makes a text longer. */
#include "export/text.h"
#include "base/utf8.h"
#include <stdlib.h>

size_t ct_text_clean(char *to, size_t room, const char *text, bool controls) {
    size_t length = strlen(text), used = 0, n;
    for (size_t at = 0; at < length; at += n) {
        n = ct_utf8_character(text + at, length - at);
        bool keep = n && (controls || !ct_utf8_is_control(text + at));
        n = n ? n : 1;
        size_t size = keep ? n : 1;
        if (used + size > room)
            break;
        memcpy(to + used, keep ? text + at : "?", size);
        used += size;
    }
    return used;
}

char *ct_text_copy(const char *text) {
    size_t length = strlen(text);
    char *copy = malloc(length + 1);
    if (copy)
        copy[ct_text_clean(copy, length, text, false)] = 0;
    return copy;
}

void ct_text_put(struct ct_out *out, const char *text, const char *escaped) {
    for (size_t length = strlen(text), at = 0, n; at < length; at += n) {
        n = ct_utf8_character(text + at, length - at);
        bool keep = n && !ct_utf8_is_control(text + at);
        n = n ? n : 1;
        if (keep && strchr(escaped, text[at]))
            ct_out_bytes(out, "\\", 1);
        ct_out_bytes(out, keep ? text + at : "?", keep ? n : 1);
    }
}
