/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled condition: a tree in an array. Parts: where_parse.c makes it, where.c evaluates it. */
#ifndef CT_REPORT_WHERE_INTERNAL_H
#define CT_REPORT_WHERE_INTERNAL_H

#include "report/where.h"

enum ct_where_field {
#define CT_WHERE_FIELD_ENUM(name, text, kind) CT_WHERE_##name,
    CT_WHERE_FIELD_LIST(CT_WHERE_FIELD_ENUM)
#undef CT_WHERE_FIELD_ENUM
        CT_WHERE_ARGUMENT
};

enum ct_where_operator {
    CT_WHERE_LESS,
    CT_WHERE_AT_MOST,
    CT_WHERE_EQUAL,
    CT_WHERE_NOT_EQUAL,
    CT_WHERE_AT_LEAST,
    CT_WHERE_GREATER,
    CT_WHERE_LIKE
};

enum ct_where_type { CT_WHERE_WHOLE, CT_WHERE_REAL, CT_WHERE_TEXT };

struct ct_where_node {
    enum { CT_WHERE_AND, CT_WHERE_OR, CT_WHERE_NOT, CT_WHERE_COMPARE } kind;
    size_t left, right; /* of AND and OR; NOT has left */
    /* COMPARE */
    enum ct_where_field field;
    enum ct_where_operator op;
    enum ct_where_type type; /* of the value */
    bool negative;
    uint64_t number; /* WHOLE, without its sign */
    double real;
    char *text; /* TEXT: as it was written, or for LIKE the glob */
    char *glob; /* TEXT: matches the text alone, or LIKE's glob */
    /* ARGUMENT */
    char *argument;    /* its name; NULL: by number */
    unsigned place;    /* number, from 0 */
    unsigned bare;     /* 1 + its number among the bare arguments; 0: it has "arg." */
    unsigned slot_bit; /* FUNCTION, MODULE: 1 + its bit in struct ct_where_memory; 0: none */
};

struct ct_where {
    struct ct_where_node *nodes;
    size_t count, capacity;
    size_t root;
    unsigned bare_count, bit_count;
    bool *seen; /* by number of the bare argument: a call had it */
};

#endif
