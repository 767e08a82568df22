/* SPDX-License-Identifier: Apache-2.0 */
/* Where control sockets are: in a directory of the recorder's user, below one that only that user and root can change.
 * So nobody else can create such a directory first, or a socket in it. Directories are opened, checked and used through
 * their descriptor: what was checked is what is used, and long names do not matter. */
#ifndef CT_SESSION_CONTROL_PLACE_H
#define CT_SESSION_CONTROL_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A command is one line, shorter than this with its line feed. */
enum { CT_CONTROL_PLACE_LINE = 1024 };

/* Name of the socket of a process, in its directory. */
#define CT_CONTROL_PLACE_NAME_SIZE 32
const char *ct_control_place_name(char name[CT_CONTROL_PLACE_NAME_SIZE], int pid);

/* The directories that a user may have, in the order in which they are tried: $XDG_RUNTIME_DIR (our own only), /run
 * (root), /run/user/UID, the home directory. */
enum { CT_CONTROL_PLACE_COUNT = 4 };
/* A descriptor of the directory for sockets of `user`; -1: it does not exist, or others can use it too. */
int ct_control_place_open(unsigned which, uid_t user);
/* The first directory that we can use, created if necessary; -1: none. */
int ct_control_place_make(void);

/* The user who can record the process without being root; 0: only root can. */
uid_t ct_control_place_user_of(int pid);

/* Connects. CT_ERR_NOT_FOUND: nobody listens, or another user than the directory's; CT_ERR_BUSY: somebody listens but
 * has not accepted in time (the queue of a stopped recorder fills up); CT_ERR_PERMISSION_DENIED: we cannot know. */
int ct_control_place_connect(int directory, uid_t user, const char *name, int patience_ms);
/* A socket that listens; -1: none. */
int ct_control_place_listen(int directory, const char *name);

#endif
