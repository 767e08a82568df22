/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are unloaded with hooks in them, and loaded again: at the same address as a rule.
 *
 * An engine can go wrong here by writing the old bytes into memory that belongs to nobody, or to the next library, and
 * by taking what it knows about the old library for the new one. */
#include "harness.h"
#include "module_library.h"
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

static const char *path;

static void *load(int (**work)(int)) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        return NULL;
    }
    *(void **)work = dlsym(handle, "library_work");
    return handle;
}

static void check_round(int round, int ends_with) {
    int (*work)(int) = NULL;
    unsigned char before[16];
    void *handle = load(&work);
    if (!E2E_CHECK(handle && work))
        return;
    memcpy(before, (void *)work, sizeof before);
    E2E_EQUAL(work(round), round + 3);
    int hook = e2e_record("library_work", (void *)work);
    E2E_EQUAL(work(round), round + 3);
    E2E_EXPECT("library_work()");
    if (ends_with == 0 && hook >= 0) { /* in order */
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
        E2E_CHECK(memcmp(before, (void *)work, sizeof before) == 0);
    }
    dlclose(handle);
    if (ends_with == 1 && hook >= 0) /* too late: gone, or refused, but nothing else happens */
        (void)ct_hooks_revert(e2e_hooks, hook);
    if (ends_with == 2) { /* something else where the library was */
        void *page = (void *)((uintptr_t)work & ~(uintptr_t)4095);
        char *other =
            mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (other == MAP_FAILED)
            return;
        memset(other, 0x77, 4096);
        if (hook >= 0)
            (void)ct_hooks_revert(e2e_hooks, hook);
        for (int i = 0; i < 4096; i++)
            if (other[i] != 0x77) {
                e2e_fail(__FILE__, __LINE__, "memory of somebody else was written");
                break;
            }
        munmap(other, 4096);
    }
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-')
            path = argv[i];
    if (!path)
        e2e_skip("no library given");
    for (int round = 0; round < 12; round++)
        check_round(round, round % 4);
    /* all of it, with a module that is gone while its hooks were there */
    if (!e2e_plain()) {
        int (*work)(int) = NULL;
        void *handle = load(&work);
        struct ct_hooks_module what = {.size = sizeof what,
                                       .module = strrchr(path, '/') ? strrchr(path, '/') + 1 : path};
        E2E_CHECK(ct_hooks_attach_module(e2e_hooks, &what) >= 0);
        E2E_EQUAL(work(1), 4);
        dlclose(handle);
        ct_hooks_flush(e2e_hooks);
        ct_hooks_destroy(e2e_hooks);
        e2e_begin(argc, argv);
        handle = load(&work);
        E2E_EQUAL(work(1), 4);
        E2E_CHECK(ct_hooks_attach_module(e2e_hooks, &what) >= 0);
        E2E_EQUAL(work(1), 4);
        ct_hooks_destroy(e2e_hooks);
        e2e_hooks = NULL;
        E2E_EQUAL(work(1), 4);
        dlclose(handle);
    }
    return e2e_end();
}
