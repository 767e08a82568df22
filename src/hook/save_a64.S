/* SPDX-License-Identifier: Apache-2.0 */
/* How listeners and callbacks keep a thread's registers, arm64 (struct ct_cpu_a64 of contrail/cpu.h): x0 to x30, sp,
 * pc, pstate, the address of the vector registers. Included by others. */

#define CONTEXT_X17     136
#define CONTEXT_LR      240
#define CONTEXT_SP      248
#define CONTEXT_PSTATE  264
#define CONTEXT_VECTORS 272

/* struct ct_vectors_a64 */
#define VECTORS_SIZE 528

/* At sp, which is lowered. The code that follows computes as C expects it. Uses x16 and x17. */
.macro SAVE_VECTORS
    sub sp, sp, #VECTORS_SIZE
    stp q0, q1, [sp]
    stp q2, q3, [sp, #32]
    stp q4, q5, [sp, #64]
    stp q6, q7, [sp, #96]
    stp q8, q9, [sp, #128]
    stp q10, q11, [sp, #160]
    stp q12, q13, [sp, #192]
    stp q14, q15, [sp, #224]
    stp q16, q17, [sp, #256]
    stp q18, q19, [sp, #288]
    stp q20, q21, [sp, #320]
    stp q22, q23, [sp, #352]
    stp q24, q25, [sp, #384]
    stp q26, q27, [sp, #416]
    stp q28, q29, [sp, #448]
    stp q30, q31, [sp, #480]
    mrs x16, fpsr
    mrs x17, fpcr
    str x16, [sp, #512]
    str x17, [sp, #520]
    msr fpcr, xzr
.endm
.macro RESTORE_VECTORS
    ldr x16, [sp, #512]
    ldr x17, [sp, #520]
    msr fpsr, x16
    msr fpcr, x17
    ldp q0, q1, [sp]
    ldp q2, q3, [sp, #32]
    ldp q4, q5, [sp, #64]
    ldp q6, q7, [sp, #96]
    ldp q8, q9, [sp, #128]
    ldp q10, q11, [sp, #160]
    ldp q12, q13, [sp, #192]
    ldp q14, q15, [sp, #224]
    ldp q16, q17, [sp, #256]
    ldp q18, q19, [sp, #288]
    ldp q20, q21, [sp, #320]
    ldp q22, q23, [sp, #352]
    ldp q24, q25, [sp, #384]
    ldp q26, q27, [sp, #416]
    ldp q28, q29, [sp, #448]
    ldp q30, q31, [sp, #480]
    add sp, sp, #VECTORS_SIZE
.endm

/* x0 to x15 and x18 to x29, at sp and back; the others are the caller's business. */
.macro SAVE_GENERAL
    stp x0, x1, [sp]
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x18, x19, [sp, #144]
    stp x20, x21, [sp, #160]
    stp x22, x23, [sp, #176]
    stp x24, x25, [sp, #192]
    stp x26, x27, [sp, #208]
    stp x28, x29, [sp, #224]
.endm
.macro RESTORE_GENERAL
    ldp x0, x1, [sp]
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x18, x19, [sp, #144]
    ldp x20, x21, [sp, #160]
    ldp x22, x23, [sp, #176]
    ldp x24, x25, [sp, #192]
    ldp x26, x27, [sp, #208]
    ldp x28, x29, [sp, #224]
.endm
