/* SPDX-License-Identifier: Apache-2.0 */
/* Separate debug files: which paths to try, and whether a file found there belongs to the module. */
#include "symbols/debug_file.h"
#include "symbols/file_image.h"
#include <contrail/status.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DEBUG_DATA ((size_t)512 << 20) /* after unpacking */
#define MAX_LINK_NAME  256

static const char *const usual_directories[] = {"/usr/lib/debug", NULL};

/* What the module says about its debug file. */
struct wanted {
    char build_id[CT_BUILD_ID_TEXT];
    char link[MAX_LINK_NAME]; /* .gnu_debuglink: a file name, "" */
    uint32_t crc;
    char folder[PATH_MAX]; /* directory of the module, "" or "/usr/bin" */
};

/* ---- checksum ---- */

static uint32_t crc_tables[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void make_crc_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        crc_tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            crc_tables[k][i] = crc_tables[k - 1][i] >> 8 ^ crc_tables[0][crc_tables[k - 1][i] & 0xff];
}

/* Eight bytes at a time: debug files are large. */
uint32_t ct_debug_crc(const void *bytes, size_t size) {
    const uint8_t *p = bytes;
    uint32_t crc = ~0u;
    pthread_once(&crc_once, make_crc_tables);
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= crc_tables[7 - k][word >> 8 * k & 0xff];
    }
    for (; size; size--)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *p++) & 0xff];
    return ~crc;
}

/* ---- what the module needs ---- */

bool ct_debug_has_symbols(const struct ct_elf *elf) {
    struct ct_elf_section section;
    for (uint32_t i = 0; i < elf->shnum; i++)
        if (ct_elf_section(elf, i, &section) && section.type == SHT_SYMTAB && section.bytes.size)
            return true;
    return false;
}

/* Reads a name, padded to four bytes, and the checksum. Accepts only a plain file name. */
static void read_link(const struct ct_elf *elf, struct wanted *w) {
    struct ct_elf_section section;
    if (!ct_elf_section_named(elf, ".gnu_debuglink", &section) || section.bytes.size < 8)
        return;
    const char *name = (const char *)section.bytes.data;
    size_t length = strnlen(name, section.bytes.size), at = (length + 4) & ~(size_t)3;
    if (!length || length >= sizeof w->link || at + 4 > section.bytes.size || memchr(name, '/', length))
        return;
    memcpy(w->link, name, length + 1);
    memcpy(&w->crc, section.bytes.data + at, 4);
}

static void read_wanted(const struct ct_elf *elf, const struct ct_debug_search *search, struct wanted *w) {
    *w = (struct wanted){0};
    ct_elf_build_id(elf, w->build_id);
    read_link(elf, w);
    const char *slash = search->path ? strrchr(search->path, '/') : NULL;
    if (slash && (size_t)(slash - search->path) < sizeof w->folder)
        memcpy(w->folder, search->path, (size_t)(slash - search->path));
    else
        w->link[0] = search->directories ? w->link[0] : 0;
}

/* ---- candidates ---- */

enum way { BY_BUILD_ID, BESIDE, BELOW_DEBUG, BY_FOLDER, BY_NAME, WAYS };

/* False: there is no such path. */
static bool make_path(const struct wanted *w, enum way way, const char *root, const char *directory,
                      char path[PATH_MAX]) {
    int length = -1;
    bool first = directory == NULL;
    if (way == BY_BUILD_ID ? strlen(w->build_id) < 4 : !w->link[0])
        return false;
    if (first != (way == BESIDE || way == BELOW_DEBUG))
        return false;
    switch (way) {
    case BY_BUILD_ID:
        length =
            snprintf(path, PATH_MAX, "%s%s/.build-id/%.2s/%s.debug", root, directory, w->build_id, w->build_id + 2);
        break;
    case BESIDE:
        length = snprintf(path, PATH_MAX, "%s%s/%s", root, w->folder, w->link);
        break;
    case BELOW_DEBUG:
        length = snprintf(path, PATH_MAX, "%s%s/.debug/%s", root, w->folder, w->link);
        break;
    case BY_FOLDER:
        length = snprintf(path, PATH_MAX, "%s%s%s/%s", root, directory, w->folder, w->link);
        break;
    default:
        length = snprintf(path, PATH_MAX, "%s%s/%s", root, directory, w->link);
    }
    return length > 0 && length < PATH_MAX;
}

