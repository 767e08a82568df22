/* SPDX-License-Identifier: Apache-2.0 */
/* C++ names: the tree between parser and printer, and the parser's state. Private to src/symbols/demangle_cxx*.c.
 *
 * Nodes are made bottom up and may be shared (substitutions), so the tree has no cycles. The number of nodes is bounded
 * by the length of the name. */
#ifndef CT_SYMBOLS_DEMANGLE_CXX_H
#define CT_SYMBOLS_DEMANGLE_CXX_H

#include "symbols/demangle.h"
#include <stdint.h>

enum ct_cxx_kind {
    CXX_TEXT,           /* an identifier, a builtin type */
    CXX_NESTED,         /* a::b */
    CXX_LOCAL,          /* entity b inside function a */
    CXX_TEMPLATE,       /* a<b>, b: list */
    CXX_LIST,           /* a, then b */
    CXX_PACK,           /* arguments of a parameter pack: list a, may be NULL */
    CXX_EXPANSION,      /* a... */
    CXX_PARAM,          /* template parameter `number` */
    CXX_QUALIFIED,      /* type a with `flags` */
    CXX_POINTER,        /* a* */
    CXX_LREF,           /* a& */
    CXX_RREF,           /* a&& */
    CXX_SUFFIXED,       /* type a followed by a word, text; and arguments b */
    CXX_FUNCTION,       /* returns a (NULL: not known), takes list b; c: noexcept expression; `flags` */
    CXX_ARRAY,          /* a[b] */
    CXX_VECTOR,         /* a __vector(b) */
    CXX_MEMBER_POINTER, /* member type b of class a */
    CXX_METHOD,         /* name a of a member function with `flags` */
    CXX_ENCODING,       /* function with name a and type b */
    CXX_SPECIAL,        /* text, then a, then text2 and b when there is one */
    CXX_CONSTRUCTOR,    /* text */
    CXX_DESTRUCTOR,
    CXX_OPERATOR,   /* text */
    CXX_CONVERSION, /* to type a */
    CXX_LAMBDA,     /* parameters a, `number` */
    CXX_UNNAMED,    /* `number` */
    CXX_DEFAULT,    /* default argument `number` */
    CXX_TAGGED,     /* a[abi:text] */
    CXX_CLONE,      /* a [clone text] */
    CXX_BINDING,    /* structured binding, list a */
    /* expressions */
    CXX_LITERAL,        /* type a, text is the value */
    CXX_FUNCTION_PARAM, /* `number`, 0: this */
    CXX_UNARY,          /* text a */
    CXX_SUFFIX,         /* a text */
    CXX_BINARY,         /* a text b */
    CXX_CONDITIONAL,    /* a ? b : c */
    CXX_CALL,           /* a(b) */
    CXX_CAST,           /* (a)(b) */
    CXX_NAMED_CAST,     /* text<a>(b) */
    CXX_BRACES,         /* a{b} */
    CXX_DECLTYPE,       /* decltype (a) */
    CXX_WORD,           /* text (a) */
    CXX_NEW,            /* text: new; b: type, a: placement, c: initializer (NULL: none) */
    CXX_FOLD,           /* flags: l r L R; text; a, b */
};

enum ct_cxx_flag {
    CXX_CONST = 1,
    CXX_VOLATILE = 2,
    CXX_RESTRICT = 4,
    CXX_LVALUE = 8, /* functions */
    CXX_RVALUE = 16,
    CXX_NOEXCEPT = 32,
    CXX_TRANSACTION = 64,
    CXX_GLOBAL = 128, /* expressions: :: before it */
};

struct ct_cxx_node {
    uint8_t kind, flags;
    uint32_t number, length;
    const char *text, *text2; /* text: `length` bytes, not terminated; text2: terminated */
    const struct ct_cxx_node *a, *b, *c;
};

