/* SPDX-License-Identifier: Apache-2.0 */
/* Stubs on arm64: where in a stub is what, and where the shared code saves registers. Read by the assembler too.
 *
 * Before the stub, 8 bytes: aut (functions that sign their return address; else nop) | mov x16, x30. The patch leads
 * there, or to the second of the two.
 * Stub: bl enter | bl body (entry-only: b body) | adr x16, id; b leave | where the moves are | hook number | body or
 * detour: [pac] | moved instructions | moves (stub.h). The id is the return address of `bl enter`. Enabling and
 * disabling store the first 8 bytes: only their first instruction changes, between `bl` and `b`. The architecture lets
 * threads run through such a change. */
#ifndef CT_HOOK_STUB_A64_H
#define CT_HOOK_STUB_A64_H

#define CT_STUB_LEAD_IN     8 /* before the stub */
#define CT_STUB_AFTER_ENTER 4
#define CT_STUB_CALL_BODY   4
#define CT_STUB_RESUME      8  /* where the body returns to */
#define CT_STUB_MOVES       16 /* 16 bits: their offset from the stub, 0: none */
#define CT_STUB_NUMBER      20
#define CT_STUB_BODY        24
/* Offsets from the id. */
#define CT_AFTER_TO_RESUME (CT_STUB_RESUME - CT_STUB_AFTER_ENTER)
#define CT_AFTER_TO_NUMBER (CT_STUB_NUMBER - CT_STUB_AFTER_ENTER)
#define CT_AFTER_TO_BODY   (CT_STUB_BODY - CT_STUB_AFTER_ENTER)

/* Both forms of the shared code end with literals: address of the table; the stray block. */
#define CT_HOOK_LITERALS 16

/* Events since a reading of the counter have its time: the counter is too slow to add to it. */
#define CT_CLOCK_SHIFT 8

/* struct ct_saved_registers, and struct ct_special_frame below it. */
#define CT_SAVED_SIZE 48
#define CT_REST_SIZE  112
/* What a slow path needs of the stack below these. Frames take more here than on x86_64. */
#define CT_SLOW_STACK 1536

#ifndef __ASSEMBLER__
#include <stdint.h>

struct ct_special_frame {  /* registers as the shared code saves them for slow paths */
    uint64_t argument4[4]; /* x4 to x7 */
    uint64_t scratch[8];   /* x8 to x15 */
    uint64_t x18, flags;
};
struct ct_saved_registers { /* right below the stack pointer of the caller; `address` is in the slot */
    uint64_t argument2[2], argument0[2];
    uint64_t stub;
    uint64_t address; /* where the function returns to */
};
_Static_assert(sizeof(struct ct_special_frame) == CT_REST_SIZE && sizeof(struct ct_saved_registers) == CT_SAVED_SIZE,
               "stubs_a64.S");
#endif

#endif
