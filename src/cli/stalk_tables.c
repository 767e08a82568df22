/* See stalk_tables.h. What is printed goes to stderr: stdout belongs to the program. */
#include "cli/stalk_tables.h"
#include "cli/message.h"
#include "cli/stalk_blocks.h"
#include "trace/reader.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP 30

/* A function that was called, by however many ways. */
struct callee {
    uint64_t id, count;
};

struct callees {
    struct callee *list;
    size_t count, room;
};

/* ---- calls ---- */

static int by_id(const void *a, const void *b) {
    const struct callee *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

static int by_count(const void *a, const void *b) {
    const struct callee *left = a, *right = b;
    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return by_id(a, b);
}

static bool add(struct callees *c, struct callee one) {
    if (c->count == c->room) {
        size_t room = c->room ? c->room * 2 : 1024;
        struct callee *list = realloc(c->list, room * sizeof *list);
        if (!list)
            return false;
        c->list = list;
        c->room = room;
    }
    c->list[c->count++] = one;
    return true;
}

static void merge(struct callees *c) {
    size_t n = 0;
    if (c->count)
        qsort(c->list, c->count, sizeof *c->list, by_id);
    for (size_t i = 0; i < c->count; i++) {
        if (n && c->list[n - 1].id == c->list[i].id)
            c->list[n - 1].count += c->list[i].count;
        else
            c->list[n++] = c->list[i];
    }
    c->count = n;
    if (n)
        qsort(c->list, n, sizeof *c->list, by_count);
}

static int load_calls(struct callees *c, const char *directory) {
    char path[PATH_MAX + 16], line[256];
    snprintf(path, sizeof path, "%s/calls", directory);
    FILE *file = fopen(path, "re");
    bool good = file != NULL;
    int why = errno;
    while (good && fgets(line, sizeof line, file)) {
        struct callee one;
        uint64_t address;
        if (sscanf(line, "call\t%" SCNx64 "\t%" SCNx64 "\t%" SCNu64, &one.id, &address, &one.count) == 3)
            good = add(c, one);
    }
    if (file)
        fclose(file);
    if (!good)
        ct_message_error("%s cannot be read (%s)", path, strerror(why));
    merge(c);
    return !good;
}

static int print_summary(const char *directory) {
    struct callees c = {0};
    int failed = load_calls(&c, directory);
    struct ct_symbols *symbols = failed ? NULL : ct_symbols_load(directory);
    char text[CT_TEXT_SIZE], all[CT_TEXT_SIZE];
    uint64_t sum = 0;
    for (size_t i = 0; i < c.count; i++)
        sum += c.list[i].count;
    if (!failed)
        fprintf(stderr, "%15s  FUNCTION (%s calls of %zu functions)\n", "CALLS", ct_text_count(all, sum), c.count);
    for (size_t i = 0; i < c.count && i < TOP; i++) {
        const struct ct_trace_function *f = ct_symbols_find(symbols, c.list[i].id);
        fprintf(stderr, "%15s  %s%s%s%s\n", ct_text_count(text, c.list[i].count), f ? f->name : "?", f ? " [" : "",
                f ? f->module : "", f ? "]" : "");
    }
    if (c.count > TOP)
        fprintf(stderr, "%15s  and %zu more\n", "...", c.count - TOP);
    ct_symbols_free(symbols);
    free(c.list);
    return failed;
}

/* ---- blocks ---- */

static int show_blocks(const char *directory, const struct ct_stalk_wishes *wishes) {
    struct ct_blocks blocks;
    int failed = ct_blocks_load(&blocks, directory);
    if (!failed && wishes->coverage)
        failed = ct_blocks_write_coverage(&blocks, wishes->coverage);
    if (!failed && wishes->disasm)
        failed = ct_blocks_print(&blocks, directory);
    ct_blocks_free(&blocks);
    return failed;
}

int ct_stalk_tables_show(const char *directory, const struct ct_stalk_wishes *wishes) {
    int failed = wishes->summary ? print_summary(directory) : 0;
    if (wishes->coverage || wishes->disasm)
        failed |= show_blocks(directory, wishes);
    return failed;
}
