/* SPDX-License-Identifier: Apache-2.0 */
/* C++ names, second part: identifiers, operators, substitutions, names with their scopes. */
#include "symbols/demangle_cxx.h"
#include <string.h>

/* ---- identifiers ---- */

static bool is_anonymous(const char *text, size_t length) {
    return length >= 10 && memcmp(text, "_GLOBAL_", 8) == 0 && (text[8] == '.' || text[8] == '_' || text[8] == '$') &&
           text[9] == 'N';
}

const struct ct_cxx_node *ct_cxx_source_name(struct ct_cxx_parser *p) {
    uint32_t length;
    if (!ct_cxx_number(p, &length) || length == 0 || length > (size_t)(p->end - p->at))
        return NULL;
    const char *text = p->at;
    p->at += length;
    struct ct_cxx_node *node = is_anonymous(text, length) ? ct_cxx_word(p, CXX_TEXT, "(anonymous namespace)")
                                                          : ct_cxx_text(p, CXX_TEXT, text, length);
    p->last_name = node;
    return node;
}

static const struct ct_cxx_node *abi_tags(struct ct_cxx_parser *p, const struct ct_cxx_node *node) {
    const struct ct_cxx_node *last = p->last_name;
    while (node && ct_cxx_take(p, 'B')) {
        const struct ct_cxx_node *tag = ct_cxx_source_name(p);
        struct ct_cxx_node *tagged = tag ? ct_cxx_text(p, CXX_TAGGED, tag->text, tag->length) : NULL;
        if (tagged)
            tagged->a = node;
        node = tagged;
    }
    p->last_name = last;
    return node;
}

static const struct ct_cxx_node *lambda(struct ct_cxx_parser *p) {
    const struct ct_cxx_node *parameters;
    uint32_t number;
    if (!ct_cxx_bare_function(p, false, &parameters) || !ct_cxx_take(p, 'E') || !ct_cxx_sequence(p, &number))
        return NULL;
    struct ct_cxx_node *node = ct_cxx_node(p, CXX_LAMBDA, parameters, NULL);
    if (node)
        node->number = number;
    return node;
}

static const struct ct_cxx_node *unnamed(struct ct_cxx_parser *p) {
    uint32_t number;
    struct ct_cxx_node *node = ct_cxx_sequence(p, &number) ? ct_cxx_node(p, CXX_UNNAMED, NULL, NULL) : NULL;
    if (node)
        node->number = number;
    return node;
}

static const struct ct_cxx_node *constructor(struct ct_cxx_parser *p) {
    bool destructor = ct_cxx_peek(p) == 'D';
    p->at++;
    bool inherited = !destructor && ct_cxx_take(p, 'I');
    if (ct_cxx_peek(p) < '0' || ct_cxx_peek(p) > '5' || !p->last_name)
        return NULL;
    p->at++;
    if (inherited && !ct_cxx_type(p))
        return NULL;
    return ct_cxx_text(p, destructor ? CXX_DESTRUCTOR : CXX_CONSTRUCTOR, p->last_name->text, p->last_name->length);
}

static const struct ct_cxx_node *binding(struct ct_cxx_parser *p) {
    struct ct_cxx_node *head = NULL, *tail = NULL;
    while (!ct_cxx_take(p, 'E'))
        if (!ct_cxx_append(p, &head, &tail, ct_cxx_source_name(p)))
            return NULL;
    return head ? ct_cxx_node(p, CXX_BINDING, head, NULL) : NULL;
}

/* ---- operators ---- */

