/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in a `symbols` file: see symbolize.h. One pass over its text; the new text is collected in memory first. */
#include "trace/symbolize.h"
#include "base/grow.h"
#include "trace/file.h"
#include "trace/symbols_format.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE_LIMIT   ((size_t)4 << 30)
#define MODULE_LIMIT 65536u

/* Columns of a function's line. */
enum { ID, OFFSET, SIZE, NAME, SKIP, ENTRY_ONLY, LINE, INLINES, COLUMNS };

struct span {
    const char *at;
    size_t length;
};

struct module {
    struct ct_symbolize_module info;
    struct ct_lookup_module *lookup;
    char *path, *build_id;
    uint64_t checked, fitting; /* without a build-id: functions that were searched for, and found */
};

struct work {
    struct ct_lookup *lookup;
    struct module *modules;
    size_t module_count, module_room;
    char *text; /* the new file */
    size_t length, room;
    bool no_memory;
};

/* ---- the new text ---- */

static void add_text(struct work *w, const char *text, size_t length) {
    if (length > w->room - w->length) {
        size_t room = w->room ? w->room : 65536;
        while (length > room - w->length)
            room *= 2;
        char *grown = realloc(w->text, room);
        if (!grown) {
            w->no_memory = true;
            return;
        }
        w->text = grown;
        w->room = room;
    }
    memcpy(w->text + w->length, text, length);
    w->length += length;
}

/* Escapes as the writer of the file does. */
static void add_escaped(struct work *w, const char *text) {
    for (; *text && !w->no_memory; text++) {
        char escaped[8];
        uint8_t c = (uint8_t)*text;
        if (c >= 0x20 && c != '\\' && c != 0x7f)
            add_text(w, text, 1);
        else if (c == '\\' || c == '\t' || c == '\n')
            add_text(w, c == '\t' ? "\\t" : c == '\n' ? "\\n" : "\\\\", 2);
        else
            add_text(w, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\x%02x", c));
    }
}

/* ---- reading ---- */

static bool parse_hex(struct span column, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < column.length; i++) {
        char c = column.at[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0 || *value >> 60)
            return false;
        *value = *value << 4 | (uint64_t)digit;
    }
    return column.length != 0;
}

/* Splits a line into at most `count` columns; the last one has the rest of the line. Returns their number. */
static size_t split_line(const char *line, size_t length, struct span *columns, size_t count) {
    size_t n = 0;
    const char *end = line + length;
    for (;;) {
        const char *tab = n + 1 < count ? memchr(line, '\t', (size_t)(end - line)) : NULL;
        columns[n++] = (struct span){line, (size_t)((tab ? tab : end) - line)};
        if (!tab)
            return n;
        line = tab + 1;
    }
}

/* Paths with escapes are rare; such modules are found by build-id only. */
static char *copy_text(struct span column) {
    return strndup(column.at, column.length);
}

static void add_module(struct work *w, const char *line, size_t length) {
    struct span columns[6];
    uint64_t id;
    if (split_line(line, length, columns, 6) < 5 || !parse_hex(columns[1], &id) || w->module_count >= MODULE_LIMIT)
        return;
    if (!ct_grow(&w->modules, &w->module_room, w->module_count, sizeof *w->modules, 16)) {
        w->no_memory = true;
        return;
    }
    struct module *m = &w->modules[w->module_count];
    *m = (struct module){.path = copy_text(columns[4]), .build_id = copy_text(columns[3])};
    m->lookup = m->path && m->build_id ? ct_lookup_module(w->lookup, m->path, m->build_id) : NULL;
    m->info.id = (uint32_t)id;
    w->module_count++;
    w->no_memory |= !m->lookup;
}

static struct module *module_of(struct work *w, uint64_t id) {
    for (size_t i = w->module_count; i-- > 0;)
        if (w->modules[i].info.id == id >> 32)
            return &w->modules[i];
    return NULL;
}

