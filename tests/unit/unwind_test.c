/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinding by .eh_frame: every row against libdw's, expressions, damaged tables. Needs the C library's file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
#include <gnu/libc-version.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <cmocka.h>

#include "contrail/status.h"
#include "random_util.h"
#include "symbols/functions.h"
#include "symbols/unwind.h"

enum { RBX = 3, RBP = 6, RSP = 7, R12 = 12, PC = 16, KNOWN = 17 };

/* Memory whose words follow from their addresses. */
static uint64_t word_at(uint64_t address) {
    return address * 0x9e3779b97f4a7c15u ^ 0x5bd1e995;
}

static int read_anything(void *arg, uint64_t address, uint64_t *word) {
    (void)arg;
    *word = word_at(address);
    return 0;
}

static int read_nothing(void *arg, uint64_t address, uint64_t *word) {
    (void)arg;
    (void)address;
    (void)word;
    return CT_ERR_NOT_MAPPED;
}

static const struct ct_unwind_memory anything = {read_anything, NULL}, nothing = {read_nothing, NULL};

static struct ct_unwind_regs some_registers(void) {
    struct ct_unwind_regs regs = {.known = (1u << KNOWN) - 1};
    for (unsigned i = 0; i < KNOWN; i++)
        regs.value[i] = 0x700000000000 + 0x10000000 * i;
    return regs;
}

struct file {
    uint8_t *bytes;
    size_t size;
    char path[512];
};

static void load(struct file *file) {
    Dl_info info;
    assert_true(dladdr((void *)(uintptr_t)&gnu_get_libc_version, &info));
    snprintf(file->path, sizeof file->path, "%s", info.dli_fname);
    int fd = open(file->path, O_RDONLY);
    assert_true(fd >= 0);
    file->size = (size_t)lseek(fd, 0, SEEK_END);
    file->bytes = malloc(file->size);
    assert_non_null(file->bytes);
    assert_int_equal(pread(fd, file->bytes, file->size, 0), (ssize_t)file->size);
    close(fd);
}

/* ---- against libdw ---- */

/* The value of a CFA that is a register and an offset; false for other kinds. */
static bool oracle_cfa(Dwarf_Frame *frame, const struct ct_unwind_regs *regs, uint64_t *cfa) {
    Dwarf_Op *ops;
    size_t count;
    if (dwarf_frame_cfa(frame, &ops, &count) || count != 1)
        return false;
    if (ops->atom == DW_OP_bregx)
        *cfa = regs->value[ops->number] + ops->number2;
    else if (ops->atom >= DW_OP_breg0 && ops->atom <= DW_OP_breg31)
        *cfa = regs->value[ops->atom - DW_OP_breg0] + ops->number;
    else
        return false;
    return true;
}

/* What the caller's register is; false when it is not kept, or in another way than at CFA + offset. */
static bool oracle_register(Dwarf_Frame *frame, int reg, uint64_t cfa, const struct ct_unwind_regs *regs,
                            uint64_t *value) {
    Dwarf_Op memory[3], *ops;
    size_t count;
    if (dwarf_frame_register(frame, reg, memory, &ops, &count))
        return false;
    if (count == 0 && ops == NULL) { /* same value */
        *value = regs->value[reg];
        return true;
    }
    if (count != 2 || ops[0].atom != DW_OP_call_frame_cfa || ops[1].atom != DW_OP_plus_uconst)
        return false;
    *value = word_at(cfa + ops[1].number);
    return true;
}

/* The usual kind: the caller's sp is the CFA. (longjmp describes itself as already gone.) */
static bool is_usual(Dwarf_Frame *frame) {
    Dwarf_Op memory[3], *ops;
    size_t count;
    return !dwarf_frame_register(frame, RSP, memory, &ops, &count) && count == 2 &&
           ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_stack_value;
}

