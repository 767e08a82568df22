/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of another process, from its maps: every file of which a part is mapped executable, and the vdso.
 *
 * Files are opened as that process sees them and stay open here, so that tables can be made at any time. Load bias and
 * span come from the file's program headers, because mappings may be split, or their protection changed. */
#include "base/grow.h"
#include "inspect/process.h"
#include "abi/shm_abi.h"
#include "plan/debug_root.h"
#include "inject/recorder.h"
#include "symbols/debug_file.h"
#include "symbols/file_image.h"
#include "symbols/lines.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_VDSO (64u << 10)
/* A process may map anything, any number of times, and each time counts as a module. */
#define MAX_FILES 8192u
#define MAX_SAME  32u /* modules of one file: loaders have 16 name spaces */

/* ---- one file ---- */

static void close_file(struct ct_process_file *file) {
    if (!file)
        return;
    ct_functions_close(file->functions);
    ct_unwind_close(file->unwind);
    ct_lines_close(file->lines);
    if (file->copied)
        free(file->image);
    else
        ct_file_image_close(file->image, file->image_size);
    free(file->path);
    free(file);
}

/* The vdso is not a file: its bytes are read from memory. */
static bool copy_image(struct ct_process_file *file, const struct ct_remote *remote, const struct ct_os_map *map) {
    size_t size = (size_t)(map->end - map->start);
    if (size > MAX_VDSO)
        return false;
    file->image = malloc(size);
    file->image_size = size;
    file->copied = true;
    return file->image && ct_remote_read(remote, map->start, file->image, size) == 0;
}

static uint64_t page_down(uint64_t x) {
    return x & ~(uint64_t)(ct_os_page_size() - 1);
}

/* False: not an ELF file, or its segments do not explain this mapping. */
static bool place_image(struct ct_process_file *file, const struct ct_os_map *map) {
    struct ct_elf elf;
    Elf64_Phdr segment;
    bool placed = false;
    if (ct_elf_open_host(&elf, file->image, file->image_size))
        return false;
    for (uint32_t i = 0; ct_elf_segment(&elf, i, &segment) && !placed; i++) {
        uint64_t end = segment.p_offset + segment.p_filesz;
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || map->offset < page_down(segment.p_offset) ||
            map->offset >= end)
            continue;
        file->bias = map->start - (map->offset - page_down(segment.p_offset)) - page_down(segment.p_vaddr);
        placed = true;
    }
    if (!placed)
        return false;
    file->start = UINT64_MAX;
    for (uint32_t i = 0; ct_elf_segment(&elf, i, &segment); i++) {
        uint64_t start = file->bias + page_down(segment.p_vaddr);
        uint64_t end = file->bias + page_down(segment.p_vaddr + segment.p_memsz + ct_os_page_size() - 1);
        if (segment.p_type != PT_LOAD)
            continue;
        file->start = start < file->start ? start : file->start;
        file->end = end > file->end ? end : file->end;
    }
    return file->start <= map->start && file->end > map->start;
}

static struct ct_process_file *open_file(const struct ct_remote *remote, const struct ct_os_map *map) {
    struct ct_process_file *file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    bool opened = false;
    file->path = strdup(map->path);
    file->inode = map->inode;
    file->pid = ct_remote_pid(remote);
    if (map->inode) {
        int fd = ct_remote_open_mapped(remote, map);
        file->image = fd >= 0 ? ct_file_image_open(fd, &file->image_size) : NULL;
        opened = file->image != NULL;
        if (fd >= 0)
            close(fd);
    } else {
        opened = copy_image(file, remote, map);
    }
    if (opened && file->path && place_image(file, map))
        return file;
    close_file(file);
    return NULL;
}

/* ---- all modules ---- */

static int add_code(struct ct_process *process, const struct ct_os_map *map, bool anonymous) {
    if (!ct_grow(&process->code, &process->code_capacity, process->code_count, sizeof *process->code, 64))
        return CT_ERR_NO_MEMORY;
    bool generated = anonymous && (!map->path[0] || !strncmp(map->path, "[anon", 5));
    process->code[process->code_count++] = (struct ct_process_code){map->start, map->end, anonymous, generated};
    return 0;
}

static int add_file(struct ct_process *process, struct ct_process_file *file) {
    if (!ct_grow(&process->files, &process->file_capacity, process->file_count, sizeof *process->files, 32)) {
        close_file(file);
        return CT_ERR_NO_MEMORY;
    }
    process->files[process->file_count++] = file;
    return 0;
}

static bool is_vdso(const struct ct_os_map *map) {
    return !strcmp(map->path, "[vdso]");
}

/* A recorder that follows has no table of blocks. */
static bool has_tables(struct ct_process *process, uint64_t lane) {
    struct ct_shm_control control;
    return !ct_remote_read(process->remote, lane, &control, sizeof control) && control.magic == CT_SHM_MAGIC &&
           control.version == CT_SHM_VERSION && control.boot;
}

