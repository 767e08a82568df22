/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up symbols of modules by path and build-id: see lookup.h. */
#include "symbols/lookup.h"
#include "symbols/debug_file.h"
#include "symbols/lines.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPEN = 8, LINE_ROOM = 8192, INLINES_ROOM = 32768, NAME_ROOM = 65536 };

struct ct_lookup_module {
    struct ct_lookup_module *next;
    char *path, *build_id;
    uint64_t number;
    enum ct_lookup_state state;
    char file[PATH_MAX], debug_file[PATH_MAX], line_file[PATH_MAX];
    const char *problem;
    /* Valid while it is open: */
    struct ct_functions *functions;
    struct ct_lines *lines;
    uint64_t used; /* time of the last use; 0: not open */
};

struct ct_lookup {
    struct ct_lookup_options options;
    const char **directories; /* the user's and the usual one */
    struct ct_lookup_module *modules;
    struct ct_lookup_cache *cache;
    uint64_t module_count, time;
    size_t open_count;
    char *room; /* of the last result: name, line, inlines, each terminated */
};

struct ct_lookup *ct_lookup_create(const struct ct_lookup_options *options) {
    struct ct_lookup *l = calloc(1, sizeof *l);
    size_t count = 0;
    if (!l)
        return NULL;
    l->options = *options;
    while (options->directories && options->directories[count])
        count++;
    l->directories = calloc(count + 2, sizeof *l->directories);
    l->cache = ct_lookup_cache_create(options->cache_bytes);
    l->room = malloc(NAME_ROOM + LINE_ROOM + INLINES_ROOM);
    if (!l->directories || !l->cache || !l->room) {
        ct_lookup_destroy(l);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        l->directories[i] = options->directories[i];
    l->directories[count] = "/usr/lib/debug";
    return l;
}

static void close_module(struct ct_lookup *l, struct ct_lookup_module *m) {
    if (!m->used)
        return;
    ct_functions_close(m->functions);
    ct_lines_close(m->lines);
    m->functions = NULL;
    m->lines = NULL;
    m->used = 0;
    l->open_count--;
}

void ct_lookup_destroy(struct ct_lookup *l) {
    if (!l)
        return;
    for (struct ct_lookup_module *m = l->modules, *next; m; m = next) {
        next = m->next;
        close_module(l, m);
        free(m->path);
        free(m->build_id);
        free(m);
    }
    ct_lookup_cache_destroy(l->cache);
    free((void *)l->directories);
    free(l->room);
    free(l);
}

/* ---- files ---- */

static bool has_lines(const struct ct_elf *elf) {
    struct ct_elf_section section;
    return ct_elf_section_named(elf, ".debug_line", &section) || ct_elf_section_named(elf, ".zdebug_line", &section);
}

/* Accepts the file if it is the module's; a different file at the module's own path is noted. */
static bool try_file(struct ct_lookup_module *m, const char *path) {
    struct ct_debug_file file;
    char build_id[CT_BUILD_ID_TEXT];
    if (!ct_debug_file_map(&file, path))
        return false;
    ct_elf_build_id(&file.elf, build_id);
    ct_debug_file_close(&file);
    bool right = strcmp(build_id, m->build_id) == 0;
    if (right) {
        snprintf(m->file, sizeof m->file, "%s", path);
        m->state = CT_LOOKUP_FOUND;
    } else if (!strcmp(path, m->path)) {
        m->state = CT_LOOKUP_OTHER_FILE;
    }
    return right;
}

/* Accepts the module's debug file, which only a build-id identifies. */
static bool try_debug(struct ct_lookup_module *m, const char *path) {
    struct ct_debug_file file;
    char build_id[CT_BUILD_ID_TEXT];
    if (!*m->build_id || !ct_debug_file_map(&file, path))
        return false;
    ct_elf_build_id(&file.elf, build_id);
    bool lines = has_lines(&file.elf), right = strcmp(build_id, m->build_id) == 0;
    bool better = lines || ct_debug_has_symbols(&file.elf);
    ct_debug_file_close(&file);
    if (!right || !better)
        return false;
    snprintf(m->debug_file, sizeof m->debug_file, "%s", path);
    if (lines)
        snprintf(m->line_file, sizeof m->line_file, "%s", path);
    return true;
}

static bool try_below(struct ct_lookup_module *m, const char *directory,
                      bool (*take)(struct ct_lookup_module *m, const char *path)) {
    char path[PATH_MAX];
    const char *slash = strrchr(m->path, '/'), *name = slash ? slash + 1 : m->path;
    const char *const ways[][3] = {{"", m->path, ""}, {"/", name, ""}, {"/", name, ".debug"}};
    if (strlen(m->build_id) > 2)
        for (int debug = 0; debug < 2; debug++) {
            int length = snprintf(path, sizeof path, "%s/.build-id/%.2s/%s%s", directory, m->build_id, m->build_id + 2,
                                  debug ? ".debug" : "");
            if (length < (int)sizeof path && take(m, path))
                return true;
        }
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int length = snprintf(path, sizeof path, "%s%s%s%s", directory, ways[i][0], ways[i][1], ways[i][2]);
        if (*name && *m->path == '/' && length < (int)sizeof path && take(m, path))
            return true;
    }
    return false;
}

