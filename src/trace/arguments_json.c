/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of calls as JSON: see arguments_json.h. */
#include "trace/arguments_json.h"
#include "base/json_write.h"
#include <inttypes.h>
#include <stdio.h>

void ct_argument_json(struct ct_json *json, const char *key, const struct ct_argument *argument) {
    char pointer[32];
    switch (argument->kind) {
    case CT_VALUE_UNKNOWN:
        break;
    case CT_VALUE_SIGNED:
        ct_json_signed(json, key, (int64_t)argument->number);
        break;
    case CT_VALUE_UNSIGNED:
        ct_json_number(json, key, argument->number);
        break;
    case CT_VALUE_BOOL:
        ct_json_bool(json, key, argument->number != 0);
        break;
    case CT_VALUE_REAL:
        ct_json_real(json, key, argument->real);
        break;
    case CT_VALUE_POINTER: /* its text may show more */
        snprintf(pointer, sizeof pointer, "0x%" PRIx64, argument->number);
        ct_json_string(json, key, pointer);
        break;
    case CT_VALUE_STRING:
        ct_json_string(json, key, argument->string);
        break;
    default:
        ct_json_string(json, key, argument->text);
    }
}

void ct_arguments_json(struct ct_json *json, const char *key, const struct ct_arguments *arguments) {
    ct_json_begin(json, key, '[');
    for (size_t i = 0; i < arguments->count; i++) {
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "name", arguments->at[i].name);
        ct_argument_json(json, "value", &arguments->at[i]);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}
