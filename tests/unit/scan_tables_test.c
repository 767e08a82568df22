/* SPDX-License-Identifier: Apache-2.0 */
/* Where indirect jumps lead: jump tables of all shapes, addresses of code, and what is assumed when nothing is found.
 * Bytes only: nothing here runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "scan_util.h"

/* Data of the module: a table at this address. */
static uint64_t table_address;
static uint8_t table[256];
static size_t table_size;

static const uint8_t *read_table(void *arg, uint64_t address, size_t size) {
    assert_ptr_equal(arg, table);
    uint64_t at = address - table_address;
    return at < table_size && size <= table_size - at ? table + at : NULL;
}

static void start_table(struct sample *s, uint64_t address) {
    s->scan.read = read_table;
    s->scan.read_arg = table;
    table_address = address;
    table_size = 0;
}

static void add_relative(const struct sample *s, unsigned offset) {
    int32_t entry = (int32_t)(s->scan.start + offset - table_address);
    memcpy(table + table_size, &entry, 4);
    table_size += 4;
}

static void add_absolute(const struct sample *s, unsigned offset) {
    uint64_t entry = s->scan.start + offset;
    memcpy(table + table_size, &entry, 8);
    table_size += 8;
}

/* ---- tables that lea names ---- */

#define TABLE     (BASE + 0x100000)
#define LOW_TABLE 0x100000ull /* of position-dependent code */

/* 0 lea rdx, [TABLE]; 7 movsxd rax, [rdx+rdi*4]; 11 add rax, rdx; 14 jmp rax; 16.. one-byte cases */
static const uint8_t switch_code[] = {
    0x48, 0x8d, 0x15, 0xf9, 0xff, 0x0f, 0x00, 0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0,
    0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3,
};

static void start_switch(struct sample *s) {
    SAMPLE(s, switch_code, 0, 30, 30, 32);
    start_table(s, TABLE);
}

static void test_relative_table(void **state) {
    (void)state;
    struct sample s;
    start_switch(&s);
    add_relative(&s, 20);
    add_relative(&s, 17);
    add_relative(&s, 20);
    add_relative(&s, 29);
    run(&s);
    CHECK_BITS(&s, landing, 0, 17, 20, 29, 30);
    CHECK_BITS(&s, foreign, 0, 17, 20, 29, 30);
    ct_scan_free(&s.scan);
}

static void test_absolute_table(void **state) {
    (void)state;
    struct sample s;
    start_switch(&s);
    add_absolute(&s, 18);
    add_absolute(&s, 25);
    run(&s);
    CHECK_BITS(&s, landing, 0, 18, 25, 30);
    CHECK_BITS(&s, foreign, 0, 18, 25, 30);
    ct_scan_free(&s.scan);
}

/* Compilers put rare cases into another section: the table goes on after them, even when it begins with one. */
static void test_cold_cases(void **state) {
    (void)state;
    struct sample s;
    start_switch(&s);
    add_relative(&s, 31);
    add_relative(&s, 20);
    add_relative(&s, 31);
    add_relative(&s, 22);
    run(&s);
    CHECK_BITS(&s, landing, 0, 20, 22, 30, 31);
    ct_scan_free(&s.scan);
    start_switch(&s);
    add_absolute(&s, 31);
    add_absolute(&s, 21);
    run(&s);
    CHECK_BITS(&s, landing, 0, 21, 30, 31);
    ct_scan_free(&s.scan);
}

/* A cold part may have a switch of its own, all of whose cases are in the other part. */
static void test_cold_switch(void **state) {
    (void)state;
    static const uint8_t jump[] = {0xff, 0x24, 0xfd, 0x00, 0x00, 0x10, 0x00}; /* jmp [LOW_TABLE + rdi*8] */
    uint8_t code[40];
    struct sample s;
    memset(code, 0xc3, sizeof code);
    memcpy(code, switch_code, 16);
    SAMPLE(&s, code, 0, 16, 20, 40);
    start_table(&s, TABLE);
    add_relative(&s, 24);
    add_relative(&s, 31);
    run(&s);
    CHECK_BITS(&s, landing, 0, 20, 24, 31);
    ct_scan_free(&s.scan);
    memcpy(code, jump, sizeof jump);
    SAMPLE_AT(&s, LOW_BASE, code, 0, 16, 20, 40);
    start_table(&s, LOW_TABLE);
    add_absolute(&s, 24);
    add_absolute(&s, 31);
    run(&s);
    CHECK_BITS(&s, landing, 0, 20, 24, 31);
    ct_scan_free(&s.scan);
}

