/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the `symbols` file. The text is read once and only the beginnings of its lines are noted; the line of a
 * function is parsed, in place, when it is first needed. Lines that make no sense are left out; ct_symbols_problem
 * reports them. */
#include "base/grow.h"
#include "symbols/demangle.h"
#include "trace/reader.h"
#include "trace/symbols_format.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT   (UINT64_C(4) << 30)
#define MODULE_LIMIT (1u << 20)

struct function {
    char *line;                     /* NULL: no such function */
    struct ct_trace_function *info; /* NULL: not parsed yet */
};

struct module {
    struct ct_symbols_module info;
    const char *name; /* file name */
    struct function *functions;
    size_t count, room;
};

struct ct_symbols {
    char *text;
    struct module *modules;
    size_t module_count, module_room;
    size_t *by_id; /* index + 1 of the module with that id */
    size_t id_count;
    uint64_t function_count, line_count;
    const char *problem;
    bool total_seen;
    bool no_memory;
    bool mangled; /* show names as the file has them */
};

/* ---- columns ---- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Leaves *at after the tab that ends the column. */
static bool take_hex(char **at, uint64_t *value) {
    char *p = *at;
    *value = 0;
    for (int digit; (digit = hex_digit(*p)) >= 0; p++) {
        if (*value >> 60)
            return false;
        *value = *value << 4 | (uint64_t)digit;
    }
    if (p == *at || (*p != '\t' && *p))
        return false;
    *at = p + (*p == '\t');
    return true;
}

/* Unescapes in place and adds a NUL. A missing column is empty. */
static char *take_text(char **at) {
    char *start = *at, *to = start, *p = start;
    for (; *p && *p != '\t'; p++) {
        if (*p != '\\' || !p[1] || p[1] == '\t') {
            *to++ = *p;
            continue;
        }
        p++;
        if (*p == 'x' && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0) {
            *to++ = (char)(hex_digit(p[1]) << 4 | hex_digit(p[2]));
            p += 2;
        } else {
            *to++ = *p == 't' ? '\t' : *p == 'n' ? '\n' : *p;
        }
    }
    *at = p + (*p == '\t');
    *to = 0;
    return start;
}

/* ---- lines ---- */

static void note_problem(struct ct_symbols *symbols, const char *what) {
    if (!symbols->problem)
        symbols->problem = what;
}

/* Room for element `index` of an array; `array` points to the pointer to it. */
static bool make_room(struct ct_symbols *symbols, void *array, size_t *room, size_t index, size_t size) {
    bool made = ct_grow_zeroed(array, room, index, size, 64);
    symbols->no_memory |= !made;
    return made;
}

static void add_module(struct ct_symbols *symbols, char *at) {
    uint64_t id, base;
    if (!take_hex(&at, &id) || !take_hex(&at, &base) || id >= MODULE_LIMIT) {
        note_problem(symbols, "a line of a module is damaged");
        return;
    }
    if (!make_room(symbols, &symbols->by_id, &symbols->id_count, (size_t)id, sizeof *symbols->by_id) ||
        !make_room(symbols, &symbols->modules, &symbols->module_room, symbols->module_count, sizeof *symbols->modules))
        return;
    if (symbols->by_id[id]) {
        note_problem(symbols, "a module is in it twice");
        return;
    }
    struct module *module = &symbols->modules[symbols->module_count++];
    symbols->by_id[id] = symbols->module_count;
    module->info.id = (uint32_t)id;
    module->info.base = base;
    module->info.build_id = take_text(&at);
    module->info.path = take_text(&at);
    const char *slash = strrchr(module->info.path, '/');
    module->name = slash && slash[1] ? slash + 1 : module->info.path;
}

static struct module *module_of(const struct ct_symbols *symbols, uint64_t id) {
    size_t module = (size_t)(id >> 32);
    return module < symbols->id_count && symbols->by_id[module] ? &symbols->modules[symbols->by_id[module] - 1] : NULL;
}

