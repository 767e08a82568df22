/* SPDX-License-Identifier: Apache-2.0 */
/* Room for a few instructions of ours in another process, without changing its mappings.
 *
 * The kernel maps whole pages. In the last page of an executable image, the bytes after its end are zero and belong to
 * nothing; nobody jumps there. The first choice is the vdso, which every process has; the second is a file's last page
 * of code. Code that a dead controller has left is not overwritten as long as there is another place: a thread may
 * still need it. */
#include "remote/remote_internal.h"
#include "remote/frames.h"

#include <elf.h>
#include <string.h>

enum { MAX_LEFT = 64 };

/* Code that a dead controller has left, and where it returns to. */
struct left {
    uint64_t at, pc, sp;
};

struct search {
    struct ct_remote *remote;
    uint64_t found;
    struct left left[MAX_LEFT];
    size_t left_count;
    uint64_t header, header_inode; /* where the file's first page is mapped, and which file it is */
};

static bool is_inside(uint64_t address, uint64_t at) {
    return address - at < CT_REMOTE_GADGET_ROOM;
}

static int look_at_frame(void *arg, struct ct_remote_frame *frame) {
    return is_inside(frame->pc, *(const uint64_t *)arg);
}

/* Will a thread with this pc and sp execute the code at `at`? It may be in a signal handler that interrupted that
 * code. */
static bool leads_to(struct ct_remote *remote, uint64_t pc, uint64_t sp, uint64_t at) {
    return is_inside(pc, at) || ct_remote_each_frame(remote, sp, look_at_frame, &at) != 0;
}

/* Threads on their way back may be in this code, or in a later controller's code that returns to it. */
static bool is_needed(struct search *search, uint64_t at) {
    const struct seize_set *set = &search->remote->set;
    for (size_t i = 0; i < set->count; i++)
        if (leads_to(search->remote, ct_registers_pc(&set->threads[i].regs), ct_registers_sp(&set->threads[i].regs),
                     at))
            return true;
    for (size_t i = 0; i < search->left_count; i++) {
        const struct left *left = &search->left[i];
        if (left->at != at && leads_to(search->remote, left->pc, left->sp, at))
            return true;
    }
    return false;
}

static bool is_empty(struct search *search, uint64_t at) {
    static const uint8_t zero[CT_REMOTE_GADGET_ROOM];
    uint8_t bytes[CT_REMOTE_GADGET_ROOM];
    struct left left = {.at = at};
    if (ct_remote_read(search->remote, at, bytes, sizeof bytes) != CT_OK)
        return false;
    if (ct_call_is_code(bytes, &left.pc, &left.sp) && search->left_count < MAX_LEFT)
        search->left[search->left_count++] = left;
    return memcmp(bytes, zero, sizeof zero) == 0;
}

/* First file offset after all executable segments and the section table; 0: unknown. */
static uint64_t end_of_code(const struct ct_remote *remote, uint64_t header, bool sections) {
    Elf64_Ehdr elf;
    Elf64_Phdr segment;
    if (ct_remote_read(remote, header, &elf, sizeof elf) != CT_OK || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_phentsize != sizeof segment || elf.e_phoff > ct_os_page_size())
        return 0;
    uint64_t end = sections ? elf.e_shoff + (uint64_t)elf.e_shnum * elf.e_shentsize : 0;
    for (unsigned i = 0; i < elf.e_phnum; i++) {
        if (ct_remote_read(remote, header + elf.e_phoff + i * sizeof segment, &segment, sizeof segment) != CT_OK)
            return 0;
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && segment.p_offset + segment.p_filesz > end)
            end = segment.p_offset + segment.p_filesz;
    }
    return end;
}

static bool is_vdso(const struct ct_os_map *map) {
    return strcmp(map->path, "[vdso]") == 0;
}

static void note_header(struct search *search, const struct ct_os_map *map) {
    if (is_vdso(map) || (map->inode && map->offset == 0)) {
        search->header = map->start;
        search->header_inode = map->inode;
    }
}

static bool is_code_of_file(const struct search *search, const struct ct_os_map *map) {
    return (map->prot & CT_OS_EXEC) && !map->shared &&
           (is_vdso(map) || (map->inode != 0 && map->inode == search->header_inode));
}

static int look_at_map(void *arg, const struct ct_os_map *map) {
    struct search *search = arg;
    bool vdso = is_vdso(map);
    note_header(search, map);
    if (!is_code_of_file(search, map) || (search->found && !vdso))
        return 0;
    uint64_t end = end_of_code(search->remote, search->header, vdso);
    uint64_t at = map->end - CT_REMOTE_GADGET_ROOM, last_page = map->end - ct_os_page_size();
    for (; end && at >= last_page && map->offset + (at - map->start) >= end; at -= CT_REMOTE_GADGET_ROOM) {
        if (!is_empty(search, at))
            continue;
        search->found = at;
        return vdso; /* the best place: the search ends */
    }
    return 0;
}

/* ---- a few bytes that are near ---- */

struct near {
    struct search search;
    const struct saved *saved;
};

static bool is_zero(const struct ct_remote *remote, uint64_t at) {
    static const uint8_t zero[CT_REMOTE_NEAR];
    uint8_t bytes[CT_REMOTE_NEAR];
    return ct_remote_read(remote, at, bytes, sizeof bytes) == CT_OK && memcmp(bytes, zero, sizeof bytes) == 0;
}

static int look_for_near(void *arg, const struct ct_os_map *map) {
    struct near *near = arg;
    struct search *search = &near->search;
    note_header(search, map);
    if (!is_code_of_file(search, map))
        return 0;
    uint64_t end = end_of_code(search->remote, search->header, map->inode == 0);
    uint64_t at = map->end - CT_REMOTE_NEAR, last_page = map->end - ct_os_page_size();
    for (; end && at >= last_page && map->offset + (at - map->start) >= end; at -= CT_REMOTE_NEAR) {
        if (!ct_call_near_fits(near->saved, at))
            return 0;
        if (at - search->remote->gadget < CT_REMOTE_GADGET_ROOM || !is_zero(search->remote, at))
            continue;
        search->found = at;
        return 1;
    }
    return 0;
}

uint64_t ct_remote_find_near(struct ct_remote *remote, const struct saved *saved) {
    struct near near = {.search = {.remote = remote}, .saved = saved};
    (void)ct_remote_each_map(remote, look_for_near, &near);
    return near.search.found;
}

int ct_remote_find_gadget(struct ct_remote *remote) {
    struct search search = {.remote = remote};
    int status = ct_remote_each_map(remote, look_at_map, &search);
    if (status < 0)
        return status;
    for (size_t i = 0; !search.found && i < search.left_count; i++)
        if (!is_needed(&search, search.left[i].at))
            search.found = search.left[i].at;
    remote->gadget = search.found;
    return search.found ? CT_OK : CT_ERR_NO_SPACE;
}
