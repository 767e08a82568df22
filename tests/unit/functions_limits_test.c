/* SPDX-License-Identifier: Apache-2.0 */
/* Function tables of files that are made to cost more than they are large: names that share their ends, functions that
 * lie in one another, segments without number. And files of others, which may change while they are read. */
#include "symbols/elf_image.h"
#include "symbols/file_image.h"
#include "symbols/functions.h"
#include <contrail/status.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT = 1 << 20, TEXT_SIZE = 1 << 20, SECTIONS = 4 };

struct file {
    uint8_t *data;
    size_t size;
    Elf64_Sym *symbols;
    char *strings;
};

/* A file with code, and room for symbols and their names. */
static struct file make_file(size_t symbols, size_t strings, unsigned segments) {
    size_t symbols_at = sizeof(Elf64_Ehdr) + segments * sizeof(Elf64_Phdr);
    size_t strings_at = symbols_at + symbols * sizeof(Elf64_Sym), sections_at = (strings_at + strings + 7) & ~(size_t)7;
    struct file f = {.size = sections_at + SECTIONS * sizeof(Elf64_Shdr)};
    f.data = calloc(1, f.size);
    f.symbols = (Elf64_Sym *)(f.data + symbols_at);
    f.strings = (char *)f.data + strings_at;
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_DYN,
                         .e_machine = EM_X86_64,
                         .e_phoff = sizeof header,
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = (Elf64_Half)segments,
                         .e_shoff = sections_at,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = SECTIONS};
    const Elf64_Shdr sections[SECTIONS] = {
        {0},
        {.sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = TEXT, .sh_size = TEXT_SIZE},
        {.sh_type = SHT_SYMTAB,
         .sh_offset = symbols_at,
         .sh_size = symbols * sizeof(Elf64_Sym),
         .sh_entsize = sizeof(Elf64_Sym),
         .sh_link = 3},
        {.sh_type = SHT_STRTAB, .sh_offset = strings_at, .sh_size = strings},
    };
    memcpy(f.data, &header, sizeof header);
    memcpy(f.data + sections_at, sections, sizeof sections);
    return f;
}

static Elf64_Sym function_at(uint64_t at, uint64_t size, uint32_t name) {
    return (Elf64_Sym){.st_name = name,
                       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                       .st_shndx = 1,
                       .st_value = at,
                       .st_size = size};
}

/* Each name is the end of the one before, and almost as long as all strings. */
static void test_shared_names(void **state) {
    (void)state;
    enum { STRINGS = 48 << 20, SYMBOLS = 40, MOST = STRINGS + (64 << 20) };
    struct file f = make_file(SYMBOLS, STRINGS, 0);
    struct ct_functions *table;
    size_t named = 0, bytes = 0;
    memset(f.strings + 1, 'a', STRINGS - 2);
    for (unsigned i = 0; i < SYMBOLS; i++)
        f.symbols[i] = function_at(TEXT + 16 * i, 16, 1 + i);
    assert_int_equal(ct_functions_open_image(&table, f.data, f.size), 0);
    assert_int_equal(ct_functions_count(table), SYMBOLS);
    for (unsigned i = 0; i < SYMBOLS; i++) {
        const struct ct_func *func = ct_functions_at(table, i);
        named += (func->flags & CT_FUNC_NAMED) != 0;
        bytes += strlen(ct_functions_name(table, func));
    }
    assert_int_equal(named, 2);
    assert_true(bytes <= MOST);
    ct_functions_close(table);
    free(f.data);
}

/* The outer one is found after some thousand inner ones, and is not looked for after more. */
static void test_nested(void **state) {
    (void)state;
    for (unsigned inner = 4000; inner <= 40000; inner *= 10) {
        struct file f = make_file(inner + 1, 1, 0);
        struct ct_functions *table;
        f.symbols[0] = function_at(TEXT, TEXT_SIZE, 0);
        for (unsigned i = 1; i <= inner; i++)
            f.symbols[i] = function_at(TEXT + 16 * i, 16, 0);
        assert_int_equal(ct_functions_open_image(&table, f.data, f.size), 0);
        const struct ct_func *outer = ct_functions_find(table, TEXT + TEXT_SIZE - 1);
        const struct ct_func *last = ct_functions_find(table, TEXT + 16 * inner + 3);
        assert_true(inner == 4000 ? outer && outer->offset == TEXT : !outer);
        assert_non_null(last);
        assert_int_equal(last->offset, TEXT + 16 * inner);
        ct_functions_close(table);
        free(f.data);
    }
}

static void test_segments(void **state) {
    (void)state;
    for (unsigned count = 1024; count <= 1025; count++) {
        struct file f = make_file(1, 1, count);
        struct ct_elf elf;
        Elf64_Phdr segment;
        assert_int_equal(ct_elf_open(&elf, f.data, f.size), 0);
        assert_int_equal(ct_elf_segment(&elf, count - 1, &segment), count == 1024);
        free(f.data);
    }
}

/* A file that others may write is cut and changed; its image stays. A large hole needs no memory. */
static void test_changing_file(void **state) {
    (void)state;
    const size_t wanted = (size_t)1 << 30;
    size_t size;
    int fd = memfd_create("changing", MFD_CLOEXEC);
    assert_int_equal(fchmod(fd, 0666), 0);
    assert_int_equal(ftruncate(fd, (off_t)wanted), 0);
    assert_int_equal(pwrite(fd, "before", 6, 1000), 6);
    uint8_t *bytes = ct_file_image_open(fd, &size);
    assert_non_null(bytes);
    assert_int_equal(size, wanted);
    assert_int_equal(pwrite(fd, "after!", 6, 1000), 6);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_memory_equal(bytes + 1000, "before", 6);
    assert_int_equal(bytes[wanted - 1], 0);
    assert_null(ct_file_image_open(fd, &size)); /* nothing is in it any more */
    assert_int_equal(ftruncate(fd, 3 * (off_t)wanted), 0);
    assert_null(ct_file_image_open(fd, &size)); /* too large for a copy */
    ct_file_image_close(bytes, wanted);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_names),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_changing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
