/* SPDX-License-Identifier: Apache-2.0 */
/* The relocator's bytes, limits and errors; Zydis reads the copies. That copies do the same is shown by running them,
 * in relocate_exec_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <link.h>
#include <cmocka.h>
#include <Zydis/Zydis.h>

#include "contrail/status.h"
#include "isa/x64/encode.h"
#include "isa/x64/relocate.h"

#define FROM 0x7f0000400000ull
#define NEAR (FROM + 0x12345678)
#define FAR  0x100000000ull

static uint8_t bytes[8192];
static ZydisDecoder decoder;
static ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

static int setup(void **state) {
    (void)state;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return 0;
}

static struct ct_code_buf fresh(uint64_t address, size_t capacity) {
    memset(bytes, 0xcc, sizeof bytes);
    return (struct ct_code_buf){.bytes = bytes, .capacity = capacity, .address = address};
}

static int move(struct ct_code_buf *out, uint64_t to, const char *code, size_t size) {
    struct ct_x64_insn insn;
    assert_int_equal(ct_x64_decode((const uint8_t *)code, size, &insn), 0);
    assert_int_equal(insn.length, size);
    *out = fresh(to, sizeof bytes);
    return ct_x64_relocate(out, (const uint8_t *)code, &insn, FROM);
}

/* A string literal of code bytes, and its size. */
#define CODE(text) text, sizeof(text) - 1

static ZydisDecodedInstruction disassemble(const void *code, size_t size) {
    ZydisDecodedInstruction insn;
    assert_true(ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, size, &insn, operands)));
    return insn;
}

/* The absolute address that operand i of the decoded instruction names. */
static uint64_t named(const ZydisDecodedInstruction *insn, unsigned i, uint64_t address) {
    ZyanU64 result = 0;
    assert_true(ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(insn, &operands[i], address, &result)));
    return result;
}

/* Where the jump at offset `at` of the copy leads: directly or through its literal. */
static uint64_t jump_target(const struct ct_code_buf *out, size_t at) {
    ZydisDecodedInstruction insn = disassemble(bytes + at, out->length - at);
    assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_JMP);
    uint64_t target = named(&insn, 0, out->address + at);
    if (operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY)
        memcpy(&target, bytes + (target - out->address), sizeof target);
    return target;
}

/* ---- data operands ---- */

/* At both ends of the reach the displacement is rewritten; beyond, an address is loaded. */
static void test_reach(void **state) {
    (void)state;
    static const char load[] = "\x48\x81\x3d\x00\x10\x00\x00\x44\x33\x22\x11"; /* cmp qword [rip+0x1000], imm32 */
    uint64_t operand = FROM + 11 + 0x1000;
    static const int64_t near[] = {0x7fffffff - 11, -0x80000000ll + 11, 0, 1, -1};
    static const int64_t far[] = {0x80000000ll, -0x80000001ll, 0x100000000ll, -0x7f0000000000ll};
    struct ct_code_buf out;
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        assert_int_equal(move(&out, operand - (uint64_t)near[i] - 11, load, 11), 0);
        assert_int_equal(out.length, 11);
        ZydisDecodedInstruction insn = disassemble(bytes, out.length);
        assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_CMP);
        assert_int_equal(named(&insn, 0, out.address), operand);
        assert_int_equal(operands[1].imm.value.u, 0x11223344);
    }
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        assert_int_equal(move(&out, operand - (uint64_t)far[i] - 11, load, 11), 0);
        assert_true(out.length > 11);
    }
}

/* All instructions of the C library, near and far: nothing is refused, nothing gets too long, and in reach the copies
 * are the same instructions with the same operands. */
static void check_near(const uint8_t *code, const struct ct_x64_insn *insn, uint64_t from,
                       const struct ct_code_buf *out) {
    assert_int_equal(out->length, insn->length);
    if (!insn->rip_relative) {
        assert_memory_equal(bytes, code, insn->length);
        return;
    }
    ZydisDecodedInstruction old = disassemble(code, insn->length);
    unsigned i = 0;
    while (operands[i].type != ZYDIS_OPERAND_TYPE_MEMORY)
        i++;
    uint64_t address = named(&old, i, from);
    ZydisDecodedInstruction new = disassemble(bytes, out->length);
    assert_int_equal(new.mnemonic, old.mnemonic);
    assert_int_equal(new.length, old.length);
    assert_int_equal(named(&new, i, out->address), address);
}

