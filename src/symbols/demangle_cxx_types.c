/* SPDX-License-Identifier: Apache-2.0 */
/* C++ names, third part: types and template arguments. */
#include "symbols/demangle_cxx.h"
#include <string.h>

/* ---- builtin types ---- */

static const char *const builtins[26] = {
    ['a' - 'a'] = "signed char", ['b' - 'a'] = "bool",
    ['c' - 'a'] = "char",        ['d' - 'a'] = "double",
    ['e' - 'a'] = "long double", ['f' - 'a'] = "float",
    ['g' - 'a'] = "__float128",  ['h' - 'a'] = "unsigned char",
    ['i' - 'a'] = "int",         ['j' - 'a'] = "unsigned int",
    ['l' - 'a'] = "long",        ['m' - 'a'] = "unsigned long",
    ['n' - 'a'] = "__int128",    ['o' - 'a'] = "unsigned __int128",
    ['s' - 'a'] = "short",       ['t' - 'a'] = "unsigned short",
    ['v' - 'a'] = "void",        ['w' - 'a'] = "wchar_t",
    ['x' - 'a'] = "long long",   ['y' - 'a'] = "unsigned long long",
    ['z' - 'a'] = "...",
};

static const struct {
    char letter;
    const char *text;
} d_builtins[] = {{'a', "auto"},      {'c', "decltype(auto)"}, {'n', "decltype(nullptr)"}, {'h', "half"},
                  {'s', "char16_t"},  {'i', "char32_t"},       {'u', "char8_t"},           {'f', "decimal32"},
                  {'d', "decimal64"}, {'e', "decimal128"}};

static const struct ct_cxx_node *float_type(struct ct_cxx_parser *p) {
    const char *start = p->at;
    while (ct_cxx_is_digit(ct_cxx_peek(p)))
        p->at++;
    size_t digits = (size_t)(p->at - start);
    if (!digits || digits > 4 || (ct_cxx_peek(p) != '_' && ct_cxx_peek(p) != 'x' && ct_cxx_peek(p) != 'b'))
        return NULL;
    struct ct_cxx_node *node = ct_cxx_text(p, CXX_SUFFIXED, start, digits);
    bool brain = ct_cxx_peek(p) == 'b';
    if (node)
        node->text2 = brain ? "std::bfloat" : "_Float";
    if (node && ct_cxx_peek(p) == 'x')
        node->flags = 1;
    p->at++;
    if (brain && node) {
        node->flags = 2;
    }
    return node;
}

/* ---- compound types ---- */

static const struct ct_cxx_node *wrap(struct ct_cxx_parser *p, enum ct_cxx_kind kind) {
    const struct ct_cxx_node *inner = ct_cxx_type(p);
    return inner ? ct_cxx_node(p, kind, inner, NULL) : NULL;
}

/* Parses types up to E, the end or a qualifier of the function; "v" alone is an empty list. */
static bool parameters(struct ct_cxx_parser *p, const struct ct_cxx_node **out) {
    struct ct_cxx_node *head = NULL, *tail = NULL;
    for (;;) {
        char c = ct_cxx_peek(p);
        if (p->at == p->end || c == 'E' || c == '.')
            break;
        if ((c == 'R' || c == 'O') && ct_cxx_peek_next(p) == 'E')
            break;
        if (!ct_cxx_append(p, &head, &tail, ct_cxx_type(p)))
            return false;
    }
    if (!head)
        return false;
    if (!head->b && head->a->kind == CXX_TEXT && head->a->length == 4 && memcmp(head->a->text, "void", 4) == 0)
        head->a = NULL;
    *out = head;
    return true;
}

/* Makes a CXX_FUNCTION; for lambdas only its list matters. */
bool ct_cxx_bare_function(struct ct_cxx_parser *p, bool with_result, const struct ct_cxx_node **out) {
    const struct ct_cxx_node *result = NULL, *list;
    with_result |= ct_cxx_take(p, 'J');
    if (with_result && !(result = ct_cxx_type(p)))
        return false;
    *out = parameters(p, &list) ? ct_cxx_node(p, CXX_FUNCTION, result, list) : NULL;
    return *out != NULL;
}

