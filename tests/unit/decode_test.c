/* SPDX-License-Identifier: Apache-2.0 */
/* Decoder: what Zydis cannot judge (errors, ends of buffers, flags that surely die), and cases that once were wrong.
 * Lengths, places and effects at large are compared with Zydis by tests/diff and tests/fuzz. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "contrail/status.h"
#include "isa/linkage.h"
#include "isa/x64/decode.h"

/* "48 89 e5" -> bytes; returns their number. */
static size_t from_hex(const char *text, uint8_t *bytes) {
    size_t n = 0;
    char *end;
    for (;; text = end) {
        unsigned long v = strtoul(text, &end, 16);
        if (end == text)
            return n;
        assert_true(n < 32);
        bytes[n++] = (uint8_t)v;
    }
}

static int decode_hex(const char *text, struct ct_x64_insn *insn) {
    uint8_t bytes[32];
    size_t n = from_hex(text, bytes);
    return ct_x64_decode(bytes, n, insn);
}

static struct ct_x64_insn must(const char *text) {
    struct ct_x64_insn insn;
    uint8_t bytes[32];
    if (decode_hex(text, &insn) != 0 || insn.length != from_hex(text, bytes))
        fail_msg("%s: not decoded whole", text);
    return insn;
}

static struct ct_x64_effects effects_of(const char *text) {
    struct ct_x64_insn insn = must(text);
    struct ct_x64_effects e;
    ct_x64_effects(&insn, &e);
    return e;
}

#define R(name) (1u << CT_X64_##name)

static void test_kinds(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        uint8_t kind;
    } cases[] = {
        {"90", CT_INSN_NOP},
        {"66 90", CT_INSN_NOP},
        {"48 90", CT_INSN_NOP},
        {"0f 1f 44 00 00", CT_INSN_NOP},
        {"66 2e 0f 1f 84 00 00 00 00 00", CT_INSN_NOP},
        {"41 90", CT_INSN_OTHER}, /* xchg r8, rax */
        {"f3 90", CT_INSN_OTHER}, /* pause */
        {"f3 0f 1e fa", CT_INSN_LANDING},
        {"f3 0f 1e fb", CT_INSN_LANDING},
        {"0f 1e fa", CT_INSN_NOP},
        {"eb fe", CT_INSN_JMP},
        {"e9 00 00 00 00", CT_INSN_JMP},
        {"74 00", CT_INSN_JCC},
        {"2e 0f 84 00 00 00 00", CT_INSN_JCC},
        {"e0 00", CT_INSN_LOOP},
        {"e1 00", CT_INSN_LOOP},
        {"e2 00", CT_INSN_LOOP},
        {"e3 00", CT_INSN_LOOP},
        {"67 e3 00", CT_INSN_LOOP},
        {"e8 00 00 00 00", CT_INSN_CALL},
        {"66 66 48 e8 00 00 00 00", CT_INSN_CALL}, /* as emitted for __tls_get_addr */
        {"ff e0", CT_INSN_JMP_INDIRECT},
        {"3e ff e0", CT_INSN_JMP_INDIRECT}, /* notrack */
        {"f2 ff 25 00 00 00 00", CT_INSN_JMP_INDIRECT},
        {"ff d0", CT_INSN_CALL_INDIRECT},
        {"41 ff 54 24 08", CT_INSN_CALL_INDIRECT},
        {"c3", CT_INSN_RET},
        {"f3 c3", CT_INSN_RET},
        {"c2 08 00", CT_INSN_RET},
        {"cb", CT_INSN_FAR},
        {"48 cf", CT_INSN_FAR},
        {"ff 28", CT_INSN_FAR},
        {"ff 18", CT_INSN_FAR},
        {"48 0f 07", CT_INSN_FAR},
        {"0f 35", CT_INSN_FAR},
        {"0f aa", CT_INSN_FAR},
        {"f3 0f 01 ec", CT_INSN_FAR}, /* uiret */
        {"0f 05", CT_INSN_SYSCALL},
        {"0f 34", CT_INSN_SYSCALL},
        {"cd 80", CT_INSN_INT},
        {"f1", CT_INSN_INT},
        {"cc", CT_INSN_INT3},
        {"0f 0b", CT_INSN_TRAP},
        {"0f b9 c0", CT_INSN_TRAP},
        {"0f ff 00", CT_INSN_TRAP},
        {"f4", CT_INSN_HALT},
        {"c7 f8 00 00 00 00", CT_INSN_XBEGIN},
        {"0f 01 d5", CT_INSN_OTHER}, /* xend */
        {"c6 f8 00", CT_INSN_OTHER}, /* xabort */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_x64_insn insn = must(cases[i].bytes);
        if (insn.kind != cases[i].kind)
            fail_msg("%s: kind %u, wanted %u", cases[i].bytes, insn.kind, cases[i].kind);
    }
}