static void sweep(const uint8_t *code, size_t size, uint64_t from, size_t *instructions) {
    for (size_t at = 0; at < size;) {
        struct ct_x64_insn insn;
        if (ct_x64_decode(code + at, size - at, &insn)) {
            at++;
            continue;
        }
        struct ct_code_buf out = {.bytes = bytes, .capacity = CT_X64_RELOCATED_MAX, .address = from + 0x10000000};
        assert_int_equal(ct_x64_relocate(&out, code + at, &insn, from + at), 0);
        if (insn.kind == CT_INSN_OTHER || insn.kind == CT_INSN_JMP_INDIRECT || insn.kind == CT_INSN_RET)
            check_near(code + at, &insn, from + at, &out);
        out = (struct ct_code_buf){.bytes = bytes, .capacity = CT_X64_RELOCATED_MAX, .address = FAR};
        assert_int_equal(ct_x64_relocate(&out, code + at, &insn, from + at), 0);
        at += insn.length;
        ++*instructions;
    }
}

static int sweep_library(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    if (!strstr(info->dlpi_name, "libc.so"))
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t address = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X)
            sweep((const uint8_t *)(uintptr_t)address, segment->p_memsz, FROM, arg);
    }
    return 1;
}

static void test_library(void **state) {
    (void)state;
    size_t instructions = 0;
    dl_iterate_phdr(sweep_library, &instructions);
    print_message("%zu instructions moved near and far\n", instructions);
    assert_true(instructions > 100000);
}

/* Whatever the decoder takes is moved or refused, within the promised length. */
static void test_random_bytes(void **state) {
    (void)state;
    uint64_t random = 1;
    for (unsigned n = 0; n < 300000; n++) {
        uint8_t code[CT_X64_MAX_LENGTH];
        for (unsigned i = 0; i < sizeof code; i++) {
            random = random * 6364136223846793005 + 1442695040888963407;
            code[i] = (uint8_t)(random >> 56);
        }
        static const uint8_t starts[] = {0x0f, 0x62, 0xc4, 0xc5, 0x8f, 0x66, 0x48, 0xff};
        if (n & 1)
            code[0] = starts[n >> 1 & 7];
        struct ct_x64_insn insn;
        if (ct_x64_decode(code, sizeof code, &insn))
            continue;
        for (unsigned far = 0; far < 2; far++) {
            struct ct_code_buf out = fresh(far ? FAR : NEAR, CT_X64_RELOCATED_MAX);
            int rc = ct_x64_relocate(&out, code, &insn, FROM);
            assert_true(rc == 0 || rc == CT_ERR_UNSUPPORTED);
            assert_true(rc == 0 ? out.length > 0 : out.length == 0);
            assert_int_equal(bytes[CT_X64_RELOCATED_MAX], 0xcc);
        }
    }
}

/* The names of scratch registers matter where operands are implicit. */
static void test_scratch(void **state) {
    (void)state;
    static const struct {
        const char *code;
        uint8_t size, push; /* the push that must be chosen */
    } cases[] = {
        {"\xf7\x3d\x00\x00\x00\x00", 6, 0x51},                 /* idiv dword [rip]: rcx */
        {"\xf0\x48\x0f\xc7\x0d\x00\x00\x00\x00", 9, 0x56},     /* lock cmpxchg16b: rsi */
        {"\x8a\x25\x00\x00\x00\x00", 6, 0x51},                 /* mov ah: rcx */
        {"\xd3\x25\x00\x00\x00\x00", 6, 0x50},                 /* shl dword, cl: rax */
        {"\xc4\xe2\xfb\xf6\x05\x00\x00\x00\x00", 9, 0x51},     /* mulx rax, rax, m: not rdx */
        {"\x66\x0f\x3a\x61\x05\x00\x00\x00\x00\x00", 10, 0x53} /* pcmpestri: rax, rcx, rdx are in use */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_code_buf out;
        assert_int_equal(move(&out, FAR, cases[i].code, cases[i].size), 0);
        assert_int_equal(bytes[5], cases[i].push);
    }
}

