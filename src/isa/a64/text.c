/* SPDX-License-Identifier: Apache-2.0 */
/* Text of instructions: general registers, numbers and addresses here, vectors in text_vector.c and text_sve.c. */
#include "isa/a64/text.h"

#include "isa/a64/text_tables.h"

#define bits ct_a64_bits

void ct_a64_put_char(struct ct_a64_writer *w, char c) {
    if (w->length + 1 < w->size)
        w->text[w->length++] = c;
}

void ct_a64_put_text(struct ct_a64_writer *w, const char *text) {
    while (*text)
        ct_a64_put_char(w, *text++);
}

static void put_number(struct ct_a64_writer *w, uint64_t value, unsigned base) {
    char digits[20];
    unsigned n = 0;
    do
        digits[n++] = "0123456789abcdef"[value % base];
    while (value /= base);
    while (n)
        ct_a64_put_char(w, digits[--n]);
}

void ct_a64_put_decimal(struct ct_a64_writer *w, int64_t value) {
    if (value < 0)
        ct_a64_put_char(w, '-');
    put_number(w, value < 0 ? -(uint64_t)value : (uint64_t)value, 10);
}

void ct_a64_put_hex(struct ct_a64_writer *w, uint64_t value) {
    ct_a64_put_text(w, "0x");
    put_number(w, value, 16);
}

static void put_immediate(struct ct_a64_writer *w, uint64_t value) {
    ct_a64_put_char(w, '#');
    ct_a64_put_hex(w, value);
}

static void put_amount(struct ct_a64_writer *w, int64_t value) {
    ct_a64_put_char(w, '#');
    ct_a64_put_decimal(w, value);
}

static int64_t sign_extend(uint64_t value, unsigned width) {
    return (int64_t)(value << (64 - width)) >> (64 - width);
}

/* ---- registers ---- */

void ct_a64_put_general(struct ct_a64_writer *w, unsigned number, bool wide, bool sp) {
    if (number == 31 && sp)
        ct_a64_put_text(w, wide ? "sp" : "wsp");
    else if (number == 31)
        ct_a64_put_text(w, wide ? "xzr" : "wzr");
    else {
        ct_a64_put_char(w, wide ? 'x' : 'w');
        ct_a64_put_decimal(w, number);
    }
}

static void put_reg(struct ct_a64_writer *w, unsigned a, unsigned b) {
    unsigned width = a >> 5, number = bits(w->word, a & 31, 5);
    bool wide = width == 3 ? bits(w->word, 22, 2) == 3 : width ? width == 2 : w->word >> 31;
    if (b & 2) /* the second of a pair */
        number = (number + 1) & 31;
    ct_a64_put_general(w, number, wide, b & 1);
}

static const char extends[8][5] = {"uxtb", "uxth", "uxtw", "uxtx", "sxtb", "sxth", "sxtw", "sxtx"};

/* A register that is extended and shifted. Beside sp the extension that changes nothing is written as lsl, or not at
 * all. */
static void put_extended(struct ct_a64_writer *w) {
    unsigned option = bits(w->word, 13, 3), amount = bits(w->word, 10, 3), sf = w->word >> 31;
    bool sp = ct_a64_rn(w->word) == 31 || (ct_a64_rt(w->word) == 31 && !bits(w->word, 29, 1));
    ct_a64_put_general(w, bits(w->word, 16, 5), sf && (option & 3) == 3, false);
    bool plain = sp && option == (sf ? 3 : 2);
    if (plain && !amount)
        return;
    ct_a64_put_text(w, ", ");
    ct_a64_put_text(w, plain ? "lsl" : extends[option]);
    if (amount) {
        ct_a64_put_char(w, ' ');
        put_amount(w, amount);
    }
}

