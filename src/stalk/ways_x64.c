/* SPDX-License-Identifier: Apache-2.0 */
/* Ways into entries, x86_64: code in front of a fragment that checks whether an indirect branch or a return wants this
 * address. It restores the registers that the branch has used. There are two of each kind: exact ones keep the flags,
 * quick ones are for code that overwrites them (flags_x64.c). */
#include "stalk/cache.h"
#include "stalk/emit_x64.h"
#include "stalk/engine.h"

/* Uses r11 and not rax, because values reloaded from the area arrive late, and rax is what most code waits for after a
 * return. `loop` falls through when the target matches, but only some processors execute it quickly. */
static uint64_t emit_exact_indirect(struct ct_code_buf *out, const struct ct_stalker *s, uint64_t address,
                                    uint64_t collide) {
    if (s->machine.quick_loop)
        ct_x64_emit_jmp(out, collide);
    uint64_t start = ct_code_here(out);
    CT_X64_BYTES(out, 0x49, 0xbb); /* mov r11, -address */
    ct_code_u64(out, 0 - address);
    if (s->machine.quick_loop) {
        CT_X64_BYTES(out, 0x4a, 0x8d, 0x4c, 0x19, 0x01, /* lea rcx, [rcx + r11 + 1] */
                     0xe2, (uint8_t)-22);               /* loop to the jump */
    } else {
        CT_X64_BYTES(out, 0x4a, 0x8d, 0x0c, 0x19, /* lea rcx, [rcx + r11] */
                     0xe3, 0x05);                 /* jrcxz over the jump */
        ct_x64_emit_jmp(out, collide);
    }
    gs_load(out, CT_X64_R11, CT_AREA_R11);
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    return start;
}

void ct_stalk_emit_cmp(struct ct_code_buf *out, uint64_t address) {
    uint64_t next = ct_code_here(out) + 7;
    if (ct_x64_reaches(next, address)) {
        CT_X64_BYTES(out, 0x4c, 0x8d, 0x1d); /* lea r11, [rip + address] */
        ct_code_u32(out, (uint32_t)(address - next));
    } else {
        CT_X64_BYTES(out, 0x49, 0xbb); /* mov r11, address */
        ct_code_u64(out, address);
    }
    CT_X64_BYTES(out, 0x4c, 0x39, 0xd9); /* cmp rcx, r11 */
}

uint64_t ct_stalk_emit_indirect(struct ct_code_buf *out, const struct stalk_region *r, uint64_t address,
                                bool spoils_flags) {
    if (!spoils_flags)
        return emit_exact_indirect(out, r->cache->stalker, address, ct_stalk_helper(r, ct_stalk_collide));
    uint64_t start = ct_code_here(out);
    ct_stalk_emit_cmp(out, address);
    CT_X64_BYTES(out, 0x0f, 0x85); /* jne */
    ct_code_u32(out, (uint32_t)(ct_stalk_helper(r, ct_stalk_miss) - (ct_code_here(out) + 4)));
    gs_load(out, CT_X64_R11, CT_AREA_R11);
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    return start;
}

/* The difference to the address is zero exactly if that of the lower half is zero, and then that of the upper half. */
static uint64_t emit_exact_return(struct ct_code_buf *out, const struct ct_stalker *s, uint64_t address,
                                  uint64_t collide) {
    if (s->machine.quick_loop)
        ct_x64_emit_jmp(out, collide);
    uint64_t start = ct_code_here(out), low = (uint64_t)(int64_t)(int32_t)(0 - (uint32_t)address);
    uint64_t high = 0 - ((address + low) >> 32) + s->machine.quick_loop;
    ct_code_byte(out, 0x59); /* pop rcx */
    if (s->machine.has_rorx && (uint64_t)(int64_t)(int32_t)high == high) {
        CT_X64_BYTES(out, 0x48, 0x8d, 0x89); /* lea rcx, [rcx - lower half] */
        ct_code_u32(out, (uint32_t)low);
        CT_X64_BYTES(out, 0xc4, 0xe3, 0xfb, 0xf0, 0xc9, 32, /* rorx rcx, rcx, 32 */
                     0x48, 0x8d, 0x89);                     /* lea rcx, [rcx - upper half] */
        ct_code_u32(out, (uint32_t)high);
    } else {
        gs_store(out, CT_X64_R11, CT_AREA_R11);
        CT_X64_BYTES(out, 0x49, 0xbb); /* mov r11, -address */
        ct_code_u64(out, 0 - address);
        CT_X64_BYTES(out, 0x4a, 0x8d, 0x4c, 0x19, s->machine.quick_loop); /* lea rcx, [rcx + r11] */
        gs_load(out, CT_X64_R11, CT_AREA_R11);
    }
    if (s->machine.quick_loop) {
        CT_X64_BYTES(out, 0xe2, (uint8_t)(start - 5 - (ct_code_here(out) + 2))); /* loop to the jump */
    } else {
        CT_X64_BYTES(out, 0xe3, 0x05); /* jrcxz over the jump */
        ct_x64_emit_jmp(out, collide);
    }
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    return start;
}

/* For code that overwrites the flags. */
static uint64_t emit_quick_return(struct ct_code_buf *out, uint64_t address, uint64_t miss) {
    uint64_t start = ct_code_here(out);
    if (ct_x64_reaches(start + 7, address)) {
        CT_X64_BYTES(out, 0x48, 0x8d, 0x0d); /* lea rcx, [rip + address] */
        ct_code_u32(out, (uint32_t)(address - (start + 7)));
    } else {
        CT_X64_BYTES(out, 0x48, 0xb9); /* mov rcx, address */
        ct_code_u64(out, address);
    }
    CT_X64_BYTES(out, 0x48, 0x39, 0x0c, 0x24, /* cmp [rsp], rcx */
                 0x0f, 0x85);                 /* jne miss */
    ct_code_u32(out, (uint32_t)(miss - (ct_code_here(out) + 4)));
    ct_code_byte(out, 0x59); /* pop rcx */
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    return start;
}

uint64_t ct_stalk_emit_return(struct ct_code_buf *out, const struct stalk_region *r, uint64_t address,
                              bool spoils_flags) {
    if (spoils_flags)
        return emit_quick_return(out, address, ct_stalk_helper(r, ct_stalk_return_miss));
    return emit_exact_return(out, r->cache->stalker, address, ct_stalk_helper(r, ct_stalk_return_collide));
}
