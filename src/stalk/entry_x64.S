/* SPDX-License-Identifier: Apache-2.0 */
/* Entering and leaving the engine, x86_64. The first part is position-independent and is copied into every arena.
 *
 * Translated code keeps nothing on the program's stack: registers are saved in the thread's area (layout.h), and the
 * engine has a stack of its own. A signal may arrive at any instruction. These rules hold for recover_x64.c:
 *   - before ct_stalk_switch no register has changed;
 *   - from there until the area says "in engine" only rsp has changed, and its value is in the area;
 *   - from ct_stalk_restore on rsp is the program's, and everything else is in the area. */
#include "stalk/layout.h"

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

/* Code that compares the target of an indirect branch may have changed the flags: they become the program's again. */
.macro FLAGS_AGAIN
    mov %rax, %gs:CT_AREA_RAX
    mov %gs:CT_AREA_BRANCHED, %eax
    add $0x7f, %al                          /* OF, if al is 1 */
    sahf
    mov %gs:CT_AREA_RAX, %rax
.endm

/* An indirect branch: the entry in the table is not that of the target. rcx holds the target minus the entry's address,
 * r11 minus the entry's address. rcx becomes the target. */
FUNCTION ct_stalk_collide
    not %r11
    lea 1(%rcx, %r11), %rcx
/* The table has no entry. rcx holds the target; the program's r11 and rcx are in the area. */
FUNCTION ct_stalk_miss
    FLAGS_AGAIN
    mov %rcx, %gs:CT_AREA_TARGET
    mov %gs:CT_AREA_R11, %r11
    mov %gs:CT_AREA_RCX, %rcx
    movq $CT_REASON_MISS, %gs:CT_AREA_REASON
    jmp ct_stalk_enter

/* The return address of a call of excluded code is not in its table. The target is in the area, and so are r11 and
 * rcx. */
FUNCTION ct_stalk_native_miss
    FLAGS_AGAIN
    mov %gs:CT_AREA_R11, %r11
    mov %gs:CT_AREA_RCX, %rcx
    movq $CT_REASON_MISS, %gs:CT_AREA_REASON
    jmp ct_stalk_enter

FUNCTION ct_stalk_landed
    movl $CT_REASON_LANDED, %gs:CT_AREA_REASON
    jmp ct_stalk_enter
FUNCTION ct_stalk_land
    movq $CT_REASON_LAND, %gs:CT_AREA_REASON
    jmp ct_stalk_enter

/* A return: the entry in the table is not that of the return address. The address was popped, and is still below the
 * stack pointer. */
FUNCTION ct_stalk_return_collide
    mov -8(%rsp), %rcx
    jmp 1f
/* The table has no entry. The return address is on the stack; rcx is in the area. */
FUNCTION ct_stalk_return_miss
    pop %rcx
1:  mov %rcx, %gs:CT_AREA_TARGET
    mov %gs:CT_AREA_RCX, %rcx
    movq $CT_REASON_MISS + CT_MISS_RETURN, %gs:CT_AREA_REASON
    jmp ct_stalk_enter

/* An indirect branch whose inline cache does not have the target. rcx holds the target; the program's r11 and rcx are
 * in the area. */
FUNCTION ct_stalk_uncached
    FLAGS_AGAIN
    mov %rcx, %gs:CT_AREA_TARGET
    mov %gs:CT_AREA_R11, %r11
    mov %gs:CT_AREA_RCX, %rcx
    jmp ct_stalk_enter

/* The fast clock: writes a record of site 0, which is a reading of the clock, and continues at the area's target. If
 * the record before or this one fills the buffer, enters the engine. The program's rcx is in the area. */
FUNCTION ct_stalk_clock
    mov %gs:CT_AREA_EVENTS, %rcx
    movzwl %cx, %ecx
    jrcxz 1f
    mov %rax, %gs:CT_AREA_RAX
    mov %rdx, %gs:CT_AREA_RDX
    mov %gs:CT_AREA_EVENTS, %rcx
    lea -CT_RECORD_SIZE(%rcx), %rcx
    rdtsc
    movl $0, CT_RECORD_SITE(%rcx)
    mov %eax, CT_RECORD_TARGET(%rcx)
    mov %edx, CT_RECORD_TARGET + 4(%rcx)
    mov %gs:CT_AREA_RDX, %rdx
    mov %gs:CT_AREA_RAX, %rax
    mov %rcx, %gs:CT_AREA_EVENTS
    movzwl %cx, %ecx
    jrcxz 1f
    mov %gs:CT_AREA_RCX, %rcx
    jmp *%gs:CT_AREA_TARGET
