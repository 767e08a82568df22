/* SPDX-License-Identifier: Apache-2.0 */
/* See constants.h. */
#include "trace/constants.h"
#include "symbols/debug_file.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct module {
    bool looked;
    void *bytes; /* NULL: there is no such file */
    size_t size;
    struct ct_elf elf;
    struct ct_debug_file debug; /* bytes NULL: there is none, or it was not needed so far */
};

struct ct_constants {
    struct ct_trace *trace;
    struct ct_lookup *lookup;
    struct module *modules; /* as in the trace */
};

struct ct_constants *ct_constants_open(struct ct_trace *trace, struct ct_lookup *lookup) {
    struct ct_constants *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->trace = trace;
    c->lookup = lookup;
    c->modules = calloc(ct_trace_module_count(trace) + 1, sizeof *c->modules);
    if (c->modules)
        return c;
    free(c);
    return NULL;
}

void ct_constants_close(struct ct_constants *c) {
    if (!c)
        return;
    for (size_t i = 0; i < ct_trace_module_count(c->trace); i++) {
        if (c->modules[i].bytes)
            munmap(c->modules[i].bytes, c->modules[i].size);
        if (c->modules[i].debug.bytes)
            ct_debug_file_close(&c->modules[i].debug);
    }
    free(c->modules);
    free(c);
}

static void map_file(struct module *m, const char *path) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (!fstat(fd, &info) && info.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            m->bytes = bytes;
            m->size = (size_t)info.st_size;
        }
    }
    close(fd);
    if (m->bytes && ct_elf_open(&m->elf, m->bytes, m->size)) {
        munmap(m->bytes, m->size);
        m->bytes = NULL;
    }
}

static bool open_module(struct ct_constants *c, struct module *m, const struct ct_trace_module *info) {
    if (!m->looked && *info->build_id) {
        struct ct_lookup_module *found = ct_lookup_module(c->lookup, info->path, info->build_id);
        if (found && ct_lookup_module_state(found) == CT_LOOKUP_FOUND)
            map_file(m, ct_lookup_module_file(found));
    }
    m->looked = true;
    return m->bytes;
}

/* The segment that holds an address of the module's own numbering. */
static bool find_segment(const struct module *m, uint64_t address, Elf64_Phdr *out) {
    for (uint32_t i = 0; ct_elf_segment(&m->elf, i, out); i++)
        if (out->p_type == PT_LOAD && address >= out->p_vaddr && address - out->p_vaddr < out->p_memsz)
            return true;
    return false;
}

const uint8_t *ct_constants_at(struct ct_constants *c, size_t process, uint64_t address, size_t *have) {
    const uint8_t *found = NULL;
    unsigned owners = 0;
    for (size_t i = 0; i < ct_trace_module_count(c->trace); i++) {
        const struct ct_trace_module *info = ct_trace_module_at(c->trace, i);
        Elf64_Phdr segment;
        if (info->process != process || address < info->base || !open_module(c, &c->modules[i], info) ||
            !find_segment(&c->modules[i], address - info->base, &segment))
            continue;
        owners++; /* modules that were loaded one after the other may have had one address */
        struct ct_span bytes = ct_elf_at(&c->modules[i].elf, address - info->base);
        if ((segment.p_flags & PF_W) || !bytes.size)
            continue;
        found = bytes.data;
        *have = bytes.size;
    }
    return owners == 1 ? found : NULL;
}

/* ---- names of variables ---- */

/* The variable that holds the address, in one symbol table; with its beginning. "": none. */
static const char *find_variable(const struct ct_elf *elf, const struct ct_elf_section *table, uint64_t address,
                                 uint64_t *begin) {
    struct ct_elf_section strings;
    Elf64_Sym symbol;
    if (!ct_elf_section(elf, table->link, &strings) || !strings.bytes.size)
        return "";
    struct ct_reader r = ct_reader_of(table->bytes.data, table->bytes.size);
    while (ct_reader_left(&r) >= sizeof symbol) {
        ct_reader_bytes(&r, &symbol, sizeof symbol);
        const char *name = (const char *)strings.bytes.data + symbol.st_name;
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF || address < symbol.st_value ||
            address - symbol.st_value >= symbol.st_size || symbol.st_name >= strings.bytes.size || !*name ||
            !memchr(name, 0, strings.bytes.size - symbol.st_name))
            continue;
        *begin = symbol.st_value;
        return name;
    }
    return "";
}

static const char *find_in_file(const struct ct_elf *elf, uint64_t address, uint64_t *begin) {
    struct ct_elf_section section;
    const char *name = "";
    for (uint32_t i = 0; i < elf->shnum && !*name; i++)
        if (ct_elf_section(elf, i, &section) && (section.type == SHT_SYMTAB || section.type == SHT_DYNSYM))
            name = find_variable(elf, &section, address, begin);
    return name;
}

/* A stripped module may have a separate debug file. */
static const struct ct_elf *debug_file_of(struct ct_constants *c, struct module *m,
                                          const struct ct_trace_module *info) {
    struct ct_lookup_module *found = m->debug.bytes ? NULL : ct_lookup_module(c->lookup, info->path, info->build_id);
    if (found && *ct_lookup_module_debug(found) && !ct_debug_file_map(&m->debug, ct_lookup_module_debug(found)))
        m->debug = (struct ct_debug_file){0};
    return m->debug.bytes ? &m->debug.elf : NULL;
}

static void name_variable(struct ct_constants *c, struct module *m, const struct ct_trace_module *info,
                          uint64_t address, char *text, size_t size) {
    const char *slash = strrchr(info->path, '/'), *name;
    const struct ct_elf *debug;
    uint64_t begin = 0;
    name = find_in_file(&m->elf, address, &begin);
    if (!*name && (debug = debug_file_of(c, m, info)))
        name = find_in_file(debug, address, &begin);
    if (!*name)
        snprintf(text, size, "%s+0x%" PRIx64, slash ? slash + 1 : info->path, address);
    else if (address == begin)
        snprintf(text, size, "%s", name);
    else
        snprintf(text, size, "%s+%" PRIu64, name, address - begin);
}

void ct_constants_name(struct ct_constants *c, size_t process, uint64_t address, char *text, size_t size) {
    unsigned owners = 0;
    *text = 0;
    for (size_t i = 0; i < ct_trace_module_count(c->trace); i++) {
        const struct ct_trace_module *info = ct_trace_module_at(c->trace, i);
        Elf64_Phdr segment;
        if (info->process == process && address >= info->base && open_module(c, &c->modules[i], info) &&
            find_segment(&c->modules[i], address - info->base, &segment)) {
            owners++;
            name_variable(c, &c->modules[i], info, address - info->base, text, size);
        }
    }
    if (owners > 1) /* modules that were loaded one after the other may have had one address */
        *text = 0;
}