static const struct ct_cxx_node *function_type(struct ct_cxx_parser *p, uint8_t flags,
                                               const struct ct_cxx_node *condition) {
    const struct ct_cxx_node *type;
    if (!ct_cxx_take(p, 'F'))
        return NULL;
    ct_cxx_take(p, 'Y');
    if (!ct_cxx_bare_function(p, true, &type))
        return NULL;
    if (ct_cxx_take(p, 'R'))
        flags |= CXX_LVALUE;
    else if (ct_cxx_take(p, 'O'))
        flags |= CXX_RVALUE;
    if (!ct_cxx_take(p, 'E'))
        return NULL;
    struct ct_cxx_node *function = (struct ct_cxx_node *)type;
    function->flags = flags;
    function->c = condition;
    return function;
}

static const struct ct_cxx_node *array_type(struct ct_cxx_parser *p) {
    const struct ct_cxx_node *size = NULL;
    p->at++;
    if (ct_cxx_is_digit(ct_cxx_peek(p))) {
        const char *start = p->at;
        while (ct_cxx_is_digit(ct_cxx_peek(p)))
            p->at++;
        size = ct_cxx_text(p, CXX_TEXT, start, (size_t)(p->at - start));
    } else if (ct_cxx_peek(p) != '_') {
        size = ct_cxx_expression(p);
        if (!size)
            return NULL;
    }
    if (!ct_cxx_take(p, '_'))
        return NULL;
    const struct ct_cxx_node *element = ct_cxx_type(p);
    return element ? ct_cxx_node(p, CXX_ARRAY, element, size) : NULL;
}

static const struct ct_cxx_node *vector_type(struct ct_cxx_parser *p) {
    const struct ct_cxx_node *size;
    if (ct_cxx_peek(p) == '_') {
        p->at++;
        size = ct_cxx_expression(p);
    } else {
        const char *start = p->at;
        while (ct_cxx_is_digit(ct_cxx_peek(p)))
            p->at++;
        size = p->at > start ? ct_cxx_text(p, CXX_TEXT, start, (size_t)(p->at - start)) : NULL;
    }
    if (!size || !ct_cxx_take(p, '_'))
        return NULL;
    const struct ct_cxx_node *element = ct_cxx_type(p);
    return element ? ct_cxx_node(p, CXX_VECTOR, element, size) : NULL;
}

const struct ct_cxx_node *ct_cxx_decltype(struct ct_cxx_parser *p) {
    p->at += 2;
    const struct ct_cxx_node *expression = ct_cxx_expression(p);
    if (!expression || !ct_cxx_take(p, 'E'))
        return NULL;
    return ct_cxx_node(p, CXX_DECLTYPE, expression, NULL);
}

static const struct ct_cxx_node *member_pointer(struct ct_cxx_parser *p) {
    p->at++;
    const struct ct_cxx_node *class = ct_cxx_type(p), *member = class ? ct_cxx_type(p) : NULL;
    return member ? ct_cxx_node(p, CXX_MEMBER_POINTER, class, member) : NULL;
}

/* ---- qualified types ---- */

static bool is_function_prefix(char next) {
    return next == 'o' || next == 'O' || next == 'w' || next == 'x';
}

