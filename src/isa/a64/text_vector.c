/* SPDX-License-Identifier: Apache-2.0 */
/* Text of instructions: vector registers, their lanes and immediates. */
#include "isa/a64/text_tables.h"

#define bits ct_a64_bits

static const char letters[6] = "bhsdq";

static unsigned lowest_bit(unsigned value) {
    unsigned n = 0;
    while (value && !(value & 1)) {
        value >>= 1;
        n++;
    }
    return n;
}

static unsigned highest_bit(unsigned value) {
    unsigned n = 0;
    while (value >>= 1)
        n++;
    return n;
}

static unsigned immh_size(uint32_t word) {
    return highest_bit(bits(word, 19, 4));
}

static void put_v(struct ct_a64_writer *w, unsigned number) {
    ct_a64_put_char(w, 'v');
    ct_a64_put_decimal(w, number & 31);
}

/* ---- registers ---- */

static void put_scalar(struct ct_a64_writer *w, unsigned place, unsigned rule) {
    static const uint8_t ftypes[4] = {2, 3, 4, 1};
    unsigned number = bits(w->word, place, 5), size = rule;
    switch (rule) {
    case S_WHOLE:
        put_v(w, number);
        return;
    case S_SIZE:
    case S_SIZE_LONG:
        size = bits(w->word, 22, 2) + (rule == S_SIZE_LONG);
        break;
    case S_FTYPE:
        size = ftypes[bits(w->word, 22, 2)];
        break;
    case S_SZ:
        size = 2 + bits(w->word, 22, 1);
        break;
    case S_IMMH:
    case S_IMMH_LONG:
        size = immh_size(w->word) + (rule == S_IMMH_LONG);
        break;
    case S_IMM5:
        size = lowest_bit(bits(w->word, 16, 5));
        break;
    default:
        break;
    }
    ct_a64_put_char(w, letters[size]);
    ct_a64_put_decimal(w, number);
}

/* .4s: log2 of all bytes and of those of a lane. */
static void put_lanes(struct ct_a64_writer *w, unsigned total, unsigned size) {
    ct_a64_put_char(w, '.');
    ct_a64_put_decimal(w, 1 << (total - size));
    ct_a64_put_char(w, letters[size]);
}

static void put_arrangement(struct ct_a64_writer *w, unsigned rule) {
    unsigned total = 3 + bits(w->word, 30, 1), size = bits(w->word, 22, 2);
    switch (rule) {
    case A_SIZE:
        break;
    case A_SZ:
        size = 2 + (size & 1);
        break;
    case A_SIZE_LONG:
        total = 4;
        size++;
        break;
    case A_SIZE_PAIR:
        size++;
        break;
    case A_IMM5:
        size = lowest_bit(bits(w->word, 16, 5));
        break;
    case A_IMMH:
        size = immh_size(w->word);
        break;
    case A_IMMH_LONG:
        total = 4;
        size = immh_size(w->word) + 1;
        break;
    default:
        if (rule & 0x80)
            total = rule >> 3 & 15;
        size = rule & 0x80 ? rule & 7 : rule - A_B;
        break;
    }
    put_lanes(w, total, size);
}

static void put_element(struct ct_a64_writer *w, unsigned place, unsigned rule) {
    uint32_t word = w->word;
    unsigned number = bits(word, place, 5), imm5 = bits(word, 16, 5), size = lowest_bit(imm5), index = 0;
    unsigned h = bits(word, 11, 1), l = bits(word, 21, 1), m = bits(word, 20, 1), sz = bits(word, 22, 2);
    bool half = rule == E_H || (rule == E_SIZE && sz == 1);
    const char *lanes = "";
    if (rule == E_IMM5 || rule == E_IMM4) {
        index = rule == E_IMM5 ? imm5 >> (size + 1) : bits(word, 11, 4) >> size;
    } else if (rule == E_IMM2) {
        size = 2;
        index = bits(word, 12, 2);
    } else if (half) {
        number &= 15;
        size = 1;
        index = h << 2 | l << 1 | m;
    } else if (rule == E_COMPLEX) {
        size = sz;
        index = sz == 1 ? h << 1 | l : h;
    } else {
        size = rule == E_4B ? 0 : rule == E_2H ? 1 : rule == E_SZ ? 2 + (sz & 1) : 2;
        index = size == 3 ? h : h << 1 | l;
        lanes = rule == E_4B ? "4" : rule == E_2H ? "2" : "";
    }
    put_v(w, number);
    ct_a64_put_char(w, '.');
    ct_a64_put_text(w, lanes);
    ct_a64_put_char(w, letters[size]);
    ct_a64_put_char(w, '[');
    ct_a64_put_decimal(w, index);
    ct_a64_put_char(w, ']');
}

/* ---- lists ---- */

/* Size of a lane, and its number, of loads and stores of one lane; of all lanes: the size only. */
static unsigned lane_of(uint32_t word, unsigned *index) {
    unsigned q = bits(word, 30, 1), s = bits(word, 12, 1), size = bits(word, 10, 2), scale = bits(word, 14, 2);
    if (scale == 2 && size & 1)
        scale = 3;
    else if (scale == 3)
        scale = size; /* ld1r ... */
    *index = (q << 3 | s << 2 | size) >> scale;
    return scale;
}

