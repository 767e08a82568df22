/* SPDX-License-Identifier: Apache-2.0 */
/* See process_util.h. */
#include "process_util.h"
#include "trace_util.h"
#include <stdio.h>

char root[200], directory[300];

int setup(void **unused) {
    (void)unused;
    make_directory(root, sizeof root);
    snprintf(directory, sizeof directory, "%s/pid_321", root);
    return 0;
}

int teardown(void **unused) {
    (void)unused;
    remove_directory(root);
    return 0;
}