static void find_file(struct ct_lookup *l, struct ct_lookup_module *m) {
    m->state = CT_LOOKUP_MISSING;
    if (*m->path == '/' && try_file(m, m->path))
        return;
    for (size_t i = 0; l->directories[i]; i++)
        if (try_below(m, l->directories[i], try_file))
            return;
}

/* Finds names and lines that the module itself does not have. */
static void find_debug(struct ct_lookup *l, struct ct_lookup_module *m) {
    struct ct_debug_file file, debug;
    struct ct_debug_search search = {.path = m->path, .directories = l->directories};
    if (!ct_debug_file_map(&file, m->file))
        return;
    if (has_lines(&file.elf)) {
        snprintf(m->line_file, sizeof m->line_file, "%s", m->file);
    } else if (ct_debug_file_find(&debug, &file.elf, &search)) {
        snprintf(m->debug_file, sizeof m->debug_file, "%s", debug.path);
        if (has_lines(&debug.elf))
            snprintf(m->line_file, sizeof m->line_file, "%s", debug.path);
        ct_debug_file_close(&debug);
    }
    ct_debug_file_close(&file);
    for (size_t i = 0; l->directories[i] && !m->line_file[0]; i++)
        try_below(m, l->directories[i], try_debug);
}

/* ---- modules ---- */

struct ct_lookup_module *ct_lookup_module(struct ct_lookup *l, const char *path, const char *build_id) {
    struct ct_lookup_module *m;
    for (m = l->modules; m; m = m->next)
        if (!strcmp(m->path, path) && !strcmp(m->build_id, build_id))
            return m;
    m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->path = strdup(path);
    m->build_id = strdup(build_id);
    m->number = ++l->module_count;
    m->problem = "";
    m->next = l->modules;
    l->modules = m;
    if (!m->path || !m->build_id) {
        l->modules = m->next;
        free(m->path);
        free(m->build_id);
        free(m);
        return NULL;
    }
    find_file(l, m);
    if (m->state == CT_LOOKUP_FOUND)
        find_debug(l, m);
    return m;
}

enum ct_lookup_state ct_lookup_module_state(struct ct_lookup_module *m) {
    return m->state;
}

void ct_lookup_refuse(struct ct_lookup_module *m) {
    m->state = CT_LOOKUP_OTHER_FILE;
    m->file[0] = m->line_file[0] = 0;
}

const char *ct_lookup_module_file(const struct ct_lookup_module *m) {
    return m->file;
}

const char *ct_lookup_module_debug(const struct ct_lookup_module *m) {
    return m->debug_file;
}

const char *ct_lookup_module_lines(const struct ct_lookup_module *m) {
    return m->line_file;
}

const char *ct_lookup_module_problem(const struct ct_lookup_module *m) {
    return m->problem;
}

static void close_oldest(struct ct_lookup *l) {
    struct ct_lookup_module *oldest = NULL;
    for (struct ct_lookup_module *m = l->modules; m; m = m->next)
        if (m->used && (!oldest || m->used < oldest->used))
            oldest = m;
    if (oldest)
        close_module(l, oldest);
}