/* Parses qualifiers, then a function or another type. */
static const struct ct_cxx_node *qualified_type(struct ct_cxx_parser *p) {
    uint8_t flags = 0;
    const struct ct_cxx_node *condition = NULL;
    for (;; p->at++) {
        char c = ct_cxx_peek(p);
        if (c == 'r')
            flags |= CXX_RESTRICT;
        else if (c == 'V')
            flags |= CXX_VOLATILE;
        else if (c == 'K')
            flags |= CXX_CONST;
        else
            break;
    }
    while (ct_cxx_peek(p) == 'D' && is_function_prefix(ct_cxx_peek_next(p))) {
        char c = ct_cxx_peek_next(p);
        p->at += 2;
        flags |= c == 'x' ? CXX_TRANSACTION : CXX_NOEXCEPT;
        if (c == 'O' && (!(condition = ct_cxx_expression(p)) || !ct_cxx_take(p, 'E')))
            return NULL;
    }
    if (ct_cxx_peek(p) == 'F')
        return function_type(p, flags, condition);
    const struct ct_cxx_node *inner = ct_cxx_type(p);
    struct ct_cxx_node *node = inner ? ct_cxx_node(p, CXX_QUALIFIED, inner, NULL) : NULL;
    if (node)
        node->flags = flags;
    return node;
}

static const struct ct_cxx_node *vendor_qualified(struct ct_cxx_parser *p) {
    p->at++;
    const struct ct_cxx_node *word = ct_cxx_source_name(p), *args = NULL;
    if (word && ct_cxx_peek(p) == 'I' && !(args = ct_cxx_template_args(p)))
        return NULL;
    const struct ct_cxx_node *inner = word ? ct_cxx_type(p) : NULL;
    struct ct_cxx_node *node = inner ? ct_cxx_text(p, CXX_SUFFIXED, word->text, word->length) : NULL;
    if (node) {
        node->a = inner;
        node->b = args;
    }
    return node;
}

/* ---- template parameters and arguments ---- */

const struct ct_cxx_node *ct_cxx_template_param(struct ct_cxx_parser *p) {
    uint32_t number;
    p->at++;
    if (!ct_cxx_sequence(p, &number))
        return NULL;
    struct ct_cxx_node *node = ct_cxx_node(p, CXX_PARAM, NULL, NULL);
    if (node)
        node->number = number;
    return node;
}

static const struct ct_cxx_node *template_arg(struct ct_cxx_parser *p) {
    const struct ct_cxx_node *node;
    switch (ct_cxx_peek(p)) {
    case 'X':
        p->at++;
        node = ct_cxx_expression(p);
        return node && ct_cxx_take(p, 'E') ? node : NULL;
    case 'L':
        return ct_cxx_literal(p);
    case 'I':
    case 'J':
        node = ct_cxx_template_args(p);
        return node ? ct_cxx_node(p, CXX_PACK, node, NULL) : NULL;
    default:
        return ct_cxx_type(p);
    }
}

const struct ct_cxx_node *ct_cxx_template_args(struct ct_cxx_parser *p) {
    struct ct_cxx_node *head = NULL, *tail = NULL;
    const struct ct_cxx_node *last = p->last_name;
    bool conversion = p->in_conversion;
    if ((ct_cxx_peek(p) != 'I' && ct_cxx_peek(p) != 'J') || !ct_cxx_enter(p))
        return NULL;
    p->at++;
    p->in_conversion = false;
    while (!ct_cxx_take(p, 'E'))
        if (!ct_cxx_append(p, &head, &tail, template_arg(p)))
            return NULL;
    p->in_conversion = conversion;
    p->last_name = last;
    p->depth--;
    return head ? head : ct_cxx_node(p, CXX_LIST, NULL, NULL);
}

/* Parses "T_", with arguments when it is a template. Arguments after the type of a conversion operator belong to the
 * operator: this shows where nothing could follow them. */
static const struct ct_cxx_node *param_type(struct ct_cxx_parser *p) {
    const struct ct_cxx_node *param = ct_cxx_template_param(p);
    if (!param || ct_cxx_peek(p) != 'I')
        return param;
    if (p->in_conversion) {
        struct ct_cxx_parser before = *p;
        if (!before.guesses)
            return NULL;
        p->guesses--;
        const struct ct_cxx_node *args = ct_cxx_template_args(p);
        bool again = args && ct_cxx_peek(p) == 'I';
        before.guesses = p->guesses;
        *p = before;
        if (!again)
            return param;
    }
    if (!ct_cxx_remember(p, param))
        return NULL;
    const struct ct_cxx_node *args = ct_cxx_template_args(p);
    return args ? ct_cxx_node(p, CXX_TEMPLATE, param, args) : NULL;
}

