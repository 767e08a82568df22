/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols of a module of the target, from its file as the target sees it. The file is not believed: all reads are
 * checked (symbols/elf_image.h). */
#include "inspect/process.h"
#include "plan/debug_root.h"
#include "script/script_internal.h"
#include "symbols/debug_file.h"
#include "symbols/elf_image.h"
#include "symbols/file_image.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_SYMBOLS (1u << 24)
#define MOST_TEXT    (64u << 20) /* of all names: they may share their ends */
#define MOST_LOOKS   (1u << 26)  /* at relocations, for functions that are chosen at run time */

struct file {
    void *bytes;
    size_t size;
    struct ct_elf elf;
    uint64_t bias;
    const struct ct_target_module *module;
};

/* ---- the file ---- */

static const struct ct_target_module *module_at(const struct ct_script *s, uint64_t base) {
    for (size_t p = s->plan_count; p-- > 0;)
        for (size_t i = 0; i < s->plans[p].plan->module_count; i++)
            if (s->plans[p].plan->modules[i].start == base)
                return &s->plans[p].plan->modules[i];
    return NULL;
}

struct opening {
    struct ct_script *script;
    struct file *file;
};

static int open_mapped(void *arg, const struct ct_os_map *map) {
    struct opening *o = arg;
    const struct ct_target_module *m = o->file->module;
    if (!map->inode || map->start < m->start || map->start >= m->end)
        return 0;
    int fd = ct_remote_open_mapped(o->script->remote, map);
    if (fd < 0)
        return 0;
    o->file->bytes = ct_file_image_open(fd, &o->file->size);
    (void)close(fd);
    return o->file->bytes != NULL;
}

static int open_file(struct ct_script *s, uint64_t base, struct file *f) {
    struct opening o = {s, f};
    *f = (struct file){.module = module_at(s, base)};
    if (!f->module && !ct_script_update(s))
        f->module = module_at(s, base);
    if (!f->module)
        return ct_script_fail(s, CT_ERR_NOT_FOUND, "no module begins at 0x%llx", (unsigned long long)base);
    f->bias = f->module->bias;
    (void)ct_remote_each_map(s->remote, open_mapped, &o);
    if (!f->bytes || ct_elf_open(&f->elf, f->bytes, f->size)) {
        if (f->bytes)
            ct_file_image_close(f->bytes, f->size);
        return ct_script_fail(s, CT_ERR_BAD_FILE, "the file %s cannot be read", f->module->path);
    }
    return 0;
}

/* ---- tables ---- */

struct table {
    struct ct_span symbols, names, versions;
    bool dynamic;
    uint64_t *slots; /* of an import, by its index: where the loader puts its address; 0: not known */
    size_t looks;    /* at relocations so far */
};

static void find_versions(const struct ct_elf *elf, struct table *out) {
    struct ct_elf_section section;
    for (uint32_t i = 0; i < elf->shnum; i++)
        if (ct_elf_section(elf, i, &section) && section.type == SHT_GNU_versym)
            out->versions = section.bytes;
}

static bool find_table(const struct ct_elf *elf, uint32_t type, struct table *out) {
    struct ct_elf_section section, names;
    for (uint32_t i = 0; i < elf->shnum; i++)
        if (ct_elf_section(elf, i, &section) && section.type == type && section.bytes.size &&
            ct_elf_section(elf, section.link, &names)) {
            *out = (struct table){.symbols = section.bytes, .names = names.bytes, .dynamic = type == SHT_DYNSYM};
            while (out->names.size && out->names.data[out->names.size - 1])
                out->names.size--; /* each name ends in the table */
            if (out->dynamic)
                find_versions(elf, out);
            return true;
        }
    return false;
}

/* Is this a name for programs that were linked long ago? The linker would not find it now. */
static bool is_old(const struct table *t, size_t i) {
    uint16_t version = 0;
    if ((i + 1) * sizeof version <= t->versions.size)
        memcpy(&version, t->versions.data + i * sizeof version, sizeof version);
    return version & 0x8000;
}

static size_t table_count(const struct table *t) {
    size_t count = t->symbols.size / sizeof(Elf64_Sym);
    return count < MOST_SYMBOLS ? count : MOST_SYMBOLS;
}

static Elf64_Sym symbol_at(const struct table *t, size_t i) {
    Elf64_Sym symbol;
    memcpy(&symbol, t->symbols.data + i * sizeof symbol, sizeof symbol);
    return symbol;
}

/* "" when it has none, or the table is damaged. */
static const char *name_of(const struct table *t, const Elf64_Sym *symbol) {
    return symbol->st_name < t->names.size ? (const char *)t->names.data + symbol->st_name : "";
}

