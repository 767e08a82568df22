/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that people ask of a trace, with the SQL that answers them. */
#ifndef CT_QUERY_EXAMPLES_H
#define CT_QUERY_EXAMPLES_H

#include <stdbool.h>
#include <stddef.h>

struct ct_query_example {
    const char *question;
    const char *sql; /* lines */
    bool two;        /* it compares two traces */
};

/* NULL after the last one. */
const struct ct_query_example *ct_query_example(size_t i);

#endif
