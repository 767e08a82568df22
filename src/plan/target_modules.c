/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of a target: the files that its executable mappings come from, where they are loaded, and their bytes.
 *
 * A module is found by an executable mapping of an ELF file. The file gives the segments, the mapping gives the bias.
 * If the file is not the one in memory (it was replaced, or cannot be opened), the image in memory is used instead. A
 * source belongs to one thread at a time, except that any thread may read its bytes. */
#include "base/grow.h"
#include "plan/target_internal.h"
#include "symbols/elf_image.h"
#include "symbols/file_image.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_SEGMENTS     128u
#define GUESSED          0x6775657373656421ull
#define MAX_MEMORY_IMAGE (512ull << 20)
/* A process may map any file any number of times, and each time counts as a module. */
#define MAX_MODULES   8192u
#define MAX_SAME      32u          /* modules of one file: a loader has 16 namespaces */
#define MAX_ALL_TEXTS (2ull << 30) /* bytes of code of all modules */
#define MAX_ALL_READ  (1ull << 30) /* bytes of all images that are read from memory */

/* ---- maps ---- */

static int add_map(void *arg, const struct ct_os_map *map) {
    struct ct_target_maps *m = arg;
    if (!ct_grow(&m->items, &m->capacity, m->count, sizeof *m->items, 256))
        return CT_ERR_NO_MEMORY;
    struct ct_os_map copy = *map;
    copy.path = strdup(map->path);
    if (!copy.path)
        return CT_ERR_NO_MEMORY;
    m->items[m->count++] = copy;
    return 0;
}

int ct_target_maps_read(struct ct_target_maps *maps, struct ct_remote *remote) {
    int status = ct_remote_each_map(remote, add_map, maps);
    return status ? status : maps->count ? 0 : CT_ERR_NOT_FOUND;
}

int ct_target_maps_add(struct ct_target_maps *maps, uint64_t start, uint64_t end) {
    return add_map(maps, &(struct ct_os_map){.start = start, .end = end, .path = ""});
}

