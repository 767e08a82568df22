/* SPDX-License-Identifier: Apache-2.0 */
/* A growing text. */
#include "report/output.h"
#include "base/digits.h"
#include "base/json_write.h"
#include "trace/wall.h"
#include <contrail/trace.h>
#include <stdlib.h>
#include <string.h>

static bool reserve_bytes(struct ct_output *t, size_t count) {
    if (t->failed)
        return false;
    if (t->capacity - t->length >= count)
        return true;
    size_t capacity = 2 * (t->length + count) + 256;
    char *grown = realloc(t->data, capacity);
    if (!grown) {
        t->failed = true;
        return false;
    }
    t->data = grown;
    t->capacity = capacity;
    return true;
}

void ct_output_bytes(struct ct_output *t, const char *bytes, size_t count) {
    if (!reserve_bytes(t, count))
        return;
    memcpy(t->data + t->length, bytes, count);
    t->length += count;
}

void ct_output_string(struct ct_output *t, const char *string) {
    ct_output_bytes(t, string, strlen(string));
}

void ct_output_field(struct ct_output *output, const char *value) {
    if (!strpbrk(value, ",\"\r\n")) {
        ct_output_string(output, value);
        return;
    }
    ct_output_string(output, "\"");
    for (; *value; value++)
        ct_output_bytes(output, *value == '"' ? "\"\"" : value, *value == '"' ? 2 : 1);
    ct_output_string(output, "\"");
}

void ct_output_number(struct ct_output *t, uint64_t number) {
    char digits[CT_DIGITS];
    size_t at = ct_digits(digits, number);
    ct_output_bytes(t, digits + at, sizeof digits - at);
}

void ct_output_free(struct ct_output *t) {
    free(t->data);
    *t = (struct ct_output){0};
}

void ct_output_numbers(struct ct_output *output, const uint64_t *numbers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ct_output_string(output, ",");
        ct_output_number(output, numbers[i]);
    }
    ct_output_string(output, "\n");
}

void ct_output_thread(struct ct_output *output, const struct ct_trace *trace, size_t thread) {
    if (thread == SIZE_MAX)
        return;
    const struct ct_trace_thread *info = ct_trace_thread_at(trace, thread);
    ct_output_number(output, info->tid);
    ct_output_string(output, ",");
    ct_output_field(output, info->name);
    ct_output_string(output, ",");
}

void ct_output_thread_json(struct ct_json *json, const struct ct_trace *trace, size_t thread) {
    if (thread == SIZE_MAX)
        return;
    const struct ct_trace_thread *info = ct_trace_thread_at(trace, thread);
    ct_json_number(json, "tid", info->tid);
    ct_json_string(json, "thread", info->name);
}

void ct_output_wall_json(struct ct_json *json, const char *key, const struct ct_wall *wall, uint64_t boot_ns) {
    char text[CT_WALL_TEXT];
    if (!wall)
        return;
    ct_wall_text(wall, boot_ns, text);
    ct_json_string(json, key, text);
}
