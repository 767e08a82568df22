/* SPDX-License-Identifier: Apache-2.0 */
/* x86_64 decoder, step one: length, kind and offsets of the parts.
 *
 * One pass over the bytes, driven by the tables of decode_table.txt. The core never checks bounds: it runs only on
 * WINDOW readable bytes (callers with fewer get a zero-padded copy). It reports how many bytes the result depends on,
 * so that the caller can distinguish "truncated" from "bad" afterwards. */
#include "isa/x64/decode.h"

#include "contrail/status.h"
#include "isa/x64/decode_tables.h"

#define WINDOW         40 /* 14 prefixes + the longest rest + one 8-byte load */

#define unlikely(x)    __builtin_expect(!!(x), 0)

#define VECTOR_FORBIDS (CT_X64_LOCK | CT_X64_REP | CT_X64_REPNE | CT_X64_OPSIZE) /* before VEX, EVEX, XOP */

/* State of the pass, and what it found beyond struct ct_x64_insn. */
struct parse {
    const uint8_t *p;
    uint32_t word; /* of ct_x64_opcodes */
    uint32_t key;  /* fields that nodes select by */
    bool vector;   /* VEX, EVEX or XOP */
    uint8_t evex1; /* second and fourth payload bytes of EVEX */
    uint8_t evex3;
};

/* Per modrm byte: size of the displacement, and these. */
enum { RM_SIZE = 7, RM_SIB = 8, RM_RIP = 16 };
#define R4(x)     x, x, x, x
#define RM_ROW(d) R4(d), RM_SIB | (d), d, d, d
#define RM_8(r)   r, r, r, r, r, r, r, r
static const uint8_t modrm_parts[256] = {
#define RM_ROW0 0, 0, 0, 0, RM_SIB, RM_RIP | 4, 0, 0
    RM_8(RM_ROW0),
    RM_8(RM_ROW(1)),
    RM_8(RM_ROW(4)),
};

