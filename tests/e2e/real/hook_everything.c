/* SPDX-License-Identifier: Apache-2.0 */
/* LD_PRELOAD this: before main, every function of every loaded module is hooked with the recorder. Programs from the
 * distribution must then behave as they do without it (run_real.sh compares).
 *
 * CONTRAIL_REPORT=FILE: at exit, statistics go there; with CONTRAIL_LIST=1 also every function that was skipped or is
 * seen on entry only. */
#include <contrail/contrail.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ct_hooks *hooks;
static unsigned long events;

static void count(void *arg, int tid, const struct ct_event *e, size_t n) {
    (void)arg;
    (void)tid;
    (void)e;
    __atomic_fetch_add(&events, n, __ATOMIC_RELAXED);
}

static int hook_module(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    unsigned *index = arg;
    const char *name = info->dlpi_name;
    bool program = (*index)++ == 0;
    if (!program &&
        (!name[0] || strstr(name, "vdso") || strstr(name, "libcontrail") || strstr(name, "hook_everything")))
        return 0;
    struct ct_hooks_module what = {.size = sizeof what, .module = program ? NULL : name};
    int status = ct_hooks_attach_module(hooks, &what);
    if (status)
        fprintf(stderr, "hook_everything: %s: %s\n", program ? "the program" : name, ct_status_text(status));
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    unsigned index = 0;
    int status = ct_hooks_create(&hooks, NULL);
    if (!status)
        status = ct_hooks_set_sink(hooks, count, NULL, 0);
    if (!status)
        status = ct_hooks_begin(hooks);
    if (!status) {
        dl_iterate_phdr(hook_module, &index);
        status = ct_hooks_commit(hooks);
    }
    if (status)
        fprintf(stderr, "hook_everything: %s\n", ct_status_text(status));
}

static void list_odd(FILE *out, const struct ct_hook_info *info) {
    if (info->hook < 0)
        fprintf(out, "skipped %s %s+%p: %s\n", info->name, info->module, info->function, ct_hook_skip_text(info->skip));
    else if (info->entry_only)
        fprintf(out, "entry-only %s %s+%p: %s\n", info->name, info->module, info->function,
                ct_hook_entry_only_text(info->entry_only));
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("CONTRAIL_REPORT");
    FILE *out = path ? fopen(path, "a") : NULL;
    if (!out)
        return;
    struct ct_hooks_statistics s = {.size = sizeof s};
    ct_hooks_flush(hooks);
    ct_hooks_statistics(hooks, &s);
    fprintf(out, "hooked %lu skipped %lu events %lu left %lu abandoned %lu threads %lu deep %lu\n",
            (unsigned long)s.hooked, (unsigned long)s.skipped, events, (unsigned long)s.left_frames,
            (unsigned long)s.abandoned, (unsigned long)s.threads, (unsigned long)s.deep_calls);
    struct ct_hook_info info = {.size = sizeof info};
    for (uint64_t position = 0; getenv("CONTRAIL_LIST") && ct_hooks_next(hooks, &position, &info) > 0;)
        list_odd(out, &info);
    fclose(out);
}