static void test_parts(void **state) {
    (void)state;
    struct ct_x64_insn i = must("48 c7 84 8d 00 ff ff ff 78 56 34 12"); /* mov qword [rbp+rcx*4-256], 0x12345678 */
    assert_int_equal(i.opcode_offset, 1);
    assert_int_equal(i.modrm_offset, 2);
    assert_true(i.has_sib && i.has_rex && !i.rip_relative);
    assert_int_equal(i.disp_offset, 4);
    assert_int_equal(i.disp_size, 4);
    assert_int_equal(i.disp, -256);
    assert_int_equal(i.imm_offset, 8);
    assert_int_equal(i.imm_size, 4);
    assert_int_equal(i.imm, 0x12345678);

    i = must("48 8d 05 f9 ff ff ff"); /* lea rax, [rip-7] */
    assert_true(i.rip_relative);
    assert_int_equal(ct_x64_rip_address(&i, 0x1000), 0x1000);

    i = must("75 fe");
    assert_int_equal(ct_x64_target(&i, 0x1000), 0x1000);
    assert_int_equal(i.imm_offset, 1);

    i = must("48 b8 01 02 03 04 05 06 07 88"); /* mov rax, imm64 */
    assert_int_equal(i.imm_size, 8);
    assert_true((uint64_t)i.imm == 0x8807060504030201u);

    i = must("66 b8 34 12");
    assert_int_equal(i.imm_size, 2);

    i = must("48 a1 01 02 03 04 05 06 07 08"); /* mov rax, [imm64] */
    assert_int_equal(i.disp_offset, 2);
    assert_int_equal(i.disp_size, 8);
    assert_int_equal(i.imm_offset, 0);

    i = must("c8 10 00 02"); /* enter 16, 2 */
    assert_int_equal(i.imm_size, 2);
    assert_int_equal(i.imm2_offset, 3);
    assert_int_equal(i.imm2_size, 1);

    i = must("f6 c0 05"); /* only test has an immediate in group 3 */
    assert_int_equal(i.imm_size, 1);
    i = must("f6 d0");
    assert_int_equal(i.imm_offset, 0);

    i = must("0f 0f ca 9e"); /* pfadd: the opcode is the last byte */
    assert_int_equal(i.encoding, CT_X64_3DNOW);
    assert_int_equal(i.opcode, 0x9e);
    assert_int_equal(i.opcode_offset, 3);

    i = must("0f 20 10"); /* mov rax, cr2: mod is ignored */
    assert_int_equal(i.length, 3);
    assert_int_equal(i.modrm, 0xd0);
}

static void test_vector_parts(void **state) {
    (void)state;
    struct ct_x64_insn i = must("c4 c2 e3 f6 c1"); /* mulx rax, rbx, r9 */
    assert_int_equal(i.encoding, CT_X64_VEX);
    assert_int_equal(i.map, 2);
    assert_int_equal(i.rex, 8 | 1);
    assert_int_equal(i.vvvv, 3);
    assert_int_equal(i.vector, 3);

    i = must("62 f1 7c 48 10 40 01"); /* vmovups zmm0, [rax+64]: the displacement is not scaled */
    assert_int_equal(i.encoding, CT_X64_EVEX);
    assert_int_equal(i.vector >> 2, 2);
    assert_int_equal(i.disp_size, 1);
    assert_int_equal(i.disp, 1);

    i = must("62 91 14 40 58 c4"); /* vaddps zmm0, zmm29, zmm28 */
    assert_int_equal(i.vvvv, 29);

    i = must("8f ea 78 10 c1 78 56 34 12"); /* bextr eax, ecx, imm32 */
    assert_int_equal(i.encoding, CT_X64_XOP);
    assert_int_equal(i.map, 10);
    assert_int_equal(i.imm_size, 4);

    i = must("66 0f 78 c1 08 10"); /* extrq xmm1, 8, 16 */
    assert_int_equal(i.imm_offset, 4);
    assert_int_equal(i.imm2_offset, 5);
}

