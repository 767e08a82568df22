/* SPDX-License-Identifier: Apache-2.0 */
/* C++ names, first part: nodes, numbers, encodings, and the whole name.
 *
 * The grammar is that of the Itanium C++ ABI, section 5.1, with the additions that compilers make. A parser that
 * returns NULL has given up: nothing is tried a second way, so the time is linear in the length of the name. */
#include "symbols/demangle_cxx.h"
#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

struct ct_cxx_node *ct_cxx_node(struct ct_cxx_parser *p, enum ct_cxx_kind kind, const struct ct_cxx_node *a,
                                const struct ct_cxx_node *b) {
    if (p->node_count == p->node_room)
        return NULL;
    struct ct_cxx_node *node = &p->nodes[p->node_count++];
    *node = (struct ct_cxx_node){.kind = (uint8_t)kind, .a = a, .b = b};
    return node;
}

struct ct_cxx_node *ct_cxx_text(struct ct_cxx_parser *p, enum ct_cxx_kind kind, const char *text, size_t length) {
    struct ct_cxx_node *node = ct_cxx_node(p, kind, NULL, NULL);
    if (node) {
        node->text = text;
        node->length = (uint32_t)length;
    }
    return node;
}

struct ct_cxx_node *ct_cxx_word(struct ct_cxx_parser *p, enum ct_cxx_kind kind, const char *text) {
    return ct_cxx_text(p, kind, text, strlen(text));
}

bool ct_cxx_append(struct ct_cxx_parser *p, struct ct_cxx_node **head, struct ct_cxx_node **tail,
                   const struct ct_cxx_node *item) {
    struct ct_cxx_node *link = item ? ct_cxx_node(p, CXX_LIST, item, NULL) : NULL;
    if (!link)
        return false;
    if (*tail)
        (*tail)->b = link;
    else
        *head = link;
    *tail = link;
    return true;
}

bool ct_cxx_remember(struct ct_cxx_parser *p, const struct ct_cxx_node *node) {
    if (!node || p->substitution_count == p->substitution_room)
        return false;
    p->substitutions[p->substitution_count++] = node;
    return true;
}

bool ct_cxx_enter(struct ct_cxx_parser *p) {
    if (p->depth >= CXX_MAX_DEPTH)
        return false;
    p->depth++;
    return true;
}

/* ---- numbers ---- */

bool ct_cxx_number(struct ct_cxx_parser *p, uint32_t *value) {
    uint64_t n = 0;
    if (!ct_cxx_is_digit(ct_cxx_peek(p)))
        return false;
    for (; ct_cxx_is_digit(ct_cxx_peek(p)); p->at++) {
        n = n * 10 + (uint64_t)(*p->at - '0');
        if (n > INT32_MAX)
            return false;
    }
    *value = (uint32_t)n;
    return true;
}

bool ct_cxx_sequence(struct ct_cxx_parser *p, uint32_t *value) {
    *value = 0;
    if (ct_cxx_take(p, '_'))
        return true;
    if (!ct_cxx_number(p, value) || !ct_cxx_take(p, '_'))
        return false;
    ++*value;
    return true;
}

static void skip_number(struct ct_cxx_parser *p) {
    ct_cxx_take(p, 'n');
    while (ct_cxx_is_digit(ct_cxx_peek(p)))
        p->at++;
}

/* ---- encodings ---- */

static struct ct_cxx_node *special(struct ct_cxx_parser *p, const char *text, const struct ct_cxx_node *a) {
    struct ct_cxx_node *node = a ? ct_cxx_word(p, CXX_SPECIAL, text) : NULL;
    if (node)
        node->a = a;
    return node;
}

static bool skip_call_offset(struct ct_cxx_parser *p, char kind) {
    if (!kind) {
        kind = ct_cxx_peek(p);
        p->at += p->at < p->end;
    }
    if (kind != 'h' && kind != 'v')
        return false;
    skip_number(p);
    if (kind == 'v') {
        if (!ct_cxx_take(p, '_'))
            return false;
        skip_number(p);
    }
    return ct_cxx_take(p, '_');
}

static const struct ct_cxx_node *construction_vtable(struct ct_cxx_parser *p) {
    const struct ct_cxx_node *derived = ct_cxx_type(p);
    uint32_t offset;
    if (!derived || !ct_cxx_number(p, &offset) || !ct_cxx_take(p, '_'))
        return NULL;
    struct ct_cxx_node *node = special(p, "construction vtable for ", ct_cxx_type(p));
    if (node) {
        node->text2 = "-in-";
        node->b = derived;
    }
    return node;
}

static const struct ct_cxx_node *special_type(struct ct_cxx_parser *p) {
    static const struct {
        char letter;
        const char *text;
    } of_types[] = {{'V', "vtable for "},        {'T', "VTT for "},         {'I', "typeinfo for "},
                    {'S', "typeinfo name for "}, {'F', "typeinfo fn for "}, {'J', "java Class for "}};
    char c = ct_cxx_peek(p);
    p->at += p->at < p->end;
    for (size_t i = 0; i < sizeof of_types / sizeof *of_types; i++)
        if (of_types[i].letter == c)
            return special(p, of_types[i].text, ct_cxx_type(p));
    switch (c) {
    case 'C':
        return construction_vtable(p);
    case 'h':
        return skip_call_offset(p, 'h') ? special(p, "non-virtual thunk to ", ct_cxx_encoding(p, false)) : NULL;
    case 'v':
        return skip_call_offset(p, 'v') ? special(p, "virtual thunk to ", ct_cxx_encoding(p, false)) : NULL;
    case 'c':
        return skip_call_offset(p, 0) && skip_call_offset(p, 0)
                   ? special(p, "covariant return thunk to ", ct_cxx_encoding(p, false))
                   : NULL;
    case 'H':
        return special(p, "TLS init function for ", ct_cxx_name(p));
    case 'W':
        return special(p, "TLS wrapper function for ", ct_cxx_name(p));
    default:
        return NULL;
    }
}

