/* SPDX-License-Identifier: Apache-2.0 */
/* C++ names, last part: prints the tree, spelled as c++filt does.
 *
 * A type is printed in two halves around the name that it declares: `left` before it, `right` after it. Template
 * parameters are resolved while printing, because one part of a name may mean different things at different places:
 * `scope` is the list of arguments that apply, innermost first. */
#include "symbols/demangle_cxx_print.h"
#include <string.h>

struct place {
    const struct ct_cxx_node *node; /* NULL: there is no such argument */
    const struct ct_cxx_scope *scope;
};

static void left(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope);
static void right(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope);

/* ---- text ---- */

static char last(const struct ct_cxx_printer *p) {
    return p->out->length ? p->out->text[p->out->length - 1] : 0;
}

void ct_cxx_print_whole(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    left(p, n, scope);
    right(p, n, scope);
}

/* ---- template parameters ---- */

static const struct ct_cxx_node *item(const struct ct_cxx_node *list, uint32_t index) {
    for (; list && list->a; list = list->b)
        if (index-- == 0)
            return list->a;
    return NULL;
}

/* Resolves a template parameter, and the scope of its argument. Other nodes resolve to themselves. */
static struct place resolve(const struct ct_cxx_printer *p, const struct ct_cxx_node *n,
                            const struct ct_cxx_scope *scope) {
    while (n && n->kind == CXX_PARAM && !p->lambda) {
        if (!scope)
            return (struct place){0};
        n = item(scope->args, n->number);
        if (n && n->kind == CXX_PACK)
            n = item(n->a, p->pack);
        scope = scope->outer;
    }
    return (struct place){n, scope};
}

/* The first pack in the pattern of an expansion; NULL: none. */
const struct ct_cxx_node *ct_cxx_find_pack(struct ct_cxx_printer *p, const struct ct_cxx_node *n,
                                           const struct ct_cxx_scope *scope) {
    if (!n || p->out->failed || n->kind == CXX_LAMBDA || n->kind == CXX_EXPANSION)
        return NULL;
    if (++p->steps > CXX_MAX_STEPS || p->depth > CXX_MAX_PRINT_DEPTH) {
        give_up(p);
        return NULL;
    }
    if (n->kind == CXX_PARAM) {
        const struct ct_cxx_node *argument = scope ? item(scope->args, n->number) : NULL;
        return argument && argument->kind == CXX_PACK ? argument : NULL;
    }
    p->depth++;
    const struct ct_cxx_node *found = ct_cxx_find_pack(p, n->a, scope);
    if (!found)
        found = ct_cxx_find_pack(p, n->b, scope);
    if (!found)
        found = ct_cxx_find_pack(p, n->c, scope);
    p->depth--;
    return found;
}

uint32_t ct_cxx_pack_length(const struct ct_cxx_node *pack) {
    uint32_t n = 0;
    while (item(pack->a, n))
        n++;
    return n;
}

/* ---- lists ---- */

/* True when the last item was an empty pack, and its comma was removed. */
bool ct_cxx_print_list(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    bool taken_back = false;
    for (bool first = true; n && !p->out->failed; n = n->b, first = false) {
        size_t before = p->out->length;
        if (!first)
            add(p, ", ");
        size_t start = p->out->length;
        if (n->a)
            ct_cxx_print_whole(p, n->a, scope);
        if (!first && p->out->length == start && !p->out->failed && !n->b)
            p->out->length = before, taken_back = true;
    }
    return taken_back;
}

static void expansion(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    const struct ct_cxx_node *pack = ct_cxx_find_pack(p, n->a, scope);
    if (!pack) {
        ct_cxx_print_subexpression(p, n->a, scope);
        add(p, "...");
        return;
    }
    unsigned was = p->pack;
    uint32_t length = ct_cxx_pack_length(pack);
    for (uint32_t i = 0; i < length && !p->out->failed; i++) {
        if (i)
            add(p, ", ");
        p->pack = i;
        ct_cxx_print_whole(p, n->a, scope);
    }
    p->pack = was;
}

static void arguments(struct ct_cxx_printer *p, const struct ct_cxx_node *args, const struct ct_cxx_scope *scope) {
    const struct ct_cxx_node *was = p->current;
    if (last(p) == '<')
        add(p, " ");
    add(p, "<");
    if (!ct_cxx_print_list(p, args, scope) && last(p) == '>')
        add(p, " ");
    add(p, ">");
    p->current = was;
}

/* ---- types ---- */

static void qualifiers(struct ct_cxx_printer *p, unsigned flags) {
    if (flags & CXX_CONST)
        add(p, " const");
    if (flags & CXX_VOLATILE)
        add(p, " volatile");
    if (flags & CXX_RESTRICT)
        add(p, " __restrict");
}