static uint32_t load32(const uint8_t *p) {
    uint32_t v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t load64(const uint8_t *p) {
    uint64_t v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

/* The first `size` (1 2 4 8) bytes at p, sign-extended. */
static int64_t load_signed(const uint8_t *p, unsigned size) {
    unsigned shift = 64 - 8 * size;
    return (int64_t)(load64(p) << shift) >> shift;
}

/* Adds a legacy prefix to the set; of f2/f3 and of fs/gs the last one counts. */
static unsigned add_prefix(unsigned set, uint8_t b) {
    switch (b) {
    case 0x64:
        return (set & ~(unsigned)CT_X64_SEG_GS) | CT_X64_SEG_FS;
    case 0x65:
        return (set & ~(unsigned)CT_X64_SEG_FS) | CT_X64_SEG_GS;
    case 0x66:
        return set | CT_X64_OPSIZE;
    case 0x67:
        return set | CT_X64_ADDRSIZE;
    case 0xf0:
        return set | CT_X64_LOCK;
    case 0xf2:
        return (set & ~(unsigned)CT_X64_REP) | CT_X64_REPNE;
    case 0xf3:
        return (set & ~(unsigned)CT_X64_REPNE) | CT_X64_REP;
    default:
        return set | CT_X64_SEG_OTHER;
    }
}

/* Mandatory prefix of a legacy instruction: 0 none, 1 66, 2 f3, 3 f2. */
static uint32_t legacy_pp(unsigned prefixes) {
    static const uint8_t pp[8] = {0, 2, 3, 3, 1, 2, 3, 3}; /* by REP, REPNE, OPSIZE */
    return pp[prefixes >> 1 & 7];
}

static void take_vex3(const uint8_t *p, struct ct_x64_insn *insn, struct parse *s) {
    insn->rex = (uint8_t)((~p[1] >> 5 & 7) | (p[2] >> 4 & 8));
    insn->vvvv = ~p[2] >> 3 & 15;
    insn->vector = p[2] & 7;
    insn->map = p[1] & 31;
    s->key = (uint32_t)(p[2] & 3) << KEY_PP | (uint32_t)(p[2] >> 2 & 1) << KEY_L | (uint32_t)(p[2] >> 7) << KEY_W;
    s->p = p + 3;
}

static void take_evex(const uint8_t *p, struct ct_x64_insn *insn, struct parse *s) {
    insn->rex = (uint8_t)((~p[1] >> 5 & 7) | (p[2] >> 4 & 8));
    insn->vvvv = (uint8_t)((~p[2] >> 3 & 15) | ((p[3] << 1 & 16) ^ 16));
    insn->vector = (uint8_t)((p[2] & 3) | (p[3] >> 3 & 12));
    insn->map = p[1] & 7;
    s->evex1 = p[1];
    s->evex3 = p[3];
    s->key = (uint32_t)(p[2] & 3) << KEY_PP | (uint32_t)(p[2] >> 7) << KEY_W | (uint32_t)(p[3] >> 5 & 3) << KEY_L |
             (uint32_t)(p[3] >> 4 & 1) << KEY_BC;
    s->p = p + 4;
}

/* Reads VEX, EVEX or XOP; false when the payload is not valid. */
static bool take_vector(struct ct_x64_insn *insn, struct parse *s) {
    const uint8_t *p = s->p;
    unsigned row;
    s->vector = true;
    switch (*p) {
    case 0xc5:
        insn->encoding = CT_X64_VEX;
        insn->map = 1;
        insn->rex = ~p[1] >> 5 & 4;
        insn->vvvv = ~p[1] >> 3 & 15;
        insn->vector = p[1] & 7;
        s->key = (uint32_t)(p[1] & 3) << KEY_PP | (uint32_t)(p[1] >> 2 & 1) << KEY_L;
        s->p = p + 2;
        row = ROW_VEX_1;
        break;
    case 0xc4:
        insn->encoding = CT_X64_VEX;
        take_vex3(p, insn, s);
        row = ROW_VEX_1 + insn->map - 1u;
        if (insn->map < 1 || insn->map > 3)
            return false;
        break;
    case 0x8f:
        insn->encoding = CT_X64_XOP;
        take_vex3(p, insn, s);
        row = ROW_XOP_8 + insn->map - 8u;
        if (insn->map > 10) /* below 8 it is pop */
            return false;
        break;
    default:
        insn->encoding = CT_X64_EVEX;
        take_evex(p, insn, s);
        row = insn->map < 4 ? ROW_EVEX_1 + insn->map - 1u : ROW_EVEX_5 + insn->map - 5u;
        if (!(p[2] & 4) || p[1] & 8 || insn->map % 4 == 0 || insn->map == 7)
            return false;
        break;
    }
    s->word = ct_x64_opcodes[row][*s->p];
    return true;
}

/* Size of an immediate by enum imm and operand size: plain, 66, W, W and 66. */
static const uint8_t imm_sizes[16][4] = {
    [I_B] = {1, 1, 1, 1}, [I_W] = {2, 2, 2, 2}, [I_Z] = {4, 2, 4, 4},
    [I_V] = {4, 2, 8, 8}, [I_D] = {4, 4, 4, 4}, [I_REL] = {4, 4, 4, 4},
};

/* The rarer immediates, which depend on more than the operand size. */
static const uint8_t *take_odd_imm(const uint8_t *bytes, const uint8_t *p, unsigned type, struct ct_x64_insn *insn) {
    unsigned narrow = (insn->prefixes & CT_X64_OPSIZE) != 0, size = 0;
    switch (type) {
    case I_MOFFS:
        insn->disp_size = insn->prefixes & CT_X64_ADDRSIZE ? 4 : 8;
        insn->disp_offset = (uint8_t)(p - bytes);
        insn->disp = load_signed(p, insn->disp_size);
        return p + insn->disp_size;
    case I_G3B:
        size = insn->modrm & 0x30 ? 0 : 1;
        break;
    case I_G3Z:
        size = insn->modrm & 0x30 ? 0 : narrow && !(insn->rex & 8) ? 2 : 4;
        break;
    case I_ENTER:
        size = 2;
        break;
    case I_EXTRQ:
        size = insn->prefixes & (CT_X64_OPSIZE | CT_X64_REPNE) ? 1 : 0;
        break;
    }
    if (size == 0)
        return p;
    insn->imm_offset = (uint8_t)(p - bytes);
    insn->imm_size = (uint8_t)size;
    insn->imm = load_signed(p, size);
    p += size;
    if (type == I_ENTER || type == I_EXTRQ) {
        insn->imm2_offset = (uint8_t)(p - bytes);
        insn->imm2_size = 1;
        p++;
    }
    return p;
}

static const uint8_t *take_imm(const uint8_t *bytes, const uint8_t *p, unsigned type, struct ct_x64_insn *insn) {
    unsigned operand = (insn->prefixes >> 3 & 1) | (insn->rex >> 2 & 2), size = imm_sizes[type][operand];
    if (unlikely(type >= I_ODD))
        return take_odd_imm(bytes, p, type, insn);
    insn->imm_offset = (uint8_t)(p - bytes);
    insn->imm_size = (uint8_t)size;
    insn->imm = load_signed(p, size);
    return p + size;
}

static const uint8_t *take_modrm(const uint8_t *bytes, const uint8_t *p, struct ct_x64_insn *insn) {
    unsigned parts = modrm_parts[insn->modrm], size = parts & RM_SIZE;
    if (parts & RM_SIB) {
        insn->has_sib = true;
        insn->sib = *p++;
        if ((insn->sib & 7) == 5 && insn->modrm < 0x40)
            size = 4;
    }
    insn->rip_relative = parts & RM_RIP;
    if (size) {
        insn->disp_offset = (uint8_t)(p - bytes);
        insn->disp_size = (uint8_t)size;
        insn->disp = size == 1 ? (int8_t)*p : (int32_t)load32(p);
    }
    return p + size;
}

static bool special_ok(const struct ct_x64_insn *insn, unsigned special) {
    unsigned reg = (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1, rm = (insn->modrm & 7) | (insn->rex & 1) << 3;
    bool mem = insn->modrm < 0xc0;
    switch (special) {
    case S_SREG:
        return (reg & 7) < 6;
    case S_SREGW:
        return (reg & 7) < 6 && (reg & 7) != 1;
    case S_CR:
        return reg < 9 && (1u << reg & 0x11d);
    case S_DR:
        return reg < 8;
    case S_BND:
        return reg < 4;
    case S_BNDMIB:
        return reg < 4 && !insn->rip_relative;
    case S_BNDE:
        return reg < 4 && (mem || rm < 4);
    case S_TILE:
        return reg < 8;
    case S_SIBMEM:
        return reg < 8 && insn->has_sib;
    case S_TILE3:
        return reg < 8 && rm < 8 && insn->vvvv < 8 && reg != rm && reg != insn->vvvv && rm != insn->vvvv;
    default:
        return true;
    }
}

/* Vector index of a gather or scatter, 0-31. */
static unsigned vsib_index(const struct ct_x64_insn *insn, const struct parse *s) {
    unsigned index = (insn->sib >> 3 & 7) | (insn->rex & 2) << 2;
    return insn->encoding == CT_X64_EVEX ? index | ((s->evex3 << 1 & 16) ^ 16) : index;
}

static bool gather_ok(const struct ct_x64_insn *insn, const struct parse *s, bool loads) {
    if (!insn->has_sib)
        return false;
    if (!loads)
        return true;
    unsigned index = vsib_index(insn, s), reg = (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1;
    if (insn->encoding == CT_X64_EVEX)
        return (reg | (~s->evex1 & 16)) != index;
    return reg != index && reg != insn->vvvv && index != insn->vvvv;
}

/* The destination of a complex multiplication must not be one of its sources. */
static bool distinct_ok(const struct ct_x64_insn *insn, const struct parse *s) {
    unsigned reg = (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1 | (~s->evex1 & 16);
    unsigned rm = (insn->modrm & 7) | (insn->rex & 3) << 3;
    return reg != insn->vvvv && (insn->modrm < 0xc0 || reg != rm);
}

static bool evex_ok(const struct ct_x64_insn *insn, const struct parse *s, unsigned checks) {
    unsigned mask = s->evex3 & 7;
    bool zero = s->evex3 & 0x80;
    if (mask && !(checks & CHECK_MASK))
        return false;
    if (!mask && checks & CHECK_MUST_MASK)
        return false;
    if (zero && (!mask || !(checks & CHECK_ZERO)))
        return false;
    if (checks & (CHECK_K_REG | CHECK_GPR_REG) && !(s->evex1 & 16))
        return false;
    return (checks >> CHECK_SPECIAL) != S_DISTINCT || distinct_ok(insn, s);
}

static bool vector_ok(const struct ct_x64_insn *insn, const struct parse *s, unsigned checks) {
    unsigned special = checks >> CHECK_SPECIAL, vvvv = insn->vvvv;
    if (special == S_VSIB || special == S_GATHER) {
        if (!gather_ok(insn, s, special == S_GATHER))
            return false;
        vvvv &= 15; /* the fifth bit belongs to the index */
    }
    if (checks & CHECK_NO_VVVV && vvvv)
        return false;
    if (checks & CHECK_K_REG && insn->rex & 4)
        return false;
    if (checks & CHECK_K_VVVV && insn->vvvv > 7)
        return false;
    if (!special_ok(insn, special))
        return false;
    return insn->encoding != CT_X64_EVEX || evex_ok(insn, s, checks);
}

static bool form_ok(const struct ct_x64_insn *insn, const struct parse *s, unsigned checks) {
    if (insn->encoding == CT_X64_VEX || insn->encoding == CT_X64_EVEX || insn->encoding == CT_X64_XOP)
        return vector_ok(insn, s, checks);
    if (insn->prefixes & CT_X64_LOCK && !(checks & CHECK_LOCK && insn->modrm < 0xc0))
        return false;
    return special_ok(insn, checks >> CHECK_SPECIAL);
}

/* Finds the form: follows nodes by the fields of the key. */
static unsigned find_form(unsigned cell, uint32_t key) {
    while (cell & CELL_NODE) {
        const uint16_t *node = ct_x64_cells + (cell & ~CELL_NODE);
        cell = node[1 + (key >> (node[0] & 255) & node[0] >> 8)];
    }
    return cell;
}

/* Prefixes and REX; false when they fill the whole instruction. */
static bool take_prefixes(const uint8_t *bytes, struct ct_x64_insn *insn, struct parse *s) {
    unsigned prefixes = 0, rex = 0;
    const uint8_t *p = bytes;
    uint32_t word;
    while ((word = ct_x64_opcodes[ROW_LEGACY][*p]) & ATTR_PREFIX) {
        if ((*p & 0xf0) == 0x40) {
            rex = *p;
        } else {
            prefixes = add_prefix(prefixes, *p);
            rex = 0; /* only a REX right before the opcode counts */
        }
        if (unlikely(++p - bytes >= CT_X64_MAX_LENGTH))
            break;
    }
    insn->prefixes = (uint8_t)prefixes;
    insn->rex = rex & 15;
    insn->has_rex = rex != 0;
    s->p = p;
    s->word = word;
    return p - bytes < CT_X64_MAX_LENGTH;
}

/* Reads escapes and opcode. s->p ends after the opcode, or after the byte that shows that it is bad. */
static bool take_opcode(const uint8_t *bytes, struct ct_x64_insn *insn, struct parse *s) {
    const uint8_t *p = s->p;
    if (!(s->word & ATTR_ESCAPE)) {
        s->key = legacy_pp(insn->prefixes) << KEY_PP | (insn->rex & 8u) << (KEY_W - 3);
    } else if (*p == 0x0f) {
        unsigned row = 1;
        s->word = ct_x64_opcodes[row][*++p];
        if (s->word & ATTR_ESCAPE) {
            row = *p == 0x38 ? 2 : 3;
            s->word = ct_x64_opcodes[row][*++p];
        }
        s->p = p;
        insn->map = (uint8_t)row;
        s->key = legacy_pp(insn->prefixes) << KEY_PP | (insn->rex & 8u) << (KEY_W - 3);
    } else if (*p != 0x8f || (p[1] & 0x1f) >= 8) {
        if (insn->has_rex || insn->prefixes & VECTOR_FORBIDS) {
            s->p = p + (*p == 0x8f ? 2 : 1);
            return false;
        }
        if (!take_vector(insn, s)) {
            s->p = p + (*p == 0x62 ? 3 : 2);
            return false;
        }
    }
    s->key |= (uint32_t)(insn->rex & 1) << KEY_B;
    insn->opcode = *s->p;
    insn->opcode_offset = (uint8_t)(s->p - bytes);
    s->p++;
    return s->word >> 16;
}

/* The decoder proper, on WINDOW readable bytes. On error insn->length is the number of bytes looked at. */
static int decode_window(const uint8_t *bytes, struct ct_x64_insn *insn) {
    struct parse s = {0};
    *insn = (struct ct_x64_insn){0};
    if (unlikely(!take_prefixes(bytes, insn, &s) || !take_opcode(bytes, insn, &s))) {
        insn->length = (uint8_t)(s.p - bytes);
        return CT_ERR_BAD_INSTRUCTION;
    }
    const uint8_t *p = s.p;
    if (s.word & ATTR_MODRM) {
        insn->modrm_offset = (uint8_t)(p - bytes);
        insn->modrm = s.word & ATTR_MODREG ? *p | 0xc0 : *p;
        s.key |= insn->modrm | (uint32_t)(insn->modrm < 0xc0) << KEY_MEM;
        p = take_modrm(bytes, p + 1, insn);
    }
    unsigned cell = s.word >> 16, imm = s.word & ATTR_IMM;
    if (unlikely(imm == I_3DNOW)) {
        insn->encoding = CT_X64_3DNOW;
        insn->opcode_offset = (uint8_t)(p - bytes);
        insn->opcode = *p++;
        cell = ct_x64_opcodes[ROW_3DNOW][insn->opcode] >> 16;
    } else if (imm) {
        p = take_imm(bytes, p, imm, insn);
    }
    insn->length = (uint8_t)(p - bytes);
    unsigned index = find_form(cell, s.key);
    const struct ct_x64_form *form = &ct_x64_forms[index];
    if (unlikely(index == 0 || insn->length > CT_X64_MAX_LENGTH))
        return CT_ERR_BAD_INSTRUCTION;
    if (unlikely(s.vector || form->checks >= 1 << CHECK_SPECIAL || insn->prefixes & CT_X64_LOCK) &&
        !form_ok(insn, &s, form->checks))
        return CT_ERR_BAD_INSTRUCTION;
    insn->kind = form->kind;
    insn->table_index = (uint16_t)index;
    return 0;
}

int ct_x64_decode(const uint8_t *bytes, size_t size, struct ct_x64_insn *insn) {
    if (size >= WINDOW)
        return decode_window(bytes, insn);
    uint8_t window[WINDOW] = {0};
    for (size_t i = 0; i < size; i++)
        window[i] = bytes[i];
    int rc = decode_window(window, insn);
    if (insn->length > size && size < CT_X64_MAX_LENGTH)
        return CT_ERR_TRUNCATED;
    return rc;
}
