/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle's errors: where Zydis 4.0.0 and our decoder disagree, and why we keep our answer. The reasons name what
 * the Intel or AMD manual says; docs/DECODER.md says more. An entry explains only the bits that it names, so a new
 * error next to a known one still fails the test. */
#ifndef CT_TESTS_DIFF_KNOWN_H
#define CT_TESTS_DIFF_KNOWN_H

#include "compare.h"

struct known {
    uint16_t mnemonic;                         /* 0: any */
    uint8_t isa_ext;                           /* 0: any */
    uint8_t category;                          /* 0: any */
    uint32_t classes;                          /* bits of enum diff_class */
    uint32_t bits;                             /* bits of struct compared.bits that it explains */
    uint32_t (*when)(const struct compared *); /* a mask for bits, 0 if the entry does not apply; may be NULL */
    const char *why;
};

#define ALL       0xffffffffu
#define C(name)   (1u << DIFF_##name)
#define B(reg)    (1u << CT_X64_##reg)
#define M(name)   ZYDIS_MNEMONIC_##name, 0, 0
#define EXT(name) 0, ZYDIS_ISA_EXT_##name, 0
#define CAT(name) 0, 0, ZYDIS_CATEGORY_##name

/* The register of modrm.reg, if we say that it is read. */
static inline uint32_t destination_read(const struct compared *c) {
    return c->effects.regs_read & 1u << ((c->ours.modrm >> 3 & 7) | (c->ours.rex & 4) << 1);
}

/* The register of modrm.rm, if we say that it is read. */
static inline uint32_t rm_read(const struct compared *c) {
    return c->effects.regs_read & 1u << ((c->ours.modrm & 7) | (c->ours.rex & 1) << 3);
}

static inline uint32_t repeated(const struct compared *c) {
    return c->ours.prefixes & (CT_X64_REP | CT_X64_REPNE) ? ALL : 0;
}

/* SIB without base, under 67, with REX.B set. */
static inline uint32_t no_base_67(const struct compared *c) {
    const struct ct_x64_insn *i = &c->ours;
    return i->prefixes & CT_X64_ADDRSIZE && i->rex & 1 && i->has_sib && i->modrm < 0x40 && (i->sib & 7) == 5 ? ALL : 0;
}

static inline uint32_t control_or_debug(const struct compared *c) {
    return c->ours.encoding == CT_X64_LEGACY && c->ours.map == 1 && (c->ours.opcode & 0xfc) == 0x20 ? ALL : 0;
}

/* vvvv of lwpins and lwpval: the oracle says that it is written, not read. */
static inline uint32_t lwp_source(const struct compared *c) {
    return c->effects.regs_written ? 0 : 1u << c->ours.vvvv;
}

/* vgatherpf, vscatterpf */
static inline uint32_t gather_prefetch(const struct compared *c) {
    return c->ours.encoding == CT_X64_EVEX && c->ours.map == 2 && (c->ours.opcode & 0xfe) == 0xc6 ? ALL : 0;
}