static void test_prefix_order(void **state) {
    (void)state;
    struct ct_x64_insn i = must("48 66 89 c0"); /* a REX that is not last does nothing */
    assert_false(i.has_rex);
    assert_int_equal(i.rex, 0);
    i = must("40 48 89 c0");
    assert_int_equal(i.rex, 8);
    i = must("f2 f3 0f 10 c0"); /* the last of f2 and f3 counts */
    assert_int_equal(i.prefixes, CT_X64_REP);
    i = must("64 65 8b 00");
    assert_int_equal(i.prefixes, CT_X64_SEG_GS);
    i = must("64 3e 8b 00"); /* ds does not undo fs */
    assert_int_equal(i.prefixes, CT_X64_SEG_FS | CT_X64_SEG_OTHER);
    i = must("66 f0 48 0f b1 0f");
    assert_int_equal(i.prefixes, CT_X64_LOCK | CT_X64_OPSIZE);
}

static void test_memory(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        struct ct_x64_mem mem;
    } cases[] = {
        {"8b 00", {CT_X64_RAX, CT_X64_NO_REG, 1, false, 0}},
        {"41 8b 45 10", {CT_X64_R13, CT_X64_NO_REG, 1, false, 16}},
        {"8b 04 24", {CT_X64_RSP, CT_X64_NO_REG, 1, false, 0}},
        {"42 8b 04 a4", {CT_X64_RSP, CT_X64_R12, 4, false, 0}}, /* an index of r12 exists, one of rsp does not */
        {"8b 04 8d 00 00 00 80", {CT_X64_NO_REG, CT_X64_RCX, 4, false, INT32_MIN}},
        {"8b 04 25 10 00 00 00", {CT_X64_NO_REG, CT_X64_NO_REG, 1, false, 16}},
        {"67 41 8b 04 25 10 00 00 00", {CT_X64_NO_REG, CT_X64_NO_REG, 1, false, 16}}, /* REX.B makes no base here */
        {"8b 05 10 00 00 00", {CT_X64_RIP, CT_X64_NO_REG, 1, false, 16}},
        {"a0 10 00 00 00 00 00 00 00", {CT_X64_NO_REG, CT_X64_NO_REG, 1, false, 16}},
        {"c4 e2 71 90 04 a2", {CT_X64_RDX, CT_X64_NO_REG, 4, true, 0}}, /* vpgatherdd xmm0, [rdx+xmm4*4], xmm1 */
    };
    struct ct_x64_mem m;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_x64_insn insn = must(cases[i].bytes);
        const struct ct_x64_mem *want = &cases[i].mem;
        assert_true(ct_x64_memory(&insn, &m));
        if (m.base != want->base || m.index != want->index || m.scale != want->scale || m.vsib != want->vsib ||
            m.disp != want->disp)
            fail_msg("%s: base %u index %u scale %u", cases[i].bytes, m.base, m.index, m.scale);
    }
    static const char *const none[] = {"89 c0", "90", "0f 20 00", "e8 00 00 00 00"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct ct_x64_insn insn = must(none[i]);
        assert_false(ct_x64_memory(&insn, &m));
    }
}

