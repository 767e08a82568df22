/* SPDX-License-Identifier: Apache-2.0 */
/* C++ names, fourth part: expressions, as in template arguments, array bounds and decltype. */
#include "symbols/demangle_cxx.h"
#include <string.h>

/* ---- values ---- */

const struct ct_cxx_node *ct_cxx_literal(struct ct_cxx_parser *p) {
    p->at++;
    if (ct_cxx_take_two(p, "_Z") || (ct_cxx_peek(p) == 'Z' && ct_cxx_take(p, 'Z'))) {
        const struct ct_cxx_node *entity = ct_cxx_encoding(p, false);
        return entity && ct_cxx_take(p, 'E') ? entity : NULL;
    }
    const struct ct_cxx_node *type = ct_cxx_type(p);
    if (!type)
        return NULL;
    const char *start = p->at;
    while (p->at < p->end && *p->at != 'E')
        p->at++;
    struct ct_cxx_node *node = ct_cxx_text(p, CXX_LITERAL, start, (size_t)(p->at - start));
    if (!node || !ct_cxx_take(p, 'E'))
        return NULL;
    node->a = type;
    return node;
}

static const struct ct_cxx_node *function_param(struct ct_cxx_parser *p) {
    uint32_t number = 0, level;
    if (ct_cxx_take_two(p, "fL")) {
        if (!ct_cxx_number(p, &level) || !ct_cxx_take(p, 'p'))
            return NULL;
    } else {
        p->at += 2;
    }
    if (!ct_cxx_take(p, 'T')) {
        while (ct_cxx_peek(p) == 'r' || ct_cxx_peek(p) == 'V' || ct_cxx_peek(p) == 'K')
            p->at++;
        if (!ct_cxx_sequence(p, &number))
            return NULL;
        number++;
    }
    struct ct_cxx_node *node = ct_cxx_node(p, CXX_FUNCTION_PARAM, NULL, NULL);
    if (node)
        node->number = number;
    return node;
}

/* Expressions up to E. */
static const struct ct_cxx_node *list(struct ct_cxx_parser *p, char end) {
    struct ct_cxx_node *head = NULL, *tail = NULL;
    while (!ct_cxx_take(p, end))
        if (!ct_cxx_append(p, &head, &tail, ct_cxx_expression(p)))
            return NULL;
    return head ? head : ct_cxx_node(p, CXX_LIST, NULL, NULL);
}

/* ---- names that are not resolved yet ---- */

static const struct ct_cxx_node *with_arguments(struct ct_cxx_parser *p, const struct ct_cxx_node *name) {
    if (!name || ct_cxx_peek(p) != 'I')
        return name;
    const struct ct_cxx_node *args = ct_cxx_template_args(p);
    return args ? ct_cxx_node(p, CXX_TEMPLATE, name, args) : NULL;
}

static const struct ct_cxx_node *base_name(struct ct_cxx_parser *p) {
    if (ct_cxx_take_two(p, "dn")) {
        const struct ct_cxx_node *type = ct_cxx_is_digit(ct_cxx_peek(p)) ? ct_cxx_source_name(p) : ct_cxx_type(p);
        struct ct_cxx_node *node = type ? ct_cxx_word(p, CXX_UNARY, "~") : NULL;
        if (node)
            node->a = type;
        return node;
    }
    ct_cxx_take_two(p, "on");
    return with_arguments(p, ct_cxx_unqualified(p, NULL));
}

static const struct ct_cxx_node *scoped_name(struct ct_cxx_parser *p) {
    const struct ct_cxx_node *scope, *name;
    bool named = ct_cxx_is_digit(ct_cxx_peek(p)) && !p->old_scopes, levels = named;
    if (!p->old_scopes && ct_cxx_take(p, 'N'))
        levels = true;
    p->saw_scopes |= levels;
    scope = named ? with_arguments(p, ct_cxx_source_name(p)) : ct_cxx_type(p);
    while (levels && scope && ct_cxx_peek(p) != 'E') {
        name = with_arguments(p, ct_cxx_source_name(p));
        scope = name ? ct_cxx_node(p, CXX_NESTED, scope, name) : NULL;
    }
    if (!scope || (levels && !ct_cxx_take(p, 'E')))
        return NULL;
    name = base_name(p);
    if (name && name->kind == CXX_TEMPLATE) {
        const struct ct_cxx_node *nested_name = ct_cxx_node(p, CXX_NESTED, scope, name->a);
        return nested_name ? ct_cxx_node(p, CXX_TEMPLATE, nested_name, name->b) : NULL;
    }
    return name ? ct_cxx_node(p, CXX_NESTED, scope, name) : NULL;
}

