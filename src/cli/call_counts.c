/* SPDX-License-Identifier: Apache-2.0 */
/* See call_counts.h. */
#include "cli/call_counts.h"
#include "base/grow.h"
#include "trace/reader.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (256u << 20) /* of a table */

static int by_name(const void *a, const void *b) {
    const struct ct_call_count *left = a, *right = b;
    return strcmp(left->name, right->name);
}

static int by_count(const void *a, const void *b) {
    const struct ct_call_count *left = a, *right = b;
    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return left->id != right->id ? (left->id < right->id ? -1 : 1) : by_name(a, b);
}

static bool add_call(struct ct_call_counts *c, const struct ct_trace_function *f, uint64_t id, uint64_t count) {
    char *name = NULL;
    if (!ct_grow(&c->list, &c->room, c->count, sizeof *c->list, 1024))
        return false;
    if ((f ? asprintf(&name, "%s [%s]", f->name, f->module) : asprintf(&name, "?")) < 0)
        return false;
    c->list[c->count++] = (struct ct_call_count){name, id, count};
    c->calls += count;
    return true;
}

/* One row for each name. */
static void merge(struct ct_call_counts *c) {
    size_t n = 0;
    if (c->count)
        qsort(c->list, c->count, sizeof *c->list, by_name);
    for (size_t i = 0; i < c->count; i++) {
        if (!n || strcmp(c->list[n - 1].name, c->list[i].name)) {
            c->list[n++] = c->list[i];
            continue;
        }
        c->list[n - 1].count += c->list[i].count;
        if (c->list[i].id < c->list[n - 1].id)
            c->list[n - 1].id = c->list[i].id;
        free(c->list[i].name);
    }
    c->count = n;
}

/* `line`: of this length, not ended by a 0. */
static bool add_line(struct ct_call_counts *c, struct ct_symbols *symbols, const char *line, size_t length) {
    uint64_t id, address, count;
    char text[128];
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text), line);
    return sscanf(text, "call\t%" SCNx64 "\t%" SCNx64 "\t%" SCNu64, &id, &address, &count) != 3 ||
           add_call(c, ct_symbols_find(symbols, id), id, count);
}

static bool add_lines(struct ct_call_counts *c, struct ct_symbols *symbols, const char *text) {
    bool good = true;
    for (size_t length; good && *text; text += length + (text[length] != 0)) {
        length = strcspn(text, "\n");
        good = add_line(c, symbols, text, length);
    }
    return good;
}

int ct_call_counts_add(struct ct_call_counts *c, const char *directory) {
    char *path = ct_file_path("%s/" CT_CALLS_FILE, directory), *text = NULL;
    size_t size;
    int error = path ? ct_file_load(path, MOST_BYTES, &text, &size) : ENOMEM;
    struct ct_symbols *symbols = error ? NULL : ct_symbols_load(directory);
    if (!error && !add_lines(c, symbols, text))
        error = ENOMEM;
    merge(c);
    ct_symbols_free(symbols);
    free(text);
    free(path);
    return error;
}

void ct_call_counts_sort(struct ct_call_counts *c) {
    if (c->count)
        qsort(c->list, c->count, sizeof *c->list, by_count);
}

void ct_call_counts_free(struct ct_call_counts *c) {
    for (size_t i = 0; i < c->count; i++)
        free(c->list[i].name);
    free(c->list);
    *c = (struct ct_call_counts){0};
}
