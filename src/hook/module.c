/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a module for hooking: see module.h. */
#include "hook/module.h"
#include "hook/springboard.h"
#include "hook/known.h"
#include "isa/machine.h"
#include "os/os.h"
#include <contrail/status.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#define NEIGHBOURS 4 /* modules that are apart by this part of a branch's reach share a region if they can */
#define MAX_ORPHAN (1u << 20)

/* ---- segments ---- */

struct segment_search {
    uint64_t address; /* the address that the wanted module holds, or: */
    const char *name; /* its name; "" is the program */
    struct ct_hook_module *module;
    uint64_t bias;
    bool found, is_program;
    unsigned index;
};

static void note_segments(struct segment_search *s, const struct dl_phdr_info *info) {
    struct ct_hook_module *m = s->module;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_R))
            continue;
        if (m->readable_count < sizeof m->readable / sizeof m->readable[0]) {
            m->readable[m->readable_count].start = start;
            m->readable[m->readable_count++].end = end;
        }
        bool wanted = s->name ? end - start > m->end - m->start : s->address >= start && s->address < end;
        if ((p->p_flags & PF_X) && wanted) {
            m->start = start;
            m->end = end;
        }
    }
}

static const char *module_path(const struct dl_phdr_info *info, unsigned index, char *buffer) {
    const char *name = info->dlpi_name[0] || index ? info->dlpi_name : "/proc/self/exe";
    return realpath(name, buffer) ? buffer : name;
}

static bool name_matches(const char *path, const char *wanted) {
    const char *base = strrchr(path, '/');
    return !strcmp(path, wanted) || (base && !strcmp(base + 1, wanted));
}

static int visit_module(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    struct segment_search *s = arg;
    char buffer[PATH_MAX];
    unsigned index = s->index++;
    const char *path = module_path(info, index, buffer);
    bool match = false;
    if (s->name) {
        match = s->name[0] ? name_matches(path, s->name) || name_matches(info->dlpi_name, s->name) : index == 0;
    } else {
        for (int i = 0; i < info->dlpi_phnum && !match; i++) {
            const ElfW(Phdr) *p = &info->dlpi_phdr[i];
            uint64_t start = info->dlpi_addr + p->p_vaddr;
            match = p->p_type == PT_LOAD && s->address >= start && s->address < start + p->p_memsz;
        }
    }
    if (!match)
        return 0;
    s->bias = info->dlpi_addr;
    s->found = true;
    s->is_program = index == 0;
    s->module->path = strdup(path);
    note_segments(s, info);
    return 1;
}

/* ---- functions ---- */

static const uint8_t *read_module(void *arg, uint64_t address, size_t size) {
    const struct ct_hook_module *m = arg;
    for (unsigned i = 0; i < m->readable_count; i++)
        if (address >= m->readable[i].start && address < m->readable[i].end && size <= m->readable[i].end - address)
            return (const uint8_t *)address;
    return NULL;
}

static int load_functions(struct ct_hook_module *m, uint64_t bias) {
    int status = ct_functions_open_full(&m->table, m->path);
    if (status)
        return status;
    size_t count = ct_functions_count(m->table), kept = 0;
    m->reads_code = ct_known_reads_code(m->path);
    m->scan.funcs = calloc(count + 1, sizeof *m->scan.funcs);
    m->functions = calloc(count + 1, sizeof *m->functions);
    if (!m->scan.funcs || !m->functions)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct ct_func *f = ct_functions_at(m->table, i);
        uint64_t start = bias + f->offset, end = start + f->size;
        if (start < m->start || start >= m->end)
            continue;
        m->scan.funcs[kept] = (struct ct_scan_func){.start = start, .end = end > m->end ? m->end : end};
        m->functions[kept] = (struct ct_hook_function){.name = ct_functions_name(m->table, f), .flags = f->flags};
        m->return_map |= ct_known_return_map(m->functions[kept++].name);
    }
    m->scan.func_count = kept;
    return 0;
}

