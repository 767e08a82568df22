/* SPDX-License-Identifier: Apache-2.0 */
/* JSON (RFC 8259) to a tree, strictly: one value, nothing after it, valid UTF-8, whole surrogate pairs, no leading
 * zeros, no trailing commas. Nodes and strings live in an arena. Recursion ends at CT_JSON_DEPTH. */
#include "base/json_read.h"
#include "base/utf8.h"
#include <contrail/status.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct block {
    struct block *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

struct ct_json_tree {
    struct block *blocks;
    struct ct_json_node *root;
};

struct parser {
    const char *at, *end;
    struct ct_json_tree *tree;
    unsigned depth;
    bool no_memory;
};

static struct ct_json_node *parse_value(struct parser *parser);

static void *allocate(struct parser *parser, size_t size) {
    struct block *block = parser->tree->blocks;
    size = (size + 15) & ~(size_t)15;
    if (!block || block->size - block->used < size) {
        size_t room = size > 32768 ? size : 32768;
        block = malloc(sizeof *block + room);
        if (!block) {
            parser->no_memory = true;
            return NULL;
        }
        *block = (struct block){.next = parser->tree->blocks, .size = room};
        parser->tree->blocks = block;
    }
    void *memory = block->bytes + block->used;
    block->used += size;
    return memory;
}

static struct ct_json_node *new_node(struct parser *parser, enum ct_json_type type) {
    struct ct_json_node *node = allocate(parser, sizeof *node);
    if (node)
        *node = (struct ct_json_node){.type = (uint8_t)type};
    return node;
}

static void skip_space(struct parser *parser) {
    while (parser->at < parser->end && strchr(" \t\n\r", *parser->at) && *parser->at)
        parser->at++;
}

static bool take(struct parser *parser, char c) {
    if (parser->at == parser->end || *parser->at != c)
        return false;
    parser->at++;
    return true;
}

