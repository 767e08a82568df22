/* Text that grows. A zeroed one is empty. */
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
/* A value of a CSV line, quoted where it must be (RFC 4180). */
void ct_output_field(struct ct_output *output, const char *value);
void ct_output_number(struct ct_output *output, uint64_t number);
void ct_output_free(struct ct_output *output);

#endif
