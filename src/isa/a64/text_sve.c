/* SPDX-License-Identifier: Apache-2.0 */
/* Text of instructions: scalable vectors, predicates, their addresses, and the array of SME. */
#include "isa/a64/text_tables.h"

#define bits ct_a64_bits

static const char letters[6] = "bhsdq";

static unsigned highest_bit(unsigned value) {
    unsigned n = 0;
    while (value >>= 1)
        n++;
    return n;
}

static unsigned lowest_bit(unsigned value) {
    unsigned n = 0;
    while (value && !(value & 1)) {
        value >>= 1;
        n++;
    }
    return n;
}

static int64_t sign_extend(uint64_t value, unsigned width) {
    return (int64_t)(value << (64 - width)) >> (64 - width);
}

static void put_amount(struct ct_a64_writer *w, int64_t value) {
    ct_a64_put_char(w, '#');
    ct_a64_put_decimal(w, value);
}

static void put_z(struct ct_a64_writer *w, unsigned number) {
    ct_a64_put_char(w, 'z');
    ct_a64_put_decimal(w, number & 31);
}

/* tsz: the highest bit says how wide a lane is. With a predicate its low half is at 9:8, else at 20:19. */
static unsigned tsz_of(uint32_t word, bool predicated) {
    return bits(word, 22, 2) << 2 | bits(word, predicated ? 8 : 19, 2);
}

static unsigned mask_lane(uint32_t word) {
    unsigned n = bits(word, 17, 1), imms = bits(word, 5, 6), size = n ? 64 : 32;
    while (!n && size > 8 && imms & size)
        size >>= 1;
    return highest_bit(size / 8);
}

static unsigned lane_size(uint32_t word, unsigned rule) {
    unsigned size = bits(word, 22, 2);
    switch (rule) {
    case L_HALF:
        return size - 1;
    case L_QUARTER:
        return size - 2;
    case L_TSZ_P:
        return highest_bit(tsz_of(word, true));
    case L_TSZ_U:
        return highest_bit(tsz_of(word, false));
    case L_TSZ_WIDE:
        return highest_bit(tsz_of(word, false)) + 1;
    case L_IMM:
        return lowest_bit(bits(word, 16, 5));
    case L_MASK:
        return mask_lane(word);
    default:
        return size;
    }
}

/* ---- numbers ---- */

static void put_shift(struct ct_a64_writer *w, bool predicated, bool left) {
    unsigned tsz = tsz_of(w->word, predicated), size = 8u << highest_bit(tsz);
    unsigned value = tsz << 3 | bits(w->word, predicated ? 5 : 16, 3);
    put_amount(w, left ? value - size : 2 * size - value);
}

static void put_mask(struct ct_a64_writer *w) {
    uint64_t value = 0;
    unsigned lane = mask_lane(w->word);
    ct_a64_bitmask(ct_a64_zmask_word(w->word), &value);
    if (lane < 3)
        value &= (UINT64_C(1) << (8 << lane)) - 1;
    ct_a64_put_char(w, '#');
    ct_a64_put_hex(w, value);
}

/* An immediate of 8 bits that is shifted by 8; 0 has to say so. */
static void put_imm8(struct ct_a64_writer *w, bool is_signed) {
    unsigned value = bits(w->word, 5, 8);
    if (value)
        put_amount(w, is_signed ? sign_extend(value, 8) * 256 : (int64_t)value * 256);
    else
        ct_a64_put_text(w, "#0, lsl #8");
}

static void put_pattern(struct ct_a64_writer *w, bool with_factor) {
    static const char names[14][6] = {"pow2", "vl1", "vl2",  "vl3",  "vl4",  "vl5",   "vl6",
                                      "vl7",  "vl8", "vl16", "vl32", "vl64", "vl128", "vl256"};
    static const char last[3][5] = {"mul4", "mul3", "all"};
    unsigned pattern = bits(w->word, 5, 5), factor = with_factor ? bits(w->word, 16, 4) + 1 : 1;
    if (pattern == 31 && factor == 1)
        return;
    ct_a64_put_text(w, ", ");
    if (pattern < 14) {
        ct_a64_put_text(w, names[pattern]);
    } else if (pattern >= 29) {
        ct_a64_put_text(w, last[pattern - 29]);
    } else {
        put_amount(w, pattern);
    }
    if (factor > 1) {
        ct_a64_put_text(w, ", mul ");
        put_amount(w, factor);
    }
}

