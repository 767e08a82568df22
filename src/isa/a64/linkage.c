/* SPDX-License-Identifier: Apache-2.0 */
/* See isa/linkage.h. */
#include "isa/linkage.h"

enum {
    BTI_C = 0xd503245fu,
    ADRP_X16 = 0x90000010u,
    ADRP_MASK = 0x9f00001fu,
    LDR_X17 = 0xf9400211u, /* ldr x17, [x16, #n] */
    LDR_MASK = 0xffc003ffu,
    SAVE_X16 = 0xa9bf7bf0u, /* stp x16, x30, [sp, #-16]! */
};

static uint32_t insn_at(const uint8_t *code) {
    return (uint32_t)code[0] | (uint32_t)code[1] << 8 | (uint32_t)code[2] << 16 | (uint32_t)code[3] << 24;
}

static size_t skip_landing(const uint8_t *code, size_t size) {
    return size >= 4 && insn_at(code) == BTI_C ? 4 : 0;
}

/* [bti c] adrp x16, page; ldr x17, [x16, #n]; ... br x17 */
uint64_t ct_linkage_word(const uint8_t *code, size_t size, uint64_t address) {
    size_t at = skip_landing(code, size);
    if (size < at + 8)
        return 0;
    uint32_t page = insn_at(code + at), load = insn_at(code + at + 4);
    if ((page & ADRP_MASK) != ADRP_X16 || (load & LDR_MASK) != LDR_X17)
        return 0;
    uint64_t pages = (uint64_t)(page >> 5 & 0x7ffff) << 2 | (page >> 29 & 3);
    uint64_t distance = (uint64_t)((int64_t)(pages << 43) >> 31); /* 21 bits with a sign, times 4096 */
    return ((address + at) & ~0xfffull) + distance + (uint64_t)(load >> 10 & 0xfff) * 8;
}

/* The first entry of the table: it saves what the resolver needs. */
bool ct_linkage_is_unbound(const uint8_t *code, size_t size) {
    size_t at = skip_landing(code, size);
    return size >= at + 4 && insn_at(code + at) == SAVE_X16;
}
