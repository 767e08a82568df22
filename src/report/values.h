/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results of a report's functions, from the detail records: for each parameter the range of its numbers
 * and its most frequent values.
 *
 * A parameter has CT_VALUES_KEPT counters. When there are more different values, a new one takes the place and the
 * count of the rarest: `count` is then never too low, and `count - error` never too high. So memory grows with the
 * number of functions (CT_VALUES_FUNCTIONS at most), not of calls. */
#ifndef CT_REPORT_VALUES_H
#define CT_REPORT_VALUES_H

#include "report/functions.h"
#include "trace/arguments.h"

enum { CT_VALUES_KEPT = 32, CT_VALUES_TEXT = 64, CT_VALUES_FUNCTIONS = 1000 };

struct ct_value_count {
    char text[CT_VALUES_TEXT];
    uint64_t count, error;
};

struct ct_parameter_values {
    char name[CT_VALUES_TEXT];
    uint64_t values;  /* number of known values */
    uint64_t unknown; /* number of unknown values ("?") */
    bool has_range;   /* all values are numbers */
    bool is_signed, is_real;
    uint64_t least, most; /* of the numbers */
    double least_real, most_real;
    struct ct_value_count *kept; /* most frequent first, when it is finished */
    size_t kept_count;
    bool more; /* there were more than CT_VALUES_KEPT different values */
};

struct ct_function_values {
    uint64_t calls, returns; /* with a record */
    bool named;              /* from debug information; otherwise registers */
    struct ct_parameter_values *parameters;
    size_t count;
    struct ct_parameter_values result;
};

struct ct_values {
    struct ct_function_values *rows; /* as in the report; rows after CT_VALUES_FUNCTIONS stay empty */
    size_t row_count;
    uint64_t records;
};

/* Reads the detail records of the selected calls. The report has one row for each function. */
int ct_values_make(struct ct_values **out, struct ct_trace *trace, const struct ct_report *report,
                   const struct ct_select *select, const char *const *directories);
void ct_values_free(struct ct_values *values);

struct ct_json;
/* Writes members of a row's object. */
void ct_values_json(const struct ct_function_values *values, struct ct_json *json);
/* The range as text; "" without one. */
void ct_values_range(const struct ct_parameter_values *values, char *text, size_t size);

#endif
