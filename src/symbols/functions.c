/* SPDX-License-Identifier: Apache-2.0 */
/* Function tables: opening and lookups. elf_symbols.c, eh_frame.c, merge.c, names.c and personality.c read the parts;
 * this file calls them in order.
 *
 * The file is mapped only while it is read: a table owns copies of everything it needs. */
#include "symbols/functions.h"
#include "base/grow.h"
#include "symbols/debug_file.h"
#include "symbols/eh_frame.h"
#include "symbols/file_image.h"
#include "symbols/table.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_PARTS 4096

/* ---- executable ranges ---- */

static bool is_plt_name(const char *name) {
    return strcmp(name, ".plt") == 0 || strncmp(name, ".plt.", 5) == 0 || strcmp(name, ".iplt") == 0;
}

static int add_text(struct ct_functions *table, size_t *capacity, struct ct_text_range range) {
    if (range.end <= range.start)
        return 0;
    if (!ct_grow(&table->text, capacity, table->text_count, sizeof *table->text, 16))
        return CT_ERR_NO_MEMORY;
    table->text[table->text_count++] = range;
    return 0;
}

static int compare_text(const void *a, const void *b) {
    const struct ct_text_range *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

/* Ranges of a damaged file may overlap: the later one is cut, so that each address has one range. */
static void sort_text(struct ct_functions *table) {
    size_t kept = 0;
    if (table->text_count)
        qsort(table->text, table->text_count, sizeof *table->text, compare_text);
    for (size_t i = 0; i < table->text_count; i++) {
        struct ct_text_range range = table->text[i];
        if (kept && range.start < table->text[kept - 1].end)
            range.start = table->text[kept - 1].end;
        if (range.start < range.end)
            table->text[kept++] = range;
    }
    table->text_count = kept;
}

int ct_text_read(struct ct_functions *table, const struct ct_elf *elf) {
    struct ct_elf_section section;
    Elf64_Phdr segment;
    size_t capacity = 0;
    int result = 0;
    for (uint32_t i = 0; i < elf->shnum && !result; i++) {
        if (!ct_elf_section(elf, i, &section) || !(section.flags & SHF_EXECINSTR) || !(section.flags & SHF_ALLOC))
            continue;
        uint64_t start = section.bytes.address;
        result =
            add_text(table, &capacity, (struct ct_text_range){start, start + section.size, is_plt_name(section.name)});
    }
    for (uint32_t i = 0; table->text_count == 0 && !result && ct_elf_segment(elf, i, &segment); i++) {
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X))
            continue;
        uint64_t start = segment.p_vaddr;
        result = add_text(table, &capacity, (struct ct_text_range){start, start + segment.p_filesz, false});
    }
    sort_text(table);
    return result;
}

const struct ct_text_range *ct_text_find(const struct ct_functions *table, uint64_t offset) {
    size_t low = 0, high = table->text_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (offset < table->text[middle].start)
            high = middle;
        else if (offset >= table->text[middle].end)
            low = middle + 1;
        else
            return &table->text[middle];
    }
    return NULL;
}

/* ---- opening ---- */

struct fde_sink {
    const struct ct_functions *table;
    struct ct_candidates *list;
};

static int add_fde(void *arg, const struct ct_fde *fde) {
    struct fde_sink *sink = arg;
    struct ct_candidate candidate = {
        .offset = fde->start,
        .size = fde->size,
        .flags = fde->flags,
        .place = fde->place,
        .kind = CT_FROM_FDE,
    };
    return ct_text_find(sink->table, fde->start) ? ct_candidates_add(sink->list, &candidate) : 0;
}

/* Reads the symbols that other files have for the module. */
static int read_debug(struct ct_functions *table, const struct ct_elf *elf, const struct ct_debug_search *search,
                      struct ct_candidates *list) {
    struct ct_debug_file file;
    int result = 0;
    if (!search || ct_debug_has_symbols(elf))
        return 0;
    if (ct_debug_file_find(&file, elf, search) || ct_debug_data_open(&file, elf)) {
        result = ct_symbols_read_debug(table, &file.elf, list);
        ct_debug_file_close(&file);
    }
    return result;
}