static void add_function(struct ct_symbols *symbols, char *line) {
    uint64_t id;
    char *at = line;
    symbols->function_count++;
    if (!take_hex(&at, &id)) {
        note_problem(symbols, "a line of a function is damaged");
        return;
    }
    struct module *module = module_of(symbols, id);
    size_t index = (uint32_t)id;
    if (!module) {
        note_problem(symbols, "a function's module is not in it");
        return;
    }
    if (index >= symbols->line_count) { /* they are dense: such a large number is damage, and would take memory */
        note_problem(symbols, "a function's number is too large");
        return;
    }
    if (!make_room(symbols, &module->functions, &module->room, index, sizeof *module->functions))
        return;
    if (module->functions[index].line) {
        note_problem(symbols, "a function is in it twice");
        return;
    }
    module->functions[index].line = at;
    module->info.functions++;
    if (index >= module->count)
        module->count = index + 1;
}

static bool starts_with(char **at, const char *word) {
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0 || (*at)[length] != '\t')
        return false;
    *at += length + 1;
    return true;
}

static void add_line(struct ct_symbols *symbols, char *line) {
    uint64_t total;
    symbols->total_seen = false;
    if (hex_digit(*line) >= 0)
        add_function(symbols, line);
    else if (starts_with(&line, CT_SYMBOLS_MODULE))
        add_module(symbols, line);
    else if (starts_with(&line, CT_SYMBOLS_END)) {
        symbols->total_seen = true;
        if (!take_hex(&line, &total) || total != symbols->function_count)
            note_problem(symbols, "functions are missing in it");
    } /* kinds of lines of later versions are left out */
}

