/* SPDX-License-Identifier: Apache-2.0 */
/* Scans, the part that is common to all instruction sets: memory, and joining parts. See scan.h. */
#include "hook/scan.h"
#include "hook/scan_reals.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

size_t ct_scan_after(const struct ct_scan *s, uint64_t address) {
    size_t low = 0, high = s->func_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->funcs[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

long ct_scan_find(const struct ct_scan *s, uint64_t address) {
    size_t after = ct_scan_after(s, address);
    return after && s->funcs[after - 1].start == address ? (long)after - 1 : -1;
}

static size_t map_words(const struct ct_scan *s) {
    return (size_t)(s->end - s->start) / 64 + 2;
}

static int run_scan(struct ct_scan *s, size_t first, size_t end) {
    s->landing = calloc(map_words(s), sizeof *s->landing);
    s->referenced = calloc(map_words(s), sizeof *s->referenced);
    s->foreign = calloc(map_words(s), sizeof *s->foreign);
    s->taken = calloc(map_words(s), sizeof *s->taken);
    s->room = s->needy = NULL;
    s->loops = NULL;
    s->loop_count = s->loop_capacity = 0;
    s->tails = NULL;
    s->tail_count = s->tail_capacity = 0;
    s->calls = NULL;
    s->call_count = s->call_capacity = 0;
    s->tables = NULL;
    s->table_count = s->table_capacity = 0;
    bool ready = s->landing && s->foreign && s->referenced && s->taken;
    int status = ready ? ct_scan_walk(s, first, end) : CT_ERR_NO_MEMORY;
    if (status)
        ct_scan_free(s);
    return status;
}

#define MAX_PASSES 64u

/* Does a jump to `target` lead into a function that looks at its return address? It may lead past the landing pad with
 * which that begins, or farther in. */
static bool leads_to_user(const struct ct_scan *s, uint64_t target) {
    size_t after = ct_scan_after(s, target);
    const struct ct_scan_func *to = after ? &s->funcs[after - 1] : NULL;
    return to && target < to->end && (to->flags & CT_SCAN_USES_RETURN);
}

/* A function that ends with a jump into one that looks at its return address lends it its own: setjmp is such a jump to
 * sigsetjmp. */
static void spread_return_users(struct ct_scan *s) {
    bool changed = true;
    for (unsigned pass = 0; changed && pass < MAX_PASSES; pass++) {
        changed = false;
        for (size_t i = 0; i < s->tail_count; i++) {
            struct ct_scan_func *from = &s->funcs[s->tails[i].function];
            if ((from->flags & CT_SCAN_USES_RETURN) || !leads_to_user(s, s->tails[i].target))
                continue;
            from->flags |= CT_SCAN_USES_RETURN;
            changed = true;
        }
    }
    for (size_t i = 0; changed && i < s->tail_count; i++) /* the rest may */
        s->funcs[s->tails[i].function].flags |= CT_SCAN_USES_RETURN;
}

static void free_tables(struct ct_scan *s) {
    free(s->tables);
    s->tables = NULL;
    s->table_count = s->table_capacity = 0;
}

int ct_scan_finish(struct ct_scan *s) {
    int status = ct_scan_follow_tables(s);
    free_tables(s);
    spread_return_users(s);
    ct_scan_spread_reals(s);
    return status;
}

int ct_scan_run(struct ct_scan *s) {
    int status = run_scan(s, 0, s->func_count);
    if (!status)
        status = ct_scan_finish(s);
    if (status)
        ct_scan_free(s);
    return status;
}

/* ---- in parts ---- */

int ct_scan_run_part(const struct ct_scan *s, struct ct_scan *part, size_t first, size_t end) {
    *part = *s;
    part->funcs = malloc((s->func_count + 1) * sizeof *part->funcs);
    if (!part->funcs)
        return CT_ERR_NO_MEMORY;
    memcpy(part->funcs, s->funcs, s->func_count * sizeof *part->funcs);
    int status = run_scan(part, first, end);
    if (status) {
        free(part->funcs);
        part->funcs = NULL;
    }
    return status;
}

static void join_maps(uint64_t **to, uint64_t **from, size_t words) {
    if (!*to) {
        *to = *from;
        *from = NULL;
        return;
    }
    for (size_t i = 0; i < words; i++)
        (*to)[i] |= (*from)[i];
}

static int join_loops(struct ct_scan *s, const struct ct_scan *part) {
    size_t count = s->loop_count + part->loop_count;
    struct ct_scan_loop *loops = realloc(s->loops, (count + 1) * sizeof *loops);
    if (!loops)
        return CT_ERR_NO_MEMORY;
    if (part->loop_count)
        memcpy(loops + s->loop_count, part->loops, part->loop_count * sizeof *loops);
    s->loops = loops;
    s->loop_count = s->loop_capacity = count;
    return 0;
}

static int join_tails(struct ct_scan *s, const struct ct_scan *part) {
    size_t count = s->tail_count + part->tail_count;
    struct ct_scan_tail *tails = realloc(s->tails, (count + 1) * sizeof *tails);
    if (!tails)
        return CT_ERR_NO_MEMORY;
    if (part->tail_count)
        memcpy(tails + s->tail_count, part->tails, part->tail_count * sizeof *tails);
    s->tails = tails;
    s->tail_count = s->tail_capacity = count;
    return 0;
}

static int join_tables(struct ct_scan *s, const struct ct_scan *part) {
    size_t count = s->table_count + part->table_count;
    struct ct_scan_table *tables = realloc(s->tables, (count + 1) * sizeof *tables);
    if (!tables)
        return CT_ERR_NO_MEMORY;
    if (part->table_count)
        memcpy(tables + s->table_count, part->tables, part->table_count * sizeof *tables);
    s->tables = tables;
    s->table_count = s->table_capacity = count;
    return 0;
}

int ct_scan_join(struct ct_scan *s, struct ct_scan *part) {
    size_t words = map_words(s);
    int status = join_loops(s, part), tails = join_tails(s, part), tables = join_tables(s, part);
    int calls = ct_scan_join_calls(s, part);
    for (size_t i = 0; i < s->func_count; i++)
        s->funcs[i].flags |= part->funcs[i].flags;
    join_maps(&s->landing, &part->landing, words);
    join_maps(&s->foreign, &part->foreign, words);
    join_maps(&s->referenced, &part->referenced, words);
    join_maps(&s->taken, &part->taken, words);
    free(part->funcs);
    part->funcs = NULL;
    ct_scan_free(part);
    status = status ? status : tails;
    status = status ? status : calls;
    return status ? status : tables;
}

void ct_scan_free(struct ct_scan *s) {
    free(s->landing);
    free(s->referenced);
    free(s->foreign);
    free(s->taken);
    free(s->room);
    free(s->needy);
    free(s->loops);
    free(s->tails);
    free_tables(s);
    ct_scan_free_calls(s);
    s->tails = NULL;
    s->landing = s->foreign = s->referenced = s->taken = s->room = s->needy = NULL;
    s->loops = NULL;
}
