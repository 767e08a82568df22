/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of a thread against a plain oracle. What is seen comes from the calls of a full scan; slots of levels and
 * cells of viewports are what one gets by adding that up, call by call. */
#include "query/calls.h"
#include "summary_util.h"
#include "trace/file.h"
#include "trace/reader.h"
#include "trace_util.h"
#include "view/cells.h"
#include "view/paint.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char root[200], directory[300];

static int setup(void **unused) {
    (void)unused;
    make_directory(root, sizeof root);
    snprintf(directory, sizeof directory, "%s/pid_321", root);
    return 0;
}

static int teardown(void **unused) {
    (void)unused;
    remove_directory(root);
    return 0;
}

static const struct random_trace traces[] = {
    {.seed = 501, .threads = 1, .events = 30000, .calm = true},
    {.seed = 502, .threads = 1, .events = 30000, .stacks = 4, .calm = true},
    {.seed = 503, .threads = 2, .events = 20000, .stacks = 2, .gaps = 60},
    {.seed = 504, .threads = 1, .events = 20000, .silent = 60, .unfinished = true},
    {.seed = 505, .threads = 1, .events = 20000, .odd = 20, .gaps = 20},
    {.seed = 506, .threads = 1, .events = 20000, .stacks = 2, .keep = 30000},
    {.seed = 507, .threads = 1, .events = 20000, .raw = true},
    {.seed = 508, .threads = 1, .events = 10000, .back = true},
};
enum { TRACES = sizeof traces / sizeof *traces };

/* ---- what is seen ---- */

struct seen {
    uint32_t depth;
    struct ct_piece piece;
};

struct seen_list {
    struct seen *items;
    size_t count;
};

static void keep_piece(void *arg, uint32_t depth, const struct ct_piece *piece) {
    struct seen_list *list = arg;
    if (!(list->count & (list->count + 1)))
        list->items = realloc(list->items, 2 * (list->count + 1) * sizeof *list->items);
    list->items[list->count++] = (struct seen){depth, *piece};
}

static struct ct_source *open_source(struct ct_trace **trace) {
    struct ct_source *source;
    assert_int_equal(ct_trace_open(trace, directory, NULL, 0), 0);
    assert_int_equal(ct_source_open(&source, &(struct ct_source_setup){.trace = *trace}), 0);
    return source;
}

static struct seen_list read_seen(struct ct_source *source, size_t thread) {
    struct seen_list list = {0};
    const struct ct_paint ask = {.source = source, .thread = thread, .piece = keep_piece, .arg = &list};
    assert_int_equal(ct_paint(&ask), 0);
    return list;
}

/* The time in which a call is seen. */
static uint64_t seen_ns(const struct seen_list *seen, uint64_t sequence, unsigned *firsts, uint64_t *end) {
    uint64_t ns = 0;
    *firsts = 0;
    *end = 0;
    for (size_t i = 0; i < seen->count; i++)
        if (seen->items[i].piece.sequence == sequence) {
            ns += seen->items[i].piece.to_ns - seen->items[i].piece.from_ns;
            *firsts += seen->items[i].piece.first;
            *end = seen->items[i].piece.to_ns;
        }
    return ns;
}

static void test_each_call_is_seen(void **unused) {
    (void)unused;
    for (size_t t = 0; t < 3; t++) {
        struct ct_trace *trace;
        write_random(directory, &traces[t]);
        struct ct_source *source = open_source(&trace);
        struct seen_list seen = read_seen(source, 0);
        struct ct_call_reader *reader = calloc(1, sizeof *reader);
        struct ct_ask ask;
        ct_ask_all(&ask);
        ask.ranges[CT_ASK_THREAD] = (struct ct_ask_range){1, 1};
        assert_int_equal(ct_call_reader_open(reader, source, &ask), 0);
        unsigned compared = 0, firsts;
        while (ct_call_reader_next(reader) > 0 && compared < 2000) {
            const struct ct_call *call = &reader->call;
            uint64_t end, ns = seen_ns(&seen, call->sequence, &firsts, &end);
            assert_int_equal(firsts, 1);
            compared++;
            if (call->end != CT_CALL_RETURNED && call->end != CT_CALL_LEFT)
                continue;
            if (!traces[t].stacks) { /* nothing hides it */
                assert_int_equal(end, call->began_ns + call->duration_ns);
                assert_int_equal(ns, call->duration_ns);
            }
            assert_true(ns <= call->duration_ns);
        }
        assert_true(compared > 1000);
        ct_call_reader_close(reader);
        free(reader);
        free(seen.items);
        ct_source_close(source);
        ct_trace_close(trace);
        remove_directory(directory);
    }
}