static void put_shift(struct ct_a64_writer *w) {
    static const char names[4][4] = {"lsl", "lsr", "asr", "ror"};
    unsigned type = bits(w->word, 22, 2), amount = bits(w->word, 10, 6);
    if (!type && !amount)
        return;
    ct_a64_put_text(w, ", ");
    ct_a64_put_text(w, names[type]);
    ct_a64_put_char(w, ' ');
    put_amount(w, amount);
}

/* ---- numbers ---- */

static const char conditions[16][3] = {"eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc",
                                       "hi", "ls", "ge", "lt", "gt", "le", "al", "nv"};

static void put_limm(struct ct_a64_writer *w) {
    uint64_t value = 0;
    ct_a64_bitmask(w->word, &value);
    put_immediate(w, value);
}

/* An immediate and how far it is shifted. */
static void put_shifted(struct ct_a64_writer *w, unsigned value, unsigned shift) {
    put_immediate(w, value);
    if (shift) {
        ct_a64_put_text(w, ", lsl ");
        put_amount(w, shift);
    }
}

static uint64_t wide_value(uint32_t word, bool inverted) {
    uint64_t value = (uint64_t)bits(word, 5, 16) << (16 * bits(word, 21, 2));
    if (inverted)
        value = ~value;
    return word >> 31 ? value : (uint32_t)value;
}

static void put_field(struct ct_a64_writer *w, unsigned operand, unsigned a, unsigned width) {
    uint64_t value = (uint64_t)bits(w->word, a & 31, width) << (a >> 5);
    if (operand == T_HEX)
        put_immediate(w, value);
    else if (operand == T_NUMBER)
        ct_a64_put_decimal(w, (int64_t)value);
    else
        put_amount(w, operand == T_SIGNED ? sign_extend(value, width) : (int64_t)value);
}

/* Numbers that aliases of the bit field moves have. */
static void put_bit_field(struct ct_a64_writer *w, unsigned operand) {
    unsigned size = w->word >> 31 ? 64 : 32, immr = bits(w->word, 16, 6), imms = bits(w->word, 10, 6);
    switch (operand) {
    case T_LSL:
        put_amount(w, size - 1 - imms);
        break;
    case T_WIDTH:
        put_amount(w, imms - immr + 1);
        break;
    case T_BFI:
        put_amount(w, size - immr);
        break;
    default:
        put_amount(w, imms + 1);
        break;
    }
}

/* ---- memory ---- */

static void put_offset(struct ct_a64_writer *w, int64_t offset, unsigned mode) {
    bool keyed = (w->word & 0xff200400) == 0xf8200400; /* ldraa, ldrab: no #0 */
    ct_a64_put_general(w, ct_a64_rn(w->word), true, true);
    if (mode == M_AFTER)
        ct_a64_put_char(w, ']');
    if (offset || mode == M_AFTER || (mode == M_BEFORE && !keyed)) {
        ct_a64_put_text(w, ", ");
        put_amount(w, offset);
    }
    if (mode != M_AFTER)
        ct_a64_put_char(w, ']');
    if (mode == M_BEFORE)
        ct_a64_put_char(w, '!');
}

/* log2 of the bytes that a load or store of one register moves. */
static unsigned access_scale(uint32_t word) {
    unsigned vector = bits(word, 26, 1);
    return word >> 30 | (vector && bits(word, 23, 1) ? 4 : 0);
}

static void put_indexed(struct ct_a64_writer *w) {
    unsigned option = bits(w->word, 13, 3), scaled = bits(w->word, 12, 1);
    ct_a64_put_general(w, ct_a64_rn(w->word), true, true);
    ct_a64_put_text(w, ", ");
    ct_a64_put_general(w, bits(w->word, 16, 5), option & 1, false);
    if (option != 3 || scaled) {
        ct_a64_put_text(w, ", ");
        ct_a64_put_text(w, option == 3 ? "lsl" : extends[option]);
    }
    if (scaled) {
        ct_a64_put_char(w, ' ');
        put_amount(w, access_scale(w->word));
    }
    ct_a64_put_char(w, ']');
}

