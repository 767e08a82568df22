/* SPDX-License-Identifier: Apache-2.0 */
/* Parses conditions: see where.h.
 *
 *   condition   = all { "or" all }
 *   all         = one { "and" one }
 *   one         = "not" one | "(" condition ")" | field operator value
 *   field       = a name of CT_WHERE_FIELD_LIST | "arg." name | "arg." number | name of an argument
 *   operator    = < <= = != >= > like
 *   value       = number | number with a unit of time | text in quotes | word
 */
#include "base/grow.h"
#include "report/where_internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_NESTING = 100, MAX_NODES = 1000, MAX_ARGUMENT = 64, NAME_BITS = 64 };
#define NO_NODE SIZE_MAX

static const struct {
    const char *name;
    enum ct_where_kind kind;
} fields[] = {
#define ROW(name, text, kind) {text, kind},
    CT_WHERE_FIELD_LIST(ROW)
#undef ROW
        {"", CT_WHERE_VALUE}, /* an argument */
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] - 1 };

struct parser {
    const char *text, *at;
    struct ct_where *where;
    struct ct_where_error *error;
    int nesting;
    int status;
};

__attribute__((format(printf, 3, 4))) static size_t complain(struct parser *p, const char *at, const char *format,
                                                             ...) {
    va_list list;
    if (p->status)
        return NO_NODE;
    va_start(list, format);
    vsnprintf(p->error->text, sizeof p->error->text, format, list);
    va_end(list);
    p->error->at = (size_t)(at - p->text);
    p->status = CT_ERR_INVALID_ARGUMENT;
    return NO_NODE;
}

static size_t no_memory(struct parser *p) {
    p->status = CT_ERR_NO_MEMORY;
    return NO_NODE;
}

/* ---- words ---- */

