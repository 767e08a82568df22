/* SPDX-License-Identifier: Apache-2.0 */
/* Printing C++ names: the printer's state, and what its two files share. */
#ifndef CT_SYMBOLS_DEMANGLE_CXX_PRINT_H
#define CT_SYMBOLS_DEMANGLE_CXX_PRINT_H

#include "symbols/demangle_cxx.h"
#include <stdio.h>

#define CXX_MAX_PRINT_DEPTH 512
#define CXX_MAX_STEPS       400000

struct ct_cxx_scope {
    const struct ct_cxx_node *args; /* a list */
    const struct ct_cxx_scope *outer;
};

struct ct_cxx_printer {
    struct ct_demangle_text *out;
    /* arguments of the template whose name is being printed, for conversion operators */
    const struct ct_cxx_node *current;
    unsigned depth, steps;
    unsigned pack;   /* index of the pack argument that is being printed */
    unsigned lambda; /* depth of lambdas whose parameters are being printed: these are `auto` */
};

static inline void add(struct ct_cxx_printer *p, const char *text) {
    ct_demangle_add_string(p->out, text);
}

static inline void add_text(struct ct_cxx_printer *p, const struct ct_cxx_node *n) {
    ct_demangle_add(p->out, n->text, n->length);
}

static inline void add_number(struct ct_cxx_printer *p, const char *before, uint32_t number, const char *after) {
    char text[64];
    int length = snprintf(text, sizeof text, "%s%u%s", before, (unsigned)number, after);
    ct_demangle_add(p->out, text, (size_t)length);
}

static inline void give_up(struct ct_cxx_printer *p) {
    p->out->failed = true;
}

void ct_cxx_print_whole(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope);
/* True when the last item was an empty pack, and its comma was removed. */
bool ct_cxx_print_list(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope);
void ct_cxx_print_parameters(struct ct_cxx_printer *p, const struct ct_cxx_node *list,
                             const struct ct_cxx_scope *scope);
void ct_cxx_print_expression(struct ct_cxx_printer *p, const struct ct_cxx_node *n, const struct ct_cxx_scope *scope);
/* Prints with parentheses where necessary. */
void ct_cxx_print_subexpression(struct ct_cxx_printer *p, const struct ct_cxx_node *n,
                                const struct ct_cxx_scope *scope);
void ct_cxx_print_parenthesized(struct ct_cxx_printer *p, const char *word, const struct ct_cxx_node *n,
                                const struct ct_cxx_scope *scope);
/* The first pack in the pattern of an expansion; NULL: none. */
const struct ct_cxx_node *ct_cxx_find_pack(struct ct_cxx_printer *p, const struct ct_cxx_node *n,
                                           const struct ct_cxx_scope *scope);
uint32_t ct_cxx_pack_length(const struct ct_cxx_node *pack);
/* The part before the parameters, and its flags. */
const struct ct_cxx_node *ct_cxx_method_name(const struct ct_cxx_node *n, unsigned *flags);

#endif
