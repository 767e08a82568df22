/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libdw, once. */
#include "symbols/dw.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

static struct ct_dw functions;
static bool loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load_library(void) {
    void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    loaded = true;
#define LOAD(name)                                                                                                     \
    *(void **)&functions.name = dlsym(library, #name);                                                                 \
    loaded &= functions.name != NULL;
    CT_DW_LIST(LOAD)
#undef LOAD
}

const struct ct_dw *ct_dw(void) {
    pthread_once(&once, load_library);
    return loaded ? &functions : NULL;
}
