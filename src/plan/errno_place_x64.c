/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the code of __errno_location, x86_64: a few moves and additions of the thread pointer, a constant, and a word
 * of the global offset table. See errno_place.h.
 *
 *     glibc   mov errno@gottpoff(%rip), %rax; add %fs:0, %rax; ret
 *     static  mov $-72, %rax; add %fs:0, %rax; ret
 *     musl    mov %fs:0, %rax; add $52, %rax; ret */
#include "isa/x64/decode.h"
#include "plan/errno_place.h"

enum { INSTRUCTIONS = 8 };

/* A number, and how many times the thread pointer is in it. */
struct value {
    int64_t number;
    unsigned pointers;
};

struct state {
    struct value registers[16];
    ct_errno_reader *read;
    void *arg;
};

static unsigned reg_of(const struct ct_x64_insn *i) {
    return (i->modrm >> 3 & 7) | (i->rex & 4 ? 8u : 0);
}
static unsigned rm_of(const struct ct_x64_insn *i) {
    return (i->modrm & 7) | (i->rex & 1 ? 8u : 0);
}

/* The memory operand's value: the thread pointer itself at %fs:0, or a word of the module's data. */
static bool load(const struct state *s, const struct ct_x64_insn *i, uint64_t address, struct value *out) {
    struct ct_x64_mem mem;
    uint64_t word;
    if (!ct_x64_memory(i, &mem) || mem.index != CT_X64_NO_REG)
        return false;
    if (i->prefixes & CT_X64_SEG_FS) {
        *out = (struct value){0, 1};
        return mem.base == CT_X64_NO_REG && mem.disp == 0;
    }
    if (!i->rip_relative || !s->read(s->arg, ct_x64_rip_address(i, address), &word))
        return false;
    *out = (struct value){(int64_t)word, 0};
    return true;
}

static bool apply_lea(struct state *s, const struct ct_x64_insn *i) {
    struct ct_x64_mem mem;
    if (!ct_x64_memory(i, &mem) || mem.index != CT_X64_NO_REG || mem.base > CT_X64_R15)
        return false;
    s->registers[reg_of(i)] = s->registers[mem.base];
    s->registers[reg_of(i)].number += mem.disp;
    return true;
}

/* Applies an instruction of 64 bits. Returns false if it is another one. */
static bool apply(struct state *s, const struct ct_x64_insn *i, uint64_t address) {
    struct value value;
    bool in_register = i->modrm_offset && i->modrm >> 6 == 3, first = (i->modrm >> 3 & 7) == 0;
    if (i->map || i->encoding || !(i->rex & 8))
        return false;
    switch (i->opcode) {
    case 0x8b: /* mov memory, register */
        return !in_register && load(s, i, address, &s->registers[reg_of(i)]);
    case 0x03: /* add memory, register */
        if (in_register || !load(s, i, address, &value))
            return false;
        s->registers[reg_of(i)].number += value.number;
        s->registers[reg_of(i)].pointers += value.pointers;
        return true;
    case 0xc7: /* mov constant, register */
        s->registers[rm_of(i)] = (struct value){i->imm, 0};
        return in_register && first;
    case 0x81: /* add constant, register */
    case 0x83:
        s->registers[rm_of(i)].number += i->imm;
        return in_register && first;
    case 0x05:
        s->registers[CT_X64_RAX].number += i->imm;
        return true;
    case 0x8d:
        return apply_lea(s, i);
    default:
        return false;
    }
}

/* endbr64 and what makes a frame change nothing here. */
static bool is_frame(const struct ct_x64_insn *i, const uint8_t *code) {
    bool moves_sp = i->length == 3 && code[0] == 0x48 && code[1] == 0x89 && code[2] == 0xe5;
    bool landing = i->length == 4 && code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa;
    return moves_sp || landing || (i->length == 1 && (*code == 0x55 || *code == 0x5d || *code == 0xc9));
}

int64_t ct_errno_follow(const uint8_t *code, size_t size, uint64_t address, ct_errno_reader *read, void *arg) {
    struct state s = {.read = read, .arg = arg};
    struct ct_x64_insn i;
    size_t at = 0;
    for (int n = 0; n < INSTRUCTIONS && !ct_x64_decode(code + at, size - at, &i); n++, at += i.length) {
        if (i.length == 1 && code[at] == 0xc3)
            return s.registers[CT_X64_RAX].pointers == 1 ? s.registers[CT_X64_RAX].number : 0;
        if (!is_frame(&i, code + at) && !apply(&s, &i, address + at))
            return 0;
    }
    return 0;
}
