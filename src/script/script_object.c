/* SPDX-License-Identifier: Apache-2.0 */
/* Code of a script in the target: a relocatable object file, placed and linked. Code comes first, in whole pages that
 * are not writable; then everything else. Calls of what is far away go through jumps after the code.
 *
 * The file is the script's own, made by a compiler; all the same each read is checked. */
#include "script/script_object.h"
#include "isa/machine.h"
#include "os/os.h"
#include "script/script_internal.h"
#include <contrail/status.h>
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST_BYTES    (64u << 20)
#define MOST_SECTIONS 4096u

struct section {
    Elf64_Shdr header;
    uint64_t at; /* offset in our memory; UINT64_MAX: it is not there */
};

struct ct_script_object {
    uint64_t address, size, code_size;
    struct ct_script_symbol_value {
        char *name;
        uint64_t address;
    } * symbols;
    size_t symbol_count;
};

struct loading {
    struct ct_script *s;
    struct ct_script_object *object;
    const uint8_t *file;
    size_t size;
    struct section *sections;
    uint32_t section_count;
    const Elf64_Sym *symbols;
    size_t symbol_count;
    const char *names;
    size_t names_size;
    const struct ct_script_name *given;
    size_t given_count;
    uint64_t *values; /* by symbol */
    struct ct_object_image image;
};

static int refuse(struct loading *l, const char *why) {
    return ct_script_fail(l->s, CT_ERR_BAD_FILE, "the object file cannot be loaded: %s", why);
}

static bool is_inside(const struct loading *l, uint64_t offset, uint64_t size) {
    return offset <= l->size && size <= l->size - offset;
}

/* ---- sections ---- */

static int read_sections(struct loading *l) {
    Elf64_Ehdr h;
    if (l->size < sizeof h)
        return refuse(l, "it is too short");
    memcpy(&h, l->file, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_type != ET_REL || h.e_machine != ct_machine_host()->elf)
        return refuse(l, "it is not a relocatable ELF file of this machine (compile with -c)");
    if (h.e_shnum > MOST_SECTIONS || h.e_shentsize != sizeof(Elf64_Shdr) ||
        !is_inside(l, h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr)))
        return refuse(l, "its sections cannot be read");
    l->sections = calloc(h.e_shnum + 1u, sizeof *l->sections);
    if (!l->sections)
        return CT_ERR_NO_MEMORY;
    l->section_count = h.e_shnum;
    for (uint32_t i = 0; i < h.e_shnum; i++) {
        struct section *x = &l->sections[i];
        memcpy(&x->header, l->file + h.e_shoff + i * sizeof x->header, sizeof x->header);
        x->at = UINT64_MAX;
        if (x->header.sh_type != SHT_NOBITS && !is_inside(l, x->header.sh_offset, x->header.sh_size))
            return refuse(l, "a section is not in the file");
        if (x->header.sh_size > MOST_BYTES)
            return refuse(l, "a section is too large");
    }
    return 0;
}

static int read_symbols(struct loading *l) {
    for (uint32_t i = 0; i < l->section_count; i++) {
        const Elf64_Shdr *h = &l->sections[i].header;
        if (h->sh_type != SHT_SYMTAB || h->sh_link >= l->section_count || h->sh_offset % 8)
            continue;
        const Elf64_Shdr *names = &l->sections[h->sh_link].header;
        if (!names->sh_size || names->sh_type != SHT_STRTAB || l->file[names->sh_offset + names->sh_size - 1])
            break;
        l->symbols = (const Elf64_Sym *)(l->file + h->sh_offset);
        l->symbol_count = h->sh_size / sizeof *l->symbols;
        l->names = (const char *)l->file + names->sh_offset;
        l->names_size = names->sh_size;
        return 0;
    }
    return refuse(l, "it has no symbols");
}

static bool is_code(const Elf64_Shdr *h) {
    return (h->sh_flags & SHF_EXECINSTR) != 0;
}

static uint64_t round_up(uint64_t value, uint64_t unit) {
    return unit > 1 ? (value + unit - 1) / unit * unit : value;
}

static uint64_t place(struct loading *l, bool code, uint64_t at) {
    for (uint32_t i = 0; i < l->section_count; i++) {
        struct section *x = &l->sections[i];
        if (!(x->header.sh_flags & SHF_ALLOC) || is_code(&x->header) != code || !x->header.sh_size)
            continue;
        at = round_up(at, x->header.sh_addralign < 4096 ? x->header.sh_addralign : 4096);
        x->at = at;
        at += x->header.sh_size;
    }
    return at;
}

