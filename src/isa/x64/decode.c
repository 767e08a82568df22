/* x86_64 decoder, step one: length, kind and places of the parts.
 *
 * One pass over the bytes. The core never checks bounds: it runs only on WINDOW readable bytes (callers with fewer get a
 * zero-padded copy), and counts how many bytes its verdict rests on, so "truncated" and "bad" are told apart afterwards. */
#include "isa/x64/decode.h"

#include "contrail/status.h"

#define WINDOW 40 /* 14 prefixes + the longest rest + one 8-byte load */

/* Length attributes of an opcode: low 4 bits say which immediate follows. */
enum { I0, IB, IW, IZ, IV, IENTER, IMOFFS, IREL, IG3B, IG3V, IEXTRQ, ID, I3DNOW };
enum { M = 0x10, P = 0x20, X = 0x40, U = 0x80 }; /* modrm, prefix, escape, invalid */

#define MI (M | IB)
#define MZ (M | IZ)
static const uint8_t map0[256] = {
    /*       0  1  2  3  4   5   6  7  8  9  a  b  c   d   e  f */
    /* 0 */ M, M, M, M, IB, IZ, U, U, M, M, M, M, IB, IZ, U, X,
    /* 1 */ M, M, M, M, IB, IZ, U, U, M, M, M, M, IB, IZ, U, U,
    /* 2 */ M, M, M, M, IB, IZ, P, U, M, M, M, M, IB, IZ, P, U,
    /* 3 */ M, M, M, M, IB, IZ, P, U, M, M, M, M, IB, IZ, P, U,
    /* 4 */ P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P,
    /* 5 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /* 6 */ U, U, X, M, P, P, P, P, IZ, MZ, IB, MI, 0, 0, 0, 0,
    /* 7 */ IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB,
    /* 8 */ MI, MZ, U, MI, M, M, M, M, M, M, M, M, M, M, M, M | X,
    /* 9 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, U, 0, 0, 0, 0, 0,
    /* a */ IMOFFS, IMOFFS, IMOFFS, IMOFFS, 0, 0, 0, 0, IB, IZ, 0, 0, 0, 0, 0, 0,
    /* b */ IB, IB, IB, IB, IB, IB, IB, IB, IV, IV, IV, IV, IV, IV, IV, IV,
    /* c */ MI, MI, IW, 0, X, X, MI, MZ, IENTER, 0, IW, 0, 0, IB, U, 0,
    /* d */ M, M, M, M, U, U, U, 0, M, M, M, M, M, M, M, M,
    /* e */ IB, IB, IB, IB, IB, IB, IB, IB, IREL, IREL, U, IB, 0, 0, 0, 0,
    /* f */ P, 0, P, P, 0, 0, M | IG3B, M | IG3V, 0, 0, 0, 0, 0, 0, M, M,
};
static const uint8_t map1[256] = {
    /* 0 */ M, M, M, M, U, 0, 0, 0, 0, 0, U, 0, U, M, 0, M | I3DNOW,
    /* 1 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* 2 */ M, M, M, M, U, U, U, U, M, M, M, M, M, M, M, M,
    /* 3 */ 0, 0, 0, 0, 0, 0, U, 0, X, U, X, U, U, U, U, U,
    /* 4 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* 5 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* 6 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* 7 */ MI, MI, MI, MI, M, M, M, 0, M | IEXTRQ, M, U, U, M, M, M, M,
    /* 8 */ IREL, IREL, IREL, IREL, IREL, IREL, IREL, IREL, IREL, IREL, IREL, IREL, IREL, IREL, IREL, IREL,
    /* 9 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* a */ 0, 0, 0, M, MI, M, U, U, 0, 0, 0, M, MI, M, M, M,
    /* b */ M, M, M, M, M, M, M, M, M, M, MI, M, M, M, M, M,
    /* c */ M, M, MI, M, MI, MI, MI, M, 0, 0, 0, 0, 0, 0, 0, 0,
    /* d */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* e */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* f */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
};
#undef MI
#undef MZ

