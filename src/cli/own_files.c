/* SPDX-License-Identifier: Apache-2.0 */
/* See own_files.h. */
#include "cli/own_files.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool ct_own_program(char out[PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[length > 0 ? length : 0] = '\0';
    return length > 0;
}

bool ct_own_file(char out[PATH_MAX], const char *program, const char *rest) {
    const char *slash = strrchr(program, '/');
    int length = snprintf(out, PATH_MAX, "%.*s/%s", slash ? (int)(slash - program) : 1, slash ? program : ".", rest);
    return length > 0 && length < PATH_MAX && !access(out, R_OK);
}
