/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are installed beside this program, or are where it was built. */
#ifndef CT_CLI_OWN_FILES_H
#define CT_CLI_OWN_FILES_H

#include <limits.h>
#include <stdbool.h>

/* The path of this program. */
bool ct_own_program(char out[PATH_MAX]);
/* "DIRECTORY/REST" of the directory of `program`; false: there is no such file that we may read. */
bool ct_own_file(char out[PATH_MAX], const char *program, const char *rest);

#endif