/* Kinds of the one-byte map where they depend on the opcode alone. */
static const uint8_t kind0[256] = {
    [0x70] = CT_INSN_JCC,     [0x71] = CT_INSN_JCC,     [0x72] = CT_INSN_JCC,  [0x73] = CT_INSN_JCC,
    [0x74] = CT_INSN_JCC,     [0x75] = CT_INSN_JCC,     [0x76] = CT_INSN_JCC,  [0x77] = CT_INSN_JCC,
    [0x78] = CT_INSN_JCC,     [0x79] = CT_INSN_JCC,     [0x7a] = CT_INSN_JCC,  [0x7b] = CT_INSN_JCC,
    [0x7c] = CT_INSN_JCC,     [0x7d] = CT_INSN_JCC,     [0x7e] = CT_INSN_JCC,  [0x7f] = CT_INSN_JCC,
    [0xc2] = CT_INSN_RET,     [0xc3] = CT_INSN_RET,     [0xca] = CT_INSN_FAR,  [0xcb] = CT_INSN_FAR,
    [0xcc] = CT_INSN_INT3,    [0xcd] = CT_INSN_INT,     [0xcf] = CT_INSN_FAR,  [0xe0] = CT_INSN_LOOP,
    [0xe1] = CT_INSN_LOOP,    [0xe2] = CT_INSN_LOOP,    [0xe3] = CT_INSN_LOOP, [0xe8] = CT_INSN_CALL,
    [0xe9] = CT_INSN_JMP,     [0xeb] = CT_INSN_JMP,     [0xf1] = CT_INSN_INT,  [0xf4] = CT_INSN_HALT,
};

static uint8_t kind_map0(const struct ct_x64_insn *insn) {
    unsigned reg = insn->modrm >> 3 & 7;
    switch (insn->opcode) {
    case 0x90:
        return !(insn->rex & 1) && !(insn->prefixes & CT_X64_REP) ? CT_INSN_NOP : CT_INSN_OTHER;
    case 0xc7:
        return insn->modrm == 0xf8 ? CT_INSN_XBEGIN : CT_INSN_OTHER;
    case 0xff:
        if (reg == 2)
            return CT_INSN_CALL_INDIRECT;
        if (reg == 4)
            return CT_INSN_JMP_INDIRECT;
        return reg == 3 || reg == 5 ? CT_INSN_FAR : CT_INSN_OTHER;
    default:
        return kind0[insn->opcode];
    }
}

static uint8_t kind_map1(const struct ct_x64_insn *insn) {
    switch (insn->opcode) {
    case 0x05:
    case 0x34:
        return CT_INSN_SYSCALL;
    case 0x07:
    case 0x35:
    case 0xaa:
        return CT_INSN_FAR;
    case 0x0b:
    case 0xb9:
    case 0xff:
        return CT_INSN_TRAP;
    case 0x1e:
        if ((insn->modrm & 0xfe) == 0xfa && insn->prefixes & CT_X64_REP)
            return CT_INSN_LANDING;
        return CT_INSN_NOP;
    case 0x19:
    case 0x1d:
    case 0x1f:
        return CT_INSN_NOP;
    default:
        return (insn->opcode & 0xf0) == 0x80 ? CT_INSN_JCC : CT_INSN_OTHER;
    }
}

static uint8_t kind_of(const struct ct_x64_insn *insn) {
    if (insn->encoding != CT_X64_LEGACY || insn->map > 1)
        return CT_INSN_OTHER;
    return insn->map == 0 ? kind_map0(insn) : kind_map1(insn);
}

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

static uint8_t prefix_bit(uint8_t b) {
    switch (b) {
    case 0x64:
        return CT_X64_SEG_FS;
    case 0x65:
        return CT_X64_SEG_GS;
    case 0x66:
        return CT_X64_OPSIZE;
    case 0x67:
        return CT_X64_ADDRSIZE;
    case 0xf0:
        return CT_X64_LOCK;
    case 0xf2:
        return CT_X64_REPNE;
    case 0xf3:
        return CT_X64_REP;
    default:
        return CT_X64_SEG_OTHER;
    }
}