/* rsp as an operand, in each encoding: a second register stands in for it. */
static void test_rsp_operand(void **state) {
    (void)state;
    static const struct {
        const char *code;
        size_t size;
        ZydisMnemonic mnemonic;
    } cases[] = {{CODE("\x48\x03\x25\x00\x00\x00\x00"), ZYDIS_MNEMONIC_ADD},
                 {CODE("\x40\x3a\x25\x00\x00\x00\x00"), ZYDIS_MNEMONIC_CMP},          /* spl */
                 {CODE("\xc4\xe2\xd8\xf2\x25\x00\x00\x00\x00"), ZYDIS_MNEMONIC_ANDN}, /* twice */
                 {CODE("\x62\xf1\x7f\x08\x79\x25\x00\x00\x00\x00"), ZYDIS_MNEMONIC_VCVTSD2USI}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_code_buf out;
        assert_int_equal(move(&out, FAR, cases[i].code, cases[i].size), 0);
        size_t found = 0;
        for (size_t at = 0; at < out.length;) {
            ZydisDecodedInstruction insn = disassemble(bytes + at, out.length - at);
            at += insn.length;
            if (insn.mnemonic != cases[i].mnemonic)
                continue;
            found++;
            for (unsigned k = 0; k < insn.operand_count_visible; k++)
                if (operands[k].type == ZYDIS_OPERAND_TYPE_REGISTER)
                    assert_int_equal(ZydisRegisterGetId(operands[k].reg.value) & 0xf, CT_X64_RCX);
        }
        assert_int_equal(found, 1);
        assert_int_equal(bytes[out.length - 1], 0x5c); /* pop rsp */
    }
}

/* ---- branches ---- */

static void test_branches(void **state) {
    (void)state;
    struct ct_code_buf out;
    uint64_t places[] = {NEAR, FAR};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(move(&out, places[i], CODE("\xeb\x10")), 0);
        assert_int_equal(jump_target(&out, 0), FROM + 0x12);
        assert_int_equal(move(&out, places[i], CODE("\xe9\xfb\xff\xff\xff")), 0); /* to itself */
        assert_int_equal(jump_target(&out, 0), FROM);

        assert_int_equal(move(&out, places[i], CODE("\xe8\x00\x01\x00\x00")), 0);
        ZydisDecodedInstruction insn = disassemble(bytes, out.length);
        assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_PUSH);
        uint64_t pushed;
        memcpy(&pushed, bytes + (named(&insn, 0, out.address) - out.address), sizeof pushed);
        assert_int_equal(pushed, FROM + 5);
        assert_int_equal(jump_target(&out, insn.length), FROM + 0x105);

        assert_int_equal(move(&out, places[i], CODE("\x67\xe2\x80")), 0); /* loop counting in ecx, backward */
        assert_memory_equal(bytes, "\x67\xe2\x02\xeb", 4);
        assert_int_equal(jump_target(&out, 3), places[i] + out.length);
        assert_int_equal(jump_target(&out, 5), FROM + 3 - 128);

        assert_int_equal(move(&out, places[i], CODE("\xc7\xf8\x00\x02\x00\x00")), 0); /* xbegin */
        assert_memory_equal(bytes, "\xc7\xf8\x02\x00\x00\x00\xeb", 7);
        assert_int_equal(jump_target(&out, 6), places[i] + out.length);
        assert_int_equal(jump_target(&out, 8), FROM + 0x206);
    }
}

static void test_syscall(void **state) {
    (void)state;
    struct ct_code_buf out;
    assert_int_equal(move(&out, NEAR, CODE("\x0f\x05")), 0);
    assert_memory_equal(bytes, "\x0f\x05", 2);
    ZydisDecodedInstruction insn = disassemble(bytes + 2, out.length - 2);
    assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_MOV);
    assert_int_equal(operands[0].reg.value, ZYDIS_REGISTER_RCX);
    assert_int_equal(operands[1].imm.value.u, FROM + 2);
    assert_int_equal(jump_target(&out, 2 + insn.length), NEAR + out.length);
    assert_memory_equal(bytes + out.length - 2, "\x0f\x05", 2); /* where the kernel restarts */
    assert_int_equal(move(&out, NEAR, CODE("\x0f\x34")), 0);
    assert_int_equal(out.length, 2);
}

static void test_copied(void **state) {
    (void)state;
    static const struct {
        const char *code;
        size_t size;
    } same[] = {{CODE("\xf3\x0f\x1e\xfa")},
                {CODE("\xc3")},
                {CODE("\xc2\x08\x00")},
                {CODE("\xcc")},
                {CODE("\xff\xe0")},
                {CODE("\x3e\xff\xe0")},
                {CODE("\xff\x24\xc5\x00\x10\x00\x00")},
                {CODE("\x0f\x0b")},
                {CODE("\xf4")},
                {CODE("\x48\xa1\x01\x02\x03\x04\x05\x06\x07\x08")},
                {CODE("\xcd\x80")},
                {CODE("\x48\xcf")}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct ct_code_buf out;
        assert_int_equal(move(&out, FAR, same[i].code, same[i].size), 0);
        assert_int_equal(out.length, same[i].size);
        assert_memory_equal(bytes, same[i].code, same[i].size);
    }
}

