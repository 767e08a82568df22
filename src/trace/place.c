/* SPDX-License-Identifier: Apache-2.0 */
/* See place.h. A place either owns a descriptor, or uses its parent's with a prefix before every name. */
#include "trace/place.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define LEVELS    8  /* depth of directories that are cleared */
#define LINKS     40 /* links that one walk follows, as in the kernel */

struct ct_place {
    int users;
    int fd;
    bool owns;               /* it owns the descriptor */
    struct ct_place *parent; /* directory in which it was made, or whose descriptor it uses; NULL: it existed */
    char *name;              /* in the parent, if we made it */
    char *prefix;            /* before every name: "" or "pid_7/" */
    gid_t group;
};

const char *ct_place_reason(int error) {
    switch (error) {
    case CT_PLACE_LINK:
        return "a symbolic link on the way there could have been made by another user";
    case CT_PLACE_SWAPPED:
        return "another user has put something else in its place";
    case CT_PLACE_NOT_OURS:
        return "another user owns it, or others can write it";
    default:
        return strerror(error);
    }
}

/* ---- create and free ---- */

static int create_place(struct ct_place **out, int fd, struct ct_place *parent, const char *name, gid_t group) {
    struct ct_place *place = calloc(1, sizeof *place);
    if (place) {
        *place = (struct ct_place){.users = 1, .fd = fd, .owns = true, .group = group, .prefix = strdup("")};
        place->name = name ? strdup(name) : NULL;
        place->parent = parent ? ct_place_hold(parent) : NULL;
    }
    if (place && place->prefix && (!name || place->name)) {
        *out = place;
        return 0;
    }
    if (place)
        ct_place_drop(place);
    else
        close(fd);
    return ENOMEM;
}

struct ct_place *ct_place_hold(struct ct_place *place) {
    __atomic_add_fetch(&place->users, 1, __ATOMIC_RELAXED);
    return place;
}

void ct_place_drop(struct ct_place *place) {
    while (place && !__atomic_sub_fetch(&place->users, 1, __ATOMIC_ACQ_REL)) {
        struct ct_place *parent = place->parent;
        if (place->owns)
            close(place->fd);
        free(place->name);
        free(place->prefix);
        free(place);
        place = parent;
    }
}

int ct_place_below(struct ct_place **out, struct ct_place *parent, const char *name) {
    struct ct_place *place = calloc(1, sizeof *place);
    *out = NULL;
    if (!place)
        return ENOMEM;
    *place = (struct ct_place){.users = 1, .fd = parent->fd, .group = parent->group, .parent = ct_place_hold(parent)};
    if (asprintf(&place->prefix, "%s%s/", parent->prefix, name) < 0) {
        place->prefix = NULL;
        ct_place_drop(place);
        return ENOMEM;
    }
    *out = place;
    return 0;
}

/* ---- what others could have put there ---- */

static bool is_trusted(uid_t owner) {
    return owner == geteuid() || owner == 0;
}

/* True when nobody but us and root can replace an entry that is ours. */
static bool is_kept(const struct stat *directory) {
    return is_trusted(directory->st_uid) && (!(directory->st_mode & 022) || (directory->st_mode & S_ISVTX));
}

/* ---- creating ---- */

static void remove_list(int fd, const char *name) {
    if (fgetxattr(fd, name, NULL, 0) > 0)
        (void)fremovexattr(fd, name);
}

/* Sets the mode, independent of the umask, and removes rights inherited from the directory above. Changes nothing that
 * is right already: that would cost the file system another write. */
static void set_mode(int fd, gid_t group, mode_t mode, bool directory) {
    struct stat status;
    remove_list(fd, "system.posix_acl_access");
    if (directory)
        remove_list(fd, "system.posix_acl_default");
    if (group != CT_PLACE_NO_GROUP && !fchown(fd, (uid_t)-1, group))
        mode |= directory ? 050 : 040;
    if (fstat(fd, &status) || (status.st_mode & 07777) != mode)
        (void)fchmod(fd, mode);
}

