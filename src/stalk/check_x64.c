/* SPDX-License-Identifier: Apache-2.0 */
/* Code that may change while it runs, x86_64: its translation compares it with the original each time, before any of it
 * is executed.
 *
 * Such code lies where the process can write without a system call: in writable or shared mappings. The block is
 * translated from a copy of its bytes, the shadow. The translation first compares the original with the shadow. So it
 * does not matter who changed the code, when, or how much of the change was visible. Code that differs never runs; the
 * engine translates it again.
 *
 * As lower_x64.c demands, no flag is changed, and a signal in between can be put off. Loads are of four bytes or fewer,
 * and aligned, because the program may have alignment checks on. Differences are unsigned, so their sum is zero only if
 * all of them are.
 *
 * The two registers are stored, used and loaded again. As long as the block does not change them, the area has their
 * values, so the next block need not store them: a direct branch jumps over the stores then. Otherwise each block would
 * have to wait for the last one's, whatever they do. Nothing else runs between the two: who comes back from a signal
 * or from the engine comes to the start of a block, or has the registers of the area.
 *
 * Owner: the holder of the Stalker's lock. */
#include "stalk/build.h"
#include "stalk/cache.h"
#include "stalk/emit_x64.h"
#include "stalk/memory.h"
#include "stalk/translate.h"

/* Code of transformers, and callouts. */
static bool something_changes_them(const struct stalk_build *b) {
    return b->cache->transformer.transform || b->cache->stalker->probe_count;
}

void ct_check_take_shadow(struct stalk_build *b) {
    uint64_t room = b->limit - b->start;
    enum stalk_flow flow = FLOW_NEXT;
    struct stalk_insn insn;
    unsigned size = room < STALK_SHADOW ? (unsigned)room : STALK_SHADOW, length = 0;
    ct_stalk_copy(b->shadow, (const void *)b->start, size);
    for (unsigned n = 0; flow == FLOW_NEXT && n < STALK_MAX_INSNS; n++) {
        insn.address = b->start + length;
        insn.bytes = b->shadow + length;
        if (ct_x64_decode(insn.bytes, size - length, &insn.x64))
            break;
        flow = ct_lower_flow(&insn);
        if (flow == FLOW_REFUSE)
            break;
        length += insn.x64.length;
    }
    b->shadow_size = length;
    if (length)
        b->limit = b->start + length;
}

/* Loads the bytes at `address` into ecx. */
static void emit_load(struct ct_code_buf *out, uint64_t address, unsigned size) {
    bool near = ct_x64_reaches(ct_code_here(out) + 7, address);
    if (!near) {
        CT_X64_BYTES(out, 0x48, 0xb9); /* mov rcx, address */
        ct_code_u64(out, address);
    }
    if (size == 4)
        ct_code_byte(out, 0x8b); /* mov ecx, ... */
    else
        CT_X64_BYTES(out, 0x0f, size == 2 ? 0xb7 : 0xb6); /* movzx ecx, ... */
    ct_code_byte(out, near ? 0x0d : 0x09);
    if (near)
        ct_code_u32(out, (uint32_t)(address - (ct_code_here(out) + 4)));
}

static void add_difference(struct stalk_build *b, unsigned at, unsigned size) {
    uint32_t value = 0;
    ct_stalk_copy(&value, b->shadow + at, size);
    emit_load(&b->out, b->start + at, size);
    if (at)
        CT_X64_BYTES(&b->out, 0x8d, 0x89); /* lea ecx, [rcx - value] */
    else
        CT_X64_BYTES(&b->out, 0x44, 0x8d, 0x99); /* lea r11d, [rcx - value] */
    ct_code_u32(&b->out, 0 - value);
    if (at)
        CT_X64_BYTES(&b->out, 0x4d, 0x8d, 0x1c, 0x0b); /* lea r11, [r11 + rcx] */
}

void ct_check_note(struct stalk_build *b, const struct ct_x64_insn *x) {
    struct ct_x64_effects effects;
    ct_x64_effects(x, &effects);
    b->written |= x->kind <= CT_INSN_CALL ? effects.regs_written : 0xffff; /* the others may do anything */
}

uint8_t ct_check_skips(const struct stalk_build *b, uint16_t written) {
    enum { STORE = 9 }; /* size of a store, of which there are two */
    if (!b->shadow_size || something_changes_them(b) || written & 1u << CT_X64_R11)
        return 0;
    return written & 1u << CT_X64_RCX ? STORE : 2 * STORE;
}

static void take_registers_back(struct ct_code_buf *out) {
    gs_load(out, CT_X64_R11, CT_AREA_R11);
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
}

void ct_check_shadow(struct stalk_build *b) {
    struct ct_code_buf *out = &b->out;
    if (!b->shadow_size)
        return;
    gs_store(out, CT_X64_R11, CT_AREA_R11);
    gs_store(out, CT_X64_RCX, CT_AREA_RCX);
    for (unsigned at = 0, size; at < b->shadow_size; at += size) {
        for (size = 4; (b->start + at) % size || size > b->shadow_size - at;)
            size /= 2;
        add_difference(b, at, size);
    }
    CT_X64_BYTES(out, 0x4c, 0x89, 0xd9, /* mov rcx, r11 */
                 0xe3, 0);              /* jrcxz over the way out */
    size_t from = out->length;
    take_registers_back(out);
    ct_code_byte(out, 0xe9);
    ct_build_exit(b, b->start, out->length, STALK_END_CHANGED);
    ct_code_u32(out, 0);
    if (!out->overflow)
        out->bytes[from - 1] = (uint8_t)(out->length - from);
    take_registers_back(out);
    ct_build_piece(b, 0);
}