static void test_unsupported(void **state) {
    (void)state;
    static const struct {
        const char *code;
        size_t size;
        bool near_works;
    } refused[] = {
        {CODE("\x66\xe9\x00\x00\x00\x00"), false},
        {CODE("\x66\xe8\x00\x00\x00\x00"), false},
        {CODE("\x66\x74\x00"), false},
        {CODE("\x66\xff\xd0"), false},
        {CODE("\xff\x18"), false},
        {CODE("\xff\x1d\x00\x00\x00\x00"), false},                            /* call far */
        {CODE("\xff\x2d\x00\x00\x00\x00"), true},                             /* jmp far */
        {CODE("\x8f\xea\x78\x10\x25\x00\x00\x00\x00\x00\x00\x00\x00"), true}, /* bextr esp, [rip], imm32 */
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct ct_code_buf out;
        assert_int_equal(move(&out, FAR, refused[i].code, refused[i].size), CT_ERR_UNSUPPORTED);
        assert_int_equal(out.length, 0);
        int rc = move(&out, NEAR, refused[i].code, refused[i].size);
        assert_int_equal(rc, refused[i].near_works ? 0 : CT_ERR_UNSUPPORTED);
    }
}

/* Too small a buffer: an error, the length as it was, nothing written past it. */
static void test_no_space(void **state) {
    (void)state;
    static const struct {
        const char *code;
        size_t size;
    } forms[] = {{CODE("\x90")},
                 {CODE("\x74\x10")},
                 {CODE("\xe8\x00\x00\x00\x00")},
                 {CODE("\xe2\x00")},
                 {CODE("\x0f\x05")},
                 {CODE("\xff\x54\x24\x08")},
                 {CODE("\xff\x15\x00\x00\x00\x00")},
                 {CODE("\xff\x25\x00\x00\x00\x00")},
                 {CODE("\xff\x35\x00\x00\x00\x00")},
                 {CODE("\x8f\x05\x00\x00\x00\x00")},
                 {CODE("\x48\x03\x25\x00\x00\x00\x00")},
                 {CODE("\x0f\x10\x05\x00\x00\x00\x00")}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct ct_code_buf out;
        size_t covered;
        out = fresh(FAR, sizeof bytes);
        const uint8_t *code = (const uint8_t *)forms[i].code;
        assert_int_equal(ct_x64_relocate_range(&out, code, forms[i].size, 1, FROM, &covered, NULL), 0);
        size_t needed = out.length;
        for (size_t capacity = 0; capacity < needed; capacity++) {
            out = fresh(FAR, 3 + capacity);
            out.length = 3;
            int rc = ct_x64_relocate_range(&out, code, forms[i].size, 1, FROM, &covered, NULL);
            assert_int_equal(rc, CT_ERR_NO_SPACE);
            assert_int_equal(out.length, 3);
            for (size_t at = 3 + capacity; at < needed + 16; at++)
                assert_int_equal(bytes[at], 0xcc);
        }
    }
}

/* ---- ranges ---- */

static size_t range_covered;
static struct ct_x64_moved range_moved;

static int move_range(struct ct_code_buf *out, const char *code, size_t size, size_t minimum) {
    *out = fresh(NEAR, sizeof bytes);
    return ct_x64_relocate_range(out, (const uint8_t *)code, size, minimum, FROM, &range_covered, &range_moved);
}