static const struct ct_cxx_node *reference_temporary(struct ct_cxx_parser *p) {
    const struct ct_cxx_node *name = ct_cxx_name(p);
    const char *digits = p->at;
    while (ct_cxx_is_digit(ct_cxx_peek(p)) || (ct_cxx_peek(p) >= 'A' && ct_cxx_peek(p) <= 'Z'))
        p->at++;
    const struct ct_cxx_node *number =
        p->at > digits ? ct_cxx_text(p, CXX_TEXT, digits, (size_t)(p->at - digits)) : ct_cxx_word(p, CXX_TEXT, "0");
    ct_cxx_take(p, '_');
    struct ct_cxx_node *node = name && number ? special(p, "reference temporary #", number) : NULL;
    if (node) {
        node->text2 = " for ";
        node->b = name;
    }
    return node;
}

static const struct ct_cxx_node *special_guard(struct ct_cxx_parser *p) {
    char c = ct_cxx_peek(p);
    p->at += p->at < p->end;
    switch (c) {
    case 'V':
        return special(p, "guard variable for ", ct_cxx_name(p));
    case 'R':
        return reference_temporary(p);
    case 'A':
        return special(p, "hidden alias for ", ct_cxx_encoding(p, false));
    case 'T':
        if (ct_cxx_take(p, 'n'))
            return special(p, "non-transaction clone for ", ct_cxx_encoding(p, false));
        p->at += p->at < p->end;
        return special(p, "transaction clone for ", ct_cxx_encoding(p, false));
    default:
        return NULL;
    }
}

static const struct ct_cxx_node *strip(const struct ct_cxx_node *name) {
    while (name->kind == CXX_METHOD || name->kind == CXX_DEFAULT || name->kind == CXX_LOCAL)
        name = name->kind == CXX_LOCAL ? name->b : name->a;
    return name;
}

/* Instances of function templates include their result. */
static bool has_result(const struct ct_cxx_node *name) {
    name = strip(name);
    if (name->kind != CXX_TEMPLATE)
        return false;
    name = strip(name->a);
    while (name->kind == CXX_NESTED || name->kind == CXX_TAGGED || name->kind == CXX_LOCAL)
        name = name->kind == CXX_TAGGED ? name->a : name->b;
    return name->kind != CXX_CONSTRUCTOR && name->kind != CXX_DESTRUCTOR && name->kind != CXX_CONVERSION;
}

static const struct ct_cxx_node *function(struct ct_cxx_parser *p, bool top) {
    const struct ct_cxx_node *name = ct_cxx_name(p), *type;
    char c = ct_cxx_peek(p);
    if (!name || p->at == p->end || c == 'E')
        return name;
    if (c == '.' && top)
        return name;
    if (!ct_cxx_bare_function(p, has_result(name), &type))
        return NULL;
    return ct_cxx_node(p, CXX_ENCODING, name, type);
}

const struct ct_cxx_node *ct_cxx_encoding(struct ct_cxx_parser *p, bool top) {
    const struct ct_cxx_node *node;
    if (!ct_cxx_enter(p))
        return NULL;
    if (ct_cxx_peek(p) == 'T' && ct_cxx_peek_next(p) != '_') {
        p->at++;
        node = special_type(p);
    } else if (ct_cxx_peek(p) == 'G') {
        p->at++;
        node = special_guard(p);
    } else {
        node = function(p, top);
    }
    p->depth--;
    return node;
}

/* ---- the whole name ---- */

static bool is_suffix(char c) {
    return (c >= 'a' && c <= 'z') || ct_cxx_is_digit(c) || c == '_';
}

/* ".isra.0" and the like, one or more. */
static const struct ct_cxx_node *clones(struct ct_cxx_parser *p, const struct ct_cxx_node *node) {
    while (node && p->at < p->end) {
        const char *start = p->at;
        if (*p->at == '.' && is_suffix(ct_cxx_peek_next(p)))
            for (p->at += 2; is_suffix(ct_cxx_peek(p));)
                p->at++;
        while (ct_cxx_peek(p) == '.' && ct_cxx_is_digit(ct_cxx_peek_next(p)))
            for (p->at += 2; ct_cxx_is_digit(ct_cxx_peek(p));)
                p->at++;
        if (p->at == start)
            return NULL;
        struct ct_cxx_node *clone = ct_cxx_text(p, CXX_CLONE, start, (size_t)(p->at - start));
        if (clone)
            clone->a = node;
        node = clone;
    }
    return node;
}

bool ct_demangle_cxx(struct ct_demangle_text *out, const char *name, size_t length) {
    if (length < 3 || length > CT_DEMANGLE_MAX_NAME || name[0] != '_' || name[1] != 'Z')
        return false;
    struct ct_cxx_parser blank = {.at = name + 2, .end = name + length, .guesses = 16}, p;
    blank.node_room = 4 * length + 16;
    blank.substitution_room = length + 1;
    blank.nodes = malloc(blank.node_room * sizeof *blank.nodes);
    blank.substitutions = malloc(blank.substitution_room * sizeof *blank.substitutions);
    const struct ct_cxx_node *root = NULL;
    for (int old = 0; old < 2 && !root && blank.nodes && blank.substitutions; old++) {
        p = blank;
        p.old_scopes = old;
        root = clones(&p, ct_cxx_encoding(&p, true));
        if (p.at != p.end)
            root = NULL;
        if (!p.saw_scopes)
            break;
    }
    bool done = root && ct_cxx_print(out, root);
    free(blank.nodes);
    free(blank.substitutions);
    return done;
}