static int by_time(const void *a, const void *b) {
    const struct seen *x = a, *y = b;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return (x->piece.from_ns > y->piece.from_ns) - (x->piece.from_ns < y->piece.from_ns);
}

/* Each moment of a depth belongs to one call at most. */
static void test_pieces_do_not_overlap(void **unused) {
    (void)unused;
    for (size_t t = 0; t < TRACES; t++) {
        struct ct_trace *trace;
        write_random(directory, &traces[t]);
        struct ct_source *source = open_source(&trace);
        struct seen_list seen = read_seen(source, 0);
        qsort(seen.items, seen.count, sizeof *seen.items, by_time);
        for (size_t i = 0; i < seen.count; i++) {
            const struct seen *one = &seen.items[i], *next = i + 1 < seen.count ? one + 1 : NULL;
            assert_true(one->piece.from_ns <= one->piece.to_ns);
            if (next && next->depth == one->depth)
                assert_true(one->piece.to_ns <= next->piece.from_ns || next->piece.to_ns == next->piece.from_ns);
        }
        free(seen.items);
        ct_source_close(source);
        ct_trace_close(trace);
        remove_directory(directory);
    }
}

/* ---- levels ---- */

static struct ct_levels *build(struct ct_source *source, size_t thread, uint64_t least, bool twice) {
    struct ct_levels *levels = ct_levels_new(source->start_ns);
    levels->least = least;
    struct ct_levels_builder *builder = ct_levels_builder_new(levels, source, thread, true);
    if (twice)
        assert_int_equal(ct_levels_build(builder, source, false, NULL, NULL), 0);
    assert_int_equal(ct_levels_build(builder, source, true, NULL, NULL), 0);
    assert_true(levels->done);
    ct_levels_builder_free(builder);
    return levels;
}

/* What is in a slot, added up. */
static void add_up(const struct seen_list *seen, uint32_t depth, uint64_t from, uint64_t to, struct ct_mix *mix) {
    ct_mix_clear(mix);
    for (size_t i = 0; i < seen->count; i++) {
        const struct ct_piece *p = &seen->items[i].piece;
        if (seen->items[i].depth != depth || p->to_ns < from || p->from_ns >= to)
            continue;
        uint64_t low = p->from_ns > from ? p->from_ns : from, high = p->to_ns < to ? p->to_ns : to;
        bool begins = p->first && p->from_ns >= from;
        if (high > low || begins)
            assert_true(ct_mix_add(mix, p->function, high - low, begins));
    }
}

struct check {
    const struct seen_list *seen;
    unsigned level;
    size_t runs;
    uint64_t calls;
    uint32_t depth; /* of the run before */
    uint64_t end_ns;
};

static void check_run(void *arg, uint32_t depth, const struct ct_levels_run *run) {
    struct check *c = arg;
    struct ct_mix mix = {0};
    uint64_t slot = UINT64_C(1) << c->level;
    if (c->depth != depth || !c->runs)
        c->end_ns = 0;
    assert_true(run->start_ns >= c->end_ns);
    for (uint64_t at = run->start_ns; at < run->end_ns; at += slot) {
        add_up(c->seen, depth, at, at + slot, &mix);
        const struct ct_mix_part *most = ct_mix_most(&mix);
        assert_non_null(most);
        assert_int_equal(run->function, most->function);
        assert_int_equal(run->calls, mix.calls);
        assert_int_equal(run->share, most->covered_ns * 255 / slot);
    }
    c->calls += run->calls;
    c->depth = depth;
    c->end_ns = run->end_ns;
    c->runs++;
    ct_mix_free(&mix);
}

