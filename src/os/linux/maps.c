/* SPDX-License-Identifier: Apache-2.0 */
/* Parses /proc/self/maps as a stream of characters. A line may be split over reads anywhere and have any length (a path
 * longer than PATH_MAX is cut). A newline in a path arrives as \012, so it never ends a line. The stack frame stays
 * below 8 KiB, because this also runs on small stacks. */
#include "os/os.h"
#include "os/thread.h"
#include "syscall.h"

#include <linux/limits.h>

enum { READ_SIZE = 3072 };

/* The fields of a line, in order: start-end perms offset major:minor inode path */
enum field { F_START, F_END, F_PERMS, F_OFFSET, F_DEVICE, F_INODE, F_SPACE, F_PATH };

struct parser {
    enum field field;
    struct ct_os_map map;
    size_t path_size;
    char path[PATH_MAX];
};

static void begin_line(struct parser *p) {
    p->field = F_START;
    p->map.start = p->map.end = p->map.offset = p->map.inode = 0;
    p->map.prot = 0;
    p->map.shared = p->map.deleted = false;
    p->map.role = CT_OS_MAP_OTHER;
    p->map.path = p->path;
    p->path_size = 0;
}

static void add_hex(uint64_t *value, char c) {
    unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
    *value = *value << 4 | (digit & 15);
}

static void add_perm(struct ct_os_map *map, char c) {
    map->prot |= c == 'r' ? CT_OS_READ : c == 'w' ? CT_OS_WRITE : c == 'x' ? CT_OS_EXEC : 0;
    map->shared |= c == 's';
}

static void add_path(struct parser *p, char c) {
    if (p->path_size < sizeof p->path - 1)
        p->path[p->path_size++] = c;
    char *end = p->path + p->path_size;
    if (p->path_size >= 4 && end[-4] == '\\' && end[-3] == '0' && end[-2] == '1' && end[-1] == '2') {
        p->path_size -= 3;
        end[-4] = '\n';
    }
}

/* Parses one character that is not the end of the line. */
static void add_character(struct parser *p, char c) {
    if (p->field < F_SPACE && (c == ' ' || (c == '-' && p->field == F_START))) {
        p->field++;
        return;
    }
    switch (p->field) {
    case F_START:
        add_hex(&p->map.start, c);
        break;
    case F_END:
        add_hex(&p->map.end, c);
        break;
    case F_PERMS:
        add_perm(&p->map, c);
        break;
    case F_OFFSET:
        add_hex(&p->map.offset, c);
        break;
    case F_DEVICE:
        break;
    case F_INODE:
        p->map.inode = p->map.inode * 10 + (uint64_t)(c - '0');
        break;
    case F_SPACE:
        if (c == ' ')
            break;
        p->field = F_PATH;
        __attribute__((fallthrough));
    case F_PATH:
        add_path(p, c);
        break;
    }
}

static bool equals(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static void end_line(struct parser *p) {
    static const char suffix[] = " (deleted)";
    const size_t n = sizeof suffix - 1;
    p->path[p->path_size] = 0;
    if (p->map.inode != 0 && p->path_size > n && equals(p->path + p->path_size - n, suffix)) {
        p->path[p->path_size - n] = 0;
        p->map.deleted = true;
    }
    if (equals(p->path, "[heap]"))
        p->map.role = CT_OS_MAP_HEAP;
    else if (equals(p->path, "[stack]"))
        p->map.role = CT_OS_MAP_STACK;
}

static int parse(long fd, int (*each)(void *arg, const struct ct_os_map *map), void *arg, bool *empty) {
    struct parser p;
    char buffer[READ_SIZE];
    *empty = true;
    begin_line(&p);
    for (;;) {
        long size = sys_read(fd, buffer, sizeof buffer);
        if (size <= 0)
            return status_of(size);
        *empty = false;
        for (long i = 0; i < size; i++) {
            if (buffer[i] != '\n') {
                add_character(&p, buffer[i]);
                continue;
            }
            end_line(&p);
            int result = each(arg, &p.map);
            if (result != 0)
                return result;
            begin_line(&p);
        }
    }
}

/* The list of the process is empty once its first thread has ended: the others have lists of their own then. (They
 * always have, but an emulator of user programs knows the first name only.) */
int ct_os_each_map(int (*each)(void *arg, const struct ct_os_map *map), void *arg) {
    bool empty = true;
    int result = CT_OK;
    if (ct_os_is_silent())
        return CT_ERR_UNSUPPORTED;
    for (unsigned i = 0; i < 2 && empty && !result; i++) {
        long fd = sys_open(i ? "/proc/thread-self/maps" : "/proc/self/maps", O_RDONLY);
        if (failed(fd))
            return status_of(fd);
        result = parse(fd, each, arg, &empty);
        sys_close(fd);
    }
    return result;
}

int ct_os_each_map_of(int pid, int (*each)(void *arg, const struct ct_os_map *map), void *arg) {
    char path[40];
    put_text(put_number(put_text(path, "/proc/"), (unsigned long)pid), "/maps");
    long fd = sys_open(path, O_RDONLY);
    if (failed(fd))
        return fd == -ENOENT || fd == -ESRCH ? CT_ERR_NOT_FOUND : status_of(fd);
    bool empty;
    int result = parse(fd, each, arg, &empty);
    sys_close(fd);
    return result;
}
