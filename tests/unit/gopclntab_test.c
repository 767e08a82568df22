/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of stripped Go programs, from Go's own table: of each version, in a program that is loaded anywhere, and in
 * damaged files, of which nothing is believed. */
#include "symbols/functions.h"
#include <contrail/status.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 0x1000, CODE = 96, TABLE = 0x8000, TABLE_SIZE = 512, RELA = 0x9000, SECTIONS = 5 };
enum { NAMES_AT = 96, UNITS_AT = 160, PAIRS_AT = 256, FUNCTIONS = 3 };
enum { V116 = 0xfa, V118 = 0xf0, V120 = 0xf1 }; /* first byte */

static const char strings[] = "\0.gopclntab\0.rela.dyn\0.data.rel.ro.gopclntab";
static const char names[] = "\0main.main\0main.leaf\0runtime.morestack";

struct image {
    Elf64_Ehdr header;
    Elf64_Phdr code_segment;
    Elf64_Shdr sections[SECTIONS];
    uint8_t code[CODE], table[TABLE_SIZE];
    Elf64_Rela rela;
    char strings[sizeof strings];
};

static void put(uint8_t *at, uint64_t value, size_t size) {
    memcpy(at, &value, size);
}

/* Starts are at 0, 32 and 64 of the code; the last function ends with the code. */
static void fill_table(struct image *m, uint8_t version, uint64_t text) {
    size_t word = version == V116 ? 8 : 4;
    unsigned more = version != V116;
    uint64_t base = version == V116 ? TEXT : 0;
    const uint32_t name[FUNCTIONS] = {1, 11, 21};
    uint8_t *t = m->table;
    put(t, 0xffffff00u | version, 4);
    t[6] = 1;
    t[7] = 8;
    put(t + 8, FUNCTIONS, 8);
    if (more)
        put(t + 24, text, 8);
    put(t + 8 + 8 * (2 + more), NAMES_AT, 8);
    put(t + 8 + 8 * (3 + more), UNITS_AT, 8);
    put(t + 8 + 8 * (6 + more), PAIRS_AT, 8);
    memcpy(t + NAMES_AT, names, sizeof names);
    for (size_t i = 0; i <= FUNCTIONS; i++) {
        uint64_t description = 128 + 16 * i;
        put(t + PAIRS_AT + 2 * word * i, base + 32 * i, word);
        if (i == FUNCTIONS)
            break;
        put(t + PAIRS_AT + 2 * word * i + word, description, word);
        put(t + PAIRS_AT + description, base + 32 * i, word);
        put(t + PAIRS_AT + description + word, name[i], 4);
    }
}

static struct image *make_image(uint8_t version, uint64_t text) {
    struct image *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_DYN,
                             .e_machine = EM_X86_64,
                             .e_phoff = offsetof(struct image, code_segment),
                             .e_phentsize = sizeof(Elf64_Phdr),
                             .e_phnum = 1,
                             .e_shoff = offsetof(struct image, sections),
                             .e_shentsize = sizeof(Elf64_Shdr),
                             .e_shnum = SECTIONS,
                             .e_shstrndx = 4};
    m->code_segment = (Elf64_Phdr){.p_type = PT_LOAD,
                                   .p_flags = PF_R | PF_X,
                                   .p_offset = offsetof(struct image, code),
                                   .p_vaddr = TEXT,
                                   .p_filesz = CODE,
                                   .p_memsz = CODE};
    m->sections[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                                  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                  .sh_addr = TEXT,
                                  .sh_offset = offsetof(struct image, code),
                                  .sh_size = CODE};
    m->sections[2] = (Elf64_Shdr){.sh_name = text ? 1 : 22,
                                  .sh_type = SHT_PROGBITS,
                                  .sh_flags = SHF_ALLOC,
                                  .sh_addr = TABLE,
                                  .sh_offset = offsetof(struct image, table),
                                  .sh_size = TABLE_SIZE};
    m->sections[3] = (Elf64_Shdr){.sh_name = 12,
                                  .sh_type = SHT_RELA,
                                  .sh_flags = SHF_ALLOC,
                                  .sh_addr = RELA,
                                  .sh_offset = offsetof(struct image, rela),
                                  .sh_size = sizeof m->rela};
    m->sections[4] =
        (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct image, strings), .sh_size = sizeof strings};
    memcpy(m->strings, strings, sizeof strings);
    memset(m->code, 0xcc, CODE);
    memset(m->code, 0x90, 10);               /* 10 bytes, then padding */
    memcpy(m->code + 32, "\x90\xeb\xcc", 3); /* ends in a jump that ends like padding */
    memset(m->code + 64, 0x90, 32);          /* no padding */
    fill_table(m, version, text);
    return m;
}