static void test_slots_are_what_is_seen(void **unused) {
    (void)unused;
    for (size_t t = 0; t < TRACES; t++) {
        struct ct_trace *trace;
        write_random(directory, &traces[t]);
        struct ct_source *source = open_source(&trace);
        struct seen_list seen = read_seen(source, 0);
        struct ct_levels *levels = build(source, 0, 4000, t % 2);
        struct check check = {.seen = &seen};
        unsigned used = 0, turn = 0;
        for (check.level = 0; check.level < CT_LEVELS; check.level++) {
            const struct ct_levels_list *list = &levels->levels[check.level];
            used += list->count != 0;
            uint64_t calls = 0, all = 0;
            for (size_t i = 0; i < list->count; i++) {
                bool draft, look = list->count < 3 || turn++ % 4 == 0;
                check.calls = 0;
                check.runs = 0;
                if (look)
                    assert_true(ct_levels_read(levels, check.level, list->at[i].index, 0, CT_STRIPS, check_run, &check,
                                               &draft));
                calls += check.calls;
            }
            for (size_t i = 0; i < seen.count; i++)
                all += seen.items[i].piece.first;
            if (list->count == 1 && list->at[0].index == 0 && check.level + 1 < CT_LEVELS &&
                !levels->levels[check.level + 1].count)
                assert_int_equal(calls, all); /* the whole thread is in it */
            assert_false(list->draft.bytes);
        }
        assert_true(used >= 2);
        ct_levels_free(levels);
        free(seen.items);
        ct_source_close(source);
        ct_trace_close(trace);
        remove_directory(directory);
    }
}

/* A tile is there exactly where there are events enough. */
static void test_tiles_are_where_events_are(void **unused) {
    (void)unused;
    struct ct_trace *trace;
    write_random(directory, &traces[0]);
    struct ct_source *source = open_source(&trace);
    struct ct_levels *levels = build(source, 0, 4000, false);
    unsigned tiles = 0;
    for (unsigned level = 1; level < CT_LEVELS; level++)
        for (size_t i = 0; i < levels->levels[level].count; i++) {
            unsigned bits = level + CT_LEVELS_SLOT_BITS;
            uint64_t index = levels->levels[level].at[i].index;
            uint64_t first = ct_summary_position(trace, 0, source->start_ns + (index << bits));
            uint64_t end = ct_summary_position(trace, 0, source->start_ns + ((index + 1) << bits));
            tiles++;
            assert_true(end - first + 2 * 8192 > 4000); /* blocks are counted as a whole */
        }
    assert_true(tiles > 3);
    ct_levels_free(levels);
    ct_source_close(source);
    ct_trace_close(trace);
    remove_directory(directory);
}

/* ---- viewports ---- */

static uint64_t pick(uint64_t limit) {
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return limit ? (state >> 11) % limit : 0;
}

static const struct seen *find_piece(const struct seen_list *seen, uint32_t depth, uint64_t call, uint64_t start) {
    for (size_t i = 0; i < seen->count; i++)
        if (seen->items[i].depth == depth && seen->items[i].piece.sequence == call &&
            (start == UINT64_MAX || seen->items[i].piece.from_ns == start))
            return &seen->items[i];
    return NULL;
}

static void check_box(const struct seen_list *seen, uint32_t depth, const struct ct_cells *c,
                      const struct ct_cell_box *box) {
    struct ct_mix mix = {0};
    uint64_t length = box->end_ns - box->start_ns, covered = 0;
    add_up(seen, depth, box->start_ns, length ? box->end_ns : box->end_ns + 1, &mix);
    for (size_t i = 0; i < mix.count; i++)
        covered += mix.parts[i].function == box->function ? mix.parts[i].covered_ns : 0;
    uint64_t least = (uint64_t)box->share * length / 255;
    /* levels round down per slot, and mixes of slots have their winners only */
    if (box->start_ns >= c->from_ns) /* what was hidden before is not known */
        assert_true(covered + 1 >= least || covered + length / 100 >= least);
    if (box->call != UINT64_MAX && box->calls == 1)
        assert_non_null(find_piece(seen, depth, box->call, UINT64_MAX));
    assert_true(box->end_ns >= c->from_ns && box->start_ns < c->to_ns);
    ct_mix_free(&mix);
}

