/* A place for a few instructions of ours in another process, without changing its mappings.
 *
 * The kernel maps whole pages; what lies behind the end of an executable image in its last page is zero and belongs to
 * nothing. Nobody jumps there. First choice is the vdso, which every process has; else a file's last page of code. */
#include "remote/parts.h"

#include <elf.h>
#include <string.h>

struct search {
    struct ct_remote *remote;
    uint64_t found;
    uint64_t header, header_inode; /* where the file's first page is mapped, and which file it is */
};

static bool is_zero(const struct ct_remote *remote, uint64_t at) {
    uint8_t bytes[CT_REMOTE_GADGET_ROOM];
    if (ct_remote_read(remote, at, bytes, sizeof bytes) != CT_OK)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        if (bytes[i])
            return false;
    return true;
}

/* First file offset that no executable segment, and not the table of sections, reaches into; 0: cannot be told. */
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

static int look_at_map(void *arg, const struct ct_os_map *map) {
    struct search *search = arg;
    bool vdso = strcmp(map->path, "[vdso]") == 0;
    if (vdso || (map->inode && map->offset == 0)) {
        search->header = map->start;
        search->header_inode = map->inode;
    }
    if (!(map->prot & CT_OS_EXEC) || map->shared || map->end - map->start < CT_REMOTE_GADGET_ROOM)
        return 0;
    if (!vdso && (map->inode == 0 || map->inode != search->header_inode || search->found))
        return 0;
    uint64_t at = map->end - CT_REMOTE_GADGET_ROOM, offset = map->offset + (at - map->start);
    uint64_t end = end_of_code(search->remote, search->header, vdso);
    if (end == 0 || end > offset || !is_zero(search->remote, at))
        return 0;
    search->found = at;
    return vdso; /* the best place: no need to look on */
}

int ct_remote_find_gadget(struct ct_remote *remote) {
    struct search search = {.remote = remote};
    int status = ct_remote_each_map(remote, look_at_map, &search);
    if (status < 0)
        return status;
    remote->gadget = search.found;
    return search.found ? CT_OK : CT_ERR_NO_SPACE;
}
