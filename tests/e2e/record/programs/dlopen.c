/* SPDX-License-Identifier: Apache-2.0 */
/* A library that comes and goes at run time. */
#include "zoo.h"
#include <dlfcn.h>
#include <string.h>

ZOO_GATES

static FN int use_plugin(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    int (*add)(int, int) = (int (*)(int, int))dlsym(library, "plugin_add");
    int (*call)(int (*)(int), int) = (int (*)(int (*)(int), int))dlsym(library, "plugin_call");
    int sum = add(1, 2);
    int callback(int);
    sum += call(callback, 5);
    dlclose(library);
    return sum;
}

FN int callback(int x);
FN int callback(int x) {
    BARRIER();
    return x * 10;
}

int main(int argc, char **argv) {
    char path[4096];
    (void)argc;
    snprintf(path, sizeof path - 20, "%s", argv[0]);
    strcpy(strrchr(path, '/') + 1, "libplugin.so");
    wait_for_start();
    for (int i = 0; i < 5; i++)
        CHECK(use_plugin(path) == 3 + 51);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
