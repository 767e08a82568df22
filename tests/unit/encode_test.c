/* SPDX-License-Identifier: Apache-2.0 */
/* Emitters of src/isa/x64/encode: Zydis must read back what was meant, at near and far distances. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <Zydis/Zydis.h>

#include "isa/x64/encode.h"

#define HERE 0x7f0012345678ull

static uint8_t bytes[256];
static ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

static struct ct_code_buf fresh(size_t capacity) {
    memset(bytes, 0xcc, sizeof bytes);
    return (struct ct_code_buf){.bytes = bytes, .capacity = capacity, .address = HERE};
}

static ZydisDecodedInstruction disassemble(size_t at, size_t length) {
    ZydisDecoder decoder;
    ZydisDecodedInstruction insn;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    assert_true(ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes + at, length - at, &insn, operands)));
    return insn;
}

static uint64_t operand_address(const ZydisDecodedInstruction *insn, size_t at) {
    ZyanU64 address = 0;
    assert_true(ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(insn, &operands[0], HERE + at, &address)));
    return address;
}

static uint64_t literal(size_t at) {
    uint64_t v;
    memcpy(&v, bytes + at, sizeof v);
    return v;
}

static const uint64_t near_targets[] = {HERE, HERE + 5, HERE + 6, HERE + 5 + INT32_MAX, HERE + 6 - 0x80000000ull};
static const uint64_t far_targets[] = {0, 1, HERE + 6 + 0x80000000ull, HERE + 5 - 0x80000001ull, ~0ull, 0x400000};

static void test_reach(void **state) {
    (void)state;
    assert_true(ct_x64_reaches(100, 100 + (uint64_t)INT32_MAX));
    assert_false(ct_x64_reaches(100, 101 + (uint64_t)INT32_MAX));
    assert_true(ct_x64_reaches(HERE, HERE - 0x80000000ull));
    assert_false(ct_x64_reaches(HERE, HERE - 0x80000001ull));
    assert_true(ct_x64_reaches(0, ~0ull)); /* the address space wraps */
}

static void test_jmp(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof near_targets / sizeof *near_targets; i++) {
        struct ct_code_buf b = fresh(sizeof bytes);
        ct_x64_emit_jmp(&b, near_targets[i]);
        ZydisDecodedInstruction insn = disassemble(0, b.length);
        assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_JMP);
        assert_int_equal(b.length, 5);
        assert_int_equal(operand_address(&insn, 0), near_targets[i]);
    }
    for (size_t i = 0; i < sizeof far_targets / sizeof *far_targets; i++) {
        struct ct_code_buf b = fresh(sizeof bytes);
        ct_x64_emit_jmp(&b, far_targets[i]);
        ZydisDecodedInstruction insn = disassemble(0, b.length);
        assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_JMP);
        assert_int_equal(b.length, 14);
        uint64_t slot = operand_address(&insn, 0) - HERE;
        assert_int_equal(literal(slot), far_targets[i]);
    }
}

static void test_call(void **state) {
    (void)state;
    struct ct_code_buf b = fresh(sizeof bytes);
    ct_x64_emit_call(&b, HERE + 1000);
    ZydisDecodedInstruction insn = disassemble(0, b.length);
    assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_CALL);
    assert_int_equal(operand_address(&insn, 0), HERE + 1000);

    b = fresh(sizeof bytes);
    ct_x64_emit_call(&b, 0x1234);
    insn = disassemble(0, b.length);
    assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_CALL);
    assert_int_equal(literal(operand_address(&insn, 0) - HERE), 0x1234);
    size_t at = insn.length; /* the return lands on a jump to the end */
    insn = disassemble(at, b.length);
    assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_JMP);
    assert_int_equal(operand_address(&insn, at), HERE + b.length);
}

static void test_jcc(void **state) {
    (void)state;
    for (uint8_t condition = 0; condition < 16; condition++) {
        struct ct_code_buf b = fresh(sizeof bytes);
        ct_x64_emit_jcc(&b, condition, HERE - 77);
        assert_int_equal(b.length, 6);
        assert_int_equal(bytes[1] & 15, condition);
        ZydisDecodedInstruction insn = disassemble(0, b.length);
        assert_int_equal(operand_address(&insn, 0), HERE - 77);

        b = fresh(sizeof bytes);
        ct_x64_emit_jcc(&b, condition, 0x1234);
        insn = disassemble(0, b.length);
        assert_int_equal(bytes[0], 0x70 | (condition ^ 1));
        assert_int_equal(operand_address(&insn, 0), HERE + b.length);
        insn = disassemble(2, b.length);
        assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_JMP);
        assert_int_equal(literal(operand_address(&insn, 2) - HERE), 0x1234);
    }
}