unsigned ct_a64_structure_bytes(uint32_t word, unsigned registers, bool whole) {
    unsigned unused;
    return whole ? registers * (8u << bits(word, 30, 1)) : registers << lane_of(word, &unused);
}

static void put_list(struct ct_a64_writer *w, unsigned first, unsigned count, const char *lanes) {
    ct_a64_put_char(w, '{');
    bool range = count > 2 && first + count <= 32;
    for (unsigned i = 0; i < count; i += range ? count - 1 : 1) {
        if (i)
            ct_a64_put_text(w, range ? "-" : ", ");
        put_v(w, first + i);
        ct_a64_put_text(w, lanes);
    }
    ct_a64_put_char(w, '}');
}

static void put_lanes_list(struct ct_a64_writer *w, unsigned first, unsigned count, unsigned total, unsigned size) {
    char lanes[8] = "";
    struct ct_a64_writer text = {.text = lanes, .size = sizeof lanes};
    put_lanes(&text, total, size);
    put_list(w, first, count, lanes);
}

static void put_lane(struct ct_a64_writer *w, unsigned count) {
    unsigned index, size = lane_of(w->word, &index);
    char lanes[3] = {'.', letters[size], 0};
    put_list(w, ct_a64_rt(w->word), count, lanes);
    ct_a64_put_char(w, '[');
    ct_a64_put_decimal(w, index);
    ct_a64_put_char(w, ']');
}

/* ---- immediates ---- */

static unsigned imm8_of(uint32_t word) {
    return bits(word, 16, 3) << 5 | bits(word, 5, 5);
}

/* A float of 8 bits is a multiple of 1/128 below 32: written like printf's %.18e. */
void ct_a64_put_float(struct ct_a64_writer *w, unsigned imm8) {
    unsigned power = (bits(imm8, 4, 3) ^ 4), value = (16 + (imm8 & 15)) << power; /* / 128 */
    unsigned whole = value / 128, rest = value % 128, exponent = whole >= 10 ? 1 : 0, digits = 0;
    uint64_t scaled = (uint64_t)whole * 10000000 + rest * 78125u; /* of 7 places */
    uint64_t unit = whole >= 10 ? 100000000 : whole ? 10000000 : 1000000;
    ct_a64_put_text(w, imm8 >> 7 ? "#-" : "#");
    for (; unit; unit /= 10) {
        ct_a64_put_char(w, (char)('0' + scaled / unit % 10));
        if (!digits++)
            ct_a64_put_char(w, '.');
    }
    for (; digits < 19; digits++)
        ct_a64_put_char(w, '0');
    ct_a64_put_text(w, whole ? "e+0" : "e-0");
    ct_a64_put_char(w, whole && !exponent ? '0' : '1');
}

static void put_vector_immediate(struct ct_a64_writer *w) {
    unsigned cmode = bits(w->word, 12, 4), imm8 = imm8_of(w->word), shift = 0;
    const char *how = ", lsl #";
    uint64_t value = imm8;
    if (cmode < 8)
        shift = 8 * (cmode >> 1);
    else if (cmode < 12)
        shift = 8 * (cmode >> 1 & 1);
    else if (cmode < 14) {
        shift = 8u << (cmode & 1);
        how = ", msl #";
    } else if (bits(w->word, 29, 1)) {
        value = 0;
        for (unsigned i = 0; i < 8; i++)
            value |= imm8 >> i & 1 ? UINT64_C(0xff) << (8 * i) : 0;
    }
    ct_a64_put_char(w, '#');
    ct_a64_put_hex(w, value);
    if (shift) {
        ct_a64_put_text(w, how);
        ct_a64_put_decimal(w, shift);
    }
}

static void put_amount(struct ct_a64_writer *w, unsigned value) {
    ct_a64_put_char(w, '#');
    ct_a64_put_decimal(w, value);
}

void ct_a64_put_vector(struct ct_a64_writer *w, unsigned operand, unsigned a, unsigned b) {
    uint32_t word = w->word;
    unsigned size = 8u << immh_size(word), immhb = bits(word, 16, 7);
    switch (operand) {
    case T_SCALAR:
        put_scalar(w, a, b);
        break;
    case T_VECTOR:
        put_v(w, bits(word, a, 5));
        put_arrangement(w, b);
        break;
    case T_ELEMENT:
        put_element(w, a, b);
        break;
    case T_SECOND:
        ct_a64_put_text(w, bits(word, 30, 1) ? "2" : "");
        break;
    case T_REGS:
        put_lanes_list(w, ct_a64_rt(word), a, 3 + bits(word, 30, 1), bits(word, 10, 2));
        break;
    case T_TABLE:
        put_lanes_list(w, ct_a64_rn(word), a, 4, 0);
        break;
    case T_LANE:
        put_lane(w, a);
        break;
    case T_ROT:
        put_amount(w, 90 * bits(word, a, 2));
        break;
    case T_ROT_ODD:
        put_amount(w, bits(word, a, 1) ? 270 : 90);
        break;
    case T_FIMM:
        ct_a64_put_float(w, bits(word, 13, 8));
        break;
    case T_VFIMM:
        ct_a64_put_float(w, imm8_of(word));
        break;
    case T_VIMM:
        put_vector_immediate(w);
        break;
    case T_SHL:
        put_amount(w, immhb - size);
        break;
    case T_SHR:
        put_amount(w, 2 * size - immhb);
        break;
    default:
        put_amount(w, 64 - bits(word, 10, 6));
        break;
    }
}
