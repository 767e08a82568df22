/* SPDX-License-Identifier: Apache-2.0 */
/* When the calls of a function begin, of traces too large to read them: what summaries say. */
#ifndef CT_VIEW_SPREAD_H
#define CT_VIEW_SPREAD_H

#include "view/choice.h"

/* The one of `width` columns of the range that has the time. */
size_t ct_view_column(const struct ct_view_choice *choice, uint64_t ns, size_t width);
/* Adds the calls of each thread, spread evenly over the spans that may have some, to the columns. */
void ct_view_spread(const struct ct_view_answer *a, const struct ct_view_choice *choice,
                    const struct ct_view_name *name, uint64_t *columns, size_t width);

#endif
