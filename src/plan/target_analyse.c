/* SPDX-License-Identifier: Apache-2.0 */
/* Analyses a module: reads its functions from the ELF file, scans its code, and makes an image of both
 * (target_internal.h).
 *
 * The scan takes nearly all of the time, so several threads scan a large module in parts. The scan works on run
 * addresses; the image has addresses without the bias. */
#include "plan/target_guess.h"
#include "hook/known.h"
#include "symbols/elf_image.h"
#include "symbols/functions.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

/* The scan of a module below this address reads position-dependent code: its image is valid for one bias only. */
#define LOW_MODULE 0x80000000ull
#define SMALL_PART (512u << 10) /* bytes of code that are not worth dividing */

struct part {
    size_t text, first, end; /* functions of one text */
    struct ct_scan scan;
    int status;
};

struct ct_target_analysis {
    struct ct_target_source *source;
    struct ct_functions *table;
    struct ct_guesses guesses;
    struct ct_scan *scans;          /* one per text */
    struct ct_scan_func *funcs;     /* of all texts; each scan has its part */
    const struct ct_func **origins; /* parallel to funcs */
    size_t *first;                  /* index of each text's first function */
    size_t func_count, names_size, loops;
    uint64_t map_words;
    struct part *parts;
    size_t part_count;
    size_t left; /* parts that have not ended */
};

/* ---- functions ---- */

static int open_table(struct ct_target_analysis *a) {
    const struct ct_target_source *s = a->source;
    char root[CT_DEBUG_ROOT_TEXT];
    struct ct_debug_search search = ct_target_debug_search(s, root);
    return s->file ? ct_functions_open_image_full(&a->table, s->file, s->file_size, &search)
                   : ct_functions_open_image_full(&a->table, s->memory_image, s->memory_image_size, &search);
}

/* The next function of the table and the guesses, both sorted; `next` counts what was taken of each. */
static const struct ct_func *next_function(const struct ct_target_analysis *a, size_t next[2]) {
    const struct ct_func *known = ct_functions_at(a->table, next[0]);
    const struct ct_func *guess = next[1] < a->guesses.count ? &a->guesses.items[next[1]] : NULL;
    bool take_guess = guess && (!known || guess->offset < known->offset);
    next[take_guess]++;
    return take_guess ? guess : known;
}

/* Functions and texts are sorted, so each text has a run of functions. Functions outside all texts are left out. */
static int split_functions(struct ct_target_analysis *a) {
    struct ct_target_source *s = a->source;
    size_t count = ct_functions_count(a->table) + a->guesses.count, text = 0, next[2] = {0};
    a->funcs = calloc(count + 1, sizeof *a->funcs);
    a->origins = calloc(count + 1, sizeof *a->origins);
    a->first = calloc(s->text_count + 1, sizeof *a->first);
    a->scans = calloc(s->text_count, sizeof *a->scans);
    if (!a->funcs || !a->origins || !a->first || !a->scans)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct ct_func *f = next_function(a, next);
        uint64_t start = s->bias + f->offset, end = start + f->size;
        while (text < s->text_count && start >= s->texts[text].end)
            a->first[++text] = a->func_count;
        if (text == s->text_count)
            break;
        if (start < s->texts[text].start)
            continue;
        if (end > s->texts[text].end || end < start)
            end = s->texts[text].end;
        a->funcs[a->func_count] = (struct ct_scan_func){.start = start, .end = end};
        a->origins[a->func_count++] = f;
        a->names_size += strlen(ct_functions_name(a->table, f)) + 1;
    }
    while (text < s->text_count)
        a->first[++text] = a->func_count;
    return 0;
}

/* ---- parts ---- */

static int set_up_scans(struct ct_target_analysis *a, unsigned threads) {
    struct ct_target_source *s = a->source;
    a->parts = calloc(s->text_count * threads + 1, sizeof *a->parts);
    if (!a->parts)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < s->text_count; i++) {
        struct ct_scan *scan = &a->scans[i];
        *scan = (struct ct_scan){
            .code = s->texts[i].code,
            .start = s->texts[i].start,
            .end = s->texts[i].end,
            .funcs = a->funcs + a->first[i],
            .func_count = a->first[i + 1] - a->first[i],
            .read = ct_target_source_bytes,
            .read_arg = s,
            .cancelled = s->cancelled,
        };
        uint64_t size = scan->end - scan->start, count = size / SMALL_PART + 1;
        count = count < threads ? count : threads;
        size_t first = 0;
        for (uint64_t k = 1; k <= count; k++) {
            size_t end = k < count ? ct_scan_after(scan, scan->start + size / count * k) : scan->func_count;
            a->parts[a->part_count++] = (struct part){.text = i, .first = first, .end = end};
            first = end;
        }
        a->map_words += size / 64 + 2;
    }
    a->left = a->part_count;
    return 0;
}

