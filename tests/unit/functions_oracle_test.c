/* SPDX-License-Identifier: Apache-2.0 */
/* Function tables of real files against libelf and libdw: every function symbol and every FDE is there, and the state
 * on entry is what libdw computes. */
#include "symbols/functions.h"
#include <contrail/status.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLES 20000 /* entry states per file */

static const char *const usual_files[] = {
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib64/ld-linux-x86-64.so.2",
    "/usr/lib/x86_64-linux-gnu/libm.so.6",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
    "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
    "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
    "/lib/aarch64-linux-gnu/libc.so.6",
    "/lib/aarch64-linux-gnu/libm.so.6",
    "/usr/lib/aarch64-linux-gnu/libstdc++.so.6",
    "/usr/bin/python3.11",
    "/proc/self/exe",
    NULL,
};
static const char *const *files = usual_files; /* or those of the command line */

struct oracle {
    const char *path;
    struct ct_functions *table;
    int file;
    Elf *elf;
    Dwarf_CFI *cfi;
    Elf_Data *frames; /* .eh_frame */
    uint64_t frames_address;
    size_t symbols, fdes, states;
    bool arm64;
};

/* ---- symbols ---- */

static bool executable_section(Elf *elf, size_t index) {
    GElf_Shdr header;
    Elf_Scn *section = elf_getscn(elf, index);
    return section && gelf_getshdr(section, &header) && (header.sh_flags & SHF_EXECINSTR);
}

static void check_symbol(struct oracle *o, const GElf_Sym *symbol, const char *name) {
    char plain[4096];
    const struct ct_func *func = ct_functions_find(o->table, symbol->st_value);
    if (!func || func->offset != symbol->st_value)
        fail_msg("%s: %s at %#lx is missing", o->path, name, (unsigned long)symbol->st_value);
    assert_true(func->flags & CT_FUNC_NAMED || !*name);
    if (GELF_ST_BIND(symbol->st_info) != STB_LOCAL && GELF_ST_VISIBILITY(symbol->st_other) == STV_DEFAULT)
        assert_true(func->flags & CT_FUNC_GLOBAL);
    assert_true(GELF_ST_TYPE(symbol->st_info) == STT_FUNC || func->flags & CT_FUNC_IFUNC);
    snprintf(plain, sizeof plain, "%s", name);
    plain[strcspn(plain, "@")] = 0;
    if (*plain && !ct_functions_by_name(o->table, plain))
        fail_msg("%s: %s is not found by name", o->path, plain);
    o->symbols++;
}