/* Room for one jump and one word for each symbol of another module. */
static int lay_out(struct loading *l) {
    uint64_t page = ct_os_page_size();
    struct ct_object_image *m = &l->image;
    m->jumps = round_up(place(l, true, 0), 16);
    m->words = round_up(m->jumps + l->symbol_count * CT_OBJECT_JUMP, page);
    l->object->code_size = m->words;
    m->size = round_up(place(l, false, round_up(m->words + l->symbol_count * 8, 64)), page);
    if (m->size > MOST_BYTES)
        return refuse(l, "it is too large");
    m->bytes = calloc(1, m->size);
    m->jump_of = calloc(l->symbol_count + 1, sizeof *m->jump_of);
    m->word_of = calloc(l->symbol_count + 1, sizeof *m->word_of);
    l->values = calloc(l->symbol_count + 1, sizeof *l->values);
    if (!m->bytes || !m->jump_of || !m->word_of || !l->values)
        return CT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < l->section_count; i++) {
        const struct section *x = &l->sections[i];
        if (x->at != UINT64_MAX && x->header.sh_type != SHT_NOBITS)
            memcpy(m->bytes + x->at, l->file + x->header.sh_offset, x->header.sh_size);
    }
    return 0;
}

/* ---- symbols ---- */

static const char *name_of(const struct loading *l, const Elf64_Sym *symbol) {
    return symbol->st_name < l->names_size ? l->names + symbol->st_name : "";
}

static uint64_t find_agents(const struct ct_script *s, const char *name) {
    static const char *const names[CT_SCRIPT_FUNCTIONS] = {
#define CT_SCRIPT_FUNCTION_NAME(name, text) text,
        CT_SCRIPT_FUNCTION_LIST(CT_SCRIPT_FUNCTION_NAME)
#undef CT_SCRIPT_FUNCTION_NAME
    };
    for (size_t i = 0; i < CT_SCRIPT_FUNCTIONS; i++)
        if (!strcmp(names[i], name))
            return s->shared->functions[i];
    return 0;
}

/* The same word for the same name, in all modules. 0: there are no more. */
static uint64_t find_counter(struct ct_script *s, const char *name) {
    size_t i = 0;
    while (i < CT_SCRIPT_COUNTERS && s->counters[i] && strcmp(s->counters[i], name) != 0)
        i++;
    if (i == CT_SCRIPT_COUNTERS || (!s->counters[i] && !(s->counters[i] = strdup(name))))
        return 0;
    uint64_t shared = ct_inject_lane_at(&s->injection) + (uint64_t)((uint8_t *)s->shared - (uint8_t *)s->lane.control);
    return shared + offsetof(struct ct_script_shared, counters) + i * sizeof(uint64_t);
}

const char *ct_script_counter(struct ct_script *s, size_t index, uint64_t *value) {
    if (index >= CT_SCRIPT_COUNTERS || !s->counters[index])
        return NULL;
    *value = __atomic_load_n(&s->shared->counters[index], __ATOMIC_RELAXED);
    return s->counters[index];
}

static uint64_t find_given(const struct loading *l, const char *name) {
    if (!strcmp(name, "_GLOBAL_OFFSET_TABLE_"))
        return l->image.address + l->image.words;
    for (size_t i = 0; i < l->given_count; i++)
        if (!strcmp(l->given[i].name, name))
            return l->given[i].address;
    if (!strncmp(name, CT_SCRIPT_COUNTER, strlen(CT_SCRIPT_COUNTER)))
        return find_counter(l->s, name + strlen(CT_SCRIPT_COUNTER));
    uint64_t agents = find_agents(l->s, name);
    return agents ? agents : ct_script_export(l->s, name);
}

static int find_value(struct loading *l, size_t i) {
    const Elf64_Sym *symbol = &l->symbols[i];
    const char *name = name_of(l, symbol);
    if (symbol->st_shndx == SHN_ABS)
        l->values[i] = symbol->st_value;
    else if (symbol->st_shndx == SHN_COMMON)
        return refuse(l, "it has common symbols (compile with -fno-common)");
    else if (symbol->st_shndx != SHN_UNDEF) {
        bool there = symbol->st_shndx < l->section_count && l->sections[symbol->st_shndx].at != UINT64_MAX;
        l->values[i] = there ? l->image.address + l->sections[symbol->st_shndx].at + symbol->st_value : 0;
    } else if (name[0]) {
        l->values[i] = find_given(l, name);
        if (!l->values[i] && ELF64_ST_BIND(symbol->st_info) != STB_WEAK)
            return ct_script_fail(l->s, CT_ERR_BAD_FILE,
                                  "the object file needs %s, which neither the script nor the "
                                  "program has",
                                  name);
    }
    return 0;
}

