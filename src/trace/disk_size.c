/* SPDX-License-Identifier: Apache-2.0 */
/* What a directory takes on disk, as du counts: allocated blocks, those of directories too, and a file with several
 * names once (forked children have a link to their parent's symbols). */
#include "base/grow.h"
#include "trace/reader.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 4, BLOCK = 512 }; /* session, process, thread, file; st_blocks counts blocks of 512 bytes */

struct sum {
    uint64_t bytes;
    struct link {
        dev_t device;
        ino_t inode;
    } * links; /* files with several names that were counted */
    size_t link_count, link_capacity;
};

static bool is_new(struct sum *s, const struct stat *file) {
    if (S_ISDIR(file->st_mode) || file->st_nlink < 2)
        return true;
    for (size_t i = 0; i < s->link_count; i++)
        if (s->links[i].device == file->st_dev && s->links[i].inode == file->st_ino)
            return false;
    if (ct_grow(&s->links, &s->link_capacity, s->link_count, sizeof *s->links, 16))
        s->links[s->link_count++] = (struct link){file->st_dev, file->st_ino};
    return true;
}

static void add_directory(struct sum *s, int fd, unsigned depth);

static void add_entry(struct sum *s, int directory, const char *name, unsigned depth) {
    struct stat file;
    if (fstatat(directory, name, &file, AT_SYMLINK_NOFOLLOW))
        return;
    if (is_new(s, &file))
        s->bytes += (uint64_t)file.st_blocks * BLOCK;
    if (S_ISDIR(file.st_mode) && depth < MAX_DEPTH)
        add_directory(s, openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), depth + 1);
}

/* Closes the descriptor. */
static void add_directory(struct sum *s, int fd, unsigned depth) {
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory && fd >= 0)
        close(fd);
    for (const struct dirent *entry; directory && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            add_entry(s, dirfd(directory), entry->d_name, depth);
    if (directory)
        closedir(directory);
}

uint64_t ct_find_disk_bytes(const char *path) {
    struct sum s = {0};
    add_entry(&s, AT_FDCWD, path, 0);
    free(s.links);
    return s.bytes;
}
