/* SPDX-License-Identifier: Apache-2.0 */
/* How fast functions are planned and hooked: whole libraries, from opening the file to the last patch written. */
#include <contrail/contrail.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 5

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(int status, const char *what) {
    if (status >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, ct_status_text(status));
    exit(1);
}

struct best {
    double seconds, plan, stop;
    unsigned long hooked, skipped;
};

static const char *const libraries[] = {"libc.so.6", "libstdc++.so.6", "libcrypto.so.3", "libsqlite3.so.0",
                                        "libpython3.11.so.1.0"};
enum { LIBRARIES = sizeof libraries / sizeof libraries[0] };

/* Hooks libraries[first..last] in one transaction. */
static void install(size_t first, size_t last, struct best *best) {
    struct ct_hooks *hooks;
    struct ct_hooks_statistics s = {.size = sizeof s};
    check(ct_hooks_create(&hooks, NULL), "create");
    double start = now_s();
    check(ct_hooks_begin(hooks), "begin");
    for (size_t i = first; i <= last; i++)
        if (dlopen(libraries[i], RTLD_NOW | RTLD_NOLOAD))
            check(ct_hooks_attach_module(
                      hooks, &(struct ct_hooks_module){.size = sizeof(struct ct_hooks_module), .module = libraries[i]}),
                  libraries[i]);
    check(ct_hooks_commit(hooks), "commit");
    double seconds = now_s() - start;
    ct_hooks_statistics(hooks, &s);
    if (!best->seconds || seconds < best->seconds)
        *best = (struct best){seconds, (double)s.plan_ns * 1e-9, (double)s.stop_ns * 1e-9, s.hooked, s.skipped};
    ct_hooks_destroy(hooks);
}

static void measure(const char *name, size_t first, size_t last) {
    struct best best = {0};
    for (int round = 0; round < ROUNDS; round++)
        install(first, last, &best);
    printf(
        "%-22s %5lu functions hooked, %4lu skipped, in %6.1f ms (plan %.1f, threads stopped %.1f): %.0f functions/s\n",
        name, best.hooked, best.skipped, best.seconds * 1e3, best.plan * 1e3, best.stop * 1e3,
        (double)best.hooked / best.seconds);
}

int main(void) {
    for (size_t i = 0; i < LIBRARIES; i++)
        if (dlopen(libraries[i], RTLD_NOW))
            measure(libraries[i], i, i);
    measure("all of them at once", 0, LIBRARIES - 1);
    return 0;
}