static int compare_maps(const void *a, const void *b) {
    const struct ct_os_map *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

void ct_target_maps_sort(struct ct_target_maps *maps) {
    qsort(maps->items, maps->count, sizeof *maps->items, compare_maps);
}

void ct_target_maps_free(struct ct_target_maps *maps) {
    for (size_t i = 0; i < maps->count; i++)
        free((char *)maps->items[i].path);
    free(maps->items);
    *maps = (struct ct_target_maps){0};
}

/* ---- the file ---- */

static bool open_file(struct ct_target_source *s, const struct ct_os_map *map) {
    int file = ct_remote_open_mapped(s->remote, map);
    if (file < 0)
        return false;
    s->file = ct_file_image_open(file, &s->file_size);
    close(file);
    return s->file != NULL;
}

static void close_file(struct ct_target_source *s) {
    ct_file_image_close(s->file, s->file_size);
    s->file = NULL;
    s->file_size = 0;
}

/* Finds the bias with which the mapping is part of one of the file's executable segments. */
static bool bias_of(const struct ct_elf *elf, const struct ct_os_map *map, uint64_t *bias) {
    Elf64_Phdr p;
    for (uint32_t i = 0; ct_elf_segment(elf, i, &p); i++) {
        if (p.p_type != PT_LOAD || !(p.p_flags & PF_X))
            continue;
        uint64_t first = p.p_offset & ~(uint64_t)(ct_os_page_size() - 1);
        if (map->offset < first || map->offset >= p.p_offset + p.p_filesz)
            continue;
        *bias = map->start - (p.p_vaddr + (map->offset - p.p_offset));
        return true;
    }
    return false;
}

static int compare_texts(const void *a, const void *b) {
    const struct ct_target_text *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

static int note_segments(struct ct_target_source *s, const struct ct_elf *elf) {
    Elf64_Phdr p;
    s->segments = calloc(MAX_SEGMENTS, sizeof *s->segments);
    s->texts = calloc(MAX_SEGMENTS, sizeof *s->texts);
    if (!s->segments || !s->texts)
        return CT_ERR_NO_MEMORY;
    s->start = UINT64_MAX;
    for (uint32_t i = 0; ct_elf_segment(elf, i, &p) && s->segment_count < MAX_SEGMENTS; i++) {
        uint64_t start = s->bias + p.p_vaddr, end = start + p.p_memsz;
        if (p.p_type != PT_LOAD || end <= start || p.p_filesz > p.p_memsz || p.p_memsz > 1ull << 40)
            continue;
        s->start = start < s->start ? start : s->start;
        s->end = end > s->end ? end : s->end;
        s->segments[s->segment_count++] = (struct ct_target_segment){
            .start = start, .end = end, .offset = p.p_offset, .file_end = start + p.p_filesz, .flags = p.p_flags};
        if (p.p_flags & PF_X)
            s->texts[s->text_count++] = (struct ct_target_text){.start = start, .end = end};
    }
    qsort(s->texts, s->text_count, sizeof *s->texts, compare_texts);
    return s->text_count ? 0 : CT_ERR_BAD_FILE;
}

static void forget_segments(struct ct_target_source *s) {
    free(s->segments);
    free(s->texts);
    s->segments = NULL;
    s->texts = NULL;
    s->segment_count = s->text_count = 0;
    s->end = 0;
}

/* How much of the file's beginning is no code: code that begins in the page with the headers, as arm64's linkers have
 * it, may have been patched. */
static uint64_t bytes_before_code(const struct ct_elf *elf, uint64_t limit) {
    struct ct_elf_section section;
    Elf64_Ehdr header;
    bool found = false;
    for (uint32_t i = 0; i < elf->shnum; i++) {
        if (!ct_elf_section(elf, i, &section) || !(section.flags & SHF_EXECINSTR) || !section.bytes.size)
            continue;
        uint64_t offset = (uint64_t)(section.bytes.data - elf->data);
        limit = offset < limit ? offset : limit;
        found = true;
    }
    memcpy(&header, elf->data, sizeof header);
    uint64_t headers = header.e_phoff + elf->phnum * sizeof(Elf64_Phdr);
    return found || headers > limit ? limit : headers;
}

/* Is this the file that was mapped? Compares the page with the headers and notes. */
static bool is_same_file(const struct ct_target_source *s, const struct ct_elf *elf) {
    const struct ct_target_segment *first = &s->segments[0];
    uint8_t bytes[CT_TARGET_HEAD];
    uint64_t size = first->file_end - first->start;
    if (size > sizeof bytes)
        size = sizeof bytes;
    if (first->flags & PF_X && !first->offset)
        size = bytes_before_code(elf, size);
    if (first->offset > s->file_size || size > s->file_size - first->offset || (first->flags & PF_W))
        return false;
    return !ct_remote_read(s->remote, first->start, bytes, size) &&
           !memcmp(bytes, (const uint8_t *)s->file + first->offset, size);
}

static int load_from_file(struct ct_target_source *s, const struct ct_os_map *map) {
    struct ct_elf elf;
    int status = open_file(s, map) ? ct_elf_open_host(&elf, s->file, s->file_size) : CT_ERR_NOT_FOUND;
    if (!status && !bias_of(&elf, map, &s->bias))
        status = CT_ERR_BAD_FILE;
    if (!status)
        status = note_segments(s, &elf);
    if (!status && !is_same_file(s, &elf))
        status = CT_ERR_NOT_FOUND;
    if (!status)
        ct_elf_build_id(&elf, s->build_id);
    else
        forget_segments(s);
    if (status)
        close_file(s);
    return status;
}

/* ---- the image in memory ---- */

/* The loader has added the bias to addresses in the dynamic section. Removes it, since the file has none there. */
static void unbias_dynamic(struct ct_target_source *s, const struct ct_elf *elf) {
    Elf64_Phdr p;
    if (!s->bias || !ct_elf_segment_of_type(elf, PT_DYNAMIC, &p) || !ct_elf_segment_bytes(elf, &p).size)
        return;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= p.p_filesz; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, s->memory_image + p.p_offset + at, sizeof entry);
        if (entry.d_tag == DT_NULL)
            break;
        if (entry.d_un.d_ptr >= s->start && entry.d_un.d_ptr < s->end)
            entry.d_un.d_ptr -= s->bias;
        memcpy(s->memory_image + p.p_offset + at, &entry, sizeof entry);
    }
}

