/* Emitters that lowering and links share, x86_64. Private to them. */
#ifndef CT_STALK_EMIT_X64_H
#define CT_STALK_EMIT_X64_H

#include "isa/x64/encode.h"
#include "stalk/internal.h"

static inline void gs_store(struct ct_code_buf *b, unsigned reg, uint32_t at) {
    CT_X64_BYTES(b, 0x65, (uint8_t)(0x48 | (reg >> 3) << 2), 0x89, (uint8_t)(0x04 | (reg & 7) << 3), 0x25);
    ct_code_u32(b, at);
}

static inline void gs_load(struct ct_code_buf *b, unsigned reg, uint32_t at) {
    CT_X64_BYTES(b, 0x65, (uint8_t)(0x48 | (reg >> 3) << 2), 0x8b, (uint8_t)(0x04 | (reg & 7) << 3), 0x25);
    ct_code_u32(b, at);
}

static inline void gs_store_imm(struct ct_code_buf *b, uint32_t at, uint32_t value) {
    CT_X64_BYTES(b, 0x65, 0x48, 0xc7, 0x04, 0x25);
    ct_code_u32(b, at);
    ct_code_u32(b, value);
}

/* The way into an entry for indirect branches: rcx is their target, rax and rcx are in the area. */
static inline void emit_way_in(struct ct_code_buf *out, uint64_t address, uint64_t collide) {
    CT_X64_BYTES(out, 0x48, 0xb8); /* mov rax, -address */
    ct_code_u64(out, 0 - address);
    CT_X64_BYTES(out, 0x48, 0x8d, 0x0c, 0x01, /* lea rcx, [rcx + rax] */
                 0xe3, 0x05);                 /* jrcxz over the jump */
    ct_code_byte(out, 0xe9);
    ct_code_u32(out, (uint32_t)(collide - (ct_code_here(out) + 4)));
    gs_load(out, CT_X64_RAX, CT_AREA_RAX);
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
}

#endif
