/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates conditions: see where.h. */
#include "abi/atf.h"
#include "report/where_internal.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparisons ---- */

static enum ct_where_answer answer(bool yes) {
    return yes ? CT_WHERE_YES : CT_WHERE_NO;
}

/* `order`: below, at or above 0, as the field is below, at or above the value. */
static enum ct_where_answer by_order(const struct ct_where_node *n, int order) {
    switch (n->op) {
    case CT_WHERE_LESS:
        return answer(order < 0);
    case CT_WHERE_AT_MOST:
        return answer(order <= 0);
    case CT_WHERE_EQUAL:
        return answer(order == 0);
    case CT_WHERE_NOT_EQUAL:
        return answer(order != 0);
    case CT_WHERE_AT_LEAST:
        return answer(order >= 0);
    case CT_WHERE_GREATER:
        return answer(order > 0);
    default:
        return CT_WHERE_UNKNOWN;
    }
}

static enum ct_where_answer compare_real(const struct ct_where_node *n, long double field) {
    long double value = n->type == CT_WHERE_REAL ? (long double)n->real : (long double)n->number;
    if (n->type == CT_WHERE_WHOLE && n->negative)
        value = -value;
    if (field != field || value != value)
        return answer(n->op == CT_WHERE_NOT_EQUAL);
    return by_order(n, (field > value) - (field < value));
}

static enum ct_where_answer compare_whole(const struct ct_where_node *n, __int128 field) {
    if (n->type == CT_WHERE_REAL)
        return compare_real(n, (long double)field);
    __int128 value = n->negative ? -(__int128)n->number : (__int128)n->number;
    return by_order(n, (field > value) - (field < value));
}

/* The answer for all numbers from `low` to `high`, when it is the same one. */
static enum ct_where_answer compare_range(const struct ct_where_node *n, uint64_t low, uint64_t high) {
    struct ct_where_node less = *n, greater = *n;
    less.op = CT_WHERE_LESS;
    greater.op = CT_WHERE_GREATER;
    bool below = compare_whole(&less, high) == CT_WHERE_YES, above = compare_whole(&greater, low) == CT_WHERE_YES;
    if (below || above)
        return by_order(n, below ? -1 : 1);
    return low == high ? compare_whole(n, low) : CT_WHERE_UNKNOWN;
}

static enum ct_where_answer compare_text(const struct ct_where_node *n, const char *field) {
    if (n->op == CT_WHERE_LIKE)
        return answer(!fnmatch(n->glob, field, 0));
    return by_order(n, strcmp(field, n->text));
}

/* Names match as shown, without parameters, or mangled. */
static bool match_name(const struct ct_where_node *n, const struct ct_cached_function *f) {
    const char *const globs[] = {n->glob, NULL};
    if (n->field == CT_WHERE_MODULE)
        return ct_select_by(globs, f->module);
    return f->function ? ct_select_function(globs, f->function) : ct_select_by(globs, f->name);
}

static enum ct_where_answer compare_name(const struct ct_where_node *n, const struct ct_where_call *c) {
    uint64_t bit = n->slot_bit ? UINT64_C(1) << (n->slot_bit - 1) : 0;
    bool fits;
    if (!c->function)
        return CT_WHERE_UNKNOWN;
    if (c->memory && (c->memory->known & bit)) {
        fits = c->memory->fits & bit;
    } else {
        fits = match_name(n, c->function);
        if (c->memory) {
            c->memory->known |= bit;
            c->memory->fits |= fits ? bit : 0;
        }
    }
    return answer(fits != (n->op == CT_WHERE_NOT_EQUAL));
}

/* ---- values ---- */

static const struct ct_arguments *read_values(const struct ct_where_call *c, uint32_t detail) {
    struct ct_where_values *v = c->values;
    if (!v || detail == CT_TRACE_NO_DETAIL)
        return NULL;
    if (v->detail != detail || v->thread != c->thread) {
        v->found = ct_arguments_read(v->reader, c->thread, detail, &v->at) == 0;
        v->thread = c->thread;
        v->detail = detail;
    }
    return v->found ? &v->at : NULL;
}

static enum ct_where_answer compare_value(const struct ct_where_node *n, const struct ct_argument *a, bool named) {
    if (a->kind == CT_VALUE_UNKNOWN)
        return CT_WHERE_UNKNOWN;
    if (n->type == CT_WHERE_TEXT)
        return compare_text(n, a->kind == CT_VALUE_STRING ? a->string : a->text);
    switch (a->kind) {
    case CT_VALUE_OTHER:
        return CT_WHERE_UNKNOWN;
    case CT_VALUE_REAL:
        return compare_real(n, (long double)a->real);
    case CT_VALUE_SIGNED:
    case CT_VALUE_NAME:
        return compare_whole(n, (int64_t)a->number);
    default: /* without a type it is a register: it may be negative */
        return compare_whole(n, named ? (__int128)a->number : (__int128)(int64_t)a->number);
    }
}

static enum ct_where_answer compare_result(const struct ct_where_node *n, const struct ct_where_call *c) {
    const struct ct_arguments *result = c->ended ? read_values(c, c->end_detail) : NULL;
    return result && result->count ? compare_value(n, &result->at[0], result->named) : CT_WHERE_UNKNOWN;
}

