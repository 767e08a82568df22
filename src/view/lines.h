/* SPDX-License-Identifier: Apache-2.0 */
/* Where functions are in the source: as the trace says (`contrail symbolize`), or as the debug information on this
 * machine does, of files that have the build-id of the trace. */
#ifndef CT_VIEW_LINES_H
#define CT_VIEW_LINES_H

#include "view/answer.h"

void ct_view_lines_begin(struct ct_view_lines *lines);
void ct_view_lines_free(struct ct_view_lines *lines);

/* Writes "file" and "line" of an instruction in a function, or of its beginning, when they are known. `into`: bytes
 * from the function's beginning. `function` NULL: nothing is known. */
void ct_view_put_line(struct ct_view_answer *a, size_t process, const struct ct_trace_function *function,
                      uint64_t into);

#endif