static void function_qualifiers(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope,
                                unsigned flags) {
    qualifiers(p, flags);
    if (flags & CXX_TRANSACTION)
        add(p, " transaction_safe");
    if (flags & CXX_LVALUE)
        add(p, " &");
    if (flags & CXX_RVALUE)
        add(p, " &&");
    if (flags & CXX_NOEXCEPT) {
        add(p, " noexcept");
        if (n->c) {
            add(p, "(");
            ct_cxx_print_whole(p, n->c, scope);
            add(p, ")");
        }
    }
}

enum shape { PLAIN, FUNCTION, ARRAY };

/* Shape of the type inside a pointer, reference or qualifier. */
static enum shape shape_of(const struct ct_cxx_printer *p, const struct ct_cxx_node *n,
                           const struct ct_cxx_scope *scope) {
    struct place at = resolve(p, n, scope);
    while (at.node && at.node->kind == CXX_QUALIFIED)
        at = resolve(p, at.node->a, at.scope);
    if (!at.node)
        return PLAIN;
    return at.node->kind == CXX_FUNCTION ? FUNCTION : at.node->kind == CXX_ARRAY ? ARRAY : PLAIN;
}

static void open_paren(struct ct_cxx_printer *p, enum shape shape) {
    if (shape == ARRAY)
        add(p, " (");
    else if (shape == FUNCTION)
        add(p, strchr(" (*", last(p)) ? "(" : " (");
}

/* Collapses references to references, which template arguments create, into one reference. */
static struct place collapse(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope,
                             bool *lvalue) {
    struct place at = resolve(p, n->a, scope);
    *lvalue = n->kind == CXX_LREF;
    while (at.node && (at.node->kind == CXX_LREF || at.node->kind == CXX_RREF)) {
        *lvalue |= at.node->kind == CXX_LREF;
        at = resolve(p, at.node->a, at.scope);
    }
    return at;
}

static void pointer_left(struct ct_cxx_printer *p, struct place inner, const char *sign) {
    if (!inner.node) {
        give_up(p);
        return;
    }
    left(p, inner.node, inner.scope);
    open_paren(p, shape_of(p, inner.node, inner.scope));
    add(p, sign);
}

static void pointer_right(struct ct_cxx_printer *p, struct place inner) {
    if (!inner.node)
        return;
    if (shape_of(p, inner.node, inner.scope) != PLAIN)
        add(p, ")");
    right(p, inner.node, inner.scope);
}

static void member_left(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    left(p, n->b, scope);
    enum shape shape = shape_of(p, n->b, scope);
    open_paren(p, shape);
    if (shape == PLAIN)
        add(p, " ");
    ct_cxx_print_whole(p, n->a, scope);
    add(p, "::*");
}

/* Leaves out qualifiers that the argument already has. */
static unsigned inner_qualifiers(const struct ct_cxx_printer *p, const struct ct_cxx_node *n,
                                 const struct ct_cxx_scope *scope) {
    struct place at = resolve(p, n, scope);
    unsigned flags = 0;
    while (at.node && at.node->kind == CXX_QUALIFIED) {
        flags |= at.node->flags;
        at = resolve(p, at.node->a, at.scope);
    }
    return flags;
}

static void qualified_left(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    left(p, n->a, scope);
    if (shape_of(p, n->a, scope) != FUNCTION)
        qualifiers(p, n->flags & ~inner_qualifiers(p, n->a, scope));
}

void ct_cxx_print_parameters(struct ct_cxx_printer *p, const struct ct_cxx_node *list_node,
                             const struct ct_cxx_scope *scope) {
    add(p, "(");
    ct_cxx_print_list(p, list_node, scope);
    add(p, ")");
}

/* True when the result of a function continues after its parameters: no space is before its name then. */
static bool goes_on(const struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    for (struct place at = resolve(p, n, scope); at.node;) {
        const struct ct_cxx_node *inner = at.node->kind == CXX_MEMBER_POINTER ? at.node->b : at.node->a;
        if (at.node->kind < CXX_QUALIFIED || (at.node->kind > CXX_RREF && at.node->kind != CXX_MEMBER_POINTER))
            return false;
        if (at.node->kind != CXX_QUALIFIED && shape_of(p, inner, at.scope) != PLAIN)
            return true;
        at = resolve(p, inner, at.scope);
    }
    return false;
}

static void function_left(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    if (n->a) {
        left(p, n->a, scope);
        if (!goes_on(p, n->a, scope))
            add(p, " ");
    }
}

