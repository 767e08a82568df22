/* SPDX-License-Identifier: Apache-2.0 */
/* Two traces of one program: which functions changed, and where the paths of the main threads diverge.
 *
 * Each side may have several traces: then values are means, and the paths are those of the first ones.
 *
 * Two functions are the same when their names and the file names of their modules are equal (functions without a name
 * are named by module and offset). Several functions of one name in a module are one row. Paths are compared call by
 * call, by name and by the number of calls around it; functions outside the selection are not part of them. Memory
 * grows with the number of functions and the depth of calls, not with the number of events. */
#ifndef CT_REPORT_DIFF_H
#define CT_REPORT_DIFF_H

#include "report/diff_noise.h"
#include "report/functions.h"
#include "report/function_cache.h"

/* The only list; the names are what the user types. */
#define CT_DIFF_SORT_LIST(X) X(SELF, "self") X(TOTAL, "total") X(CALLS, "calls") X(NAME, "name")
enum ct_diff_sort {
#define CT_DIFF_SORT_ENUM(name, text) CT_DIFF_BY_##name,
    CT_DIFF_SORT_LIST(CT_DIFF_SORT_ENUM)
#undef CT_DIFF_SORT_ENUM
};

enum { CT_DIFF_A, CT_DIFF_B, CT_DIFF_SIDES };

struct ct_diff_options {
    struct ct_select select[CT_DIFF_SIDES];
    enum ct_diff_sort sort;         /* by the size of the change */
    uint64_t limit;                 /* rows; 0: all */
    uint64_t min_change;            /* percent of A's value of the sort key (of the self time when sorted by name) */
    uint64_t next;                  /* calls to show after the point where the paths diverge */
    const char *const *directories; /* further places of debug files, for arguments in `where`; may be NULL */
    bool all;                       /* rows for differences that are noise too (diff_noise.h) */
    /* further traces of A and of B: the same program again; NULL: none */
    struct ct_trace *const *more[CT_DIFF_SIDES];
    const struct ct_select *more_select[CT_DIFF_SIDES];
    size_t more_count[CT_DIFF_SIDES];
};

struct ct_diff_values {
    uint64_t calls, timed, total_ns, self_ns, cpu_ns; /* calls 0: this side does not have the function */
    uint64_t compared_ns;                             /* self_ns, or cpu_ns */
    struct ct_diff_spread spread;
};

struct ct_diff_row {
    const char *name, *module; /* owned by the traces or the diff: all must live */
    bool same_times;           /* calls differ, but times by no more than noise */
    struct ct_diff_values side[CT_DIFF_SIDES];
};

struct ct_diff_call {
    const struct ct_cached_function *known;
    uint64_t depth; /* selected calls around it */
};

struct ct_diff_path {
    bool compared;              /* both have a main thread */
    bool part;                  /* the paths diverge; false: all calls are equal */
    uint64_t common;            /* calls before that */
    struct ct_diff_call *stack; /* around the first difference, outermost first; A's */
    size_t stack_count;
    struct ct_diff_call *next[CT_DIFF_SIDES]; /* the first one differs */
    size_t next_count[CT_DIFF_SIDES];
    size_t thread[CT_DIFF_SIDES]; /* index */
};

struct ct_diff {
    struct ct_diff_row *rows;
    size_t row_count;
    uint64_t matched;                         /* rows before the limit */
    uint64_t added, gone, changed;            /* of the matched rows */
    uint64_t noise;                           /* functions without a row: their times differ by noise only */
    uint64_t unchanged;                       /* functions without a row: equal, or below the least change */
    bool cpu;                                 /* CPU times were compared: all traces have them */
    struct ct_report *reports[CT_DIFF_SIDES]; /* of the first trace of each side */
    struct ct_report **more;                  /* of further ones: those of A, then those of B */
    size_t more_count[CT_DIFF_SIDES];
    struct ct_function_cache names[CT_DIFF_SIDES];
    struct ct_diff_path path;
};

int ct_diff_make(struct ct_diff **out, struct ct_trace *const traces[CT_DIFF_SIDES],
                 const struct ct_diff_options *options);
void ct_diff_free(struct ct_diff *diff);
/* A part of ct_diff_make: compares the main threads. */
int ct_diff_paths(struct ct_diff *diff, struct ct_trace *const traces[CT_DIFF_SIDES],
                  const struct ct_diff_options *options);

struct ct_json;
void ct_diff_json(const struct ct_diff *diff, struct ct_trace *const traces[CT_DIFF_SIDES], struct ct_json *json);

#endif