1:  mov %gs:CT_AREA_RCX, %rcx
    jmp ct_stalk_full
FUNCTION ct_stalk_full
    movq $CT_REASON_FULL, %gs:CT_AREA_REASON
    jmp ct_stalk_enter
FUNCTION ct_stalk_syscall
    movq $CT_REASON_SYSCALL, %gs:CT_AREA_REASON
    jmp ct_stalk_enter
FUNCTION ct_stalk_begin
    movq $CT_REASON_BEGIN, %gs:CT_AREA_REASON
    jmp ct_stalk_enter
FUNCTION ct_stalk_end
    movq $CT_REASON_END, %gs:CT_AREA_REASON

FUNCTION ct_stalk_enter
    mov %rax, %gs:CT_AREA+0
    mov %rcx, %gs:CT_AREA+8
    mov %rdx, %gs:CT_AREA+16
    mov %rbx, %gs:CT_AREA+24
    mov %rsp, %gs:CT_AREA+32
    mov %rbp, %gs:CT_AREA+40
    mov %rsi, %gs:CT_AREA+48
    mov %rdi, %gs:CT_AREA+56
    mov %r8, %gs:CT_AREA+64
    mov %r9, %gs:CT_AREA+72
    mov %r10, %gs:CT_AREA+80
    mov %r11, %gs:CT_AREA+88
    mov %r12, %gs:CT_AREA+96
    mov %r13, %gs:CT_AREA+104
    mov %r14, %gs:CT_AREA+112
    mov %r15, %gs:CT_AREA+120
LABEL ct_stalk_saved
    mov %gs:CT_AREA_ALTERNATE, %ecx
    jrcxz 1f
    /* A handler runs on the alternate stack. While we are on the engine's stack, the kernel would take the alternate
     * stack for unused, and overwrite it with the next signal's frame. So all signals are blocked:
     * rt_sigprocmask(SIG_SETMASK, &all, &area.mask, 8). This is undone when the engine is left. Flags survive. */
    mov $14, %eax
    mov $2, %edi
    lea 3f(%rip), %rsi
    mov %gs:CT_AREA_THREAD, %rdx
    mov (%rdx), %rdx
    lea CT_AREA_MASK-CT_AREA(%rdx), %rdx
    mov $8, %r10d
    syscall
    movq $1, %gs:CT_AREA_PENDING
1:  mov %gs:CT_AREA_STACK, %rsp
LABEL ct_stalk_switch
    pushfq
    popq %gs:CT_AREA_FLAGS
    movl $1, %gs:CT_AREA_IN_ENGINE
    testl $0x40400, %gs:CT_AREA_FLAGS       /* alignment checks and direction: C code expects neither */
    jz 1f
    pushq $2
    popfq
1:  mov %gs:CT_AREA_THREAD, %rdi
    call *%gs:CT_AREA_FN_ENGINE
    mov %rax, %gs:CT_AREA_RESUME
LABEL ct_stalk_going
    pushq %gs:CT_AREA_FLAGS
    popfq
    mov %gs:CT_AREA_RSP, %rsp
LABEL ct_stalk_restore
    movl $0, %gs:CT_AREA_IN_ENGINE
    mov %gs:CT_AREA_PENDING, %rcx
    jrcxz 1f
    /* rt_sigprocmask(SIG_SETMASK, &area.mask, NULL, 8): signals that were put off arrive now. Flags survive. */
    mov $14, %eax
    mov $2, %edi
    mov %gs:CT_AREA_THREAD, %rsi
    mov (%rsi), %rsi
    lea CT_AREA_MASK-CT_AREA(%rsi), %rsi
    mov $0, %edx
    mov $8, %r10d
    syscall
    movq $0, %gs:CT_AREA_PENDING            /* a thread stopped before this does it again */
1:  mov %gs:CT_AREA+0, %rax
    mov %gs:CT_AREA+8, %rcx
    mov %gs:CT_AREA+16, %rdx
    mov %gs:CT_AREA+24, %rbx
    mov %gs:CT_AREA+40, %rbp
    mov %gs:CT_AREA+48, %rsi
    mov %gs:CT_AREA+56, %rdi
    mov %gs:CT_AREA+64, %r8
    mov %gs:CT_AREA+72, %r9
    mov %gs:CT_AREA+80, %r10
    mov %gs:CT_AREA+88, %r11
    mov %gs:CT_AREA+96, %r12
    mov %gs:CT_AREA+104, %r13
    mov %gs:CT_AREA+112, %r14
    mov %gs:CT_AREA+120, %r15
    jmp *%gs:CT_AREA_RESUME
    .balign 8
