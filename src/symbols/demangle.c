/* SPDX-License-Identifier: Apache-2.0 */
/* Demangling: chooses the language, and builds the text. */
#include "symbols/demangle.h"
#include "base/utf8.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void ct_demangle_add(struct ct_demangle_text *out, const char *text, size_t length) {
    if (out->failed || length > CT_DEMANGLE_MAX_OUTPUT - out->length) {
        out->failed = true;
        return;
    }
    if (length >= out->room - out->length) {
        size_t room = out->room * 2;
        while (length >= room - out->length)
            room *= 2;
        char *grown = realloc(out->text, room);
        if (!grown) {
            out->failed = true;
            return;
        }
        out->text = grown;
        out->room = room;
    }
    memcpy(out->text + out->length, text, length);
    out->length += length;
}

void ct_demangle_add_string(struct ct_demangle_text *out, const char *text) {
    ct_demangle_add(out, text, strlen(text));
}

void ct_demangle_add_utf8(struct ct_demangle_text *out, uint32_t c) {
    char text[4];
    if (c >= 0x110000 || (c >= 0xd800 && c < 0xe000)) {
        out->failed = true;
        return;
    }
    ct_demangle_add(out, text, ct_utf8_encode(text, c));
}

char *ct_demangle(const char *name) {
    if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R'))
        return NULL;
    size_t length = strnlen(name, CT_DEMANGLE_MAX_NAME + 1);
    struct ct_demangle_text out = {.text = malloc(256), .room = 256};
    if (length > CT_DEMANGLE_MAX_NAME || !out.text) {
        free(out.text);
        return NULL;
    }
    bool done = ct_demangle_rust(&out, name, length);
    if (!done && name[1] == 'Z') {
        out.length = 0;
        out.failed = false;
        done = ct_demangle_cxx(&out, name, length);
    }
    if (!done || out.failed) {
        free(out.text);
        return NULL;
    }
    out.text[out.length] = 0;
    return out.text;
}

/* ---- the name alone ---- */

static bool is_operator_sign(char c) {
    return c && strchr("+-*/%^&|~!=<>,[]", c) != NULL;
}

const char *ct_demangled_operator(const char *start, const char *at) {
    static const char word[] = "operator";
    const size_t length = sizeof word - 1;
    if (strncmp(at, word, length) != 0 || (at > start && at[-1] != ':' && at[-1] != ' '))
        return at;
    const char *after = at + length;
    if (after[0] == '(' && after[1] == ')')
        return after + 2;
    while (is_operator_sign(*after))
        after++;
    return after;
}

/* Returns the end of the bracket that begins at `at`. NULL: it is not closed. */
static const char *skip_brackets(const char *at) {
    size_t depth = 0;
    for (; *at; at++) {
        if (strchr("<([{", *at))
            depth++;
        else if (strchr(")]}", *at) || (*at == '>' && at[-1] != '-'))
            if (--depth == 0)
                return at + 1;
    }
    return NULL;
}

size_t ct_demangled_base(const char *display, size_t *start) {
    const char *begin = display, *at = display;
    bool in_operator = false; /* its type, or "new", may have spaces */
    *start = 0;
    while (*at) {
        const char *after = ct_demangled_operator(display, at);
        if (after != at) {
            in_operator = true;
            at = after;
        } else if (*at == ' ' && !in_operator) {
            begin = ++at;
        } else if (strchr("<([{", *at)) {
            after = skip_brackets(at);
            bool results = at > display && at[-1] == ' '; /* decltype (...), int (*f())[3] */
            if (!after)
                break;
            if (*at == '(' && *after != ':' && !(results && !in_operator)) {
                *start = (size_t)(begin - display);
                return (size_t)(at - begin);
            }
            at = after;
        } else {
            at++;
        }
    }
    return strlen(display);
}
