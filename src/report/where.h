/* SPDX-License-Identifier: Apache-2.0 */
/* The language of --where: conditions on single calls.
 *
 *   duration > 1ms and (result < 0 or arg.path like '*.conf') and not thread = worker-1
 *
 * A condition is a comparison of a field with a value, or conditions with and, or, not and parentheses. What is not
 * known of a call (its result was not recorded, or it has not ended) makes a comparison unknown, and so its negation: a
 * call fits only when the condition is true. One owner. */
#ifndef CT_REPORT_WHERE_H
#define CT_REPORT_WHERE_H

#include "report/function_cache.h"
#include "trace/arguments.h"

/* The only list of fields but for arguments: names as the user types them, and what they are. */
#define CT_WHERE_FIELD_LIST(X)                                                                                         \
    X(FUNCTION, "function", CT_WHERE_NAME)                                                                             \
    X(MODULE, "module", CT_WHERE_NAME)                                                                                 \
    X(DURATION, "duration", CT_WHERE_TIME)                                                                             \
    X(SELF, "self", CT_WHERE_TIME)                                                                                     \
    X(RESULT, "result", CT_WHERE_VALUE)                                                                                \
    X(ERRNO, "errno", CT_WHERE_VALUE)                                                                                  \
    X(THREAD, "thread", CT_WHERE_THREAD_NAME)                                                                          \
    X(DEPTH, "depth", CT_WHERE_COUNT)

enum ct_where_kind { CT_WHERE_NAME, CT_WHERE_TIME, CT_WHERE_VALUE, CT_WHERE_THREAD_NAME, CT_WHERE_COUNT };

struct ct_where;

struct ct_where_error {
    size_t at; /* bytes before the mistake */
    char text[256];
};

/* CT_ERR_INVALID_ARGUMENT: *error says what is wrong, and where. */
int ct_where_compile(struct ct_where **out, const char *text, struct ct_where_error *error);
void ct_where_free(struct ct_where *where);

/* True when arguments or results decide: they are in detail records. */
bool ct_where_needs_values(const struct ct_where *where);
/* True when something else decides. */
bool ct_where_needs_more_than_values(const struct ct_where *where);
/* An argument that the condition names without "arg.", and that no call had so far: it may be a misspelt field. NULL:
 * none. */
const char *ct_where_unseen(const struct ct_where *where);

/* A name without "arg." that no selected function has a parameter for, as far as debug information is there: it is a
 * misspelt field. *name NULL: none. */
int ct_where_find_stranger(const struct ct_where *where, struct ct_trace *trace, const struct ct_select *select,
                           const char *const *directories, const char **name);
/* The names of fields, for suggestions; NULL after the last one. */
const char *ct_where_field_name(const void *unused, size_t i);

/* What is known of a function, so that its name is matched once. Zeroed at first. */
struct ct_where_memory {
    struct ct_table_key key;
    uint64_t known, fits; /* a bit for each comparison with a name */
};

/* What is known of some calls without looking at them. */
struct ct_where_bounds {
    uint64_t longest_ns; /* none takes longer */
    uint32_t low, high;  /* none is outside these depths */
};

/* A call, as far as it is known. */
struct ct_where_call {
    const struct ct_where_bounds *bounds;      /* not NULL: one of these calls, nobody knows which */
    const struct ct_cached_function *function; /* with bounds, NULL: of any function */
    struct ct_where_memory *memory;            /* of the function; NULL: none */
    const char *thread_name;
    uint32_t tid;
    uint32_t depth; /* as recorded */
    bool ended;     /* duration and self are known */
    uint64_t duration_ns, self_ns;
    struct ct_where_values *values; /* NULL: arguments and results are not known */
    size_t thread;                  /* index */
    uint32_t detail, end_detail;
};

/* Reads arguments and results when a comparison asks for them. One owner. */
struct ct_where_values {
    struct ct_argument_reader *reader;
    struct ct_arguments at; /* of the record that was read last */
    size_t thread;
    uint32_t detail; /* CT_TRACE_NO_DETAIL: none was */
    bool found;
};

enum ct_where_answer { CT_WHERE_NO, CT_WHERE_YES, CT_WHERE_UNKNOWN };
/* With bounds: NO when no such call fits, UNKNOWN when one may. */
enum ct_where_answer ct_where_fits(const struct ct_where *where, const struct ct_where_call *call);

#endif
