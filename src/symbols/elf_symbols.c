/* SPDX-License-Identifier: Apache-2.0 */
/* Functions in symbol tables: .symtab and .dynsym, the latter also through PT_DYNAMIC when section headers are
 * stripped. String tables are copied whole, so names stay valid without the file. */
#include "symbols/table.h"
#include <contrail/status.h>
#include <stdlib.h>

#define MAX_NAME 4096 /* bytes that are examined; longer names are kept whole */

struct symbol_table {
    struct ct_span symbols, strings;
    uint32_t lent;  /* CT_FUNC_LENT_NAME for the table of a debug file */
    uint32_t names; /* offset of the copied `strings` */
    uint64_t named; /* bytes of all names so far */
};

size_t ct_symbol_name_length(const char *name) {
    size_t n = 0;
    while (n < MAX_NAME && name[n] && name[n] != '@')
        n++;
    return n;
}

/* Routines that compilers put into CIEs. Languages other than C and C++ have their own. */
static bool is_personality_name(const char *name) {
    static const char *const known[] = {
        "__gxx_personality_v0",      "__gxx_personality_sj0", "__gxx_personality_seh0", "__gcc_personality_v0",
        "__gcc_personality_sj0",     "__gnat_personality_v0", "__objc_personality_v0",  "__gnu_objc_personality_v0",
        "__gdc_personality_v0",      "__d_personality_v0",    "_d_eh_personality",      "__gccgo_personality_v0",
        "__gfortran_personality_v0", "rust_eh_personality",
    };
    if (!(name[0] == '_' && (name[1] == '_' || name[1] == 'd')) && name[0] != 'r') /* most names of C++ begin with _Z */
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(name, known[i], strlen(known[i])) == 0 && ct_symbol_name_length(name) == strlen(known[i]))
            return true;
    return false;
}

/* False when the symbol is not a function's. */
static bool candidate_of(const Elf64_Sym *symbol, struct ct_candidate *out) {
    unsigned bind = ELF64_ST_BIND(symbol->st_info);
    unsigned visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    bool global = bind != STB_LOCAL;
    if (symbol->st_shndx == SHN_UNDEF || (symbol->st_shndx >= SHN_LORESERVE && symbol->st_shndx != SHN_XINDEX))
        return false;
    *out = (struct ct_candidate){.offset = symbol->st_value, .size = symbol->st_size, .kind = CT_FROM_SYMBOL};
    switch (ELF64_ST_TYPE(symbol->st_info)) {
    case STT_FUNC:
        break;
    case STT_GNU_IFUNC:
        out->flags |= CT_FUNC_IFUNC;
        break;
    case STT_NOTYPE:
        out->kind = CT_FROM_LABEL;
        if (!global)
            return false;
        break;
    default:
        return false;
    }
    if (global && (visibility == STV_DEFAULT || visibility == STV_PROTECTED))
        out->flags |= CT_FUNC_GLOBAL;
    return true;
}

/* Appends the strings to the names of the table; leaves `names` 0 when they would not fit 32 bits. */
static int copy_strings(struct ct_functions *table, struct symbol_table *from) {
    uint64_t size = (uint64_t)table->names_size + from->strings.size + 1;
    if (size > UINT32_MAX)
        return 0;
    char *names = realloc(table->names, size);
    if (!names)
        return CT_ERR_NO_MEMORY;
    memcpy(names + table->names_size, from->strings.data, from->strings.size);
    names[size - 1] = 0;
    from->names = (uint32_t)table->names_size;
    table->names = names;
    table->names_size = size;
    return 0;
}

/* False for a name that begins with a version: versions are cut off in place, which must not change other names. */
static bool has_name(struct symbol_table *from, const Elf64_Sym *symbol) {
    uint64_t most = from->strings.size + CT_MAX_SHARED_NAMES;
    if (!from->names || symbol->st_name >= from->strings.size || from->named >= most)
        return false;
    const char *name = (const char *)from->strings.data + symbol->st_name;
    size_t left = from->strings.size - symbol->st_name;
    from->named += strnlen(name, left < most - from->named ? left : most - from->named);
    return *name && *name != '@' && from->named < most;
}

