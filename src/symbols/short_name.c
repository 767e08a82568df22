/* SPDX-License-Identifier: Apache-2.0 */
/* Names for tables: see short_name.h. One pass; arguments are written whole and replaced when their list has ended. */
#include "symbols/short_name.h"
#include "symbols/demangle.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 128 };

struct shortening {
    const char *start, *at; /* in the name */
    const char *dots;
    struct ct_demangle_text out;
    unsigned levels; /* of arguments that are kept */
    unsigned depth;
    bool failed; /* brackets do not match, or are nested too deeply */
};

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

static void put(struct shortening *s, size_t count) {
    ct_demangle_add(&s->out, s->at, count);
    s->at += count;
}

static bool is_text(const char *text, size_t length, const char *expected) {
    return length == strlen(expected) && !memcmp(text, expected, length);
}

/* ---- names of the standard library ---- */

/* Writes std:: for an inline namespace at this place; leaves out a tag of the ABI. */
static bool skip_versions(struct shortening *s) {
    static const char *const spaces[] = {"std::__cxx11::", "std::__1::", "std::__ndk1::"};
    static const char tag[] = "[abi:cxx11]";
    if (!strncmp(s->at, tag, sizeof tag - 1)) {
        s->at += sizeof tag - 1;
        return true;
    }
    if (s->at > s->start && (is_word(s->at[-1]) || s->at[-1] == ':'))
        return false;
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (!strncmp(s->at, spaces[i], strlen(spaces[i]))) {
            ct_demangle_add_string(&s->out, "std::");
            s->at += strlen(spaces[i]);
            return true;
        }
    return false;
}

/* Where the name begins that ends at `end`. */
static size_t begin_of(const struct shortening *s, size_t end) {
    while (end && (is_word(s->out.text[end - 1]) || s->out.text[end - 1] == ':'))
        end--;
    return end;
}

/* basic_NAME<char> is NAME, and basic_NAME<wchar_t> is wNAME. */
static const char *alias_of(const char *name, size_t length, bool text) {
    static const char *const texts[] = {"string", "string_view"};
    static const char *const streams[] = {"ostream",       "istream",   "iostream", "stringstream", "ostringstream",
                                          "istringstream", "fstream",   "ofstream", "ifstream",     "streambuf",
                                          "filebuf",       "stringbuf", "ios",      "regex"};
    const char *const *list = text ? texts : streams;
    size_t count = text ? sizeof texts / sizeof texts[0] : sizeof streams / sizeof streams[0];
    for (size_t i = 0; i < count; i++)
        if (is_text(name, length, list[i]))
            return list[i];
    return NULL;
}

/* Replaces the template whose arguments begin at `open` by its usual name. False: it has none. */
static bool put_alias(struct shortening *s, size_t open) {
    static const struct {
        const char *argument, *prefix;
        bool streams;
    } kinds[] = {{"char", "", true},
                 {"wchar_t", "w", true},
                 {"char8_t", "u8", false},
                 {"char16_t", "u16", false},
                 {"char32_t", "u32", false}};
    static const char prefix[] = "std::basic_";
    const size_t skip = sizeof prefix - 1;
    size_t begin = begin_of(s, open), length = open - begin;
    const char *name = s->out.text + begin, *argument = s->out.text + open + 1;
    if (length <= skip || memcmp(name, prefix, skip))
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!is_text(argument, s->out.length - open - 2, kinds[i].argument))
            continue;
        const char *alias = alias_of(name + skip, length - skip, true);
        if (!alias && kinds[i].streams)
            alias = alias_of(name + skip, length - skip, false);
        if (!alias)
            return false;
        s->out.length = begin;
        ct_demangle_add_string(&s->out, "std::");
        ct_demangle_add_string(&s->out, kinds[i].prefix);
        ct_demangle_add_string(&s->out, alias);
        return true;
    }
    return false;
}

/* True for an argument that follows from those before it. Its own arguments are dots already. */
static bool is_default(const struct shortening *s, size_t begin) {
    static const char *const names[] = {"allocator", "char_traits", "less", "hash", "equal_to", "default_delete"};
    const char *text = s->out.text + begin;
    size_t length = s->out.length - begin, dots = strlen(s->dots);
    if (length < 7 + dots || memcmp(text, "std::", 5) || text[length - 1] != '>' || text[length - dots - 2] != '<' ||
        memcmp(text + length - dots - 1, s->dots, dots))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is_text(text + 5, length - dots - 7, names[i]))
            return true;
    return false;
}

/* ---- brackets ---- */

static void copy_part(struct shortening *s, char close, unsigned level);

