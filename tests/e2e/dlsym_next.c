/* SPDX-License-Identifier: Apache-2.0 */
/* dlsym(RTLD_NEXT), dlvsym, dlopen and dl_iterate_phdr with everything hooked that leads there: dlsym itself, and the
 * wrapper library that asks for the next definition after its own.
 *
 * An engine can go wrong here because these look at their return address to know which library calls; through a stub,
 * RTLD_NEXT finds nothing. */
#include "harness.h"
#include <dlfcn.h>
#include <link.h>
#include <string.h>

int wrapped_function(int x);
void *find_next(const char *name);
int only_in_real(void);

static int count_modules(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)info;
    (void)size;
    ++*(int *)arg;
    return 0;
}

#ifdef __x86_64__
#define MEMCPY_VERSION "GLIBC_2.14"
#else
#define MEMCPY_VERSION "GLIBC_2.17"
#endif

static E2E_FN int use_all(void *expected_next) {
    int modules = 0;
    E2E_EQUAL(wrapped_function(21), 1042);
    E2E_EQUAL(only_in_real(), 5);
    E2E_CHECK(find_next("wrapped_function") == expected_next);
    dl_iterate_phdr(count_modules, &modules);
    E2E_CHECK(dlsym(RTLD_DEFAULT, "wrapped_function") == (void *)wrapped_function);
    E2E_CHECK(dlvsym(RTLD_DEFAULT, "memcpy", MEMCPY_VERSION) != NULL);
    E2E_CHECK(dlsym(RTLD_NEXT, "puts") != NULL); /* from the program */
    E2E_CHECK(dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere") == NULL);
    E2E_CHECK(dlerror() != NULL);
    void *handle = dlopen("libm.so.6", RTLD_NOW);
    E2E_CHECK(handle != NULL);
    E2E_CHECK(dlsym(handle, "cos") != NULL);
    E2E_EQUAL(dlclose(handle), 0);
    return modules;
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    void *next = find_next("wrapped_function");
    E2E_CHECK(next != NULL && next != (void *)wrapped_function);
    int modules = use_all(next);
    E2E_RECORD(dlsym);
    E2E_RECORD(dlvsym);
    E2E_RECORD(dlopen);
    E2E_RECORD(dlclose);
    E2E_RECORD(dl_iterate_phdr);
    E2E_RECORD(wrapped_function);
    E2E_RECORD(find_next);
    e2e_record("real", next);
    E2E_RECORD(use_all);
    E2E_EQUAL(use_all(next), modules);
    E2E_EXPECT("use_all(wrapped_function(find_next(dlsym;) real()) find_next(dlsym;) dl_iterate_phdr;"
               "dlsym; dlvsym; dlsym;*2 dlopen; dlsym; dlclose())");
    return e2e_end();
}
