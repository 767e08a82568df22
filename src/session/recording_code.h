/* SPDX-License-Identifier: Apache-2.0 */
/* Code of a recorded process that is left alone: executable memory that belongs to no module and is not ours. */
#ifndef CT_SESSION_RECORDING_CODE_H
#define CT_SESSION_RECORDING_CODE_H

#include <stddef.h>
#include <stdint.h>

struct ct_recording;

struct ct_left_code {
    char *name;
    const char *reason;
    uint64_t mappings, bytes; /* the most that was seen at a time */
};

/* Under the recording's mutex. */
struct ct_left_code_list {
    struct ct_left_code *items;
    size_t count;
};

/* Notes code that is left alone: the kernel's, and code that programs make at run time. Any thread; does nothing while
 * another thread uses the remote. */
void ct_recording_look_at_code(struct ct_recording *r);
void ct_recording_free_code(struct ct_recording *r);

#endif