struct ct_function_facts ct_hook_module_facts(const struct ct_hook_module *m, size_t index) {
    struct ct_function_facts facts = {
        .side = CT_CLASSIFY_INSIDE, .name = "", .return_map = m->return_map, .reads_code = m->reads_code};
    if (index < m->scan.func_count) {
        facts.name = m->functions[index].name;
        facts.flags = m->functions[index].flags;
        facts.scan_flags = m->scan.funcs[index].flags;
        facts.referenced = ct_scan_bit(&m->scan, m->scan.referenced, m->scan.funcs[index].start);
    }
    return facts;
}

/* Finds Contrail's own code. As a shared library we are a module of our own. In a program that links us, our objects
 * are next to each other, because a linker takes an archive's members one after another: from the first to the last
 * function with our prefix. */
static void find_own_code(struct ct_hook_module *m, bool is_program) {
    uint64_t inside = (uint64_t)&ct_hooks_create;
    if (inside < m->start || inside >= m->end)
        return;
    if (!is_program) {
        m->own_start = m->start;
        m->own_end = m->end;
        return;
    }
    m->own_start = inside;
    for (size_t i = 0; i < m->scan.func_count; i++) {
        if (strncmp(m->functions[i].name, "ct_", 3) || (m->functions[i].flags & CT_FUNC_COLD))
            continue; /* linkers put the cold parts of all objects together */
        if (m->scan.funcs[i].start < m->own_start)
            m->own_start = m->scan.funcs[i].start;
        if (m->scan.funcs[i].end > m->own_end)
            m->own_end = m->scan.funcs[i].end;
    }
}

static int run_scan(struct ct_hook_module *m) {
    m->scan.code = (const uint8_t *)m->start;
    m->scan.start = m->start;
    m->scan.end = m->end;
    m->scan.read = read_module;
    m->scan.read_arg = m;
    int status = ct_scan_run(&m->scan);
    return status ? status : ct_springboards_prepare(&m->scan);
}

/* ---- code that belongs to no file ---- */

struct map_search {
    uint64_t address, start, end;
    int prot;
};

static int find_map(void *arg, const struct ct_os_map *map) {
    struct map_search *s = arg;
    if (s->address < map->start || s->address >= map->end)
        return 0;
    s->start = map->start;
    s->end = map->end;
    s->prot = map->prot;
    return 1;
}

/* Only one function is known: the requested one, up to the end of the mapping or a sensible limit. */
static int load_orphan(struct ct_hook_module *m, const struct map_search *map) {
    m->path = strdup("");
    m->start = map->start;
    m->end = map->end - map->start > MAX_ORPHAN ? map->start + MAX_ORPHAN : map->end;
    m->scan.funcs = calloc(1, sizeof *m->scan.funcs);
    m->functions = calloc(1, sizeof *m->functions);
    if (!m->path || !m->scan.funcs || !m->functions)
        return CT_ERR_NO_MEMORY;
    m->scan.func_count = 0;
    return 0;
}

/* ---- stub memory ---- */

void (*ct_hook_on_change)(uint64_t start, size_t size);

#define REGION_REACH (128u << 20) /* at least as far as an arena's code extends after its first allocation */

static int make_region(struct ct_hook_code_map *map, uint64_t start, uint64_t end, struct ct_hook_region **out) {
    struct ct_hook_region *r = calloc(1, sizeof *r);
    uint8_t *unused;
    if (!r)
        return CT_ERR_NO_MEMORY;
    r->start = start;
    r->end = end;
    int status = ct_arena_create(&r->arena, start, end, ct_machine_host()->branch_reach, map->mode);
    if (!status)
        status = ct_arena_alloc(r->arena, (size_t)(ct_hook_code_end - ct_hook_code), 64, &r->shared_run, &unused);
    if (status) {
        if (r->arena)
            ct_arena_destroy(r->arena);
        free(r);
        return status;
    }
    ct_shared_code_at(&r->shared, r->shared_run);
    r->next = map->regions;
    map->regions = *out = r;
    return 0;
}

/* Address space near code is scarce, so neighbours share a region. */
static int find_region(struct ct_hook_code_map *map, struct ct_hook_module *m) {
    for (struct ct_hook_region *r = map->regions; r; r = r->next)
        if (m->start >= r->start && m->end <= r->end) {
            m->region = r;
            return 0;
        }
    uint64_t apart = ct_machine_host()->branch_reach / NEIGHBOURS;
    uint64_t low = m->start > apart ? m->start - apart : 0;
    int status = make_region(map, low, m->end + apart, &m->region);
    return status ? make_region(map, m->start, m->end, &m->region) : 0;
}

