/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of calls as JSON. */
#ifndef CT_TRACE_ARGUMENTS_JSON_H
#define CT_TRACE_ARGUMENTS_JSON_H

#include "trace/arguments.h"

struct ct_json;

/* Writes a value by its type: a number, a truth value, a text; pointers as "0x…"; nothing when it is not known. */
void ct_argument_json(struct ct_json *json, const char *key, const struct ct_argument *argument);
/* Writes an array of {"name": …, "value": …}. */
void ct_arguments_json(struct ct_json *json, const char *key, const struct ct_arguments *arguments);

#endif