static size_t count_of(const struct image *m) {
    struct ct_functions *table;
    assert_int_equal(ct_functions_open_image(&table, m, sizeof *m), 0);
    size_t count = ct_functions_count(table);
    ct_functions_close(table);
    return count;
}

static void check(struct image *m) {
    static const char *const expected[FUNCTIONS] = {"main.main", "main.leaf", "runtime.morestack"};
    static const uint64_t sizes[FUNCTIONS] = {11, 3, 32}; /* one byte of padding stays */
    struct ct_functions *table;
    assert_int_equal(ct_functions_open_image(&table, m, sizeof *m), 0);
    assert_int_equal(ct_functions_count(table), FUNCTIONS);
    for (size_t i = 0; i < FUNCTIONS; i++) {
        const struct ct_func *f = ct_functions_at(table, i);
        assert_int_equal(f->offset, TEXT + 32 * i);
        assert_int_equal(f->size, sizes[i]);
        assert_string_equal(ct_functions_name(table, f), expected[i]);
    }
    assert_ptr_equal(ct_functions_by_name(table, "main.leaf"), ct_functions_at(table, 1));
    ct_functions_close(table);
}

static void test_versions(void **state) {
    (void)state;
    const uint8_t versions[] = {V116, V118, V120};
    for (size_t i = 0; i < sizeof versions; i++) {
        struct image *m = make_image(versions[i], TEXT);
        check(m);
        m->table[0] = 0xf2; /* a version that nobody knows */
        assert_int_equal(count_of(m), 0);
        free(m);
    }
}

/* The start of the code is only in a relocation. */
static void test_anywhere(void **state) {
    (void)state;
    struct image *m = make_image(V120, 0);
    assert_int_equal(count_of(m), 0);
    m->rela = (Elf64_Rela){.r_offset = TABLE + 24, .r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE), .r_addend = TEXT};
    check(m);
    free(m);
}

/* A symbol table is better, and it is there in programs that are not stripped. */
static void test_symbols_first(void **state) {
    (void)state;
    struct image *m = make_image(V120, TEXT);
    m->sections[3].sh_type = SHT_SYMTAB;
    m->sections[3].sh_entsize = sizeof(Elf64_Sym);
    assert_int_equal(count_of(m), 0);
    free(m);
}

static void test_wrong_starts(void **state) {
    (void)state;
    const uint32_t wrong[] = {0, 64, CODE, 0x7fffffff, 0xffffffff}; /* of the second function */
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct image *m = make_image(V118, TEXT);
        put(m->table + PAIRS_AT + 8, wrong[i], 4);
        assert_int_equal(count_of(m), 0);
        free(m);
    }
}

/* Each byte of the table is each of some values: nothing is read outside of it. Names may be lost or wrong. */
static void test_damage(void **state) {
    (void)state;
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t at = 0; at < TABLE_SIZE; at++)
        for (size_t i = 0; i < sizeof values; i++) {
            struct image *m = make_image(at % 2 ? V116 : V120, TEXT);
            m->table[at] = values[i];
            size_t count = count_of(m);
            assert_true(count <= FUNCTIONS);
            free(m);
        }
    for (size_t size = 0; size < TABLE_SIZE; size++) {
        struct image *m = make_image(V120, TEXT);
        m->sections[2].sh_size = size;
        assert_true(count_of(m) <= FUNCTIONS);
        free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),     cmocka_unit_test(test_anywhere), cmocka_unit_test(test_symbols_first),
        cmocka_unit_test(test_wrong_starts), cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