static void function_right(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    ct_cxx_print_parameters(p, n->b, scope);
    if (n->a)
        right(p, n->a, scope);
    function_qualifiers(p, n, scope, n->flags);
}

static void array_right(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    if (last(p) != ']')
        add(p, " ");
    add(p, "[");
    if (n->b)
        ct_cxx_print_whole(p, n->b, scope);
    add(p, "]");
    right(p, n->a, scope);
}

/* ---- names ---- */

/* The part before the parameters, and its flags. */
const struct ct_cxx_node *ct_cxx_method_name(const struct ct_cxx_node *n, unsigned *flags) {
    while (n->kind == CXX_METHOD) {
        *flags |= n->flags;
        n = n->a;
    }
    return n;
}

/* The template that a function is an instance of; NULL: none. */
static const struct ct_cxx_node *template_of(const struct ct_cxx_node *name, unsigned *flags) {
    name = ct_cxx_method_name(name, flags);
    if (name->kind == CXX_LOCAL) {
        name = name->b;
        if (name->kind == CXX_DEFAULT)
            name = name->a;
        name = ct_cxx_method_name(name, flags);
    }
    return name->kind == CXX_TEMPLATE ? name : NULL;
}

static void local_name(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    unsigned flags = 0;
    const struct ct_cxx_node *entity = n->b;
    ct_cxx_print_whole(p, n->a, scope);
    add(p, "::");
    if (entity->kind == CXX_DEFAULT) {
        add_number(p, "{default arg#", entity->number + 1, "}::");
        entity = entity->a;
    }
    ct_cxx_print_whole(p, ct_cxx_method_name(entity, &flags), scope);
}

static void encoding(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    unsigned flags = 0;
    const struct ct_cxx_node *instance = template_of(n->a, &flags), *type = n->b;
    struct ct_cxx_scope inner = {instance ? instance->b : NULL, scope};
    const struct ct_cxx_scope *types = instance ? &inner : scope;
    if (type->a) {
        left(p, type->a, types);
        if (!goes_on(p, type->a, types))
            add(p, " ");
    }
    unsigned ignored = 0;
    ct_cxx_print_whole(p, ct_cxx_method_name(n->a, &ignored), scope);
    ct_cxx_print_parameters(p, type->b, types);
    if (type->a)
        right(p, type->a, types);
    function_qualifiers(p, type, types, flags);
}

static void conversion(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    struct ct_cxx_scope inner = {p->current, scope};
    add(p, "operator ");
    ct_cxx_print_whole(p, n->a, p->current ? &inner : scope);
}

static void operator_name(struct ct_cxx_printer *p, const struct ct_cxx_node *n) {
    size_t length = n->length;
    add(p, "operator");
    if (n->a) { /* a literal operator */
        add(p, "\"\" ");
        add_text(p, n->a);
        return;
    }
    if (n->text[0] >= 'a' && n->text[0] <= 'z')
        add(p, " ");
    if (length && n->text[length - 1] == ' ')
        length--;
    ct_demangle_add(p->out, n->text, length);
}

static void template_name(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    const struct ct_cxx_node *was = p->current;
    p->current = n->b;
    ct_cxx_print_whole(p, n->a, scope);
    p->current = was;
    arguments(p, n->b, scope);
}

static void lambda(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    add(p, "{lambda");
    p->lambda++;
    ct_cxx_print_parameters(p, n->a->b, scope);
    p->lambda--;
    add_number(p, "#", n->number + 1, "}");
}

static void suffixed(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    if (!n->a) { /* _Float16 and the like */
        add(p, n->text2);
        add_text(p, n);
        if (n->flags)
            add(p, n->flags == 1 ? "x" : "_t");
        return;
    }
    ct_cxx_print_whole(p, n->a, scope);
    add(p, " ");
    add_text(p, n);
    if (n->b)
        arguments(p, n->b, scope);
}

/* ---- all nodes ---- */

static void parameter(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope,
                      bool is_left) {
    if (p->lambda) {
        if (is_left)
            add_number(p, "auto:", n->number + 1, "");
        return;
    }
    struct place at = resolve(p, n, scope);
    if (!at.node)
        give_up(p);
    else if (is_left)
        left(p, at.node, at.scope);
    else
        right(p, at.node, at.scope);
}