/* By code. */
static const struct ct_cxx_operator operators[] = {
    {"aN", 2, "&="},          {"aS", 2, "="},
    {"aa", 2, "&&"},          {"ad", 1, "&"},
    {"an", 2, "&"},           {"at", 1, "alignof "},
    {"aw", 1, "co_await "},   {"az", 1, "alignof "},
    {"cc", 2, "const_cast"},  {"cl", 2, "()"},
    {"cm", 2, ","},           {"co", 1, "~"},
    {"dV", 2, "/="},          {"dX", 3, "[...]="},
    {"da", 1, "delete[] "},   {"dc", 2, "dynamic_cast"},
    {"de", 1, "*"},           {"di", 2, "="},
    {"dl", 1, "delete "},     {"ds", 2, ".*"},
    {"dt", 2, "."},           {"dv", 2, "/"},
    {"dx", 2, "]="},          {"eO", 2, "^="},
    {"eo", 2, "^"},           {"eq", 2, "=="},
    {"fL", 3, "..."},         {"fR", 3, "..."},
    {"fl", 2, "..."},         {"fr", 2, "..."},
    {"ge", 2, ">="},          {"gs", 1, "::"},
    {"gt", 2, ">"},           {"ix", 2, "[]"},
    {"lS", 2, "<<="},         {"le", 2, "<="},
    {"li", 1, "\"\" "},       {"ls", 2, "<<"},
    {"lt", 2, "<"},           {"mI", 2, "-="},
    {"mL", 2, "*="},          {"mi", 2, "-"},
    {"ml", 2, "*"},           {"mm", 1, "--"},
    {"na", 3, "new[]"},       {"ne", 2, "!="},
    {"ng", 1, "-"},           {"nt", 1, "!"},
    {"nw", 3, "new"},         {"oR", 2, "|="},
    {"oo", 2, "||"},          {"or", 2, "|"},
    {"pL", 2, "+="},          {"pl", 2, "+"},
    {"pm", 2, "->*"},         {"pp", 1, "++"},
    {"ps", 1, "+"},           {"pt", 2, "->"},
    {"qu", 3, "?"},           {"rM", 2, "%="},
    {"rS", 2, ">>="},         {"rc", 2, "reinterpret_cast"},
    {"rm", 2, "%"},           {"rs", 2, ">>"},
    {"sP", 1, "sizeof..."},   {"sZ", 1, "sizeof..."},
    {"sc", 2, "static_cast"}, {"ss", 2, "<=>"},
    {"st", 1, "sizeof "},     {"sz", 1, "sizeof "},
    {"te", 1, "typeid "},     {"ti", 1, "typeid "},
    {"tr", 0, "throw"},       {"tw", 1, "throw "},
};

