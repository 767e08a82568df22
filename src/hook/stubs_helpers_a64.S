/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_a64.S: helpers of the C slow paths. They are not copied to stubs. */

FUNCTION ct_hook_on_stack                   /* stack, fn, a, b */
    .cfi_startproc
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov x29, sp
    .cfi_def_cfa_register x29
    mov sp, x0
    mov x16, x1
    mov x0, x2
    mov x1, x3
    blr x16
    mov sp, x29
    .cfi_def_cfa_register sp
    ldp x29, x30, [sp], #16
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    ret
    .cfi_endproc

FUNCTION ct_hook_call_saved                 /* vectors (size, parts), fn, arg */
    .cfi_startproc
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov x29, sp
    .cfi_def_cfa_register x29
    SAVE_VECTORS
    mov x0, x3
    mov x1, sp
    blr x2
    RESTORE_VECTORS
    .cfi_def_cfa_register sp
    ldp x29, x30, [sp], #16
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    ret
    .cfi_endproc