/* Calls `visit` with each path until it returns true. The process's own root comes first. */
static bool each_candidate(const struct wanted *w, const struct ct_debug_search *search,
                           bool (*visit)(void *arg, const struct wanted *w, const char *path), void *arg) {
    char path[PATH_MAX];
    const char *const *directories = search->directories ? search->directories : usual_directories;
    const char *roots[] = {search->root, ""};
    if (search->file && visit(arg, w, search->file))
        return true;
    for (int way = 0; way < WAYS; way++)
        for (size_t r = search->root ? 0 : 1; r < 2; r++) {
            if (make_path(w, (enum way)way, roots[r], NULL, path) && visit(arg, w, path))
                return true;
            for (size_t d = 0; directories[d]; d++)
                if (make_path(w, (enum way)way, roots[r], directories[d], path) && visit(arg, w, path))
                    return true;
        }
    return false;
}

/* ---- finding it ---- */

bool ct_debug_file_map(struct ct_debug_file *out, const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *out = (struct ct_debug_file){.mapped = true};
    if (file < 0)
        return false;
    out->bytes = ct_file_image_open(file, &out->size);
    close(file);
    if (!out->bytes)
        return false;
    if (!ct_elf_open(&out->elf, out->bytes, out->size)) {
        snprintf(out->path, sizeof out->path, "%s", path);
        return true;
    }
    ct_debug_file_close(out);
    return false;
}

static bool is_wanted(const struct wanted *w, const struct ct_debug_file *file) {
    char build_id[CT_BUILD_ID_TEXT];
    ct_elf_build_id(&file->elf, build_id);
    if (*build_id && w->build_id[0])
        return strcmp(build_id, w->build_id) == 0;
    return w->link[0] && ct_debug_crc(file->bytes, file->size) == w->crc;
}

static bool try_file(void *arg, const struct wanted *w, const char *path) {
    struct ct_debug_file *out = arg;
    if (!ct_debug_file_map(out, path))
        return false;
    if (is_wanted(w, out))
        return true;
    ct_debug_file_close(out);
    return false;
}

bool ct_debug_file_find(struct ct_debug_file *out, const struct ct_elf *elf, const struct ct_debug_search *search) {
    struct wanted w;
    read_wanted(elf, search, &w);
    return each_candidate(&w, search, try_file, out);
}

/* Changes when any of the files changes; reads none of them. */
static bool add_identity(void *arg, const struct wanted *w, const char *path) {
    uint64_t *hash = arg;
    struct stat status;
    (void)w;
    if (stat(path, &status))
        return false;
    const uint64_t facts[] = {status.st_dev, status.st_ino, (uint64_t)status.st_size, (uint64_t)status.st_mtim.tv_sec,
                              (uint64_t)status.st_mtim.tv_nsec};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        *hash = (*hash ^ facts[i]) * 0x9e3779b97f4a7c15u;
    return false;
}

uint64_t ct_debug_identity(const void *image, size_t size, const struct ct_debug_search *search) {
    struct ct_elf elf;
    struct wanted w;
    uint64_t hash = 0;
    if (ct_elf_open(&elf, image, size) || ct_debug_has_symbols(&elf))
        return 0;
    read_wanted(&elf, search, &w);
    each_candidate(&w, search, add_identity, &hash);
    return hash;
}

/* ---- inside the module ---- */

bool ct_debug_data_open(struct ct_debug_file *out, const struct ct_elf *elf) {
    struct ct_elf_section section;
    *out = (struct ct_debug_file){0};
    if (!ct_elf_section_named(elf, ".gnu_debugdata", &section) || !section.bytes.size)
        return false;
    if (!ct_xz_unpack(section.bytes.data, section.bytes.size, MAX_DEBUG_DATA, &out->bytes, &out->size))
        return false;
    if (!ct_elf_open(&out->elf, out->bytes, out->size))
        return true;
    ct_debug_file_close(out);
    return false;
}

void ct_debug_file_close(struct ct_debug_file *file) {
    if (file->mapped)
        ct_file_image_close(file->bytes, file->size);
    else
        free(file->bytes);
    *file = (struct ct_debug_file){0};
}