static void put_after(struct ct_a64_writer *w, unsigned registers, bool whole) {
    unsigned rm = bits(w->word, 16, 5);
    if (rm == 31) {
        put_offset(w, ct_a64_structure_bytes(w->word, registers, whole), M_AFTER);
        return;
    }
    ct_a64_put_general(w, ct_a64_rn(w->word), true, true);
    ct_a64_put_text(w, "], ");
    ct_a64_put_general(w, rm, true, false);
}

static void put_memory(struct ct_a64_writer *w, unsigned form, unsigned mode) {
    uint32_t word = w->word;
    int64_t signed7 = sign_extend(bits(word, 15, 7), 7), signed9 = sign_extend(bits(word, 12, 9), 9);
    unsigned pair = 2 + (bits(word, 26, 1) ? word >> 30 : word >> 31);
    ct_a64_put_char(w, '[');
    switch (form) {
    case M_UNSIGNED:
        put_offset(w, (int64_t)bits(word, 10, 12) << access_scale(word), mode);
        break;
    case M_SIGNED:
        put_offset(w, signed9, mode);
        break;
    case M_REGISTER:
        put_indexed(w);
        break;
    case M_PAIR:
        put_offset(w, signed7 * (1 << pair), mode);
        break;
    case M_PAIR_TAGS:
        put_offset(w, signed7 * 16, mode);
        break;
    case M_TAGS:
        put_offset(w, signed9 * 16, mode);
        break;
    case M_KEYED:
        put_offset(w, sign_extend(bits(word, 22, 1) << 9 | bits(word, 12, 9), 10) * 8, mode);
        break;
    case M_AFTER_REGS:
    case M_AFTER_LANES:
        put_after(w, mode, form == M_AFTER_REGS);
        break;
    default:
        put_offset(w, 0, mode);
        break;
    }
}

/* ---- system ---- */

static void put_prefetch(struct ct_a64_writer *w) {
    static const char types[3][4] = {"pld", "pli", "pst"};
    unsigned op = bits(w->word, 0, 5);
    if (op >> 3 == 3 || (op >> 1 & 3) == 3) {
        ct_a64_put_char(w, '#');
        ct_a64_put_text(w, op < 16 ? "0x0" : "0x1");
        ct_a64_put_char(w, "0123456789abcdef"[op & 15]);
        return;
    }
    ct_a64_put_text(w, types[op >> 3]);
    ct_a64_put_char(w, 'l');
    ct_a64_put_char(w, (char)('1' + (op >> 1 & 3)));
    ct_a64_put_text(w, op & 1 ? "strm" : "keep");
}

static void put_barrier(struct ct_a64_writer *w, bool nxs) {
    static const char domains[4][4] = {"osh", "nsh", "ish", ""}, types[4][3] = {"", "ld", "st", ""};
    unsigned option = bits(w->word, 8, 4);
    if (!(option & 3)) {
        ct_a64_put_text(w, "#0x0");
        ct_a64_put_char(w, "0123456789abcdef"[option]);
        return;
    }
    bool whole = option == 15 || (nxs && option == 14);
    ct_a64_put_text(w, whole ? "sy" : domains[option >> 2]);
    ct_a64_put_text(w, nxs ? "nxs" : types[option & 3]);
}

static void put_pstate(struct ct_a64_writer *w) {
    static const struct {
        uint8_t op1, op2;
        char name[10];
    } fields[] = {
        {0, 3, "uao"}, {0, 4, "pan"}, {0, 5, "spsel"},   {1, 0, "allint"},  {3, 1, "ssbs"},
        {3, 2, "dit"}, {3, 4, "tco"}, {3, 6, "daifset"}, {3, 7, "daifclr"},
    };
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].op1 == bits(w->word, 16, 3) && fields[i].op2 == bits(w->word, 5, 3))
            ct_a64_put_text(w, fields[i].name);
}