/* The vector escapes: payload bits into insn, returns the attributes of the opcode; p is at the escape byte. */
static uint8_t vector_escape(const uint8_t **pp, struct ct_x64_insn *insn) {
    const uint8_t *p = *pp;
    uint8_t b1 = p[1], b2 = p[2], b3 = p[3];
    if (insn->has_rex || insn->prefixes & (CT_X64_LOCK | CT_X64_REP | CT_X64_REPNE | CT_X64_OPSIZE))
        return U;
    switch (*p) {
    case 0xc5:
        insn->encoding = CT_X64_VEX;
        insn->rex = ~b1 >> 5 & 4;
        insn->map = 1;
        insn->vvvv = ~b1 >> 3 & 15;
        insn->vector = (b1 & 3) | (b1 & 4);
        *pp = p + 2;
        break;
    case 0x62:
        insn->encoding = CT_X64_EVEX;
        insn->rex = (~b1 >> 5 & 7) | (b2 >> 4 & 8);
        insn->map = b1 & 7;
        insn->vvvv = (~b2 >> 3 & 15) | (~b3 << 1 & 16);
        insn->vector = (b2 & 3) | (b3 >> 3 & 12);
        *pp = p + 4;
        if (!(b2 & 4) || b1 & 8)
            return U;
        break;
    default:
        insn->encoding = *p == 0xc4 ? CT_X64_VEX : CT_X64_XOP;
        insn->rex = (~b1 >> 5 & 7) | (b2 >> 4 & 8);
        insn->map = b1 & 31;
        insn->vvvv = ~b2 >> 3 & 15;
        insn->vector = (b2 & 3) | (b2 & 4);
        *pp = p + 3;
        break;
    }
    unsigned map = insn->map;
    uint8_t op = **pp;
    switch (insn->encoding) {
    case CT_X64_VEX:
        if (map == 1 && op == 0x77)
            return 0;
        break;
    case CT_X64_XOP:
        return map == 8 ? M | IB : map == 9 ? M : map == 10 ? M | ID : U;
    default:
        if (map == 5 || map == 6)
            return M;
        break;
    }
    if (map == 1)
        return (op & 0xfc) == 0x70 || (op >= 0xc2 && op <= 0xc6 && op != 0xc3) ? M | IB : M;
    return map == 2 ? M : map == 3 ? M | IB : U;
}

static unsigned imm_size(unsigned type, const struct ct_x64_insn *insn) {
    bool wide = insn->rex & 8, narrow = insn->prefixes & CT_X64_OPSIZE;
    unsigned z = narrow && !wide ? 2 : 4;
    switch (type) {
    case IB:
    case IEXTRQ:
        return 1;
    case IW:
    case IENTER:
        return 2;
    case IZ:
        return z;
    case IV:
        return wide ? 8 : z;
    case IG3B:
        return (insn->modrm & 0x30) == 0 ? 1 : 0;
    case IG3V:
        return (insn->modrm & 0x30) == 0 ? z : 0;
    case IREL:
    case ID:
        return 4;
    default:
        return 0;
    }
}

static int fail(struct ct_x64_insn *insn, size_t seen) {
    insn->length = (uint8_t)seen;
    return CT_ERR_BAD_INSTRUCTION;
}

static const uint8_t *modrm_part(const uint8_t *bytes, const uint8_t *p, struct ct_x64_insn *insn) {
    uint8_t modrm = *p;
    insn->modrm_offset = (uint8_t)(p - bytes);
    insn->modrm = modrm;
    p++;
    if (modrm >= 0xc0 || (insn->encoding == CT_X64_LEGACY && insn->map == 1 && (insn->opcode & 0xfc) == 0x20))
        return p;
    unsigned mod = modrm >> 6, size = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if ((modrm & 7) == 4) {
        insn->has_sib = true;
        insn->sib = *p++;
        if (mod == 0 && (insn->sib & 7) == 5)
            size = 4;
    } else if (mod == 0 && (modrm & 7) == 5) {
        size = 4;
        insn->rip_relative = true;
    }
    if (size) {
        insn->disp_offset = (uint8_t)(p - bytes);
        insn->disp_size = (uint8_t)size;
        insn->disp = size == 1 ? (int8_t)*p : (int32_t)load32(p);
    }
    return p + size;
}

