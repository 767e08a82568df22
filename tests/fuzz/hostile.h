/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers that play a hostile target share: reading the input, time that the input makes pass, failing.
 *
 * An input is a program for the target. Bytes that are missing are zero: each input is one. */
#ifndef CT_TESTS_FUZZ_HOSTILE_H
#define CT_TESTS_FUZZ_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hostile_input {
    const uint8_t *at, *end;
};

uint64_t hostile_bytes(struct hostile_input *in, unsigned count);
static inline uint8_t hostile_u8(struct hostile_input *in) {
    return (uint8_t)hostile_bytes(in, 1);
}
static inline uint16_t hostile_u16(struct hostile_input *in) {
    return (uint16_t)hostile_bytes(in, 2);
}
static inline uint32_t hostile_u32(struct hostile_input *in) {
    return (uint32_t)hostile_bytes(in, 4);
}
/* One byte that names a number at which code tends to break, or a byte with its high bit set and then eight bytes. */
uint64_t hostile_value(struct hostile_input *in);

void hostile_fail(const char *what) __attribute__((noreturn));

/* ct_clock_now() is so much later than it is. */
void hostile_advance(uint64_t ns);
void hostile_reset_time(void);

/* `loaded` is called whenever instrumented code is about to load from [start, start + size), with the offset from its
 * start. Only libFuzzer's build is instrumented. */
void hostile_watch(const void *start, size_t size, void (*loaded)(uint64_t offset));

/* A process that does nothing and ends with us. */
int hostile_bystander(void);

/* What a fuzzer of this kind is made of: the numbers of its operations are below the first, and this many random inputs
 * are run where libFuzzer makes none. main() is in hostile.c then. */
extern const unsigned hostile_operations, hostile_cases;
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