static void put_smstart(struct ct_a64_writer *w) {
    static const char modes[4][4] = {"", " sm", " za", ""};
    ct_a64_put_text(w, bits(w->word, 8, 1) ? "smstart" : "smstop");
    ct_a64_put_text(w, modes[bits(w->word, 9, 2)]);
}

/* The name of a system register or of an operation of sys; NULL: it has none. */
static const char *system_name(uint32_t word) {
    unsigned number = bits(word, 5, 16), low = 0, high = ct_a64_name_count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (ct_a64_names[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < ct_a64_name_count && ct_a64_names[low].number == number;
    return found ? ct_a64_names_text + ct_a64_names[low].text : NULL;
}

/* A name may be NAME/NAME: when it is read, when it is written. */
static void put_register_name(struct ct_a64_writer *w, const char *name) {
    bool writes = !bits(w->word, 21, 1), second = false;
    const char *slash = name;
    while (*slash && *slash != '/')
        slash++;
    for (; *name; name++) {
        if (name == slash)
            second = true;
        else if (!*slash || second == writes)
            ct_a64_put_char(w, *name);
    }
}

static void put_system_register(struct ct_a64_writer *w) {
    static const uint8_t places[5][2] = {{19, 2}, {16, 3}, {12, 4}, {8, 4}, {5, 3}};
    static const char before[5][3] = {"s", "_", "_c", "_c", "_"};
    const char *name = system_name(w->word);
    if (name)
        put_register_name(w, name);
    for (unsigned i = 0; i < 5 && !name; i++) {
        ct_a64_put_text(w, before[i]);
        ct_a64_put_decimal(w, bits(w->word, places[i][0], places[i][1]));
    }
}

/* An operation of sys that has a name; a comma at its end: with a register. */
static void put_system_operation(struct ct_a64_writer *w) {
    const char *name = system_name(w->word);
    char last = 0;
    for (; name && *name; name++) {
        last = *name;
        ct_a64_put_char(w, last);
    }
    if (last == ',') {
        ct_a64_put_char(w, ' ');
        ct_a64_put_general(w, ct_a64_rt(w->word), true, false);
    }
}

/* ---- all of it ---- */

static bool put_general(struct ct_a64_writer *w, unsigned operand, unsigned a, unsigned b) {
    switch (operand) {
    case T_REG:
        put_reg(w, a, b);
        break;
    case T_RTB:
        ct_a64_put_general(w, ct_a64_rt(w->word), w->word >> 31, false);
        break;
    case T_RMX:
        put_extended(w);
        break;
    case T_OPTIONAL:
        if (ct_a64_rt(w->word) != 31) {
            ct_a64_put_text(w, ", ");
            ct_a64_put_general(w, ct_a64_rt(w->word), true, false);
        }
        break;
    case T_MEMORY:
        put_memory(w, a, b);
        break;
    case T_SHIFT:
        put_shift(w);
        break;
    case T_COND:
        ct_a64_put_text(w, conditions[bits(w->word, a, 4) ^ b]);
        break;
    case T_PRFOP:
        put_prefetch(w);
        break;
    case T_BARRIER:
    case T_BARRIER_NXS:
        put_barrier(w, operand == T_BARRIER_NXS);
        break;
    case T_PSTATE:
        put_pstate(w);
        break;
    case T_SMSTART:
        put_smstart(w);
        break;
    case T_SYSREG:
        put_system_register(w);
        break;
    case T_SYSOP:
        put_system_operation(w);
        break;
    default:
        return false;
    }
    return true;
}

static void put_value(struct ct_a64_writer *w, unsigned operand, unsigned a, unsigned b) {
    uint32_t word = w->word;
    switch (operand) {
    case T_TO:
        ct_a64_put_hex(w, ct_a64_target(w->insn, w->address));
        break;
    case T_AIMM:
        put_shifted(w, bits(word, 10, 12), bits(word, 22, 1) * 12);
        break;
    case T_LIMM:
        put_limm(w);
        break;
    case T_MIMM:
        put_shifted(w, bits(word, 5, 16), bits(word, 21, 2) * 16);
        break;
    case T_MOV_WIDE:
    case T_MOV_NOT:
        put_immediate(w, wide_value(word, operand == T_MOV_NOT));
        break;
    case T_BIT:
        put_amount(w, bits(word, 19, 5) | (word >> 31) << 5);
        break;
    case T_HEX:
    case T_DEC:
    case T_NUMBER:
    case T_SIGNED:
        put_field(w, operand, a, b);
        break;
    default:
        put_bit_field(w, operand);
        break;
    }
}

static void put_all(struct ct_a64_writer *w, const uint8_t *text) {
    for (; *text; text++) {
        if (*text < 0x80) {
            ct_a64_put_char(w, (char)*text);
            continue;
        }
        unsigned operand = text[0], a = text[1], b = text[2];
        if (operand >= T_SVE)
            ct_a64_put_sve(w, operand, a, b);
        else if (operand >= T_VECTORS)
            ct_a64_put_vector(w, operand, a, b);
        else if (!put_general(w, operand, a, b))
            put_value(w, operand, a, b);
        text += 2;
    }
}

/* A mask that movz or movn can make is not written as a mov of orr. */
static bool fits_wide(uint32_t word, uint64_t value) {
    uint64_t all = word >> 31 ? UINT64_MAX : UINT32_MAX;
    for (unsigned i = 0; i < 64; i += 16)
        if (!(value & all & ~(UINT64_C(0xffff) << i)) || !(~value & all & ~(UINT64_C(0xffff) << i)))
            return true;
    return false;
}

static bool is_preferred(uint32_t word, unsigned condition) {
    unsigned immr = bits(word, 16, 6), imms = bits(word, 10, 6), hw = bits(word, 21, 2), imm = bits(word, 5, 16);
    bool same = ct_a64_rn(word) == bits(word, 16, 5), conditional = bits(word, 12, 4) < 14;
    uint64_t mask = 0;
    switch (condition) {
    case IF_MOV_MASK:
        return ct_a64_bitmask(word, &mask) && (ct_a64_rt(word) == 31 || !fits_wide(word, mask));
    case IF_MOV_WIDE:
        return imm || !hw;
    case IF_MOV_NOT:
        return (imm || !hw) && (word >> 31 || imm != 0xffff);
    case IF_LESS:
        return imms < immr;
    case IF_LSL:
        return imms + 1 == immr;
    case IF_SAME:
        return same;
    case IF_COND:
        return conditional;
    case IF_SAME_COND:
        return same && conditional;
    case IF_SYSOP:
        return system_name(word);
    case IF_ZMOV:
    case IF_ZSAME:
    case IF_PALL:
    case IF_PSAME:
    case IF_PMERGE:
    case IF_PNOT:
        return ct_a64_prefers_sve(word, condition);
    default:
        return true;
    }
}

static unsigned find_text(const struct ct_a64_insn *insn) {
    for (unsigned cell = ct_a64_alias_cells[0];;) {
        while (cell & CELL_NODE)
            cell = ct_a64_child(ct_a64_alias_cells, cell, insn->word);
        if (!cell)
            return ct_a64_row_texts[insn->row];
        const struct ct_a64_test *test = &ct_a64_alias_tests[cell];
        const struct ct_a64_alias *alias = &ct_a64_aliases[test->form];
        if ((insn->word & test->mask) == test->value && is_preferred(insn->word, alias->condition))
            return alias->text;
        cell = test->next;
    }
}

void ct_a64_text(const struct ct_a64_insn *insn, uint64_t address, char *text, size_t size) {
    struct ct_a64_writer w = {.text = text, .size = size, .word = insn->word, .insn = insn, .address = address};
    put_all(&w, ct_a64_texts + find_text(insn));
    if (size)
        text[w.length] = 0;
}