static void copy_arguments(struct shortening *s, unsigned level) {
    size_t open = s->out.length;
    put(s, 1);
    for (size_t n = 0;; n++) {
        size_t before = s->out.length;
        while (*s->at == ' ')
            s->at++;
        if (n)
            ct_demangle_add_string(&s->out, ", ");
        size_t begin = s->out.length;
        copy_part(s, '>', level + 1);
        if (s->failed || s->out.failed)
            return;
        while (s->out.length > begin && s->out.text[s->out.length - 1] == ' ')
            s->out.length--;
        if (n && is_default(s, begin))
            s->out.length = before;
        if (*s->at == '>')
            break;
        s->at++; /* a comma */
    }
    put(s, 1);
    if (s->out.failed || put_alias(s, open) || level < s->levels || s->out.length - open <= 2)
        return;
    s->out.length = open + 1;
    ct_demangle_add_string(&s->out, s->dots);
    ct_demangle_add_string(&s->out, ">");
}

/* A part in brackets that stays, such as parameters, or Rust's <T as Trait>. */
static void copy_brackets(struct shortening *s, char close, unsigned level) {
    do { /* commas are part of it */
        put(s, 1);
        copy_part(s, close, level);
    } while (!s->failed && *s->at == ',');
    if (!s->failed)
        put(s, 1);
}

/* What a < is at this place. */
enum angle { LESS, ARGUMENTS, PART };
static enum angle angle_at(const struct shortening *s) {
    if (s->at == s->start)
        return PART;
    char before = s->at[-1];
    if (is_word(before) || before == ':' || (unsigned char)before >= 0x80)
        return ARGUMENTS;
    return strchr(" (,&*<[", before) && s->at[1] != ' ' ? PART : LESS;
}

static void copy_angle(struct shortening *s, unsigned level) {
    enum angle angle = angle_at(s);
    if (angle == ARGUMENTS)
        copy_arguments(s, level);
    else if (angle == PART)
        copy_brackets(s, '>', level);
    else
        put(s, 1);
}

/* An operator, whose signs are no brackets; operator< <int> has arguments after a space. */
static bool copy_operator(struct shortening *s, unsigned level) {
    const char *after = ct_demangled_operator(s->start, s->at);
    if (after == s->at)
        return false;
    put(s, (size_t)(after - s->at));
    if (s->at[0] == ' ' && s->at[1] == '<')
        put(s, 1);
    if (*s->at == '<')
        copy_arguments(s, level);
    return true;
}

/* True: the > closes nothing. It is part of an arrow, of an expression in parentheses, or between two names. */
static bool is_sign(const struct shortening *s, char close) {
    if (s->at > s->start && s->at[-1] == '-')
        return true;
    return close == ')' || (!close && s->at > s->start && s->at[-1] == ' ' && s->at[1] == ' ');
}

static void copy_next(struct shortening *s, char close, unsigned level) {
    static const char opening[] = "([{", closing[] = ")]}";
    const char *bracket = strchr(opening, *s->at);
    if (copy_operator(s, level) || skip_versions(s))
        return;
    if (*s->at == '<')
        copy_angle(s, level);
    else if (bracket)
        copy_brackets(s, closing[bracket - opening], level);
    else if (strchr(closing, *s->at) || (*s->at == '>' && !is_sign(s, close)))
        s->failed = true;
    else
        put(s, 1);
}

/* Copies up to a comma or to the end of the brackets. `close` 0: up to the end of the name. */
static void copy_part(struct shortening *s, char close, unsigned level) {
    if (++s->depth > MOST_DEPTH)
        s->failed = true;
    while (!s->failed && !s->out.failed && *s->at) {
        bool closes = close && *s->at == close && !(close == '>' && is_sign(s, close));
        if (closes || (close && *s->at == ','))
            break;
        copy_next(s, close, level);
    }
    s->failed |= s->out.failed || (close && !*s->at);
    s->depth--;
}

static char *shorten(const char *name, const char *dots, unsigned levels) {
    if (!strpbrk(name, "<[") && !strstr(name, "std::__"))
        return NULL;
    size_t room = strnlen(name, CT_DEMANGLE_MAX_OUTPUT) + 64;
    struct shortening s = {
        .start = name, .at = name, .dots = dots, .levels = levels, .out = {.text = malloc(room), .room = room}};
    if (s.out.text)
        copy_part(&s, 0, 0);
    if (!s.out.text || s.failed) {
        free(s.out.text);
        return NULL;
    }
    s.out.text[s.out.length] = 0;
    return s.out.text;
}

char *ct_short_name(const char *name, const char *dots) {
    return shorten(name, dots, 1);
}

char *ct_shorter_name(const char *name, const char *dots) {
    return shorten(name, dots, 0);
}

char *ct_short_parameters(const char *name, const char *dots) {
    size_t start, length = ct_demangled_base(name, &start), filled = strlen(dots);
    const char *base = name + start, *last = strrchr(base, ')');
    if (base[length] != '(' || !last || last < base + length)
        return NULL;
    if (last == base + length + 1)
        filled = 0;
    if (!start && !filled)
        return NULL;
    size_t rest = strlen(last);
    char *text = malloc(length + 1 + filled + rest + 1);
    if (!text)
        return NULL;
    memcpy(text, base, length + 1);
    memcpy(text + length + 1, dots, filled);
    memcpy(text + length + 1 + filled, last, rest + 1);
    return text;
}