static int read_functions(struct ct_functions *table, const struct ct_elf *elf, const struct ct_debug_search *search) {
    struct ct_candidates list = {0};
    struct ct_eh_frame frame;
    bool has_frame = ct_eh_frame_open(&frame, elf) == 0;
    int result = ct_text_read(table, elf);
    if (!result && has_frame)
        result = ct_eh_frame_each(&frame, add_fde, &(struct fde_sink){table, &list});
    if (!result)
        result = ct_symbols_read(table, elf, &list);
    if (!result)
        result = read_debug(table, elf, search, &list);
    if (!result && !ct_debug_has_symbols(elf))
        result = ct_go_functions_read(table, elf, &list);
    if (!result)
        result = ct_candidates_sort(&list);
    if (!result)
        result = ct_functions_merge(table, &list, &frame);
    if (!result && has_frame)
        ct_personalities_read(table, elf, &frame);
    ct_eh_frame_close(&frame);
    free(list.items);
    return result;
}

int ct_functions_open_image_full(struct ct_functions **out, const void *image, size_t size,
                                 const struct ct_debug_search *search) {
    struct ct_elf elf;
    int result = ct_elf_open(&elf, image, size);
    if (result)
        return result;
    struct ct_functions *table = calloc(1, sizeof *table);
    if (!table)
        return CT_ERR_NO_MEMORY;
    table->names = calloc(1, 1);
    table->names_size = 1;
    result = table->names ? read_functions(table, &elf, search) : CT_ERR_NO_MEMORY;
    if (result) {
        ct_functions_close(table);
        return result;
    }
    ct_elf_build_id(&elf, table->build_id);
    *out = table;
    return 0;
}

int ct_functions_open_image(struct ct_functions **out, const void *image, size_t size) {
    return ct_functions_open_image_full(out, image, size, NULL);
}

static int status_of_errno(int error) {
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return CT_ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
        return CT_ERR_PERMISSION_DENIED;
    case ENOMEM:
        return CT_ERR_NO_MEMORY;
    default:
        return CT_ERR_SYSTEM;
    }
}

static int open_path(struct ct_functions **out, const char *path, const struct ct_debug_search *search) {
    size_t size = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return status_of_errno(errno);
    void *image = ct_file_image_open(file, &size);
    int result = image ? ct_functions_open_image_full(out, image, size, search) : CT_ERR_BAD_FILE;
    ct_file_image_close(image, size);
    close(file);
    return result;
}

int ct_functions_open(struct ct_functions **out, const char *path) {
    return open_path(out, path, NULL);
}

int ct_functions_open_full(struct ct_functions **out, const char *path) {
    return open_path(out, path, &(struct ct_debug_search){.path = path});
}

void ct_functions_close(struct ct_functions *table) {
    if (!table)
        return;
    free(table->funcs);
    free(table->reach);
    free(table->names);
    free(table->index);
    free(table->text);
    free(table);
}

/* ---- lookups ---- */

size_t ct_functions_count(const struct ct_functions *table) {
    return table->count;
}

const struct ct_func *ct_functions_at(const struct ct_functions *table, size_t index) {
    return index < table->count ? &table->funcs[index] : NULL;
}

const char *ct_functions_name(const struct ct_functions *table, const struct ct_func *func) {
    return table->names + func->name;
}

const struct ct_func *ct_functions_find(const struct ct_functions *table, uint64_t offset) {
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->funcs[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    /* The nearest start before it, or an earlier function that extends over it. Those in between are parts of that
     * function, and few. */
    size_t first = low > MAX_PARTS ? low - MAX_PARTS : 0;
    for (; low > first && table->reach[low - 1] > offset; low--)
        if (offset - table->funcs[low - 1].offset < table->funcs[low - 1].size)
            return &table->funcs[low - 1];
    return NULL;
}

size_t ct_functions_text_count(const struct ct_functions *table) {
    return table->text_count;
}

const struct ct_text_range *ct_functions_text_at(const struct ct_functions *table, size_t index) {
    return index < table->text_count ? &table->text[index] : NULL;
}

size_t ct_functions_personality_count(const struct ct_functions *table) {
    return table->personality_count;
}

const struct ct_personality *ct_functions_personality_at(const struct ct_functions *table, size_t index) {
    return index < table->personality_count ? &table->personalities[index] : NULL;
}

const char *ct_functions_build_id(const struct ct_functions *table) {
    return table->build_id;
}