static void test_table_ends(void **state) {
    (void)state;
    struct sample s;
    start_switch(&s);
    add_relative(&s, 20);
    add_relative(&s, 1 << 20); /* outside the module: something else begins */
    add_relative(&s, 21);
    run(&s);
    CHECK_BITS(&s, landing, 0, 20, 30);
    ct_scan_free(&s.scan);
}

/* Pointers to other functions are no switch. */
static void test_table_of_others(void **state) {
    (void)state;
    struct sample s;
    start_switch(&s);
    s.code[8] = 0x8b; /* mov rax, [rdx+rdi*4]: whether this is a table is not certain */
    add_relative(&s, 31);
    add_relative(&s, 0);
    run(&s);
    CHECK_BITS(&s, landing, 0, 30);
    ct_scan_free(&s.scan);
}

/* What is read past the end of a table may look like code by chance: near an entry only starts of instructions
 * count. */
static void test_implausible_targets(void **state) {
    (void)state;
    struct sample s;
    start_switch(&s);
    add_relative(&s, 20);
    add_relative(&s, 3);  /* inside the first instruction */
    add_relative(&s, 7);  /* the second one */
    add_relative(&s, 12); /* inside the third one */
    run(&s);
    CHECK_BITS(&s, landing, 0, 7, 20, 30);
    ct_scan_free(&s.scan);
}

/* Without an indirect jump an address is only an address. */
static void test_no_table_without_jump(void **state) {
    (void)state;
    struct sample s;
    start_switch(&s);
    memset(s.code + 14, 0x90, 2);
    add_relative(&s, 20);
    run(&s);
    CHECK_BITS(&s, landing, 0, 30);
    ct_scan_free(&s.scan);
}

/* The table is named first, many other things later. */
static void test_many_addresses(void **state) {
    (void)state;
    uint8_t code[7 * 60 + 16];
    struct sample s;
    memset(code, 0xc3, sizeof code);
    for (unsigned i = 0; i < 60; i++) { /* lea rdx, [TABLE]; lea rdx, [somewhere] ... */
        int32_t distance = (int32_t)(TABLE + (i ? 0x10000 + i : 0) - (BASE + 7 * i + 7));
        memcpy(code + 7 * i, (const uint8_t[]){0x48, 0x8d, 0x15}, 3);
        memcpy(code + 7 * i + 3, &distance, 4);
    }
    code[420] = 0xff, code[421] = 0xe0; /* jmp rax */
    SAMPLE(&s, code, 0, sizeof code);
    start_table(&s, TABLE);
    add_relative(&s, 430);
    run(&s);
    CHECK_BITS(&s, landing, 0, 430);
    ct_scan_free(&s.scan);
}

/* A table belongs to the function that names it. */
static void test_table_of_a_neighbour(void **state) {
    (void)state;
    uint8_t code[sizeof switch_code];
    struct sample s;
    memcpy(code, switch_code, sizeof code);
    memset(code + 7, 0xc3, 7); /* lea rdx, [TABLE]; ret | 14: jmp rax; ... */
    SAMPLE(&s, code, 0, 14, 14, 32);
    start_table(&s, TABLE);
    add_relative(&s, 20);
    run(&s);
    CHECK_BITS(&s, landing, 0, 14);
    ct_scan_free(&s.scan);
}

/* ---- where tables end ---- */

/* Two functions with a switch each; their tables follow each other. The second one's begins at TABLE + 8. */
enum { SECOND = 32 };

static void start_two_switches(struct sample *s, const uint8_t *second, size_t size) {
    uint8_t code[SECOND + 40];
    memset(code, 0xc3, sizeof code);
    memcpy(code, switch_code, sizeof switch_code);
    memcpy(code + SECOND, second, size);
    SAMPLE(s, code, 0, SECOND, SECOND, SECOND + 40);
    start_table(s, TABLE);
    add_relative(s, 20);
    add_relative(s, 22);
    table_address += 8; /* entries of the second table are relative to its own start */
    for (unsigned i = 0; i < 2; i++) {
        int32_t entry = (int32_t)(s->scan.start + SECOND + 28 + i - table_address);
        memcpy(table + table_size, &entry, 4);
        table_size += 4;
    }
    table_address -= 8;
    run(s);
}