/* Each is refused, and for its own sake: not because bytes are missing. */
static void test_bad(void **state) {
    (void)state;
    static const char *const cases[] = {
        /* not in 64-bit mode */
        "06",
        "07",
        "0e",
        "16",
        "17",
        "1e",
        "1f",
        "27",
        "2f",
        "37",
        "3f",
        "60",
        "61",
        "82 c0 00",
        "9a 00 00 00 00 00 00",
        "ce",
        "d4 0a",
        "d5 0a",
        "d6",
        "ea 00 00 00 00 00 00",
        /* no such opcode, no such form */
        "0f 04",
        "0f 0a",
        "0f 24 c0",
        "0f 38 0c c0",
        "0f 3a 00 c0 00",
        "fe d0",
        "ff f8",
        "8f e0",
        "c6 c8 00",
        "c7 c8 00 00 00 00",
        "8d c0",
        "0f 01 c6",
        "0f ae c0",
        "0f c7 c8",
        "0f ba c0 00",
        "0f 71 c0 00",
        "0f 13 c0",
        "d9 d1",
        "db e5",
        "df e1",
        "ff d8",
        "62 f2 7d 08 1a c0",
        "0f 0f c0 00",
        /* registers that do not exist */
        "8e c8",
        "8e f0",
        "8c f0",
        "0f 20 c8",
        "44 0f 23 c0",
        "66 0f 1a e0",
        "c5 74 41 c0",
        "c4 e2 71 90 04 01",
        /* lock: only with a memory destination, only some */
        "f0 01 c0",
        "f0 90",
        "f0 8b 00",
        "f0 89 00",
        "f0 39 00",
        "f0 0f a3 00",
        "f0 ff 20",
        "f0 0f c7 30",
        /* prefixes before a vector escape */
        "66 c5 f8 77",
        "f2 c5 f8 77",
        "f3 c5 f8 77",
        "f0 c5 f8 77",
        "48 c5 f8 77",
        "48 62 f1 7c 48 58 c0",
        "66 8f e9 78 c1 c1",
        /* reserved bits and unused fields */
        "c4 e0 78 77",
        "c4 e4 78 77",
        "c5 f0 10 c0",
        "62 f1 78 48 58 c0",
        "62 f4 7c 48 58 c0",
        "62 f7 7c 48 58 c0",
        "62 f9 7c 48 58 c0",
        "62 f1 7c 68 58 c0",
        "62 f1 7e 68 58 c0",
        "62 f1 7c c8 58 c0",
        "62 f1 74 08 10 c0",
        "62 f1 7c 18 10 c0",
        "62 f1 fc 48 58 c0",
        "62 f2 7d 08 90 04 20",
        "62 f1 45 29 f6 f9",
        "62 f1 7d 09 6e c0",
        "62 61 7d 08 c5 c0 00",
        "62 f6 7e 08 56 c0",
        "8f e9 7c c1 c1",
        "8f eb 78 c1 c1",
        /* other processors only */
        "c5 64 85 00 00 00 00",
        "62 f1 78 08 58 c0",
        /* too long: 15 prefixes, 16 bytes */
        "66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 90",
        "2e 2e 2e 2e 2e 48 c7 84 8d 00 00 00 00 00 00 00 00",
    };
    struct ct_x64_insn insn;
    uint8_t bytes[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = from_hex(cases[i], bytes);
        if (ct_x64_decode(bytes, n, &insn) != CT_ERR_BAD_INSTRUCTION)
            fail_msg("%s: accepted or called truncated", cases[i]);
        memset(bytes + n, 0, sizeof bytes - n);
        if (ct_x64_decode(bytes, sizeof bytes, &insn) != CT_ERR_BAD_INSTRUCTION)
            fail_msg("%s: accepted in a long buffer", cases[i]);
    }
}

static void test_longest(void **state) {
    (void)state;
    must("66 66 66 66 66 66 66 66 66 66 66 66 66 66 90");
    must("2e 2e 2e 48 c7 84 8d 00 00 00 00 00 00 00 00");
    must("67 8f 6a 78 10 84 8d 00 00 00 00 00 00 00 00");
}

static const char *const whole[] = {
    "c3",
    "48 89 e5",
    "e8 00 00 00 00",
    "48 b8 00 00 00 00 00 00 00 00",
    "48 c7 84 8d 00 00 00 00 00 00 00 00",
    "66 81 84 24 00 00 00 00 00 00",
    "c8 00 00 00",
    "0f 1f 84 00 00 00 00 00",
    "0f 84 00 00 00 00",
    "0f 0f ca 9e",
    "c5 f8 77",
    "c4 e3 fd 00 c0 00",
    "62 f1 7c 48 10 84 8d 00 00 00 00",
    "8f ea 78 10 84 8d 00 00 00 00 00 00 00 00",
    "66 0f 78 c1 00 00",
    "a0 00 00 00 00 00 00 00 00",
    "f6 04 25 00 00 00 00 00",
    "66 0f 3a 63 84 8d 00 00 00 00 00",
    "c7 f8 00 00 00 00",
    "67 66 f3 4f 0f b8 84 8d 00 00 00 00",
    "8f 84 8d 00 00 00 00",
    "62 f3 7d 48 03 84 8d 00 00 00 00 00",
};