static bool is_empty(int fd) {
    int copy = openat(fd, ".", DIRECTORY);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    bool empty = list != NULL;
    while (empty && (entry = readdir(list)))
        empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
    if (list)
        closedir(list);
    else if (copy >= 0)
        close(copy);
    return empty;
}

/* A umask may take away our own rights too. */
static int open_locked(int parent, const char *name) {
    char path[32];
    struct stat status;
    int held = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd = -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", held);
    if (held >= 0 && !fstat(held, &status) && status.st_uid == geteuid() && !chmod(path, 0700))
        fd = openat(held, ".", DIRECTORY);
    if (held >= 0)
        close(held);
    return fd;
}

/* The owner of the directory above may have replaced the new one since mkdirat. */
static int open_new(int parent, const char *name, gid_t group, int *out) {
    struct stat status;
    int fd = openat(parent, name, DIRECTORY);
    if (fd < 0 && errno == EACCES)
        fd = open_locked(parent, name);
    if (fd < 0)
        return errno == EACCES || errno == EMFILE || errno == ENFILE ? errno : CT_PLACE_SWAPPED;
    if (fstat(fd, &status) || status.st_uid != geteuid()) {
        close(fd);
        return CT_PLACE_SWAPPED;
    }
    set_mode(fd, group, 0700, true);
    if (fstat(fd, &status) || (status.st_mode & 022)) { /* a file system without modes */
        close(fd);
        return CT_PLACE_NOT_OURS;
    }
    *out = fd;
    return 0;
}

static int make_held(struct ct_place **out, struct ct_place *parent, const char *name) {
    int fd;
    if (mkdirat(parent->fd, name, 0700))
        return errno;
    int error = open_new(parent->fd, name, parent->group, &fd);
    if (error)
        return error;
    if (!is_empty(fd)) { /* another directory of ours */
        close(fd);
        return CT_PLACE_SWAPPED;
    }
    return create_place(out, fd, parent, name, parent->group);
}

int ct_place_make(struct ct_place **out, struct ct_place *parent, const char *name) {
    *out = NULL;
    return make_held(out, parent, name);
}

void ct_place_unmake(struct ct_place *place) {
    for (; place && place->name; place = place->parent) {
        struct stat there, ours;
        if (fstatat(place->parent->fd, place->name, &there, AT_SYMLINK_NOFOLLOW) || fstat(place->fd, &ours) ||
            there.st_dev != ours.st_dev || there.st_ino != ours.st_ino ||
            unlinkat(place->parent->fd, place->name, AT_REMOVEDIR))
            return;
    }
}

bool ct_place_is_empty(const struct ct_place *place) {
    return is_empty(place->fd);
}

int ct_place_descriptor(const struct ct_place *place) {
    return place->fd;
}

bool ct_place_is_new(const struct ct_place *place) {
    return place->name != NULL;
}

bool ct_place_is_closed(const struct ct_place *place) {
    struct stat status;
    return !fstat(place->fd, &status) && status.st_uid == geteuid() && !(status.st_mode & 022);
}

/* Closes the descriptor. */
static void clear_directory(int fd, int levels) {
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    if (!list && fd >= 0)
        close(fd);
    while (list && (entry = readdir(list))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if (unlinkat(dirfd(list), entry->d_name, 0) && errno == EISDIR && levels) {
            clear_directory(openat(dirfd(list), entry->d_name, DIRECTORY), levels - 1);
            (void)unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
        }
    }
    if (list)
        closedir(list);
}

void ct_place_clear(struct ct_place *place) {
    clear_directory(openat(place->fd, ".", DIRECTORY), LEVELS);
}

/* ---- walking ---- */

struct walk {
    struct ct_place *at;
    char *left; /* the rest of the path, malloc'ed */
    int flags;
    gid_t group;
    unsigned links; /* links followed, and steps repeated */
};

static int begin_walk(struct walk *w, const char *path) {
    int fd = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC), error;
    struct ct_place *at;
    if (fd < 0)
        return errno;
    if ((error = create_place(&at, fd, NULL, NULL, w->group)))
        return error;
    ct_place_drop(w->at);
    w->at = at;
    return 0;
}

