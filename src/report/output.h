/* SPDX-License-Identifier: Apache-2.0 */
/* A growing text. All zero is an empty one. */
#ifndef CT_REPORT_OUTPUT_H
#define CT_REPORT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_output {
    char *data; /* not terminated */
    size_t length, capacity;
    bool failed; /* out of memory: something is missing */
};

void ct_output_bytes(struct ct_output *output, const char *bytes, size_t count);
void ct_output_string(struct ct_output *output, const char *string);
/* Writes a value of a CSV line, quoted where necessary (RFC 4180). */
void ct_output_field(struct ct_output *output, const char *value);
void ct_output_number(struct ct_output *output, uint64_t number);
/* Writes the rest of a CSV line. */
void ct_output_numbers(struct ct_output *output, const uint64_t *numbers, size_t count);
struct ct_json;
struct ct_trace;
/* Writes the first columns of a CSV line, or members of a row: number and name of the thread with this index. Nothing
 * for SIZE_MAX. */
void ct_output_thread(struct ct_output *output, const struct ct_trace *trace, size_t thread);
void ct_output_thread_json(struct ct_json *json, const struct ct_trace *trace, size_t thread);
struct ct_wall;
/* Writes a moment as date and time, under this key; nothing without `wall`. */
void ct_output_wall_json(struct ct_json *json, const char *key, const struct ct_wall *wall, uint64_t boot_ns);
void ct_output_free(struct ct_output *output);

#endif