static void open_lines(struct ct_lookup_module *m) {
    if (!m->line_file[0])
        return;
    int status = ct_lines_open(&m->lines, m->line_file);
    if (status == CT_ERR_UNSUPPORTED)
        m->problem = "libdw.so.1 is not installed (Debian package libdw1)";
    else if (status)
        m->problem = "its debug information cannot be read";
    else if (ct_lines_missing_units(m->lines))
        m->problem = "some of its .dwo files (-gsplit-dwarf) are missing: inlined functions are not known there";
}

static void open_functions(struct ct_lookup *l, struct ct_lookup_module *m) {
    struct ct_debug_file file;
    struct ct_debug_search search = {.path = m->path, .directories = l->directories};
    if (m->debug_file[0])
        search.file = m->debug_file;
    if (!ct_debug_file_map(&file, m->file))
        return;
    if (ct_functions_open_image_full(&m->functions, file.bytes, file.size, &search))
        m->functions = NULL;
    ct_debug_file_close(&file);
}

static void open_module(struct ct_lookup *l, struct ct_lookup_module *m) {
    bool open = m->used != 0;
    if (!open && l->open_count == MAX_OPEN)
        close_oldest(l);
    m->used = ++l->time;
    if (open)
        return;
    l->open_count++;
    if (m->state != CT_LOOKUP_FOUND)
        return;
    open_functions(l, m);
    open_lines(m);
}

bool ct_lookup_has_function(struct ct_lookup *l, struct ct_lookup_module *m, uint64_t offset) {
    open_module(l, m);
    const struct ct_func *f = m->functions ? ct_functions_find(m->functions, offset) : NULL;
    return f && f->offset == offset;
}

/* ---- lookups ---- */

static struct ct_lookup_result result_of(const char *bytes) {
    struct ct_lookup_result result = {.name = bytes};
    result.line = result.name + strlen(result.name) + 1;
    result.inlines = result.line + strlen(result.line) + 1;
    return result;
}

/* Stores three texts, one after the other; returns their size. */
static size_t look_up(struct ct_lookup *l, struct ct_lookup_module *m, uint64_t offset) {
    const struct ct_func *f = m->functions ? ct_functions_find(m->functions, offset) : NULL;
    const char *name = f && f->offset == offset ? ct_functions_name(m->functions, f) : "";
    size_t length = strnlen(name, NAME_ROOM);
    if (length >= NAME_ROOM)
        length = 0;
    memcpy(l->room, name, length);
    l->room[length++] = 0;
    char *line = l->room + length;
    if (!m->lines || !ct_lines_find(m->lines, offset, line, LINE_ROOM))
        *line = 0;
    char *inlines = line + strlen(line) + 1;
    if (!m->lines || !l->options.inlines || !ct_lines_inlines(m->lines, offset, inlines, INLINES_ROOM))
        *inlines = 0;
    return (size_t)(inlines - l->room) + strlen(inlines) + 1;
}

struct ct_lookup_result ct_lookup_find(struct ct_lookup *l, struct ct_lookup_module *m, uint64_t offset) {
    size_t size;
    if (m->state != CT_LOOKUP_FOUND)
        return (struct ct_lookup_result){"", "", ""};
    const char *cached = ct_lookup_cache_get(l->cache, m->number, offset, &size);
    if (cached)
        return result_of(cached);
    open_module(l, m);
    size = look_up(l, m, offset);
    ct_lookup_cache_put(l->cache, m->number, offset, l->room, size);
    return result_of(l->room);
}

const char *ct_lookup_line_at(struct ct_lookup *l, struct ct_lookup_module *m, uint64_t offset) {
    if (m->state != CT_LOOKUP_FOUND)
        return "";
    open_module(l, m);
    return m->lines && ct_lines_at(m->lines, offset, l->room, LINE_ROOM) ? l->room : "";
}

struct ct_lookup_cache_stats ct_lookup_stats(const struct ct_lookup *l) {
    return ct_lookup_cache_stats(l->cache);
}