static unsigned compare_at(Dwarf_CFI *cfi, const struct ct_unwind *unwind, uint64_t address) {
    static const int kept[] = {RBX, RBP, R12, 13, 14, 15};
    Dwarf_Frame *frame;
    struct ct_unwind_regs before = some_registers(), regs = before;
    struct ct_unwind_result result;
    uint64_t cfa = 0, value;
    if (dwarf_cfi_addrframe(cfi, address, &frame)) {
        assert_false(ct_unwind_covers(unwind, address));
        return 0;
    }
    int status = ct_unwind_step(unwind, 0, address, &regs, &anything, &result);
    bool simple = oracle_cfa(frame, &before, &cfa) && is_usual(frame);
    if (status)
        fail_msg("%#llx: %s", (unsigned long long)address, ct_status_name(status));
    if (simple && !result.outermost && !result.signal_frame) {
        assert_int_equal(regs.value[RSP], cfa);
        if (oracle_register(frame, PC, cfa, &before, &value)) /* vfork keeps it in a register for a while */
            assert_int_equal(regs.value[PC], value);
        if (result.return_slot)
            assert_int_equal(regs.value[PC], word_at(result.return_slot));
        for (unsigned i = 0; i < sizeof kept / sizeof kept[0]; i++)
            if (oracle_register(frame, kept[i], cfa, &before, &value))
                assert_int_equal(regs.value[kept[i]], value);
    }
    free(frame);
    return simple;
}

static void test_rows_as_libdw(void **state) {
    (void)state;
    struct file file;
    struct ct_unwind *unwind;
    struct ct_functions *functions;
    unsigned compared = 0;
    load(&file);
    elf_version(EV_CURRENT);
    Elf *elf = elf_memory((char *)file.bytes, file.size);
    Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);
    assert_non_null(cfi);
    assert_int_equal(ct_unwind_open(&unwind, file.bytes, file.size), 0);
    assert_int_equal(ct_functions_open(&functions, file.path), 0);
    for (size_t i = 0; i < ct_functions_count(functions); i++) {
        const struct ct_func *func = ct_functions_at(functions, i);
        for (uint64_t at = 0; at < func->size && at < 4096; at += at < 32 ? 1 : 13)
            compared += compare_at(cfi, unwind, func->offset + at);
    }
    assert_true(compared > 50000);
    ct_functions_close(functions);
    ct_unwind_close(unwind);
    dwarf_cfi_end(cfi);
    elf_end(elf);
    free(file.bytes);
}

/* Memory that cannot be read, and a file without tables: an error, and nothing has changed. */
static void test_errors(void **state) {
    (void)state;
    struct file file;
    struct ct_unwind *unwind = NULL;
    struct ct_functions *functions;
    struct ct_unwind_regs before = some_registers(), regs = before;
    struct ct_unwind_result result;
    load(&file);
    assert_int_equal(ct_unwind_open(&unwind, file.bytes, 40), CT_ERR_BAD_FILE);
    assert_int_equal(ct_unwind_open(&unwind, "no ELF file", 11), CT_ERR_BAD_FILE);
    assert_null(unwind);
    assert_int_equal(ct_unwind_open(&unwind, file.bytes, file.size), 0);
    assert_int_equal(ct_functions_open(&functions, file.path), 0);
    uint64_t place = ct_functions_by_name(functions, "qsort")->offset;
    assert_int_equal(ct_unwind_step(unwind, 0, place, &regs, &nothing, &result), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_unwind_step(unwind, 0, 1, &regs, &anything, &result), CT_ERR_NOT_FOUND);
    regs.known = before.known &= ~(1u << RSP);
    assert_int_equal(ct_unwind_step(unwind, 0, place, &regs, &anything, &result), CT_ERR_BAD_FILE);
    assert_memory_equal(&regs, &before, sizeof regs);
    ct_functions_close(functions);
    ct_unwind_close(unwind);
    free(file.bytes);
}

/* ---- damaged tables: no crash, no endless loop ---- */

static uint64_t random_state = RANDOM_SEED;
static uint64_t next_random(void) {
    return random_next(&random_state);
}

static void test_damaged(void **state) {
    (void)state;
    struct file file;
    struct ct_unwind *unwind;
    struct ct_functions *functions;
    load(&file);
    assert_int_equal(ct_functions_open(&functions, file.path), 0);
    size_t count = ct_functions_count(functions);
    /* .eh_frame lies somewhere in the last third of the file's segments. */
    size_t first = file.size / 2, range = file.size - first;
    for (unsigned round = 0; round < 12; round++) {
        for (unsigned i = 0; i < 20000; i++)
            file.bytes[first + next_random() % range] = (uint8_t)next_random();
        if (ct_unwind_open(&unwind, file.bytes, file.size))
            continue;
        for (unsigned i = 0; i < 4000; i++) {
            const struct ct_func *func = ct_functions_at(functions, next_random() % count);
            struct ct_unwind_regs regs = some_registers();
            struct ct_unwind_result result;
            ct_unwind_step(unwind, 0, func->offset + next_random() % (func->size + 1), &regs, &anything, &result);
        }
        ct_unwind_close(unwind);
    }
    ct_functions_close(functions);
    free(file.bytes);
}

