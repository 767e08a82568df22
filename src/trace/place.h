/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that are held by their descriptor, and files that are created in them.
 *
 * Root records in directories of other users, who can rename and replace everything there at any moment. So a path is
 * walked once, component by component, and from then on only descriptors are used:
 *   - A directory of another user may be walked: he can only replace it by another directory that he may move.
 *   - A symbolic link is followed only when nobody else could have made it: link and directory belong to us or to root,
 *     and others cannot write the directory, or it is sticky.
 *   - What we make is new (mkdirat, O_EXCL), is opened without following a link, and must be ours once it is open.
 *   - No existing file is written to: it is replaced by a new one (ct_place_replace).
 * Below a directory that is ours and closed to others nobody else can make anything: there one descriptor serves all.
 *
 * Any thread. Functions return 0 or an errno unless stated otherwise. */
#ifndef CT_TRACE_PLACE_H
#define CT_TRACE_PLACE_H

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

#define CT_PLACE_NO_GROUP ((gid_t)-1)

/* Refusals of ours, as errnos that file systems do not use. */
#define CT_PLACE_LINK     ELOOP        /* a link that may not be followed; also a loop of links */
#define CT_PLACE_SWAPPED  ESTALE       /* what we made is not there any more, or is not ours */
#define CT_PLACE_NOT_OURS EKEYREJECTED /* another user owns it, or others can write it */

struct ct_place; /* reference-counted */

enum ct_place_flags {
    CT_PLACE_MAKE = 1,      /* make missing directories */
    CT_PLACE_MAKE_LAST = 2, /* make only the last one */
    /* nobody but us and root can change any component; the directory itself is ours. Else CT_PLACE_NOT_OURS */
    CT_PLACE_PRIVATE = 4,
};

/* Walks to a directory and holds it. `group` may read what is made below; or CT_PLACE_NO_GROUP. */
int ct_place_open(struct ct_place **out, const char *path, int flags, gid_t group);
/* Finds the directory of a file that will be written, and its name there, malloc'ed. Follows links where that is
 * allowed. The file need not exist. */
int ct_place_find(struct ct_place **out, char **name, const char *path);
/* Makes a directory, held by a descriptor of its own. EEXIST when the name exists. */
int ct_place_make(struct ct_place **out, struct ct_place *parent, const char *name);
/* Holds a directory below one of ours through that one's descriptor, without looking at it. */
int ct_place_below(struct ct_place **out, struct ct_place *parent, const char *name);
struct ct_place *ct_place_hold(struct ct_place *place);
void ct_place_drop(struct ct_place *place);
/* Explains a failure to the user. */
const char *ct_place_reason(int error);

/* True when the directory is ours and nobody else can write it. */
bool ct_place_is_closed(const struct ct_place *place);
/* True when the directory is empty. */
bool ct_place_is_empty(const struct ct_place *place);
/* The descriptor, which the place keeps. */
int ct_place_descriptor(const struct ct_place *place);
/* True when we made the directory. */
bool ct_place_is_new(const struct ct_place *place);
/* Removes everything in the directory. */
void ct_place_clear(struct ct_place *place);
/* Removes the directory if it is empty and we made it, then the directories above that were made for it. */
void ct_place_unmake(struct ct_place *place);

/* Opens a file, never through a link. A new one (O_CREAT with O_EXCL) has mode 0600, or 0640 with a group, independent
 * of the umask. Returns a descriptor or a negated errno. */
int ct_place_open_file(struct ct_place *place, const char *name, int flags);
/* Creates a file with the mode that the umask gives: for files that are not part of a trace. */
int ct_place_make_ordinary(struct ct_place *place, const char *name);
/* Makes a directory below it, mode 0700, or 0750 with a group. EEXIST when the name exists. */
int ct_place_make_directory(struct ct_place *place, const char *name);
/* Replaces `name` by `fresh`. */
int ct_place_replace(struct ct_place *place, const char *fresh, const char *name);
/* Gives a file a second name. */
int ct_place_link(struct ct_place *from, const char *name, struct ct_place *to, const char *new_name);
int ct_place_remove(struct ct_place *place, const char *name);
int ct_place_remove_directory(struct ct_place *place, const char *name);
/* Lists a directory below it ("." for itself); NULL: errno says why not. */
DIR *ct_place_list(struct ct_place *place, const char *name);

#endif
