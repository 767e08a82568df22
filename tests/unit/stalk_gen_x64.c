/* SPDX-License-Identifier: Apache-2.0 */
/* See stalk_gen.h. Data are in rbx. */
#include "stalk_gen.h"

#include <string.h>

enum { RCX = 1, RBX = 3, RSP = 4, R15 = 15 };

static void byte(struct stalk_gen *g, unsigned v) {
    if (g->used < g->capacity)
        g->code[g->used++] = (uint8_t)v;
}

static void word(struct stalk_gen *g, uint64_t v, unsigned size) {
    for (unsigned i = 0; i < size; i++)
        byte(g, (uint8_t)(v >> (8 * i)));
}

/* Any register but rsp, rbx and r15. */
static unsigned reg(struct stalk_gen *g) {
    for (;;) {
        unsigned r = stalk_gen_pick(g, 15);
        if (r != RBX && r != RSP)
            return r;
    }
}

/* opcode with modrm; `memory`: 0 register, 1 [rbx + disp], 2 [rip + disp] in the table's data, 3 [rsp - disp]: red
 * zone */
static void with_operand(struct stalk_gen *g, const uint8_t *opcode, unsigned size, unsigned r, unsigned memory,
                         bool wide, unsigned immediate) {
    unsigned rm = memory ? 0 : reg(g);
    byte(g, 0x40u | (wide ? 8u : 0u) | (r >> 3) << 2 | (memory ? 0 : rm >> 3));
    for (unsigned i = 0; i < size; i++)
        byte(g, opcode[i]);
    switch (memory) {
    case 0:
        byte(g, 0xc0 | (r & 7) << 3 | (rm & 7));
        break;
    case 1:
        byte(g, 0x83 | (r & 7) << 3);
        word(g, (uint64_t)(int64_t)(8 * (int)stalk_gen_pick(g, 200) - 800), 4);
        break;
    case 2: {
        byte(g, 0x05 | (r & 7) << 3);
        uint64_t at = (uint64_t)&g->table[g->table_size + stalk_gen_pick(g, 64)];
        word(g, at - ((uint64_t)g->code + g->used + 4 + immediate), 4);
        break;
    }
    default:
        byte(g, 0x44 | (r & 7) << 3);
        byte(g, 0x24);
        byte(g, (unsigned)(-8 * (int)(1 + stalk_gen_pick(g, 12))));
        break;
    }
    word(g, stalk_gen_random(g), immediate);
}

static void one_byte(struct stalk_gen *g, uint8_t opcode, unsigned r, bool wide, unsigned immediate) {
    with_operand(g, &opcode, 1, r, stalk_gen_pick(g, 4), wide, immediate);
}

static void two_bytes(struct stalk_gen *g, uint8_t opcode, unsigned memory, bool wide, unsigned immediate) {
    uint8_t bytes[2] = {0x0f, opcode};
    with_operand(g, bytes, 2, reg(g), memory, wide, immediate);
}

static void vector(struct stalk_gen *g) {
    static const uint8_t opcodes[] = {0xfe, 0xd4, 0xef, 0xdb, 0xeb, 0xfa, 0x62, 0xf4, 0x58, 0x59};
    unsigned a = stalk_gen_pick(g, 8), b = stalk_gen_pick(g, 8);
    switch (stalk_gen_pick(g, 4)) {
    case 0: /* movdqu xmm, [rbx + d] and back */
    case 1:
        byte(g, 0xf3);
        byte(g, 0x0f);
        byte(g, stalk_gen_pick(g, 2) ? 0x6f : 0x7f);
        byte(g, 0x83 | a << 3);
        word(g, (uint64_t)(int64_t)(16 * (int)stalk_gen_pick(g, 100) - 800), 4);
        break;
    case 2: /* movq xmm, rax */
        byte(g, 0x66);
        byte(g, 0x48);
        byte(g, 0x0f);
        byte(g, stalk_gen_pick(g, 2) ? 0x6e : 0x7e);
        byte(g, 0xc0 | a << 3 | (stalk_gen_pick(g, 2) ? 0 : 6));
        break;
    default:
        byte(g, 0x66);
        byte(g, 0x0f);
        byte(g, opcodes[stalk_gen_pick(g, 8)]);
        byte(g, 0xc0 | a << 3 | b);
        break;
    }
}

