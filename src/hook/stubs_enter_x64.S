/* SPDX-License-Identifier: Apache-2.0 */
/* Part of stubs_x64.S: what a call does, and sampling. */

/* The block needs attention, rax is the thread pointer, rdx S. While an unwinder walks, its own calls, and those of
 * handlers on its stack, are ordinary calls: S is so little below the slot of its outermost function that it is on the
 * same stack. */
.macro IF_WALKING label
    cmp BLOCK(CT_BLOCK_WALKER), %rax
    jne 15f
    mov BLOCK(CT_BLOCK_EXPOSED_SLOT), %rcx
    sub %rdx, %rcx
    lea -1(%rcx), %rcx
    cmp BLOCK(CT_BLOCK_WALK_REACH), %rcx
    jb \label
.endm

/* ---- enter: record the call, move the return address to the shadow stack ---- */

/* Each of these exists twice, without and with detail. N: bytes on the stack below rcx: HELD, and the note's;
 * CALL_SLOW's last argument is the note's address, or zero. */
#define PLAIN    HELD
#define DETAILED HELD+CT_NOTE_SIZE
#define NOTED(n) (n) > HELD
.macro NOTE_ARGUMENT n, register
  .if NOTED(\n)
    lea 56(%rbp), \register
  .else
    mov $0, \register
  .endif
.endm

/* Fills the slot at rax: with or without detail, with or without the fast clock. */
.macro FILL_EVENT kind, n, fast
  .if NOTED(\n)
    FILL_NOTE \kind, \n, \fast
  .elseif \fast
    FILL_FAST \kind, \n
  .else
    FILL \kind, \n
  .endif
.endm

.macro PROLOGUE n
    push %rax
    SAVE_FLAGS
    push %rdx
    push %rcx
    HOLD_BLOCK
  .if NOTED(\n)
    lea -CT_NOTE_SIZE(%rsp), %rsp
    mov %rcx, -CT_DETAIL_RED(%rsp) /* all the stack that is needed: if it ends, it ends here (fault_place_x64.c) */
  .endif
.endm
.macro EPILOGUE n
  .if NOTED(\n)
    lea CT_NOTE_SIZE(%rsp), %rsp
  .endif
    DROP_BLOCK
    pop %rcx
    pop %rdx
    RESTORE_FLAGS
    pop %rax
.endm

/* Stack: note, r11 perhaps, rcx, rdx, flags, rax, stub word, return address = S. Flags are kept, although the ABI does
 * not require it: the cost cannot be measured beside two timestamps, and hand-written callers may pass them. */
.macro ENTER n, fast=0
    PROLOGUE \n
    mov %fs:0, %rax
    lea 40+\n(%rsp), %rdx
    cmp BLOCK(CT_BLOCK_OWNER), %rax
    jne 17f
10: mov BLOCK(CT_BLOCK_TOP), %rcx
    IF_OUTERMOST 15f
    cmp %rdx, INNERMOST(SLOT)(%rcx)
    jbe 13f
    cmp BLOCK(CT_BLOCK_FLOOR), %rdx
    jb 15f
11: cmp BLOCK(CT_BLOCK_LIMIT), %rcx
    jae 15f
    addq $CT_SHADOW_SIZE, BLOCK(CT_BLOCK_TOP)  /* claim: its slot is 0 already */
    lea CT_SHADOW_SIZE(%rcx), %rax
    cmp BLOCK(CT_BLOCK_TOP), %rax
    jne 18f
    movq $0, CT_SHADOW_DATA(%rcx)
    lea CT_SHADOW_ENTERING(%rdx), %rax
    mov %rax, CT_SHADOW_SLOT(%rcx)
    mov (%rdx), %rax
    mov %rax, CT_SHADOW_RETURN(%rcx)
    mov 32+\n(%rsp), %rdx
    mov %rdx, CT_SHADOW_STUB(%rcx)
    RESERVE 14f
    mov %rax, CT_SHADOW_DATA(%rcx)
    FILL_EVENT 1, \n, \fast
    mov BLOCK(CT_BLOCK_TOP), %rcx
    lea 40+\n(%rsp), %rdx
    mov %rdx, INNERMOST(SLOT)(%rcx)         /* the frame is there */