/* Cuts the first component off the rest; false: there is none. */
static bool next_component(struct walk *w, char component[NAME_MAX + 1], int *error) {
    char *start = w->left + strspn(w->left, "/");
    size_t length = strcspn(start, "/");
    *error = length > NAME_MAX ? ENAMETOOLONG : 0;
    if (!length || *error)
        return false;
    memcpy(component, start, length);
    component[length] = 0;
    memmove(w->left, start + length, strlen(start + length) + 1);
    return true;
}

static bool is_last(const struct walk *w) {
    return !w->left[strspn(w->left, "/")];
}

/* `fd` is the link itself. */
static int follow_link(struct walk *w, int fd, const struct stat *link) {
    struct stat directory;
    char target[PATH_MAX], *left;
    if (++w->links > LINKS || fstat(w->at->fd, &directory) || !is_trusted(link->st_uid) || !is_kept(&directory))
        return CT_PLACE_LINK;
    ssize_t length = readlinkat(fd, "", target, sizeof target - 1);
    if (length < 0)
        return errno;
    target[length] = 0;
    if (!length || asprintf(&left, "%s/%s", target, w->left) < 0)
        return length ? ENOMEM : ENOENT;
    free(w->left);
    w->left = left;
    return target[0] == '/' ? begin_walk(w, target) : 0;
}

static int enter_directory(struct walk *w, int fd) {
    struct ct_place *at;
    int error = create_place(&at, fd, NULL, NULL, w->group);
    if (error)
        return error;
    ct_place_drop(w->at);
    w->at = at;
    return 0;
}

static int make_and_enter(struct walk *w, const char *name) {
    struct ct_place *at;
    int error = make_held(&at, w->at, name);
    if (error)
        return error;
    ct_place_drop(w->at);
    w->at = at;
    return 0;
}

/* A private walk: others can neither change this directory nor replace it. */
static int check_private(const struct walk *w) {
    struct stat status;
    if (!(w->flags & CT_PLACE_PRIVATE))
        return 0;
    return fstat(w->at->fd, &status) ? errno : is_kept(&status) ? 0 : CT_PLACE_NOT_OURS;
}

static bool may_make(const struct walk *w) {
    return (w->flags & CT_PLACE_MAKE) || ((w->flags & CT_PLACE_MAKE_LAST) && is_last(w));
}

static int walk_component(struct walk *w, const char *name) {
    struct stat status;
    int error = check_private(w);
    if (error)
        return error;
    int fd = openat(w->at->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && may_make(w)) {
        error = make_and_enter(w, name);
        if (error != EEXIST)
            return error;
        return ++w->links > LINKS ? CT_PLACE_SWAPPED : walk_component(w, name); /* somebody was faster, or attacks us */
    }
    if (fd < 0)
        return errno;
    if (fstat(fd, &status))
        error = errno;
    else if (S_ISLNK(status.st_mode))
        error = follow_link(w, fd, &status);
    else if (!S_ISDIR(status.st_mode))
        error = ENOTDIR;
    else
        return enter_directory(w, fd);
    close(fd);
    return error;
}

static int walk_all(struct walk *w) {
    char component[NAME_MAX + 1];
    int error = 0;
    while (!error && next_component(w, component, &error))
        error = walk_component(w, component);
    return error;
}

static int start_walk(struct walk *w, const char *path) {
    if (!*path)
        return ENOENT;
    w->left = strdup(path);
    return w->left ? begin_walk(w, path) : ENOMEM;
}

/* The walk holds its directory by an O_PATH descriptor: files need one that can be read. */
static int reopen_directory(struct walk *w) {
    int fd = openat(w->at->fd, ".", DIRECTORY);
    if (fd < 0)
        return errno == EACCES && !(w->flags & CT_PLACE_PRIVATE) ? 0 : errno; /* may be written but not listed */
    close(w->at->fd);
    w->at->fd = fd;
    return (w->flags & CT_PLACE_PRIVATE) && !ct_place_is_closed(w->at) ? CT_PLACE_NOT_OURS : 0;
}

