/* SPDX-License-Identifier: Apache-2.0 */
/* /api/compare: functions of two traces. */
#include "report/diff.h"
#include "view/answer.h"
#include <string.h>

enum { MOST_ROWS = 2000 };

/* The trace that `with` names: the second, if nothing is said. */
struct ct_view_reader *ct_view_other(struct ct_view_answer *a) {
    uint64_t number = ct_view_number(a, "with", 1);
    if (number >= a->view->trace_count || a->view->traces[number] == a->trace) {
        ct_view_refuse(a, 404, "there is no other trace to compare with; name two: contrail view BEFORE AFTER");
        return NULL;
    }
    struct ct_view_trace *trace = a->view->traces[number];
    uint64_t deadline_ns = a->reader->deadline_ns;
    bool first = number < a->trace->number;
    if (first)
        ct_view_give(a->reader);
    struct ct_view_reader *other = ct_view_take(trace);
    if (first)
        a->reader = ct_view_take(a->trace);
    if (!other || !a->reader) {
        ct_view_refuse(a, 503, "the trace cannot be read any more");
        if (other)
            ct_view_give(other);
        return NULL;
    }
    a->reader->deadline_ns = other->deadline_ns = deadline_ns;
    return other;
}

static void put_side(struct ct_view_answer *a, const char *key, const struct ct_diff_values *v) {
    ct_json_begin(&a->json, key, '{');
    ct_json_number(&a->json, "calls", v->calls);
    ct_json_number(&a->json, "total", v->total_ns);
    ct_json_number(&a->json, "self", v->self_ns);
    ct_json_end(&a->json, '}');
}

static void put_name(struct ct_view_answer *a, const char *key, const char *name) {
    ct_json_string(&a->json, key, strlen(name) <= CT_VIEW_NAME ? name : "(a very long name)");
}

static bool is_noise(const struct ct_diff *diff, const struct ct_diff_row *row) {
    return !ct_diff_times_differ(&row->side[CT_DIFF_A].spread, &row->side[CT_DIFF_B].spread, diff->cpu);
}

static void put_row(struct ct_view_answer *a, const struct ct_diff_row *row, bool noise) {
    const struct ct_diff_values *before = &row->side[CT_DIFF_A], *after = &row->side[CT_DIFF_B];
    ct_json_begin(&a->json, NULL, '{');
    put_name(a, "name", row->name);
    put_name(a, "module", row->module);
    put_side(a, "before", before);
    put_side(a, "after", after);
    ct_json_real(&a->json, "ratio",
                 before->self_ns  ? (double)after->self_ns / (double)before->self_ns
                 : after->self_ns ? -1
                                  : 1);
    ct_json_bool(&a->json, "noise", noise);
    ct_json_end(&a->json, '}');
}

void ct_view_answer_compare(struct ct_view_answer *a) {
    struct ct_view_reader *other = ct_view_other(a);
    struct ct_diff *diff = NULL;
    const struct ct_diff_options options = {.sort = CT_DIFF_BY_SELF, .limit = MOST_ROWS, .all = true};
    if (!other)
        return;
    struct ct_trace *const traces[] = {a->reader->trace, other->trace};
    int status = ct_diff_make(&diff, traces, &options);
    if (status) {
        ct_view_fail(a, status);
    } else {
        ct_json_begin(&a->json, "rows", '[');
        for (size_t i = 0; i < diff->row_count; i++)
            put_row(a, &diff->rows[i], is_noise(diff, &diff->rows[i]));
        ct_json_end(&a->json, ']');
        ct_json_number(&a->json, "total", diff->matched);
    }
    ct_diff_free(diff);
    ct_view_give(other);
}
