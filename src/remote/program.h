/* The file of a program that is to be started. */
#ifndef CT_REMOTE_PROGRAM_H
#define CT_REMOTE_PROGRAM_H

#include <limits.h>
#include "remote/remote.h"

/* As the shell finds it: with a slash it is a path, else it is looked up in PATH. */
int ct_program_find(const char *name, char path[PATH_MAX], struct ct_remote_error *error);
/* Can it be started and recorded? Scripts are followed to their interpreter. */
int ct_program_check(const char *path, struct ct_remote_error *error);

#endif
