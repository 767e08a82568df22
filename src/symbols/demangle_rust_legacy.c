/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy Rust names, which look like C++ names that end in a hash. The hash is left out. */
#include "symbols/demangle.h"
#include <string.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int hex_value(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool ct_demangle_is_suffix(const char *at, const char *end) {
    if (at == end)
        return true;
    if (*at != '.')
        return false;
    for (; at < end; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    return true;
}

/* "17h" and 16 digits that look like a hash. */
static bool is_hash(const char *text, size_t length) {
    unsigned seen = 0, different = 0;
    if (length != 17 || text[0] != 'h')
        return false;
    for (size_t i = 1; i < length; i++) {
        int digit = hex_value(text[i]);
        if (digit < 0)
            return false;
        different += !(seen >> digit & 1);
        seen |= 1u << digit;
    }
    return different >= 5;
}

/* Decodes "$LT$" and the like; returns its length, 0 when there is none. */
static size_t add_escape(struct ct_demangle_text *out, const char *at, size_t left) {
    static const struct {
        const char *code, *text;
    } escapes[] = {{"$SP$", "@"}, {"$BP$", "*"}, {"$RF$", "&"}, {"$LT$", "<"},
                   {"$GT$", ">"}, {"$LP$", "("}, {"$RP$", ")"}, {"$C$", ","}};
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        size_t length = strlen(escapes[i].code);
        if (length <= left && memcmp(at, escapes[i].code, length) == 0) {
            ct_demangle_add_string(out, escapes[i].text);
            return length;
        }
    }
    uint32_t c = 0;
    size_t n = 2;
    if (left < 4 || at[1] != 'u')
        return 0;
    for (; n < left && n < 8 && hex_value(at[n]) >= 0; n++)
        c = c << 4 | (uint32_t)hex_value(at[n]);
    if (n == 2 || n >= left || at[n] != '$' || c < 0x20)
        return 0;
    ct_demangle_add_utf8(out, c);
    return n + 1;
}

static bool add_legacy(struct ct_demangle_text *out, const char *text, size_t length) {
    size_t i = length > 1 && text[0] == '_' && text[1] == '$' ? 1 : 0;
    while (i < length) {
        if (text[i] == '$') {
            size_t taken = add_escape(out, text + i, length - i);
            if (!taken)
                return false;
            i += taken;
        } else if (text[i] == '.' && i + 1 < length && text[i + 1] == '.') {
            ct_demangle_add_string(out, "::");
            i += 2;
        } else {
            ct_demangle_add(out, text + i++, 1);
        }
    }
    return true;
}

static bool legacy(struct ct_demangle_text *out, const char *at, const char *end) {
    for (bool first = true;; first = false) {
        size_t length = 0;
        if (at == end || !is_digit(*at))
            return false;
        for (; at < end && is_digit(*at) && length < CT_DEMANGLE_MAX_NAME; at++)
            length = length * 10 + (size_t)(*at - '0');
        if (!length || length >= (size_t)(end - at))
            return false;
        if (at[length] == 'E')
            return !first && is_hash(at, length) && ct_demangle_is_suffix(at + length + 1, end);
        if (!first)
            ct_demangle_add_string(out, "::");
        if (!add_legacy(out, at, length))
            return false;
        at += length;
    }
}

bool ct_demangle_rust_legacy(struct ct_demangle_text *out, const char *name, size_t length) {
    return length > 3 && memcmp(name, "_ZN", 3) == 0 && legacy(out, name + 3, name + length);
}