static int read_table(struct ct_functions *table, struct symbol_table *from, struct ct_candidates *list) {
    Elf64_Sym symbol;
    struct ct_candidate candidate;
    int result = copy_strings(table, from);
    struct ct_reader r = ct_reader_of(from->symbols.data, from->symbols.size);
    while (!result && ct_reader_left(&r) >= sizeof symbol) {
        ct_reader_bytes(&r, &symbol, sizeof symbol);
        if (!candidate_of(&symbol, &candidate))
            continue;
        const struct ct_text_range *text = ct_text_find(table, candidate.offset);
        if (!text)
            continue;
        candidate.lent = from->lent != 0;
        if (has_name(from, &symbol)) {
            candidate.name = from->names + symbol.st_name;
            if (is_personality_name(table->names + candidate.name))
                candidate.flags |= CT_FUNC_PERSONALITY;
            if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL)
                candidate.flags |= from->lent;
        }
        if (candidate.kind == CT_FROM_SYMBOL || candidate.name)
            result = ct_candidates_add(list, &candidate);
    }
    return result;
}

static bool table_of_type(const struct ct_elf *elf, uint32_t type, struct symbol_table *out) {
    struct ct_elf_section section, strings;
    for (uint32_t i = 0; i < elf->shnum; i++) {
        if (!ct_elf_section(elf, i, &section) || section.type != type || section.entsize != sizeof(Elf64_Sym))
            continue;
        *out = (struct symbol_table){.symbols = section.bytes, .strings.data = elf->data};
        if (ct_elf_section(elf, section.link, &strings) && strings.type == SHT_STRTAB)
            out->strings = strings.bytes;
        return section.bytes.size != 0;
    }
    return false;
}

/* ---- without section headers ---- */

/* The number of symbols, from DT_HASH. */
static uint64_t count_by_hash(const struct ct_elf *elf) {
    uint64_t address;
    if (!ct_elf_dynamic(elf, DT_HASH, &address))
        return 0;
    struct ct_span bytes = ct_elf_at(elf, address);
    struct ct_reader r = ct_reader_of(bytes.data, bytes.size);
    ct_reader_u32(&r);
    return ct_reader_u32(&r);
}

/* The number of symbols, from DT_GNU_HASH: the last symbol is at the end of the chain with the highest start. */
static uint64_t count_by_gnu_hash(const struct ct_elf *elf) {
    uint64_t address;
    if (!ct_elf_dynamic(elf, DT_GNU_HASH, &address))
        return 0;
    struct ct_span bytes = ct_elf_at(elf, address);
    struct ct_reader r = ct_reader_of(bytes.data, bytes.size);
    uint32_t buckets = ct_reader_u32(&r), first = ct_reader_u32(&r), bloom = ct_reader_u32(&r);
    ct_reader_skip(&r, 4 + (uint64_t)bloom * 8);
    uint32_t highest = 0;
    for (uint32_t i = 0; i < buckets && !r.bad; i++) {
        uint32_t start = ct_reader_u32(&r);
        highest = start > highest ? start : highest;
    }
    if (highest < first)
        return first;
    ct_reader_skip(&r, (uint64_t)(highest - first) * 4);
    while (!r.bad && !(ct_reader_u32(&r) & 1))
        highest++;
    return r.bad ? 0 : (uint64_t)highest + 1;
}

static bool table_of_dynamic(const struct ct_elf *elf, struct symbol_table *out) {
    uint64_t symbols, strings, size;
    if (!ct_elf_dynamic(elf, DT_SYMTAB, &symbols) || !ct_elf_dynamic(elf, DT_STRTAB, &strings) ||
        !ct_elf_dynamic(elf, DT_STRSZ, &size))
        return false;
    uint64_t count = count_by_hash(elf);
    if (!count)
        count = count_by_gnu_hash(elf);
    *out = (struct symbol_table){.symbols = ct_elf_at(elf, symbols), .strings = ct_elf_at(elf, strings)};
    if (count < out->symbols.size / sizeof(Elf64_Sym))
        out->symbols.size = count * sizeof(Elf64_Sym);
    if (size < out->strings.size)
        out->strings.size = size;
    return out->symbols.size && out->strings.size;
}

int ct_symbols_read(struct ct_functions *table, const struct ct_elf *elf, struct ct_candidates *list) {
    struct symbol_table from;
    int result = 0;
    if (table_of_type(elf, SHT_SYMTAB, &from))
        result = read_table(table, &from, list);
    if (!result && (table_of_type(elf, SHT_DYNSYM, &from) || table_of_dynamic(elf, &from)))
        result = read_table(table, &from, list);
    return result;
}

int ct_symbols_read_debug(struct ct_functions *table, const struct ct_elf *debug, struct ct_candidates *list) {
    struct symbol_table from;
    if (!table_of_type(debug, SHT_SYMTAB, &from))
        return 0;
    from.lent = CT_FUNC_LENT_NAME;
    return read_table(table, &from, list);
}