static int keep_symbols(struct loading *l) {
    struct ct_script_object *o = l->object;
    o->symbols = calloc(l->symbol_count + 1, sizeof *o->symbols);
    if (!o->symbols)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < l->symbol_count; i++) {
        const Elf64_Sym *symbol = &l->symbols[i];
        if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL || symbol->st_shndx == SHN_UNDEF || !name_of(l, symbol)[0])
            continue;
        struct ct_script_symbol_value *v = &o->symbols[o->symbol_count];
        *v = (struct ct_script_symbol_value){strdup(name_of(l, symbol)), l->values[i]};
        if (!v->name)
            return CT_ERR_NO_MEMORY;
        o->symbol_count++;
    }
    return 0;
}

/* ---- relocations ---- */

static int relocate_section(struct loading *l, const Elf64_Shdr *h) {
    const struct section *to = h->sh_info < l->section_count ? &l->sections[h->sh_info] : NULL;
    if (!to || to->at == UINT64_MAX)
        return 0; /* debug information */
    for (uint64_t i = 0; i < h->sh_size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        memcpy(&r, l->file + h->sh_offset + i * sizeof r, sizeof r);
        size_t symbol = ELF64_R_SYM(r.r_info);
        if (symbol >= l->symbol_count || r.r_offset > to->header.sh_size || to->header.sh_size - r.r_offset < 4)
            return refuse(l, "a relocation is outside of its section");
        const struct ct_object_fix fix = {
            .type = (uint32_t)ELF64_R_TYPE(r.r_info),
            .at = to->at + r.r_offset,
            .end = to->at + to->header.sh_size,
            .symbol = symbol,
            .value = l->values[symbol],
            .addend = r.r_addend,
        };
        int status = ct_object_fix(&l->image, &fix);
        if (status)
            return ct_script_fail(l->s, CT_ERR_BAD_FILE,
                                  "the object file cannot be loaded: relocation %u is not known or does not reach "
                                  "(compile with -fPIC -ffreestanding)",
                                  fix.type);
    }
    return 0;
}

static int link_all(struct loading *l) {
    int status = 0;
    for (size_t i = 1; !status && i < l->symbol_count; i++)
        status = find_value(l, i);
    for (uint32_t i = 0; !status && i < l->section_count; i++)
        if (l->sections[i].header.sh_type == SHT_RELA)
            status = relocate_section(l, &l->sections[i].header);
    return status;
}

static int put(struct loading *l) {
    struct ct_script_object *o = l->object;
    int status = ct_script_write(l->s, o->address, l->image.bytes, l->image.size);
    if (!status && o->code_size)
        status = ct_script_protect(l->s, CT_SCRIPT_NO_SLOT, o->address, o->code_size, PROT_READ | PROT_EXEC, NULL);
    return status ? status : keep_symbols(l);
}

static int load(struct loading *l) {
    int status = read_sections(l);
    if (!status)
        status = read_symbols(l);
    if (!status)
        status = lay_out(l);
    if (!status)
        status =
            ct_script_alloc(l->s, CT_SCRIPT_NO_SLOT, 0, l->image.size, PROT_READ | PROT_WRITE, &l->object->address);
    if (status)
        return status;
    l->object->size = l->image.size;
    l->image.address = l->object->address;
    status = link_all(l);
    return status ? status : put(l);
}

static void free_object(struct ct_script_object *o) {
    for (size_t i = 0; i < o->symbol_count; i++)
        free(o->symbols[i].name);
    free(o->symbols);
    free(o);
}

int ct_script_load(struct ct_script *s, const void *bytes, size_t size, const struct ct_script_name *names,
                   size_t count, struct ct_script_object **out) {
    struct loading l = {.s = s, .size = size, .given = names, .given_count = count};
    uint8_t *copy = malloc(size + 1); /* aligned */
    l.object = calloc(1, sizeof *l.object);
    int status = copy && l.object ? 0 : CT_ERR_NO_MEMORY;
    if (!status) {
        memcpy(copy, bytes, size);
        l.file = copy;
        status = load(&l);
    }
    free(copy);
    free(l.sections);
    free(l.values);
    free(l.image.bytes);
    free(l.image.jump_of);
    free(l.image.word_of);
    if (!status) {
        *out = l.object;
        return 0;
    }
    if (l.object && l.object->address)
        (void)ct_script_free(s, CT_SCRIPT_NO_SLOT, l.object->address);
    if (l.object)
        free_object(l.object);
    return status;
}

uint64_t ct_script_object_symbol(const struct ct_script_object *o, const char *name) {
    for (size_t i = 0; i < o->symbol_count; i++)
        if (!strcmp(o->symbols[i].name, name))
            return o->symbols[i].address;
    return 0;
}

const char *ct_script_object_next(const struct ct_script_object *o, size_t index, uint64_t *address) {
    if (index >= o->symbol_count)
        return NULL;
    *address = o->symbols[index].address;
    return o->symbols[index].name;
}

/* A thread may be inside, or return to it: its memory stays until the script leaves the target. */
int ct_script_unload(struct ct_script *s, struct ct_script_object *o) {
    (void)s;
    free_object(o);
    return 0;
}
