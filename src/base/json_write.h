/* SPDX-License-Identifier: Apache-2.0 */
/* JSON text, for manifests, `ctl status --json`, reports and exports. A zeroed one is empty. What is written is always
 * valid JSON and valid UTF-8, whatever the strings hold. One owner. */
#ifndef CT_BASE_JSON_WRITE_H
#define CT_BASE_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_json {
    char *text;
    size_t length, capacity;
    int failed; /* out of memory: text is not complete */
    unsigned depth;
    bool comma;
    bool lines; /* break lines down to the third level, for people; set before the first call */
};
/* `key` is NULL in arrays and at the top; '{' or '['. */
void ct_json_begin(struct ct_json *json, const char *key, char bracket);
void ct_json_end(struct ct_json *json, char bracket);                          /* '}' or ']' */
void ct_json_string(struct ct_json *json, const char *key, const char *value); /* escaped; invalid UTF-8 replaced */
void ct_json_number(struct ct_json *json, const char *key, uint64_t value);
void ct_json_signed(struct ct_json *json, const char *key, int64_t value);
void ct_json_real(struct ct_json *json, const char *key, double value);
void ct_json_bool(struct ct_json *json, const char *key, bool value);
void ct_json_null(struct ct_json *json, const char *key);
struct ct_json_node;
/* What was read, with all below it. */
void ct_json_node_put(struct ct_json *json, const char *key, const struct ct_json_node *node);
void ct_json_free(struct ct_json *json);

#endif