static void plain(struct stalk_gen *g) {
    bool wide = stalk_gen_pick(g, 2);
    switch (stalk_gen_pick(g, 16)) {
    case 0:
    case 1:
    case 2: /* add or adc sbb and sub xor cmp, both directions, 8 and 32/64 bits */
        one_byte(g, (uint8_t)(stalk_gen_pick(g, 8) * 8 + stalk_gen_pick(g, 4)), reg(g), wide, 0);
        break;
    case 3:
        one_byte(g, stalk_gen_pick(g, 2) ? 0x8b : 0x89, reg(g), wide, 0);
        break;
    case 4: /* the same with immediates */
        one_byte(g, 0x83, stalk_gen_pick(g, 8), wide, 1);
        break;
    case 5:
        one_byte(g, 0x81, stalk_gen_pick(g, 8), wide, 4);
        break;
    case 6: /* rol ror rcl rcr shl shr sar by a constant, by one, by cl */
        one_byte(g, 0xc1, stalk_gen_pick(g, 2) ? 4 : 5, wide, 1);
        break;
    case 7:
        one_byte(g, stalk_gen_pick(g, 2) ? 0xd1 : 0xd3, stalk_gen_pick(g, 8), wide, 0);
        break;
    case 8: /* not neg mul imul, inc dec */
        if (stalk_gen_pick(g, 2))
            one_byte(g, 0xf7, 2 + stalk_gen_pick(g, 4), wide, 0);
        else
            one_byte(g, 0xff, stalk_gen_pick(g, 2), wide, 0);
        break;
    case 9:
        two_bytes(g, (uint8_t)(0x40 | stalk_gen_pick(g, 16)), stalk_gen_pick(g, 4), wide, 0); /* cmov */
        break;
    case 10:
        two_bytes(g, (uint8_t)(0x90 | stalk_gen_pick(g, 16)), stalk_gen_pick(g, 4), false, 0); /* set */
        break;
    case 11: /* movzx, movsx, imul, bsf, bsr, xadd, cmpxchg */
    {
        static const uint8_t list[] = {0xb6, 0xb7, 0xbe, 0xbf, 0xaf, 0xbc, 0xbd, 0xc1, 0xb1};
        two_bytes(g, list[stalk_gen_pick(g, sizeof list)], stalk_gen_pick(g, 4), wide, 0);
        break;
    }
    case 12: /* lea, of rip too */
        with_operand(g, (const uint8_t[]){0x8d}, 1, reg(g), 1 + stalk_gen_pick(g, 3), wide, 0);
        break;
    case 13: { /* push and pop */
        unsigned a = reg(g), b = reg(g);
        byte(g, 0x40 | a >> 3);
        byte(g, 0x50 | (a & 7));
        byte(g, 0x40 | b >> 3);
        byte(g, 0x58 | (b & 7));
        break;
    }
    case 14: {
        static const uint8_t list[] = {0xf8, 0xf9, 0xf5, 0x9f, 0x9e, 0x98, 0x99};
        byte(g, list[stalk_gen_pick(g, sizeof list)]); /* clc stc cmc lahf sahf cwde cdq */
        break;
    }
    default:
        vector(g);
        break;
    }
}

/* ---- ends of blocks ---- */

static void rel32_here(struct stalk_gen *g, size_t at) {
    int32_t distance = (int32_t)(g->used - (at + 4));
    memcpy(g->code + at, &distance, 4);
}

static void some(struct stalk_gen *g, unsigned most) {
    for (unsigned n = stalk_gen_pick(g, most + 1); n; n--)
        plain(g);
}

/* lea r11, [rip + x], filled in later: where x is. */
static size_t lea_r11(struct stalk_gen *g) {
    byte(g, 0x4c);
    byte(g, 0x8d);
    byte(g, 0x1d);
    word(g, 0, 4);
    return g->used - 4;
}

static void call_leaf(struct stalk_gen *g) {
    size_t leaf = g->leaves[stalk_gen_pick(g, g->leaf_count)];
    uint64_t address = (uint64_t)g->code + leaf;
    switch (stalk_gen_pick(g, 4)) {
    case 0: /* call rel32 */
        byte(g, 0xe8);
        word(g, leaf - (g->used + 4), 4);
        break;
    case 1: /* mov r10, leaf; call r10 */
        byte(g, 0x49);
        byte(g, 0xba);
        word(g, address, 8);
        byte(g, 0x41);
        byte(g, 0xff);
        byte(g, 0xd2);
        break;
    case 2: /* call [rip + table] */
        if (g->table_used == g->table_size)
            return;
        g->table[g->table_used] = address;
        byte(g, 0xff);
        byte(g, 0x15);
        word(g, (uint64_t)&g->table[g->table_used++] - ((uint64_t)g->code + g->used + 4), 4);
        break;
    default: /* mov rcx, leaf; push rcx; call [rsp]; pop rcx */
        byte(g, 0x48);
        byte(g, 0xb9);
        word(g, address, 8);
        byte(g, 0x51);
        byte(g, 0xff);
        byte(g, 0x14);
        byte(g, 0x24);
        byte(g, 0x59);
        break;
    }
    g->blocks++;
}

