/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a trace, looked up once. */
#include "export/names.h"
#include "base/grow.h"
#include "export/text.h"
#include "base/json_write.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool add_to_list(struct ct_names *n, struct ct_name *name) {
    if (!ct_grow(&n->list, &n->capacity, n->count, sizeof *n->list, 1024))
        return false;
    name->number = n->count;
    n->list[n->count++] = name;
    return true;
}

/* The text itself when it is clean, a copy otherwise. NULL: out of memory. */
static const char *clean_text(const char *text, char **copy) {
    *copy = ct_text_copy(text);
    if (!*copy || strcmp(*copy, text) != 0)
        return *copy;
    free(*copy);
    *copy = NULL;
    return text;
}

/* Splits "file:line". */
static bool learn_line(struct ct_name *name, const char *text) {
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text)
        return true;
    name->line = strtoull(colon + 1, NULL, 10);
    name->file = ct_text_copy(text);
    if (name->file && strrchr(name->file, ':'))
        *strrchr(name->file, ':') = 0;
    return name->file != NULL;
}

static bool learn_name(struct ct_names *n, struct ct_name *name) {
    uint64_t id = name->key.function;
    if (n->lock)
        pthread_mutex_lock(n->lock);
    const struct ct_trace_function *f = ct_trace_function(n->trace, name->key.process, id);
    if (n->lock)
        pthread_mutex_unlock(n->lock);
    if (!add_to_list(n, name) || (f && !learn_line(name, f->line)))
        return false;
    if (!f)
        snprintf(name->made_name, sizeof name->made_name, "function_%u_%u", (unsigned)(id >> 32), (unsigned)id);
    name->entry_only = f && f->entry_only;
    name->module = clean_text(f ? f->module : "", &name->clean_module);
    const char *text = clean_text(f ? f->name : name->made_name, &name->clean);
    name->name = name->module ? text : NULL;
    return name->name && (!n->quoted || ct_name_json(name));
}

struct ct_name *ct_names_find(struct ct_names *n, size_t process, uint64_t function) {
    struct ct_name *name = ct_table_get(&n->table, process, function, sizeof *name);
    return name && (name->name || learn_name(n, name)) ? name : NULL;
}

struct ct_name *ct_names_other(struct ct_names *n, uint64_t number, const char *text) {
    struct ct_name *name = ct_table_get(&n->table, SIZE_MAX, number, sizeof *name); /* of no process */
    if (!name || name->name)
        return name;
    name->module = "";
    name->name = text;
    return add_to_list(n, name) ? name : NULL;
}

char *ct_json_quote(const char *text) {
    struct ct_json json = {0};
    ct_json_begin(&json, NULL, '[');
    ct_json_string(&json, NULL, text);
    ct_json_end(&json, ']');
    char *first = json.failed ? NULL : strchr(json.text, '"');
    char *last = first ? strrchr(json.text, '"') : NULL;
    char *quoted = first ? strndup(first, (size_t)(last - first) + 1) : NULL;
    ct_json_free(&json);
    return quoted;
}

const char *ct_name_json(struct ct_name *name) {
    if (!name->json)
        name->json = ct_json_quote(name->name);
    return name->json;
}

static void release_name(void *thing) {
    struct ct_name *name = thing;
    free((char *)name->json);
    free(name->clean);
    free(name->file);
    free(name->clean_module);
}

void ct_names_free(struct ct_names *n) {
    ct_table_free(&n->table, release_name);
    free(n->list);
    *n = (struct ct_names){0};
}
