/* SPDX-License-Identifier: Apache-2.0 */
#include "zoo.h"

static int value;

int library_value(void);

static FN __attribute__((constructor)) void library_constructor(void) {
    value = 42;
    puts("library constructor");
    fflush(stdout);
}

static FN __attribute__((destructor)) void library_destructor(void) {
    puts("library destructor");
    fflush(stdout);
}

FN int library_value(void) {
    return value;
}
