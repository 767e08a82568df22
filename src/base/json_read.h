/* SPDX-License-Identifier: Apache-2.0 */
/* A small strict JSON reader: text to a tree. Numbers keep all 64 bits of integers. Lookups accept NULL and nodes of
 * another kind, and return their fallback, so a caller needs no checks on the way down. */
#ifndef CT_BASE_JSON_READ_H
#define CT_BASE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CT_JSON_DEPTH 64

enum ct_json_type { CT_JSON_NULL, CT_JSON_BOOL, CT_JSON_NUMBER, CT_JSON_STRING, CT_JSON_ARRAY, CT_JSON_OBJECT };

struct ct_json_node {
    uint8_t type; /* enum ct_json_type */
    bool flag;    /* BOOL */
    bool integer; /* NUMBER: no fraction, no exponent, and it fits */
    bool negative;
    const char *key;            /* in an object */
    struct ct_json_node *next;  /* in its array or object */
    struct ct_json_node *first; /* ARRAY, OBJECT */
    size_t count;               /* of children; STRING: length without the NUL (the text may contain NULs) */
    const char *text;           /* STRING, UTF-8 */
    uint64_t magnitude;         /* NUMBER with `integer` */
    double real;                /* NUMBER */
};

struct ct_json_tree;
/* CT_ERR_BAD_FILE: not JSON, or deeper than CT_JSON_DEPTH; *error_at (may be NULL) is the offset. CT_ERR_NO_MEMORY. The
 * tree does not refer to the text. Of equal keys the first is found. */
int ct_json_parse(struct ct_json_tree **out, const char *text, size_t length, size_t *error_at);
const struct ct_json_node *ct_json_root(const struct ct_json_tree *tree); /* NULL for a NULL tree */
void ct_json_tree_free(struct ct_json_tree *tree);

/* NULL: no such key, or not an object. Keys may be chained: ct_json_get(root, "end", "reason", NULL). */
const struct ct_json_node *ct_json_get(const struct ct_json_node *node, const char *key, ...) __attribute__((sentinel));
/* First child; ->next leads to the others. NULL for everything but filled arrays and objects. */
const struct ct_json_node *ct_json_first(const struct ct_json_node *node);
/* fallback for negative numbers and fractions */
uint64_t ct_json_u64(const struct ct_json_node *node, uint64_t fallback);
int64_t ct_json_i64(const struct ct_json_node *node, int64_t fallback);
double ct_json_double(const struct ct_json_node *node, double fallback);
bool ct_json_flag(const struct ct_json_node *node, bool fallback);
const char *ct_json_text(const struct ct_json_node *node, const char *fallback);

#endif