/* ---- operators ---- */

static const struct ct_cxx_node *unary(struct ct_cxx_parser *p, const struct ct_cxx_operator *o) {
    bool of_type = !strcmp(o->code, "st") || !strcmp(o->code, "at") || !strcmp(o->code, "ti");
    bool step = !strcmp(o->code, "pp") || !strcmp(o->code, "mm");
    enum ct_cxx_kind kind = step && !ct_cxx_take(p, '_') ? CXX_SUFFIX : CXX_UNARY;
    const struct ct_cxx_node *operand = NULL;
    if (!strcmp(o->code, "sP")) {
        operand = NULL;
        struct ct_cxx_node *head = NULL, *tail = NULL;
        while (!ct_cxx_take(p, 'E'))
            if (!ct_cxx_append(p, &head, &tail, ct_cxx_is_digit(ct_cxx_peek(p)) ? NULL : ct_cxx_expression(p)))
                return NULL;
        operand = head;
    } else {
        operand = of_type ? ct_cxx_type(p) : ct_cxx_expression(p);
    }
    struct ct_cxx_node *node = operand ? ct_cxx_word(p, kind, o->name) : NULL;
    if (node) {
        node->a = operand;
        node->text2 = o->code;
    }
    return node;
}

static const struct ct_cxx_node *binary(struct ct_cxx_parser *p, const struct ct_cxx_operator *o) {
    const char *code = o->code;
    bool cast = strlen(o->name) > 9; /* static_cast and the like */
    const struct ct_cxx_node *left = cast ? ct_cxx_type(p) : ct_cxx_expression(p), *right = NULL;
    if (!left)
        return NULL;
    if (!strcmp(code, "cl")) {
        right = list(p, 'E');
        return right ? ct_cxx_node(p, CXX_CALL, left, right) : NULL;
    }
    if (!strcmp(code, "dt") || !strcmp(code, "pt")) {
        if (ct_cxx_take_two(p, "gs")) {
        }
        right = ct_cxx_take_two(p, "sr") ? scoped_name(p) : base_name(p);
    } else {
        right = ct_cxx_expression(p);
    }
    struct ct_cxx_node *node = right ? ct_cxx_word(p, cast ? CXX_NAMED_CAST : CXX_BINARY, o->name) : NULL;
    if (node) {
        node->a = left;
        node->b = right;
        node->text2 = code;
    }
    return node;
}

static const struct ct_cxx_node *fold(struct ct_cxx_parser *p, const struct ct_cxx_operator *o) {
    const struct ct_cxx_operator *inner = ct_cxx_operator_at(p);
    if (!inner)
        return NULL;
    p->at += 2;
    struct ct_cxx_node *node = ct_cxx_word(p, CXX_FOLD, inner->name);
    if (!node || !(node->a = ct_cxx_expression(p)))
        return NULL;
    node->number = (uint32_t)o->code[1];
    if (o->arguments == 3 && !(node->b = ct_cxx_expression(p)))
        return NULL;
    return node;
}

static const struct ct_cxx_node *new_expression(struct ct_cxx_parser *p, const struct ct_cxx_operator *o) {
    struct ct_cxx_node *node = ct_cxx_word(p, CXX_NEW, o->name);
    if (!node || !(node->a = list(p, '_')) || !(node->b = ct_cxx_type(p)))
        return NULL;
    if (ct_cxx_take(p, 'E'))
        return node;
    if (ct_cxx_take_two(p, "pi"))
        node->c = list(p, 'E');
    else if (ct_cxx_peek(p) == 'i' && ct_cxx_peek_next(p) == 'l')
        node->c = ct_cxx_expression(p);
    return node->c ? node : NULL;
}

