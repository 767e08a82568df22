/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of a recorded process: the first one, those of libraries that were loaded later, and what was unloaded since.
 *
 * Owner: the request thread, which changes them under the recording's mutex. */
#ifndef CT_SESSION_RECORDING_MODULES_H
#define CT_SESSION_RECORDING_MODULES_H

#include "plan/target_plan.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_recording;

/* A plan, used by a process and the children it forks. */
struct ct_shared_plan {
    struct ct_target_plan *plan;
    uint64_t *function_ids; /* by hook number */
    int users;
};

struct ct_recording_modules {
    struct ct_shared_plan **more; /* for libraries that were loaded later */
    size_t more_count;
    bool full;                       /* the limit is reached: libraries that are loaded now are not recorded */
    uint32_t next_module, next_hook; /* the next free numbers */
    bool *gone;                      /* by module id - 1: unloaded since */
    size_t gone_count;
    uint64_t *all_ids; /* function ids by hook number, if there is more than one plan */
    size_t ids_room;
    uint64_t **old_ids; /* arrays that became too small */
    size_t old_count;
};

/* Called when the loader reports that modules have come or gone: hooks the new ones. */
int ct_recording_update_modules(struct ct_recording *r);
/* Calls `each` for every module, including those that are gone. Under the mutex, or on the request thread. */
void ct_recording_each_module(const struct ct_recording *r,
                              void (*each)(void *arg, const struct ct_target_module *module), void *arg);
/* Copies what a forked child has from its parent. Its remote is open. */
int ct_recording_inherit_modules(struct ct_recording *r, struct ct_recording *parent);
void ct_recording_drop_modules(struct ct_recording *r);

#endif