static int join_parts(struct ct_target_analysis *a) {
    int status = 0;
    for (size_t i = 0; i < a->part_count; i++)
        status = status ? status : a->parts[i].status;
    for (size_t i = 0; i < a->part_count && !status; i++)
        status = ct_scan_join(&a->scans[a->parts[i].text], &a->parts[i].scan);
    for (size_t i = 0; i < a->source->text_count && !status; i++)
        status = ct_scan_finish(&a->scans[i]);
    for (size_t i = 0; i < a->source->text_count; i++)
        a->loops += a->scans[i].loop_count;
    return status;
}

/* ---- where a program begins ---- */

/* The entry point of a program; UINT64_MAX for a library. Nobody calls it, and the top of its stack holds no return
 * address, whether or not unwind information says so (musl has none). A library's header names an entry too, but that
 * is often just the first function. */
static uint64_t program_entry(const struct ct_target_analysis *a) {
    const struct ct_target_source *s = a->source;
    struct ct_elf elf;
    Elf64_Ehdr header;
    uint64_t flags = 0;
    const void *bytes = s->file ? s->file : s->memory_image;
    size_t size = s->file ? s->file_size : s->memory_image_size;
    if (size < sizeof header || ct_elf_open_host(&elf, bytes, size))
        return UINT64_MAX;
    memcpy(&header, bytes, sizeof header);
    const struct ct_func *start = ct_functions_by_name(a->table, "_start");
    bool program = header.e_type == ET_EXEC || (start && start->offset == header.e_entry) ||
                   (ct_elf_dynamic(&elf, DT_FLAGS_1, &flags) && (flags & DF_1_PIE));
    return program ? header.e_entry : UINT64_MAX;
}

/* Only debug information says which arguments are floating-point numbers. */
static bool is_described(const struct ct_target_source *s) {
    struct ct_elf elf;
    struct ct_elf_section section;
    if (s->debug_id && !s->guess)
        return true;
    return s->file && !ct_elf_open_host(&elf, s->file, s->file_size) &&
           ct_elf_section_named(&elf, ".debug_info", &section);
}

/* ---- the image ---- */

static uint64_t fnv(uint64_t hash, const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
    return hash;
}

static void write_functions(const struct ct_target_analysis *a, struct ct_target_image *image) {
    struct ct_image_function *out = (struct ct_image_function *)((uint8_t *)image + image->functions);
    char *names = (char *)image + image->names;
    uint64_t bias = a->source->bias, entry = program_entry(a), hash = 14695981039346656037u;
    uint32_t name = 1;
    names[0] = 0;
    for (size_t i = 0; i < a->func_count; i++) {
        const char *text = ct_functions_name(a->table, a->origins[i]);
        size_t length = strlen(text) + 1;
        out[i] = (struct ct_image_function){
            .offset = a->funcs[i].start - bias,
            .size = a->funcs[i].end - a->funcs[i].start,
            .name = length > 1 ? name : 0,
            .flags = a->origins[i]->flags,
            .scan_flags = a->funcs[i].flags,
        };
        if (out[i].offset == entry)
            out[i].flags |= CT_FUNC_NO_RETURN_ADDRESS;
        hash = fnv(hash, &out[i].offset, 16); /* and the size, which follows it */
        hash = fnv(hash, text, length);
        image->return_map |= ct_known_return_map(text);
        image->walks |= ct_known_walks(text);
        image->libc |= ct_known_libc(text);
        if (length > 1) {
            memcpy(names + name, text, length);
            name += (uint32_t)length;
        }
    }
    image->table_hash = hash;
}

static uint64_t write_map(struct ct_target_image *image, uint64_t at, const uint64_t *map, size_t words) {
    memcpy((uint8_t *)image + at, map, words * 8);
    return at + words * 8;
}

static void write_texts(const struct ct_target_analysis *a, struct ct_target_image *image, uint64_t at) {
    const struct ct_target_source *s = a->source;
    struct ct_image_text *texts = (struct ct_image_text *)((uint8_t *)image + image->texts);
    for (size_t i = 0; i < s->text_count; i++) {
        const struct ct_scan *scan = &a->scans[i];
        struct ct_image_text *t = &texts[i];
        *t = (struct ct_image_text){
            .start = scan->start - s->bias,
            .end = scan->end - s->bias,
            .hash = s->texts[i].hash,
            .first_function = a->first[i],
            .function_count = scan->func_count,
            .loop_count = scan->loop_count,
        };
        size_t words = ct_image_map_words(t);
        at = write_map(image, t->landing = at, scan->landing, words);
        at = write_map(image, t->foreign = at, scan->foreign, words);
        at = write_map(image, t->referenced = at, scan->referenced, words);
        t->loops = at;
        struct ct_image_loop *loops = (struct ct_image_loop *)((uint8_t *)image + at);
        for (size_t k = 0; k < scan->loop_count; k++)
            loops[k] = (struct ct_image_loop){.branch = scan->loops[k].branch - s->bias,
                                              .function = scan->loops[k].function,
                                              .length = scan->loops[k].length,
                                              .disp_size = scan->loops[k].disp_size};
        at += scan->loop_count * sizeof *loops;
    }
}

