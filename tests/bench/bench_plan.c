/* SPDX-License-Identifier: Apache-2.0 */
/* How long the plan for another process takes, with and without the cache of analyses, and where the time goes. Also
 * which functions it leaves out: bench_plan [PROGRAM [ARGUMENTS]]. */
#include "plan/target_plan.h"
#include <contrail/status.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 7

struct figures {
    double total, analyse, plan;
    size_t modules, functions, hooked, skipped[CT_HOOK_SKIP_COUNT];
};

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void keep_best(struct figures *best, const struct ct_target_plan *p, double total) {
    if (best->total && total >= best->total)
        return;
    *best = (struct figures){.total = total,
                             .analyse = (double)p->analyse_ns / 1e6,
                             .plan = (double)p->plan_ns / 1e6,
                             .modules = p->module_count};
    for (size_t i = 0; i < p->module_count; i++) {
        best->functions += p->modules[i].function_count;
        best->hooked += p->modules[i].hooked;
        for (unsigned reason = 1; reason < CT_HOOK_SKIP_COUNT; reason++)
            best->skipped[reason] += p->modules[i].skipped[reason];
    }
}

/* A new process each time, stopped where a recording would begin. */
static bool measure(char *const *argv, const char *cache, struct figures *best) {
    struct ct_remote *remote;
    struct ct_target_plan *plan = NULL;
    struct ct_remote_error error = {{0}};
    struct ct_target_plan_options options = {.cache_dir = cache};
    if (ct_remote_spawn(&remote, &(struct ct_remote_spawn){.path = argv[0], .argv = argv}, 10000, &error)) {
        printf("%s: %s\n", argv[0], error.text);
        return false;
    }
    int pid = ct_remote_pid(remote);
    double start = now_ms();
    int status = ct_target_plan_make(&plan, remote, &options, &error);
    double total = now_ms() - start;
    if (!status)
        keep_best(best, plan, total);
    else
        printf("%s: %s\n", argv[0], error.text);
    ct_target_plan_free(plan);
    kill(pid, SIGKILL);
    ct_remote_close(remote);
    waitpid(pid, NULL, 0);
    return !status;
}

static void remove_cache(const char *directory) {
    DIR *d = opendir(directory);
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(directory);
}

static void tell(const char *what, const struct figures *f) {
    printf("  %s %7.1f ms (analysis %.1f, hooks %.1f)\n", what, f->total, f->analyse, f->plan);
}

static void bench(char *const *argv) {
    char cache[] = "/tmp/bench_plan_XXXXXX";
    struct figures cold = {0}, warm = {0};
    if (access(argv[0], X_OK) || !mkdtemp(cache))
        return;
    bool good = true;
    for (int i = 0; i < ROUNDS && good; i++)
        good = measure(argv, NULL, &cold);
    good = good && measure(argv, cache, &(struct figures){0});
    for (int i = 0; i < ROUNDS && good; i++)
        good = measure(argv, cache, &warm);
    remove_cache(cache);
    if (!good)
        return;
    printf("%s: %zu modules, %zu of %zu functions hooked\n", argv[0], cold.modules, cold.hooked, cold.functions);
    for (unsigned reason = 1; reason < CT_HOOK_SKIP_COUNT; reason++)
        if (cold.skipped[reason])
            printf("  %7zu %s\n", cold.skipped[reason], ct_hook_skip_name((enum ct_hook_skip_reason)reason));
    tell("cold", &cold);
    tell("warm", &warm);
    printf("  %.1f times as fast; cold %.0f functions/s\n", cold.total / warm.total,
           (double)cold.functions / cold.total * 1e3);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        bench(argv + 1);
        return 0;
    }
    bench((char *const[]){"/usr/bin/python3", "-c", "pass", NULL});
    bench((char *const[]){"/usr/bin/perl", "-e", "1", NULL});
    bench((char *const[]){"/usr/bin/git", "--version", NULL});
    return 0;
}
