/* x86_64 decoder, step one: length, kind and places of the parts.
 *
 * One pass over the bytes, driven by the tables of decode_table.txt. The core never checks bounds: it runs only on WINDOW
 * readable bytes (callers with fewer get a zero-padded copy), and tells how many bytes its verdict rests on, so
 * "truncated" and "bad" are told apart afterwards. */
#include "isa/x64/decode.h"

#include "contrail/status.h"
#include "isa/x64/decode_tables.h"

#define WINDOW 40 /* 14 prefixes + the longest rest + one 8-byte load */

#define unlikely(x) __builtin_expect(!!(x), 0)

#define VECTOR_FORBIDS (CT_X64_LOCK | CT_X64_REP | CT_X64_REPNE | CT_X64_OPSIZE) /* before VEX, EVEX, XOP */

/* What the escape bytes say beyond struct ct_x64_insn. */
struct escape {
    unsigned row;  /* of ct_x64_opcodes */
    uint32_t key;  /* fields of the key above modrm */
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
    RM_8(RM_ROW0), RM_8(RM_ROW(1)), RM_8(RM_ROW(4)),
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

static int fail(struct ct_x64_insn *insn, const uint8_t *bytes, const uint8_t *seen) {
    insn->length = (uint8_t)(seen - bytes);
    return CT_ERR_BAD_INSTRUCTION;
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

static void take_vex3(const uint8_t *p, struct ct_x64_insn *insn, struct escape *esc) {
    insn->rex = (uint8_t)((~p[1] >> 5 & 7) | (p[2] >> 4 & 8));
    insn->vvvv = ~p[2] >> 3 & 15;
    insn->vector = p[2] & 7;
    esc->key = (uint32_t)(p[2] & 3) << KEY_PP | (uint32_t)(p[2] >> 2 & 1) << KEY_L | (uint32_t)(p[2] >> 7) << KEY_W;
}

/* Reads VEX, EVEX or XOP at p; returns the place of the opcode, or NULL when the payload is not valid. */
static const uint8_t *take_vector(const uint8_t *p, struct ct_x64_insn *insn, struct escape *esc) {
    unsigned map;
    switch (*p) {
    case 0xc5:
        insn->encoding = CT_X64_VEX;
        insn->map = 1;
        insn->rex = ~p[1] >> 5 & 4;
        insn->vvvv = ~p[1] >> 3 & 15;
        insn->vector = p[1] & 7;
        esc->row = ROW_VEX_1;
        esc->key = (uint32_t)(p[1] & 3) << KEY_PP | (uint32_t)(p[1] >> 2 & 1) << KEY_L;
        return p + 2;
    case 0xc4:
        insn->encoding = CT_X64_VEX;
        insn->map = map = p[1] & 31;
        take_vex3(p, insn, esc);
        esc->row = ROW_VEX_1 - 1 + map;
        return map >= 1 && map <= 3 ? p + 3 : NULL;
    case 0x8f:
        insn->encoding = CT_X64_XOP;
        insn->map = map = p[1] & 31;
        take_vex3(p, insn, esc);
        esc->row = ROW_XOP_8 - 8 + map;
        return map >= 8 && map <= 10 ? p + 3 : NULL;
    default:
        insn->encoding = CT_X64_EVEX;
        insn->map = map = p[1] & 7;
        insn->rex = (uint8_t)((~p[1] >> 5 & 7) | (p[2] >> 4 & 8));
        insn->vvvv = (uint8_t)((~p[2] >> 3 & 15) | (~p[3] << 1 & 16));
        insn->vector = (uint8_t)((p[2] & 3) | (p[3] >> 3 & 12));
        esc->evex1 = p[1];
        esc->evex3 = p[3];
        esc->key = (uint32_t)(p[2] & 3) << KEY_PP | (uint32_t)(p[2] >> 7) << KEY_W |
                   (uint32_t)(p[3] >> 5 & 3) << KEY_L | (uint32_t)(p[3] >> 4 & 1) << KEY_BC;
        esc->row = map < 4 ? ROW_EVEX_1 - 1 + map : ROW_EVEX_5 - 5 + map;
        return p[2] & 4 && !(p[1] & 8) && ((map >= 1 && map <= 3) || map == 5 || map == 6) ? p + 4 : NULL;
    }
}

static unsigned imm_size(unsigned type, const struct ct_x64_insn *insn) {
    unsigned z = (insn->prefixes & CT_X64_OPSIZE) && !(insn->rex & 8) ? 2 : 4;
    switch (type) {
    case I_B:
    case I_EXTRQ:
        return 1;
    case I_W:
    case I_ENTER:
        return 2;
    case I_Z:
        return z;
    case I_V:
        return insn->rex & 8 ? 8 : z;
    case I_G3B:
        return insn->modrm & 0x30 ? 0 : 1;
    case I_G3Z:
        return insn->modrm & 0x30 ? 0 : z;
    case I_REL:
    case I_D:
        return 4;
    default:
        return 0;
    }
}

static const uint8_t *take_imm(const uint8_t *bytes, const uint8_t *p, unsigned type, struct ct_x64_insn *insn) {
    if (type == I_MOFFS) {
        unsigned size = insn->prefixes & CT_X64_ADDRSIZE ? 4 : 8;
        insn->disp_offset = (uint8_t)(p - bytes);
        insn->disp_size = (uint8_t)size;
        insn->disp = size == 8 ? (int64_t)load64(p) : (int64_t)load32(p);
        return p + size;
    }
    if (type == I_EXTRQ && !(insn->prefixes & (CT_X64_OPSIZE | CT_X64_REPNE)))
        return p;
    unsigned size = imm_size(type, insn);
    if (size == 0)
        return p;
    insn->imm_offset = (uint8_t)(p - bytes);
    insn->imm_size = (uint8_t)size;
    insn->imm = load_signed(p, size);
    p += size;
    if (unlikely(type == I_ENTER || type == I_EXTRQ)) {
        insn->imm2_offset = (uint8_t)(p - bytes);
        insn->imm2_size = 1;
        p++;
    }
    return p;
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
static unsigned vsib_index(const struct ct_x64_insn *insn, const struct escape *esc) {
    unsigned index = (insn->sib >> 3 & 7) | (insn->rex & 2) << 2;
    return insn->encoding == CT_X64_EVEX ? index | (~esc->evex3 << 1 & 16) : index;
}

static bool gather_ok(const struct ct_x64_insn *insn, const struct escape *esc, bool loads) {
    if (!insn->has_sib)
        return false;
    if (!loads)
        return true;
    unsigned index = vsib_index(insn, esc), reg = (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1;
    if (insn->encoding == CT_X64_EVEX)
        return (reg | (~esc->evex1 & 16)) != index;
    return reg != index && reg != insn->vvvv && index != insn->vvvv;
}

static bool evex_ok(const struct ct_x64_insn *insn, const struct escape *esc, unsigned checks) {
    unsigned mask = esc->evex3 & 7;
    bool zero = esc->evex3 & 0x80;
    if (mask && !(checks & CHECK_MASK))
        return false;
    if (!mask && checks & CHECK_MUST_MASK)
        return false;
    if (zero && (!mask || !(checks & CHECK_ZERO)))
        return false;
    if (checks & (CHECK_K_REG | CHECK_GPR_REG) && !(esc->evex1 & 16))
        return false;
    return insn->length != 0 || checks;
}

static bool vector_ok(const struct ct_x64_insn *insn, const struct escape *esc, unsigned checks) {
    unsigned special = checks >> CHECK_SPECIAL, vvvv = insn->vvvv;
    if (special == S_VSIB || special == S_GATHER) {
        if (!gather_ok(insn, esc, special == S_GATHER))
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
    return insn->encoding != CT_X64_EVEX || evex_ok(insn, esc, checks);
}

static bool form_ok(const struct ct_x64_insn *insn, const struct escape *esc, unsigned checks) {
    if (insn->encoding == CT_X64_VEX || insn->encoding == CT_X64_EVEX || insn->encoding == CT_X64_XOP)
        return vector_ok(insn, esc, checks);
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

/* The decoder proper, on WINDOW readable bytes. On error insn->length is the number of bytes looked at. */
static int decode_window(const uint8_t *bytes, struct ct_x64_insn *insn) {
    *insn = (struct ct_x64_insn){0};
    const uint8_t *p = bytes;
    unsigned prefixes = 0, rex = 0;
    uint32_t word;
    while ((word = ct_x64_opcodes[ROW_LEGACY][*p]) & ATTR_PREFIX) {
        if ((*p & 0xf0) == 0x40) {
            rex = *p;
        } else {
            prefixes = add_prefix(prefixes, *p);
            rex = 0;
        }
        if (unlikely(++p - bytes >= CT_X64_MAX_LENGTH))
            return fail(insn, bytes, p);
    }
    insn->prefixes = (uint8_t)prefixes;
    insn->rex = rex & 15;
    insn->has_rex = rex != 0;
    struct escape esc = {0};
    bool vector = false;
    if (word & ATTR_ESCAPE) {
        if (*p == 0x0f) {
            esc.row = 1;
            word = ct_x64_opcodes[1][*++p];
            if (word & ATTR_ESCAPE) {
                esc.row = *p == 0x38 ? 2 : 3;
                word = ct_x64_opcodes[esc.row][*++p];
            }
            insn->map = (uint8_t)esc.row;
        } else if (*p != 0x8f || (p[1] & 0x1f) >= 8) {
            if (rex || prefixes & VECTOR_FORBIDS)
                return fail(insn, bytes, p + 1);
            const uint8_t *start = p;
            p = take_vector(p, insn, &esc);
            if (!p)
                return fail(insn, bytes, start + (*start == 0x62 ? 3 : 2));
            word = ct_x64_opcodes[esc.row][*p];
            vector = true;
        }
    }
    insn->opcode = *p;
    insn->opcode_offset = (uint8_t)(p - bytes);
    p++;
    unsigned cell = word >> 16;
    if (cell == 0)
        return fail(insn, bytes, p);
    uint32_t key = vector ? esc.key : legacy_pp(prefixes) << KEY_PP | (rex & 8) << (KEY_W - 3);
    key |= (uint32_t)(insn->rex & 1) << KEY_B;
    if (word & ATTR_MODRM) {
        insn->modrm_offset = (uint8_t)(p - bytes);
        insn->modrm = *p++;
        if (word & ATTR_MODREG)
            insn->modrm |= 0xc0;
        key |= insn->modrm | (uint32_t)(insn->modrm < 0xc0) << KEY_MEM;
        p = take_modrm(bytes, p, insn);
    }
    unsigned imm = word & ATTR_IMM;
    if (unlikely(imm == I_3DNOW)) {
        insn->encoding = CT_X64_3DNOW;
        insn->opcode_offset = (uint8_t)(p - bytes);
        insn->opcode = *p++;
        cell = ct_x64_opcodes[ROW_3DNOW][insn->opcode] >> 16;
    } else if (imm) {
        p = take_imm(bytes, p, imm, insn);
    }
    insn->length = (uint8_t)(p - bytes);
    unsigned index = find_form(cell, key);
    const struct ct_x64_form *form = &ct_x64_forms[index];
    if (unlikely(index == 0 || insn->length > CT_X64_MAX_LENGTH))
        return CT_ERR_BAD_INSTRUCTION;
    if (unlikely(form->checks >= (vector ? 1 : 1 << CHECK_SPECIAL) || prefixes & CT_X64_LOCK) &&
        !form_ok(insn, &esc, form->checks))
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