struct ct_cxx_parser {
    const char *at, *end;
    struct ct_cxx_node *nodes;
    size_t node_count, node_room;
    const struct ct_cxx_node **substitutions;
    size_t substitution_count, substitution_room;
    const struct ct_cxx_node *last_name; /* the name of constructors */
    unsigned depth;
    unsigned guesses;   /* remaining look-aheads: each may read all of the rest */
    bool in_expression; /* there, template arguments after the type of a conversion operator belong to the type */
    bool in_conversion;
    /* Compilers disagree on how a name in a scope that depends on parameters is written: the standard's way is tried
     * first, then, if there was such a name, that of older compilers. */
    bool saw_scopes, old_scopes;
};

#define CXX_MAX_DEPTH 256

static inline char ct_cxx_peek(const struct ct_cxx_parser *p) {
    return p->at < p->end ? *p->at : 0;
}
static inline char ct_cxx_peek_next(const struct ct_cxx_parser *p) {
    return p->end - p->at > 1 ? p->at[1] : 0;
}
static inline bool ct_cxx_take(struct ct_cxx_parser *p, char c) {
    if (ct_cxx_peek(p) != c || p->at == p->end)
        return false;
    p->at++;
    return true;
}
static inline bool ct_cxx_take_two(struct ct_cxx_parser *p, const char *two) {
    if (ct_cxx_peek(p) != two[0] || ct_cxx_peek_next(p) != two[1])
        return false;
    p->at += 2;
    return true;
}
static inline bool ct_cxx_is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* All of these return NULL when the name is not understood. */
struct ct_cxx_node *ct_cxx_node(struct ct_cxx_parser *p, enum ct_cxx_kind kind, const struct ct_cxx_node *a,
                                const struct ct_cxx_node *b);
struct ct_cxx_node *ct_cxx_text(struct ct_cxx_parser *p, enum ct_cxx_kind kind, const char *text, size_t length);
struct ct_cxx_node *ct_cxx_word(struct ct_cxx_parser *p, enum ct_cxx_kind kind, const char *text);
bool ct_cxx_remember(struct ct_cxx_parser *p, const struct ct_cxx_node *node);
bool ct_cxx_enter(struct ct_cxx_parser *p); /* one level deeper; when true, p->depth-- must follow */
bool ct_cxx_number(struct ct_cxx_parser *p, uint32_t *value);
/* "_" is 0, "N_" is N + 1. */
bool ct_cxx_sequence(struct ct_cxx_parser *p, uint32_t *value);

const struct ct_cxx_node *ct_cxx_encoding(struct ct_cxx_parser *p, bool top);
const struct ct_cxx_node *ct_cxx_name(struct ct_cxx_parser *p);
const struct ct_cxx_node *ct_cxx_unqualified(struct ct_cxx_parser *p, const struct ct_cxx_node *scope);
const struct ct_cxx_node *ct_cxx_source_name(struct ct_cxx_parser *p);
const struct ct_cxx_node *ct_cxx_substitution(struct ct_cxx_parser *p);
const struct ct_cxx_node *ct_cxx_template_param(struct ct_cxx_parser *p);
const struct ct_cxx_node *ct_cxx_template_args(struct ct_cxx_parser *p); /* a list; with the I and E around them */
const struct ct_cxx_node *ct_cxx_type(struct ct_cxx_parser *p);
const struct ct_cxx_node *ct_cxx_decltype(struct ct_cxx_parser *p);
bool ct_cxx_bare_function(struct ct_cxx_parser *p, bool has_result, const struct ct_cxx_node **out);
const struct ct_cxx_node *ct_cxx_expression(struct ct_cxx_parser *p);
const struct ct_cxx_node *ct_cxx_literal(struct ct_cxx_parser *p);
/* Lists are built in order; `tail` starts as NULL. */
bool ct_cxx_append(struct ct_cxx_parser *p, struct ct_cxx_node **head, struct ct_cxx_node **tail,
                   const struct ct_cxx_node *item);

struct ct_cxx_operator {
    char code[3];
    uint8_t arguments;
    const char *name;
};
const struct ct_cxx_operator *ct_cxx_operator_at(const struct ct_cxx_parser *p);

bool ct_cxx_print(struct ct_demangle_text *out, const struct ct_cxx_node *root);

#endif