const struct ct_cxx_operator *ct_cxx_operator_at(const struct ct_cxx_parser *p) {
    size_t low = 0, high = sizeof operators / sizeof *operators;
    char code[2] = {ct_cxx_peek(p), ct_cxx_peek_next(p)};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = memcmp(code, operators[middle].code, 2);
        if (!order)
            return &operators[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static const struct ct_cxx_node *conversion(struct ct_cxx_parser *p) {
    bool was = p->in_conversion;
    p->in_conversion = !p->in_expression;
    const struct ct_cxx_node *type = ct_cxx_type(p);
    p->in_conversion = was;
    return type ? ct_cxx_node(p, CXX_CONVERSION, type, NULL) : NULL;
}

static const struct ct_cxx_node *operator_name(struct ct_cxx_parser *p) {
    if (ct_cxx_take_two(p, "cv"))
        return conversion(p);
    if (ct_cxx_peek(p) == 'v' && ct_cxx_is_digit(ct_cxx_peek_next(p))) { /* a vendor's */
        p->at += 2;
        const struct ct_cxx_node *name = ct_cxx_source_name(p);
        return name ? ct_cxx_text(p, CXX_OPERATOR, name->text, name->length) : NULL;
    }
    const struct ct_cxx_operator *found = ct_cxx_operator_at(p);
    if (!found)
        return NULL;
    p->at += 2;
    if (!strcmp(found->code, "li")) {
        const struct ct_cxx_node *name = ct_cxx_source_name(p);
        return name ? ct_cxx_node(p, CXX_OPERATOR, name, NULL) : NULL;
    }
    return ct_cxx_word(p, CXX_OPERATOR, found->name);
}

const struct ct_cxx_node *ct_cxx_unqualified(struct ct_cxx_parser *p, const struct ct_cxx_node *scope) {
    const struct ct_cxx_node *node = NULL;
    char c = ct_cxx_peek(p), next = ct_cxx_peek_next(p);
    if (!ct_cxx_enter(p))
        return NULL;
    if (c == 'F') { /* a friend that is defined in the class */
        p->at++;
        c = ct_cxx_peek(p);
        next = ct_cxx_peek_next(p);
    }
    if (ct_cxx_is_digit(c)) {
        node = ct_cxx_source_name(p);
    } else if (c >= 'a' && c <= 'z') {
        bool was = p->in_expression;
        if (c == 'o' && next == 'n')
            p->at += 2;
        p->in_expression = false;
        node = operator_name(p);
        p->in_expression = was;
    } else if (c == 'D' && next == 'C') {
        p->at += 2;
        node = binding(p);
    } else if (c == 'C' || c == 'D') {
        node = constructor(p);
    } else if (c == 'L') { /* internal linkage */
        p->at++;
        node = ct_cxx_source_name(p);
        uint32_t discriminator;
        if (ct_cxx_peek(p) == '_' && ct_cxx_is_digit(ct_cxx_peek_next(p))) {
            p->at++;
            ct_cxx_number(p, &discriminator);
        }
    } else if (ct_cxx_take_two(p, "Ul")) {
        node = lambda(p);
    } else if (ct_cxx_take_two(p, "Ut")) {
        node = unnamed(p);
    }
    node = abi_tags(p, node);
    if (node && scope)
        node = ct_cxx_node(p, CXX_NESTED, scope, node);
    p->depth--;
    return node;
}

/* ---- substitutions ---- */

static const struct {
    char letter;
    const char *text, *last;
} standard[] = {
    {'t', "std", NULL},
    {'a', "std::allocator", "allocator"},
    {'b', "std::basic_string", "basic_string"},
    {'s', "std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "basic_string"},
    {'i', "std::basic_istream<char, std::char_traits<char> >", "basic_istream"},
    {'o', "std::basic_ostream<char, std::char_traits<char> >", "basic_ostream"},
    {'d', "std::basic_iostream<char, std::char_traits<char> >", "basic_iostream"},
};

static const struct ct_cxx_node *numbered_substitution(struct ct_cxx_parser *p) {
    uint64_t index = 0;
    if (ct_cxx_peek(p) != '_') {
        for (char c; (c = ct_cxx_peek(p)) != '_'; p->at++) {
            if (!ct_cxx_is_digit(c) && !(c >= 'A' && c <= 'Z'))
                return NULL;
            index = index * 36 + (uint64_t)(c <= '9' ? c - '0' : c - 'A' + 10);
            if (index > UINT32_MAX)
                return NULL;
        }
        index++;
    }
    p->at++;
    return index < p->substitution_count ? p->substitutions[index] : NULL;
}

const struct ct_cxx_node *ct_cxx_substitution(struct ct_cxx_parser *p) {
    char c = ct_cxx_peek_next(p);
    p->at++;
    if (c == '_' || ct_cxx_is_digit(c) || (c >= 'A' && c <= 'Z'))
        return numbered_substitution(p);
    for (size_t i = 0; i < sizeof standard / sizeof *standard; i++) {
        if (standard[i].letter != c)
            continue;
        p->at++;
        if (standard[i].last)
            p->last_name = ct_cxx_word(p, CXX_TEXT, standard[i].last);
        const struct ct_cxx_node *node = ct_cxx_word(p, CXX_TEXT, standard[i].text);
        if (ct_cxx_peek(p) != 'B')
            return node;
        node = abi_tags(p, node);
        return ct_cxx_remember(p, node) ? node : NULL;
    }
    return NULL;
}

/* ---- names ---- */

static uint8_t take_qualifiers(struct ct_cxx_parser *p) {
    uint8_t flags = 0;
    for (;; p->at++)
        switch (ct_cxx_peek(p)) {
        case 'r':
            flags |= CXX_RESTRICT;
            break;
        case 'V':
            flags |= CXX_VOLATILE;
            break;
        case 'K':
            flags |= CXX_CONST;
            break;
        default:
            return flags;
        }
}

/* Parses one more step of a prefix; NULL: none. */
static const struct ct_cxx_node *prefix_step(struct ct_cxx_parser *p, const struct ct_cxx_node *scope) {
    char c = ct_cxx_peek(p);
    if (c == 'I') {
        const struct ct_cxx_node *args = scope ? ct_cxx_template_args(p) : NULL;
        return args ? ct_cxx_node(p, CXX_TEMPLATE, scope, args) : NULL;
    }
    if (c == 'D' && (ct_cxx_peek_next(p) == 'T' || ct_cxx_peek_next(p) == 't'))
        return scope ? NULL : ct_cxx_type(p);
    if (c == 'T')
        return scope ? NULL : ct_cxx_template_param(p);
    return ct_cxx_unqualified(p, scope);
}

static const struct ct_cxx_node *prefix(struct ct_cxx_parser *p) {
    const struct ct_cxx_node *scope = NULL;
    while (ct_cxx_peek(p) != 'E') {
        if (ct_cxx_peek(p) == 'M') { /* a lambda in the initializer of a member */
            p->at++;
            continue;
        }
        if (ct_cxx_peek(p) == 'S') {
            if (scope)
                return NULL;
            scope = ct_cxx_substitution(p);
            if (!scope)
                return NULL;
            continue;
        }
        bool is_type = ct_cxx_peek(p) == 'D' && !scope && ct_cxx_peek_next(p) != 'C';
        scope = prefix_step(p, scope);
        if (!scope || (ct_cxx_peek(p) != 'E' && !is_type && !ct_cxx_remember(p, scope)))
            return NULL;
    }
    p->at++;
    return scope;
}

static const struct ct_cxx_node *nested(struct ct_cxx_parser *p) {
    p->at++;
    if (ct_cxx_take(p, 'H')) /* an explicit object parameter: no qualifiers */
        return prefix(p);
    uint8_t flags = take_qualifiers(p);
    if (ct_cxx_take(p, 'R'))
        flags |= CXX_LVALUE;
    else if (ct_cxx_take(p, 'O'))
        flags |= CXX_RVALUE;
    const struct ct_cxx_node *name = prefix(p);
    struct ct_cxx_node *method = name && flags ? ct_cxx_node(p, CXX_METHOD, name, NULL) : NULL;
    if (method)
        method->flags = flags;
    return flags ? method : name;
}

static bool skip_discriminator(struct ct_cxx_parser *p) {
    uint32_t number;
    if (ct_cxx_take_two(p, "__"))
        return ct_cxx_number(p, &number) && (number < 10 || ct_cxx_take(p, '_'));
    if (ct_cxx_peek(p) == '_' && ct_cxx_is_digit(ct_cxx_peek_next(p)))
        p->at += 2;
    return true;
}

/* Parses what is local to the function: a string, an entity in a default argument, or any other. */
static const struct ct_cxx_node *local_entity(struct ct_cxx_parser *p) {
    struct ct_cxx_node *argument = NULL;
    if (ct_cxx_take(p, 's'))
        return ct_cxx_word(p, CXX_TEXT, "string literal");
    if (ct_cxx_take(p, 'd')) {
        uint32_t number;
        if (!ct_cxx_sequence(p, &number) || !(argument = ct_cxx_node(p, CXX_DEFAULT, NULL, NULL)))
            return NULL;
        argument->number = number;
    }
    const struct ct_cxx_node *name = ct_cxx_name(p);
    if (!argument || !name)
        return name;
    argument->a = name;
    return argument;
}

/* The name of something local does not include the function's result. */
static const struct ct_cxx_node *without_result(struct ct_cxx_parser *p, const struct ct_cxx_node *n) {
    if (!n || n->kind != CXX_ENCODING || !n->b->a)
        return n;
    const struct ct_cxx_node *type = ct_cxx_node(p, CXX_FUNCTION, NULL, n->b->b);
    return type ? ct_cxx_node(p, CXX_ENCODING, n->a, type) : NULL;
}

static const struct ct_cxx_node *local(struct ct_cxx_parser *p) {
    p->at++;
    const struct ct_cxx_node *function = without_result(p, ct_cxx_encoding(p, false));
    if (!function || !ct_cxx_take(p, 'E'))
        return NULL;
    const struct ct_cxx_node *entity = local_entity(p);
    if (!entity)
        return NULL;
    if (entity->kind != CXX_LAMBDA && entity->kind != CXX_UNNAMED && !skip_discriminator(p))
        return NULL;
    return ct_cxx_node(p, CXX_LOCAL, function, entity);
}

static const struct ct_cxx_node *with_arguments(struct ct_cxx_parser *p, const struct ct_cxx_node *name,
                                                bool remembered) {
    if (!name || ct_cxx_peek(p) != 'I')
        return name;
    if (!remembered && !ct_cxx_remember(p, name))
        return NULL;
    const struct ct_cxx_node *args = ct_cxx_template_args(p);
    return args ? ct_cxx_node(p, CXX_TEMPLATE, name, args) : NULL;
}

static const struct ct_cxx_node *plain_name(struct ct_cxx_parser *p) {
    if (ct_cxx_peek(p) != 'S')
        return with_arguments(p, ct_cxx_unqualified(p, NULL), false);
    if (ct_cxx_peek_next(p) != 't')
        return with_arguments(p, ct_cxx_substitution(p), true);
    p->at += 2;
    const struct ct_cxx_node *scope = ct_cxx_word(p, CXX_TEXT, "std");
    return scope ? with_arguments(p, ct_cxx_unqualified(p, scope), false) : NULL;
}

const struct ct_cxx_node *ct_cxx_name(struct ct_cxx_parser *p) {
    if (!ct_cxx_enter(p))
        return NULL;
    char c = ct_cxx_peek(p);
    const struct ct_cxx_node *node = c == 'N' ? nested(p) : c == 'Z' ? local(p) : plain_name(p);
    p->depth--;
    return node;
}
