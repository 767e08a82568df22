/* SPDX-License-Identifier: Apache-2.0 */
/* A library in front of another one, as preloaded wrappers are: finds the real function by dlsym(RTLD_NEXT). */
#include <dlfcn.h>
#include <stddef.h>

int wrapped_function(int x) __attribute__((visibility("default")));
void *find_next(const char *name) __attribute__((visibility("default")));

/* dlsym finds out from its return address which library asks. */
__attribute__((noinline)) void *find_next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    __asm__ volatile("" ::: "memory");
    return found;
}

int wrapped_function(int x) {
    int (*next)(int) = (int (*)(int))find_next("wrapped_function");
    return next ? next(x) + 1000 : -1;
}