/* A branch to a little further on. */
static void skip(struct stalk_gen *g) {
    size_t at;
    switch (stalk_gen_pick(g, 7)) {
    case 0: /* jmp rel32 over something that is no code */
        byte(g, 0xe9);
        word(g, 0, 4);
        at = g->used - 4;
        word(g, stalk_gen_random(g), 5);
        rel32_here(g, at);
        break;
    case 1: /* loop, loope, loopne, jrcxz */
        byte(g, 0xe0 | stalk_gen_pick(g, 4));
        byte(g, 0);
        at = g->used;
        some(g, 2);
        g->code[at - 1] = (uint8_t)(g->used - at);
        break;
    case 2: /* jmp r11 */
        at = lea_r11(g);
        byte(g, 0x41);
        byte(g, 0xff);
        byte(g, 0xe3);
        word(g, stalk_gen_random(g), 3);
        rel32_here(g, at);
        break;
    case 3: /* push r11; ret */
        at = lea_r11(g);
        byte(g, 0x41);
        byte(g, 0x53);
        byte(g, 0xc3);
        rel32_here(g, at);
        break;
    case 4: /* call 1f; 1: pop r9 */
        byte(g, 0xe8);
        word(g, 0, 4);
        byte(g, 0x41);
        byte(g, 0x59);
        break;
    case 5: /* jmp [rip + table] */
        if (g->table_used == g->table_size)
            return;
        byte(g, 0xff);
        byte(g, 0x25);
        word(g, (uint64_t)&g->table[g->table_used] - ((uint64_t)g->code + g->used + 4), 4);
        word(g, stalk_gen_random(g), stalk_gen_pick(g, 4));
        g->table[g->table_used++] = (uint64_t)g->code + g->used;
        break;
    default: /* jcc, near or short */
        if (stalk_gen_pick(g, 2)) {
            byte(g, 0x0f);
            byte(g, 0x80 | stalk_gen_pick(g, 16));
            word(g, 0, 4);
            at = g->used - 4;
            some(g, 4);
            rel32_here(g, at);
        } else {
            byte(g, 0x70 | stalk_gen_pick(g, 16));
            byte(g, 0);
            at = g->used;
            some(g, 4);
            g->code[at - 1] = (uint8_t)(g->used - at);
        }
        break;
    }
    g->blocks++;
}

/* mov r15d, n; 1: ...; dec r15d; jnz 1b */
static void repeat(struct stalk_gen *g) {
    byte(g, 0x41);
    byte(g, 0xbf);
    word(g, 1 + stalk_gen_pick(g, 5), 4);
    size_t start = g->used;
    some(g, 3);
    if (stalk_gen_pick(g, 2))
        call_leaf(g);
    byte(g, 0x41);
    byte(g, 0xff);
    byte(g, 0xcf);
    byte(g, 0x0f);
    byte(g, 0x85);
    word(g, start - (g->used + 4), 4);
    g->blocks++;
}

void stalk_gen_leaves(struct stalk_gen *g) {
    g->leaf_count = 0;
    for (unsigned i = 0; i < sizeof g->leaves / sizeof *g->leaves; i++) {
        g->leaves[g->leaf_count] = g->used;
        for (unsigned n = stalk_gen_pick(g, 6); n; n--)
            plain(g);
        byte(g, 0xc3);
        g->leaf_count++;
        g->blocks++;
    }
}

size_t stalk_gen_function(struct stalk_gen *g, unsigned blocks) {
    while (g->used % 16)
        byte(g, 0x90);
    size_t start = g->used;
    for (unsigned goal = g->blocks + blocks; g->blocks < goal;) {
        some(g, 6);
        unsigned kind = stalk_gen_pick(g, 10);
        if (kind < 6)
            skip(g);
        else if (kind < 9)
            call_leaf(g);
        else
            repeat(g);
    }
    byte(g, 0xc3);
    g->blocks++;
    return start;
}

void stalk_gen_state(struct stalk_gen *g, struct stalk_state *state, uint64_t data, uint64_t stack) {
    enum { FLAGS = 16, LEGACY_ONE = 160, LEGACY_END = 416 }; /* of fxsave */
    for (unsigned i = 0; i < FLAGS; i++)
        state->words[i] = stalk_gen_random(g) << 16 ^ stalk_gen_random(g);
    state->words[RCX] &= 0xff;
    state->words[RBX] = data;
    state->words[RSP] = stack;
    state->words[FLAGS] = 0x202 | (stalk_gen_random(g) & 0x8d5);
    memset(state->more, 0, sizeof state->more);
    state->more[0] = 0x7f;
    state->more[1] = 0x03;
    state->more[24] = 0x80;
    state->more[25] = 0x1f;
    for (unsigned i = LEGACY_ONE; i < LEGACY_END; i++)
        state->more[i] = (uint8_t)stalk_gen_random(g);
}