/* Instructions that end where the page ends: the next byte cannot be read. */
static void test_guard_page(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map + page, page, PROT_NONE), 0);
    struct ct_x64_insn insn;
    uint8_t bytes[32];
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        size_t n = from_hex(whole[i], bytes);
        for (size_t have = 0; have <= n; have++) {
            uint8_t *start = map + page - have;
            memcpy(start, bytes, have);
            int rc = ct_x64_decode(start, have, &insn);
            if (rc != (have < n ? CT_ERR_TRUNCATED : 0))
                fail_msg("%s: %zu of %zu bytes: %d", whole[i], have, n, rc);
        }
    }
    uint32_t r = 1;
    for (unsigned round = 0; round < 200000; round++) { /* random bytes: any verdict, no fault */
        size_t have = round % 17;
        for (size_t k = 0; k < have; k++)
            map[page - have + k] = (uint8_t)((r = r * 1664525u + 1013904223u) >> 24);
        if (ct_x64_decode(map + page - have, have, &insn) == 0)
            assert_true(insn.length <= have);
    }
    munmap(map, 2 * page);
}

/* The same verdict and parts whether many bytes follow or none. */
static void test_window(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        uint8_t bytes[64];
        struct ct_x64_insn a, b;
        memset(bytes, 0xcc, sizeof bytes);
        size_t n = from_hex(whole[i], bytes);
        assert_int_equal(ct_x64_decode(bytes, sizeof bytes, &a), 0);
        assert_int_equal(ct_x64_decode(bytes, n, &b), 0);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

/* Flags that surely die. Zydis does not know them; a wrong bit here corrupts a program that a hook enters. */
static void test_killed(void **state) {
    (void)state;
    const uint16_t all = CT_X64_ARITH_FLAGS, no_carry = CT_X64_ARITH_FLAGS & ~CT_X64_CF;
    const uint16_t rotate = CT_X64_CF | CT_X64_OF;
    const struct {
        const char *bytes;
        uint16_t written, killed;
    } cases[] = {
        {"01 c0", all, all},
        {"11 c0", all, all}, /* adc also reads CF */
        {"85 c0", all, all},
        {"ff c0", no_carry, no_carry},
        {"f7 d8", all, all},
        {"f7 d0", 0, 0}, /* not */
        {"89 c0", 0, 0},
        {"8d 00", 0, 0},
        {"d3 e0", all, 0}, /* shl eax, cl: cl may be 0 */
        {"d3 c0", rotate, 0},
        {"d1 e0", all, all},
        {"c1 e0 01", all, all},
        {"c1 e0 00", all, 0},
        {"c1 e0 20", all, 0}, /* 32 is 0 for a 32-bit operand */
        {"c0 e0 20", all, 0}, /* and for an 8-bit one */
        {"48 c1 e0 20", all, all},
        {"48 c1 e0 40", all, 0},
        {"c1 c0 07", rotate, rotate},
        {"c1 c0 00", rotate, 0},
        {"c1 d0 00", rotate, 0}, /* rcl */
        {"0f a4 c0 00", all, 0}, /* shld */
        {"0f a4 c0 05", all, all},
        {"0f a5 c0", all, 0},
        {"0f ac c0 40", all, 0},
        {"a6", all, all},
        {"f3 a6", all, 0}, /* rcx may be 0 */
        {"f2 ae", all, 0},
        {"48 af", all, all},
        {"f3 a4", 0, 0},
        {"0f b1 0f", all, all},
        {"0f c7 0f", CT_X64_ZF, CT_X64_ZF},
        {"0f a3 c0", all & ~CT_X64_ZF, all & ~CT_X64_ZF},
        {"0f 44 c1", 0, 0},
        {"9d", all | CT_X64_DF, all | CT_X64_DF},
        {"9e", all & ~CT_X64_OF, all & ~CT_X64_OF},
        {"f9", CT_X64_CF, CT_X64_CF},
        {"fc", CT_X64_DF, CT_X64_DF},
        {"0f 05", all | CT_X64_DF, 0}, /* the kernel gives them back */
        {"66 0f 38 f6 c0", CT_X64_CF, CT_X64_CF},
        {"f3 0f 38 f6 c0", CT_X64_OF, CT_X64_OF},
        {"0f 2e c0", all, all},
        {"db e9", all, all},
        {"c5 f8 2e c0", all, all},
        {"c4 e2 78 f2 c0", all, all},
        {"c4 e2 f9 f7 c0", 0, 0}, /* shlx */
        {"0f 01 d5", 0, 0},
        {"e8 00 00 00 00", 0, 0},
        {"0f 20 c0", all, 0}, /* undefined for one vendor, kept by the other */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_x64_effects e = effects_of(cases[i].bytes);
        if (e.flags_written != cases[i].written || e.flags_killed != cases[i].killed)
            fail_msg("%s: written %x killed %x", cases[i].bytes, e.flags_written, e.flags_killed);
    }
}

static void test_conditions(void **state) {
    (void)state;
    static const uint16_t want[8] = {CT_X64_OF,
                                     CT_X64_CF,
                                     CT_X64_ZF,
                                     CT_X64_CF | CT_X64_ZF,
                                     CT_X64_SF,
                                     CT_X64_PF,
                                     CT_X64_SF | CT_X64_OF,
                                     CT_X64_ZF | CT_X64_SF | CT_X64_OF};
    for (unsigned cc = 0; cc < 16; cc++) {
        char text[32];
        snprintf(text, sizeof text, "%02x 00", 0x70 + cc);
        assert_int_equal(effects_of(text).flags_read, want[cc / 2]);
        snprintf(text, sizeof text, "0f %02x c0", 0x40 + cc);
        assert_int_equal(effects_of(text).flags_read, want[cc / 2]);
        snprintf(text, sizeof text, "0f %02x c0", 0x90 + cc);
        assert_int_equal(effects_of(text).flags_read, want[cc / 2]);
    }
}

static void test_effects(void **state) {
    (void)state;
    enum { MR = 1, MW = 2 };
    static const struct {
        const char *bytes;
        uint32_t read, written;
        unsigned mem;
    } cases[] = {
        {"01 d8", R(RAX) | R(RBX), R(RAX), 0},
        {"88 e0", R(RAX), R(RAX), 0},    /* ah */
        {"40 88 e0", R(RSP), R(RAX), 0}, /* spl */
        {"b7 01", 0, R(RBX), 0},         /* bh */
        {"41 b7 01", 0, R(R15), 0},
        {"4f 8d 74 a5 08", R(R13) | R(R12), R(R14), 0},
        {"48 8b 05 00 00 00 00", 0, R(RAX), MR},
        {"41 55", R(R13) | R(RSP), R(RSP), MW},
        {"5c", R(RSP), R(RSP), MR},
        {"8f 04 24", R(RSP), R(RSP), MR | MW},
        {"ff 34 24", R(RSP), R(RSP), MR | MW},
        {"c9", R(RBP) | R(RSP), R(RBP) | R(RSP), MR},
        {"c3", R(RSP), R(RSP), MR},
        {"ff 10", R(RAX) | R(RSP), R(RSP), MR | MW},
        {"f7 e1", R(RAX) | R(RCX), R(RAX) | R(RDX), 0},
        {"f6 e1", R(RAX) | R(RCX), R(RAX), 0},
        {"f7 f9", R(RAX) | R(RCX) | R(RDX), R(RAX) | R(RDX), 0},
        {"99", R(RAX), R(RDX), 0},
        {"0f a2", R(RAX) | R(RCX), R(RAX) | R(RBX) | R(RCX) | R(RDX), 0},
        {"0f 31", 0, R(RAX) | R(RDX), 0},
        {"0f 05", 0, R(RCX) | R(R11), 0},
        {"f0 48 0f b1 0f", R(RAX) | R(RCX) | R(RDI), R(RAX), MR | MW},
        {"f0 48 0f c7 0f", R(RAX) | R(RBX) | R(RCX) | R(RDX) | R(RDI), R(RAX) | R(RDX), MR | MW},
        {"f3 48 a5", R(RCX) | R(RSI) | R(RDI), R(RCX) | R(RSI) | R(RDI), MR | MW},
        {"aa", R(RAX) | R(RDI), R(RDI), MW},
        {"ac", R(RSI), R(RAX) | R(RSI), MR},
        {"f3 ac", R(RSI) | R(RCX) | R(RAX), R(RAX) | R(RSI) | R(RCX), MR},
        {"d7", R(RAX) | R(RBX), R(RAX), MR},
        {"0f 44 c1", R(RAX) | R(RCX), R(RAX), 0},
        {"e2 00", R(RCX), R(RCX), 0},
        {"e3 00", R(RCX), 0, 0},
        {"ee", R(RAX) | R(RDX), 0, 0},
        {"66 0f f7 c1", R(RDI), 0, MW},                         /* maskmovdqu */
        {"0f c0 e0", R(RAX), R(RAX), 0},                        /* xadd al, ah */
        {"c4 c2 e3 f6 c1", R(RDX) | R(R9), R(RAX) | R(RBX), 0}, /* mulx */
        {"c4 e2 71 90 04 a2", R(RDX), 0, MR},
        {"62 f2 7d 49 a0 04 a2", R(RDX), 0, MW}, /* vpscatterdd */
        {"62 f2 7d 08 7a c1", R(RCX), 0, 0},     /* vpbroadcastb from a general register */
        {"0f 1f 04 08", R(RAX) | R(RCX), 0, 0},
        {"0f 18 00", R(RAX), 0, 0},
        {"f3 48 0f 1e c8", R(RAX), R(RAX), 0}, /* rdssp: a nop on most machines, the old value survives */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_x64_effects e = effects_of(cases[i].bytes);
        unsigned mem = (e.mem_read ? MR : 0) | (e.mem_written ? MW : 0);
        if (e.regs_read != cases[i].read || e.regs_written != cases[i].written || mem != cases[i].mem)
            fail_msg("%s: read %x written %x memory %u", cases[i].bytes, e.regs_read, e.regs_written, mem);
    }
}

/* What fuzzing found: each was accepted or refused wrongly, or had wrong effects, at some time. */
static void test_found_by_fuzzing(void **state) {
    (void)state;
    must("62 61 7e 3b e6 fd"); /* vcvtdq2pd takes, and ignores, rounding */
    must("62 41 67 10 2a d3"); /* vcvtsi2sd too */
    must("66 44 0f 01 cf");    /* seamcall */
    must("66 0f 01 cd");       /* seamret */
    struct ct_x64_insn insn;
    static const char *const bad[] = {
        "f2 0f a7 c0",          /* xstore knows f3 only */
        "f3 0f 01 fb",          /* mwaitx takes no prefix */
        "0f 1a 05 00 00 00 00", /* bndldx not RIP-relative */
        "62 56 6e 44 d6 d2",    /* vfmulcph: destination is a source */
        "62 f1 7c 8c 12 2b",    /* vmovlps cannot be masked */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(decode_hex(bad[i], &insn), CT_ERR_BAD_INSTRUCTION);
    assert_false(effects_of("f2 0f 1b 00").mem_read);          /* bndcn compares an address */
    assert_int_equal(effects_of("0f 01 fd").flags_written, 0); /* rdpru */
}

static void test_linkage_word(void **state) {
    (void)state;
    static const uint8_t plain[16] = {0xff, 0x25, 0x10, 0, 0, 0}, direct[16] = {0xe9, 0, 0, 0, 0};
    static const uint8_t marked[16] = {0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x10, 0, 0, 0};
    static const uint8_t by_register[16] = {0xff, 0xe0}, other[16] = {0x55, 0xff, 0x25, 0x10, 0, 0, 0};
    assert_int_equal(ct_linkage_word(plain, 16, 0x1000), 0x1016);
    assert_int_equal(ct_linkage_word(marked, 16, 0x1000), 0x101b);
    assert_int_equal(ct_linkage_word(marked, 4, 0x1000), 0);
    assert_int_equal(ct_linkage_word(direct, 16, 0x1000), 0);
    assert_int_equal(ct_linkage_word(by_register, 16, 0x1000), 0);
    assert_int_equal(ct_linkage_word(other, 16, 0x1000), 0);
    static const uint8_t push[16] = {0x68, 1}, marked_push[16] = {0xf3, 0x0f, 0x1e, 0xfa, 0x68, 1};
    assert_true(ct_linkage_is_unbound(push, 16) && ct_linkage_is_unbound(marked_push, 16));
    assert_false(ct_linkage_is_unbound(other, 16) || ct_linkage_is_unbound(marked, 16));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linkage_word), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_parts),        cmocka_unit_test(test_vector_parts),
        cmocka_unit_test(test_prefix_order), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_bad),          cmocka_unit_test(test_longest),
        cmocka_unit_test(test_guard_page),   cmocka_unit_test(test_window),
        cmocka_unit_test(test_killed),       cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_effects),      cmocka_unit_test(test_found_by_fuzzing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
