/* SPDX-License-Identifier: Apache-2.0 */
/* Entering and leaving the engine, arm64. The first part is position-independent and is copied into every arena.
 *
 * In translated code x18 is the address of the thread's area (layout.h), where the program's x18 is. A signal may
 * arrive at any instruction. These rules hold for recover_a64.c:
 *   - before ct_stalk_enter only x16 and x17 have changed, and their values are in the area;
 *   - from ct_stalk_saved on all registers are in the area;
 *   - from ct_stalk_restore on sp is the program's, and everything else is in the area.
 * There is no jump that uses no register. So a place where the engine lets a thread continue is entered one instruction
 * before it: with its address in x17, and that instruction reloads x17 from the area. */
#include "stalk/layout.h"

#define AREA(x) ((x)-CT_AREA)
#define X16     128
#define X17     136
#define X18     144
#define SP      248

#define NR_RT_SIGPROCMASK 135
#define NR_RT_SIGRETURN   139

    .arch armv8-a
    .text
    .balign 64
    .globl ct_stalk_code
    .hidden ct_stalk_code
ct_stalk_code:

.macro FUNCTION name
    .globl \name
    .hidden \name
    .balign 16
\name:
.endm
.macro LABEL name
    .globl \name
    .hidden \name
\name:
.endm
/* The area of the calling thread. */
.macro FIND_AREA reg
    mrs \reg, tpidr_el0
    ldr \reg, [\reg, #8]
    add \reg, \reg, #(CT_AREA & 0xfff)
    add \reg, \reg, #(CT_AREA & 0xfff000)
.endm
.macro REASON value
    mov w16, #(\value & 0xffff0000)
    .if \value & 0xffff
    movk w16, #(\value & 0xffff)
    .endif
.endm

/* In all of these x16 and x17 of the program are in the area. */

/* An indirect branch: the entry in the table is not that of the target, or there is none. x17 holds the target. */
FUNCTION ct_stalk_collide
LABEL ct_stalk_miss
    str x17, [x18, #AREA(CT_AREA_TARGET)]
LABEL ct_stalk_native_miss
    REASON CT_REASON_MISS
    b give_reason
/* A return: x30 holds the target. */
LABEL ct_stalk_return_collide
LABEL ct_stalk_return_miss
    str x30, [x18, #AREA(CT_AREA_TARGET)]
    REASON (CT_REASON_MISS + CT_MISS_RETURN)
    b give_reason
/* An indirect branch whose inline cache does not have the target. w16 is the reason, x17 the target. */
LABEL ct_stalk_uncached
    str x17, [x18, #AREA(CT_AREA_TARGET)]
    b give_reason

/* Excluded code, or setjmp, has returned to the address in x30 (landing_a64.c). x16 is the thread's block, x18 the
 * program's; x16 and x17 are free where a function returns. The return table of the thread's cache may know the
 * address. With the fast clock the engine reads the time each time. */
LABEL ct_stalk_landed
    add x16, x16, #(CT_AREA & 0xfff)
    add x16, x16, #(CT_AREA & 0xfff000)
    str x18, [x16, #X18]
    mov x18, x16
    str xzr, [x18, #AREA(CT_AREA_NATIVE)]
    stp x16, x17, [x18, #X16]
    ldr x16, [x18, #AREA(CT_AREA_THREAD)]
    ldr x16, [x16, #CT_THREAD_CACHE]
    ldr w17, [x16, #CT_CACHE_MASK]
    tbnz w17, #9, 1f                        /* CT_STALKER_FAST_CLOCK */
    ldr x16, [x16, #CT_CACHE_RETURNS]
    bfi x16, x30, #1, #18
    ldr x16, [x16]
    br x16
1:  str x30, [x18, #AREA(CT_AREA_TARGET)]
    REASON CT_REASON_LANDED
    b give_reason
LABEL ct_stalk_land
    FIND_AREA x17
    str x18, [x17, #X18]
    mov x18, x17
    REASON CT_REASON_LAND
    b give_reason

/* The fast clock: writes a record of site 0, which is a reading of the clock, and continues at the area's target. If
 * the record before or this one fills the buffer, enters the engine. */
LABEL ct_stalk_clock
    ldr x16, [x18, #AREA(CT_AREA_EVENTS)]
    and w17, w16, #0xffff
    cbz w17, ct_stalk_full
    sub x16, x16, #CT_RECORD_SIZE
    mrs x17, cntvct_el0
    str x17, [x16, #CT_RECORD_TARGET]
    str wzr, [x16, #CT_RECORD_SITE]
    str x16, [x18, #AREA(CT_AREA_EVENTS)]
    and w17, w16, #0xffff
    cbz w17, ct_stalk_full
    ldr x16, [x18, #X16]
    ldr x17, [x18, #AREA(CT_AREA_TARGET)]
    sub x17, x17, #4
    br x17

/* To the area's target, wherever it is: x17 is lost. The word before reloads x17, as everywhere. */
    nop
LABEL ct_stalk_away
    ldr x17, [x18, #AREA(CT_AREA_TARGET)]
    ldr x18, [x18, #X18]
    ret x17

LABEL ct_stalk_full
    REASON CT_REASON_FULL
    b give_reason
LABEL ct_stalk_syscall
    REASON CT_REASON_SYSCALL
    b give_reason
/* The caller has put x17 and x18 into the area. */
LABEL ct_stalk_begin
    str x16, [x18, #X16]
    REASON CT_REASON_BEGIN
    b give_reason
LABEL ct_stalk_end
    stp x16, x17, [x18, #X16]
    REASON CT_REASON_END
    b give_reason
/* w17 is the reason; x16 is the program's. */
LABEL ct_stalk_exit
    str x16, [x18, #X16]
    mov w16, w17
give_reason:
    str x16, [x18, #AREA(CT_AREA_REASON)]
    ldp x16, x17, [x18, #X16]

FUNCTION ct_stalk_enter
    stp x0, x1, [x18, #0]
    stp x2, x3, [x18, #16]
    stp x4, x5, [x18, #32]
    stp x6, x7, [x18, #48]
    stp x8, x9, [x18, #64]
    stp x10, x11, [x18, #80]
    stp x12, x13, [x18, #96]
    stp x14, x15, [x18, #112]
    stp x16, x17, [x18, #X16]
    str x19, [x18, #152]
    stp x20, x21, [x18, #160]
    stp x22, x23, [x18, #176]
    stp x24, x25, [x18, #192]
    stp x26, x27, [x18, #208]
    stp x28, x29, [x18, #224]
    str x30, [x18, #240]
    mov x16, sp
    str x16, [x18, #SP]
LABEL ct_stalk_saved
    ldr w16, [x18, #AREA(CT_AREA_ALTERNATE)]
    cbz w16, 1f
    /* A handler runs on the alternate stack. While we are on the engine's stack, the kernel would take the alternate
     * stack for unused, and overwrite it with the next signal's frame. So all signals are blocked:
     * rt_sigprocmask(SIG_SETMASK, &all, &area.mask, 8). This is undone when the engine is left. */
    mov x8, #NR_RT_SIGPROCMASK
    mov x0, #2
    adr x1, 3f
    add x2, x18, #AREA(CT_AREA_MASK)
    mov x3, #8
    svc #0
    mov x16, #1
    str x16, [x18, #AREA(CT_AREA_PENDING)]
1:  ldr x16, [x18, #AREA(CT_AREA_STACK)]
    mov sp, x16
LABEL ct_stalk_switch
    mrs x16, nzcv
    str x16, [x18, #AREA(CT_AREA_FLAGS)]
    mov w16, #1
    str w16, [x18, #AREA(CT_AREA_IN_ENGINE)]
    mov x19, x18                            /* C code may use x18 */
    mov x29, #0
    ldr x0, [x18, #AREA(CT_AREA_THREAD)]
    ldr x16, [x18, #AREA(CT_AREA_FN_ENGINE)]
    blr x16
    mov x18, x19
    str x0, [x18, #AREA(CT_AREA_RESUME)]
LABEL ct_stalk_going
    ldr x16, [x18, #AREA(CT_AREA_FLAGS)]
    msr nzcv, x16
    ldr x16, [x18, #SP]
    mov sp, x16
LABEL ct_stalk_restore
    str wzr, [x18, #AREA(CT_AREA_IN_ENGINE)]
    ldr x16, [x18, #AREA(CT_AREA_PENDING)]
    cbz x16, 1f
    /* rt_sigprocmask(SIG_SETMASK, &area.mask, NULL, 8): signals that were put off arrive now. */
    mov x8, #NR_RT_SIGPROCMASK
    mov x0, #2
    add x1, x18, #AREA(CT_AREA_MASK)
    mov x2, #0
    mov x3, #8
    svc #0
    str xzr, [x18, #AREA(CT_AREA_PENDING)]  /* a thread stopped before this does it again */
1:  ldp x0, x1, [x18, #0]
    ldp x2, x3, [x18, #16]
    ldp x4, x5, [x18, #32]
    ldp x6, x7, [x18, #48]
    ldp x8, x9, [x18, #64]
    ldp x10, x11, [x18, #80]
    ldp x12, x13, [x18, #96]
    ldp x14, x15, [x18, #112]
    ldr x16, [x18, #X16]
    ldr x19, [x18, #152]
    ldp x20, x21, [x18, #160]
    ldp x22, x23, [x18, #176]
    ldp x24, x25, [x18, #192]
    ldp x26, x27, [x18, #208]
    ldp x28, x29, [x18, #224]
    ldr x30, [x18, #240]
    ldr x17, [x18, #AREA(CT_AREA_RESUME)]
    sub x17, x17, #4
    br x17
    .balign 8
3:  .quad -1
LABEL ct_stalk_code_end

/* ---- not copied ---- */

    .section ct_stalk_text, "ax", @progbits

/* int ct_stalker_follow_me(stalker, transformer, sink): the engine begins at our return address, with our result in
 * x0. */
    .globl ct_stalker_follow_me
    .type ct_stalker_follow_me, @function
    .balign 16
ct_stalker_follow_me:
    .cfi_startproc
    hint #34                                /* bti c */
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov x29, sp
    add x3, sp, #8
    bl ct_stalk_do_follow_me
    ldp x29, x30, [sp], #16
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    cbnz x1, 1f
    ret
1:  FIND_AREA x16                           /* followed: x1 is ct_stalk_begin */
    stp x17, x18, [x16, #X17]
    mov x18, x16
    br x1
    .cfi_endproc
    .size ct_stalker_follow_me, . - ct_stalker_follow_me

/* int ct_stalker_unfollow_me(stalker): runs natively, because this section is excluded. It may change its return
 * address. */
    .globl ct_stalker_unfollow_me
    .type ct_stalker_unfollow_me, @function
    .balign 16
ct_stalker_unfollow_me:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov x29, sp
    add x1, sp, #8
    bl ct_stalk_do_unfollow_me
    ldp x29, x30, [sp], #16
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size ct_stalker_unfollow_me, . - ct_stalker_unfollow_me

/* From a hook's stub, where x16 and x17 are free (ct_stalk_way_in). */
FUNCTION ct_stalk_come
    FIND_AREA x16
    stp x17, x18, [x16, #X17]
    mov x18, x16
    ldr x17, [x18, #AREA(CT_AREA_TARGET)]
    br x17

.macro COUNT_UNDERWAY change
    adrp x9, ct_stalk_underway
    add x9, x9, :lo12:ct_stalk_underway
1:  ldaxr w10, [x9]
    add w10, w10, #\change
    stlxr w11, w10, [x9]
    cbnz w11, 1b
.endm

/* The handler of every signal that the program handles, while threads are followed. x0, x1 and x2 are the kernel's
 * arguments; the stack is the one that the kernel chose. Blocks all signals, calls C code, then continues where that
 * says, with the same arguments: natively with the old mask, or at ct_stalk_restore, which sets the mask. It is in the
 * section of our own code; while the thread is outside of the section, ct_stalk_underway counts it. signal_a64.h has
 * the layout of the frame. */
FUNCTION ct_stalk_signal_entry
    hint #34
    stp x29, x30, [sp, #-64]!
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    mov x8, #NR_RT_SIGPROCMASK              /* (SIG_SETMASK, all, mask, 8) */
    mov x0, #2
    adr x1, all_signals
    add x2, sp, #48
    mov x3, #8
    svc #0
LABEL ct_stalk_signal_blocked
    COUNT_UNDERWAY 1
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    add x3, sp, #48
    bl ct_stalk_on_signal
    COUNT_UNDERWAY -1
    mov x19, x0                             /* the kernel has saved all registers */
    cbz x0, 3f
    cbz x1, 2f
    mov x8, #NR_RT_SIGPROCMASK
    mov x0, #2
    add x1, sp, #48
    mov x2, #0
    mov x3, #8
    svc #0
    b 4f
2:  FIND_AREA x18
4:  mov x16, x19
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #64
    br x16
3:  ldp x29, x30, [sp], #64
    ret
    .balign 8
all_signals:
    .quad -1

    .text

/* The restorer for signals for which the program has no handler, and no restorer of its own: rt_sigreturn. */
    .globl ct_stalk_signal_return
    .hidden ct_stalk_signal_return
    .balign 16
ct_stalk_signal_return:
    mov x8, #NR_RT_SIGRETURN
    svc #0

/* The first instructions of a new thread that is to be followed. Its x16 and x17 are on its fresh stack. x16 points to
 * our address, to where it continues, and to code that takes both registers from the stack and continues there
 * natively. It is in the section of our own code; while the thread is outside of the section it is counted, so that its
 * creator's Stalker stays. */
    .section ct_stalk_text, "ax", @progbits
.macro RELOAD
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x29, x30, [sp, #144]
    ldr x19, [sp, #168]
    ldp x0, x1, [sp], #192
.endm
FUNCTION ct_stalk_child
    sub sp, sp, #192
    stp x0, x1, [sp]
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x18, [sp, #128]
    stp x29, x30, [sp, #144]
    str x19, [sp, #168]
    mrs x19, nzcv
    COUNT_UNDERWAY 1
    ldr x0, [x16, #8]
    bl ct_stalk_adopt
    COUNT_UNDERWAY -1
    msr nzcv, x19
    ldp x16, x18, [sp, #128]
    ldr x17, [x16, #8]
    sub x17, x0, x17
    cbz x17, 2f
    ldr x9, [sp, #200]                      /* followed: x0 is ct_stalk_begin; the program's x17 */
    FIND_AREA x10
    stp x9, x18, [x10, #X17]
    mov x18, x10
    mov x17, x0
    RELOAD
    ldr x16, [sp], #16
    br x17
2:  RELOAD
    add x16, x16, #16
    br x16

    .section .note.GNU-stack,"",@progbits
