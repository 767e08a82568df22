/* SPDX-License-Identifier: Apache-2.0 */
/* What all instruction sets have in common: kinds of instructions, and a buffer that code is written into.
 *
 * Freestanding: nothing in src/isa uses libc, so the agent is built from these files too. */
#ifndef CT_ISA_ISA_H
#define CT_ISA_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ct_insn_kind {
    CT_INSN_OTHER = 0,    /* falls through, nothing special */
    CT_INSN_NOP,          /* any form of nop, multi-byte ones included */
    CT_INSN_LANDING,      /* endbr64/endbr32, bti: a guarded landing pad */
    CT_INSN_JMP,          /* direct */
    CT_INSN_JCC,          /* direct, conditional on flags */
    CT_INSN_LOOP,         /* loop, loope, loopne, jrcxz/jecxz; cbz, tbz: direct, conditional on a register */
    CT_INSN_CALL,         /* direct */
    CT_INSN_JMP_INDIRECT, /* through a register or memory */
    CT_INSN_CALL_INDIRECT,
    CT_INSN_RET,     /* near return */
    CT_INSN_FAR,     /* far call, jump, return, iret, sysret, sysexit, rsm: cannot be followed */
    CT_INSN_SYSCALL, /* syscall, sysenter, svc */
    CT_INSN_INT,     /* int n (also int1) */
    CT_INSN_INT3,    /* int3, brk */
    CT_INSN_TRAP,    /* ud0, ud1, ud2, udf: never continues */
    CT_INSN_HALT,    /* hlt */
    CT_INSN_XBEGIN,  /* start of a transaction: has a branch target */
};

/* Code being written: `bytes` will run at `address`. Writing past the end sets `overflow` and writes nothing, so
 * emitters need no checks of their own; the caller asks once at the end. */
struct ct_code_buf {
    uint8_t *bytes;
    size_t capacity;
    size_t length;
    uint64_t address; /* where bytes[0] will run */
    bool overflow;
};

static inline uint64_t ct_code_here(const struct ct_code_buf *b) {
    return b->address + b->length;
}

static inline void ct_code_byte(struct ct_code_buf *b, uint8_t v) {
    if (b->length < b->capacity)
        b->bytes[b->length++] = v;
    else
        b->overflow = true;
}

static inline void ct_code_copy(struct ct_code_buf *b, const uint8_t *v, size_t n) {
    if (b->capacity - b->length < n) {
        b->overflow = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        b->bytes[b->length + i] = v[i];
    b->length += n;
}

static inline void ct_code_u32(struct ct_code_buf *b, uint32_t v) {
    uint8_t raw[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    ct_code_copy(b, raw, sizeof raw);
}

static inline void ct_code_u64(struct ct_code_buf *b, uint64_t v) {
    ct_code_u32(b, (uint32_t)v);
    ct_code_u32(b, (uint32_t)(v >> 32));
}

#endif