static const struct ct_cxx_node *ternary(struct ct_cxx_parser *p, const struct ct_cxx_operator *o) {
    if (o->code[0] == 'f')
        return fold(p, o);
    if (o->code[0] == 'n')
        return new_expression(p, o);
    struct ct_cxx_node *node = ct_cxx_node(p, CXX_CONDITIONAL, NULL, NULL);
    if (!node || !(node->a = ct_cxx_expression(p)) || !(node->b = ct_cxx_expression(p)) ||
        !(node->c = ct_cxx_expression(p)))
        return NULL;
    return node;
}

static const struct ct_cxx_node *cast(struct ct_cxx_parser *p) {
    bool was = p->in_expression, conversion = p->in_conversion;
    p->in_expression = true;
    p->in_conversion = false;
    const struct ct_cxx_node *type = ct_cxx_type(p), *operand = NULL;
    p->in_expression = was;
    p->in_conversion = conversion;
    if (type)
        operand = ct_cxx_take(p, '_') ? list(p, 'E') : ct_cxx_expression(p);
    return operand ? ct_cxx_node(p, CXX_CAST, type, operand) : NULL;
}

static const struct ct_cxx_node *braces(struct ct_cxx_parser *p, bool typed) {
    const struct ct_cxx_node *type = typed ? ct_cxx_type(p) : NULL;
    if (typed && !type)
        return NULL;
    const struct ct_cxx_node *values = list(p, 'E');
    return values ? ct_cxx_node(p, CXX_BRACES, type, values) : NULL;
}

static const struct ct_cxx_node *word(struct ct_cxx_parser *p, const char *text, const struct ct_cxx_node *operand) {
    struct ct_cxx_node *node = operand ? ct_cxx_word(p, CXX_WORD, text) : NULL;
    if (node)
        node->a = operand;
    return node;
}

static const struct ct_cxx_node *operation(struct ct_cxx_parser *p) {
    const struct ct_cxx_operator *o = ct_cxx_operator_at(p);
    if (ct_cxx_take_two(p, "cv"))
        return cast(p);
    if (!o)
        return NULL;
    p->at += 2;
    if (!strcmp(o->code, "gs")) {
        struct ct_cxx_node *node = ct_cxx_word(p, CXX_UNARY, "::");
        if (!node || !(node->a = ct_cxx_expression(p)))
            return NULL;
        node->text2 = o->code;
        return node;
    }
    switch (o->arguments) {
    case 0:
        return ct_cxx_word(p, CXX_TEXT, o->name);
    case 1:
        return unary(p, o);
    case 2:
        return o->code[0] == 'f' ? fold(p, o) : binary(p, o);
    default:
        return ternary(p, o);
    }
}

static const struct ct_cxx_node *expression(struct ct_cxx_parser *p) {
    char c = ct_cxx_peek(p), next = ct_cxx_peek_next(p);
    if (c == 'L')
        return ct_cxx_literal(p);
    if (c == 'T')
        return ct_cxx_template_param(p);
    if (ct_cxx_is_digit(c) || (c == 'o' && next == 'n'))
        return base_name(p);
    if (c == 'f' && (next == 'p' || (next == 'L' && p->end - p->at > 2 && ct_cxx_is_digit(p->at[2]))))
        return function_param(p);
    if (ct_cxx_take_two(p, "sr"))
        return scoped_name(p);
    if (ct_cxx_take_two(p, "sp")) {
        const struct ct_cxx_node *inner = ct_cxx_expression(p);
        return inner ? ct_cxx_node(p, CXX_EXPANSION, inner, NULL) : NULL;
    }
    if (ct_cxx_take_two(p, "tl"))
        return braces(p, true);
    if (ct_cxx_take_two(p, "il"))
        return braces(p, false);
    if (ct_cxx_take_two(p, "nx"))
        return word(p, "noexcept", ct_cxx_expression(p));
    if (c == 'u') {
        p->at++;
        const struct ct_cxx_node *name = ct_cxx_source_name(p), *values = name ? list(p, 'E') : NULL;
        return values ? ct_cxx_node(p, CXX_CALL, name, values) : NULL;
    }
    return operation(p);
}

const struct ct_cxx_node *ct_cxx_expression(struct ct_cxx_parser *p) {
    if (!ct_cxx_enter(p))
        return NULL;
    bool was = p->in_expression;
    p->in_expression = true;
    const struct ct_cxx_node *node = expression(p);
    p->in_expression = was;
    p->depth--;
    return node;
}
