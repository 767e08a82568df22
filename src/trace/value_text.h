/* SPDX-License-Identifier: Apache-2.0 */
/* Formats bytes of a known type. Private to arguments.c. */
#ifndef CT_TRACE_VALUE_TEXT_H
#define CT_TRACE_VALUE_TEXT_H

#include "symbols/library_calls.h"
#include "symbols/parameters.h"
#include "trace/arguments.h"
#include "trace/constants.h"

/* Where to find texts that pointers point to: the stack of a detail record, and memory that the program cannot
 * change. */
struct ct_memory {
    const struct ct_trace_detail *detail;
    struct ct_constants *constants; /* NULL: none */
    size_t process;
    const struct ct_library_call *call; /* NULL: not known */
};

/* The first `have` bytes of the value are known; if the type is larger, (parts of) the value are unknown. */
void ct_value_show(const struct ct_type *type, const uint8_t *bytes, size_t have, const struct ct_memory *memory,
                   struct ct_argument *out);
void ct_value_unknown(struct ct_argument *out);
void ct_value_pointer(uint64_t value, struct ct_argument *out);

#endif