/* ---- functions ---- */

static void add_found(struct work *w, struct module *m, const struct span *columns, size_t count,
                      const struct ct_lookup_result *found) {
    m->info.functions++;
    m->info.named_before += columns[NAME].length != 0;
    m->info.named += columns[NAME].length || *found->name;
    m->info.lines += *found->line || (count > LINE && columns[LINE].length);
    m->info.inlines += *found->inlines || (count > INLINES && columns[INLINES].length);
    for (size_t i = 0; i < COLUMNS; i++) {
        const char *value = i == LINE ? found->line : i == INLINES ? found->inlines : "";
        if (i == NAME && !columns[NAME].length)
            value = found->name;
        if (i == INLINES && count <= INLINES && !*value)
            break;
        if (i)
            add_text(w, "\t", 1);
        if (*value)
            add_escaped(w, value);
        else if (i < count)
            add_text(w, columns[i].at, columns[i].length);
    }
    if (count > COLUMNS) { /* columns of later versions */
        add_text(w, "\t", 1);
        add_text(w, columns[COLUMNS].at, columns[COLUMNS].length);
    }
}

static void add_function(struct work *w, const char *line, size_t length) {
    struct span columns[COLUMNS + 1];
    size_t count = split_line(line, length, columns, COLUMNS + 1);
    uint64_t id, offset;
    struct module *m =
        count > NAME && parse_hex(columns[ID], &id) && parse_hex(columns[OFFSET], &offset) ? module_of(w, id) : NULL;
    if (!m) {
        add_text(w, line, length);
        return;
    }
    struct ct_lookup_result found = ct_lookup_find(w->lookup, m->lookup, offset);
    add_found(w, m, columns, count, &found);
}

/* A module without a build-id: compares functions, to find out whether the file at its path is the recorded one. */
static void check_function(struct work *w, const char *line, size_t length) {
    struct span columns[COLUMNS + 1];
    size_t count = split_line(line, length, columns, COLUMNS + 1);
    uint64_t id, offset;
    if (count <= NAME || !parse_hex(columns[ID], &id) || !parse_hex(columns[OFFSET], &offset))
        return;
    struct module *m = module_of(w, id);
    if (!m || *m->build_id || ct_lookup_module_state(m->lookup) != CT_LOOKUP_FOUND)
        return;
    m->checked++;
    m->fitting += ct_lookup_has_function(w->lookup, m->lookup, offset);
}

static void refuse_others(struct work *w) {
    for (size_t i = 0; i < w->module_count; i++) {
        struct module *m = &w->modules[i];
        if (m->checked && m->fitting * 10 < m->checked * 9)
            ct_lookup_refuse(m->lookup);
    }
}

/* ---- all lines ---- */

