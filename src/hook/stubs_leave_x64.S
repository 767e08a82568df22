/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_x64.S: what a return does, and calls that always go through C. */

/* ---- leave: record the return, bring the return address back ---- */

/* Entered with rsp = S + 8. Stack: note, r11 perhaps, rcx, rdx, flags, rax, return address = S. Flags are kept:
 * hand-written callers may look at them, and the caller is not known. */
.macro LEAVE n, fast=0
    lea -8(%rsp), %rsp
    PROLOGUE \n
    lea 32+\n(%rsp), %rdx
    mov %fs:0, %rax                         /* a coroutine may return on a thread that has no block of its own yet */
    cmp BLOCK(CT_BLOCK_OWNER), %rax
    jne 17f
10: mov BLOCK(CT_BLOCK_TOP), %rcx
    cmp %rdx, INNERMOST(SLOT)(%rcx)
    jne 15f
    mov (%rdx), %rax                        /* our resume address, which the body's return has just read */
    sub $CT_AFTER_TO_RESUME, %rax
    cmp %rax, INNERMOST(STUB)(%rcx)
    jne 15f
  .if NOTED(\n)
    mov INNERMOST(DATA)(%rcx), %rax
    mov %rax, CT_NOTE_ENTERED(%rsp)
  .endif
    movq $0, INNERMOST(DATA)(%rcx)
    /* can be undone, in case a handler came and the entry is another frame's */
    addq $CT_SHADOW_RETURNING, INNERMOST(SLOT)(%rcx)
    cmp BLOCK(CT_BLOCK_TOP), %rcx
    jne 18f
    mov INNERMOST(RETURN)(%rcx), %rax       /* in flight first: otherwise a handler's walk would hook the slot again */
    mov %rax, (%rdx)
    RESERVE 14f
    mov %rax, INNERMOST(DATA)(%rcx)
    FILL_EVENT 2, \n, \fast
    mov BLOCK(CT_BLOCK_TOP), %rcx
    lea -CT_SHADOW_SIZE(%rcx), %rcx
    movq $0, CT_SHADOW_SLOT(%rcx)
    mov %rcx, BLOCK(CT_BLOCK_TOP)              /* release */
    cmp BLOCK(CT_BLOCK_BARE), %rcx
    jbe 19f
11:
  .if NOTED(\n)
    CAPTURE_RETURN 32+\n
  .endif
12: EPILOGUE \n
    ret
  .if NOTED(\n)
    CHECK_BUDGET 2
    CAPTURE_RETURN_REST 32+\n
  .endif
  .if \fast
    FAST_STAMP_READ
  .endif
14: LOAD_NUMBER 2, \n
    PUSH_REST                               /* buffer full; the slow path releases the entry */
    mov %edx, %edi
    mov $2, %esi
    NOTE_ARGUMENT \n, %rcx
    CALL_SLOW CT_BLOCK_FN_EVENT
    POP_REST
    jmp 11b
19: PUSH_REST                               /* the next frame would return unseen */
    CALL_SLOW CT_BLOCK_FN_COVER
    POP_REST
    jmp 11b
18:                                         /* as in ENTER */
  .if NOTED(\n)
    mov CT_NOTE_ENTERED(%rsp), %rax
    mov %rax, INNERMOST(DATA)(%rcx)
  .endif
    subq $CT_SHADOW_RETURNING, INNERMOST(SLOT)(%rcx)
    jmp 15f
17: IF_WALKING 10b
15: PUSH_REST
    mov %rdx, %rdi
    NOTE_ARGUMENT \n, %rsi
    CALL_SLOW CT_BLOCK_FN_LEAVE
    POP_REST
    mov %rax, 32+\n(%rsp)
  .if NOTED(\n)
    cmpq $0, CT_NOTE_STAMP(%rsp)
    jne 11b
  .endif
    jmp 12b
.endm

FUNCTION NAME(leave_record)
    LEAVE PLAIN
FUNCTION NAME(leave_detail)
    LEAVE DETAILED
FUNCTION NAME(leave_record_fast)
    LEAVE PLAIN, 1
FUNCTION NAME(leave_detail_fast)
    LEAVE DETAILED, 1

/* ---- functions that the engine must know about: always through C ---- */

/* Stack and ways on as in ENTER. r11..rsi at 8(%rbp): struct ct_special_frame. */
.macro ENTER_SPECIAL n
    PROLOGUE \n
    PUSH_REST
    lea 56+40+\n(%rbp), %rdi                /* S */
    mov 56+32+\n(%rbp), %rsi
    lea 8(%rbp), %rdx
    NOTE_ARGUMENT \n, %rcx
    CALL_SLOW CT_BLOCK_FN_SPECIAL
    POP_REST
  .if NOTED(\n)
    mov %rax, CT_NOTE_ENTERED(%rsp)         /* a call does not need it */
    cmpq $0, CT_NOTE_STAMP(%rsp)
    je 31f
    CAPTURE_CALL 40+\n, 0
31: mov CT_NOTE_ENTERED(%rsp), %rax
  .endif
    test %eax, %eax
    jz 32f
    EPILOGUE \n
    ret $8
32: mov 32+\n(%rsp), %rcx                   /* to the body, with the return address where it is */
    movslq CT_AFTER_TO_BODY_REL(%rcx), %rdx
    lea CT_AFTER_TO_RESUME(%rcx, %rdx), %rcx
    mov %rcx, 32+\n(%rsp)
    EPILOGUE \n
    ret
  .if NOTED(\n)
    CAPTURE_CALL_REST 40+\n
  .endif
.endm

FUNCTION NAME(enter_special)
    ENTER_SPECIAL PLAIN
FUNCTION NAME(enter_special_detail)
    ENTER_SPECIAL DETAILED