static void put_prefetch(struct ct_a64_writer *w) {
    unsigned op = bits(w->word, 0, 4);
    if ((op & 6) == 6) {
        put_amount(w, op);
        return;
    }
    ct_a64_put_text(w, op & 8 ? "pstl" : "pldl");
    ct_a64_put_char(w, (char)('1' + (op >> 1 & 3)));
    ct_a64_put_text(w, op & 1 ? "strm" : "keep");
}

static void put_sve_number(struct ct_a64_writer *w, unsigned rule) {
    uint32_t word = w->word;
    switch (rule) {
    case N_EXT:
        put_amount(w, bits(word, 16, 5) << 3 | bits(word, 10, 3));
        break;
    case N_INDEX:
        ct_a64_put_decimal(w, (bits(word, 22, 2) << 5 | bits(word, 16, 5)) >> (lowest_bit(bits(word, 16, 5)) + 1));
        break;
    case N_MASK:
        put_mask(w);
        break;
    case N_SIGNED8:
    case N_UNSIGNED8:
        put_imm8(w, rule == N_SIGNED8);
        break;
    case N_FLOAT:
        ct_a64_put_float(w, bits(word, 5, 8));
        break;
    case N_PATTERN:
    case N_PATTERN_ONLY:
        put_pattern(w, rule == N_PATTERN);
        break;
    case N_PREFETCH:
        put_prefetch(w);
        break;
    default:
        put_shift(w, rule == N_SHL_P || rule == N_SHR_P, rule == N_SHL_P || rule == N_SHL_U);
        break;
    }
}

static void put_half(struct ct_a64_writer *w, unsigned rule) {
    static const char values[3][2][5] = {{"#0.5", "#1.0"}, {"#0.5", "#2.0"}, {"#0.0", "#1.0"}};
    ct_a64_put_text(w, values[rule][bits(w->word, 5, 1)]);
}

/* ---- addresses ---- */

static void put_scaled(struct ct_a64_writer *w, int64_t offset, bool lengths) {
    if (offset) {
        ct_a64_put_text(w, ", ");
        put_amount(w, offset);
        ct_a64_put_text(w, lengths ? ", mul vl" : "");
    }
}

/* The vector of a gather or scatter. `at` is where the bit is that says how words are extended; 0: they are not. */
static void put_vector_offset(struct ct_a64_writer *w, char letter, unsigned at, unsigned shift) {
    ct_a64_put_text(w, ", ");
    put_z(w, bits(w->word, 16, 5));
    ct_a64_put_char(w, '.');
    ct_a64_put_char(w, letter);
    if (at || shift)
        ct_a64_put_text(w, at ? bits(w->word, at, 1) ? ", sxtw" : ", uxtw" : ", lsl");
    if (shift) {
        ct_a64_put_char(w, ' ');
        put_amount(w, shift);
    }
}

static void put_vector_base(struct ct_a64_writer *w, unsigned form, unsigned argument) {
    uint32_t word = w->word;
    bool words = form == Z_VECTOR_S || form == Z_VECTOR_SCALAR_S;
    put_z(w, ct_a64_rn(word));
    ct_a64_put_text(w, words ? ".s" : ".d");
    if (form == Z_VECTOR_S || form == Z_VECTOR_D) {
        put_scaled(w, (int64_t)bits(word, 16, 5) << argument, false);
    } else {
        ct_a64_put_text(w, ", ");
        ct_a64_put_general(w, bits(word, 16, 5), true, false);
    }
}