static void check_symbol_table(struct oracle *o, Elf_Scn *section, const GElf_Shdr *header) {
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Sym symbol;
    for (int i = 0; gelf_getsym(data, i, &symbol); i++) {
        int type = GELF_ST_TYPE(symbol.st_info);
        if ((type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF &&
            symbol.st_shndx < SHN_LORESERVE && executable_section(o->elf, symbol.st_shndx))
            check_symbol(o, &symbol, elf_strptr(o->elf, header->sh_link, symbol.st_name));
    }
}

/* ---- unwind information ---- */

/* How the CIE says that addresses are written. */
static uint8_t encoding_of(struct oracle *o, Dwarf_Off cie_offset) {
    Dwarf_CFI_Entry entry;
    Dwarf_Off next;
    unsigned char *ident = (unsigned char *)elf_getident(o->elf, NULL);
    assert_int_equal(dwarf_next_cfi(ident, o->frames, true, cie_offset, &next, &entry), 0);
    assert_true(dwarf_cfi_cie_p(&entry));
    const uint8_t *data = entry.cie.augmentation_data;
    for (const char *letter = entry.cie.augmentation; *letter; letter++) {
        if (*letter == 'R')
            return *data;
        data += *letter == 'P' ? ((*data & 7) == DW_EH_PE_absptr ? 9 : 5) : *letter == 'L';
    }
    return DW_EH_PE_absptr;
}

static bool in_plt(const struct oracle *o, uint64_t address) {
    for (size_t i = 0; i < ct_functions_text_count(o->table); i++) {
        const struct ct_text_range *range = ct_functions_text_at(o->table, i);
        if (address >= range->start && address < range->end)
            return range->plt;
    }
    return false;
}

static uint32_t expected_flags(struct oracle *o, uint64_t address) {
    Dwarf_Frame *frame;
    Dwarf_Op *ops, memory[3];
    size_t count;
    bool signal;
    uint32_t flags = 0;
    assert_int_equal(dwarf_cfi_addrframe(o->cfi, address, &frame), 0);
    int ra = dwarf_frame_info(frame, NULL, NULL, &signal);
    assert_true(ra >= 0);
    assert_int_equal(dwarf_frame_cfa(frame, &ops, &count), 0);
    unsigned sp = o->arm64 ? 31 : 7, by_sp = DW_OP_breg0 + sp;
    bool is_sp = count == 1 && (ops[0].atom == by_sp || (ops[0].atom == DW_OP_bregx && ops[0].number == sp));
    if (signal || ra != (o->arm64 ? 30 : 16) || !is_sp ||
        (ops[0].atom == by_sp ? ops[0].number : ops[0].number2) != (o->arm64 ? 0 : 8))
        flags |= CT_FUNC_ODD_ENTRY;
    assert_int_equal(dwarf_frame_register(frame, o->arm64 ? 30 : 16, memory, &ops, &count), 0);
    if (count == 0 && ops == memory)
        flags |= CT_FUNC_NO_RETURN_ADDRESS;
    else if (o->arm64 && count == 0)
        ; /* it is in its register */
    else if (o->arm64)
        flags |= CT_FUNC_ODD_ENTRY;
    else if (count != 2 || ops[0].atom != DW_OP_call_frame_cfa || ops[1].atom != DW_OP_plus_uconst ||
             ops[1].number != (Dwarf_Word)-8)
        flags |= CT_FUNC_ODD_ENTRY;
    free(frame);
    return flags;
}

/* The byte at an address, -1 when the file holds none. */
static int byte_at(struct oracle *o, uint64_t address) {
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    while ((section = elf_nextscn(o->elf, section))) {
        gelf_getshdr(section, &header);
        Elf_Data *data = elf_getdata(section, NULL);
        if ((header.sh_flags & SHF_EXECINSTR) && address >= header.sh_addr &&
            address - header.sh_addr < header.sh_size && data && data->d_buf)
            return ((const uint8_t *)data->d_buf)[address - header.sh_addr];
    }
    return -1;
}

/* A landing pad after a leading nop: see begins_with_landing_pad in eh_frame.c. */
static uint32_t expected_entry(struct oracle *o, uint64_t address) {
    uint32_t flags = expected_flags(o, address);
    static const uint8_t nop_x64[] = {0x90}, nop_a64[] = {0x1f, 0x20, 0x03, 0xd5};
    const uint8_t *nop = o->arm64 ? nop_a64 : nop_x64;
    unsigned length = 0, size = o->arm64 ? sizeof nop_a64 : sizeof nop_x64;
    while (length < size && byte_at(o, address + length) == nop[length])
        length++;
    if (length == size)
        flags |= expected_flags(o, address + size) & CT_FUNC_ODD_ENTRY;
    return flags;
}

static bool has_symbol_of_size(struct oracle *o, uint64_t address, uint64_t size) {
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Sym symbol;
    while ((section = elf_nextscn(o->elf, section))) {
        gelf_getshdr(section, &header);
        if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        for (int i = 0; gelf_getsym(data, i, &symbol); i++)
            if (symbol.st_value == address && symbol.st_size == size)
                return true;
    }
    return false;
}

static void check_fde(struct oracle *o, const Dwarf_FDE *fde) {
    int32_t start, size;
    memcpy(&start, fde->start, 4);
    memcpy(&size, fde->start + 4, 4);
    uint64_t address = (uint32_t)start;
    uint8_t encoding = encoding_of(o, fde->CIE_pointer);
    if (encoding == (DW_EH_PE_pcrel | DW_EH_PE_sdata4))
        address = o->frames_address + (uint64_t)(fde->start - (uint8_t *)o->frames->d_buf) + (uint64_t)start;
    else if (encoding != DW_EH_PE_udata4)
        fail_msg("%s: the test does not know the encoding %#x", o->path, encoding);
    if (in_plt(o, address) || size == 0)
        return;
    const struct ct_func *func = ct_functions_find(o->table, address);
    if (!func || func->offset != address)
        fail_msg("%s: the FDE at %#lx is missing", o->path, (unsigned long)address);
    assert_true(func->flags & CT_FUNC_FDE);
    if (func->size != (uint32_t)size && !has_symbol_of_size(o, address, func->size))
        fail_msg("%s: the FDE at %#lx has %d bytes, the table says %lu", o->path, (unsigned long)address, size,
                 (unsigned long)func->size);
    o->fdes++;
    if (o->states++ >= SAMPLES)
        return;
    uint32_t flags = func->flags & (CT_FUNC_ODD_ENTRY | CT_FUNC_NO_RETURN_ADDRESS);
    uint32_t expected = expected_entry(o, address);
    if (flags != expected)
        fail_msg("%s: entry of %#lx: flags %#x instead of %#x", o->path, (unsigned long)address, flags, expected);
}

static void check_frames(struct oracle *o, Elf_Scn *section, const GElf_Shdr *header) {
    Dwarf_CFI_Entry entry;
    Dwarf_Off next = 0;
    unsigned char *ident = (unsigned char *)elf_getident(o->elf, NULL);
    o->frames = elf_getdata(section, NULL);
    o->frames_address = header->sh_addr;
    for (Dwarf_Off offset = 0; offset != (Dwarf_Off)-1; offset = next) {
        int status = dwarf_next_cfi(ident, o->frames, true, offset, &next, &entry);
        if (status == 1)
            break;
        if (status == 0 && !dwarf_cfi_cie_p(&entry))
            check_fde(o, &entry.fde);
    }
}

/* ---- all files ---- */

/* Does libelf, too, think that this is no program or library of ours? */
static bool refused_rightly(int file) {
    GElf_Ehdr header;
    Elf *elf = elf_begin(file, ELF_C_READ_MMAP, NULL);
    bool ours = elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) &&
                header.e_ident[EI_CLASS] == ELFCLASS64 &&
                (header.e_machine == EM_X86_64 || header.e_machine == EM_AARCH64) &&
                (header.e_type == ET_EXEC || header.e_type == ET_DYN);
    elf_end(elf);
    return !ours;
}

