/* SPDX-License-Identifier: Apache-2.0 */
/* The code of a slot where setjmp returns to, x86_64. Flags, rcx and r11 are free when setjmp returns. */
#include "stalk/landing.h"
#include "stalk/emit_x64.h"
#include "stalk/engine.h"

bool ct_stalk_put_landing(struct ct_code_buf *code, const struct stalk_region *r) {
    CT_X64_BYTES(code, 0xf3, 0x48, 0x0f, 0xae, 0xc9,       /* rdgsbase rcx */
                 0xe3, 0,                                  /* jrcxz unfollowed */
                 0x64, 0x48, 0x8b, 0x0c, 0x25, 0, 0, 0, 0, /* mov rcx, fs:0 */
                 0x65, 0x48, 0x3b, 0x0c, 0x25);            /* cmp rcx, gs:own */
    ct_code_u32(code, CT_AREA_OWN);
    CT_X64_BYTES(code, 0x75, 0, 0x48, 0x8b, 0x0d); /* jne unfollowed; mov rcx, [rip + word] */
    ct_code_u32(code, (uint32_t)(STALK_LANDING_AT - (code->length + 4)));
    gs_store(code, CT_X64_RCX, CT_AREA_TARGET);
    ct_x64_emit_jmp(code, ct_stalk_helper(r, ct_stalk_landed));
    code->bytes[6] = (uint8_t)(code->length - 7);
    code->bytes[26] = (uint8_t)(code->length - 27);
    CT_X64_BYTES(code, 0xff, 0x25); /* jmp [rip + word] */
    ct_code_u32(code, (uint32_t)(STALK_LANDING_AT - (code->length + 4)));
    return !code->overflow;
}
