/* SPDX-License-Identifier: Apache-2.0 */
/* Stubs on x86_64: offsets in a stub, and the order in which the shared code pushes registers. The assembler reads it
 * too.
 *
 * Stub: call enter; nop3 | call body (entry-only: jmp body) | jmp leave | where the moves are | hook number | body or
 * literal | moves (stub.h). Enabling and disabling store the first 8 bytes, which are aligned. */
#ifndef CT_HOOK_STUB_X64_H
#define CT_HOOK_STUB_X64_H

#define CT_STUB_AFTER_ENTER 5
#define CT_STUB_CALL_BODY   8
#define CT_STUB_RESUME      13 /* where the body returns to */
#define CT_STUB_MOVES       18 /* 16 bits: offset of the moves from the stub, 0: none */
#define CT_STUB_NUMBER      20
#define CT_STUB_BODY        24
/* Offsets from the return address that `call enter` pushes. */
#define CT_AFTER_TO_BODY_REL (CT_STUB_CALL_BODY + 1 - CT_STUB_AFTER_ENTER)
#define CT_AFTER_TO_RESUME   (CT_STUB_RESUME - CT_STUB_AFTER_ENTER)
#define CT_AFTER_TO_NUMBER   (CT_STUB_NUMBER - CT_STUB_AFTER_ENTER)

/* The shared code has no literals that a process which hooks itself fills. */
#define CT_HOOK_LITERALS 0

/* 4 counts for each slot since a reading of the counter (layout.h). */
#define CT_CLOCK_SHIFT 2

#ifndef __ASSEMBLER__
#include <stdint.h>

struct ct_special_frame { /* registers as the shared code pushes them */
    uint64_t scratch[2], argument5, argument4, argument0, argument1;
};
struct ct_saved_registers { /* registers right below the return address; the last is the stub word */
    uint64_t argument3, argument2, flags, result, stub;
};
#endif

#endif
