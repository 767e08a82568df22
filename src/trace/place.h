/* Directories that are held by their descriptor, and what is made in them.
 *
 * Root records in directories of other users, who can rename and replace whatever lies there at any moment. So a path is walked
 * once, component by component, and from then on only descriptors are used:
 *   - A directory of another user may be walked: all he can put in its place is another directory that he may move.
 *   - A symbolic link is followed only when nobody else could have made it: link and directory belong to us or to root, and
 *     others cannot write the directory, or it is sticky.
 *   - What we make is new (mkdirat, O_EXCL), is opened without following a link, and must be ours when it is open.
 *   - No file that is there is written to: it is replaced by a new one (ct_place_replace).
 * Below a directory that is ours and closed to others nobody else can make anything: there one descriptor serves all.
 *
 * Any thread. Functions return 0 or an errno unless they say something else. */
#ifndef CT_TRACE_PLACE_H
#define CT_TRACE_PLACE_H

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

#define CT_PLACE_NO_GROUP ((gid_t)-1)

/* Refusals of ours, among errnos that file systems have no use for. */
#define CT_PLACE_LINK     ELOOP        /* a link that may not be followed; also one that leads round */
#define CT_PLACE_SWAPPED  ESTALE       /* what was made is not there any more, or not ours */
#define CT_PLACE_NOT_OURS EKEYREJECTED /* another user owns it, or others can write it */

struct ct_place; /* counts its users */

enum ct_place_flags {
    CT_PLACE_MAKE = 1,      /* directories that are missing are made */
    CT_PLACE_MAKE_LAST = 2, /* only the last one is */
    CT_PLACE_PRIVATE =
        4, /* nobody but us and root can change any component; the directory itself is ours. Else CT_PLACE_NOT_OURS */
};

/* Walks to a directory and holds it. `group`: what is made below can be read by it, or CT_PLACE_NO_GROUP. */
int ct_place_open(struct ct_place **out, const char *path, int flags, gid_t group);
/* The directory of a file that is to be written, and its name there, malloc'ed: of the file that links lead to, where they
 * may be followed. The file need not exist. */
int ct_place_find(struct ct_place **out, char **name, const char *path);
/* A new directory in it, held by a descriptor of its own. EEXIST when there is something. */
int ct_place_make(struct ct_place **out, struct ct_place *parent, const char *name);
/* A directory in one of ours, by the descriptor of that; it is not looked at. */
int ct_place_below(struct ct_place **out, struct ct_place *parent, const char *name);
struct ct_place *ct_place_hold(struct ct_place *place);
void ct_place_drop(struct ct_place *place);
/* What a failure means, for people. */
const char *ct_place_reason(int error);

/* Is the directory ours, and can nobody else write it? */
bool ct_place_is_closed(const struct ct_place *place);
/* Is nothing in the directory? */
bool ct_place_is_empty(const struct ct_place *place);
/* Its descriptor, which stays the place's. */
int ct_place_descriptor(const struct ct_place *place);
/* Did we make it? */
bool ct_place_is_new(const struct ct_place *place);
/* Removes everything in it. */
void ct_place_clear(struct ct_place *place);
/* Removes the directory if it is empty and was made by us, then those above that were made for it. */
void ct_place_unmake(struct ct_place *place);

/* Opens a file in it, never through a link. A new one (O_CREAT with O_EXCL) has mode 0600 whatever the umask, 0640 with a
 * group. Returns a descriptor or a negated errno. */
int ct_place_open_file(struct ct_place *place, const char *name, int flags);
/* A new file for everybody, as the umask has it: for what is no part of a trace. */
int ct_place_make_ordinary(struct ct_place *place, const char *name);
/* A new directory below it: 0700, or 0750. One that is there is EEXIST. */
int ct_place_make_directory(struct ct_place *place, const char *name);
/* Puts `fresh` in the place of `name`. */
int ct_place_replace(struct ct_place *place, const char *fresh, const char *name);
/* A second name for a file. */
int ct_place_link(struct ct_place *from, const char *name, struct ct_place *to, const char *new_name);
int ct_place_remove(struct ct_place *place, const char *name);
int ct_place_remove_directory(struct ct_place *place, const char *name);
/* What is in a directory below it ("." for itself); NULL: errno says why not. */
DIR *ct_place_list(struct ct_place *place, const char *name);

#endif
