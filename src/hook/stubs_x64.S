/* SPDX-License-Identifier: Apache-2.0 */
/* The code that all stubs share, x86_64. It is position-independent and is copied next to each region of stubs.
 *
 * A stub calls an `enter`, then its body, and jumps to a `leave`:
 *
 *     entry of the function:  jmp stub
 *     stub:   call enter      return address (the "stub word") shows enter which hook this is
 *             nop
 *             call body       leaves `resume` in the slot where the caller's return address was
 *     resume: jmp leave       pushes the caller's return address again and returns: calls and returns stay balanced
 *
 * Signal-safe at every instruction. Scratch registers are saved on the stack. While a stub works on a shadow entry, the
 * entry's slot shows this and how far the stub is: a handler that interrupts us pushes above it, and a handler that
 * jumps away leaves a state that shows what was recorded. An event slot is reserved by one xadd and valid once its
 * timestamp, stored last, is not zero. In comments, S is the address of the slot that holds the return address.
 *
 * The code exists twice. In a process that hooks itself GS points to the thread's block. In a recorded process GS is
 * the program's (stubs_table_x64.S): the block is found in a table by the thread pointer, and r11 points to it while a
 * stub works.
 *
 * The parts, in the order of the code: macros (common, detail), then enter with sampling, leave, listeners, helpers. */
#include "hook/stubs_common_x64.S"
#include "hook/stubs_detail_x64.S"

    .text
    .balign 64
    .globl NAME(code)
    .hidden NAME(code)
NAME(code):

#include "hook/stubs_enter_x64.S"
#include "hook/stubs_leave_x64.S"
#include "hook/stubs_listen_x64.S"

#ifdef CT_BLOCKS_IN_TABLE
    .balign 8
.Lmix:
    .quad CT_TABLE_MIX
/* CT_TABLE_LITERALS: filled when the code is put into a process: the address of the table, and the block of threads
 * that have none. */
.Ltable:
    .quad 0
.Lstray:
    .quad 0
#endif

    .globl NAME(code_end)
    .hidden NAME(code_end)
NAME(code_end):

#ifndef CT_BLOCKS_IN_TABLE
#include "hook/stubs_helpers_x64.S"
#endif

    .section .note.GNU-stack,"",@progbits
