/* SPDX-License-Identifier: Apache-2.0 */
/* One function of each kind that a function table distinguishes. functions_test.c knows them by name; nothing runs. */

    .text

/* Three names for one address: the global, short one without underscore is shown. */
    .globl sample_plain, sample_plain_too, _plain
    .type sample_plain, @function
    .type sample_plain_too, @function
    .type _plain, @function
    .type a, @function
sample_plain:
sample_plain_too:
_plain:
a:
    .cfi_startproc
    push %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    call puts@PLT
    pop %rbx
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .size sample_plain, . - sample_plain
    .size sample_plain_too, . - sample_plain_too

    .type sample_local, @function
sample_local:
    .cfi_startproc
    nop
    ret
    .cfi_endproc
    .size sample_local, 2

/* No symbol at all. */
    .balign 16
    .cfi_startproc
    xor %eax, %eax
    ret
    .cfi_endproc
    .globl sample_after_nameless
    .type sample_after_nameless, @function
    .balign 16
sample_after_nameless:
    ret
    .size sample_after_nameless, 1

/* Symbols without type: functions when unwind information begins there. */
    .globl sample_label, sample_label_bare
    .balign 16
sample_label:
    .cfi_startproc
    nop
    nop
    ret
    .cfi_endproc
sample_label_bare:
    ret

/* Neither size nor unwind information: up to the next function. */
    .globl sample_sizeless
    .type sample_sizeless, @function
    .balign 16
sample_sizeless:
    ret

    .globl sample_odd
    .type sample_odd, @function
    .balign 16
sample_odd:
    .cfi_startproc
    .cfi_def_cfa_offset 24
    ret
    .cfi_endproc
    .size sample_odd, . - sample_odd

    .globl sample_expression
    .type sample_expression, @function
sample_expression:
    .cfi_startproc
    .cfi_escape 0x0f, 2, 0x77, 8 /* DW_CFA_def_cfa_expression: rsp + 8, which is not looked into */
    ret
    .cfi_endproc
    .size sample_expression, . - sample_expression

    .globl sample_ra_elsewhere
    .type sample_ra_elsewhere, @function
sample_ra_elsewhere:
    .cfi_startproc
    .cfi_register %rip, %rcx
    jmp *%rcx
    .cfi_endproc
    .size sample_ra_elsewhere, . - sample_ra_elsewhere

/* Says something odd and takes it back before the first instruction. */
    .globl sample_odd_undone
    .type sample_odd_undone, @function
sample_odd_undone:
    .cfi_startproc
    .cfi_remember_state
    .cfi_def_cfa_offset 32
    .cfi_register %rip, %rcx
    .cfi_restore_state
    ret
    .cfi_endproc
    .size sample_odd_undone, . - sample_odd_undone

/* Says the usual in every way there is: CFA rsp + 8, return address at CFA - 8. */
    .globl sample_spelled
    .type sample_spelled, @function
sample_spelled:
    .cfi_startproc
    .cfi_escape 0x12, 7, 0x7f       /* def_cfa_sf rsp, -1 * -8 */
    .cfi_escape 0x0d, 7             /* def_cfa_register rsp */
    .cfi_escape 0x13, 0x7f          /* def_cfa_offset_sf -1 * -8 */
    .cfi_escape 0x2e, 0x10          /* GNU_args_size 16 */
    .cfi_escape 0x14, 3, 1          /* val_offset of rbx */
    .cfi_escape 0x10, 3, 2, 0x77, 0 /* expression of rbx */
    .cfi_escape 0x07, 16, 0x06, 16  /* undefined rip, and restore_extended */
    .cfi_escape 0x2f, 16, 1         /* GNU_negative_offset_extended of rip: wrong way round */
    .cfi_escape 0x11, 16, 1         /* offset_extended_sf rip, 1 * -8 */
    .cfi_escape 0x07, 16, 0xd0      /* undefined rip, and restore */
    .cfi_escape 0x07, 16, 0x05, 16, 1 /* undefined rip, and offset_extended 1 * -8 */
    .cfi_escape 0x02, 0, 0x03, 0, 0, 0x04, 0, 0, 0, 0 /* advance_loc1, 2, 4 by nothing */
    ret
    .cfi_endproc
    .size sample_spelled, . - sample_spelled

    .globl sample_ra_kept, sample_ra_below, sample_unknown
    .type sample_ra_kept, @function
    .type sample_ra_below, @function
    .type sample_unknown, @function