static void test_range(void **state) {
    (void)state;
    struct ct_code_buf out;
    /* push rbp / mov rbp, rsp / jz -6 (the first) / jmp +0 (the next) / call the first */
    static const char code[] = "\x55\x48\x89\xe5\x74\xfa\xeb\x00\xe8\xf3\xff\xff\xff\xcc\xcc";
    assert_int_equal(move_range(&out, code, 15, 9), 0);
    assert_int_equal(range_covered, 13);
    static const struct { uint16_t from, to; } expected[] = {{0, 0}, {1, 1}, {4, 4}, {6, 10}, {8, 15}};
    assert_int_equal(range_moved.count, 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(range_moved.at[i].from, expected[i].from);
        assert_int_equal(range_moved.at[i].to, expected[i].to);
        assert_int_equal(ct_x64_moved_to(&range_moved, expected[i].from), expected[i].to);
    }
    assert_int_equal(ct_x64_moved_to(&range_moved, 2), -1);
    assert_int_equal(ct_x64_moved_to(&range_moved, 13), -1);
    ZydisDecodedInstruction insn = disassemble(bytes + 4, 6);
    assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_JZ);
    assert_int_equal(named(&insn, 0, NEAR + 4), NEAR);
    assert_int_equal(jump_target(&out, 10), NEAR + 15);
    assert_int_equal(jump_target(&out, 21), FROM); /* a recursive call is seen by the hook at the original */
    assert_int_equal(out.length, 15 + 6 + 5 + 8);  /* and no jump back after it */
    assert_int_equal(move_range(&out, code, 15, 3), 0);
    assert_int_equal(range_covered, 4);
    assert_int_equal(jump_target(&out, 4), FROM + 4);
}

/* A call into the moved bytes, but not to the entry, finds them in the copy. */
static void test_range_inner_call(void **state) {
    (void)state;
    struct ct_code_buf out;
    assert_int_equal(move_range(&out, CODE("\x90\x90\xe8\xfa\xff\xff\xff"), 7), 0);
    assert_int_equal(jump_target(&out, 2 + 6), NEAR + 1);
}

static void test_range_ends(void **state) {
    (void)state;
    static const struct {
        const char *code;
        size_t size;
        bool jumps_back;
    } ends[] = {{CODE("\xc3"), false},     {CODE("\xeb\x10"), false},
                {CODE("\xff\xe0"), false}, {CODE("\x0f\x0b"), false},
                {CODE("\xff\xd0"), false}, {CODE("\x74\x10"), true},
                {CODE("\xcc"), true},      {CODE("\x0f\x05"), true},
                {CODE("\xe2\x10"), true},  {CODE("\xf3\x0f\x1e\xfa"), true}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct ct_code_buf out;
        assert_int_equal(move_range(&out, ends[i].code, ends[i].size, 1), 0);
        size_t alone = out.length;
        struct ct_code_buf one;
        assert_int_equal(move(&one, NEAR, ends[i].code, ends[i].size), 0);
        assert_int_equal(alone, one.length + (ends[i].jumps_back ? 5 : 0));
    }
    struct ct_code_buf out;
    assert_int_equal(move_range(&out, "", 0, 0), 0); /* nothing: only the way back */
    assert_int_equal(jump_target(&out, 0), FROM);
}

static void test_range_errors(void **state) {
    (void)state;
    struct ct_code_buf out;
    char many[CT_X64_RANGE_MAX + 1];
    memset(many, 0x90, sizeof many);
    assert_int_equal(move_range(&out, many, sizeof many, CT_X64_RANGE_MAX), 0);
    assert_int_equal(move_range(&out, many, sizeof many, CT_X64_RANGE_MAX + 1), CT_ERR_NO_SPACE);
    assert_int_equal(move_range(&out, CODE("\x90\xe9\x00\x00"), 5), CT_ERR_TRUNCATED);
    assert_int_equal(move_range(&out, CODE("\x90"), 5), CT_ERR_TRUNCATED);
    assert_int_equal(move_range(&out, CODE("\x90\x06\x90\x90\x90\x90"), 5), CT_ERR_BAD_INSTRUCTION);
    /* a callee would return into the patch */
    assert_int_equal(move_range(&out, CODE("\xff\xd0\x90\x90\x90\x90"), 5), CT_ERR_UNSUPPORTED);
    /* into the middle of mov eax, imm32 */
    assert_int_equal(move_range(&out, CODE("\xeb\x01\xb8\x00\x00\x00\x00"), 5), CT_ERR_UNSUPPORTED);
    assert_int_equal(out.length, 0);
    assert_int_equal(move_range(&out, CODE("\xff\xd0\x90\x90\x90\x90"), 2), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reach),      cmocka_unit_test(test_library),      cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_scratch),    cmocka_unit_test(test_rsp_operand),  cmocka_unit_test(test_branches),
        cmocka_unit_test(test_syscall),    cmocka_unit_test(test_copied),       cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_no_space),   cmocka_unit_test(test_range),        cmocka_unit_test(test_range_inner_call),
        cmocka_unit_test(test_range_ends), cmocka_unit_test(test_range_errors),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
