/* SPDX-License-Identifier: Apache-2.0 */
/* Functions whose first bytes are hard to move: see entry_shapes.c. All take rdi, some rsi, and return in rax. */
    .text
    .macro function name
    .balign 16, 0xcc
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    .endm
    .macro end name
    .size \name, . - \name
    .endm

/* A short loop back to the first byte. */
function loop_short
    add $3, %rsi
    dec %rdi
    jnz loop_short
    mov %rsi, %rax
    ret
end loop_short

/* The same with a 2-byte first instruction, and the loop instruction. */
function loop_insn
    inc %esi
    mov %rdi, %rcx
    dec %rdi
    loop loop_insn
    mov %rsi, %rax
    ret
end loop_insn

/* A near (rel32) branch back to the first byte. */
function loop_near
    add $3, %rsi
    dec %rdi
    .byte 0x0f, 0x85                /* jnz rel32 */
    .long loop_near - . - 4
    mov %rsi, %rax
    ret
end loop_near

/* jrcxz at the very beginning, target inside the function */
function begins_with_jrcxz
    jrcxz 1f
    mov %rdi, %rax
    ret
1:  lea 100(%rdi), %rax
    ret
end begins_with_jrcxz

/* Begins with a short conditional jump. */
function begins_with_jcc
    jc 1f
    lea 1(%rdi), %rax
    ret
1:  lea 2(%rdi), %rax
    ret
end begins_with_jcc

/* Begins with a near conditional jump. */
function begins_with_near_jcc
    .byte 0x0f, 0x82                /* jc rel32 */
    .long 1f - . - 4
    lea 1(%rdi), %rax
    ret
1:  lea 2(%rdi), %rax
    ret
end begins_with_near_jcc

/* Begins with a call. */
function begins_with_call
    call helper
    add $7, %rax
    ret
end begins_with_call

/* Begins with a call whose callee looks at its return address. */
function begins_with_pc_thunk
    call pc_thunk
1:  lea 1b(%rip), %rcx
    sub %rcx, %rax                  /* 0 when the thunk saw the original return address */
    add %rdi, %rax
    ret
end begins_with_pc_thunk

function pc_thunk
    mov (%rsp), %rax
    ret
end pc_thunk

/* call next; pop: how old code asks for its own address */
function begins_with_call_pop
    call 1f
1:  pop %rax
    lea 1b(%rip), %rcx
    sub %rcx, %rax
    add %rdi, %rax
    ret
end begins_with_call_pop

/* Begins with a call through memory. */
function begins_with_memory_call
    call *helper_pointer(%rip)
    add $8, %rax
    ret
end begins_with_memory_call

/* Begins with a RIP-relative load, store, compare, vector load, lea, and an update. */
function begins_with_rip_load
    mov number(%rip), %rax
    add %rdi, %rax
    ret
end begins_with_rip_load

function begins_with_rip_store
    mov %rdi, stored(%rip)
    mov stored(%rip), %rax
    ret
end begins_with_rip_store

function begins_with_rip_compare
    cmpl $1000, number(%rip)
    sete %al
    movzbl %al, %eax
    add %rdi, %rax
    ret
end begins_with_rip_compare

function begins_with_rip_vector
    movdqu vector(%rip), %xmm0
    movq %xmm0, %rax
    add %rdi, %rax
    ret
end begins_with_rip_vector

function begins_with_rip_lea
    lea number(%rip), %rax
    mov (%rax), %rax
    add %rdi, %rax
    ret
end begins_with_rip_lea

/* rax, rdx implied: a scratch register here would be wrong */
function begins_with_rip_divide
    idivl divisor(%rip)
    cltq
    ret
end begins_with_rip_divide

/* int divide(int x): sets up edx:eax and calls it */
function calls_divide
    sub $8, %rsp
    mov %edi, %eax
    cltd
    call begins_with_rip_divide
    add $8, %rsp
    ret
end calls_divide

/* A jump table, as for a switch: the first instructions are the dispatch. */
function jump_table
    lea table(%rip), %rcx
    movslq (%rcx,%rdi,4), %rax
    add %rcx, %rax
    jmp *%rax
10: mov $100, %eax
    ret
11: mov $101, %eax
    ret
12: mov $102, %eax
    ret
end jump_table

/* An absolute table: jmp *table(,%rdi,8) needs no PIE; through a register instead. */
function bare_jump
    jmp helper
end bare_jump

function bare_short_jump
    .byte 0xeb                      /* jmp rel8 over the padding */
    .byte 1f - . - 1
    .skip 14, 0xcc
1:  lea 5(%rdi), %rax
    ret
end bare_short_jump

function bare_memory_jump
    jmp *helper_pointer(%rip)
end bare_memory_jump

function only_ret
    ret
end only_ret

function only_rep_ret
    rep ret
end only_rep_ret

/* Its second instruction, inside the first 5 bytes, is the target of a jump from elsewhere. */
function entered_inside
    inc %rdi                        /* 3 bytes */
    .globl inner_door
    .hidden inner_door
inner_door:
    lea 10(%rdi), %rax
    ret
end entered_inside

function jumps_inside
    add $100, %rdi
    jmp inner_door
end jumps_inside

/* The same, jumped to from its own body. */
function own_inner_loop
    xor %eax, %eax                  /* 2 bytes */
1:  add %rdi, %rax                  /* target inside the first 5 bytes */
    dec %rdi
    jnz 1b
    ret
end own_inner_loop

/* Two entries: a second symbol a few bytes after the first. */
function two_doors
    push %rdi
    pop %rax
    .globl second_door
    .hidden second_door
    .type second_door, @function
second_door:
    lea 1(%rdi), %rax
    add $1, %rax
    ret
    .size second_door, . - second_door
end two_doors

/* A system call, early, which destroys rcx and r11. */
function begins_with_syscall
    mov $39, %eax                   /* getpid */
    syscall
    ret
end begins_with_syscall

function begins_with_push_rbp
    push %rbp
    mov %rsp, %rbp
    lea 1(%rdi), %rax
    pop %rbp
    ret
end begins_with_push_rbp

function begins_with_sub_rsp
    sub $0x1234, %rsp
    mov %rdi, (%rsp)
    mov (%rsp), %rax
    add $0x1234, %rsp
    ret
end begins_with_sub_rsp

/* endbr64 and then a loop to the place after it */
function guarded_loop
    endbr64
1:  add $2, %rsi
    dec %rdi
    jnz 1b
    mov %rsi, %rax
    ret
end guarded_loop

function helper
    lea 1(%rdi), %rax
    nop
    ret
end helper

    .section .rodata
    .balign 4
table:
    .long 10b - table, 11b - table, 12b - table
    .data
    .balign 16
vector: .quad 3000, 1
number: .quad 1000
stored: .quad 0
divisor: .long 7
    .balign 8
helper_pointer: .quad helper
    .section .note.GNU-stack, "", @progbits