static void skip_spaces(struct parser *p) {
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static bool is_name_character(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static size_t name_length(const char *text) {
    size_t n = 0;
    while (is_name_character(text[n]))
        n++;
    return n;
}

/* Length of what the user wrote here, for messages. */
static int shown_length(const char *text) {
    size_t n = strcspn(text, " \t\n()");
    return n > 40 ? 40 : n ? (int)n : *text != 0;
}

static bool take_word(struct parser *p, const char *word, const char *sign) {
    size_t length = strlen(word);
    skip_spaces(p);
    if (!strncasecmp(p->at, word, length) && !is_name_character(p->at[length]) && p->at[length] != '.') {
        p->at += length;
        return true;
    }
    if (sign && !strncmp(p->at, sign, strlen(sign)) && (strcmp(sign, "!") != 0 || p->at[1] != '=')) {
        p->at += strlen(sign);
        return true;
    }
    return false;
}

/* ---- nodes ---- */

static size_t add_node(struct parser *p, const struct ct_where_node *node) {
    struct ct_where *w = p->where;
    if (w->count >= MAX_NODES)
        return complain(p, p->at, "the condition is too long");
    if (!ct_grow(&w->nodes, &w->capacity, w->count, sizeof *w->nodes, 16))
        return no_memory(p);
    w->nodes[w->count] = *node;
    return w->count++;
}

static size_t join(struct parser *p, int kind, size_t left, size_t right) {
    struct ct_where_node node = {.left = left, .right = right};
    node.kind = kind == CT_WHERE_AND ? CT_WHERE_AND : kind == CT_WHERE_OR ? CT_WHERE_OR : CT_WHERE_NOT;
    return p->status ? NO_NODE : add_node(p, &node);
}

/* ---- fields ---- */

/* A number after "arg." counts from 1. */
static void read_argument(struct parser *p, struct ct_where_node *n, const char *begin) {
    size_t length = name_length(p->at);
    if (!length) {
        complain(p, p->at, "arg. needs the name or the number of an argument, as in arg.size or arg.1");
        return;
    }
    if (strspn(p->at, "0123456789") == length) {
        unsigned long number = strtoul(p->at, NULL, 10);
        if (number < 1 || number > MAX_ARGUMENT)
            complain(p, p->at, "arguments are numbered from 1 to %d", MAX_ARGUMENT);
        n->place = (unsigned)number - 1;
    } else if (!(n->argument = strndup(p->at, length))) {
        no_memory(p);
    }
    n->field = CT_WHERE_ARGUMENT;
    n->bare = n->argument && begin == p->at ? ++p->where->bare_count : 0;
    p->at += length;
}

static void read_field(struct parser *p, struct ct_where_node *n) {
    skip_spaces(p);
    const char *begin = p->at;
    size_t length = name_length(begin);
    if (!*begin) {
        complain(p, begin, "a comparison is missing here, such as duration > 1ms");
        return;
    }
    if (!length || isdigit((unsigned char)*begin)) {
        complain(p, begin,
                 "a comparison begins with a field (function, module, duration, self, result, errno, thread, depth, "
                 "arg.NAME), not with \"%.*s\"",
                 shown_length(begin), begin);
        return;
    }
    for (int i = 0; i < FIELD_COUNT; i++)
        if (strlen(fields[i].name) == length && !strncasecmp(fields[i].name, begin, length)) {
            n->field = (enum ct_where_field)i;
            p->at += length;
            return;
        }
    if (length == 3 && !strncmp(begin, "arg.", 4))
        p->at += 4;
    read_argument(p, n, begin);
}

/* ---- operators ---- */

static void read_operator(struct parser *p, struct ct_where_node *n) {
    static const struct {
        const char *text;
        enum ct_where_operator op;
    } operators[] = {
        {"<=", CT_WHERE_AT_MOST}, {">=", CT_WHERE_AT_LEAST}, {"!=", CT_WHERE_NOT_EQUAL}, {"<>", CT_WHERE_NOT_EQUAL},
        {"==", CT_WHERE_EQUAL},   {"<", CT_WHERE_LESS},      {">", CT_WHERE_GREATER},    {"=", CT_WHERE_EQUAL},
    };
    skip_spaces(p);
    if (take_word(p, "like", NULL)) {
        n->op = CT_WHERE_LIKE;
        return;
    }
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (!strncmp(p->at, operators[i].text, strlen(operators[i].text))) {
            n->op = operators[i].op;
            p->at += strlen(operators[i].text);
            return;
        }
    if (*p->at)
        complain(p, p->at, "a comparison is missing here: <, <=, =, !=, >=, > or like, not \"%.*s\"",
                 shown_length(p->at), p->at);
    else
        complain(p, p->at, "a comparison is missing here: <, <=, =, !=, >=, > or like");
}

/* ---- values ---- */

/* A glob that matches this text alone. NULL: out of memory. */
static char *escape_glob(const char *text) {
    char *glob = malloc(2 * strlen(text) + 1), *to = glob;
    for (; glob && *text; text++) {
        if (strchr("*?[\\", *text))
            *to++ = '\\';
        *to++ = *text;
    }
    if (glob)
        *to = 0;
    return glob;
}

static void set_text(struct parser *p, struct ct_where_node *n, const char *text, size_t length) {
    n->type = CT_WHERE_TEXT;
    n->text = strndup(text, length);
    n->glob = !n->text ? NULL : n->op == CT_WHERE_LIKE ? strdup(n->text) : escape_glob(n->text);
    if (!n->glob)
        no_memory(p);
}

/* Text between quotes: a backslash before a quote is not part of it. */
static void read_quoted(struct parser *p, struct ct_where_node *n) {
    const char *begin = p->at, quote = *p->at++;
    char *text = malloc(strlen(p->at) + 1), *to = text;
    if (!text) {
        no_memory(p);
        return;
    }
    for (; *p->at && *p->at != quote; p->at++) {
        if (*p->at == '\\' && p->at[1] == quote)
            p->at++;
        *to++ = *p->at;
    }
    if (!*p->at)
        complain(p, begin, "the quote that begins here has no end");
    else
        p->at++;
    set_text(p, n, text, (size_t)(to - text));
    free(text);
}

static bool read_unit(const char *text, size_t length, uint64_t *factor) {
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i].name) == length && !strncmp(units[i].name, text, length)) {
            *factor = units[i].ns;
            return true;
        }
    return false;
}

