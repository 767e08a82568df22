/* SPDX-License-Identifier: Apache-2.0 */
#include "zoo.h"

int plugin_add(int a, int b), plugin_call(int (*function)(int), int x);

FN int plugin_add(int a, int b) {
    return a + b;
}

FN int plugin_call(int (*function)(int), int x) {
    int y = function(x);
    BARRIER();
    return y + 1;
}

static __attribute__((constructor)) FN void plugin_constructor(void) {
    BARRIER();
}