/* What covers a pixel and more is there, and nothing else is drawn at its place. */
static void check_wide(const struct seen_list *seen, const struct ct_cells *c) {
    uint64_t pixel = (c->to_ns - c->from_ns) / c->width + 1;
    for (size_t i = 0; i < seen->count; i++) {
        const struct seen *s = &seen->items[i];
        uint64_t low = s->piece.from_ns > c->from_ns ? s->piece.from_ns : c->from_ns;
        uint64_t high = s->piece.to_ns < c->to_ns ? s->piece.to_ns : c->to_ns;
        if (s->depth < c->low || s->depth > c->high || high <= low || high - low < 4 * pixel)
            continue;
        const struct ct_cell_row *row = &c->rows[s->depth - c->low];
        uint64_t middle = low + (high - low) / 2, function = 0;
        for (size_t k = 0; k < row->count; k++)
            if (row->boxes[k].start_ns <= middle && middle < row->boxes[k].end_ns)
                function = row->boxes[k].function;
        assert_int_equal(function, s->piece.function);
    }
}

static void check_viewport(const struct seen_list *seen, const struct ct_cells *c) {
    for (uint32_t depth = c->low; depth <= c->high; depth++) {
        const struct ct_cell_row *row = &c->rows[depth - c->low];
        assert_true(row->count <= 3 * (size_t)c->width);
        for (size_t i = 0; i < row->count; i++) {
            check_box(seen, depth, c, &row->boxes[i]);
            if (i)
                assert_true(row->boxes[i].start_ns >= row->boxes[i - 1].start_ns);
        }
    }
    if (c->most_events > 1) /* else slots may be wider than pixels */
        check_wide(seen, c);
}

/* With few events to be read, and with many: most comes from levels, or from events. */
static void test_viewports_are_what_is_seen(void **unused) {
    (void)unused;
    for (size_t t = 0; t < TRACES; t++) {
        struct ct_trace *trace;
        write_random(directory, &traces[t]);
        struct ct_source *source = open_source(&trace);
        struct seen_list seen = read_seen(source, 0);
        struct ct_levels *levels = build(source, 0, 2000, false);
        struct ct_summary *none = NULL;
        struct ct_view_trace of = {.levels = &levels, .summaries = &none, .shared_count = 1};
        struct ct_view_reader reader = {.of = &of, .trace = trace, .source = source};
        pthread_mutex_init(&of.lock, NULL);
        uint64_t last = 0;
        for (size_t i = 0; i < seen.count; i++)
            last = seen.items[i].piece.to_ns > last ? seen.items[i].piece.to_ns : last;
        for (unsigned i = 0; i < 12; i++) {
            uint64_t length = (last - source->start_ns) >> pick(12);
            struct ct_cells c = {.width = (uint32_t)(20 + pick(300)), .high = 30, .most_events = i % 2 ? 1 : 40000};
            c.from_ns = source->start_ns + pick(last - source->start_ns - length / 2);
            c.to_ns = c.from_ns + length + 1;
            assert_int_equal(ct_cells_make(&c, &reader), 0);
            assert_false(c.sampled);
            check_viewport(&seen, &c);
            ct_cells_free(&c);
        }
        pthread_mutex_destroy(&of.lock);
        ct_levels_free(levels);
        free(seen.items);
        ct_source_close(source);
        ct_trace_close(trace);
        remove_directory(directory);
    }
}

/* ---- files ---- */

struct sum {
    uint64_t hash;
};

static void sum_run(void *arg, uint32_t depth, const struct ct_levels_run *run) {
    struct sum *s = arg;
    const uint64_t words[] = {depth, run->start_ns, run->end_ns, run->function, run->calls, run->share};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        s->hash = (s->hash ^ words[i]) * 0x100000001b3u;
}

/* Of all that can be read. *bad: tiles that cannot. */
static uint64_t sum_levels(struct ct_levels *levels, unsigned *bad) {
    struct sum sum = {0};
    bool draft;
    *bad = 0;
    for (unsigned level = 0; level < CT_LEVELS; level++)
        for (size_t i = 0; i < levels->levels[level].count; i++)
            *bad +=
                !ct_levels_read(levels, level, levels->levels[level].at[i].index, 0, CT_STRIPS, sum_run, &sum, &draft);
    return sum.hash;
}