/* libc has functions with these names too; they pass the call on to an unwinder, if one is loaded. */
static const struct ct_func *unwinder_function(const struct ct_target_analysis *a, const char *name) {
    return ct_functions_by_name(a->table, "_Unwind_SetIP") ? ct_functions_by_name(a->table, name) : NULL;
}

static uint64_t code_bytes(const struct ct_functions *table) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < ct_functions_text_count(table); i++) {
        const struct ct_text_range *range = ct_functions_text_at(table, i);
        bytes += range->plt ? 0 : range->end - range->start;
    }
    return bytes;
}

static int make_image(struct ct_target_analysis *a) {
    struct ct_target_source *s = a->source;
    uint64_t functions = ct_target_round(sizeof(struct ct_target_image), 8);
    uint64_t texts = functions + a->func_count * sizeof(struct ct_image_function);
    uint64_t maps = texts + s->text_count * sizeof(struct ct_image_text);
    uint64_t names = maps + a->map_words * 3 * 8 + a->loops * sizeof(struct ct_image_loop);
    uint64_t size = ct_target_round(names + a->names_size + 1, 8);
    struct ct_target_image *image = a->names_size < UINT32_MAX ? calloc(1, size) : NULL;
    if (!image)
        return CT_ERR_NO_MEMORY;
    const struct ct_func *get_cfa = unwinder_function(a, "_Unwind_GetCFA");
    *image = (struct ct_target_image){
        .magic = "CTPLAN1",
        .tool = ct_target_tool(),
        .size = size,
        .file_size = s->file_size,
        .debug_id = s->debug_id,
        .bias = s->start < LOW_MODULE ? s->bias : UINT64_MAX,
        .get_cfa = get_cfa && !(get_cfa->flags & CT_FUNC_LENT_NAME) ? get_cfa->offset : 0,
        .code_bytes = code_bytes(a->table),
        .functions = functions,
        .function_count = a->func_count,
        .names = names,
        .names_size = a->names_size + 1,
        .texts = texts,
        .text_count = s->text_count,
        .described = is_described(s),
    };
    memcpy(image->build_id, s->build_id, sizeof s->build_id);
    write_functions(a, image);
    write_texts(a, image, maps);
    s->image_made = image;
    s->image = image;
    s->image_size = size;
    return 0;
}

/* ---- the whole analysis ---- */

static void end_analysis(struct ct_target_analysis *a) {
    struct ct_target_source *s = a->source;
    for (size_t i = 0; a->scans && i < s->text_count; i++)
        ct_scan_free(&a->scans[i]);
    for (size_t i = 0; a->parts && i < a->part_count; i++)
        if (a->parts[i].scan.funcs) { /* it was not joined */
            free(a->parts[i].scan.funcs);
            ct_scan_free(&a->parts[i].scan);
        }
    ct_functions_close(a->table);
    free(a->guesses.items);
    free(a->parts);
    free(a->scans);
    free(a->funcs);
    free(a->origins);
    free(a->first);
    free(a);
    s->analysis = NULL;
}

size_t ct_target_analyse_begin(struct ct_target_source *s, unsigned threads) {
    struct ct_target_analysis *a = calloc(1, sizeof *a);
    if (!a) {
        s->status = CT_ERR_NO_MEMORY;
        return 0;
    }
    a->source = s;
    s->analysis = a;
    int status = ct_target_source_prepare(s);
    if (!status)
        status = open_table(a);
    if (!status && s->guess)
        status = ct_target_guess(s, a->table, &a->guesses);
    if (!status)
        status = split_functions(a);
    if (!status)
        status = set_up_scans(a, threads);
    s->status = status;
    if (!status)
        return a->part_count;
    end_analysis(a);
    return 0;
}

void ct_target_analyse_part(struct ct_target_source *s, size_t n) {
    struct ct_target_analysis *a = s->analysis;
    struct part *p = &a->parts[n];
    p->status = ct_scan_run_part(&a->scans[p->text], &p->scan, p->first, p->end);
    if (p->status)
        p->scan.funcs = NULL;
    if (__atomic_sub_fetch(&a->left, 1, __ATOMIC_ACQ_REL))
        return;
    s->status = join_parts(a);
    if (!s->status)
        s->status = make_image(a);
    end_analysis(a);
}
