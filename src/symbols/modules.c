/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of this process, as the dynamic linker lists them. */
#include "base/grow.h"
#include "os/os.h"
#include "symbols/functions.h"
#include <contrail/status.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

struct module_list {
    struct ct_module_info *items;
    size_t count, capacity;
    bool failed;
};

static void span_of(const struct dl_phdr_info *info, struct ct_module_info *module) {
    module->start = UINT64_MAX;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD)
            continue;
        if (start < module->start)
            module->start = start;
        if (start + segment->p_memsz > module->end)
            module->end = start + segment->p_memsz;
    }
}

struct map_search {
    uint64_t address;
    char *path;
};

static int match_map(void *arg, const struct ct_os_map *map) {
    struct map_search *search = arg;
    if (search->address < map->start || search->address >= map->end)
        return 0;
    search->path = realpath(map->path, NULL);
    return 1;
}

/* The program has no name in the list. The mappings show its file, also when it was started through the dynamic linker
 * (ld.so program), where /proc/self/exe is the linker. When the file was deleted, the kernel's link still opens. */
static char *path_of(const char *name, uint64_t start) {
    if (*name) {
        char *real = realpath(name, NULL);
        return real ? real : strdup(name);
    }
    struct map_search search = {.address = start};
    ct_os_each_map(match_map, &search);
    return search.path ? search.path : strdup("/proc/self/exe");
}

static int collect_module(struct dl_phdr_info *info, size_t size, void *arg) {
    struct module_list *list = arg;
    struct ct_module_info module = {.bias = info->dlpi_addr};
    (void)size;
    span_of(info, &module);
    uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
    if (module.start >= module.end || (vdso && vdso >= module.start && vdso < module.end))
        return 0;
    if (!ct_grow(&list->items, &list->capacity, list->count, sizeof *list->items, 32))
        goto fail;
    module.path = path_of(info->dlpi_name ? info->dlpi_name : "", module.start);
    if (!module.path)
        goto fail;
    list->items[list->count++] = module;
    return 0;
fail:
    list->failed = true;
    return 1;
}

/* Collects the list first: without a lock of the linker, the callback may load libraries or stop threads. */
int ct_modules_each(int (*each)(void *arg, const struct ct_module_info *module), void *arg) {
    struct module_list list = {0};
    dl_iterate_phdr(collect_module, &list);
    int result = list.failed ? CT_ERR_NO_MEMORY : 0;
    for (size_t i = 0; i < list.count && !result; i++)
        result = each(arg, &list.items[i]);
    for (size_t i = 0; i < list.count; i++)
        free((char *)list.items[i].path);
    free(list.items);
    return result;
}