/* ---- expressions ---- */

static int evaluate(const uint8_t *code, size_t size, const uint64_t *first, uint64_t *value) {
    struct ct_unwind_regs regs = some_registers();
    return ct_unwind_evaluate(code, code + size, &regs, 0x1000, first, &anything, value);
}

#define VALUE(expected, ...)                                                                                           \
    do {                                                                                                               \
        const uint8_t code_[] = {__VA_ARGS__};                                                                         \
        uint64_t value_ = 0;                                                                                           \
        assert_int_equal(evaluate(code_, sizeof code_, NULL, &value_), 0);                                             \
        assert_true(value_ == (uint64_t)(expected));                                                                   \
    } while (0)
#define BAD(...)                                                                                                       \
    do {                                                                                                               \
        const uint8_t code_[] = {__VA_ARGS__};                                                                         \
        uint64_t value_;                                                                                               \
        assert_int_equal(evaluate(code_, sizeof code_, NULL, &value_), CT_ERR_BAD_FILE);                               \
    } while (0)

static void test_expressions(void **state) {
    (void)state;
    uint64_t rsp = some_registers().value[RSP], first = 5, value;
    VALUE(7, DW_OP_lit7);
    VALUE(-2, DW_OP_const1s, 0xfe);
    VALUE(0xfe, DW_OP_const1u, 0xfe);
    VALUE(0x1234, DW_OP_const2u, 0x34, 0x12);
    VALUE(-1, DW_OP_const4s, 0xff, 0xff, 0xff, 0xff);
    VALUE(0x1010, DW_OP_addr, 0x10, 0, 0, 0, 0, 0, 0, 0);
    VALUE(300, DW_OP_constu, 0xac, 2);
    VALUE(rsp - 8, DW_OP_breg7, 0x78);
    VALUE(rsp + 3, DW_OP_bregx, RSP, 3);
    VALUE(word_at(rsp), DW_OP_breg7, 0, DW_OP_deref);
    VALUE(word_at(rsp) & 0xff, DW_OP_breg7, 0, DW_OP_deref_size, 1);
    VALUE(1, DW_OP_lit5, DW_OP_lit4, DW_OP_minus);
    VALUE(-1, DW_OP_lit5, DW_OP_lit4, DW_OP_swap, DW_OP_minus);
    VALUE(40, DW_OP_lit5, DW_OP_lit3, DW_OP_shl);
    VALUE(1, DW_OP_lit9, DW_OP_lit8, DW_OP_ge);
    VALUE(-3, DW_OP_lit3, DW_OP_neg);
    VALUE(3, DW_OP_const1s, 0xfd, DW_OP_abs);
    VALUE(2, DW_OP_lit1, DW_OP_lit2, DW_OP_lit3, DW_OP_rot, DW_OP_drop, DW_OP_drop, DW_OP_plus_uconst, 0, DW_OP_nop,
          DW_OP_drop, DW_OP_lit2);
    VALUE(1, DW_OP_lit1, DW_OP_lit2, DW_OP_over, DW_OP_swap, DW_OP_drop);
    VALUE(9, DW_OP_lit1, DW_OP_bra, 1, 0, DW_OP_lit8, DW_OP_lit9);
    VALUE(4, DW_OP_skip, 1, 0, DW_OP_lit8, DW_OP_lit4);
    VALUE(0, DW_OP_lit1, DW_OP_const1u, 200, DW_OP_shl);
    VALUE(0, DW_OP_lit7, DW_OP_lit0, DW_OP_div);
    BAD(DW_OP_drop);
    BAD(DW_OP_plus);
    BAD(DW_OP_const4u, 1);
    BAD(DW_OP_breg31, 0);
    BAD(DW_OP_skip, 0xfd, 0xff); /* for ever */
    BAD(DW_OP_skip, 100, 0);
    BAD(DW_OP_lit1, DW_OP_pick, 3);
    BAD(DW_OP_lit1, DW_OP_dup, DW_OP_skip, 0xfc, 0xff); /* a stack without end */
    BAD(0xff);
    const uint8_t add[] = {DW_OP_lit2, DW_OP_plus};
    assert_int_equal(evaluate(add, sizeof add, &first, &value), 0);
    assert_int_equal(value, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_as_libdw),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_expressions),
    };
    return cmocka_run_group_tests_name("unwind", tests, NULL, NULL);
}