static int visit_map(void *arg, const struct ct_os_map *map) {
    struct ct_process *process = arg;
    process->recorded |= !strncmp(map->path, "/memfd:contrail", 15);
    if (!process->lane && ct_recorder_is_memory(map) && !map->offset && has_tables(process, map->start))
        process->lane = map->start;
    if (!(map->prot & CT_OS_EXEC))
        return 0;
    bool anonymous = map->inode == 0 && !is_vdso(map);
    int status = add_code(process, map, anonymous);
    if (status || anonymous)
        return status;
    unsigned same = 0;
    for (size_t i = 0; i < process->file_count; i++) {
        struct ct_process_file *file = process->files[i];
        same += file->inode == map->inode;
        if (map->start >= file->start && map->start < file->end && file->inode == map->inode &&
            !strcmp(file->path, map->path)) {
            file->seen = true;
            return 0;
        }
    }
    if (process->file_count >= MAX_FILES || same >= MAX_SAME)
        return 0;
    struct ct_process_file *file = open_file(process->remote, map);
    if (!file)
        return 0; /* not ELF: code without a table */
    file->seen = true;
    return add_file(process, file);
}

static int by_start(const void *a, const void *b) {
    const struct ct_process_file *x = *(struct ct_process_file *const *)a, *y = *(struct ct_process_file *const *)b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void drop_unseen(struct ct_process *process) {
    size_t kept = 0;
    for (size_t i = 0; i < process->file_count; i++) {
        if (process->files[i]->seen)
            process->files[kept++] = process->files[i];
        else
            close_file(process->files[i]);
    }
    process->file_count = kept;
}

int ct_process_refresh(struct ct_process *process) {
    process->code_count = 0;
    process->recorded = false;
    process->lane = 0;
    for (size_t i = 0; i < process->file_count; i++)
        process->files[i]->seen = false;
    int status = ct_remote_each_map(process->remote, visit_map, process);
    if (status)
        return status;
    drop_unseen(process);
    if (process->file_count)
        qsort(process->files, process->file_count, sizeof *process->files, by_start);
    return 0;
}

void ct_process_forget(struct ct_process *process) {
    for (size_t i = 0; i < process->file_count; i++)
        close_file(process->files[i]);
    free(process->files);
    free(process->code);
}

/* ---- lookups ---- */

const struct ct_process_code *ct_process_code_at(const struct ct_process *process, uint64_t address) {
    size_t low = 0, high = process->code_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (address < process->code[middle].start)
            high = middle;
        else if (address >= process->code[middle].end)
            low = middle + 1;
        else
            return &process->code[middle];
    }
    return NULL;
}

struct ct_process_file *ct_process_file_at(const struct ct_process *process, uint64_t address) {
    const struct ct_process_code *code = ct_process_code_at(process, address);
    if (!code || code->anonymous) /* spans may overlap mappings in the gaps of others */
        return NULL;
    for (size_t i = 0; i < process->file_count; i++)
        if (address >= process->files[i]->start && address < process->files[i]->end)
            return process->files[i];
    return NULL;
}

const struct ct_functions *ct_process_functions(struct ct_process_file *file) {
    if (!file->functions_tried) {
        file->functions_tried = true;
        char root[CT_DEBUG_ROOT_TEXT];
        struct ct_debug_search search = {.path = file->path, .root = ct_debug_root(file->pid, root)};
        if (ct_functions_open_image_full(&file->functions, file->image, file->image_size, &search))
            file->functions = NULL;
    }
    return file->functions;
}

const struct ct_unwind *ct_process_unwind(struct ct_process_file *file) {
    if (!file->unwind_tried) {
        file->unwind_tried = true;
        if (ct_unwind_open(&file->unwind, file->image, file->image_size))
            file->unwind = NULL;
    }
    return file->unwind;
}

/* The file at the module's path has its lines, if it is still the module's file. */
static bool has_own_lines(const struct ct_process_file *file, const struct ct_elf *elf, char path[PATH_MAX]) {
    struct ct_elf_section section;
    struct ct_debug_file now;
    int length = snprintf(path, PATH_MAX, "/proc/%d/root%s", file->pid, file->path);
    if (!ct_elf_section_named(elf, ".debug_line", &section) || length >= PATH_MAX || !ct_debug_file_map(&now, path))
        return false;
    char ours[CT_BUILD_ID_TEXT], theirs[CT_BUILD_ID_TEXT];
    ct_elf_build_id(elf, ours);
    ct_elf_build_id(&now.elf, theirs);
    bool same = now.size == file->image_size && !strcmp(ours, theirs);
    ct_debug_file_close(&now);
    return same;
}

struct ct_lines *ct_process_lines(struct ct_process_file *file) {
    char path[PATH_MAX], root[CT_DEBUG_ROOT_TEXT];
    struct ct_debug_file debug;
    struct ct_elf elf;
    if (file->lines_tried)
        return file->lines;
    file->lines_tried = true;
    if (file->copied || ct_elf_open_host(&elf, file->image, file->image_size))
        return NULL;
    struct ct_debug_search search = {.path = file->path, .root = ct_debug_root(file->pid, root)};
    if (!has_own_lines(file, &elf, path)) {
        if (!ct_debug_file_find(&debug, &elf, &search))
            return NULL;
        memcpy(path, debug.path, sizeof path);
        ct_debug_file_close(&debug);
    }
    if (ct_lines_open(&file->lines, path))
        file->lines = NULL;
    return file->lines;
}
