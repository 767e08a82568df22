/* Stubs on x86_64: where in a stub is what, and in which order the shared code pushes registers. Read by the assembler
 * too.
 *
 * Stub: call enter; nop3 | call body (entry-only: jmp body) | jmp leave | where the moves are | hook number | body or
 * literal | moves (stub.h). The first 8 bytes, aligned, are what enabling and disabling stores. */
#ifndef CT_HOOK_STUB_X64_H
#define CT_HOOK_STUB_X64_H

#define CT_STUB_AFTER_ENTER 5
#define CT_STUB_CALL_BODY   8
#define CT_STUB_RESUME      13 /* where the body returns to */
#define CT_STUB_MOVES       18 /* 16 bits: their offset from the stub, 0: none */
#define CT_STUB_NUMBER      20
#define CT_STUB_BODY        24
/* The same, seen from the return address that `call enter` pushes. */
#define CT_AFTER_TO_BODY_REL (CT_STUB_CALL_BODY + 1 - CT_STUB_AFTER_ENTER)
#define CT_AFTER_TO_RESUME   (CT_STUB_RESUME - CT_STUB_AFTER_ENTER)
#define CT_AFTER_TO_NUMBER   (CT_STUB_NUMBER - CT_STUB_AFTER_ENTER)

#ifndef __ASSEMBLER__
#include <stdint.h>

struct ct_special_frame { /* registers as the shared code pushes them */
    uint64_t scratch[2], argument5, argument4, argument0, argument1;
};
struct ct_saved_registers { /* the same, right below the return address; the last is the stub word */
    uint64_t argument3, argument2, flags, result, stub;
};
#endif

#endif
