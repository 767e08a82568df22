/* SPDX-License-Identifier: Apache-2.0 */
/* See compare_a64.h. */
#include "compare_a64.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "isa/a64/text.h"

const char *const a64_verdict_names[A64_VERDICTS] = {
    "same",           "known errors of the oracle", "same, without text",    "valid or not",           "text", "kind",
    "registers read", "registers written",          "flags read or written", "memory read or written",
};

/* Words by their first letters, each ended by a space; a * takes any ending. */
static bool is_one_of(const char *name, const char *list) {
    while (*list) {
        size_t n = strcspn(list, " ");
        bool prefix = n && list[n - 1] == '*';
        if (prefix ? !strncmp(name, list, n - 1) : strlen(name) == n && !strncmp(name, list, n))
            return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

/* ---- what the oracle's text means ---- */

struct meaning {
    char name[24];
    const char *operands;
    uint32_t first, second, rest; /* general registers: of the first operand, the second, others ... */
    uint32_t memory, lane;        /* ... of the address, and the number of a lane */
    bool writes_base, has_memory;
    uint32_t regs_read, regs_written;
    bool flags_read, flags_written, mem_read, mem_written;
};

/* The register that a word names, as a bit; 0: none, or the zero register. */
static uint32_t register_bit(const char *word, size_t n) {
    if ((n == 2 && !strncmp(word, "sp", n)) || (n == 3 && !strncmp(word, "wsp", n)))
        return UINT32_C(1) << 31;
    if (n < 2 || n > 3 || (*word != 'x' && *word != 'w') || !isdigit((unsigned char)word[1]) ||
        (n == 3 && !isdigit((unsigned char)word[2])))
        return 0;
    return UINT32_C(1) << atoi(word + 1);
}

static void parse(const char *text, struct meaning *m) {
    *m = (struct meaning){.operands = ""};
    size_t n = strcspn(text, " ");
    memcpy(m->name, text, n < sizeof m->name - 1 ? n : sizeof m->name - 1);
    m->operands = text + n;
    unsigned operand = 0;
    bool inside = false, list = false, lane = false;
    for (const char *p = m->operands; *p;) {
        size_t word = 0;
        while (isalnum((unsigned char)p[word]) || p[word] == '_')
            word++;
        if (word) {
            uint32_t bit = word && p[word] != '.' ? register_bit(p, word) : 0;
            *(lane           ? &m->lane
              : inside       ? &m->memory
              : operand == 0 ? &m->first
              : operand == 1 ? &m->second
                             : &m->rest) |= bit;
            p += word;
            continue;
        }
        m->has_memory |= *p == '[' && p != m->operands && (p[-1] == ' ');
        lane = *p == '[' ? p[-1] != ' ' : *p == ']' ? false : lane;
        inside = *p == '[' ? p[-1] == ' ' : *p == ']' ? false : inside;
        list = *p == '{' ? true : *p == '}' ? false : list;
        m->writes_base |= *p == ']' && (p[1] == '!' || (p[1] == ',' && m->has_memory));
        operand += *p == ',' && !inside && !list;
        p++;
    }
}

static bool is_atomic(const char *name) {
    return is_one_of(name, "ldadd* ldclr* ldeor* ldset* ldsmax* ldsmin* ldumax* ldumin* swp*");
}

static bool is_copy(const char *name) {
    return is_one_of(name, "cpy* setp* setm* sete* setg*");
}

/* Operands before the address of a load, store or atomic. */
static void memory_registers(struct meaning *m) {
    const char *name = m->name;
    uint32_t data = m->first | m->second | m->rest;
    m->regs_read |= m->memory;
    if (m->writes_base) { /* the offset of a post-indexed form is outside of the brackets */
        m->regs_written |= m->memory;
        if (strchr(m->operands, ']')[1] == ',') {
            uint32_t after = 0;
            struct meaning rest;
            parse(strchr(m->operands, ']'), &rest);
            after = rest.first | rest.second;
            m->regs_read |= after;
            data =
                m->first | (m->operands[1] == '{' || is_one_of(name, "str* ldr* stg stzg st2g stz2g") ? 0 : m->second);
        }
    }
    if (is_atomic(name)) {
        m->regs_read |= m->first;
        m->regs_written |= m->second;
    } else if (is_one_of(name, "stadd* stclr* steor* stset* stsmax* stsmin* stumax* stumin*")) {
        m->regs_read |= m->first;
    } else if (is_one_of(name, "cas*")) {
        m->regs_read |= data;
        m->regs_written |= is_one_of(name, "casp*") ? m->first | m->second : m->first;
    } else if (is_one_of(name, "stxr* stxp stlxr* stlxp st64bv*")) {
        m->regs_written |= m->first;
        m->regs_read |= m->second | m->rest;
    } else if (is_one_of(name, "st*")) {
        m->regs_read |= data;
    } else if (is_one_of(name, "ldg")) {
        m->regs_read |= data;
        m->regs_written |= data;
    } else if (is_one_of(name, "ld*")) {
        m->regs_written |= data;
    }
    if (is_one_of(name, "ld64b st64b st64bv st64bv0")) {
        uint32_t eight = is_one_of(name, "st64bv*") ? m->second : m->first;
        *(is_one_of(name, "ld*") ? &m->regs_written : &m->regs_read) |= eight * 0xff;
    }
}

static void memory_access(struct meaning *m) {
    bool both =
        is_atomic(m->name) || is_one_of(m->name, "cas* stadd* stclr* steor* stset* stsmax* stsmin* stumax* stumin*");
    m->mem_read = both || is_one_of(m->name, "ld*");
    m->mem_written = both || (is_one_of(m->name, "st*"));
}

static void plain_registers(struct meaning *m) {
    const char *name = m->name;
    uint32_t all = m->first | m->second | m->rest;
    bool only_reads =
        is_one_of(name, "cmp cmn cmpp tst ccmp ccmn b* cbz cbnz tbz tbnz ret msr sys ic dc at tlbi cfp dvp cpp "
                        "wfet wfit rmif setf8 setf16 prf* while* cterm*") &&
        !is_one_of(name, "bic* bfi bfc bfxil brk* bfm* bfdot bfcvt* bsl* bit bif bcax bgrp bdep bext");
    if (only_reads) {
        m->regs_read |= all;
        return;
    }
    m->regs_written |= m->first;
    m->regs_read |= m->second | m->rest;
    if (is_one_of(name,
                  "movk bfi bfxil bfc bfm pacia pacib pacda pacdb autia autib autda autdb paciz* pacdz* autiz* autdz* "
                  "xpaci xpacd inc* dec* sqinc* sqdec* uqinc* uqdec* clast*"))
        m->regs_read |= m->first;
}

static void implicit_registers(struct meaning *m) {
    static const struct {
        const char *names;
        uint32_t read, written;
    } list[] = {
        {"bl blr*", 0, 1u << 30},
        {"retaa retab", 1u << 30 | 1u << 31, 0},
        {"paciasp pacibsp autiasp autibsp", 1u << 30 | 1u << 31, 1u << 30},
        {"paciaz pacibz autiaz autibz xpaclri", 1u << 30, 1u << 30},
        {"pacia1716 pacib1716 autia1716 autib1716", 3u << 16, 1u << 17},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (is_one_of(m->name, list[i].names)) {
            m->regs_read |= list[i].read;
            m->regs_written |= list[i].written;
        }
    if (!strcmp(m->name, "ret") && !*m->operands)
        m->regs_read |= 1u << 30;
}

static void flags(struct meaning *m) {
    const char *name = m->name;
    bool moves = !strcmp(name, "mrs") || !strcmp(name, "msr");
    m->flags_written =
        is_one_of(name, "adds subs ands bics adcs sbcs negs ngcs cmp cmn tst ccmp ccmn fcmp fcmpe fccmp "
                        "fccmpe rmif setf8 setf16 cfinv axflag xaflag subps cmpp fjcvtzs cpyp* cpyfp* "
                        "setp* setgp* cmpeq cmpne cmpge cmpgt cmphs cmphi cmplt cmple cmplo cmpls "
                        "while* ctermeq ctermne ptest ptrues pfirst pnext eors orrs orns nors nands nots "
                        "movs brkas brkbs brkpas brkpbs brkns rdffrs match nmatch");
    m->flags_read =
        is_one_of(name, "adc adcs sbc sbcs ngc ngcs csel csinc csinv csneg cset csetm cinc cinv cneg ccmp "
                        "ccmn fccmp fccmpe fcsel b.* bc.* cfinv axflag xaflag rmif setf8 setf16 cpym* cpye* "
                        "cpyfm* cpyfe* setm* sete* setgm* setge* ctermeq ctermne");
    if (moves && strstr(m->operands, "nzcv"))
        *(name[1] == 'r' ? &m->flags_read : &m->flags_written) = true;
    m->flags_written |= moves && strstr(m->operands, "rndr");
}

static void understand(const char *text, struct meaning *m) {
    parse(text, m);
    bool copy = is_copy(m->name);
    if (copy) {
        m->regs_read = m->first | m->second | m->rest | m->memory;
        m->regs_written = m->regs_read & ~(is_one_of(m->name, "set*") ? m->rest : 0);
        m->mem_written = true;
        m->mem_read = is_one_of(m->name, "cpy*");
    } else if (m->has_memory && !is_one_of(m->name, "prf*")) {
        memory_registers(m);
        memory_access(m);
    } else if (is_one_of(m->name, "ldr ldrsw")) { /* literals */
        m->regs_written = m->first;
        m->mem_read = true;
    } else {
        plain_registers(m);
        m->regs_read |= m->memory;
        if (is_one_of(m->name, "sys ic dc at tlbi cfp dvp cpp"))
            m->mem_read = m->mem_written = true;
    }
    m->regs_read |= m->lane;
    implicit_registers(m);
    flags(m);
}

static unsigned kind_of(const char *name) {
    static const struct {
        const char *names;
        uint8_t kind;
    } kinds[] = {
        {"b", CT_INSN_JMP},
        {"b.* bc.*", CT_INSN_JCC},
        {"bl", CT_INSN_CALL},
        {"cbz cbnz tbz tbnz", CT_INSN_LOOP},
        {"br braa brab braaz brabz", CT_INSN_JMP_INDIRECT},
        {"blr blraa blrab blraaz blrabz", CT_INSN_CALL_INDIRECT},
        {"ret retaa retab", CT_INSN_RET},
        {"eret eretaa eretab drps", CT_INSN_FAR},
        {"svc", CT_INSN_SYSCALL},
        {"hvc smc", CT_INSN_INT},
        {"brk", CT_INSN_INT3},
        {"hlt dcps1 dcps2 dcps3", CT_INSN_HALT},
        {"udf", CT_INSN_TRAP},
        {"nop hint", CT_INSN_NOP},
        {"bti paciasp pacibsp", CT_INSN_LANDING},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (is_one_of(name, kinds[i].names))
            return kinds[i].kind;
    return CT_INSN_OTHER;
}

/* ---- where the oracle is wrong ---- */

static const struct {
    uint32_t mask, value;
} known[] = {
    {0xffd80000, 0xd5000000}, /* mrs, msr of op0 0: there are none */
    {0x3fe08000, 0x08c08000}, /* ldar: fields that should be ones; it takes others in all instructions alike */
    {0xfe400000, 0x68400000}, /* ldpsw with equal registers: only there it minds that this is unpredictable */
    {0xbf60fc00, 0x0e60ec00}, /* fmlal, fmlsl and their second forms have no bit 22 */
    {0xbf60fc00, 0x2e60cc00}, {0xffe0c000, 0xf8208000}, /* ld64b, st64b ... of registers that cannot be eight */
    {0xfffffc00, 0xf83fd000}, {0xfff0a000, 0x05102000}, /* mov of a shifted immediate to bytes */
    {0xff20c210, 0x25204200},                           /* psel: bit 9 is 0 */
    {0xff3f0010, 0xc0010000},                           /* mov to and from the array: bit 16 only for quadwords */
    {0xff3f0200, 0xc0030000},
};

static bool is_known(uint32_t word) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((word & known[i].mask) == known[i].value)
            return true;
    return false;
}

enum a64_verdict a64_compare(uint32_t word, uint64_t address, const char *text) {
    struct ct_a64_insn insn;
    struct ct_a64_effects e;
    struct meaning m;
    char ours[CT_A64_TEXT_MAX] = ".inst";
    bool valid = !ct_a64_decode(word, &insn), oracle = strcmp(text, ".inst") != 0;
    if (valid != oracle)
        return is_known(word) ? A64_KNOWN : A64_VALIDITY;
    if (!valid)
        return A64_SAME;
    ct_a64_text(&insn, address, ours, sizeof ours);
    ct_a64_effects(&insn, &e);
    understand(text, &m);
    bool has_text = strncmp(ours, ".inst", 5) != 0;
    if (has_text && strcmp(ours, text))
        return A64_TEXT;
    if (insn.kind != kind_of(m.name))
        return A64_KIND;
    bool operation = (word & 0xfff80000) == 0xd5080000; /* of sys: names of some leave their register out */
    if (e.regs_read != m.regs_read && !(operation && !m.regs_read))
        return A64_REGS_READ;
    if (e.regs_written != m.regs_written)
        return A64_REGS_WRITTEN;
    if (e.flags_read != m.flags_read || e.flags_written != m.flags_written)
        return A64_FLAGS;
    if (e.mem_read != m.mem_read || e.mem_written != m.mem_written)
        return A64_MEMORY;
    return has_text ? A64_SAME : A64_NO_TEXT;
}
