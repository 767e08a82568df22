/* SPDX-License-Identifier: Apache-2.0 */
/* The public hook API: functions by their names, and why a call has failed. See contrail/hook.h. */
#include "base/grow.h"
#include "hook/set.h"
#include "symbols/name_match.h"
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- modules ---- */

/* Where the code of each loaded module begins, in the order of the loader. */
struct module_list {
    uint64_t *starts;
    size_t count, capacity;
    bool no_memory;
};

static int add_module(struct dl_phdr_info *info, size_t size, void *arg) {
    struct module_list *list = arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        if (!ct_grow(&list->starts, &list->capacity, list->count, sizeof *list->starts, 64)) {
            list->no_memory = true;
            return 1;
        }
        list->starts[list->count++] = info->dlpi_addr + segment->p_vaddr;
        break;
    }
    return 0;
}

/* ---- names ---- */

/* The name as a glob that matches only itself: operators have stars. NULL: no memory. */
static char *glob_of(const char *name) {
    char *glob = malloc(2 * strlen(name) + 1), *out = glob;
    for (; glob && *name; name++) {
        if (strchr("*?[\\", *name))
            *out++ = '\\';
        *out++ = *name;
    }
    if (glob)
        *out = 0;
    return glob;
}

static uint64_t find_in_module(const struct ct_hook_module *m, const char *glob) {
    const char *const globs[] = {glob, NULL};
    for (size_t i = 0; i < m->scan.func_count; i++)
        if (!(m->functions[i].flags & (CT_FUNC_PLT | CT_FUNC_COLD)) && ct_name_fits(globs, m->functions[i].name))
            return m->scan.funcs[i].start;
    return 0;
}

static int find_anywhere(struct ct_hooks *set, const char *glob, uint64_t *found) {
    struct module_list list = {0};
    dl_iterate_phdr(add_module, &list);
    int status = list.no_memory ? CT_ERR_NO_MEMORY : 0;
    for (size_t i = 0; i < list.count && !status && !*found; i++) {
        struct ct_hook_module *m;
        status = ct_hook_module_at(&set->code, list.starts[i], &m);
        if (!status)
            *found = find_in_module(m, glob);
        else if (status != CT_ERR_NO_MEMORY)
            status = 0; /* the vdso, or a module that was just unloaded */
    }
    free(list.starts);
    return status;
}

static int find_named(struct ct_hooks *set, const char *name, uint64_t *found) {
    const char *mark = strchr(name, '!');
    char *glob = glob_of(mark ? mark + 1 : name), *module = mark ? strndup(name, (size_t)(mark - name)) : NULL;
    struct ct_hook_module *m;
    int status = !glob || (mark && !module) ? CT_ERR_NO_MEMORY : 0;
    if (!status && mark)
        status = ct_hook_module_named(&set->code, module, &m);
    if (!status && mark)
        *found = find_in_module(m, glob);
    else if (!status)
        status = find_anywhere(set, glob, found);
    free(glob);
    free(module);
    return status ? status : *found ? 0 : CT_ERR_NOT_FOUND;
}

int ct_hooks_find(struct ct_hooks *set, const char *name, void **function) {
    uint64_t found = 0;
    if (!name || !*name || !function)
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    (void)ct_hook_code_map_refresh(&set->code);
    int status = find_named(set, name, &found);
    if (!status)
        *function = (void *)found;
    return ct_set_unlock(set, g, status);
}

/* ---- reasons ---- */

void ct_set_note_failure(struct ct_hooks *set, uint64_t function, const struct ct_hook_module *m, int status,
                         enum ct_hook_skip_reason skip) {
    long index = m ? ct_scan_find(&m->scan, function) : -1;
    const char *name = index >= 0 ? m->functions[index].name : "";
    const char *slash = m && m->path ? strrchr(m->path, '/') : NULL;
    snprintf(set->reason, sizeof set->reason, "%s%s%#llx%s%s%s%s: %s", name, *name ? " (" : "",
             (unsigned long long)function, *name ? ")" : "", slash ? " [" : "", slash ? slash + 1 : "",
             slash ? "]" : "", skip ? ct_hook_skip_text(skip) : ct_status_text(status));
}

int ct_hooks_reason(struct ct_hooks *set, char *text, size_t size) {
    if (!text || !size)
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    snprintf(text, size, "%s", set->reason);
    return ct_set_unlock(set, g, 0);
}