/* What is left for all modules together, in bytes. */
struct room {
    uint64_t text, image;
};

/* Puts every segment where it would be in a file. An image that fails uses up its part of the room as well. */
static int read_memory_image(struct ct_target_source *s, struct room *room) {
    uint64_t size = 0;
    for (size_t i = 0; i < s->segment_count; i++) {
        const struct ct_target_segment *g = &s->segments[i];
        uint64_t end = g->offset + (g->file_end - g->start);
        size = end > size ? end : size;
    }
    if (!size || size > MAX_MEMORY_IMAGE || size > room->image)
        return CT_ERR_BAD_FILE;
    room->image -= size;
    s->memory_image = calloc(1, size);
    s->memory_image_size = size;
    if (!s->memory_image)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < s->segment_count; i++) {
        const struct ct_target_segment *g = &s->segments[i];
        int status = ct_remote_read(s->remote, g->start, s->memory_image + g->offset, g->file_end - g->start);
        if (status && (g->flags & PF_X))
            return status;
    }
    return 0;
}

static int load_from_memory(struct ct_target_source *s, const struct ct_os_map *map, const struct ct_os_map *first,
                            struct room *room) {
    uint8_t head[CT_TARGET_HEAD];
    struct ct_elf elf;
    int status = first ? ct_remote_read(s->remote, first->start, head, sizeof head) : CT_ERR_NOT_FOUND;
    if (!status)
        status = ct_elf_open_host(&elf, head, sizeof head);
    if (!status && !bias_of(&elf, map, &s->bias))
        status = CT_ERR_BAD_FILE;
    if (!status)
        status = note_segments(s, &elf);
    if (!status)
        status = read_memory_image(s, room);
    if (!status)
        status = ct_elf_open_host(&elf, s->memory_image, s->memory_image_size);
    if (!status) {
        unbias_dynamic(s, &elf);
        ct_elf_build_id(&elf, s->build_id);
    }
    return status;
}

/* ---- finding modules ---- */

/* The nearest mapping at or below this one that has the beginning of its file. */
static const struct ct_os_map *first_of(const struct ct_target_maps *maps, size_t i) {
    for (size_t k = i + 1; k-- > 0;)
        if (maps->items[k].inode == maps->items[i].inode && !maps->items[k].offset &&
            !strcmp(maps->items[k].path, maps->items[i].path))
            return &maps->items[k];
    return NULL;
}

static bool is_known(const struct ct_target_source *sources, size_t count, const struct ct_os_map *map) {
    for (size_t i = 0; i < count; i++)
        if (map->inode == sources[i].inode && map->start < sources[i].end && map->end > sources[i].start)
            return true;
    return false;
}

static size_t count_same(const struct ct_target_source *sources, size_t count, uint64_t inode) {
    size_t same = 0;
    for (size_t i = 0; i < count; i++)
        same += sources[i].inode == inode;
    return same;
}

/* Returns CT_ERR_BAD_FILE if there is no room left for this module. */
static int take_room(struct room *room, const struct ct_target_source *s) {
    uint64_t text = 0;
    for (size_t i = 0; i < s->text_count; i++)
        text += s->texts[i].end - s->texts[i].start; /* each below 2^40 */
    if (text > room->text)
        return CT_ERR_BAD_FILE;
    room->text -= text;
    return 0;
}

static int load_source(struct ct_target_source *s, const struct ct_target_maps *maps, size_t i, struct room *room) {
    const struct ct_os_map *map = &maps->items[i];
    s->path = strdup(map->path);
    s->inode = map->inode;
    if (!s->path)
        return CT_ERR_NO_MEMORY;
    int status = load_from_file(s, map);
    return status == CT_ERR_NOT_FOUND ? load_from_memory(s, map, first_of(maps, i), room) : status;
}