/* 0 lea rdx, [TABLE + 8]; then what follows */
#define LEA_SECOND 0x48, 0x8d, 0x15, 0xe1, 0xff, 0x0f, 0x00
#define LOAD       0x48, 0x63, 0x04, 0xba /* movsxd rax, [rdx + rdi*4] */
#define ADD        0x48, 0x01, 0xd0       /* add rax, rdx */
#define JUMP       0xff, 0xe0             /* jmp rax */

/* Entries of the second table, read as entries of the first one, lead 8 bytes too low: 20 and 21 of the second. */
#define CHECK_CUT(s)     CHECK_BITS(s, landing, 0, 20, 22, SECOND, SECOND + 28, SECOND + 29)
#define CHECK_NOT_CUT(s) CHECK_BITS(s, landing, 0, 20, 22, SECOND, SECOND + 20, SECOND + 21, SECOND + 28, SECOND + 29)

static void test_table_ends_at_the_next(void **state) {
    (void)state;
    static const uint8_t plain[] = {LEA_SECOND, LOAD, ADD, JUMP};
    static const uint8_t between[] = {LEA_SECOND, 0x89, 0xff, LOAD, 0x31, 0xc9, ADD, 0x90, JUMP}; /* edi, ecx, nop */
    static const uint8_t other_sum[] = {LEA_SECOND, LOAD, 0x48, 0x01, 0xc2, 0xff, 0xe2};          /* rdx += rax */
    static const uint8_t other_form[] = {LEA_SECOND, LOAD, 0x48, 0x03, 0xc2, 0x3e, 0xff, 0xe0};   /* 03, notrack */
    static const uint8_t branch[] = {LEA_SECOND, 0x77, 0x14, LOAD, ADD, JUMP};                    /* ja +20 */
    struct sample s;
    start_two_switches(&s, plain, sizeof plain);
    CHECK_CUT(&s);
    ct_scan_free(&s.scan);
    start_two_switches(&s, between, sizeof between);
    CHECK_CUT(&s);
    ct_scan_free(&s.scan);
    start_two_switches(&s, other_sum, sizeof other_sum);
    CHECK_CUT(&s);
    ct_scan_free(&s.scan);
    start_two_switches(&s, other_form, sizeof other_form);
    CHECK_CUT(&s);
    ct_scan_free(&s.scan);
    start_two_switches(&s, branch, sizeof branch);
    CHECK_BITS(&s, landing, 0, 20, 22, SECOND, SECOND + 28, SECOND + 29);
    ct_scan_free(&s.scan);
}

/* What is named may be anything, even a place inside a table: a pointer to before the start of an array that follows
 * it. Only a jump that goes where the table says shows that one begins there. */
static void test_named_is_no_table(void **state) {
    (void)state;
    static const uint8_t no_load[] = {LEA_SECOND, ADD, JUMP};
    static const uint8_t no_sum[] = {LEA_SECOND, LOAD, JUMP};
    static const uint8_t no_jump[] = {LEA_SECOND, LOAD, ADD, 0xff, 0xe1};                 /* jmp rcx */
    static const uint8_t changed[] = {LEA_SECOND, LOAD, ADD, 0x48, 0x89, 0xc8, JUMP};     /* mov rax, rcx */
    static const uint8_t other_base[] = {LEA_SECOND, 0x48, 0x89, 0xca, LOAD, ADD, JUMP};  /* mov rdx, rcx */
    static const uint8_t between[] = {LEA_SECOND, LOAD, 0x48, 0x89, 0xca, ADD, JUMP};     /* mov rdx, rcx */
    static const uint8_t called[] = {LEA_SECOND, 0xff, 0xd3, LOAD, ADD, JUMP};            /* call rbx */
    static const uint8_t unsigned_load[] = {LEA_SECOND, 0x8b, 0x04, 0xba, ADD, JUMP};     /* mov eax, [...] */
    static const uint8_t other_scale[] = {LEA_SECOND, 0x48, 0x63, 0x04, 0xfa, ADD, JUMP}; /* rdi*8 */
    static const struct {
        const uint8_t *code;
        size_t size;
    } forms[] = {
        {no_load, sizeof no_load},
        {no_sum, sizeof no_sum},
        {no_jump, sizeof no_jump},
        {changed, sizeof changed},
        {other_base, sizeof other_base},
        {between, sizeof between},
        {unsigned_load, sizeof unsigned_load},
        {other_scale, sizeof other_scale},
    };
    struct sample s;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        start_two_switches(&s, forms[i].code, forms[i].size);
        CHECK_NOT_CUT(&s);
        ct_scan_free(&s.scan);
    }
    start_two_switches(&s, called, sizeof called); /* it returns to +9 */
    CHECK_BITS(&s, landing, 0, 20, 22, SECOND, SECOND + 9, SECOND + 20, SECOND + 21, SECOND + 28, SECOND + 29);
    ct_scan_free(&s.scan);
}

