/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernel keeps what a signal handler has interrupted, on arm64: a ucontext (flags, link, stack, mask), in it
 * the registers, after them records. The first of these always has the vector registers, and its header is the same
 * word in every frame. For files of this machine alone. */
#ifndef CT_OS_LINUX_SIGNAL_FRAME_A64_H
#define CT_OS_LINUX_SIGNAL_FRAME_A64_H

#include <stdbool.h>
#include <stdint.h>

enum { /* from the beginning of the ucontext */
    CT_FRAME_A64_ALTSTACK_FLAGS = 24,
    CT_FRAME_A64_MASK = 40,
    CT_FRAME_A64_X0 = 184,
    CT_FRAME_A64_SP = 432,
    CT_FRAME_A64_PC = 440,
    CT_FRAME_A64_PSTATE = 448,
    CT_FRAME_A64_RECORDS = 464,
    CT_FRAME_A64_VECTORS = CT_FRAME_A64_RECORDS + 8,
    CT_FRAME_A64_VECTORS_SIZE = 520, /* fpsr, fpcr, v0 to v31 */
    CT_FRAME_A64_END = CT_FRAME_A64_RECORDS + 528 + 16,
    CT_FRAME_A64_SIGINFO = 128, /* before it */
};

#define CT_FRAME_A64_HEADER UINT64_C(0x0000021046508001) /* size and kind of the first record */

/* Is this a ucontext of a handler? `at`: its first words, up to the header. */
static inline bool ct_frame_a64_is(const uint64_t *at) {
    return at[CT_FRAME_A64_RECORDS / 8] == CT_FRAME_A64_HEADER && at[0] == 0 && at[1] == 0 &&
           (at[CT_FRAME_A64_PSTATE / 8] & UINT64_C(0xffffffff0000001f)) == 0 && (at[CT_FRAME_A64_PC / 8] & 3) == 0;
}

#endif