3:  .quad -1
LABEL ct_stalk_code_end

/* ---- not copied ---- */

    .section ct_stalk_text, "ax", @progbits

/* int ct_stalker_follow_me(stalker, transformer, sink): the engine begins at our return address, with our result in
 * rax. */
    .globl ct_stalker_follow_me
    .type ct_stalker_follow_me, @function
    .balign 16
ct_stalker_follow_me:
    .cfi_startproc
    push %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    mov %rsp, %rbx
    lea 8(%rsp), %rcx
    and $-16, %rsp
    call ct_stalk_do_follow_me
    mov %rbx, %rsp
    pop %rbx
    .cfi_def_cfa_offset 8
    .cfi_restore %rbx
    test %rdx, %rdx
    jnz 1f
    ret
1:  lea 8(%rsp), %rsp                       /* followed: rdx is ct_stalk_begin, near the caller's code */
    .cfi_def_cfa_offset 0
    jmp *%rdx
    .cfi_endproc
    .size ct_stalker_follow_me, . - ct_stalker_follow_me

/* int ct_stalker_unfollow_me(stalker): runs natively, because this section is excluded. It may change its return
 * address. */
    .globl ct_stalker_unfollow_me
    .type ct_stalker_unfollow_me, @function
    .balign 16
ct_stalker_unfollow_me:
    .cfi_startproc
    mov %rsp, %rsi
    sub $8, %rsp
    .cfi_def_cfa_offset 16
    call ct_stalk_do_unfollow_me
    add $8, %rsp
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .size ct_stalker_unfollow_me, . - ct_stalker_unfollow_me

    .text

/* The handler of every signal that the program handles, while threads are followed. rdi, rsi and rdx are the kernel's
 * arguments; the stack is the one that the kernel chose. Blocks all signals, calls C code, then continues where that
 * says, with the same arguments: natively with the old mask, or at ct_stalk_restore, which sets the mask. It is in the
 * section of our own code; while the thread is outside of the section, ct_stalk_underway counts it. */
    .section ct_stalk_text, "ax", @progbits
FUNCTION ct_stalk_signal_entry
    push %rdi
    push %rsi
    push %rdx
    pushfq
    pushq $2                                /* alignment checks may be on */
    popfq
    sub $8, %rsp                            /* the mask */
    mov $14, %eax                           /* rt_sigprocmask(SIG_SETMASK, all, mask, 8) */
    mov $2, %edi
    lea all_signals(%rip), %rsi
    mov %rsp, %rdx
    mov $8, %r10d
    syscall
LABEL ct_stalk_signal_blocked
    lock incl ct_stalk_underway(%rip)
    mov 32(%rsp), %rdi
    mov 24(%rsp), %rsi
    mov 16(%rsp), %rdx
    mov %rsp, %rcx
    call ct_stalk_on_signal
    lock decl ct_stalk_underway(%rip)
    mov %rax, %rbx                          /* the kernel has saved all registers */
    test %rax, %rax
    jz 1f
    test %rdx, %rdx
    jz 1f
    mov $14, %eax
    mov $2, %edi
    mov %rsp, %rsi
    xor %edx, %edx
    mov $8, %r10d
    syscall
1:  mov %rbx, %r11
    test %r11, %r11
    jz 2f
    add $8, %rsp
    popfq
    pop %rdx
    pop %rsi
    pop %rdi
    mov $0, %eax
    jmp *%r11
2:  add $40, %rsp
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
    mov $15, %eax
    syscall

/* The first instruction of a new thread that is to be followed: rcx is where it continues, and its stack is fresh. It
 * is in the section of our own code; while the thread is outside of the section it is counted, so that its creator's
 * Stalker stays. */
    .section ct_stalk_text, "ax", @progbits
FUNCTION ct_stalk_child
    push %rcx
    push %rax
    push %rdx
    push %rsi
    push %rdi
    push %r8
    push %r9
    push %r10
    push %r11
    push %rbp
    mov %rsp, %rbp
    pushfq
    lock incl ct_stalk_underway(%rip)
    and $-16, %rsp
    mov %rcx, %rdi
    call ct_stalk_adopt
    lock decl ct_stalk_underway(%rip)
    push -8(%rbp)
    popfq
    mov %rbp, %rsp
    mov %rax, -16(%rbp)
    pop %rbp
    pop %r11
    pop %r10
    pop %r9
    pop %r8
    pop %rdi
    pop %rsi
    pop %rdx
    pop %rax
    pop %rcx
    jmp *-96(%rsp)

    .section .note.GNU-stack,"",@progbits