/* Makes nanoseconds of a number and its unit. */
static void set_time(struct parser *p, struct ct_where_node *n, const char *begin, uint64_t factor) {
    if (n->type == CT_WHERE_REAL) {
        double ns = n->real * (double)factor;
        n->type = CT_WHERE_WHOLE;
        n->negative = ns < 0;
        ns = ns < 0 ? -ns : ns;
        n->number = ns < 1.8e19 ? (uint64_t)(ns + 0.5) : UINT64_MAX;
    } else if (__builtin_mul_overflow(n->number, factor, &n->number)) {
        complain(p, begin, "this time is too long");
    }
}

/* False: it is no number. */
static bool read_number(struct parser *p, struct ct_where_node *n) {
    const char *digits = p->at;
    char *end, *real_end;
    n->negative = *digits == '-';
    digits += *digits == '-' || *digits == '+';
    if (!isdigit((unsigned char)*digits))
        return false;
    errno = 0;
    n->number = strtoull(digits, &end, !strncasecmp(digits, "0x", 2) ? 16 : 10);
    n->type = CT_WHERE_WHOLE;
    if (errno)
        complain(p, p->at, "this number is too large");
    bool exponent = (*end == 'e' || *end == 'E') && isdigit((unsigned char)end[1 + (end[1] == '-' || end[1] == '+')]);
    if (*end == '.' || exponent) {
        n->real = strtod(p->at, &real_end);
        n->type = CT_WHERE_REAL;
        end = real_end;
    }
    p->at = end;
    return true;
}

static void read_quantity(struct parser *p, struct ct_where_node *n) {
    const char *begin = p->at;
    enum ct_where_kind kind = fields[n->field].kind;
    uint64_t factor = 1;
    if (!read_number(p, n)) {
        if (*begin)
            complain(p, begin, "%s is compared with %s, not with \"%.*s\"", fields[n->field].name,
                     kind == CT_WHERE_TIME ? "a time such as 1.5ms" : "a number", shown_length(begin), begin);
        else
            complain(p, begin, "a value is missing here");
        return;
    }
    const char *unit = p->at;
    size_t length = name_length(unit);
    if (length && (kind != CT_WHERE_TIME || !read_unit(unit, length, &factor))) {
        complain(p, begin,
                 kind == CT_WHERE_TIME ? "units of time are ns, us, ms, s, m and h, not \"%.*s\""
                                       : "a number ends here, and \"%.*s\" does not belong to it",
                 (int)length, unit);
        return;
    }
    p->at += length;
    if (kind != CT_WHERE_TIME)
        return;
    if (!length && (n->type == CT_WHERE_REAL || n->number))
        complain(p, begin, "a time needs a unit, such as %.*sms or %.*sus", (int)(unit - begin), begin,
                 (int)(unit - begin), begin);
    set_time(p, n, begin, factor);
}

/* A word without quotes, up to a space or a parenthesis; or a number, where that is possible. */
static void read_word(struct parser *p, struct ct_where_node *n) {
    enum ct_where_kind kind = fields[n->field].kind;
    const char *begin = p->at;
    size_t length = strcspn(begin, " \t\n()");
    if (!length) {
        complain(p, begin, *begin ? "a value is missing before this" : "a value is missing here");
        return;
    }
    bool number = kind != CT_WHERE_NAME && n->op != CT_WHERE_LIKE && read_number(p, n);
    if (number && p->at == begin + length)
        return;
    if (number && kind == CT_WHERE_VALUE && !p->status) {
        uint64_t factor;
        if (read_unit(p->at, name_length(p->at), &factor))
            complain(p, begin, "%.*s is a time, and only duration and self are times", (int)length, begin);
    }
    n->negative = false;
    p->at = begin + length;
    set_text(p, n, begin, length);
}