static void put_scalar_base(struct ct_a64_writer *w, unsigned form, unsigned argument) {
    uint32_t word = w->word;
    ct_a64_put_general(w, ct_a64_rn(word), true, true);
    switch (form) {
    case Z_SCALARS:
        ct_a64_put_text(w, ", ");
        ct_a64_put_general(w, bits(word, 16, 5), true, false);
        if (argument) {
            ct_a64_put_text(w, ", lsl ");
            put_amount(w, argument);
        }
        break;
    case Z_VL4:
        put_scaled(w, sign_extend(bits(word, 16, 4), 4) * (int)argument, true);
        break;
    case Z_VL6:
        put_scaled(w, sign_extend(bits(word, 16, 6), 6), true);
        break;
    case Z_VL9:
        put_scaled(w, sign_extend(bits(word, 16, 6) << 3 | bits(word, 10, 3), 9), true);
        break;
    case Z_SCALED:
        put_scaled(w, (int64_t)bits(word, 16, 6) << argument, false);
        break;
    case Z_QUAD:
        put_scaled(w, sign_extend(bits(word, 16, 4), 4) * (int)argument, false);
        break;
    case Z_ARRAY:
        put_scaled(w, bits(word, 0, 4), true);
        break;
    case Z_GATHER_L:
        put_vector_offset(w, 'd', 0, argument);
        break;
    default:
        put_vector_offset(w, form == Z_GATHER_S || form == Z_SCATTER_S ? 's' : 'd',
                          form == Z_GATHER_S || form == Z_GATHER_D ? 22 : 14, argument);
        break;
    }
}

/* ---- the array of SME ---- */

/* za1h.s[w12, 3]: b is the size of a lane, + 8: the slice is at 8:5, else at 3:0. */
static void put_slice(struct ct_a64_writer *w, unsigned b) {
    unsigned size = b & 7, slice = bits(w->word, b & 8 ? 5 : 0, 4);
    ct_a64_put_text(w, "za");
    ct_a64_put_decimal(w, slice >> (4 - size));
    ct_a64_put_char(w, bits(w->word, 15, 1) ? 'v' : 'h');
    ct_a64_put_char(w, '.');
    ct_a64_put_char(w, letters[size]);
    ct_a64_put_text(w, "[w");
    ct_a64_put_decimal(w, 12 + bits(w->word, 13, 2));
    ct_a64_put_text(w, ", ");
    ct_a64_put_decimal(w, slice & ((1u << (4 - size)) - 1));
    ct_a64_put_char(w, ']');
}

/* p2.b[w12, 3] of psel. */
static void put_selected(struct ct_a64_writer *w) {
    unsigned tsz = bits(w->word, 22, 1) << 3 | bits(w->word, 18, 3), size = lowest_bit(tsz);
    ct_a64_put_char(w, 'p');
    ct_a64_put_decimal(w, bits(w->word, 5, 4));
    ct_a64_put_char(w, '.');
    ct_a64_put_char(w, letters[size]);
    ct_a64_put_text(w, "[w");
    ct_a64_put_decimal(w, 12 + bits(w->word, 16, 2));
    ct_a64_put_text(w, ", ");
    ct_a64_put_decimal(w, (bits(w->word, 23, 1) << 4 | tsz) >> (size + 1));
    ct_a64_put_char(w, ']');
}

/* The tiles that zero clears: the fewest that cover the mask of 64-bit tiles. */
static void put_tiles(struct ct_a64_writer *w) {
    unsigned mask = bits(w->word, 0, 8), count = 0;
    ct_a64_put_char(w, '{');
    if (mask == 0xff)
        ct_a64_put_text(w, "za");
    for (unsigned step = 2; mask != 0xff && step <= 8; step *= 2)
        for (unsigned i = 0; i < step; i++) {
            unsigned tile = (step == 2 ? 0x55u : step == 4 ? 0x11u : 1u) << i;
            if ((mask & tile) != tile)
                continue;
            mask &= ~tile;
            ct_a64_put_text(w, count++ ? ", za" : "za");
            ct_a64_put_decimal(w, i);
            ct_a64_put_char(w, '.');
            ct_a64_put_char(w, letters[highest_bit(step)]);
        }
    ct_a64_put_char(w, '}');
}

/* ---- lanes and lists ---- */