static void test_nop(void **state) {
    (void)state;
    for (size_t n = 0; n < 40; n++) {
        struct ct_code_buf b = fresh(sizeof bytes);
        ct_x64_emit_nop(&b, n);
        assert_int_equal(b.length, n);
        size_t count = 0;
        for (size_t at = 0; at < n; count++) {
            ZydisDecodedInstruction insn = disassemble(at, n);
            assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_NOP);
            at += insn.length;
        }
        assert_int_equal(count, (n + 8) / 9);
    }
}

static void test_registers(void **state) {
    (void)state;
    static const uint64_t values[] = {0,           1,     0x7fffffff,         0x80000000,         0xffffffff,
                                      0x100000000, ~0ull, 0xffffffff80000000, 0xffffffff7fffffff, 0x123456789abcdef0};
    for (uint8_t reg = 0; reg < 16; reg++) {
        struct ct_code_buf b = fresh(sizeof bytes);
        ct_x64_emit_push(&b, reg);
        assert_int_equal(disassemble(0, b.length).mnemonic, ZYDIS_MNEMONIC_PUSH);
        assert_int_equal(operands[0].reg.value, ZYDIS_REGISTER_RAX + reg);
        b = fresh(sizeof bytes);
        ct_x64_emit_pop(&b, reg);
        assert_int_equal(disassemble(0, b.length).mnemonic, ZYDIS_MNEMONIC_POP);
        assert_int_equal(operands[0].reg.value, ZYDIS_REGISTER_RAX + reg);
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            b = fresh(sizeof bytes);
            ct_x64_emit_mov_imm(&b, reg, values[i]);
            ZydisDecodedInstruction insn = disassemble(0, b.length);
            assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_MOV);
            assert_int_equal(insn.length, b.length);
            bool half = operands[0].size == 32;
            assert_int_equal(operands[0].reg.value, (half ? ZYDIS_REGISTER_EAX : ZYDIS_REGISTER_RAX) + reg);
            assert_int_equal(half ? (uint32_t)operands[1].imm.value.u : operands[1].imm.value.u, values[i]);
        }
    }
}

static void test_add_rsp(void **state) {
    (void)state;
    static const int32_t deltas[] = {0, 8, -8, 127, 128, -128, -129, 0x12345, INT32_MIN};
    for (size_t i = 0; i < sizeof deltas / sizeof *deltas; i++) {
        struct ct_code_buf b = fresh(sizeof bytes);
        ct_x64_emit_add_rsp(&b, deltas[i]);
        ZydisDecodedInstruction insn = disassemble(0, b.length);
        assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_LEA);
        assert_int_equal(insn.length, b.length);
        assert_int_equal(operands[0].reg.value, ZYDIS_REGISTER_RSP);
        assert_int_equal(operands[1].mem.base, ZYDIS_REGISTER_RSP);
        assert_int_equal(operands[1].mem.disp.value, deltas[i]);
    }
}

static void test_literal(void **state) {
    (void)state;
    struct ct_code_buf b = fresh(sizeof bytes);
    size_t at = ct_x64_emit_push_literal(&b);
    ct_x64_emit_jmp(&b, HERE);
    ct_x64_place_literal(&b, at, 0xfeedfacecafebeef);
    ZydisDecodedInstruction insn = disassemble(0, b.length);
    assert_int_equal(insn.mnemonic, ZYDIS_MNEMONIC_PUSH);
    assert_int_equal(literal(operand_address(&insn, 0) - HERE), 0xfeedfacecafebeef);
}

/* Too small a buffer: marked, and no byte past its end is written. */
static void test_overflow(void **state) {
    (void)state;
    for (size_t capacity = 0; capacity < 60; capacity++) {
        struct ct_code_buf b = fresh(capacity);
        size_t at = ct_x64_emit_push_literal(&b);
        ct_x64_emit_jcc(&b, 3, 0);
        ct_x64_emit_call(&b, 0);
        ct_x64_emit_nop(&b, 7);
        ct_x64_emit_mov_imm(&b, 9, 5);
        ct_x64_place_literal(&b, at, 1);
        assert_int_equal(b.overflow, capacity < 6 + 16 + 16 + 7 + 6 + 8);
        assert_true(b.length <= capacity);
        for (size_t i = capacity; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0xcc);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reach),   cmocka_unit_test(test_jmp),     cmocka_unit_test(test_call),
        cmocka_unit_test(test_jcc),     cmocka_unit_test(test_nop),     cmocka_unit_test(test_registers),
        cmocka_unit_test(test_add_rsp), cmocka_unit_test(test_literal), cmocka_unit_test(test_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
