/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that brings its own unwinder (-static-libgcc), with one hooked function that exceptions pass.
 *
 * What went wrong here: only the unwinder of the program was known, so the plugin's own walked into a hooked frame,
 * found the return address of a stub, and the exception ended the program. */
#include "harness.h"
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

/* That a frame was left is seen at the next hooked call at the latest. */
static E2E_FN void after(void) {
    E2E_BARRIER();
}

int main(int argc, char **argv) {
    const char *path = NULL;
    int (*catcher)(int) = NULL;
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-')
            path = argv[i];
    if (!path)
        e2e_skip("no plugin given");
    alarm(240);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&catcher = dlsym(handle, "plugin_catch");
    E2E_EQUAL(catcher(4), 7);
    e2e_begin(argc, argv);
    e2e_record("throw", dlsym(handle, "plugin_throw"));
    E2E_RECORD(after);
    E2E_EQUAL(catcher(2), 7);
    after();
    E2E_EXPECT("throw(throw(throw!)!)! after()");
    for (int i = 0; i < 100; i++)
        E2E_EQUAL(catcher(10), 7);
    after();
    e2e_forget();
    e2e_record("catch", (void *)catcher);
    E2E_EQUAL(catcher(2), 7);
    E2E_EXPECT("catch(throw(throw(throw!)!)!)");
    if (!e2e_plain()) { /* all of the plugin, its unwinder too */
        struct ct_hooks_module what = {.size = sizeof what,
                                       .module = strrchr(path, '/') ? strrchr(path, '/') + 1 : path};
        E2E_CHECK(ct_hooks_attach_module(e2e_hooks, &what) >= 0);
        E2E_EQUAL(catcher(10), 7);
        e2e_forget();
    }
    return e2e_end();
}