static void put_element(struct ct_a64_writer *w, unsigned rule, char letter) {
    uint32_t word = w->word;
    unsigned i2 = bits(word, 19, 2), i1 = bits(word, 20, 1), low = bits(word, 11, 1), high = bits(word, 22, 1);
    bool wide = rule == X_1 || rule == X_2_LOW;
    unsigned index = rule == X_1       ? i1
                     : rule == X_2     ? i2
                     : rule == X_3     ? high << 2 | i2
                     : rule == X_2_LOW ? i1 << 1 | low
                                       : i2 << 1 | low;
    put_z(w, bits(word, 16, wide ? 4 : 3));
    ct_a64_put_char(w, '.');
    ct_a64_put_char(w, letter);
    ct_a64_put_char(w, '[');
    ct_a64_put_decimal(w, index);
    ct_a64_put_char(w, ']');
}

/* {z0.b, z1.b}, {z0.b-z2.b} */
static void put_list(struct ct_a64_writer *w, unsigned first, unsigned count, char letter) {
    bool range = count > 2 && first + count <= 32;
    ct_a64_put_char(w, '{');
    for (unsigned i = 0; i < count; i += range ? count - 1 : 1) {
        if (i)
            ct_a64_put_text(w, range ? "-" : ", ");
        put_z(w, first + i);
        ct_a64_put_char(w, '.');
        ct_a64_put_char(w, letter);
    }
    ct_a64_put_char(w, '}');
}

void ct_a64_put_sve(struct ct_a64_writer *w, unsigned operand, unsigned a, unsigned b) {
    uint32_t word = w->word;
    switch (operand) {
    case T_Z:
        put_z(w, bits(word, a, 5));
        break;
    case T_P:
        ct_a64_put_char(w, 'p');
        ct_a64_put_decimal(w, bits(word, a, b));
        break;
    case T_LETTER:
        ct_a64_put_char(w, letters[lane_size(word, a)]);
        break;
    case T_SVE_NUMBER:
        put_sve_number(w, a);
        break;
    case T_SVE_MEMORY:
        ct_a64_put_char(w, '[');
        if (a >= Z_VECTOR_S)
            put_vector_base(w, a, b);
        else
            put_scalar_base(w, a, b);
        ct_a64_put_char(w, ']');
        break;
    case T_SVE_ELEMENT:
        put_element(w, a, (char)b);
        break;
    case T_SLICE:
        put_slice(w, b);
        break;
    case T_PSEL:
        put_selected(w);
        break;
    case T_INDEX:
        ct_a64_put_general(w, 12 + bits(word, 13, 2), false, false);
        break;
    case T_TILES:
        put_tiles(w);
        break;
    case T_SVE_LIST:
        put_list(w, bits(word, a & 0x80 ? 5 : 0, 5), a & 7, b ? (char)b : letters[bits(word, 22, 2)]);
        break;
    default:
        put_half(w, a);
        break;
    }
}

/* A mask that a mov of 8 bits and a shift can make is not written as a mov of dupm. */
static bool needs_mask(uint32_t word) {
    uint64_t value = 0;
    ct_a64_bitmask(ct_a64_zmask_word(word), &value);
    for (unsigned size = 8; size <= 64; size *= 2) {
        int64_t lane = sign_extend(value, size);
        bool repeats = size == 64 || value == (value >> size | value << (64 - size));
        if (repeats && ((lane >= -128 && lane < 128) || (!(lane & 0xff) && lane >= -32768 && lane < 32768)))
            return false;
    }
    return true;
}

bool ct_a64_prefers_sve(uint32_t word, unsigned condition) {
    unsigned pd = bits(word, 0, 4), pn = bits(word, 5, 4), pg = bits(word, 10, 4), pm = bits(word, 16, 4);
    switch (condition) {
    case IF_ZMOV:
        return needs_mask(word);
    case IF_ZSAME:
        return ct_a64_rt(word) == bits(word, 16, 5);
    case IF_PALL:
        return pn == pm && pn == pg;
    case IF_PSAME:
        return pn == pm;
    case IF_PMERGE:
        return pd == pm;
    default:
        return pm == pg;
    }
}
