/* Rust names: the legacy form, which looks like a C++ name that ends in a hash, and v0 (RFC 2603).
 *
 * v0 names are read and printed in one go, as the grammar has no forward references. References back into the name make the
 * output longer than the name, at worst exponentially: steps and depth are counted. Hashes of crates and instances are left
 * out: they say nothing to people. */
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

static void add_utf8(struct ct_demangle_text *out, uint32_t c) {
    char text[4];
    size_t length = 0;
    if (c >= 0x110000 || (c >= 0xd800 && c < 0xe000)) {
        out->failed = true;
        return;
    }
    if (c < 0x80) {
        text[length++] = (char)c;
    } else {
        unsigned more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
        text[length++] = (char)(lead[more] | c >> 6 * more);
        while (more--)
            text[length++] = (char)(0x80 | (c >> 6 * more & 0x3f));
    }
    ct_demangle_add(out, text, length);
}

/* What compilers and linkers hang on: ".llvm.123", ".cold". */
static bool is_suffix(const char *at, const char *end) {
    if (at == end)
        return true;
    if (*at != '.')
        return false;
    for (; at < end; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    return true;
}

/* ---- legacy ---- */

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

/* "$LT$" and its likes: how long it is, 0 when it is none. */
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
    add_utf8(out, c);
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
            return !first && is_hash(at, length) && is_suffix(at + length + 1, end);
        if (!first)
            ct_demangle_add_string(out, "::");
        if (!add_legacy(out, at, length))
            return false;
        at += length;
    }
}

/* ---- v0 ---- */

struct reader {
    struct ct_demangle_text *out;
    const char *start, *at, *end; /* start: behind "_R", which references count from */
    unsigned depth, steps;
    unsigned quiet;     /* what is read now is not shown */
    uint64_t lifetimes; /* that binders around have introduced */
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

/* ---- punycode (RFC 3492) ---- */

enum { PUNY_BASE = 36, PUNY_MIN = 1, PUNY_MAX = 26, PUNY_SKEW = 38, PUNY_DAMP = 700, PUNY_LIMIT = 128 };

static uint32_t puny_adapt(uint32_t delta, uint32_t count, bool first) {
    uint32_t k = 0;
    delta = first ? delta / PUNY_DAMP : delta / 2;
    delta += delta / count;
    for (; delta > ((PUNY_BASE - PUNY_MIN) * PUNY_MAX) / 2; k += PUNY_BASE)
        delta /= PUNY_BASE - PUNY_MIN;
    return k + (PUNY_BASE - PUNY_MIN + 1) * delta / (delta + PUNY_SKEW);
}

/* One variable-length number; false at the end or when it is damaged. */
static bool puny_number(const char **at, const char *end, uint32_t bias, uint64_t *value) {
    uint64_t weight = 1;
    *value = 0;
    for (uint32_t k = PUNY_BASE;; k += PUNY_BASE) {
        if (*at == end)
            return false;
        char c = *(*at)++;
        int digit = c >= 'a' && c <= 'z' ? c - 'a' : is_digit(c) ? c - '0' + 26 : -1;
        if (digit < 0)
            return false;
        *value += (uint64_t)digit * weight;
        uint32_t t = k <= bias ? PUNY_MIN : k >= bias + PUNY_MAX ? PUNY_MAX : k - bias;
        if (*value > UINT32_MAX)
            return false;
        if ((uint32_t)digit < t)
            return true;
        weight *= PUNY_BASE - t;
    }
}

static bool add_punycode(struct reader *r, const struct identifier *id) {
    uint32_t text[PUNY_LIMIT], n = 128, bias = 72;
    size_t count = id->length;
    uint64_t i = 0, delta;
    if (count >= PUNY_LIMIT)
        return false;
    for (size_t k = 0; k < count; k++)
        text[k] = (uint8_t)id->text[k];
    for (const char *at = id->code, *end = at + id->code_length; at < end;) {
        if (count == PUNY_LIMIT || !puny_number(&at, end, bias, &delta))
            return false;
        i += delta;
        count++;
        bias = puny_adapt((uint32_t)delta, (uint32_t)count, count == id->length + 1);
        uint64_t c = n + i / count;
        if (c >= 0x110000)
            return false;
        n = (uint32_t)c;
        i %= count;
        memmove(&text[i + 1], &text[i], (count - 1 - i) * sizeof *text);
        text[i++] = n;
    }
    for (size_t k = 0; k < count; k++)
        add_utf8(r->out, text[k]);
    return !r->out->failed;
}

static void add_identifier(struct reader *r, const struct identifier *id) {
    if (r->bad || r->quiet)
        return;
    if (!id->code) {
        add_bytes(r, id->text, id->length);
    } else if (!add_punycode(r, id)) {
        fail(r);
    }
}

/* ---- references ---- */

/* Reads what stands at an earlier place as `read` does. Nothing is shown in what is skipped, so it need not be read. */
static void back(struct reader *r, void (*read)(struct reader *r, bool in_value), bool in_value) {
    const char *tag = r->at - 1;
    uint64_t place = base62(r);
    if (r->bad || place >= (uint64_t)(tag - r->start)) {
        fail(r);
        return;
    }
    if (r->quiet)
        return;
    const char *behind = r->at;
    r->at = r->start + place;
    read(r, in_value);
    if (!r->bad)
        r->at = behind;
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

/* "for<'a, 'b> "; returns how many. */
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

/* Like a path, but leaves its "<" open; returns whether there is one. */
static bool open_path(struct reader *r) {
    bool open = false;
    if (!enter(r))
        return false;
    if (take(r, 'I')) {
        path(r, false);
        add(r, "<");
        for (bool first = true; !r->bad && !take(r, 'E'); first = false) {
            add(r, first ? "" : ", ");
            if (take(r, 'L'))
                add_lifetime(r, base62(r));
            else if (take(r, 'K'))
                constant(r);
            else
                type(r);
        }
        open = true;
    } else if (take(r, 'B')) {
        const char *tag = r->at - 1;
        uint64_t place = base62(r);
        if (r->bad || place >= (uint64_t)(tag - r->start)) {
            fail(r);
        } else if (!r->quiet) {
            const char *behind = r->at;
            r->at = r->start + place;
            open = open_path(r);
            if (!r->bad)
                r->at = behind;
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

/* Hexadecimal digits up to "_"; false when the number does not fit 64 bits. */
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
        add_utf8(r->out, (uint32_t)value);
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

/* ---- all of it ---- */

static bool v0(struct ct_demangle_text *out, const char *at, const char *end) {
    struct reader r = {.out = out, .start = at, .at = at, .end = end};
    if (is_digit(peek(&r)))
        return false; /* of a later version */
    path(&r, true);
    if (!r.bad && r.at < r.end && *r.at >= 'A' && *r.at <= 'Z') { /* the crate it is an instance for */
        r.quiet++;
        path(&r, false);
        r.quiet--;
    }
    return !r.bad && is_suffix(r.at, r.end);
}

bool ct_demangle_rust(struct ct_demangle_text *out, const char *name, size_t length) {
    if (length > 3 && memcmp(name, "_ZN", 3) == 0)
        return legacy(out, name + 3, name + length);
    if (length > 2 && memcmp(name, "_R", 2) == 0)
        return v0(out, name + 2, name + length);
    return false;
}
