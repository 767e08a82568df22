/* SPDX-License-Identifier: Apache-2.0 */
/* The forms that relocate_exec_test.c runs: data operands, branches, calls, and small programs with loops inside. */
#include "relocate_forms.h"

#include <signal.h>
#include <string.h>

#include "isa/x64/decode.h"

/* ---- random numbers: splitmix64 ---- */

static uint64_t random_state;

void random_seed(uint64_t seed) {
    random_state = seed;
}

uint64_t random_next(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint64_t random_below(uint64_t n) {
    return random_next() % n;
}

/* ---- writing code ---- */

static void put(struct snippet *s, const void *bytes, size_t n) {
    memcpy(s->code + s->size, bytes, n);
    s->size += n;
}

static void put1(struct snippet *s, unsigned byte) {
    s->code[s->size++] = (uint8_t)byte;
}

static void put4(struct snippet *s, uint64_t v) {
    put(s, &v, 4);
}

static uint64_t here(const struct snippet *s) {
    return s->address + s->size;
}

static void put_word(uint8_t *memory, uint64_t base, uint64_t address, uint64_t value) {
    memcpy(memory + (address - base), &value, sizeof value);
}

/* An operand in the middle of the data region. */
static uint64_t operand_address(const struct snippet *s) {
    uint64_t offset = DATA_SIZE / 2 + random_below(512);
    return s->place->data + (random_below(8) ? offset & ~63ull : offset);
}

/* Decodes what is at `start`, cuts the snippet after it and points its RIP-relative operand at `address`. */
static bool finish_operand(struct snippet *s, size_t start, uint64_t address) {
    struct ct_x64_insn insn;
    if (ct_x64_decode(s->code + start, s->size - start, &insn) || !insn.rip_relative)
        return false;
    s->size = start + insn.length;
    uint32_t disp = (uint32_t)(address - here(s));
    s->opcode = 1u << 16 | insn.encoding << 12 | (insn.map & 15u) << 8 | insn.opcode;
    memcpy(s->code + start + insn.disp_offset, &disp, sizeof disp);
    return true;
}

/* ---- data operands ---- */

enum { DIVIDES = 1, COMPARES = 2, BITS = 4, VECTOR = 8, CONTROL = 16 };

struct form {
    const char *name;
    uint8_t prefix[3]; /* zero-terminated */
    uint8_t opcode[6]; /* count first */
    int8_t reg;        /* modrm.reg, -1 any */
    uint8_t traits;
};

static const struct form forms[] = {
    {"mov r, m", {0}, {1, 0x8b}, -1, 0},
    {"mov r16, m", {0x66}, {1, 0x8b}, -1, 0},
    {"mov r8, m", {0}, {1, 0x8a}, -1, 0},
    {"mov m, r", {0}, {1, 0x89}, -1, 0},
    {"mov m, r8", {0}, {1, 0x88}, -1, 0},
    {"mov m, imm32", {0}, {1, 0xc7}, 0, 0},
    {"mov m, imm16", {0x66}, {1, 0xc7}, 0, 0},
    {"mov m, imm8", {0}, {1, 0xc6}, 0, 0},
    {"movzx r, m8", {0}, {2, 0x0f, 0xb6}, -1, 0},
    {"movzx r, m16", {0}, {2, 0x0f, 0xb7}, -1, 0},
    {"movsx r16, m8", {0x66}, {2, 0x0f, 0xbe}, -1, 0},
    {"movsx r, m16", {0}, {2, 0x0f, 0xbf}, -1, 0},
    {"movsxd r, m", {0}, {1, 0x63}, -1, 0},
    {"movbe r, m", {0}, {3, 0x0f, 0x38, 0xf0}, -1, 0},
    {"lea r, m", {0}, {1, 0x8d}, -1, 0},
    {"lea r16, m", {0x66}, {1, 0x8d}, -1, 0},
    {"add r, m", {0}, {1, 0x03}, -1, 0},
    {"add m, r", {0}, {1, 0x01}, -1, 0},
    {"lock add m, r", {0xf0}, {1, 0x01}, -1, 0},
    {"sbb r8, m", {0}, {1, 0x1a}, -1, 0},
    {"cmp r, m", {0}, {1, 0x3b}, -1, 0},
    {"cmp m, imm8", {0}, {1, 0x83}, 7, 0},
    {"cmp m, imm32", {0}, {1, 0x81}, 7, 0},
    {"adc m8, imm8", {0}, {1, 0x80}, 2, 0},
    {"test m, imm32", {0}, {1, 0xf7}, 0, 0},
    {"test m, r", {0}, {1, 0x85}, -1, 0},
    {"xchg m, r", {0}, {1, 0x87}, -1, 0},
    {"xchg m, r8", {0}, {1, 0x86}, -1, 0},
    {"inc m", {0}, {1, 0xff}, 0, 0},
    {"neg m", {0}, {1, 0xf7}, 3, 0},
    {"mul m", {0}, {1, 0xf7}, 4, 0},
    {"imul m", {0}, {1, 0xf7}, 5, 0},
    {"mul m8", {0}, {1, 0xf6}, 4, 0},
    {"div m", {0}, {1, 0xf7}, 6, DIVIDES},
    {"idiv m", {0}, {1, 0xf7}, 7, DIVIDES},
    {"idiv m8", {0}, {1, 0xf6}, 7, DIVIDES},
    {"imul r, m", {0}, {2, 0x0f, 0xaf}, -1, 0},
    {"imul r, m, imm32", {0}, {1, 0x69}, -1, 0},
    {"imul r, m, imm8", {0}, {1, 0x6b}, -1, 0},
    {"shl m, cl", {0}, {1, 0xd3}, 4, 0},
    {"rcr m, imm8", {0}, {1, 0xc1}, 3, 0},
    {"shld m, r, cl", {0}, {2, 0x0f, 0xa5}, -1, 0},
    {"shrd m, r, imm8", {0}, {2, 0x0f, 0xac}, -1, 0},
    {"bts m, r", {0}, {2, 0x0f, 0xab}, -1, BITS},
    {"bt m, imm8", {0}, {2, 0x0f, 0xba}, 4, 0},
    {"bsf r, m", {0}, {2, 0x0f, 0xbc}, -1, 0},
    {"popcnt r, m", {0xf3}, {2, 0x0f, 0xb8}, -1, 0},
    {"crc32 r, m", {0xf2}, {3, 0x0f, 0x38, 0xf1}, -1, 0},
    {"setc m", {0}, {2, 0x0f, 0x92}, 0, 0},
    {"cmovz r, m", {0}, {2, 0x0f, 0x44}, -1, 0},
    {"cmovs r, m", {0}, {2, 0x0f, 0x48}, -1, 0},
    {"lock xadd m, r", {0xf0}, {2, 0x0f, 0xc1}, -1, 0},
    {"lock cmpxchg m, r", {0xf0}, {2, 0x0f, 0xb1}, -1, COMPARES},
    {"cmpxchg m8, r8", {0}, {2, 0x0f, 0xb0}, -1, COMPARES},
    {"lock cmpxchg8b/16b m", {0xf0}, {2, 0x0f, 0xc7}, 1, COMPARES},
    {"push m", {0}, {1, 0xff}, 6, 0},
    {"push m16", {0x66}, {1, 0xff}, 6, 0},
    {"pop m", {0}, {1, 0x8f}, 0, 0},
    {"pop m16", {0x66}, {1, 0x8f}, 0, 0},
    {"nop m", {0}, {2, 0x0f, 0x1f}, 0, 0},
    {"prefetcht0 m", {0}, {2, 0x0f, 0x18}, 1, 0},
    {"fld m80", {0}, {1, 0xdb}, 5, 0},
    {"fstp m64", {0}, {1, 0xdd}, 3, 0},
    {"movups x, m", {0}, {2, 0x0f, 0x10}, -1, 0},
    {"movaps m, x", {0}, {2, 0x0f, 0x29}, -1, 0},
    {"addsd x, m", {0xf2}, {2, 0x0f, 0x58}, -1, 0},
    {"ucomiss x, m", {0}, {2, 0x0f, 0x2e}, -1, 0},
    {"cvttsd2si r, m", {0xf2}, {2, 0x0f, 0x2c}, -1, 0},
    {"cvtsi2ss x, m", {0xf3}, {2, 0x0f, 0x2a}, -1, 0},
    {"pshufd x, m, imm8", {0x66}, {2, 0x0f, 0x70}, -1, 0},
    {"pshufb x, m", {0x66}, {3, 0x0f, 0x38, 0x00}, -1, 0},
    {"pcmpestri x, m, imm8", {0x66}, {3, 0x0f, 0x3a, 0x61}, -1, 0},
    {"movq mm, m", {0}, {2, 0x0f, 0x6f}, -1, 0},
    {"ldmxcsr m", {0}, {2, 0x0f, 0xae}, 2, CONTROL},
    {"stmxcsr m", {0}, {2, 0x0f, 0xae}, 3, 0},
    /* VEX: the vvvv and R fields are made random */
    {"vmovups y, m", {0}, {3, 0xc5, 0xfc, 0x10}, -1, VECTOR},
    {"vaddps y, y, m", {0}, {3, 0xc5, 0xfc, 0x58}, -1, VECTOR},
    {"vpaddd x, x, m", {0}, {4, 0xc4, 0xe1, 0x79, 0xfe}, -1, VECTOR},
    {"vpblendd y, y, m, imm8", {0}, {4, 0xc4, 0xe3, 0x7d, 0x02}, -1, VECTOR},
    {"vbroadcastss y, m", {0}, {4, 0xc4, 0xe2, 0x7d, 0x18}, -1, VECTOR},
    {"vpmaskmovq m, y, y", {0}, {4, 0xc4, 0xe2, 0xfd, 0x8e}, -1, VECTOR},
    {"vpcmpistri x, m, imm8", {0}, {4, 0xc4, 0xe3, 0x79, 0x63}, -1, VECTOR},
    {"andn r, r, m", {0}, {4, 0xc4, 0xe2, 0xf8, 0xf2}, -1, VECTOR},
    {"mulx r, r, m", {0}, {4, 0xc4, 0xe2, 0xfb, 0xf6}, -1, VECTOR},
    {"bextr r, m, r", {0}, {4, 0xc4, 0xe2, 0x78, 0xf7}, -1, VECTOR},
    {"blsr r, m", {0}, {4, 0xc4, 0xe2, 0xf8, 0xf3}, 1, VECTOR},
    {"rorx r, m, imm8", {0}, {4, 0xc4, 0xe3, 0xfb, 0xf0}, -1, VECTOR},
    {"kmovq k, m", {0}, {4, 0xc4, 0xe1, 0xf8, 0x90}, -1, VECTOR},
    /* EVEX: also the mask */
    {"vmovdqu64 z, m", {0}, {5, 0x62, 0xf1, 0xfe, 0x48, 0x6f}, -1, VECTOR},
    {"vmovdqu8 m, z", {0}, {5, 0x62, 0xf1, 0x7f, 0x48, 0x7f}, -1, VECTOR},
    {"vpaddd z, z, m", {0}, {5, 0x62, 0xf1, 0x7d, 0x48, 0xfe}, -1, VECTOR},
    {"vpaddd z, z, m32 bcst", {0}, {5, 0x62, 0xf1, 0x7d, 0x58, 0xfe}, -1, VECTOR},
    {"vpternlogd y, y, m, imm8", {0}, {5, 0x62, 0xf3, 0x7d, 0x28, 0x25}, -1, VECTOR},
    {"vpcmpud k, z, m, imm8", {0}, {5, 0x62, 0xf3, 0x7d, 0x48, 0x1e}, -1, VECTOR},
    {"vcvtsd2usi r, m", {0}, {5, 0x62, 0xf1, 0x7f, 0x08, 0x79}, -1, VECTOR},
};

/* Random registers in the fields of a VEX or EVEX prefix; 0xf8 style "no register" fields fault when changed, and those
 * snippets are discarded. */
static void randomize_vector_fields(uint8_t *op) {
    if (op[0] == 0xc5) {
        op[1] ^= (uint8_t)(random_next() & 0x80);
        if (random_below(2))
            op[1] ^= (uint8_t)(random_next() & 0x78);
        return;
    }
    op[1] ^= (uint8_t)(random_next() & (op[0] == 0x62 ? 0xf0 : 0xe0));
    if (random_below(2))
        op[2] ^= (uint8_t)(random_next() & 0x78);
    if (op[0] == 0x62)
        op[3] ^= (uint8_t)(random_next() & 0x87);
}

static void prepare_operand(struct snippet *s, uint8_t traits, uint64_t address) {
    uint64_t *gpr = s->in.gpr, offset = address - s->place->data;
    if (traits & DIVIDES) {
        gpr[CT_X64_RDX] = 0;
        gpr[CT_X64_RAX] = random_below(2) ? gpr[CT_X64_RAX] >> 34 : random_below(120);
        initial_data[offset] |= 1;
    }
    if (traits & COMPARES && random_below(2)) {
        memcpy(&gpr[CT_X64_RAX], initial_data + offset, 8);
        memcpy(&gpr[CT_X64_RDX], initial_data + offset + (random_below(2) ? 4 : 8), 8);
    }
    if (traits & CONTROL)
        memset(initial_data + offset + 2, 0, 2);
    if (traits & BITS)
        for (unsigned i = 0; i < 16; i++)
            if (i != CT_X64_RSP)
                gpr[i] &= 0x7fff;
}

/* False when the random fields make no instruction. */
static bool put_form(struct snippet *s, const struct form *form, bool avoid_stack) {
    size_t start = s->size;
    uint64_t address = operand_address(s);
    unsigned choice = (unsigned)random_below(40), reg = form->reg < 0 ? (unsigned)random_below(8) : (unsigned)form->reg;
    unsigned rex = (unsigned)random_below(16) | 0x40;
    if (form->reg < 0 && random_below(6) == 0) { /* rsp more often than others */
        reg = CT_X64_RSP;
        rex &= ~4u;
    }
    if (avoid_stack && form->reg < 0 && (reg == CT_X64_RSP || reg == CT_X64_RCX))
        reg = CT_X64_RAX;
    if (form->traits & BITS && reg == CT_X64_RSP) /* an index far from the data, perhaps into mapped memory */
        reg = CT_X64_RDX;
    s->name = form->name;
    s->discard = true;
    if (choice == 0)
        put1(s, 0x67);
    if (choice == 1 || choice == 2)
        put1(s, 0x65);
    if (choice == 3)
        put1(s, 0x3e);
    put(s, form->prefix, strlen((const char *)form->prefix));
    if (!(form->traits & VECTOR) && random_below(2) && !avoid_stack)
        put1(s, rex);
    size_t op = s->size;
    put(s, form->opcode + 1, form->opcode[0]);
    if (form->traits & VECTOR)
        randomize_vector_fields(s->code + op);
    put1(s, 0x05 | reg << 3);
    for (unsigned i = 0; i < 8; i++)
        put1(s, (unsigned)random_next());
    prepare_operand(s, form->traits, address);
    return finish_operand(s, start, choice == 1 || choice == 2 ? address - GS_BASE : address);
}

static void make_data(struct snippet *s) {
    while (!put_form(s, &forms[random_below(sizeof forms / sizeof *forms)], false))
        s->size = 0;
}

/* ---- any instruction with a RIP-relative operand ---- */

/* What would change the process itself, or is tested elsewhere. */
static bool dangerous(const struct ct_x64_insn *insn) {
    if (insn->encoding != CT_X64_LEGACY)
        return false;
    if (insn->kind != CT_INSN_OTHER && insn->kind != CT_INSN_NOP)
        return true;
    uint8_t op = insn->opcode, reg = insn->modrm >> 3 & 7;
    if (insn->map == 0)
        return op == 0x8e; /* loads of segment registers */
    if (insn->map != 1)
        return false;
    if ((op & 0xe7) == 0xa3 && reg == CT_X64_RSP && !(insn->rex & 4))
        return true; /* bt and its kind, with rsp as index */
    return op == 0xb2 || op == 0xb4 || op == 0xb5 || op == 0x00 || op == 0x01 || (op == 0xae && reg == 5) ||
           (op == 0xc7 && reg != 1);
}

static void put_random_opcode(struct snippet *s) {
    static const uint8_t mandatory[] = {0x66, 0xf2, 0xf3, 0xf0};
    unsigned kind = (unsigned)random_below(10);
    unsigned payload = (unsigned)random_next();
    if (kind < 6) {
        if (random_below(2))
            put1(s, mandatory[random_below(4)]);
        if (random_below(2))
            put1(s, 0x40 | (payload & 15));
        if (kind >= 2)
            put1(s, 0x0f);
        if (kind >= 4)
            put1(s, kind == 4 ? 0x38 : 0x3a);
    } else if (kind < 8) {
        put1(s, 0xc4);
        put1(s, (payload & 0xe0) | (1 + (unsigned)random_below(3)));
        put1(s, random_below(2) ? payload >> 8 & 0xff : (payload >> 8 & 0x87) | 0x78);
    } else {
        put1(s, 0x62);
        put1(s, (payload & 0xf0) | (1 + (unsigned)random_below(3)));
        put1(s, (random_below(2) ? payload >> 8 & 0xff : (payload >> 8 & 0x87) | 0x78) | 4);
        put1(s, random_below(2) ? payload >> 16 & 0xff : (payload >> 16 & 0x70) | 8);
    }
    put1(s, (unsigned)random_next());
}

static void make_any(struct snippet *s) {
    struct ct_x64_insn insn;
    do {
        s->size = 0;
        put_random_opcode(s);
        put1(s, 0x05 | (unsigned)random_below(8) << 3);
        for (unsigned i = 0; i < 12; i++)
            put1(s, (unsigned)random_next());
    } while (ct_x64_decode(s->code, s->size, &insn) || !insn.rip_relative || dangerous(&insn));
    s->name = "any";
    s->discard = true;
    uint64_t address = operand_address(s);
    prepare_operand(s, random_below(2) ? BITS : random_below(2) ? DIVIDES : COMPARES, address);
    finish_operand(s, 0, address);
}

/* ---- branches ---- */

/* rcx values that loop and jrcxz distinguish, also in their 32-bit forms. */
static void choose_counter(struct snippet *s) {
    static const uint64_t values[] = {0, 1, 2, 0x100000000, 0x100000001, ~0ull};
    uint64_t choice = random_below(8);
    if (choice < 6)
        s->in.gpr[CT_X64_RCX] = values[choice];
}

/* The exit stubs that make_snippet puts around a snippet: 1 before it, 2 after it. */
static uint64_t local_exit(const struct snippet *s, size_t size, unsigned n) {
    return n == 1 ? s->address - 32 : s->address + size + 16;
}

static void put_short(struct snippet *s, unsigned opcode, unsigned n) {
    put1(s, opcode);
    put1(s, (unsigned)(local_exit(s, s->size + 1, n) - (here(s) + 1)));
}

static void make_short(struct snippet *s) {
    unsigned kind = (unsigned)random_below(24), n = 1 + (unsigned)random_below(2);
    static const uint8_t hints[] = {0x2e, 0x3e, 0xf2};
    s->name = "short branch";
    choose_counter(s);
    if (random_below(6) == 0)
        put1(s, hints[random_below(3)]);
    if (kind >= 16 && kind < 20 && random_below(2))
        put1(s, 0x67); /* counts in ecx */
    if (kind < 16)
        put_short(s, 0x70 | kind, n);
    else if (kind < 20)
        put_short(s, 0xe0 | (kind & 3), n);
    else
        put_short(s, 0xeb, n);
}

static uint64_t near_target(const struct snippet *s) {
    return exit_stub(random_below(2) ? s->place->code : s->place->near, 3 + (unsigned)random_below(4));
}

static void make_near(struct snippet *s) {
    unsigned kind = (unsigned)random_below(20);
    s->name = "near branch";
    if (random_below(8) == 0)
        put1(s, 0xf2);
    if (kind >= 16) {
        put1(s, 0xe9);
    } else {
        put1(s, 0x0f);
        put1(s, 0x80 | kind);
    }
    put4(s, near_target(s) - (here(s) + 4));
}

/* ---- calls and indirect jumps ---- */

/* Where a callee goes: to an exit, which sees its stack, or straight back. */
static uint64_t callee(const struct snippet *s) {
    uint64_t region = random_below(2) ? s->place->code : s->place->near;
    return random_below(3) ? near_target(s) : region + RET_STUB;
}

static void make_call(struct snippet *s) {
    s->name = "call";
    s->calls = true;
    if (random_below(4) == 0)
        put(s, "\x66\x66\x48", 3); /* as in calls of __tls_get_addr */
    put1(s, 0xe8);
    put4(s, callee(s) - (here(s) + 4));
}

/* The stack of `call rsp` and `jmp rsp` begins with code: jmp [rip+0]. */
static void put_code_on_stack(const struct snippet *s, uint64_t target) {
    uint64_t rsp = s->in.gpr[CT_X64_RSP];
    put_word(initial_stack, stack_base, rsp, 0x25ff);
    put_word(initial_stack, stack_base, rsp + 6, target);
}

static void put_indirect_register(struct snippet *s, unsigned operation, uint64_t target) {
    unsigned reg = random_below(5) ? (unsigned)random_below(16) : CT_X64_RSP;
    if (reg == CT_X64_RSP)
        put_code_on_stack(s, target);
    else
        s->in.gpr[reg] = target;
    if (reg >= 8)
        put1(s, 0x41);
    put1(s, 0xff);
    put1(s, 0xc0 | operation << 3 | (reg & 7));
}

static void put_indirect_rip(struct snippet *s, unsigned operation, uint64_t target) {
    size_t start = s->size;
    uint64_t address = operand_address(s);
    bool gs = random_below(4) == 0;
    put_word(initial_data, s->place->data, address, target);
    if (gs)
        put1(s, 0x65);
    if (random_below(4) == 0)
        put(s, "\x66\x48", 2);
    put1(s, 0xff);
    put1(s, 0x05 | operation << 3);
    put4(s, 0);
    finish_operand(s, start, gs ? address - GS_BASE : address);
}

/* [base + index*scale + disp], with rsp as base rather often. */
static void put_indirect_memory(struct snippet *s, unsigned operation, uint64_t target) {
    uint64_t *gpr = s->in.gpr;
    unsigned base = random_below(2) ? CT_X64_RSP : (unsigned)random_below(16), index = (unsigned)random_below(16);
    bool has_index = index != CT_X64_RSP && index != base && random_below(2), wide = random_below(2);
    unsigned scale = (unsigned)random_below(4);
    bool on_stack = base == CT_X64_RSP || random_below(3) == 0; /* also through another register */
    int disp = (int)random_below(16) * 8 - 32;
    if (base != CT_X64_RSP)
        gpr[base] = on_stack ? gpr[CT_X64_RSP] : s->place->data + DATA_SIZE / 2;
    if (has_index)
        gpr[index] = random_below(4);
    uint64_t address = gpr[base] + (has_index ? gpr[index] << scale : 0) + (uint64_t)(int64_t)disp;
    if (on_stack)
        put_word(initial_stack, stack_base, address, target);
    else
        put_word(initial_data, s->place->data, address, target);
    put1(s, 0x40 | (base >> 3) | (has_index ? index >> 3 << 1 : 0));
    put1(s, 0xff);
    put1(s, (wide ? 0x80 : 0x40) | operation << 3 | CT_X64_RSP);
    put1(s, scale << 6 | (has_index ? index & 7 : 4u) << 3 | (base & 7));
    if (wide)
        put4(s, (uint64_t)(int64_t)disp);
    else
        put1(s, (unsigned)disp & 0xff);
}

static void make_indirect(struct snippet *s) {
    bool call = random_below(2);
    unsigned operation = call ? 2 : 4, kind = (unsigned)random_below(4);
    uint64_t target = call ? callee(s) : near_target(s);
    s->name = call ? "call indirect" : "jmp indirect";
    s->calls = call;
    if (random_below(4) == 0)
        put1(s, random_below(2) ? 0x3e : 0xf2);
    if (kind == 0)
        put_indirect_register(s, operation, target);
    else if (kind == 1)
        put_indirect_rip(s, operation, target);
    else
        put_indirect_memory(s, operation, target);
}

/* ---- small programs ---- */

/* Instructions on registers: no rcx (it counts loops) and no rsp. */
static void put_register_operation(struct snippet *s) {
    static const uint8_t opcodes[] = {0x01, 0x29, 0x11, 0x19, 0x31, 0x21, 0x09, 0x39, 0x85, 0x89};
    static const uint8_t regs[] = {CT_X64_RAX, CT_X64_RDX, CT_X64_RBX, CT_X64_RBP, CT_X64_RSI, CT_X64_RDI};
    put1(s, random_below(2) ? 0x48 : 0x40);
    put1(s, opcodes[random_below(sizeof opcodes)]);
    put1(s, 0xc0u | regs[random_below(6)] << 3 | regs[random_below(6)]);
}

struct program {
    size_t start[16];
    unsigned count;
    size_t rel_at[16]; /* place of the displacement of a branch that is filled in later; 0: none */
    uint8_t rel_size[16];
    uint8_t target[16]; /* index of an instruction, or count + an exit */
};

/* A forward branch, or the one loop backward. */
static void put_inner_branch(struct snippet *s, struct program *p, unsigned i, bool backward) {
    unsigned kind = (unsigned)random_below(10);
    if (backward) {
        put1(s, 0xe0 | (unsigned)random_below(3));
    } else if (kind < 4) {
        put1(s, 0x70 | (unsigned)random_below(16));
    } else if (kind < 7) {
        put1(s, 0x0f);
        put1(s, 0x80 | (unsigned)random_below(16));
    } else {
        put1(s, kind == 7 ? 0xe3 : kind == 8 ? 0xeb : 0xe9);
    }
    bool wide = !backward && ((kind >= 4 && kind < 7) || kind == 9);
    p->rel_at[i] = s->size;
    p->rel_size[i] = wide ? 4 : 1;
    p->target[i] = (uint8_t)(backward ? random_below(i + 1) : i + 1 + random_below(p->count + 2 - i));
    put4(s, 0);
    s->size -= wide ? 0 : 3;
}

static void link_program(struct snippet *s, const struct program *p) {
    for (unsigned i = 0; i < p->count; i++) {
        if (!p->rel_at[i])
            continue;
        unsigned beyond = p->target[i] - p->count; /* 0 the end, 1 and 2 the exits around */
        uint64_t target = p->target[i] < p->count ? s->address + p->start[p->target[i]]
                          : beyond                ? local_exit(s, s->size, beyond)
                                                  : s->address + s->size;
        uint64_t rel = target - (s->address + p->rel_at[i] + p->rel_size[i]);
        memcpy(s->code + p->rel_at[i], &rel, p->rel_size[i]);
    }
}

static void make_program(struct snippet *s) {
    static const uint8_t in_programs[] = {0, 3, 5, 8, 14, 16, 17}; /* of the forms: none writes ch */
    struct program p = {.count = 2 + (unsigned)random_below(5)};   /* short branches reach all of it */
    unsigned loop_at = (unsigned)random_below(p.count);
    s->in.gpr[CT_X64_RCX] = 1 + random_below(5);
    for (unsigned i = 0; i < p.count; i++) {
        unsigned kind = (unsigned)random_below(8);
        p.start[i] = s->size;
        if (i == loop_at)
            put_inner_branch(s, &p, i, true);
        else if (kind < 3)
            put_inner_branch(s, &p, i, false);
        else if (kind < 4)
            put_form(s, &forms[in_programs[random_below(sizeof in_programs)]], true);
        else if (kind == 4)
            put(s, "\xf3\x0f\x1e\xfa", 4); /* endbr64 */
        else
            put_register_operation(s);
    }
    link_program(s, &p);
    s->name = "program";
    s->minimum = random_below(3) ? s->size : 1 + random_below(s->size);
}

static void make_syscall(struct snippet *s) {
    s->name = "syscall";
    s->in.gpr[CT_X64_RAX] = 39; /* getpid */
    s->no_step = true;          /* r11 takes the trap flag */
    put1(s, 0x0f);
    put1(s, 0x05);
}

/* ---- account ---- */

static struct { unsigned ran, illegal; } account[sizeof forms / sizeof *forms];
static uint8_t opcode_ran[1 << 16];

void note_run(const struct snippet *s, uint64_t signal) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (forms[i].name == s->name) {
            account[i].ran += signal == 0;
            account[i].illegal += signal == SIGILL;
        }
    }
    if (s->opcode && !signal)
        opcode_ran[s->opcode & 0xffff] = 1;
}

const char *never_ran(void) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!account[i].ran && (!(forms[i].traits & VECTOR) || !account[i].illegal))
            return forms[i].name;
    return NULL;
}

unsigned count_opcodes_run(void) {
    unsigned n = 0;
    for (size_t i = 0; i < sizeof opcode_ran; i++)
        n += opcode_ran[i];
    return n;
}

/* ---- all of them ---- */

void make_snippet(struct snippet *s) {
    static void (*const makers[])(struct snippet *) = {make_data,    make_data,   make_any,      make_short,
                                                       make_near,    make_call,   make_indirect, make_indirect,
                                                       make_program, make_program};
    s->address = s->place->code + 0x400 + random_below(0xe000);
    if (random_below(200) == 0)
        make_syscall(s);
    else
        makers[random_below(sizeof makers / sizeof *makers)](s);
    if (!s->minimum)
        s->minimum = s->size;
}