static void read_value(struct parser *p, struct ct_where_node *n) {
    enum ct_where_kind kind = fields[n->field].kind;
    bool quantity = kind == CT_WHERE_TIME || kind == CT_WHERE_COUNT;
    skip_spaces(p);
    const char *begin = p->at;
    if (quantity)
        read_quantity(p, n);
    else if (*begin == '"' || *begin == '\'')
        read_quoted(p, n);
    else
        read_word(p, n);
    bool ordered = n->op != CT_WHERE_EQUAL && n->op != CT_WHERE_NOT_EQUAL && n->op != CT_WHERE_LIKE;
    if (ordered && (kind == CT_WHERE_NAME || kind == CT_WHERE_THREAD_NAME))
        complain(p, begin, "%s is compared with =, != or like", fields[n->field].name);
    else if (ordered && n->type == CT_WHERE_TEXT)
        complain(p, begin, "<, <=, >= and > compare numbers, and this is a text");
}

/* ---- conditions ---- */

static size_t read_comparison(struct parser *p) {
    struct ct_where_node n = {.kind = CT_WHERE_COMPARE};
    read_field(p, &n);
    const char *at = p->at;
    if (!p->status)
        read_operator(p, &n);
    bool quantity = fields[n.field].kind == CT_WHERE_TIME || fields[n.field].kind == CT_WHERE_COUNT;
    if (n.op == CT_WHERE_LIKE && quantity)
        complain(p, at, "like is for texts, and %s is a number", fields[n.field].name);
    if (!p->status)
        read_value(p, &n);
    bool is_name = n.field == CT_WHERE_FUNCTION || n.field == CT_WHERE_MODULE;
    if (is_name && p->where->bit_count < NAME_BITS)
        n.slot_bit = ++p->where->bit_count;
    size_t added = p->status ? NO_NODE : add_node(p, &n);
    if (added == NO_NODE) {
        free(n.text);
        free(n.glob);
        free(n.argument);
    }
    return added;
}

static size_t read_condition(struct parser *p);

static size_t read_one(struct parser *p) {
    size_t inner;
    if (++p->nesting > MAX_NESTING)
        return complain(p, p->at, "there are too many parentheses");
    if (take_word(p, "not", "!")) {
        inner = read_one(p);
        inner = join(p, CT_WHERE_NOT, inner, NO_NODE);
    } else if (*p->at == '(') {
        const char *open = p->at++;
        inner = read_condition(p);
        skip_spaces(p);
        if (!p->status && *p->at != ')')
            return complain(p, *p->at ? p->at : open,
                            *p->at ? "\"and\", \"or\" or \")\" is missing before this"
                                   : "the parenthesis that opens here is not closed");
        p->at += !p->status;
    } else {
        inner = read_comparison(p);
    }
    p->nesting--;
    return inner;
}

static size_t read_all(struct parser *p) {
    size_t left = read_one(p);
    while (!p->status && take_word(p, "and", "&&"))
        left = join(p, CT_WHERE_AND, left, read_one(p));
    return left;
}

static size_t read_condition(struct parser *p) {
    size_t left = read_all(p);
    while (!p->status && take_word(p, "or", "||"))
        left = join(p, CT_WHERE_OR, left, read_all(p));
    return left;
}

int ct_where_compile(struct ct_where **out, const char *text, struct ct_where_error *error) {
    struct parser p = {.text = text, .at = text, .error = error, .where = calloc(1, sizeof *p.where)};
    *out = NULL;
    *error = (struct ct_where_error){0};
    if (!p.where)
        return CT_ERR_NO_MEMORY;
    p.where->root = read_condition(&p);
    skip_spaces(&p);
    if (!p.status && *p.at)
        complain(&p, p.at,
                 *p.at == ')' ? "this parenthesis was not opened" : "\"and\" or \"or\" is missing before this");
    if (!p.status && !(p.where->seen = calloc(p.where->bare_count + 1, sizeof *p.where->seen)))
        p.status = CT_ERR_NO_MEMORY;
    if (p.status)
        ct_where_free(p.where);
    else
        *out = p.where;
    return p.status;
}