/* The decoder proper, on WINDOW readable bytes. On error insn->length is the number of bytes looked at. */
static int decode_window(const uint8_t *bytes, struct ct_x64_insn *insn) {
    *insn = (struct ct_x64_insn){0};
    const uint8_t *p = bytes;
    uint8_t attr;
    while ((attr = map0[*p]) & P) {
        if (p - bytes >= CT_X64_MAX_LENGTH - 1)
            return fail(insn, CT_X64_MAX_LENGTH);
        if ((*p & 0xf0) == 0x40) {
            insn->has_rex = true;
            insn->rex = *p & 15;
        } else {
            insn->has_rex = false;
            insn->rex = 0;
            uint8_t bit = prefix_bit(*p);
            if (bit & (CT_X64_REP | CT_X64_REPNE))
                insn->prefixes &= (uint8_t) ~(CT_X64_REP | CT_X64_REPNE);
            if (bit & (CT_X64_SEG_FS | CT_X64_SEG_GS))
                insn->prefixes &= (uint8_t) ~(CT_X64_SEG_FS | CT_X64_SEG_GS);
            insn->prefixes |= bit;
        }
        p++;
    }
    if (attr & X) {
        if (*p == 0x0f) {
            attr = map1[*++p];
            insn->map = 1;
            if (attr & X) {
                insn->map = *p == 0x38 ? 2 : 3;
                attr = *p == 0x38 ? M : M | IB;
                p++;
            }
        } else if (*p == 0x8f && (p[1] & 0x38) == 0) {
            attr = M;
        } else if (*p == 0x8f && (p[1] & 0x1f) < 8) {
            return fail(insn, (size_t)(p + 2 - bytes));
        } else {
            attr = vector_escape(&p, insn);
        }
    }
    insn->opcode = *p;
    insn->opcode_offset = (uint8_t)(p - bytes);
    p++;
    if (attr & U)
        return fail(insn, (size_t)(p - bytes));
    if (attr & M)
        p = modrm_part(bytes, p, insn);
    unsigned type = attr & 15;
    if (type == I3DNOW) {
        insn->encoding = CT_X64_3DNOW;
        insn->opcode_offset = (uint8_t)(p - bytes);
        insn->opcode = *p++;
    } else if (type == IMOFFS) {
        unsigned size = insn->prefixes & CT_X64_ADDRSIZE ? 4 : 8;
        insn->disp_offset = (uint8_t)(p - bytes);
        insn->disp_size = (uint8_t)size;
        insn->disp = size == 8 ? (int64_t)load64(p) : (int64_t)load32(p);
        p += size;
    } else if (type != I0) {
        if (type == IEXTRQ && !(insn->prefixes & (CT_X64_OPSIZE | CT_X64_REPNE)))
            type = I0;
        unsigned size = imm_size(type, insn);
        if (size) {
            insn->imm_offset = (uint8_t)(p - bytes);
            insn->imm_size = (uint8_t)size;
            insn->imm = load_signed(p, size);
            p += size;
        }
        if (type == IENTER || type == IEXTRQ) {
            insn->imm2_offset = (uint8_t)(p - bytes);
            insn->imm2_size = 1;
            p++;
        }
    }
    insn->length = (uint8_t)(p - bytes);
    if (insn->length > CT_X64_MAX_LENGTH)
        return CT_ERR_BAD_INSTRUCTION;
    insn->kind = kind_of(insn);
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

bool ct_x64_memory(const struct ct_x64_insn *insn, struct ct_x64_mem *mem) {
    *mem = (struct ct_x64_mem){.base = CT_X64_NO_REG, .index = CT_X64_NO_REG, .scale = 1, .disp = insn->disp};
    if (insn->disp_size && !insn->modrm_offset)
        return true; /* moffs */
    if (!insn->modrm_offset || insn->modrm >= 0xc0)
        return false;
    unsigned mod = insn->modrm >> 6, rm = insn->modrm & 7;
    if (insn->rip_relative) {
        mem->base = CT_X64_RIP;
    } else if (insn->has_sib) {
        unsigned base = insn->sib & 7, index = (insn->sib >> 3 & 7) | (insn->rex & 2) << 2;
        if (mod != 0 || base != 5)
            mem->base = (uint8_t)(base | (insn->rex & 1) << 3);
        if (index != 4)
            mem->index = (uint8_t)index;
        mem->scale = (uint8_t)(1 << (insn->sib >> 6));
    } else {
        mem->base = (uint8_t)(rm | (insn->rex & 1) << 3);
    }
    return true;
}
