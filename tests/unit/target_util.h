/* SPDX-License-Identifier: Apache-2.0 */
/* Processes to make plans of, and an independent judge of the plans: stubs and patches are read back with Zydis. */
#ifndef TARGET_UTIL_H
#define TARGET_UTIL_H

#include "plan/target_plan.h"
#include <sys/types.h>

struct target {
    pid_t pid;
    struct ct_remote *remote;
};

/* Runs a program until it says that it is ready. Arguments end with NULL, the program's name first. */
void target_start(struct target *t, const char *path, const char *const *arguments);
/* A copy of this process, which waits. */
void target_fork(struct target *t);
void target_end(struct target *t);

struct ct_target_plan *target_plan(const struct target *t, const struct ct_target_plan_options *options);
/* By the end of its path; fails the test when there is none. */
const struct ct_target_module *target_module(const struct ct_target_plan *plan, const char *name);
/* By name; NULL when there is none. */
const struct ct_target_function *target_function(const struct ct_target_module *module, const char *name);
const struct ct_target_hook *target_hook(const struct ct_target_plan *plan, const char *module, const char *function);

/* Everything that must hold of any plan. */
void target_check(const struct target *t, const struct ct_target_plan *plan);
/* Byte for byte the same, but for times and where it came from. */
void target_check_same(const struct ct_target_plan *a, const struct ct_target_plan *b);

#endif
