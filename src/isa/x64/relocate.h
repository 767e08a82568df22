/* SPDX-License-Identifier: Apache-2.0 */
/* Moves x86_64 instructions to another address without changing what they do.
 *
 * Bytes to bytes: the originals are given as bytes plus the address they run at; the result goes into a ct_code_buf
 * that will run at its own address, near (±2 GiB) or far. Registers, flags, memory and the red zone are kept, and so is
 * the moment of every effect, as far as signal handlers can see: everything that a sequence saves lies above rsp-128 or
 * is dead, so a signal may arrive between any two of its instructions.
 *
 * CT_ERR_UNSUPPORTED, nothing emitted:
 *  - direct branches, indirect calls and xbegin with an operand size prefix (66) and no REX.W: their meaning depends on
 *    the vendor of the CPU;
 *  - far calls (they push the copy's address), and far jumps through a RIP-relative operand out of reach;
 *  - a RIP-relative operand out of reach in an instruction of XOP encoding that names rsp;
 *  - in ranges: a call that is not the last instruction (its callee returns into bytes that a patch overwrites), and a
 *    branch into the middle of a moved instruction.
 *
 * What a program can still see if it looks for it:
 *  - the address of the instruction itself: in signal handlers, in the x87 instruction pointer that fnstenv and fxsave
 *    store, in profiles;
 *  - a RIP-relative operand beyond ±2 GiB is reached through a register that is saved below the red zone: rsp must be a
 *    stack with 144 writable bytes below it, and the handler of a fault of that one instruction sees rsp and the
 *    register changed (returning to the copy works);
 *  - an indirect call through memory or rsp scribbles over 24 bytes below rsp, which its callee may do anyway;
 *  - a hardware shadow stack would notice that moved calls are pushes and jumps;
 *  - a critical section of rseq(2) is known to the kernel by its original address. */
#ifndef CT_ISA_X64_RELOCATE_H
#define CT_ISA_X64_RELOCATE_H

#include "isa/x64/decode.h"

/* Longest possible result for one instruction. */
#define CT_X64_RELOCATED_MAX 96

/* Moves one instruction. A call pushes its original return address (one 8-byte store), so unwinders and the callee
 * see what they would see untouched. Direct branches go to their original target. After syscall, rcx holds the original
 * address, and the 2 bytes before the end are a syscall too: the kernel restarts a system call by going back 2 bytes,
 * also when the thread was moved to the copy meanwhile.
 * CT_ERR_UNSUPPORTED for what cannot be moved, CT_ERR_NO_SPACE; out->length is then what it was. */
int ct_x64_relocate(struct ct_code_buf *out, const uint8_t *bytes, const struct ct_x64_insn *insn, uint64_t from);

#define CT_X64_RANGE_MAX 64 /* instructions */

struct ct_x64_moved {
    uint16_t count;
    struct {
        uint16_t from; /* offset of the instruction in the original range */
        uint16_t to;   /* offset in the copy, counted from the first byte that the move emitted */
    } at[CT_X64_RANGE_MAX];
};

/* Moves whole instructions until at least `minimum` bytes of `bytes` are covered; `covered` receives how many. Branches
 * inside the range to a start of an instruction inside it stay inside the copy; a call of the range's first instruction
 * goes to the original, where a hook wants to see it. After the last instruction control must continue at from +
 * *covered: a jump there is appended unless the last instruction never falls through. `moved` may be NULL. Also
 * CT_ERR_NO_SPACE for more than CT_X64_RANGE_MAX instructions, and the decoder's errors. */
int ct_x64_relocate_range(struct ct_code_buf *out, const uint8_t *bytes, size_t size, size_t minimum, uint64_t from,
                          size_t *covered, struct ct_x64_moved *moved);

/* False when control never reaches the address after the moved instruction (a moved call's callee returns to the
 * original). int3, hlt and int n may continue. */
static inline bool ct_x64_copy_continues(const struct ct_x64_insn *insn) {
    switch (insn->kind) {
    case CT_INSN_JMP:
    case CT_INSN_JMP_INDIRECT:
    case CT_INSN_CALL:
    case CT_INSN_CALL_INDIRECT:
    case CT_INSN_RET:
    case CT_INSN_FAR:
    case CT_INSN_TRAP:
        return false;
    default:
        return true;
    }
}

/* Offset in the copy of the instruction at `from`, or -1 when none starts there: moves a stopped thread. */
static inline int ct_x64_moved_to(const struct ct_x64_moved *moved, size_t from) {
    for (unsigned i = 0; i < moved->count; i++)
        if (moved->at[i].from == from)
            return moved->at[i].to;
    return -1;
}

#endif