/* ---- tables in position-dependent code ---- */

static void test_table_in_jump(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0xff, 0x24, 0xfd, 0x00, 0x00, 0x10, 0x00, /* 0 jmp [LOW_TABLE + rdi*8] */
        0xc3, 0xc3, 0xc3,                         /* 7 */
    };
    struct sample s;
    SAMPLE_AT(&s, LOW_BASE, code, 0, 10);
    start_table(&s, LOW_TABLE);
    add_absolute(&s, 9);
    add_absolute(&s, 7);
    add_absolute(&s, 0x50000);
    run(&s);
    CHECK_BITS(&s, landing, 0, 7, 9);
    ct_scan_free(&s.scan);
}

static void test_table_in_load(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0x48, 0x8b, 0x04, 0xfd, 0x00, 0x00, 0x10, 0x00, /*  0 mov rax, [LOW_TABLE + rdi*8] */
        0xff, 0xe0,                                     /*  8 jmp rax */
        0xc3, 0xc3, 0xc3,                               /* 10 */
    };
    struct sample s;
    SAMPLE_AT(&s, LOW_BASE, code, 0, 13);
    start_table(&s, LOW_TABLE);
    add_absolute(&s, 11);
    run(&s);
    CHECK_BITS(&s, landing, 0, 11);
    ct_scan_free(&s.scan);
    /* far above, where no displacement reaches, the number means something else */
    SAMPLE(&s, code, 0, 13);
    start_table(&s, LOW_TABLE);
    add_absolute(&s, 11);
    run(&s);
    CHECK_BITS(&s, landing, 0);
    ct_scan_free(&s.scan);
}

static void test_table_as_constant(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0xba, 0x00, 0x00, 0x10, 0x00, /*  0 mov edx, LOW_TABLE */
        0xff, 0x24, 0xfa,             /*  5 jmp [rdx + rdi*8] */
        0xc3, 0xc3, 0xc3,             /*  8 */
    };
    struct sample s;
    SAMPLE_AT(&s, LOW_BASE, code, 0, 11);
    start_table(&s, LOW_TABLE);
    add_absolute(&s, 10);
    run(&s);
    CHECK_BITS(&s, landing, 0, 10);
    ct_scan_free(&s.scan);
}

/* A displacement of a jump that looks like the end of the address space. */
static uint64_t asked_for;
static const uint8_t *read_nothing(void *arg, uint64_t address, size_t size) {
    (void)arg;
    (void)size;
    asked_for = address;
    return NULL;
}

static void test_negative_displacement(void **state) {
    (void)state;
    static const uint8_t code[] = {0xff, 0x24, 0xfd, 0xfc, 0xff, 0xff, 0xff}; /* jmp [rdi*8 - 4] */
    struct sample s;
    SAMPLE_AT(&s, LOW_BASE, code, 0, 7);
    s.scan.read = read_nothing;
    run(&s);
    assert_int_equal(asked_for, -4);
    CHECK_BITS(&s, landing, 0);
    ct_scan_free(&s.scan);
}

/* ---- addresses of code ---- */

