/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the summary: summary.c reads one, summary_build.c makes one from events, summary_file.c loads, checks and
 * stores it. */
#ifndef CT_TRACE_SUMMARY_INTERNAL_H
#define CT_TRACE_SUMMARY_INTERNAL_H

#include "trace/reader.h"
#include "trace/summary.h"

#define CT_SUMMARY_BITS 2048u /* of the largest bitmap */

struct ct_summary {
    uint8_t *bytes; /* the whole file; the rest points into it */
    const struct cts_header *header;
    const struct cts_span *spans;
    const uint8_t *bitmaps;
    const struct cts_function *functions;
    const struct cts_call *calls;
    const struct cts_start *starts;
    const struct cts_frame *frames;
};

/* What a summary is made from. */
struct ct_summary_source {
    struct ct_trace *trace;
    size_t thread;
    const struct ct_summary_options *options;
    uint64_t files, facts; /* of the header */
};

/* The bit of a function in the largest bitmap; smaller ones use its lower bits. */
static inline uint32_t ct_summary_bit(uint64_t function) {
    return (uint32_t)(function * 0x9e3779b97f4a7c15u >> 53);
}

/* Reads all events. Returns 0 or CT_ERR_NO_MEMORY. */
int ct_summary_build(const struct ct_summary_source *source, uint8_t **bytes, size_t *size);

/* Sets files and facts of the source. */
int ct_summary_identify(struct ct_summary_source *source);
/* Takes the bytes if they are a summary of the source, whose every number is possible. */
bool ct_summary_check(struct ct_summary *summary, const struct ct_summary_source *source, uint8_t *bytes, size_t size);
/* True when there is a file. */
bool ct_summary_exists(const struct ct_summary_source *source);
/* Loads the file; false: there is none that fits. */
bool ct_summary_load(struct ct_summary *summary, const struct ct_summary_source *source);
/* The directory is ours, and nobody writes the thread's events any more. */
bool ct_summary_can_store(const struct ct_summary_source *source);
/* Stores it where that is so; failures do not matter. */
void ct_summary_store(const struct ct_summary_source *source, const uint8_t *bytes, size_t size);

#endif