static bool is_in_list(const struct table *t, const Elf64_Sym *symbol, enum ct_script_list list) {
    unsigned type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);
    bool defined = symbol->st_shndx != SHN_UNDEF;
    if (type == STT_SECTION || type == STT_FILE)
        return false;
    if (list == CT_SCRIPT_SYMBOLS)
        return defined || t->dynamic;
    if (list == CT_SCRIPT_IMPORTS)
        return !defined;
    return defined && bind != STB_LOCAL && type != STT_TLS && symbol->st_shndx != SHN_ABS;
}

static bool is_wanted(const struct table *t, const Elf64_Sym *symbol, enum ct_script_list list) {
    return is_in_list(t, symbol, list) && name_of(t, symbol)[0];
}

static uint32_t flags_of(const Elf64_Sym *symbol) {
    unsigned type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC ? CT_SCRIPT_FUNCTION : 0) |
           (bind == STB_GLOBAL ? CT_SCRIPT_GLOBAL : 0) | (bind == STB_WEAK ? CT_SCRIPT_WEAK : 0) |
           (type == STT_GNU_IFUNC ? CT_SCRIPT_IFUNC : 0) | (type == STT_TLS ? CT_SCRIPT_TLS : 0) |
           (symbol->st_shndx == SHN_UNDEF ? CT_SCRIPT_UNDEFINED : 0);
}

/* ---- imports ---- */

static void note_slots(const struct file *f, const struct ct_span *relocations, struct table *t) {
    size_t count = table_count(t);
    for (size_t k = 0; k < relocations->size / sizeof(Elf64_Rela); k++) {
        Elf64_Rela r;
        memcpy(&r, relocations->data + k * sizeof r, sizeof r);
        size_t index = ELF64_R_SYM(r.r_info);
        if (index < count && !r.r_addend && !t->slots[index])
            t->slots[index] = f->bias + r.r_offset;
    }
}

static int find_slots(const struct file *f, struct table *t) {
    struct ct_elf_section section;
    t->slots = calloc(table_count(t) + 1, sizeof *t->slots);
    for (uint32_t i = 0; t->slots && i < f->elf.shnum; i++)
        if (ct_elf_section(&f->elf, i, &section) && section.type == SHT_RELA)
            note_slots(f, &section.bytes, t);
    return t->slots ? 0 : CT_ERR_NO_MEMORY;
}

/* A function that is chosen at run time: where the loader has put its choice, for the module's own calls. The resolver
 * is the addend. */
static uint64_t choice_of(struct ct_script *s, const struct file *f, struct table *t, uint64_t resolver) {
    struct ct_elf_section section;
    for (uint32_t i = 0; i < f->elf.shnum; i++) {
        if (!ct_elf_section(&f->elf, i, &section) || section.type != SHT_RELA)
            continue;
        for (size_t k = 0; k < section.bytes.size / sizeof(Elf64_Rela) && t->looks < MOST_LOOKS; k++, t->looks++) {
            Elf64_Rela r;
            uint64_t chosen = 0;
            memcpy(&r, section.bytes.data + k * sizeof r, sizeof r);
            if (!ELF64_R_SYM(r.r_info) && (uint64_t)r.r_addend == resolver &&
                !ct_remote_read(s->remote, f->bias + r.r_offset, &chosen, sizeof chosen) && chosen &&
                chosen != f->bias + resolver)
                return f->bias + r.r_offset;
        }
    }
    return 0;
}

/* An import that is not bound yet leads to the module's own linkage table. */
static uint64_t bound_to(struct ct_script *s, const struct file *f, uint64_t slot) {
    uint64_t address = 0;
    if (!slot || ct_remote_read(s->remote, slot, &address, sizeof address))
        return 0;
    return address >= f->module->start && address < f->module->end ? 0 : address;
}

/* ---- lists ---- */

static void fill(struct ct_script *s, const struct file *f, struct table *t, size_t index, struct ct_script_symbol *out,
                 char **text) {
    Elf64_Sym symbol = symbol_at(t, index);
    const char *name = name_of(t, &symbol);
    size_t length = strlen(name) + 1;
    memcpy(*text, name, length);
    *out = (struct ct_script_symbol){
        .address = ELF64_ST_TYPE(symbol.st_info) == STT_TLS ? symbol.st_value : f->bias + symbol.st_value,
        .size = symbol.st_size,
        .flags = flags_of(&symbol) | (is_old(t, index) ? CT_SCRIPT_OLD : 0),
        .section = symbol.st_shndx < SHN_LORESERVE ? symbol.st_shndx : 0,
        .name = *text,
        .version = "",
    };
    *text += length;
    if (out->flags & CT_SCRIPT_IFUNC)
        out->slot = choice_of(s, f, t, symbol.st_value);
    if (symbol.st_shndx != SHN_UNDEF)
        return;
    out->slot = t->slots ? t->slots[index] : 0;
    out->address = bound_to(s, f, out->slot);
}