static void test_code_addresses(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0x48, 0x8d, 0x05, 0x16, 0x00, 0x00, 0x00,                   /*  0 lea rax, [29] */
        0xb8, 0x1f, 0x00, 0x40, 0x00,                               /*  7 mov eax, LOW_BASE + 31 */
        0x48, 0xb8, 0x21, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, /* 12 mov rax, LOW_BASE + 33 */
        0x48, 0x8b, 0x05, 0x06, 0x00, 0x00, 0x00,                   /* 22 mov rax, [35] */
        0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3,       /* 29 */
    };
    struct sample s;
    SAMPLE_AT(&s, LOW_BASE, code, 0, 38);
    run(&s);
    CHECK_BITS(&s, landing, 0, 29, 31, 33); /* what is only read is no code */
    CHECK_BITS(&s, foreign, 0, 29, 31, 33);
    CHECK_BITS(&s, referenced, 29, 31, 33, 35);
    ct_scan_free(&s.scan);
    SAMPLE(&s, code, 0, 38);
    run(&s);
    CHECK_BITS(&s, landing, 0, 29);
    ct_scan_free(&s.scan);
}

/* ---- nothing found ---- */

/* 0 push rbx; 1 mov rbx, rdi; 4 add rbx, rsi; 7 xor eax, eax; 9 jmp rbx; 11 ... */
static const uint8_t computed_goto[] = {
    0x53, 0x48, 0x89, 0xfb, 0x48, 0x01, 0xf3, 0x31, 0xc0, 0xff, 0xe3, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6, 0x5b, 0xc3,
};

static const uint8_t *read_none(void *arg, uint64_t address, size_t size) {
    (void)arg;
    (void)address;
    (void)size;
    return NULL;
}

/* With something on the stack it cannot be a tail call: it may go to any instruction, and near the entry that
 * matters. */
static void test_jump_to_anywhere(void **state) {
    (void)state;
    struct sample s;
    SAMPLE(&s, computed_goto, 0, 19);
    s.scan.read = read_none;
    run(&s);
    CHECK_BITS(&s, foreign, 0, 1, 4, 7, 9, 11, 13, 15);
    ct_scan_free(&s.scan);
}

/* When a table is found, it has all targets. */
static void test_table_with_frame(void **state) {
    (void)state;
    uint8_t code[sizeof switch_code + 1];
    struct sample s;
    for (unsigned absolute = 0; absolute < 2; absolute++) {
        code[0] = 0x53; /* push rbx */
        memcpy(code + 1, switch_code, sizeof switch_code);
        SAMPLE(&s, code, 0, 33);
        start_table(&s, TABLE + 1);
        absolute ? add_absolute(&s, 25) : add_relative(&s, 25);
        run(&s);
        CHECK_BITS(&s, landing, 0, 25);
        ct_scan_free(&s.scan);
    }
}

static void test_tail_call_is_no_switch(void **state) {
    (void)state;
    static const uint8_t code[] = {0x53, 0x5b, 0x31, 0xc0, 0xff, 0xe0}; /* push rbx; pop rbx; xor eax, eax; jmp rax */
    static const uint8_t import[] = {0x53, 0xff, 0x25, 0x00, 0x10, 0x00, 0x00}; /* push rbx; jmp [rip+0x1000] */
    struct sample s;
    SAMPLE(&s, code, 0, 6);
    s.scan.read = read_none;
    run(&s);
    CHECK_BITS(&s, landing, 0);
    ct_scan_free(&s.scan);
    SAMPLE(&s, import, 0, 7);
    s.scan.read = read_none;
    run(&s);
    CHECK_BITS(&s, landing, 0);
    ct_scan_free(&s.scan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relative_table),
        cmocka_unit_test(test_absolute_table),
        cmocka_unit_test(test_cold_cases),
        cmocka_unit_test(test_cold_switch),
        cmocka_unit_test(test_table_ends),
        cmocka_unit_test(test_table_of_others),
        cmocka_unit_test(test_implausible_targets),
        cmocka_unit_test(test_no_table_without_jump),
        cmocka_unit_test(test_many_addresses),
        cmocka_unit_test(test_table_of_a_neighbour),
        cmocka_unit_test(test_table_ends_at_the_next),
        cmocka_unit_test(test_named_is_no_table),
        cmocka_unit_test(test_table_in_jump),
        cmocka_unit_test(test_table_in_load),
        cmocka_unit_test(test_table_as_constant),
        cmocka_unit_test(test_negative_displacement),
        cmocka_unit_test(test_code_addresses),
        cmocka_unit_test(test_jump_to_anywhere),
        cmocka_unit_test(test_table_with_frame),
        cmocka_unit_test(test_tail_call_is_no_switch),
    };
    return cmocka_run_group_tests_name("scan_tables", tests, NULL, NULL);
}
