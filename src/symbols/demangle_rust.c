/* SPDX-License-Identifier: Apache-2.0 */
/* Rust names, v0 (RFC 2603); legacy names are in demangle_rust_legacy.c.
 *
 * v0 names are read and printed in one pass, because the grammar has no forward references. References back into the
 * name make the output longer than the name, at worst exponentially: steps and depth are limited. Hashes of crates and
 * instances are left out: they mean nothing to people. */
#include "symbols/demangle.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 300
#define MAX_STEPS 100000

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int hex_value(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* ---- v0 ---- */

struct reader {
    struct ct_demangle_text *out;
    const char *start, *at, *end; /* start: after "_R"; references count from there */
    unsigned depth, steps;
    unsigned quiet;     /* not 0: what is read is not printed */
    uint64_t lifetimes; /* introduced by the binders around */
    bool bad;
};

struct identifier {
    const char *text, *code; /* code: punycode, NULL: none */
    size_t length, code_length;
    uint64_t number;
};

static void path(struct reader *r, bool in_value);
static void type(struct reader *r);
static void constant(struct reader *r);

static void fail(struct reader *r) {
    r->bad = true;
    r->at = r->end;
}

static void add(struct reader *r, const char *text) {
    if (!r->quiet && !r->bad)
        ct_demangle_add_string(r->out, text);
    r->bad |= r->out->failed;
}

static void add_bytes(struct reader *r, const char *text, size_t length) {
    if (!r->quiet && !r->bad)
        ct_demangle_add(r->out, text, length);
    r->bad |= r->out->failed;
}

static void add_number(struct reader *r, const char *format, uint64_t number) {
    char text[32];
    int length = snprintf(text, sizeof text, format, (unsigned long long)number);
    add_bytes(r, text, (size_t)length);
}

static char peek(const struct reader *r) {
    return r->at < r->end ? *r->at : 0;
}

static char next(struct reader *r) {
    if (r->at == r->end) {
        fail(r);
        return 0;
    }
    return *r->at++;
}

static bool take(struct reader *r, char c) {
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool enter(struct reader *r) {
    if (r->bad || ++r->steps > MAX_STEPS || r->depth >= MAX_DEPTH) {
        fail(r);
        return false;
    }
    r->depth++;
    return true;
}

/* "_" is 0, "0_" is 1. */
static uint64_t base62(struct reader *r) {
    uint64_t value = 0;
    if (take(r, '_'))
        return 0;
    while (!take(r, '_')) {
        char c = next(r);
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'z' ? c - 'a' + 10
                    : c >= 'A' && c <= 'Z' ? c - 'A' + 36
                                           : -1;
        if (digit < 0 || value > (UINT64_MAX - 62) / 62) {
            fail(r);
            return 0;
        }
        value = value * 62 + (uint64_t)digit;
    }
    return value + 1;
}

static uint64_t optional_base62(struct reader *r, char tag) {
    return take(r, tag) ? base62(r) + 1 : 0;
}

static struct identifier identifier(struct reader *r) {
    struct identifier id = {.number = optional_base62(r, 's'), .text = ""};
    bool coded = take(r, 'u');
    size_t length = 0;
    if (!is_digit(peek(r))) {
        fail(r);
        return id;
    }
    if (!take(r, '0'))
        while (is_digit(peek(r)) && length < CT_DEMANGLE_MAX_NAME)
            length = length * 10 + (size_t)(*r->at++ - '0');
    take(r, '_');
    if (length > (size_t)(r->end - r->at)) {
        fail(r);
        return id;
    }
    id.text = r->at;
    id.length = length;
    r->at += length;
    if (!coded)
        return id;
    size_t plain = length;
    while (plain > 0 && id.text[plain - 1] != '_')
        plain--;
    id.code = id.text + plain;
    id.code_length = length - plain;
    id.length = plain ? plain - 1 : 0;
    if (!id.code_length)
        fail(r);
    return id;
}

static void add_identifier(struct reader *r, const struct identifier *id) {
    if (r->bad || r->quiet)
        return;
    if (!id->code) {
        add_bytes(r, id->text, id->length);
    } else if (!ct_demangle_punycode(r->out, id->text, id->length, id->code, id->code_length)) {
        fail(r);
    }
}

/* ---- references ---- */

/* Reads an earlier part of the name with `read`. While nothing is printed, the part need not be read. */
static void back(struct reader *r, void (*read)(struct reader *r, bool in_value), bool in_value) {
    const char *tag = r->at - 1;
    uint64_t place = base62(r);
    if (r->bad || place >= (uint64_t)(tag - r->start)) {
        fail(r);
        return;
    }
    if (r->quiet)
        return;
    const char *after = r->at;
    r->at = r->start + place;
    read(r, in_value);
    if (!r->bad)
        r->at = after;
}

static void read_type(struct reader *r, bool in_value) {
    (void)in_value;
    type(r);
}

static void read_constant(struct reader *r, bool in_value) {
    (void)in_value;
    constant(r);
}

/* ---- lifetimes ---- */

static void add_lifetime(struct reader *r, uint64_t index) {
    if (!index) {
        add(r, "'_");
        return;
    }
    if (index > r->lifetimes) {
        fail(r);
        return;
    }
    uint64_t depth = r->lifetimes - index;
    if (depth < 26) {
        char text[3] = {'\'', (char)('a' + depth), 0};
        add(r, text);
    } else {
        add_number(r, "'_%llu", depth);
    }
}

/* Reads a binder, prints "for<'a, 'b> " and returns the number of lifetimes. */
static uint64_t binder(struct reader *r) {
    uint64_t count = optional_base62(r, 'G');
    if (!count || count > MAX_STEPS) {
        if (count)
            fail(r);
        return 0;
    }
    add(r, "for<");
    for (uint64_t i = 0; i < count && !r->bad; i++) {
        add(r, i ? ", " : "");
        r->lifetimes++;
        add_lifetime(r, 1);
        r->steps++;
        if (r->steps > MAX_STEPS)
            fail(r);
    }
    add(r, "> ");
    return count;
}

/* ---- paths ---- */

static void generic_args(struct reader *r) {
    for (bool first = true; !r->bad && !take(r, 'E'); first = false) {
        add(r, first ? "" : ", ");
        if (take(r, 'L'))
            add_lifetime(r, base62(r));
        else if (take(r, 'K'))
            constant(r);
        else
            type(r);
    }
}

static void nested(struct reader *r, bool in_value) {
    char space = next(r);
    path(r, in_value);
    struct identifier id = identifier(r);
    bool special = space >= 'A' && space <= 'Z';
    if (!special && !(space >= 'a' && space <= 'z'))
        fail(r);
    if (!special) {
        if (id.length || id.code)
            add(r, "::");
        add_identifier(r, &id);
        return;
    }
    char other[2] = {space, 0};
    add(r, "::{");
    add(r, space == 'C' ? "closure" : space == 'S' ? "shim" : other);
    if (id.length || id.code) {
        add(r, ":");
        add_identifier(r, &id);
    }
    add_number(r, "#%llu}", id.number);
}

static void implementation(struct reader *r, char tag) {
    if (tag != 'Y') {
        optional_base62(r, 's');
        r->quiet++;
        path(r, false);
        r->quiet--;
    }
    add(r, "<");
    type(r);
    if (tag != 'M') {
        add(r, " as ");
        path(r, false);
    }
    add(r, ">");
}

static void path(struct reader *r, bool in_value) {
    if (!enter(r))
        return;
    struct identifier id;
    char tag = next(r);
    switch (tag) {
    case 'C':
        id = identifier(r);
        add_identifier(r, &id);
        break;
    case 'N':
        nested(r, in_value);
        break;
    case 'M':
    case 'X':
    case 'Y':
        implementation(r, tag);
        break;
    case 'I':
        path(r, in_value);
        add(r, in_value ? "::<" : "<");
        generic_args(r);
        add(r, ">");
        break;
    case 'B':
        back(r, path, in_value);
        break;
    default:
        fail(r);
    }
    r->depth--;
}

/* ---- types ---- */

static const char *basic_type(char tag) {
    static const char *const names[26] = {
        ['a' - 'a'] = "i8",  ['b' - 'a'] = "bool", ['c' - 'a'] = "char",  ['d' - 'a'] = "f64",   ['e' - 'a'] = "str",
        ['f' - 'a'] = "f32", ['h' - 'a'] = "u8",   ['i' - 'a'] = "isize", ['j' - 'a'] = "usize", ['l' - 'a'] = "i32",
        ['m' - 'a'] = "u32", ['n' - 'a'] = "i128", ['o' - 'a'] = "u128",  ['p' - 'a'] = "_",     ['s' - 'a'] = "i16",
        ['t' - 'a'] = "u16", ['u' - 'a'] = "()",   ['v' - 'a'] = "...",   ['x' - 'a'] = "i64",   ['y' - 'a'] = "u64",
        ['z' - 'a'] = "!",
    };
    return tag >= 'a' && tag <= 'z' ? names[tag - 'a'] : NULL;
}

static void abi(struct reader *r) {
    add(r, "extern \"");
    if (take(r, 'C')) {
        add(r, "C");
    } else {
        struct identifier id = identifier(r);
        for (size_t i = 0; i < id.length && !r->bad; i++)
            add_bytes(r, id.text[i] == '_' ? "-" : id.text + i, 1);
    }
    add(r, "\" ");
}

static void function(struct reader *r) {
    uint64_t bound = binder(r);
    if (take(r, 'U'))
        add(r, "unsafe ");
    if (take(r, 'K'))
        abi(r);
    add(r, "fn(");
    for (bool first = true; !r->bad && !take(r, 'E'); first = false) {
        add(r, first ? "" : ", ");
        type(r);
    }
    add(r, ")");
    if (!take(r, 'u')) {
        add(r, " -> ");
        type(r);
    }
    r->lifetimes -= bound;
}

/* Like a path, but leaves its "<" open; returns true when there is one. */
static bool open_path(struct reader *r) {
    bool open = false;
    if (!enter(r))
        return false;
    if (take(r, 'I')) {
        path(r, false);
        add(r, "<");
        generic_args(r);
        open = true;
    } else if (take(r, 'B')) {
        const char *tag = r->at - 1;
        uint64_t place = base62(r);
        if (r->bad || place >= (uint64_t)(tag - r->start)) {
            fail(r);
        } else if (!r->quiet) {
            const char *after = r->at;
            r->at = r->start + place;
            open = open_path(r);
            if (!r->bad)
                r->at = after;
        }
    } else {
        path(r, false);
    }
    r->depth--;
    return open;
}

static void dyn(struct reader *r) {
    add(r, "dyn ");
    uint64_t bound = binder(r);
    for (bool first = true; !r->bad && !take(r, 'E'); first = false) {
        add(r, first ? "" : " + ");
        bool open = open_path(r);
        while (!r->bad && take(r, 'p')) {
            add(r, open ? ", " : "<");
            open = true;
            struct identifier id = identifier(r);
            add_identifier(r, &id);
            add(r, " = ");
            type(r);
        }
        add(r, open ? ">" : "");
    }
    r->lifetimes -= bound;
    if (!take(r, 'L')) {
        fail(r);
        return;
    }
    uint64_t lifetime = base62(r);
    if (lifetime) {
        add(r, " + ");
        add_lifetime(r, lifetime);
    }
}

static void reference(struct reader *r, bool writable) {
    add(r, "&");
    if (take(r, 'L')) {
        uint64_t lifetime = base62(r);
        if (lifetime) {
            add_lifetime(r, lifetime);
            add(r, " ");
        }
    }
    add(r, writable ? "mut " : "");
    type(r);
}

static void tuple(struct reader *r) {
    unsigned count = 0;
    add(r, "(");
    for (; !r->bad && !take(r, 'E'); count++) {
        add(r, count ? ", " : "");
        type(r);
    }
    add(r, count == 1 ? ",)" : ")");
}

static void type(struct reader *r) {
    if (!enter(r))
        return;
    char tag = next(r);
    const char *basic = basic_type(tag);
    if (basic) {
        add(r, basic);
    } else if (tag == 'R' || tag == 'Q') {
        reference(r, tag == 'Q');
    } else if (tag == 'P' || tag == 'O') {
        add(r, tag == 'P' ? "*const " : "*mut ");
        type(r);
    } else if (tag == 'A' || tag == 'S') {
        add(r, "[");
        type(r);
        if (tag == 'A') {
            add(r, "; ");
            constant(r);
        }
        add(r, "]");
    } else if (tag == 'T') {
        tuple(r);
    } else if (tag == 'F') {
        function(r);
    } else if (tag == 'D') {
        dyn(r);
    } else if (tag == 'B') {
        back(r, read_type, false);
    } else {
        r->at -= !r->bad;
        path(r, false);
    }
    r->depth--;
}

/* ---- constants ---- */

/* Reads hexadecimal digits up to "_"; false when the number does not fit into 64 bits. */
static bool hex_number(struct reader *r, uint64_t *value, const char **digits, size_t *length) {
    *digits = r->at;
    *value = 0;
    while (hex_value(peek(r)) >= 0 && r->at < r->end)
        *value = *value << 4 | (uint64_t)hex_value(*r->at++);
    *length = (size_t)(r->at - *digits);
    if (!take(r, '_') || !*length)
        fail(r);
    return *length <= 16;
}

static void integer(struct reader *r) {
    uint64_t value;
    const char *digits;
    size_t length;
    if (hex_number(r, &value, &digits, &length)) {
        add_number(r, "%llu", value);
    } else {
        add(r, "0x");
        add_bytes(r, digits, length);
    }
}

static void character(struct reader *r) {
    uint64_t value;
    const char *digits;
    size_t length;
    if (!hex_number(r, &value, &digits, &length) || value >= 0x110000) {
        fail(r);
        return;
    }
    add(r, "'");
    if (value == '\'' || value == '\\' || value == '\n' || value == '\t' || value == '\r') {
        char text[3] = {'\\', value == '\n' ? 'n' : value == '\t' ? 't' : value == '\r' ? 'r' : (char)value, 0};
        add(r, text);
    } else if (value < 0x20 || value == 0x7f) {
        add_number(r, "\\u{%llx}", value);
    } else if (!r->quiet && !r->bad) {
        ct_demangle_add_utf8(r->out, (uint32_t)value);
    }
    add(r, "'");
}

static void boolean(struct reader *r) {
    uint64_t value;
    const char *digits;
    size_t length;
    if (!hex_number(r, &value, &digits, &length) || value > 1)
        fail(r);
    else
        add(r, value ? "true" : "false");
}

static void constant(struct reader *r) {
    if (!enter(r))
        return;
    char tag = next(r);
    switch (tag) {
    case 'p':
        add(r, "_");
        break;
    case 'a':
    case 's':
    case 'l':
    case 'x':
    case 'n':
    case 'i':
        add(r, take(r, 'n') ? "-" : "");
        integer(r);
        break;
    case 'h':
    case 't':
    case 'm':
    case 'y':
    case 'o':
    case 'j':
        integer(r);
        break;
    case 'b':
        boolean(r);
        break;
    case 'c':
        character(r);
        break;
    case 'B':
        back(r, read_constant, false);
        break;
    default:
        fail(r);
    }
    r->depth--;
}

/* ---- the whole name ---- */

static bool v0(struct ct_demangle_text *out, const char *at, const char *end) {
    struct reader r = {.out = out, .start = at, .at = at, .end = end};
    if (is_digit(peek(&r)))
        return false; /* of a later version */
    path(&r, true);
    if (!r.bad && r.at < r.end && *r.at >= 'A' && *r.at <= 'Z') { /* the crate that instantiates it */
        r.quiet++;
        path(&r, false);
        r.quiet--;
    }
    return !r.bad && ct_demangle_is_suffix(r.at, r.end);
}

bool ct_demangle_rust(struct ct_demangle_text *out, const char *name, size_t length) {
    if (length > 2 && memcmp(name, "_R", 2) == 0)
        return v0(out, name + 2, name + length);
    return ct_demangle_rust_legacy(out, name, length);
}
