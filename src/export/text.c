/* Texts from traces. Cleaning never makes a text longer. */
#include "export/text.h"
#include <stdlib.h>

/* Bytes of the character of UTF-8 that begins here, 0: none does. */
static size_t character(const uint8_t *at, size_t left) {
    size_t n = at[0] < 0x80 ? 1 : at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : (at[0] & 0xf0) == 0xe0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if ((at[0] >= 0x80 && at[0] < 0xc2) || n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool outside = (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90);
    return overlong || outside ? 0 : n;
}

static bool is_control(char c) {
    return (unsigned char)c < ' ' || c == 0x7f;
}

size_t ct_text_clean(char *to, size_t room, const char *text, bool controls) {
    size_t length = strlen(text), used = 0, n;
    for (size_t at = 0; at < length; at += n) {
        n = character((const uint8_t *)text + at, length - at);
        bool keep = n && (controls || !is_control(text[at]));
        n = n ? n : 1;
        if (used + n > room)
            break;
        if (keep)
            memcpy(to + used, text + at, n);
        else
            to[used] = '?';
        used += n;
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
        n = character((const uint8_t *)text + at, length - at);
        bool keep = n && !is_control(text[at]);
        n = n ? n : 1;
        if (keep && strchr(escaped, text[at]))
            ct_out_bytes(out, "\\", 1);
        ct_out_bytes(out, keep ? text + at : "?", n);
    }
}
