/* SPDX-License-Identifier: Apache-2.0 */
/* Turns sorted candidates into functions: one per address, with the best name, a size and flags. */
#include "symbols/eh_frame.h"
#include "symbols/table.h"
#include <contrail/status.h>
#include <stdlib.h>

/* The candidates of one address. */
struct group {
    const struct ct_candidate *items;
    size_t count;
};

struct merger {
    struct ct_functions *table;
    const struct ct_eh_frame *frame;
    const struct ct_candidate *around; /* the FDE so far that reaches farthest */
};

/* True when `a` is a better name than `b`: typed before untyped, global before local, plain before underscored, short
 * before long; then by alphabet, so that the choice does not depend on the order in the file. */
static bool better_name(const struct ct_functions *table, const struct ct_candidate *a, const struct ct_candidate *b) {
    if (a->kind != b->kind)
        return a->kind > b->kind;
    if ((a->flags ^ b->flags) & CT_FUNC_GLOBAL)
        return a->flags & CT_FUNC_GLOBAL;
    const char *left = table->names + a->name, *right = table->names + b->name;
    if ((*left == '_') != (*right == '_'))
        return *right == '_';
    size_t left_length = ct_symbol_name_length(left), right_length = ct_symbol_name_length(right);
    if (left_length != right_length)
        return left_length < right_length;
    return memcmp(left, right, left_length) < 0;
}

static const struct ct_candidate *best_named(const struct ct_functions *table, const struct group *group) {
    const struct ct_candidate *best = NULL;
    for (size_t i = 0; i < group->count; i++) {
        const struct ct_candidate *item = &group->items[i];
        if (item->name && (!best || better_name(table, item, best)))
            best = item;
    }
    return best;
}

/* The size of the symbol that names it, of any other symbol, of the FDE, of a debug file's symbol, in this order; 0
 * when none has one. */
static uint64_t size_of(const struct group *group, const struct ct_candidate *best) {
    uint64_t symbol = 0, fde = 0, lent = 0;
    if (best && best->size && !best->lent)
        return best->size;
    for (size_t i = 0; i < group->count; i++) {
        const struct ct_candidate *item = &group->items[i];
        uint64_t *size = item->kind == CT_FROM_FDE ? &fde : item->lent ? &lent : &symbol;
        if (item->size > *size)
            *size = item->size;
    }
    return symbol ? symbol : fde ? fde : best && best->size ? best->size : lent;
}

/* Inside a range that the module itself describes as one function, only the name of a debug file is used: the file may
 * be damaged or wrong, and a hook there would break the program. */
static bool is_doubtful(const struct merger *m, const struct group *group) {
    uint64_t offset = group->items->offset;
    if (!m->around || offset == m->around->offset || offset - m->around->offset >= m->around->size)
        return false;
    for (size_t i = 0; i < group->count; i++)
        if (!group->items[i].lent)
            return false;
    return true;
}

static const struct ct_candidate *fde_of(const struct group *group) {
    for (size_t i = 0; i < group->count; i++)
        if (group->items[i].kind == CT_FROM_FDE)
            return &group->items[i];
    return NULL;
}

static bool has_symbol(const struct group *group) {
    for (size_t i = 0; i < group->count; i++)
        if (group->items[i].kind == CT_FROM_SYMBOL)
            return true;
    return false;
}

static bool is_cold(const char *name) {
    size_t length = strlen(name);
    while (length && name[length - 1] >= '0' && name[length - 1] <= '9')
        length--;
    if (length && name[length] && name[length - 1] == '.') /* .cold.N */
        length--;
    else
        length = strlen(name);
    return length > 5 && memcmp(name + length - 5, ".cold", 5) == 0;
}

/* How the function is entered when no FDE begins at its address: from the FDE around it. */
static uint32_t entry_flags(const struct merger *m, uint64_t offset) {
    if (!m->around || offset - m->around->offset >= m->around->size)
        return 0;
    return ct_eh_frame_flags_at(m->frame, m->around->place, offset - m->around->offset);
}

/* Cuts the version off in place. Strings that share the tail of this one carry the same version. */
static void set_name(struct ct_functions *table, struct ct_func *func, uint32_t name) {
    char *text = table->names + name;
    size_t length = ct_symbol_name_length(text);
    if (text[length] == '@')
        text[length] = 0;
    func->name = name;
    func->flags |= CT_FUNC_NAMED | (is_cold(text) ? CT_FUNC_COLD : 0u);
}

/* False when the group is not a function. */
static bool merge_group(struct merger *m, const struct group *group, struct ct_func *func) {
    const struct ct_candidate *fde = fde_of(group);
    const struct ct_text_range *text = ct_text_find(m->table, group->items->offset);
    bool symbol = has_symbol(group);
    if (!text || (!symbol && (!fde || text->plt)))
        return false;
    const struct ct_candidate *best = best_named(m->table, group);
    *func = (struct ct_func){.offset = group->items->offset, .size = size_of(group, best)};
    if (is_doubtful(m, group)) {
        uint64_t end = m->around->offset + m->around->size;
        func->flags |= CT_FUNC_DOUBTFUL;
        func->size = func->size && func->size < end - func->offset ? func->size : end - func->offset;
    }
    for (size_t i = 0; i < group->count; i++) {
        func->flags |= group->items[i].flags & ~(uint32_t)CT_FUNC_LENT_NAME;
        if (group->items[i].name)
            ct_names_add(m->table, group->items[i].name, m->table->count);
    }
    if (fde && (!m->around || fde->offset + fde->size > m->around->offset + m->around->size))
        m->around = fde;
    if (!fde)
        func->flags |= entry_flags(m, func->offset);
    if (text->plt)
        func->flags |= CT_FUNC_PLT;
    if (best) {
        set_name(m->table, func, best->name);
        func->flags |= best->flags & CT_FUNC_LENT_NAME;
    }
    return true;
}

/* A function without a size extends to the next one; all functions are cut to their range. */
static void finish_sizes(struct ct_functions *table) {
    uint64_t reach = 0;
    for (size_t i = 0; i < table->count; i++) {
        struct ct_func *func = &table->funcs[i];
        uint64_t end = ct_text_find(table, func->offset)->end;
        if (!func->size && i + 1 < table->count && func[1].offset < end)
            end = func[1].offset;
        if (!func->size || func->size > end - func->offset)
            func->size = end - func->offset;
        if (func->offset + func->size > reach)
            reach = func->offset + func->size;
        table->reach[i] = reach;
    }
}

int ct_functions_merge(struct ct_functions *table, const struct ct_candidates *list, const struct ct_eh_frame *frame) {
    struct merger m = {.table = table, .frame = frame};
    if (list->count == 0)
        return 0;
    table->funcs = malloc(list->count * sizeof *table->funcs);
    table->reach = malloc(list->count * sizeof *table->reach);
    if (!table->funcs || !table->reach || ct_names_create(table, list->count))
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < list->count;) {
        struct group group = {.items = &list->items[i], .count = 1};
        while (i + group.count < list->count && group.items[group.count].offset == group.items->offset)
            group.count++;
        table->count += merge_group(&m, &group, &table->funcs[table->count]);
        i += group.count;
    }
    finish_sizes(table);
    return 0;
}