static bool is_function(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool is_module(const char *line, size_t length) {
    const size_t word = sizeof CT_SYMBOLS_MODULE - 1;
    return length > word && memcmp(line, CT_SYMBOLS_MODULE, word) == 0 && line[word] == '\t';
}

/* Called twice: for modules and checks first, then for the new text. */
static void each_line(struct work *w, const char *text, size_t size, bool writing) {
    const char *end = text + size, *newline;
    for (bool first = true; !w->no_memory && (newline = memchr(text, '\n', (size_t)(end - text))); first = false) {
        size_t length = (size_t)(newline - text);
        bool function = !first && length && is_function(*text) && !is_module(text, length);
        if (!writing && function)
            check_function(w, text, length);
        else if (!writing && !first && is_module(text, length))
            add_module(w, text, length);
        else if (writing && function)
            add_function(w, text, length);
        else if (writing)
            add_text(w, text, length);
        if (writing && first && !memmem(text, length, "\tinlines", 8))
            add_text(w, "\tinlines", 8);
        if (writing)
            add_text(w, "\n", 1);
        text = newline + 1;
    }
    if (writing && text < end)
        add_text(w, text, (size_t)(end - text)); /* the line is cut */
}

/* A file of our own, because another process may do this at the same time. Users who can read the old file can read
 * it. */
static int make_fresh(struct ct_place *place, const char *name) {
    struct stat old;
    int there = ct_file_open_in(place, CT_SYMBOLS_FILE, O_RDONLY | O_NONBLOCK);
    int fd = ct_file_open_fresh(place, name);
    if (fd >= 0 && there >= 0 && fstat(there, &old) == 0) {
        mode_t kept = fchown(fd, (uid_t)-1, old.st_gid) == 0 ? 0666 : 0606;
        (void)fchmod(fd, old.st_mode & kept);
    }
    if (there >= 0)
        close(there);
    return fd;
}

static int replace_file(const char *directory, const struct work *w) {
    struct ct_place *place;
    char fresh[64];
    size_t done;
    int fd = -1, error = ct_place_open(&place, directory, 0, CT_PLACE_NO_GROUP);
    snprintf(fresh, sizeof fresh, "." CT_SYMBOLS_FILE ".%d", (int)getpid());
    if (!error && (fd = make_fresh(place, fresh)) < 0)
        error = -fd;
    if (!error)
        error = ct_file_write(fd, w->text, w->length, 0, 0, &done);
    if (!error && fsync(fd))
        error = errno;
    if (fd >= 0 && close(fd) && !error)
        error = errno;
    if (!error)
        error = ct_place_replace(place, fresh, CT_SYMBOLS_FILE);
    if (error && fd >= 0)
        (void)ct_place_remove(place, fresh);
    ct_place_drop(place);
    errno = error;
    return ct_file_status(error);
}

static void report_modules(struct work *w, struct ct_symbolize_totals *totals,
                           void (*each)(void *arg, const struct ct_symbolize_module *module), void *arg) {
    for (size_t i = 0; i < w->module_count; i++) {
        struct module *m = &w->modules[i];
        m->info.path = m->path;
        m->info.build_id = m->build_id;
        m->info.state = ct_lookup_module_state(m->lookup);
        m->info.file = ct_lookup_module_file(m->lookup);
        m->info.line_file = ct_lookup_module_lines(m->lookup);
        m->info.problem = ct_lookup_module_problem(m->lookup);
        totals->modules++;
        totals->modules_found += m->info.state == CT_LOOKUP_FOUND;
        totals->functions += m->info.functions;
        totals->named_before += m->info.named_before;
        totals->named += m->info.named;
        totals->lines += m->info.lines;
        totals->inlines += m->info.inlines;
        each(arg, &m->info);
    }
}

int ct_symbolize(const char *directory, struct ct_lookup *lookup, struct ct_symbolize_totals *totals,
                 void (*each)(void *arg, const struct ct_symbolize_module *module), void *arg) {
    struct work w = {.lookup = lookup};
    char *path = ct_file_path("%s/" CT_SYMBOLS_FILE, directory), *text = NULL;
    size_t size;
    int error = path ? ct_file_load(path, SIZE_LIMIT, &text, &size) : ENOMEM;
    int status = error == ENOENT ? CT_ERR_NOT_FOUND : error ? ct_file_status(error) : 0;
    if (!status && strncmp(text, CT_SYMBOLS_MAGIC, sizeof CT_SYMBOLS_MAGIC - 1) != 0)
        status = CT_ERR_BAD_FILE;
    if (!status) {
        each_line(&w, text, size, false);
        refuse_others(&w);
        each_line(&w, text, size, true);
        status = w.no_memory ? CT_ERR_NO_MEMORY : replace_file(directory, &w);
    }
    if (!status)
        report_modules(&w, totals, each, arg);
    for (size_t i = 0; i < w.module_count; i++) {
        free(w.modules[i].path);
        free(w.modules[i].build_id);
    }
    free(w.modules);
    free(w.text);
    free(text);
    free(path);
    return status;
}