/* By number or name; unknown unless the call has set it. */
static enum ct_where_answer compare_errno(const struct ct_where_node *n, const struct ct_where_call *c) {
    const struct ct_arguments *result = c->ended ? read_values(c, c->end_detail) : NULL;
    if (!result || !result->error)
        return CT_WHERE_UNKNOWN;
    const char *name = strerrorname_np((int)result->error);
    return n->type == CT_WHERE_TEXT ? compare_text(n, name ? name : "") : compare_whole(n, result->error);
}

static enum ct_where_answer compare_argument(const struct ct_where *w, const struct ct_where_node *n,
                                             const struct ct_where_call *c) {
    const struct ct_arguments *arguments = read_values(c, c->detail);
    if (!arguments)
        return CT_WHERE_UNKNOWN;
    if (!n->argument)
        return n->place < arguments->count ? compare_value(n, &arguments->at[n->place], arguments->named)
                                           : CT_WHERE_UNKNOWN;
    for (size_t i = 0; i < arguments->count; i++) {
        if (strcmp(arguments->at[i].name, n->argument) != 0)
            continue;
        if (n->bare)
            w->seen[n->bare - 1] = true;
        return compare_value(n, &arguments->at[i], arguments->named);
    }
    return CT_WHERE_UNKNOWN;
}

static enum ct_where_answer compare_time(const struct ct_where_node *n, const struct ct_where_call *c, uint64_t ns) {
    if (c->bounds)
        return compare_range(n, 0, c->bounds->longest_ns);
    return c->ended ? compare_whole(n, ns) : CT_WHERE_UNKNOWN;
}

static enum ct_where_answer compare_depth(const struct ct_where_node *n, const struct ct_where_call *c) {
    if (c->bounds)
        return compare_range(n, c->bounds->low, c->bounds->high);
    return compare_whole(n, c->depth & ATF_DEPTH_OTHER ? ATF_DEPTH_PLACE(c->depth) : c->depth);
}

static enum ct_where_answer compare(const struct ct_where *w, const struct ct_where_node *n,
                                    const struct ct_where_call *c) {
    switch (n->field) {
    case CT_WHERE_FUNCTION:
    case CT_WHERE_MODULE:
        return compare_name(n, c);
    case CT_WHERE_DURATION:
        return compare_time(n, c, c->duration_ns);
    case CT_WHERE_SELF:
        return compare_time(n, c, c->self_ns);
    case CT_WHERE_RESULT:
        return compare_result(n, c);
    case CT_WHERE_ERRNO:
        return compare_errno(n, c);
    case CT_WHERE_THREAD:
        return n->type == CT_WHERE_TEXT ? compare_text(n, c->thread_name) : compare_whole(n, c->tid);
    case CT_WHERE_DEPTH:
        return compare_depth(n, c);
    case CT_WHERE_ARGUMENT:
        return compare_argument(w, n, c);
    }
    return CT_WHERE_UNKNOWN;
}

/* ---- conditions ---- */

static enum ct_where_answer evaluate(const struct ct_where *w, size_t at, const struct ct_where_call *c) {
    const struct ct_where_node *n = &w->nodes[at];
    if (n->kind == CT_WHERE_COMPARE)
        return compare(w, n, c);
    enum ct_where_answer left = evaluate(w, n->left, c);
    if (n->kind == CT_WHERE_NOT)
        return left == CT_WHERE_UNKNOWN ? left : answer(left == CT_WHERE_NO);
    enum ct_where_answer decides = n->kind == CT_WHERE_AND ? CT_WHERE_NO : CT_WHERE_YES;
    if (left == decides)
        return left;
    enum ct_where_answer right = evaluate(w, n->right, c);
    if (right == decides)
        return right;
    return left == CT_WHERE_UNKNOWN ? left : right;
}

enum ct_where_answer ct_where_fits(const struct ct_where *w, const struct ct_where_call *c) {
    return w ? evaluate(w, w->root, c) : CT_WHERE_YES;
}

static bool is_value(const struct ct_where_node *n) {
    return n->field == CT_WHERE_RESULT || n->field == CT_WHERE_ERRNO || n->field == CT_WHERE_ARGUMENT;
}

static bool has_comparison(const struct ct_where *w, bool of_values) {
    for (size_t i = 0; w && i < w->count; i++)
        if (w->nodes[i].kind == CT_WHERE_COMPARE && is_value(&w->nodes[i]) == of_values)
            return true;
    return false;
}

bool ct_where_needs_values(const struct ct_where *w) {
    return has_comparison(w, true);
}

bool ct_where_needs_more_than_values(const struct ct_where *w) {
    return has_comparison(w, false);
}

const char *ct_where_unseen(const struct ct_where *w) {
    for (size_t i = 0; w && i < w->count; i++) {
        const struct ct_where_node *n = &w->nodes[i];
        if (n->kind == CT_WHERE_COMPARE && n->bare && !w->seen[n->bare - 1])
            return n->argument;
    }
    return NULL;
}

void ct_where_free(struct ct_where *w) {
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++) {
        free(w->nodes[i].text);
        free(w->nodes[i].glob);
        free(w->nodes[i].argument);
    }
    free(w->nodes);
    free(w->seen);
    free(w);
}
