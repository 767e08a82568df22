/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a program that is to be started. */
#ifndef CT_REMOTE_PROGRAM_H
#define CT_REMOTE_PROGRAM_H

#include <limits.h>
#include "remote/remote.h"

/* Finds the file as the shell does: a name with a slash is a path, others are looked up in PATH. */
int ct_program_find(const char *name, char path[PATH_MAX], struct ct_remote_error *error);
/* Replaces a script that begins with `#!.../env NAME ...` with NAME's program: env would only execute that, and
 * recording would end there. For such a script, `words` gets NAME and its arguments, and `path` NAME's file. Otherwise
 * `words` stays empty. */
enum { CT_PROGRAM_WORDS = 16, CT_PROGRAM_LINE = 512 };
struct ct_program_words {
    char line[CT_PROGRAM_LINE];
    char *word[CT_PROGRAM_WORDS];
    size_t count;
};
int ct_program_skip_env(char path[PATH_MAX], struct ct_program_words *words, struct ct_remote_error *error);
/* Can it be started and recorded? Follows scripts to their interpreter. */
int ct_program_check(const char *path, struct ct_remote_error *error);

/* Why a program that another process is about to execute cannot be recorded. Both NULL: it can be recorded, or cannot
 * be executed at all. */
struct ct_program_kind {
    const char *foreign;    /* "an arm64 program" */
    const char *privileges; /* "is setuid": it would not get the privileges if traced */
};
/* `directory` and `name` as for execveat; an empty name means the open file `directory`. */
void ct_program_look(int pid, int directory, const char *name, struct ct_program_kind *kind);

#endif
