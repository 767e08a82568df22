/* SPDX-License-Identifier: Apache-2.0 */
/* Code that may change while it runs, arm64: its translation compares it with the original each time, before any of it
 * is executed. See check_x64.c for what such code is. A difference of any word is one in the sum of all (or).
 *
 * Owner: the holder of the Stalker's lock. */
#include "stalk/build.h"
#include "stalk/cache.h"
#include "stalk/emit_a64.h"
#include "stalk/memory.h"
#include "stalk/translate.h"
#include "stalk/unit_a64.h"

enum { X14 = 14, X15 = 15 };

void ct_check_take_shadow(struct stalk_build *b) {
    uint64_t room = b->limit - b->start;
    enum stalk_flow flow = FLOW_NEXT;
    uint64_t unit_end = 0;
    struct stalk_insn insn;
    unsigned size = room < STALK_SHADOW ? (unsigned)room : STALK_SHADOW, length = 0;
    if (b->start & 3)
        return;
    for (unsigned at = 0; at + 4 <= size; at += 4) { /* an instruction is changed by one store */
        uint32_t word = __atomic_load_n((const uint32_t *)(b->start + at), __ATOMIC_RELAXED);
        ct_stalk_copy(b->shadow + at, &word, sizeof word);
    }
    b->shadow_size = size & ~3u; /* what is decoded */
    for (b->pc = b->start; flow == FLOW_NEXT && length + 4 <= size; length += 4, b->pc += 4) {
        if (ct_lower_decode(b, &insn))
            break;
        flow = ct_lower_flow(&insn);
        if (flow == FLOW_REFUSE)
            break;
        if (insn.a64.what == CT_A64_LOAD_EXCLUSIVE)
            unit_end = ct_unit_end_from(b);
        if (flow == FLOW_BRANCH && b->pc < unit_end)
            flow = FLOW_NEXT;
    }
    b->pc = b->start;
    b->shadow_size = length;
    if (length)
        b->limit = b->start + length;
}

/* Adds the difference of one or two words to x14. x16 is the address of the code. */
static void add_difference(struct ct_code_buf *out, const uint8_t *shadow, unsigned at, unsigned size) {
    uint64_t value = 0;
    ct_stalk_copy(&value, shadow + at, size);
    uint32_t load = size == 8 ? 0xf9400000 : 0xb9400000;
    ct_a64_put(out, load | at / size << 10 | X16 << 5 | X17);
    ct_a64_mov64(out, X15, value);
    ct_a64_eor_reg(out, at ? X17 : X14, X17, X15);
    if (at)
        ct_a64_put(out, 0xaa000000 | X17 << 16 | X14 << 5 | X14); /* orr x14, x14, x17 */
}

static void take_registers_back(struct ct_code_buf *out) {
    load_pair(out, X14);
    load_pair(out, X16);
}

void ct_check_shadow(struct stalk_build *b) {
    struct ct_code_buf *out = &b->out;
    if (!b->shadow_size)
        return;
    save_pair(out, X14);
    save_pair(out, X16);
    ct_a64_address(out, X16, b->start);
    for (unsigned at = 0, size; at < b->shadow_size; at += size) {
        size = b->shadow_size - at >= 8 ? 8 : 4;
        add_difference(out, b->shadow, at, size);
    }
    ct_a64_cbz(out, X14, ct_code_here(out) + 16);
    take_registers_back(out);
    ct_build_exit(b, b->start, out->length, STALK_END_CHANGED);
    ct_a64_put(out, 0);
    take_registers_back(out);
    ct_build_piece(b, 0);
}
