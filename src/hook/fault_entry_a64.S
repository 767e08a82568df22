/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernel goes on a fault, and where a handler returns to after a fault in a moved instruction: see
 * fault.h. */
#include "hook/layout.h"
#include "hook/stub_a64.h"

    .text

/* Registers are as the kernel leaves them: x0, x1, x2 are the handler's arguments, x30 is the restorer. The handler
 * gets them unchanged. The restorer is in the slot meanwhile. Of x1 and x2 nothing is known: the kernel sets them only
 * for handlers with SA_SIGINFO. But the frame is always at sp: siginfo, then the context. */
    .set siginfo_size, 128
    .globl ct_fault_entry
    .hidden ct_fault_entry
    .balign 32
ct_fault_entry:
    hint #34 /* bti c */
    stp x0, x1, [sp, #-48]!
    str x2, [sp, #16]
    str x30, [sp, #40]
    add x1, sp, #48
    add x2, x1, #siginfo_size
    add x3, sp, #40
    bl ct_fault_delivered
    mov x16, x0
    ldr x30, [sp, #40]
    ldr x2, [sp, #16]
    ldp x0, x1, [sp], #48
    cbz x16, 1f
    br x16
1:  ret

/* What a shadow entry needs of a stub: an address to know it by, a place to return to, and a number. */
    .globl ct_fault_stub
    .hidden ct_fault_stub
    .balign 16
ct_fault_stub:
    .skip CT_STUB_RESUME
    b returned
    .skip CT_STUB_NUMBER - CT_STUB_RESUME - 4
    .long CT_HOOK_NONE

/* sp is the start of the signal frame. The kernel will restore all registers. */
returned:
    adr x0, ct_fault_stub + CT_STUB_RESUME
    str x0, [sp, #-8]!
    mov x0, sp
    sub sp, sp, #8
    bl ct_fault_returned
    mov x30, x0
    add sp, sp, #16
    ret

    .section .note.GNU-stack,"",@progbits