/* How many there are, and how long their names are in all. */
static size_t count_wanted(const struct table *t, enum ct_script_list list, size_t *bytes) {
    size_t wanted = 0;
    *bytes = 0;
    for (size_t i = 0; i < table_count(t) && *bytes <= MOST_TEXT; i++) {
        Elf64_Sym symbol = symbol_at(t, i);
        if (!is_wanted(t, &symbol, list))
            continue;
        wanted++;
        *bytes += strlen(name_of(t, &symbol)) + 1;
    }
    return wanted;
}

static int make_list(struct ct_script *s, const struct file *f, struct table *t, enum ct_script_list list,
                     struct ct_script_symbol **out, size_t *count) {
    size_t bytes, wanted = count_wanted(t, list, &bytes);
    if (bytes > MOST_TEXT)
        return ct_script_fail(s, CT_ERR_BAD_FILE, "the names in the file %s are too long", f->module->path);
    int status = t->dynamic ? find_slots(f, t) : 0;
    if (!status && !(*out = malloc(wanted * sizeof **out + bytes + 1)))
        status = CT_ERR_NO_MEMORY;
    char *text = status ? NULL : (char *)(*out + wanted);
    *count = 0;
    for (size_t i = 0; !status && i < table_count(t); i++) {
        Elf64_Sym symbol = symbol_at(t, i);
        if (is_wanted(t, &symbol, list))
            fill(s, f, t, i, &(*out)[(*count)++], &text);
    }
    free(t->slots);
    return status;
}

/* The table of the separate debug file, when the file has none itself. */
static int list_symbols(struct ct_script *s, const struct file *f, struct ct_script_symbol **out, size_t *count) {
    char root[CT_DEBUG_ROOT_TEXT];
    struct ct_debug_file debug;
    struct table t;
    const struct ct_debug_search search = {.path = f->module->path, .root = ct_debug_root(s->pid, root)};
    if (find_table(&f->elf, SHT_SYMTAB, &t))
        return make_list(s, f, &t, CT_SCRIPT_SYMBOLS, out, count);
    if (ct_debug_file_find(&debug, &f->elf, &search)) {
        int status = find_table(&debug.elf, SHT_SYMTAB, &t) ? make_list(s, f, &t, CT_SCRIPT_SYMBOLS, out, count)
                                                            : CT_ERR_NOT_FOUND;
        ct_debug_file_close(&debug);
        if (status != CT_ERR_NOT_FOUND)
            return status;
    }
    if (find_table(&f->elf, SHT_DYNSYM, &t))
        return make_list(s, f, &t, CT_SCRIPT_SYMBOLS, out, count);
    return 0;
}

int ct_script_symbols(struct ct_script *s, uint64_t base, enum ct_script_list list, struct ct_script_symbol **out,
                      size_t *count) {
    struct file f;
    struct table t;
    *out = NULL;
    *count = 0;
    pthread_mutex_lock(&s->work);
    int status = open_file(s, base, &f);
    pthread_mutex_unlock(&s->work);
    if (status)
        return status;
    if (list == CT_SCRIPT_SYMBOLS)
        status = list_symbols(s, &f, out, count);
    else if (find_table(&f.elf, SHT_DYNSYM, &t))
        status = make_list(s, &f, &t, list, out, count);
    ct_file_image_close(f.bytes, f.size);
    return status;
}

uint64_t ct_script_export(struct ct_script *s, const char *name) {
    struct ct_script_module *modules = NULL;
    size_t module_count = 0, count = 0;
    uint64_t found = 0;
    (void)ct_script_modules(s, &modules, &module_count);
    for (size_t i = 0; i < module_count && !found; i++) {
        struct ct_script_symbol *symbols = NULL;
        bool dynamic = !ct_script_symbols(s, modules[i].base, CT_SCRIPT_EXPORTS, &symbols, &count) && count;
        if (!dynamic) { /* a static program */
            free(symbols);
            (void)ct_script_symbols(s, modules[i].base, CT_SCRIPT_SYMBOLS, &symbols, &count);
        }
        for (size_t k = 0; k < count && !found; k++)
            if ((symbols[k].flags & (CT_SCRIPT_FUNCTION | CT_SCRIPT_IFUNC)) == CT_SCRIPT_FUNCTION &&
                !strcmp(symbols[k].name, name))
                found = symbols[k].address;
        free(symbols);
    }
    ct_script_free_modules(modules, module_count);
    return found;
}