static void put_program_first(struct ct_target_source *sources, size_t count, uint64_t entry) {
    for (size_t i = 1; i < count; i++)
        if (entry >= sources[i].start && entry < sources[i].end) {
            struct ct_target_source program = sources[i];
            memmove(&sources[1], &sources[0], i * sizeof *sources);
            sources[0] = program;
            return;
        }
}

bool ct_target_is_code(const struct ct_os_map *map) {
    return (map->prot & CT_OS_EXEC) && map->inode && map->path[0] == '/';
}

const struct ct_target_known *ct_target_find_known(const struct ct_target_known *known, size_t count,
                                                   const struct ct_os_map *map) {
    for (size_t i = 0; i < count; i++)
        if (map->start >= known[i].start && map->start < known[i].end && map->inode == known[i].inode)
            return &known[i];
    return NULL;
}

int ct_target_sources_find(struct ct_target_source **out, size_t *count, struct ct_remote *remote,
                           const struct ct_target_maps *maps, const struct ct_target_plan_options *options) {
    struct ct_target_source *sources = calloc(maps->count + 1, sizeof *sources);
    struct room room = {MAX_ALL_TEXTS, MAX_ALL_READ};
    *out = sources;
    *count = 0;
    if (!sources)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < maps->count && *count < MAX_MODULES; i++) {
        const struct ct_os_map *map = &maps->items[i];
        if (!ct_target_is_code(map) || is_known(sources, *count, map) ||
            count_same(sources, *count, map->inode) >= MAX_SAME ||
            ct_target_find_known(options->known, options->known_count, map))
            continue;
        struct ct_target_source *s = &sources[*count];
        s->remote = remote;
        int status = load_source(s, maps, i, &room);
        if (!status)
            status = take_room(&room, s);
        if (!status) {
            ++*count;
            continue;
        }
        ct_target_source_free(s);
        *s = (struct ct_target_source){0};
        if (status == CT_ERR_NO_MEMORY)
            return status;
    }
    put_program_first(sources, *count, ct_remote_auxv(remote, AT_ENTRY));
    for (size_t i = 0; i < *count; i++)
        pthread_mutex_init(&sources[i].mutex, NULL);
    return 0;
}

/* ---- debug files ---- */

struct ct_debug_search ct_target_debug_search(const struct ct_target_source *s, char root[CT_DEBUG_ROOT_TEXT]) {
    return (struct ct_debug_search){.path = s->path, .root = ct_debug_root(ct_remote_pid(s->remote), root)};
}

void ct_target_debug_identify(struct ct_target_source *s) {
    char root[CT_DEBUG_ROOT_TEXT];
    struct ct_debug_search search = ct_target_debug_search(s, root);
    s->debug_id =
        ct_debug_identity(s->file ? s->file : s->memory_image, s->file ? s->file_size : s->memory_image_size, &search);
    if (s->guess)
        s->debug_id ^= GUESSED; /* an image with guesses is another one */
}

/* ---- bytes ---- */

int ct_target_source_read(struct ct_target_source *s) {
    for (size_t i = 0; i < s->text_count; i++) {
        struct ct_target_text *t = &s->texts[i];
        size_t size = (size_t)(t->end - t->start);
        t->code = malloc(size);
        if (!t->code)
            return CT_ERR_NO_MEMORY;
        int status = ct_remote_read(s->remote, t->start, t->code, size);
        if (status)
            return status;
        t->hash = ct_target_hash(t->code, size, size);
    }
    return 0;
}

void ct_target_source_drop_code(struct ct_target_source *s) {
    for (size_t i = 0; i < s->text_count; i++) {
        free(s->texts[i].code);
        s->texts[i].code = NULL;
    }
    ct_target_source_drop_data(s);
    free(s->memory_image);
    s->memory_image = NULL;
    close_file(s);
}

void ct_target_source_free(struct ct_target_source *s) {
    ct_target_source_drop_code(s);
    forget_segments(s);
    free(s->path);
    free(s->image_made);
    if (s->image_mapped)
        munmap(s->image_mapped, s->image_size);
    s->path = NULL;
    s->image_made = s->image_mapped = NULL;
}