static void name(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    unsigned flags = 0;
    switch (n->kind) {
    case CXX_TEXT:
    case CXX_CONSTRUCTOR:
        add_text(p, n);
        break;
    case CXX_DESTRUCTOR:
        add(p, "~");
        add_text(p, n);
        break;
    case CXX_NESTED:
        ct_cxx_print_whole(p, n->a, scope);
        add(p, "::");
        ct_cxx_print_whole(p, n->b, scope);
        break;
    case CXX_LOCAL:
        local_name(p, n, scope);
        break;
    case CXX_TEMPLATE:
        template_name(p, n, scope);
        break;
    case CXX_METHOD:
        ct_cxx_print_whole(p, ct_cxx_method_name(n, &flags), scope);
        function_qualifiers(p, n, scope, flags);
        break;
    case CXX_ENCODING:
        encoding(p, n, scope);
        break;
    case CXX_SPECIAL:
        add_text(p, n);
        ct_cxx_print_whole(p, n->a, scope);
        if (n->b) {
            add(p, n->text2);
            ct_cxx_print_whole(p, n->b, scope);
        }
        break;
    case CXX_OPERATOR:
        operator_name(p, n);
        break;
    case CXX_CONVERSION:
        conversion(p, n, scope);
        break;
    case CXX_LAMBDA:
        lambda(p, n, scope);
        break;
    case CXX_UNNAMED:
        add_number(p, "{unnamed type#", n->number + 1, "}");
        break;
    case CXX_TAGGED:
        ct_cxx_print_whole(p, n->a, scope);
        add(p, "[abi:");
        add_text(p, n);
        add(p, "]");
        break;
    case CXX_CLONE:
        ct_cxx_print_whole(p, n->a, scope);
        add(p, " [clone ");
        add_text(p, n);
        add(p, "]");
        break;
    case CXX_BINDING:
        add(p, "[");
        ct_cxx_print_list(p, n->a, scope);
        add(p, "]");
        break;
    default:
        ct_cxx_print_expression(p, n, scope);
    }
}

static bool count_step(struct ct_cxx_printer *p) {
    if (p->out->failed)
        return false;
    if (++p->steps > CXX_MAX_STEPS || p->depth >= CXX_MAX_PRINT_DEPTH) {
        give_up(p);
        return false;
    }
    return true;
}

static void left_half(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    bool lvalue;
    switch (n->kind) {
    case CXX_PARAM:
        parameter(p, n, scope, true);
        break;
    case CXX_QUALIFIED:
        qualified_left(p, n, scope);
        break;
    case CXX_POINTER:
        pointer_left(p, resolve(p, n->a, scope), "*");
        break;
    case CXX_LREF:
    case CXX_RREF: {
        struct place inner = collapse(p, n, scope, &lvalue);
        pointer_left(p, inner, lvalue ? "&" : "&&");
        break;
    }
    case CXX_MEMBER_POINTER:
        member_left(p, n, scope);
        break;
    case CXX_FUNCTION:
        function_left(p, n, scope);
        break;
    case CXX_ARRAY:
        left(p, n->a, scope);
        break;
    case CXX_VECTOR:
        ct_cxx_print_whole(p, n->a, scope);
        ct_cxx_print_parenthesized(p, " __vector", n->b, scope);
        break;
    case CXX_SUFFIXED:
        suffixed(p, n, scope);
        break;
    case CXX_EXPANSION:
        expansion(p, n, scope);
        break;
    case CXX_PACK:
        ct_cxx_print_list(p, n->a, scope);
        break;
    case CXX_LIST:
        ct_cxx_print_list(p, n, scope);
        break;
    default:
        name(p, n, scope);
    }
}

static void left(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    if (!count_step(p))
        return;
    p->depth++;
    left_half(p, n, scope);
    p->depth--;
}

static void right(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    bool lvalue;
    if (!count_step(p))
        return;
    p->depth++;
    switch (n->kind) {
    case CXX_PARAM:
        parameter(p, n, scope, false);
        break;
    case CXX_QUALIFIED:
        right(p, n->a, scope);
        if (shape_of(p, n->a, scope) == FUNCTION)
            qualifiers(p, n->flags);
        break;
    case CXX_POINTER:
        pointer_right(p, resolve(p, n->a, scope));
        break;
    case CXX_LREF:
    case CXX_RREF:
        pointer_right(p, collapse(p, n, scope, &lvalue));
        break;
    case CXX_MEMBER_POINTER:
        pointer_right(p, resolve(p, n->b, scope));
        break;
    case CXX_FUNCTION:
        function_right(p, n, scope);
        break;
    case CXX_ARRAY:
        array_right(p, n, scope);
        break;
    default:
        break;
    }
    p->depth--;
}

bool ct_cxx_print(struct ct_demangle_text *out, const struct ct_cxx_node *root) {
    struct ct_cxx_printer p = {.out = out};
    ct_cxx_print_whole(&p, root, NULL);
    return !out->failed;
}
