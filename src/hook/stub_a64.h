/* SPDX-License-Identifier: Apache-2.0 */
/* Stubs on arm64: where in a stub is what. Read by the assembler too.
 *
 * Stub: nop | nop or aut | mov x16, x30 | bl enter | bl body | adr x16, id; b leave | where the moves are | hook
 * number | body (paired with the aut: nop or pac) | moves (stub.h). The id is the return address of `bl enter`. */
#ifndef CT_HOOK_STUB_A64_H
#define CT_HOOK_STUB_A64_H

#define CT_STUB_AFTER_ENTER 16
#define CT_STUB_CALL_BODY   16
#define CT_STUB_RESUME      20 /* where the body returns to */
#define CT_STUB_MOVES       28 /* 16 bits: their offset from the stub, 0: none */
#define CT_STUB_NUMBER      36
#define CT_STUB_BODY        40
/* The same, seen from the id. */
#define CT_AFTER_TO_RESUME (CT_STUB_RESUME - CT_STUB_AFTER_ENTER)
#define CT_AFTER_TO_NUMBER (CT_STUB_NUMBER - CT_STUB_AFTER_ENTER)

#ifndef __ASSEMBLER__
#include <stdint.h>

struct ct_special_frame { /* registers as the shared code saves them */
    uint64_t arguments[8];
};
#endif

#endif
