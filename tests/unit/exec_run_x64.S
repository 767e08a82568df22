/* SPDX-License-Identifier: Apache-2.0 */
/* The way into tested code and out of it. Everything is reached RIP-relative, so that all 16 registers, rsp included,
 * belong to the tested code. Offsets are those of struct exec_state (checked in exec_run.c). */
#define FLAGS 128
#define EXIT  136
#define XSAVE 192

        .intel_syntax noprefix
        .text

/* void exec_enter(const struct exec_state *in, uint64_t entry) */
        .globl  exec_enter
        .hidden exec_enter
        .type   exec_enter, @function
exec_enter:
        push    rbx
        push    rbp
        push    r12
        push    r13
        push    r14
        push    r15
        mov     [rip + host_rsp], rsp
        mov     [rip + entry], rsi
        mov     rbx, rdi
        mov     eax, [rip + exec_xsave_mask]
        xor     edx, edx
        xrstor64 [rbx + XSAVE]
        mov     rax, [rbx + 32]
        mov     [rip + entry_rsp], rax
        push    qword ptr [rbx + FLAGS]
        mov     rax, [rbx]
        mov     rcx, [rbx + 8]
        mov     rdx, [rbx + 16]
        mov     rbp, [rbx + 40]
        mov     rsi, [rbx + 48]
        mov     rdi, [rbx + 56]
        mov     r8, [rbx + 64]
        mov     r9, [rbx + 72]
        mov     r10, [rbx + 80]
        mov     r11, [rbx + 88]
        mov     r12, [rbx + 96]
        mov     r13, [rbx + 104]
        mov     r14, [rbx + 112]
        mov     r15, [rbx + 120]
        mov     rbx, [rbx + 24]
        popfq                           /* late: it may start single-stepping */
        mov     rsp, [rip + entry_rsp]
        jmp     qword ptr [rip + entry]

        .macro  exit_stub number
        .balign 32
        mov     qword ptr [rip + exec_result + EXIT], \number
        jmp     leave
        .endm
        .balign 32
        .globl  exec_exits
        .hidden exec_exits
exec_exits:
        exit_stub 0
        exit_stub 1
        exit_stub 2
        exit_stub 3
        exit_stub 4
        exit_stub 5
        exit_stub 6
        exit_stub 7

        .balign 16
leave:
        mov     [rip + exec_result], rax
        mov     [rip + exec_result + 8], rcx
        mov     [rip + exec_result + 16], rdx
        mov     [rip + exec_result + 24], rbx
        mov     [rip + exec_result + 32], rsp
        mov     [rip + exec_result + 40], rbp
        mov     [rip + exec_result + 48], rsi
        mov     [rip + exec_result + 56], rdi
        mov     [rip + exec_result + 64], r8
        mov     [rip + exec_result + 72], r9
        mov     [rip + exec_result + 80], r10
        mov     [rip + exec_result + 88], r11
        mov     [rip + exec_result + 96], r12
        mov     [rip + exec_result + 104], r13
        mov     [rip + exec_result + 112], r14
        mov     [rip + exec_result + 120], r15
        mov     rsp, [rip + host_rsp]
        pushfq
        pop     qword ptr [rip + exec_result + FLAGS]
        jmp     leave_vectors

/* A fault comes here, with the registers already taken by the signal handler. */
        .globl  exec_leave_fault
        .hidden exec_leave_fault
exec_leave_fault:
        mov     rsp, [rip + host_rsp]
leave_vectors:
        push    0x202
        popfq
        mov     eax, [rip + exec_xsave_mask]
        xor     edx, edx
        lea     rdi, [rip + exec_result]
        xsave64 [rdi + XSAVE]
        fninit
        ldmxcsr [rip + default_mxcsr]
        pop     r15
        pop     r14
        pop     r13
        pop     r12
        pop     rbp
        pop     rbx
        ret
        .size   exec_enter, . - exec_enter

        .section .rodata
        .balign 4
default_mxcsr:
        .long   0x1f80

        .bss
        .balign 64
        .globl  exec_result
        .hidden exec_result
exec_result:
        .zero   192 + 4096
        .balign 8
host_rsp:
        .zero   8
entry:
        .zero   8
entry_rsp:
        .zero   8

        .section .note.GNU-stack, "", @progbits
