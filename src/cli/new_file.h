/* A file that a user asked for by its path: written beside its final name, and put there when it is whole. */
#ifndef CT_CLI_NEW_FILE_H
#define CT_CLI_NEW_FILE_H

#include <stdbool.h>

struct ct_place;

struct ct_new_file {
    int fd; /* -1: none */
    struct ct_place *place;
    char *name, *fresh; /* NULL: written right there, since it is a device or a pipe */
};

/* It has mode 0600 whatever the umask: it holds what a trace holds. One that is there and ours keeps its mode; a link to it stays
 * one. Nothing that another user could have made is followed or written to. Returns 0 or an errno, see ct_place_reason. */
int ct_new_file_open(struct ct_new_file *file, const char *path);
/* Closes it; `whole`: it takes its place, else nothing is left of it. Returns 0 or an errno. */
int ct_new_file_close(struct ct_new_file *file, bool whole);

#endif