static void check_file(const char *path) {
    struct oracle o = {.path = path};
    size_t names;
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    if ((o.file = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
        print_message("%s: not on this machine\n", path);
        return;
    }
    int status = ct_functions_open(&o.table, path);
    if (status && files != usual_files) {
        assert_true(status == CT_ERR_BAD_FILE || status == CT_ERR_UNSUPPORTED);
        assert_true(refused_rightly(o.file));
        close(o.file);
        return;
    }
    assert_int_equal(status, 0);
    o.elf = elf_begin(o.file, ELF_C_READ_MMAP, NULL);
    assert_non_null(o.elf);
    o.cfi = dwarf_getcfi_elf(o.elf);
    GElf_Ehdr elf_header;
    assert_non_null(gelf_getehdr(o.elf, &elf_header));
    o.arm64 = elf_header.e_machine == EM_AARCH64;
    assert_int_equal(elf_getshdrstrndx(o.elf, &names), 0);
    while ((section = elf_nextscn(o.elf, section))) {
        assert_non_null(gelf_getshdr(section, &header));
        if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM)
            check_symbol_table(&o, section, &header);
        else if (o.cfi && strcmp(elf_strptr(o.elf, names, header.sh_name), ".eh_frame") == 0)
            check_frames(&o, section, &header);
    }
    print_message("%s: %zu functions; %zu symbols and %zu FDEs found again\n", path, ct_functions_count(o.table),
                  o.symbols, o.fdes);
    assert_true(ct_functions_count(o.table) >= o.fdes);
    if (files == usual_files)
        assert_true(o.fdes > 0);
    if (o.cfi)
        dwarf_cfi_end(o.cfi);
    elf_end(o.elf);
    close(o.file);
    ct_functions_close(o.table);
}

static void test_files(void **state) {
    (void)state;
    elf_version(EV_CURRENT);
    for (const char *const *file = files; *file; file++)
        check_file(*file);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};
    if (argc > 1)
        files = (const char *const *)argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