/* ---- strings ---- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Value of four hex digits at `at`; -1: there are not four. */
static int32_t hex4(const struct parser *parser, const char *at) {
    int32_t value = 0;
    if (parser->end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Reads what follows "\u". Returns the number of bytes written to `to`, 0: malformed. */
static size_t unicode_escape(struct parser *parser, char *to) {
    int32_t c = hex4(parser, parser->at);
    if (c < 0 || (c >= 0xdc00 && c <= 0xdfff))
        return 0;
    if (c >= 0xd800 && c <= 0xdbff) {
        if (parser->end - parser->at < 10 || parser->at[4] != '\\' || parser->at[5] != 'u')
            return 0;
        int32_t low = hex4(parser, parser->at + 6);
        if (low < 0xdc00 || low > 0xdfff)
            return 0;
        parser->at += 10;
        return ct_utf8_encode(to, 0x10000 + ((uint32_t)(c - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
    }
    parser->at += 4;
    return ct_utf8_encode(to, (uint32_t)c);
}

/* Reads what follows the backslash. */
static size_t escape(struct parser *parser, char *to) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (parser->at == parser->end)
        return 0;
    char c = *parser->at++;
    if (c == 'u')
        return unicode_escape(parser, to);
    const char *name = c ? strchr(names, c) : NULL;
    if (!name) {
        parser->at--;
        return 0;
    }
    *to = values[name - names];
    return 1;
}

/* End of the string that begins at `at` (after its quote), NULL: there is none. Unescaped text is never longer. */
static const char *closing_quote(const struct parser *parser) {
    for (const char *p = parser->at; p < parser->end; p++) {
        if (*p == '"')
            return p;
        if (*p == '\\')
            p++;
    }
    return NULL;
}

/* Begins after the opening quote, ends after the closing one. */
static const char *parse_string(struct parser *parser, size_t *length) {
    const char *quote = closing_quote(parser);
    if (!quote) {
        parser->at = parser->end;
        return NULL;
    }
    char *text = allocate(parser, (size_t)(quote - parser->at) + 1), *to = text;
    if (!text)
        return NULL;
    while (parser->at < quote) {
        uint8_t c = (uint8_t)*parser->at;
        size_t n = 1;
        if (c < 0x20)
            return NULL;
        if (c == '\\') {
            parser->at++;
            if (!(n = escape(parser, to)))
                return NULL;
        } else {
            if (c >= 0x80 && !(n = ct_utf8_character(parser->at, (size_t)(parser->end - parser->at))))
                return NULL;
            memcpy(to, parser->at, n);
            parser->at += n;
        }
        to += n;
    }
    *to = 0;
    *length = (size_t)(to - text);
    parser->at = quote + 1;
    return text;
}

/* ---- numbers ---- */

static size_t digits(struct parser *parser) {
    const char *start = parser->at;
    while (parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9')
        parser->at++;
    return (size_t)(parser->at - start);
}

/* strtod that does not depend on the locale's decimal point: collects the digits and corrects the exponent. */
static double real_of(const char *start, const char *end) {
    char text[64];
    size_t n = 0;
    long shift = 0, exponent = 0;
    bool fraction = false, leading = true;
    if (*start == '-')
        text[n++] = *start++;
    for (; start < end && *start != 'e' && *start != 'E'; start++) {
        leading = leading && (*start == '0' || *start == '.');
        if (*start == '.')
            fraction = true;
        else if (leading)
            shift -= fraction;
        else if (n < 40) {
            text[n++] = *start;
            shift -= fraction;
        } else
            shift += !fraction;
    }
    if (start < end) {
        bool minus = start[1] == '-';
        for (start += 1 + (start[1] == '-' || start[1] == '+'); start < end; start++)
            if (exponent < 100000)
                exponent = exponent * 10 + (*start - '0');
        if (minus)
            exponent = -exponent;
    }
    long e = exponent + shift;
    e = e > 99999 ? 99999 : e < -99999 ? -99999 : e;
    if (leading)
        text[n++] = '0';
    text[n++] = 'e';
    text[n++] = e < 0 ? '-' : '+';
    for (long unit = 10000, rest = e < 0 ? -e : e; unit; unit /= 10) {
        text[n++] = (char)('0' + rest / unit);
        rest %= unit;
    }
    text[n] = 0;
    return strtod(text, NULL);
}

static struct ct_json_node *parse_number(struct parser *parser) {
    const char *start = parser->at;
    struct ct_json_node *node = new_node(parser, CT_JSON_NUMBER);
    if (!node)
        return NULL;
    node->negative = take(parser, '-');
    const char *first = parser->at;
    size_t count = digits(parser);
    if (!count || (count > 1 && *first == '0')) {
        parser->at = first;
        return NULL;
    }
    node->integer = true;
    for (const char *p = first; p < parser->at; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (node->magnitude > (UINT64_MAX - digit) / 10)
            node->integer = false;
        node->magnitude = node->magnitude * 10 + digit;
    }
    if (take(parser, '.')) {
        node->integer = false;
        if (!digits(parser))
            return NULL;
    }
    if (take(parser, 'e') || take(parser, 'E')) {
        node->integer = false;
        if (!take(parser, '+'))
            take(parser, '-');
        if (!digits(parser))
            return NULL;
    }
    node->real = real_of(start, parser->at);
    return node;
}

/* ---- values ---- */

static struct ct_json_node *parse_word(struct parser *parser) {
    static const struct {
        const char *word;
        enum ct_json_type type;
        bool flag;
    } words[] = {{"null", CT_JSON_NULL, false}, {"true", CT_JSON_BOOL, true}, {"false", CT_JSON_BOOL, false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i].word);
        if ((size_t)(parser->end - parser->at) >= length && memcmp(parser->at, words[i].word, length) == 0) {
            struct ct_json_node *node = new_node(parser, words[i].type);
            if (node)
                node->flag = words[i].flag;
            parser->at += length;
            return node;
        }
    }
    return NULL;
}

static struct ct_json_node *parse_member(struct parser *parser, bool object) {
    const char *key = NULL;
    size_t length;
    skip_space(parser);
    if (object) {
        if (!take(parser, '"') || !(key = parse_string(parser, &length)))
            return NULL;
        skip_space(parser);
        if (!take(parser, ':'))
            return NULL;
    }
    struct ct_json_node *node = parse_value(parser);
    if (node)
        node->key = key;
    return node;
}

/* Begins after the bracket. */
static struct ct_json_node *parse_children(struct parser *parser, bool object) {
    char bracket = object ? '}' : ']';
    struct ct_json_node *node = new_node(parser, object ? CT_JSON_OBJECT : CT_JSON_ARRAY);
    if (!node || ++parser->depth > CT_JSON_DEPTH)
        return NULL;
    struct ct_json_node **link = &node->first;
    skip_space(parser);
    if (!take(parser, bracket)) {
        do {
            *link = parse_member(parser, object);
            if (!*link)
                return NULL;
            link = &(*link)->next;
            node->count++;
            skip_space(parser);
        } while (take(parser, ','));
        if (!take(parser, bracket))
            return NULL;
    }
    parser->depth--;
    return node;
}

static struct ct_json_node *parse_value(struct parser *parser) {
    skip_space(parser);
    if (parser->at == parser->end)
        return NULL;
    if (take(parser, '{'))
        return parse_children(parser, true);
    if (take(parser, '['))
        return parse_children(parser, false);
    if (take(parser, '"')) {
        size_t length;
        const char *text = parse_string(parser, &length);
        struct ct_json_node *node = text ? new_node(parser, CT_JSON_STRING) : NULL;
        if (node) {
            node->text = text;
            node->count = length;
        }
        return node;
    }
    if (*parser->at == '-' || (*parser->at >= '0' && *parser->at <= '9'))
        return parse_number(parser);
    return parse_word(parser);
}

int ct_json_parse(struct ct_json_tree **out, const char *text, size_t length, size_t *error_at) {
    *out = NULL;
    struct ct_json_tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return CT_ERR_NO_MEMORY;
    struct parser parser = {.at = text, .end = text + length, .tree = tree};
    tree->root = parse_value(&parser);
    skip_space(&parser);
    if (!tree->root || parser.at != parser.end) {
        if (error_at)
            *error_at = (size_t)(parser.at - text);
        ct_json_tree_free(tree);
        return parser.no_memory ? CT_ERR_NO_MEMORY : CT_ERR_BAD_FILE;
    }
    *out = tree;
    return 0;
}

void ct_json_tree_free(struct ct_json_tree *tree) {
    if (!tree)
        return;
    while (tree->blocks) {
        struct block *next = tree->blocks->next;
        free(tree->blocks);
        tree->blocks = next;
    }
    free(tree);
}

/* ---- lookups ---- */

const struct ct_json_node *ct_json_root(const struct ct_json_tree *tree) {
    return tree ? tree->root : NULL;
}

static const struct ct_json_node *member(const struct ct_json_node *node, const char *key) {
    if (!node || node->type != CT_JSON_OBJECT)
        return NULL;
    for (node = node->first; node; node = node->next)
        if (strcmp(node->key, key) == 0)
            return node;
    return NULL;
}

const struct ct_json_node *ct_json_get(const struct ct_json_node *node, const char *key, ...) {
    va_list keys;
    va_start(keys, key);
    for (; key; key = va_arg(keys, const char *))
        node = member(node, key);
    va_end(keys);
    return node;
}

const struct ct_json_node *ct_json_first(const struct ct_json_node *node) {
    return node ? node->first : NULL;
}

uint64_t ct_json_u64(const struct ct_json_node *node, uint64_t fallback) {
    bool fits = node && node->type == CT_JSON_NUMBER && node->integer && (!node->negative || !node->magnitude);
    return fits ? node->magnitude : fallback;
}

int64_t ct_json_i64(const struct ct_json_node *node, int64_t fallback) {
    if (!node || node->type != CT_JSON_NUMBER || !node->integer)
        return fallback;
    if (node->magnitude <= INT64_MAX)
        return node->negative ? -(int64_t)node->magnitude : (int64_t)node->magnitude;
    return node->negative && node->magnitude == (uint64_t)INT64_MAX + 1 ? INT64_MIN : fallback;
}

double ct_json_double(const struct ct_json_node *node, double fallback) {
    return node && node->type == CT_JSON_NUMBER ? node->real : fallback;
}

bool ct_json_flag(const struct ct_json_node *node, bool fallback) {
    return node && node->type == CT_JSON_BOOL ? node->flag : fallback;
}

const char *ct_json_text(const struct ct_json_node *node, const char *fallback) {
    return node && node->type == CT_JSON_STRING ? node->text : fallback;
}
