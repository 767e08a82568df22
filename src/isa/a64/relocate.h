/* SPDX-License-Identifier: Apache-2.0 */
/* Moves A64 instructions to another address without changing what they do.
 *
 * A word and the address that it runs at go in; the result goes into a ct_code_buf that will run at its own address,
 * near (±128 MiB) or far. Registers, flags and memory are kept, and so is the moment of every effect as far as signal
 * handlers can see: what a sequence saves lies above sp, so a signal may arrive between any two of its instructions.
 * Hints (bti, pac, aut), exclusives and all else that does not depend on its address are copied.
 *
 * A register that may be changed (`scratch`: x16 or x17 at the entry of a function, where linkers may use them) is
 * needed for branches out of reach. CT_ERR_UNSUPPORTED, nothing emitted:
 *  - a branch that stays out of reach (b, b.cond, cbz, tbz to more than 128 MiB away) without a scratch register,
 *    because A64 has no jump that needs none; calls never need one, because they may change x16 and x17;
 *  - blraa, blrab with x30 as target and modifier, or with x30 and x17;
 *  - in ranges: a call that is not the last instruction (its callee returns into words that a patch overwrites).
 *
 * What a program can still see if it looks for it:
 *  - the address of the instruction itself, in signal handlers and profiles;
 *  - a literal out of reach (±1 MiB) is loaded through the destination register, so the handler of a fault of this load
 *    sees the address there. Literals of vector registers, prefetches and those for xzr use `scratch`, or without one
 *    x16, which is saved on the stack meanwhile: sp must have 16 writable bytes below it, and the handler of a fault of
 *    this load sees sp and x16 changed (returning to the copy works);
 *  - a call out of reach, and `blr x30`, change x17, as a linker's veneer may;
 *  - moved calls are jumps that set x30: the processor mispredicts their return, and a guarded control stack (GCS)
 *    would notice; it would also notice far jumps, which are `ret scratch`;
 *  - the kernel knows a critical section of rseq(2) by its original address;
 *  - an exclusive sequence that is moved in parts takes more instructions than before, and may retry more often. */
#ifndef CT_ISA_A64_RELOCATE_H
#define CT_ISA_A64_RELOCATE_H

#include "isa/a64/decode.h"

/* Longest possible result for one instruction, in bytes. */
#define CT_A64_RELOCATED_MAX 36
#define CT_A64_NO_SCRATCH    31

/* Moves one instruction. A call leaves its original return address in x30, so unwinders and the callee see what they
 * would see untouched. Direct branches go to their original target. CT_ERR_UNSUPPORTED, CT_ERR_NO_SPACE; out->length is
 * then what it was. */
int ct_a64_relocate(struct ct_code_buf *out, const struct ct_a64_insn *insn, uint64_t from, unsigned scratch);

#define CT_A64_RANGE_MAX 16 /* instructions */

struct ct_a64_moved {
    uint16_t count;
    uint16_t
        to[CT_A64_RANGE_MAX]; /* offset of each instruction in the copy, from the first byte that the move emitted */
};

/* Moves `count` instructions. Branches inside the range to an instruction inside it stay inside the copy; a call of the
 * range's first instruction goes to the original, where a hook wants to see it. After the last instruction control must
 * continue after the originals: a jump there is appended unless the last instruction never falls through. `moved` may be
 * NULL. Also CT_ERR_NO_SPACE for more than CT_A64_RANGE_MAX instructions, and the decoder's errors. */
int ct_a64_relocate_range(struct ct_code_buf *out, const uint8_t *bytes, size_t count, uint64_t from, unsigned scratch,
                          struct ct_a64_moved *moved);

/* False when control never reaches the address after the moved instruction (a moved call's callee returns to the
 * original). brk, hlt and hvc may continue. */
static inline bool ct_a64_copy_continues(const struct ct_a64_insn *insn) {
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

#endif