static void add_lines(struct ct_symbols *symbols, size_t size) {
    char *line = symbols->text, *end = line + size, *newline;
    if (size && memchr(line, 0, size)) {
        note_problem(symbols, "there are zero bytes in it"); /* a text ends at the first one */
        end = memchr(line, 0, size);
    }
    for (const char *p = line; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        symbols->line_count++;
    if (strncmp(line, CT_SYMBOLS_MAGIC, sizeof CT_SYMBOLS_MAGIC - 1) != 0) {
        symbols->problem = size ? "it is not a symbols file of version 1" : "it is empty";
        return;
    }
    for (bool first = true; (newline = memchr(line, '\n', (size_t)(end - line))); first = false) {
        *newline = 0;
        if (!first)
            add_line(symbols, line);
        line = newline + 1;
    }
    if (line != end || !symbols->total_seen)
        note_problem(symbols, "it is cut");
}

struct ct_symbols *ct_symbols_load(const char *directory) {
    size_t size;
    struct ct_symbols *symbols = calloc(1, sizeof *symbols);
    char *path = ct_file_path("%s/" CT_SYMBOLS_FILE, directory);
    if (!symbols || !path) {
        free(symbols);
        free(path);
        return NULL;
    }
    int error = ct_file_load(path, SIZE_LIMIT, &symbols->text, &size);
    free(path);
    if (error)
        symbols->problem = error == ENOENT ? "it does not exist" : "it cannot be read";
    else
        add_lines(symbols, size);
    if (symbols->no_memory) {
        ct_symbols_free(symbols);
        return NULL;
    }
    return symbols;
}

void ct_symbols_free(struct ct_symbols *symbols) {
    if (!symbols)
        return;
    for (size_t i = 0; i < symbols->module_count; i++) {
        struct module *module = &symbols->modules[i];
        for (size_t k = 0; k < module->count; k++)
            free(module->functions[k].info);
        free(module->functions);
    }
    free(symbols->modules);
    free(symbols->by_id);
    free(symbols->text);
    free(symbols);
}

/* ---- functions ---- */

/* A demangled name, or "module+0xoffset", is stored after the structure. */
static struct ct_trace_function *take_apart(const struct module *module, uint64_t id, char *line, bool mangled) {
    uint64_t offset, size;
    if (!take_hex(&line, &offset) || !take_hex(&line, &size))
        offset = size = 0;
    const char *name = take_text(&line), *skip = take_text(&line), *entry_only = take_text(&line);
    const char *place = take_text(&line), *inlines = take_text(&line);
    char *display = mangled ? NULL : ct_demangle(name);
    size_t room = display ? strlen(display) + 1 : *name ? 0 : strlen(module->name) + 32;
    struct ct_trace_function *info = malloc(sizeof *info + room);
    if (!info) {
        free(display);
        return NULL;
    }
    *info = (struct ct_trace_function){.size = sizeof *info,
                                       .id = id,
                                       .offset = offset,
                                       .length = size,
                                       .name = name,
                                       .module = module->name,
                                       .skip = skip,
                                       .entry_only = *entry_only != 0,
                                       .entry_only_reason = entry_only,
                                       .linkage_name = name,
                                       .line = place,
                                       .inlines = inlines};
    char *made = (char *)(info + 1);
    if (display)
        info->name = memcpy(made, display, room);
    free(display);
    if (!*name) {
        snprintf(made, room, "%s+0x%llx", module->name, (unsigned long long)offset);
        info->name = made;
    }
    return info;
}

const struct ct_trace_function *ct_symbols_find(struct ct_symbols *symbols, uint64_t id) {
    const struct module *module = symbols ? module_of(symbols, id) : NULL;
    size_t index = (uint32_t)id;
    if (!module || index >= module->count || !module->functions[index].line)
        return NULL;
    struct function *function = &module->functions[index];
    if (!function->info)
        function->info = take_apart(module, id, function->line, symbols->mangled);
    return function->info;
}

void ct_symbols_keep_mangled(struct ct_symbols *symbols) {
    symbols->mangled = true;
}

size_t ct_symbols_module_count(const struct ct_symbols *symbols) {
    return symbols ? symbols->module_count : 0;
}

struct ct_symbols_module ct_symbols_module_at(const struct ct_symbols *symbols, size_t index) {
    return symbols->modules[index].info;
}

struct ct_symbols_module ct_symbols_module_of(const struct ct_symbols *symbols, uint32_t id) {
    for (size_t i = 0; symbols && i < symbols->module_count; i++)
        if (symbols->modules[i].info.path && symbols->modules[i].info.id == id)
            return symbols->modules[i].info;
    return (struct ct_symbols_module){0};
}

const struct ct_trace_function *ct_symbols_at(struct ct_symbols *symbols, uint32_t module, uint64_t offset) {
    uint64_t low = 0, high = ct_symbols_module_of(symbols, module).functions;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const struct ct_trace_function *f = ct_symbols_find(symbols, (uint64_t)module << 32 | middle);
        if (f && f->offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? ct_symbols_find(symbols, (uint64_t)module << 32 | (low - 1)) : NULL;
}

/* Is there something in the column after `before` others, of a line that was not taken apart yet? */
static bool has_column(const char *line, int before) {
    while (before-- > 0) {
        line = strchr(line, '\t');
        if (!line++)
            return false;
    }
    return *line && *line != '\t';
}

bool ct_symbols_is_skipped(const struct ct_symbols *symbols, uint64_t id) {
    const struct module *module = symbols ? module_of(symbols, id) : NULL;
    size_t index = (uint32_t)id;
    if (!module || index >= module->count || !module->functions[index].line)
        return false;
    const struct function *f = &module->functions[index];
    return f->info ? *f->info->skip != 0 : has_column(f->line, 3); /* offset, size, name */
}

static bool line_is_entry_only(const char *line) {
    return has_column(line, 4); /* offset, size, name, skip */
}

uint64_t ct_symbols_entry_only(const struct ct_symbols *symbols) {
    uint64_t hash = 0;
    for (size_t i = 0; symbols && i < symbols->module_count; i++) {
        const struct module *module = &symbols->modules[i];
        for (size_t k = 0; k < module->count; k++) {
            const struct function *f = &module->functions[k];
            if (f->info ? f->info->entry_only : f->line && line_is_entry_only(f->line))
                hash = (hash ^ ((uint64_t)module->info.id << 32 | k)) * 0x100000001b3u;
        }
    }
    return hash;
}

const char *ct_symbols_problem(const struct ct_symbols *symbols) {
    return symbols ? symbols->problem : "there is no memory for it";
}