12:
  .if NOTED(\n)
    mov BLOCK(CT_BLOCK_ERRNO), %rdx
    mov CT_NOTE_STAMP(%rsp), %rax
    mov (%rdx), %edx
    cmpl $CT_TAG_STEP, CT_NOTE_TAG(%rsp)
    jb 27f
    or $1, %rax
28: cmp $CT_ENTERED_ERRNO, %edx
    ja 29f
20: mov BLOCK(CT_BLOCK_TOP), %rcx
    shl $64-CT_ENTERED_BITS, %rax
    or %rdx, %rax
    ror $64-CT_ENTERED_BITS, %rax
    mov %rax, INNERMOST(DATA)(%rcx)         /* when it was entered, and errno (CT_ENTERED_BITS) */
    CAPTURE_CALL 40+\n, 1
  .endif
    EPILOGUE \n
    ret $8                                  /* drops the return address: the body's call takes its slot */
  .if NOTED(\n)
    CHECK_BUDGET 1
27: and $-2, %rax                           /* the event has no number, so there is no record */
    jmp 28b
29: mov $CT_ENTERED_ERRNO, %edx
    jmp 20b
    CAPTURE_CALL_REST 40+\n
  .endif
  .if \fast
    FAST_STAMP_READ
  .endif

    /* A handler came, and entries of its frames are left: its stack walk let them return unseen. */
18: subq $CT_SHADOW_SIZE, BLOCK(CT_BLOCK_TOP)
    jmp 15f

    /* Same slot as the innermost frame, and that frame's resume address in it: a tail call. */
13: jne 15f
    mov INNERMOST(STUB)(%rcx), %rax
    add $CT_AFTER_TO_RESUME, %rax
    cmp %rax, (%rdx)
    je 11b
    jmp 15f

14: LOAD_NUMBER 1, \n
    PUSH_REST                               /* buffer full; the entry is claimed */
    mov %edx, %edi
    mov $1, %esi
    lea 40+56+\n(%rbp), %rdx
    NOTE_ARGUMENT \n, %rcx
    CALL_SLOW CT_BLOCK_FN_EVENT
    POP_REST
    jmp 12b

17: IF_WALKING 10b
15: PUSH_REST
    lea 96+\n(%rsp), %rdi
    mov 88+\n(%rsp), %rsi
    NOTE_ARGUMENT \n, %rdx
    CALL_SLOW CT_BLOCK_FN_ENTER
    POP_REST
    test %eax, %eax
    jnz 12b
    /* Not observed: goes to the body, with the return address where it is. */
    mov 32+\n(%rsp), %rcx
    movslq CT_AFTER_TO_BODY_REL(%rcx), %rdx
    lea CT_AFTER_TO_RESUME(%rcx, %rdx), %rcx
    mov %rcx, 32+\n(%rsp)
    EPILOGUE \n
    ret
.endm

/* Entry-only: one event, the return address stays. */
.macro ENTER_ENTRY n, fast=0
    PROLOGUE \n
    mov %fs:0, %rax
    cmp BLOCK(CT_BLOCK_OWNER), %rax
    jne 17f
10: mov BLOCK(CT_BLOCK_TOP), %rcx
    lea 40+\n(%rsp), %rdx
    cmp %rdx, INNERMOST(SLOT)(%rcx)
    jbe 13f
    cmp BLOCK(CT_BLOCK_FLOOR), %rdx
    jb 15f
19: RESERVE 14f
    FILL_EVENT 4, \n, \fast
11:
  .if NOTED(\n)
    CAPTURE_CALL 40+\n, 0
  .endif
12: EPILOGUE \n
    ret
  .if NOTED(\n)
    CHECK_BUDGET 4
    CAPTURE_CALL_REST 40+\n
  .endif
  .if \fast
    FAST_STAMP_READ
  .endif
13: jne 15f                                 /* as in ENTER */
    mov INNERMOST(STUB)(%rcx), %rax
    add $CT_AFTER_TO_RESUME, %rax
    cmp %rax, (%rdx)
    je 19b
    jmp 15f
