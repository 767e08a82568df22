/* SPDX-License-Identifier: Apache-2.0 */
/* Entering and leaving the engine, arm64: not written yet. Each entry traps; no code leads here. */
    .text

.macro LABEL name
    .globl \name
    .hidden \name
\name:
.endm

    .balign 64
LABEL ct_stalk_code
LABEL ct_stalk_collide
LABEL ct_stalk_miss
LABEL ct_stalk_return_collide
LABEL ct_stalk_return_miss
LABEL ct_stalk_uncached
LABEL ct_stalk_native_miss
LABEL ct_stalk_landed
LABEL ct_stalk_land
LABEL ct_stalk_clock
LABEL ct_stalk_full
LABEL ct_stalk_syscall
LABEL ct_stalk_begin
LABEL ct_stalk_end
LABEL ct_stalk_enter
LABEL ct_stalk_saved
LABEL ct_stalk_switch
LABEL ct_stalk_going
LABEL ct_stalk_restore
    brk #0
LABEL ct_stalk_code_end

LABEL ct_stalk_signal_entry
LABEL ct_stalk_signal_blocked
LABEL ct_stalk_signal_return
LABEL ct_stalk_child
    brk #0

/* The two functions of the API that see registers: CT_ERR_UNSUPPORTED. */
    .section ct_stalk_text, "ax", @progbits
    .globl ct_stalker_follow_me, ct_stalker_unfollow_me
    .type ct_stalker_follow_me, @function
    .type ct_stalker_unfollow_me, @function
ct_stalker_follow_me:
ct_stalker_unfollow_me:
    .cfi_startproc
    mov w0, #-20
    ret
    .cfi_endproc
    .size ct_stalker_follow_me, . - ct_stalker_follow_me
    .size ct_stalker_unfollow_me, . - ct_stalker_unfollow_me

    .section .note.GNU-stack,"",@progbits