static const struct known known_errors[] = {
    {EXT(KNC), C(VALIDITY), ALL, NULL,
     "Knights Corner encodings: only that coprocessor has them; elsewhere they fault"},
    {EXT(KNCE), C(VALIDITY), ALL, NULL, "the same"},
    {EXT(KNCV), C(VALIDITY), ALL, NULL, "the same"},
    {0, 0, 0, C(MEMORY) | C(REGS_READ), 2 | B(R13), no_base_67,
     "SIB base 101 with mod 0 means no base whatever REX.B says (also run on a processor); with 67 the oracle adds "
     "r13d"},

    {CAT(CMOV), C(REGS_READ), ALL, destination_read, "a false condition keeps the old value, so it is read"},
    {M(BSF), C(REGS_READ), ALL, destination_read, "a zero source keeps the old value"},
    {M(BSR), C(REGS_READ), ALL, destination_read, "the same"},
    {M(LAR), C(REGS_READ), ALL, destination_read, "a bad selector keeps the old value (the oracle knows it for lsl)"},
    {M(RDSSPD), C(REGS_READ), ALL, rm_read, "a nop without shadow stacks: programs rely on the old value"},
    {M(RDSSPQ), C(REGS_READ), ALL, rm_read, "the same"},
    {M(XBEGIN), C(REGS_READ), B(RAX), NULL, "eax keeps its value unless the transaction aborts"},
    {M(LODSB), C(REGS_READ), B(RAX), repeated, "a count of 0 keeps the old value"},
    {M(LODSW), C(REGS_READ), B(RAX), repeated, "the same"},
    {M(LODSD), C(REGS_READ), B(RAX), repeated, "the same"},
    {M(LODSQ), C(REGS_READ), B(RAX), repeated, "the same"},

    {M(XLAT), C(REGS_READ), B(RAX), NULL, "al is the index into the table"},
    {M(CMPSB), C(REGS_WRITTEN), B(RSI) | B(RDI), NULL, "rsi and rdi advance"},
    {M(CMPSW), C(REGS_WRITTEN), B(RSI) | B(RDI), NULL, "the same"},
    {M(CMPSD), C(REGS_WRITTEN), B(RSI) | B(RDI), NULL, "the same"},
    {M(CMPSQ), C(REGS_WRITTEN), B(RSI) | B(RDI), NULL, "the same"},
    {M(SCASB), C(REGS_WRITTEN), B(RDI), NULL, "rdi advances"},
    {M(SCASW), C(REGS_WRITTEN), B(RDI), NULL, "the same"},
    {M(SCASD), C(REGS_WRITTEN), B(RDI), NULL, "the same"},
    {M(SCASQ), C(REGS_WRITTEN), B(RDI), NULL, "the same"},
    {CAT(IOSTRINGOP), C(REGS_WRITTEN), B(RDI) | B(RSI), NULL, "ins advances rdi, outs rsi"},
    {CAT(STRINGOP), C(FLAGS_READ), CT_X64_ZF, repeated,
     "rep cmps and scas test the ZF they made, never the one before"},

    {CAT(WIDENOP), C(REGS_READ) | C(MEM_READ), ALL, NULL, "a nop reads nothing, whatever its modrm names"},
    {CAT(PREFETCH), C(MEM_READ), 1, NULL, "a hint: reads nothing and cannot fault"},
    {CAT(PREFETCHWT1), C(MEM_READ), 1, NULL, "the same"},
    {0, 0, 0, C(MEM_READ) | C(MEM_WRITTEN), 1, gather_prefetch, "the same"},
    {M(CLDEMOTE), C(MEM_READ), 1, NULL, "the same"},
    {M(INVLPG), C(MEM_READ), 1, NULL, "takes an address, reads nothing there"},
    {M(ENTER), C(MEM_READ), 1, NULL, "a nesting level copies frame pointers"},
    {M(CLZERO), C(MEM_WRITTEN), 1, NULL, "zeroes a cache line"},
    {CAT(ENQCMD), C(MEM_WRITTEN), 1, NULL, "writes 64 bytes to the address in its register, as movdir64b"},
    {M(MONITOR), C(MEM_READ), 1, NULL, "loads from its address, for faults and ordering"},
    {M(MONITORX), C(MEM_READ), 1, NULL, "the same"},
    {M(UMONITOR), C(MEM_READ), 1, NULL, "the same"},
    {M(BNDLDX), C(MEM_READ), 1, NULL, "reads the bound table"},
    {M(BNDSTX), C(MEM_WRITTEN), 1, NULL, "writes the bound table"},

    {M(SYSCALL), C(FLAGS_READ), CT_X64_ARITH_FLAGS | CT_X64_DF, NULL, "r11 becomes rflags"},
    {M(MOV), C(FLAGS_WRITTEN), CT_X64_ARITH_FLAGS, control_or_debug,
     "control and debug moves leave the flags undefined"},
    {M(CMC), C(FLAGS_KILLED), CT_X64_CF, NULL, "always writes CF; the oracle calls it conditional"},
    {M(ADCX), C(FLAGS_KILLED), CT_X64_CF, NULL, "the same"},
    {M(ADOX), C(FLAGS_KILLED), CT_X64_OF, NULL, "always writes OF; the oracle calls it conditional"},
    {M(VPTEST), C(FLAGS_WRITTEN) | C(FLAGS_KILLED), CT_X64_ARITH_FLAGS, NULL, "clears OF SF AF PF as ptest does"},
    {M(VTESTPS), C(FLAGS_WRITTEN) | C(FLAGS_KILLED), CT_X64_ARITH_FLAGS, NULL,
     "the same (the oracle knows it for xmm)"},
    {M(VTESTPD), C(FLAGS_WRITTEN) | C(FLAGS_KILLED), CT_X64_ARITH_FLAGS, NULL, "the same"},
    {M(TESTUI), C(FLAGS_WRITTEN) | C(FLAGS_KILLED), CT_X64_ARITH_FLAGS, NULL,
     "CF is the answer, the others are cleared"},
    {M(MCOMMIT), C(FLAGS_WRITTEN), CT_X64_ARITH_FLAGS, NULL, "the same"},
    {M(CLRSSBSY), C(FLAGS_WRITTEN) | C(FLAGS_KILLED), CT_X64_ARITH_FLAGS, NULL,
     "CF tells a bad token, the others are cleared"},
    {M(RSTORSSP), C(FLAGS_WRITTEN) | C(FLAGS_KILLED), CT_X64_ARITH_FLAGS, NULL,
     "CF tells an alignment hole, the others are cleared"},
    {M(SAVEPREVSSP), C(FLAGS_READ), CT_X64_CF, NULL, "CF from rstorssp tells whether to pop an alignment hole"},
    {M(UIRET), C(FLAGS_WRITTEN) | C(FLAGS_KILLED), CT_X64_DF, NULL, "loads rflags, DF included"},
    {M(UIRET), C(REGS_READ) | C(REGS_WRITTEN) | C(MEM_READ), B(RSP) | 1, NULL, "pops rip, rflags and rsp"},

    {CAT(SGX), C(REGS_WRITTEN), B(RAX), NULL, "leaf functions return a status in rax"},
    {M(MWAITX), C(REGS_READ), B(RBX), NULL, "ebx holds the time limit"},
    {M(LLWPCB), C(REGS_READ) | C(REGS_WRITTEN), ALL, rm_read, "takes the address, does not change it"},
    {M(LWPINS), C(REGS_READ) | C(REGS_WRITTEN), ALL, lwp_source, "vvvv is a source"},
    {M(LWPVAL), C(REGS_READ) | C(REGS_WRITTEN), ALL, lwp_source, "the same"},
    {M(LWPINS), C(MEM_WRITTEN), 1, NULL, "writes an event record"},
    {M(LWPVAL), C(MEM_WRITTEN), 1, NULL, "the same"},
    {EXT(PADLOCK), C(REGS_READ) | C(REGS_WRITTEN) | C(MEM_WRITTEN), B(RAX) | B(RCX) | B(RDX) | B(RDI) | B(RSI), NULL,
     "the vendor's guide and drivers say more registers change, and montmul writes its result"},
};
#undef ALL
#undef C
#undef B
#undef M
#undef EXT
#undef CAT

#endif
