/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of all shapes, called with known arguments; what is to be read of each call is beside it. */
#ifndef CT_TESTS_PARAMETERS_SUBJECT_H
#define CT_TESTS_PARAMETERS_SUBJECT_H

#include <stdint.h>

struct capture {
    uint64_t registers[8], stack_pointer;
    uint8_t vectors[8][16], stack[512];
};

struct subject_case {
    const void *function;
    void (*call)(void);
    const char *arguments, *result; /* as they are to be shown; result "" for void */
};

#ifdef __cplusplus
extern "C" {
#endif
extern struct capture capture_call, capture_return;
extern const void *capture_target;
extern void *volatile capture_entry; /* of assembly, of any type */
#ifdef __cplusplus
}
#endif

#define VISIBLE      __attribute__((noinline, visibility("default")))
#define CALL(f, ...) (capture_target = (const void *)f, ((__typeof__(&f))capture_entry)(__VA_ARGS__))

#endif