static int end_walk(struct walk *w, int error, struct ct_place **out) {
    free(w->left);
    if (error) {
        if (w->at)
            ct_place_unmake(w->at);
        ct_place_drop(w->at);
        return error;
    }
    *out = w->at;
    return 0;
}

int ct_place_open(struct ct_place **out, const char *path, int flags, gid_t group) {
    struct walk w = {.flags = flags, .group = group};
    *out = NULL;
    int error = start_walk(&w, path);
    if (!error)
        error = walk_all(&w);
    if (!error)
        error = reopen_directory(&w);
    return end_walk(&w, error, out);
}

/* The last component: follows a link; anything else is the file. */
static int find_last(struct walk *w, char *component, bool *found) {
    struct stat status;
    int fd = openat(w->at->fd, component, O_PATH | O_NOFOLLOW | O_CLOEXEC), error = 0;
    *found = fd < 0;
    if (fd < 0)
        return errno == ENOENT ? 0 : errno;
    if (fstat(fd, &status))
        error = errno;
    else if (S_ISLNK(status.st_mode))
        error = follow_link(w, fd, &status);
    else
        *found = true;
    close(fd);
    return error;
}

int ct_place_find(struct ct_place **out, char **name, const char *path) {
    struct walk w = {.group = CT_PLACE_NO_GROUP};
    char component[NAME_MAX + 1] = "";
    bool found = false;
    size_t length = strlen(path);
    *out = NULL;
    *name = NULL;
    int error = length && path[length - 1] == '/' ? EISDIR : start_walk(&w, path);
    while (!error && !found && next_component(&w, component, &error))
        error = is_last(&w) ? find_last(&w, component, &found) : walk_component(&w, component);
    if (!error)
        error = !found ? EISDIR : !(*name = strdup(component)) ? ENOMEM : reopen_directory(&w);
    error = end_walk(&w, error, out);
    if (error) {
        free(*name);
        *name = NULL;
    }
    return error;
}

/* ---- names below ---- */

struct name {
    char text[PATH_MAX];
};

static const char *full_name(const struct ct_place *place, const char *name, struct name *out) {
    if (!place->prefix[0])
        return name;
    snprintf(out->text, sizeof out->text, "%s%s", place->prefix, name); /* numbers of processes and threads are short */
    return out->text;
}

int ct_place_open_file(struct ct_place *place, const char *name, int flags) {
    struct name path;
    int fd = openat(place->fd, full_name(place, name, &path), flags | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (flags & O_CREAT)
        set_mode(fd, place->group, 0600, false);
    return fd;
}

int ct_place_make_ordinary(struct ct_place *place, const char *name) {
    struct name path;
    int fd =
        openat(place->fd, full_name(place, name, &path), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return fd < 0 ? -errno : fd;
}

int ct_place_make_directory(struct ct_place *place, const char *name) {
    struct name path;
    const char *at = full_name(place, name, &path);
    int fd;
    if (mkdirat(place->fd, at, 0700))
        return errno;
    int error = open_new(place->fd, at, place->group, &fd);
    if (!error)
        close(fd);
    return error;
}

int ct_place_replace(struct ct_place *place, const char *fresh, const char *name) {
    struct name from, to;
    return renameat(place->fd, full_name(place, fresh, &from), place->fd, full_name(place, name, &to)) ? errno : 0;
}

int ct_place_link(struct ct_place *from, const char *name, struct ct_place *to, const char *new_name) {
    struct name old, fresh;
    return linkat(from->fd, full_name(from, name, &old), to->fd, full_name(to, new_name, &fresh), 0) ? errno : 0;
}

int ct_place_remove(struct ct_place *place, const char *name) {
    struct name path;
    return unlinkat(place->fd, full_name(place, name, &path), 0) ? errno : 0;
}

int ct_place_remove_directory(struct ct_place *place, const char *name) {
    struct name path;
    return unlinkat(place->fd, full_name(place, name, &path), AT_REMOVEDIR) ? errno : 0;
}

DIR *ct_place_list(struct ct_place *place, const char *name) {
    struct name path;
    int fd = openat(place->fd, full_name(place, name, &path), DIRECTORY);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list && fd >= 0)
        close(fd);
    return list;
}
