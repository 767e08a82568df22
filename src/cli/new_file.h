/* SPDX-License-Identifier: Apache-2.0 */
/* A file that a user asked for by its path: written next to its final name, and renamed when it is whole. */
#ifndef CT_CLI_NEW_FILE_H
#define CT_CLI_NEW_FILE_H

#include <stdbool.h>

struct ct_place;

struct ct_new_file {
    int fd; /* -1: none */
    struct ct_place *place;
    char *name, *fresh; /* NULL: written in place, because it is a device or a pipe */
};

/* Opens the file with mode 0600, independent of the umask: it contains data of a trace. An existing file of ours keeps
 * its mode; a link to it stays. Never follows or writes anything that another user could have made. Returns 0 or an
 * errno, see ct_place_reason. */
int ct_new_file_open(struct ct_new_file *file, const char *path);
/* Closes the file. `whole`: moves it to its final name; otherwise removes it. Returns 0 or an errno. */
int ct_new_file_close(struct ct_new_file *file, bool whole);

#endif