struct ct_hook_region *ct_hook_region_of(const struct ct_hook_code_map *map, uint64_t address) {
    for (struct ct_hook_region *r = map->regions; r; r = r->next)
        if (ct_arena_contains(r->arena, address))
            return r;
    return NULL;
}

/* ---- unloaded modules ---- */

struct loaded_search {
    const struct ct_hook_module *module;
    unsigned index;
};

static int note_unloads(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    *(uint64_t *)arg = info->dlpi_subs;
    return 1;
}

/* Is it the same file, with a segment at the same place? */
static int is_loaded(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    struct loaded_search *s = arg;
    char buffer[PATH_MAX];
    const char *path = module_path(info, s->index++, buffer);
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_addr + info->dlpi_phdr[i].p_vaddr == s->module->start &&
            !strcmp(path, s->module->path))
            return 1;
    return 0;
}

bool ct_hook_code_map_refresh(struct ct_hook_code_map *map) {
    uint64_t unloads = 0;
    dl_iterate_phdr(note_unloads, &unloads);
    if (unloads == map->unloads)
        return false;
    map->unloads = unloads;
    for (struct ct_hook_module *m = map->modules; m; m = m->next) {
        struct loaded_search s = {.module = m};
        if (!m->gone && m->table && !dl_iterate_phdr(is_loaded, &s))
            m->gone = true;
    }
    return true;
}

/* ---- public ---- */

static void free_module(struct ct_hook_module *m) {
    ct_scan_free(&m->scan);
    free(m->scan.funcs);
    free(m->functions);
    ct_functions_close(m->table);
    free(m->path);
    free(m);
}

static int finish_module(struct ct_hook_code_map *map, struct ct_hook_module *m, int status) {
    if (!status)
        status = run_scan(m);
    if (!status)
        status = find_region(map, m);
    if (status) {
        free_module(m);
        return status;
    }
    m->next = map->modules;
    map->modules = m;
    return 0;
}

int ct_hook_module_at(struct ct_hook_code_map *map, uint64_t address, struct ct_hook_module **out) {
    for (struct ct_hook_module *m = map->modules; m; m = m->next)
        if (!m->gone && address >= m->start && address < m->end) {
            *out = m;
            return 0;
        }
    struct map_search search = {.address = address};
    ct_os_each_map(find_map, &search);
    if (!search.end)
        return CT_ERR_NOT_MAPPED;
    if (!(search.prot & CT_OS_EXEC))
        return CT_ERR_NOT_CODE;
    struct ct_hook_module *m = calloc(1, sizeof *m);
    if (!m)
        return CT_ERR_NO_MEMORY;
    struct segment_search s = {.address = address, .module = m};
    dl_iterate_phdr(visit_module, &s);
    int status = s.found && m->end ? load_functions(m, s.bias) : load_orphan(m, &search);
    if (!status)
        find_own_code(m, s.is_program);
    *out = m;
    return finish_module(map, m, status);
}

int ct_hook_module_named(struct ct_hook_code_map *map, const char *name, struct ct_hook_module **out) {
    struct ct_hook_module probe = {0};
    struct segment_search s = {.name = name ? name : "", .module = &probe};
    dl_iterate_phdr(visit_module, &s);
    free(probe.path);
    if (!s.found)
        return CT_ERR_NOT_FOUND;
    return ct_hook_module_at(map, probe.start, out);
}

void ct_hook_code_map_free(struct ct_hook_code_map *map, bool keep_code) {
    while (map->modules) {
        struct ct_hook_module *m = map->modules;
        map->modules = m->next;
        free_module(m);
    }
    while (map->regions) {
        struct ct_hook_region *r = map->regions;
        map->regions = r->next;
        if (!keep_code && ct_hook_on_change)
            ct_hook_on_change(r->shared_run, REGION_REACH);
        if (!keep_code)
            ct_arena_destroy(r->arena);
        free(r);
    }
}
