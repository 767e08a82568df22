/* Moves x86_64 instructions to another address without changing what they do.
 *
 * Bytes to bytes: the originals are given as bytes plus the address they run at; the result goes into a ct_code_buf
 * that will run at its own address, near (±2 GiB) or far. Registers, flags and the red zone are kept. */
#ifndef CT_ISA_X64_RELOCATE_H
#define CT_ISA_X64_RELOCATE_H

#include "isa/x64/decode.h"

/* Longest possible result for one instruction. */
#define CT_X64_RELOCATED_MAX 96

/* Moves one instruction. A call pushes its original return address (one 8-byte store), so unwinders and the callee
 * see what they would see untouched. Direct branches go to their original target.
 * CT_ERR_UNSUPPORTED for what cannot be moved (xbegin beyond reach ...). */
int ct_x64_relocate(struct ct_code_buf *out, const uint8_t *bytes, const struct ct_x64_insn *insn, uint64_t from);

#define CT_X64_RANGE_MAX 64 /* instructions */

struct ct_x64_moved {
    uint16_t count;
    struct {
        uint16_t from; /* offset of the instruction in the original range */
        uint16_t to;   /* offset in the copy, counted from the first byte that the move emitted */
    } at[CT_X64_RANGE_MAX];
};

/* Moves whole instructions until at least `minimum` bytes of `bytes` are covered; `covered` tells how many. Branches inside
 * the range to a start of an instruction inside it stay inside the copy. After the last instruction control must
 * continue at from + *covered: a jump there is appended unless the last instruction never falls through. */
int ct_x64_relocate_range(struct ct_code_buf *out, const uint8_t *bytes, size_t size, size_t minimum, uint64_t from,
                          size_t *covered, struct ct_x64_moved *moved);

#endif
