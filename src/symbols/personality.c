/* SPDX-License-Identifier: Apache-2.0 */
/* Personality routines: from the CIEs, followed to the routine when it is in this file.
 *
 * Usually a CIE refers to a slot (DW.ref.*) that the loader fills; its future value is read from the file's
 * relocations. */
#include "symbols/eh_frame.h"
#include "symbols/table.h"

static bool is_listed(const struct ct_functions *table, const struct ct_personality *p) {
    for (size_t i = 0; i < table->personality_count; i++)
        if (table->personalities[i].offset == p->offset && table->personalities[i].indirect == p->indirect)
            return true;
    return false;
}

/* Marks a function of the finished table, by exact address only. */
static void mark_function(struct ct_functions *table, uint64_t offset) {
    const struct ct_func *func = ct_functions_find(table, offset);
    if (func && func->offset == offset)
        table->funcs[func - table->funcs].flags |= CT_FUNC_PERSONALITY;
}

static uint64_t symbol_value(const struct ct_elf *elf, uint64_t index) {
    uint64_t symbols;
    Elf64_Sym symbol;
    if (!ct_elf_dynamic(elf, DT_SYMTAB, &symbols))
        return 0;
    struct ct_span bytes = ct_elf_at(elf, symbols);
    struct ct_reader r = ct_reader_of(bytes.data, bytes.size);
    ct_reader_skip(&r, index * sizeof symbol);
    ct_reader_bytes(&r, &symbol, sizeof symbol);
    return r.bad || symbol.st_shndx == SHN_UNDEF ? 0 : symbol.st_value;
}

/* The target of a relocation, when it is in this file; 0 otherwise. */
static uint64_t relocated_value(const struct ct_elf *elf, const Elf64_Rela *reloc) {
    const struct ct_machine *machine = elf->machine;
    uint32_t type = (uint32_t)ELF64_R_TYPE(reloc->r_info);
    if (type == machine->reloc_relative)
        return (uint64_t)reloc->r_addend;
    if (type != machine->reloc_symbol[0] && type != machine->reloc_symbol[1])
        return 0;
    uint64_t value = symbol_value(elf, ELF64_R_SYM(reloc->r_info));
    return value ? value + (uint64_t)reloc->r_addend : 0;
}

static void mark_relocated(struct ct_functions *table, const struct ct_elf *elf) {
    uint64_t address, size;
    Elf64_Rela reloc;
    if (!ct_elf_dynamic(elf, DT_RELA, &address) || !ct_elf_dynamic(elf, DT_RELASZ, &size))
        return;
    struct ct_span bytes = ct_elf_at(elf, address);
    struct ct_reader r = ct_reader_of(bytes.data, size < bytes.size ? size : bytes.size);
    while (ct_reader_left(&r) >= sizeof reloc) {
        ct_reader_bytes(&r, &reloc, sizeof reloc);
        if (is_listed(table, &(struct ct_personality){.offset = reloc.r_offset, .indirect = true}))
            mark_function(table, relocated_value(elf, &reloc));
    }
}

void ct_personalities_read(struct ct_functions *table, const struct ct_elf *elf, const struct ct_eh_frame *frame) {
    struct ct_personality p;
    bool any_indirect = false;
    for (size_t i = 0; ct_eh_frame_personality(frame, i, &p) && table->personality_count < CT_MAX_PERSONALITIES; i++) {
        if (!p.offset || is_listed(table, &p))
            continue;
        table->personalities[table->personality_count++] = p;
        any_indirect |= p.indirect;
        if (!p.indirect) {
            mark_function(table, p.offset);
            continue;
        }
        /* Programs at fixed addresses contain the value itself. */
        struct ct_span slot = ct_elf_at(elf, p.offset);
        struct ct_reader r = ct_reader_of(slot.data, slot.size);
        mark_function(table, ct_reader_u64(&r));
    }
    if (any_indirect)
        mark_relocated(table, elf);
}
