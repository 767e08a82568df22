/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 characters, in text that may hold any bytes. */
#ifndef CT_BASE_UTF8_H
#define CT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Size of the character that begins at `text` (`length` is at least 1); 0 when none does. */
static inline size_t ct_utf8_character(const char *text, size_t length) {
    const uint8_t *at = (const uint8_t *)text;
    if (at[0] < 0x80)
        return 1;
    size_t size = at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (size > length)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool outside = (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90);
    return overlong || outside ? 0 : size;
}

/* Writes the character (below 0x110000). Returns its size in bytes. */
static inline size_t ct_utf8_encode(char to[4], uint32_t character) {
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned more = character < 0x80 ? 0 : character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    to[0] = (char)(lead[more] | character >> 6 * more);
    for (unsigned i = 1; i <= more; i++)
        to[i] = (char)(0x80 | (character >> 6 * (more - i) & 0x3f));
    return more + 1;
}

/* True when a valid character is a control character that terminals obey: C0, DEL, or C1. */
static inline bool ct_utf8_is_control(const char *text) {
    const uint8_t *at = (const uint8_t *)text;
    return at[0] < ' ' || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
}

#endif
