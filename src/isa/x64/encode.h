/* SPDX-License-Identifier: Apache-2.0 */
/* Small x86_64 emitters: one function per form that stubs, springboards and the relocator need.
 *
 * All write into a ct_code_buf and rely on its `overflow`. None of the emitted instructions changes a flag. Literals
 * lie after an unconditional jump, never where execution falls through. */
#ifndef CT_ISA_X64_ENCODE_H
#define CT_ISA_X64_ENCODE_H

#include "isa/x64/decode.h"

/* Appends the given bytes. */
#define CT_X64_BYTES(b, ...) ct_code_copy((b), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* True when a rel32 at `next` (address after the instruction) reaches `target`. */
static inline bool ct_x64_reaches(uint64_t next, uint64_t target) {
    int64_t distance = (int64_t)(target - next);
    return distance >= INT32_MIN && distance <= INT32_MAX;
}

void ct_x64_emit_jmp(struct ct_code_buf *b, uint64_t target);  /* rel32, or jmp [rip+0] + 8 bytes when out of reach */
void ct_x64_emit_call(struct ct_code_buf *b, uint64_t target); /* rel32, or call through a literal */
void ct_x64_emit_jcc(struct ct_code_buf *b, uint8_t condition, uint64_t target);
void ct_x64_emit_nop(struct ct_code_buf *b, size_t n); /* n bytes of the longest nops */

void ct_x64_emit_push(struct ct_code_buf *b, uint8_t reg);
void ct_x64_emit_pop(struct ct_code_buf *b, uint8_t reg);
void ct_x64_emit_mov_imm(struct ct_code_buf *b, uint8_t reg, uint64_t value); /* all 64 bits, in the shortest form */
void ct_x64_emit_add_rsp(struct ct_code_buf *b, int32_t delta);               /* lea rsp, [rsp + delta] */

/* A literal that is placed later: push_literal emits `push qword [rip + ?]` and returns the offset of its displacement;
 * place_literal emits the 8 bytes and fills in the displacement. */
size_t ct_x64_emit_push_literal(struct ct_code_buf *b);
void ct_x64_place_literal(struct ct_code_buf *b, size_t displacement_at, uint64_t value);

/* Overwrites 4 bytes that were emitted at offset `at`. Does nothing after an overflow. */
void ct_x64_patch_u32(struct ct_code_buf *b, size_t at, uint32_t value);

#endif
