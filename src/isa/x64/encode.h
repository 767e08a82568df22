/* Small x86_64 emitters: one function per form that stubs, springboards and the relocator need.
 * All write into a ct_code_buf and rely on its overflow mark. */
#ifndef CT_ISA_X64_ENCODE_H
#define CT_ISA_X64_ENCODE_H

#include "isa/x64/decode.h"

/* True when a rel32 at `next` (address after the instruction) reaches `target`. */
static inline bool ct_x64_reaches(uint64_t next, uint64_t target) {
    int64_t distance = (int64_t)(target - next);
    return distance >= INT32_MIN && distance <= INT32_MAX;
}

void ct_x64_emit_jmp(struct ct_code_buf *b, uint64_t target);  /* rel32, or jmp [rip+0] + 8 bytes when out of reach */
void ct_x64_emit_call(struct ct_code_buf *b, uint64_t target); /* rel32, or call through a literal */
void ct_x64_emit_jcc(struct ct_code_buf *b, uint8_t condition, uint64_t target);
void ct_x64_emit_nop(struct ct_code_buf *b, size_t n); /* n bytes of the longest nops */

#endif
