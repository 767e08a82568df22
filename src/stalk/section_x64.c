/* SPDX-License-Identifier: Apache-2.0 */
/* Critical sections of rseq(2), x86_64: `lea reg, [rip + distance]` loads a description. */
#include "stalk/section.h"
#include "isa/x64/relocate.h"
#include "os/os.h"
#include "stalk/build.h"
#include "stalk/emit_x64.h"
#include "stalk/engine.h"

static bool is_lea(const struct ct_x64_insn *x) {
    return x->encoding == CT_X64_LEGACY && x->map == 0 && x->opcode == 0x8d && x->rip_relative && x->rex & 8;
}

bool ct_section_loads(const struct stalk_build *b, const struct stalk_insn *insn, uint64_t *at, uint64_t *begin) {
    (void)b;
    *at = ct_x64_rip_address(&insn->x64, insn->address);
    *begin = insn->address;
    return is_lea(&insn->x64);
}

void ct_section_put_load(struct stalk_build *b, const struct stalk_insn *insn, uint64_t description) {
    const struct ct_x64_insn *x = &insn->x64;
    CT_X64_BYTES(&b->out, (uint8_t)(0x48 | (x->rex >> 2 & 1)), (uint8_t)(0xb8 | (x->modrm >> 3 & 7)));
    ct_code_u64(&b->out, description);
}

uint64_t ct_section_loaded(uint64_t pc, uint64_t *at) {
    enum { LEA = 7 };
    uint8_t code[LEA];
    struct ct_x64_insn x;
    if (ct_os_peek(pc - LEA, code, LEA) || ct_x64_decode(code, LEA, &x) || x.length != LEA || !is_lea(&x))
        return 0;
    *at = ct_x64_rip_address(&x, pc - LEA);
    return pc - LEA;
}

bool ct_section_copies(const struct stalk_insn *insn) {
    (void)insn;
    return true;
}

void ct_section_put_branch(struct stalk_build *b, uint32_t patch, uint32_t to) {
    ct_x64_patch_u32(&b->out, patch, to - (patch + 4));
}

void ct_section_put_exit(struct ct_code_buf *code, struct stalk_exit *e, uint32_t reason) {
    ct_code_byte(code, 0xe9);
    e->patch = ct_code_here(code);
    ct_code_u32(code, 0);
    e->stub = ct_code_here(code);
    gs_store_imm(code, CT_AREA_REASON, reason);
    ct_x64_emit_jmp(code, ct_stalk_helper(e->region, ct_stalk_enter));
}