14: LOAD_NUMBER 4, \n
    PUSH_REST
    mov %edx, %edi
    mov $4, %esi
    NOTE_ARGUMENT \n, %rcx
    CALL_SLOW CT_BLOCK_FN_EVENT
    jmp 16f
17: lea 40+\n(%rsp), %rdx
    IF_WALKING 10b
15: PUSH_REST
    lea 56+40+\n(%rsp), %rdi
    mov 56+32+\n(%rsp), %rsi
    NOTE_ARGUMENT \n, %rdx
    CALL_SLOW CT_BLOCK_FN_ENTRY
16: POP_REST
  .if NOTED(\n)
    cmpq $0, CT_NOTE_STAMP(%rsp)
    jne 11b
  .endif
    jmp 12b
.endm

FUNCTION NAME(enter_record)
    ENTER PLAIN
FUNCTION NAME(enter_detail)
    ENTER DETAILED
FUNCTION NAME(enter_entry)
    ENTER_ENTRY PLAIN
FUNCTION NAME(enter_entry_detail)
    ENTER_ENTRY DETAILED
FUNCTION NAME(enter_record_fast)
    ENTER PLAIN, 1
FUNCTION NAME(enter_detail_fast)
    ENTER DETAILED, 1
FUNCTION NAME(enter_entry_fast)
    ENTER_ENTRY PLAIN, 1
FUNCTION NAME(enter_entry_detail_fast)
    ENTER_ENTRY DETAILED, 1

/* ---- sampling: every Nth call of a function is recorded, with all that it calls ---- */

/* Counts the call. Goes on to `next` when a recorded call is open on this stack, or when it is the function's turn;
 * otherwise to the body, with the return address where it is. Stack as in ENTER. A counter (struct ct_shm_count) has
 * the calls, and how many there were when the last one was chosen. Frames that were left unseen count as open: the next
 * call is recorded, and finds out. */
.macro SAMPLE next, entry_only
    PROLOGUE PLAIN
    mov %fs:0, %rax
    cmp BLOCK(CT_BLOCK_OWNER), %rax
    jne 15f
    mov BLOCK(CT_BLOCK_COUNTS), %rcx
    test %rcx, %rcx
    jz 14f
    mov 32+PLAIN(%rsp), %rdx
    mov CT_AFTER_TO_NUMBER(%rdx), %edx
    shl $CT_COUNT_SHIFT, %rdx
    add %rdx, %rcx
    mov $1, %eax
    cmpq $0, BLOCK(CT_BLOCK_COUNTS_ALONE)
    je 12f
    xadd %rax, (%rcx)                       /* one instruction: a handler comes before or after it */
11: mov BLOCK(CT_BLOCK_TOP), %rdx
    mov INNERMOST(SLOT)(%rdx), %rdx
    sub $8, %rdx                            /* neither the sentinel nor a hole */
    jns 14f
    inc %rax
    sub 8(%rcx), %rax
    cmp BLOCK(CT_BLOCK_SAMPLE), %rax
    jb 13f
    add %rax, 8(%rcx)
14: EPILOGUE PLAIN
    jmp \next
12: lock xadd %rax, (%rcx)
    jmp 11b
15: PUSH_REST
    mov 88+PLAIN(%rsp), %rdi
    CALL_SLOW CT_BLOCK_FN_SAMPLE
    POP_REST
    test %eax, %eax
    jnz 14b
13:
  .if !\entry_only
    mov 32+PLAIN(%rsp), %rcx
    movslq CT_AFTER_TO_BODY_REL(%rcx), %rdx
    lea CT_AFTER_TO_RESUME(%rcx, %rdx), %rcx
    mov %rcx, 32+PLAIN(%rsp)
  .endif
    EPILOGUE PLAIN
    ret
.endm

FUNCTION NAME(sample_record)
    SAMPLE NAME(enter_record), 0
FUNCTION NAME(sample_detail)
    SAMPLE NAME(enter_detail), 0
FUNCTION NAME(sample_entry)
    SAMPLE NAME(enter_entry), 1
FUNCTION NAME(sample_entry_detail)
    SAMPLE NAME(enter_entry_detail), 1
