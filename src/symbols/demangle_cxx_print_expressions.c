/* SPDX-License-Identifier: Apache-2.0 */
/* Printing C++ names: expressions. */
#include "symbols/demangle_cxx_print.h"
#include <string.h>

static bool is_simple(const struct ct_cxx_node *n) {
    return n->kind == CXX_TEXT || n->kind == CXX_NESTED || n->kind == CXX_BRACES || n->kind == CXX_FUNCTION_PARAM;
}

void ct_cxx_print_subexpression(struct ct_cxx_printer *p, const struct ct_cxx_node *n,
                                const struct ct_cxx_scope *scope) {
    bool simple = is_simple(n);
    if (!simple)
        add(p, "(");
    if (n->kind == CXX_LIST)
        ct_cxx_print_list(p, n, scope);
    else
        ct_cxx_print_whole(p, n, scope);
    if (!simple)
        add(p, ")");
}

static bool is_text(const struct ct_cxx_node *n, const char *text) {
    return n->kind == CXX_TEXT && n->length == strlen(text) && memcmp(n->text, text, n->length) == 0;
}

static void literal(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    static const char *const suffixes[][2] = {{"int", ""},         {"unsigned int", "u"},
                                              {"long", "l"},       {"unsigned long", "ul"},
                                              {"long long", "ll"}, {"unsigned long long", "ull"}};
    bool negative = n->length && n->text[0] == 'n';
    const char *digits = n->text + negative;
    size_t length = n->length - negative;
    if (is_text(n->a, "bool") && !negative && length == 1 && (*digits == '0' || *digits == '1')) {
        add(p, *digits == '0' ? "false" : "true");
        return;
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (is_text(n->a, suffixes[i][0])) {
            add(p, negative ? "-" : "");
            ct_demangle_add(p->out, digits, length);
            add(p, suffixes[i][1]);
            return;
        }
    bool real = is_text(n->a, "float") || is_text(n->a, "double") || is_text(n->a, "long double") ||
                is_text(n->a, "__float128");
    add(p, "(");
    ct_cxx_print_whole(p, n->a, scope);
    add(p, ")");
    add(p, negative ? "-" : "");
    add(p, real ? "[" : "");
    ct_demangle_add(p->out, digits, length);
    add(p, real ? "]" : "");
}

static void unary(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    const struct ct_cxx_node *operand = n->a;
    const char *code = n->text2 ? n->text2 : "";
    if (!strcmp(code, "sZ")) {
        const struct ct_cxx_node *pack = ct_cxx_find_pack(p, operand, scope);
        if (pack) {
            add_number(p, "", ct_cxx_pack_length(pack), "");
            return;
        }
    }
    if (!strcmp(code, "ad") && operand->kind == CXX_ENCODING && operand->a->kind == CXX_NESTED)
        operand = operand->a; /* the address of a member: without its parameters */
    add_text(p, n);
    if (!strcmp(code, "gs")) {
        ct_cxx_print_whole(p, operand, scope);
    } else if (!strcmp(code, "st")) {
        add(p, "(");
        ct_cxx_print_whole(p, operand, scope);
        add(p, ")");
    } else {
        ct_cxx_print_subexpression(p, operand, scope);
    }
}

static void binary(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    bool greater = n->length == 1 && n->text[0] == '>';
    add(p, greater ? "(" : "");
    ct_cxx_print_subexpression(p, n->a, scope);
    if (!strcmp(n->text2, "ix")) {
        add(p, "[");
        ct_cxx_print_whole(p, n->b, scope);
        add(p, "]");
    } else {
        add_text(p, n);
        ct_cxx_print_subexpression(p, n->b, scope);
    }
    add(p, greater ? ")" : "");
}

static void call(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    const struct ct_cxx_node *function = n->a;
    if (function->kind == CXX_ENCODING) {
        unsigned flags = 0;
        function = ct_cxx_method_name(function->a, &flags);
    }
    ct_cxx_print_subexpression(p, function, scope);
    ct_cxx_print_parameters(p, n->b, scope);
}

static void fold(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    bool from_left = n->number == 'l' || n->number == 'L';
    add(p, "(");
    if (n->b) {
        ct_cxx_print_subexpression(p, n->a, scope);
        add_text(p, n);
        add(p, "...");
        add_text(p, n);
        ct_cxx_print_subexpression(p, n->b, scope);
    } else if (from_left) {
        add(p, "...");
        add_text(p, n);
        ct_cxx_print_subexpression(p, n->a, scope);
    } else {
        ct_cxx_print_subexpression(p, n->a, scope);
        add_text(p, n);
        add(p, "...");
    }
    add(p, ")");
}

static void new_expression(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    add(p, "new ");
    if (n->a->a) {
        ct_cxx_print_subexpression(p, n->a, scope);
        add(p, " ");
    }
    ct_cxx_print_whole(p, n->b, scope);
    if (n->c)
        ct_cxx_print_subexpression(p, n->c, scope);
}

void ct_cxx_print_parenthesized(struct ct_cxx_printer *p, const char *word, const struct ct_cxx_node *n,
                                const struct ct_cxx_scope *scope) {
    add(p, word);
    add(p, "(");
    ct_cxx_print_whole(p, n, scope);
    add(p, ")");
}

void ct_cxx_print_expression(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope) {
    switch (n->kind) {
    case CXX_LITERAL:
        literal(p, n, scope);
        break;
    case CXX_FUNCTION_PARAM:
        if (n->number)
            add_number(p, "{parm#", n->number, "}");
        else
            add(p, "this");
        break;
    case CXX_UNARY:
        unary(p, n, scope);
        break;
    case CXX_SUFFIX:
        ct_cxx_print_subexpression(p, n->a, scope);
        add_text(p, n);
        break;
    case CXX_BINARY:
        binary(p, n, scope);
        break;
    case CXX_CONDITIONAL:
        ct_cxx_print_subexpression(p, n->a, scope);
        add(p, "?");
        ct_cxx_print_subexpression(p, n->b, scope);
        add(p, " : ");
        ct_cxx_print_subexpression(p, n->c, scope);
        break;
    case CXX_CALL:
        call(p, n, scope);
        break;
    case CXX_CAST:
        ct_cxx_print_parenthesized(p, "", n->a, scope);
        ct_cxx_print_subexpression(p, n->b, scope);
        break;
    case CXX_NAMED_CAST:
        add_text(p, n);
        add(p, "<");
        ct_cxx_print_whole(p, n->a, scope);
        ct_cxx_print_parenthesized(p, ">", n->b, scope);
        break;
    case CXX_BRACES:
        if (n->a)
            ct_cxx_print_whole(p, n->a, scope);
        add(p, "{");
        ct_cxx_print_list(p, n->b, scope);
        add(p, "}");
        break;
    case CXX_DECLTYPE:
        ct_cxx_print_parenthesized(p, "decltype ", n->a, scope);
        break;
    case CXX_WORD:
        add_text(p, n);
        ct_cxx_print_parenthesized(p, "", n->a, scope);
        break;
    case CXX_NEW:
        new_expression(p, n, scope);
        break;
    case CXX_FOLD:
        fold(p, n, scope);
        break;
    default:
        give_up(p);
    }
}
