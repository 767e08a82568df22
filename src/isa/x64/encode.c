/* SPDX-License-Identifier: Apache-2.0 */
/* The emitters of encode.h. Every form is written out as bytes: there are few of them, and they are read more often
 * than they are changed. */
#include "isa/x64/encode.h"

void ct_x64_patch_u32(struct ct_code_buf *b, size_t at, uint32_t value) {
    if (b->overflow)
        return;
    for (unsigned i = 0; i < 4; i++)
        b->bytes[at + i] = (uint8_t)(value >> (8 * i));
}

/* jmp [rip+0] and its literal: 14 bytes, reaches everything. */
static void emit_far_jmp(struct ct_code_buf *b, uint64_t target) {
    CT_X64_BYTES(b, 0xff, 0x25, 0, 0, 0, 0);
    ct_code_u64(b, target);
}

void ct_x64_emit_jmp(struct ct_code_buf *b, uint64_t target) {
    uint64_t next = ct_code_here(b) + 5;
    if (!ct_x64_reaches(next, target)) {
        emit_far_jmp(b, target);
        return;
    }
    ct_code_byte(b, 0xe9);
    ct_code_u32(b, (uint32_t)(target - next));
}

void ct_x64_emit_call(struct ct_code_buf *b, uint64_t target) {
    uint64_t next = ct_code_here(b) + 5;
    if (!ct_x64_reaches(next, target)) {
        CT_X64_BYTES(b, 0xff, 0x15, 2, 0, 0, 0, /* call [rip+2] */
                     0xeb, 8);                  /* over the literal */
        ct_code_u64(b, target);
        return;
    }
    ct_code_byte(b, 0xe8);
    ct_code_u32(b, (uint32_t)(target - next));
}

void ct_x64_emit_jcc(struct ct_code_buf *b, uint8_t condition, uint64_t target) {
    uint64_t next = ct_code_here(b) + 6;
    if (!ct_x64_reaches(next, target)) {
        CT_X64_BYTES(b, (uint8_t)(0x70 | (condition ^ 1)), 14); /* the opposite condition jumps over the far jump */
        emit_far_jmp(b, target);
        return;
    }
    CT_X64_BYTES(b, 0x0f, (uint8_t)(0x80 | condition));
    ct_code_u32(b, (uint32_t)(target - next));
}

void ct_x64_emit_nop(struct ct_code_buf *b, size_t n) {
    /* nop dword [rax + rax*1 + 0], with one more of its parts each time; a 66 prefix makes lengths 6 and 9. */
    static const uint8_t nops[9][9] = {
        {0x90},
        {0x66, 0x90},
        {0x0f, 0x1f, 0x00},
        {0x0f, 0x1f, 0x40, 0},
        {0x0f, 0x1f, 0x44, 0x00, 0},
        {0x66, 0x0f, 0x1f, 0x44, 0x00, 0},
        {0x0f, 0x1f, 0x80, 0, 0, 0, 0},
        {0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},
        {0x66, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},
    };
    for (; n > 9; n -= 9)
        ct_code_copy(b, nops[8], 9);
    if (n)
        ct_code_copy(b, nops[n - 1], n);
}

void ct_x64_emit_push(struct ct_code_buf *b, uint8_t reg) {
    if (reg >= 8)
        ct_code_byte(b, 0x41);
    ct_code_byte(b, (uint8_t)(0x50 | (reg & 7)));
}

void ct_x64_emit_pop(struct ct_code_buf *b, uint8_t reg) {
    if (reg >= 8)
        ct_code_byte(b, 0x41);
    ct_code_byte(b, (uint8_t)(0x58 | (reg & 7)));
}

void ct_x64_emit_mov_imm(struct ct_code_buf *b, uint8_t reg, uint64_t value) {
    uint8_t high = reg >> 3;
    if (value <= UINT32_MAX) { /* mov r32, imm32 clears the upper half */
        if (high)
            ct_code_byte(b, 0x41);
        ct_code_byte(b, (uint8_t)(0xb8 | (reg & 7)));
        ct_code_u32(b, (uint32_t)value);
    } else if ((uint64_t)(int64_t)(int32_t)value == value) {
        CT_X64_BYTES(b, (uint8_t)(0x48 | high), 0xc7, (uint8_t)(0xc0 | (reg & 7)));
        ct_code_u32(b, (uint32_t)value);
    } else {
        CT_X64_BYTES(b, (uint8_t)(0x48 | high), (uint8_t)(0xb8 | (reg & 7)));
        ct_code_u64(b, value);
    }
}

void ct_x64_emit_add_rsp(struct ct_code_buf *b, int32_t delta) {
    if (delta == (int8_t)delta) {
        CT_X64_BYTES(b, 0x48, 0x8d, 0x64, 0x24, (uint8_t)delta);
    } else {
        CT_X64_BYTES(b, 0x48, 0x8d, 0xa4, 0x24);
        ct_code_u32(b, (uint32_t)delta);
    }
}

size_t ct_x64_emit_push_literal(struct ct_code_buf *b) {
    CT_X64_BYTES(b, 0xff, 0x35, 0, 0, 0, 0);
    return b->length - 4;
}

void ct_x64_place_literal(struct ct_code_buf *b, size_t displacement_at, uint64_t value) {
    ct_x64_patch_u32(b, displacement_at, (uint32_t)(b->length - (displacement_at + 4)));
    ct_code_u64(b, value);
}