static void store_levels(struct ct_source *source, uint64_t *hash) {
    struct ct_levels *levels = ct_levels_new(source->start_ns);
    unsigned bad;
    levels->least = 2000;
    struct ct_levels_file *file = ct_levels_file_begin(levels, source, 0, -1);
    assert_non_null(file);
    struct ct_levels_builder *builder = ct_levels_builder_new(levels, source, 0, true);
    assert_int_equal(ct_levels_build(builder, source, true, NULL, NULL), 0);
    ct_levels_builder_free(builder);
    ct_levels_file_end(file, true);
    *hash = sum_levels(levels, &bad);
    assert_int_equal(bad, 0);
    ct_levels_free(levels);
}

static bool load_levels(struct ct_source *source, uint64_t *hash, unsigned *bad) {
    struct ct_levels *levels = ct_levels_new(source->start_ns);
    bool loaded = ct_levels_load(levels, source, 0);
    *hash = loaded ? sum_levels(levels, bad) : 0;
    ct_levels_free(levels);
    return loaded;
}

static void change_byte(const char *path, long at, long *size) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    fseek(file, at < 0 ? *size + at : at, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 0x40, file);
    fclose(file);
}

static void test_files_are_believed_only_when_they_fit(void **unused) {
    (void)unused;
    struct ct_trace *trace;
    char path[400], cache[300];
    uint64_t stored, loaded;
    unsigned bad = 0;
    long size;
    snprintf(cache, sizeof cache, "%s/cache", root);
    setenv("XDG_CACHE_HOME", cache, 1);
    write_random(directory, &traces[0]);
    struct ct_source *source = open_source(&trace);
    assert_false(load_levels(source, &loaded, &bad));
    store_levels(source, &stored);
    snprintf(path, sizeof path, "%s/thread_1/levels.ctv", directory);
    assert_int_equal(access(path, R_OK), 0);
    assert_true(load_levels(source, &loaded, &bad));
    assert_int_equal(loaded, stored);
    assert_int_equal(bad, 0);

    change_byte(path, -5, &size); /* in the tables */
    assert_false(load_levels(source, &loaded, &bad));
    store_levels(source, &stored);
    change_byte(path, 20, &size); /* in the header */
    assert_false(load_levels(source, &loaded, &bad));
    store_levels(source, &stored);
    change_byte(path, 90, &size); /* in a tile: the events are read instead */
    assert_true(load_levels(source, &loaded, &bad));
    assert_true(bad >= 1 && loaded != stored);
    store_levels(source, &stored);
    assert_int_equal(truncate(path, size / 2), 0);
    assert_false(load_levels(source, &loaded, &bad));
    store_levels(source, &stored);
    ct_source_close(source);
    ct_trace_close(trace);

    char kept[400]; /* another trace in the same place: the file is not of it */
    snprintf(kept, sizeof kept, "%s/kept", root);
    assert_int_equal(rename(path, kept), 0);
    remove_directory(directory);
    struct random_trace other = traces[0];
    other.seed++;
    write_random(directory, &other);
    assert_int_equal(rename(kept, path), 0);
    source = open_source(&trace);
    assert_false(load_levels(source, &loaded, &bad));

    assert_int_equal(chmod(directory, 0777), 0); /* others can write it: the cache has the file */
    snprintf(kept, sizeof kept, "%s/thread_1", directory);
    assert_int_equal(chmod(kept, 0777), 0);
    unlink(path);
    store_levels(source, &stored);
    assert_int_not_equal(access(path, R_OK), 0);
    assert_true(load_levels(source, &loaded, &bad));
    assert_int_equal(loaded, stored);
    ct_source_close(source);
    ct_trace_close(trace);
    remove_directory(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_is_seen),          cmocka_unit_test(test_pieces_do_not_overlap),
        cmocka_unit_test(test_slots_are_what_is_seen),     cmocka_unit_test(test_tiles_are_where_events_are),
        cmocka_unit_test(test_viewports_are_what_is_seen), cmocka_unit_test(test_files_are_believed_only_when_they_fit),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
