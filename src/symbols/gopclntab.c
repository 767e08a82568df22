/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of Go programs without symbols: the table that Go's runtime itself finds functions with (.gopclntab), which
 * no tool can strip. Versions of Go 1.16, 1.18 and 1.20 on.
 *
 * The table is a header, names, and pairs (start of the function, place of its description), by address; a last start
 * ends it. It is used as a whole or not at all: starts that do not ascend, or are not in code, are damage. */
#include "symbols/table.h"
#include <contrail/status.h>
#include <stdlib.h>

#define MAGIC_116 0xfffffffau
#define MAGIC_118 0xfffffff0u
#define MAGIC_120 0xfffffff1u
enum { HEADER = 8, POINTER = 8 };

struct go_table {
    struct ct_span all;
    struct ct_span names, pairs; /* pairs: also the descriptions, whose places count from its start */
    uint64_t count, start;       /* of functions; address that starts count from */
    size_t pair;                 /* bytes */
    uint32_t copied;             /* where the names are in the table's names; 0: nowhere */
    uint64_t named;              /* bytes of all names so far */
};

/* ---- the header ---- */

static uint64_t word_at(const struct go_table *t, unsigned index) {
    struct ct_reader r = ct_reader_of(t->all.data, t->all.size);
    ct_reader_skip(&r, HEADER + (uint64_t)index * POINTER);
    return ct_reader_u64(&r);
}

/* The bytes from `start` to `end`, which are offsets in the whole table; empty when it has none. */
static struct ct_span part_of(const struct go_table *t, uint64_t start, uint64_t end) {
    bool good = start < end && end <= t->all.size;
    return (struct ct_span){.data = t->all.data + (good ? start : 0), .size = good ? end - start : 0};
}

/* In a program that may be loaded anywhere the word is 0, and a relocation has its value. */
static uint64_t relocated(const struct ct_elf *elf, uint64_t address) {
    struct ct_elf_section section;
    Elf64_Rela rela;
    if (!ct_elf_section_named(elf, ".rela.dyn", &section) && !ct_elf_section_named(elf, ".rela", &section))
        return 0;
    struct ct_reader r = ct_reader_of(section.bytes.data, section.bytes.size);
    while (ct_reader_left(&r) >= sizeof rela) {
        ct_reader_bytes(&r, &rela, sizeof rela);
        if (rela.r_offset == address && ELF64_R_TYPE(rela.r_info) == elf->machine->reloc_relative)
            return (uint64_t)rela.r_addend;
    }
    return 0;
}

static bool read_header(struct go_table *t, const struct ct_elf *elf) {
    struct ct_reader r = ct_reader_of(t->all.data, t->all.size);
    uint32_t magic = ct_reader_u32(&r);
    ct_reader_skip(&r, 3); /* zeros, least length of an instruction */
    if ((magic != MAGIC_116 && magic != MAGIC_118 && magic != MAGIC_120) || ct_reader_u8(&r) != POINTER)
        return false;
    /* functions, files, [start of the code,] offsets of: names, units, files, lines, functions */
    unsigned more = magic != MAGIC_116;
    t->count = word_at(t, 0);
    t->start = more ? word_at(t, 2) : 0;
    if (more && !t->start)
        t->start = relocated(elf, t->all.address + HEADER + 2 * POINTER);
    t->names = part_of(t, word_at(t, 2 + more), word_at(t, 3 + more));
    t->pairs = part_of(t, word_at(t, 6 + more), t->all.size);
    t->pair = more ? 8 : 16;
    return (!more || t->start) && t->names.size && t->count && t->count < t->pairs.size / t->pair;
}

/* ---- functions ---- */

static uint64_t start_of(const struct go_table *t, uint64_t index) {
    struct ct_reader r = ct_reader_of(t->pairs.data, t->pairs.size);
    ct_reader_skip(&r, index * t->pair);
    return t->start + (t->pair == 8 ? ct_reader_u32(&r) : ct_reader_u64(&r));
}

/* The offset of its name among the names. */
static uint64_t name_of(const struct go_table *t, uint64_t index) {
    struct ct_reader r = ct_reader_of(t->pairs.data, t->pairs.size);
    ct_reader_skip(&r, index * t->pair + t->pair / 2);
    uint64_t place = t->pair == 8 ? ct_reader_u32(&r) : ct_reader_u64(&r);
    r = ct_reader_of(t->pairs.data, t->pairs.size);
    ct_reader_skip(&r, place);
    ct_reader_skip(&r, t->pair / 2); /* its start again */
    uint32_t name = ct_reader_u32(&r);
    return r.bad ? UINT64_MAX : name;
}

static bool is_sound(const struct go_table *t, const struct ct_functions *table) {
    for (uint64_t i = 0; i < t->count; i++) {
        const struct ct_text_range *text = ct_text_find(table, start_of(t, i));
        if (!text || text->plt || start_of(t, i + 1) <= start_of(t, i))
            return false;
    }
    return true;
}

static int copy_names(struct ct_functions *table, struct go_table *t) {
    uint64_t size = (uint64_t)table->names_size + t->names.size + 1;
    if (size > UINT32_MAX)
        return 0;
    char *names = realloc(table->names, size);
    if (!names)
        return CT_ERR_NO_MEMORY;
    memcpy(names + table->names_size, t->names.data, t->names.size);
    names[size - 1] = 0;
    t->copied = (uint32_t)table->names_size;
    table->names = names;
    table->names_size = size;
    return 0;
}

/* 0: it has none. Names may share bytes in a damaged file, within limits (CT_MAX_SHARED_NAMES). */
static uint32_t take_name(struct go_table *t, uint64_t index) {
    uint64_t name = name_of(t, index), most = t->names.size + CT_MAX_SHARED_NAMES;
    if (!t->copied || name >= t->names.size || t->named >= most)
        return 0;
    const char *text = (const char *)t->names.data + name;
    t->named += strnlen(text, t->names.size - name);
    return *text && *text != '@' && t->named < most ? t->copied + (uint32_t)name : 0;
}

/* Up to the next function there is padding: breakpoints. The first of them stays, because the last byte of a jump may
 * look like one. */
static uint64_t size_of(const struct go_table *t, const struct ct_elf *elf, uint64_t index) {
    uint64_t start = start_of(t, index), size = start_of(t, index + 1) - start;
    struct ct_span code = ct_elf_at(elf, start);
    if (elf->machine->breakpoint_size == 1 && code.size >= size)
        while (size > 2 && code.data[size - 1] == elf->machine->breakpoint[0] &&
               code.data[size - 2] == code.data[size - 1])
            size--;
    return size;
}

int ct_go_functions_read(struct ct_functions *table, const struct ct_elf *elf, struct ct_candidates *list) {
    struct ct_elf_section section;
    struct go_table t = {0};
    if (!ct_elf_section_named(elf, ".gopclntab", &section) &&
        !ct_elf_section_named(elf, ".data.rel.ro.gopclntab", &section))
        return 0;
    t.all = section.bytes;
    if (!read_header(&t, elf) || !is_sound(&t, table))
        return 0;
    int result = copy_names(table, &t);
    for (uint64_t i = 0; i < t.count && !result; i++) {
        struct ct_candidate candidate = {
            .offset = start_of(&t, i),
            .size = size_of(&t, elf, i),
            .name = take_name(&t, i),
            .kind = CT_FROM_SYMBOL,
        };
        result = ct_candidates_add(list, &candidate);
    }
    return result;
}