/* ---- any type ---- */

/* Parses a standard name or a substitution; a substitution is not remembered again. */
static const struct ct_cxx_node *s_type(struct ct_cxx_parser *p, bool *remember) {
    char next = ct_cxx_peek_next(p);
    if (next != '_' && !ct_cxx_is_digit(next) && !(next >= 'A' && next <= 'Z')) {
        const struct ct_cxx_node *name = ct_cxx_name(p);
        if (name && name->kind == CXX_TEXT) /* "Ss" and the like */
            *remember = false;
        return name;
    }
    const struct ct_cxx_node *node = ct_cxx_substitution(p);
    if (!node || ct_cxx_peek(p) != 'I') {
        *remember = false;
        return node;
    }
    const struct ct_cxx_node *args = ct_cxx_template_args(p);
    return args ? ct_cxx_node(p, CXX_TEMPLATE, node, args) : NULL;
}

static const struct ct_cxx_node *d_type(struct ct_cxx_parser *p, bool *remember) {
    char next = ct_cxx_peek_next(p);
    if (next == 'T' || next == 't')
        return ct_cxx_decltype(p);
    if (is_function_prefix(next))
        return qualified_type(p);
    p->at += 2;
    if (next == 'p')
        return wrap(p, CXX_EXPANSION);
    if (next == 'v')
        return vector_type(p);
    *remember = false;
    if (next == 'F')
        return float_type(p);
    for (size_t i = 0; i < sizeof d_builtins / sizeof *d_builtins; i++)
        if (d_builtins[i].letter == next)
            return ct_cxx_word(p, CXX_TEXT, d_builtins[i].text);
    return NULL;
}

static const struct ct_cxx_node *any_type(struct ct_cxx_parser *p, bool *remember) {
    char c = ct_cxx_peek(p), next = ct_cxx_peek_next(p);
    switch (c) {
    case 'r':
    case 'V':
    case 'K':
        return qualified_type(p);
    case 'P':
        p->at++;
        return wrap(p, CXX_POINTER);
    case 'R':
        p->at++;
        return wrap(p, CXX_LREF);
    case 'O':
        p->at++;
        return wrap(p, CXX_RREF);
    case 'C':
    case 'G': {
        struct ct_cxx_node *node;
        p->at++;
        const struct ct_cxx_node *inner = ct_cxx_type(p);
        node = inner ? ct_cxx_word(p, CXX_SUFFIXED, c == 'C' ? "_Complex" : "_Imaginary") : NULL;
        if (node)
            node->a = inner;
        return node;
    }
    case 'F':
        return function_type(p, 0, NULL);
    case 'A':
        return array_type(p);
    case 'M':
        return member_pointer(p);
    case 'U':
        if (next == 'l' || next == 't')
            return ct_cxx_name(p);
        return vendor_qualified(p);
    case 'T':
        if (next == 's' || next == 'u' || next == 'e') {
            p->at += 2;
            return ct_cxx_name(p);
        }
        return param_type(p);
    case 'S':
        return s_type(p, remember);
    case 'D':
        return d_type(p, remember);
    case 'u':
        p->at++;
        return ct_cxx_source_name(p);
    default:
        break;
    }
    if (ct_cxx_is_digit(c) || c == 'N' || c == 'Z')
        return ct_cxx_name(p);
    if (c < 'a' || c > 'z' || !builtins[c - 'a'])
        return NULL;
    p->at++;
    *remember = false;
    return ct_cxx_word(p, CXX_TEXT, builtins[c - 'a']);
}

const struct ct_cxx_node *ct_cxx_type(struct ct_cxx_parser *p) {
    bool remember = true;
    if (!ct_cxx_enter(p))
        return NULL;
    const struct ct_cxx_node *node = any_type(p, &remember);
    p->depth--;
    if (node && remember && !ct_cxx_remember(p, node))
        return NULL;
    return node;
}