sample_ra_kept:
    .cfi_startproc
    .cfi_same_value %rip
    ret
    .cfi_endproc
    .size sample_ra_kept, . - sample_ra_kept
sample_ra_below:
    .cfi_startproc
    .cfi_offset %rip, -16
    ret
    .cfi_endproc
    .size sample_ra_below, . - sample_ra_below
sample_unknown:
    .cfi_startproc
    .cfi_escape 0x2e, 0xd5, 0xaa, 0xd5, 0x2a /* GNU_args_size; the test puts an unknown instruction in its place */
    ret
    .cfi_endproc
    .size sample_unknown, . - sample_unknown

    .globl sample_no_caller
    .type sample_no_caller, @function
sample_no_caller:
    .cfi_startproc
    .cfi_undefined %rip
    hlt
    .cfi_endproc
    .size sample_no_caller, . - sample_no_caller

    .globl sample_signal
    .type sample_signal, @function
sample_signal:
    .cfi_startproc
    .cfi_signal_frame
    ret
    .cfi_endproc
    .size sample_signal, . - sample_signal

/* Entries inside the unwind information of another function. */
    .globl sample_outer, sample_inner_plain, sample_inner_odd
    .type sample_outer, @function
    .type sample_inner_plain, @function
    .type sample_inner_odd, @function
sample_outer:
    .cfi_startproc
    nop
sample_inner_plain:
    nop
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    nop
sample_inner_odd:
    nop
    pop %rbp
    .cfi_def_cfa_offset 8
    ret
    .size sample_inner_plain, 2
    .size sample_inner_odd, 2
    nop
    nop
    .cfi_endproc
    .size sample_outer, . - sample_outer

    .type sample_part.cold, @function
sample_part.cold:
    .cfi_startproc
    ret
    .cfi_endproc
    .size sample_part.cold, 1
    .type sample_part.cold.12, @function
sample_part.cold.12:
    .cfi_startproc
    ret
    .cfi_endproc
    .size sample_part.cold.12, 1
    .type sample_colder.7, @function
sample_colder.7:
    .cfi_startproc
    ret
    .cfi_endproc
    .size sample_colder.7, 1

    .globl sample_ifunc
    .type sample_ifunc, @gnu_indirect_function
sample_ifunc:
    .cfi_startproc
    lea sample_local(%rip), %rax
    ret
    .cfi_endproc
    .size sample_ifunc, . - sample_ifunc

    .globl sample_version_old, sample_version_new
    .type sample_version_old, @function
    .type sample_version_new, @function
    .symver sample_version_old, sample_versioned@SAMPLE_1
    .symver sample_version_new, sample_versioned@@SAMPLE_2
sample_version_old:
    ret
    .size sample_version_old, 1
    .balign 16
sample_version_new:
    ret
    .size sample_version_new, 1

/* Personality routines: named directly, through a slot, and known by name only. */
    .globl sample_handler_direct, sample_handler_slot
    .hidden sample_handler_direct
    .type sample_handler_direct, @function
    .type sample_handler_slot, @function
    .type rust_eh_personality, @function
sample_handler_direct:
    ret
    .size sample_handler_direct, 1
sample_handler_slot:
    ret
    .size sample_handler_slot, 1
rust_eh_personality:
    ret
    .size rust_eh_personality, 1

    .type sample_handled, @function
sample_handled:
    .cfi_startproc
    .cfi_personality 0x1b, sample_handler_direct
    ret
    .cfi_endproc
    .size sample_handled, 1
    .type sample_handled_too, @function
sample_handled_too:
    .cfi_startproc
    .cfi_personality 0x9b, slot
    ret
    .cfi_endproc
    .size sample_handled_too, 1

/* Not code. */
    .data
    .globl sample_data_label
    .type sample_data_function, @function
    .balign 8
sample_data_label:
sample_data_function:
slot:
    .quad sample_handler_slot

    .section .note.GNU-stack, "", @progbits
