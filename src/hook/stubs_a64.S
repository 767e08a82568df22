/* SPDX-License-Identifier: Apache-2.0 */
/* The code that all stubs share, arm64. It is position-independent and is copied next to each region of stubs.
 *
 *     entry of the function:  b stub        (after bti or paciasp)
 *     before the stub: aut (or nop); mov x16, x30
 *     stub:   bl enter        x30 (the id) shows enter which hook this is, x16 is where the caller goes on
 *             bl body         x30 is `resume` for the body
 *     resume: adr x16, id
 *             b leave         returns to the caller: calls and returns stay balanced
 *
 * Only x16 and x17 change, and x30 as a call changes it: callers that know a local function may keep values in all
 * other registers. Flags stay as they are: comparisons are subtractions and tests of bits. The rest is saved below the
 * stack pointer, where nothing of the program is (there is no red zone). S is the stack pointer of the caller; the
 * frame's slot is S - 8.
 *
 * Signal-safe at every instruction, as on x86_64: while a stub works on a shadow entry, the entry's slot shows this and
 * how far the stub is. `top` is read and written by plain instructions, because handlers restore it; where they do not,
 * the claimed entry shows it. An event slot is reserved by exclusives: they fail if a handler came between. What
 * another thread or process reads is published by stlr. Only one thread writes to a block, its cursor and its events.
 *
 * The code exists twice. The first form finds the block in the word after the one that the thread pointer points to.
 * Where the program uses that word itself, the second one (stubs_table_a64.S) finds it in a table by the thread
 * pointer. x0 points to the block while a stub works.
 *
 * The parts, in the order of the code: macros (common, detail), then enter with sampling, leave, listeners, helpers. */
#include "hook/layout.h"
#include "hook/save_a64.S"
#include "hook/stub_a64.h"

#ifdef CT_BLOCKS_IN_TABLE
#define NAME(name) ct_table_##name
#else
#define NAME(name) ct_hook_##name
#endif

#include "hook/stubs_common_a64.S"
#include "hook/stubs_detail_a64.S"

    .text
    .balign 64
    .globl NAME(code)
    .hidden NAME(code)
NAME(code):

#include "hook/stubs_enter_a64.S"
#include "hook/stubs_leave_a64.S"
#include "hook/stubs_listen_a64.S"

    .balign 8
#ifdef CT_BLOCKS_IN_TABLE
.Lmix:
    .quad CT_TABLE_MIX
#endif
/* CT_HOOK_LITERALS: filled when the code is put into a process: the address of the table, and the block of threads that
 * have none. */
.Ltable:
    .quad 0
.Lstray:
    .quad 0

    .globl NAME(code_end)
    .hidden NAME(code_end)
NAME(code_end):

#ifndef CT_BLOCKS_IN_TABLE
#include "hook/stubs_helpers_a64.S"
#endif

    .section .note.GNU-stack,"",@progbits
