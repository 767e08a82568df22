/* SPDX-License-Identifier: Apache-2.0 */
/* What following writes beside the trace: the files `blocks` and `calls` (docs/TRACE-FORMAT.md), and its part of the
 * manifest. */
#include "follow/stalk_internal.h"
#include "session/manifest.h"
#include "trace/file.h"
#include "base/json_write.h"
#include <contrail/stalker.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool ct_stalk_walk_on(struct ct_stalk_walk *w, uint32_t *number) {
    if (w->next == w->end) {
        size_t from = w->table + w->next * w->size, to = w->table + w->count * w->size;
        if (!ct_lane_find_used(w->lane, &from, &to))
            return false;
        w->next = (uint32_t)((from - w->table) / w->size);
        /* Rounded outward: an entry may lie partly in unused pages. */
        w->end = (uint32_t)((to - w->table + w->size - 1) / w->size);
    }
    *number = w->next++;
    return true;
}

static FILE *open_table(const struct ct_recording *r, const char *name) {
    int fd = ct_file_open_fresh(r->trace.place, name);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file && fd >= 0)
        close(fd);
    if (file)
        fprintf(file, "contrail-%s\t1\n", name);
    return file;
}

static int close_table(FILE *file) {
    bool failed = !file || ferror(file);
    return (file && fclose(file)) || failed ? CT_ERR_SYSTEM : 0;
}

/* A newline in a path would start another line of the table. */
static void put_path(FILE *file, const char *path) {
    for (; *path; path++)
        fputc(*path == '\n' ? '?' : *path, file);
}

static void put_module(void *arg, const struct ct_target_module *m) {
    fprintf(arg, "module\t%" PRIx32 "\t%" PRIx64 "\t%" PRIx64 "\t%" PRIx64 "\t", m->id, m->bias, m->start, m->end);
    put_path(arg, m->path);
    fputc('\n', arg);
}

static int write_blocks(struct ct_recording *r) {
    const struct ct_stalk_place *blocks = ct_stalk_blocks(r->stalk);
    FILE *file = open_table(r, "blocks");
    if (!file)
        return CT_ERR_SYSTEM;
    pthread_mutex_lock(&r->mutex);
    ct_recording_each_module(r, put_module, file);
    pthread_mutex_unlock(&r->mutex);
    struct ct_stalk_walk walk = ct_stalk_walk_blocks(r);
    for (uint32_t i; ct_stalk_walk_on(&walk, &i);) {
        if (!blocks[i].start || !blocks[i].count)
            continue;
        uint64_t start = CT_STALK_ADDRESS(blocks[i].start);
        struct ct_stalk_settled at = ct_stalk_settle(r, &r->stalk->places->blocks[i], start);
        fprintf(file, "block\t%" PRIx32 "\t%" PRIx64 "\t%" PRIx64 "\t%" PRIu64 "\n", at.module, start - at.bias,
                blocks[i].end - start, blocks[i].count);
    }
    return close_table(file);
}

static int write_calls(struct ct_recording *r) {
    const struct ct_stalk_target *targets = ct_stalk_targets(r->stalk);
    FILE *file = open_table(r, "calls");
    struct ct_stalk_walk walk = ct_stalk_walk_targets(r);
    for (uint32_t i; file && ct_stalk_walk_on(&walk, &i);)
        if (targets[i].key && targets[i].count)
            fprintf(file, "call\t%" PRIx64 "\t%" PRIx64 "\t%" PRIu64 "\n", ct_stalk_resolve(r, i),
                    (uint64_t)CT_STALK_ADDRESS(targets[i].key), targets[i].count);
    return close_table(file);
}

/* Finds the names of all targets that `calls` will list, before it is written. */
static void name_targets(struct ct_recording *r) {
    const struct ct_stalk_target *targets = ct_stalk_targets(r->stalk);
    struct ct_stalk_walk walk = ct_stalk_walk_targets(r);
    for (uint32_t i; ct_stalk_walk_on(&walk, &i);)
        if (targets[i].key && targets[i].count)
            (void)ct_stalk_resolve(r, i);
}

int ct_stalk_explain(void *recording) {
    return ct_manifest_add_symbols(recording);
}

int ct_stalk_write_tables(struct ct_recording *r) {
    if (!r->stalk || !r->stalk->places)
        return 0;
    name_targets(r);
    int symbols = ct_manifest_add_symbols(r), blocks = write_blocks(r), calls = write_calls(r);
    return blocks ? blocks : calls ? calls : symbols;
}

/* ---- the manifest ---- */

static const struct {
    uint32_t bit;
    const char *name;
} kinds[] = {
#define KIND(name, bit, text) {bit, text},
    CT_STALKER_EVENT_LIST(KIND)
#undef KIND
};

void ct_stalk_put(struct ct_recording *r, struct ct_json *j) {
    const struct ct_session_stalk *o = r->session->options.stalk;
    const struct ct_stalk *s = r->stalk;
    if (!o || !s || !s->tables)
        return;
    const struct ct_stalk_tables *t = s->tables;
    ct_json_begin(j, "stalk", '{');
    ct_json_begin(j, "events", '{');
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if ((o->events & kinds[i].bit) || (o->count_calls && kinds[i].bit == CT_STALKER_CALL))
            ct_json_number(j, kinds[i].name, t->events[__builtin_ctz(kinds[i].bit)]);
    ct_json_end(j, '}');
    ct_json_bool(j, "counted_only", !(o->events & (CT_STALKER_CALL | CT_STALKER_RET)));
    ct_json_string(j, "clock", o->fast_clock ? "fast" : "exact");
    ct_json_string(j, "threads", o->thread == 0 ? "all" : o->thread < 0 ? "main" : "one");
    ct_json_number(j, "threads_followed", s->threads_before + t->started);
    ct_json_number(j, "threads_finished", t->stopped);
    ct_json_number(j, "threads_left", t->left);
    ct_json_number(j, "threads_refused", s->threads_refused);
    ct_json_number(j, "children_let_go", t->forked);
    ct_json_number(j, "excluded_ranges", s->excluded_count);
    char trust[16];
    snprintf(trust, sizeof trust, "%d", o->trust);
    ct_json_string(j, "trust", trust);
    ct_json_number(j, "blocks_translated", t->blocks);
    ct_json_number(j, "original_bytes", t->original_bytes);
    ct_json_number(j, "code_bytes", t->code_bytes);
    ct_json_number(j, "no_room", t->full);
    ct_json_end(j, '}');
}

_Static_assert(sizeof kinds / sizeof kinds[0] <= CT_SESSION_STALK_ROOM, "stalk_events has no room for another kind");

void ct_stalk_statistics(const struct ct_recording *r, struct ct_session_statistics *out) {
    const struct ct_session_stalk *o = r->session->options.stalk;
    const struct ct_stalk *s = r->stalk;
    if (!o || !s || !s->tables)
        return;
    const struct ct_stalk_tables *t = s->tables;
    out->stalk_on = true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        out->stalk_events[i] = t->events[__builtin_ctz(kinds[i].bit)];
    out->stalk_threads = s->threads_before + t->started;
    out->stalk_left = t->left + s->threads_refused;
    out->stalk_blocks = t->blocks;
    out->stalk_children = t->forked;
}
